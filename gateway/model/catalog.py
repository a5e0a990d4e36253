"""What exists in Spark's catalogs, as far as the gateway has looked, at one instant."""

from __future__ import annotations

import enum
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gateway.model.metalakes import NONE_LISTED, ListedCatalogs
from gateway.model.restrictions import TableRestrictions
from gateway.model.table_formats import KEPT_BY_SESSIONS


def levels(database: str) -> tuple[str, ...]:
    """Return the levels of a namespace, the outermost first."""
    return tuple(database.split("."))


def join_namespace(namespace: Sequence[str]) -> str:
    """Return how a namespace is written as one name: `levels` gives back what was joined where no level has a
    dot, which whoever joins has seen to. Raises ValueError for a level with one."""
    if any("." in level for level in namespace):
        raise ValueError("a namespace level must not contain a dot")
    return ".".join(namespace)


def namespaces_of(database: str) -> tuple[str, ...]:
    """Return a namespace and all that it lies in, the outermost first."""
    each = levels(database)
    return tuple(join_namespace(each[:depth]) for depth in range(1, len(each) + 1))


GLOBAL_TEMP = "global_temp"
"""Where Spark has the global temporary views, in the place of a database."""
SOME_VERSION = "AS OF some version"
"""Stands for the clause of a version that Spark is not asked about."""
FUNCTION = "FUNCTION"
"""In the place of such a clause: not a table is meant, but the function of that name. It is looked up as a
view whose text is its body; one that is code and no SQL is a table without columns."""
CHANGES = "CHANGES"
"""In the place of such a clause: what was added to an Iceberg table and removed from it, `t.changes`."""
FEED = "CHANGE FEED"
"""In the place of such a clause: what was changed in a Delta table, `table_changes('db.t', …)`."""
MOVING = frozenset("current_timestamp now current_date curdate".split())
"""Words in a version's clause that mean another time in each statement."""


def moves(version: str) -> bool:
    """Whether the clause of a version chooses another one as time passes."""
    return not MOVING.isdisjoint(version.split())


@dataclass(frozen=True, slots=True)
class TableName:
    """A fully resolved name: what was judged is what Spark is sent."""

    catalog: str
    database: str
    """Of a nested namespace all its levels, joined by dots: no part of a name that is governed has one."""
    table: str
    version: str = ""
    """The clause of SQL that chooses a version of the table, where not the current one is meant."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the name as Spark has it: catalog, every level of the namespace, table."""
        return (self.catalog, *levels(self.database), self.table)

    @property
    def parts_read(self) -> tuple[str, ...]:
        """Return the name of what is read, to which the clause of a version is added."""
        return (*self.parts, "changes") if self.version == CHANGES else self.parts

    @property
    def clause(self) -> str:
        """Return the clause of SQL that chooses the version; empty where none does."""
        return "" if self.version in (CHANGES, FEED) else self.version

    def fold(self) -> TableName:
        """Return the name as Spark compares it: case is not significant."""
        catalog, database, table = self.catalog.lower(), self.database.lower(), self.table.lower()
        if catalog == self.catalog and database == self.database and table == self.table:
            return self  # as nearly all are, and it is asked again and again
        return TableName(catalog, database, table, self.version)

    @property
    def is_global_view(self) -> bool:
        """Whether it can be nothing but a global temporary view, which all sessions of one Spark share."""
        return self.database.lower() == GLOBAL_TEMP

    @property
    def current(self) -> TableName:
        """Return the name of the table itself, whichever version of it this is."""
        return TableName(self.catalog, self.database, self.table) if self.version else self

    @classmethod
    def of(cls, parts: Sequence[str]) -> TableName:
        """Return the name that has these parts. Raises ValueError for less than three, and as
        `join_namespace`."""
        if len(parts) < 3:
            raise ValueError("a table name needs a catalog and a database")
        return cls(parts[0], join_namespace(parts[1:-1]), parts[-1])

    def __str__(self) -> str:
        return f"{self.catalog}.{self.database}.{self.table}"


class TableKind(enum.Enum):
    """How an object of a catalog is governed."""

    TABLE = "table"
    VIEW = "view"
    UNGOVERNED = "ungoverned"
    """Neither: its rows come from other tables by a definition that is not judged, or it is not known."""


OBJECT_TYPES: Mapping[str, TableKind] = {
    "MANAGED": TableKind.TABLE,
    "EXTERNAL": TableKind.TABLE,
    "FOREIGN": TableKind.TABLE,
    "VIEW": TableKind.VIEW,
    "METRIC_VIEW": TableKind.VIEW,
}
"""Every type that Spark 3.5 to 4.3 gives an object in a description: `CatalogTableType` for its own catalog,
`TableSummary` for others. A test reads both lists from the jars of each minor."""


def kind_of(object_type: str) -> TableKind:
    """Return how to govern an object of a type, in capitals as Spark describes it; an unknown one is not."""
    return OBJECT_TYPES.get(object_type.upper(), TableKind.UNGOVERNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; `type` is the type as Spark SQL writes it in DDL, e.g. `decimal(10,2)`."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """A column of a version that the table has under another name now, or whose name another one has."""

    then: str
    now: str
    gone: bool
    """Whether no column of the table is called now as this one was then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDefinition:
    """What a metric view is made of. The names are those of the view's columns, in order."""

    source: str
    """What stands after FROM: the name of a table, or a query in brackets."""
    where: str
    """The filter, empty where there is none."""
    dimensions: tuple[tuple[str, str], ...]
    """Name and expression over the columns of the source."""
    measures: tuple[tuple[str, str], ...]
    """Name and aggregate expression: a name in it is a dimension, or a column of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBody:
    """The text of a persistent view and the session it was written in."""

    text: str
    catalog: str
    database: str
    output: tuple[str, ...]
    """Names of the body's output columns, in order; they map one to one to the view's columns."""
    collation: str = ""
    """The view's DEFAULT COLLATION, which its strings have where they do not say another; empty: none."""
    definer: str | None = None
    """Who defined the view, as the gateway has recorded it. None: it has no record of the view, which was
    made elsewhere; empty: its record is of another text, so that nobody vouches for this one."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the body of a function: names and types of its parameters."""
    is_table: bool = False
    """Of the body of a function: whether it gives rows."""
    body: str = ""
    """Of a function: its body alone; `text` has what its parameters are by default, too."""
    defaults: tuple[str, ...] = ()
    """Of a function: what each of its parameters is by default, empty where it has to be given."""
    returns: tuple[tuple[str, str], ...] = ()
    """Of a function: names and types of its columns; of one that gives a value, its type, with no name.
    Empty where they are not known."""
    by_position: bool = False
    """Whether Spark finds the view's columns by their places in what the text gives, and not by name."""
    metrics: MetricDefinition | None = None
    """Set for a metric view: `text` is then a query with its dimensions and measures, which says all that it
    reads; `catalog` and `database` are empty, since Spark finds what it names as the session does that reads
    it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or persistent view with its columns in Spark's order."""

    name: TableName
    kind: TableKind
    columns: tuple[Column, ...]
    owner: str | None = None
    provider: str | None = None
    location: str | None = None
    view: ViewBody | None = None
    object_type: str = ""
    """Of what is not governed, its type as Spark describes it."""
    unread: str = ""
    """Of what is not governed, though its type is: why its definition cannot be read."""
    shadowed: bool = False
    """Whether a namespace has the same name: what is named below it need not be the table's metadata."""
    replaces_rows: bool = False
    """Whether a row that is added takes the place of the one with its key."""
    checks: str = ""
    """What rows are checked for when they are written: CHECK constraints, in one text; empty without any."""
    renamed: tuple[Renamed, ...] = ()
    """Of a version: its columns that have other names now."""
    unfollowed: str = ""
    """Of a version: why nobody knows what its columns are called now; empty when that is known."""
    conditions_above: bool = False
    """Of a version: whether its format would not find all columns of a condition that goes below it."""
    restrictions: TableRestrictions | None = None
    """What its catalog restricts for the user whose statement is judged; None: it was not asked."""

    @property
    def named_now(self) -> Table:
        """Return a version with the names that policies speak of; a table that has no others is itself."""
        now = {one.then: one for one in self.renamed}
        columns: list[Column] = []
        for column in self.columns:
            one = now.get(column.name)
            if one is not None:
                columns.append(replace(column, name=one.now))
            if one is None or one.gone:
                columns.append(column)
        return replace(self, columns=tuple(columns)) if now else self


def is_cached_by_sessions(table: Table) -> bool:
    """Whether a session of Spark may know the table as it was, until it is told to look again."""
    return (table.provider or "").lower() in KEPT_BY_SESSIONS


class FileNames(Protocol):
    """Names of tables that stand for files; `model.files.FileSource`."""

    def table(self, path: tuple[str, ...]) -> TableName:
        """Return the table of a path. Raises ValueError, in words, for a path that can have none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogSnapshot:
    """Tables known at one instant. A name in `missing` was looked up and does not exist.

    A name in neither has not been looked up: judging a statement that scans it needs a lookup first.
    Keys are folded names.
    """

    version: int
    catalogs: frozenset[str]
    """Catalog names (lower case) that the first part of a name may mean."""
    tables: Mapping[TableName, Table] = field(default_factory=dict)
    missing: frozenset[TableName] = frozenset()
    sources: Mapping[str, FileNames] = field(default_factory=dict)
    """First parts of names (lower case) that mean files."""
    file_databases: frozenset[str] = frozenset()
    """Databases (lower case) of Spark's session catalog that hold tables made of files, and no others."""
    listed: ListedCatalogs = NONE_LISTED
    """Catalogs that come and go while the gateway runs; those that are refused are not in `catalogs`."""
    places: Mapping[str, tuple[TableName, ...] | str] | None = None
    """URLs that were looked up, each with the tables that have files there, or why that is not known. None:
    nobody looks, as where statements are judged and not run."""

    def table(self, name: TableName) -> Table | None:
        return self.tables.get(name.fold())

    def knows(self, name: TableName) -> bool:
        """Whether the name was looked up, with either answer."""
        folded = name.fold()
        return folded in self.tables or folded in self.missing


def quote(part: str) -> str:
    """Quote one name part for Spark SQL."""
    return "`" + part.replace("`", "``") + "`"  # RULE (backticks-doubled)


def quote_parts(parts: Iterable[str]) -> str:
    """Write name parts as SQL, every part quoted."""
    return ".".join(map(quote, parts))


def unquote(name: str) -> str:
    """Return a name as it is, where it was written in backticks because of its characters."""
    if len(name) > 1 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name


_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`][^.]*)")


def split_name(text: str, part: re.Pattern[str] = _PART) -> tuple[str, ...]:
    """Return the parts of a dotted name, which may stand in backticks; none when it is no such name.

    `part` finds one: what is between backticks is its first group, what needs none its second.
    """
    parts: list[str] = []
    at = 0
    while (found := part.match(text, at)) is not None:
        parts.append(found[2] if found[1] is None else found[1].replace("``", "`"))
        at = found.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            return ()
        at += 1
    return ()


def namespaces_in(above: Sequence[str], written: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the namespaces in a list of those in another, without those that cannot be governed.

    INVARIANT (one name): a level with a dot in it would be taken for two.
    """
    names = [split_name(name) for name in written]
    within = [name for name in names if len(name) == len(above) + 1 and name[:-1] == tuple(above)]
    return [name for name in within if not any("." in level for level in name)]


LookUp = Callable[[Sequence[TableName]], Awaitable[CatalogSnapshot]]
"""Names → a snapshot that knows all of them: each is a table there, or missing."""
