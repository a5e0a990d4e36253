"""How long the parser was asked while a statement was decided on."""

from __future__ import annotations

import asyncio

import pytest

from gateway.model.reading_time import ReadingTime, count_reading


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_goes_on_at_once_counts_once(clock: Clock) -> None:
    with ReadingTime(clock) as reading:
        with count_reading():
            clock.now += 1
            with count_reading():
                clock.now += 2
        clock.now += 4
        with count_reading():
            clock.now += 8
    assert reading.seconds == 11


def test_a_statement_within_another_counts_for_itself(clock: Clock) -> None:
    with ReadingTime(clock) as outer:
        with ReadingTime(clock) as inner, count_reading():
            clock.now += 1
        with count_reading():
            clock.now += 2
    with count_reading():
        clock.now += 4
    assert (outer.seconds, inner.seconds) == (2, 1)


async def test_statements_beside_each_other_count_for_themselves(clock: Clock) -> None:
    asked = asyncio.Event()

    async def decide(*, asks: bool) -> float:
        with ReadingTime(clock) as reading:
            if asks:
                with count_reading():
                    await asked.wait()
            else:
                clock.now += 5
                asked.set()
        return reading.seconds

    assert tuple(await asyncio.gather(decide(asks=True), decide(asks=False))) == (5, 0)
