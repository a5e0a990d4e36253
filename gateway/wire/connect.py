"""Spark Connect's messages: the one way to pyspark's protobuf classes, with bounds on what is taken in.

protobuf's C codec (upb) refuses more than 100 nested messages; a DataFrame with 48 chained `filter` calls has
as many. It can be told to read any depth, but then it recurses on the C stack and dies of 60,000 nested
messages in 8 MB, about 150 bytes for each (measured; parsing is the first to die, serializing, comparing and
copying go as deep). So deeper bytes are measured here first, without recursion.

Importing this module costs 15 MiB: nothing that a gateway without Spark Connect needs may import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from google._upb import _message
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from gateway.wire.connect_classes import import_classes
from gateway.wire.protobuf import BYTES, ProtobufError, build_malformed_error, read_varint, skip

if TYPE_CHECKING:
    from pyspark.sql.connect import proto as pb
else:
    pb = import_classes()

MAX_BYTES = 128 * 1024 * 1024
"""The largest message that is read; `spark.connect.grpc.maxInboundMessageSize` of Spark is as large."""
MAX_DEPTH = 4096
"""Messages within messages. 1,000 chained calls of a DataFrame nest 2,000 deep, and Spark itself reads 1,024
(`spark.connect.grpc.marshallerRecursionLimit`) unless it is configured to read more."""
MAX_MESSAGES = 250_000
"""Messages and strings in one message that is not small. Two bytes can be a message that takes 40 in
memory, and every one costs the walk a microsecond."""
SMALL_BYTES = 1024 * 1024
"""So small a message cannot hold too many others."""

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_MESSAGES",
    "METHODS",
    "AnyFieldValue",
    "Message",
    "Method",
    "ProtobufError",
    "UnknownFieldSet",
    "descriptor_of",
    "find_unknown",
    "parse",
    "parse_again",
    "pb",
    "serialize",
]


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC of `spark.connect.SparkConnectService`."""

    name: str
    path: str
    """As gRPC names it: `/spark.connect.SparkConnectService/ExecutePlan`."""
    request: type[Message]
    client_streaming: bool
    server_streaming: bool


def _methods() -> Mapping[str, Method]:
    service = pb.base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"]
    return MappingProxyType(
        {
            method.name: Method(
                method.name,
                f"/{service.full_name}/{method.name}",
                GetMessageClass(method.input_type),
                method.client_streaming,
                method.server_streaming,
            )
            for method in service.methods
        }
    )


METHODS: Mapping[str, Method] = _methods()
"""Every RPC of the pinned pyspark by its name."""


_M = TypeVar("_M", bound=Message)

AnyFieldValue = Any  # type: ignore[explicit-any]  # of a field that is known by its descriptor only
_Path: TypeAlias = "tuple[_Path, str] | None"
"""Where a message stands: the names of fields, innermost first."""


def parse(cls: type[_M], data: bytes, *, max_bytes: int = MAX_BYTES, max_messages: int = MAX_MESSAGES) -> _M:
    """Read `data` as a message of class `cls`.

    Raises ProtobufError: MALFORMED when it is none, TOO_LARGE above `max_bytes` or, unless it is small,
    `max_messages`, TOO_DEEP above MAX_DEPTH nested messages. Called from one thread at a time: the depth
    that the C codec reads is a setting of the process.
    """
    if len(data) > max_bytes:
        raise ProtobufError("TOO_LARGE", f"the message has {len(data)} bytes; the limit is {max_bytes}")
    if len(data) > SMALL_BYTES:
        _measure(descriptor_of(cls), data, max_messages)
    try:
        return cls.FromString(data)
    except DecodeError:
        _measure(descriptor_of(cls), data, max_messages)
    # Not malformed as far as tags go: too deep for the codec's default, or text that is not UTF-8.
    return parse_again(cls, data)


def parse_again(cls: type[_M], data: bytes) -> _M:
    """Read what `parse` has taken before, without measuring it.

    Raises ProtobufError where it is none of the class `cls`. One thread at a time, as `parse`.
    """
    _message.SetAllowOversizeProtos(True)  # noqa: FBT003  the codec's own spelling
    try:
        return cls.FromString(data)
    except DecodeError as error:
        raise build_malformed_error() from error
    finally:
        _message.SetAllowOversizeProtos(False)  # noqa: FBT003


def descriptor_of(message: Message | type[Message]) -> Descriptor:
    """Return what describes a message; those of the C codec have the methods of the library's own."""
    return cast("Descriptor", message.DESCRIPTOR)


def serialize(message: Message) -> bytes:
    """Return the message's bytes, the same ones for the same content whatever the order of its maps."""
    try:
        data: bytes = message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise ProtobufError("TOO_LARGE", "the message is too large to be sent") from error
    return data


def find_unknown(message: Message, *, plans: bool = True) -> str | None:
    """Return the path of a field that the descriptors do not know, anywhere within, or None.

    Such fields stay when a message is serialized again: a newer Spark would act on what nobody has read.
    The codec's own DiscardUnknownFields stops at 64 nested messages without a word, so each one is asked.
    Plans are left out with `plans=False`; the walk asks about theirs.
    """
    pending: list[tuple[Message, _Path]] = [(message, None)]
    while pending:
        current, path = pending.pop()
        unknown = UnknownFieldSet(current)
        if len(unknown):
            return _join_path(path, str(unknown[0].field_number))
        if not _children(descriptor_of(current)):
            continue
        for field, value in current.ListFields():
            inner = field.message_type
            if inner is None or (not plans and inner.full_name == "spark.connect.Plan"):
                continue
            step: _Path = (path, field.name)
            if inner.GetOptions().map_entry:
                if inner.fields_by_name["value"].message_type is not None:
                    pending.extend((value[key], step) for key in value)
            elif field.is_repeated:
                pending.extend((item, step) for item in value)
            else:
                pending.append((value, step))
    return None


def _join_path(path: _Path, last: str) -> str:
    names = [last]
    while path is not None:
        path, name = path
        names.append(name)
    shown = names[::-1]
    return ".".join(shown if len(shown) <= 8 else [*shown[:3], "…", *shown[-4:]])


_CHILDREN: dict[str, dict[int, Descriptor]] = {}


def _children(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Return the message type of each field that holds messages, by field number."""
    known = _CHILDREN.get(descriptor.full_name)
    if known is None:
        known = {f.number: f.message_type for f in descriptor.fields if f.message_type is not None}
        _CHILDREN[descriptor.full_name] = known
    return known


def _measure(descriptor: Descriptor, data: bytes, max_messages: int) -> None:
    """Raise ProtobufError unless the bytes nest at most MAX_DEPTH deep and hold at most `max_messages`.

    Counted are messages and whatever else has a length, since a string costs memory like a message.
    """
    children = _children(descriptor)
    enclosing: list[tuple[int, dict[int, Descriptor]]] = []
    at, end, found = 0, len(data), 0
    while True:
        while at >= end:
            if at > end:
                raise build_malformed_error()
            if not enclosing:
                return
            end, children = enclosing.pop()
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = read_varint(data, at - 1, end)
        found += 1
        if found > max_messages * 4:
            break
        if tag & 7 != BYTES:
            at = skip(data, at, end, tag & 7)
            continue
        length, at = read_varint(data, at, end)
        stop = at + length
        if stop > end:
            raise build_malformed_error()
        found += 3
        inner = children.get(tag >> 3)
        if inner is None:
            at = stop
            continue
        enclosing.append((end, children))
        if len(enclosing) > MAX_DEPTH:
            raise ProtobufError("TOO_DEEP", f"more than {MAX_DEPTH} nested messages")
        end, children = stop, _children(inner)
    raise ProtobufError("TOO_LARGE", f"more than {max_messages} messages and strings; read them from a table")
