"""Local data as bytes: every schema in it is found, however it comes, and it can be read in one way only."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.connect import pb
from gateway.wire.local_data import CachedData, metadata_of
from gateway.wire.protobuf import ProtobufError

METADATA = json.dumps({"EXISTS_DEFAULT": "1"})
SCHEMA = '{"type": "struct", "fields": []}'


def arrow(*fields: pa.Field) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema(fields)) as writer:
        writer.write_table(pa.Table.from_pylist([], pa.schema(fields)))
    return sink.getvalue()


def noted(kind: pa.DataType | None = None) -> pa.Field:
    return pa.field("a", kind or pa.string(), metadata={"SPARK::metadata::json": METADATA})


PLAIN = arrow(pa.field("a", pa.string(), metadata={"x": "SPARK::metadata::json"}))


@pytest.mark.parametrize(
    "field",
    [
        noted(),
        noted(pa.dictionary(pa.int8(), pa.string())),
        pa.field("s", pa.struct([pa.field("x", pa.list_(noted()))])),
        pa.field("m", pa.map_(pa.string(), noted())),
        pa.field("n", pa.large_list(noted())),
    ],
)
def test_metadata_of_columns_is_found(field: pa.Field) -> None:
    assert metadata_of(arrow(pa.field("b", pa.int32()), field)) == (METADATA,)
    assert texts(arrow(field)) == [METADATA]


def test_rows_that_look_like_metadata_are_rows() -> None:
    assert metadata_of(PLAIN) == ()
    sink = io.BytesIO()
    table = pa.table({"a": ["SPARK::metadata::json"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert metadata_of(sink.getvalue()) == ()
    with pytest.raises(ProtobufError):
        metadata_of(b"SPARK::metadata::json")


def texts(data: bytes, step: int = 1 << 30) -> list[str]:
    cached = CachedData()
    for at in range(0, len(data), step):
        cached.feed(data[at : at + step])
    cached.end()
    return cached.texts


def relation(*fields: tuple[int, bytes]) -> bytes:
    """A LocalRelation with its fields in any order and number."""
    written = b""
    for number, value in fields:
        message = pb.LocalRelation()
        if number == 1:
            message.data = value
        else:
            message.schema = value.decode()
        written += message.SerializeToString()
    return written


FILES = {
    "text": (SCHEMA.encode(), [SCHEMA]),
    "ddl": (b"a INT", ["a INT"]),
    "short": (b"x", ["x"]),
    "empty": (b"", [""]),
    "arrow": (arrow(noted()), [METADATA]),
    "relation": (relation((1, arrow(noted())), (2, SCHEMA.encode())), [METADATA, SCHEMA]),
    "schema first": (relation((2, b"a INT"), (1, PLAIN), (2, b"b INT")), ["a INT", "b INT"]),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("step", [1, 7, 1 << 30])
def test_every_schema_is_found_in_pieces_of_any_size(name: str, step: int) -> None:
    data, found = FILES[name]
    assert texts(data, step) == found


@pytest.mark.parametrize(
    "data",
    [
        b"\n{"
        + SCHEMA.encode().ljust(123),  # a LocalRelation with JSON for data, and JSON after a line break
        relation((1, b"no arrow")),
        relation((1, PLAIN))[:-1],
        relation((1, PLAIN)) + b"\x1a\x00",
        b"\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x00\x00\x00\x80",
        b"{\xff}   ",
        arrow(noted())[:40],
    ],
)
def test_what_could_be_read_in_two_ways_or_in_none_is_refused(data: bytes) -> None:
    with pytest.raises(ProtobufError):
        texts(data)


@given(st.binary(max_size=60), st.integers(1, 9))
def test_any_bytes_are_read_or_refused_alike_in_any_pieces(data: bytes, step: int) -> None:
    def outcome(size: int) -> list[str] | str:
        try:
            return texts(data, size)
        except ProtobufError as error:
            return error.code

    assert outcome(step) == outcome(1 << 30)
