"""A catalog that Spark has, whatever keeps it: read and changed by SQL in a session of the gateway's own.

Every statement is a fixed template around quoted names, types that were read, and literals. A view's text is
a statement that somebody wrote: those are made through the gateway, where they are judged, and not here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Self

from gateway.catalog.describe import Row
from gateway.catalog.live import AskSpark, LiveCatalog
from gateway.catalog.partitioning import parse_partitioning
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
    TableAlreadyExists,
    TableEntry,
    split_properties,
)
from gateway.catalog.types import NotUnderstood, normalize_ddl
from gateway.errors import BackendUnavailable, SluiceError
from gateway.model.catalog import TableKind, TableName, levels, quote, quote_parts, split_name
from gateway.model.closing import Closing

_SAID_CHARS = 200
"""How much of Spark's own words stands in a message."""
_BEFORE = "Error running query: "
"""What a Thrift Server puts before an error."""
_MEANS: Mapping[str, type[SluiceError]] = {
    "42P06": DatabaseAlreadyExists,
    "42P07": TableAlreadyExists,
    "2BP01": DatabaseNotEmpty,
    "42704": NoSuchDatabase,
    "42P01": NoSuchTable,
    "42P08": CatalogUnavailable,
    "0A000": NotSupported,
}
"""What an SQLSTATE of Spark's means of a statement of ours."""
_ROWS = re.compile(r"(\d+) rows")
_PARTS = ("# Partitioning", "# Partition Information")
_PLURALS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_PROVIDER = re.compile(r"[\w.]+", re.ASCII)


class SparkSqlCatalog(Closing):
    """See WritableCatalog. Databases have one level here, and views are made by statements alone."""

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

    async def create_database(self, database: DatabaseEntry, *, ignore_if_exists: bool = False) -> None:
        words = [
            f"CREATE DATABASE {'IF NOT EXISTS ' if ignore_if_exists else ''}{self._database(database.name)}"
        ]
        if database.comment:
            words.append(f"COMMENT {literal(database.comment)}")
        if database.location:
            words.append(f"LOCATION {literal(database.location)}")
        if database.properties:
            words.append(f"WITH DBPROPERTIES ({_pairs(database.properties)})")
        await self._change(" ".join(words), database.name, missing=NoSuchDatabase)

    async def alter_database(
        self, name: str, changed: Mapping[str, str | None], *, ignore_if_not_exists: bool = False
    ) -> None:
        """See WritableCatalog. To take a property away needs Spark 4."""
        kept, gone = split_properties(changed)
        named = self._database(name)
        try:
            await self.database(name)
            if kept:
                sql = f"ALTER DATABASE {named} SET DBPROPERTIES ({_pairs(kept)})"
                await self._change(sql, name, missing=NoSuchDatabase)
            if gone:
                sql = f"ALTER DATABASE {named} UNSET DBPROPERTIES ({', '.join(map(literal, gone))})"
                await self._change(sql, name, missing=NoSuchDatabase)
        except NoSuchDatabase:
            if not ignore_if_not_exists:
                raise

    async def drop_database(
        self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False
    ) -> None:
        there = "IF EXISTS " if ignore_if_not_exists else ""
        how = "CASCADE" if cascade else "RESTRICT"
        sql = f"DROP DATABASE {there}{self._database(name)} {how}"
        await self._change(sql, name, missing=NoSuchDatabase)

    async def create_table(self, table: TableEntry, *, ignore_if_exists: bool = False) -> None:
        if table.kind is TableKind.VIEW:
            raise NotSupported("through Spark, views are created by a statement, which is authorized")
        await self.database(table.database)
        there = "IF NOT EXISTS " if ignore_if_exists else ""
        columns = ", ".join(
            f"{quote(one.name)} {_type(one.type)}"
            + (f" COMMENT {literal(one.comment)}" if one.comment else "")
            for one in table.columns
        )
        words = [f"CREATE TABLE {there}{self._table(table.database, table.name)} ({columns})"]
        if table.provider:
            if not _PROVIDER.fullmatch(table.provider):
                raise NotSupported(f"`{table.provider}` is not the name of a format")
            words.append(f"USING {table.provider}")
        if table.partitioning:
            words.append(f"PARTITIONED BY ({', '.join(map(_transform, table.partitioning))})")
        if table.comment:
            words.append(f"COMMENT {literal(table.comment)}")
        if table.location:
            words.append(f"LOCATION {literal(table.location)}")
        if table.properties:
            words.append(f"TBLPROPERTIES ({_pairs(table.properties)})")
        await self._change(" ".join(words), table.database, table.name)

    async def alter_table(
        self,
        database: str,
        name: str,
        changed: Mapping[str, str | None],
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        kept, gone = split_properties(changed)
        named = self._table(database, name)
        kind = await self._kind(database, name, ignored=ignore_if_not_exists)
        if kind and kept:
            await self._change(f"ALTER {kind} {named} SET TBLPROPERTIES ({_pairs(kept)})", database, name)
        if kind and gone:
            keys = ", ".join(map(literal, gone))
            await self._change(f"ALTER {kind} {named} UNSET TBLPROPERTIES IF EXISTS ({keys})", database, name)

    async def rename_table(
        self, database: str, name: str, to: str, *, ignore_if_not_exists: bool = False
    ) -> None:
        kind = await self._kind(database, name, ignored=ignore_if_not_exists)
        if kind:
            sql = f"ALTER {kind} {self._table(database, name)} RENAME TO {quote(database)}.{quote(to)}"
            await self._change(sql, database, name, to)

    async def drop_table(self, database: str, name: str, *, ignore_if_not_exists: bool = False) -> None:
        kind = await self._kind(database, name, ignored=ignore_if_not_exists)
        if kind:
            there = "IF EXISTS " if ignore_if_not_exists else ""
            await self._change(f"DROP {kind} {there}{self._table(database, name)}", database, name)

    async def _list_names(self, database: str) -> Sequence[tuple[str, bool]]:
        await self.database(database)
        try:
            return await self._live.list_tables(self._name, database)
        except BackendUnavailable as error:
            raise CatalogUnavailable(error.message) from error

    async def _kind(self, database: str, name: str, *, ignored: bool) -> str:
        """Return what Spark calls it, `TABLE` or `VIEW`; empty when there is none and that is ignored."""
        try:
            listed = {found.lower(): is_view for found, is_view in await self._list_names(database)}
        except NoSuchDatabase:
            listed = {}
        if name.lower() in listed:
            return "VIEW" if listed[name.lower()] else "TABLE"
        if not ignored:
            raise NoSuchTable(f"table `{database}.{name}` does not exist")
        return ""

    async def _change(
        self, sql: str, database: str, *tables: str, missing: type[SluiceError] = NoSuchTable
    ) -> None:
        """Run a statement with effects, after which nothing is known of its names."""
        try:
            await self._run(sql, missing)
        finally:
            names = [TableName(self._name, database, table) for table in tables]
            self._live.invalidate(names, [(self._name, database)])

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


def literal(text: str) -> str:
    """Write a string literal; our sessions read escapes, and replace no `${…}`."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


def _type(text: str) -> str:
    try:
        return normalize_ddl(text)
    except NotUnderstood as fault:
        raise NotSupported(f"cannot parse the type `{text[:80]}`: {fault}") from None


def _transform(text: str) -> str:
    one = parse_partitioning(text)
    if one.transform == "identity":
        return quote(one.column)
    width = "" if one.width is None else f"{one.width}, "
    return f"{_PLURALS.get(one.transform, one.transform)}({width}{quote(one.column)})"


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
            found.append(str(parse_partitioning(text)))
    return tuple(found)


def _properties(text: str) -> dict[str, str]:
    """Read `((a,1), (b,2))`, as Spark writes a database's properties, as well as such a text can be read."""
    inside = text[2:-2] if text.startswith("((") and text.endswith("))") else ""
    pairs = (pair.partition(",") for pair in inside.split("), (") if pair)
    return {key: value for key, _, value in pairs}
