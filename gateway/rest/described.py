"""Tables and views as the catalog has just answered them, for the one call that is judged by that answer.

INVARIANT (what was judged is what is passed on): a call is judged by the columns of the very answer that its
client gets, not by what somebody else was told of the table before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.catalog.iceberg_types import spark_type
from gateway.catalog.readable import CatalogUnavailable
from gateway.catalog.rest import items, properties, read_object, text
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName
from gateway.model.changed_names import NOBODY, ChangedNames
from gateway.model.table_formats import ICEBERG
from gateway.session.ports import Catalog

MAX_VERSIONS = 10_000
"""Tables whose versions are kept: what was judged by one is used again while it looks the same."""


@dataclass(frozen=True, slots=True)
class AnsweredTables:
    """What is known of the tables that a call is about."""

    tables: Mapping[TableName, Table] = field(default_factory=dict)
    """By folded names."""
    missing: frozenset[TableName] = frozenset()


CURRENT: ContextVar[AnsweredTables | None] = ContextVar("described", default=None)
"""Of the call that is judged; None: what the rest of the gateway knows counts."""


def describe(name: TableName, metadata: Mapping[str, Any]) -> Table:
    """Return a table by its metadata. Raises CatalogUnavailable for what is none."""
    fields = find_schema(metadata, metadata.get("current-schema-id", 0))
    told = properties(metadata.get("properties"))
    return Table(
        name=name,
        kind=TableKind.TABLE,
        columns=tuple(
            Column(name=text(one.get("name"), "field"), type=spark_type(one.get("type"))) for one in fields
        ),
        owner=told.get("owner"),
        provider=ICEBERG.name,
        location=str(metadata.get("location", "")),
    )


def describe_all(name: TableName, metadata: Mapping[str, Any]) -> Table:
    """Return a table with the columns that it had before beside its own: its files and snapshots still have
    them, and whoever gets the table gets those. One that has another name now is known by that."""
    table = describe(name, metadata)
    schemas = items(metadata.get("schemas"), "schemas")
    if len(schemas) == 1:
        return table
    current = {one.get("id") for one in find_schema(metadata, metadata.get("current-schema-id", 0))}
    known = {one.name.lower() for one in table.columns}
    former: dict[str, Column] = {}
    for one in list_past_fields(metadata):
        column = text(one.get("name"), "field")
        if one.get("id") not in current and column.lower() not in known:
            former[column.lower()] = Column(name=column, type=spark_type(one.get("type")))
    # RULE (rest-former-columns)
    return replace(table, columns=(*table.columns, *former.values())) if former else table


def list_past_fields(metadata: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of all schemas of a table, the current one last. Raises CatalogUnavailable."""
    current = metadata.get("current-schema-id", 0)
    schemas = [read_object(one, "schema") for one in items(metadata.get("schemas"), "schemas")]
    for schema in sorted(schemas, key=lambda one: one.get("schema-id", 0) == current):
        for one in items(schema.get("fields"), "fields"):
            yield read_object(one, "field")


def find_schema(metadata: Mapping[str, Any], ident: Any) -> list[Mapping[str, Any]]:
    """Return the fields of a schema. Raises CatalogUnavailable."""
    for one in items(metadata.get("schemas"), "schemas"):
        schema = read_object(one, "schema")
        if schema.get("schema-id", 0) == ident:
            return [read_object(each, "field") for each in items(schema.get("fields"), "fields")]
    raise CatalogUnavailable("a table without its schema")


class DescribedCatalog:
    """The catalog as judging of one call sees it: the tables of CURRENT, and beyond them what the gateway
    knows of Spark's catalogs. See session.ports.Catalog."""

    def __init__(self, beyond: Catalog) -> None:
        self._beyond = beyond
        self._versions: BoundedDict[Table, int] = BoundedDict(MAX_VERSIONS)
        # Below zero, where what Spark's catalogs are known by never is.
        self._numbers = itertools.count(-1, -1)

    @property
    def snapshot(self) -> CatalogSnapshot:
        known, told = self._beyond.snapshot, CURRENT.get()
        if told is None:
            return known
        return replace(known, version=self._version(told), tables=told.tables, missing=told.missing)

    def _version(self, told: AnsweredTables) -> int:
        # Names that a table stands for are in what is judged, so that one number for its looks is enough.
        if len(told.tables) == 1 and not told.missing:
            (table,) = told.tables.values()
            found = self._versions.get(table)
            if found is None:
                found = self._versions[table] = next(self._numbers)
            return found
        return next(self._numbers)

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        told = CURRENT.get()
        if told is None:
            return await self._beyond.look_up(tables)
        others = [one for one in tables if one.fold() not in told.tables and one.fold() not in told.missing]
        if not others:
            return self.snapshot
        known = await self._beyond.look_up(others)
        wanted = {one.fold() for one in others}
        return replace(
            known,
            version=next(self._numbers),
            tables={**{name: one for name, one in known.tables.items() if name in wanted}, **told.tables},
            missing=frozenset(name for name in known.missing if name in wanted) | told.missing,
        )

    async def describe_anew(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        await self._beyond.describe_anew(tables)
        return await self.look_up(tables)

    @property
    def changed_names(self) -> ChangedNames:
        return self._beyond.changed_names

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        self._beyond.invalidate(tables, databases, by=by, stays=stays)

    def forget_all(self) -> None:
        self._beyond.forget_all()

    async def databases(self, catalog: str) -> Sequence[str]:
        return await self._beyond.databases(catalog)

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        return await self._beyond.list_tables(catalog, database)
