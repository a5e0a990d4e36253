"""Lets the parts of a wide matrix take turns: each day tries a share, and each night all.

Whole modules take turns, too: `tests/days.yaml` says how many days each waits. Which day is whose follows
from what they cost, so that all days cost alike; a test holds what a day may cost.

What is out of turn is marked `night`. `SLUICE_TEST_DAY=2026-11-29` has the share of that day again, and
`SLUICE_TEST_DAY=all` everything. Only one of many alike takes turns: what is cheap and
is known to have found a fault is tried every day.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import cache
from math import lcm
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import pytest
import yaml

from tests.costs import budget, suite_of

T = TypeVar("T")

VARIABLE = "SLUICE_TEST_DAY"
# Kept where the lanes of a run find it, which may begin after midnight.
_GIVEN = os.environ.setdefault(VARIABLE, datetime.now(UTC).date().isoformat())
DAY = None if _GIVEN == "all" else date.fromisoformat(_GIVEN)
"""Whose share is tried; None: everything, as by night."""

LAKES = "tests/e2e/lake/"
WAYS = {
    LAKES: re.compile(r"(?<=[\[-])\d\.\d(?=[-\]])"),
    "tests/e2e/": re.compile(r"(?<=[\[-])(thrift|connect)(?=[-\]])"),
}
"""Place of tests → the part of their names that says in which of several ways they try the same."""

PERIODS: dict[str, int] = yaml.safe_load(Path(__file__).with_name("days.yaml").read_text(encoding="utf-8"))
"""Suite → the days from one of its runs to the next, of those that do not run every day."""

_Parameters = type(pytest.param())


def place_suites(
    periods: Mapping[str, int], costs: Mapping[str, float]
) -> tuple[dict[str, int], list[float]]:
    """Return suite → the remainder of a day, by its period, on which it runs; and what each day costs.

    The most expensive are placed first, each where the costliest of its days is cheapest: so no day is much
    dearer than another. The days are those after which all begins anew.
    """
    days = [0.0] * lcm(*periods.values())
    places: dict[str, int] = {}
    for suite in sorted(periods, key=lambda name: (-costs.get(name, 0.0), name)):
        period = periods[suite]
        place = min(range(period), key=lambda first: (max(days[first::period]), first))
        for day in range(place, len(days), period):
            days[day] += costs.get(suite, 0.0)
        places[suite] = place
    return places, days


@cache
def _places() -> dict[str, int]:
    return place_suites(PERIODS, budget())[0]


def turn(number: int, of: int, *, day: date | None = DAY) -> list[pytest.MarkDecorator]:
    """Return the marks of one of a series, by its place: one in `of` has its turn, on each day another."""
    return [] if day is None or number % of == day.toordinal() % of else [pytest.mark.night]


def in_turn(values: Iterable[Any], of: int, *, always: Iterable[Any] = ()) -> list[Any]:
    """Return values for `parametrize`, of which one in `of` has its turn today, and those of `always`."""
    every_day = list(always)
    return [
        given if _value(given) in every_day else _marked(given, turn(number, of))
        for number, given in enumerate(values)
    ]


def todays(values: Iterable[T], of: int, *, ahead: int = 0) -> list[T]:
    """Return what has its turn today, for a test that goes through a series by itself; by night all of it.

    `ahead`: what will have its turn in so many days, so that two tests of one series try others.
    """
    listed = list(values)
    return listed if DAY is None else listed[(DAY.toordinal() + ahead) % of :: of]


def _value(given: Any) -> Any:
    return given.values[0] if isinstance(given, _Parameters) else given


def _marked(given: Any, marks: list[pytest.MarkDecorator]) -> Any:
    if isinstance(given, _Parameters):
        return pytest.param(*given.values, id=given.id, marks=[*given.marks, *marks])
    return pytest.param(given, marks=marks)


@pytest.hookimpl(tryfirst=True)  # before what is marked `night` is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have tests that are marked `in_turn(of)` take turns; with `place=n` all of a module on the same day.

    The closest marker counts: `in_turn(1)` has a test run every day in a module whose others take turns.
    With `one_way=True` it is tried at one endpoint, or on one minor, on its days, too: on each of its days at
    the next where `of` is odd.
    """
    for item in items:
        suite = suite_of(item.nodeid)
        if suite in PERIODS and not _runs_daily(item):
            for mark in turn(_places()[suite], PERIODS[suite]):
                item.add_marker(mark)
    numbers: Counter[str] = Counter()
    for item, mark in _alternatives([item for item in items if _is_tried_one_way(item)]):
        item.add_marker(mark)
    for item in items:
        if (marker := item.get_closest_marker("in_turn")) is not None:
            number = marker.kwargs.get("place")
            if marker.kwargs.get("one_way"):
                number = crc32(_without_way(item.nodeid).encode())
            elif number is None:
                # Parameters of one test take turns with each other, and so do the module's tests without any.
                test, parameters, _ = item.nodeid.partition("[")
                series = test if parameters else test.partition("::")[0]
                # Not all series begin with their first on the same day.
                number = numbers[series] + crc32(series.encode())
                numbers[series] += 1
            for mark in turn(number, *marker.args):
                item.add_marker(mark)


def _runs_daily(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("in_turn")
    return marker is not None and marker.args == (1,) and not marker.kwargs


def _is_tried_one_way(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("in_turn")
    return marker is None or bool(marker.kwargs.get("one_way"))


def _without_way(nodeid: str) -> str:
    for place, way in WAYS.items():
        if nodeid.startswith(place) and (found := way.search(nodeid)):
            return nodeid.replace(found[0], "*")
    return nodeid


def _alternatives(items: Iterable[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.MarkDecorator]]:
    """Yield marks for what is tried by day in another way: a test of both endpoints at one of them, and a
    module of several minors of Spark on one of them."""
    tried: dict[str, list[tuple[pytest.Item, str]]] = {}
    for item in items:
        for place, way in WAYS.items():
            if item.nodeid.startswith(place) and (found := way.search(item.nodeid)):
                module = item.nodeid.partition("::")[0]
                series = module if place == LAKES else item.nodeid.replace(found[0], "*")
                tried.setdefault(series, []).append((item, found[0]))
                break
    for series, ways in tried.items():
        names = sorted({name for _, name in ways})
        for item, name in ways:
            for mark in turn(names.index(name) + crc32(series.encode()), len(names)):
                yield item, mark


def pytest_report_header() -> str:
    return f"shares of the day: {VARIABLE}={_GIVEN}"
