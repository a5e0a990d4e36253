"""What has to be done a little later, and before the gateway stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

AT_ONCE_S = 1.0
"""Seconds that Spark has to end what was stopped when the gateway does not wait any longer."""


class DelayedEndings:
    """Runs each ending once: after its delay, or at once when its task is cancelled."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def schedule(self, delay_s: float, ending: Callable[[], Awaitable[None]]) -> None:
        """Run `ending`, which must bound its own time and not raise, after `delay_s`."""
        task = asyncio.create_task(self._end(delay_s, ending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Return when every ending has run; takes as long as the longest delay that is left.

        Cancelled, it has those that are left run at once, and does not wait long for them.
        """
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for pause_s in (AT_ONCE_S, 0):
                for task in self._tasks:
                    task.cancel()
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=pause_s)

    async def _end(self, delay_s: float, ending: Callable[[], Awaitable[None]]) -> None:
        try:
            await asyncio.sleep(delay_s)
        finally:
            await ending()
