"""What has to be done a little later, and at the latest when the gateway stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


class Endings:
    """Runs each ending once: after its delay, or at once when everything is closed or cancelled."""

    def __init__(self) -> None:
        self._hurry = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def later(self, delay_s: float, ending: Callable[[], Awaitable[None]]) -> None:
        """Run `ending`, which must bound its own time and not raise, after `delay_s`."""
        task = asyncio.create_task(self._end(delay_s, ending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Run everything that waits, now."""
        self._hurry.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _end(self, delay_s: float, ending: Callable[[], Awaitable[None]]) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._hurry.wait()
        finally:
            await ending()
