"""Errors as Spark Connect says them: a gRPC status, with the class that PySpark makes an exception of.

The codes are chosen by what PySpark does with them. It retries UNAVAILABLE for ten minutes, INTERNAL when the
text has `INVALID_CURSOR.DISCONNECTED`, and DEADLINE_EXCEEDED of a stream at once; so none of these is ever an
answer of ours that would be the same the next time. It runs an ExecutePlan again, at once and for an hour,
when the answer says that session or operation are not there; so ExecutePlan never says that.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from urllib.parse import quote

import grpc

from gateway.errors import (
    AuthenticationFailed,
    BackendUnavailable,
    GatewayStopping,
    InvalidHandle,
    InvalidRequest,
    LedgerUnavailable,
    LimitExceeded,
    PoliciesStale,
    RpcError,
    SluiceError,
)
from gateway.session.failures import ANALYSIS, OTHER, NotFinished, StatementFailed, StatementRefused
from gateway.wire.connect_errors import StatusDetails, details_of, pack_retry, pack_status
from gateway.wire.protobuf import ProtobufError

Code = grpc.StatusCode
CODES = {code.value[0]: code for code in Code}

MAX_ENCODED = 2400
"""Bytes of a message as HTTP/2 carries it, percent-encoded. It is sent twice, and clients take 8 KiB of
trailing metadata in all: with more they report that instead of the message."""

HANDLE = ("org.apache.spark.SparkSQLException",)
"""A class of Spark's that PySpark turns into an exception of its own."""

REFUSALS = {
    "ACCESS_DENIED": Code.PERMISSION_DENIED,
    "NOT_GOVERNABLE": Code.INVALID_ARGUMENT,
    "MALFORMED": Code.INVALID_ARGUMENT,
    "TOO_LARGE": Code.INVALID_ARGUMENT,
    "TOO_DEEP": Code.INVALID_ARGUMENT,
    "UNSAFE_TEXT": Code.INVALID_ARGUMENT,
    "TWO_READINGS": Code.INVALID_ARGUMENT,
    "PARSER_FAILED": Code.INTERNAL,
    "SPARK": Code.INTERNAL,  # as Spark itself answers what it cannot parse
    "VIEW_ENDED": Code.FAILED_PRECONDITION,
    "VIEW_IN_USE": Code.FAILED_PRECONDITION,
    "RELATION_ENDED": Code.FAILED_PRECONDITION,
    "CHECKPOINT_CHANGED": Code.FAILED_PRECONDITION,
    "CATALOG_BUSY": Code.FAILED_PRECONDITION,
    "LIMIT_EXCEEDED": Code.RESOURCE_EXHAUSTED,
    "POLICIES_STALE": Code.FAILED_PRECONDITION,
    "TIMEOUT": Code.FAILED_PRECONDITION,
    "UNAVAILABLE": Code.FAILED_PRECONDITION,
}
"""Codes of verdicts; any other is PERMISSION_DENIED."""

ERRORS: tuple[tuple[type[SluiceError], grpc.StatusCode], ...] = (
    (AuthenticationFailed, Code.UNAUTHENTICATED),
    (InvalidHandle, Code.INTERNAL),
    (InvalidRequest, Code.INVALID_ARGUMENT),
    (StatementFailed, Code.INTERNAL),
    (NotFinished, Code.FAILED_PRECONDITION),
    (LimitExceeded, Code.RESOURCE_EXHAUSTED),
    (BackendUnavailable, Code.FAILED_PRECONDITION),
    (LedgerUnavailable, Code.FAILED_PRECONDITION),
    (PoliciesStale, Code.FAILED_PRECONDITION),
    (GatewayStopping, Code.UNAVAILABLE),  # the next time it is another gateway, or the next
)
"""Every other error of ours is INTERNAL."""

RETRIED = {
    Code.OK: Code.INTERNAL,
    Code.UNAVAILABLE: Code.FAILED_PRECONDITION,
    Code.DEADLINE_EXCEEDED: Code.ABORTED,
    Code.UNAUTHENTICATED: Code.FAILED_PRECONDITION,
}
"""Codes of Spark's that a client would misread (retry, not authenticated) → the codes sent instead."""

NOT_THERE = {
    "INVALID_HANDLE.SESSION_NOT_FOUND": "INVALID_HANDLE.SESSION_CLOSED",
    "INVALID_HANDLE.OPERATION_NOT_FOUND": "INVALID_HANDLE.OPERATION_ABANDONED",
}
"""Classes that ExecutePlan must not answer with, and those that say the same and end the matter."""

_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*)\]")


@dataclass(frozen=True, slots=True)
class RpcStatus:
    """How a call ends when it does not end well."""

    code: grpc.StatusCode
    message: str
    details: bytes
    """`grpc-status-details-bin`: code and message again, as PySpark wants them, and an ErrorInfo."""


def status_of(error: SluiceError | RpcError | ProtobufError, method: str) -> RpcStatus:
    """Return the status that tells of an error of a call of `method`."""
    match error:
        case RpcError():
            status = _of_spark(error)
        case ProtobufError():
            code = REFUSALS.get(error.code, Code.INVALID_ARGUMENT)
            classes = OTHER if error.code == "MALFORMED" else ANALYSIS
            status = _of_ours(code, f"[SLUICE_{error.code}] {error.why}", error.sqlstate, classes)
        case StatementRefused():
            status = _of_refusal(error)
        case InvalidHandle():
            status = _of_ours(Code.INTERNAL, error.message, error.sqlstate, HANDLE)
        case GatewayStopping():  # RULE (stopping-connect-status)
            # The one answer that says: come again.
            return build_restart_status()
        case AuthenticationFailed():
            # Without an ErrorInfo: PySpark would make two more calls, which would count as failed logins.
            status = _plain(Code.UNAUTHENTICATED, error.text)
        case _:
            code = next((code for kind, code in ERRORS if isinstance(error, kind)), Code.INTERNAL)
            retry_s = error.retry_s if isinstance(error, LimitExceeded) else None
            status = _of_ours(code, error.text, error.sqlstate, OTHER, retry_s=retry_s)
    return _ends_the_matter(status) if method == "ExecutePlan" else status


def internal_error(incident: str) -> RpcStatus:
    """Return the status for a fault of ours; the log has more under `incident`."""
    text = f"[SLUICE_INTERNAL] internal error; the operator finds it in the log as {incident}"
    return _of_ours(Code.INTERNAL, text, "XX000", OTHER)


def build_restart_status() -> RpcStatus:
    """Return the status for calls that a gateway cuts when it stops: the client is to come back."""
    return _plain(Code.UNAVAILABLE, "the gateway is stopping")


def shorten(text: str) -> str:
    """Return the text, its middle left out where it is longer than what metadata may hold."""
    if len(quote(text)) <= MAX_ENCODED:
        return text
    # What there is to do and the audit event to quote stand at the end.
    head, tail = len(text) - 200, text[-200:]
    while head > 0 and len(quote(f"{text[:head]} … {tail}")) > MAX_ENCODED:
        head = head * 9 // 10
    return f"{text[:head]} … {tail}"


def without_own_condition(status: RpcStatus) -> RpcStatus:
    """Return a status for Spark's client for the JVM: that looks each condition up in a list of its own, and
    shows nothing of an error whose condition is not there, as none of ours is."""
    details = details_of(status.details)
    if details.metadata is None or not details.metadata.get("errorClass", "").startswith("SLUICE_"):
        return status
    metadata = {key: value for key, value in details.metadata.items() if key != "errorClass"}
    return _with_details(status.code, status.message, replace(details, metadata=metadata))


def _of_refusal(error: StatementRefused) -> RpcStatus:
    code = REFUSALS.get(error.code, Code.PERMISSION_DENIED)
    if error.in_sparks_words:
        return _of_ours(code, error.text, error.sqlstate, error.classes, dict(error.parameters))
    analysed = error.sqlstate[:2] in ("42", "0A", "2B", "54") or error.sqlstate == "55000"
    classes = ANALYSIS if analysed else OTHER
    parameters = {"auditEvent": error.statement_id}
    return _of_ours(code, error.text, error.sqlstate, classes, parameters, retry_s=error.retry_s)


def _of_ours(
    code: grpc.StatusCode,
    text: str,
    sqlstate: str,
    classes: tuple[str, ...],
    parameters: dict[str, str] | None = None,
    *,
    retry_s: float | None = None,
) -> RpcStatus:
    """`retry_s`: after how many seconds a client may try again, and PySpark from 4.1 on does by itself."""
    metadata = {
        "classes": json.dumps(classes),
        "sqlState": sqlstate,
        "messageParameters": json.dumps(parameters or {}),
    }
    if (found := _CLASS.match(text.lstrip())) is not None:
        metadata["errorClass"] = found[1]
    retry = () if retry_s is None else (pack_retry(retry_s),)
    return _with_details(code, text, StatusDetails(reason=classes[0], metadata=metadata, retry=retry))


def _plain(code: grpc.StatusCode, text: str) -> RpcStatus:
    return _with_details(code, text, StatusDetails())


def _of_spark(error: RpcError) -> RpcStatus:
    code = CODES.get(error.code, Code.UNKNOWN)
    return _with_details(RETRIED.get(code, code), error.message, details_of(error.details))


def _with_details(code: grpc.StatusCode, text: str, details: StatusDetails) -> RpcStatus:
    # PySpark takes the details for broken unless code and message are those of the call.
    message = shorten(text)
    return RpcStatus(code, message, pack_status(code.value[0], message, details))


def _ends_the_matter(status: RpcStatus) -> RpcStatus:
    message = status.message
    for there, instead in NOT_THERE.items():
        message = message.replace(there, instead)
    if message == status.message:
        return status
    details = details_of(status.details)
    if details.metadata is not None:
        known = details.metadata.get("errorClass", "")
        metadata = {**details.metadata, "errorClass": NOT_THERE.get(known, known)}
        details = replace(details, metadata=metadata)
    return _with_details(status.code, message, details)
