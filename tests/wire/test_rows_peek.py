"""Batches in both forms, and what their first bytes tell."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import MalformedMessage, calls, messages, tcli
from gateway.wire.peek import _USUAL, FetchPeek, _Cursor, peek_fetch_reply
from gateway.wire.rows import ColumnSpec, column_types, decode_rows, encode_rows, table_schema
from gateway.wire.tcli import TTypeId
from gateway.wire.thrift import decode, encode
from tests.effort import tries

CELLS: dict[TTypeId, st.SearchStrategy[Any]] = {
    TTypeId.BOOLEAN: st.booleans(),
    TTypeId.TINYINT: st.integers(-128, 127),
    TTypeId.SMALLINT: st.integers(-(1 << 15), (1 << 15) - 1),
    TTypeId.INT: st.integers(-(1 << 31), (1 << 31) - 1),
    TTypeId.BIGINT: st.integers(-(1 << 63), (1 << 63) - 1),
    TTypeId.DOUBLE: st.floats(allow_nan=False),
    TTypeId.FLOAT: st.floats(allow_nan=False, width=32),
    TTypeId.STRING: st.text(st.characters(codec="utf-8")),
    TTypeId.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    TTypeId.BINARY: st.binary(),
}


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[TTypeId], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=6))
    row = st.tuples(*(st.none() | CELLS[t] for t in types))
    return types, draw(st.lists(row, max_size=20))


@settings(deadline=None)
@given(batches(), st.sampled_from(range(11)))
def test_rows_come_out_as_they_went_in(
    batch: tuple[list[TTypeId], list[tuple[Any, ...]]], version: int
) -> None:
    types, rows = batch
    packed = encode_rows(rows, types, version, start_offset=3)
    assert bool(packed.columns) == (version >= 5)
    read = decode(tcli.TRowSet, encode(packed))
    assert read.startRowOffset == 3
    expected = rows
    if version < 5:  # binary has no field of its own there and comes back as text
        expected = [
            tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in r) for r in rows
        ]
    assert decode_rows(read) == expected


@settings(deadline=None)
@given(batches(), st.sampled_from(range(11)))
def test_the_peek_counts_rows_and_never_changes_its_mind(
    batch: tuple[list[TTypeId], list[tuple[Any, ...]]], version: int
) -> None:
    types, rows = batch
    reply = calls.TFetchResultsResp(
        status=tcli.TStatus(statusCode=0), hasMoreRows=False, results=encode_rows(rows, types, version)
    )
    data = messages.encode_reply("FetchResults", 5, reply)
    answers = [peek_fetch_reply(data[:end]) for end in range(min(len(data), 200) + 1)]
    assert answers[-1] == FetchPeek(0, len(rows))
    assert set(answers) == {None, FetchPeek(0, len(rows))}
    assert answers == sorted(answers, key=lambda a: a is not None)


def fetch_reply(**fields: Any) -> bytes:
    return messages.encode_reply("FetchResults", 1, calls.TFetchResultsResp(**fields))


def test_the_peek_sees_an_error_before_its_hundred_lines_of_stack() -> None:
    status = tcli.TStatus(statusCode=3, infoMessages=["line"] * 100, sqlState="22012", errorMessage="boom")
    data = fetch_reply(status=status)
    assert peek_fetch_reply(data[:60]) == FetchPeek(3, 0)
    assert not FetchPeek(3, 0).succeeded


def test_the_peek_looks_past_information_messages() -> None:
    status = tcli.TStatus(statusCode=1, infoMessages=["*x", "y"])
    data = fetch_reply(status=status, results=encode_rows([(1,)], [TTypeId.INT], 9))
    assert peek_fetch_reply(data) == FetchPeek(1, 1)


def test_the_peek_reads_an_answer_without_columns_as_empty() -> None:
    """What Spark sends for DDL: a schema of one column and a batch of none."""
    assert peek_fetch_reply(fetch_reply(status=tcli.TStatus(statusCode=0))) == FetchPeek(0, 0)
    none: list[tcli.TColumn] = []
    for columns in (None, none):
        rows = tcli.TRowSet(startRowOffset=0, rows=[], columns=columns)
        assert peek_fetch_reply(fetch_reply(status=tcli.TStatus(statusCode=0), results=rows)) == FetchPeek(
            0, 0
        )


def test_the_peek_takes_an_exception_for_an_error() -> None:
    assert peek_fetch_reply(messages.encode_exception("FetchResults", 1, 6, "x")) == FetchPeek(3, 0)


VALID = fetch_reply(
    status=tcli.TStatus(statusCode=0), hasMoreRows=False, results=encode_rows([("a", 1)] * 3, [7, 3], 9)
)


@settings(max_examples=tries(500), deadline=1000)
@given(st.data())
def test_the_peek_of_flipped_bytes_is_an_answer_none_or_malformed(data: st.DataObject) -> None:
    flipped = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 5))):
        flipped[data.draw(st.integers(0, len(VALID) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedMessage):
        peek_fetch_reply(bytes(flipped[: data.draw(st.integers(0, len(VALID)))]))


@pytest.mark.parametrize(
    "data",
    [
        messages.encode_reply("CloseSession", 1, calls.TCloseSessionResp(status=tcli.TStatus(statusCode=0))),
        b"HTTP/1.1 200 OK",
        b"\x80\x01\x00\x02\x7f\xff\xff\xff",
        VALID[:24] + b"\x00",
        VALID[:24] + b"\x0c\x00\x00\x00",
        VALID[:24] + b"\x0c\x00\x00" + b"\x0c\x00\x63" * 40,
        VALID[:24] + b"\x0c\x00\x00" + b"\x0f\x00\x63\x02\xff\xff\xff\xff",
        VALID[:24] + b"\x0c\x00\x00" + b"\x63\x00\x63",
        VALID.replace(b"\x0f\x00\x03\x0c\x00", b"\x0f\x00\x03\x0c\x80"),
    ],
)
def test_the_peek_refuses_what_is_no_fetch_reply(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        peek_fetch_reply(data)


@settings(deadline=None, max_examples=tries(300))
@given(st.data())
def test_what_is_read_at_once_is_what_is_read_field_by_field(data: st.DataObject) -> None:
    """The batches that Spark sends, and such with a byte or two that are otherwise."""
    types, rows = data.draw(batches())
    columns = encode_rows(rows, types, 9, start_offset=7)
    status = tcli.TStatus(statusCode=data.draw(st.integers(0, 1)))
    reply = bytearray(fetch_reply(status=status, hasMoreRows=False, results=columns))
    if data.draw(st.booleans()):
        for _ in range(2):
            reply[data.draw(st.integers(0, min(len(reply), 110) - 1))] = data.draw(st.integers(0, 255))
    elif rows:
        assert _USUAL.match(reply)
    if _USUAL.match(reply):
        assert peek_fetch_reply(bytes(reply)) == _Cursor(bytes(reply)).reply()


def test_a_peek_at_a_hostile_count_ends_with_the_data() -> None:
    head = VALID[:24] + b"\x0c\x00\x00"
    for element in (b"\x02", b"\x0c", b"\x0b", b"\x0f"):
        assert peek_fetch_reply(head + b"\x0f\x00\x63" + element + b"\x7f\xff\xff\xff") is None


def test_columns_of_different_lengths_are_malformed() -> None:
    columns = encode_rows([(1,), (2,)], [3], 9).columns or []
    columns += encode_rows([(1,)], [3], 9).columns or []
    with pytest.raises(MalformedMessage):
        decode_rows(tcli.TRowSet(startRowOffset=0, rows=[], columns=columns))


def test_unions_without_a_value_are_malformed() -> None:
    with pytest.raises(MalformedMessage):
        decode_rows(tcli.TRowSet(startRowOffset=0, rows=[], columns=[tcli.TColumn()]))
    with pytest.raises(MalformedMessage):
        decode_rows(tcli.TRowSet(startRowOffset=0, rows=[tcli.TRow(colVals=[tcli.TColumnValue()])]))


def test_a_null_bitmap_may_be_shorter_than_its_column() -> None:
    column = tcli.TColumn(i32Val=tcli.TI32Column(values=list(range(20)), nulls=b"\x02"))
    rows = decode_rows(tcli.TRowSet(startRowOffset=0, rows=[], columns=[column]))
    assert [i for i, (v,) in enumerate(rows) if v is None] == [1]


def test_bad_utf8_in_a_row_is_shown_and_does_not_fail() -> None:
    column = tcli.TColumn(stringVal=tcli.TStringColumn(values=[b"a\xff"], nulls=b""))
    assert decode_rows(tcli.TRowSet(startRowOffset=0, rows=[], columns=[column])) == [("a\ufffd",)]


def test_a_schema_says_its_types() -> None:
    schema = table_schema([ColumnSpec("a", TTypeId.STRING, "first"), ColumnSpec("b", TTypeId.INT)])
    assert decode(tcli.TTableSchema, encode(schema)) == schema
    assert [(c.columnName, c.position, c.comment) for c in schema.columns] == [
        ("a", 1, "first"),
        ("b", 2, None),
    ]
    assert column_types(schema) == [TTypeId.STRING, TTypeId.INT]
    nested = tcli.TTypeDesc(types=[tcli.TTypeEntry(arrayEntry=tcli.TArrayTypeEntry(objectTypePtr=1))])
    schema.columns[0].typeDesc = nested
    assert column_types(schema)[0] == TTypeId.STRING
