"""Ten kill -9 of gateway, PostgreSQL and reader under load: the record of what Spark received stays whole.

Spark is played by a server in the test's own process, which survives and remembers every statement.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import psutil
import pyspark
import pytest

from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from gateway.wire.tcli import TSessionHandle, TTypeId
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.e2e.running import LoopThread, RunningGateway, until
from tests.e2e.wire_client import StatusError, WireClient
from tests.speed import patience

pytestmark = pytest.mark.in_turn(2)

T = TypeVar("T")

SEED = 20261120
VICTIMS = ("gateway",) * 4 + ("postgres",) * 3 + ("reader",) * 3
CLIENTS = 4
SLOW_S = 0.3
"""How long some statements run: so long that a kill meets some of them."""

PASSWORD = "correct horse battery"
PACK = """
service: spark
policies:
  - name: everybody may begin
    on: {catalog: spark_catalog, database: default}
    allow: [{groups: [public], access: [use]}]
"""


class RecordingSpark(FakeHiveServer):
    """Answers every `SELECT 'id'`; those whose id begins with `slow` take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.running_slowly = 0
        self.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        self.version = pyspark.__version__
        self.on(re.compile("DESCRIBE TABLE .*"), Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no."))
        self.on(re.compile("SELECT '(quick|slow)-.*'"), self._echo)

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
        return [(r.user, r.text) for r in list(self.statements) if "SELECT '" in r.text]


class Load:
    """Clients that send statements until `stop`, each statement once, whatever becomes of it."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._gateway = gateway
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
                with WireClient("127.0.0.1", self._gateway.port, user, PASSWORD) as client:
                    session = client.open_session()
                    for _ in range(chance.randint(5, 40)):
                        if self._over.is_set():
                            break
                        self._send_one(client, session, user, chance)
            except (OSError, StatusError):
                # The gateway is being killed, or Spark's session was lost with something else.
                self._over.wait(0.05)

    def _send_one(
        self, client: WireClient, session: TSessionHandle, user: str, chance: random.Random
    ) -> None:
        self.sent += 1
        name = f"{user}-{self.sent}-{chance.getrandbits(64):x}"
        kind = chance.choices(("quick", "slow", "forbidden"), (7, 2, 1))[0]
        if kind == "forbidden":
            try:
                client.execute(session, f"SELECT '{kind}-{name}' FROM closed.room")
            except StatusError:
                return
            self.not_refused.append(name)
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


@pytest.fixture
def recording_spark(session_loop: LoopThread) -> Iterator[RecordingSpark]:
    server = RecordingSpark()
    session_loop.run(server.start())
    yield server
    session_loop.run(server.stop())


@pytest.fixture
def hunted(recording_spark: RecordingSpark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway before the recording Spark, with a PostgreSQL of its own."""
    directory = open_directory / "hunted"
    directory.mkdir()
    directory.chmod(0o711)
    for i in range(CLIENTS):
        set_user(directory / "users.yaml", f"client{i}", password=PASSWORD)
    (directory / "pack.yaml").write_text(PACK)
    settings = {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": recording_spark.host, "port": recording_spark.port}},
        "policies": {"paths": ["pack.yaml"]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    (directory / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(directory / "gateway.yaml").start()
    yield running
    assert running.stop() == 0


class Hunter:
    """Kills one of three processes, and starts the gateway again when that was the one."""

    def __init__(self, gateway: RunningGateway, spark: RecordingSpark, postgres: EmbeddedPostgres) -> None:
        self._gateway = gateway
        self._spark = spark
        self._postgres = postgres

    def kill(self, victim: str) -> None:
        if victim == "gateway":
            until(lambda: self._spark.running_slowly > 0, "a statement under way", 300)
            assert self._gateway.stop(signal.SIGKILL) == -signal.SIGKILL
            self._gateway.start()
            return
        find = self._reader if victim == "reader" else self._postmaster
        until(lambda: find() is not None, f"a {victim} to kill", 300)
        pid = find()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: find() not in (None, pid), f"another {victim}", 300)

    def _postmaster(self) -> int | None:
        return self._postgres.pid

    def _reader(self) -> int | None:
        children = psutil.Process(self._gateway.pid).children()
        return next((c.pid for c in children if "sluice.ReaderMain" in command_of(c)), None)


def command_of(process: psutil.Process) -> list[str]:
    """Return its command line; nothing when it has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


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


@pytest.mark.timeout(1800)
def test_ten_kills_leave_the_record_whole(
    hunted: RunningGateway, recording_spark: RecordingSpark, session_loop: LoopThread
) -> None:
    chance = random.Random(SEED)
    order = chance.sample(VICTIMS, len(VICTIMS))
    postgres = EmbeddedPostgres(hunted.config.parent / "postgres")
    hunter = Hunter(hunted, recording_spark, postgres)
    load = Load(hunted)

    def received_more(than: int, by: int) -> bool:
        return len(recording_spark.received()) >= than + by

    try:
        for victim in order:
            before, by = len(recording_spark.received()), chance.randint(5, 60)
            until(lambda b=before, m=by: received_more(b, m), "work between two kills", 300)  # type: ignore[misc]
            hunter.kill(victim)
        before = len(recording_spark.received())
        until(lambda: received_more(before, 20), "work after the last kill", 300)
    finally:
        load.stop()

    def ask(query: str) -> list[Any]:
        work: Coroutine[Any, Any, list[Any]] = rows_of(postgres.dsn, query)
        return session_loop.run(work)

    until(lambda: nothing_waits(hunted) and open_statements(ask) == 0, "everything in PostgreSQL", 300)
    received, events = recording_spark.received(), ask(EVENTS)
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
