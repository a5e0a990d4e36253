"""Errors of Spark Connect's own, in Spark's words: what clients look for decides whether they try again."""

from __future__ import annotations

import json
import re

from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from gateway.errors import InvalidRequest
from gateway.session.ports import RpcError

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

_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)?)\]")


class MalformedRequest(InvalidRequest):
    """The bytes are no request of the method, or one beyond the limits."""

    code = "MALFORMED"
    sqlstate = "22023"


class UngovernableRequest(InvalidRequest):
    """The request holds something that nothing here can judge."""

    code = "NOT_GOVERNABLE"
    sqlstate = "0A000"


def spark_error(error_class: str, handle: str = "") -> RpcError:
    """Return an error as Spark's server gives it. Its details matter: pyspark takes an operation up again, or
    runs it anew, by the error class that stands in them."""
    words, sqlstate = _WORDS[error_class]
    message = f"[{error_class}] {words.format(handle)} SQLSTATE: {sqlstate}"
    info = error_details_pb2.ErrorInfo(
        reason="org.apache.spark.SparkSQLException",
        domain="org.apache.spark",
        metadata={
            "classes": json.dumps(["org.apache.spark.SparkSQLException"]),
            "errorClass": error_class,
            "sqlState": sqlstate,
            "messageParameters": json.dumps({"handle": handle} if handle else {}),
        },
    )
    packed = any_pb2.Any()
    packed.Pack(info)
    status = status_pb2.Status(code=INTERNAL, message=message, details=[packed])
    return RpcError(code=INTERNAL, message=message, details=status.SerializeToString())


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
