"""`lineage_of`: a statement and what its names stand for in, its column lineage out. Never raises.

Spark's reading says what the statement is, what it writes and which relations it reads; sqlglot's tree says
how columns flow between them. Where sqlglot cannot parse a statement, or sees other relations or columns than
Spark, there are no edges between columns and `table_level` says why.

It takes as long as the statement is large. Whoever runs it gives it a process and a deadline.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.model.catalog import TableName
from gateway.model.lineage import ColumnVertex, LineageEdge, Operation, StatementLineage
from gateway.model.reading import ColumnRef, RelationRole
from gateway.model.reading import Relation as ReadRelation
from gateway.sql.analyse_scope import LITERAL_FUNCTIONS, Unclear
from gateway.sql.lineage_changes import changed
from gateway.sql.lineage_edges import Target, predicates, projections
from gateway.sql.lineage_scope import MAX_WORK, Relation, Rows
from gateway.sql.lineage_sources import LineageCatalog, LineageText, Sources, read_datasets, target_of
from gateway.sql.lineage_text import Text
from gateway.sql.lineage_walk import Budget, Walk
from gateway.sql.lineage_writes import Write, matched, query_text, writes_of

__all__ = ["LineageCatalog", "LineageText", "lineage_of", "table_lineage"]


def lineage_of(
    statement: LineageText, catalog: LineageCatalog, *, max_work: int = MAX_WORK
) -> StatementLineage | None:
    """Return the lineage of a statement; None for one that neither moves rows nor shows any.

    `catalog` has what the statement reads, what views read, and what it writes. `max_work` bounds how many
    dependencies between columns are followed; above it the lineage is table-level.
    """
    try:
        writes = writes_of(statement, catalog)
    except Unclear as unclear:
        return table_lineage(statement, catalog, unclear.why)
    found = _of_tables(statement, catalog, writes)
    if found is None:
        return None
    try:
        return _Extraction(statement, catalog, max_work).of(writes, found)
    except Unclear as unclear:
        why = unclear.why
    except RecursionError:
        why = "the statement is nested too deeply"
    return replace(found, table_level=why)


def table_lineage(statement: LineageText, catalog: LineageCatalog, why: str) -> StatementLineage | None:
    """Return which tables a statement reads and writes, by Spark's reading alone; `why` no more is known."""
    try:
        writes = writes_of(statement, catalog)
    except Unclear as unclear:
        inputs, _ = read_datasets(statement, catalog)
        return StatementLineage(
            operation=Operation.INSERT, targets=(), inputs=tuple(inputs), table_level=unclear.why
        )
    found = _of_tables(statement, catalog, writes)
    return None if found is None else replace(found, table_level=why)


def _of_tables(
    statement: LineageText, catalog: LineageCatalog, writes: list[Write]
) -> StatementLineage | None:
    if not writes:
        return None
    inputs, views = read_datasets(statement, catalog)
    return StatementLineage(
        operation=writes[0].operation,
        targets=tuple(dict.fromkeys(write.dataset for write in writes)),
        inputs=tuple(inputs),
        views=tuple(views),
    )


class _Extraction:
    """The extraction of one statement: its sources, its budget, the walks over its text and its views."""

    def __init__(self, statement: LineageText, catalog: LineageCatalog, max_work: int) -> None:
        self.statement = statement
        self.catalog = catalog
        self.budget = Budget(max_work)
        self.sources = Sources(catalog, self._view)
        self.guessed: dict[str, None] = {}

    def of(self, writes: list[Write], found: StatementLineage) -> StatementLineage:
        text = Text.of(self.statement.text, self.statement.reading)
        if found.operation is Operation.MERGE and self._evolves():
            text.erase_words("WITH", "SCHEMA", "EVOLUTION")
        walk = self._walk(text, self.statement)
        columns: list[ColumnVertex] = []
        edges: list[LineageEdge] = []
        deciding: list[LineageEdge] = []
        for write in writes:
            targets, rows = self._write(walk, write)
            columns += (vertex for vertex, _ in targets)
            edges += projections(targets, self.sources.vertices)
            deciding += predicates(targets, rows, self.sources.vertices)
        _agree(walk, self.statement)
        self.guessed.update(walk.guessed)
        return replace(
            found,
            columns=tuple(dict.fromkeys(columns)),
            edges=(*edges, *deciding),
            view_edges=tuple(self._view_edges()),
            unread=tuple(self.sources.unread.items()),
            guessed=tuple(self.guessed),
        )

    def _evolves(self) -> bool:
        return self.statement.reading.commands[0].fields.get("withSchemaEvolution") is True

    def _write(self, walk: Walk, write: Write) -> tuple[list[Target], Rows]:
        tree = walk.text.parse(query_text(write, walk.text))
        if write.operation in (Operation.UPDATE, Operation.DELETE, Operation.MERGE):
            return changed(walk, tree, write)
        relation = walk.query(tree, None, {})
        return matched(write, relation, self.catalog), relation.rows

    def _walk(self, text: Text, of: LineageText) -> Walk:
        def scan(relation: ReadRelation) -> Relation:
            if relation.role is RelationRole.TARGET:
                _, table = target_of(relation, of.names, self.catalog)
                if table is not None:
                    return self.sources.table(table)
            return self.sources.scan(relation.parts, of.names)

        written = [tuple(part.lower() for part in column.parts) for column in of.reading.columns]
        return Walk(text, written, scan, self.sources.column, self.budget)

    def _view(self, name: TableName, of: LineageText) -> Relation:
        """Return what the text of a view gives."""
        text = Text.of(of.text, of.reading)
        walk = self._walk(text, of)
        relation = walk.query(text.parse(text.piece()), None, {})
        _agree(walk, of)
        self.guessed.update(walk.guessed)
        return relation

    def _view_edges(self) -> list[LineageEdge]:
        edges = []
        for columns in self.sources.view_columns.values():
            edges += projections(columns, self.sources.vertices)
        return edges


def _agree(walk: Walk, of: LineageText) -> None:
    """Raise Unclear when Spark's parser saw a relation or a column that the walk did not come by."""
    missing = [
        ".".join(relation.parts)
        for name, relation in walk.text.relations.items()
        if relation.role is RelationRole.SCAN and name not in walk.relations
    ]
    if missing:
        raise Unclear(f"readers disagree: only Spark sees {', '.join(f'`{name}`' for name in missing)}")
    unseen = [
        parts
        for reference in of.reading.columns
        if not reference.star and (parts := _parts(reference)) not in walk.references and not _is_word(parts)
    ]
    if unseen:
        listed = ", ".join(f"`{'.'.join(parts)}`" for parts in dict.fromkeys(unseen))
        raise Unclear(f"readers disagree: only Spark sees the columns {listed}")


def _parts(reference: ColumnRef) -> tuple[str, ...]:
    return tuple(part.lower() for part in reference.parts)


def _is_word(parts: tuple[str, ...]) -> bool:
    return len(parts) == 1 and parts[0] in LITERAL_FUNCTIONS
