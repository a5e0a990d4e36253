"""Statuses of Spark Connect as values, and errors in Spark's words: by these clients decide to try again.

A status has a code, a message, and details: an `ErrorInfo`, of which pyspark makes an exception, and when to
try again. It stands in `grpc-status-details-bin` as a serialized `google.rpc.Status`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from gateway.errors import RpcError

DOMAIN = "org.apache.spark"
INTERNAL = 13
"""The gRPC status that Spark gives for an error with an error class."""

_HANDLE = "The handle {} is invalid. "
_WORDS = {
    "INVALID_HANDLE.FORMAT": (
        _HANDLE + "Handle must be an UUID string of the format '00112233-4455-6677-8899-aabbccddeeff'",
        "HY000",
    ),
    "INVALID_HANDLE.OPERATION_ABANDONED": (
        _HANDLE + "Operation was considered abandoned because of inactivity and removed.",
        "HY000",
    ),
    "INVALID_HANDLE.OPERATION_ALREADY_EXISTS": (_HANDLE + "Operation already exists.", "HY000"),
    "INVALID_HANDLE.OPERATION_NOT_FOUND": (_HANDLE + "Operation not found.", "HY000"),
    "INVALID_HANDLE.SESSION_CHANGED": (
        _HANDLE + "The existing Spark server driver instance has restarted. Please reconnect.",
        "HY000",
    ),
    "INVALID_HANDLE.SESSION_CLOSED": (_HANDLE + "Session was closed.", "HY000"),
    "INVALID_CURSOR.DISCONNECTED": (
        "The cursor is invalid. The cursor has been disconnected by the server.",
        "HY109",
    ),
    "INVALID_CURSOR.NOT_REATTACHABLE": ("The cursor is invalid. The cursor is not reattachable.", "HY109"),
    "INVALID_CURSOR.POSITION_NOT_FOUND": (
        "The cursor is invalid. The cursor position id {} is not found.",
        "HY109",
    ),
    "OPERATION_CANCELED": ("Operation has been canceled.", "HY008"),
    "INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_ALREADY_EXISTS": (
        "Invalid session clone request. Cannot clone session to target session ID {} because a session with "
        "this ID already exists.",
        "42K04",
    ),
    "INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_FORMAT": (
        "Invalid session clone request. Target session ID {} for clone operation must be an UUID string of "
        "the format '00112233-4455-6677-8899-aabbccddeeff'.",
        "42K04",
    ),
}
"""Error class → Spark's message, with a place for the id, and SQLSTATE (error-conditions.json of 4.3)."""

_ERROR_INFO = error_details_pb2.ErrorInfo.DESCRIPTOR.full_name
_RETRY_INFO = error_details_pb2.RetryInfo.DESCRIPTOR.full_name
_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)?)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDetails:
    """The parts of a status's details that are read; everything else is dropped."""

    reason: str = ""
    """The exception's class, as `ErrorInfo` has it."""
    metadata: Mapping[str, str] | None = None
    """Metadata of the first `ErrorInfo`; None without one."""
    retry: tuple[bytes, ...] = field(default=(), repr=False)
    """When to try again: each `RetryInfo` as it came."""


def details_of(details: bytes) -> StatusDetails:
    """Read the details of a serialized `google.rpc.Status`; of what cannot be read there are none."""
    reason, metadata, retry = "", None, []
    try:
        packed_details = status_pb2.Status.FromString(details).details
    except DecodeError:
        return StatusDetails()
    for detail in packed_details:
        kind = detail.type_url.rpartition("/")[2]
        if kind == _RETRY_INFO:
            retry.append(detail.value)
        elif kind == _ERROR_INFO and metadata is None:
            try:
                info = error_details_pb2.ErrorInfo.FromString(detail.value)
            except DecodeError:
                continue
            reason, metadata = info.reason, dict(info.metadata)
    return StatusDetails(reason=reason, metadata=metadata, retry=tuple(retry))


def pack_status(code: int, message: str, details: StatusDetails) -> bytes:
    """Write a status. Clients take its details only when code and message are those of the call."""
    status = status_pb2.Status(code=code, message=message)
    for retry in details.retry:
        status.details.add(type_url=f"type.googleapis.com/{_RETRY_INFO}", value=retry)
    if details.metadata is not None:
        info = error_details_pb2.ErrorInfo(
            reason=details.reason, domain=DOMAIN, metadata=dict(details.metadata)
        )
        status.details.add().Pack(info)
    return status.SerializeToString(deterministic=True)


def pack_retry(seconds: float) -> bytes:
    """Write when to try again: a `RetryInfo`."""
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(math.ceil(seconds * 1000))
    return retry.SerializeToString()


def error_id(fault: RpcError) -> str:
    """Return the id by which more of an error can be asked for; empty when it has none."""
    return (details_of(fault.details).metadata or {}).get("errorId", "")


def spark_error(error_class: str, handle: str = "") -> RpcError:
    """Return an error as Spark's server gives it. Its details matter: pyspark takes an operation up again, or
    runs it anew, by the error class that stands in them."""
    words, sqlstate = _WORDS[error_class]
    message = f"[{error_class}] {words.format(handle)} SQLSTATE: {sqlstate}"
    metadata = {
        "classes": json.dumps(["org.apache.spark.SparkSQLException"]),
        "errorClass": error_class,
        "sqlState": sqlstate,
        "messageParameters": json.dumps({"handle": handle} if handle else {}),
    }
    reason = "org.apache.spark.SparkSQLException"
    details = StatusDetails(reason=reason, metadata=metadata)
    return RpcError(INTERNAL, message, pack_status(INTERNAL, message, details))


def class_of(fault: RpcError) -> str:
    """Return the error class that a message of Spark begins with; empty when it has none."""
    found = _CLASS.match(fault.message)
    return found.group(1) if found else ""


def ends_session(fault: RpcError) -> bool:
    """Whether Spark says that the session is no more, or another one than it was."""
    return class_of(fault).startswith("INVALID_HANDLE.SESSION_")


def ends_operation(fault: RpcError) -> bool:
    """Whether Spark says that it does not know the operation: nobody will learn its outcome."""
    return class_of(fault) in ("INVALID_HANDLE.OPERATION_NOT_FOUND", "INVALID_HANDLE.OPERATION_ABANDONED")


def ends_stream_only(fault: RpcError) -> bool:
    """Whether only this stream has ended: another reader took over, or asked for what is gone."""
    return class_of(fault).startswith("INVALID_CURSOR.")


def is_canceled(fault: RpcError) -> bool:
    return class_of(fault) == "OPERATION_CANCELED"
