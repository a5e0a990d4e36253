"""Long work in steps: a plan of many megabytes is judged while everybody else's calls go on."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

STEP_S = 0.02
"""Work that took longer is followed by a pause."""
PAUSE_S = 0.005
"""So long that a short call of somebody else's gets all of its turns, not one of them."""


async def in_turn(work: Callable[[], T]) -> T:
    """Do one step; if it took long, let others run before its result is returned.

    Meanwhile no garbage is collected: a walk over 250,000 messages makes little, and looking for it thrice
    takes longer than the walk (measured).
    """
    collecting = gc.isenabled()
    begun = time.perf_counter()
    gc.disable()
    try:
        result = work()
    finally:
        if collecting:
            gc.enable()
    if time.perf_counter() - begun > STEP_S:
        await asyncio.sleep(PAUSE_S)
    return result
