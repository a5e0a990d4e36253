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
    due: float | None
    """The loop's time by which somebody who waits gives up; None: nobody waits."""

    def begin(self, length: int) -> None:
        """A frame with a message of so many bytes begins."""

    def take(self, chunk: bytes) -> None:
        """Some of the frame has come; the first chunks hold its header."""

    def end(self) -> None:
        """The frame is whole."""

    def fail(self, error: Exception) -> None:
        """There will be no (more) reply."""

    def find_silence(self, now: float) -> str:
        """Return what Spark has not done by now that it was to do; empty: there is time."""


class Gathered:
    """Collects one reply whole."""

    __slots__ = ("_chunks", "_limit", "_method", "answer", "due", "quick")

    def __init__(self, method: str, limit: int, *, quick: bool = False) -> None:
        self.quick = quick
        self.due: float | None = None
        self._method = method
        self._limit = limit
        self._chunks: list[bytes] = []
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def begin(self, length: int) -> None:
        if length > self._limit:
            raise MalformedMessage(f"a response of more than {self._limit} bytes")

    def take(self, chunk: bytes) -> None:
        if not self.answer.done():
            self._chunks.append(chunk)

    def end(self) -> None:
        if not self.answer.done():
            chunks = self._chunks
            self.answer.set_result((chunks[0] if len(chunks) == 1 else b"".join(chunks))[HEADER_BYTES:])

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def find_silence(self, now: float) -> str:
        late = self.due is not None and self.due <= now and not self.answer.done()
        return f"Spark did not answer {self._method} in time" if late else ""

    def drop(self) -> None:
        """Nobody wants the reply: it is swallowed when it comes."""
        if not self.answer.cancel() and not self.answer.cancelled():
            self.answer.exception()  # marks it as seen


class Swallowed:
    """A reply that nobody waits for."""

    __slots__ = ("due", "quick")

    def __init__(self) -> None:
        self.quick = True
        self.due: float | None = None

    def begin(self, length: int) -> None:
        """Nothing: none of it is kept."""

    def take(self, chunk: bytes) -> None:
        """Nothing, likewise."""

    def end(self) -> None:
        """Nothing."""

    def fail(self, error: Exception) -> None:
        """Nothing."""

    def find_silence(self, now: float) -> str:
        return ""


class Relayed:
    """Hands a FetchResults reply on to a sink, unless it turns out to be an error: that is gathered."""

    __slots__ = ("_head", "_limit", "_seen", "_silence_s", "_transport", "_wake", "due", "error", "finished",
                 "peek", "quick", "received", "sink", "stopped")  # fmt: skip

    def __init__(self, sink: FrameSink, transport: asyncio.Transport, limit: int, silence_s: float) -> None:
        """`silence_s`: for how long nothing may come."""
        self.quick = False
        self.due: float | None = None
        self.sink: FrameSink | None = sink
        self.peek: FetchPeek | None = None
        self.received = 0
        self.stopped = False
        """Whether reading was stopped because the sink is slow."""
        self.finished = False
        self.error: Exception | None = None
        self._wake: asyncio.Future[None] | None = None
        self._head = b""
        self._transport = transport
        self._limit = limit
        self._silence_s = silence_s
        self._seen = 0
        """Bytes that had come when the time began."""

    async def wait(self, wake: asyncio.Future[None]) -> None:
        """Return when there is something to do: its end, an error, or a slow sink."""
        if self.finished or self.stopped or self.error is not None:
            self.due = None
            return
        self._wake, self._seen = wake, self.received
        try:
            await wake
        finally:
            self._wake = self.due = None

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
        self._wake_up()

    def fail(self, error: Exception) -> None:
        self.error = self.error or error
        self._wake_up()

    def find_silence(self, now: float) -> str:
        if self.due is None or self.due > now:
            return ""
        if self.received > self._seen:
            self._seen, self.due = self.received, now + self._silence_s
            return ""
        return "Spark stopped sending results"

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _write(self, chunk: bytes) -> None:
        if self.sink is not None:
            self.sink.write(chunk)
            if self.sink.slow and not self.stopped:
                # Only now is the relaying task woken: for a client that keeps up it has nothing to do.
                self.stopped = True
                self._transport.pause_reading()
                self._wake_up()

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
