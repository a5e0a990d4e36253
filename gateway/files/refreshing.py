"""Datasets are looked at again by themselves, one after the other, by one of all gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import asyncpg
import structlog

from gateway.errors import BackendUnavailable, Faults
from gateway.files import store
from gateway.files.keeping import Keeper
from gateway.files.promotion import Connect
from gateway.model.catalog import TableName
from gateway.model.files import SESSION_CATALOG, FileSource

log = structlog.get_logger(__name__)

LONGEST_PAUSE_S = 60.0


class Refreshing:
    """Looks at whichever dataset was not looked at for longest, where its source wants that."""

    def __init__(self, sources: Sequence[FileSource], keeper: Keeper, connect: Connect) -> None:
        self._every_s: Mapping[str, float] = {one.name: one.refresh_s for one in sources if one.refresh_s}
        self._keeper = keeper
        self._connect = connect

    async def run(self) -> None:
        """Go on until cancelled. What fails is told in the log, and tried again later."""
        if not self._every_s:
            return
        pause_s = min(LONGEST_PAUSE_S, min(self._every_s.values()) / 4)
        while True:
            try:
                while await self.look():
                    pass
            except (BackendUnavailable, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                log.warning("datasets_not_looked_at", error=str(error))
            await asyncio.sleep(pause_s)

    async def look(self) -> bool:
        """Look at one dataset; False when none is due, or another gateway is at it.

        Raises BackendUnavailable when Spark or PostgreSQL does not answer.
        """
        async with self._connect() as connection, store.only_one_looks(connection) as mine:
            row = await store.due(connection, self._every_s) if mine else None
            if row is None:
                return False
            name = TableName(SESSION_CATALOG, row["database"], row["table_name"])
            try:
                await self._keeper.refresh(nullcontext(connection), name)
            except Faults as why:
                # Kept with the dataset, where `sluice datasets list` has it.
                log.warning("dataset_not_refreshed", table=str(name), faults=why.faults)
            return True
