"""Who feeds what: the column lineage of one statement, in OpenLineage's terms and those of field lineage.

A vertex is a column of a dataset. An edge is a PROJECTION (source columns whose values make a target column)
or a PREDICATE (source columns of a condition that decides which rows target columns get, or in what order).
Names are folded to lower case, as Spark compares them, so that a column is one vertex whoever writes it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gateway.model.catalog import TableName, quote

ANY_COLUMN = "*"
"""The column of a vertex that stands for all columns of a dataset whose columns are not known."""


class DatasetKind(enum.Enum):
    TABLE = "table"
    VIEW = "view"
    """A persistent view; in `steps` only, or as a target."""
    TEMP_VIEW = "temp_view"
    """A temporary view of the session, or the name that CACHE TABLE … AS gives."""
    PATH = "path"
    """Files by their location."""
    RESULT = "result"
    """What a plain query answers; each statement has its own."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Something with columns: `parts` is its name, lower case; empty for a result."""

    kind: DatasetKind
    parts: tuple[str, ...]

    @classmethod
    def table(cls, name: TableName, kind: DatasetKind = DatasetKind.TABLE) -> Dataset:
        folded = name.fold()
        return cls(kind, (folded.catalog, folded.database, folded.table))

    def __str__(self) -> str:
        return ".".join(_quote_part(part) for part in self.parts) or self.kind.value


RESULT = Dataset(DatasetKind.RESULT, ())


@dataclass(frozen=True, slots=True)
class ColumnVertex:
    """A column of a dataset. A struct is one column: its fields are not vertices."""

    dataset: Dataset
    column: str

    def __str__(self) -> str:
        """Return `catalog.database.table.column`, the article's vertexId."""
        return f"{self.dataset}.{_quote_part(self.column)}"


def _quote_part(part: str) -> str:
    """Return a name part, in back quotes when it would not stand by itself."""
    return part if "." not in part and "`" not in part else quote(part)


class TransformationType(enum.Enum):
    DIRECT = "DIRECT"
    """The source's value is in the target's value."""
    INDIRECT = "INDIRECT"
    """The source decides on the target's value or row, and is not in it."""


class Subtype(enum.Enum):
    """How a source takes part, as OpenLineage's column lineage facet names it."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    JOIN = "JOIN"
    FILTER = "FILTER"
    GROUP_BY = "GROUP_BY"
    SORT = "SORT"
    WINDOW = "WINDOW"
    CONDITIONAL = "CONDITIONAL"
    """The condition of CASE, IF and the like, which chooses between values."""

    @property
    def type(self) -> TransformationType:
        return TransformationType.DIRECT if self in _DIRECT else TransformationType.INDIRECT


_DIRECT = frozenset({Subtype.IDENTITY, Subtype.TRANSFORMATION, Subtype.AGGREGATION})


@dataclass(frozen=True, slots=True)
class Transformation:
    subtype: Subtype
    masking: bool = False
    """Whether a mask of a policy stood between: the target has, or was decided by, the mask's value only."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A source of an edge and every way in which it takes part, in the order of `Subtype`."""

    column: ColumnVertex
    transformations: tuple[Transformation, ...]


class EdgeType(enum.Enum):
    PROJECTION = "PROJECTION"
    PREDICATE = "PREDICATE"


class Clause(enum.Enum):
    """Where the condition of a PREDICATE is written."""

    JOIN = "JOIN"
    WHERE = "WHERE"
    """Also the FILTER of an aggregate, and the conditions of UPDATE and DELETE."""
    HAVING = "HAVING"
    QUALIFY = "QUALIFY"
    GROUP_BY = "GROUP_BY"
    """Also DISTINCT, set operations that compare rows, and the grouping of PIVOT."""
    SORT = "SORT"
    WINDOW = "WINDOW"
    """PARTITION BY and ORDER BY of one window."""
    MERGE = "MERGE"
    """ON, and AND of WHEN."""

    @property
    def subtype(self) -> Subtype:
        """Return what its sources are to its targets."""
        return _SUBTYPES[self]


_SUBTYPES = {
    Clause.JOIN: Subtype.JOIN,
    Clause.WHERE: Subtype.FILTER,
    Clause.HAVING: Subtype.FILTER,
    Clause.QUALIFY: Subtype.FILTER,
    Clause.GROUP_BY: Subtype.GROUP_BY,
    Clause.SORT: Subtype.SORT,
    Clause.WINDOW: Subtype.WINDOW,
    Clause.MERGE: Subtype.JOIN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conjunct:
    """One of the conditions that AND joins, or the whole of what has no AND."""

    expression: str
    sources: tuple[SourceColumn, ...]
    scans: tuple[int, ...] = ()
    """Which scans of the statement, by number, the sources are read by; a self-join has two of one table."""
    by_row: bool = True
    """Whether it can be decided for each row of its scans; False when it compares aggregates, windows or
    subqueries."""
    not_null: tuple[tuple[int, ColumnVertex], ...] = ()
    """Scan and column of each join key that cannot be NULL in any row that the equation lets pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageEdge:
    """An edge from columns to columns."""

    type: EdgeType
    sources: tuple[SourceColumn, ...]
    """Columns of tables; views are read through. Conditions within the value (CASE) are among them."""
    targets: tuple[ColumnVertex, ...]
    """One for a PROJECTION; for a PREDICATE all that it bears on."""
    expression: str
    """The value or the condition, as SQL, in the statement's words."""
    clause: Clause | None = None
    """Of a PREDICATE."""
    steps: tuple[SourceColumn, ...] = ()
    """Columns of the views that the sources were read through, as if they were sources."""
    conjuncts: tuple[Conjunct, ...] = ()
    """Of a PREDICATE: its parts, at least one."""
    aggregates: bool = False
    """Of a GROUP_BY: whether an aggregate over its groups is in a target's value, or decides on its rows."""


class Operation(enum.Enum):
    """What a statement does with its targets."""

    QUERY = "query"
    INSERT = "insert"
    OVERWRITE = "overwrite"
    CREATE = "create"
    """CREATE or REPLACE of a table, view or temporary view with a query; CACHE TABLE … AS."""
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLineage:
    """The lineage of one statement. Equal statements over equal catalogs have equal lineage."""

    operation: Operation
    targets: tuple[Dataset, ...]
    """What it writes, or RESULT; several for an INSERT of many branches."""
    inputs: tuple[Dataset, ...]
    """Every table, temporary view and path that it reads, by way of views too."""
    views: tuple[Dataset, ...] = ()
    """Every persistent view that it reads."""
    columns: tuple[ColumnVertex, ...] = ()
    """The columns of the targets that it gives values, in their order, with and without edges."""
    edges: tuple[LineageEdge, ...] = ()
    """PROJECTIONs in the order of their targets, then PREDICATEs in the order of the walk."""
    view_edges: tuple[LineageEdge, ...] = ()
    """Lineage of the views on the way: PROJECTIONs from tables to the columns of views that are used."""
    table_level: str = ""
    """Why there are no edges between columns, and every input may feed every target; empty: there are."""
    unread: tuple[tuple[Dataset, str], ...] = ()
    """Views whose text could not be read, and why: their columns are sources themselves; what they read is
    among the inputs."""
    guessed: tuple[str, ...] = ()
    """References that could be of several relations whose columns are not known; they count for each."""
