"""What Spark's own parser says of a statement: the only facts that enforcement rests on.

Spans are half-open code-point offsets into the statement's text, that is Python `str` indices.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]

    def move(self, by: int) -> Span:
        """Return the place as it is counted from elsewhere."""
        return Span(self.start + by, self.end + by)


class RelationRole(enum.Enum):
    """What a relation is in its statement."""

    SCAN = "scan"
    TARGET = "target"
    """Written to, created, dropped, altered, described: a name node that is not read as rows."""
    CTE = "cte"
    """A reference to a common table expression in scope; never a catalog object."""


class RelationForm(enum.Enum):
    """How a scan is written; each form is spliced in its own way (docs/adr/0002)."""

    BARE = "bare"
    """`t`: the guarded relation brings its own alias."""
    ALIASED = "aliased"
    """`t AS x`, `t AS x(a, b)`: an alias follows."""
    TABLE_KEYWORD = "table_keyword"
    """`TABLE t` as a query: the keyword is replaced too."""
    TABLE_ARGUMENT = "table_argument"
    """`f(TABLE(t))`: the query goes inside the brackets, without an alias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One mention of a relation. Mentions with one span appear once."""

    parts: tuple[str, ...]
    """Name parts, unquoted, as Spark's plan has them."""
    role: RelationRole
    node: str
    """Simple class name of the plan node, e.g. `UnresolvedRelation`."""
    holder: str
    """Simple class name of the command that holds it, empty within a query."""
    span: Span | None
    """Where the name is written; None when it is not written literally (IDENTIFIER(…), no origin)."""
    form: RelationForm = RelationForm.BARE
    whole: Span | None = None
    """For scans: everything that a guarded relation replaces. Equals `span`, but for TABLE t it starts at
    the keyword, and it takes in a time-travel clause, an options clause and, for a sampled relation with an
    alias, the sample clause and the alias."""
    suffix: Span | None = None
    """Time-travel and options clauses, which move inside the guarded relation."""
    sample: Span | None = None
    """TABLESAMPLE clause with REPEATABLE; stays outside, the alias moves inside."""
    options: tuple[str, ...] = ()
    """Keys of options given in the statement: `t WITH (k = v)`. They can point a relation at other data."""
    alias: Span | None = None
    """Table alias with its column list, without a leading AS; set only when a sample clause precedes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRef:
    """A column reference as written; `star` for `*`, `t.*`: `parts` is then the qualifier."""

    parts: tuple[str, ...]
    span: Span | None
    star: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a function, as far as it can be read without evaluating it."""

    literal: str | None = None
    """The text of a string literal."""
    call: str | None = None
    """The name of the function that computes it."""
    keys: tuple[str, ...] | None = None
    """Of what a function computes: the string literals in every other place, from the first on, as the keys
    of a map are; None where one of them is none."""
    other: str | None = None
    """A literal that is no string, as Spark writes it."""
    parameter: bool = False
    """It is a parameter marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRef:
    """A function that is called by name."""

    parts: tuple[str, ...]
    table_valued: bool
    builtin: bool
    """Whether Spark's built-in registry has a function of that one-part name."""
    arguments: tuple[Argument, ...] = ()
    """Of the functions that take a schema, or the name of a table, as text."""
    start: int | None = field(default=None, compare=False)
    """Where it is called first, in characters; for messages only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCallSite:
    """One call of a function."""

    parts: tuple[str, ...]
    table_valued: bool
    span: Span | None
    """Where the name is written; None when it is not written literally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter marker: `:name` or `?`. Spark writes its argument into the text before it parses it."""

    span: Span | None
    value: bool
    """Whether it stands where an expression may stand, and the plan has it as one."""
    apart: bool
    """Whether what stands beside it cannot become one token with a literal: `-?` with -1 is a comment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A place that asks who the user is."""

    name: str
    """`current_user`, `session_user` or `user`."""
    span: Span | None
    """What a literal would replace; None when it cannot be replaced. With `output` it takes in brackets
    around it."""
    output: bool
    """Whether it is an item of a select list by itself, without an alias: it names a column."""
    bare: bool
    """Written without brackets: a column of that name comes first, wherever there is one."""
    sure: bool
    """False for a bare one whose word stands elsewhere in the text too, where it may name a column."""
    nested: bool
    """Whether the statement has several queries, so that one name can mean different things in it."""
    column: bool = False
    """Whether a bare one is a column for certain: what its clause reads gives that name to one."""


@dataclass(frozen=True, slots=True)
class ExtractedValue:
    """`m['k']`: of a map or of a struct, which Spark shows otherwise."""

    parts: tuple[str, ...]
    key: str


NamePieces = tuple[str | tuple[str, ...] | ExtractedValue, ...]
"""Text, and the parts of references, which stand there as what they mean is called."""


@dataclass(frozen=True, slots=True)
class DatedName:
    """A name where some of what it refers to are dates or timestamps, and the others numbers."""

    where: tuple[tuple[tuple[str, ...], str], ...]
    """References, each with what it is: `number`, `date`, `timestamp`."""
    pieces: NamePieces


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedColumn:
    """What Spark calls the column of an item of a select list that has no alias."""

    span: Span
    """All of the item."""
    pieces: NamePieces
    cast: bool
    """Whether it is a cast of a reference: that of a column has the column's own name."""
    plain: bool
    """Whether it is the name only where all that it refers to are numbers, strings and the like: with dates
    and intervals Spark puts other functions in the place of some operators."""
    dated: tuple[DatedName, ...] = ()
    """What it is called there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewText:
    """Where a statement that makes a view, or changes its text, has that text."""

    query: Span
    """The text that Spark stores."""
    place: Span | None
    """Where properties can be added, None when the statement takes none: the AS before the query, or the
    list of those that it has, with its brackets."""
    properties: tuple[Span, ...] = ()
    """Each property of that list."""


FieldValue = None | bool | int | float | str | tuple["FieldValue", ...] | Mapping[str, "FieldValue"]
"""A field of a plan node. A nested plan is a mapping with `node` (class name) and, for name nodes, `parts`;
a nested query is only `{"node": …, "query": true}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandNode:
    """A plan node that is a command, with its fields as Spark names them."""

    node: str
    fields: Mapping[str, FieldValue]
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionNode:
    """A node of an expression or of a plan, as Spark's parser makes it."""

    node: str
    """Simple class name."""
    type: str = ""
    """Of a literal and of a cast: the type, as Spark writes it."""
    mode: str = ""
    """Of a cast: `TRY` for TRY_CAST; whatever else it is, is up to a setting. Of a WITH: `RECURSIVE`. Of a
    join: its type, `Inner`, and `NaturalInner` of NATURAL. Of a union: `ByName` where columns are those of
    one name. Of LIKE: the character that escapes."""
    parts: tuple[str, ...] = ()
    """Name parts of a column, a function or a relation, unquoted; an alias's name; a star's
    qualifier; the columns of USING and of VALUES; the names of windows, and of a window; the names of the
    common table expressions of a WITH; the alias of a LATERAL VIEW; the names of columns beside an alias; of
    an UNPIVOT the column that says what a row is of, and those of the values."""
    without: tuple[tuple[str, ...], ...] = ()
    """Of a star: the columns that it leaves out."""
    value: str | None = None
    """Of a literal: its value as Spark keeps it (a date in days since 1970), None for NULL. Of an
    aggregation: how many of its children it groups by; the others are its output. Of a function with FILTER:
    how many arguments stand before the condition. Of a PIVOT: how many values it has, which stand behind its
    column. Of a MERGE: how many actions are on matched rows, and how many on rows of its source alone. Of a
    number among the keys of `|> AGGREGATE`: the number."""
    span: Span | None = None
    """Of an expression: where it stands, without brackets around it. Of a relation in a statement: where its
    name is written."""
    children: tuple[ExpressionNode, ...] = ()
    """Of an expression its operands, of a plan's node the expressions in it."""
    plans: tuple[ExpressionNode, ...] = ()
    """Of a subquery its plan, of a plan's node those that it reads; of a WITH its query, then what the names
    stand for."""


def read_tree(told: bytes, base: int = 0) -> ExpressionNode:
    """Return a tree from its JSON, with places that are counted from `base`."""
    return _node(json.loads(told), base)


def _node(told: dict[str, Any], base: int) -> ExpressionNode:
    get, span = told.get, told.get("span")
    return ExpressionNode(
        node=told["node"],
        type=get("type", ""),
        mode=get("mode", ""),
        parts=tuple(get("parts", ())),
        without=tuple(map(tuple, get("without", ()))),
        value=get("value"),
        span=None if span is None else Span(span[0] + base, span[1] + base),
        children=tuple([_node(child, base) for child in get("children", ())]),
        plans=tuple([_node(plan, base) for plan in get("plans", ())]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A statement as Spark's parser reads it. Everything found is listed; what is unknown is refused."""

    root: str
    """Simple class name of the plan's root; not by itself the kind of the statement."""
    nodes: frozenset[str]
    """Simple class names of every logical plan node anywhere in the tree, in expressions and fields too."""
    expressions: frozenset[str]
    """Simple class names of every expression in the tree."""
    relations: tuple[Relation, ...]
    columns: tuple[ColumnRef, ...]
    functions: tuple[FunctionRef, ...]
    commands: tuple[CommandNode, ...]
    """Every command node, the root first."""
    subquery_aliases: frozenset[str]
    """Every table alias and CTE name of the statement, lower case."""
    calls: tuple[FunctionCallSite, ...] = ()
    """Every call of a function, also where `functions` has it once."""
    identifiers: tuple[Span, ...] = ()
    """What stands in the brackets of each IDENTIFIER clause that is left in the text."""
    doubled_quotes: bool = False
    """A string literal follows another one without a blank: to a Spark before 4.1, `'it''s'` is `its`."""
    parameters: tuple[Parameter, ...] = ()
    """Every parameter marker, in the order of the text."""
    printed: str = ""
    """Of a command: the plan as Spark prints it in messages, before it has looked anything up."""
    identities: tuple[Identity, ...] = ()
    """Every place that asks who the user is."""
    tree_json: bytes | None = field(default=None, compare=False, repr=False)
    """The tree, as JSON."""
    brought: bool = False
    """Whether the plan is of a class that came with an extension: a statement that Spark's own grammar does
    not have, or has as another one. There are no columns' spans then, and no forms of scans."""
    view_text: ViewText | None = None
    """Set for CREATE VIEW and ALTER VIEW … AS."""
    written: str | None = None
    """The text with the names written out that it gives as `IDENTIFIER('…')`; None when it gives none. It is
    the same statement, and the one that is read here: spans are of it."""

    @property
    def tree(self) -> ExpressionNode | None:
        """All of the text, made anew each time; None for a very large one."""
        return None if self.tree_json is None else read_tree(self.tree_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPart:
    """A statement, query or condition of a script."""

    kind: str
    """`statement`; `query`, of FOR; `cursor`, the query of one; `condition` and `expression`, each as the
    only item of a SELECT."""
    span: Span
    lead: str
    """What is written in place of the first `cut` characters where the part stands alone."""
    cut: int
    alone: bool
    """Whether the part, standing alone, is what it is in the script."""
    repeats: bool
    """Whether it may run more than once, or after what stands behind it: within a loop or a handler."""
    loops: tuple[int, ...] = ()
    """The queries of the FOR loops that it is in the body of: in there their columns are variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReading:
    """A script (BEGIN … END) as Spark's parser reads it."""

    parts: tuple[ScriptPart, ...]
    skeleton: str
    """All of it but the parts."""
    targets: tuple[tuple[str, ...], ...]
    """The variables that FETCH writes to."""
    strange: tuple[str, ...]
    """What is in it that the reader does not know."""


@dataclass(frozen=True, slots=True)
class NotParsed:
    """Spark's parser rejects the statement; `message` is its own, with the place and the text around it."""

    message: str
    error_class: str
    sqlstate: str
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the message, as Spark Connect tells them."""
    exceptions: tuple[str, ...] = ()
    """The Java class of the exception, and those above it."""

    @property
    def paragraph(self) -> str:
        """What is wrong, without the text that it was found in."""
        told = self.message.strip()
        return told.split("\n== SQL")[0].split("\n\n")[0].strip()


@dataclass(frozen=True, slots=True)
class NotRead:
    """The reader has no reading: too large, too deep, two of them, timed out, or down. It is refused."""

    code: str
    """`TOO_LARGE`, `TOO_DEEP`, `UNSAFE_TEXT`, `TIMEOUT`, `UNAVAILABLE`; `TWO_READINGS` where the parsers of
    Spark's extensions read it otherwise than Spark's own; `PARSER_FAILED` where one of them broke."""
    message: str


ReadingAnswer = Reading | NotParsed | NotRead


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """One replacement in the original text."""

    span: Span
    text: str
    kind: str
    """`guard`: a scan's `whole` span becomes a guarded relation. `pin`: a name's `span` becomes a fully
    qualified name. `column`: a reference's span becomes another reference. `value`: an identity's span
    becomes a string literal. `call`: of a function in SQL becomes the query that it runs, up to its first
    argument, with an `end` behind each. `title`: a column gets an alias. `property`: a view gets a property
    beside its own. `reset`: RESET gets a key. `condition`: that of UPDATE or DELETE becomes a part of
    another."""
    query: str = ""
    """For `guard`: the guarded query by itself, the part of `text` that stands inside its brackets. For
    `value`: the literal, with the column's name when it is an output; the same as `text`."""
    alias: str = ""
    """For `guard` of a BARE scan: the alias that `text` gives it, unquoted."""
    parts: tuple[str, ...] = ()
    """For `pin` and `column`: the new name parts, unquoted. For `property`: key and value. For `reset`: the
    key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether the rewritten text, with its splices undone, is the original plan, relation by relation."""

    holds: bool
    why: str = ""
    not_read: NotRead | None = None
    """Why the reader could not say; then nothing was disproved either."""
