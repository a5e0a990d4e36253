"""Ranger's objects in PostgreSQL: a pool of connections that hands out instants to read and changes to make.

All writers of all gateways take turns (an advisory lock): what a change was checked against is still so when
it commits. Readers see one instant and wait for nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from gateway.admin.ranger.kinds import GATEWAY
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction, as_text
from gateway.database.connections import open_pool
from gateway.database.migrate import migrate

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
        self._dsn = dsn
        self._prepare = prepare
        self._clock = clock
        self._connections = connections
        self._timeout_s = timeout_s
        self._pool: Any = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[ReadTransaction]:
        """Yield one instant to read from. Raises OSError, TimeoutError or asyncpg's errors."""
        pool = await self._open()
        async with (
            pool.acquire(timeout=self._timeout_s) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield ReadTransaction(connection)

    @asynccontextmanager
    async def writing(self, who: str) -> AsyncIterator[WriteTransaction]:
        """Yield a change; it is committed when the block ends well. Other writers wait meanwhile."""
        pool = await self._open()
        async with pool.acquire(timeout=self._timeout_s) as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            yield WriteTransaction(connection, who, int(self._clock() * 1000))

    async def saw_plugin(self, service: str, plugin: str, address: str, info: Mapping[str, Any]) -> None:
        """Note that a plugin asked; it has no history and waits for no writer."""
        pool = await self._open()
        now = int(self._clock() * 1000)
        await pool.execute(
            "INSERT INTO sluice.ranger_plugin AS p (service, plugin, address, created_ms, updated_ms, info)"
            " VALUES ($1, $2, $3, $4, $4, $5) ON CONFLICT (service, plugin)"
            " DO UPDATE SET address = $3, updated_ms = $4, info = p.info || $5",
            service,
            plugin,
            address,
            now,
            as_text(dict(info)),
        )

    async def plugins(self) -> list[dict[str, Any]]:
        """Return who downloads: id, service, plugin, address, created_ms, updated_ms, info."""
        pool = await self._open()
        rows = await pool.fetch("SELECT * FROM sluice.ranger_plugin ORDER BY id")
        return [{**dict(row), "info": orjson.loads(row["info"])} for row in rows]

    async def _open(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await self._connect()
            return self._pool

    async def _connect(self) -> Any:
        pool = await open_pool(self._dsn, "sluice-admin", most=self._connections, timeout_s=self._timeout_s)
        try:
            async with pool.acquire() as connection:
                await migrate(connection)
                if self._prepare is not None:
                    async with connection.transaction():
                        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                        await self._prepare(WriteTransaction(connection, GATEWAY, int(self._clock() * 1000)))
        except BaseException:
            pool.terminate()
            raise
        return pool
