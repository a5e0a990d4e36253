"""Gathers whose places are taken: of tables and databases of Spark's session catalog, of datasets, and of the
gateway itself.

Spark is asked in fixed templates around quoted names. Which databases and tables there are, and where
databases lie, it is asked each time. Where a table lies counts for 30 seconds, as all that is known of tables
does, and no longer than until a statement changes names of its database. Not gathered are single partitions
that lie elsewhere than their table, and tables of other catalogs: those that are kept in table formats are
told by their marks, and their warehouses are reserved.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.files.places import Place, overlaps, places
from gateway.model.catalog import TableName, quote, unquote
from gateway.model.files import SESSION_CATALOG
from gateway.session.ports import Catalog

RunQuery = Callable[..., Awaitable[Sequence[Sequence[Any]]]]

NO_SUCH_NAMESPACE = "42704"
LOCATION = re.compile(r"^Location: (.*)$", re.MULTILINE)
"""In what `SHOW TABLE EXTENDED` tells of a table. A comment with line breaks can add some, and hide none."""
_VIEW = re.compile(r"^Type: VIEW$", re.MULTILINE)
_AT_ONCE = 4
MAX_AGE_S = 30.0
_PLAIN = re.compile(r"[a-z0-9_]+")
"""Names that a pattern of Spark's means alone."""
_MAX_NAMED = 20
"""Tables of a database that are asked about by name; where there are more, all are."""


class ChangingCatalog(Catalog, Protocol):
    """A catalog that counts what it was told to forget."""

    def changes(self, catalog: str, database: str) -> int:
        """Return how often names of a database were invalidated, or the database itself."""
        ...


class LocationNotReported(Exception):
    """Where a table or database lies cannot be told; the text says whose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A place and whose it is."""

    url: str
    table: TableName | None = None
    """None: a database's, or the gateway's own."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where tables of a database lie."""

    since: float
    """When all of them were asked about."""
    changes: int
    """The catalog's count at that time."""
    places: Mapping[str, Sequence[Taken]]
    """Table, in lower case → its places."""


class TakenPlaces:
    """Finds what a path overlaps."""

    def __init__(
        self,
        query: RunQuery,
        *,
        refusal: type[Exception],
        catalog: ChangingCatalog,
        reserved: Callable[[], Iterable[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`query` and `refusal` as for a Promoter; `reserved` tells the URLs of what nobody may
        promote, as they are now."""
        self._query = query
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._refusal = refusal
        self._catalog = catalog
        self._reserved = reserved

    async def find_kept_overlap(
        self, url: str, name: TableName, datasets: Iterable[Mapping[str, Any]]
    ) -> Taken | None:
        """Return what a table of this name at this URL would share files with, of what the gateway keeps for
        itself and of `datasets`, those of the store; None when that is nothing. Raises NotTold.

        Datasets keep their places while their tables are dropped, and while they are made.
        """
        others = [
            Taken(url=row["url"], table=TableName(SESSION_CATALOG, row["database"], row["table_name"]))
            for row in datasets
        ]
        own = await asyncio.to_thread(places, url)
        reserved = [Taken(url=url) for url in self._reserved()]
        taken = (*reserved, *(one for one in others if one.table != name.fold()))
        return await asyncio.to_thread(_first, own, taken)

    async def find_overlap(self, url: str, name: TableName) -> Taken | None:
        """Return what it would share files with of all else that Spark's session catalog has; None when that
        is nothing. Raises NotTold, and BackendUnavailable."""
        own = await asyncio.to_thread(places, url)
        warehouse, databases = await answers(self._warehouse(), self._databases())
        found = await asyncio.to_thread(_first, own, warehouse)
        if found is not None:
            return found
        for some in _parts(databases, _AT_ONCE):
            for taken in await answers(*map(self._in_database, some)):
                others = [one for one in taken if one.table is None or one.table.fold() != name.fold()]
                found = await asyncio.to_thread(_first, own, others)
                if found is not None:
                    return found
        return None

    async def tables_at(self, url: str) -> tuple[TableName, ...] | str:
        """Return the tables of Spark's session catalog that have files at a URL, in it or around it, or why
        that is not known. Raises BackendUnavailable."""
        try:
            own = await asyncio.to_thread(places, url)
            databases = await self._databases()
            found: dict[TableName, None] = {}
            for some in _parts(databases, _AT_ONCE):
                for tables in await answers(*map(self._tables_in, some)):
                    found.update(dict.fromkeys(await asyncio.to_thread(_every, own, tables)))
            reserved = [Taken(url=url) for url in self._reserved()]
            if await asyncio.to_thread(_first, own, reserved) is not None:  # RULE (path-of-reserved-place)
                return (
                    "it leads to files of the gateway, or of a catalog whose tables are read by their names"
                )
        except LocationNotReported:
            return "Spark does not say where the files of one of its tables are"
        except ValueError as error:
            return str(error)
        return tuple(found)

    async def _databases(self) -> Sequence[str]:
        rows = await self._rows(f"SHOW DATABASES IN `{SESSION_CATALOG}`", "its databases")
        return [unquote(str(row[0])) for row in rows or ()]

    async def _warehouse(self) -> Sequence[Taken]:
        """Where the databases lie that are not made yet."""
        rows = await self._rows("SET spark.sql.warehouse.dir", "its warehouse")
        return [Taken(url=str(row[1])) for row in rows or () if row[1]]

    async def _in_database(self, database: str) -> Sequence[Taken]:
        """Return the places of a database and of its tables; none when it was dropped meanwhile."""
        dotted = f"{quote(SESSION_CATALOG)}.{quote(database)}"
        began, changes = self._clock(), self._catalog.changes(SESSION_CATALOG, database)
        # Listed as its catalog has them, and told by Spark's own, which a catalog in its place may go past.
        described, listed = await answers(
            self._rows(f"DESCRIBE NAMESPACE EXTENDED {dotted}", database),
            self._rows(f"SHOW TABLES IN {dotted}", database),
        )
        if described is None or listed is None:
            self._kept.pop(database, None)
            return ()
        found = [Taken(url=str(row[1])) for row in described if str(row[0]) == "Location" and row[1]]
        names = [str(row[1]) for row in listed if not row[2]]
        kept = self._kept.get(database)
        if kept is None or kept.changes != changes or began - kept.since >= MAX_AGE_S:
            kept = None
        known = {} if kept is None else kept.places
        asked = [name for name in names if name.lower() not in known]
        if kept is None or asked:
            told = await self._find_locations(database, dotted, None if kept is None else asked)
            if told is None:
                return ()
            known = {**known, **told}
            found += await self._look_up(database, [name for name in asked if name.lower() not in known])
            self._kept[database] = _Kept(began if kept is None else kept.since, changes, known)
        return [*found, *(place for places in known.values() for place in places)]

    async def _tables_in(self, database: str) -> Sequence[Taken]:
        """Return the places of a database's tables, as they were within 30 seconds: to ask for each statement
        that names a path would take too long where there are many."""
        kept = self._kept.get(database)
        fresh = kept is not None and self._clock() - kept.since < MAX_AGE_S
        # RULE (places-of-now)
        if kept is not None and fresh and kept.changes == self._catalog.changes(SESSION_CATALOG, database):
            return [place for places in kept.places.values() for place in places]
        return [one for one in await self._in_database(database) if one.table is not None]

    async def _find_locations(
        self, database: str, dotted: str, names: Sequence[str] | None
    ) -> Mapping[str, Sequence[Taken]] | None:
        """Return where these tables lie, or all of the database, as far as it is told; None without it."""
        plain = names is not None and len(names) <= _MAX_NAMED and all(map(_PLAIN.fullmatch, names))
        pattern = "|".join(names or ()) if plain else "*"
        shown = await self._rows(f"SHOW TABLE EXTENDED IN {dotted} LIKE '{pattern}'", database)
        if shown is None:
            return None
        found: dict[str, Sequence[Taken]] = {}
        for _, table, temporary, information, *_ in shown:
            locations = LOCATION.findall(str(information))
            if not temporary and (locations or _VIEW.search(str(information))):
                name = TableName(SESSION_CATALOG, database, str(table))
                found[str(table).lower()] = [
                    Taken(url=location, table=name) for location in locations if location
                ]
        return found

    async def _look_up(self, database: str, names: Sequence[str]) -> Sequence[Taken]:
        """Return where tables lie by what the catalog knows of them."""
        if not names:
            return ()
        tables = [TableName(SESSION_CATALOG, database, name) for name in names]
        snapshot = await self._catalog.look_up(tables)
        found = [(name, snapshot.table(name)) for name in tables]
        return [
            Taken(url=table.location, table=name)
            for name, table in found
            if table is not None and table.location
        ]

    async def _rows(self, sql: str, whose: str) -> Sequence[Sequence[Any]] | None:
        """Return the rows; None where the database is gone."""
        try:
            return await self._query(sql)
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) == NO_SUCH_NAMESPACE:
                return None
            raise LocationNotReported(whose) from refused


async def answers(*asked: Awaitable[Any]) -> Sequence[Any]:
    """Return all answers once each is there, so that nothing is still asked when one has failed: then raise
    the first failure in the order of asking."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for answer in found:
        if isinstance(answer, BaseException):
            raise answer
    return found


def _first(own: frozenset[Place], taken: Iterable[Taken]) -> Taken | None:
    return next(_find_overlaps(own, taken), None)


def _every(own: frozenset[Place], taken: Iterable[Taken]) -> list[TableName]:
    return [one.table.fold() for one in _find_overlaps(own, taken) if one.table is not None]


def _find_overlaps(own: frozenset[Place], taken: Iterable[Taken]) -> Iterator[Taken]:
    """Yield what shares files with places. Raises LocationNotReported."""
    for one in taken:
        try:
            others = places(one.url)
        except ValueError:
            raise LocationNotReported(str(one.table or one.url)) from None
        if overlaps(own, others):
            yield one


def _parts(names: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (names[at : at + size] for at in range(0, len(names), size))
