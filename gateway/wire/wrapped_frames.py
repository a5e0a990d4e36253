"""Frames under a security layer: `[4 bytes length][wrapped message]`, as HiveServer2's clients read them."""

from __future__ import annotations

from gateway.model.credentials import SecurityLayer
from gateway.wire.frames import HEADER_BYTES, FrameSplitter, frame
from gateway.wire.thrift import MalformedMessage

LAYER_BYTES = 4096
"""Most that a layer adds to a message."""


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


class WrappedFrames:
    """Both directions of a client's connection: HiveServer2 wraps each of its messages whole."""

    __slots__ = ("_layer", "_splitter", "_wrapper")

    def __init__(self, layer: SecurityLayer, max_message_bytes: int) -> None:
        self._layer = layer
        self._splitter = FrameSplitter(max_message_bytes + LAYER_BYTES)
        self._wrapper = FrameWrapper(layer)

    def wrap(self, framed: bytes) -> bytes:
        """Take a frame; return what is sent."""
        return self._wrapper.feed(framed)

    def receive(self, data: bytes) -> list[bytes]:
        """Take what has come; return the messages that are whole. Raises MalformedMessage."""
        try:
            return [self._layer.unwrap(message) for message in self._splitter.feed(data)]
        except ValueError as fault:
            raise MalformedMessage(str(fault)) from None
