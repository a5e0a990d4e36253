"""Readers of commands: what they write to, what they refer to, and what code they bring."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.model.handles import SparkHandle
from gateway.plan.reading import CodeUse, HandleUse, UrlUse
from gateway.plan.walk_sources import list_written_paths, plain_path
from gateway.plan.walk_state import PlanWalk, reads_field, reads_message, refuse
from gateway.sql.storage import check_options, check_properties, check_provider
from gateway.wire.connect import pb

_ML_BOOKKEEPING = frozenset({"clean_cache", "get_cache_info", "delete"})
"""What every PySpark client sends when its interpreter exits."""


@reads_field(
    "Command.sql_command",
    "SqlCommand.sql",
    "SqlCommand.args",
    "SqlCommand.pos_args",
    "SqlCommand.named_arguments",
    "SqlCommand.pos_arguments",
)
def _sql_command(walk: PlanWalk, _: pb.Command, command: pb.SqlCommand) -> None:
    """Rewrite the older text form, which Spark still takes, into the newer one: there is one to judge."""
    older = bool(
        command.sql or command.args or command.pos_args or command.named_arguments or command.pos_arguments
    )
    if command.HasField("input"):
        if older:  # RULE (sql-command-two-forms)
            raise refuse("the SQL command has two inputs; send only `input`")
    else:
        sql = command.input.sql
        sql.query = command.sql
        for key in command.args:
            sql.args[key].CopyFrom(command.args[key])
        for key in command.named_arguments:
            sql.named_arguments[key].CopyFrom(command.named_arguments[key])
        sql.pos_args.extend(command.pos_args)
        sql.pos_arguments.extend(command.pos_arguments)
        for name in ("sql", "args", "pos_args", "named_arguments", "pos_arguments"):
            command.ClearField(name)
    # RULE (sql-command-without-text)
    if command.input.WhichOneof("rel_type") not in ("sql", "with_relations"):
        raise refuse("the SQL command has no SQL text to run")
    walk.command = command.input


@reads_message(
    "WriteOperation",
    "WriteOperation.source",
    "WriteOperation.path",
    "WriteOperation.options",
)
def _write(walk: PlanWalk, write: pb.WriteOperation) -> None:
    paths = list_written_paths(
        write.source if write.HasField("source") else None,
        write.options,
        write.path if write.HasField("path") else None,
        streaming=False,
    )
    _writes(walk, paths)


@reads_message(
    "WriteOperationV2",
    "WriteOperationV2.provider",
    "WriteOperationV2.options",
    "WriteOperationV2.table_properties",
)
def _write_v2(walk: PlanWalk, write: pb.WriteOperationV2) -> None:
    check_provider(write.provider if write.HasField("provider") else None)
    check_options(write.options)
    check_properties(write.table_properties)  # RULE (writer-properties)


@reads_message(
    "WriteStreamOperationStart",
    "WriteStreamOperationStart.format",
    "WriteStreamOperationStart.options",
    "WriteStreamOperationStart.path",
)
def _write_stream(walk: PlanWalk, write: pb.WriteStreamOperationStart) -> None:
    if write.HasField("foreach_writer"):  # RULE (foreach-writer)
        _execute(walk, "foreach", "a function called for every row of a stream")
    if write.HasField("foreach_batch"):
        _execute(walk, "foreach_batch", "a function called for every batch of a stream")
    path = write.path if write.HasField("path") else None
    # The sink `memory` is a temporary view; what it may be called is for the command to say.
    file_format = None if write.format == "memory" else write.format or None
    _writes(walk, list_written_paths(file_format, write.options, path, streaming=True))


@reads_message("StreamingQueryInstanceId", "StreamingQueryInstanceId.id")
def _walk_streaming_query(walk: PlanWalk, query: pb.StreamingQueryInstanceId) -> None:
    asked, run = SparkHandle("query", query.id), SparkHandle("query", query.run_id)
    # RULE (streaming-query-handle, streaming-query-run)
    walk.reading.handles.append(HandleUse(handle=asked, run=run))


@reads_message(
    "StreamingQueryManagerCommand.StreamingQueryListenerCommand",
    "StreamingQueryManagerCommand.StreamingQueryListenerCommand.listener_payload",
)
def _listener(walk: PlanWalk, _: pb.StreamingQueryManagerCommand.StreamingQueryListenerCommand) -> None:
    _execute(walk, "streaming_listener", "a streaming query listener")


# Code


@reads_field("Command.register_function")
@reads_field("Command.register_table_function")
@reads_field("Command.register_data_source")
def _register(
    walk: PlanWalk,
    _: pb.Command,
    registered: pb.CommonInlineUserDefinedFunction
    | pb.CommonInlineUserDefinedTableFunction
    | pb.CommonInlineUserDefinedDataSource,
) -> None:
    walk.registered = registered


@reads_message("CreateResourceProfileCommand", "ExecutorResourceRequest.discovery_script")
def _resource_profile(walk: PlanWalk, _: pb.CreateResourceProfileCommand) -> None:
    what = "a resource profile, which can name scripts to run"
    walk.reading.code.append(CodeUse(name="resource_profile", access="create", what=what))


@reads_message(
    "ExecuteExternalCommand",
    "ExecuteExternalCommand.runner",
    "ExecuteExternalCommand.command",
    "ExecuteExternalCommand.options",
)
def _external_command(walk: PlanWalk, _: pb.ExecuteExternalCommand) -> None:
    _execute(walk, "external_command", "a command of an external runner")


@reads_message("MlCommand")
def _ml_command(walk: PlanWalk, command: pb.MlCommand) -> None:
    if command.WhichOneof("command") not in _ML_BOOKKEEPING:  # RULE (ml-is-code)
        _execute(walk, "ml", "a machine learning operation")


@reads_message("MlCommand.Write", "MlCommand.Write.path", "MlCommand.Write.options")
def _ml_write(walk: PlanWalk, write: pb.MlCommand.Write) -> None:
    _writes(walk, list_written_paths(None, write.options, write.path or None, streaming=False))


@reads_message("MlCommand.Read", "MlCommand.Read.path")
def _ml_read(walk: PlanWalk, read: pb.MlCommand.Read) -> None:
    walk.reading.urls.append(UrlUse(url=plain_path(read.path), access="read"))


# Pipelines


@reads_message("PipelineCommand")
def _pipeline(walk: PlanWalk, _: pb.PipelineCommand) -> None:
    _execute(walk, "pipelines", "a declarative pipeline")


@reads_message(
    "PipelineCommand.DefineOutput.TableDetails",
    "PipelineCommand.DefineOutput.TableDetails.format",
    "PipelineCommand.DefineOutput.TableDetails.table_properties",
)
def _pipeline_table(walk: PlanWalk, table: pb.PipelineCommand.DefineOutput.TableDetails) -> None:
    check_provider(table.format if table.HasField("format") else None)
    check_properties(table.table_properties)


@reads_message(
    "PipelineCommand.DefineOutput.SinkDetails",
    "PipelineCommand.DefineOutput.SinkDetails.format",
    "PipelineCommand.DefineOutput.SinkDetails.options",
)
def _pipeline_sink(walk: PlanWalk, sink: pb.PipelineCommand.DefineOutput.SinkDetails) -> None:
    options: Mapping[str, str] = sink.options
    _writes(walk, list_written_paths(sink.format or None, options, None, streaming=True))


@reads_message("PipelineCommand.StartRun", "PipelineCommand.StartRun.storage")
@reads_message("PipelineCommand.ExecuteOutputFlows", "PipelineCommand.ExecuteOutputFlows.storage")
def _pipeline_run(
    walk: PlanWalk, run: pb.PipelineCommand.StartRun | pb.PipelineCommand.ExecuteOutputFlows
) -> None:
    if run.HasField("storage"):
        _writes(walk, (plain_path(run.storage),))


def _execute(walk: PlanWalk, name: str, what: str) -> None:
    walk.reading.code.append(CodeUse(name=name, access="execute", what=what))


def _writes(walk: PlanWalk, paths: tuple[str, ...]) -> None:
    walk.reading.urls.extend(UrlUse(url=path, access="write") for path in paths)
