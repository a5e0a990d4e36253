"""Blocking work and several pieces of work at once, with one clear end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gateway.errors import BackendUnavailable, Faults, SluiceError, members_of

T = TypeVar("T")


async def to_the_end(work: Callable[[], T]) -> T:
    """Run blocking work in a thread; when cancelled, let it end first, so that nothing starts behind us."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def run_together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run coroutines at the same time and return their results; the first error cancels the others.

    Raises the error; of several Faults all of them, of several BackendUnavailable one that says them all; or
    else the group of errors, whose members are all told.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as errors:
        members = members_of(errors)
        if all(isinstance(one, Faults) for one in members):
            raise Faults([fault for one in members for fault in getattr(one, "faults", ())]) from errors
        if len(members) == 1 and isinstance(members[0], SluiceError):
            raise members[0] from errors
        if all(type(one) is BackendUnavailable for one in members):
            raise BackendUnavailable("; ".join(map(str, members))) from errors
        raise
    return [task.result() for task in tasks]
