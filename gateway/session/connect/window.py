"""How far a stream may be ahead of its client, so that one that is cut off can go on where it was.

Of what it has sent Spark keeps the last 10 MB
(`spark.connect.execute.reattachable.observerRetryBufferSize`). Windows and sockets between Spark and a client
that is slow hold more than that, and all of it is lost when a gateway is killed. So what Spark is asked for
goes by what the client says that it has: clients release every response that they take.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.errors import InvalidRequest

AHEAD_BYTES = 3 * 1024 * 1024
"""Bytes that a client may not have said that it has when the next response is asked for. That one, the one
behind it and what gRPC reads ahead make 10 MB with responses of 2.8 MB."""
FIRST_WORD_S = 1.0
"""A client that has said nothing for so long never does; it is not waited for again."""
PATIENCE_S = 600.0
"""How long a client may take nothing."""

_Key = tuple[str, str, str]
"""User, session and operation."""


class Window:
    """What was sent to one reader of an operation and is not known to have arrived."""

    def __init__(self) -> None:
        self._sent: deque[tuple[str, int]] = deque()
        self._ahead = 0
        self._heard = False
        self._open = False
        self._changed = asyncio.Event()

    def note_sent(self, response_id: str, size: int) -> None:
        if not self._open:
            self._sent.append((response_id, size))
            self._ahead += size

    def acknowledge(self, response_id: str) -> None:
        """The client has this response and all before it."""
        self._heard = True
        if any(known == response_id for known, _ in self._sent):
            while self._sent:
                known, size = self._sent.popleft()
                self._ahead -= size
                if known == response_id:
                    break
        self._changed.set()

    def open(self) -> None:
        """Wait for nothing any more."""
        self._open = True
        self._sent.clear()
        self._changed.set()

    async def wait_for_room(self) -> None:
        """Wait until the client has enough of what was sent. Raises InvalidRequest when it takes nothing."""
        while not self._open and self._ahead > AHEAD_BYTES:
            self._changed.clear()
            try:
                async with asyncio.timeout(PATIENCE_S if self._heard else FIRST_WORD_S):
                    await self._changed.wait()
            except TimeoutError:
                if self._heard:
                    raise InvalidRequest("the client did not read the response for too long") from None
                self.open()


class Windows:
    """The windows of all streams that clients may come back to."""

    def __init__(self) -> None:
        self._windows: dict[_Key, Window] = {}

    @asynccontextmanager
    async def over(self, key: _Key) -> AsyncIterator[Window]:
        """Have a window for a reader; the reader before it is not held up any longer."""
        if (before := self._windows.get(key)) is not None:
            before.open()
        window = self._windows[key] = Window()
        try:
            yield window
        finally:
            if self._windows.get(key) is window:
                del self._windows[key]

    def acknowledge(self, key: _Key, response_id: str | None) -> None:
        """Note what a client says that it has; None: everything that it wants."""
        window = self._windows.get(key)
        if window is None:
            return
        if response_id is None:
            window.open()
        else:
            window.acknowledge(response_id)
