"""Ranger's three spellings of an instant, and its schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.tags import ValiditySchedule
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.json_shapes import Reader, instant
from gateway.policy.schedule_json import read_schedules
from gateway.policy.schedules import compile_schedules, parse_time

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        1769860800000,
        1769860800000.0,
        "1769860800000",
        "20260131-12:00:00.000-+0000",
        "20260131-13:00:00.000-+0100",
        "20260131-12:00:00.000+0000",
        "20260131-04:00:00.000-0800",
        "2026-01-31 12:00:00.000",
        "2026-01-31 12:00:00",
        "2026-01-31T12:00:00.000Z",
        "2026-01-31T13:00:00+01:00",
    ],
)
def test_instants(written: object) -> None:
    assert instant(written) == NOON


@pytest.mark.parametrize(
    "written", [None, True, "", "yesterday", "2026-02-30 12:00:00", 10**30, "2026-01-31", [], 2**62]
)
def test_what_is_no_instant(written: object) -> None:
    assert instant(written) is None


@given(st.integers(0, 7_258_118_400_000))
def test_milliseconds_come_back(milliseconds: int) -> None:
    moment = instant(milliseconds)
    assert moment is not None
    assert (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) == milliseconds


def schedules(*written: object) -> tuple[tuple[ValiditySchedule, ...], tuple[str, ...]]:
    findings = Diagnostics()
    found = read_schedules({"s": list(written)}, "s", Reader(findings), ())
    assert not findings.texts()
    return found, findings.warnings


def test_a_schedule_in_full() -> None:
    found, warnings = schedules(
        {
            "startTime": "2025/01/01 00:00:00",
            "endTime": "2025/01/31 23:59:59",
            "timeZone": "America/New_York",
            "recurrences": [
                {
                    "schedule": {"minute": "0", "hour": 9, "dayOfWeek": "2-6", "month": "*", "year": "*"},
                    "interval": {"days": 1, "hours": "8", "minutes": 30},
                }
            ],
        }
    )
    assert not warnings
    (schedule,) = found
    assert schedule.start == parse_time("2025/01/01")
    assert schedule.end == parse_time("2025/01/31 23:59:59")
    assert schedule.zone == "America/New_York"
    (recurrence,) = schedule.recurrences
    assert (recurrence.hour, recurrence.day_of_week, recurrence.day_of_month) == ("9", "2-6", "")
    assert recurrence.interval_minutes == 24 * 60 + 8 * 60 + 30


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        ({"startTime": "tomorrow"}, "`startTime` must be a time"),
        ({"endTime": "2026/02/30 00:00:00"}, "`endTime` must be a time"),
        ({"startTime": "2026/01/01", "timeZone": "Mars/Base"}, "Mars/Base"),
        ({"startTime": "2026/01/02", "endTime": "2026/01/01"}, "is not before the end"),
        (
            {"recurrences": [{"schedule": {"hour": "25"}, "interval": {"hours": 1}}]},
            "`hour` must be from 0 to 23",
        ),
        ({"recurrences": [{"schedule": {"hour": "1", "dayOfWeek": "1"}}]}, "at least a minute"),
    ],
)
def test_one_that_makes_no_sense_is_there_and_cannot_be_told(written: dict[str, Any], warning: str) -> None:
    found, warnings = schedules(written)
    assert found[0].invalid
    assert any(
        warning in told and "denials, masks and filters apply at all times" in told for told in warnings
    )
    assert compile_schedules(found)(NOON) is None


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"startTime": "2026/01/01", "timeZone": "IST"},
        {"startTime": "2026/01/01", "endTime": "2026/01/01"},
    ],
)
def test_what_only_rangers_validator_refuses_is_taken_at_its_word(written: dict[str, Any]) -> None:
    found, warnings = schedules(written)
    assert not found[0].invalid
    assert warnings
    assert not any("apply at all times" in told for told in warnings)
    assert compile_schedules(found)(NOON) is not None


def test_odd_ones_are_told() -> None:
    _, warnings = schedules({"startTime": "2026/01/01 00:00:00", "timeZone": "Mars/Base"})
    assert "Mars/Base" in warnings[0]
