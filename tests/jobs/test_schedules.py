"""Times that cron's five fields name, and when a job is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gateway.app.jobs import due_since
from gateway.jobs.schedules import parse_cron
from gateway.settings.jobs import ScheduleSettings

NOW = datetime(2026, 11, 25, 12, 34, 56, tzinfo=UTC)
"""A Wednesday."""


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("* * * * *", "2026-11-25 12:34"),
        ("20 0 * * *", "2026-11-25 00:20"),
        ("40 12 * * *", "2026-11-24 12:40"),
        ("*/15 * * * *", "2026-11-25 12:30"),
        ("5-10/5,50 * * * *", "2026-11-25 12:10"),
        ("50/5 9 * * *", "2026-11-25 09:55"),
        ("0 0 1 * *", "2026-11-01 00:00"),
        ("0 0 * * 0", "2026-11-22 00:00"),
        ("0 0 * * 7", "2026-11-22 00:00"),
        ("0 0 1 * 1", "2026-11-23 00:00"),
        ("0 0 */2 * 1", "2026-11-23 00:00"),
        ("0 0 20 * */2", "2026-10-20 00:00"),
        ("0 0 29 2 *", "2024-02-29 00:00"),
        ("59 23 31 12 *", "2025-12-31 23:59"),
    ],
)
def test_the_last_time_that_cron_names(text: str, last: str) -> None:
    found = parse_cron(text).last(NOW)
    assert found is not None
    assert f"{found:%Y-%m-%d %H:%M}" == last


@pytest.mark.parametrize(
    "text",
    """|* * * *|60 * * * *|* 24 * * *|* * 0 * *|* * * 13 *|* * * * 8|a * * * *|*/0 * * * *|5-1 * * * *
|*/60 * * * *|1- * * * *|-1 * * * *|1/ * * * *|0 0 30 2 *|١ * * * *|1,,2 * * * *""".split("|"),
)
def test_what_is_no_cron_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`"):
        parse_cron(text)


def test_a_job_is_due_once_for_each_time_and_when_it_was_missed() -> None:
    nightly = ScheduleSettings(cron="20 0 * * *")
    tick = datetime(2026, 11, 25, 0, 20, tzinfo=UTC)
    assert due_since(nightly, NOW, None) == tick
    assert due_since(nightly, NOW, tick - timedelta(days=3)) == tick
    assert due_since(nightly, NOW, tick + timedelta(seconds=1)) is None
    often = ScheduleSettings(every_s=60)
    assert due_since(often, NOW, NOW - timedelta(seconds=59)) is None
    assert due_since(often, NOW, NOW - timedelta(seconds=61)) is not None
