"""Whatever clients, Spark and the disk do at the same time: one end for every decision, nothing left over."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

import pytest

from gateway.errors import SluiceError
from gateway.model.catalog import TableName
from gateway.model.statement import (
    AnswerFilter,
    AnswerRule,
    CatalogChanged,
    CreateTempView,
    DropTempView,
    UseNamespace,
)
from gateway.session.identifiers import Handle
from gateway.session.limits import SessionLimits
from gateway.session.metadata import Patterns
from tests.session.fakes import ALICE, BOB, CLIENT, Sink, World
from tests.speed import patience

TEXTS = [
    "SELECT 1",
    "SLOW SELECT",
    "SELECT bad",
    "SELECT * FROM v",
    "SLOW SELECT * FROM v",
    "SLOW SELECT * FROM w",
    "SELECT secret",
    "SHOW DATABASES",
    "USE hr",
    "SLOW USE x",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE TEMP VIEW w AS SELECT * FROM v",
    "DROP VIEW v",
    "DROP VIEW w",
    "CREATE TABLE t AS SELECT 1",
]


VIEW_TEXTS = [
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE TEMP VIEW w AS SELECT * FROM v",
    "DROP VIEW v",
    "DROP VIEW v",
    "DROP VIEW w",
    "SLOW SELECT * FROM v",
    "SELECT * FROM w",
    "SLOW SELECT * FROM w",
]


class Storm:
    """Clients of two users on shared sessions, with a Spark and a disk that misbehave."""

    def __init__(self, seed: int, *, one_session: bool = False) -> None:
        self.random = random.Random(seed)
        self.one_session = one_session
        self.texts = VIEW_TEXTS if one_session else TEXTS
        self.world = World(
            # This Spark stops what it is told to stop.
            SessionLimits(settle_timeout_s=0.05, close_timeout_s=0.2, operations_per_session=6, stopped_s=0)
        )
        world = self.world
        world.backend.slow = "SLOW|VIEW"
        world.backend.coin = lambda: self.random.random() < 0.5
        world.backend.fail["SELECT bad"] = ("[X] no", "42000")
        world.judge.refused = "secret"
        world.judge.rules["SHOW DATABASES"] = AnswerRule(
            filter=AnswerFilter.DATABASES, catalog="spark_catalog"
        )
        world.backend.answers["SHOW DATABASES"] = [("default",)]
        world.judge.effects = [
            ("USE", (UseNamespace(None, ("hr",)),)),
            ("CREATE TEMP VIEW v", (CreateTempView("v"),)),
            ("CREATE TEMP VIEW w", (CreateTempView("w"),)),
            ("DROP VIEW.*v", (DropTempView("v"),)),
            ("DROP VIEW.*w", (DropTempView("w"),)),
            ("CREATE TABLE", (CatalogChanged((TableName("spark_catalog", "default", "t"),)),)),
        ]
        self.sessions: list[Handle] = []
        self.operations: list[Handle] = []

    async def client(self) -> None:
        for _ in range(12):
            with contextlib.suppress(SluiceError):
                await self.step()
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)

    async def step(self) -> None:
        choose, service = self.random, self.world.sessions
        who = choose.choice([BOB, BOB, BOB, ALICE])
        session = choose.choice(self.sessions) if self.sessions else None
        operation = choose.choice(self.operations) if self.operations else None
        action = choose.randrange(14)
        if self.one_session and session is not None:
            # Everybody on one session, and nobody closes it: names change under everybody's feet.
            action = choose.choice([1, 1, 1, 1, 6, 9, 13])
        if session is None or action == 0:
            self.sessions.append(await service.open_session(BOB, CLIENT, protocol_version=9))
        elif action < 6 or operation is None:
            run_async = choose.random() < 0.6
            opened = await service.execute(who, session, choose.choice(self.texts), run_async=run_async)
            self.operations.append(opened.handle)
        elif action == 6:
            await service.status(who, operation)
        elif action == 7:
            await service.fetch(who, operation, orientation=0, max_rows=5, fetch_type=0, seqid=1, sink=Sink())
        elif action == 8:
            await service.cancel(who, operation)
        elif action == 9:
            await service.close_operation(who, operation)
        elif action == 10:
            await service.close_disconnected([session])
        elif action == 11:
            opened = await service.metadata(who, session, 4, "GetTables", Patterns())
            self.operations.append(opened.handle)
        elif action == 12:
            await service.close_session(who, session)
        else:
            self.misbehave()

    async def spark(self) -> None:
        """End what runs, one after the other: a synchronous client waits for it."""
        while True:
            await asyncio.sleep(0.005)
            self.end_something()

    def end_something(self) -> None:
        sessions = self.world.backend.sessions
        running = [o for session in sessions for o in session.operations if not o.ended.is_set()]
        if running:
            self.random.choice(running).end(state=self.random.choice([2, 2, 3, 5, 8]))

    def misbehave(self) -> None:
        world = self.world
        match 1 if self.one_session else self.random.randrange(5):
            case 0:
                world.ledger.down = not world.ledger.down
            case 1:
                world.new_policies()
                world.judge.mark = self.random.choice(["", " /* mask */"])
            case 2:
                world.now += 4000
            case 3:
                self.end_something()
            case 4:
                everything = [o for s in world.backend.sessions for o in s.operations]
                if everything:
                    self.random.choice(everything).lost = True


@pytest.mark.parametrize("seed", range(60))
async def test_one_end_for_every_decision_and_nothing_left_over(seed: int) -> None:
    await rage(Storm(seed))


@pytest.mark.parametrize("seed", range(60))
async def test_no_name_strays_when_everybody_changes_views_of_one_session(seed: int) -> None:
    await rage(Storm(seed, one_session=True))


async def rage(storm: Storm) -> None:
    world = storm.world
    spark = asyncio.create_task(storm.spark())
    async with asyncio.timeout(patience()):
        await asyncio.gather(*(storm.client() for _ in range(6)), world.sessions.expire())
        await world.sessions.close()
    spark.cancel()
    cleared = [e.statement_id for e in world.ledger.of("decided") if e.body["verdict"] == "cleared"]
    ended = Counter(e.statement_id for e in world.ledger.of("completed"))
    assert ended == Counter(cleared)
    statements = [e for e in world.ledger.of("decided") if e.body.get("forwarded")]
    forwarded = Counter(world.backend.received)
    recorded = Counter(e.body["forwarded"] for e in statements)
    assert forwarded <= recorded
    not_forwarded = [e for e in world.ledger.of("completed") if e.body["outcome"] == "not_forwarded"]
    assert recorded.total() - forwarded.total() == len(not_forwarded)
    # INVARIANT (names are judged as Spark will resolve them), whenever Spark gets round to it.
    assert world.backend.strayed == []
    assert len(world.sessions) == 0
    assert world.sessions._operations == {}
    assert not world.sessions._registry.per_user
    assert all(session.closed for session in world.backend.sessions)
