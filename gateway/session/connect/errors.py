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
from dataclasses import dataclass, field, replace

from gateway.errors import RpcError
from gateway.model.secret_values import without_secrets
from gateway.model.statement import RewrittenText
from gateway.session.conditions import STARS, Own
from gateway.session.conditions import may_show_parameter as may_show
from gateway.session.error_places import fragment_of, in_users_text, original_range
from gateway.session.redact import (
    UNKNOWN,
    WITHHELD,
    ErrorKind,
    comes_before_rows,
    in_users_words,
    redact,
    without_paths,
)
from gateway.session.whole_errors import NOT_FOUND, Missing, as_written
from gateway.wire.connect_errors import StatusDetails, details_of, pack_status
from gateway.wire.connect_responses import (
    IN_DATAFRAME,
    IN_SQL,
    ErrorCondition,
    ErrorContext,
    ServerError,
)

MAX_MESSAGE_CHARS = 2048
"""Spark cuts the message of a status here too: gRPC takes 8 KB for a status and everything beside it."""
MAX_DETAILS_BYTES = 4096
"""Parameters and stack traces of a status that is larger than this are left out, as Spark does."""

_SAYING_NOTHING = frozenset({"org.apache.spark.SparkException", "java.util.concurrent.ExecutionException"})
"""Exceptions around the one that says why a statement failed."""
_UNRESOLVED = frozenset(
    {"org.apache.spark.sql.AnalysisException", "org.apache.spark.sql.catalyst.ExtendedAnalysisException"}
)
"""What Spark raises of a relation that it cannot resolve; of a target that is to go it raises others."""
_JAVA_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
_ERROR_CLASS = re.compile(r"[A-Z_][A-Z0-9_]*(?:\.[A-Z0-9_]+)*")
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
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
_STREAM_EXCEPTION = "org.apache.spark.sql.streaming.StreamingQueryException"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What is known of the execution that failed."""

    has_obligations: bool
    """Whether it reads guarded relations: row filters, masks, columns that the principal may not see, or
    temporary views made of such. What is not known counts as having some."""
    plain: bool = False
    """Whether nothing of it is guarded: then all is shown."""
    missing: Missing = ()
    rewritten: Sequence[RewrittenText] = ()
    hides_columns: bool = False
    hides_target: bool = False
    """All four as Cleared has them."""
    substitutions: Sequence[tuple[str, str]] = ()
    """(what the gateway wrote, what the user wrote) pairs."""
    texts: Sequence[str] = ()
    """The SQL texts and expressions of the plan, as the user wrote them."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """What no client is shown, whatever else may be: the token that gateway and Spark share."""

    @property
    def own(self) -> Own:
        """What the statement says itself."""
        return Own.of(self.texts)

    @property
    def shows_guards(self) -> bool:
        """Whether a plan would print more than names that the gateway wrote out in full."""
        return not self.plain or bool(self.missing)

    def shows_all(self, kind: ErrorKind) -> bool:
        """Whether an error may be shown whole. Of a table that is not there Spark says nothing else; with any
        other error it has appeared, and nobody has judged what its columns are."""
        return self.plain and (not self.missing or _names_tables(kind))

    def text(self, text: str, kind: ErrorKind | None = None) -> str:
        """Return a text of Spark's in the user's words, without secrets; `kind`: of the error it is from."""
        if self.plain:
            named = kind is not None and _names_tables(kind)
            text = as_written(text, self.rewritten, self.missing, named=named)
        else:
            text = in_users_words(text, self.substitutions)
        return without_secrets(text, self.secrets)

    # -- as `wire.connect_responses.Redactor` asks ---------------------------------------------------------

    def errors(self, errors: Sequence[ServerError]) -> Sequence[ServerError]:
        return [_redact_error(error, index, errors, self) for index, error in enumerate(errors)]

    def stream_event(self, event: str) -> str:
        """With obligations what was read, how many rows of it, and why it failed go."""
        return _silent_event(event) if self.shows_guards else self.text(event)

    def stream_failure(self, message: str, error_class: str) -> str:
        """Return `class: message`, which pyspark cuts at the colon."""
        if not self.has_obligations:
            return _message(message, "", _kind("", (), spark=False), self)
        kind = ErrorKind(error_class=_match(_ERROR_CLASS, error_class), analysis=False)
        name = next(iter(_java_names([message.partition(":")[0]])), _STREAM_EXCEPTION)
        return f"{name}: {redact('', '', has_obligations=True, kind=kind)}"

    def stream_stack(self, stack: str) -> str | None:
        return None if self.shows_guards else self.text(stack)

    def stream_plan(self, plan: str) -> str:
        if self.shows_guards:
            return "the plan is not shown because row filters or masks apply"
        return self.text(plan)

    def stream_status(self, message: str) -> str:
        """With obligations its beginning: it goes on with what failed, or with the path of what is read."""
        if not self.shows_guards:
            return self.text(message)
        known = _STREAM_STATUS.match(message)
        return known.group() if known is not None else WITHHELD


def _names_tables(kind: ErrorKind) -> bool:
    """Whether an error tells names as they are written, and of missing tables nothing else."""
    return kind.error_class == NOT_FOUND and kind.exception in _UNRESOLVED


def redact_error(error: RpcError, redaction: Redaction) -> RpcError:
    """Return a failed call's status as the client may see it."""
    details = details_of(error.details)
    metadata = details.metadata
    classes = _classes(details.reason, metadata) if metadata is not None else ()
    told = metadata or {}
    given = _read_parameters(told)
    kind = _kind(told.get("errorClass", ""), classes, metadata is not None, given)
    sqlstate = _match(_SQLSTATE, metadata.get("sqlState", "") if metadata else "")
    # Without details it is gRPC's own, or one whose kind cannot be known.
    reported_by_spark = metadata is not None or not redaction.has_obligations
    message = _message(error.message if reported_by_spark else "", sqlstate, kind, redaction)
    message = message[:MAX_MESSAGE_CHARS]
    shown = StatusDetails(retry=details.retry)
    if metadata is not None:
        reason = next(iter(_java_names([details.reason])), "")
        metadata = _redact_metadata(metadata, reason, classes, kind, sqlstate, redaction)
        shown = replace(shown, reason=reason, metadata=metadata)
    has_some = metadata is not None or details.retry
    return RpcError(error.code, message, pack_status(error.code, message, shown) if has_some else b"")


def _classes(reason: str, metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Return the exception's type and those above it."""
    named = _json(metadata.get("classes", ""))
    listed = [str(name) for name in named] if isinstance(named, list) else []
    return _java_names(listed or [reason])


def _java_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if len(name) <= 256 and _JAVA_NAME.fullmatch(name))


def _kind(
    error_class: str, classes: Sequence[str], spark: bool, parameters: Mapping[str, str] | None = None
) -> ErrorKind:
    """Say what kind an error is, by what Spark tells of it and not by its message."""
    error_class = _match(_ERROR_CLASS, error_class)
    exception = classes[0] if spark and classes else ""
    # Of sessions and operations; clients look for these words.
    handles = error_class.startswith(("INVALID_HANDLE.", "INVALID_CURSOR."))
    analysis = handles or comes_before_rows(error_class, exception)
    return ErrorKind(error_class=error_class, analysis=analysis, exception=exception, parameters=parameters)


def _read_parameters(metadata: Mapping[str, str]) -> Mapping[str, str] | None:
    parameters = _json(metadata.get("messageParameters", ""))
    if not isinstance(parameters, dict):
        return None
    return {str(key): str(value) for key, value in parameters.items()}


def _match(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _message(message: str, sqlstate: str, kind: ErrorKind, redaction: Redaction) -> str:
    if not message.strip():
        return UNKNOWN
    if not redaction.shows_all(kind):
        message = redact(
            message,
            sqlstate,
            substitutions=redaction.substitutions,
            has_obligations=redaction.has_obligations,
            hides_columns=redaction.hides_columns,
            hides_target=redaction.hides_target,
            kind=kind,
            own=redaction.own,
        )
    return redaction.text(message, kind)


def _redact_metadata(
    metadata: Mapping[str, str],
    reason: str,
    classes: Sequence[str],
    kind: ErrorKind,
    sqlstate: str,
    redaction: Redaction,
) -> Mapping[str, str]:
    """Return the `ErrorInfo`'s metadata: what pyspark raises its exception from."""
    redacted = {
        "errorId": metadata.get("errorId", ""),
        "errorClass": kind.error_class,
        "sqlState": sqlstate,
        "classes": json.dumps(list(classes)) if classes else "",
    }
    named = _read_parameters(metadata)
    if named is not None:
        redacted["messageParameters"] = json.dumps(_parameters(named, kind, redaction))
    if "stackTrace" in metadata and redaction.shows_all(kind):
        redacted["stackTrace"] = redaction.text(metadata["stackTrace"])
    shown: dict[str, str] = {}
    size = len(reason)
    for key, value in redacted.items():
        if value and (key in _NEEDED or size + len(value) < MAX_DETAILS_BYTES):
            shown[key] = value
            size += len(key) + len(value.encode("utf-8", "replace"))
    return shown


def _parameters(parameters: Mapping[str, str], kind: ErrorKind, redaction: Redaction) -> dict[str, str]:
    """Return the parameters of a message: names of things, but values of rows and pieces of plans too."""
    shown: dict[str, str] = {}
    for key, value in parameters.items():
        if not _PARAMETER.fullmatch(key):
            continue
        if redaction.hides_target:
            shown[key] = STARS
        elif not redaction.has_obligations:
            withheld = not redaction.shows_all(kind) and _shows_plan(value)
            shown[key] = STARS if withheld else redaction.text(value, kind)
        elif kind.analysis and not _shows_plan(value):
            shown[key] = without_paths(redaction.text(value))
        elif may_show(kind.error_class, key, value, kind.exception, redaction.own):
            shown[key] = value
        else:
            shown[key] = STARS
    return shown


def _shows_plan(value: str) -> bool:
    return "\n" in value or _EXPRESSION_ID.search(value) is not None


def _redact_error(
    error: ServerError, index: int, errors: Sequence[ServerError], redaction: Redaction
) -> ServerError:
    condition = error.condition
    classes = _java_names(error.classes) or (_FALLBACK_CLASS,)
    kind = _kind_of(error)
    sqlstate = _match(_SQLSTATE, condition.sqlstate if condition is not None else "")
    # Causes follow one another; clients follow them without looking where they have been.
    onwards = error.cause is not None and index < error.cause < len(errors)
    told, state = kind, sqlstate
    if redaction.has_obligations and not kind.error_class and not kind.analysis:
        told, state = _reason(kind, index, errors), ""
    return ServerError(
        classes=classes,
        message=_message(error.message, state, told, redaction),
        stack=error.stack if redaction.shows_all(kind) else (),
        cause=error.cause if onwards else None,
        condition=_redact_condition(condition, kind, sqlstate, redaction),
    )


def _kind_of(error: ServerError) -> ErrorKind:
    condition = error.condition
    return _kind(
        condition.error_class if condition is not None else "",
        _java_names(error.classes) or (_FALLBACK_CLASS,),
        spark=True,
        parameters=condition.parameters if condition is not None else {},
    )


def _reason(kind: ErrorKind, index: int, errors: Sequence[ServerError]) -> ErrorKind:
    """Return what an exception is about that says only that a task failed, or a wait for one: the first of
    its causes that has a condition, or else the first that says anything."""
    if kind.exception not in _SAYING_NOTHING:
        return kind
    while (cause := errors[index].cause) is not None and index < cause < len(errors):
        index = cause
        inner = replace(_kind_of(errors[index]), analysis=False)
        if inner.error_class:
            return inner
        if kind.exception in _SAYING_NOTHING:
            kind = inner
    return kind


def _redact_condition(
    condition: ErrorCondition | None, kind: ErrorKind, sqlstate: str, redaction: Redaction
) -> ErrorCondition | None:
    if condition is None:
        return None
    contexts = (_context(context, kind, redaction) for context in condition.contexts)
    change = condition.breaking_change
    if change is not None:
        change = replace(change, messages=tuple(redaction.text(message) for message in change.messages))
    return ErrorCondition(
        error_class=kind.error_class,
        sqlstate=sqlstate,
        parameters=_parameters(condition.parameters, kind, redaction),
        contexts=tuple(context for context in contexts if context is not None),
        breaking_change=change,
    )


def _context(context: ErrorContext, kind: ErrorKind, redaction: Redaction) -> ErrorContext | None:
    """Return the place of an error in the user's text; None when it is a place in ours.

    Spark's summary quotes the line around it, with what the gateway wrote there, and its positions are those
    of the text that Spark was sent.
    """
    if redaction.shows_all(kind):
        return _in_users_text(context, redaction)
    if context.kind == IN_DATAFRAME:
        # Where the client's program called a function, by its own account.
        return ErrorContext(
            kind=IN_DATAFRAME,
            fragment=context.fragment,
            call_site=context.call_site,
            summary=context.summary,
        )
    if context.kind != IN_SQL:
        return None
    fragment = in_users_words(context.fragment, redaction.substitutions)
    text = next((text for text in redaction.texts if fragment and fragment in text), None)
    if text is None:
        return None
    start = text.index(fragment)
    return ErrorContext(
        kind=IN_SQL,
        start=start,
        stop=start + len(fragment) - 1,
        fragment=fragment,
        summary=f"== SQL ==\n{fragment}\n{'^' * min(len(fragment), 80)}\n",
    )


def _in_users_text(context: ErrorContext, redaction: Redaction) -> ErrorContext:
    """Return the place of an error in the text that the user wrote, as Spark would tell it."""
    if context.kind != IN_SQL or context.object_name:
        return context
    for text in redaction.rewritten:
        if fragment_of(text.forwarded, context.start, context.stop) == context.fragment:
            start, stop = original_range(text, context.start, context.stop)
            return replace(
                context,
                start=start,
                stop=stop,
                fragment=fragment_of(text.original, start, stop),
                summary=in_users_text(context.summary, (text,)),
            )
    return context


_SHOWN_OF_STREAMS = frozenset(
    {"id", "runId", "name", "timestamp", "batchId", "batchDuration", "durationMs", "jobTags"}
)
_SILENT_PROGRESS: Mapping[str, object] = {
    "stateOperators": [],
    "sources": [],
    "sink": {"description": "", "numOutputRows": -1, "metrics": {}},
}
"""What clients expect of the progress of a stream, with nothing in it."""


def _silent_event(event: str) -> str:
    """Return what a streaming query says of its start, progress or end, without what it is about."""
    fields = _json(event)
    if not isinstance(fields, dict):
        return "{}"
    shown = _visible_fields(fields)
    if isinstance(progress := fields.get("progress"), dict):
        shown["progress"] = {**_visible_fields(progress), **_SILENT_PROGRESS}
    elif "batchId" in fields:
        shown.update(_SILENT_PROGRESS)
    if "exception" in fields:
        failed = fields["exception"] is not None
        shown["exception"] = WITHHELD if failed else None
        error_class = fields.get("errorClassOnException")
        shown["errorClassOnException"] = (
            _match(_ERROR_CLASS, error_class) or None if isinstance(error_class, str) else None
        )
    return json.dumps(shown)


def _visible_fields(event: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in event.items() if key in _SHOWN_OF_STREAMS}
