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
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pyspark
import pytest

from gateway.wire.tcli import TSessionHandle, TTypeId
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.e2e.cluster import HOST, PASSWORD, Cluster, NewSessions, running
from tests.e2e.running import LoopThread, RunningGateway, until
from tests.e2e.wire_client import StatusError, WireClient
from tests.effort import tries
from tests.speed import patience

pytestmark = pytest.mark.in_turn(2)

T = TypeVar("T")

SEED = 20261120
VICTIMS = ("gateway", "gateway", "spark", "spark", "postgres", "reader")
MOST_KILLS = 50
CLIENTS = 4
SLOW_S = 0.3
"""How long some statements run: so long that a kill meets some of them."""
FAILOVER_S = 2.0
"""How long nobody may open a session after a kill, on a quiet machine."""

PACK = """
service: spark
policies:
  - name: everybody may begin
    on: {catalog: spark_catalog, database: default}
    allow: [{groups: [public], access: [use]}]
  - name: and clear the shelf
    on: {catalog: spark_catalog, database: default, table: "shelf_*"}
    allow: [{groups: [public], access: [drop]}]
"""


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


class Load:
    """Clients that send statements until `stop`, each statement once, whatever becomes of it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self.sent = 0
        self.answered: list[str] = []
        self.not_refused: list[str] = []
        self.wrong: list[str] = []
        self._threads = [
            threading.Thread(target=self._work, args=(f"client{i}",), daemon=True) for i in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(patience(300))
            assert not thread.is_alive()

    def _work(self, user: str) -> None:
        chance = random.Random(user)
        while not self._over.is_set():
            try:
                with WireClient(HOST, self._port, user, PASSWORD) as client:
                    session = client.open_session()
                    for _ in range(chance.randint(5, 40)):
                        if self._over.is_set():
                            break
                        self._send_one(client, session, user, chance)
            except (OSError, StatusError):
                # The gateway is being killed, or Spark, or PostgreSQL while names were to change.
                self._over.wait(0.05)

    def _send_one(
        self, client: WireClient, session: TSessionHandle, user: str, chance: random.Random
    ) -> None:
        self.sent += 1
        name = f"{user}-{self.sent}-{chance.getrandbits(64):x}"
        kind = chance.choices(("quick", "slow", "forbidden", "drop"), (14, 4, 2, 1))[0]
        if kind == "forbidden":
            try:
                client.execute(session, f"SELECT '{kind}-{name}' FROM closed.room")
            except StatusError:
                return
            self.not_refused.append(name)
            return
        if kind == "drop":
            # The other gateways hold the name meanwhile.
            client.execute(session, f"DROP TABLE IF EXISTS shelf_{self.sent}_{chance.getrandbits(64):x}")
            return
        text = f"{kind}-{name}"
        operation = client.execute(session, f"SELECT '{text}'", run_async=chance.random() < 0.5)
        if chance.random() < 0.1:
            return  # whoever forgets to fetch and to close has a record, too
        client.ended(operation)
        if client.rows(operation) != [(text,)]:
            self.wrong.append(text)
        self.answered.append(text)
        client.close_operation(operation)


class NewSelects(NewSessions):
    """New sessions, each of which runs a statement."""

    def ask(self, client: WireClient, session: TSessionHandle, number: int) -> None:
        client.close_operation(client.execute(session, f"SELECT 'new-{number}-{self.failed}'"))


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
                self._cluster.kill_gateway(number)
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


async def rows_of(dsn: str, query: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(query))
    finally:
        await connection.close()


OPEN = """
SELECT count(*) FROM sluice.audit_event d WHERE kind = 'decided' AND verdict = 'cleared' AND NOT EXISTS (
    SELECT FROM sluice.audit_event e
    WHERE e.statement_id = d.statement_id AND e.kind IN ('completed', 'abandoned'))"""
EVENTS = """
SELECT kind, statement_id::text AS id, event_id::text AS event_id, verdict, user_name, statement, forwarded
FROM sluice.audit_event WHERE statement_id IS NOT NULL"""


def nothing_waits(gateway: RunningGateway) -> bool:
    """Whether everything on the gateway's disk is in PostgreSQL."""
    _, metrics = gateway.admin("/metrics")
    (line,) = (line for line in metrics.splitlines() if line.startswith("sluice_spool_bytes "))
    return float(line.split()[1]) == 0


def open_statements(ask: Callable[[str], list[Any]]) -> int:
    """Return how many cleared statements have no end in PostgreSQL; -1 while it cannot be asked."""
    try:
        return int(ask(OPEN)[0][0])
    except (OSError, asyncpg.PostgresError):
        return -1


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
    cleared = [e for e in decided if e["verdict"] == "cleared"]
    forwarded = Counter((e["user_name"], e["forwarded"]) for e in cleared)
    assert repeated(received) == []
    assert [key for key in received if forwarded[key] != 1] == []
    assert [text for _, text in received if "forbidden" in text] == []
    assert {f"SELECT '{text}'" for text in load.answered} <= {text for _, text in received}

    # Nothing is in the record twice, and what was cleared has one end.
    ends = [e["id"] for e in events if e["kind"] in ("completed", "abandoned")]
    assert repeated(e["event_id"] for e in events) == []
    assert repeated(e["id"] for e in decided) == []
    assert repeated(e["statement"] for e in decided) == []
    assert sorted(ends) == sorted(e["id"] for e in cleared)
    assert any(e["kind"] == "abandoned" for e in events), "a kill met no statement under way"


def repeated(items: Iterable[T]) -> list[T]:
    return [item for item, count in Counter(items).items() if count > 1]


def _shuffled(chance: random.Random) -> Iterator[list[str]]:
    while True:
        yield chance.sample(VICTIMS, len(VICTIMS))
