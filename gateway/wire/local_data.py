"""The client's own rows, as bytes: what in them Spark reads as a schema.

Rows come as Arrow streams, whose fields can carry a column's metadata, either within a plan or as an uploaded
file of the session's cache. Such a file is what the plan that names it says: Arrow, a schema as text, or a
`LocalRelation` with both (which clients of Spark 3.5 send). Its first bytes decide here, so that it cannot
be read as more than one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from gateway.wire.protobuf import ProtobufError

METADATA_KEY = b"SPARK::metadata::json"
"""Where Spark 4.3 keeps a column's metadata in an Arrow field."""
MAX_SCHEMA_BYTES = 16 * 1024 * 1024
"""A schema of 65,000 columns is half as large."""

_STREAM = b"\xff\xff\xff\xff"
"""How an Arrow stream begins. No text and no protobuf message does."""
_DATA, _SCHEMA = 0x0A, 0x12
"""Tags of the fields of a LocalRelation."""
_MAX_VARINT = 10


def metadata_of(data: bytes) -> tuple[str, ...]:
    """Return the metadata of the columns of an Arrow stream. Raises ProtobufError where it cannot be read."""
    if METADATA_KEY not in data:
        return ()
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        return tuple(_metadata(schema))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable() from error


def columns_of(data: bytes) -> tuple[str, ...]:
    """Return the names of the columns of an Arrow stream. Raises ProtobufError where it cannot be read."""
    try:
        return tuple(pa.ipc.read_schema(pa.py_buffer(data)).names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable() from error


def without_rows(data: bytes) -> bytes:
    """Return an Arrow stream's columns, names and types, as a stream without rows. Raises ProtobufError where
    it cannot be read."""
    try:
        columns = pa.ipc.read_schema(pa.py_buffer(data))
        schema = pa.schema([pa.field(column.name, column.type) for column in columns])
        return bytes(schema.serialize())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable() from error


def _metadata(schema: pa.Schema) -> Iterator[str]:
    pending = list(schema)
    while pending:
        field = pending.pop()
        kept = field.metadata or {}
        if METADATA_KEY in kept:
            yield kept[METADATA_KEY].decode()
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_nested(kind):
            pending.extend(kind.field(index) for index in range(kind.num_fields))


class CachedData:
    """One file of the session's cache, read as it comes; nothing of it is kept but its schema.

    `texts` has what Spark could read as a schema, complete after `end`. Both methods raise ProtobufError.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._head = b""
        self._part: _Arrow | _SchemaText | _Relation | None = None

    def feed(self, data: bytes) -> None:
        if self._part is None:
            self._head += data
            if len(self._head) < len(_STREAM):
                return
            self._part, data, self._head = self._choose_reader(self._head), self._head, b""
        self._part.feed(data)

    def end(self) -> None:
        if self._part is None:
            self._part = self._choose_reader(self._head)
            self._part.feed(self._head)
        self._part.end()
        self.texts += self._part.texts

    def _choose_reader(self, head: bytes) -> _Arrow | _SchemaText | _Relation:
        if head[:4] == _STREAM:
            return _Arrow()
        return _Relation() if head[:1] and head[0] in (_DATA, _SCHEMA) else _SchemaText()


class _SchemaText:
    """A schema, JSON or DDL."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data
        if len(self._bytes) > MAX_SCHEMA_BYTES:
            raise _unreadable()

    def end(self) -> None:
        try:
            self.texts.append(self._bytes.decode())
        except UnicodeDecodeError as error:
            raise _unreadable() from error


class _Arrow:
    """An Arrow stream: its first message is its schema."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._bytes: bytearray | None = bytearray()

    def feed(self, data: bytes) -> None:
        if self._bytes is None:
            return
        self._bytes += data
        if len(self._bytes) < 8:
            return
        length = int.from_bytes(self._bytes[4:8], "little", signed=True)
        if self._bytes[:4] != _STREAM or not 0 < length <= MAX_SCHEMA_BYTES:
            raise _unreadable()
        if len(self._bytes) >= 8 + length:
            self.texts += metadata_of(bytes(self._bytes[: 8 + length]))
            self._bytes = None

    def end(self) -> None:
        if self._bytes:
            raise _unreadable()


class _Relation:
    """A serialized LocalRelation: fields one after the other, each with its length."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._prefix = bytearray()
        self._field: _Arrow | _SchemaText | None = None
        self._due = 0

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._field is None:
                at = self._begin(data, at)
                continue
            taken = data[at : at + self._due]
            self._field.feed(taken)
            at += len(taken)
            self._due -= len(taken)
            self._close()

    def _begin(self, data: bytes, at: int) -> int:
        self._prefix.append(data[at])
        if len(self._prefix) == 1:
            if data[at] not in (_DATA, _SCHEMA):
                raise _unreadable()
        elif data[at] < 0x80:
            self._due = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(self._prefix[1:]))
            self._field = _Arrow() if self._prefix[0] == _DATA else _SchemaText()
            self._prefix.clear()
            self._close()
        elif len(self._prefix) > _MAX_VARINT:
            raise _unreadable()
        return at + 1

    def _close(self) -> None:
        if self._field is not None and not self._due:
            self._field.end()
            self.texts += self._field.texts
            self._field = None

    def end(self) -> None:
        if self._field is not None or self._prefix:
            raise _unreadable()


def _unreadable() -> ProtobufError:
    return ProtobufError("MALFORMED", "the local data is neither a valid Arrow stream nor a valid schema")
