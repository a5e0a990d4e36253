"""Results that are open when policies change: read to their end, or ended where they would be others now."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.model.context import TIME
from gateway.model.statement import AnswerFilter, AnswerRule, CreateTempView
from gateway.session.failures import StatementFailed
from gateway.session.identifiers import Handle
from gateway.session.limits import SessionLimits
from gateway.session.metadata import Patterns
from tests.session.connect import fakes as connect
from tests.session.fakes import BOB, CLIENT, Sink, World, until
from tests.speed import patience

ENDS = SessionLimits(
    end_results_on_policy_change=True, settle_timeout_s=patience(5), close_timeout_s=patience(5)
)
A_WHILE_S = 1_000_000
"""After which no verdict is used again."""


async def result_of(world: World, text: str = "SELECT 1") -> Handle:
    session = await world.sessions.open_session(BOB, CLIENT, protocol_version=9)
    return (await world.sessions.execute(BOB, session, text, run_async=False)).handle


async def fetch(world: World, operation: Handle, *, first: bool = False, kind: int = 0) -> None:
    await world.sessions.fetch(
        BOB,
        operation,
        kind,
        orientation=4 if first else 0,
        max_rows=1,
        fetch_type=0,
        seqid=1,
        sink=Sink(),
    )


async def ends(world: World, operation: Handle) -> None:
    """Whichever rows are asked for, now and later, there are none; and the record has one end."""
    for first in (False, True):
        with pytest.raises(StatementFailed) as caught:
            await fetch(world, operation, first=first)
        assert caught.value.text.startswith("[SLUICE_POLICIES_CHANGED]")
        assert caught.value.sqlstate == "40001"
    assert world.backend.last.closed
    assert world.ledger.outcomes() == ["failed"]
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes() == ["failed"]


async def test_without_the_setting_a_result_can_be_read_to_its_end_and_again() -> None:
    world = World()
    operation = await result_of(world)
    world.judge.refused = "SELECT 1"
    world.new_policies()
    await fetch(world, operation)
    await fetch(world, operation, first=True)


async def test_a_result_ends_when_its_statement_is_refused_now() -> None:
    world = World(ENDS)
    operation = await result_of(world)
    await fetch(world, operation)
    world.judge.refused = "SELECT 1"
    world.new_policies()
    await ends(world, operation)


async def test_a_result_ends_when_it_would_be_masked_otherwise_now() -> None:
    world = World(ENDS)
    operation = await result_of(world)
    await fetch(world, operation)
    world.judge.mark = " /* another mask */"
    world.new_policies()
    await ends(world, operation)


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "too long to be cached"])
async def test_a_result_that_would_be_the_same_goes_on_and_is_judged_once_for_each_change(
    cached: bool,
) -> None:
    world = World(ENDS if cached else replace(ENDS, verdict_text_chars=0))
    operation = await result_of(world)
    world.new_policies()
    judged = len(world.judge.judged)
    for _ in range(3):
        await fetch(world, operation)
    assert len(world.judge.judged) == judged + 1
    world.judge.refused = "SELECT 1"
    world.new_policies()
    await ends(world, operation)


async def test_a_result_ends_with_what_the_view_that_it_reads_was_made_from() -> None:
    world = World(ENDS)
    world.judge.effects = [("^CREATE VIEW (v|w)", (CreateTempView("v"),))]
    world.judge.reads["SELECT 1 FROM v"] = frozenset({"v"})
    session = await world.sessions.open_session(BOB, CLIENT, protocol_version=9)
    await world.sessions.execute(BOB, session, "CREATE VIEW v AS SELECT 1", run_async=False)
    operation = (await world.sessions.execute(BOB, session, "SELECT 1 FROM v", run_async=False)).handle
    await fetch(world, operation)
    world.new_policies()
    await fetch(world, operation)
    world.judge.refused = "CREATE VIEW"
    world.new_policies()
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await fetch(world, operation)


async def test_an_answer_that_the_gateway_filtered_ends_with_every_change() -> None:
    world = World(ENDS)
    world.backend.answers["SHOW DATABASES"] = [("hr",)]
    world.judge.rules["SHOW DATABASES"] = AnswerRule(filter=AnswerFilter.DATABASES, catalog="spark_catalog")
    operation = await result_of(world, "SHOW DATABASES")
    await fetch(world, operation)
    world.new_policies()
    await ends(world, operation)


async def test_the_answer_of_a_metadata_call_ends_with_every_change() -> None:
    world = World(ENDS)
    session = await world.sessions.open_session(BOB, CLIENT, protocol_version=9)
    opened = await world.sessions.metadata(BOB, session, 2, "GetCatalogs", Patterns())
    await fetch(world, opened.handle, kind=2)
    world.new_policies()
    for first in (False, True):
        with pytest.raises(StatementFailed, match="run the statement again"):
            await fetch(world, opened.handle, first=first, kind=2)
    assert world.ledger.outcomes() == ["failed"]


# -- Spark Connect -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [True, False])
async def test_a_stream_that_policies_overtake(end: bool) -> None:
    world = connect.World(
        ENDS if end else SessionLimits(settle_timeout_s=patience(5), close_timeout_s=patience(5))
    )
    world.spark.script("TABLE t", connect.schema(), *[connect.rows(n) for n in range(1, 6)])
    operation = connect.uid()
    request = connect.execute_request(connect.table("t"), operation=operation)
    stream = world.service.execute(BOB, CLIENT, request)
    for _ in range(3):
        await anext(stream)
    world.new_policies(mark="mask")
    if not end:
        assert len([data async for data in stream]) == 4
        return
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await anext(stream)
    await until(lambda: world.outcomes() == {"TABLE t": "failed"})
    with pytest.raises(Exception, match=r"SLUICE_POLICIES_CHANGED|ABANDONED|NOT_FOUND|CHANGED"):
        await world.reattach(operation)
    await world.service.close()
    world.require_balance()


async def test_an_answer_that_the_gateway_holds_is_not_given_out_after_policies_changed() -> None:
    world = connect.World(ENDS)
    world.judge.rules["SHOW DATABASES"] = AnswerRule(filter=AnswerFilter.DATABASES, catalog="spark_catalog")
    come = asyncio.Event()
    world.spark.script("SHOW DATABASES", come, connect.sql_rows(("hr",)))
    operation = connect.uid()
    request = connect.execute_request(connect.sql("SHOW DATABASES"), operation=operation)
    reading = asyncio.ensure_future(anext(world.service.execute(BOB, CLIENT, request)))
    await until(lambda: "SHOW DATABASES" in world.spark.received)
    world.new_policies()
    come.set()
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await reading
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await world.reattach(operation)
    await world.service.close()
    world.require_balance()


@pytest.mark.parametrize("mark", [None, "mask"], ids=["the same", "another"])
async def test_an_answer_that_the_gateway_holds_is_given_out_again_only_as_it_would_be_now(
    mark: str | None,
) -> None:
    world = connect.World(ENDS)
    world.spark.script("SELECT", connect.sql_relation("SELECT * FROM (guarded)"))
    operation = connect.uid()
    first = await world.run(connect.sql("SELECT * FROM t"), operation=operation)
    world.new_policies(mark)
    if mark is None:
        assert await world.reattach(operation) == first
    else:
        with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
            await world.reattach(operation)
    await world.service.close()
    assert world.outcomes() == {"SELECT * FROM t": "finished"}
    world.require_balance()


async def test_a_stream_of_a_checkpoint_that_would_be_another_one_now_ends() -> None:
    world = connect.World(ENDS)
    made = await world.run(connect.checkpoint(connect.table("t")))
    relation = str(made[0].checkpoint_command_result.relation.relation_id)
    world.spark.script(f"CACHED {relation}", connect.schema(), *[connect.rows(n) for n in range(1, 6)])
    stream = world.service.execute(BOB, CLIENT, connect.execute_request(connect.cached(relation)))
    for _ in range(3):
        await anext(stream)
    world.judge.marked = "^CHECKPOINT"
    world.new_policies(mark="mask")
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await anext(stream)


async def test_a_stream_of_a_checkpoint_whose_origin_is_too_long_ends_with_every_change() -> None:
    world = connect.World(replace(ENDS, origins=0))
    made = await world.run(connect.checkpoint(connect.table("t")))
    relation = str(made[0].checkpoint_command_result.relation.relation_id)
    world.spark.script(f"CACHED {relation}", connect.schema(), *[connect.rows(n) for n in range(1, 6)])
    stream = world.service.execute(BOB, CLIENT, connect.execute_request(connect.cached(relation)))
    await anext(stream)
    world.new_policies()
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await anext(stream)


async def test_a_result_ends_with_the_time_of_the_grant_that_it_was_judged_by() -> None:
    """No policy changes when a grant is over."""
    world = World(ENDS)
    world.judge.timed = True
    operation = await result_of(world)
    await fetch(world, operation)
    world.judge.refused = "SELECT 1"
    world.now += A_WHILE_S
    await ends(world, operation)


async def test_a_stream_of_a_checkpoint_ends_with_the_time_of_the_grant_that_made_it() -> None:
    world = connect.World(ENDS)
    world.judge.changes["^CHECKPOINT"] = {"context_dependencies": frozenset({TIME})}
    made = await world.run(connect.checkpoint(connect.table("t")))
    relation = str(made[0].checkpoint_command_result.relation.relation_id)
    world.spark.script(f"CACHED {relation}", connect.schema(), *[connect.rows(n) for n in range(1, 6)])
    stream = world.service.execute(BOB, CLIENT, connect.execute_request(connect.cached(relation)))
    await anext(stream)
    world.judge.refused = "^CHECKPOINT"
    world.now += A_WHILE_S
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await anext(stream)


async def test_a_stream_that_another_run_of_the_gateway_began_is_not_taken_up_again() -> None:
    before = connect.World(ENDS)
    before.spark.script("TABLE t", connect.schema(), *[connect.rows(n) for n in range(1, 6)])
    operation = connect.uid()
    request = connect.execute_request(connect.table("t"), operation=operation)
    stream = before.service.execute(BOB, CLIENT, request)
    await anext(stream)
    after = connect.World(ENDS, spark=before.spark)
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await after.reattach(operation)


async def test_a_stream_that_policies_leave_as_it_is_goes_on() -> None:
    world = connect.World(ENDS)
    world.spark.script("TABLE t", connect.schema(), *[connect.rows(n) for n in range(1, 6)])
    stream = world.service.execute(BOB, CLIENT, connect.execute_request(connect.table("t")))
    await anext(stream)
    world.new_policies()
    assert len([data async for data in stream]) >= 5
