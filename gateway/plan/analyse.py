"""Column usage of plans: which columns of which table a DataFrame uses, counted as for the same SQL.

The plan is lowered to the algebra and goes through the same domain as SQL does (`gateway.algebra.usage`),
with the SQL texts within it. A DataFrame says `SELECT *` all the time without meaning it:
`spark.table("t").select("a")` asks what `SELECT a FROM t` asks. So what an operation only passes on is shown
no earlier than at the end, or where an operation works on all columns.

It is silent about what it is not sure of, never raises, and its time is linear in the size of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.algebra.nodes import (
    Expression,
    Filter,
    Join,
    JoinKind,
    NamedColumn,
    NamedScan,
    OpaqueRelation,
    Projection,
    RelationNode,
    SetKind,
    SetOperation,
    Star,
    Subquery,
)
from gateway.algebra.resolve import TooMuch
from gateway.algebra.scope import (
    FoundName,
    NameAnswer,
    NameScope,
    OpenName,
    RelationColumn,
    RelationColumns,
    UnknownName,
)
from gateway.algebra.usage import (
    DECISIONS,
    Parts,
    StoredTable,
    Unclear,
    UsageDecisions,
    UsageDomain,
    UsedValue,
    list_stored_columns,
)
from gateway.algebra.walking import list_hiding, names_in, nodes_of, queries_in
from gateway.model.catalog import TableName
from gateway.model.reading import Reading, Span
from gateway.plan.lowering import PlanLowering, PlanSources
from gateway.plan.lowering_expressions import PlanNotes, UnreadablePlan
from gateway.plan.plan_tree import PlanTree
from gateway.plan.reading import PlanReading
from gateway.sql.analyse import (
    ScannedTable,
    Silent,
    Usage,
    cte_places,
    has_stars,
    map_stored_tables,
    may_be_many,
    read_agreed,
    read_agreed_expression,
    usage_of_findings,
)
from gateway.sql.identity import IDENTITIES
from gateway.wire.connect import Message, pb

MAX_STEPS: Final = 1_200_000
"""Columns and expressions that are looked at over a whole plan: 1,000 operations on a table of 400 columns
need a third of it. Beyond it, silence."""
_PLACES_OF_A_TEXT: Final = 1 << 24
"""Places in a text are counted from a multiple of it, so that each stands for one relation of the plan. No
text that a reader takes is as long."""

_COMMANDS: Mapping[str, str] = {
    "sql_command": "input",
    "write_operation": "input",
    "write_operation_v2": "input",
    "create_dataframe_view": "input",
    "write_stream_operation_start": "input",
    "checkpoint_command": "relation",
}
"""Commands that read a relation as a query does, and where it is."""
_ANALYSES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("schema", "explain", "tree_string", "is_local", "is_streaming", "input_files", "semantic_hash"),
        ("plan",),
    ),
    "same_semantics": ("target_plan", "other_plan"),
    **dict.fromkeys(("persist", "unpersist", "get_storage_level"), ("relation",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextUse:
    """A text within a plan, an SQL statement or an expression, as Spark's parser reads it."""

    text: str
    reading: Reading
    scans: Sequence[ScannedTable] = ()
    """The relations that it reads, those of the plan that it names among them."""


@dataclass(slots=True)
class WordMeanings:
    """What column analysis finds out of a plan besides: what words without brackets mean that are a column or
    ask who the user is, and what the plan is as a relation."""

    meanings: dict[tuple[int, str], set[bool | None]] = field(default_factory=dict)
    """By the identity of the message and the word: whether it is the function; None: not certain."""
    not_columns: set[str] = field(default_factory=set)
    """Names, lower case, that stand where only a column of the relation is meant, and it has none."""
    shown: PlanTree | None = None
    """What `PlanReading.shown` is, its reads at the places of their positions; None where it is not known."""


def analyse_plan(
    reading: PlanReading,
    tables: Mapping[int, ScannedTable],
    texts: Mapping[int, TextUse] | None = None,
    expressions: Mapping[int, TextUse] | None = None,
    words: WordMeanings | None = None,
) -> Usage | Silent:
    """Say which columns of its tables a plan uses, those of the SQL texts within it included.

    `tables` has for each position in `reading.tables` what is read there, with `name=None` for a temporary
    view; `texts` and `expressions` have what is known of the text at a position of `reading.texts` and
    `reading.expressions`. To be called before the plan is guarded. `words`: what words mean is noted there.
    """
    plan: _Sources | None = None
    sought: Parts = ()
    try:
        plan = _Sources(reading, tables, texts or {}, expressions or {})
        return plan.usage(words or WordMeanings())
    except (Unclear, UnreadablePlan) as unclear:
        why = str(unclear)
        sought = unclear.sought if isinstance(unclear, Unclear) else ()
    except TooMuch:
        why = "the plan has too many columns for column analysis"
    except RecursionError:
        why = "the plan is nested too deep for column analysis"
    within = (use.reading for use in (expressions or {}).values())
    stars = not sought and (any(one.star for one in reading.columns) or has_stars(*within))
    # RULE (schema-names-hidden)
    return Silent(why, stars=stars or (plan is not None and plan.by_schema))


class _Sources:
    """What a plan reads, as relations of the algebra."""

    def __init__(
        self,
        reading: PlanReading,
        tables: Mapping[int, ScannedTable],
        texts: Mapping[int, TextUse],
        expressions: Mapping[int, TextUse],
    ) -> None:
        self.reading = reading
        self.stored: dict[Span, StoredTable] = {}
        self.ctes: set[Span] = set()
        self.reads: dict[int, RelationNode] = {}
        self.texts: dict[int, Expression] = {}
        self.bound: dict[int, frozenset[str]] = {}
        self.tables: set[TableName] = set()
        self.of_texts: set[int] = set()
        self.by_schema = False
        for at, table in tables.items():
            self._read(at, table)
        for at, use in texts.items():
            text, base = reading.texts[at], _PLACES_OF_A_TEXT * (1 + at)
            self.bound[id(text.relation)] = self._place(use, text.aliases, base)
            tree = self.reads[id(text.relation)] = read_agreed(use.text, use.reading, base)
            self.of_texts.update(map(id, nodes_of(tree)))
        for at, use in expressions.items():
            one, base = reading.expressions[at], _PLACES_OF_A_TEXT * (1 + len(texts) + at)
            self._place(use, one.aliases, base)
            made = self.texts[id(one.message)] = read_agreed_expression(use.text, use.reading, base)
            self.of_texts.update(id(node) for query in queries_in(made) for node in nodes_of(query))

    def _read(self, at: int, table: ScannedTable) -> None:
        read, span = self.reading.tables[at], Span(at, at + 1)
        node: RelationNode = NamedScan(tuple(table.parts), span=span)
        if read.changes:  # the table's columns, and what tells of the change
            node = Join(node, OpaqueRelation((), (), complete=True), JoinKind.CROSS)
        self.reads[id(read.relation)] = node
        self.stored[span] = table.build_stored_table(table.name)
        if table.name is not None:
            self.tables.add(table.name)

    def _store(self, tables: Sequence[ScannedTable]) -> None:
        self.stored.update(map_stored_tables(tables))
        self.tables.update(one.name for one in tables if one.name is not None)

    def _place(self, use: TextUse, aliases: frozenset[str], base: int) -> frozenset[str]:
        """Note what a text reads, at places that no other text of the plan has; return the relations of the
        plan, by their names, that it reads."""
        self.ctes.update(span.move(base) for span in cte_places(use.reading))
        named = [one for one in use.scans if len(one.parts) == 1 and one.parts[0].lower() in aliases]
        self.ctes.update(one.span.move(base) for one in named if one.span is not None)
        stored = [replace(one, span=one.span.move(base)) for one in use.scans if one.span is not None]
        self._store([one for one in stored if one.span not in self.ctes])
        return frozenset(one.parts[0].lower() for one in named)

    # The whole plan.

    def usage(self, words: WordMeanings) -> Usage:
        lowering = PlanLowering(PlanSources(reads=self.reads, expressions=self.texts, bound=self.bound))
        trees, notes = [lowering.relation(one) for one in self._roots()], lowering.notes
        self.by_schema = notes.by_schema
        if self.reading.shown is not None:
            words.shown = PlanTree(_strip_showing(trees[0], self.reading.showing), notes)
        domain = _PlanUsageDomain(
            self.stored, frozenset(self.ctes), many=may_be_many, of_texts=frozenset(self.of_texts)
        )
        domain.resolver.by_plan = notes.plan_ids
        domain.resolver.max_steps = MAX_STEPS
        try:
            for tree in trees:
                domain.statement(tree)
        finally:
            _note_meanings(words, notes, domain)
        if not self.stored:
            raise Unclear("nothing is read")
        return usage_of_findings(domain.found, self.tables)  # RULE (usage-passed-on)

    def _roots(self) -> list[pb.Relation]:
        reading = self.reading
        if isinstance(reading.message, pb.AnalyzePlanRequest):
            if reading.analysis not in _ANALYSES:
                raise Unclear("nothing is read")
            analysis = getattr(reading.message, reading.analysis)
            found = [getattr(analysis, name) for name in _ANALYSES[reading.analysis]]
            return [item.root if _is_plan(item) else item for item in found]
        if reading.command is None:
            return [reading.message.root]
        case = reading.command.WhichOneof("command_type") or ""
        if case not in _COMMANDS:
            raise Unclear(f"column analysis does not support {case}")
        return [getattr(getattr(reading.command, case), _COMMANDS[case])]


_Columns = RelationColumns[UsedValue]
_Scope = NameScope[UsedValue]


@dataclass(slots=True)
class _PlanUsageDomain(UsageDomain):
    """Column usage where operations pass columns on without showing them, and Spark pulls some up."""

    words: dict[int, set[bool | None]] = field(default_factory=dict)
    """What words that may ask who the user is mean, by the identity of what refers to them."""
    of_texts: frozenset[int] = frozenset()
    """The identities of the relations that stand in SQL texts."""
    current: RelationNode | None = None
    """The relation whose expressions are looked at."""

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, UsedValue]] | None:
        table = self.scanned.get(scan.span) if scan.span is not None else None
        found = UsageDomain.scan(self, scan)
        if table is None or table.name is None or found is None:
            return found
        if not table.guessed:
            return found
        # A word is looked for as a column first here, too, and is no function's syntax.
        guessed = tuple(sorted(table.guessed))
        return list_stored_columns(table.name, tuple(table.columns), guessed, table.fieldless)

    def column(self, column: NamedColumn, answer: NameAnswer[UsedValue], scope: _Scope) -> UsedValue:
        if len(column.parts) == 1 and column.parts[0].lower() in IDENTITIES:
            self.words.setdefault(id(column), set()).add(self._means_function(column, answer, scope))
        if column.plan_id is not None and not self.resolver.by_plan.get(column.plan_id):
            raise Unclear("a column refers to a relation that is not in the plan")
        return UsageDomain.column(self, column, answer, scope)

    def query(self, query: Subquery, scope: _Scope) -> UsedValue:
        current = self.current
        value = UsageDomain.query(self, query, scope)
        self.current = current
        return value

    def decide(self, relation: RelationNode, inputs: Sequence[_Columns], scope: _Scope) -> Sequence[_Columns]:
        self.current = relation
        return _DECISIONS[type(relation)](self, relation, inputs, scope)

    def _filter(self, relation: Filter, inputs: Sequence[_Columns], scope: _Scope) -> Sequence[_Columns]:
        if self._is_in_text():
            return UsageDomain._filter(self, relation, inputs, scope)
        with self.within_condition():
            self._of_shown(relation.conditions, relation.input, inputs[0], scope)
        return inputs

    def _of_shown(
        self, expressions: Iterable[Expression], relation: RelationNode, shown: _Columns, scope: _Scope
    ) -> None:
        """Note what conditions and sort keys are on: what the relation shows, and what it has left out, which
        Spark pulls up. Whether that or a query around is meant is not relied on."""
        if self._is_in_text():  # RULE (plan-text-as-sql)
            UsageDomain._of_shown(self, expressions, relation, shown, scope)
            return
        here = scope.over(shown)
        for one in expressions:
            missing = [
                parts
                for parts in names_in(one)
                if not shown.find_columns(parts) and not _is_here(here.resolve(parts))
            ]
            if not missing:
                self._compute((one,), here)
                continue
            hidden = [self.resolver.relation(below, scope) for below in list_hiding(relation)]
            self._compute((one,), scope.over(shown, *hidden))
            for parts in missing:
                around = scope.resolve(parts)
                if isinstance(around, FoundName):
                    self.found.mark(around.attribute.value.origins, plain=False)

    def _note_star(self, star: Star, shown: Sequence[RelationColumn[UsedValue]], scope: _Scope) -> None:
        tiers = self.resolver.tiers(star, scope)
        if star.plan_id is not None and len(tiers) != 1:
            raise Unclear("a star of a relation that is not the only one of its id")
        if star.pattern is None:
            UsageDomain._note_star(self, star, shown, scope)
            return
        if any(tier.open for tier in tiers):
            raise Unclear("a pattern of columns")
        for one in shown:
            self.found.used |= one.value.origins
        if not star.pattern.isidentifier():  # RULE (column-pattern-expression)
            self._note_places(tiers)

    def _note_places(self, relations: Iterable[_Columns]) -> None:
        """Note that columns are meant by their places, or by a pattern: one more would change which."""
        tables = {one.value.table for below in relations for one in below.columns}
        self.found.stars |= {table for table in tables if table is not None}

    def _is_in_text(self) -> bool:
        """Whether the current relation stands in a SQL text, where it is what it is in SQL."""
        return id(self.current) in self.of_texts

    def _set(self, relation: SetOperation, inputs: Sequence[_Columns], scope: _Scope) -> Sequence[_Columns]:
        if self._is_in_text():
            return UsageDomain._set(self, relation, inputs, scope)
        shown = [[one for one in side.columns if one.bare] for side in inputs]
        if any(side.uncounted for side in inputs):
            raise Unclear("the columns of a set operation cannot be matched")
        if relation.kind is not SetKind.UNION:
            for side in inputs:  # rows are compared
                self.show(side.columns)
                self.compute_with(side.columns)
        if not relation.by_name:
            self._note_places(inputs)  # RULE (union-by-place)
            if len({len(columns) for columns in shown}) != 1:
                raise Unclear("the columns of a set operation cannot be matched")
            return inputs
        first, *others = [[one.name for one in columns] for columns in shown]
        for names in others:
            found = [names.count(name) for name in first]
            if any(count != 1 and not (relation.missing and not count) for count in found):
                raise Unclear("the columns of a set operation cannot be matched")
        return inputs

    # Words.

    def _means_function(
        self, column: NamedColumn, answer: NameAnswer[UsedValue], scope: _Scope
    ) -> bool | None:
        """Whether a word is the function; None: it is not certain.

        Spark looks for a column of the relation itself first, then for the function, and only then further
        down, in the query around, and among the columns that are being named.
        """
        if column.plan_id is not None and not isinstance(answer, OpenName):
            return isinstance(answer, UnknownName)
        if any(tier.find_columns(column.parts) for tier in (scope.levels[0][:1] if scope.levels else ())):
            return False
        if not isinstance(answer, UnknownName):
            return None
        for below in self._list_below():
            if below.open or below.find_columns(column.parts):
                return None
        return True

    def _list_below(self) -> Iterator[_Columns]:
        """Yield what the current relation is made of, further down."""
        for one in () if self.current is None else self.current.inputs:
            for below in list_hiding(one):
                yield self.resolver.relation(below, NameScope())


_DECISIONS: Final[UsageDecisions] = {
    **DECISIONS,
    Filter: _PlanUsageDomain._filter,
    SetOperation: _PlanUsageDomain._set,
}


def _strip_showing(tree: RelationNode, count: int) -> RelationNode:
    """Return what some relations show that say how many rows are shown, and how."""
    for _ in range(count):
        (tree,) = tree.inputs
    return tree


def _is_here(answer: NameAnswer[UsedValue]) -> bool:
    """Whether a name is of the relation itself."""
    return not isinstance(answer, UnknownName) and getattr(answer, "depth", 0) == 0


def _note_meanings(words: WordMeanings, notes: PlanNotes, domain: _PlanUsageDomain) -> None:
    for message, column in notes.words.items():
        found: set[bool | None] = (
            {False} if id(column) in notes.strings else domain.words.get(id(column), set())
        )
        words.meanings[message, column.parts[0].lower()] = found
    for message, text in notes.texts.items():
        for node in nodes_of(Projection(OpaqueRelation((), ()), (text,))):
            if isinstance(node, NamedColumn) and len(node.parts) == 1:
                found = domain.words.get(id(node), set())
                words.meanings.setdefault((message, node.parts[0].lower()), set()).update(found)
    for identity, column in notes.strings.items():
        if domain.words.get(identity, {False}) != {False}:
            words.not_columns.add(column.parts[0].lower())


def _is_plan(message: Message) -> bool:
    return bool(message.DESCRIPTOR.name == "Plan")
