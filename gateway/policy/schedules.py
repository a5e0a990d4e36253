"""Validity schedules: whether a period, with its recurrences, holds at an instant.

Meaning is Ranger's, with two deviations: recurrences are read in the schedule's own zone (Ranger's engine
takes the zone of the machine that it runs on), and time counts by whole seconds everywhere. When a schedule
that is not well formed holds cannot be told: it neither lets a policy allow nor keeps it from denying.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from gateway.model.tags import Recurrence, ValiditySchedule

Applies = Callable[[datetime | None], bool | None]
"""Whether any of the schedules holds at an instant. None, when that cannot be told: none of them does and one
is not well formed, or the instant is not known."""

_DATE = re.compile(
    r"\s*(?P<year>[0-9]{4})/(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})"
    r"(?: +(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2}))?)?\s*\Z"
)
_OFFSET = re.compile(r"GMT(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?\Z")
_SHORT_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Java's three-letter zones. Ranger's engine knows them, its validator refuses them; so do these."""
_FIELDS = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day_of_month": (1, 31),
    "day_of_week": (1, 7),
    "month": (1, 12),
    "year": (2017, 2100),
}
WRITTEN = {
    "minute": "minute",
    "hour": "hour",
    "day_of_month": "dayOfMonth",
    "day_of_week": "dayOfWeek",
    "month": "month",
    "year": "year",
}
"""Field of a Recurrence → how Ranger's JSON writes it."""
_DAY_MINUTES = 24 * 60
MAX_INTERVAL_MINUTES = 100 * 366 * _DAY_MINUTES


def parse_time(text: str) -> datetime:
    """Read Ranger's `yyyy/MM/dd HH:mm:ss`, or `… HH:mm`, or the date alone, as naive wall-clock time.

    Raises ValueError for anything else.
    """
    found = _DATE.match(text)
    if found is None:
        raise ValueError(f"`{text}` is not a time such as `2026/01/31 23:59:59`")
    parts = {name: int(value) for name, value in found.groupdict(default="0").items()}
    try:
        return datetime(**parts)  # type: ignore[arg-type]  # noqa: DTZ001  # wall clock of a zone named elsewhere
    except ValueError as error:
        raise ValueError(f"`{text}` is not a time: {error}") from None


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo | None:
    """Return the zone of that name (IANA's, `GMT+05:30`, or one of Java's short names), None when unknown."""
    name = name.strip() or "GMT"
    found = _OFFSET.match(name)
    if found:
        hours, minutes = int(found["hours"]), int(found["minutes"] or 0)
        if hours > 23 or minutes > 59:
            return None
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(-offset if found["sign"] == "-" else offset)
    name = _SHORT_ZONES.get(name, name)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return None


def faults_of_schedule(schedule: ValiditySchedule) -> list[str]:
    """Return all that is wrong with a schedule by the rules of Ranger's validator."""
    faults = []
    if schedule.start is None and schedule.end is None and not schedule.recurrences:
        faults.append("a validity schedule needs a start, an end or a recurrence")
    if schedule.start is not None and schedule.end is not None and schedule.start >= schedule.end:
        faults.append(
            f"the start {_format_time(schedule.start)} is not before the end {_format_time(schedule.end)}"
        )
    if zone_of(schedule.zone) is None or schedule.zone.strip() in _SHORT_ZONES:
        faults.append(f"`{schedule.zone}` is not a time zone of the IANA database, such as `Europe/Berlin`")
    for recurrence in schedule.recurrences:
        faults += _faults_of_recurrence(recurrence)
    return faults


def _format_time(time: datetime) -> str:
    return f"{time:%Y/%m/%d %H:%M:%S}"


def _faults_of_recurrence(recurrence: Recurrence) -> list[str]:
    faults = []
    for name in _FIELDS:
        text = getattr(recurrence, name)
        if not text.strip():
            if name not in ("day_of_month", "day_of_week"):
                faults.append(f"a recurrence needs `{WRITTEN[name]}`")
            continue
        try:
            _values(name, text)
        except ValueError as error:
            faults.append(str(error))
        else:
            if name == "minute" and "-" in text:
                faults.append(f"`minute` does not support ranges such as `{text}`")
    if not recurrence.day_of_month.strip() and not recurrence.day_of_week.strip():
        faults.append("a recurrence needs `dayOfMonth` or `dayOfWeek`")
    if not 0 < recurrence.interval_minutes <= MAX_INTERVAL_MINUTES:
        faults.append("the interval of a recurrence must be at least a minute and at most a hundred years")
    return faults


def _values(name: str, text: str) -> frozenset[int]:
    """Return the values that a field lists; ValueError when it is not `*`, a list or ranges."""
    low, high = _FIELDS[name]
    written = WRITTEN[name]
    values: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if first == "*" or (dash and last == "*"):
            return frozenset(range(low, high + 1))
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ValueError(f"`{written}` must be `*` or a list of numbers, not `{text}`")
        start, stop = int(first), int(last or first)
        if not low <= start <= stop <= high:
            raise ValueError(f"`{written}` must be from {low} to {high}, not `{part.strip()}`")
        values.update(range(start, stop + 1))
    return frozenset(values)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


class _Recurring:
    """One recurrence in a zone: does a firing lie close enough before an instant?"""

    __slots__ = ("_days", "_months", "_rest", "_times", "_weekdays", "_whole_days", "_years", "_zone")

    def __init__(self, recurrence: Recurrence, zone: tzinfo) -> None:
        def values(name: str) -> frozenset[int]:
            return _values(name, getattr(recurrence, name).strip() or "*")

        self._zone = zone  # RULE (recurrence-zone)
        # A day field that is blank names no day, unlike `*`; both of them blank make no sense.
        self._days = values("day_of_month") if recurrence.day_of_month.strip() else frozenset[int]()
        self._weekdays = values("day_of_week") if recurrence.day_of_week.strip() else frozenset[int]()
        self._months, self._years = values("month"), values("year")
        self._times = tuple(sorted(h * 60 + m for h in values("hour") for m in values("minute")))
        self._whole_days, self._rest = divmod(recurrence.interval_minutes, _DAY_MINUTES)
        if not (self._days or self._weekdays):
            raise ValueError("no day")
        if not 0 < recurrence.interval_minutes <= MAX_INTERVAL_MINUTES:  # RULE (interval-range)
            raise ValueError("interval out of range")

    def holds(self, second: int) -> bool:
        local = datetime.fromtimestamp(second, self._zone).replace(tzinfo=None)
        fired = self._latest(local)
        if fired is None:
            return False
        begin = fired.replace(tzinfo=self._zone).timestamp()
        # Days are days of the calendar, hours and minutes are elapsed time, as with Java's calendar.
        end = (fired + timedelta(days=self._whole_days)).replace(tzinfo=self._zone).timestamp()
        return begin <= second <= end + self._rest * 60  # RULE (interval-end)

    def _latest(self, local: datetime) -> datetime | None:
        """Return the latest firing at or before a wall-clock time; None when it is too old to matter."""
        day, latest = local.date(), local.hour * 60 + local.minute
        oldest = day.toordinal() - self._whole_days - 3
        while day.toordinal() >= oldest and day.year >= _FIELDS["year"][0]:
            if day.year not in self._years:
                day = date(day.year - 1, 12, 31)
            elif day.month not in self._months:
                day = day.replace(day=1) - timedelta(days=1)
            else:
                place = bisect.bisect_right(self._times, latest)
                # RULE (week-sunday, day-of-month-or-week)
                if place and (day.day in self._days or day.isoweekday() % 7 + 1 in self._weekdays):
                    minute = self._times[place - 1]
                    return datetime(day.year, day.month, day.day, minute // 60, minute % 60)  # noqa: DTZ001
                day -= timedelta(days=1)
            latest = _DAY_MINUTES
        return None


class _Schedule:
    """One schedule; remembers its last answer, since many decisions are made within one second."""

    __slots__ = ("_end", "_last", "_recurring", "_start")

    def __init__(self, schedule: ValiditySchedule, zone: tzinfo) -> None:
        self._start = _second(schedule.start, zone)
        self._end = _second(schedule.end, zone)
        self._recurring = tuple(_Recurring(each, zone) for each in schedule.recurrences)
        self._last = (-1, False)

    def holds(self, second: int) -> bool:
        if self._start is not None and second < self._start:  # RULE (schedule-start)
            return False
        if self._end is not None and second > self._end:  # RULE (schedule-end)
            return False
        if not self._recurring:  # RULE (recurrences)
            return True
        last = self._last
        if last[0] != second:
            last = (second, any(each.holds(second) for each in self._recurring))
            self._last = last
        return last[1]


def _second(time: datetime | None, zone: tzinfo) -> int | None:
    return None if time is None else int(time.replace(tzinfo=zone).timestamp())  # RULE (schedule-zone)


def is_sound(schedule: ValiditySchedule) -> bool:
    """Say whether it can be told when the schedule holds. Ranger's validator refuses some that are sound."""
    return _compile(schedule) is not None


def _compile(schedule: ValiditySchedule) -> _Schedule | None:
    zone = None if schedule.invalid else zone_of(schedule.zone)
    if zone is None:
        return None
    if schedule.start is not None and schedule.end is not None and schedule.start > schedule.end:
        return None
    try:
        return _Schedule(schedule, zone)
    except (ValueError, OverflowError):
        return None


def compile_schedules(schedules: Sequence[ValiditySchedule]) -> Applies:
    """Return whether any of the schedules holds; no schedules at all always hold.

    A time without a zone is read as UTC.
    """
    if not schedules:
        return lambda _: True
    compiled = [found for found in map(_compile, schedules) if found is not None]
    otherwise = False if len(compiled) == len(schedules) else None

    def applies(time: datetime | None) -> bool | None:
        if time is None:
            return None
        second = int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() // 1)
        try:
            held = any(schedule.holds(second) for schedule in compiled)  # RULE (any-schedule)
        except (ValueError, OverflowError, OSError):  # an instant that no calendar reaches
            return None
        return True if held else otherwise

    return applies
