"""Cuts a history that fails down to what it needs: chunks first, then single steps (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable

from tests.histories.comparing import Failure
from tests.histories.steps import Step

TRIES = 80
"""Runs on Spark that shrinking may take."""


def shrunk(
    history: list[Step], failure: Failure, run: Callable[[list[Step]], Failure | None], tries: int = TRIES
) -> tuple[list[Step], Failure]:
    """Return a shorter history that fails in the same way, and its failure.

    What stands after the failing step goes at once. Zeller and Hildebrandt, "Simplifying and Isolating
    Failure-Inducing Input", 2002, without its test of subsets alone: a history needs most often its ends.
    """
    kept = history[: failure.number]
    size = len(kept) // 2
    while size and tries:
        at = len(kept) - 1 - size
        cut = False
        while at > -size and tries:
            start = max(at, 0)
            tried = kept[:start] + kept[at + size :]
            tries -= 1
            found = run(tried)
            if found is not None and found.what.split(" [")[0] == failure.what.split(" [")[0]:
                kept, failure, cut = tried[: found.number], found, True
                at = min(at, len(kept) - 1)
            at -= size
        if not cut or size > 1:
            size //= 2
    return kept, failure
