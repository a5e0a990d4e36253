"""Validity schedules: both ends inclusive, in the schedule's zone, with recurrences, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.tags import Recurrence, ValiditySchedule
from gateway.policy.schedule_json import schedule_of
from gateway.policy.schedules import compile_schedules, faults_of_schedule, parse_time, zone_of
from tests.effort import tries

PACIFIC = "America/Los_Angeles"


def schedule(
    start: str = "", end: str = "", zone: str = "GMT", recurrences: tuple[Recurrence, ...] = ()
) -> ValiditySchedule:
    return ValiditySchedule(
        start=parse_time(start) if start else None,
        end=parse_time(end) if end else None,
        zone=zone,
        recurrences=recurrences,
    )


def holds(found: ValiditySchedule, time: datetime | None) -> bool | None:
    return compile_schedules([found])(time)


def at(text: str, zone: str = "GMT") -> datetime:
    return parse_time(text).replace(tzinfo=ZoneInfo(zone))


def of_epoch(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_no_schedules_always_hold_and_without_a_time_others_cannot_be_told() -> None:
    assert compile_schedules(())(None)
    assert compile_schedules([schedule("2020/01/01 00:00:00")])(None) is None


def test_any_of_several_is_enough() -> None:
    applies = compile_schedules([schedule(end="2020/01/01 00:00:00"), schedule("2030/01/01 00:00:00")])
    assert applies(at("2019/06/01 00:00:00"))
    assert not applies(at("2025/06/01 00:00:00"))
    assert applies(at("2031/06/01 00:00:00"))


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (1735707600000, True),
        (1735707599999, False),
        (1735707599000, False),
        (1738385999000, True),
        (1738386000000, False),
    ],
)
def test_both_ends_are_inside_in_the_zone_of_the_schedule(milliseconds: int, expected: bool) -> None:
    january = schedule("2025/01/01 00:00:00", "2025/01/31 23:59:59", "America/New_York")
    assert holds(january, of_epoch(milliseconds)) is expected


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert holds(schedule("2025/01/01 12:00:00"), datetime(2025, 1, 1, 12))  # noqa: DTZ001
    assert not holds(schedule("2025/01/01 12:00:00"), datetime(2025, 1, 1, 11, 59, 59))  # noqa: DTZ001


OFFICE = Recurrence(minute="0", hour="9", day_of_week="2-6", day_of_month="", interval_minutes=8 * 60)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2025/06/02 09:00:00", True),  # a Monday
        ("2025/06/02 08:59:59", False),
        ("2025/06/02 17:00:00", True),
        ("2025/06/02 17:00:01", False),
        ("2025/06/01 12:00:00", False),  # a Sunday
        ("2025/06/07 12:00:00", False),
        ("2025/06/06 12:00:00", True),
    ],
)
def test_office_hours(time: str, expected: bool) -> None:
    assert holds(schedule(recurrences=(OFFICE,)), at(time)) is expected
    berlin = schedule(zone="Europe/Berlin", recurrences=(OFFICE,))
    assert holds(berlin, at(time, "Europe/Berlin")) is expected


def recurring(
    minute: str, hour: str, days: str, weekdays: str, month: str = "*", year: str = "*", *, minutes: int
) -> Recurrence:
    return Recurrence(
        minute=minute,
        hour=hour,
        day_of_month=days,
        day_of_week=weekdays,
        month=month,
        year=year,
        interval_minutes=minutes,
    )


DAY = 24 * 60
CASES = [
    # name, start, end, recurrence, time in the zone, whether it holds
    (
        "every half hour past",
        "2018/01/12 06:32:00",
        "2018/02/03 04:16:00",
        recurring("30", "*", "*", "5, 7", year="2018", minutes=10),
        "2018/01/13 14:32:27",
        True,
    ),
    (
        "nine of every ten minutes",
        "2018/01/12 06:32:00",
        "2018/02/03 04:16:00",
        recurring("0, 10, 20, 30, 40, 50", "*", "*", "5, 7", year="2018", minutes=9),
        "2018/01/12 14:32:27",
        True,
    ),
    (
        "Wednesday, Saturday or the first, for two days and ten hours",
        "2018/01/12 06:32:00",
        "2018/02/03 04:16:00",
        recurring("10", "12", "1", "4, 7", year="2018", minutes=2 * DAY + 600),
        "2018/01/15 19:32:27",
        True,
    ),
    (
        "the first for a day and two minutes, to the very end",
        "2017/01/12 06:32:00",
        "2018/02/03 04:16:00",
        recurring("59", "0", "1", "4, 7", year="2017-2018", minutes=DAY + 2),
        "2018/01/02 01:00:00",
        True,
    ),
    (
        "any weekday for a day",
        "2018/01/01 00:00:00",
        "2050/02/03 00:00:00",
        recurring("0", "12", "31", "*", year="2017-2018", minutes=DAY),
        "2018/03/01 00:00:00",
        True,
    ),
    (
        "the latest firing is too old",
        "2018/01/12 06:32:00",
        "2020/01/23 00:00:00",
        recurring("0", "12", "1", "2, 3", minutes=2 * DAY - 1),
        "2018/03/04 14:40:00",
        False,
    ),
    (
        "the firing of the first still holds",
        "2018/01/12 06:32:00",
        "2020/01/23 00:00:00",
        recurring("0", "12", "1", "2, 3", minutes=2 * DAY - 1),
        "2018/03/03 10:40:00",
        True,
    ),
    (
        "weekdays only, inside",
        "2018/01/12 06:32:00",
        "2020/01/23 00:00:00",
        recurring("45, 30, 1, 14", "0,20, 21", "", "1", "12, 1-2", "2018", minutes=300),
        "2018/01/14 04:32:27",
        True,
    ),
    (
        "weekdays only, outside",
        "2018/01/12 06:32:00",
        "2020/01/23 00:00:00",
        recurring("45, 30, 1, 14", "0,20, 21", "", "1", "12, 1-2", "2018", minutes=300),
        "2018/01/19 04:32:27",
        False,
    ),
    (
        "days only, inside",
        "2018/01/12 06:32:00",
        "2020/01/23 00:00:00",
        recurring("45, 30, 1, 14", "0,20, 21", "15, 20", "", "12, 1-2", "2018", minutes=5 * DAY),
        "2018/01/19 04:32:27",
        True,
    ),
    (
        "days only, outside",
        "2018/01/12 06:32:00",
        "2020/01/23 00:00:00",
        recurring("45, 30, 1, 14", "0,20, 21", "15, 20", "", "12, 1-2", "2018", minutes=3 * DAY),
        "2018/01/19 04:32:27",
        False,
    ),
    (
        "the 31st or a Thursday, long ago",
        "2018/01/01 00:00:00",
        "2050/02/03 00:00:00",
        recurring("0", "12", "31", "5", year="2017-2018", minutes=DAY),
        "2018/03/01 00:00:00",
        False,
    ),
    (
        "the 31st or a Thursday, yesterday",
        "2018/01/01 00:00:00",
        "2050/02/03 00:00:00",
        recurring("0", "12", "31", "5", year="2017-2018", minutes=DAY),
        "2018/02/16 00:00:00",
        True,
    ),
    (
        "a leap day",
        "2020/01/01 00:00:00",
        "2050/02/03 00:00:00",
        recurring("0", "*", "29", "", "2", "2020-2026", minutes=DAY),
        "2020/03/01 00:00:00",
        True,
    ),
    (
        "a month that has not come",
        "2020/01/01 00:00:00",
        "2050/02/03 00:00:00",
        recurring("0", "*", "29", "", "3", "2020-2026", minutes=DAY),
        "2020/03/01 00:00:00",
        False,
    ),
]


@pytest.mark.parametrize(
    ("name", "start", "end", "recurrence", "time", "expected"), CASES, ids=lambda v: str(v)[:40]
)
def test_recurrences_that_ranger_documents_by_its_tests(
    name: str, start: str, end: str, recurrence: Recurrence, time: str, expected: bool
) -> None:
    found = schedule(start, end, PACIFIC, (recurrence,))
    assert faults_of_schedule(found) == [], name
    assert holds(found, at(time, PACIFIC)) is expected, name


def test_a_recurrence_needs_the_period_too() -> None:
    found = schedule("2025/06/02 12:00:00", "2025/06/03 12:00:00", recurrences=(OFFICE,))
    assert holds(found, at("2025/06/02 12:00:00"))
    assert not holds(found, at("2025/06/02 11:59:59"))
    assert holds(found, at("2025/06/03 12:00:00"))
    assert not holds(found, at("2025/06/03 12:00:01"))


def test_one_of_several_recurrences_is_enough() -> None:
    night = recurring("0", "22", "*", "", minutes=60)
    found = schedule(recurrences=(OFFICE, night))
    assert holds(found, at("2025/06/01 22:30:00"))
    assert holds(found, at("2025/06/02 10:00:00"))
    assert not holds(found, at("2025/06/01 10:00:00"))


def test_an_interval_may_reach_into_years_in_which_nothing_begins() -> None:
    found = schedule(recurrences=(recurring("0", "0", "29", "", "2", "2024", minutes=800 * DAY),))
    assert holds(found, at("2026/05/09 00:00:00"))
    assert not holds(found, at("2026/05/10 00:00:01"))
    assert not holds(found, at("2016/05/09 00:00:00"))
    assert not holds(found, at("2100/05/09 00:00:00"))


def test_days_of_an_interval_are_days_of_the_calendar_across_a_clock_change() -> None:
    """On 30 March 2025 Berlin's clocks went from 2:00 to 3:00, so that day had 23 hours."""
    daily = schedule(zone="Europe/Berlin", recurrences=(recurring("0", "12", "29", "", "3", minutes=DAY),))
    assert holds(daily, at("2025/03/30 12:00:00", "Europe/Berlin"))
    assert not holds(daily, at("2025/03/30 12:00:01", "Europe/Berlin"))
    hours = schedule(zone="Europe/Berlin", recurrences=(recurring("0", "0", "30", "", "3", minutes=4 * 60),))
    assert holds(hours, at("2025/03/30 05:00:00", "Europe/Berlin"))
    assert not holds(hours, at("2025/03/30 05:00:01", "Europe/Berlin"))


def test_a_firing_in_the_missing_hour_waits_for_it() -> None:
    gap = schedule(zone="Europe/Berlin", recurrences=(recurring("30", "2", "30", "", "3", minutes=10),))
    assert not holds(gap, datetime(2025, 3, 30, 1, 10, tzinfo=UTC))
    assert holds(gap, datetime(2025, 3, 30, 1, 30, tzinfo=UTC))
    assert not holds(gap, datetime(2025, 3, 30, 1, 41, tzinfo=UTC))


def test_the_hour_that_comes_twice_is_not_after_its_own_end() -> None:
    twice = schedule(zone="Europe/Berlin", recurrences=(recurring("30", "2", "26", "", "10", minutes=90),))
    assert holds(twice, datetime(2025, 10, 26, 0, 30, tzinfo=UTC))
    assert holds(twice, datetime(2025, 10, 26, 2, 0, tzinfo=UTC))
    assert not holds(twice, datetime(2025, 10, 26, 2, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (schedule(), "needs a start, an end or a recurrence"),
        (schedule("2025/01/02 00:00:00", "2025/01/02 00:00:00"), "is not before the end"),
        (schedule("2025/01/02 00:00:00", zone="Europe/Atlantis"), "`Europe/Atlantis` is not a time zone"),
        (schedule("2025/01/02 00:00:00", zone="../etc/passwd"), "is not a time zone"),
        (schedule("2025/01/02 00:00:00", zone="IST"), "`IST` is not a time zone"),
        (
            schedule(recurrences=(recurring("0", "0", "", "", minutes=1),)),
            "needs `dayOfMonth` or `dayOfWeek`",
        ),
        (schedule(recurrences=(recurring("", "0", "1", "", minutes=1),)), "needs `minute`"),
        (schedule(recurrences=(recurring("0", " ", "1", "", minutes=1),)), "needs `hour`"),
        (schedule(recurrences=(recurring("0", "0", "1", "", "", minutes=1),)), "needs `month`"),
        (schedule(recurrences=(recurring("0", "0", "1", "", "1", "", minutes=1),)), "needs `year`"),
        (schedule(recurrences=(recurring("0", "0", "1", "", minutes=0),)), "at least a minute"),
        (schedule(recurrences=(recurring("0", "0", "1", "", minutes=-5),)), "at least a minute"),
        (schedule(recurrences=(recurring("60", "0", "1", "", minutes=1),)), "`minute` must be from 0 to 59"),
        (
            schedule(recurrences=(recurring("0-9", "0", "1", "", minutes=1),)),
            "`minute` does not support ranges",
        ),
        (schedule(recurrences=(recurring("0", "24", "1", "", minutes=1),)), "`hour` must be from 0 to 23"),
        (
            schedule(recurrences=(recurring("0", "0", "0", "", minutes=1),)),
            "`dayOfMonth` must be from 1 to 31",
        ),
        (
            schedule(recurrences=(recurring("0", "0", "1", "8", minutes=1),)),
            "`dayOfWeek` must be from 1 to 7",
        ),
        (
            schedule(recurrences=(recurring("0", "0", "1", "", "0", minutes=1),)),
            "`month` must be from 1 to 12",
        ),
        (schedule(recurrences=(recurring("0", "0", "1", "", "1", "2016", minutes=1),)), "2017 to 2100"),
        (schedule(recurrences=(recurring("0", "5-2", "1", "", minutes=1),)), "not `5-2`"),
        (schedule(recurrences=(recurring("0", "noon", "1", "", minutes=1),)), "not `noon`"),
        (schedule(recurrences=(recurring("0", "1,,2", "1", "", minutes=1),)), "not `1,,2`"),
        (
            schedule(recurrences=(recurring("٣", "1", "1", "", minutes=1),)),
            "must be `*` or a list of numbers",
        ),
    ],
)
def test_what_is_wrong_with_a_schedule_is_told(found: ValiditySchedule, expected: str) -> None:
    faults = faults_of_schedule(found)
    assert any(expected in fault for fault in faults), faults


def test_all_faults_are_told_at_once() -> None:
    found = schedule("2025/01/02", "2025/01/01", "Nowhere", (recurring("99", "99", "", "", minutes=0),))
    assert len(faults_of_schedule(found)) == 6


@pytest.mark.parametrize(
    "found",
    [
        schedule("2025/01/01 00:00:00", zone="Nowhere"),
        schedule(recurrences=(recurring("x", "*", "*", "", minutes=60),)),
        schedule(recurrences=(recurring("*", "*", "*", "", minutes=0),)),
        schedule(recurrences=(recurring("*", "*", "", "", minutes=60),)),
        schedule("9999/12/31 00:00:00", "1970/01/01 00:00:00"),
    ],
)
def test_of_a_schedule_that_is_not_well_formed_it_cannot_be_told(found: ValiditySchedule) -> None:
    assert holds(found, at("2025/06/01 12:00:00")) is None


def test_one_that_holds_is_enough_beside_one_that_cannot_be_told() -> None:
    applies = compile_schedules([schedule(zone="Nowhere"), schedule("2030/01/01 00:00:00")])
    assert applies(at("2031/06/01 00:00:00")) is True
    assert applies(at("2029/06/01 00:00:00")) is None


def test_one_that_was_told_to_be_invalid_cannot_be_told() -> None:
    assert holds(replace(schedule("2025/01/01 00:00:00"), invalid=True), at("2025/06/01 12:00:00")) is None


def test_javas_short_names_of_zones_mean_what_they_mean_to_ranger() -> None:
    found = schedule("2020/02/29 12:00:00", "2020/02/29 13:00:00", "IST")
    assert holds(found, datetime(2020, 2, 29, 6, 30, tzinfo=UTC))
    assert zone_of("GMT+05:30") is not None
    assert zone_of("GMT-25") is None
    assert zone_of(" ") == zone_of("GMT")


@pytest.mark.parametrize(
    "text", ["", "2025", "2025-01-01", "2025/13/01", "2025/01/01 24:00:00", "2025/1/1 x"]
)
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text)


def test_a_schedule_as_json() -> None:
    found = schedule_of(
        '{"startTime": "2025/01/01 00:00:00", "timeZone": "Europe/Berlin", "recurrences": [{"schedule":'
        ' {"minute": "0", "hour": "9", "dayOfWeek": "2-6", "month": "*", "year": "*"},'
        ' "interval": {"days": 1, "hours": 8}}]}'
    )
    assert found.recurrences[0].interval_minutes == 32 * 60
    assert found.recurrences[0].day_of_month == ""
    assert faults_of_schedule(found) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"startTime": 5}',
        '{"startTime": "soon"}',
        '{"recurrences": {}}',
        '{"recurrences": [{"schedule": {}}]}',
        '{"recurrences": [{"schedule": {"minute": 5}, "interval": {}}]}',
        '{"recurrences": [{"schedule": {}, "interval": {"hours": true}}]}',
        "[" * 10_000,
        " " * 20_000,
    ],
)
def test_json_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # json's own error is one, with words of its own
        schedule_of(text)


fields = st.sampled_from(["*", "0", "1", "1,3", "2-4", "", " ", "99", "x", "1-", "*-2"])


@settings(max_examples=tries(200), deadline=None)
@given(
    st.tuples(fields, fields, fields, fields, fields, st.sampled_from(["*", "2024-2026", "2020", ""])),
    st.integers(-5, 5000),
    st.sampled_from(["GMT", "Europe/Berlin", "Nowhere", ""]),
    st.datetimes(datetime(2015, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001
)
def test_any_schedule_has_an_answer(texts: tuple[str, ...], minutes: int, zone: str, time: datetime) -> None:
    names = ("minute", "hour", "day_of_month", "day_of_week", "month", "year")
    recurrence = Recurrence(**dict(zip(names, texts, strict=True)), interval_minutes=minutes)
    found = ValiditySchedule(zone=zone, recurrences=(recurrence,))
    faults_of_schedule(found)
    answer = holds(found, time.replace(tzinfo=UTC))
    assert not (answer and (minutes <= 0 or zone == "Nowhere" or "x" in texts))


@settings(max_examples=tries(100), deadline=None)
@given(
    st.lists(st.integers(0, 23), min_size=1, max_size=3),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.integers(1, 3 * DAY),
    st.datetimes(datetime(2024, 1, 1), datetime(2025, 1, 1)),  # noqa: DTZ001
)
def test_a_recurrence_holds_when_any_minute_before_is_a_firing(
    hours: list[int], weekdays: list[int], minutes: int, time: datetime
) -> None:
    """The plain reading: look at every minute of the interval for one at which the recurrence begins."""
    recurrence = recurring("0", ",".join(map(str, hours)), "", ",".join(map(str, weekdays)), minutes=minutes)
    now = time.replace(tzinfo=UTC, microsecond=0)
    hour = now.replace(minute=0, second=0)
    fired = False
    while hour + timedelta(minutes=minutes) >= now:
        fired = fired or (hour.hour in hours and hour.isoweekday() % 7 + 1 in weekdays)
        hour -= timedelta(hours=1)
    assert holds(schedule(recurrences=(recurrence,)), now) is fired
