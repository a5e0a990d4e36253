"""`plan_lineage`: a Connect plan and what its names stand for in, its column lineage out. Never raises.

The plan is the one that the client sent, in its words; SQL within it is walked as `sql/lineage.py` does. What
is not understood has no edges between columns, and `table_level` says why.

It takes as long as the plan is large. Whoever runs it gives it a process and a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from gateway.algebra.lineage_expressions import rows_of
from gateway.algebra.lineage_values import MAX_WORK, RelationRows
from gateway.algebra.scope import NameScope
from gateway.algebra.usage import Parts, Unclear
from gateway.model.catalog import TableName
from gateway.model.lineage import (
    RESULT,
    Dataset,
    DatasetKind,
    Operation,
    StatementLineage,
)
from gateway.model.statement import PlanRequest
from gateway.plan.identifiers import table_parts
from gateway.plan.lineage_walk import NOT_FOLLOWED, PlanLineageWalk
from gateway.plan.reading import PlanReading
from gateway.plan.walk import read_plan
from gateway.sql.lineage_changes import trace_changes
from gateway.sql.lineage_edges import TargetValue
from gateway.sql.lineage_extraction import Bound, Extraction
from gateway.sql.lineage_sources import LineageCatalog, LineageText, read_datasets, scans_of, target_of
from gateway.sql.lineage_writes import Write, match_target_columns, writes_of
from gateway.sql.names import Names
from gateway.wire.connect import Message, pb

__all__ = ["LineagePlan", "plan_lineage", "plan_table_lineage", "table_written"]


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
        why = "the plan is nested too deep"
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
        text = _find_text_to_run(reading, plan)
        if text is not None:
            try:
                writes = writes_of(text, catalog)
            except Unclear as unclear:
                why = unclear.why
            if not (writes or why):
                return None
        if not why and (text is None or writes[0].operation is Operation.QUERY):
            if reading.sent_back is not None:
                # Spark answers a query with a relation, and runs it with the plan that has that in it.
                return None
            if reading.command is None:
                root = _root(reading)
                if root.WhichOneof("rel_type") in NOT_FOLLOWED - {"ml_relation"}:
                    return None
                target = PlanWrite(write=QUERY, relation=root)
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
        if self.target is not None:
            walk = self._walk(extraction)
            return extraction.lineage(self.found, [self._trace_write(walk, self.target)])
        text = _find_text_to_run(self.reading, self.plan)
        if text is None:
            raise Unclear("the plan has no command and no input")
        bound: Bound = {}
        sent = self.reading.sent_back
        if sent is not None and sent.WhichOneof("rel_type") == "with_relations":
            bound = self._walk(extraction).bind(sent.with_relations)
        return extraction.statement(text, self.writes, self.found, bound)

    def _walk(self, extraction: Extraction) -> PlanLineageWalk:
        reading, plan = self.reading, self.plan
        return PlanLineageWalk(
            reading,
            [(text, one.aliases) for one, text in zip(reading.texts, plan.statements, strict=False)],
            [(text, one.aliases) for one, text in zip(reading.expressions, plan.expressions, strict=False)],
            plan.names,
            plan.kept,
            extraction,
        )

    def _trace_write(
        self, walk: PlanLineageWalk, target: PlanWrite
    ) -> tuple[list[TargetValue], RelationRows]:
        write = target.write
        if isinstance(target.relation, pb.MergeIntoTableCommand):
            if write.table is None:
                raise Unclear(f"the MERGE target {write.dataset} is not a known table")
            merge = walk.merge(target.relation, write.table)
            made = walk.follow(lambda: trace_changes(walk.domain, merge, write, NameScope()))
            walk.check(merge)
            return made
        tree, columns = walk.relation(target.relation)
        rows = rows_of(columns)
        if target.replaced is not None and write.table is not None:
            rows = walk.replace_where(target.replaced, write.table, rows)
        walk.check(tree)
        return match_target_columns(write, columns, self.catalog), rows


def _root(reading: PlanReading) -> pb.Relation:
    message = reading.message
    return message.root if isinstance(message, pb.Plan) else pb.Relation()


def _find_text_to_run(reading: PlanReading, plan: LineagePlan) -> LineageText | None:
    """Return the text that may be a command for Spark to run."""
    for one, text in zip(reading.texts, plan.statements, strict=False):
        if one.runs_commands:
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
        made = plan.kept.get(handle.handle.id) if handle.handle.kind == "relation" else None
        if made is not None:
            inputs.update(dict.fromkeys(made.inputs))
            through.update(dict.fromkeys(made.views))
    return tuple(inputs), tuple(through)


# What a plan's command writes: its target, the relation whose columns go there, and what decides on rows.
# One table by case, as `commands.py` has it for what commands want.


_APPEND, _OVERWRITE = 1, 2
_INSERT_INTO = 2
_V2_MODES = {
    1: Operation.CREATE,
    2: Operation.OVERWRITE,
    3: Operation.OVERWRITE,
    4: Operation.INSERT,
    5: Operation.CREATE,
    6: Operation.CREATE,
}
_SHOWN_ELSEWHERE = frozenset({"console", "noop"})
"""Sinks that keep no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWrite:
    """A target of a plan."""

    write: Write
    relation: pb.Relation | pb.MergeIntoTableCommand
    """Whose columns are written; a MERGE has more to say."""
    replaced: pb.Expression | None = None
    """Which rows of the target are replaced."""


QUERY = Write(operation=Operation.QUERY, dataset=RESULT)


def write_of(command: pb.Command, names: Names, catalog: LineageCatalog) -> PlanWrite | None:
    """Return what a command writes; None where no rows are moved or shown, and for SQL commands."""
    case = command.WhichOneof("command_type") or ""
    found = COMMANDS.get(case)
    return found(getattr(command, case), _Targets(names, catalog)) if found is not None else None


@dataclass(frozen=True, slots=True)
class _Targets:
    """What names of targets mean."""

    names: Names
    catalog: LineageCatalog

    def table(self, text: str, operation: Operation, *, by_name: bool = True) -> Write:
        parts = table_parts(text) or (text,)
        dataset, table = target_of(parts, self.names, self.catalog)
        if operation is Operation.CREATE:
            dataset = Dataset(DatasetKind.TABLE, dataset.parts)
            table = None
        return Write(operation=operation, dataset=dataset, table=table, by_name=by_name)


def _path(path: str, operation: Operation) -> Write:
    return Write(operation=operation, dataset=Dataset(DatasetKind.PATH, (path,)))


def _view(name: str, *within: str) -> Write:
    dataset = Dataset(DatasetKind.TEMP_VIEW, (*within, name.lower()))
    return Write(operation=Operation.CREATE, dataset=dataset)


def _path_option(options: Mapping[str, str]) -> str | None:
    return next((value for name, value in options.items() if name.lower() == "path"), None)


def _write(command: pb.WriteOperation, targets: _Targets) -> PlanWrite | None:
    mode = {_APPEND: Operation.INSERT, _OVERWRITE: Operation.OVERWRITE}.get(command.mode, Operation.CREATE)
    kind = command.WhichOneof("save_type")
    if kind == "table":
        if command.table.save_method == _INSERT_INTO:
            operation = Operation.OVERWRITE if mode is Operation.OVERWRITE else Operation.INSERT
            write = targets.table(command.table.table_name, operation, by_name=False)
        else:
            operation = Operation.INSERT if mode is Operation.INSERT else Operation.CREATE
            write = targets.table(command.table.table_name, operation)
    else:
        path = command.path if kind == "path" else _path_option(command.options)
        if not path:
            return None  # `noop`: the rows go nowhere
        write = _path(path, mode)
    return PlanWrite(write=write, relation=command.input)


def _write_v2(command: pb.WriteOperationV2, targets: _Targets) -> PlanWrite:
    write = targets.table(command.table_name, _V2_MODES.get(command.mode, Operation.INSERT))
    replaced = command.overwrite_condition if command.HasField("overwrite_condition") else None
    return PlanWrite(write=write, relation=command.input, replaced=replaced)


def _create_view(command: pb.CreateDataFrameViewCommand, targets: _Targets) -> PlanWrite:
    name = (table_parts(command.name) or (command.name,))[-1]
    within: Sequence[str] = ("global_temp",) if command.is_global else ()
    return PlanWrite(write=_view(name, *within), relation=command.input)


def _merge(command: pb.MergeIntoTableCommand, targets: _Targets) -> PlanWrite:
    return PlanWrite(write=targets.table(command.target_table_name, Operation.MERGE), relation=command)


def _stream(command: pb.WriteStreamOperationStart, targets: _Targets) -> PlanWrite | None:
    replaces = command.output_mode.lower() == "complete"
    operation = Operation.OVERWRITE if replaces else Operation.INSERT
    kind = command.WhichOneof("sink_destination")
    path = command.path if kind == "path" else _path_option(command.options)
    if command.HasField("foreach_writer") or command.HasField("foreach_batch"):
        write = QUERY  # the user's code has the rows
    elif kind == "table_name":
        write = targets.table(command.table_name, operation)
    elif path:
        write = _path(path, operation)
    elif command.format.lower() == "memory":
        write = _view(command.query_name)
    elif command.format.lower() in _SHOWN_ELSEWHERE:
        return None
    else:
        write = QUERY
    return PlanWrite(write=write, relation=command.input)


def _checkpoint(command: pb.CheckpointCommand, targets: _Targets) -> PlanWrite:
    """Rows that Spark keeps under an id that it makes up: what reads them has this lineage."""
    return PlanWrite(write=QUERY, relation=command.relation)


COMMANDS = cast(
    "Mapping[str, Callable[[Message, _Targets], PlanWrite | None]]",
    {
        "write_operation": _write,
        "write_operation_v2": _write_v2,
        "create_dataframe_view": _create_view,
        "merge_into_table_command": _merge,
        "write_stream_operation_start": _stream,
        "checkpoint_command": _checkpoint,
    },
)
