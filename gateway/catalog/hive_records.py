"""Thrift's structs as they come, every field kept: what a metastore tells of a table can be changed in one
place and told back whole, fields that only another version knows included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thrift.Thrift import TException, TType  # type: ignore[import-untyped, unused-ignore]

MAX_DEPTH = 32
"""Levels of structs and containers within each other."""
_PLAIN = {
    TType.BOOL: "Bool",
    TType.BYTE: "Byte",
    TType.I16: "I16",
    TType.I32: "I32",
    TType.I64: "I64",
    TType.DOUBLE: "Double",
    TType.STRING: "Binary",
}


@dataclass(slots=True)
class Record:
    """A struct: field id → Thrift's type and the value. Texts are bytes."""

    fields: dict[int, tuple[int, Any]] = field(default_factory=dict, repr=False)

    def record(self, number: int) -> Record | None:
        """Return a struct inside of it, None when it has none there."""
        value = self.fields.get(number, (0, None))[1]
        return value if isinstance(value, Record) else None

    def text(self, number: int) -> str:
        """Return a text, empty when it has none there."""
        value = self.fields.get(number, (0, b""))[1]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""

    def texts(self, number: int) -> dict[str, str]:
        """Return a map of texts, empty when it has none there."""
        value = self.fields.get(number, (0, None))[1]
        told = value.items if isinstance(value, _Map) else ()
        return {
            key.decode("utf-8", "replace"): one.decode("utf-8", "replace")
            for key, one in told
            if isinstance(key, bytes) and isinstance(one, bytes)
        }

    def set_text(self, number: int, value: str) -> None:
        """Put a text in its place."""
        self.fields[number] = (TType.STRING, value.encode())

    def set_texts(self, number: int, values: dict[str, str]) -> None:
        """Put a map of texts in its place."""
        told = [(key.encode(), value.encode()) for key, value in values.items()]
        self.fields[number] = (TType.MAP, _Map(TType.STRING, TType.STRING, told))


@dataclass(frozen=True, slots=True)
class _Map:
    keys: int
    values: int
    items: list[tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class _List:
    ttype: int
    elements: int
    items: list[Any]


def read_record(protocol: Any, depth: int = 0) -> Record:
    """Read a struct. Raises TException for what Thrift does not have, and as the transport does."""
    found = Record()
    protocol.readStructBegin()
    while True:
        _, ttype, number = protocol.readFieldBegin()
        if ttype == TType.STOP:
            break
        found.fields[number] = (ttype, _read(protocol, ttype, depth + 1))
        protocol.readFieldEnd()
    protocol.readStructEnd()
    return found


def write_record(protocol: Any, record: Record) -> None:
    """Write a struct."""
    protocol.writeStructBegin("")
    for number, (ttype, value) in record.fields.items():
        protocol.writeFieldBegin("", ttype, number)
        _write(protocol, ttype, value)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()


def _read(protocol: Any, ttype: int, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise TException("a struct that is nested too deep")
    plain = _PLAIN.get(ttype)
    if plain is not None:
        return getattr(protocol, f"read{plain}")()
    match ttype:
        case TType.STRUCT:
            return read_record(protocol, depth)
        case TType.MAP:
            keys, values, size = protocol.readMapBegin()
            return _Map(
                keys,
                values,
                [(_read(protocol, keys, depth + 1), _read(protocol, values, depth + 1)) for _ in range(size)],
            )
        case TType.LIST | TType.SET:
            # A set is written as a list is.
            elements, size = protocol.readListBegin()
            return _List(ttype, elements, [_read(protocol, elements, depth + 1) for _ in range(size)])
    raise TException("a field of a type that Thrift does not have")


def _write(protocol: Any, ttype: int, value: Any) -> None:
    plain = _PLAIN.get(ttype)
    if plain is not None:
        getattr(protocol, f"write{plain}")(value)
    elif isinstance(value, Record):
        write_record(protocol, value)
    elif isinstance(value, _Map):
        protocol.writeMapBegin(value.keys, value.values, len(value.items))
        for key, one in value.items:
            _write(protocol, value.keys, key)
            _write(protocol, value.values, one)
    else:
        protocol.writeListBegin(value.elements, len(value.items))
        for one in value.items:
            _write(protocol, value.elements, one)
