"""The first bytes of a FetchResults reply tell its status and number of rows; the rest is never decoded."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from gateway.wire.messages import MAX_METHOD_BYTES, MessageKind
from gateway.wire.tcli import TStatusCode
from gateway.wire.thrift import MalformedMessage

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_U32 = struct.Struct(">I")

_STOP, _STRING, _STRUCT, _MAP, _SET, _LIST = 0, 11, 12, 13, 14, 15
_FIXED = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8, 16: 16}
"""Sizes of bool, byte, double, i16, i32, i64 and uuid."""

_MAX_DEPTH = 16

_USUAL = re.compile(
    rb"\x80\x01\x00\x02\x00\x00\x00\x0cFetchResults.{4}\x0c\x00\x00"  # a reply, its sequence id, its result
    rb"\x0c\x00\x01\x08\x00\x01\x00\x00\x00([\x00\x01])\x00"  # a status that has a code alone
    rb"\x02\x00\x02."  # hasMoreRows
    rb"\x0c\x00\x03\x0a\x00\x01.{8}\x0f\x00\x02\x0c\x00{4}"  # startRowOffset, no rows
    rb"\x0f\x00\x03\x0c(?!\x00{4})[\x00-\x7f].{3}\x0c..\x0f\x00\x01.([\x00-\x7f].{3})",  # columns, values
    re.DOTALL,
)
"""A batch as Spark sends it, field by field in their order: read at once, as it is read for every batch."""


class FetchPeek(NamedTuple):
    """Status and rows of a FetchResults reply, read before it has arrived whole."""

    status: int
    """TStatusCode; ERROR also for a reply that is a TApplicationException."""
    rows: int
    """Rows in the batch; 0 in the empty batch that ends a result, and in errors."""

    @property
    def succeeded(self) -> bool:
        return self.status in (TStatusCode.SUCCESS, TStatusCode.SUCCESS_WITH_INFO)


def peek_fetch_reply(prefix: bytes) -> FetchPeek | None:
    """Read status and row count from the beginning of a message; None when that takes more bytes.

    Raises MalformedMessage when the bytes cannot be the beginning of a FetchResults reply.
    """
    usual = _USUAL.match(prefix)
    if usual is not None:
        return FetchPeek(usual[1][0], int.from_bytes(usual[2]))
    try:
        return _Cursor(prefix).reply()
    except (struct.error, IndexError):
        return None


class _Cursor:
    """Reads forward; past the end it raises struct.error or IndexError: more bytes are needed."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def reply(self) -> FetchPeek:
        version = self._u32()
        if version & 0xFFFF_FF00 != 0x8001_0000:
            raise MalformedMessage("not a Thrift message in strict binary protocol")
        length = self._u32()
        if length > MAX_METHOD_BYTES:
            raise MalformedMessage("a message whose method name is truncated")
        name = self.data[self.at : self.at + length]
        self.at += length
        self._i32()
        if version & 0xFF == MessageKind.EXCEPTION:
            return FetchPeek(TStatusCode.ERROR, 0)
        if version & 0xFF != MessageKind.REPLY or name != b"FetchResults":
            raise MalformedMessage("not a FetchResults response")
        if self._field() != (_STRUCT, 0):
            raise MalformedMessage("a FetchResults response without a result")
        status: int | None = None
        while True:
            ttype, field_id = self._field()
            if ttype == _STOP:
                if status is None:
                    raise MalformedMessage("a response without a status")
                return FetchPeek(status, 0)
            if (ttype, field_id) == (_STRUCT, 1):
                status = self._status()
                peek = FetchPeek(status, 0)
                if not peek.succeeded:
                    return peek
            elif (ttype, field_id) == (_STRUCT, 3) and status is not None:
                return FetchPeek(status, self._row_set())
            else:
                self._skip(ttype, 0)

    def _status(self) -> int:
        code: int | None = None
        while True:
            ttype, field_id = self._field()
            if ttype == _STOP:
                if code is None:
                    raise MalformedMessage("a status without a code")
                return code
            if (ttype, field_id) == (8, 1):
                code = self._i32()
                if not FetchPeek(code, 0).succeeded:
                    return code
            else:
                self._skip(ttype, 0)

    def _row_set(self) -> int:
        while True:
            ttype, field_id = self._field()
            if ttype == _STOP:
                return 0
            if ttype == _LIST and field_id in (2, 3):
                element = self._u8()
                size = self._size()
                if size and element != _STRUCT:
                    raise MalformedMessage("rows or columns that are not structs")
                if field_id == 2 and size:
                    return size
                if field_id == 3:
                    return self._column() if size else 0
            else:
                self._skip(ttype, 0)

    def _column(self) -> int:
        """Return the number of values of the first column: a union of structs with `values` and `nulls`."""
        ttype, _ = self._field()
        if ttype != _STRUCT:
            raise MalformedMessage("a column that is not a struct")
        while True:
            ttype, field_id = self._field()
            if ttype == _STOP:
                raise MalformedMessage("a column without values")
            if (ttype, field_id) == (_LIST, 1):
                self._u8()
                return self._size()
            self._skip(ttype, 0)

    def _skip(self, ttype: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise MalformedMessage("a response that is nested too deep")
        if ttype in _FIXED:
            self.at += _FIXED[ttype]
        elif ttype == _STRING:
            size = self._size()
            self.at += size
        elif ttype == _STRUCT:
            while (field := self._field())[0] != _STOP:
                self._skip(field[0], depth + 1)
        elif ttype in (_LIST, _SET):
            element = self._u8()
            self._skip_many((element,), self._size(), depth)
        elif ttype == _MAP:
            key, value = self._u8(), self._u8()
            self._skip_many((key, value), self._size(), depth)
        else:
            raise MalformedMessage(f"unknown Thrift type {ttype}")

    def _skip_many(self, ttypes: tuple[int, ...], count: int, depth: int) -> None:
        if all(t in _FIXED for t in ttypes):
            self.at += count * sum(_FIXED[t] for t in ttypes)
            return
        for _ in range(count):
            # Every element that is not of fixed size reads at least a byte, so the data's end ends the loop.
            for ttype in ttypes:
                self._skip(ttype, depth + 1)

    def _field(self) -> tuple[int, int]:
        ttype = self._u8()
        if ttype == _STOP:
            return _STOP, 0
        (field_id,) = _I16.unpack_from(self.data, self.at)
        self.at += 2
        return ttype, field_id

    def _size(self) -> int:
        size = self._i32()
        if size < 0:
            raise MalformedMessage("a negative size")
        return size

    def _u8(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def _i32(self) -> int:
        (value,) = _I32.unpack_from(self.data, self.at)
        self.at += 4
        return int(value)

    def _u32(self) -> int:
        (value,) = _U32.unpack_from(self.data, self.at)
        self.at += 4
        return int(value)
