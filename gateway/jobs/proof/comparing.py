"""What is said of one statement by what it shows in each way that it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.jobs.proof.copies import Unprovable
from gateway.jobs.proof.rows import REMNANT, Rows
from gateway.jobs.proof.sandbox import Failed, TooLarge

UNSTABLE = "its rows depend on the order in which tables are read"
REMNANTS = "some of its floats are only rounding errors of sums in another order"
EMPTY = "it returns no rows over the samples"
FAILS = "it fails over samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRuns:
    """How one statement is run. Calls block, and raise Failed, TooLarge, Unprovable, Stopped."""

    governed: Callable[[], Rows]
    """As the gateway forwards it, over samples."""
    turned: Callable[[], Rows]
    """The same, with the samples' rows in the other order."""
    copied: Callable[[], Rows]
    """As its user sent it, over copies."""
    sent: Callable[[], Rows]
    """As its user sent it, over the samples themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    what: str
    only_governed: int | None = None
    """Rows; None where one of the ways has none, since it fails."""
    only_copied: int | None = None


def difference(runs: StatementRuns) -> Difference | None:
    """Run a statement, and return what it shows otherwise; None where that is nothing.

    Raises Unprovable where nothing can be said, TooLarge, Stopped.
    """
    governed = _rows(runs.governed)
    if not _alike(governed, _rows(runs.turned)):
        raise Unprovable(UNSTABLE)
    copied = _rows(runs.copied)
    if isinstance(governed, str):
        if isinstance(copied, str):
            raise Unprovable(f"{FAILS}: {governed}")
        return Difference(what=f"it fails as forwarded by the gateway: {governed}")
    if isinstance(copied, str):
        return Difference(what=f"it fails over the copies: {copied}")
    if not governed.is_like(copied):
        if governed.is_like(copied, REMNANT):
            raise Unprovable(REMNANTS)
        more, less = governed.count_missing(copied), copied.count_missing(governed)
        what = "the rows differ" if more or less else "the columns differ"
        return Difference(what=what, only_governed=more, only_copied=less)
    if not governed.rows:
        _require_rows(runs)
    return None


def _require_rows(runs: StatementRuns) -> None:
    """Raise Unprovable where nothing was hidden: without rows, no mask or filter shows."""
    try:
        sent = runs.sent()
    except TooLarge:
        return
    except Failed as error:
        raise Unprovable(f"{FAILS}: {error}") from None
    if not sent.rows:
        raise Unprovable(EMPTY)


def _rows(run: Callable[[], Rows]) -> Rows | str:
    """Return the rows, or the name of the error."""
    try:
        return run()
    except Failed as error:
        return str(error)


def _alike(one: Rows | str, other: Rows | str) -> bool:
    if isinstance(one, Rows) and isinstance(other, Rows):
        return one.is_like(other)
    # Both fail: which of two errors comes first goes by the plan.
    return isinstance(one, str) and isinstance(other, str)
