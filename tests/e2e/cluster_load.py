"""Clients of a cluster that is being killed, and what the record has to say of their statements."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import asyncpg

from gateway.wire.tcli import TSessionHandle
from tests.e2e.cluster import HOST, PASSWORD, NewSessions
from tests.e2e.running import RunningGateway
from tests.e2e.wire_client import StatusError, WireClient
from tests.speed import patience

T = TypeVar("T")

CLIENTS = 4
PAUSE_S = 0.1
"""Seconds between two statements of one: a slow machine is not to do more work than a fast one."""
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
                        self._over.wait(PAUSE_S)
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


def find_record_faults(events: Sequence[Any], answered: Iterable[str]) -> list[str]:
    """Return what is in the record twice, or not at all: each event stands there once, what was cleared has
    one end, and what was answered was decided."""
    decided = [e for e in events if e["kind"] == "decided"]
    cleared = Counter(e["id"] for e in decided if e["verdict"] == "cleared")
    ends = Counter(e["id"] for e in events if e["kind"] in ("completed", "abandoned"))
    faults = [f"event {one} twice" for one in repeated(e["event_id"] for e in events)]
    faults += [f"statement {one} decided twice" for one in repeated(e["id"] for e in decided)]
    faults += [f"{one} decided twice" for one in repeated(e["statement"] for e in decided)]
    faults += [f"statement {one} has {ends[one]} ends" for one in cleared | ends if cleared[one] != ends[one]]
    texts = {e["statement"] for e in decided}
    return faults + [f"{one} is not recorded" for one in answered if f"SELECT '{one}'" not in texts]


def repeated(items: Iterable[T]) -> list[T]:
    return [item for item, count in Counter(items).items() if count > 1]
