"""Policies of authors: what they read shows nobody what its author may not select, on both endpoints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyhive.exc import OperationalError
from pyspark.errors.exceptions.connect import SparkConnectException

from tests.e2e.lab import CANARY, PASSWORD
from tests.e2e.running import RunningGateway, Spark, query, until

CLOSED = "is closed, because its author lacks select on"
OPEN = ("open", "plain", "called")
SHUT = ("closed", "view", "mask", "calling", "lent")
FUNCTION = "CREATE FUNCTION lab.authored_{}(n INT) RETURNS INT RETURN {}"
FUNCTIONS = {
    "peek": "(SELECT max(a) FROM spark_catalog.lab.secret WHERE a = n)",
    "look": "lab.authored_looking(n)",
    "looking": "(SELECT max(a) FROM spark_catalog.lab.ok WHERE a = n)",
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: Spark, lab_gateway: RunningGateway) -> Iterator[None]:
    made = "CREATE TABLE lab.authored_{} USING parquet AS SELECT * FROM VALUES (1), (2) AS t(id)"
    spark.query(*map(made.format, (*OPEN, *SHUT)), user="loader")
    spark.query(*(FUNCTION.format(*one) for one in reversed(FUNCTIONS.items())), user="loader")
    views = {"authored": "SELECT id FROM lab.masked", "calling": "SELECT lab.authored_peek(1) AS n"}
    spark.query(*(f"CREATE VIEW lab.tmp_{name} AS {text}" for name, text in views.items()), user="loader")
    # It may have looked for the functions of its policies before they were there.
    until(lambda: _is_open(lab_gateway, "called"), "the gateway has looked at the functions")
    yield
    spark.query(
        *(f"DROP VIEW lab.tmp_{name}" for name in views),
        *(f"DROP FUNCTION lab.authored_{name}" for name in FUNCTIONS),
        *(f"DROP TABLE lab.authored_{name}" for name in (*OPEN, *SHUT)),
        user="loader",
    )


def _is_open(gateway: RunningGateway, name: str) -> bool:
    try:
        query(gateway.host, gateway.port, "mallory", f"SELECT id FROM lab.authored_{name}", password=PASSWORD)
    except OperationalError:
        return False
    return True


def test_what_its_author_may_not_select_closes_in_sql(lab_gateway: RunningGateway) -> None:
    def ask(name: str, user: str = "mallory") -> list[tuple[int]]:
        text = f"SELECT id FROM lab.authored_{name}"
        found: list[tuple[int]] = query(lab_gateway.host, lab_gateway.port, user, text, password=PASSWORD)
        return found

    for name in OPEN:
        assert ask(name) == [(1,)]
    for name in SHUT:
        with pytest.raises(
            Exception, match=r"SLUICE_NOT_GOVERNABLE.*is closed, because its author"
        ) as refused:
            ask(name)
        assert CANARY not in str(refused.value)
        assert sorted(ask(name, "tess")) == [(1,), (2,)], "it is not for tess"


def test_what_its_author_may_not_select_closes_in_frames(lab_gateway: RunningGateway) -> None:
    with lab_gateway.session("mallory", PASSWORD) as session:
        for name in OPEN:
            assert [row.id for row in session.table(f"lab.authored_{name}").collect()] == [1]
        for name in SHUT:
            with pytest.raises(SparkConnectException, match=CLOSED):
                session.table(f"lab.authored_{name}").collect()
            with pytest.raises(SparkConnectException, match=CLOSED):
                session.sql(f"SELECT id FROM lab.authored_{name}").collect()


def test_operators_hear_of_it(lab_gateway: RunningGateway) -> None:
    until(lambda: f"{len(SHUT)} policies are closed" in lab_gateway.admin("/readyz")[1], "authors were asked")
