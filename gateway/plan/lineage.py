"""`plan_lineage`: a Connect plan and what its names stand for in, its column lineage out. Never raises.

The plan is the one that the client sent, in its words; SQL within it is walked as `sql/lineage.py` does. What
is not understood has no edges between columns, and `table_level` says why.

It takes as long as the plan is large. Whoever runs it gives it a process and a deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gateway.model.catalog import TableName
from gateway.model.lineage import Clause, Dataset, DatasetKind, Operation, StatementLineage
from gateway.model.statement import PlanRequest
from gateway.plan.lineage_expressions import Texts
from gateway.plan.lineage_merges import merged_into
from gateway.plan.lineage_walk import NOT_FOLLOWED, PlanLineageWalk
from gateway.plan.lineage_writes import QUERY, PlanWrite, write_of
from gateway.plan.reading import PlanReading
from gateway.plan.walk import read_plan
from gateway.sql.analyse_scope import Parts, Unclear
from gateway.sql.lineage_edges import Target
from gateway.sql.lineage_extraction import Extraction
from gateway.sql.lineage_scope import MAX_WORK, Environment, Frame, RelationRows
from gateway.sql.lineage_sources import LineageCatalog, LineageText, read_datasets, scans_of
from gateway.sql.lineage_writes import Write, matched, writes_of
from gateway.sql.names import Names
from gateway.wire.connect import pb

__all__ = ["LineagePlan", "plan_lineage", "plan_table_lineage", "table_written"]

_RELATION = "relation:"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineagePlan:
    """A plan, Spark's readings of the SQL within it, and what names mean in its session."""

    request: PlanRequest
    names: Names
    statements: tuple[LineageText | None, ...] = ()
    """Of each SQL text in `PlanReading.texts`, None where Spark's parser does not read it."""
    expressions: tuple[LineageText | None, ...] = ()
    """Of each expression in `PlanReading.expressions`."""
    kept: Mapping[str, StatementLineage] = field(default_factory=dict)
    """Lineage of the plans that made relations that Spark keeps, by their ids."""


def plan_lineage(
    plan: LineagePlan, catalog: LineageCatalog, *, max_work: int = MAX_WORK
) -> StatementLineage | None:
    """Return the lineage of a plan; None for one that neither moves rows nor shows any, and for bytes that
    are no plan.

    `catalog` has what the plan and the SQL within it read, what views read, and what is written. `max_work`
    bounds how many dependencies between columns are followed; above it the lineage is table-level.
    """
    opened = _Opened.of(plan, catalog)
    if opened is None:
        return None
    try:
        return opened.lineage(max_work)
    except Unclear as unclear:
        why = unclear.why
    except RecursionError:
        why = "the plan is nested too deeply"
    return replace(opened.found, table_level=why)


def plan_table_lineage(plan: LineagePlan, catalog: LineageCatalog, why: str) -> StatementLineage | None:
    """Return which tables a plan reads and writes; `why` no more is known."""
    opened = _Opened.of(plan, catalog)
    return None if opened is None else replace(opened.found, table_level=why)


def table_written(reading: PlanReading, names: Names) -> TableName | None:
    """Return the table that is there already and that a plan's command writes to, SQL aside."""
    found = None if reading.command is None else write_of(reading.command, names, LineageCatalog())
    return found.write.table if found is not None else None


@dataclass(slots=True)
class _Opened:
    """A plan that has lineage, as far as tables go."""

    plan: LineagePlan
    catalog: LineageCatalog
    reading: PlanReading
    writes: list[Write]
    target: PlanWrite | None
    """None for an SQL command."""
    found: StatementLineage

    @classmethod
    def of(cls, plan: LineagePlan, catalog: LineageCatalog) -> _Opened | None:
        if plan.request.kind != "execute":
            return None
        reading = read_plan(plan.request)
        if not isinstance(reading, PlanReading):
            return None
        why = ""
        target: PlanWrite | None = None
        writes: list[Write] = []
        if reading.command is None:
            root = _root(reading)
            if root.WhichOneof("rel_type") in NOT_FOLLOWED - {"ml_relation"}:
                return None
            target = PlanWrite(write=QUERY, relation=root)
        elif reading.command.WhichOneof("command_type") == "sql_command":
            text = _commanding(reading, plan)
            if text is None:
                return None
            try:
                writes = writes_of(text, catalog)
            except Unclear as unclear:
                why, writes = unclear.why, []
            if not why and (not writes or writes[0].operation is Operation.QUERY):
                # Spark answers a query with a relation, and runs it with the plan that has that in it.
                return None
        else:
            target = write_of(reading.command, plan.names, catalog)
            if target is None:
                return None
        if target is not None:
            writes = [target.write]
        inputs, views = _inputs(reading, plan, catalog)
        found = StatementLineage(
            operation=writes[0].operation if writes else Operation.INSERT,
            targets=tuple(dict.fromkeys(write.dataset for write in writes)),
            inputs=inputs,
            views=views,
            table_level=why,
        )
        return cls(plan, catalog, reading, writes, target, found)

    def lineage(self, max_work: int) -> StatementLineage:
        if self.found.table_level:
            return self.found
        extraction = Extraction(self.catalog, max_work)
        walk = PlanLineageWalk(self.reading, self._texts(), self.plan.names, self.plan.kept, extraction)
        command = self.reading.command
        if self.target is None and command is not None:
            relation = command.sql_command.input
            if relation.WhichOneof("rel_type") == "with_relations":
                walk.bind(relation.with_relations)
                relation = relation.with_relations.root
            text, bound = walk.text(relation)
            made = extraction.statement(text, self.writes, self.found, bound)
        elif self.target is not None:
            made = extraction.lineage(self.found, [self._written(walk, self.target)])
        else:
            raise Unclear("the plan has no command and reads nothing")
        guessed = dict.fromkeys((*made.guessed, *walk.guessed))
        return replace(made, guessed=tuple(guessed))

    def _written(self, walk: PlanLineageWalk, target: PlanWrite) -> tuple[list[Target], RelationRows]:
        if isinstance(target.relation, pb.MergeIntoTableCommand):
            return merged_into(walk, target.relation, target.write)
        frame = walk.relation(target.relation, None)
        rows = frame.rows
        if target.replaced is not None and target.write.table is not None:
            table = Frame(walk.extraction.sources.table(target.write.table))
            rows = RelationRows(parents=[frame.rows])
            walk.decide(rows, Clause.WHERE, target.replaced, Environment(table))
        return matched(target.write, frame.relation(), self.catalog), rows

    def _texts(self) -> Texts:
        reading, plan = self.reading, self.plan
        texts: dict[int, tuple[LineageText | None, frozenset[str]]] = {}
        for one, text in zip(reading.texts, plan.statements, strict=False):
            texts[id(one.relation)] = (text, one.aliases)
        for each, text in zip(reading.expressions, plan.expressions, strict=False):
            texts[id(each.message)] = (text, each.aliases)
        return texts


def _root(reading: PlanReading) -> pb.Relation:
    message = reading.message
    return message.root if isinstance(message, pb.Plan) else pb.Relation()


def _commanding(reading: PlanReading, plan: LineagePlan) -> LineageText | None:
    """Return the text of an SQL command."""
    for one, text in zip(reading.texts, plan.statements, strict=False):
        if one.command:
            return text
    return None


def _inputs(
    reading: PlanReading, plan: LineagePlan, catalog: LineageCatalog
) -> tuple[tuple[Dataset, ...], tuple[Dataset, ...]]:
    """Return what a plan reads, as the walk and Spark's parser see it, and the views on the way."""
    reads: list[tuple[Parts, Names]] = [(read.parts, plan.names) for read in reading.tables]
    texts: Iterable[tuple[LineageText | None, frozenset[str]]] = (
        *((text, one.aliases) for one, text in zip(reading.texts, plan.statements, strict=False)),
        *((text, one.aliases) for one, text in zip(reading.expressions, plan.expressions, strict=False)),
    )
    for text, bound in texts:
        if text is not None:
            reads += (
                (parts, names)
                for parts, names in scans_of(text)
                if len(parts) > 1 or parts[0].lower() not in bound
            )
    found, views = read_datasets(reads, catalog)
    inputs = dict.fromkeys(found)
    inputs.update(
        (Dataset(DatasetKind.PATH, (url.url,)), None) for url in reading.urls if url.access == "read"
    )
    through = dict.fromkeys(views)
    for handle in reading.handles:
        made = plan.kept.get(handle.handle.removeprefix(_RELATION))
        if made is not None and handle.handle.startswith(_RELATION):
            inputs.update(dict.fromkeys(made.inputs))
            through.update(dict.fromkeys(made.views))
    return tuple(inputs), tuple(through)
