"""What commands of plans want: one table by case, as `sql/data_commands.py` has it for SQL text.

A test compares the table with the cases of `spark.connect.Command`. Inputs, expressions, code, handles and
paths within a command are found by the walk and judged by themselves; here is what the command does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Never

from gateway.model.catalog import quote
from gateway.model.handles import HandleKind, SparkHandle
from gateway.model.resource import Resource
from gateway.model.statement import CatalogChanged, CreateTempView, RegisterCode
from gateway.plan.reading import PlanReading
from gateway.plan.scope import NamePin, PlanRequired, PlanScope, quote_name, split_option
from gateway.plan.walk_sources import is_registrable
from gateway.sql import storage
from gateway.sql.names import Names
from gateway.sql.paths import on_path
from gateway.sql.required import Privilege, Required, Unsupported, Written
from gateway.sql.scope import CannotClassify, table_resource
from gateway.wire.connect import Message, pb

# Enumerations of commands.proto. A value that is not among them is refused.
_APPEND, _OVERWRITE, _ERROR_IF_EXISTS, _IGNORE = 1, 2, 3, 4
_SAVE_AS_TABLE, _INSERT_INTO = 1, 2
_V2_CREATE, _V2_OVERWRITE, _V2_OVERWRITE_PARTITIONS, _V2_APPEND, _V2_REPLACE, _V2_CREATE_OR_REPLACE = range(
    1, 7
)
_DELETE, _INSERT, _INSERT_STAR, _UPDATE, _UPDATE_STAR = range(1, 6)

_EVOLUTION = "schema evolution changes the columns of the target and is not supported"
_SINK_OPTIONS = frozenset({"numrows", "truncate", "outputmode"})
"""Options of the console and memory sinks, lower case."""
_SINKS = frozenset({"memory", "console", "noop"})
"""Streaming sinks that write nothing outside of the session's Spark."""

_APPEND_MODE = "append"
_OUTPUT_MODES: Mapping[str, tuple[str, ...]] = {
    _APPEND_MODE: (),
    "complete": ("delete",),
    "update": ("delete", "update"),
}
"""Output mode of a stream, lower case → what it does to a table beside inserting; `update` is for sinks that
find the old row by its key, and one that knows no keys may replace them all."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_Handler = Callable[[Never, PlanScope], PlanRequired]
"""Called with the message of its case only; a test compares the two."""


def _require_nothing(command: Message, scope: PlanScope) -> PlanRequired:
    """Nothing beyond what the walk found within: inputs, code, handles."""
    return PlanRequired()


def _checkpoint(command: pb.CheckpointCommand, scope: PlanScope) -> PlanRequired:
    return PlanRequired(keeps=True)


def _write(command: pb.WriteOperation, scope: PlanScope) -> PlanRequired:
    if command.with_schema_evolution:
        raise CannotClassify(_EVOLUTION)
    mode = command.mode or _ERROR_IF_EXISTS
    if mode not in (_APPEND, _OVERWRITE, _ERROR_IF_EXISTS, _IGNORE):
        raise CannotClassify(f"unknown save mode {mode}")
    source = command.source if command.HasField("source") else None
    paths, options = split_option(command.options.items(), "path")
    storage.check_options(options)
    urls = tuple(privilege for path in paths for privilege in on_path(path, "read", "write"))
    kind = command.WhichOneof("save_type")
    if kind == "path":
        if source is not None and source.lower() == "hive":
            raise CannotClassify("provider `hive` does not support paths of files")
        storage.check_provider(source)
        # RULE (write-path)
        return PlanRequired(required=Required(privileges=(*on_path(command.path, "write"), *urls)))
    if kind == "table":
        return _write_table(command.table, mode, source, urls, scope)
    if source is not None and source.lower() == "noop" and not urls:
        return PlanRequired()
    raise CannotClassify("a write without a table or a path is not supported")


def _write_table(
    table: pb.WriteOperation.SaveTable,
    mode: int,
    source: str | None,
    urls: tuple[Privilege, ...],
    scope: PlanScope,
) -> PlanRequired:
    inserts = table.save_method == _INSERT_INTO
    target, written_name = (
        scope.resolve_target(table.table_name) if inserts else scope.resolve_created(table.table_name)
    )
    resource = table_resource(target)
    names = (NamePin(message=table, field="table_name", text=written_name),)
    if inserts:
        if urls:
            raise CannotClassify("an insert cannot have a path")
        required = [Privilege(resource, "insert")]
        if mode == _OVERWRITE:
            # Overwriting deletes rows that a filter hides from the principal.
            required.append(Privilege(resource, "delete"))  # RULE (insert-overwrite-delete)
        raw = (target,) if mode == _OVERWRITE else ()  # RULE (insert-overwrite-raw)
        inserted = Required(privileges=tuple(required), raw=raw, written=(Written(table=target),))
        return PlanRequired(required=inserted, names=names)
    if table.save_method != _SAVE_AS_TABLE:
        raise CannotClassify(f"unknown save method {table.save_method}")
    storage.check_provider(source)
    required = [Privilege(resource, "create")]
    written: tuple[Written, ...] = ()
    changed = CatalogChanged((target,))
    if mode == _OVERWRITE:
        required.append(Privilege(resource, "drop"))  # RULE (save-over-drops)
    elif mode == _APPEND:
        # It creates a table that is not there and adds rows to one that is: whether it is there is not told.
        required.append(Privilege(resource, "insert"))  # RULE (save-append-inserts)
        written = (Written(table=target, by_name=True, creates=True),)
        changed = replace(changed, meaning="where_missing")
    return PlanRequired(
        required=Required(privileges=(*required, *urls), written=written, effects=(changed,)), names=names
    )


def _write_v2(command: pb.WriteOperationV2, scope: PlanScope) -> PlanRequired:
    if command.with_schema_evolution:
        raise CannotClassify(_EVOLUTION)
    inserts = {
        _V2_APPEND: ("insert",),
        _V2_OVERWRITE: ("insert", "delete"),
        _V2_OVERWRITE_PARTITIONS: ("insert", "delete"),
    }
    named = scope.resolve_target if command.mode in inserts else scope.resolve_created
    target, written_name = named(command.table_name)
    resource = table_resource(target)
    storage.check_options(command.options)
    names = (NamePin(message=command, field="table_name", text=written_name),)
    if command.mode in inserts:
        accesses = inserts[command.mode]
        required = Required(
            privileges=tuple(Privilege(resource, access) for access in accesses),
            raw=(target,) if "delete" in accesses else (),  # RULE (writer-v2-raw)
            # Which rows it replaces, a condition on the raw rows says.
            read=(target,) if command.mode == _V2_OVERWRITE else (),
            written=(Written(table=target, by_name=True),),
        )
        return PlanRequired(required=required, names=names)
    creates = {
        _V2_CREATE: ("create",),
        _V2_REPLACE: ("create", "drop"),
        _V2_CREATE_OR_REPLACE: ("create", "drop"),
    }
    if command.mode not in creates:
        raise CannotClassify(f"unknown write mode {command.mode}")
    storage.check_provider(command.provider if command.HasField("provider") else None)
    location = command.table_properties.get("location")
    storage.check_properties(key for key in command.table_properties if key != "location")
    urls = on_path(location, "read", "write") if location is not None else ()
    accesses = creates[command.mode]
    return PlanRequired(
        required=Required(
            privileges=(*(Privilege(resource, access) for access in accesses), *urls),
            effects=(CatalogChanged((target,)),),
        ),
        names=names,
    )


def _merge(command: pb.MergeIntoTableCommand, scope: PlanScope) -> PlanRequired:
    """MERGE INTO: it reads the target's raw rows, so that may carry no obligation, unless the command is kept
    to visible rows (`restricts`)."""
    if command.with_schema_evolution:
        raise CannotClassify(_EVOLUTION)
    target, written_name = scope.resolve_target(command.target_table_name)
    resource = table_resource(target)
    access = {
        _DELETE: "delete",
        _INSERT: "insert",
        _INSERT_STAR: "insert",
        _UPDATE: "update",
        _UPDATE_STAR: "update",
    }
    required = []
    for actions in (
        command.match_actions,
        command.not_matched_actions,
        command.not_matched_by_source_actions,
    ):
        for action in actions:
            kind = action.merge_action.action_type if action.HasField("merge_action") else 0
            if kind not in access:
                raise CannotClassify("unknown MERGE action")
            required.append(Privilege(resource, access[kind]))
    if not required:
        raise CannotClassify("MERGE has no action")
    return PlanRequired(
        # RULE (plan-merge-reads-raw)
        required=Required(privileges=tuple(dict.fromkeys(required)), read=(target,), restricts=True),
        names=(NamePin(message=command, field="target_table_name", text=written_name),),
    )


def _create_view(command: pb.CreateDataFrameViewCommand, scope: PlanScope) -> PlanRequired:
    if command.is_global:  # RULE (dataframe-global-view)
        raise CannotClassify(
            "a global temporary view of a DataFrame has no text by which its readers could be judged; make a "
            "temporary view, write a table, or use CREATE GLOBAL TEMPORARY VIEW … AS"
        )
    name = scope.view_name(command.name)
    return PlanRequired(
        required=Required(effects=(CreateTempView(name, "frame"),)),
        names=(NamePin(message=command, field="name", text=quote(name)),),
        keeps=True,  # RULE (dataframe-view-keeps)
    )


def _start_stream(command: pb.WriteStreamOperationStart, scope: PlanScope) -> PlanRequired:
    urls, options = split_option(command.options.items(), "path", "checkpointlocation")
    storage.check_options(key for key in options if key.lower() not in _SINK_OPTIONS)
    required = tuple(privilege for url in urls for privilege in on_path(url, "read", "write"))
    sink = command.format.lower()
    kind = command.WhichOneof("sink_destination")
    foreach = command.HasField("foreach_writer") or command.HasField("foreach_batch")
    effects: tuple[CreateTempView, ...] = ()
    if sink == "memory":
        # Its rows are read as a temporary view of the query's name. INVARIANT: Spark makes the view whenever
        # we note one, or the name would reach a table; it compares the format letter by letter.
        if command.format != sink or kind is not None or foreach:  # RULE (memory-sink-name)
            raise CannotClassify(
                "the sink `memory` must be written in lower case and cannot have another target"
            )
        effects = (CreateTempView(_plain_name(command.query_name), "stream"),)
    if foreach and kind is None:  # RULE (foreach-target)
        return PlanRequired(required=Required(privileges=required))
    if kind is None:
        if sink in _SINKS:
            return PlanRequired(
                required=Required(privileges=required, effects=effects), keeps=sink == "memory"
            )
        if not any(key.lower() == "path" for key in command.options):  # RULE (unknown-sink)
            raise CannotClassify(f"the streaming sink `{command.format}` is not supported")
    if sink:
        storage.check_provider(sink)
    if kind != "table_name":
        paths = on_path(command.path, "read", "write") if kind == "path" else ()
        return PlanRequired(required=Required(privileges=(*required, *paths)))
    target = scope.target(command.table_name)
    resource = table_resource(target)
    output = command.output_mode.lower() or _APPEND_MODE
    if output not in _OUTPUT_MODES:
        raise CannotClassify(f"unknown output mode `{command.output_mode}`")
    replaces = _OUTPUT_MODES[output]
    return PlanRequired(
        # The table is made when it is not there: whether it is there is not told. What replaces rows replaces
        # those that a filter hides, so then it has to be there, and is looked at.
        required=Required(
            privileges=(
                Privilege(resource, "create"),
                Privilege(resource, "insert"),
                *(Privilege(resource, access) for access in replaces),
                *required,
            ),
            raw=(target,) if replaces else (),
            written=(Written(table=target, by_name=True, creates=not replaces, streams=True),),
            effects=(CatalogChanged((target,), meaning="where_missing"),),
        ),
        names=(NamePin(message=command, field="table_name", text=quote_name(target)),),
    )


def _plain_name(name: str) -> str:
    if not _PLAIN_NAME.fullmatch(name):
        raise CannotClassify(
            "the sink `memory` stores its rows in a view with the name of the query: set `queryName`, "
            "using letters, digits and `_`"
        )
    return name


def _stream_query(command: pb.StreamingQueryCommand, scope: PlanScope) -> PlanRequired:
    if command.WhichOneof("command") == "explain":  # RULE (running-query-plan)
        raise CannotClassify("the plan of a running query would show its row filters and masks")
    return PlanRequired()


def _resource_profile(command: pb.CreateResourceProfileCommand, scope: PlanScope) -> PlanRequired:
    return PlanRequired(
        required=Required(privileges=(Privilege(Resource.setting("spark.resources.profile"), "set"),))
    )


def _register_function(command: pb.CommonInlineUserDefinedFunction, scope: PlanScope) -> PlanRequired:
    return _require_registered("function", command.function_name)


def _register_table_function(
    command: pb.CommonInlineUserDefinedTableFunction, scope: PlanScope
) -> PlanRequired:
    return _require_registered("table_function", command.function_name)


def _register_data_source(command: pb.CommonInlineUserDefinedDataSource, scope: PlanScope) -> PlanRequired:
    if not is_registrable(command.name):
        raise CannotClassify(
            f"`{command.name}` is a built-in data source of Spark, or not a plain name; use another name "
            "of letters, digits and `_`"
        )
    return _require_registered("data_source", command.name)


def _require_registered(kind: HandleKind, name: str) -> PlanRequired:
    """What is registered is called by its name from then on: with `execute`, like code that a plan brings."""
    if not _PLAIN_NAME.fullmatch(name):  # RULE (registered-name-plain)
        raise CannotClassify(f"`{name}` is not a plain name; use letters, digits and `_`")
    return PlanRequired(required=Required(effects=(RegisterCode(SparkHandle(kind, name.lower())),)))


COMMANDS: Mapping[str, _Handler] = {
    "write_operation": _write,
    "write_operation_v2": _write_v2,
    "merge_into_table_command": _merge,
    "create_dataframe_view": _create_view,
    "sql_command": _require_nothing,
    "checkpoint_command": _checkpoint,
    "remove_cached_remote_relation_command": _require_nothing,
    "write_stream_operation_start": _start_stream,
    "streaming_query_command": _stream_query,
    "streaming_query_manager_command": _require_nothing,
    "streaming_query_listener_bus_command": _require_nothing,
    "get_resources_command": _require_nothing,
    "create_resource_profile_command": _resource_profile,
    "register_function": _register_function,
    "register_table_function": _register_table_function,
    "register_data_source": _register_data_source,
    "ml_command": _require_nothing,
    "pipeline_command": _require_nothing,
    "execute_external_command": _require_nothing,
}
CODE = frozenset(
    {
        "register_function",
        "register_table_function",
        "register_data_source",
        "pipeline_command",
        "execute_external_command",
    }
)
"""Commands that are code: the walk must have found some in them."""
REFUSED_COMMANDS: Mapping[str, str] = {
    "extension": "plugin commands are not supported",
}


def command_privileges(reading: PlanReading, names: Names) -> PlanRequired | Unsupported:
    """Say what a plan's command wants; a plan without one wants nothing."""
    if reading.command is None:
        return PlanRequired()
    case = reading.command.WhichOneof("command_type") or ""
    handler = COMMANDS.get(case)
    if handler is None:
        return Unsupported(REFUSED_COMMANDS.get(case, f"the command `{case}` is not supported"))
    if case in CODE and not reading.code:  # RULE (unread-code-command)
        return Unsupported(f"the input of the command `{case}` could not be read")
    try:
        return handler(getattr(reading.command, case), PlanScope(names))
    except CannotClassify as problem:
        return problem.refusal
