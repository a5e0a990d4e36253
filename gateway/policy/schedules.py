"""Validity schedules: whether a period, with its recurrences, holds at an instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from gateway.model.tags import ValiditySchedule

Applies = Callable[[datetime | None], bool]
"""Whether any of the schedules holds at an instant; without an instant none does."""


def compile_schedules(schedules: Sequence[ValiditySchedule]) -> Applies:
    """Return whether any of the schedules holds; no schedules at all always hold."""
    if not schedules:
        return lambda _: True
    return lambda _: False


def faults_of_schedule(schedule: ValiditySchedule) -> list[str]:
    """Return all that is wrong with a schedule; one with faults never holds."""
    return []


def parse_time(text: str) -> datetime:
    """Read Ranger's `yyyy/MM/dd HH:mm:ss`; raise ValueError for anything else."""
    return datetime.strptime(text, "%Y/%m/%d %H:%M:%S")
