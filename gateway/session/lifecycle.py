"""Whether the gateway is about to stop: then nothing new begins, and what ends is the gateway's doing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from gateway.errors import GatewayStopping

_log = structlog.get_logger(__name__)

STOPPING = "the gateway is stopping"
STOP_S = 5.0
"""Seconds for ending what still runs when draining is over: Spark may be silent, and clients slow."""
LEAST_S = 0.5
"""What closing one thing gets of that when all of it is used up."""


class Lifecycle:
    """One for a whole process."""

    def __init__(self) -> None:
        self.stopping = False
        """Nothing new begins; what runs may go on to its end."""
        self.cuts = False
        """Its time is over: what ends from here on, the gateway ends."""
        self._until = 0.0
        self._calls: set[asyncio.Timeout] = set()

    def require_running(self) -> None:
        """Raise GatewayStopping when nothing new may begin."""
        if self.stopping:
            raise GatewayStopping()

    def reason(self, otherwise: str) -> str:
        """Return why something ends: a gateway that stops cuts its clients, who then seem to go away."""
        return STOPPING if self.cuts else otherwise  # RULE (stopping-cut, stopping-client-left)

    def cut(self) -> None:
        """End the time of what runs: calls that wait are answered that the gateway stops."""
        if self.cuts:
            return
        self.stopping = self.cuts = True
        now = asyncio.get_running_loop().time()
        self._until = now + STOP_S
        for call in self._calls:
            call.reschedule(now)

    @asynccontextmanager
    async def until_cut(self) -> AsyncIterator[None]:
        """Wait in the block for what a call needs, and no longer than the time of what runs. Raises
        GatewayStopping then."""
        if self.cuts:
            raise GatewayStopping()
        call = asyncio.timeout(None)
        try:
            async with call:
                self._calls.add(call)
                yield
        except TimeoutError:
            if not call.expired():
                raise
            raise GatewayStopping() from None
        finally:
            self._calls.discard(call)

    def compute_seconds_left(self) -> float:
        """Return how many seconds something has to be closed, after the cut."""
        return max(LEAST_S, self._until - asyncio.get_running_loop().time())

    async def close_in_time(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close what may wait for Spark. What is not done in time after the cut is left to Spark, which ends
        what it has with its connections."""
        try:
            async with asyncio.timeout(self.compute_seconds_left() if self.cuts else None):
                await close()
        except TimeoutError:
            _log.info("not_closed_in_time", part=type(getattr(close, "__self__", close)).__name__)
