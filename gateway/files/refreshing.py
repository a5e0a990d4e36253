"""Datasets are looked at again by themselves, and sources walked for what is none yet.

One after the other, by one of all gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import asyncpg
import structlog

from gateway.errors import BackendUnavailable, Faults
from gateway.files import store, walk_results
from gateway.files.keeping import Keeper
from gateway.files.looking import UnfitFiles
from gateway.files.promotion import Connect
from gateway.files.walking import Walking
from gateway.model.catalog import TableName
from gateway.model.files import SESSION_CATALOG, FileSource

log = structlog.get_logger(__name__)

LONGEST_PAUSE_S = 60.0


class Refreshing:
    """Looks at whichever dataset was not looked at for longest, where its source wants that, and at the next
    part of whichever source was not walked for longest."""

    def __init__(
        self, sources: Sequence[FileSource], keeper: Keeper, walking: Walking, connect: Connect
    ) -> None:
        self._sources = {one.name: one for one in sources if one.refresh_s}
        self._every_s: Mapping[str, float] = {one.name: one.refresh_s for one in self._sources.values()}
        self._walked = {name: every_s for name, every_s in self._every_s.items() if self._sources[name].walk}
        self._keeper = keeper
        self._walking = walking
        self._connect = connect
        self.walks: Sequence[walk_results.SourceWalk] = ()
        """How the walks of these sources stand, at the last look."""
        self.findings: Mapping[str, int] = {}
        """Tables by source whose files are not as they were made, at the last look."""

    async def run(self) -> None:
        """Go on until cancelled. What fails is told in the log, and tried again later."""
        if not self._every_s:
            return
        pause_s = min(LONGEST_PAUSE_S, min(self._every_s.values()) / 4)
        while True:
            try:
                # By turns: where there is always something due, neither waits for the other's end.
                while any([await self.look(), await self.walk()]):
                    await self.count()
                await self.count()
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

    async def walk(self) -> bool:
        """Walk one source on by one round; False when none is due, or another gateway is at it.

        Raises BackendUnavailable when Spark or PostgreSQL does not answer.
        """
        async with self._connect() as connection, store.only_one_looks(connection) as mine:
            next_ = await walk_results.due(connection, self._walked) if mine else None
            if next_ is None:
                return False
            source, after = self._sources[next_[0]], next_[1]
            try:
                before = await walk_results.list_seen_paths(connection, source.name)
                known = {path: format_ for path, (_, format_) in before.items()}
                seen = await self._walking.look(source, after, known)
            except UnfitFiles as why:
                log.warning("source_not_walked", source=source.name, why=str(why))
                await walk_results.fail(connection, source, after, str(why))
                return True
            await walk_results.keep(connection, source, after, seen)
            log.info("source_walked", source=source.name, directories=len(seen.files), whole=not seen.reached)
            return True

    async def count(self) -> None:
        """Ask PostgreSQL how walks and tables stand, by whichever gateway looked."""
        async with self._connect() as connection:
            self.walks = [one for one in await walk_results.walks(connection) if one.source in self._walked]
            self.findings = {**dict.fromkeys(self._every_s, 0), **await store.findings(connection)}
