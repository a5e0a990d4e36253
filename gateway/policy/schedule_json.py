"""A validity schedule as JSON text, which is how conditions hold one."""

from __future__ import annotations

import json

from gateway.model.tags import Recurrence, ValiditySchedule
from gateway.policy.schedules import WRITTEN, parse_time

MAX_TEXT = 16_384
"""Characters; a schedule with every field has about 400."""


def schedule_of(text: str) -> ValiditySchedule:
    """Read one schedule in Ranger's shape; raise ValueError when it is not one."""
    if len(text) > MAX_TEXT:
        raise ValueError("a schedule is too long")
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("a schedule is nested too deeply") from None
    found = _mapping(data)
    recurrences = found.get("recurrences")
    recurrences = [] if recurrences is None else recurrences
    if not isinstance(recurrences, list):
        raise ValueError("`recurrences` is a list")
    return ValiditySchedule(
        start=parse_time(_text(found, "startTime")) if _text(found, "startTime") else None,
        end=parse_time(_text(found, "endTime")) if _text(found, "endTime") else None,
        zone=_text(found, "timeZone") or "GMT",
        recurrences=tuple(_recurrence(_mapping(entry)) for entry in recurrences),
    )


def _recurrence(entry: dict[str, object]) -> Recurrence:
    schedule, interval = _mapping(entry.get("schedule")), _mapping(entry.get("interval"))
    days, hours, minutes = (_number(interval, name) for name in ("days", "hours", "minutes"))
    return Recurrence(
        **{ours: _text(schedule, name) for ours, name in WRITTEN.items()},
        interval_minutes=(days * 24 + hours) * 60 + minutes,
    )


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("a schedule is a mapping")  # one error for every wrong shape
    return value


def _text(data: dict[str, object], name: str) -> str:
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"`{name}` is text")
    return (value or "").strip()


def _number(data: dict[str, object], name: str) -> int:
    value = data.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"`{name}` is a whole number")
    return value
