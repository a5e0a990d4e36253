"""Frames under a security layer, whatever pieces they come in."""

from __future__ import annotations

import pytest

from gateway.wire.frames import FrameSplitter, frame
from gateway.wire.wrapped_frames import FrameWrapper


class Layer:
    max_bytes = 5

    def wrap(self, data: bytes) -> bytes:
        return b"<" + data + b">"

    def unwrap(self, data: bytes) -> bytes:
        return data[1:-1]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
def test_what_is_sent_is_what_was_written_piece_by_piece(size: int) -> None:
    messages = [b"one", b"", b"a longer message", b"x" * 5]
    written = b"".join(frame(one) for one in messages)
    wrapper, splitter = FrameWrapper(Layer()), FrameSplitter(100)
    pieces = []
    for start in range(0, len(written), size):
        pieces += splitter.feed(wrapper.feed(written[start : start + size]))
    assert splitter.pending == 0
    assert all(1 <= len(Layer().unwrap(one)) <= Layer.max_bytes for one in pieces)
    assert b"".join(Layer().unwrap(one) for one in pieces) == b"".join(messages)
