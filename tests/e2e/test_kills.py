"""Kills of gateways, Sparks, PostgreSQL and readers in a cluster under load: the record of what the Sparks
received stays whole, and whoever opens a new session hardly waits.

The Sparks are played by servers in the test's own process, which remember every statement. By day a few are
killed, by night fifty.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from gateway.wire.tcli import TTypeId
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.e2e.cluster import Cluster, running
from tests.e2e.cluster_load import (
    CLIENTS,
    EVENTS,
    PACK,
    Load,
    NewSelects,
    find_record_faults,
    nothing_waits,
    open_statements,
    repeated,
    rows_of,
)
from tests.e2e.running import LoopThread, until
from tests.effort import tries
from tests.speed import patience

pytestmark = pytest.mark.in_turn(2)

SEED = 20261120
VICTIMS = ("gateway", "gateway", "spark", "spark", "postgres", "reader", "upgrade")
MOST_KILLS = 50
SLOW_S = 0.3
"""How long some statements run: so long that a kill meets some of them."""
FAILOVER_S = 2.0
"""How long nobody may open a session after a kill, on a quiet machine."""


class RecordingSpark(FakeHiveServer):
    """Answers every `SELECT 'id'`; those whose id begins with `slow` take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.running_slowly = 0
        self.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        self.version = pyspark.__version__
        self.on(re.compile("DESCRIBE TABLE .*"), Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no."))
        self.on("SHOW DATABASES LIKE 'default'", Answer.text(["default"]))
        self.on(re.compile("DROP TABLE .*"), Answer.done())
        self.on(re.compile("SELECT '(quick|slow|new)-.*'"), self._echo)

    def _echo(self, statement: str) -> Answer:
        answer = Answer.text([statement.split("'")[1]])
        if "'slow-" in statement:
            answer.until = asyncio.Event()
            self.running_slowly += 1
            asyncio.get_running_loop().call_later(SLOW_S, self._end_slowly, answer.until)
        return answer

    def _end_slowly(self, ended: asyncio.Event) -> None:
        self.running_slowly -= 1
        ended.set()

    def received(self) -> list[tuple[str, str]]:
        """(User, text) of every statement that clients sent."""
        return [(r.user, r.text) for r in list(self.statements) if r.text.startswith(("SELECT '", "DROP"))]


class Killable:
    """A recording Spark that lives in a loop of another thread."""

    def __init__(self, loop: LoopThread) -> None:
        self.server = RecordingSpark()
        self._loop = loop
        loop.run(self.server.start())

    @property
    def host(self) -> str:
        return self.server.host

    @property
    def port(self) -> int:
        return self.server.port

    def kill(self) -> None:
        self._loop.run(self.server.stop())

    def start_again(self) -> None:
        self._loop.run(self.server.start())


@pytest.fixture
def sparks(session_loop: LoopThread) -> Iterator[list[Killable]]:
    found = [Killable(session_loop) for _ in range(2)]
    yield found
    for spark in found:
        spark.kill()


@pytest.fixture
def cluster(sparks: list[Killable], session_loop: LoopThread, open_directory: Path) -> Iterator[Cluster]:
    """Three gateways before two Sparks."""
    users = [f"client{number}" for number in range(CLIENTS)]
    made = Cluster(open_directory / "cluster", session_loop, sparks, PACK)
    with running(made, [*users, "newcomer"]) as one:
        yield one


def received_of(sparks: Iterable[Killable]) -> list[tuple[str, str]]:
    return [statement for spark in sparks for statement in spark.server.received()]


class Hunter:
    """Kills one process after the other, of each kind in turn."""

    def __init__(self, cluster: Cluster, sparks: list[Killable]) -> None:
        self._cluster = cluster
        self._sparks = sparks
        self._turns = Counter[str]()

    def kill(self, victim: str) -> None:
        turn = self._turns[victim]
        self._turns[victim] += 1
        number = turn % len(self._cluster.gateways)
        match victim:
            case "gateway":
                slowly = [spark.server for spark in self._sparks]
                until(lambda: any(one.running_slowly > 0 for one in slowly), "a statement under way", 300)
                self._cluster.kill_gateway(number)()
            case "upgrade":
                self._cluster.upgrade_gateway(number)
            case "reader":
                self._cluster.kill_reader(number)
            case "postgres":
                self._cluster.kill_postgres()
            case _:
                spark = self._sparks[turn % len(self._sparks)]
                spark.kill()
                self.until_received(10)
                spark.start_again()

    def until_received(self, more: int) -> None:
        before = len(received_of(self._sparks))
        until(lambda: len(received_of(self._sparks)) >= before + more, "work between two kills", 300)


@pytest.mark.timeout(7200)
def test_kills_leave_the_record_whole(
    cluster: Cluster, sparks: list[Killable], session_loop: LoopThread
) -> None:
    chance = random.Random(SEED)
    count = min(MOST_KILLS, tries(len(VICTIMS)))
    order = [
        victim
        for victim, _ in zip(itertools.chain.from_iterable(_shuffled(chance)), range(count), strict=False)
    ]
    waits = dict.fromkeys(VICTIMS, 0.0)
    hunter, load, new = (
        Hunter(cluster, sparks),
        Load(cluster.port),
        NewSelects(cluster.port, "newcomer"),
    )
    try:
        for victim in order:
            hunter.until_received(chance.randint(5, 60))
            new.begin()
            hunter.kill(victim)
            hunter.until_received(20)
            waits[victim] = max(waits[victim], round(new.longest_s, 2))
    finally:
        load.stop()
        new.stop()

    def ask(query: str) -> list[Any]:
        work: Coroutine[Any, Any, list[Any]] = rows_of(cluster.postgres.dsn, query)
        return session_loop.run(work)

    def is_shipped() -> bool:
        return all(nothing_waits(gateway) for gateway in cluster.gateways) and open_statements(ask) == 0

    until(is_shipped, "everything in PostgreSQL", 300)
    print(f"{count} kills, {new.opened} new sessions; longest waits for one: {waits}")
    # Whoever is at a gateway without a parser waits for that.
    del waits["reader"]
    assert max(waits.values()) <= patience(FAILOVER_S)
    received, events = received_of(sparks), ask(EVENTS)
    assert load.wrong == []
    assert load.not_refused == []

    # What Spark received, it received once and as decided; what was refused, it did not receive.
    decided = [e for e in events if e["kind"] == "decided"]
    forwarded = Counter((e["user_name"], e["forwarded"]) for e in decided if e["verdict"] == "cleared")
    assert repeated(received) == []
    assert [key for key in received if forwarded[key] != 1] == []
    assert [text for _, text in received if "forbidden" in text] == []
    assert {f"SELECT '{text}'" for text in load.answered} <= {text for _, text in received}
    assert find_record_faults(events, load.answered) == []
    assert any(e["kind"] == "abandoned" for e in events), "a kill met no statement under way"


def _shuffled(chance: random.Random) -> Iterator[list[str]]:
    while True:
        yield chance.sample(VICTIMS, len(VICTIMS))
