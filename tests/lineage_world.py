"""What tests of lineage share: tables, and lineage of a text as Spark's parser reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.lineage.gathering import names_of_columns
from gateway.lineage.workers import HasLineage
from gateway.model.catalog import Column, Table, TableKind, TableName, ViewBody
from gateway.model.lineage import EdgeType, StatementLineage
from gateway.model.reading import Reading
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import LineageCatalog, LineageText, lineage_of
from gateway.sql.names import Names

DATABASE = "ln"
TABLES = {
    "a": "i int, x int, y int, z int, ssn string, arr array<int>, s struct<f:int,g:struct<h:int>>, "
    "m map<string,int>, ss array<struct<u:int,v:string>>",
    "b": "i int, k int, x int, p int, q int",
    "c": "i int, w int",
    "d": "i int, k int, x int, y int, z int",
    "t": "a int, b int, c int, d int, e string",
    "named": "id int, name string, ssn string, salary double, bonus double, d date, ts timestamp, "
    "arr array<int>, m map<string,int>, s struct<f:int,g:struct<h:int>>, ss array<struct<u:int,v:string>>",
    "e1": "id int, name string, age int, dept int, boss int",
}

VIEWS = {
    "v1": ("n o", "SELECT x AS n, y AS o FROM a WHERE z > 1"),
    "v2": ("n k", "SELECT n, b.k FROM v1 JOIN b ON v1.o = b.i"),
    "v3": ("dept total", "SELECT dept, sum(age) AS total FROM e1 GROUP BY dept"),
}
"""Columns and texts."""


def columns_of(ddl: str) -> dict[str, str]:
    """Return names and types of columns as DDL lists them."""
    found, depth, at = {}, 0, 0
    for i, sign in enumerate(ddl + ","):
        depth += (sign == "<") - (sign == ">")
        if sign == "," and depth == 0:
            name, _, type_ = ddl[at:i].strip().partition(" ")
            found[name] = type_
            at = i + 1
    return found


def tables(
    described: Mapping[str, Mapping[str, str]] | None = None, database: str = DATABASE
) -> dict[TableName, Table]:
    """Return tables of a database of Spark's own catalog, by name."""
    if described is None:
        described = {name: columns_of(ddl) for name, ddl in TABLES.items()}
    return {
        name: Table(
            name=name,
            kind=TableKind.TABLE,
            columns=tuple(Column(name=c, type=t) for c, t in columns.items()),
        )
        for table, columns in described.items()
        for name in (TableName("spark_catalog", database, table),)
    }


def names(database: str = DATABASE, temp_views: Iterable[str] = ()) -> Names:
    context = SessionContext(namespace=(database,), temp_views=frozenset(temp_views))
    return Names(context=context, catalogs=frozenset({"spark_catalog", "other"}))


async def text_of(
    reader: ReaderPool, sql: str, *, database: str = DATABASE, temp_views: Iterable[str] = ()
) -> LineageText:
    reading = await reader.read(sql)
    assert isinstance(reading, Reading), reading
    written = reading.written or sql
    columns = await names_of_columns(reader, written, reading)
    assert isinstance(columns, tuple), columns
    return LineageText(text=written, reading=reading, names=names(database, temp_views), columns=columns)


async def catalog_of(
    reader: ReaderPool,
    known: Mapping[TableName, Table] | None = None,
    views: Mapping[str, tuple[str, str]] | None = None,
    temp_views: Mapping[str, StatementLineage] | None = None,
    masks: Mapping[str, str] | None = None,
) -> LineageCatalog:
    """Return a catalog; `views`: columns and text by name, `masks`: columns by table."""
    found = dict(tables() if known is None else known)
    texts = {}
    for view, (columns, text) in (views or {}).items():
        name = TableName("spark_catalog", DATABASE, view)
        body = ViewBody(text=text, catalog="spark_catalog", database=DATABASE, output=tuple(columns.split()))
        found[name] = Table(
            name=name,
            kind=TableKind.VIEW,
            columns=tuple(Column(name=c, type="int") for c in columns.split()),
            view=body,
        )
        texts[name] = await text_of(reader, text)
    hidden = {
        TableName("spark_catalog", DATABASE, table): frozenset(columns.split())
        for table, columns in (masks or {}).items()
    }
    return LineageCatalog(tables=found, views=texts, temp_views=temp_views or {}, masks=hidden)


async def lineage(reader: ReaderPool, sql: str, catalog: LineageCatalog | None = None) -> StatementLineage:
    catalog = catalog or await catalog_of(reader)
    found = lineage_of(await text_of(reader, sql, temp_views=catalog.temp_views), catalog)
    assert found is not None
    return found


def short(vertex: object) -> str:
    """Return a column as `table.column`."""
    return str(vertex).removeprefix("spark_catalog.").removeprefix(f"{DATABASE}.").removeprefix("result.")


def flows(found: StatementLineage) -> dict[str, str]:
    """Return the sources of each target column with the ways in which they take part."""
    flowing = {}
    for edge in found.edges:
        if edge.type is EdgeType.PROJECTION:
            flowing[short(edge.targets[0])] = " ".join(
                f"{short(s.column)}:{'+'.join(_way(t.subtype.value, t.masking) for t in s.transformations)}"
                for s in sorted(edge.sources, key=lambda source: str(source.column))
            )
    return flowing


_SHORT = {"IDENTITY": "=", "TRANSFORMATION": "~", "AGGREGATION": "Σ", "CONDITIONAL": "?"}


def _way(subtype: str, masking: bool) -> str:
    return _SHORT.get(subtype, subtype) + ("!" if masking else "")


def decides(found: StatementLineage) -> list[str]:
    """Return the conditions: clause, sources, and the targets where they are not all."""
    listed = []
    for edge in found.edges:
        if edge.type is EdgeType.PREDICATE and edge.clause is not None:
            sources = " ".join(sorted(short(source.column) for source in edge.sources))
            every = set(edge.targets) == set(found.columns)
            targets = "" if every else " → " + " ".join(short(target) for target in edge.targets)
            listed.append(f"{edge.clause.value}: {sources}{targets}")
    return listed


@dataclass(frozen=True)
class Endless:
    """A statement whose lineage takes for ever, where `of` has one."""

    of: HasLineage

    def lineage(self) -> StatementLineage | None:
        threading.Event().wait()
        raise AssertionError

    def table_lineage(self, why: str) -> StatementLineage | None:
        return self.of.table_lineage(why)
