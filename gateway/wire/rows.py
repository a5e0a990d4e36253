"""Result batches: packed for answers that the gateway gives itself, unpacked when small, else only peeked at.

Up to protocol V5 a batch is a list of rows, from V6 on a list of columns; `hasMoreRows` is always false with
Spark, so an empty batch is the end. Text in rows is UTF-8; what is not is read with U+FFFD in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gateway.wire import tcli
from gateway.wire.tcli import TProtocolVersion, TTypeId
from gateway.wire.thrift import MalformedMessage, Struct

Cell = None | bool | int | float | str | bytes


class _Carrier(NamedTuple):
    """How a type travels: field of the union, structs of a cell and of a column, what fills in for null."""

    field: str
    cell: Callable[..., Struct]
    column: Callable[..., Struct]
    filler: Any


_STRING = _Carrier("stringVal", tcli.TStringValue, tcli.TStringColumn, b"")
_BINARY = _Carrier("binaryVal", tcli.TStringValue, tcli.TBinaryColumn, b"")
_DOUBLE = _Carrier("doubleVal", tcli.TDoubleValue, tcli.TDoubleColumn, 0.0)
_CARRIERS: dict[int, _Carrier] = {
    TTypeId.BOOLEAN: _Carrier("boolVal", tcli.TBoolValue, tcli.TBoolColumn, filler=False),
    TTypeId.TINYINT: _Carrier("byteVal", tcli.TByteValue, tcli.TByteColumn, 0),
    TTypeId.SMALLINT: _Carrier("i16Val", tcli.TI16Value, tcli.TI16Column, 0),
    TTypeId.INT: _Carrier("i32Val", tcli.TI32Value, tcli.TI32Column, 0),
    TTypeId.BIGINT: _Carrier("i64Val", tcli.TI64Value, tcli.TI64Column, 0),
    TTypeId.FLOAT: _DOUBLE,
    TTypeId.DOUBLE: _DOUBLE,
    TTypeId.BINARY: _BINARY,
}
"""Types that do not travel as text; decimals, dates, timestamps and nested values do."""

_CELL_FIELDS = tuple(field.name for field in tcli.TColumnValue.wire_fields)
_COLUMN_FIELDS = tuple(field.name for field in tcli.TColumn.wire_fields)


class ColumnSpec(NamedTuple):
    """A column of an answer that the gateway gives itself."""

    name: str
    type: TTypeId
    comment: str | None = None


def table_schema(columns: Sequence[ColumnSpec], *, first_position: int = 1) -> tcli.TTableSchema:
    """Return the schema; Spark counts positions from 0 for query results and from 1 for metadata calls."""
    return tcli.TTableSchema(
        columns=[
            tcli.TColumnDesc(
                columnName=column.name,
                typeDesc=tcli.TTypeDesc(
                    types=[tcli.TTypeEntry(primitiveEntry=tcli.TPrimitiveTypeEntry(type=column.type))]
                ),
                position=position,
                comment=column.comment,
            )
            for position, column in enumerate(columns, first_position)
        ]
    )


def column_types(schema: tcli.TTableSchema) -> list[int]:
    """Return the TTypeId of each column; a column that is not primitive travels as text, so it is STRING."""
    types: list[int] = []
    for column in schema.columns:
        entries = column.typeDesc.types
        primitive = entries[0].primitiveEntry if entries else None
        types.append(TTypeId.STRING if primitive is None else primitive.type)
    return types


def encode_rows(
    rows: Sequence[Sequence[Cell]], types: Sequence[int], protocol_version: int, *, start_offset: int = 0
) -> tcli.TRowSet:
    """Pack rows of `types` (TTypeId numbers) as the client's protocol version wants them."""
    carriers = [_CARRIERS.get(t, _STRING) for t in types]
    if protocol_version < TProtocolVersion.V6:
        return tcli.TRowSet(
            startRowOffset=start_offset,
            rows=[
                tcli.TRow(colVals=[_cell(v, c) for v, c in zip(row, carriers, strict=True)]) for row in rows
            ],
        )
    columns = [_column([row[i] for row in rows], carrier) for i, carrier in enumerate(carriers)]
    return tcli.TRowSet(startRowOffset=start_offset, rows=[], columns=columns)


def _cell(value: Cell, carrier: _Carrier) -> tcli.TColumnValue:
    # TColumnValue has no binaryVal: bytes travel in stringVal there.
    field = "stringVal" if carrier is _BINARY else carrier.field
    union: dict[str, Any] = {field: carrier.cell(value=_encode_carrier(value, carrier))}
    return tcli.TColumnValue(**union)


def _column(values: list[Cell], carrier: _Carrier) -> tcli.TColumn:
    nulls = bytearray((len(values) + 7) // 8)
    packed = []
    for i, value in enumerate(values):
        if value is None:
            nulls[i >> 3] |= 1 << (i & 7)
            packed.append(carrier.filler)
        else:
            packed.append(_encode_carrier(value, carrier))
    union: dict[str, Any] = {carrier.field: carrier.column(values=packed, nulls=bytes(nulls))}
    return tcli.TColumn(**union)


def _encode_carrier(value: Cell, carrier: _Carrier) -> Any:
    if value is None or isinstance(value, bytes):
        return value
    if carrier is _STRING or carrier is _BINARY:
        return str(value).encode("utf-8", "replace")
    return value


def decode_rows(rows: tcli.TRowSet) -> list[tuple[Cell, ...]]:
    """Unpack a batch of either form. Raises MalformedMessage when its columns differ in length."""
    if rows.columns:
        columns = [_column_values(column) for column in rows.columns]
        if len({len(column) for column in columns}) != 1:
            raise MalformedMessage("columns of different lengths in one batch")
        return list(zip(*columns, strict=True))
    return [tuple(_cell_value(value) for value in row.colVals) for row in rows.rows]


def _cell_value(value: tcli.TColumnValue) -> Cell:
    for field in _CELL_FIELDS:
        inner = getattr(value, field)
        if inner is not None:
            return _text(inner.value)
    raise MalformedMessage("a cell of no known type")


def _column_values(column: tcli.TColumn) -> list[Cell]:
    for field in _COLUMN_FIELDS:
        inner = getattr(column, field)
        if inner is None:
            continue
        values: list[Cell] = inner.values
        nulls: bytes = inner.nulls
        if field == "stringVal":
            values = [_text(value) for value in values]
        if any(nulls):
            # Trailing zero bytes of the bitmap may be missing.
            values = [
                None if (i >> 3) < len(nulls) and nulls[i >> 3] >> (i & 7) & 1 else value
                for i, value in enumerate(values)
            ]
        return values
    raise MalformedMessage("a column of no known type")


def _text(value: Cell) -> Cell:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
