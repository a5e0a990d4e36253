"""What operators are told of open sessions and of statements that run, and ending one of them."""

from __future__ import annotations

import asyncio

import pytest

from gateway.session.failures import StatementRefused
from gateway.session.open_sessions import MAX_SHOWN_CHARS, OpenSessions
from tests.session.fakes import BOB, World
from tests.session.test_service import open_session, run
from tests.speed import patience


async def test_a_statement_is_listed_from_its_verdict_to_its_end_and_stopped_by_its_id() -> None:
    world, every = World(), OpenSessions()
    every.add(world.sessions)
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    text = "SLOW " + "x" * MAX_SHOWN_CHARS
    operation = await run(world, handle, text, run_async=True)
    await run(world, handle, "SELECT 1")
    (one,) = every.list_statements()
    assert (one.user, one.session, one.state, one.is_plan) == ("bob", str(handle), "running", False)
    assert one.text == text[:MAX_SHOWN_CHARS]
    assert one.statement == world.ledger.of("decided")[0].statement_id
    assert await every.stop_statement("another", "an operator said so") == 0
    assert await every.stop_statement(one.statement, "an operator said so") == 1
    assert world.backend.last.cancelled or world.ledger.outcomes()
    async with asyncio.timeout(patience(20)):
        assert (await world.sessions.status(BOB, operation)).state == 3
    assert every.list_statements() == []
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes() == ["canceled"]


async def test_one_session_ends_and_the_others_of_its_user_do_not() -> None:
    world, every = World(), OpenSessions()
    every.add(world.sessions)
    first, second = await open_session(world), await open_session(world)
    assert await every.end_one("alice", str(first), "an operator said so", by="dave") == 0
    assert await every.end_one("bob", "another", "an operator said so", by="dave") == 0
    assert await every.end_one("bob", str(first), "an operator said so", by="dave") == 1
    assert [one.session for one in every.list_sessions()] == [str(second)]
    (event,) = world.ledger.of("session_ended")
    assert (event.body["by"], event.body["sess"]) == ("dave", str(first))


async def test_a_refusal_names_the_address_of_its_event_where_browsers_reach_the_console() -> None:
    world = World(console_url="https://sluice.example")
    world.judge.refused = "secret"
    with pytest.raises(StatementRefused) as refused:
        await run(world, await open_session(world), "SELECT secret")
    (event,) = world.ledger.of("decided")
    address = f"https://sluice.example/console/events/{event.statement_id}"
    assert refused.value.text.endswith(f"quote audit event {event.statement_id}, or open {address}")
