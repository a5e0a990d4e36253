"""Frames under a security layer: `[4 bytes length][wrapped message]`, as HiveServer2's clients read them."""

from __future__ import annotations

from gateway.model.credentials import SecurityLayer
from gateway.wire.frames import HEADER_BYTES, frame


class FrameWrapper:
    """Takes outgoing frames, in pieces as they come, and returns each piece as a wrapped frame of its own:
    clients join them, and nobody has to hold an answer whole."""

    __slots__ = ("_head", "_layer", "_left")

    def __init__(self, layer: SecurityLayer) -> None:
        self._layer = layer
        self._head = b""
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """Take what is written; return what is sent."""
        sent = []
        while data:
            if self._left == 0:
                need = HEADER_BYTES - len(self._head)
                self._head, data = self._head + data[:need], data[need:]
                if len(self._head) == HEADER_BYTES:
                    self._left, self._head = int.from_bytes(self._head, "big"), b""
                continue
            size = min(self._left, self._layer.max_bytes)
            piece, data = data[:size], data[size:]
            self._left -= len(piece)
            sent.append(frame(self._layer.wrap(piece)))
        return b"".join(sent)
