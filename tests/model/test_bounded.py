"""What is kept of so many entries: those that were written last."""

from __future__ import annotations

import pytest

from gateway.model.bounded import BoundedDict, read_bounded


def test_what_was_written_last_is_kept() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3
    kept["c"] = 4
    assert kept == {"a": 3, "c": 4}
    kept.move_to_end("a")
    kept["d"] = 5
    assert list(kept.items()) == [("a", 3), ("d", 5)]


@pytest.mark.parametrize("piece", [1, 3, 100])
async def test_a_stream_is_read_to_its_end_or_not_at_all(piece: int) -> None:
    for size, most, found in ((0, 5, True), (5, 5, True), (6, 5, False), (5_000, 5, False)):
        data, asked = bytearray(b"x" * size), 0

        async def read(wanted: int, data: bytearray = data) -> bytes:
            nonlocal asked
            asked += 1
            some = bytes(data[: min(wanted, piece)])
            del data[: len(some)]
            return some

        assert await read_bounded(read, most) == (b"x" * size if found else None)
        assert asked <= most + 2
