"""Ctrl-C and SIGTERM stop a command once, in order; a second one does not interrupt the cleaning up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)


async def until_signalled(
    work: Coroutine[Any, Any, None],
    *,
    drain: Callable[[], Awaitable[None]] | None = None,
    reload: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run until the work ends or a signal comes; then cancel it and wait until it has cleaned up.

    `drain` runs before the work is cancelled, until it ends or another signal comes. With `reload`, SIGHUP
    runs that, one at a time, and never ends the process; one that comes meanwhile has it run once more.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    told = False
    draining: asyncio.Task[None] | None = None
    reloading: asyncio.Task[None] | None = None
    once_more = False

    def stop(name: str) -> None:
        nonlocal told, draining
        if told:
            if draining is not None and not draining.done():
                draining.cancel()
            return
        told = True
        # First of all: writing the line fails when nobody reads the log any more.
        if drain is None:
            task.cancel()
        else:
            draining = loop.create_task(_then_cancel(drain, task))
        log.info("stopping", signal=name)

    def look_again() -> None:
        nonlocal reloading, once_more
        if reload is None or told:
            return
        if reloading is None or reloading.done():
            reloading = loop.create_task(reload_all(reload))
        else:
            # What is being read may have been read before it was changed.
            once_more = True

    async def reload_all(reload: Callable[[], Awaitable[None]]) -> None:
        nonlocal once_more
        once_more = True
        while once_more and not told:
            once_more = False
            await _log_failure(reload)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number.name)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, look_again)
        # Held back by who started this process: see `supervisor`.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        await task
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        for helper in (draining, reloading):
            if helper is not None and not helper.done():
                helper.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if reload is not None:
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


async def _then_cancel(drain: Callable[[], Awaitable[None]], task: asyncio.Task[None]) -> None:
    try:
        await _log_failure(drain)
    finally:
        task.cancel()


async def _log_failure(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:  # a signal that cannot be followed must not end the gateway
        log.exception("signal_handling_failed")
