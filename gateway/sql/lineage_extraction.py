"""From a statement to its edges: its relation is resolved, and views are read through.

A text may stand within a plan: as a relation, or as an expression over what the plan has made so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gateway.algebra.lineage import LineageDomain
from gateway.algebra.lineage_expressions import (
    LineageColumns,
    LineageScope,
    rows_of,
)
from gateway.algebra.lineage_values import RelationRows
from gateway.algebra.nodes import (
    Expression,
    NamedScan,
    OpaqueExpression,
    OpaqueRelation,
    RelationNode,
    SetOperation,
    With,
)
from gateway.algebra.resolve import TooMuch
from gateway.algebra.scope import NameScope
from gateway.algebra.spark import relation_of
from gateway.algebra.usage import Parts, Unclear
from gateway.model.lineage import ColumnVertex, LineageEdge, Operation, StatementLineage
from gateway.model.reading import Reading, RelationRole, Span
from gateway.model.reading import Relation as ReadRelation
from gateway.sql.analyse import cte_places
from gateway.sql.functions import AGGREGATES, builtin_name
from gateway.sql.lineage_changes import trace_changes, trace_replace_where
from gateway.sql.lineage_edges import TargetValue, predicates, projections
from gateway.sql.lineage_sources import LineageCatalog, LineageText, Sources, target_of
from gateway.sql.lineage_writes import OVERWRITES, Write, match_target_columns
from gateway.sql.names import Names, TempViewName, Ungovernable
from gateway.sql.second_opinion import names_in_tree

MAX_STEPS = 20_000
"""Queries that are looked at, those of views among them."""

Bound = Mapping[str, Callable[[], LineageColumns]]
"""Relations of a plan, by the lower-case names that a text within it has for them."""

_INSERT = "InsertIntoStatement"
_REPLACE_WHERE = "InsertReplaceWhere"
_COMPUTED_NAMES = frozenset({"PlanWithUnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier"})
"""IDENTIFIER(…) around something else than a literal."""


class Budget:
    """What one statement may cost, its views included."""

    def __init__(self, work: int) -> None:
        self.work = work
        self.steps = MAX_STEPS

    def spend(self, work: int) -> None:
        self.work -= work
        if self.work < 0:
            raise Unclear("the statement has too many dependencies between columns")

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Unclear("the statement has too many subqueries")


def name_in_full(parts: Parts, names: Names) -> Parts:
    """Return what a relation is called in full, lower case."""
    match names.table(parts):
        case TempViewName(name=name):
            return (name.lower(),)
        case Ungovernable():
            return tuple([part.lower() for part in parts])
        case found:
            return found.fold().parts


class FunctionNames:
    """What lineage is told of functions."""

    __slots__ = ()

    def name_function(self, parts: tuple[str, ...]) -> str:
        return builtin_name(parts) or ""

    def is_aggregate(self, name: str) -> bool:
        return name in AGGREGATES


@dataclass(slots=True)
class TextSource(FunctionNames):
    """Where the values of one text come from."""

    of: LineageText
    bound: Bound
    sources: Sources
    budget: Budget
    catalog: LineageCatalog
    relations: dict[Span, ReadRelation] = field(default_factory=dict)
    """What is read or written, by where its name stands."""
    scanned: dict[Span, LineageColumns] = field(default_factory=dict)
    targets: list[NamedScan] = field(default_factory=list)
    """Made here and not by a lowering: the resolver knows relations by their identity."""

    def __post_init__(self) -> None:
        for relation in self.of.reading.relations:
            if relation.role is not RelationRole.CTE and relation.span is not None:
                self.relations[relation.span] = relation

    def full_names(self) -> dict[Span, Parts]:
        """Return what the relations are called in full, lower case."""
        found: dict[Span, Parts] = {}
        for span, relation in self.relations.items():
            if self._find_bound(relation) is None:
                found[span] = name_in_full(relation.parts, self.of.names)
        return found

    def scan(self, scan: NamedScan) -> LineageColumns:
        relation = self.relations.get(scan.span) if scan.span is not None else None
        if relation is None or scan.span is None:
            raise Unclear(f"the relation `{'.'.join(scan.parts)}` is not a literal name")
        found = self.scanned.get(scan.span)
        if found is None:
            found = self.scanned[scan.span] = self._read(relation)
        return found

    def _read(self, relation: ReadRelation) -> LineageColumns:
        bound = self._find_bound(relation)
        if bound is not None:
            return bound()
        if relation.role is RelationRole.TARGET:
            _, table = target_of(relation.parts, self.of.names, self.catalog)
            if table is not None:
                return self.sources.table(table)
        return self.sources.scan(relation.parts, self.of.names)

    def _find_bound(self, relation: ReadRelation) -> Callable[[], LineageColumns] | None:
        if len(relation.parts) > 1 or relation.role is not RelationRole.SCAN:
            return None
        return self.bound.get(relation.parts[0].lower())

    def target(self) -> NamedScan:
        """Return the relation that is written to, of a command whose tree has none."""
        for relation in self.relations.values():
            if relation.role is RelationRole.TARGET:
                self.targets.append(NamedScan(relation.parts, span=relation.span))
                return self.targets[-1]
        raise Unclear("the target of the command was not found")

    def spend(self, work: int) -> None:
        self.budget.spend(work)

    def check_scanned(self) -> None:
        """Raise Unclear where Spark's parser has a relation that its tree has not."""
        missing = [
            ".".join(relation.parts)
            for span, relation in self.relations.items()
            if relation.role is RelationRole.SCAN and span not in self.scanned
        ]
        if missing:  # RULE (lineage-sees-relations)
            listed = ", ".join(f"`{name}`" for name in missing)
            raise Unclear(f"readers disagree: only Spark's reading has {listed}, and its tree has not")


class Extraction:
    """The extraction of one statement: its sources, its budget, the texts in it and views."""

    def __init__(self, catalog: LineageCatalog, max_work: int) -> None:
        self.catalog = catalog
        self.budget = Budget(max_work)
        self.sources = Sources(catalog, lambda text: self.query(text, {}))
        self.guessed: dict[str, None] = {}

    def statement(
        self, statement: LineageText, writes: Sequence[Write], found: StatementLineage, bound: Bound
    ) -> StatementLineage:
        """Return the lineage of a text that writes; raise Unclear where it cannot be told."""
        tree = _tree_of(statement.reading)
        domain, source = self._domain(statement, bound)
        try:
            scope: LineageScope = NameScope()
            root = tree
            while isinstance(root, With):
                scope, root = domain.resolver.within(root, scope), root.input
            commands = list_commands(root)
            if len(commands) != len(writes):
                raise Unclear("the statement has INSERTs that cannot be distinguished")
            made = [
                self._write(domain, source, command, write, scope)
                for command, write in zip(commands, writes, strict=True)
            ]
        except TooMuch:
            raise Unclear("the statement has too many columns") from None
        self._agree(domain, source, tree)
        return self.lineage(found, made)

    def query(self, text: LineageText, bound: Bound) -> LineageColumns:
        """Return what a text that is a query gives."""
        self.budget.step()
        tree = _tree_of(text.reading)
        domain, source = self._domain(text, bound)
        try:
            columns = domain.relation(tree)
        except TooMuch:
            raise Unclear("a query has too many columns") from None
        self._agree(domain, source, tree)
        return columns

    def lineage(
        self, found: StatementLineage, made: Sequence[tuple[list[TargetValue], RelationRows]]
    ) -> StatementLineage:
        """Return lineage with the edges to what each write makes."""
        columns: list[ColumnVertex] = []
        edges: list[LineageEdge] = []
        deciding: list[LineageEdge] = []
        for targets, rows in made:
            columns += (vertex for vertex, _ in targets)
            edges += projections(targets, self.sources.vertices)
            deciding += predicates(targets, rows, self.sources.vertices)
        return replace(
            found,
            columns=tuple(dict.fromkeys(columns)),
            edges=(*edges, *deciding),
            view_edges=tuple(self._view_edges()),
            unread=tuple(self.sources.unread.items()),
            guessed=tuple(self.guessed),
        )

    def _write(
        self,
        domain: LineageDomain,
        source: TextSource,
        command: RelationNode,
        write: Write,
        scope: LineageScope,
    ) -> tuple[list[TargetValue], RelationRows]:
        if write.operation in (Operation.UPDATE, Operation.DELETE, Operation.MERGE):
            return trace_changes(domain, command, write, scope)
        query = command if write.operation is Operation.QUERY else query_of(command)
        columns = domain.relation(query, scope)
        rows = rows_of(columns)
        replaced = find_replaced(command) if query is not command else ()
        if replaced:
            rows = trace_replace_where(domain, source.target(), replaced, rows, scope)
        return match_target_columns(write, columns, self.catalog), rows

    def open_text(self, of: LineageText, bound: Bound) -> TextSource:
        """Return where the values of a text come from."""
        if not _COMPUTED_NAMES.isdisjoint(of.reading.nodes | of.reading.expressions):
            raise Unclear("a name is not literal")
        return TextSource(of, bound, self.sources, self.budget, self.catalog)

    def _domain(self, of: LineageText, bound: Bound) -> tuple[LineageDomain, TextSource]:
        source = self.open_text(of, bound)
        domain = LineageDomain(
            source, of.text, cte_places(of.reading), of.columns, source.full_names(), self.guessed
        )
        return domain, source

    def _agree(self, domain: LineageDomain, source: TextSource, tree: RelationNode) -> None:
        """Raise Unclear where Spark's parser has a relation or a column that was not come by."""
        self.agree(source, tree)
        domain.check_seen(tree)

    def agree(self, source: TextSource, tree: RelationNode) -> None:
        """Raise Unclear where Spark's parser has a relation or a column that the tree has not."""
        source.check_scanned()
        seen = names_in_tree(tree, ()).columns
        named = {
            tuple([part.lower() for part in one.parts]) for one in source.of.reading.columns if not one.star
        }
        unseen = named - seen
        if unseen:  # RULE (lineage-sees-columns)
            listed = ", ".join(f"`{'.'.join(parts)}`" for parts in sorted(unseen))
            raise Unclear(f"readers disagree: only Spark's reading has {listed}, and its tree has not")

    def _view_edges(self) -> list[LineageEdge]:
        edges = []
        for columns in self.sources.view_columns.values():
            edges += projections(columns, self.sources.vertices)
        return edges


def _tree_of(reading: Reading) -> RelationNode:
    tree = relation_of(reading)
    if tree is None:
        raise Unclear("the statement is too large for column lineage")
    return tree


def list_commands(root: RelationNode) -> Sequence[RelationNode]:
    """Return the commands of a statement: several INSERTs read one relation."""
    if isinstance(root, SetOperation) and all(
        isinstance(one, OpaqueRelation) and one.name == _INSERT for one in root.inputs
    ):
        return root.inputs
    return (root,)


def find_replaced(command: RelationNode) -> Sequence[Expression]:
    """Return the condition of `INSERT INTO t REPLACE WHERE`, a command of its own to older Sparks."""
    if isinstance(command, OpaqueRelation) and command.name == OVERWRITES:
        return command.expressions
    for one in command.expressions:
        if isinstance(one, OpaqueExpression) and one.name == _REPLACE_WHERE:
            return one.operands
    return ()


def query_of(command: RelationNode) -> RelationNode:
    """Return the query of a command."""
    queries = [
        one
        for one in command.inputs
        if not (isinstance(one, OpaqueRelation) and one.name == "UnresolvedIdentifier")
    ]
    if not isinstance(command, OpaqueRelation) or not queries:
        raise Unclear("the query of the command was not found")
    return queries[-1]
