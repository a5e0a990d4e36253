"""What a plan's command writes: its target, the relation whose columns go there, and what decides on rows.

One table by case, as `commands.py` has it for what commands want.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from gateway.model.lineage import RESULT, Dataset, DatasetKind, Operation
from gateway.plan.identifiers import table_parts
from gateway.sql.lineage_sources import LineageCatalog, target_of
from gateway.sql.lineage_writes import Write
from gateway.sql.names import Names
from gateway.wire.connect import Message, pb

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


def _option(options: Mapping[str, str], key: str) -> str | None:
    return next((value for name, value in options.items() if name.lower() == key), None)


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
        path = command.path if kind == "path" else _option(command.options, "path")
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
    path = command.path if kind == "path" else _option(command.options, "path")
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
MOVE_NO_ROWS = frozenset(
    """sql_command remove_cached_remote_relation_command streaming_query_command
    streaming_query_manager_command streaming_query_listener_bus_command get_resources_command
    create_resource_profile_command register_function register_table_function register_data_source
    ml_command pipeline_command execute_external_command extension""".split()
)
"""The other commands; what a `sql_command` moves its text says."""
