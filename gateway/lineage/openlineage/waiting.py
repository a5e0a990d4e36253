"""A thread of its own for what waits for a disk, which may be for ever: a share that hangs, say.

The threads that everybody shares are few. If events took one of them for each batch, a disk that hangs would
have them all in minutes, and with them logins, the record's way into PostgreSQL, and policies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from gateway.errors import Faults

P = ParamSpec("P")
T = TypeVar("T")


class OneThread:
    """Runs one thing after the other; nothing more while something is at work whose caller has given up."""

    def __init__(self, name: str, busy: str) -> None:
        """`busy`: what whoever comes meanwhile is told. Belongs to one event loop."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._busy = busy
        self._running: Future[Any] | None = None
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `work` returns. Raises Faults when what was given up is still at work."""
        async with self._turn:
            if self._running is not None and not self._running.done():
                raise Faults([self._busy])
            running = self._running = self._pool.submit(work, *args, **kwargs)
            return await asyncio.wrap_future(running)

    async def end(self, work: Callable[[], object]) -> None:
        """Run one thing more, after what is at work, and then nothing."""
        last = self._pool.submit(work)
        self._pool.shutdown(wait=False)
        await asyncio.wrap_future(last)
