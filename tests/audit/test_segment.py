"""Entries are read back whole or not at all, wherever bytes are missing or wrong."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.segment import MAGIC, MAX_PAYLOAD_BYTES, NO_STATEMENT, Entry, Mark, encode, scan

entries = st.builds(
    Entry,
    mark=st.sampled_from(Mark),
    statement=st.binary(min_size=16, max_size=16),
    payload=st.text().map(lambda text: text.encode("utf-8", "ignore")),
)


def some_entries(count: int) -> list[Entry]:
    return [Entry(Mark.CLEARED, uuid.UUID(int=n).bytes, b'{"n": %d}' % n) for n in range(1, count + 1)]


def bare(found: list[Entry]) -> list[Entry]:
    return [Entry(entry.mark, entry.statement, entry.payload) for entry in found]


@given(st.lists(entries, max_size=20), st.integers(0, 2**40))
def test_what_is_written_is_read(written: list[Entry], base: int) -> None:
    data = b"".join(encode(entry) for entry in written)
    found = scan(data, base)
    assert bare(found.entries) == written
    assert found.damage == []
    assert found.tail == base + len(data)
    assert [entry.end for entry in found.entries][-1:] == ([base + len(data)] if written else [])


def test_a_tail_torn_at_every_byte_keeps_what_is_before_it() -> None:
    written = some_entries(3)
    sizes = [len(encode(entry)) for entry in written]
    data = b"".join(encode(entry) for entry in written)
    for cut in range(len(data) + 1):
        found = scan(data[:cut])
        whole = sum(1 for n in range(3) if sum(sizes[: n + 1]) <= cut)
        assert bare(found.entries) == written[:whole]
        assert found.damage == []
        assert found.tail == sum(sizes[:whole])


def test_blocks_that_were_never_filled_are_a_torn_tail() -> None:
    data = encode(some_entries(1)[0])
    found = scan(data + bytes(4096))
    assert (len(found.entries), found.damage, found.tail) == (1, [], len(data))


def test_a_wrong_byte_anywhere_costs_one_entry_and_is_told() -> None:
    written = some_entries(3)
    data = b"".join(encode(entry) for entry in written)
    size = len(data) // 3
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x40
        found = scan(bytes(broken))
        hit = at // size
        assert bare(found.entries) == [e for n, e in enumerate(written) if n != hit]
        assert found.damage or found.tail < len(data), "the loss is told"
        if hit < 2:
            assert found.damage == [(hit * size, (hit + 1) * size)]


def test_a_whole_last_entry_with_a_wrong_byte_is_damage_and_no_torn_tail() -> None:
    data = bytearray(encode(some_entries(1)[0]))
    data[-1] ^= 1
    assert scan(bytes(data)).damage == [(0, len(data))]


@given(st.text())
def test_no_text_of_a_user_looks_like_an_entry(text: str) -> None:
    assert MAGIC not in text.encode("utf-8", "ignore")


@given(st.binary(max_size=400))
def test_garbage_is_never_an_error(data: bytes) -> None:
    found = scan(data)
    assert found.entries == []
    assert found.damage or found.tail == 0 or not data


def test_a_record_without_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than"):
        encode(Entry(Mark.OTHER, NO_STATEMENT, bytes(MAX_PAYLOAD_BYTES + 1)))
