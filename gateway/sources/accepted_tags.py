"""Tags that came along lineage and were accepted: from the database, kept in a file for when it is away.

The last list that was read stays in force whatever becomes of the database, over a restart too. A gateway
that has never read one does not know what is tagged, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import structlog

from gateway.errors import Faults
from gateway.model.policy import ResourceValues, TaggedResource
from gateway.model.tags import Tag
from gateway.policy.globs import NOT_LITERAL
from gateway.sources.cache import CacheTrouble, read_file, replace_file

_log = structlog.get_logger(__name__)

NAME = "accepted tags"
_ALL_COLUMNS = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedTag:
    """One tag on one column of a table; on the table for the column `*`."""

    catalog: str
    database: str
    table: str
    column: str
    tag: str
    attributes: tuple[Mapping[str, str], ...] = ()
    """Each set of attributes that it has there; none is one empty set."""

    def build_tagged(self) -> TaggedResource:
        """Return it as policies know it."""
        levels = {"catalog": self.catalog, "database": self.database, "table": self.table}
        if self.column != _ALL_COLUMNS:
            levels["column"] = self.column
        return TaggedResource(
            # `?` is any one character: better a tag too many than none.
            resources={
                level: ResourceValues(values=(NOT_LITERAL.sub("?", name),)) for level, name in levels.items()
            },
            tags=tuple(
                Tag(type=self.tag, attributes=dict(one), propagated=True) for one in self.attributes or ({},)
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedList:
    """All accepted tags at one instant."""

    number: int
    """Goes up when the list changes."""
    tags: tuple[AcceptedTag, ...]


_Fetch = Callable[[int | None], Awaitable[AcceptedList | None]]
"""The number that is known → the list; None when it is still the same. Raises OSError or TimeoutError for a
database that is away."""
_Offer = Callable[[AcceptedList], Awaitable[None]]
"""Puts a list in force."""


class AcceptedTags:
    """Polls the list and offers it when it has changed."""

    def __init__(
        self,
        fetch: _Fetch,
        *,
        cache: Path | None = None,
        poll_s: float = 2.0,
        timeout_s: float = 10.0,
    ) -> None:
        self._fetch = fetch
        self._cache = cache
        self._poll_s = poll_s
        self._timeout_s = timeout_s
        self._offer: _Offer | None = None
        self._number: int | None = None
        self._known = False
        self.trouble = ""
        """Why the list cannot be read now; an older one is in force then."""

    def stale(self) -> str | None:
        """Return why nothing may be judged, or None: no list was ever read."""
        return None if self._known else f"the accepted tags are not known: {self.trouble or 'not read yet'}"

    async def start(self, offer: _Offer) -> None:
        """Offer what the database has, or else the file."""
        self._offer = offer
        if await self.look():
            return
        if self._cache is None or self._known:
            return
        try:
            if self._cache.exists():
                await offer(await asyncio.to_thread(load_cached_list, self._cache))
                self._known = True
        except Faults as error:
            self.trouble = f"{self.trouble}; {'; '.join(error.faults)}"
            _log.error("accepted_tags_not_read", trouble=self.trouble, in_force=False)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await asyncio.sleep(self._poll_s)
            await self.look()

    async def look(self) -> bool:
        """Put a changed list in force; return whether the list was read, changed or not."""
        if self._offer is None:
            return False
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._fetch(self._number)
            if found is not None:
                await self._offer(found)
        except Exception as error:  # noqa: BLE001 - a source's root: nothing from there ends the gateway
            # Read whole the next time: it may be another database by then.
            self._number = None
            why = f"the database is not available: {type(error).__name__}: {error}"
            if why != self.trouble:
                _log.warning("accepted_tags_not_read", trouble=why, in_force=self._known)
            self.trouble = why
            return False
        self.trouble = ""
        self._known = True
        if found is not None:
            self._number = found.number
            await self._keep(found)
        return True

    async def _keep(self, found: AcceptedList) -> None:
        if self._cache is None:
            return
        try:
            await asyncio.to_thread(_write, self._cache, found)
        except CacheTrouble as error:
            # In force all the same; after a restart without the database it would be an older one.
            self.trouble = error.message
            _log.error("accepted_tags_not_kept", trouble=error.message)


def load_cached_list(path: Path) -> AcceptedList:
    """Return the list in a gateway's file; it is empty without the file. Raises Faults."""
    try:
        found = read_file(path)
        return AcceptedList(number=0, tags=()) if found is None else _read(found)
    except CacheTrouble as error:
        raise Faults([error.message]) from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Faults([f"{path}: contains something other than accepted tags"]) from None


def from_file(path: Path) -> _Fetch:
    """Return what reads the list from a gateway's file."""

    async def fetch(known: int | None) -> AcceptedList | None:
        return await asyncio.to_thread(load_cached_list, path)

    return fetch


def _write(path: Path, found: AcceptedList) -> None:
    replace_file(path, (orjson.dumps(_build_document(found)),))


def _build_document(found: AcceptedList) -> dict[str, Any]:
    return {
        "number": found.number,
        "tags": [
            [one.catalog, one.database, one.table, one.column, one.tag, [dict(a) for a in one.attributes]]
            for one in found.tags
        ],
    }


def _read(kept: Mapping[str, Any]) -> AcceptedList:
    """Raises AttributeError, KeyError, TypeError or ValueError for what was not written here."""
    return AcceptedList(number=int(kept["number"]), tags=tuple(_one(row) for row in kept["tags"]))


def _one(row: Sequence[Any]) -> AcceptedTag:
    *names, attributes = row
    catalog, database, table, column, tag = map(str, names)
    return AcceptedTag(
        catalog=catalog,
        database=database,
        table=table,
        column=column,
        tag=tag,
        attributes=tuple({str(k): str(v) for k, v in one.items()} for one in attributes),
    )
