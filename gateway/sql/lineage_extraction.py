"""From a statement to its edges: texts are walked, views read through, and what they say is put together.

A text may stand within a plan: as a relation, or as an expression over what the plan has made so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from gateway.algebra.usage import Unclear, is_literal
from gateway.model.catalog import TableName
from gateway.model.lineage import Clause, ColumnVertex, LineageEdge, Operation, StatementLineage
from gateway.model.reading import ColumnRef, RelationRole
from gateway.model.reading import Relation as ReadRelation
from gateway.sql.lineage_changes import trace_changes, trace_replace_where
from gateway.sql.lineage_edges import TargetValue, predicates, projections
from gateway.sql.lineage_pipes import PipedLineageWalk
from gateway.sql.lineage_scope import Attribute, Environment, LineageRelation, RelationRows, RowCondition
from gateway.sql.lineage_sources import LineageCatalog, LineageText, Sources, target_of
from gateway.sql.lineage_text import Text
from gateway.sql.lineage_walk import Budget, SqlLineageWalk
from gateway.sql.lineage_writes import Write, match_target_columns, query_text

Bound = Mapping[str, Callable[[], LineageRelation]]
"""Relations of a plan, by the lower-case names that a text within it has for them."""


class Extraction:
    """The extraction of one statement: its sources, its budget, the walks over texts in it and views."""

    def __init__(self, catalog: LineageCatalog, max_work: int) -> None:
        self.catalog = catalog
        self.budget = Budget(max_work)
        self.sources = Sources(catalog, self._view)
        self.guessed: dict[str, None] = {}

    def statement(
        self, statement: LineageText, writes: Sequence[Write], found: StatementLineage, bound: Bound
    ) -> StatementLineage:
        """Return the lineage of a text that writes; raise Unclear where it cannot be told."""
        text = Text.of(statement.text, statement.reading, statement.columns)
        if found.operation is Operation.MERGE and _evolves(statement):
            text.erase_words("WITH", "SCHEMA", "EVOLUTION")
        walk = self._walk(text, statement, bound)
        made = [self._write(walk, write) for write in writes]
        self._agree(walk, statement)
        return self.lineage(found, made)

    def query(self, text: LineageText, bound: Bound) -> LineageRelation:
        """Return what a text that is a query gives."""
        of = Text.of(text.text, text.reading, text.columns)
        walk = self._walk(of, text, bound)
        relation = walk.query(of.parse(of.piece()), None, {})
        self._agree(walk, text)
        return relation

    def items(self, text: LineageText, place: Environment, bound: Bound) -> LineageRelation:
        """Return what an expression gives that stands by itself in a select list: a star gives many columns.

        Its rows are those of no relation; what decides on a value is with the value.
        """
        walk, select = self._select(text, bound)
        attributes, opens = walk.select_list(select.expressions, place, {})
        self._agree(walk, text)
        return LineageRelation(attributes, RelationRows(), opens)

    def condition(
        self,
        text: LineageText,
        rows: RelationRows,
        clause: Clause,
        place: Environment,
        bound: Bound,
        rejects: Callable[[Attribute], bool] | None,
    ) -> RowCondition:
        """Lay an expression that is a condition on rows."""
        walk, select = self._select(replace(text, columns=()), bound)
        condition = walk.decide(rows, clause, select.expressions[0], place, {}, rejects=rejects)
        self._agree(walk, text)
        return condition

    def _select(self, text: LineageText, bound: Bound) -> tuple[SqlLineageWalk, exp.Select]:
        of = Text.of(text.text, text.reading, text.columns)
        tree = of.parse(f"SELECT {of.piece()}")
        if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
            raise Unclear("sqlglot does not read the text as one expression")
        if any(value for name, value in tree.args.items() if name != "expressions"):
            raise Unclear("sqlglot reads the expression as a query")
        return self._walk(of, text, bound), tree

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

    def _write(self, walk: SqlLineageWalk, write: Write) -> tuple[list[TargetValue], RelationRows]:
        tree = walk.text.parse(query_text(write, walk.text))
        if write.operation in (Operation.UPDATE, Operation.DELETE, Operation.MERGE):
            return trace_changes(walk, tree, write)
        relation = walk.query(tree, None, {})
        if write.replaced is not None:
            trace_replace_where(walk, write.replaced, relation.rows)
        return match_target_columns(write, relation, self.catalog), relation.rows

    def _walk(self, text: Text, of: LineageText, bound: Bound) -> SqlLineageWalk:
        def scan(relation: ReadRelation) -> LineageRelation:
            name = relation.parts[-1].lower()
            if len(relation.parts) == 1 and name in bound and relation.role is RelationRole.SCAN:
                return bound[name]().apply_alias(name)
            if relation.role is RelationRole.TARGET:
                _, table = target_of(relation.parts, of.names, self.catalog)
                if table is not None:
                    return self.sources.table(table)
            return self.sources.scan(relation.parts, of.names)

        written = [tuple(part.lower() for part in column.parts) for column in of.reading.columns]
        return PipedLineageWalk(text, written, scan, self.sources.column, self.budget)

    def _view(self, name: TableName, of: LineageText) -> LineageRelation:
        """Return what the text of a view gives."""
        return self.query(of, {})

    def _agree(self, walk: SqlLineageWalk, of: LineageText) -> None:
        _agree(walk, of)
        self.guessed.update(walk.guessed)

    def _view_edges(self) -> list[LineageEdge]:
        edges = []
        for columns in self.sources.view_columns.values():
            edges += projections(columns, self.sources.vertices)
        return edges


def _evolves(statement: LineageText) -> bool:
    return statement.reading.commands[0].fields.get("withSchemaEvolution") is True


def _agree(walk: SqlLineageWalk, of: LineageText) -> None:
    """Raise Unclear when Spark's parser saw a relation or a column that the walk did not come by."""
    missing = [
        ".".join(relation.parts)
        for name, relation in walk.text.relations.items()
        if relation.role is RelationRole.SCAN and name not in walk.relations
    ]
    if missing:  # RULE (lineage-sees-relations)
        raise Unclear(f"readers disagree: only Spark sees {', '.join(f'`{name}`' for name in missing)}")
    unseen = [
        parts
        for reference in of.reading.columns
        if not reference.star
        and (parts := _parts(reference)) not in walk.references
        and not is_literal(parts)
    ]
    if unseen:  # RULE (lineage-sees-columns)
        listed = ", ".join(f"`{'.'.join(parts)}`" for parts in dict.fromkeys(unseen))
        raise Unclear(f"readers disagree: only Spark sees the columns {listed}")


def _parts(reference: ColumnRef) -> tuple[str, ...]:
    return tuple(part.lower() for part in reference.parts)
