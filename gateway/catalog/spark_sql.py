"""A catalog that Spark has, whatever keeps it: read and changed by SQL in a session of the gateway's own.

Every statement is a fixed template around quoted names. Tables and views are made through the gateway, where
statements are judged, and not here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Self

from gateway.catalog.describe import Row
from gateway.catalog.live import AskSpark, LiveCatalog
from gateway.catalog.readable import (
    CatalogRefused,
    CatalogUnavailable,
    DatabaseAlreadyExists,
    DatabaseEntry,
    DatabaseNotEmpty,
    FunctionEntry,
    NoSuchDatabase,
    NoSuchFunction,
    NoSuchTable,
    NotSupported,
    TableEntry,
)
from gateway.errors import BackendUnavailable, SluiceError
from gateway.model.catalog import TableKind, TableName, levels, quote, quote_parts, split_name
from gateway.model.closing import Closing

_SAID_CHARS = 200
"""How much of Spark's own words stands in a message."""
_BEFORE = "Error running query: "
"""What a Thrift Server puts before an error."""
_MEANS: Mapping[str, type[SluiceError]] = {
    "42P06": DatabaseAlreadyExists,
    "2BP01": DatabaseNotEmpty,
    "42704": NoSuchDatabase,
    "42P01": NoSuchTable,
    "42P08": CatalogUnavailable,
    "0A000": NotSupported,
}
"""What an SQLSTATE of Spark's means of a statement of ours."""
_ROWS = re.compile(r"(\d+) rows")
_TRANSFORM = re.compile(r"([A-Za-z_]+)\((?:(\d{1,9}), ?)?([^()]+)\)")
_PARTS = ("# Partitioning", "# Partition Information")


class SparkSqlCatalog(Closing):
    """See WritableCatalog. Databases have one level here."""

    def __init__(
        self,
        name: str,
        query: AskSpark,
        live: LiveCatalog,
        *,
        refusal: type[Exception],
        timeout_s: float = 300.0,
    ) -> None:
        """`live` looks tables up; `refusal` is as LiveCatalog is given it. Who made both closes them.
        `timeout_s` bounds one statement."""
        self._name = name
        self._query = query
        self._live = live
        self._refusal = refusal
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        await self._run(f"SHOW DATABASES IN {quote(self._name)}", CatalogUnavailable)
        return self

    async def databases(self) -> Sequence[str]:
        try:
            return sorted(await self._live.databases(self._name))
        except BackendUnavailable as error:
            raise CatalogUnavailable(error.message) from error

    async def database(self, name: str) -> DatabaseEntry:
        rows = await self._run(f"DESCRIBE DATABASE EXTENDED {self._database(name)}", NoSuchDatabase)
        told = {str(row[0]): str(row[1]) for row in rows if len(row) == 2 and row[1] is not None}
        return DatabaseEntry(
            name=name,
            comment=told.get("Comment") or None,
            owner=told.get("Owner") or None,
            location=told.get("Location") or None,
            properties=_properties(told.get("Properties", "")),
        )

    async def tables(self, database: str) -> Sequence[str]:
        return sorted(name for name, is_view in await self._list_names(database) if not is_view)

    async def views(self, database: str) -> Sequence[str]:
        return sorted(name for name, is_view in await self._list_names(database) if is_view)

    async def table(self, database: str, name: str) -> TableEntry:
        self._database(database)
        wanted = TableName(self._name, database, name)
        try:
            found = (await self._live.look_up([wanted])).table(wanted)
        except BackendUnavailable as error:
            raise CatalogUnavailable(error.message) from error
        if found is None:
            raise NoSuchTable(f"table `{database}.{name}` does not exist")
        named = self._table(database, name)
        rows = await self._run(f"DESCRIBE TABLE EXTENDED {named}", NoSuchTable)
        details = {str(row[0]): str(row[1]) for row in rows}
        shown = await self._run(f"SHOW TBLPROPERTIES {named}", NoSuchTable)
        properties = {str(row[0]): str(row[1]) for row in shown if len(row) == 2}
        counted = _ROWS.search(details.get("Statistics", ""))
        return TableEntry(
            database=database,
            name=name,
            kind=found.kind,
            columns=found.columns,
            partitioning=_read_partitioning(rows) if found.kind is TableKind.TABLE else (),
            owner=found.owner,
            comment=details.get("Comment") or properties.get("comment"),
            provider=found.provider,
            location=found.location,
            text=found.view.text if found.view is not None else None,
            properties=properties,
            rows=int(counted[1]) if counted else None,
        )

    async def functions(self, database: str) -> Sequence[str]:
        await self.database(database)
        try:
            rows = await self._run(f"SHOW USER FUNCTIONS IN {self._database(database)}", NotSupported)
        except NotSupported:
            return ()  # catalogs without functions
        # Functions of extensions come along, and have no more than a name.
        named = (split_name(str(row[0])) for row in rows)
        inside = [self._name.lower(), database.lower()]
        return sorted({parts[-1] for parts in named if [part.lower() for part in parts[:-1]] == inside})

    async def function(self, database: str, name: str) -> FunctionEntry:
        if name.lower() not in {one.lower() for one in await self.functions(database)}:
            raise NoSuchFunction(f"function `{database}.{name}` does not exist")
        try:
            rows = await self._run(
                f"DESCRIBE FUNCTION EXTENDED {self._table(database, name)}", NoSuchFunction
            )
        except (NotSupported, CatalogRefused):
            rows = ()  # of functions of other catalogs than its own Spark tells the names alone
        told = [str(row[0]) for row in rows]
        words = dict(line.split(": ", 1) for line in told if ": " in line)
        return FunctionEntry(
            database=database,
            name=name,
            class_name=words.get("Class"),
            owner=words.get("Owner"),
            text="\n".join(told) or None,
        )

    async def create_database(self, name: str) -> None:
        await self._change(f"CREATE DATABASE {self._database(name)}", name)

    async def drop_database(self, name: str) -> None:
        await self._change(f"DROP DATABASE {self._database(name)} RESTRICT", name)

    async def _list_names(self, database: str) -> Sequence[tuple[str, bool]]:
        await self.database(database)
        try:
            return await self._live.list_tables(self._name, database)
        except BackendUnavailable as error:
            raise CatalogUnavailable(error.message) from error

    async def _change(self, sql: str, database: str) -> None:
        """Run a statement with effects, after which nothing is known of the database's names."""
        try:
            await self._run(sql, NoSuchDatabase)
        finally:
            self._live.invalidate([], [(self._name, database)])

    async def _run(self, sql: str, missing: type[SluiceError]) -> Sequence[Row]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._query(sql)
        except TimeoutError:
            raise CatalogUnavailable(f"Spark did not answer within {self._timeout_s:g} s") from None
        except self._refusal as refused:
            raise self._translate_error(refused, missing) from None
        except BackendUnavailable as error:
            raise CatalogUnavailable(error.message) from error

    def _translate_error(self, refused: Exception, missing: type[SluiceError]) -> SluiceError:
        """Return what a refusal of Spark's means; `missing` where it says that a name is not there."""
        sqlstate = getattr(refused, "sqlstate", None) or ""
        said = getattr(refused, "message", "").removeprefix(_BEFORE).strip().split("\n", 1)[0][:_SAID_CHARS]
        kind = _MEANS.get(sqlstate, CatalogRefused)
        if kind in (NoSuchDatabase, NoSuchTable):
            kind = missing
        return kind(said or f"Spark refuses with SQLSTATE {sqlstate or 'unknown'}")

    def _database(self, name: str) -> str:
        return quote_parts((self._name, *levels(name)))

    def _table(self, database: str, name: str) -> str:
        return f"{self._database(database)}.{quote(name)}"


def _read_partitioning(rows: Sequence[Row]) -> tuple[str, ...]:
    """Read a description's section of partitions: `Part 0` with an expression, or the columns again."""
    found: list[str] = []
    inside = False
    for label, value, *_ in rows:
        if label in _PARTS:
            inside = True
        elif not inside or str(label).startswith("# col_name"):
            continue
        elif not label or str(label).startswith("# "):
            break
        else:
            text = str(value if re.fullmatch(r"Part \d+", str(label)) else label)
            found.append(_normalize_partition(text))
    return tuple(found)


def _normalize_partition(text: str) -> str:
    """Return an expression that a table is partitioned by with its transform in the singular: `day(at)`."""
    found = _TRANSFORM.fullmatch(text)
    if found is None:
        return text
    transform, width, column = found.groups()
    transform = transform.lower()
    if transform in ("years", "months", "days", "hours"):
        transform = transform[:-1]
    if transform == "identity":
        return str(column)
    return f"{transform}({f'{int(width)}, ' if width else ''}{column})"


def _properties(text: str) -> dict[str, str]:
    """Read `((a,1), (b,2))`, as Spark writes a database's properties, as well as such a text can be read."""
    inside = text[2:-2] if text.startswith("((") and text.endswith("))") else ""
    pairs = (pair.partition(",") for pair in inside.split("), (") if pair)
    return {key: value for key, _, value in pairs}
