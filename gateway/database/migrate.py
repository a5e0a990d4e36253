"""The tables of the database come from numbered files, each applied once and in order, never undone.

Gateways of two versions may share a database during an upgrade: a database that is ahead of this gateway is
taken as it is, so every migration must leave the columns that older gateways write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import structlog

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
        rows = await connection.fetch("SELECT version, sha256 FROM sluice.schema_version")
        known = {row["version"]: row["sha256"] for row in rows}
        for migration in migrations() if wanted is None else wanted:
            if migration.version in known:
                if known[migration.version] != migration.sha256:
                    raise Faults([f"migration {migration.version} was changed after it was applied"])
                continue
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
