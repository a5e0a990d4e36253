"""Hears what other gateways make, forget and look at again: an owner of a table of files may read it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import structlog

from gateway.errors import BackendUnavailable
from gateway.files import store
from gateway.files.promotion import Connect
from gateway.model.catalog import TableName
from gateway.model.files import SESSION_CATALOG, FileSource
from gateway.session.ports import Catalog

log = structlog.get_logger(__name__)

ASK_S = 1.0
"""Seconds between signs of life."""
ANSWER_S = 5.0


class Listening:
    """Has the catalog forget tables of files at the word of PostgreSQL, and all of them while it is away."""

    def __init__(self, sources: Sequence[FileSource], catalog: Catalog, connect: Connect) -> None:
        self._databases = [(SESSION_CATALOG, database) for database in {one.database for one in sources}]
        self._catalog = catalog
        self._connect = connect

    async def run(self) -> None:
        """Go on until cancelled."""
        told = False
        while self._databases:
            try:
                async with self._connect() as connection:
                    await connection.add_listener(store.CHANGED, self._handle_notification)
                    told = False
                    self._forget_all()  # what was said before was not heard
                    await self._hear(connection)
            except (
                BackendUnavailable,
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
                OSError,
                TimeoutError,
            ) as error:
                if not told:
                    log.warning("datasets_not_heard_of", error=str(error))
                told = True
            self._forget_all()
            await asyncio.sleep(ASK_S)

    async def _hear(self, connection: Any) -> None:
        """Take what is said, until PostgreSQL is away. Raises TimeoutError."""
        while True:
            await asyncio.sleep(ASK_S)
            async with asyncio.timeout(ANSWER_S):
                await connection.execute("SELECT")

    def _handle_notification(self, _: object, _pid: int, _channel: str, payload: object) -> None:
        database, _, table = str(payload).partition(".")
        self._catalog.invalidate([TableName(SESSION_CATALOG, database, table)], [])

    def _forget_all(self) -> None:
        self._catalog.invalidate([], self._databases)
