"""What a plan says: the facts that enforcement rests on, each with the message that it was found in.

The messages are live protobuf objects of the plan's own copy: guarding changes them in place. Nothing is left
out: a message, field or case that the table of the walk does not know makes the plan Unsupported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gateway.model.handles import SparkHandle
from gateway.model.spark_minors import NEWEST, Minor
from gateway.wire.connect import Message, pb

ExpressionString = pb.Expression.ExpressionString
StreamStart = pb.WriteStreamOperationStart
"""Messages that the pipeline holds: it takes them from here, and knows no others."""


_SHOWING = frozenset({"html_string", "limit", "offset", "show_string", "tail"})


@dataclass(slots=True, kw_only=True)
class TableRead:
    """A relation that reads a table or view by its name."""

    relation: pb.Relation
    """What holds it, with its `common`."""
    parts: tuple[str, ...]
    """Name parts, unquoted."""
    streaming: bool = False
    options: tuple[tuple[str, str], ...] = ()
    changes: bool = False
    """`relation_changes`: the table's change feed, not its rows."""


@dataclass(slots=True, kw_only=True)
class SqlText:
    """SQL text that Spark parses as a statement: `Relation.sql`."""

    relation: pb.Relation
    """The one whose case is `sql`. A SqlCommand's older text form was rewritten into one."""
    text: str
    arguments: bool
    """Whether it has arguments, so that `:x` and `?` in it are bound. They are walked as expressions."""
    aliases: frozenset[str] = frozenset()
    """Lower case names that the references of an enclosing WithRelations bind for it, as a CTE would."""
    command: bool = False
    """Whether it is the input of a SqlCommand, which Spark answers with a relation."""
    whole: bool = False
    """Whether it is the root of a plan to execute, which Spark answers with rows."""

    @property
    def runs_commands(self) -> bool:
        """Whether commands such as SHOW and INSERT may stand in it, which Spark then runs once."""
        return self.command or self.whole


@dataclass(slots=True, kw_only=True)
class ExpressionText:
    """SQL text that Spark parses as an expression: `Expression.expression_string`."""

    message: ExpressionString
    text: str
    aliases: frozenset[str] = frozenset()


class FunctionCall(NamedTuple):
    """A function called by name: `unresolved_function`, `call_function`, a table-valued function."""

    parts: tuple[str, ...]
    table_valued: bool = False
    internal: bool = False
    """The client marks it as one of Spark's internal functions (`is_internal`)."""
    by_name: bool = False
    """Spark looks the name up as SQL would, and finds no internal functions (`call_function`)."""


class ColumnName(NamedTuple):
    """A reference to columns, as written; for a star `parts` is its qualifier."""

    parts: tuple[str, ...]
    star: bool = False
    metadata: bool = False
    """It asks for a metadata column (`is_metadata_column`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeUse:
    """Code of the user's that Spark would run: policies grant it as `udf` system.session.NAME."""

    name: str
    """The function's name, or, for code without one, a name of docs/threat-model.md: `ml`, `pipelines`, …"""
    access: Literal["execute", "create"]
    what: str
    """In words for the refusal: `a Python function`."""
    handle: SparkHandle | None = None
    """What the session must have registered for the name to mean that code; None for code that the plan
    brings itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleUse:
    """Something of Spark's session by its id."""

    handle: SparkHandle
    run: SparkHandle | None = None
    """Of a streaming query: the handle of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlUse:
    """A path or an address that Spark would read or write."""

    url: str
    access: Literal["read", "write"]


@dataclass(slots=True, kw_only=True)
class CatalogCall:
    """A call of the Catalog API: `Relation.catalog`."""

    relation: pb.Relation
    operation: str
    """Name of the `cat_type` case, such as `list_tables`."""
    root: bool
    """Whether it is the whole plan, or all that it takes rows of. Else its rows could not be filtered."""


_SHAPES = frozenset({"schema", "tree_string", "is_local", "is_streaming"})


@dataclass(slots=True, kw_only=True)
class PlanReading:
    """A plan as the walk reads it."""

    message: pb.Plan | pb.AnalyzePlanRequest
    """Decompressed; guarding changes it."""
    root: str
    """What the record calls the plan: `Project`, `SqlCommand`, `WriteOperation`, `Catalog.ListTables`, …"""
    command: pb.Command | None = None
    """What is executed, when it is one; its case is `command.WhichOneof("command_type")`."""
    minor: Minor = NEWEST
    """Of the Spark that it is for."""
    analysis: str = ""
    """For AnalyzePlanRequest its case: `schema`, `explain`, …"""
    sketches: bool = False
    """Whether a plan is asked for that has neither statistics, which count hidden rows, nor code."""
    tables: list[TableRead] = field(default_factory=list)
    texts: list[SqlText] = field(default_factory=list)
    expressions: list[ExpressionText] = field(default_factory=list)
    functions: list[FunctionCall] = field(default_factory=list)
    named_calls: list[tuple[FunctionCall, pb.CallFunction]] = field(default_factory=list)
    """Those of `functions` that Spark looks up as SQL would, each with its message."""
    columns: list[ColumnName] = field(default_factory=list)
    words: list[pb.Expression.UnresolvedAttribute | pb.Expression.UnresolvedRegex] = field(
        default_factory=list
    )
    """References of one part that mean the user where no column has the name."""
    names: list[str] = field(default_factory=list)
    """Strings that name columns outside of expressions: of drop, fillna, crosstab, …"""
    code: list[CodeUse] = field(default_factory=list)
    handles: list[HandleUse] = field(default_factory=list)
    urls: list[UrlUse] = field(default_factory=list)
    catalog_calls: list[CatalogCall] = field(default_factory=list)
    within: bool = False
    """Whether an expression or a lateral join holds a query."""
    references_plan_ids: bool = False
    """Whether something is asked for by the id of a relation."""
    messages: int = 0
    """How many messages were walked."""
    held: list[Message] = field(default_factory=list)
    """The first of them: protobuf makes an object of one each time it is asked for, if nobody has it."""

    @property
    def named(self) -> frozenset[SparkHandle]:
        """Return everything of Spark's session that it names by an id."""
        found = (handle for use in self.handles for handle in (use.handle, use.run))
        return frozenset(handle for handle in found if handle is not None)

    @property
    def sent_back(self) -> pb.Relation | None:
        """Return the input of a SqlCommand, with which Spark answers a query; None of any other plan."""
        command = self.command
        if command is None or command.WhichOneof("command_type") != "sql_command":
            return None
        return command.sql_command.input

    @property
    def shape(self) -> bool:
        """Whether it asks for nothing but what columns there are, and what kind of rows; or for no rows."""
        if self.shown is None or not isinstance(self.message, pb.Plan):
            return self.analysis in _SHAPES
        relation = self.message.root
        return relation.WhichOneof("rel_type") == "limit" and relation.limit.limit == 0

    @property
    def lazy(self) -> bool:
        """Whether it makes a checkpoint that is computed when others read it."""
        command = self.command
        if command is None or command.WhichOneof("command_type") != "checkpoint_command":
            return False
        return not command.checkpoint_command.eager  # RULE (lazy-checkpoint)

    @property
    def shown(self) -> pb.Relation | None:
        """Return the relation that is the whole plan to execute, but for how many of its rows are shown, and
        how; None for what is no query."""
        return self._show()[0]

    @property
    def showing(self) -> int:
        """Return how many relations around it say that."""
        return self._show()[1]

    def _show(self) -> tuple[pb.Relation | None, int]:
        if self.command is not None or self.analysis or not isinstance(self.message, pb.Plan):
            return None, 0
        relation, count = self.message.root, 0
        while (case := relation.WhichOneof("rel_type")) in _SHOWING:
            relation, count = getattr(relation, case).input, count + 1
        return relation, count


@dataclass(frozen=True, slots=True)
class MalformedPlan:
    """The bytes are not a plan, or one beyond the limits; `why` is for the client."""

    why: str
    code: str = "MALFORMED"
    """`MALFORMED`, `TOO_LARGE`, `TOO_DEEP`."""
