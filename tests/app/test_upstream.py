"""Whether Spark is ready is asked once at a time, however often somebody wants to know."""

from __future__ import annotations

import asyncio

import pytest

from gateway.app.upstream import ReadinessProbe
from gateway.errors import BackendUnavailable


class Spark:
    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.fault: BackendUnavailable | None = None

    async def ready(self) -> None:
        self.asked += 1
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault


async def test_a_spark_that_hangs_is_not_asked_again_by_everybody_who_gives_up() -> None:
    spark = Spark()
    question = ReadinessProbe(spark.ready)
    for _ in range(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await question.answer()
    assert spark.asked == 1
    spark.answers.set()
    assert await question.answer() is None
    spark.fault = BackendUnavailable("Spark does not answer SHOW DATABASES")
    assert await question.answer() == "Spark does not answer SHOW DATABASES"
    assert spark.asked == 2


async def test_after_a_while_it_is_given_up_and_asked_anew() -> None:
    spark = Spark()
    question = ReadinessProbe(spark.ready, longest_s=0.01)
    assert await question.answer() == "Spark has not answered for 0.01 s"
    spark.answers.set()
    assert await question.answer() is None
    assert spark.asked == 2
