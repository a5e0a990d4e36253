"""What PySpark can be made to send against a gateway: no canary, secret or policy gets out, ever."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.e2e.connect import world
from tests.e2e.connect.attacker import Attacker, attacker_of, refused_by_sluice
from tests.e2e.connect.attacks import Attack, attacks
from tests.e2e.running import RunningGateway, Spark

# PySpark wraps the function of a `foreach` in one with hints, and warns of them.
pytestmark = pytest.mark.filterwarnings("ignore:Cannot infer the eval type:UserWarning")

PLACE = "/the/path/of/the/vault"
"""Stands for the path in the names of tests; the real one is known when Spark runs."""
NAMES = [attack.name for attack in attacks(PLACE)]


@pytest.fixture(scope="module")
def by_name(connect_world: Spark) -> dict[str, Attack]:
    path = connect_world.directory / "warehouse" / "cw.db" / "vault"
    return {attack.name: attack for attack in attacks(str(path))}


@pytest.fixture(scope="module")
def attacker(connect_gateway: RunningGateway, connect_world: Spark) -> Iterator[Attacker]:
    """One client whose session is cloned for each attack: a new one costs a handshake.

    PySpark forgets checkpoints in `__del__`, by a call: the collector may not run in the middle of another.
    """
    gc.disable()
    try:
        with attacker_of(connect_gateway) as first:
            first.canaries = (connect_world.connect_token.encode(),)
            yield first
    finally:
        gc.enable()


def test_names_are_distinct() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len(NAMES) >= 60


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_gets_out(attacker: Attacker, by_name: dict[str, Attack], name: str) -> None:
    attack = by_name[name]
    with closing(_Session(attacker)) as session:
        attacker.seen.clear()
        for step in attack.steps:
            session.one.run(step)
        attacker.check()
        if attack.refused:
            assert refused_by_sluice(session.one.last_error), session.one.last_error


class _Session:
    """A clone of the attacker's session, with what it sees in his record."""

    def __init__(self, attacker: Attacker) -> None:
        self.one = Attacker(attacker.spark.cloneSession(), attacker.seen, canaries=attacker.canaries)

    def close(self) -> None:
        gc.collect()
        self.one.spark.stop()


def test_the_attacker_sees_what_is_his(attacker: Attacker) -> None:
    """Without this the attacks could fail because nothing works at all."""
    rows = attacker.spark.table("cw.people").select("id", "name", "email", "salary").orderBy("id").collect()
    assert len(rows) == 14
    assert rows[1]["name"] == "Chen xxx"
    assert all(row["salary"] % 1000 == 0 for row in rows)
    assert attacker.run(lambda s: s.table("cw.vault")) is not None
    # And straight at Spark the canaries are there: so it is the gateway that keeps them.
    assert world.CANARY not in repr(rows)


def test_the_canaries_are_there(connect_world: Spark) -> None:
    with connect_world.session() as spark:
        assert world.CANARY in repr(spark.table("cw.people").collect())
        assert world.CANARY in repr(spark.table("cw.vault").collect())
