"""TPC-DS as DataFrames over Spark Connect and as SQL over Thrift: one gateway, one answer.

For somebody governed it is also the answer that the physically governed copy gives on Spark itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyhive import hive
from pyspark.sql import SparkSession

from tests.e2e.connect.answers import collected
from tests.e2e.lab import PASSWORD
from tests.e2e.running import RunningGateway, Spark
from tests.e2e.tpch_session import SETTINGS, Tpch
from tests.shares import in_turn
from tests.tpcds.frames import FRAMES
from tests.tpcds.generator import statements
from tests.tpcds.governed import GOVERNED, copy_statements
from tests.tpcds.schema import QUERIES
from tests.tpch.governed import UNGOVERNED


@pytest.fixture(scope="module")
def tpcds(spark: Spark) -> Iterator[Tpch]:
    """A session on Spark itself, which holds the database `tpcds` and its governed copy."""
    connection = hive.connect(host=spark.host, port=spark.port, username="loader", auth="NONE")
    cursor = connection.cursor()
    for statement in (*statements("tpcds"), *copy_statements("tpcds", "tpcds_governed")):
        cursor.execute(statement)
    for key, value in SETTINGS.items():
        cursor.execute(f"SET {key}={value}")
    yield Tpch(cursor)
    for database in ("tpcds", "tpcds_governed"):
        cursor.execute(f"DROP DATABASE {database} CASCADE")
    connection.close()


class Doors:
    """One user's sessions at both doors of a gateway, and the database that has its answers on Spark."""

    def __init__(self, gateway: RunningGateway, user: str, frames: SparkSession, expected: str) -> None:
        self.wire = hive.connect(
            host=gateway.host, port=gateway.port, username=user, auth="CUSTOM", password=PASSWORD
        )
        self.thrift = Tpch(self.wire.cursor())
        for key, value in SETTINGS.items():
            self.thrift.cursor.execute(f"SET {key}={value}")
            frames.conf.set(key, value)
        self.frames = frames
        self.expected = expected


TURNS = 8
"""By day one query in so many is asked, on each day others."""
USERS = {"allowed": (UNGOVERNED.user, "tpcds"), "governed": (GOVERNED.user, "tpcds_governed")}


@pytest.fixture(
    scope="module",
    # By day the governed answers: TPC-H and the scenarios ask for what may be seen whole.
    params=[pytest.param("allowed", marks=pytest.mark.night), "governed"],
)
def doors(request: pytest.FixtureRequest, tpcds: Tpch, lab_gateway: RunningGateway) -> Iterator[Doors]:
    user, expected = USERS[request.param]
    with lab_gateway.session(user, PASSWORD) as frames:
        frames.sql("USE tpcds")
        both = Doors(lab_gateway, user, frames, expected)
        yield both
        both.wire.close()


def test_every_query_is_written_both_ways() -> None:
    assert FRAMES.keys() == QUERIES.keys()


@pytest.mark.parametrize("query", in_turn(QUERIES, TURNS))
def test_a_query_says_the_same_both_ways(tpcds: Tpch, doors: Doors, query: str) -> None:
    as_frame = collected(FRAMES[query](doors.frames))
    assert as_frame == doors.thrift.answer("tpcds", QUERIES[query])
    assert as_frame == tpcds.answer(doors.expected, QUERIES[query])


@pytest.mark.parametrize("query", in_turn(QUERIES, TURNS))
def test_the_policies_change_the_answer(tpcds: Tpch, query: str) -> None:
    """Else the comparison would not tell whether they held."""
    assert tpcds.answer("tpcds", QUERIES[query])[1] != tpcds.answer("tpcds_governed", QUERIES[query])[1]
