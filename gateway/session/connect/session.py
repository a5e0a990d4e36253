"""A plan of a Spark Connect session before it is an operation."""

from __future__ import annotations

import asyncio


class Preparing:
    """A plan that is being judged. To its client it runs; Spark has not heard of it."""

    def __init__(self, operation_id: str, tags: tuple[str, ...]) -> None:
        self.operation_id = operation_id
        self.tags = tags
        self.interrupted = False
        self._task = asyncio.current_task()

    def interrupt(self) -> None:
        """Have whoever judges it stop, before Spark gets it."""
        if self._task is not None and not self.interrupted:
            self.interrupted = True
            self._task.cancel()

    def was_interrupted(self) -> bool:
        """Whether it is this that a CancelledError came from, and nothing else ends the task; then that is
        no longer asked of the task."""
        return self.interrupted and self._task is not None and not self._task.uncancel()
