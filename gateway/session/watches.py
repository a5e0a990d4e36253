"""How statements end that no client asks about: found out for those who wait for their names or slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from gateway.errors import SluiceError

_log = structlog.get_logger(__name__)


class Watches:
    """Tasks of their own, each of which waits for the end of a statement."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, ended: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for an end; what it comes to is noted by whoever makes the coroutine."""
        task = asyncio.create_task(_to_the_end(ended))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Watch nothing any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _to_the_end(ended: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await ended()
    except SluiceError as fault:
        # Whoever closes the lost session lets go of its names.
        _log.info("operation_not_watched", reason=fault.code)
