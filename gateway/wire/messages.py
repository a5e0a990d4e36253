"""Calls and replies as Thrift messages in the strict binary protocol, without the frame's length.

A message is a header (kind, method, sequence id) and one struct: for a call the argument struct whose field 1
is the request, for a reply the result struct whose field 0 is the response, for an exception Thrift's own
TApplicationException (kind and text).
"""

from __future__ import annotations

import enum
import re
import struct
from typing import Any, NamedTuple, TypeVar

from gateway.wire.application_exception import TApplicationException
from gateway.wire.calls import (
    METHODS,
    TCancelOperationReq,
    TCloseOperationReq,
    TFetchResultsReq,
    TGetOperationStatusReq,
    TGetResultSetMetadataReq,
)
from gateway.wire.tcli import THandleIdentifier, TOperationHandle
from gateway.wire.thrift import MAX_ELEMENTS, MalformedMessage, Struct, check_text, decode, encode, wrapper

MAX_METHOD_BYTES = 128
"""Length of a method's name that is read; HiveServer2's longest has 21."""

MAX_REQUEST_ELEMENTS = 10_000
"""Entries that a list or map of a request may have: settings of a session, table types."""

_VERSION_1 = 0x8001_0000
_HEAD = struct.Struct(">II")
_SEQID = struct.Struct(">i")

R = TypeVar("R", bound=Struct)


class MessageKind(enum.IntEnum):
    CALL = 1
    REPLY = 2
    EXCEPTION = 3
    ONEWAY = 4


_KINDS = {kind.value: kind for kind in MessageKind}


class ExceptionKind(enum.IntEnum):
    """Thrift's own reasons for a TApplicationException."""

    UNKNOWN = 0
    UNKNOWN_METHOD = 1
    INVALID_MESSAGE_TYPE = 2
    WRONG_METHOD_NAME = 3
    BAD_SEQUENCE_ID = 4
    MISSING_RESULT = 5
    INTERNAL_ERROR = 6
    PROTOCOL_ERROR = 7


class CallFailed(Exception):
    """The peer answered a call with a TApplicationException instead of a reply."""

    def __init__(self, kind: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Message(NamedTuple):
    """A message's header; the struct begins at `body_offset`."""

    kind: MessageKind
    method: str
    seqid: int
    body_offset: int


def _head(kind: MessageKind, method: str) -> bytes:
    name = method.encode("ascii", "replace")
    return _HEAD.pack(_VERSION_1 | kind, len(name)) + name


_CALLS = {name: _head(MessageKind.CALL, name) for name in METHODS}
_REPLIES = {name: _head(MessageKind.REPLY, name) for name in METHODS}
"""How messages begin, up to their sequence id."""
_REQUEST, _RESPONSE, _STOP = b"\x0c\0\x01", b"\x0c\0\0", b"\0"
"""How the struct of arguments begins, and that of a result, which have one field; and how they end."""
_ARGUMENTS = {name: wrapper(f"{name}_args", 1, "req", request) for name, (request, _) in METHODS.items()}
_RESULTS = {name: wrapper(f"{name}_result", 0, "success", reply) for name, (_, reply) in METHODS.items()}


_USUAL = {reply: _REPLIES[name] for name, (_, reply) in METHODS.items()}
"""How replies begin by the class of their response, of those that one method alone has."""


def encode_call(method: str, seqid: int, request: Struct) -> bytes:
    """Return a call. Raises ValueError for text with lone surrogates."""
    return b"".join((_CALLS[method], _SEQID.pack(seqid), _REQUEST, encode(request), _STOP))


class EncodedReply(NamedTuple):
    """A response that is told again and again, written once."""

    response: bytes


def encode_reply(method: str, seqid: int, response: Struct | EncodedReply) -> bytes:
    """Return a reply. Raises ValueError for text with lone surrogates."""
    told = response.response if isinstance(response, EncodedReply) else encode(response)
    return b"".join((_REPLIES[method], _SEQID.pack(seqid), _RESPONSE, told, _STOP))


def encode_exception(method: str, seqid: int, kind: int, message: str) -> bytes:
    """Return the reply that says that a call failed below the service, e.g. for an unknown method."""
    fault = encode(TApplicationException(message=message, type=kind))
    return _head(MessageKind.EXCEPTION, method) + _SEQID.pack(seqid) + fault


def decode_message(data: bytes) -> Message:
    """Read a message's header. Raises MalformedMessage, also for the old header without a version."""
    if len(data) < 8:
        raise MalformedMessage("a message of fewer than 8 bytes")
    version, length = _HEAD.unpack_from(data)
    if version & 0xFFFF_FF00 != _VERSION_1:
        raise MalformedMessage("not a Thrift message in strict binary protocol")
    body = 8 + length + 4
    if length > MAX_METHOD_BYTES or len(data) < body:
        raise MalformedMessage("a message whose method name is truncated")
    kind, method = _KINDS.get(version & 0xFF), data[8 : 8 + length]
    if kind is None or not method.isascii():
        raise MalformedMessage("unknown kind of message, or a method name that is not ASCII")
    return Message(kind, method.decode("ascii"), _SEQID.unpack_from(data, 8 + length)[0], body)


_OPERATION = (
    rb"\x0c\0\x01\x0c\0\x01\x0c\0\x01"  # the request, its operation, its id
    rb"\x0b\0\x01\0\0\0\x10(.{16})\x0b\0\x02\0\0\0\x10(.{16})\0"
    rb"\x08\0\x02(.{4})\x02\0\x03([\0\x01])\0"  # its type, and whether it has rows
)
_FETCH = re.compile(_OPERATION + rb"\x08\0\x02(.{4})\x0a\0\x03(.{8})(?:\x06\0\x04(.{2}))?\0\0", re.DOTALL)
_OF_OPERATION = re.compile(_OPERATION + rb"\0\0", re.DOTALL)
"""Requests about an operation as clients write them, field by field in their order: read at once."""
_PLAIN: dict[str, type[Any]] = {
    "GetOperationStatus": TGetOperationStatusReq,
    "GetResultSetMetadata": TGetResultSetMetadataReq,
    "CloseOperation": TCloseOperationReq,
    "CancelOperation": TCancelOperationReq,
}


def _read_usual(data: bytes, message: Message) -> Struct | None:
    """Read a request about an operation that is written as usual; None for any other."""
    method = message.method
    is_fetch = method == "FetchResults"
    if not is_fetch and method not in _PLAIN:
        return None
    found = (_FETCH if is_fetch else _OF_OPERATION).fullmatch(data, message.body_offset)
    if found is None:
        return None
    kind = int.from_bytes(found[3], signed=True)
    operation = TOperationHandle(
        operationId=THandleIdentifier(guid=found[1], secret=found[2]),
        operationType=kind,
        hasResultSet=found[4] == b"\x01",
    )
    if not is_fetch:
        request: Struct = _PLAIN[method](operationHandle=operation)
        return request
    return TFetchResultsReq(
        operationHandle=operation,
        orientation=int.from_bytes(found[5], signed=True),
        maxRows=int.from_bytes(found[6], signed=True),
        **({} if found[7] is None else {"fetchType": int.from_bytes(found[7], signed=True)}),
    )


def without_seqid(data: bytes) -> bytes:
    """Return a message without what tells it from the same one at another time, whatever else it is."""
    at = 8 + int.from_bytes(data[4:8])
    return data[:at] + data[at + 4 :]


def decode_request(data: bytes, message: Message | None = None) -> Struct:
    """Read the request of a call to a method of METHODS; all its text is valid UTF-8.

    Raises MalformedMessage; look at `decode_message(data).method` first to answer unknown methods.
    """
    message = message or decode_message(data)
    if message.kind is MessageKind.CALL and (usual := _read_usual(data, message)) is not None:
        return usual
    if message.kind is not MessageKind.CALL:
        raise MalformedMessage("a request that is not a call")
    arguments = _ARGUMENTS.get(message.method)
    if arguments is None:
        raise MalformedMessage("a call to an unknown method")
    request: Any = decode(arguments, data, message.body_offset, max_elements=MAX_REQUEST_ELEMENTS)
    check_text(request.req, data)
    value: Struct = request.req
    return value


def decode_reply(data: bytes, response: type[R], *, max_elements: int = MAX_ELEMENTS) -> R:
    """Read the response of a reply. Raises CallFailed for an exception, else MalformedMessage."""
    begins = _USUAL.get(response)
    if begins is not None and data.startswith(begins):
        at = len(begins) + _SEQID.size
        if data.startswith(_RESPONSE, at) and data.endswith(_STOP):
            at += len(_RESPONSE)
            try:
                return decode(response, data, at, max_elements=max_elements, behind=len(_STOP))
            except MalformedMessage:
                pass  # it may have a field that is not known
    message = decode_message(data)
    if message.kind is MessageKind.EXCEPTION:
        failure = decode(TApplicationException, data, message.body_offset)
        raise CallFailed(failure.type or ExceptionKind.UNKNOWN, failure.message or "")
    result = _RESULTS.get(message.method)
    if message.kind is not MessageKind.REPLY or result is None or METHODS[message.method][1] is not response:
        raise MalformedMessage(f"not a {response.__name__}")
    value: Any = decode(result, data, message.body_offset, max_elements=max_elements)
    answer: R = value.success
    return answer
