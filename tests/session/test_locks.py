"""Names that statements hold: who waits for whom, how long, and what becomes of those who are overtaken."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.handles import SparkHandle
from gateway.model.statement import (
    CatalogChanged,
    Cleared,
    Client,
    CreateTempView,
    RegisterCode,
    SessionContext,
    SessionEffect,
    Statement,
    Verdict,
)
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.identifiers import Handle
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks, HeldLocks, LockRequest
from gateway.session.ports import BackendError
from gateway.wire.connect import pb, serialize
from tests.session.connect import fakes as connect
from tests.session.fakes import ALICE, BOB, CLIENT, FakeCatalog, FakeOperation, Sink, World, until
from tests.speed import patience

T, U = TableName("spark_catalog", "hr", "t"), TableName("spark_catalog", "hr", "u")
CHANGED = (CatalogChanged((T,)),)
LIMITS = SessionLimits(
    settle_timeout_s=patience(60),
    close_timeout_s=patience(60),
    catalog_wait_s=0.05,
    overtake_s=1000,
    unsettled_s=1000,
)


def patient(**limits: float) -> SessionLimits:
    """Return limits under which nobody gives up within a test, but for what is given."""
    bounds: dict[str, Any] = {"settle_timeout_s": 60, "catalog_wait_s": 600, "overtake_s": 1000, **limits}
    return SessionLimits(**bounds)


def world_of(limits: SessionLimits, locks: CatalogLocks | None = None) -> World:
    world = World(limits, locks=locks)
    world.backend.slow = "SLOW"
    world.judge.names = [(r"\bt\b", frozenset({T})), (r"\bu\b", frozenset({U}))]
    effects: list[tuple[str, tuple[SessionEffect, ...]]] = [("CHANGE t", CHANGED)]
    world.judge.effects = effects
    return world


async def opened(world: World, principal: object = BOB) -> Handle:
    who = ALICE if principal is ALICE else BOB
    return await world.sessions.open_session(who, CLIENT, protocol_version=9)


def running(world: World) -> FakeOperation:
    """Return the one operation that Spark has not ended."""
    (one,) = [o for session in world.backend.sessions for o in session.operations if not o.ended.is_set()]
    return one


async def read(world: World, handle: Handle) -> bytes:
    sink = Sink()
    await world.sessions.fetch(BOB, handle, orientation=0, max_rows=9, fetch_type=0, seqid=1, sink=sink)
    return sink.data


# -- the locks themselves ------------------------------------------------------------------------------------


def test_who_drops_a_namespace_waits_for_those_who_read_in_what_lies_in_it() -> None:
    def request(*names: TableName, database: str = "") -> LockRequest:
        dropped = (CatalogChanged(databases=(("lake", database),)),) if database else ()
        statement = Statement(text="", principal=BOB, context=SessionContext())
        cleared = Cleared(
            statement=statement,
            forwarded="",
            plan_class="",
            decisions=(),
            scans=(),
            effects=dropped,
            snapshot_version="",
            read_only=not dropped,
        )
        return LockRequest.of(cleared, names)

    read = request(TableName("lake", "a.b.c", "t"))
    assert {("lake", "a"), ("lake", "a.b"), ("lake", "a.b.c")} < read.shared
    for database in ("a", "a.b", "a.b.c", "A.B"):
        assert request(database=database).exclusive & read.shared
    assert not request(database="b").exclusive & read.shared
    assert request(database="a").exclusive & request(database="a.b").shared


def key(table: str) -> tuple[str, ...]:
    return ("c", "one" if table in "ab" else "two", table)


def random_request(chance: random.Random) -> LockRequest:
    tables = chance.sample("abcd", chance.randrange(1, 4))
    shared = {key(table) for table in tables}
    exclusive = {key(table) for table in tables if chance.random() < 0.3}
    if chance.random() < 0.1:
        exclusive.add(("c", chance.choice(["one", "two"])))
    within = {one[:2] for one in shared | exclusive}
    read_only = not exclusive and chance.random() < 0.6
    return LockRequest(
        shared=frozenset(shared | within) - exclusive, exclusive=frozenset(exclusive), read_only=read_only
    )


def conflict(one: LockRequest, other: LockRequest) -> bool:
    return not (
        one.exclusive.isdisjoint(other.exclusive | other.shared) and one.shared.isdisjoint(other.exclusive)
    )


@pytest.mark.parametrize("seed", range(8))
async def test_nobody_changes_what_another_holds_and_everybody_gets_a_turn(seed: int) -> None:
    chance = random.Random(seed)
    locks = CatalogLocks(FakeCatalog(), SessionLimits(overtake_s=0.001))
    holding: set[HeldLocks] = set()
    overtaken = 0

    async def client() -> None:
        nonlocal overtaken
        for _ in range(30):
            request = random_request(chance)
            hold = await locks.acquire(request, until=asyncio.get_running_loop().time() + 100)
            assert hold is not None
            for other in holding:
                if not other.overtaken:
                    assert not conflict(request, other.request)
                else:
                    assert other.request.read_only
            holding.add(hold)
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)
            holding.remove(hold)
            overtaken += hold.overtaken
            hold.release()

    async with asyncio.timeout(patience()):
        await asyncio.gather(*(client() for _ in range(8)))
    assert not any([locks._holds, locks._queue])
    assert not any([*vars(locks._held).values(), *vars(locks._waiting).values()])


async def test_who_has_hundreds_wait_for_names_of_his_own_holds_up_nobody_else() -> None:
    """A user opens sessions as many as may be, and has each wait for a table that he writes for hours."""
    locks = CatalogLocks(FakeCatalog(), patient())
    never = asyncio.get_running_loop().time() + 600
    for number in range(1000):
        others = LockRequest(shared=frozenset({key("c"), ("c", "two", f"t{number}")}), read_only=True)
        assert await locks.acquire(others, until=never)
    own = LockRequest(exclusive=frozenset({("c", "mine", "t")}), shared=frozenset({("c", "mine")}))
    assert await locks.acquire(own, until=never)
    began = time.process_time()
    waiting = [asyncio.create_task(locks.acquire(own, until=never)) for _ in range(400)]
    for _ in range(2000):
        hold = await locks.acquire(LockRequest(shared=frozenset({key("c")}), read_only=True), until=never)
        assert hold is not None
        hold.release()
        await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    # Comparing each of those who wait with each who holds takes minutes.
    assert time.process_time() - began < 10
    assert not locks._queue


async def test_a_read_passes_a_change_that_waits_for_a_write_and_none_that_waits_for_reads() -> None:
    locks = CatalogLocks(FakeCatalog(), patient())
    never = asyncio.get_running_loop().time() + 600
    reads = LockRequest(shared=frozenset({key("a")}), read_only=True)
    writes = LockRequest(shared=frozenset({key("a")}))
    change = LockRequest(exclusive=frozenset({key("a")}))
    write = await locks.acquire(writes, until=never)
    assert write is not None
    changing = asyncio.create_task(locks.acquire(change, until=never))
    await asyncio.sleep(0)
    first = await locks.acquire(reads, until=never)
    assert first is not None
    behind = asyncio.create_task(locks.acquire(writes, until=never))
    write.release()
    late = asyncio.create_task(locks.acquire(reads, until=never))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(task.done() for task in (changing, late, behind))
    first.release()
    hold = await changing
    assert hold is not None
    assert not late.done()
    hold.release()
    assert await late is not None
    assert await behind is not None


async def test_whoever_gives_up_waiting_holds_nothing() -> None:
    locks = CatalogLocks(FakeCatalog(), patient())
    loop = asyncio.get_running_loop()
    change = LockRequest(exclusive=frozenset({key("a")}))
    first = await locks.acquire(change, until=loop.time() + 600)
    assert first is not None
    assert await locks.acquire(change, until=loop.time()) is None
    waiting = asyncio.create_task(locks.acquire(change, until=loop.time() + 600))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    first.release()
    again = await locks.acquire(change, until=loop.time())
    assert again is not None


# -- through the endpoints ----------------------------------------------------------------------------------


async def test_a_read_waits_for_a_change_that_nobody_polls() -> None:
    world = world_of(patient())
    maker, reader = await opened(world), await opened(world)
    await world.sessions.execute(BOB, maker, "SLOW CHANGE t", run_async=True)
    change = running(world)
    reading = asyncio.create_task(world.sessions.execute(BOB, reader, "SELECT t", run_async=False))
    await until(lambda: change.polls > 3)
    assert "SELECT t" not in world.backend.received
    world.catalog.snapshot = await world.catalog.look_up([T])  # another version than it was judged by
    change.end()
    await reading
    texts = [statement.text for statement in world.judge.judged]
    assert texts.count("SELECT t") == 2, "it was judged again when the change had ended"


async def test_a_read_is_refused_when_a_change_does_not_end() -> None:
    world = world_of(LIMITS)
    maker, reader = await opened(world), await opened(world)
    await world.sessions.execute(BOB, maker, "SLOW CHANGE t", run_async=True)
    with pytest.raises(StatementRefused) as raised:
        await world.sessions.execute(BOB, reader, "SELECT t", run_async=False)
    assert (raised.value.code, raised.value.sqlstate) == ("CATALOG_BUSY", "55P03")
    assert "`t`" not in raised.value.text
    assert "spark_catalog" not in raised.value.text, "it may be a name that only a policy knows"
    await world.sessions.execute(BOB, reader, "SELECT u", run_async=False)
    assert [e.body["verdict"] for e in world.ledger.of("decided")][-2:] == ["refused", "cleared"]


@pytest.mark.parametrize("text", ["SLOW INSERT t", "SLOW CHANGE t"])
async def test_a_change_waits_for_what_has_effects_and_never_overtakes_it(text: str) -> None:
    world = world_of(patient(catalog_wait_s=0.05, overtake_s=0))
    writer, maker = await opened(world), await opened(world)
    handle = (await world.sessions.execute(BOB, writer, text, run_async=True)).handle
    write = running(world)
    with pytest.raises(StatementRefused, match="still use"):
        await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    write.end()
    assert (await world.sessions.status(BOB, handle)).state == 2
    await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)


@pytest.mark.parametrize("how", ["status", "fetch", "schema"])
async def test_what_an_overtaken_read_answers_is_not_shown(how: str) -> None:
    world = world_of(patient(overtake_s=0))
    world.backend.relay_rows = relayed  # type: ignore[assignment]
    reader, maker = await opened(world), await opened(world)
    handle = (await world.sessions.execute(BOB, reader, "SLOW SELECT t", run_async=True)).handle
    reading = running(world)
    await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    if how != "schema":
        reading.end()
    if how == "status":
        report = await world.sessions.status(BOB, handle)
        assert report.state == 5
        assert report.error is not None
        assert (report.error.sqlstate, report.error.code) == ("40001", "STATEMENT_FAILED")
    with pytest.raises(StatementFailed, match="CATALOG_CHANGED"):
        await (world.sessions.schema(BOB, handle) if how == "schema" else read(world, handle))
    reading.end()
    await world.sessions.status(BOB, handle)
    assert world.ledger.outcomes()[-1] == "failed"


async def relayed(rows: object, seqid: int, sink: Sink) -> object:
    from gateway.session.ports import RelayedFrame

    sink.write(b"rows")
    return RelayedFrame(bytes=4, rows=1, status=0)


async def test_rows_of_a_read_that_nobody_polled_are_shown_when_nothing_changed() -> None:
    world = world_of(patient())
    world.backend.relay_rows = relayed  # type: ignore[assignment]
    reader = await opened(world)
    handle = (await world.sessions.execute(BOB, reader, "SLOW SELECT t", run_async=True)).handle
    running(world).end()
    assert await read(world, handle) == b"rows"


async def stop(world: World, session: Handle, handle: Handle) -> None:
    await world.sessions.cancel(BOB, handle)


async def leave(world: World, session: Handle, handle: Handle) -> None:
    await world.sessions.close_disconnected([session])


async def close(world: World, session: Handle, handle: Handle) -> None:
    await world.sessions.close_operation(BOB, handle)


async def forget(world: World, session: Handle, handle: Handle) -> None:
    async def status(get_progress: bool = False) -> None:
        raise BackendError("Invalid OperationHandle", "HY000")

    running(world).status = status  # type: ignore[assignment, method-assign]
    await world.sessions.status(BOB, handle)


@pytest.mark.parametrize("end", [stop, leave, close, forget])
async def test_what_was_stopped_half_way_may_still_be_at_work(end: Callable[..., object]) -> None:
    limits = patient(catalog_wait_s=0.05, stopped_s=1000, unsettled_s=1000)
    world = world_of(limits)
    maker, reader = await opened(world), await opened(world)
    handle = (await world.sessions.execute(BOB, maker, "SLOW CHANGE t", run_async=True)).handle
    await end(world, maker, handle)  # type: ignore[misc]
    with pytest.raises(StatementRefused, match="is changing a table or view"):
        await world.sessions.execute(BOB, reader, "SELECT t", run_async=False)
    (hold,) = world.locks._holds
    hold.release()
    await world.sessions.execute(BOB, reader, "SELECT t", run_async=False)


async def test_what_was_stopped_is_let_go_after_a_while() -> None:
    world = world_of(patient(stopped_s=0.01))
    maker, reader = await opened(world), await opened(world)
    handle = (await world.sessions.execute(BOB, maker, "SLOW CHANGE t", run_async=True)).handle
    await world.sessions.cancel(BOB, handle)
    await world.sessions.execute(BOB, reader, "SELECT t", run_async=False)
    assert len(world.catalog.invalidated) == 3, "before, when it was stopped, and when it was let go"


async def test_a_statement_may_change_what_it_reads_and_a_failed_audit_lets_go() -> None:
    world = world_of(patient())
    maker = await opened(world)
    await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    world.ledger.down = True
    with pytest.raises(Exception, match="disk is full"):
        await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    world.ledger.down = False
    await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    assert not world.locks._holds


async def test_what_temporary_views_read_is_held_too() -> None:
    world = world_of(patient(catalog_wait_s=0.05))
    world.judge.effects.insert(0, ("CREATE TEMP VIEW v", (CreateTempView("v"),)))
    world.judge.reads = {"SLOW INSERT FROM v": frozenset({"v"})}
    reader, maker = await opened(world), await opened(world)
    await world.sessions.execute(BOB, reader, "CREATE TEMP VIEW v OVER t", run_async=False)
    handle = (await world.sessions.execute(BOB, reader, "SLOW INSERT FROM v", run_async=True)).handle
    write = running(world)
    with pytest.raises(StatementRefused, match="still use"):
        await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    write.end()
    await world.sessions.status(BOB, handle)
    await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)


async def test_what_temporary_functions_read_is_held_too() -> None:
    world = world_of(patient(catalog_wait_s=0.05))
    made = RegisterCode(SparkHandle("function", "f"), reads=True)
    world.judge.effects.insert(0, ("CREATE TEMPORARY FUNCTION f", (made,)))
    caller, maker = await opened(world), await opened(world)
    await world.sessions.execute(BOB, caller, "CREATE TEMPORARY FUNCTION f OVER t", run_async=False)
    handle = (await world.sessions.execute(BOB, caller, "SLOW INSERT f()", run_async=True)).handle
    write = running(world)
    with pytest.raises(StatementRefused, match="still use"):
        await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    write.end()
    await world.sessions.status(BOB, handle)
    await world.sessions.execute(BOB, maker, "CHANGE t", run_async=False)


async def test_what_has_waited_is_judged_by_the_policies_of_now() -> None:
    world = world_of(patient())
    writer, maker = await opened(world), await opened(world)
    writing = (await world.sessions.execute(BOB, writer, "SLOW INSERT t", run_async=True)).handle
    write = running(world)
    changing = asyncio.create_task(world.sessions.execute(BOB, maker, "CHANGE t", run_async=False))
    await until(lambda: bool(world.locks._queue))
    world.new_policies()
    world.judge.refused = "CHANGE"
    write.end()
    await world.sessions.status(BOB, writing)
    with pytest.raises(StatementRefused):
        await changing
    assert "CHANGE t" not in world.backend.received


async def test_a_change_of_names_that_has_waited_is_judged_by_the_policies_of_now() -> None:
    world = world_of(patient())
    world.judge.effects.insert(0, ("CREATE TEMP VIEW v", (CreateTempView("v"),)))
    session = await opened(world)
    reading = (await world.sessions.execute(BOB, session, "SLOW SELECT t", run_async=True)).handle
    read = running(world)
    making = asyncio.create_task(
        world.sessions.execute(BOB, session, "CREATE TEMP VIEW v OVER t", run_async=False)
    )
    await until(lambda: read.polls > 0)
    world.new_policies()
    world.judge.refused = "CREATE"
    read.end()
    with pytest.raises(StatementRefused):
        await making
    assert world.backend.received == ["SLOW SELECT t"]
    await world.sessions.close_operation(BOB, reading)


# -- each endpoint against the other ------------------------------------------------------------------------


def both(limits: SessionLimits) -> tuple[World, connect.World]:
    locks = CatalogLocks(FakeCatalog(), limits)
    thrift = world_of(limits, locks)
    other = connect.World(limits, locks=locks)
    other.judge.names = [(r"\bt\b", frozenset({T}))]
    other.judge.effects = [("CHANGE t", CHANGED)]
    return thrift, other


async def test_a_change_through_one_endpoint_holds_up_reads_through_the_other() -> None:
    thrift, other = both(patient(catalog_wait_s=0.05))
    maker = await opened(thrift)
    await thrift.sessions.execute(BOB, maker, "SLOW CHANGE t", run_async=True)
    change = running(thrift)
    with pytest.raises(StatementRefused, match="is changing a table or view"):
        await other.run(connect.table("t"))
    request = pb.AnalyzePlanRequest(session_id=connect.SESSION)
    request.schema.plan.CopyFrom(connect.table("t"))
    with pytest.raises(StatementRefused, match="is changing a table or view"):
        await other.service.analyze(BOB, CLIENT, serialize(request))
    change.end()
    assert await other.run(connect.table("t"))
    held = asyncio.Event()
    other.spark.script("CHANGE t", held, connect.sql_rows())
    changing = asyncio.create_task(other.run(connect.sql("CHANGE t")))
    await until(lambda: "CHANGE t" in other.spark.received)
    with pytest.raises(StatementRefused, match="is changing a table or view"):
        await thrift.sessions.execute(BOB, maker, "SELECT t", run_async=False)
    held.set()
    await changing
    await thrift.sessions.execute(BOB, maker, "SELECT t", run_async=False)


@pytest.mark.parametrize("ends", ["rows", "fault"])
async def test_what_an_overtaken_plan_answers_is_not_shown(ends: str) -> None:
    thrift, other = both(patient(overtake_s=0))
    held = asyncio.Event()
    last = connect.rows(1) if ends == "rows" else connect.fault("[X] a hidden name")
    other.spark.script("TABLE t", connect.progress(), held, last)
    reading = asyncio.create_task(other.run(connect.table("t")))
    await until(lambda: "TABLE t" in other.spark.received)
    maker = await opened(thrift)
    await thrift.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    held.set()
    with pytest.raises(StatementFailed, match="CATALOG_CHANGED"):
        await reading


async def test_a_plan_lets_go_when_spark_has_looked_up_its_names() -> None:
    thrift, other = both(patient())
    held = asyncio.Event()
    other.spark.script("TABLE t", connect.schema(), held, connect.rows(1))
    reading = asyncio.create_task(other.run(connect.table("t")))
    await until(lambda: "TABLE t" in other.spark.received)
    maker = await opened(thrift)
    # Rows come for as long as they like; the change does not wait for them, nor are they lost.
    await thrift.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    held.set()
    assert "arrow_batch" in connect.cases(await reading)


async def test_an_analysis_that_was_overtaken_is_not_shown() -> None:
    thrift, other = both(patient(overtake_s=0))
    held = asyncio.Event()
    other.spark.script("schema", held)
    request = pb.AnalyzePlanRequest(session_id=connect.SESSION)
    request.schema.plan.CopyFrom(connect.table("t"))
    reading = asyncio.create_task(other.service.analyze(BOB, CLIENT, serialize(request)))
    await until(lambda: any(text.startswith("schema") for text in other.spark.received))
    maker = await opened(thrift)
    await thrift.sessions.execute(BOB, maker, "CHANGE t", run_async=False)
    held.set()
    with pytest.raises(StatementFailed, match="CATALOG_CHANGED"):
        await reading


async def test_how_long_names_are_looked_up_does_not_count_as_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the metastore takes longer than `catalog_wait_s`, others can be waited for all the same."""
    world = world_of(patient(catalog_wait_s=600))
    handle = await opened(world)
    loop = asyncio.get_running_loop()
    judge, acquire = world.sessions._verdicts.judge, world.locks.acquire
    left: list[float] = []

    async def judged_late(statement: Statement, client: Client) -> Verdict:
        await asyncio.sleep(0.2)
        return await judge(statement, client)

    async def acquired(request: LockRequest, *, until: float, by: int) -> HeldLocks | None:
        left.append(until - loop.time())
        return await acquire(request, until=until, by=by)

    monkeypatch.setattr(world.sessions._verdicts, "judge", judged_late)
    monkeypatch.setattr(world.locks, "acquire", acquired)
    await world.sessions.execute(BOB, handle, "SELECT * FROM t", run_async=False)
    assert left[-1] > 599.9


async def test_a_change_is_known_to_each_spark_of_the_metastore() -> None:
    one, two, left = FakeCatalog(), FakeCatalog(), FakeCatalog()
    locks = CatalogLocks(one)
    for catalog in (two, left):
        locks.add_catalog(catalog)
    locks.remove_catalog(left)
    request = LockRequest(exclusive=frozenset({("spark_catalog", "hr", "t")}), changes=CHANGED)
    hold = await locks.acquire(request, until=asyncio.get_running_loop().time() + patience())
    assert hold is not None
    hold.release()
    assert [catalog.changed_names.since(T, 0) for catalog in (one, two, left)] == [True, True, False]
