"""Keeps Python's cyclic garbage collector from stopping the gateway because of policies.

100,000 policies are millions of objects that live for hours and hold no cycles. Collecting while they are
being made, and every full collection afterwards, would visit all of them: a second or more in which no
session is answered.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 200_000
"""Objects, made and not freed again, from which on they are set aside; below, collecting takes 20 ms."""
_depth = 0


@contextmanager
def quiet_heap() -> Iterator[None]:
    """Collect nothing inside the block; when it leaves many objects behind, never visit them again.

    Objects that are set aside are still freed when the last reference to them goes; only cycles of them are
    not. Enter and leave it in one thread, the event loop's; work in other threads is covered as well.
    """
    global _depth
    if _depth == 0 and not gc.isenabled():
        yield  # somebody else's decision
        return
    _depth += 1
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
    finally:
        _depth -= 1
        made = gc.get_count()[0] - before
        if _depth == 0:
            if made > MANY:
                gc.freeze()
            gc.enable()
