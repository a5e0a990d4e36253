"""Keeps loading of policies from stopping the gateway: the garbage collector rests, threads switch often.

100,000 policies are millions of objects that live for hours and hold no cycles. Collecting while they are
being made, and every full collection afterwards, would visit all of them: a second or more in which no
session is answered. And a thread that computes hands the interpreter over after 5 ms unless it is told
otherwise; every message of every session would wait for that.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 100_000
"""Objects, made and not freed again, from which on they are set aside; below, collecting takes 10 ms."""
SWITCH_INTERVAL_S = 0.001
"""How long a thread computes while others wait."""


class _State:
    """How often `uncollected` has been entered, and what it found when it was entered first."""

    depth = 0
    before = 0
    switch_interval_s = 0.005
    aside = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect nothing inside the block; when it leaves many objects behind, never visit them again.

    Objects that are set aside are still freed when the last reference to them goes; only cycles of them are
    not. Enter and leave it in one thread, the event loop's, as often as you like at a time; work in other
    threads is covered as well.
    """
    if _State.depth == 0:
        if not gc.isenabled():
            yield  # somebody else's decision
            return
        gc.collect(1)  # what is garbage already must not be set aside with the rest
        gc.disable()
        _State.before = gc.get_count()[0]
        _State.switch_interval_s = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH_INTERVAL_S, _State.switch_interval_s))
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
        if _State.depth == 0:
            sys.setswitchinterval(_State.switch_interval_s)
            if _State.aside or gc.get_count()[0] - _State.before > MANY:
                gc.freeze()
            _State.aside = False
            gc.enable()


def freeze_survivors() -> None:
    """Have what stands when the outermost `uncollected` is left never be visited again, however little it is.

    For a few objects that refer to very many: visiting one tuple of 100,000 policies takes milliseconds.
    """
    _State.aside = _State.depth > 0
