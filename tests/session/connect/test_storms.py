"""Whatever clients, Spark and the disk do at the same time: one end for every decision, no name astray."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gateway.errors import BackendUnavailable, RpcError, SluiceError
from gateway.model.statement import Cleared, CreateTempView, DropTempView, SessionEffect, UseNamespace
from gateway.session.limits import SessionLimits
from gateway.session.ports import Envelope
from gateway.wire.connect import pb, serialize
from tests.session.connect.fakes import (
    ALICE,
    BOB,
    CLIENT,
    OTHER_SESSION,
    SESSION,
    Spark,
    World,
    cached,
    checkpoint,
    execute_request,
    fault,
    progress,
    rows,
    schema,
    sql,
    sql_rows,
    table,
    uid,
    view,
    words_of,
)
from tests.session.connect.test_calls import config, messages, upload
from tests.session.fakes import until
from tests.speed import patience

EFFECTS: list[tuple[str, tuple[SessionEffect, ...]]] = [
    ("USE", (UseNamespace(None, ("hr",)),)),
    ("DROP VIEW.*v", (DropTempView("v"),)),
    ("DROP VIEW.*w", (DropTempView("w"),)),
    ("VIEW v", (CreateTempView("v"),)),
    ("VIEW w", (CreateTempView("w"),)),
]


def analysis() -> bytes:
    request = pb.AnalyzePlanRequest(session_id=SESSION)
    request.schema.plan.CopyFrom(table("t"))
    return serialize(request)


async def drain(stream: AsyncIterator[bytes]) -> None:
    async for _ in stream:
        pass


Act = Callable[[World], Awaitable[Any]]

ACTS: dict[str, Act] = {
    "relayed": lambda w: drain(w.service.execute(BOB, CLIENT, execute_request(table("t")))),
    "relayed once": lambda w: drain(
        w.service.execute(BOB, CLIENT, execute_request(table("t"), reattachable=False))
    ),
    "held": lambda w: drain(w.service.execute(BOB, CLIENT, execute_request(sql("SHOW TABLES")))),
    "held once": lambda w: drain(
        w.service.execute(BOB, CLIENT, execute_request(sql("SHOW TABLES"), reattachable=False))
    ),
    "names": lambda w: drain(w.service.execute(BOB, CLIENT, execute_request(view("w", "t")))),
    "analysis": lambda w: w.service.analyze(BOB, CLIENT, analysis()),
    "upload": lambda w: w.service.add_artifacts(
        BOB, CLIENT, messages([upload("pyfiles/a.py"), upload("pyfiles/b.py")])
    ),
    "config": lambda w: w.call("Config", operation=config("set", "spark.sql.shuffle.partitions")),
    "clone": lambda w: w.call("CloneSession", new_session_id=OTHER_SESSION),
    "release": lambda w: w.call("ReleaseSession"),
}


@pytest.mark.parametrize("renewal", [False, True])
@pytest.mark.parametrize("act", ACTS)
async def test_a_client_that_goes_at_any_moment_leaves_one_end_for_each_decision(
    act: str, renewal: bool
) -> None:
    for steps in range(40):
        world = World(SessionLimits(detached_s=50, session_idle_s=100, close_timeout_s=patience(5)))
        world.judge.effects = EFFECTS
        if renewal:
            await world.run(view("v", "t"))
            world.new_policies(mark="mask")
        task = asyncio.ensure_future(ACTS[act](world))
        for _ in range(steps):
            await asyncio.sleep(0)
        done = task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # Others go on as if nothing had been.
        if act != "release":
            await world.run(table("u"))
            await world.run(sql("USE hr"))
            assert world.session().context.namespace == ("hr",)
        world.now += 1000
        await world.service.expire()
        world.now += 1000
        await world.service.expire()
        await world.service.close()
        assert len(world.service) == 0
        assert not world.service._registry.per_user
        assert not world.service._endings._tasks
        # A decision of which the client did not wait for the record may have no end; the ledger closes it.
        cleared = [e.statement_id for e in world.ledger.of("decided") if e.body["verdict"] == "cleared"]
        ended = Counter(e.statement_id for e in world.ledger.of("completed"))
        assert set(ended) <= set(cleared)
        assert set(ended.values()) <= {1}
        forwarded = world.order.count("forwarded")
        assert len(ended) >= forwarded
        if done:
            return
    raise AssertionError("it never ended")


class Resolving(Spark):
    """Looks names up, sooner or later, and notes where one would miss its view."""

    def __init__(self, order: list[str], chance: random.Random) -> None:
        super().__init__(order)
        self.chance = chance
        self.views: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
        self.strayed: list[str] = []

    async def execute(self, cleared: Cleared, envelope: Envelope) -> AsyncGenerator[bytes, None]:
        key = (envelope.user, envelope.session_id)
        views = self.views.setdefault(key, {})
        text = words_of(cleared.statement)
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(0)
        halfway = self.chance.random() < 0.5
        done = False
        try:
            resolved = False
            async for data in super().execute(cleared, envelope):
                # The first response is the last moment at which it may look up names.
                if not resolved and not all(self._resolves(views, n) for n in cleared.temp_views_read):
                    self.strayed.append(text)
                resolved = True
                yield data
            done = True
        except RpcError as error:
            # What Spark says has failed has made and dropped nothing; what it was stopped in may have.
            halfway = halfway and "OPERATION_CANCELED" in error.message
            raise
        finally:
            if done or halfway:
                for effect in cleared.effects:
                    if isinstance(effect, CreateTempView):
                        # Of a DataFrame's view Spark keeps what it read within it.
                        views[effect.name] = frozenset() if " OF " in text else cleared.temp_views_read
                    elif isinstance(effect, DropTempView):
                        views.pop(effect.name, None)

    def _resolves(self, views: dict[str, frozenset[str]], name: str) -> bool:
        return name in views and all(self._resolves(views, other) for other in views[name])


class Storm:
    """Clients of two users on shared sessions, with a Spark and a disk that misbehave."""

    def __init__(self, seed: int, *, one_session: bool = False) -> None:
        self.random = random.Random(seed)
        self.one_session = one_session
        spark = Resolving([], self.random)
        self.world = World(
            SessionLimits(
                settle_timeout_s=0.05,
                close_timeout_s=0.2,
                operations_per_session=8,
                detached_s=50,
                stream_s=0.02,
            ),
            spark=spark,
        )
        self.spark = spark
        self.world.judge.effects = EFFECTS
        self.world.judge.refused = "secret"
        self.holds: list[asyncio.Event] = []
        self.operations: list[tuple[str, str]] = []
        self.relations: list[str] = []
        spark.scripts = [
            ("SLOW|TABLE [vw]", lambda: [self.hold(), schema(), rows(1), self.hold(), rows(1)]),
            ("INSERT", lambda: [progress(), self.hold(), sql_rows()]),
            ("BAD", lambda: [fault("[X] no")]),
            ("USE|VIEW", lambda: [self.hold(), *self.ends()]),
        ]

    def hold(self) -> asyncio.Event:
        event = asyncio.Event()
        if self.random.random() < 0.3:
            event.set()
        self.holds.append(event)
        return event

    def ends(self) -> list[Any]:
        if self.one_session:
            return self.random.choice([[], [], [], [fault("[X] no")]])
        return self.random.choice(
            [[], [], [], [fault("[X] no")], [BackendUnavailable("away")], [fault("[OPERATION_CANCELED] x")]]
        )

    def plan(self) -> Any:
        if self.one_session:
            return self.random.choice(
                [
                    view("v", "t"),
                    view("v", "t"),
                    view("w", "v"),
                    sql("CREATE VIEW w AS FROM v"),
                    table("v"),
                    table("v"),
                    table("w"),
                    sql("DROP VIEW v"),
                    sql("DROP VIEW w"),
                ]
            )
        choices: list[Any] = [
            table("t"),
            table("v"),
            table("w"),
            table("SLOW"),
            table("secret"),
            table("BAD"),
            sql("USE hr"),
            sql("INSERT"),
            sql("SHOW TABLES"),
            sql("DROP VIEW v"),
            sql("DROP VIEW w"),
            view("v", "t"),
            view("w", "v"),
            sql("CREATE VIEW w AS FROM v"),
            checkpoint(table("v")),
        ]
        if self.relations:
            choices.append(cached(self.random.choice(self.relations)))
        return self.random.choice(choices)

    async def client(self) -> None:
        for _ in range(14):
            task = asyncio.create_task(self.step())
            for _ in range(self.random.randrange(60)):
                await asyncio.sleep(0)
            if self.random.random() < (0.1 if self.one_session else 0.3):
                task.cancel()
            with contextlib.suppress(SluiceError, RpcError, asyncio.CancelledError, StopAsyncIteration):
                await task

    async def step(self) -> None:
        world, chance = self.world, self.random
        who = chance.choice([BOB, BOB, BOB, ALICE])
        session = chance.choice([SESSION, SESSION, OTHER_SESSION])
        action = chance.randrange(14)
        if self.one_session:
            # Everybody on one session, and nobody ends it: names change under everybody's feet.
            who, session, action = BOB, SESSION, chance.choice([1, 1, 1, 1, 1, 1, 7, 8, 13])
        if action < 7 or not self.operations:
            operation = uid()
            self.operations.append((operation, session))
            responses = await world.run(
                self.plan(),
                who,
                session=session,
                operation=operation,
                reattachable=chance.random() < 0.7,
            )
            self.relations += [
                r.checkpoint_command_result.relation.relation_id
                for r in responses
                if r.HasField("checkpoint_command_result")
            ]
            return
        operation, session = chance.choice(self.operations)
        match action:
            case 7:
                await world.reattach(operation, principal=who, session=session)
            case 8:
                await world.release(operation, principal=who)
            case 9:
                kind = pb.InterruptRequest.INTERRUPT_TYPE_ALL
                await world.call("Interrupt", who, session=session, interrupt_type=kind)
            case 10:
                await world.service.analyze(who, CLIENT, analysis())
            case 11:
                await world.call("CloneSession", who, session=session)
            case 12 if chance.random() < 0.3:
                await world.call("ReleaseSession", who, session=session, allow_reconnect=True)
                self.spark.views.pop((who.user, session), None)
            case _:
                self.misbehave()

    def misbehave(self) -> None:
        world = self.world
        match self.random.randrange(4):
            case 0 if not self.one_session:
                world.ledger.down = not world.ledger.down
            case 1:
                world.new_policies(mark=self.random.choice(["", "mask"]))
            case 2:
                world.now += 60
            case _:
                self.go_on()

    def go_on(self) -> None:
        for event in self.holds:
            if self.random.random() < 0.5:
                event.set()

    async def time(self) -> None:
        while True:
            await asyncio.sleep(0.002)
            self.go_on()
            await self.world.service.expire()


@pytest.mark.parametrize("seed", range(40))
async def test_one_end_for_every_decision_and_no_name_astray(seed: int) -> None:
    await rage(Storm(seed))


@pytest.mark.parametrize("seed", range(40))
async def test_no_name_strays_when_everybody_changes_views_of_one_session(seed: int) -> None:
    await rage(Storm(seed, one_session=True))


async def rage(storm: Storm) -> None:
    world = storm.world
    passing = asyncio.create_task(storm.time())
    async with asyncio.timeout(patience()):
        await asyncio.gather(*(storm.client() for _ in range(6)))
        for event in storm.holds:
            event.set()
        await world.service.close()
    passing.cancel()
    await until(lambda: not world.service._endings._tasks)
    cleared = {e.statement_id for e in world.ledger.of("decided") if e.body["verdict"] == "cleared"}
    ended = Counter(e.statement_id for e in world.ledger.of("completed"))
    assert set(ended) <= cleared
    assert set(ended.values()) <= {1}
    # INVARIANT (audit first): nothing was forwarded of which there was no record.
    assert world.order.count("forwarded") <= len(cleared)
    # INVARIANT (names are judged as Spark will resolve them), whenever Spark gets round to it.
    assert storm.spark.strayed == []
    assert len(world.service) == 0
    assert not world.service._registry.per_user
