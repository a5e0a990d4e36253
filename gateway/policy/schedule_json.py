"""Validity schedules in Ranger's JSON: those of policies and tags, and those that conditions hold as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.model.tags import Recurrence, ValiditySchedule
from gateway.policy.diagnostics import Diagnostics, Path
from gateway.policy.json_shapes import Reader
from gateway.policy.schedules import WRITTEN, faults_of_schedule, is_sound, parse_time

MAX_TEXT = 16_384
"""Characters; a schedule with every field has about 400."""
_MEANS = (
    "; until it is fixed, the policy allows nothing, and its denials, masks and filters apply at all times"
)


def schedule_of(text: str) -> ValiditySchedule:
    """Read one schedule; raise ValueError when it is not one, or makes no sense."""
    if len(text) > MAX_TEXT:
        raise ValueError("a schedule is too long")
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("a schedule is nested too deep") from None
    if not isinstance(data, dict):
        raise ValueError("a schedule must be a mapping")
    findings = Diagnostics()
    schedule, faults = _schedule(data, Reader(findings), ())
    for fault in (*faults, *findings.texts(), *faults_of_schedule(schedule)):
        raise ValueError(fault)
    return schedule


def read_schedules(
    data: Mapping[str, Any], key: str, reader: Reader, path: Path
) -> tuple[ValiditySchedule, ...]:
    """Return the schedules of the list under a key; one that makes no sense is marked so, with a warning."""
    found = []
    for entry, where in reader.entries(data, key, path):
        schedule, faults = _schedule(entry, reader, where)
        faults = faults or faults_of_schedule(schedule)
        sound = not schedule.invalid and is_sound(schedule)
        for fault in faults:
            reader.warn(where, f"validity schedule: {fault}{'' if sound else _MEANS}")
        found.append(schedule if sound else replace(schedule, invalid=True))
    return tuple(found)


def faults_in_schedule(data: Mapping[str, Any]) -> list[str]:
    """Return all that is wrong with a schedule by the rules of Ranger's validator."""
    findings = Diagnostics()
    schedule, faults = _schedule(data, Reader(findings), ())
    return [*(faults or faults_of_schedule(schedule)), *findings.texts(), *findings.warnings]


def _schedule(entry: Mapping[str, Any], reader: Reader, path: Path) -> tuple[ValiditySchedule, list[str]]:
    """Return a schedule, and why its times cannot be read, when they cannot."""
    faults: list[str] = []

    def wall(key: str) -> datetime | None:
        text = reader.text(entry, key, path).strip()
        if not text:
            return None
        try:
            return parse_time(text)
        except ValueError:
            faults.append(f"`{key}` must be a time such as `2026/01/31 18:00:00`, not `{text}`")
            return None

    recurrences = tuple(
        _recurrence(found, reader, where) for found, where in reader.entries(entry, "recurrences", path)
    )
    schedule = ValiditySchedule(
        start=wall("startTime"),
        end=wall("endTime"),
        zone=reader.text(entry, "timeZone", path).strip() or "GMT",
        recurrences=recurrences,
    )
    return replace(schedule, invalid=bool(faults)), faults


def _recurrence(data: Mapping[str, Any], reader: Reader, path: Path) -> Recurrence:
    fields = reader.scalars(data, "schedule", path)
    interval = reader.field(data, "interval", path)
    where = (*path, "interval")
    days, hours, minutes = (reader.number(interval, key, where) for key in ("days", "hours", "minutes"))
    if not (days >= 0 and 0 <= hours <= 23 and 0 <= minutes <= 59):
        # Ranger refuses it where policies are made; its engine adds up whatever it is given.
        reader.warn(
            where, "an interval must have days, up to 23 hours and up to 59 minutes, which are added up"
        )
    return Recurrence(
        **{ours: fields.get(theirs, "").strip() for ours, theirs in WRITTEN.items()},
        interval_minutes=days * 24 * 60 + hours * 60 + minutes,
    )
