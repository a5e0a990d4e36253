"""Ctrl-C and SIGTERM stop a command once, in order; a second one does not interrupt the cleaning up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)


async def until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends or a signal comes; then cancel it and wait until it has cleaned up."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    told = False

    def stop(name: str) -> None:
        nonlocal told
        if not told:
            told = True
            # First of all: writing the line fails when nobody reads the log any more.
            task.cancel()
            log.info("stopping", signal=name)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number.name)
    try:
        await task
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
