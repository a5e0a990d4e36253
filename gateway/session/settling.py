"""Files that others write are read when nobody writes to them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SETTLED_S = 0.2
"""How long files have to stay as they are before they are read."""
MAX_SETTLING = 25
"""As often it is waited for files that are written to again and again; then they are read as they are."""


async def wait_until_settled(stamp: Callable[[], object], known: object) -> None:
    """Wait until files whose `stamp` is not the `known` one stay as they are.

    INVARIANT (fail closed): a file that is written in parts, or beside others, is not taken before its end:
    there policies may stand that hide what those before them open, and users whose sessions would end.
    """
    seen = await asyncio.to_thread(stamp)
    for _ in range(MAX_SETTLING if seen != known else 0):  # RULE (files-settled)
        await asyncio.sleep(SETTLED_S)
        before, seen = seen, await asyncio.to_thread(stamp)
        if seen == before:
            return
