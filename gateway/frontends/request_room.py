"""Requests of Spark Connect calls: read within a time, and within a bound of all calls together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from gateway.errors import InvalidRequest, LimitExceeded

UNCOUNTED_BYTES = 64 * 1024
"""Requests that are smaller need no room: whatever large ones there are, small calls go on."""
FULL = "the gateway is busy with large requests; try again later"


class Requests:
    """Room for the requests of one listener, from their reading to the end of their calls."""

    def __init__(self, *, room: int, largest: int, timeout_s: float, grace_s: float) -> None:
        """Bytes: `room` of all, and `largest` of one, for which there always is room. A whole message has
        `timeout_s`, and counts as the largest when it is not there after `grace_s`."""
        self._room = max(room, largest)
        self.largest = largest
        self.timeout_s = timeout_s
        self.grace_s = grace_s
        self.in_hand = 0

    @contextmanager
    def hand(self) -> Iterator[Hand]:
        """Lend the hand of one call; it is empty again afterwards."""
        hand = Hand(self)
        try:
            yield hand
        finally:
            hand.hold(0)

    def change(self, before: int, after: int) -> None:
        """Count so many bytes instead of others. Raises LimitExceeded when there is no room for more."""
        if after > before and self.in_hand - before + after > self._room:
            raise LimitExceeded(FULL)
        self.in_hand += after - before


class Hand:
    """The message of a client that one call has, or is waiting for."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._held = 0
        self.keeps_first = False
        """Whether the first message may be wanted again."""
        self._first: bytes | None = None
        self._count = 0
        self._again = False

    def begin_again(self) -> bool:
        """Have the first message read once more; False where it is gone, since others were read."""
        self._again = self._count == 1
        return self._again

    def hold(self, size: int) -> None:
        """Count so many bytes for this call. Raises LimitExceeded."""
        self._requests.change(self._held, size)
        self._held = size

    async def read(self, context: Any) -> bytes | None:
        """Return the next message in place of the one before, or None when the client has said that there
        are no more. Raises InvalidRequest when it takes too long, LimitExceeded.

        How much of a message has come nobody can say before it is whole. So one that takes long is counted
        as the largest meanwhile, and not waited for when there is no room for that.
        """
        if self._again:
            self._again = False
            return self._first
        self.hold(0)
        loop, full = asyncio.get_running_loop(), False

        def count(deadline: asyncio.Timeout) -> None:
            nonlocal full
            try:
                self.hold(self._requests.largest)
            except LimitExceeded:
                full = True
                deadline.reschedule(loop.time())

        try:
            async with asyncio.timeout(self._requests.timeout_s) as deadline:
                late = loop.call_later(self._requests.grace_s, count, deadline)
                try:
                    message = await context.read()
                finally:
                    late.cancel()
        except TimeoutError:
            if full:
                raise LimitExceeded(FULL) from None
            raise InvalidRequest(
                f"no complete request arrived within {self._requests.timeout_s:.0f} seconds"
            ) from None
        if message is grpc.aio.EOF:
            self.hold(0)
            return None
        data = bytes(message)
        self.hold(len(data) if len(data) > UNCOUNTED_BYTES else 0)
        self._count += 1
        self._first = data if self.keeps_first and self._count == 1 else None
        return data
