"""Gathers whose places are taken: of tables and databases of Spark's session catalog, of datasets, and of the
gateway itself.

Spark is asked each time, in fixed templates around quoted names: what was true a minute ago may have moved.
Not gathered are single partitions that lie elsewhere than their table, and tables of other catalogs: those
that are kept in table formats are told by their marks, and their warehouses are reserved.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.files.places import Place, overlaps, places
from gateway.model.catalog import TableName
from gateway.model.files import SESSION_CATALOG
from gateway.session.ports import Catalog

Query = Callable[..., Awaitable[Sequence[Sequence[Any]]]]

_NO_SUCH_NAMESPACE = "42704"
_LOCATION = re.compile(r"^Location: (.*)$", re.MULTILINE)
"""In what `SHOW TABLE EXTENDED` tells of a table. A comment with line breaks can add some, and hide none."""
_VIEW = re.compile(r"^Type: VIEW$", re.MULTILINE)
_AT_ONCE = 4


class NotTold(Exception):
    """Where a table or database lies cannot be told; the text says whose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A place and whose it is."""

    url: str
    table: TableName | None = None
    """None: a database's, or the gateway's own."""


class TakenPlaces:
    """Finds what a path overlaps."""

    def __init__(
        self, query: Query, *, refusal: type[Exception], catalog: Catalog, reserved: Sequence[str] = ()
    ) -> None:
        """`query` and `refusal` as for a Promoter; `reserved` are URLs of what nobody may promote."""
        self._query = query
        self._refusal = refusal
        self._catalog = catalog
        self._reserved = tuple(Taken(url=url) for url in reserved)

    async def overlapped(
        self, url: str, name: TableName, datasets: Iterable[Mapping[str, Any]]
    ) -> Taken | None:
        """Return what a table of this name at this URL would share files with; None when that is nothing.

        `datasets` are those of the store: they keep their places while their tables are dropped. Raises
        NotTold, and BackendUnavailable.
        """
        kept = [
            Taken(url=row["url"], table=TableName(SESSION_CATALOG, row["database"], row["table_name"]))
            for row in datasets
        ]
        others = [one for one in kept if one.table != name.folded()]
        own = await asyncio.to_thread(places, url)
        found = await asyncio.to_thread(_first, own, (*self._reserved, *others))
        if found is not None:
            return found
        for databases in _parts(await self._databases(), _AT_ONCE):
            asked = await asyncio.gather(*map(self._in_database, databases), return_exceptions=True)
            for answer in asked:
                if isinstance(answer, BaseException):
                    raise answer
                found = await asyncio.to_thread(_first, own, answer)
                if found is not None:
                    return found
        return await asyncio.to_thread(_first, own, await self._warehouse())

    async def _databases(self) -> Sequence[str]:
        rows = await self._rows(f"SHOW DATABASES IN `{SESSION_CATALOG}`", "its databases")
        return [_unquoted(str(row[0])) for row in rows or ()]

    async def _warehouse(self) -> Sequence[Taken]:
        """Where the databases lie that are not made yet."""
        rows = await self._rows("SET spark.sql.warehouse.dir", "its warehouse")
        return [Taken(url=str(row[1])) for row in rows or () if row[1]]

    async def _in_database(self, database: str) -> Sequence[Taken]:
        """Return the places of a database and of its tables; none when it was dropped meanwhile."""
        dotted = f"{_quoted(SESSION_CATALOG)}.{_quoted(database)}"
        described = await self._rows(f"DESCRIBE NAMESPACE EXTENDED {dotted}", database)
        # Listed as its catalog has them, and told by Spark's own, which a catalog in its place may go past.
        listed = await self._rows(f"SHOW TABLES IN {dotted}", database)
        shown = await self._rows(f"SHOW TABLE EXTENDED IN {dotted} LIKE '*'", database)
        if described is None or listed is None or shown is None:
            return ()
        found = [Taken(url=str(row[1])) for row in described if str(row[0]) == "Location" and row[1]]
        told = set[str]()
        for _, table, temporary, information, *_ in shown:
            if temporary:
                continue
            locations = _LOCATION.findall(str(information))
            if locations or _VIEW.search(str(information)):
                told.add(str(table).lower())
            name = TableName(SESSION_CATALOG, database, str(table))
            found += [Taken(url=location, table=name) for location in locations if location]
        rest = [
            TableName(SESSION_CATALOG, database, str(row[1]))
            for row in listed
            if not row[2] and str(row[1]).lower() not in told
        ]
        if rest:
            self._catalog.invalidate(rest, [])
            known = await self._catalog.look_up(rest)
            tables = [(name, known.table(name)) for name in rest]
            found += [Taken(url=t.location, table=name) for name, t in tables if t is not None and t.location]
        return found

    async def _rows(self, sql: str, whose: str) -> Sequence[Sequence[Any]] | None:
        """Return the rows; None where the database is gone."""
        try:
            return await self._query(sql)
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) == _NO_SUCH_NAMESPACE:
                return None
            raise NotTold(whose) from refused


def _first(own: frozenset[Place], taken: Iterable[Taken]) -> Taken | None:
    for one in taken:
        try:
            others = places(one.url)
        except ValueError:
            raise NotTold(str(one.table or one.url)) from None
        if overlaps(own, others):
            return one
    return None


def _parts(names: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (names[at : at + size] for at in range(0, len(names), size))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _unquoted(name: str) -> str:
    """Return a name as it is, where Spark wrote it in backticks because of its characters."""
    if len(name) > 1 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name
