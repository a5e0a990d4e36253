"""Limits of packs over Spark Connect: what is refused, what waits, and what is canceled in the middle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.rpc import error_details_pb2

from gateway.errors import LimitExceeded, RpcError
from gateway.model.limits import Limit
from gateway.model.principal import Principal
from gateway.session.failures import StatementRefused
from gateway.session.limits import SessionLimits
from gateway.wire.connect import pb
from tests.session.connect.fakes import (
    ALICE,
    BOB,
    CLIENT,
    OTHER_SESSION,
    SESSION,
    World,
    collect,
    execute_request,
    rows,
    schema,
    sql,
    table,
    uid,
)
from tests.session.fakes import until
from tests.session.test_budgets import limit
from tests.speed import patience


def world_of(*limits: Limit, **more: Any) -> World:
    bounds = {"settle_timeout_s": patience(5), "close_timeout_s": patience(5), **more}
    world = World(SessionLimits(**bounds))
    world.new_policies(limits=limits)
    return world


async def received(world: World, plan: Any, **fields: Any) -> tuple[list[Any], Exception | None]:
    """Execute a plan; return what came of it, and how it ended."""
    found: list[Any] = []
    try:
        stream = world.service.execute(BOB, CLIENT, execute_request(plan, **fields))
        async for data in stream:
            found += [pb.ExecutePlanResponse.FromString(data)]
    except (LimitExceeded, StatementRefused, RpcError) as fault:
        return found, fault
    return found, None


def begun(world: World, plan: Any, who: Principal = BOB, **fields: Any) -> asyncio.Task[list[Any]]:
    return asyncio.ensure_future(collect(world.service.execute(who, CLIENT, execute_request(plan, **fields))))


async def test_a_batch_that_passes_the_rows_of_a_statement_is_not_relayed() -> None:
    world = world_of(limit(rows=5))
    world.spark.script("TABLE t", schema(), rows(3), rows(2), rows(1))
    operation = uid()
    found, fault = await received(world, table("t"), operation=operation)
    assert [one.arrow_batch.row_count for one in found] == [0, 3, 2]
    assert isinstance(fault, LimitExceeded)
    assert fault.message == "limit `small`, set by ops, allows 5 rows a statement; the statement was canceled"
    await until(lambda: "Interrupt" in [method for method, _ in world.spark.calls])
    (event,) = [one for one in world.ledger.of("completed") if one.body.get("limit")]
    assert (event.body["outcome"], event.body["limit"]) == ("canceled", "small")
    # Who comes back is told the same, and gets no row.
    for _ in range(3):
        with pytest.raises(LimitExceeded, match="5 rows a statement"):
            await world.reattach(operation, found[-1].response_id)
    world.require_balance()


@pytest.mark.parametrize("bounds", [{"rows": 5}, {"rows_per_day": 5}, {"bytes_per_day": 600}])
async def test_who_reads_on_through_another_gateway_gets_no_more(bounds: Any) -> None:
    world = world_of()
    world.spark.script("TABLE t", schema(), rows(3), rows(2), rows(1))
    operation = uid()
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=operation))
    last = pb.ExecutePlanResponse.FromString(await anext(stream)).response_id
    await stream.aclose()
    other = World(spark=world.spark)
    other.new_policies(limits=[limit(**bounds), limit("of a table", on="t", rows=1)])
    with pytest.raises(LimitExceeded, match="limit `small`"):
        await other.reattach(operation, last)
    (event,) = other.ledger.of("reattached")
    assert event.body["rows"] == 5 or "bytes_per_day" in bounds
    other.new_policies()
    assert [one.arrow_batch.row_count for one in await other.reattach(operation, last)][:3] == [3, 2, 1]


async def test_a_plan_that_runs_for_too_long_is_interrupted_and_its_client_told_why() -> None:
    world = world_of(limit(seconds=1))
    world.spark.script("TABLE t", schema(), asyncio.Event())
    operation = uid()
    found, fault = await received(world, table("t"), operation=operation)
    assert len(found) == 1
    assert isinstance(fault, LimitExceeded)
    assert "1 seconds a statement" in fault.message
    await until(lambda: "Interrupt" in [method for method, _ in world.spark.calls])
    assert world.outcomes() == {"TABLE t": "canceled"}
    with pytest.raises(LimitExceeded):
        await world.reattach(operation)
    world.require_balance()


async def test_so_is_one_whose_answer_is_held() -> None:
    world = world_of(limit(seconds=1))
    world.spark.script("SHOW", asyncio.Event())
    _, fault = await received(world, sql("SHOW TABLES"))
    assert isinstance(fault, LimitExceeded)
    await world.service.close()
    world.require_balance()


async def test_a_rate_refuses_with_a_time_to_come_again_and_reattaching_costs_nothing() -> None:
    world = world_of(limit(statements_per_minute=2))
    operation = uid()
    await received(world, table("t"), operation=operation)
    for _ in range(20):
        await world.reattach(operation)
        await received(world, table("t"), operation=operation)  # as a client that was cut off does
    assert (await received(world, table("u")))[1] is None
    _, fault = await received(world, table("v"))
    assert isinstance(fault, StatementRefused)
    assert fault.retry_s == pytest.approx(30)
    assert world.ledger.of("decided")[-1].body["limit"] == "small"
    # Another session is the same user.
    assert (await received(world, table("v"), session=OTHER_SESSION))[1] is not None


async def test_analyses_are_no_statements_and_a_clone_is_a_session() -> None:
    world = world_of(limit(statements_per_minute=1, sessions=2))
    request = pb.AnalyzePlanRequest(session_id=SESSION, client_type="pyspark")
    request.schema.plan.root.read.named_table.unparsed_identifier = "t"
    for _ in range(3):
        await world.service.analyze(BOB, CLIENT, request.SerializeToString())
    await world.run(table("t"))
    await world.call("CloneSession", new_session_id=OTHER_SESSION)
    for _ in range(5):
        with pytest.raises(LimitExceeded, match="2 open sessions"):
            await world.call("CloneSession", new_session_id=uid())
    assert world.ledger.of("security")[-1].body["limit"] == "small"
    await world.call("ReleaseSession", session=OTHER_SESSION)
    await world.call("CloneSession", new_session_id=uid())


async def test_a_plan_waits_while_others_of_its_user_run_and_holds_nothing() -> None:
    world = world_of(limit(running=1))
    runs = asyncio.Event()
    world.spark.script("TABLE slow", schema(), runs)
    slow = begun(world, table("slow"))
    await until(lambda: "TABLE slow" in world.spark.received)
    waiting = begun(world, table("t"), session=OTHER_SESSION)
    await until(lambda: (BOB.user, OTHER_SESSION) in world.service._registry.sessions)
    await until(lambda: world.service.describe_wait(world.session(OTHER_SESSION)) != "")
    told = "limit `small`, set by ops, allows 1 running statements; place 1 of 1 in the queue"
    assert world.service.describe_wait(world.session(OTHER_SESSION)) == told
    # Its session answers everything else, and others run.
    await world.call("GetStatus", session=OTHER_SESSION)
    assert await collect(world.service.execute(ALICE, CLIENT, execute_request(table("t"))))
    assert not waiting.done()
    runs.set()
    await slow
    assert [one.arrow_batch.row_count for one in await waiting][1:3] == [3, 2]
    assert world.service.describe_wait(world.session(OTHER_SESSION)) == ""
    world.require_balance()


async def test_who_goes_while_he_waits_or_is_interrupted_leaves_no_place_behind() -> None:
    world = world_of(limit(running=1))
    runs = asyncio.Event()
    world.spark.script("TABLE slow", schema(), runs)
    slow = begun(world, table("slow"))
    await until(lambda: "TABLE slow" in world.spark.received)
    gone, operation = begun(world, table("t")), uid()
    stopped = begun(world, table("u"), operation=operation)
    await until(lambda: len(world.session().waits) == 2)
    gone.cancel()
    await asyncio.wait([gone])
    # Meanwhile its user may ask for its place.
    asked = pb.GetStatusRequest.OperationStatusRequest(operation_ids=[operation])
    (status,) = (await world.call("GetStatus", operation_status=asked)).operation_statuses
    info = error_details_pb2.RequestInfo()
    assert status.extensions[0].Unpack(info)
    assert info.serving_data.endswith("allows 1 running statements; place 1 of 1 in the queue")
    kind = pb.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID
    await world.call("Interrupt", interrupt_type=kind, operation_id=operation)
    with pytest.raises(RpcError, match="OPERATION_CANCELED"):
        await stopped
    assert world.session().waits == []
    runs.set()
    await slow
    assert len(await world.run(table("t"))) == 4
    world.require_balance()


async def test_who_waits_for_too_long_is_refused_on_record() -> None:
    world = world_of(limit(running=1), spark_wait_s=0.05)
    runs = asyncio.Event()
    world.spark.script("TABLE slow", schema(), runs)
    slow = begun(world, table("slow"))
    await until(lambda: "TABLE slow" in world.spark.received)
    _, fault = await received(world, table("t"))
    assert isinstance(fault, StatementRefused)
    assert "none of them ended within 0.05 s" in fault.text
    event = world.ledger.of("decided")[-1]
    assert (event.body["verdict"], event.body["limit"]) == ("refused", "small")
    runs.set()
    await slow
    world.require_balance()


async def test_a_client_that_reads_half_and_leaves_gives_its_place_back_when_it_ends() -> None:
    world = world_of(limit(running=1))
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), reattachable=False))
    await anext(stream)
    await stream.aclose()
    assert len(await world.run(table("t"))) == 4
    operation = uid()
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=operation))
    await anext(stream)
    await stream.aclose()
    waiting = begun(world, table("t"))
    await until(lambda: len(world.session().waits) == 1)
    await world.release(operation)
    assert len(await waiting) == 4
    world.require_balance()


async def test_one_session_cannot_fill_the_queue() -> None:
    world = world_of(limit(running=1), operations_per_session=3)
    runs = asyncio.Event()
    world.spark.script("TABLE slow", schema(), runs)
    slow = begun(world, table("slow"))
    await until(lambda: "TABLE slow" in world.spark.received)
    waiting = [begun(world, table("t")) for _ in range(2)]
    await until(lambda: len(world.session().waits) == 2)
    _, fault = await received(world, table("u"))
    assert isinstance(fault, StatementRefused | LimitExceeded)
    assert "open operations" in fault.message
    runs.set()
    await asyncio.gather(slow, *waiting)
    world.require_balance()
