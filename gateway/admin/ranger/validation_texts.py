"""What policies write in languages of their own: SQL, scripts, schedules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from gateway.admin.ranger.validation import Failure
from gateway.model.policy import Condition, ConditionDef
from gateway.model.tags import Recurrence, ValiditySchedule
from gateway.policy.conditions import Untranslatable, compile_condition
from gateway.policy.macros import compile_template
from gateway.policy.schedules import WRITTEN, faults_of_schedule, parse_time
from gateway.policy.sqltext import faults_of

BAD_TEXT, BAD_SCRIPT = 9002, 9004
_BOUNDS = {"days": None, "hours": 23, "minutes": 59}


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def sql_failures(text: str, kind: str, field: str, subfield: str) -> Iterator[Failure]:
    """Yield what is wrong with the text of a `filter` or a `mask`."""
    for fault in faults_of(text, kind):
        yield Failure(BAD_TEXT, fault, field, subfield)


def value_failures(resource: str, values: Iterable[str]) -> Iterator[Failure]:
    """Yield what is wrong with scripts (`${{…}}`) in the values of a resource."""
    for value in values:
        try:
            compile_template(value)
        except Untranslatable as found:
            reason = f"`{value}` of resource `{resource}` cannot be translated: {found}"
            yield Failure(BAD_SCRIPT, reason, "resources", resource)


def condition_failures(
    condition: Mapping[str, Any], definition: Mapping[str, Any], where: str
) -> Iterator[Failure]:
    """Yield what is wrong with the values of a condition that the definition knows."""
    values = tuple(v for v in condition.get("values") or [] if v is not None)
    known = ConditionDef(
        name=str(definition.get("name") or ""),
        evaluator=str(definition.get("evaluator") or "").rpartition(".")[2],
        options={k: str(v) for k, v in (definition.get("evaluatorOptions") or {}).items()},
    )
    try:
        compile_condition(Condition(type=known.name, values=values), known)
    except Untranslatable as found:
        yield Failure(
            BAD_SCRIPT, f"condition `{known.name}` cannot be translated: {found}", where, "conditions"
        )


def schedule_failures(schedules: Sequence[Mapping[str, Any] | None]) -> Iterator[Failure]:
    """Yield what is wrong with validity schedules."""
    for i, given in enumerate(schedules):
        for fault in _schedule_faults(given or {}):
            yield Failure(3029, fault, "validitySchedules", str(i))


def _schedule_faults(given: Mapping[str, Any]) -> Iterator[str]:
    times: dict[str, dt.datetime | None] = {"startTime": None, "endTime": None}
    readable = True
    if not given.get("startTime") and not given.get("endTime") and not given.get("recurrences"):
        yield "a schedule needs a start, an end or a recurrence"
    for name in times:
        if given.get(name):
            try:
                times[name] = parse_time(given[name])
            except ValueError:
                readable = False
                yield f"`{name}` is not of the form yyyy/MM/dd HH:mm:ss"
    start, end = times["startTime"], times["endTime"]
    if start is not None and end is not None and start >= end:
        readable = False
        yield "a schedule must end after it starts"
    zone = given.get("timeZone") or "GMT"
    if zone not in _zones():
        readable = False
        yield f"`{zone}` is no time zone"
    recurrences = []
    for given_recurrence in given.get("recurrences") or []:
        schedule = (given_recurrence or {}).get("schedule") or {}
        interval = (given_recurrence or {}).get("interval") or {}
        faults = [*_interval_faults(interval), *_field_faults(schedule)]
        yield from faults
        readable = readable and not faults
        recurrences.append(
            Recurrence(
                **{ours: schedule.get(theirs) or "*" for ours, theirs in WRITTEN.items()},
                interval_minutes=_minutes(interval),
            )
        )
    if readable:
        yield from faults_of_schedule(
            ValiditySchedule(start=start, end=end, zone=zone, recurrences=tuple(recurrences))
        )


def _minutes(interval: Mapping[str, Any]) -> int:
    days, hours, minutes = (interval.get(name) or 0 for name in _BOUNDS)
    return int(days) * 1440 + int(hours) * 60 + int(minutes)


def _interval_faults(interval: Mapping[str, Any]) -> Iterator[str]:
    for name, highest in _BOUNDS.items():
        given = interval.get(name) or 0
        if given < 0 or (highest is not None and given > highest):
            yield f"`{name}` of an interval cannot be {given}"
    if not any(interval.get(name) for name in _BOUNDS):
        yield "a recurrence needs an interval"


def _field_faults(schedule: Mapping[str, Any]) -> Iterator[str]:
    for name in ("minute", "hour", "month", "year"):
        if not schedule.get(name):
            yield f"a recurrence needs `{name}`"
    if not schedule.get("dayOfMonth") and not schedule.get("dayOfWeek"):
        yield "a recurrence needs `dayOfMonth` or `dayOfWeek`"
