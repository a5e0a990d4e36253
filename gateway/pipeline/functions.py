"""What the bodies of SQL functions read: no statement names it, and Spark's session keeps it all the same.

Who may execute a function is not asked for what it reads, so nothing is judged here. These names are held,
and looked at again, as those of tables and views are. What names in a body mean is found where the function
is called: in the session that asks, or where the view was written that calls it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import Final

from gateway.model.catalog import FUNCTION, CatalogSnapshot, Table, TableKind, TableName
from gateway.model.files import SESSION_CATALOG
from gateway.model.reading import Reading, RelationRole
from gateway.model.resource import Resource
from gateway.model.statement import NeedsCatalog, SessionContext
from gateway.pipeline.judging import Judging
from gateway.reader.port import ReaderPort
from gateway.sql.policy_text import list_called_functions
from gateway.sql.required import Privilege
from gateway.sql.varying import names_session

MAX_BODIES = 64
"""Functions and views that one text leads to."""
_IN_A_CATALOG: Final = 3
"""Parts of a name that begins with its catalog."""


def list_required_functions(privileges: Iterable[Privilege]) -> tuple[TableName, ...]:
    """Return the functions that a statement needs `execute` on."""
    asked = (one.resource for one in privileges if one.access == "execute")
    return tuple(dict.fromkeys(name for one in asked if (name := _function(one)) is not None))


def list_text_functions(reading: Reading) -> tuple[TableName, ...]:
    """Return the functions that the text of a policy calls by their whole names."""
    whole = (parts for parts in list_called_functions(reading) if len(parts) >= _IN_A_CATALOG)
    return tuple(replace(TableName.of(parts), version=FUNCTION) for parts in whole)


def tables_among(names: Iterable[TableName], catalog: CatalogSnapshot) -> frozenset[TableName]:
    """Return those of the names that are tables with rows."""
    found = ((name, catalog.table(name)) for name in names if name.version != FUNCTION)
    return frozenset(name for name, table in found if table is not None and table.kind is TableKind.TABLE)


async def read_by(
    called: Iterable[TableName], context: SessionContext, judging: Judging
) -> frozenset[TableName] | NeedsCatalog:
    """Return the functions and, through views too, all that their bodies read, as far as it is there.
    `context`: what names mean where they are called."""
    walk = _BodyWalk(_in_sql(called), context, judging)
    found = {name async for name, table, _ in walk.read_all() if table is not None}
    return walk.needs or frozenset(found)


async def session_asked(
    called: Iterable[TableName], judging: Judging, *, names_alone: bool = False
) -> str | None:
    """Say which of the functions that a text calls means something else in another session; `names_alone`:
    by what it names, and not by what it asks for.

    INVARIANT (a policy's text means what it says): whoever it is for chooses his session's catalog and
    database, and may have tables there that are called as those in the body.
    """
    pending, seen = [*_in_sql(called)], set[TableName]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        table = judging.snapshot.catalog.table(name)
        if table is None or len(seen) > MAX_BODIES:
            return f"calls {name}, whose behavior Spark does not report completely"
        if table.view is None:
            continue  # code is what `execute` decides on
        reading = await read_body(table, judging.reader)
        if reading is None:
            return f"calls {name}, whose body cannot be parsed"
        if not names_alone and (reading.identities or names_session(reading)):
            return f"calls {name}, which {_DEPENDS}"
        for one in reading.relations:
            if one.role is not RelationRole.CTE and len(one.parts) < _IN_A_CATALOG:
                return _in_the_session(name, one.parts)
        for parts in list_called_functions(reading):
            if len(parts) == 1:
                return _in_the_session(name, parts)
            # With its catalog Spark takes no name of a function in a body.
            pending += _in_sql([replace(TableName.of((SESSION_CATALOG, *parts)[-3:]), version=FUNCTION)])
    return None


async def read_within(
    named: Iterable[TableName], judging: Judging
) -> frozenset[TableName] | str | NeedsCatalog:
    """Return the tables and views that the text of a policy reads, in functions and other views too; or say
    which of these views asks who the user is or what the session says, or calls what does.

    INVARIANT (a policy's text means what it says): Spark reads these as they are stored. Nobody's name is
    written into them, and over Spark Connect they ask for whoever Spark runs as.
    """
    walk = _BodyWalk((name.fold() for name in named), SessionContext(), judging, code=False)
    found: set[TableName] = set()
    async for name, table, reading in walk.read_all():
        if table is not None and name.version != FUNCTION:
            found.add(name)
        if table is None or table.view is None:
            continue
        if reading is None:
            return f"reads {name}, whose text cannot be parsed, or reads too many other views"
        if reading.identities or names_session(reading):
            return f"reads {name}, which {_DEPENDS}"
    return walk.needs or frozenset(found)


class _BodyWalk:
    """Goes from names through the bodies of functions and the texts of views to all that these name."""

    def __init__(
        self, named: Iterable[TableName], context: SessionContext, judging: Judging, *, code: bool = True
    ) -> None:
        """`context`: what short names in a function mean. `code`: also to functions that are code, as those
        of all catalogs but Spark's own are."""
        begins = (context.catalog, ".".join(context.namespace))
        self._pending = [(name, begins) for name in named]
        self._judging = judging
        self._code = code
        self._unknown: dict[TableName, None] = {}

    @property
    def needs(self) -> NeedsCatalog | None:
        """What has to be asked of the catalog before all is known."""
        return NeedsCatalog(tuple(self._unknown), promotes=False) if self._unknown else None

    async def read_all(self) -> AsyncIterator[tuple[TableName, Table | None, Reading | None]]:
        """Yield each name once, with what is there and its body, if it has one that can be read: those beyond
        the first `MAX_BODIES` are not."""
        catalog, seen, bodies = self._judging.snapshot.catalog, set[TableName](), 0
        while self._pending:
            name, begins = self._pending.pop()
            if name in seen or (not self._code and _is_code(name)):
                continue
            seen.add(name)
            if not catalog.knows(name):
                self._unknown[name] = None
            table, reading = catalog.table(name), None
            if table is not None and table.view is not None and bodies < MAX_BODIES:
                bodies += 1
                reading = await read_body(table, self._judging.reader)
                if reading is not None:
                    if name.version != FUNCTION:
                        begins = (table.view.catalog, table.view.database)
                    self._pending += [(one, begins) for one in _list_named(reading, begins)]
            yield name, table, reading


_DEPENDS = "depends on current_user() or on the session's catalog, database or time zone"


def _in_the_session(function: TableName, parts: tuple[str, ...]) -> str:
    return (
        f"calls {function}, which refers to `{'.'.join(parts)}` without a catalog, so that it resolves in "
        "the session of the caller"
    )


def _is_code(name: TableName) -> bool:
    return name.version == FUNCTION and name.catalog != SESSION_CATALOG


def _in_sql(called: Iterable[TableName]) -> Iterator[TableName]:
    """Yield the functions that may be in SQL: only Spark's own catalog has such; those of others are code."""
    return (name.fold() for name in called if name.catalog.lower() == SESSION_CATALOG)


def _list_named(reading: Reading, begins: tuple[str, str]) -> list[TableName]:
    """Return what the body of a function, or the text of a view, names."""
    scans = [(one.parts, "") for one in reading.relations if one.role is RelationRole.SCAN]
    calls = [(parts, FUNCTION) for parts in list_called_functions(reading)]
    named = ((_whole(parts, begins), version) for parts, version in (*scans, *calls))
    return [replace(one, version=version).fold() for one, version in named if one is not None]


def _whole(parts: tuple[str, ...], begins: tuple[str, str]) -> TableName | None:
    catalog, database = begins
    if any("." in part for part in parts):
        return None
    if len(parts) >= _IN_A_CATALOG:
        return TableName.of(parts)
    if not catalog or not database:
        return None
    return TableName(catalog, database, parts[0]) if len(parts) == 1 else TableName(catalog, *parts)


async def read_body(of: Table, reader: ReaderPort) -> Reading | None:
    """Read the body of a function, which is an expression or a query, or the text of a view, which is a
    query: `TABLE t` could be either."""
    if of.view is None:
        return None
    is_query = of.name.version != FUNCTION or of.view.is_table  # RULE (view-text-query)
    for read in (reader.read,) if is_query else (reader.read_expression, reader.read):
        reading = await read(of.view.text)
        if isinstance(reading, Reading) and not reading.commands:
            return reading
    return None


def _function(resource: Resource) -> TableName | None:
    catalog, database = resource.level("catalog"), resource.level("database")
    name = resource.level("udf")
    if catalog is None or database is None or name is None:
        return None
    return TableName(catalog, database, name, FUNCTION)
