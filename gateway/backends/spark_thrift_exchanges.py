"""Calls to Spark that wait for their replies: each takes what arrives of its own, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Protocol

from gateway.session.ports import FrameSink
from gateway.wire.frames import HEADER_BYTES
from gateway.wire.peek import FetchPeek, peek_fetch_reply
from gateway.wire.thrift import MalformedMessage

MAX_PEEK_BYTES = 64 * 1024
"""A reply must have told its status and its row count by then; Spark's do within 100 bytes."""


class Exchange(Protocol):
    """A call that waits for its reply; the connection tells it what arrives."""

    quick: bool
    """Whether Spark answers as soon as it comes to the call, so that another may stand behind it."""

    def begin(self, length: int) -> None:
        """A frame with a message of so many bytes begins."""

    def take(self, chunk: bytes) -> None:
        """Some of the frame has come; the first chunks hold its header."""

    def end(self) -> None:
        """The frame is whole."""

    def fail(self, error: Exception) -> None:
        """There will be no (more) reply."""


class Gathered:
    """Collects one reply whole."""

    __slots__ = ("_buffer", "_limit", "answer", "quick")

    def __init__(self, limit: int, *, quick: bool = False) -> None:
        self.quick = quick
        self._limit = limit
        self._buffer = bytearray()
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def begin(self, length: int) -> None:
        if length > self._limit:
            raise MalformedMessage(f"a response of more than {self._limit} bytes")

    def take(self, chunk: bytes) -> None:
        if not self.answer.done():
            self._buffer += chunk

    def end(self) -> None:
        if not self.answer.done():
            self.answer.set_result(bytes(self._buffer[HEADER_BYTES:]))

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def drop(self) -> None:
        """Nobody wants the reply: it is swallowed when it comes."""
        if not self.answer.cancel() and not self.answer.cancelled():
            self.answer.exception()  # marks it as seen


class Relayed:
    """Hands a FetchResults reply on to a sink, unless it turns out to be an error: that is gathered."""

    __slots__ = ("_head", "_limit", "_transport", "error", "finished", "peek", "quick", "received", "sink",
                 "stopped", "wake")  # fmt: skip

    def __init__(self, sink: FrameSink, transport: asyncio.Transport, limit: int) -> None:
        self.quick = False
        self.sink: FrameSink | None = sink
        self.peek: FetchPeek | None = None
        self.received = 0
        self.stopped = False
        """Whether reading was stopped because the sink is slow."""
        self.finished = False
        self.error: Exception | None = None
        self.wake = asyncio.Event()
        self._head = b""
        self._transport = transport
        self._limit = limit

    @property
    def gathered(self) -> bytes:
        """The message of an error reply, without its length."""
        return self._head[HEADER_BYTES:]

    def begin(self, length: int) -> None:
        """Nothing: what is handed on has no limit."""

    def take(self, chunk: bytes) -> None:
        self.received += len(chunk)
        if self.sink is None:
            return
        if self.peek is not None and self.peek.succeeded:
            self._write(chunk)
            return
        # Chunks are handed on as they came, and copied only while the status is not known.
        head = self._head + chunk if self._head else chunk
        if self.peek is None:
            self.peek = _peek(head)
            if self.peek is not None and self.peek.succeeded:
                self._head = b""
                self._write(head)
                return
            if self.peek is None and len(head) > MAX_PEEK_BYTES:
                raise MalformedMessage("a FetchResults response without a status")
        if len(head) > self._limit + HEADER_BYTES:
            raise MalformedMessage(f"an error response of more than {self._limit} bytes")
        self._head = head

    def end(self) -> None:
        if self.peek is None and self.sink is not None:
            raise MalformedMessage("a FetchResults response that ends early")
        self.finished = True
        self.wake.set()

    def fail(self, error: Exception) -> None:
        self.error = self.error or error
        self.wake.set()

    def _write(self, chunk: bytes) -> None:
        if self.sink is not None:
            self.sink.write(chunk)
            if self.sink.slow and not self.stopped:
                # Only now is the relaying task woken: for a client that keeps up it has nothing to do.
                self.stopped = True
                self._transport.pause_reading()
                self.wake.set()

    def read_on(self) -> None:
        """The sink has caught up."""
        self.stopped = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def abandon(self) -> None:
        """Nobody takes the rest of the reply: swallow it."""
        self.sink = None
        self._head = b""
        if not self._transport.is_closing():
            self._transport.resume_reading()


def _peek(head: bytes) -> FetchPeek | None:
    """Peek at a frame's first bytes; 256 are enough, but for a status that comes with messages."""
    found = peek_fetch_reply(head[HEADER_BYTES : HEADER_BYTES + 256])
    return found or peek_fetch_reply(head[HEADER_BYTES : HEADER_BYTES + MAX_PEEK_BYTES])
