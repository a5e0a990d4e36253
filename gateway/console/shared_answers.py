"""One answer of the gateways for all who look: it is asked for once, however many there are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from gateway.errors import BackendUnavailable, LedgerUnavailable

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """What all may have for a while; an older one is shown at once, and the next viewer gets a newer."""

    def __init__(
        self, ask: Callable[[], Awaitable[T]], clock: Callable[[], float], *, kept_s: float, old_s: float
    ) -> None:
        """`kept_s`: how old it may be before it is asked for again; `old_s`: how old it may be that is shown
        meanwhile."""
        self._ask = ask
        self._clock = clock
        self._kept_s = kept_s
        self._old_s = old_s
        self._asking = asyncio.Lock()
        self._known: tuple[T] | None = None
        self._known_at = float("-inf")
        self._answers = self._changes = 0
        self._renewing: asyncio.Task[None] | None = None

    async def get(self) -> T:
        """Return it. Raises what `ask` raises, where nobody has asked lately."""
        known, age_s = self._known, self._clock() - self._known_at
        if known is None or age_s > self._old_s:
            return await self._renew()
        if age_s > self._kept_s and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.create_task(self._renew_soon())
        return known[0]

    async def get_new(self) -> T:
        """Return one that is not to be asked for again yet. Raises what `ask` raises."""
        if self._known is not None and self._clock() - self._known_at <= self._kept_s:
            return self._known[0]
        return await self._renew()

    def forget(self) -> None:
        """Have it asked for again: it has been changed."""
        self._changes += 1
        self._known_at = float("-inf")

    async def _renew(self) -> T:
        seen = self._answers
        async with self._asking:
            if self._known is None or self._answers == seen:
                changes = self._changes
                self._known = (await self._ask(),)
                # What was changed while they answered may not be in it: whoever waits asks again.
                if changes == self._changes:
                    self._known_at = self._clock()
                    self._answers += 1
            return self._known[0]

    async def _renew_soon(self) -> None:
        # What goes wrong is told to who asks when the last answer is too old.
        with contextlib.suppress(LedgerUnavailable, BackendUnavailable):
            await self._renew()
