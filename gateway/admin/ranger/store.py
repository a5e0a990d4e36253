"""Ranger's objects in PostgreSQL: a pool of connections that hands out instants to read and changes to make.

All writers of all gateways take turns (an advisory lock): what a change was checked against is still so when
it commits. Readers see one instant and wait for nobody.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from gateway.admin.ranger.kinds import GATEWAY
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction, as_text
from gateway.database.migrate import LazyPool, migrate
from gateway.database.telling import tell_policies_changed

_LOCK = 0x736C756963652052
"""Key of the advisory lock under which policies change (`sluice R` in ASCII)."""


class Store:
    """The admin API's database. It connects at first use, so that a gateway starts without it."""

    def __init__(
        self,
        dsn: str,
        *,
        prepare: Callable[[WriteTransaction], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
        connections: int = 8,
        timeout_s: float = 30.0,
    ) -> None:
        """`prepare` puts in what is there from the beginning, in the gateway's own name."""
        self._prepare = prepare
        self._clock = clock
        self._pool = LazyPool(
            dsn, "sluice-admin", most=connections, timeout_s=timeout_s, prepare=self._make_ready
        )

    async def close(self) -> None:
        self._pool.close()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[ReadTransaction]:
        """Yield one instant to read from. Raises OSError, TimeoutError or asyncpg's errors."""
        async with (
            self._pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield ReadTransaction(connection)

    @asynccontextmanager
    async def writing(self, who: str) -> AsyncIterator[WriteTransaction]:
        """Yield a change; it is committed when the block ends well. Other writers wait meanwhile."""
        async with self._pool.acquire() as connection, self._change(connection, who) as change:
            yield change

    @asynccontextmanager
    async def _change(self, connection: Any, who: str) -> AsyncIterator[WriteTransaction]:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            yield WriteTransaction(connection, who, int(self._clock() * 1000))
            # Gateways that share the database hear of it when the change is committed.
            await tell_policies_changed(connection)

    async def _make_ready(self, connection: Any) -> None:
        await migrate(connection)
        if self._prepare is not None:
            async with self._change(connection, GATEWAY) as change:
                await self._prepare(change)

    async def saw_plugin(self, service: str, plugin: str, address: str, info: Mapping[str, Any]) -> None:
        """Note that a plugin asked; it has no history and waits for no writer."""
        now = int(self._clock() * 1000)
        async with self._pool.acquire() as connection:
            await connection.execute(
                "INSERT INTO sluice.ranger_plugin AS p"
                " (service, plugin, address, created_ms, updated_ms, info)"
                " VALUES ($1, $2, $3, $4, $4, $5) ON CONFLICT (service, plugin)"
                " DO UPDATE SET address = $3, updated_ms = $4, info = p.info || $5",
                *(service, plugin, address, now, as_text(dict(info))),
            )

    async def plugins(self) -> list[dict[str, Any]]:
        """Return who downloads: id, service, plugin, address, created_ms, updated_ms, info."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch("SELECT * FROM sluice.ranger_plugin ORDER BY id")
        return [{**dict(row), "info": orjson.loads(row["info"])} for row in rows]
