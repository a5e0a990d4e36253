"""Clients that come back: reattached, released, interrupted, and taken up after the gateway was killed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import BackendUnavailable, InvalidRequest, RpcError
from gateway.model.statement import Client, CreateTempView, DropTempView, Statement, Verdict
from gateway.session.limits import SessionLimits
from gateway.wire.connect import pb, serialize
from tests.session.connect.fakes import (
    ALICE,
    BOB,
    CLIENT,
    OTHER_SESSION,
    SESSION,
    STREAM_ENDS,
    World,
    cases,
    collect,
    execute_request,
    fault,
    progress,
    rows,
    rpc_error,
    schema,
    sql,
    sql_relation,
    sql_rows,
    table,
    uid,
    view,
)
from tests.session.fakes import until
from tests.speed import patience


async def cut_off_after(world: World, plan: Any, taken: int, operation: str, **fields: Any) -> list[Any]:
    """Execute a plan and go away after some responses."""
    request = execute_request(plan, operation=operation, **fields)
    stream = world.service.execute(BOB, CLIENT, request)
    received = [pb.ExecutePlanResponse.FromString(await anext(stream)) for _ in range(taken)]
    await stream.aclose()
    return received


async def test_a_client_goes_on_after_the_last_response_that_it_has() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), *[rows(n) for n in range(1, 6)])
    operation = uid()
    first = await cut_off_after(world, table("t"), 3, operation)
    assert world.outcomes() == {}
    rest = await world.reattach(operation, first[-1].response_id)
    assert [r.arrow_batch.row_count for r in [*first, *rest]] == [0, 1, 2, 3, 4, 5, 0]
    request = world.spark.calls[-1][1]
    assert request.user_context.user_id == "bob"
    assert request.client_observed_server_side_session_id == world.session().server_session
    assert world.outcomes() == {"TABLE t": "finished"}
    assert world.ledger.of("completed")[-1].body["rows"] == 15
    world.require_balance()


def soon(**more: Any) -> World:
    """A gateway that does not wait before it looks how what a client left ends."""
    return World(
        SessionLimits(farewell_s=0, settle_timeout_s=patience(5), close_timeout_s=patience(5), **more)
    )


async def test_a_command_that_its_client_left_before_the_last_word_has_an_end() -> None:
    """PySpark does so with its last command, when its interpreter ends without `stop()`."""
    world = soon()
    world.spark.script("TABLE t", schema())
    (only,) = await cut_off_after(world, table("t"), 1, operation := uid())
    await until(lambda: world.outcomes() == {"TABLE t": "finished"})
    # Who comes back all the same gets the rest.
    assert cases(await world.reattach(operation, only.response_id)) == ["result_complete"]
    await world.service.close()
    world.require_balance()


@pytest.mark.parametrize("taken", [0, 1])
async def test_a_command_that_runs_on_after_its_client_left_ends_when_it_ends(taken: int) -> None:
    world = soon()
    runs = asyncio.Event()
    world.spark.script("TABLE t", progress(), STREAM_ENDS, progress(), runs, schema())
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=uid()))
    first = asyncio.ensure_future(anext(stream))
    await until(lambda: world.statements() == ["TABLE t"])
    if taken:
        await first
    first.cancel()
    await asyncio.wait([first])
    await stream.aclose()
    await until(lambda: world.spark.calls[-1][0] == "ReattachExecute")
    assert world.outcomes() == {}
    runs.set()
    await until(lambda: world.outcomes() == {"TABLE t": "finished"})
    world.require_balance()


async def test_a_command_that_fails_after_its_client_left_has_failed() -> None:
    world = soon()
    runs = asyncio.Event()
    world.spark.script("TABLE t", progress(), runs, fault("[DIVIDE_BY_ZERO] no. SQLSTATE: 22012"))
    await cut_off_after(world, table("t"), 1, uid())
    runs.set()
    await until(lambda: world.outcomes() == {"TABLE t": "failed"})
    world.require_balance()


async def test_rows_that_a_client_left_are_still_there_for_it() -> None:
    world = soon()
    world.spark.script("TABLE t", schema(), rows(1), rows(2))
    first = await cut_off_after(world, table("t"), 1, operation := uid())
    await until(lambda: world.spark.calls[-1][0] == "ReattachExecute")
    await until(lambda: world.session().operations[operation].farewell.done())
    assert world.outcomes() == {}
    rest = await world.reattach(operation, first[-1].response_id)
    assert [r.arrow_batch.row_count for r in rest] == [1, 2, 0]
    assert world.ledger.of("completed")[-1].body["rows"] == 3
    world.require_balance()


async def test_a_client_that_comes_back_has_the_stream_for_itself() -> None:
    world = soon()
    runs = asyncio.Event()
    world.spark.script("TABLE t", progress(), runs, schema())
    (first,) = await cut_off_after(world, table("t"), 1, operation := uid())
    await until(lambda: world.spark.operation(operation).readers == 1)
    back = asyncio.create_task(world.reattach(operation, first.response_id))
    await until(lambda: world.session().operations[operation].attached)
    assert world.session().operations[operation].farewell is None
    runs.set()
    assert cases(await back)[-1] == "result_complete"
    await until(lambda: world.outcomes() == {"TABLE t": "finished"})
    world.require_balance()


async def test_a_gateway_that_stops_does_not_wait_for_what_clients_left() -> None:
    world = World(SessionLimits(farewell_s=3600, settle_timeout_s=patience(5), close_timeout_s=3600))
    world.spark.script("TABLE t", schema(), asyncio.Event())
    await cut_off_after(world, table("t"), 1, uid())
    async with asyncio.timeout(patience(5)):
        await world.service.close()
    assert world.outcomes() == {"TABLE t": "canceled"}
    world.require_balance()


async def test_a_held_answer_is_given_out_again_without_spark() -> None:
    world = World()
    world.spark.script("SELECT", progress(), sql_relation("SELECT guarded"))
    operation = uid()
    first = await cut_off_after(world, sql("SELECT 1"), 1, operation)
    rest = await world.reattach(operation, first[-1].response_id)
    assert cases(rest) == ["sql_command_result", "result_complete"]
    assert rest[0].sql_command_result.relation.sql.query == "SELECT 1"
    assert cases(await world.reattach(operation)) == [*cases(first), *cases(rest)]
    assert "ReattachExecute" not in [method for method, _ in world.spark.calls]
    with rpc_error("INVALID_CURSOR.POSITION_NOT_FOUND"):
        await world.reattach(operation, uid())
    world.require_balance()


async def test_a_held_answer_goes_as_far_as_it_was_released() -> None:
    world = World()
    world.spark.script("SELECT", progress(), progress(), sql_relation("SELECT guarded"))
    operation = uid()
    responses = await world.run(sql("SELECT 1"), operation=operation)
    answer = await world.release(operation, until=responses[1].response_id)
    assert answer.operation_id == operation
    assert answer.server_side_session_id == world.session().server_session
    with rpc_error("INVALID_CURSOR"):
        await world.reattach(operation, responses[0].response_id)
    assert cases(await world.reattach(operation, responses[1].response_id)) == cases(responses[2:])
    await world.release(operation)
    await world.release(operation)
    assert world.session().operations == {}
    # Spark cannot give it out again, but says that it has run.
    with rpc_error("OPERATION_ABANDONED"):
        await world.reattach(operation)
    world.require_balance()


async def test_a_long_held_answer_makes_the_client_come_again() -> None:
    world = World(SessionLimits(stream_s=0.5, close_timeout_s=patience(5)))
    finished = asyncio.Event()
    world.spark.script("INSERT", progress(), finished, sql_rows())
    operation = uid()
    first = await world.run(sql("INSERT"), operation=operation)
    assert cases(first) == ["execution_progress"]
    finished.set()
    rest = await world.reattach(operation, first[-1].response_id)
    assert cases(rest) == ["sql_command_result", "result_complete"]
    assert world.statements() == ["INSERT"]


async def test_a_second_reader_disconnects_the_first() -> None:
    world = World()
    hold = asyncio.Event()
    world.spark.script("INSERT", progress(), hold, sql_rows())
    operation = uid()
    stream = world.service.execute(BOB, CLIENT, execute_request(sql("INSERT"), operation=operation))
    await anext(stream)
    waiting = asyncio.create_task(collect(stream))
    again = asyncio.create_task(world.reattach(operation))
    await asyncio.sleep(0)
    hold.set()
    with rpc_error("INVALID_CURSOR.DISCONNECTED"):
        await waiting
    assert cases(await again) == ["execution_progress", "sql_command_result", "result_complete"]
    assert world.outcomes() == {"INSERT": "finished"}


async def test_a_reader_that_spark_disconnects_does_not_end_the_operation() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), fault("[INVALID_CURSOR.DISCONNECTED] x"))
    with rpc_error("INVALID_CURSOR.DISCONNECTED"):
        await world.run(table("t"), operation=(operation := uid()))
    assert world.outcomes() == {}
    await world.release(operation)
    assert world.outcomes() == {"TABLE t": "canceled"}


async def test_what_cannot_be_taken_up_says_so() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), asyncio.Event())
    operation = uid()
    stream = world.service.execute(
        BOB, CLIENT, execute_request(table("t"), operation=operation, reattachable=False)
    )
    await anext(stream)
    with rpc_error("INVALID_CURSOR.NOT_REATTACHABLE"):
        await world.reattach(operation)
    with pytest.raises(InvalidRequest, match="UUID"):
        await world.reattach("x")
    await stream.aclose()


async def test_an_operation_that_spark_forgot_has_an_end_in_the_record() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), BackendUnavailable("Spark cannot be reached"))
    operation = uid()
    with pytest.raises(BackendUnavailable):
        await world.run(table("t"), operation=operation)
    world.spark.sessions[("bob", SESSION)].operations.clear()
    with rpc_error("OPERATION_NOT_FOUND"):
        await world.reattach(operation)
    assert world.outcomes() == {"TABLE t": "failed"}
    assert world.session().operations == {}
    # pyspark runs it anew then: it is another statement.
    world.spark.script("TABLE t", schema(), rows(1))
    await world.run(table("t"), operation=operation)
    world.require_balance()


async def test_a_release_before_the_end_stops_it() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), asyncio.Event())
    world.spark.script("INSERT", progress(), asyncio.Event())
    for plan, taken in ((table("t"), 1), (sql("INSERT"), 1)):
        operation = uid()
        await cut_off_after(world, plan, taken, operation)
        await world.release(operation)
    assert world.outcomes() == {"TABLE t": "canceled", "INSERT": "canceled"}
    await until(lambda: "Interrupt" in [method for method, _ in world.spark.calls])
    assert world.session().operations == {}
    world.require_balance()


async def test_nothing_is_shown_of_what_was_stopped_before_spark_looked_up_its_names() -> None:
    world = World()
    world.judge.effects = [("DROP VIEW v", (DropTempView("v"),))]
    held = asyncio.Event()
    world.spark.script("TABLE t", held, schema(), rows(1))
    operation = uid()
    reading = asyncio.create_task(world.run(table("t"), operation=operation))
    await until(lambda: "TABLE t" in world.spark.received)
    # The call that stops it overtakes the one that runs it: Spark finds nothing to stop.
    running = world.spark.sessions["bob", SESSION].operations
    hidden = running.pop(operation)
    await world.release(operation)
    dropping = asyncio.create_task(world.run(sql("DROP VIEW v")))
    await until(lambda: "Interrupt" in [method for method, _ in world.spark.calls])
    assert "DROP VIEW v" not in world.spark.received
    held.set()
    with rpc_error("OPERATION_CANCELED"):
        await reading
    running[operation] = hidden
    await dropping
    assert world.outcomes()["TABLE t"] == "canceled"
    world.require_balance()


async def test_a_question_that_overtakes_the_statement_does_not_let_its_names_change() -> None:
    world = World()
    world.judge.effects = [("VIEW v", (CreateTempView("v"),)), ("DROP VIEW v", (DropTempView("v"),))]
    await world.run(view("v", "t"))
    held = asyncio.Event()
    world.spark.script("TABLE v", progress(), held, schema(), rows(1))
    operation = uid()
    reading = asyncio.create_task(world.run(table("v"), operation=operation))
    await until(lambda: "TABLE v" in world.spark.received)
    # Spark gets the plan, which may be large, after the question.
    running = world.spark.sessions["bob", SESSION].operations
    hidden = running.pop(operation)
    with rpc_error("OPERATION_NOT_FOUND"):
        await world.reattach(operation)
    dropping = asyncio.create_task(world.run(sql("DROP VIEW v")))
    await until(lambda: "Interrupt" in [method for method, _ in world.spark.calls])
    assert "DROP VIEW v" not in world.spark.received
    running[operation] = hidden
    held.set()
    with pytest.raises(RpcError):
        await reading
    await dropping
    assert world.spark.received[-1] == "DROP VIEW v"
    world.require_balance()


async def test_what_is_given_up_before_spark_looked_up_its_names_cannot_be_taken_up_again() -> None:
    world = World()
    world.spark.script("TABLE t", progress(), asyncio.Event(), schema(), rows(1))
    operation = uid()
    await cut_off_after(world, table("t"), 1, operation)
    # Spark does not notice that it is to stop.
    hidden = world.spark.sessions["bob", SESSION].operations[operation]
    await world.release(operation)
    assert operation not in world.session().operations
    world.spark.sessions["bob", SESSION].operations[operation] = hidden
    with rpc_error("OPERATION_ABANDONED"):
        await world.reattach(operation)
    with rpc_error("OPERATION_ABANDONED"):
        await world.run(table("t"), operation=operation)
    assert world.statements() == ["TABLE t"]
    world.require_balance()


async def test_an_interrupt_is_not_its_end_before_spark_looked_up_its_names() -> None:
    world = World(SessionLimits(settle_timeout_s=patience(5), close_timeout_s=patience(5), farewell_s=0.01))
    world.judge.effects = [("VIEW v", (CreateTempView("v"),)), ("DROP VIEW v", (DropTempView("v"),))]
    await world.run(view("v", "t"))
    planning = asyncio.Event()
    world.spark.script("TABLE v", progress(), planning, schema(), rows(1))
    operation = uid()
    await cut_off_after(world, table("v"), 1, operation)
    # Spark has taken note, and goes on.
    running = world.spark.sessions["bob", SESSION].operations[operation]
    await world.call("Interrupt", interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL)
    running.interrupted.clear()
    assert "TABLE v" not in world.outcomes()
    dropping = asyncio.create_task(world.run(sql("DROP VIEW v")))
    await until(lambda: "ReattachExecute" in [method for method, _ in world.spark.calls])
    assert "DROP VIEW v" not in world.spark.received
    planning.set()
    await dropping
    assert world.spark.received[-1] == "DROP VIEW v"


@pytest.mark.parametrize("how", ["all", "tag", "id", "another"])
async def test_a_plan_is_interrupted_while_it_is_judged(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """To its client it runs, though Spark has not heard of it: names are looked up in a slow metastore."""
    world = World()
    await world.run(table("before"))
    verdicts = world.service._execution._verdicts
    judge, looking, told = verdicts.judge, asyncio.Event(), asyncio.Event()

    async def judged_late(statement: Statement, client: Client) -> Verdict:
        looking.set()
        await told.wait()
        return await judge(statement, client)

    monkeypatch.setattr(verdicts, "judge", judged_late)
    operation, kinds = uid(), pb.InterruptRequest
    running = asyncio.create_task(world.run(table("slow"), operation=operation, tags=["x"]))
    waiting = asyncio.create_task(world.run(table("slow"), tags=["y"]))
    await looking.wait()
    everything = pb.GetStatusRequest.OperationStatusRequest()
    status = await world.call("GetStatus", operation_status=everything)
    states = {one.operation_id: one.state for one in status.operation_statuses}
    assert states[operation] == pb.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING
    asked: dict[str, dict[str, Any]] = {
        "all": {"interrupt_type": kinds.INTERRUPT_TYPE_ALL},
        "tag": {"interrupt_type": kinds.INTERRUPT_TYPE_TAG, "operation_tag": "x"},
        "id": {"interrupt_type": kinds.INTERRUPT_TYPE_OPERATION_ID, "operation_id": operation.upper()},
        "another": {"interrupt_type": kinds.INTERRUPT_TYPE_OPERATION_ID, "operation_id": uid()},
    }
    answer = await world.call("Interrupt", **asked[how])
    if how == "another":
        assert list(answer.interrupted_ids) == []
    else:
        assert operation in answer.interrupted_ids
        assert len(answer.interrupted_ids) == (2 if how == "all" else 1)
        with rpc_error("OPERATION_CANCELED"):
            await running
    told.set()
    if how == "all":
        with rpc_error("OPERATION_CANCELED"):
            await waiting
    else:
        await waiting
        await asyncio.wait([running])
    await world.run(table("after"))
    assert world.statements().count("TABLE slow") == {"all": 0, "tag": 1, "id": 1, "another": 2}[how]
    assert not world.session().preparing
    world.require_balance()


async def test_releases_of_other_users_reach_nothing() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), asyncio.Event())
    operation = uid()
    await cut_off_after(world, table("t"), 1, operation)
    await world.run(table("u"), principal=ALICE)
    await world.release(operation, principal=ALICE)
    with rpc_error("OPERATION_NOT_FOUND"):
        await world.reattach(operation, principal=ALICE)
    answer = await world.call(
        "Interrupt",
        ALICE,
        interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
        operation_id=operation,
    )
    assert list(answer.interrupted_ids) == []
    assert operation in world.session().operations
    assert world.outcomes() == {"TABLE u": "finished"}


async def test_a_release_needs_no_record_and_no_session() -> None:
    world = World()
    before = len(world.ledger.events)
    world.spark.sessions.clear()
    await world.release(uid())
    assert world.ledger.events[before:] == []
    with pytest.raises(InvalidRequest, match="UUID"):
        await world.release("x")


async def test_interrupted_operations_are_recorded_as_canceled() -> None:
    world = World()
    world.spark.script("TABLE", schema(), asyncio.Event())
    world.spark.script("INSERT", asyncio.Event())
    read = asyncio.create_task(world.run(table("read"), tags=["x"]))
    held = asyncio.create_task(world.run(sql("INSERT")))
    left = uid()
    await cut_off_after(world, table("left"), 1, left)
    await until(lambda: len(world.statements()) == 3)
    kinds = pb.InterruptRequest
    await world.call("Interrupt", interrupt_type=kinds.INTERRUPT_TYPE_TAG, operation_tag="x")
    with rpc_error("OPERATION_CANCELED"):
        await read
    assert world.outcomes() == {"TABLE read": "canceled"}
    await world.call("Interrupt", interrupt_type=kinds.INTERRUPT_TYPE_OPERATION_ID, operation_id=left.upper())
    assert world.outcomes()["TABLE left"] == "canceled"
    await world.call("Interrupt", interrupt_type=kinds.INTERRUPT_TYPE_ALL)
    with rpc_error("OPERATION_CANCELED"):
        await held
    assert world.outcomes()["INSERT"] == "canceled"
    assert all(request.user_context.user_id == "bob" for _, request in world.spark.calls[1:])
    world.require_balance()


async def test_after_a_kill_rows_go_on_where_they_were() -> None:
    before = World()
    before.spark.script("TABLE t", schema(), *[rows(n) for n in range(1, 6)])
    operation = uid()
    first = await cut_off_after(before, table("t"), 3, operation)
    server_session = before.session().server_session
    after = World(spark=before.spark)
    rest = await after.reattach(operation, first[-1].response_id, observed=server_session)
    assert [r.arrow_batch.row_count for r in [*first, *rest]] == [0, 1, 2, 3, 4, 5, 0]
    [event] = after.ledger.of("reattached")
    assert event.user == "bob"
    assert event.statement_id == ""
    assert event.body["operation"] == operation
    assert event.body["sess"] == SESSION
    assert event.body["rows"] == 12
    assert event.body["complete"] is True
    assert after.ledger.of("security") == []
    # No session was made for it, and no plan was sent.
    assert len(after.service) == 0
    assert after.spark.received.count("TABLE t") == 1


async def test_after_a_kill_a_client_that_leaves_again_is_recorded_too() -> None:
    before = World()
    before.spark.script("TABLE t", schema(), *[rows(1)] * 5)
    operation = uid()
    first = await cut_off_after(before, table("t"), 1, operation)
    after = World(spark=before.spark)
    request = pb.ReattachExecuteRequest(session_id=SESSION, operation_id=operation)
    request.last_response_id = first[-1].response_id
    stream = after.service.reattach(BOB, CLIENT, serialize(request))
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    assert after.ledger.of("reattached")[0].body["rows"] == 2
    assert after.ledger.of("reattached")[0].body["complete"] is False


async def test_after_a_kill_nobody_elses_operation_is_found() -> None:
    before = World()
    operation = uid()
    await cut_off_after(before, table("t"), 1, operation)
    after = World(spark=before.spark)
    for principal, session in ((ALICE, SESSION), (BOB, OTHER_SESSION)):
        with rpc_error("INVALID_HANDLE"):
            await after.reattach(operation, principal=principal, session=session)
    assert after.ledger.events == []


async def test_after_a_kill_an_answer_that_was_to_be_changed_is_out_of_reach() -> None:
    before = World()
    before.spark.script("SELECT", progress(), asyncio.Event())
    operation = uid()
    await cut_off_after(before, sql("SELECT secret"), 1, operation)
    after = World(spark=before.spark)
    with rpc_error("INVALID_CURSOR.NOT_REATTACHABLE"):
        await after.reattach(operation)


async def test_after_a_kill_nothing_runs_twice() -> None:
    before = World()
    before.spark.script("INSERT", asyncio.Event())
    operation = uid()
    running = asyncio.create_task(before.run(sql("INSERT"), operation=operation))
    await until(lambda: "INSERT" in before.spark.received)
    running.cancel()
    after = World(spark=before.spark)
    # Spark has worked it off meanwhile, and forgotten it: it was not to be kept.
    before.spark.sessions[("bob", SESSION)].operations.clear()
    before.spark.states[operation] = pb.GetStatusResponse.OperationStatus.OPERATION_STATE_SUCCEEDED
    with rpc_error("OPERATION_ABANDONED"):
        await after.reattach(operation)
    # One that never reached Spark may be run again, and one that nobody can tell of may not.
    with rpc_error("OPERATION_NOT_FOUND"):
        await after.reattach(uid())
    after.spark.faults["GetStatus"] = fault("not implemented", code=12)
    with rpc_error("OPERATION_ABANDONED"):
        await after.reattach(uid())
    await before.service.close()


async def test_after_a_kill_a_relation_that_a_gateway_wrote_is_not_shown() -> None:
    before = World()
    before.spark.script("TABLE t", schema(), rows(1))
    operation = uid()
    await cut_off_after(before, table("t"), 1, operation)
    before.spark.operation(operation).steps[1] = sql_relation("SELECT guarded")
    after = World(spark=before.spark)
    with pytest.raises(InvalidRequest, match="run it again"):
        await after.reattach(operation)


async def test_after_a_kill_errors_are_redacted_as_if_values_stood_in_them() -> None:
    before = World()
    before.spark.script("TABLE t", schema(), fault("[CAST_INVALID_INPUT] The value 'secret' of x"))
    operation = uid()
    await cut_off_after(before, table("t"), 1, operation)
    after = World(spark=before.spark)
    with rpc_error("Spark could not run the statement"):
        await after.reattach(operation)
    assert "secret" not in str(after.ledger.events)


async def test_after_a_kill_releases_and_interrupts_go_through() -> None:
    before = World()
    before.spark.script("TABLE t", schema(), asyncio.Event())
    operation = uid()
    await cut_off_after(before, table("t"), 1, operation)
    after = World(spark=before.spark)
    answer = await after.call("Interrupt", interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL)
    assert list(answer.interrupted_ids) == [operation]
    await after.release(operation)
    assert after.spark.sessions[("bob", SESSION)].operations == {}
