"""The tables of the database come from numbered files, each applied once and in order, never undone.

Gateways of two versions may share a database during an upgrade: a database that is ahead of this gateway is
taken as it is, so every migration must leave the columns that older gateways write.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any

import structlog

from gateway.database.connections import open_connection, open_pool
from gateway.errors import Faults

log = structlog.get_logger(__name__)

LOCK = 0x736C75696365
"""Key of the advisory lock (`sluice` in ASCII): of all gateways one changes tables at a time."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `migrations/`."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """Return the migrations of this gateway, lowest version first."""
    folder = resources.files("gateway.database") / "migrations"
    found = []
    for file in folder.iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        if file.name.endswith(".sql") and number.isdecimal():
            found.append(Migration(int(number), name, file.read_text("utf-8")))
    return sorted(found, key=lambda m: m.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """Which migrations a database has, against those of this gateway."""

    applied: tuple[int, ...]
    pending: tuple[Migration, ...]
    """Those that a gateway applies when it starts."""
    changed: tuple[int, ...]
    """Those whose text is another now than when they were applied: nothing can be said of the tables."""
    newer: tuple[int, ...]
    """Those of a later gateway."""

    def describe_changed(self) -> str:
        """Say what is wrong with the changed ones."""
        return f"migration {self.changed[0]} was changed after it was applied"


async def read_schema_state(connection: Any, wanted: Iterable[Migration] | None = None) -> SchemaState:
    """Return the state of a database; nothing is changed there."""
    rows = []
    if await connection.fetchval("SELECT to_regclass('sluice.schema_version')") is not None:
        rows = await connection.fetch("SELECT version, sha256 FROM sluice.schema_version ORDER BY version")
    found = {row["version"]: row["sha256"] for row in rows}
    own = list(migrations() if wanted is None else wanted)
    return SchemaState(
        applied=tuple(found),
        pending=tuple(one for one in own if one.version not in found),
        changed=tuple(one.version for one in own if found.get(one.version, one.sha256) != one.sha256),
        newer=tuple(version for version in found if version > max((one.version for one in own), default=0)),
    )


async def migrate(connection: Any, wanted: Iterable[Migration] | None = None) -> list[int]:
    """Bring the database up to date and return the versions that were applied.

    Raises Faults when a migration that was applied before has another text now.
    """
    applied = []
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        # Looked for first: even IF NOT EXISTS wants a right that a database's owner may withhold.
        if await connection.fetchval("SELECT to_regnamespace('sluice')") is None:
            await connection.execute("CREATE SCHEMA sluice")
        if await connection.fetchval("SELECT to_regclass('sluice.schema_version')") is None:
            await connection.execute(
                "CREATE TABLE sluice.schema_version (version integer PRIMARY KEY, name text NOT NULL,"
                " sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
            )
        state = await read_schema_state(connection, wanted)
        if state.changed:
            raise Faults([state.describe_changed()])
        for migration in state.pending:
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO sluice.schema_version (version, name, sha256) VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.sha256,
            )
            applied.append(migration.version)
    if applied:
        log.info("database_migrated", versions=applied)
    return applied


async def open_migrated(dsn: str, name: str, *, command_s: float | None = None) -> Any:
    """Return a connection as `open_connection` does, with the tables there."""
    connection = await open_connection(dsn, name, command_s=command_s)
    try:
        await migrate(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


class LazyPool:
    """Connections that are made at the first question, so that a gateway starts without its database."""

    def __init__(
        self,
        dsn: str,
        name: str,
        *,
        most: int,
        timeout_s: float,
        prepare: Callable[[Any], Awaitable[object]] = migrate,
    ) -> None:
        """As `open_pool`; `prepare` is given the first connection."""
        self._open = partial(open_pool, dsn, name, most=most, timeout_s=timeout_s)
        self._timeout_s = timeout_s
        self._prepare = prepare
        self._pool: Any = None
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        """Have a connection within. Raises OSError, TimeoutError or asyncpg's errors."""
        async with self._opening:
            if self._pool is None:
                pool = await self._open()
                try:
                    async with pool.acquire() as connection:
                        await self._prepare(connection)
                except BaseException:
                    pool.terminate()
                    raise
                self._pool = pool
        async with self._pool.acquire(timeout=self._timeout_s) as connection:
            yield connection

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
