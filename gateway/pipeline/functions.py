"""What the bodies of SQL functions read: no statement names it, and Spark's session keeps it all the same.

Who may execute a function is not asked for what it reads, so nothing is judged here. These names are held,
and looked at again, as those of tables and views are. Spark does not tell where the names in a body begin:
what has no database is taken for a table beside the function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gateway.model.catalog import FUNCTION, CatalogSnapshot, Table, TableKind, TableName
from gateway.model.files import SESSION_CATALOG
from gateway.model.reading import Reading, RelationRole
from gateway.model.resource import Resource
from gateway.model.statement import NeedsCatalog
from gateway.reader.port import ReaderPort
from gateway.sql.policy_text import called_of_author
from gateway.sql.required import Privilege

MAX_BODIES = 64
"""Functions and views that one text leads to."""
_IN_A_CATALOG: Final = 3
"""Parts of a name that begins with its catalog."""


def called_by(privileges: Iterable[Privilege]) -> tuple[TableName, ...]:
    """Return the functions that a statement needs `execute` on."""
    asked = (one.resource for one in privileges if one.access == "execute")
    return tuple(dict.fromkeys(name for one in asked if (name := _function(one)) is not None))


def called_in(reading: Reading) -> tuple[TableName, ...]:
    """Return the functions that the text of a policy calls by their whole names."""
    whole = (parts for parts in called_of_author(reading) if len(parts) >= _IN_A_CATALOG)
    return tuple(replace(TableName.of(parts), version=FUNCTION) for parts in whole)


def tables_among(names: Iterable[TableName], catalog: CatalogSnapshot) -> frozenset[TableName]:
    """Return those of the names that are tables with rows."""
    found = ((name, catalog.table(name)) for name in names if name.version != FUNCTION)
    return frozenset(name for name, table in found if table is not None and table.kind is TableKind.TABLE)


async def read_by(
    called: Iterable[TableName], reader: ReaderPort, catalog: CatalogSnapshot
) -> frozenset[TableName] | NeedsCatalog:
    """Return the functions and, through views too, all that their bodies read, as far as it is there."""
    # Only Spark's own catalog has functions in SQL; those of others are code.
    pending = [name.folded() for name in called if name.catalog.lower() == SESSION_CATALOG]
    seen: set[TableName] = set()
    unknown: dict[TableName, None] = {}
    found: set[TableName] = set()
    bodies = 0
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if not catalog.knows(name):
            unknown[name] = None
        table = catalog.table(name)
        if table is None:
            continue
        found.add(name)
        if table.view is not None and bodies < MAX_BODIES:
            bodies += 1
            pending += await _within(table, reader)
    return NeedsCatalog(tuple(unknown), promotes=False) if unknown else frozenset(found)


async def _within(table: Table, reader: ReaderPort) -> list[TableName]:
    """Return what the body of a function, or the text of a view, names."""
    view = table.view
    reading = None if view is None else await read_body(view.text, reader)
    if view is None or reading is None:
        return []
    begins = (view.catalog, view.database)
    if table.name.version == FUNCTION:
        begins = (table.name.catalog, table.name.database)
    scans = [(one.parts, "") for one in reading.relations if one.role is RelationRole.SCAN]
    calls = [(parts, FUNCTION) for parts in called_of_author(reading)]
    named = ((_whole(parts, begins), version) for parts, version in (*scans, *calls))
    return [replace(one, version=version).folded() for one, version in named if one is not None]


def _whole(parts: tuple[str, ...], begins: tuple[str, str]) -> TableName | None:
    catalog, database = begins
    if any("." in part for part in parts):
        return None
    if len(parts) >= _IN_A_CATALOG:
        return TableName.of(parts)
    if not catalog or not database:
        return None
    return TableName(catalog, database, parts[0]) if len(parts) == 1 else TableName(catalog, *parts)


async def read_body(text: str, reader: ReaderPort) -> Reading | None:
    """Read the body of a function, which is an expression or a query, or the text of a view."""
    for reading in (await reader.read_expression(text), await reader.read(text)):
        if isinstance(reading, Reading) and not reading.commands:
            return reading
    return None


def _function(resource: Resource) -> TableName | None:
    catalog, database = resource.level("catalog"), resource.level("database")
    name = resource.level("udf")
    if catalog is None or database is None or name is None:
        return None
    return TableName(catalog, database, name, FUNCTION)
