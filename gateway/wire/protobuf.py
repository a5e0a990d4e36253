"""Protobuf's wire format by hand: reading tags without a schema, and the error of whoever reads protobuf."""

from __future__ import annotations

from typing import Literal

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. 3 and 4, groups, occur in no message of Spark Connect."""


class ProtobufError(Exception):
    """The bytes are no message of the type, or one beyond the limits; `why` is for whoever sent them."""

    def __init__(self, code: Literal["MALFORMED", "TOO_LARGE", "TOO_DEEP"], why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why

    @property
    def sqlstate(self) -> str:
        """SQLSTATE of a too complex statement, or of a protocol violation."""
        return "08P01" if self.code == "MALFORMED" else "54001"


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the varint at `at` and where it ends. Raises ProtobufError unless that is before `end`."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            break
    raise build_malformed_error()


def skip(data: bytes, at: int, end: int, wire_type: int) -> int:
    """Return where the value of a field ends that begins at `at`."""
    if wire_type == VARINT:
        return read_varint(data, at, end)[1]
    if wire_type == BYTES:
        length, at = read_varint(data, at, end)
        at += length
    elif wire_type == FIXED64:
        at += 8
    elif wire_type == FIXED32:
        at += 4
    else:
        raise build_malformed_error()
    if at > end:
        raise build_malformed_error()
    return at


def build_malformed_error() -> ProtobufError:
    return ProtobufError("MALFORMED", "the bytes are not a protobuf message of the expected type")
