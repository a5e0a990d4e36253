"""When a job is due: every so often, or at the times that five fields of cron name, in UTC. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
)
HORIZON = timedelta(days=366 * 4 + 1)
"""A time that does not come within four years, such as the 30th of February, never comes."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Five sets of numbers: minutes, hours, days of the month, months, weekdays (0 is Sunday)."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether days of the month and weekdays are both told: then one of them is enough, as cron has it."""

    def last(self, now: datetime) -> datetime | None:
        """Return the last time that is not after `now`; None where there is none in four years."""
        moment = now.astimezone(UTC).replace(second=0, microsecond=0)
        earliest = moment - HORIZON
        while moment > earliest:
            if not self._on(moment):
                moment = moment.replace(hour=0, minute=0) - timedelta(minutes=1)
            elif moment.hour not in self.hours:
                moment = moment.replace(minute=0) - timedelta(minutes=1)
            elif moment.minute not in self.minutes:
                moment -= timedelta(minutes=1)
            else:
                return moment
        return None

    def _on(self, moment: datetime) -> bool:
        if moment.month not in self.months:
            return False
        day, weekday = moment.day in self.days, moment.isoweekday() % 7 in self.weekdays
        return day or weekday if self.either_day else day and weekday


def parse_cron(text: str) -> Cron:
    """Read five fields of `*`, numbers, ranges `1-5`, steps `*/15` and lists of these.

    Raises ValueError, in words for people.
    """
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"`{text}` has {len(parts)} fields; write minute, hour, day, month and weekday")
    sets = [_numbers(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    weekdays = frozenset(number % 7 for number in sets[4])
    # As cron has it: a field that begins with a star limits the other one, whatever its step.
    either_day = not (parts[2].startswith("*") or parts[4].startswith("*"))
    cron = Cron(sets[0], sets[1], sets[2], sets[3], weekdays, either_day=either_day)
    if cron.last(datetime(2028, 12, 31, tzinfo=UTC)) is None:
        raise ValueError(f"`{text}` never occurs")
    return cron


def _numbers(part: str, name: str, lowest: int, highest: int) -> frozenset[int]:
    found = set[int]()
    for piece in part.split(","):
        span, slash, step = piece.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            first, last = str(lowest), str(highest)
        elif not dash:
            last = str(highest) if slash else first
        if not all(word.isascii() and word.isdecimal() for word in (first, last, step or "1")):
            raise ValueError(f"`{piece}` is not a {name}")
        low, high, by = int(first), int(last), int(step or "1")
        if (slash and not step) or not lowest <= low <= high <= highest or not 1 <= by <= highest:
            raise ValueError(f"`{piece}` is not a {name} from {lowest} to {highest}")
        found.update(range(low, high + 1, by))
    return frozenset(found)
