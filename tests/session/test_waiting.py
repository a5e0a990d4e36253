"""Statements that Spark has no room for wait: for how long, in which order, and how they end there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import LimitExceeded
from gateway.model.catalog import TableName
from gateway.model.principal import Principal
from gateway.model.statement import (
    CatalogChanged,
    ChangeSetting,
    Cleared,
    CreateTempView,
    DropTempView,
    ResetSettings,
)
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.identifiers import Handle
from gateway.session.limits import SessionLimits
from gateway.session.operation import CANCELED, ERROR, FINISHED, PENDING, RUNNING, TIMEDOUT, Batch
from gateway.session.slots import Slots
from tests.session.fakes import BOB, CLIENT, Sink, World
from tests.speed import patience

ASKED = 500
"""Polls, each of which takes `poll_s` while nothing happens."""
TURNS = 3000
T = TableName("spark_catalog", "one", "t")


def world_of(**limits: Any) -> World:
    """A Spark that has one statement at a time; `SLOW` ones run until the test ends them."""
    bounds: dict[str, Any] = {
        "statements": 1,
        "poll_s": 0.01,
        "settle_timeout_s": patience(5),
        "close_timeout_s": patience(5),
        **limits,
    }
    world = World(SessionLimits(**bounds))
    world.backend.slow = "SLOW"
    return world


async def opened(world: World, user: str = "bob") -> Handle:
    return await world.sessions.open_session(Principal(user=user), CLIENT, protocol_version=9)


async def begun(world: World, session: Handle, text: str, user: str = "bob", timeout_s: int = 0) -> Handle:
    answer = await world.sessions.execute(
        Principal(user=user), session, text, run_async=True, timeout_s=timeout_s
    )
    return answer.handle


async def state(world: World, operation: Handle, user: str = "bob") -> int:
    return (await world.sessions.status(Principal(user=user), operation)).state


async def ends_in(world: World, operation: Handle, wanted: int) -> Any:
    """Ask as a client does, until the operation has ended; return what it ends with."""
    for _ in range(ASKED):
        report = await world.sessions.status(BOB, operation)
        if report.state not in (PENDING, RUNNING):
            assert report.state == wanted
            return report.error
    pytest.fail(f"it has not ended after {ASKED} polls")


async def soon(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds. The bound is one of turns, which take longer on a busy machine."""
    for _ in range(TURNS):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail(f"it does not hold after {TURNS} turns")


async def of(task: asyncio.Task[Any]) -> Any:
    """Return what a task comes to."""
    await soon(task.done)
    return task.result()


async def nothing_is_ready() -> None:
    """Let everything go on that waits for nothing but its turn."""
    for _ in range(100):
        await asyncio.sleep(0)


async def full(**limits: Any) -> tuple[World, Handle]:
    """A world in which another's statement has the only slot; and a session."""
    world = world_of(**limits)
    other = await opened(world, "alice")
    await begun(world, other, "SLOW 1", "alice")
    return world, await opened(world)


# -- waiting -------------------------------------------------------------------------------------------------


async def test_what_spark_has_no_room_for_waits_and_is_pending_to_its_client() -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    assert await state(world, waiting) == PENDING
    assert world.backend.received == ["SLOW 1"]
    assert world.order.count("decided") == 2  # it is on record while it waits
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, waiting, FINISHED)
    assert world.backend.received == ["SLOW 1", "SELECT 1"]
    await world.sessions.close()
    assert sorted(world.ledger.outcomes()) == ["finished", "finished"]


async def test_a_statement_of_the_gateway_s_own_leaves_the_slot_to_the_one_that_it_is_for() -> None:
    world = world_of()
    world.judge.effects = [
        ("^SET", (ChangeSetting("spark.five", "5"),)),
        ("^RESET$", (ResetSettings(),)),
        ("^RESET `", (ChangeSetting("spark.five", None),)),
    ]
    session = await opened(world)
    await ends_in(world, await begun(world, session, "SET spark.five=5"), FINISHED)
    await ends_in(world, await begun(world, session, "RESET"), FINISHED)
    assert world.backend.received == ["SET spark.five=5", "RESET `spark.five`", "RESET"]
    assert world.sessions.metrics.registry.get_sample_value("sluice_spark_wait_seconds_count") == 0
    await world.sessions.close()
    assert world.ledger.outcomes() == ["finished"] * 3


async def test_a_view_that_ended_is_dropped_though_spark_is_full_and_no_more_may_wait() -> None:
    world = world_of(statements_waiting=0)
    world.judge.effects = [
        ("^CREATE TEMP VIEW v", (CreateTempView("v"),)),
        ("^DROP VIEW", (DropTempView("v"),)),
    ]
    session = await opened(world)
    await ends_in(world, await begun(world, session, "CREATE TEMP VIEW v AS SELECT a FROM t"), FINISHED)
    other = await opened(world, "alice")
    await begun(world, other, "SLOW 1", "alice")
    world.judge.refused = "AS SELECT a|SELECT 1"
    world.new_policies()
    refused = await ends_in(world, await begun(world, session, "SELECT 1"), ERROR)
    assert isinstance(refused, StatementRefused)
    assert [text for text in world.backend.received if text.startswith("DROP VIEW")]
    await world.sessions.close()


async def test_its_client_may_read_what_it_waits_for_and_metrics_tell_too() -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    read = world.sessions.metrics.registry.get_sample_value
    await soon(lambda: read("sluice_statements_waiting") == 1)
    assert read("sluice_spark_statements") == 1

    async def log() -> list[Any]:
        batch = await world.sessions.fetch(
            BOB, waiting, orientation=0, max_rows=10, fetch_type=1, seqid=1, sink=Sink()
        )
        assert isinstance(batch, Batch)
        return list(batch.rows)

    assert "waiting for Spark, which is running 1 statements" in (await log())[0][0]
    assert await log() == []
    world.backend.sessions[0].operations[0].end()
    await world.sessions.close()
    assert read("sluice_spark_wait_seconds_count") == 1


async def test_a_synchronous_client_waits_and_gets_its_result() -> None:
    world, session = await full()
    running = asyncio.create_task(world.sessions.execute(BOB, session, "SELECT 1", run_async=False))
    await soon(lambda: world.order.count("decided") == 2)
    world.backend.sessions[0].operations[0].end()
    assert (await of(running)).has_result_set
    await world.sessions.close()


async def test_nothing_rests_on_a_client_that_does_not_poll() -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    world.backend.sessions[0].operations[0].end()  # and nobody asks after it
    await soon(lambda: "SELECT 1" in world.backend.received)
    await ends_in(world, waiting, FINISHED)
    await world.sessions.close()


async def test_who_was_given_a_slot_while_others_wait_is_watched_too() -> None:
    world, session = await full()
    await begun(world, session, "SLOW 2")
    await begun(world, await opened(world), "SELECT 3")
    world.backend.sessions[0].operations[0].end()
    await soon(lambda: "SLOW 2" in world.backend.received)
    world.backend.sessions[1].operations[0].end()  # and nobody asks after it
    await soon(lambda: "SELECT 3" in world.backend.received)
    await world.sessions.close()


async def test_the_next_slot_goes_to_who_has_fewest_and_then_to_who_came_first() -> None:
    slots = Slots(3, 100)
    loop = asyncio.get_running_loop()
    held = [slots.take("alice"), slots.take("alice"), slots.take("bob")]
    assert slots.take("carol") is None
    order: list[str] = []

    async def wait(name: str, arrived: float) -> None:
        slot = await slots.wait(name.rstrip("0123456789"), until=loop.time() + 60, arrived=arrived)
        assert slot is not None
        order.append(name)

    names = ["alice1", "alice2", "bob1", "carol1", "carol2"]
    tasks = [asyncio.create_task(wait(name, at)) for at, name in enumerate(names)]
    await soon(lambda: slots.waiting == 5)
    for count, slot in enumerate(held, 1):
        assert slot is not None
        slot.release()
        slot.release()
        await soon(lambda count=count: len(order) == count)  # type: ignore[misc]  # of this round
    # alice has one left, bob one, carol none; then alice has none, being longest here.
    assert order == ["carol1", "alice1", "bob1"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (slots.waiting, slots.held) == (0, 3)


async def test_after_spark_had_no_room_one_at_a_time_tries() -> None:
    slots = Slots(10, 10)
    loop = asyncio.get_running_loop()
    first = slots.take("bob")
    assert first is not None
    slots.note_refused(first)
    assert slots.take("bob") is None
    tasks = [
        asyncio.create_task(slots.wait(name, until=loop.time() + 60, arrived=at))
        for at, name in enumerate(("bob", "alice", "carol"))
    ]
    await soon(lambda: slots.held == 1)
    assert slots.waiting == 2
    assert slots.take("dave") is None
    slots.note_taken()
    granted = [slot for task in tasks if (slot := await of(task)) is not None]
    assert (slots.held, slots.waiting, len(granted)) == (3, 0, 3)
    assert slots.take("dave") is not None


async def test_a_slot_that_comes_as_its_waiter_goes_is_not_lost() -> None:
    slots = Slots(1, 10)
    slot = slots.take("bob")
    assert slot is not None
    loop = asyncio.get_running_loop()
    waiting = asyncio.create_task(slots.wait("bob", until=loop.time() + 60, arrived=0))
    await soon(lambda: slots.waiting == 1)
    slot.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (slots.held, slots.waiting) == (0, 0)


async def test_no_more_wait_than_may() -> None:
    world, session = await full(statements_waiting=1)
    await begun(world, session, "SELECT 1")
    read = world.sessions.metrics.registry.get_sample_value
    await soon(lambda: read("sluice_statements_waiting") == 1)
    with pytest.raises(
        LimitExceeded, match="Spark is running 1 statements, and 1 others are waiting; try again later"
    ):
        await begun(world, await opened(world), "SELECT 2")
    await world.sessions.close()


async def test_a_refusal_waits_for_nothing() -> None:
    world, session = await full()
    world.judge.refused = "secret"
    refused = await ends_in(world, await begun(world, session, "SELECT secret"), ERROR)
    assert isinstance(refused, StatementRefused)
    await world.sessions.close()


# -- what holds meanwhile ------------------------------------------------------------------------------------


async def test_who_waits_is_judged_again_by_the_policies_of_then() -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    world.new_policies()
    world.judge.refused = "SELECT 1"
    world.backend.sessions[0].operations[0].end()
    error = await ends_in(world, waiting, ERROR)
    assert isinstance(error, StatementRefused)
    assert world.backend.received == ["SLOW 1"]
    first, then = world.ledger.of("decided")[1:]
    assert (first.body["verdict"], then.body["verdict"]) == ("cleared", "refused")
    assert first.statement_id != then.statement_id
    await world.sessions.close()
    assert {e.statement_id: e.body["outcome"] for e in world.ledger.of("completed")}[
        first.statement_id
    ] == "not_forwarded"
    assert then.statement_id not in {e.statement_id for e in world.ledger.of("completed")}


async def test_what_is_forwarded_is_what_is_on_record_last() -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    world.new_policies()
    world.judge.mark = " /* another mask */"
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, waiting, FINISHED)
    assert world.backend.received[-1] == "SELECT 1 /* another mask */"
    decided = world.ledger.of("decided")
    assert len(decided) == 3
    await world.sessions.close()
    outcomes = {e.statement_id: e.body["outcome"] for e in world.ledger.of("completed")}
    assert outcomes == dict(
        zip([e.statement_id for e in decided], ["finished", "not_forwarded", "finished"], strict=True)
    )


async def test_nobody_waits_for_spark_with_names_that_others_wait_for() -> None:
    world, session = await full(catalog_wait_s=60.0, statements=2)
    world.judge.names.append((r"\bt\b", frozenset({T})))
    change = CatalogChanged(tables=(T,), databases=(), meaning="changes")
    world.judge.effects.append(("CHANGE t", (change,)))
    await begun(world, await opened(world, "alice"), "SLOW 2", "alice")
    waiting = await begun(world, session, "CHANGE t")
    assert await state(world, waiting) == PENDING
    assert all(hold.request.read_only for hold in world.locks._holds)
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, waiting, FINISHED)
    await world.sessions.close()


async def test_a_drop_that_spark_had_no_room_for_drops_the_same_view_when_it_has() -> None:
    world = world_of()
    session = await opened(world)
    world.judge.effects.append(("CREATE TEMP VIEW v", (CreateTempView("v"),)))
    await ends_in(world, await begun(world, session, "CREATE TEMP VIEW v"), FINISHED)
    world.judge.effects.append(("DROP VIEW v", (DropTempView("v"),)))
    world.backend.full = 2
    operation = await begun(world, session, "DROP VIEW v")
    await ends_in(world, operation, FINISHED)
    assert world.backend.received[1:] == ["DROP VIEW v"] * 3
    judged = [one for one in world.judge.judged if one.text == "DROP VIEW v"]
    assert all("v" in one.context.temp_views for one in judged)
    await world.sessions.close()
    assert world.ledger.outcomes() == ["finished"] * 2


async def test_spark_that_is_full_all_the_same_is_asked_again() -> None:
    world = world_of(statements=100)
    sessions = [await opened(world) for _ in range(5)]
    world.backend.full = 7
    operations = [await begun(world, s, f"SELECT {n}") for n, s in enumerate(sessions)]
    for operation in operations:
        assert await ends_in(world, operation, FINISHED) is None
    read = world.sessions.metrics.registry.get_sample_value
    assert read("sluice_spark_full_total") == 7
    await world.sessions.close()
    assert world.ledger.outcomes() == ["finished"] * 5


async def test_what_comes_next_in_a_session_comes_after_what_waits() -> None:
    world, session = await full()
    first = await begun(world, session, "SELECT 1")
    second = asyncio.create_task(begun(world, session, "SELECT 2"))
    await nothing_is_ready()
    assert [one.text for one in world.judge.judged] == ["SLOW 1", "SELECT 1"]
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, first, FINISHED)
    await ends_in(world, await of(second), FINISHED)
    assert world.backend.received == ["SLOW 1", "SELECT 1", "SELECT 2"]
    await world.sessions.close()


# -- ends ----------------------------------------------------------------------------------------------------


async def test_a_slot_that_does_not_come_in_time_is_waited_for_no_longer() -> None:
    slots = Slots(1, 10)
    assert slots.take("bob") is not None
    late = asyncio.get_running_loop().time()
    waiting = asyncio.create_task(slots.wait("bob", until=late, arrived=0))
    assert await of(waiting) is None
    assert (slots.held, slots.waiting) == (1, 0)


async def test_a_deadline_ends_the_wait_and_says_why() -> None:
    world, session = await full(spark_wait_s=0.01)
    error = await ends_in(world, await begun(world, session, "SELECT 1"), ERROR)
    assert error.text.startswith("[SLUICE_LIMIT_EXCEEDED] Spark is running 1 statements, its limit")
    assert world.ledger.outcomes() == ["not_forwarded"]
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, await begun(world, session, "SELECT 2"), FINISHED)  # the session goes on
    await world.sessions.close()


async def test_the_clients_timeout_counts_while_it_waits() -> None:
    world, session = await full()
    error = await ends_in(world, await begun(world, session, "SELECT 1", timeout_s=1), TIMEDOUT)
    assert (error.sqlstate, error.message) == ("HYT00", "the statement timed out")
    assert world.ledger.outcomes() == ["timed_out"]
    await world.sessions.close()


async def test_what_is_left_of_the_clients_timeout_goes_to_spark() -> None:
    world, session = await full()
    given: list[int] = []
    upstream = world.backend.sessions[1]
    execute = upstream.execute

    async def noted(cleared: Cleared, *, run_async: bool, timeout_s: int) -> Any:
        given.append(timeout_s)
        return await execute(cleared, run_async=run_async, timeout_s=timeout_s)

    upstream.execute = noted  # type: ignore[method-assign]
    operation = await begun(world, session, "SELECT 1", timeout_s=100)
    world.sessions._operations[operation.guid].arrived -= 60
    world.backend.full = 1
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, operation, FINISHED)
    # The first try found Spark full: who waits on has not come anew.
    assert len(given) == 2
    assert all(30 < left_s <= 41 for left_s in given)
    await world.sessions.close()


async def test_who_waits_can_be_canceled() -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    await world.sessions.cancel(BOB, waiting)
    error = await ends_in(world, waiting, CANCELED)
    assert isinstance(error, StatementFailed)
    assert world.ledger.outcomes() == ["canceled"]
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, await begun(world, session, "SELECT 2"), FINISHED)
    assert world.backend.received == ["SLOW 1", "SELECT 2"]
    await world.sessions.close()


async def test_who_waits_can_be_closed() -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    await world.sessions.close_operation(BOB, waiting)
    assert world.ledger.outcomes() == ["canceled"]
    world.backend.sessions[0].operations[0].end()
    await ends_in(world, await begun(world, session, "SELECT 2"), FINISHED)
    assert world.backend.received == ["SLOW 1", "SELECT 2"]
    await world.sessions.close()


@pytest.mark.parametrize("end", ["session", "client", "gateway"])
async def test_who_waits_ends_with_its_session_its_client_and_the_gateway(end: str) -> None:
    world, session = await full()
    await begun(world, session, "SELECT 1")
    match end:
        case "session":
            await world.sessions.close_session(BOB, session)
        case "client":
            await world.sessions.close_disconnected([session])
        case _:
            await world.sessions.close()
    assert "canceled" in world.ledger.outcomes()
    await world.sessions.close()
    assert world.backend.received == ["SLOW 1"]
    assert len(world.ledger.of("completed")) == len(world.ledger.of("decided")) == 2


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_one_that_is_let_go_while_it_is_judged_again_does_not_reach_spark(how: str) -> None:
    world, session = await full()
    waiting = await begun(world, session, "SELECT 1")
    judging, go_on = asyncio.Event(), asyncio.Event()
    decide = world.judge.__class__.__call__

    async def slowly(statement: Any, snapshot: Any) -> Any:
        judging.set()
        await go_on.wait()
        return await decide(world.judge, statement, snapshot)

    world.new_policies()
    world.sessions._verdicts._judge = slowly
    world.backend.sessions[0].operations[0].end()
    await judging.wait()
    call = world.sessions.cancel if how == "cancel" else world.sessions.close_operation
    letting_go = asyncio.create_task(call(BOB, waiting))
    await asyncio.sleep(0)
    go_on.set()
    await letting_go
    await world.sessions.close()
    assert world.backend.received == ["SLOW 1"]
    assert len(world.ledger.of("completed")) == len(world.ledger.of("decided"))
