"""Tags and times of packs: `validity:` becomes schedules, `tags:` become tags, moments become instants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from gateway.model.tags import Recurrence, Tag, ValiditySchedule
from gateway.policy.diagnostics import Path, hint, list_unknown_keys
from gateway.policy.packs.shapes import Shapes
from gateway.policy.schedules import faults_of_schedule

_PERIOD_KEYS = ("from", "until", "zone", "repeats")
_REPEAT_KEYS = ("at", "for", "weekdays", "days", "months", "years")
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
"""Ranger counts from Sunday, 1."""
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MOMENT = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?(Z|[+-]\d{2}:\d{2})?"
)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_DURATION = re.compile(r"(?:(\d{1,5})d)?\s*(?:(\d{1,5})h)?\s*(?:(\d{1,5})m)?")
_DAY_MINUTES = 24 * 60


def read_validity(data: Mapping[str, Any], path: Path, shapes: Shapes) -> tuple[ValiditySchedule, ...]:
    """Return the periods under `validity`: one mapping, or a list of them, any of which suffices."""
    return shapes.one_or_several(data, "validity", path, _period)


def _period(entry: object, path: Path, shapes: Shapes) -> Sequence[ValiditySchedule]:
    before = shapes.faults.fault_count
    data = shapes.read_mapping(entry, path)
    list_unknown_keys(data, _PERIOD_KEYS, path, shapes.faults, "a period")
    if isinstance(entry, dict) and not (data.keys() & {"from", "until", "repeats"}):
        shapes.faults.add(path, "a period needs `from`, `until` or `repeats`")
    zone = shapes.text(data, "zone", path) or "GMT"
    if not _is_zone(zone):
        shapes.faults.add((*path, "zone"), f"unknown time zone `{zone}`; names are such as `Europe/Paris`")
    schedule = ValiditySchedule(
        start=_wall_clock(data, "from", path, shapes),
        end=_wall_clock(data, "until", path, shapes),
        zone=zone,
        recurrences=_repeats(data, path, shapes),
    )
    if shapes.faults.fault_count == before:
        if schedule.start and schedule.end and schedule.start >= schedule.end:
            shapes.faults.add(path, "`from` must lie before `until`")
        else:
            for fault in faults_of_schedule(schedule):
                shapes.faults.add(path, fault)
    return (schedule,) if shapes.faults.fault_count == before else ()


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (
        OSError,
        ValueError,
        KeyError,
    ):  # a name that is a directory, a name with dots, one that is not there
        return False
    return True


def _wall_clock(data: Mapping[str, Any], key: str, path: Path, shapes: Shapes) -> datetime | None:
    """Return a naive moment; a day alone begins at midnight under `from` and is whole under `until`."""
    if key not in data:
        return None
    where: Path = (*path, key)
    found = _MOMENT.fullmatch(str(data[key]))
    if found is None or found[7]:
        extra = "; put the time zone in `zone`" if found else ""
        shapes.faults.add(where, f"`{key}` must be a time such as `2026-01-31` or `2026-01-31 18:00`{extra}")
        return None
    year, month, day = (int(found[i]) for i in (1, 2, 3))
    clock = (int(found[4]), int(found[5]), int(found[6] or 0)) if found[4] else None
    if clock is None:
        clock = (23, 59, 59) if key == "until" else (0, 0, 0)
    try:
        return datetime(year, month, day, *clock)  # noqa: DTZ001  # wall-clock time of `zone`
    except ValueError:
        shapes.faults.add(where, f"the time `{data[key]}` does not exist")
        return None


def read_moment(text: str) -> datetime | None:
    """Return an instant from `2026-01-31 09:30`, with `Z` or `+01:00` behind it or meant as UTC; or None."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return None
    date = f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}"
    clock = f"{int(found[4] or 0):02}:{found[5] or '00'}:{found[6] or '00'}"
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}{found[7] or '+00:00'}")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _repeats(data: Mapping[str, Any], path: Path, shapes: Shapes) -> tuple[Recurrence, ...]:
    return shapes.one_or_several(data, "repeats", path, _repeat)


def _repeat(entry: object, path: Path, shapes: Shapes) -> tuple[Recurrence, ...]:
    """Return one recurrence for each time of the day under `at`."""
    data = shapes.read_mapping(entry, path)
    list_unknown_keys(data, _REPEAT_KEYS, path, shapes.faults, "`repeats`")
    minutes = _duration(data, path, shapes)
    weekdays = _numbers(data, "weekdays", path, shapes, (1, 7), _WEEKDAYS)
    days = _numbers(data, "days", path, shapes, (1, 31))
    clocks = shapes.texts(data, "at", path) or ("00:00",)
    found = []
    for clock in clocks:
        parts = _CLOCK.fullmatch(clock)
        if parts is None or int(parts[1]) > 23 or int(parts[2]) > 59:
            shapes.faults.add((*path, "at"), f"`at` must be a time of day such as `09:00`, not `{clock}`")
            continue
        found.append(
            Recurrence(
                minute=str(int(parts[2])),
                hour=str(int(parts[1])),
                # Ranger takes the later of the two when both are given, so the one that is not must be empty.
                day_of_month=days if days != "*" or weekdays == "*" else "",
                day_of_week=weekdays if weekdays != "*" else "",
                month=_numbers(data, "months", path, shapes, (1, 12), _MONTHS),
                year=_numbers(data, "years", path, shapes, (2017, 2100)),
                interval_minutes=minutes,
            )
        )
    return tuple(found)


def _duration(data: Mapping[str, Any], path: Path, shapes: Shapes) -> int:
    if "for" not in data:
        shapes.faults.add(path, "`repeats` needs `for`, the duration of each repetition")
        return 0
    text = str(data["for"]).strip()
    found = _DURATION.fullmatch(text)
    minutes = 0
    if found is not None:
        days, hours, rest = (int(part or 0) for part in found.groups())
        minutes = days * _DAY_MINUTES + hours * 60 + rest
    if not minutes:
        shapes.faults.add((*path, "for"), f"`for` must be a duration such as `8h` or `1d 12h`, not `{text}`")
    return minutes


def _numbers(
    data: Mapping[str, Any],
    key: str,
    path: Path,
    shapes: Shapes,
    bounds: tuple[int, int],
    names: Sequence[str] = (),
) -> str:
    """Return Ranger's text for a number, a name, a range such as `mon-fri`, or a list of these."""
    if key not in data:
        return "*"
    value = data[key]
    where: Path = (*path, key)
    low, high = bounds
    found: list[int] = []
    for entry in value if isinstance(value, list) else [value]:
        ends = [_number(end, names) for end in str(entry).split("-", 1)]
        if isinstance(entry, bool) or any(end is None or not low <= end <= high for end in ends):
            what = f"`{names[0][:3]}` to `{names[-1][:3]}`" if names else f"{low} to {high}"
            near = hint(str(entry), names)
            shapes.faults.add(where, f"`{key}` takes {what} and ranges of them, not `{entry}`{near}")
            continue
        first, last = ends[0] or 0, ends[-1] or 0
        # `sat-sun` and `nov-feb` go round the end.
        span = range(first, last + 1) if first <= last else (*range(first, high + 1), *range(low, last + 1))
        found += [number for number in span if number not in found]
    if isinstance(value, list) and not value:
        shapes.faults.add(where, f"`{key}` must not be empty")
    return ",".join(str(number) for number in sorted(found)) if found else "*"


def _number(text: str, names: Sequence[str]) -> int | None:
    text = text.strip().lower()
    if text.isdecimal() and len(text) <= 4:
        return int(text)
    if len(text) < 3:
        return None
    return next((i for i, name in enumerate(names, 1) if name.startswith(text)), None)


def read_tags(data: Mapping[str, Any], path: Path, shapes: Shapes) -> list[Tag]:
    """Return `tags`: a name, `{tag: …, attributes: …, validity: …}`, or a list of these."""
    value = data.get("tags", [])
    single = not isinstance(value, list)
    found = []
    for i, entry in enumerate([value] if single else value):
        where: Path = (*path, "tags") if single else (*path, "tags", i)
        fields = {"tag": entry} if isinstance(entry, str) else shapes.read_mapping(entry, where)
        list_unknown_keys(fields, ("tag", "attributes", "validity"), where, shapes.faults, "a tag")
        name = shapes.text(fields, "tag", where, required=True)
        found.append(
            Tag(
                type=name,
                attributes=shapes.attributes(fields, where),
                validity=read_validity(fields, where, shapes),
            )
        )
    return found
