"""TPC-H over Spark Connect through a running gateway: the answers are those of its Thrift door."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyhive import hive

from tests.e2e.connect.answers import collected
from tests.e2e.lab import PASSWORD
from tests.e2e.running import RunningGateway
from tests.e2e.tpch_session import SETTINGS, Tpch
from tests.shares import in_turn
from tests.tpch.governed import GOVERNED, UNGOVERNED
from tests.tpch.schema import QUERIES

USERS = {"allowed": UNGOVERNED.user, "governed": GOVERNED.user}


class Doors:
    """One user's sessions at both doors of a gateway."""

    def __init__(self, gateway: RunningGateway, user: str, frames: Any) -> None:
        self.wire = hive.connect(
            host=gateway.host, port=gateway.port, username=user, auth="CUSTOM", password=PASSWORD
        )
        self.thrift = Tpch(self.wire.cursor())
        for key, value in SETTINGS.items():
            self.thrift.cursor.execute(f"SET {key}={value}")
            frames.conf.set(key, value)
        self.frames = frames
        frames.sql("USE tpch")


@pytest.fixture(scope="module", params=list(USERS))
def doors(request: pytest.FixtureRequest, tpch: Tpch, lab_gateway: RunningGateway) -> Iterator[Doors]:
    user = USERS[request.param]
    with lab_gateway.session(user, PASSWORD) as frames:
        both = Doors(lab_gateway, user, frames)
        yield both
        both.wire.close()


@pytest.mark.parametrize(
    "query",
    # By day a few: TPC-DS asks the same of others, as frames and as text.
    in_turn(QUERIES, 12),
)
def test_both_doors_give_the_same(doors: Doors, query: str) -> None:
    by_thrift = doors.thrift.answer("tpch", QUERIES[query])
    assert collected(doors.frames.sql(QUERIES[query])) == by_thrift
