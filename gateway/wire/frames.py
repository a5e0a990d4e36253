"""A byte stream of `[4 bytes length, big-endian][message]` is cut into messages, whatever its chunks are."""

from __future__ import annotations

import struct

from gateway.wire.thrift import MalformedMessage

HEADER_BYTES = 4
_LENGTH = struct.Struct(">I")


def frame(message: bytes) -> bytes:
    """Return the message with its length in front."""
    return _LENGTH.pack(len(message)) + message


class FrameSplitter:
    """Cuts chunks into messages; what is not whole yet waits here.

    `max_frame_bytes` bounds one message. Nothing is allocated on a length's word: only bytes that came are
    kept, so that a peer which promises a gigabyte and sends nothing costs nothing.
    """

    __slots__ = ("_broken", "_buffer", "_max", "_need")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max = max_frame_bytes
        self._buffer = bytearray()
        self._need = HEADER_BYTES
        self._broken = False

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their message."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk and return the messages that are now whole.

        Raises MalformedMessage for a length above the limit, and from then on for every chunk; messages that
        were whole before the bad one in the same chunk are lost with it, because the stream ends there.
        """
        if self._broken:
            raise MalformedMessage("the stream broke earlier")
        buffer = self._buffer
        if not buffer and len(chunk) >= HEADER_BYTES:
            (length,) = _LENGTH.unpack_from(chunk)
            if length == len(chunk) - HEADER_BYTES and length <= self._max:
                return [chunk[HEADER_BYTES:]]  # one message that came whole, as calls do
        buffer += chunk
        if len(buffer) < self._need:
            return []
        messages: list[bytes] = []
        start = 0
        with memoryview(buffer) as view:
            while len(view) - start >= HEADER_BYTES:
                (length,) = _LENGTH.unpack_from(view, start)
                if length > self._max:
                    self._broken = True
                    break
                end = start + HEADER_BYTES + length
                if end > len(view):
                    self._need = end - start
                    break
                messages.append(bytes(view[start + HEADER_BYTES : end]))
                start = end
                self._need = HEADER_BYTES
        if self._broken:
            buffer.clear()
            raise MalformedMessage(f"a frame of more than {self._max} bytes")
        del buffer[:start]
        return messages
