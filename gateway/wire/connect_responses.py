"""Responses of Spark Connect that clients do not get as they came: read here, changed, and written again.

What is shown of them is the session's affair. It gives a `Redactor` for whatever Spark says in words, and
changes lists and relations by a `Response`; where these stand in messages only this module knows. Everything
raises ProtobufError for bytes that are no message of the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from google.rpc import error_details_pb2

from gateway.wire.connect import parse, pb, serialize
from gateway.wire.connect_calls import pair
from gateway.wire.connect_requests import pairs_of

_Error = pb.FetchErrorDetailsResponse.Error
_Context = pb.FetchErrorDetailsResponse.QueryContext
_Throwable = pb.FetchErrorDetailsResponse.SparkThrowable
IN_SQL, IN_DATAFRAME = int(_Context.SQL), int(_Context.DATAFRAME)
"""Kinds of places."""
_RUNNING = pb.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING


# -- errors, and whatever else is said in words --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorContext:
    """The place of an error: in a text, or in the program that called a DataFrame's function."""

    kind: int
    """IN_SQL, IN_DATAFRAME, or one that is not known."""
    object_type: str = ""
    object_name: str = ""
    start: int = 0
    stop: int = 0
    fragment: str = ""
    call_site: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakingChange:
    """Spark's own advice on what another version did, the same words for everybody."""

    messages: tuple[str, ...]
    rest: bytes = field(repr=False)
    """All of it as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCondition:
    """Error condition of one of Spark's errors."""

    error_class: str = ""
    sqlstate: str = ""
    parameters: Mapping[str, str]
    contexts: tuple[ErrorContext, ...]
    breaking_change: BreakingChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """One exception of Spark's, or one that caused another."""

    classes: tuple[str, ...]
    """Its Java class and those above it."""
    message: str
    stack: tuple[bytes, ...] = field(default=(), repr=False)
    """Frames as they came."""
    cause: int | None = None
    """Number of the error that caused it."""
    condition: ErrorCondition | None = None


class Redactor(Protocol):
    """Says what a client may read of what Spark says in words."""

    @property
    def shows_guards(self) -> bool:
        """Whether plans and counts would tell of what the gateway put in."""
        ...

    def errors(self, errors: Sequence[ServerError]) -> Sequence[ServerError]: ...

    def stream_event(self, event: str) -> str:
        """Redact an event of a streaming query's start, progress or end: a JSON object."""
        ...

    def stream_failure(self, message: str, error_class: str) -> str: ...

    def stream_stack(self, stack: str) -> str | None: ...

    def stream_plan(self, plan: str) -> str: ...

    def stream_status(self, message: str) -> str: ...

    def text(self, text: str) -> str:
        """Redact any other text."""
        ...


def redact_details(data: bytes, redactor: Redactor) -> bytes:
    """Return a `FetchErrorDetailsResponse` as the client may see it."""
    response = parse(pb.FetchErrorDetailsResponse, data)
    shown = pb.FetchErrorDetailsResponse(
        session_id=response.session_id, server_side_session_id=response.server_side_session_id
    )
    shown.errors.extend(_redact_errors(response.errors, redactor))
    if response.HasField("root_error_idx") and 0 <= response.root_error_idx < len(shown.errors):
        shown.root_error_idx = response.root_error_idx
    return serialize(shown)


def conditions_of_details(data: bytes) -> list[str]:
    """Return the conditions of an error and its causes in a `FetchErrorDetailsResponse`, as far as they have
    one. Raises ProtobufError."""
    errors = parse(pb.FetchErrorDetailsResponse, data).errors
    return [error.spark_throwable.error_class for error in errors if error.HasField("spark_throwable")]


def redact_response(data: bytes, redactor: Redactor) -> bytes:
    """Return an `ExecutePlanResponse` other than rows as the client may see it.

    Errors of observations and of streaming queries are redacted like all others. With guards the counts go
    that Spark makes per node of the plan: they tell how many rows there were before the filter.
    """
    shown = parse(pb.ExecutePlanResponse, data)
    for observed in shown.observed_metrics:
        errors = _redact_errors(observed.errors, redactor)
        observed.ClearField("errors")
        observed.errors.extend(errors)
    if redactor.shows_guards:
        shown.ClearField("metrics")
        if shown.HasField("execution_progress"):
            for stage in shown.execution_progress.stages:
                stage.ClearField("input_bytes_read")
    match shown.WhichOneof("response_type"):
        case "streaming_query_command_result":
            _redact_streaming(shown.streaming_query_command_result, redactor)
        case "write_stream_operation_start_result":
            started = shown.write_stream_operation_start_result
            if started.HasField("query_started_event_json"):
                started.query_started_event_json = redactor.text(started.query_started_event_json)
        case "streaming_query_listener_events_result":
            for event in shown.streaming_query_listener_events_result.events:
                event.event_json = redactor.stream_event(event.event_json)
        case _:
            pass
    return serialize(shown)


def _redact_streaming(result: pb.StreamingQueryCommandResult, redactor: Redactor) -> None:
    """Redact what a streaming query tells of itself, in place."""
    match result.WhichOneof("result_type"):
        case "exception":
            failure = result.exception
            if failure.HasField("exception_message"):
                failure.exception_message = redactor.stream_failure(
                    failure.exception_message, failure.error_class
                )
            if failure.HasField("stack_trace"):
                stack = redactor.stream_stack(failure.stack_trace)
                if stack is None:
                    failure.ClearField("stack_trace")
                else:
                    failure.stack_trace = stack
        case "explain":
            result.explain.result = redactor.stream_plan(result.explain.result)
        case "status":
            result.status.status_message = redactor.stream_status(result.status.status_message)
        case "recent_progress":
            told = [redactor.stream_event(one) for one in result.recent_progress.recent_progress_json]
            result.recent_progress.ClearField("recent_progress_json")
            result.recent_progress.recent_progress_json.extend(told)
        case _:
            pass


def _redact_errors(errors: Sequence[_Error], redactor: Redactor) -> list[_Error]:
    return [_write_error(error) for error in redactor.errors([_read(error) for error in errors])]


def _read(error: _Error) -> ServerError:
    return ServerError(
        classes=tuple(error.error_type_hierarchy),
        message=error.message,
        stack=tuple(frame.SerializeToString() for frame in error.stack_trace),
        cause=error.cause_idx if error.HasField("cause_idx") else None,
        condition=_read_condition(error.spark_throwable) if error.HasField("spark_throwable") else None,
    )


def _read_condition(throwable: _Throwable) -> ErrorCondition:
    change = None
    if throwable.HasField("breaking_change_info"):
        info = throwable.breaking_change_info
        change = BreakingChange(messages=tuple(info.migration_message), rest=serialize(info))
    contexts = (
        ErrorContext(
            kind=context.context_type,
            object_type=context.object_type,
            object_name=context.object_name,
            start=context.start_index,
            stop=context.stop_index,
            fragment=context.fragment,
            call_site=context.call_site,
            summary=context.summary,
        )
        for context in throwable.query_contexts
    )
    return ErrorCondition(
        error_class=throwable.error_class,
        sqlstate=throwable.sql_state,
        parameters=dict(throwable.message_parameters),
        contexts=tuple(contexts),
        breaking_change=change,
    )


def _write_error(error: ServerError) -> _Error:
    shown = _Error(error_type_hierarchy=error.classes, message=error.message)
    for frame in error.stack:
        shown.stack_trace.add().MergeFromString(frame)
    if error.cause is not None:
        shown.cause_idx = error.cause
    if (condition := error.condition) is None:
        return shown
    throwable = shown.spark_throwable
    throwable.SetInParent()
    if condition.error_class:
        throwable.error_class = condition.error_class
    if condition.sqlstate:
        throwable.sql_state = condition.sqlstate
    for key, value in condition.parameters.items():
        throwable.message_parameters[key] = value
    for context in condition.contexts:
        throwable.query_contexts.add(
            context_type=_Context.ContextType.ValueType(context.kind),
            object_type=context.object_type,
            object_name=context.object_name,
            start_index=context.start,
            stop_index=context.stop,
            fragment=context.fragment,
            call_site=context.call_site,
            summary=context.summary,
        )
    if (change := condition.breaking_change) is not None:
        info = throwable.breaking_change_info
        info.MergeFromString(change.rest)
        info.ClearField("migration_message")
        info.migration_message.extend(change.messages)
    return shown


# -- lists, and relations that are answered ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowBatch:
    """Rows of a response, or a chunk of them: an Arrow stream."""

    data: bytes = field(repr=False)
    rows: int
    start: int | None
    """Number of its first row; None where it is not told."""
    chunk: int = 0
    chunks: int = 0
    """How many make the batch; 0: it is whole."""


class Response:
    """One `ExecutePlanResponse` that is changed before it is shown."""

    def __init__(self, data: bytes) -> None:
        self._message = parse(pb.ExecutePlanResponse, data)

    @property
    def case(self) -> str | None:
        """Name of the field that is set; None: metrics or a schema only."""
        return self._message.WhichOneof("response_type")

    def drop_counts(self) -> None:
        """Leave out Spark's counts, which are of the rows before they are filtered."""
        self._message.ClearField("metrics")
        self._message.ClearField("observed_metrics")

    @property
    def batch(self) -> ArrowBatch:
        batch = self._message.arrow_batch
        return ArrowBatch(
            data=batch.data,
            rows=batch.row_count,
            start=batch.start_offset if batch.HasField("start_offset") else None,
            chunk=batch.chunk_index,
            chunks=batch.num_chunks_in_batch,
        )

    def replace_batch(self, batch: ArrowBatch) -> None:
        """Put a whole batch in the place of what it has."""
        written = self._message.arrow_batch
        written.Clear()
        written.data, written.row_count = batch.data, batch.rows
        if batch.start is not None:
            written.start_offset = batch.start

    @property
    def relation(self) -> str | None:
        """The kind of relation that a SQL command is answered with, by the name of its field."""
        return self._message.sql_command_result.relation.WhichOneof("rel_type")

    def replace_relation(self, relation: bytes) -> None:
        """Put a serialized relation in the place of the one it has."""
        own = parse(pb.Relation, relation)
        self._message.sql_command_result.relation.CopyFrom(own)

    @property
    def command_rows(self) -> bytes | None:
        """The rows, an Arrow stream, that a SQL command is answered with."""
        relation = self._message.sql_command_result.relation
        if relation.WhichOneof("rel_type") != "local_relation" or not relation.local_relation.HasField(
            "data"
        ):
            return None
        return relation.local_relation.data

    def replace_command_rows(self, data: bytes) -> None:
        self._message.sql_command_result.relation.local_relation.data = data

    def serialize(self) -> bytes:
        return serialize(self._message)


# -- answers of unary calls ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResponse:
    """Answer to a `Config` call: keys with their values, and warnings."""

    session_id: str
    server_session: str
    pairs: tuple[tuple[str, str | None], ...]
    warnings: tuple[str, ...]


def read_config(data: bytes) -> ConfigResponse:
    response = parse(pb.ConfigResponse, data)
    return ConfigResponse(
        session_id=response.session_id,
        server_session=response.server_side_session_id,
        pairs=pairs_of(response.pairs),
        warnings=tuple(response.warnings),
    )


def write_config(response: ConfigResponse) -> bytes:
    return serialize(
        pb.ConfigResponse(
            session_id=response.session_id,
            server_side_session_id=response.server_session,
            pairs=[pair(*one) for one in response.pairs],
            warnings=response.warnings,
        )
    )


def with_interrupted(data: bytes, operation_ids: Iterable[str], renamed: Mapping[str, str]) -> bytes:
    """Return an `InterruptResponse` with these operations in it, too; `renamed`: Spark's ids of operations
    that their clients know by others."""
    response = parse(pb.InterruptResponse, data)
    interrupted = [renamed.get(one, one) for one in response.interrupted_ids]
    response.ClearField("interrupted_ids")
    response.interrupted_ids.extend([*interrupted, *operation_ids])
    return serialize(response)


def with_running(data: bytes, waits: Mapping[str, str], renamed: Mapping[str, str], *, listed: bool) -> bytes:
    """Return a `GetStatusResponse`, without extensions of Spark's, that says of these operations that they
    run, and what each waits for, if for anything: as `google.rpc.RequestInfo`.

    `renamed` as above; `listed`: all operations were asked for, and not some by their ids.
    """
    response = parse(pb.GetStatusResponse, data)
    response.ClearField("extensions")
    if renamed:
        current = [one for one in response.operation_statuses if one.operation_id not in renamed.values()]
        response.ClearField("operation_statuses")
        response.operation_statuses.extend(current)
    told = {}
    for status in response.operation_statuses:
        status.operation_id = renamed.get(status.operation_id, status.operation_id)
        status.ClearField("extensions")
        told[status.operation_id] = status
    for operation_id, words in waits.items():
        if operation_id not in told and listed:
            told[operation_id] = response.operation_statuses.add(operation_id=operation_id)
        if operation_id in told:
            told[operation_id].state = _RUNNING
            if words:
                info = error_details_pb2.RequestInfo(serving_data=words)
                told[operation_id].extensions.add().Pack(info)
    return serialize(response)


def write_released(session_id: str, server_session: str, operation_id: str) -> bytes:
    """Write the answer to a `ReleaseExecuteRequest` of which Spark does not hear."""
    return serialize(
        pb.ReleaseExecuteResponse(
            session_id=session_id, server_side_session_id=server_session, operation_id=operation_id
        )
    )


def result_complete(session_id: str, server_session: str, operation_id: str, response_id: str) -> bytes:
    """Write the response with which Spark ends an answer."""
    response = pb.ExecutePlanResponse(
        session_id=session_id,
        server_side_session_id=server_session,
        operation_id=operation_id,
        response_id=response_id,
    )
    response.result_complete.SetInParent()
    return serialize(response)
