"""Commands of a plan as one would write them in PySpark: `….write.mode("append").saveAsTable("t")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Never

from gateway.plan.rendering_expressions import (
    MAX_ITEMS,
    VALUE,
    Piece,
    Pieces,
    code,
    each,
    expression,
    expressions,
    listed,
    literal,
    quoted,
    size,
    sql_text,
)
from gateway.plan.rendering_sources import names, options
from gateway.wire.connect import pb

_MODES = {1: "append", 2: "overwrite", 3: "error", 4: "ignore"}
_V2_MODES = {1: "create", 3: "overwritePartitions", 4: "append", 5: "replace", 6: "createOrReplace"}


def command(message: pb.Command) -> Piece:
    """Return the piece of a `Command`."""
    case = message.WhichOneof("command_type")
    if case is None:
        return "<empty command>"
    body = getattr(message, case)
    render = _CASES.get(case)
    return body if render is None else render(body)


def _sql(body: pb.SqlCommand) -> Piece:
    if body.HasField("input"):
        return body.input
    pieces: Pieces = [sql_text(body.sql)]
    pieces += [(_argument, key, literal(body.args[key])) for key in sorted(body.args)]
    named = body.named_arguments
    pieces += [(_argument, key, expression(named[key], VALUE)) for key in sorted(named)]
    pieces += [literal(value) for value in body.pos_args[:MAX_ITEMS]]
    pieces += each(body.pos_arguments, VALUE)
    return ["spark.sql(", *listed(pieces), ")"]


def _argument(key: str, value: Piece) -> Pieces:
    return [f"{key}=", value]


def _view(body: pb.CreateDataFrameViewCommand) -> Piece:
    method = f"create{'OrReplace' if body.replace else ''}{'Global' if body.is_global else ''}TempView"
    return [body.input, f".{method}({quoted(body.name)})"]


def _write(body: pb.WriteOperation) -> Piece:
    text = ".write"
    if body.HasField("source"):
        text += f".format({quoted(body.source)})"
    if body.mode in _MODES:
        text += f'.mode("{_MODES[body.mode]}")'
    text += options(body.options)
    text += _called("partitionBy", body.partitioning_columns)
    if body.HasField("bucket_by"):
        text += f".bucketBy({body.bucket_by.num_buckets}, {names(body.bucket_by.bucket_column_names)})"
    text += _called("sortBy", body.sort_column_names) + _called("clusterBy", body.clustering_columns)
    match body.WhichOneof("save_type"):
        case "table":
            method = "insertInto" if body.table.save_method == 2 else "saveAsTable"
            text += f".{method}({quoted(body.table.table_name)})"
        case "path":
            text += f".save({quoted(body.path)})"
        case _:
            text += ".save()"
    return [body.input, text]


def _called(method: str, columns: object) -> str:
    return f".{method}({names(columns)})" if columns else ""  # type: ignore[arg-type]  # strings of a message


def _write_v2(body: pb.WriteOperationV2) -> Piece:
    text = f".writeTo({quoted(body.table_name)})"
    if body.HasField("provider"):
        text += f".using({quoted(body.provider)})"
    text += options(body.options)
    text += options(body.table_properties).replace(".option(", ".tableProperty(")
    pieces: Pieces = [body.input, text]
    if body.partitioning_columns:
        pieces += [".partitionedBy(", *expressions(body.partitioning_columns), ")"]
    pieces.append(_called("clusterBy", body.clustering_columns))
    if body.mode == 2:
        return [*pieces, ".overwrite(", expression(body.overwrite_condition, VALUE), ")"]
    return [*pieces, f".{_V2_MODES.get(body.mode, 'write')}()"]


def _stream(body: pb.WriteStreamOperationStart) -> Piece:
    text = ".writeStream"
    if body.format:
        text += f".format({quoted(body.format)})"
    if body.output_mode:
        text += f".outputMode({quoted(body.output_mode)})"
    if body.query_name:
        text += f".queryName({quoted(body.query_name)})"
    trigger = body.WhichOneof("trigger")
    if trigger is not None:
        value = getattr(body, trigger)
        text += f".trigger({trigger}={quoted(value) if isinstance(value, str) else value})"
    text += options(body.options) + _called("partitionBy", body.partitioning_column_names)
    text += _called("clusterBy", body.clustering_column_names)
    if body.HasField("foreach_writer"):
        text += f".foreach({_streaming_code(body.foreach_writer)})"
    if body.HasField("foreach_batch"):
        text += f".foreachBatch({_streaming_code(body.foreach_batch)})"
    match body.WhichOneof("sink_destination"):
        case "path":
            text += f".start({quoted(body.path)})"
        case "table_name":
            text += f".toTable({quoted(body.table_name)})"
        case _:
            text += ".start()"
    return [body.input, text]


def _streaming_code(function: pb.StreamingForeachFunction) -> str:
    match function.WhichOneof("function"):
        case "python_function":
            return f"<python function, {size(function.python_function.command)}>"
        case "scala_function":
            return f"<scala function, {size(function.scala_function.payload)}>"
    return "<function>"


def _merge(body: pb.MergeIntoTableCommand) -> Piece:
    pieces: Pieces = [body.source_table_plan, f".mergeInto({quoted(body.target_table_name)}, ",
                      expression(body.merge_condition, VALUE), ")"]  # fmt: skip
    for method, actions in (
        ("whenMatched", body.match_actions),
        ("whenNotMatched", body.not_matched_actions),
        ("whenNotMatchedBySource", body.not_matched_by_source_actions),
    ):
        pieces += [(_action, method, action.merge_action) for action in actions[:MAX_ITEMS]]
    return [*pieces, ".merge()"]


_ACTIONS = {1: "delete", 2: "insert", 3: "insertAll", 4: "update", 5: "updateAll"}


def _action(method: str, action: pb.MergeAction) -> Pieces:
    condition = [expression(action.condition, VALUE)] if action.HasField("condition") else []
    pairs = [(_assignment, item) for item in action.assignments[:MAX_ITEMS]]
    assigned: Pieces = ["{", *listed(pairs), "}"] if pairs else []
    return [f".{method}(", *condition, f").{_ACTIONS.get(action.action_type, 'act')}(", *assigned, ")"]


def _assignment(item: pb.MergeAction.Assignment) -> Pieces:
    return [expression(item.key), ": ", expression(item.value, VALUE)]


def _register(body: pb.CommonInlineUserDefinedFunction) -> Piece:
    return f"spark.udf.register({quoted(body.function_name)}, {code(body)})"


def _register_table_function(body: pb.CommonInlineUserDefinedTableFunction) -> Piece:
    return f"spark.udtf.register({quoted(body.function_name)}, {code(body)})"


def _register_source(body: pb.CommonInlineUserDefinedDataSource) -> Piece:
    source = size(body.python_data_source.command)
    return f"spark.dataSource.register(<python data source {body.name}, {source}>)"


def _checkpoint(body: pb.CheckpointCommand) -> Piece:
    return [body.relation, f".{'localCheckpoint' if body.local else 'checkpoint'}(eager={body.eager})"]


_CASES: Mapping[str, Callable[[Never], Piece]] = {
    "checkpoint_command": _checkpoint,
    "create_dataframe_view": _view,
    "merge_into_table_command": _merge,
    "register_data_source": _register_source,
    "register_function": _register,
    "register_table_function": _register_table_function,
    "sql_command": _sql,
    "write_operation": _write,
    "write_operation_v2": _write_v2,
    "write_stream_operation_start": _stream,
}
