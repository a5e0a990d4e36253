"""Long work in steps: a plan of many megabytes is judged while everybody else's calls go on."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

STEP_S = 0.02
"""Work that took longer is followed by a pause."""
PAUSE_S = 0.005
"""So long that a short call of somebody else's gets all of its turns, not one of them."""


async def in_turn(work: Callable[[], T]) -> T:
    """Do one step; if it took long, let others run before its result is returned."""
    begun = time.perf_counter()
    with _uncollected():
        result = work()
    await pause_after(begun)
    return result


async def pause_after(begun: float) -> bool:
    """Let others run if the work since `begun` (`time.perf_counter`) took long; say whether it did."""
    if time.perf_counter() - begun <= STEP_S:
        return False
    await asyncio.sleep(PAUSE_S)
    return True


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage: a walk over 250,000 messages makes little, and looking for it thrice takes
    longer than the walk (measured)."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
