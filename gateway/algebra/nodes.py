"""Relations and expressions of a query, before anything in them is looked up: Spark's unresolved plan.

Both are closed: whoever matches on one ends in `assert_never`, so that a new node is an error everywhere that
does not know it. What a lowering does not know is `OpaqueRelation` or `OpaqueExpression`, about which nobody
may conclude anything.

Each expression has `operands`, the expressions that it is made of, without those in queries within it. Each
relation has `inputs`, the relations that it reads, and `expressions`, those that stand in it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar, dataclass_transform

from gateway.model.reading import Span

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def declare_value(cls: type[_Class]) -> type[_Class]:
    """Declare a class of values that nobody changes, as the type checker sees to. Made for every node and
    name of a statement: one that is frozen while the program runs takes six times as long to make."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


@declare_value
class _Node:
    span: Span | None = field(default=None, compare=False, kw_only=True)
    """Where it is written, as far as its source says."""


# Expressions.


@declare_value
class NamedColumn(_Node):
    """A reference as it is written: a column, a field of one, or a word such as `user`."""

    parts: tuple[str, ...]
    plan_id: int | None = None
    """Of a DataFrame's own column, `df["a"]`: the id of the relation that it is of."""
    operands: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class Star(_Node):
    """`*` or, with a qualifier, `t.*`."""

    qualifier: tuple[str, ...] = ()
    excluded: tuple[tuple[str, ...], ...] = ()
    """The columns that its EXCEPT leaves out, lower case."""
    replaced: tuple[Expression, ...] = ()
    """What stands in the places of these, if anything does."""
    implied: bool = False
    """Whether nobody wrote it: `|> EXTEND` passes on what there is, and shows nothing by that."""
    plan_id: int | None = None
    """Of `df["*"]`: the id of the relation whose columns it shows."""
    pattern: str | None = None
    """What the names of the columns match, as Java reads it; None: it shows all."""

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.replaced


@declare_value
class Literal(_Node):
    """A constant."""

    type: str
    """As Spark writes it."""
    value: str | None = None
    """As Spark keeps it, a date in days since 1970; None for NULL."""
    operands: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class Operator(_Node):
    """An operator or a piece of syntax of one row, or a grouping's ROLLUP and the like."""

    name: str
    """Spark's class, one of those of `gateway.algebra.spark`."""
    operands: tuple[Expression, ...]
    escape: str = ""
    """Of LIKE: the character that escapes."""


@declare_value
class NamedCall(_Node):
    """A function by its name, Spark's own or another."""

    parts: tuple[str, ...]
    operands: tuple[Expression, ...]
    """Its arguments, then the condition of FILTER and what WITHIN GROUP sorts by."""
    filtered: int | None = None
    """Which of these is the condition of FILTER."""


@declare_value
class Cast(_Node):
    """CAST or TRY_CAST."""

    operand: Expression
    type: str
    """As Spark writes it, empty where it is not known."""
    tried: bool

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@declare_value
class Alias(_Node):
    """An expression that gets a name."""

    name: str
    operand: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@declare_value
class Aliases(_Node):
    """A generator whose columns get names."""

    names: tuple[str, ...]
    operand: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)


@declare_value
class Lambda(_Node):
    """A function of variables, as `x -> x + y`; its variables are names within its body."""

    variables: tuple[str, ...]
    body: Expression

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.body,)


@declare_value
class WindowCall(_Node):
    """A function over a window."""

    function: Expression
    keys: tuple[Expression, ...]
    """What the window partitions and sorts by."""
    bounds: tuple[Expression, ...]
    """Of its frame, those that are computed."""

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.function, *self.keys, *self.bounds)


class QueryKind(enum.Enum):
    """What a query is within an expression."""

    EXISTS = "exists"
    IN = "in"
    SCALAR = "scalar"
    TABLE = "table"
    """The argument of a table function."""


@declare_value
class Subquery(_Node):
    """A query within an expression."""

    kind: QueryKind
    relation: RelationNode
    values: tuple[Expression, ...] = ()
    """Of IN: what is looked for."""

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.values

    @property
    def relations(self) -> tuple[RelationNode, ...]:
        return (self.relation,)


@declare_value
class OpaqueExpression(_Node):
    """An expression that is not known."""

    operands: tuple[Expression, ...]
    relations: tuple[RelationNode, ...] = ()
    name: str = ""
    """What its source calls it."""
    complete: bool = False
    """Whether it reads nothing but these."""
    several: bool = False
    """Whether it may be several columns of a select list."""
    place: int | None = None
    """Of a number that stands for a column of what is grouped: which one, from one on."""


Expression = (
    NamedColumn
    | Star
    | Literal
    | Operator
    | NamedCall
    | Cast
    | Alias
    | Aliases
    | Lambda
    | WindowCall
    | Subquery
    | OpaqueExpression
)


# Relations.


@declare_value
class NamedScan(_Node):
    """A relation by its name: a table, a view, or a common table expression."""

    parts: tuple[str, ...]
    inputs: ClassVar[tuple[RelationNode, ...]] = ()
    expressions: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class OneRow(_Node):
    """What a SELECT without FROM reads."""

    inputs: ClassVar[tuple[RelationNode, ...]] = ()
    expressions: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class InlineTable(_Node):
    """Rows that are written out."""

    names: tuple[str, ...]
    expressions: tuple[Expression, ...] = ()
    """Those of all rows."""
    inputs: ClassVar[tuple[RelationNode, ...]] = ()


@declare_value
class TableFunction(_Node):
    """A function whose rows are read; what its columns are called is not known."""

    parts: tuple[str, ...]
    expressions: tuple[Expression, ...] = ()
    inputs: ClassVar[tuple[RelationNode, ...]] = ()


@declare_value
class _OverOne(_Node):
    """A relation made of one other."""

    input: RelationNode

    @property
    def inputs(self) -> tuple[RelationNode, ...]:
        return (self.input,)


@declare_value
class Projection(_OverOne):
    """A select list; one without GROUP BY may still make groups."""

    items: tuple[Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.items


@declare_value
class Aggregate(_OverOne):
    """A select list over groups."""

    keys: tuple[Expression, ...]
    items: tuple[Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*self.keys, *self.items)


class ConditionClause(enum.Enum):
    """Where conditions of rows or groups stand."""

    WHERE = "where"
    HAVING = "having"
    QUALIFY = "qualify"


@declare_value
class Filter(_OverOne):
    """Conditions all of which have to hold."""

    clause: ConditionClause
    conditions: tuple[Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.conditions


class JoinKind(enum.Enum):
    """Which rows of both sides a join has; Spark's names."""

    CROSS = "Cross"
    INNER = "Inner"
    LEFT_OUTER = "LeftOuter"
    RIGHT_OUTER = "RightOuter"
    FULL_OUTER = "FullOuter"
    LEFT_SEMI = "LeftSemi"
    LEFT_ANTI = "LeftAnti"


@declare_value
class Join(_Node):
    """Rows of two relations beside each other."""

    left: RelationNode
    right: RelationNode
    kind: JoinKind
    conditions: tuple[Expression, ...] = ()
    """Of ON: all of them have to hold."""
    using: tuple[str, ...] = ()
    natural: bool = False
    lateral: bool = False
    """Whether the right side sees the columns of the left one."""

    @property
    def inputs(self) -> tuple[RelationNode, ...]:
        return (self.left, self.right)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.conditions


class SetKind(enum.Enum):
    """What is made of the rows of several relations."""

    UNION = "Union"
    EXCEPT = "Except"
    INTERSECT = "Intersect"


@declare_value
class SetOperation(_Node):
    """UNION, EXCEPT or INTERSECT; whether duplicates stay is of no account."""

    kind: SetKind
    inputs: tuple[RelationNode, ...]
    by_name: bool = False
    """Whether columns are those of one name; otherwise those of one place."""
    missing: bool = False
    """Whether one that a side lacks is NULL there."""
    expressions: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class Generate(_OverOne):
    """LATERAL VIEW: what a generator makes of each row, beside the row."""

    generator: Expression
    names: tuple[str, ...]
    """Of its columns; empty where Spark names them."""
    alias: str = ""

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.generator,)


@declare_value
class Pivot(_OverOne):
    """Aggregates for each value of a column, grouped by all columns that are not named in it."""

    column: Expression
    values: tuple[Expression, ...]
    aggregates: tuple[Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.column, *self.values, *self.aggregates)


@declare_value
class Unpivot(_OverOne):
    """Columns that become rows, beside those that are not named in it."""

    variable: str
    """The column that says which of them a row is of."""
    names: tuple[str, ...]
    """The columns that their values are in."""
    values: tuple[tuple[Expression, ...], ...]
    """What becomes one row each."""

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple([one for row in self.values for one in row])


@declare_value
class SubqueryAlias(_OverOne):
    """A relation that gets a name."""

    name: str
    expressions: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class ColumnAliases(_OverOne):
    """A relation whose columns get names, by their places."""

    names: tuple[str, ...]
    expressions: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class WithColumns(_OverOne):
    """The columns of a relation, those of the names of some items replaced; the others are added behind."""

    items: tuple[Alias, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.items


@declare_value
class RenamedColumns(_OverOne):
    """The columns of a relation, some of them under other names; one that is not there is no fault."""

    names: tuple[tuple[str, str], ...]
    """Old and new ones, one after the other."""
    expressions: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class DroppedColumns(_OverOne):
    """The columns of a relation without some; one that is not there is no fault."""

    names: tuple[str, ...]
    columns: tuple[NamedColumn, ...] = ()
    """Those that are dropped by a reference. What is dropped is not read."""
    expressions: ClassVar[tuple[Expression, ...]] = ()


@declare_value
class ChangedColumns(_OverOne):
    """The columns of a relation, all of them, or some, with other values made of their own."""

    changed: tuple[Expression, ...]
    """Those whose values change: references, or a star."""

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.changed


@declare_value
class With(_Node):
    """A query over common table expressions."""

    input: RelationNode
    definitions: tuple[tuple[str, RelationNode], ...]
    recursive: bool = False
    """Whether one may read itself."""
    expressions: ClassVar[tuple[Expression, ...]] = ()

    @property
    def inputs(self) -> tuple[RelationNode, ...]:
        return (self.input, *[one for _, one in self.definitions])


class Passing(enum.Enum):
    """Why a node has the columns of its input."""

    DISTINCT = "distinct"
    FIRST_ROWS = "first rows"
    """One row, whichever, of those that are alike in some columns."""
    HINT = "hint"
    LIMIT = "limit"
    OBSERVED = "observed"
    """Something is computed of its rows beside."""
    PIPE = "pipe"
    REPARTITION = "repartition"
    SAMPLE = "sample"
    SORT = "sort"
    VERSION = "version"
    """A table as it was at another time."""


@declare_value
class Pass(_OverOne):
    """A relation with the columns of its input, in another order or fewer rows."""

    why: Passing
    expressions: tuple[Expression, ...] = ()


@declare_value
class OpaqueRelation(_Node):
    """A relation, or a command, that is not known: which columns it has, and what it does with its inputs."""

    inputs: tuple[RelationNode, ...]
    expressions: tuple[Expression, ...]
    name: str = ""
    """What its source calls it."""
    complete: bool = False
    """Whether it reads nothing but these."""


RelationNode = (
    NamedScan
    | OneRow
    | InlineTable
    | TableFunction
    | Projection
    | Aggregate
    | Filter
    | Join
    | SetOperation
    | Generate
    | Pivot
    | Unpivot
    | SubqueryAlias
    | ColumnAliases
    | WithColumns
    | RenamedColumns
    | DroppedColumns
    | ChangedColumns
    | With
    | Pass
    | OpaqueRelation
)
