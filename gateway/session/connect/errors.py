"""Errors of Spark Connect as a client may read them: the status, its details, and what is fetched of them.

Where nothing is guarded they are what Spark sent, as if it had had the user's own plan and texts. With row
filters or masks in the plan they lose what shows the plan (the plan's text, stack traces, fragments of texts
that the gateway wrote) and, for what came while rows were read, every value; class, SQLSTATE and the
exception's types stay, so that a client raises the same exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from gateway.model.statement import RewrittenText
from gateway.session.connect.config import REDACTED
from gateway.session.places import fragment_of, in_users_text, original_range
from gateway.session.ports import RpcError
from gateway.session.redact import UNKNOWN, WITHHELD, ErrorKind, in_users_words, redact, without_paths
from gateway.session.whole_errors import NOT_FOUND, Missing, as_written
from gateway.wire.connect import descriptor_of, parse, pb, serialize

MAX_MESSAGE_CHARS = 2048
"""Spark cuts the message of a status here too: gRPC takes 8 KB for a status and everything beside it."""
WITHHELD_PARAMETER = "***"
MAX_DETAILS_BYTES = 4096
"""Parameters and stack traces of a status that is larger than this are left out, as Spark does."""

_ANALYSIS = re.compile(
    r"org\.apache\.spark\.sql\.(?:AnalysisException|connect\.common\.InvalidPlanInput"
    r"|catalyst\.(?:ExtendedAnalysisException|parser\.\w+|analysis\.\w+))"
)
"""Exceptions that come before any row is read. A user cannot choose an exception's class."""
_PLANNING = ("UNSUPPORTED_FEATURE.TABLE_OPERATION", "org.apache.spark.SparkUnsupportedOperationException")
"""Condition and exception of a command that a table cannot do, which is planned before any row is read."""
_UNRESOLVED = frozenset(
    {"org.apache.spark.sql.AnalysisException", "org.apache.spark.sql.catalyst.ExtendedAnalysisException"}
)
"""What Spark raises of a relation that it cannot resolve; of a target that is to go it raises others."""
_JAVA_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
_ERROR_CLASS = re.compile(r"[A-Z_][A-Z0-9_]*(?:\.[A-Z0-9_]+)*")
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_TYPE = re.compile(r'"[A-Z][A-Z_ ]*(?:\([0-9, ]+\))?"')
_PARAMETER = re.compile(r"\w{1,64}")
_EXPRESSION_ID = re.compile(r"#\d+")
"""`salary#12`: attributes as plans print them."""
_STREAM_STATUS = re.compile(
    r"Initializing (?:StreamExecution|sources)|Getting offsets|Processing new data|Stopped"
    r"|Waiting for (?:data to arrive|next trigger)|Terminated with exception"
)
"""How what a streaming query says of itself begins (StreamExecution and its kinds, 4.3)."""
_NEEDED = frozenset({"errorId", "errorClass", "sqlState", "classes"})
_FALLBACK_CLASS = "java.lang.Exception"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What is known of the execution that failed."""

    has_obligations: bool
    """Whether it reads guarded relations: row filters, masks, columns that the principal may not see, or
    temporary views made of such. What is not known counts as having some."""
    plain: bool = False
    """Whether nothing of it is guarded: then all is told."""
    missing: Missing = ()
    rewritten: Sequence[RewrittenText] = ()
    hides_columns: bool = False
    hides_target: bool = False
    """All four as Cleared has them."""
    words: Sequence[tuple[str, str]] = ()
    """(what the gateway wrote, what the user wrote) pairs."""
    texts: Sequence[str] = ()
    """The SQL texts and expressions of the plan, as the user wrote them."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """What no client is shown, whatever else may be: the token that gateway and Spark share."""

    @property
    def shows_guards(self) -> bool:
        """Whether a plan would print more than names that the gateway wrote out in full."""
        return not self.plain or bool(self.missing)

    def tells_all(self, kind: ErrorKind) -> bool:
        """Whether an error may be told whole. Of a table that is not there Spark says nothing else; with any
        other error it has appeared, and nobody has judged what its columns are."""
        return self.plain and (not self.missing or _tells_names(kind))

    def text(self, text: str, kind: ErrorKind | None = None) -> str:
        """Return a text of Spark's in the user's words, without secrets; `kind`: of the error it is from."""
        if self.plain:
            named = kind is not None and _tells_names(kind)
            text = as_written(text, self.rewritten, self.missing, named=named)
        else:
            text = in_users_words(text, self.words)
        for secret in self.secrets:
            if secret:
                text = text.replace(secret, REDACTED)
        return text


def _tells_names(kind: ErrorKind) -> bool:
    """Whether an error tells names as they are written, and of missing tables nothing else."""
    return kind.error_class == NOT_FOUND and kind.exception in _UNRESOLVED


def redact_error(error: RpcError, redaction: Redaction) -> RpcError:
    """Return a failed call's status as the client may see it."""
    status = _status(error)
    info = next((info for detail in status.details if (info := _error_info(detail)) is not None), None)
    classes = _classes(info) if info is not None else ()
    told = info.metadata if info is not None else {}
    kind = _kind(told.get("errorClass", ""), classes, info is not None)
    sqlstate = _matching(_SQLSTATE, told.get("sqlState", ""))
    # Without details it is gRPC's own, or one whose kind cannot be known.
    told_by_spark = info is not None or not redaction.has_obligations
    message = _message(error.message if told_by_spark else "", sqlstate, kind, redaction)[:MAX_MESSAGE_CHARS]
    # A client takes the details only when code and message are the status's own.
    shown = Status(code=error.code, message=message)
    for detail in status.details:
        if detail.Is(descriptor_of(RetryInfo)):
            shown.details.append(detail)
    if info is not None:
        shown.details.add().Pack(_redacted_info(info, classes, kind, sqlstate, redaction))
    return RpcError(error.code, message, serialize(shown) if shown.details else b"")


def error_id(error: RpcError) -> str:
    """Return the id by which the client will ask for the details of an error; empty when it has none."""
    for detail in _status(error).details:
        if (info := _error_info(detail)) is not None:
            return str(info.metadata.get("errorId", ""))
    return ""


def redact_details(response: pb.FetchErrorDetailsResponse, redaction: Redaction) -> bytes:
    """Return a `FetchErrorDetailsResponse` as the client may see it, serialized."""
    shown = pb.FetchErrorDetailsResponse(
        session_id=response.session_id, server_side_session_id=response.server_side_session_id
    )
    shown.errors.extend(_redacted_errors(response.errors, redaction))
    if response.HasField("root_error_idx") and 0 <= response.root_error_idx < len(shown.errors):
        shown.root_error_idx = response.root_error_idx
    return serialize(shown)


def redact_response(response: bytes, redaction: Redaction) -> bytes:
    """Return an `ExecutePlanResponse` other than rows as the client may see it. Raises ProtobufError.

    Errors of observations and of streaming queries are redacted like all others. With obligations the
    counts go that Spark makes per node of the plan: they tell how many rows there were before the filter.
    """
    shown = parse(pb.ExecutePlanResponse, response)
    for observed in shown.observed_metrics:
        errors = _redacted_errors(observed.errors, redaction)
        observed.ClearField("errors")
        observed.errors.extend(errors)
    if redaction.shows_guards:
        shown.ClearField("metrics")
        if shown.HasField("execution_progress"):
            for stage in shown.execution_progress.stages:
                stage.ClearField("input_bytes_read")
    match shown.WhichOneof("response_type"):
        case "streaming_query_command_result":
            _redact_streaming(shown.streaming_query_command_result, redaction)
        case "write_stream_operation_start_result":
            started = shown.write_stream_operation_start_result
            if started.HasField("query_started_event_json"):
                started.query_started_event_json = redaction.text(started.query_started_event_json)
        case "streaming_query_listener_events_result":
            for event in shown.streaming_query_listener_events_result.events:
                event.event_json = _event(event.event_json, redaction)
        case _:
            pass
    return serialize(shown)


def _status(error: RpcError) -> Status:
    try:
        return Status.FromString(error.details)
    except DecodeError:
        return Status()


def _error_info(detail: AnyMessage) -> ErrorInfo | None:
    if not detail.Is(descriptor_of(ErrorInfo)):
        return None
    info = ErrorInfo()
    try:
        detail.Unpack(info)
    except DecodeError:
        return None
    return info


def _classes(info: ErrorInfo) -> tuple[str, ...]:
    """Return the exception's type and those above it."""
    named = _json(info.metadata.get("classes", ""))
    listed = [str(name) for name in named] if isinstance(named, list) else []
    return _java_names(listed or [info.reason])


def _java_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if len(name) <= 256 and _JAVA_NAME.fullmatch(name))


def _kind(error_class: str, classes: Sequence[str], spark: bool) -> ErrorKind:
    """Say what kind an error is, by what Spark tells of it and not by its message."""
    error_class = _matching(_ERROR_CLASS, error_class)
    analysis = spark and bool(classes and _ANALYSIS.fullmatch(classes[0]))
    # Of sessions and operations; clients look for these words.
    handles = error_class.startswith(("INVALID_HANDLE.", "INVALID_CURSOR."))
    planning = spark and bool(classes) and (error_class, classes[0]) == _PLANNING
    exception = classes[0] if spark and classes else ""
    return ErrorKind(error_class=error_class, analysis=analysis or handles or planning, exception=exception)


def _matching(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _message(message: str, sqlstate: str, kind: ErrorKind, redaction: Redaction) -> str:
    if not message.strip():
        return UNKNOWN
    if not redaction.tells_all(kind):
        message = redact(
            message,
            sqlstate,
            written_by_us=redaction.words,
            has_obligations=redaction.has_obligations,
            hides_columns=redaction.hides_columns,
            hides_target=redaction.hides_target,
            kind=kind,
        )
    return redaction.text(message, kind)


def _redacted_info(
    info: ErrorInfo, classes: Sequence[str], kind: ErrorKind, sqlstate: str, redaction: Redaction
) -> ErrorInfo:
    """Return the `ErrorInfo` with what pyspark raises its exception from."""
    shown = ErrorInfo(reason=next(iter(_java_names([info.reason])), ""), domain="org.apache.spark")
    kept = {
        "errorId": info.metadata.get("errorId", ""),
        "errorClass": kind.error_class,
        "sqlState": sqlstate,
        "classes": json.dumps(list(classes)) if classes else "",
    }
    parameters = _json(info.metadata.get("messageParameters", ""))
    if isinstance(parameters, dict):
        named = {str(key): str(value) for key, value in parameters.items()}
        kept["messageParameters"] = json.dumps(_parameters(named, kind, redaction))
    if "stackTrace" in info.metadata and redaction.tells_all(kind):
        kept["stackTrace"] = redaction.text(info.metadata["stackTrace"])
    for key, value in kept.items():
        if value and (key in _NEEDED or shown.ByteSize() + len(value) < MAX_DETAILS_BYTES):
            shown.metadata[key] = value
    return shown


def _parameters(parameters: Mapping[str, str], kind: ErrorKind, redaction: Redaction) -> dict[str, str]:
    """Return the parameters of a message: names of things, but values of rows and pieces of plans too."""
    shown: dict[str, str] = {}
    for key, value in parameters.items():
        if not _PARAMETER.fullmatch(key):
            continue
        if redaction.hides_target:
            shown[key] = WITHHELD_PARAMETER
        elif not redaction.has_obligations:
            withheld = not redaction.tells_all(kind) and _shows_plan(value)
            shown[key] = WITHHELD_PARAMETER if withheld else redaction.text(value, kind)
        elif kind.analysis and not _shows_plan(value):
            shown[key] = without_paths(redaction.text(value))
        elif key in ("sourceType", "targetType") and _TYPE.fullmatch(value):
            shown[key] = value
        else:
            shown[key] = WITHHELD_PARAMETER
    return shown


def _shows_plan(value: str) -> bool:
    return "\n" in value or _EXPRESSION_ID.search(value) is not None


def _redacted_errors(
    errors: Sequence[pb.FetchErrorDetailsResponse.Error], redaction: Redaction
) -> list[pb.FetchErrorDetailsResponse.Error]:
    return [_redacted(error, index, len(errors), redaction) for index, error in enumerate(errors)]


def _redacted(
    error: pb.FetchErrorDetailsResponse.Error, index: int, count: int, redaction: Redaction
) -> pb.FetchErrorDetailsResponse.Error:
    throwable = error.spark_throwable
    classes = _java_names(error.error_type_hierarchy) or (_FALLBACK_CLASS,)
    kind = _kind(throwable.error_class, classes, spark=True)
    sqlstate = _matching(_SQLSTATE, throwable.sql_state)
    shown = pb.FetchErrorDetailsResponse.Error(
        error_type_hierarchy=classes, message=_message(error.message, sqlstate, kind, redaction)
    )
    if redaction.tells_all(kind):
        shown.stack_trace.extend(error.stack_trace)
    if error.HasField("cause_idx") and index < error.cause_idx < count:
        # Causes follow one another; clients follow them without looking where they have been.
        shown.cause_idx = error.cause_idx
    if error.HasField("spark_throwable"):
        _redact_throwable(throwable, shown.spark_throwable, kind, redaction)
        if sqlstate:
            shown.spark_throwable.sql_state = sqlstate
    return shown


def _redact_throwable(
    throwable: pb.FetchErrorDetailsResponse.SparkThrowable,
    shown: pb.FetchErrorDetailsResponse.SparkThrowable,
    kind: ErrorKind,
    redaction: Redaction,
) -> None:
    shown.SetInParent()
    if kind.error_class:
        shown.error_class = kind.error_class
    for key, value in _parameters(dict(throwable.message_parameters), kind, redaction).items():
        shown.message_parameters[key] = value
    contexts = (_context(context, kind, redaction) for context in throwable.query_contexts)
    shown.query_contexts.extend(context for context in contexts if context is not None)
    if throwable.HasField("breaking_change_info"):
        # Spark's own advice on what another version did, the same words for everybody.
        info = shown.breaking_change_info
        info.CopyFrom(throwable.breaking_change_info)
        messages = [redaction.text(message) for message in info.migration_message]
        info.ClearField("migration_message")
        info.migration_message.extend(messages)


def _context(
    context: pb.FetchErrorDetailsResponse.QueryContext, kind: ErrorKind, redaction: Redaction
) -> pb.FetchErrorDetailsResponse.QueryContext | None:
    """Return the place of an error in the user's text; None when it is a place in ours.

    Spark's summary quotes the line around it, with what the gateway wrote there, and its positions are those
    of the text that Spark was sent.
    """
    kinds = pb.FetchErrorDetailsResponse.QueryContext
    if redaction.tells_all(kind):
        return _in_users_text(context, redaction)
    if context.context_type == kinds.DATAFRAME:
        # Where the client's program called a function, by its own account.
        return kinds(
            context_type=kinds.DATAFRAME,
            fragment=context.fragment,
            call_site=context.call_site,
            summary=context.summary,
        )
    if context.context_type != kinds.SQL:
        return None
    fragment = in_users_words(context.fragment, redaction.words)
    text = next((text for text in redaction.texts if fragment and fragment in text), None)
    if text is None:
        return None
    start = text.index(fragment)
    return kinds(
        context_type=kinds.SQL,
        start_index=start,
        stop_index=start + len(fragment) - 1,
        fragment=fragment,
        summary=f"== SQL ==\n{fragment}\n{'^' * min(len(fragment), 80)}\n",
    )


def _in_users_text(
    context: pb.FetchErrorDetailsResponse.QueryContext, redaction: Redaction
) -> pb.FetchErrorDetailsResponse.QueryContext:
    """Return the place of an error in the text that the user wrote, as Spark would tell it."""
    shown = type(context)()
    shown.CopyFrom(context)
    start, stop = context.start_index, context.stop_index
    if context.context_type != pb.FetchErrorDetailsResponse.QueryContext.SQL or context.object_name:
        return shown
    for text in redaction.rewritten:
        if fragment_of(text.forwarded, start, stop) == context.fragment:
            shown.start_index, shown.stop_index = original_range(text, start, stop)
            shown.fragment = fragment_of(text.original, shown.start_index, shown.stop_index)
            shown.summary = in_users_text(context.summary, (text,))
            break
    return shown


def _redact_streaming(result: pb.StreamingQueryCommandResult, redaction: Redaction) -> None:
    """Redact what a streaming query tells of itself, in place."""
    match result.WhichOneof("result_type"):
        case "exception":
            failure = result.exception
            if failure.HasField("exception_message"):
                failure.exception_message = _streaming_message(failure, redaction)
            if redaction.shows_guards:
                failure.ClearField("stack_trace")
            elif failure.HasField("stack_trace"):
                failure.stack_trace = redaction.text(failure.stack_trace)
        case "explain":
            if redaction.shows_guards:
                result.explain.result = "the plan is not shown because row filters or masks apply"
            else:
                result.explain.result = redaction.text(result.explain.result)
        case "status":
            if redaction.shows_guards:
                # It goes on with what failed, or with the path of what is read.
                known = _STREAM_STATUS.match(result.status.status_message)
                result.status.status_message = known.group() if known is not None else WITHHELD
            else:
                result.status.status_message = redaction.text(result.status.status_message)
        case "recent_progress":
            told = [_event(event, redaction) for event in result.recent_progress.recent_progress_json]
            result.recent_progress.ClearField("recent_progress_json")
            result.recent_progress.recent_progress_json.extend(told)
        case _:
            pass


def _streaming_message(failure: pb.StreamingQueryCommandResult.ExceptionResult, redaction: Redaction) -> str:
    """Return `class: message`, which pyspark cuts at the colon."""
    if not redaction.has_obligations:
        return _message(failure.exception_message, "", _kind("", (), spark=False), redaction)
    kind = ErrorKind(error_class=_matching(_ERROR_CLASS, failure.error_class), analysis=False)
    name = failure.exception_message.partition(":")[0]
    name = next(iter(_java_names([name])), "org.apache.spark.sql.streaming.StreamingQueryException")
    return f"{name}: {redact('', '', has_obligations=True, kind=kind)}"


_TOLD_OF_STREAMS = frozenset(
    {"id", "runId", "name", "timestamp", "batchId", "batchDuration", "durationMs", "jobTags"}
)
_SILENT_PROGRESS: Mapping[str, object] = {
    "stateOperators": [],
    "sources": [],
    "sink": {"description": "", "numOutputRows": -1, "metrics": {}},
}
"""What clients expect of the progress of a stream, with nothing in it."""


def _event(event: str, redaction: Redaction) -> str:
    """Return what a streaming query says of its start, progress or end, a JSON object.

    With obligations what it read, how many rows of it, and why it failed go.
    """
    if not redaction.shows_guards:
        return redaction.text(event)
    told = _json(event)
    if not isinstance(told, dict):
        return "{}"
    kept = _told(told)
    if isinstance(progress := told.get("progress"), dict):
        kept["progress"] = {**_told(progress), **_SILENT_PROGRESS}
    elif "batchId" in told:
        kept.update(_SILENT_PROGRESS)
    if "exception" in told:
        failed = told["exception"] is not None
        kept["exception"] = WITHHELD if failed else None
        error_class = told.get("errorClassOnException")
        kept["errorClassOnException"] = (
            _matching(_ERROR_CLASS, error_class) or None if isinstance(error_class, str) else None
        )
    return json.dumps(kept)


def _told(event: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in event.items() if key in _TOLD_OF_STREAMS}
