"""Limits of what users may have and use: sessions, running statements, rows, bytes, time, statements a minute
or a day. Packs set them (`limits:`); `policy.limits` says which speak of whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class MeasureKind(Enum):
    """How a bound is held."""

    AT_ONCE = "at once"
    """So many are open or running at the same time."""
    STATEMENT = "a statement"
    """One statement may use so much."""
    RATE = "a minute"
    """A token bucket, of each gateway by itself."""
    PERIOD = "a period"
    """A budget of an hour or a day of UTC, of all gateways together."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What a bound counts."""

    key: str
    """As packs write it."""
    kind: MeasureKind
    unit: str
    """`rows`, `bytes`, `seconds`, `statements` or `sessions`."""
    period_s: int = 0

    def describe(self, most: int) -> str:
        """Return a bound in words, as `1000 rows a statement`."""
        per = {MINUTE_S: " a minute", HOUR_S: " an hour", DAY_S: " a day"}.get(self.period_s, "")
        match self.kind:
            case MeasureKind.AT_ONCE:
                unit = "running statements" if self.unit == "statements" else "open sessions"
                return f"{most} {unit}"
            case MeasureKind.STATEMENT:
                return f"{most} {self.unit} a statement"
            case _:
                return f"{most} {self.unit}{per}"


_USED = ("statements", "rows", "bytes", "seconds")
_PERIODS = (("hour", HOUR_S), ("day", DAY_S))
MEASURES: Mapping[str, Measure] = {
    one.key: one
    for one in (
        Measure("sessions", MeasureKind.AT_ONCE, "sessions"),
        Measure("running", MeasureKind.AT_ONCE, "statements"),
        Measure("rows", MeasureKind.STATEMENT, "rows"),
        Measure("bytes", MeasureKind.STATEMENT, "bytes"),
        Measure("seconds", MeasureKind.STATEMENT, "seconds"),
        Measure("sessions_per_minute", MeasureKind.RATE, "sessions", MINUTE_S),
        Measure("statements_per_minute", MeasureKind.RATE, "statements", MINUTE_S),
        *(
            Measure(f"{unit}_per_{name}", MeasureKind.PERIOD, unit, period_s)
            for name, period_s in _PERIODS
            for unit in _USED
        ),
    )
}
"""Every measure by its key."""
SESSION_MEASURES = frozenset({"sessions", "sessions_per_minute"})
"""Those that are asked when a session opens, before it names a table."""
UNTIED = SESSION_MEASURES | {"running"}
"""Those that hold before it is known what a statement reads."""


@dataclass(frozen=True, slots=True)
class LevelNames:
    """Names and patterns at one level of tables; `excludes`: all others are meant."""

    values: tuple[str, ...]
    excludes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One entry of `limits`."""

    name: str
    bounds: Mapping[str, int]
    """Key of a measure → how much."""
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    resources: tuple[Mapping[str, LevelNames], ...] = ()
    """Tables and views that it speaks of, by level; none: whatever a statement reads."""
    filtered_by: frozenset[str] = frozenset()
    """Columns, lower case, one of which a statement has to compare in a condition."""
    backends: frozenset[str] = frozenset()
    """Names of Sparks; none: all of them, counted together."""
    together: bool = False
    """Whether all whom it speaks of share it; else each user has one."""
    set_by: str = ""
    """Who answers for it, for messages."""
    place: str = field(default="", compare=False)
    """File and line."""

    @property
    def title(self) -> str:
        """The limit as messages name it."""
        by = self.set_by or self.place.rpartition(":")[0]
        return f"limit `{self.name}`" + (f", set by {by}," if by else "")


@dataclass(frozen=True, slots=True)
class AppliedLimit:
    """A limit that speaks of somebody, and whose use counts for it."""

    limit: Limit
    subject: str
    """Identity of the user; empty where all share it."""

    @property
    def account(self) -> tuple[str, str]:
        """Under what its use is counted."""
        return self.limit.name, self.subject


def strictest(applied: Sequence[AppliedLimit], measure: str) -> tuple[Limit, int] | None:
    """Return the limit that allows least of a measure, and how much; None where none does."""
    found = [(one.limit.bounds[measure], i) for i, one in enumerate(applied) if measure in one.limit.bounds]
    if not found:
        return None
    most, i = min(found)
    return applied[i].limit, most
