"""How a thread that runs statements on Spark is stopped, between them and within."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Stopped(Exception):
    """Whoever waits for what a thread runs does so no more."""


async def unless_stopped(
    spark: Any, run: Callable[[], _Result], stop: Event, *, again_s: float = 1.0
) -> _Result:
    """Run in a thread; where we are cancelled, set `stop` and cancel Spark's jobs until the thread has ended.

    A job may begin just after the thread has looked at `stop`: they are cancelled every `again_s` seconds.
    """
    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        while not running.done():
            await asyncio.to_thread(spark.sparkContext.cancelAllJobs)
            await asyncio.wait([running], timeout=again_s)
        running.exception()  # nobody else asks for it
        raise
