"""Whoever asks over Spark Connect who the user is learns it, though Spark itself runs as another user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.lab import PASSWORD
from tests.e2e.running import RunningGateway, Spark

USER = "mallory"


@pytest.fixture(scope="module")
def through(lab_gateway: RunningGateway) -> Iterator[Any]:
    with lab_gateway.session(USER, PASSWORD) as session:
        yield session


@pytest.fixture(scope="module")
def direct(spark: Spark, lab_gateway: RunningGateway) -> Iterator[Any]:
    """After the gateway, which makes the tables."""
    with spark.session() as session:
        yield session


TEXTS = [
    "SELECT current_user(), user(), session_user(), (USER()), system.builtin.current_user() FROM lab.ok",
    "SELECT current_user, user, session_user FROM lab.ok",
    "SELECT u.* FROM (SELECT current_user(), max(a) AS m FROM lab.ok GROUP BY user()) AS u",
    "SELECT user() AS u FROM lab.ok UNION SELECT session_user()",
    "VALUES (current_user(), 1)",
    "SELECT a, user() AS u FROM lab.ok WHERE user() = current_user AND b <> session_user()",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_tells_the_user(through: Any, direct: Any, text: str) -> None:
    answer, plain = through.sql(text), direct.sql(text)
    assert answer.columns == plain.columns
    of_spark = direct.sql("SELECT current_user()").head()[0]
    assert of_spark != USER
    expected = [tuple(USER if value == of_spark else value for value in row) for row in plain.collect()]
    assert expected
    assert [tuple(row) for row in answer.collect()] == expected


def test_expressions_tell_the_user(through: Any) -> None:
    from pyspark.sql.connect import functions as fn

    frame = through.table("lab.ok").select(
        fn.expr("current_user()"), fn.expr("user() AS u"), fn.current_user(), fn.session_user().alias("s")
    )
    assert frame.columns == ["current_user()", "u", "current_user()", "s"]
    assert frame.collect() == [(USER, USER, USER, USER)]
    assert through.table("lab.ok").filter("user() = 'mallory'").count() == 1
    assert through.table("lab.ok").filter(fn.current_user() != "mallory").count() == 0
