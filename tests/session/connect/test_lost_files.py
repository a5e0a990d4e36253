"""What only reads, and fails because a table of its policies was written anew, is run once more by itself, as
long as its client has no row of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import RpcError
from gateway.model.catalog import TableName
from gateway.model.statement import CreateTempView
from gateway.session.failures import StatementRefused
from gateway.wire.connect import pb, serialize
from tests.session.connect.fakes import (
    BOB,
    CLIENT,
    World,
    cases,
    collect,
    execute_request,
    fault,
    progress,
    rows,
    rpc_error,
    schema,
    table,
    uid,
    view,
)
from tests.session.fakes import until

MAPPING = TableName("spark_catalog", "hr", "mapping")
LOOK = f"REFRESH TABLE {MAPPING}"
GONE = fault(
    "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:/warehouse/mapping/1. "
    "File does not exist. SQLSTATE: KD001"
)
READ = [LOOK, "TABLE t", LOOK, "TABLE t"]


def failing(*runs: list[Any]) -> World:
    """A Spark that answers `TABLE t` by these steps, one list for each run; the last one ever after."""
    world = World()
    world.judge.changes["TABLE t"] = {"policy_tables": (MAPPING,)}
    left = [*runs]
    world.spark.scripts.insert(0, ("^TABLE t", lambda: left.pop(0) if len(left) > 1 else [*left[0]]))
    return world


@pytest.mark.parametrize("reattachable", [True, False])
@pytest.mark.parametrize("before", [[], [schema()], [progress(), schema(), progress()]])
async def test_it_is_run_again_after_a_look(before: list[Any], reattachable: bool) -> None:
    world = failing([*before, GONE], [schema(), rows(3)])
    received = await world.run(table("t"), reattachable=reattachable)
    ends = ["result_complete"] if reattachable else []
    assert cases(received)[len(before) :] == [None, "arrow_batch", *ends]
    assert world.statements() == READ
    assert len(world.ledger.of("decided")) == 4, "one statement, decided alike, two looks and the beginning"
    assert world.outcomes()["TABLE t"] == "finished"
    assert len({response.operation_id for response in received}) == 1, "Spark's own id is another one"
    world.require_balance()


async def test_it_is_run_again_once() -> None:
    world = failing([schema(), GONE])
    with rpc_error("FILE_NOT_EXIST"):
        await world.run(table("t"))
    assert world.statements() == READ
    assert world.outcomes()["TABLE t"] == "failed"
    world.require_balance()


async def test_after_a_row_it_is_not() -> None:
    world = failing([schema(), rows(1), GONE])
    with rpc_error("FILE_NOT_EXIST"):
        await world.run(table("t"))
    assert world.statements() == [LOOK, "TABLE t"]
    # But whoever asks again has the files of now.
    with rpc_error("FILE_NOT_EXIST"):
        await world.run(table("t"))
    assert world.statements() == READ


@pytest.mark.parametrize("changed", [{"policy_tables": ()}, {"read_only": False}])
async def test_what_no_policy_reads_for_and_what_writes_is_not(changed: dict[str, Any]) -> None:
    world = failing([schema(), GONE])
    world.judge.changes["TABLE t"] |= changed
    with rpc_error("FILE_NOT_EXIST"):
        await world.run(table("t"))
    assert world.statements().count("TABLE t") == 1


async def test_what_has_effects_is_not() -> None:
    world = failing([GONE])
    world.judge.changes["VIEW v"] = {"policy_tables": (MAPPING,), "read_only": True}
    world.judge.effects.append(("VIEW v", (CreateTempView("v"),)))
    world.spark.script("VIEW v", GONE)
    with rpc_error("FILE_NOT_EXIST"):
        await world.run(view("v", "t"))
    assert world.statements().count("VIEW v OF t") == 1


async def test_what_fails_otherwise_is_not() -> None:
    world = failing([schema(), fault("[DIVIDE_BY_ZERO] FILE_NOT_EXIST")])
    with rpc_error("DIVIDE_BY_ZERO"):
        await world.run(table("t"))
    assert world.statements().count("TABLE t") == 1


async def test_it_is_judged_by_the_policies_of_now() -> None:
    world = failing([schema(), GONE])
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=(operation := uid())))
    await anext(stream)
    world.judge.refused = "TABLE t"
    world.new_policies()
    with pytest.raises(StatementRefused):
        await collect(stream)
    assert world.statements().count("TABLE t") == 1
    assert [event.body["verdict"] for event in world.ledger.of("decided")][-1] == "refused"
    assert operation not in world.session().operations
    world.require_balance()


async def test_another_verdict_is_another_statement_of_the_record() -> None:
    world = failing([schema(), GONE], [schema(), rows(3)])
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t")))
    await anext(stream)
    world.new_policies(mark=" masked")
    await collect(stream)
    ends = [event.body["outcome"] for event in world.ledger.of("completed")]
    assert ends.count("failed") == 1
    assert ends[-1] == "finished"
    world.require_balance()


async def test_a_client_that_comes_back_with_a_response_of_the_first_run_gets_all_of_the_second() -> None:
    held = asyncio.Event()
    world = failing([schema(), GONE], [schema(), held, rows(3), rows(2)])
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=(operation := uid())))
    first = pb.ExecutePlanResponse.FromString(await anext(stream))
    second = pb.ExecutePlanResponse.FromString(await anext(stream))
    assert first.response_id != second.response_id
    await world.release(operation, first.response_id)
    await stream.aclose()
    held.set()
    rest = await world.reattach(operation, first.response_id)
    assert cases(rest) == [None, "arrow_batch", "arrow_batch", "result_complete"]
    await world.release(operation)
    world.require_balance()


async def test_its_client_knows_it_by_the_id_that_it_gave() -> None:
    held = asyncio.Event()
    world = failing([schema(), GONE], [schema(), held, rows(3)])
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=(operation := uid())))
    await anext(stream)
    await anext(stream)
    status = await world.call("GetStatus", operation_status={"operation_ids": [operation]})
    running = pb.GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING
    assert [(one.operation_id, one.state) for one in status.operation_statuses] == [(operation, running)]
    kinds = pb.InterruptRequest
    for asked in (
        {"interrupt_type": kinds.INTERRUPT_TYPE_OPERATION_ID, "operation_id": operation},
        {"interrupt_type": kinds.INTERRUPT_TYPE_ALL},
    ):
        answer = await world.call("Interrupt", **asked)
        assert list(answer.interrupted_ids) == [operation]
    with pytest.raises(RpcError, match="OPERATION_CANCELED"):
        await collect(stream)
    assert (await world.release(operation)).operation_id == operation
    assert world.outcomes()["TABLE t"] == "canceled"
    world.require_balance()


async def test_one_that_is_interrupted_meanwhile_ends() -> None:
    world = failing([schema(), GONE])
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=(operation := uid())))
    await anext(stream)
    async with world.session().lock:
        ending = asyncio.create_task(collect(stream))
        await until(lambda: bool(world.session().preparing))
        kinds = pb.InterruptRequest
        answer = await world.call(
            "Interrupt", interrupt_type=kinds.INTERRUPT_TYPE_OPERATION_ID, operation_id=operation
        )
        assert list(answer.interrupted_ids) == [operation]
        with pytest.raises(RpcError, match="OPERATION_CANCELED"):
            await ending
    assert world.statements().count("TABLE t") == 1
    assert world.outcomes()["TABLE t"] == "canceled"
    world.require_balance()


@pytest.mark.parametrize("how", ["leaves", "releases the session"])
async def test_a_client_that_goes_meanwhile_leaves_nothing(how: str) -> None:
    world = failing([schema(), GONE])
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t")))
    await anext(stream)
    session = world.session()
    async with session.lock:
        ending = asyncio.create_task(collect(stream))
        await until(lambda: bool(session.preparing))
        if how == "leaves":
            ending.cancel()
        else:
            await world.call("ReleaseSession")
    with pytest.raises((asyncio.CancelledError, RpcError)):
        await ending
    assert world.statements().count("TABLE t") == 1
    assert not session.operations or how != "leaves"
    world.require_balance()


async def test_the_causes_of_a_wait_are_asked_for_once_and_told_all_the_same() -> None:
    """Spark tells the details of an error once."""
    for condition, runs in (("FAILED_READ_FILE.FILE_NOT_EXIST", 2), ("DIVIDE_BY_ZERO", 1)):
        error = waiting_failed()
        world = failing([schema(), error], [schema(), error])
        details = pb.FetchErrorDetailsResponse(root_error_idx=0)
        details.errors.add(message="waited", error_type_hierarchy=["org.apache.spark.SparkException"])
        details.errors.add(message="why").spark_throwable.error_class = condition
        world.spark.errors["e-1"] = details
        with rpc_error("awaitResult"):
            await world.run(table("t"))
        assert world.statements().count("TABLE t") == runs
        asked = [message for method, message in world.spark.calls if method == "FetchErrorDetails"]
        told = await world.call("FetchErrorDetails", error_id="e-1")
        assert len(told.errors) == 2
        assert len([m for method, m in world.spark.calls if method == "FetchErrorDetails"]) == len(asked) == 1


def waiting_failed() -> RpcError:
    """An error that says only that a wait failed, and by which id more can be asked for."""
    from gateway.wire.connect_errors import StatusDetails, pack_status

    metadata = {"errorId": "e-1", "classes": '["org.apache.spark.SparkException"]'}
    told = StatusDetails(reason="org.apache.spark.SparkException", metadata=metadata)
    message = "Exception thrown in awaitResult: "
    return RpcError(code=13, message=message, details=pack_status(13, message, told))


async def test_what_is_shown_of_it_is_counted_once() -> None:
    world = failing([schema(), GONE], [schema(), rows(3)])
    received = await world.run(table("t"))
    body = world.ledger.of("completed")[-1].body
    assert body["rows"] == 3
    assert body["bytes"] == sum(len(serialize(response)) for response in received)
