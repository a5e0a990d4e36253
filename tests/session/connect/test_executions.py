"""A plan's way: judged, recorded, forwarded, relayed; one end for each, whatever happens."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing
from typing import Any

import pytest

from gateway.errors import BackendUnavailable, InvalidRequest, LedgerUnavailable, LimitExceeded, RpcError
from gateway.model.catalog import TableName
from gateway.model.decision import PolicyRef, RowFilter
from gateway.model.statement import AnswerFilter, AnswerRule, ScanRecord
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.limits import SessionLimits
from gateway.wire.connect import pb, serialize
from tests.session.connect.fakes import (
    BOB,
    CLIENT,
    SESSION,
    STREAM_ENDS,
    World,
    cases,
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
    words,
)
from tests.session.fakes import until
from tests.speed import patience

GUARDED = ScanRecord(
    table=TableName("spark_catalog", "hr", "employee"),
    access="select",
    columns=None,
    obligations=(RowFilter(expression="region = 'EU'", policy=PolicyRef(id=8, name="eu", version=1)),),
)


async def test_a_plan_is_recorded_before_spark_gets_it_and_ends_once() -> None:
    world = World()
    responses = await world.run(table("t"))
    assert cases(responses) == [None, "arrow_batch", "arrow_batch", "result_complete"]
    assert world.order[-3:] == ["decided", "forwarded", "completed"]
    event = world.ledger.of("completed")[-1]
    assert event.body["outcome"] == "finished"
    assert event.body["rows"] == 5
    assert event.body["bytes"] == sum(len(serialize(response)) for response in responses)
    assert event.body["backend_operation"] == responses[0].operation_id
    world.require_balance()


async def test_what_spark_says_of_rows_reaches_the_client_as_the_same_bytes() -> None:
    world = World()
    request = execute_request(table("t"), operation=(operation := uid()))
    received = [data async for data in world.service.execute(BOB, CLIENT, request)]
    assert received == world.spark.operation(operation).responses


async def test_the_record_of_a_plan_tells_what_it_was() -> None:
    world = World()
    world.judge.changes["TABLE t"] = {
        "plan_texts": ("a > 1",),
        "code": ("execute system.session.f",),
        "forwarded": "guarded rendering",
        "scans": (GUARDED,),
    }
    plan = table("t")
    await world.run(plan, operation=(operation := uid()))
    body = world.ledger.of("decided")[-1].body
    assert body["reqData"] == words(plan)
    assert body["plan"] == "execute"
    assert body["plan_sha256"] == hashlib.sha256(serialize(plan)).hexdigest()
    assert body["texts"] == ["a > 1"]
    assert body["user_code"] == ["execute system.session.f"]
    assert body["forwarded"] == "guarded rendering"
    assert body["forwarded_plan_sha256"] == body["plan_sha256"]
    assert body["operation"] == operation
    assert body["sess"] == SESSION
    assert body["cliType"] == "connect"
    assert body["cliIP"] == CLIENT.address
    assert body["application"] == "pyspark"
    assert body["reqUser"] == "bob"
    assert body["scans"][0]["obligations"][0]["type"] == "ROW_FILTER"


async def test_a_refused_plan_is_recorded_and_never_forwarded() -> None:
    world = World()
    world.judge.refused = "secret"
    with pytest.raises(StatementRefused, match="needs select"):
        await world.run(table("secret"))
    assert world.statements() == []
    assert world.ledger.of("decided")[-1].body["code"] == "ACCESS_DENIED"
    world.require_balance()


async def test_without_a_record_nothing_is_forwarded() -> None:
    world = World()
    await world.run(table("t"))
    world.ledger.down = True
    with pytest.raises(LedgerUnavailable):
        await world.run(table("u"))
    assert world.statements() == ["TABLE t"]


async def test_the_principal_is_the_user_whatever_the_client_says() -> None:
    world = World()
    await world.run(table("t"), user="alice")
    assert {envelope.user for envelope in world.spark.envelopes} == {"bob"}
    assert {user for user, _ in world.spark.sessions} == {"bob"}


async def test_the_envelope_carries_what_the_client_asked_for() -> None:
    world = World()
    operation = uid().upper()
    request = pb.ExecutePlanRequest.FromString(
        execute_request(table("t"), operation=operation, tags=["one", "two"])
    )
    chunking = request.request_options.add().result_chunking_options
    chunking.allow_arrow_batch_chunking = True
    chunking.preferred_arrow_chunk_size = 1024
    async with aclosing(world.service.execute(BOB, CLIENT, serialize(request))) as stream:
        await anext(stream)
    envelope = world.spark.envelopes[-1]
    assert envelope.operation_id == operation.lower()
    assert envelope.tags == ("one", "two")
    assert envelope.chunked
    assert envelope.chunk_bytes == 1024
    assert envelope.reattachable
    assert envelope.client_type == "pyspark"
    assert envelope.server_session == world.session().server_session != ""


@pytest.mark.parametrize(
    "changed",
    [
        {"session": "not-a-uuid"},
        {"session": ""},
        {"session": SESSION + "\n"},
        {"session": "1-1-1-1-1"},
        {"operation": "x"},
        {"operation": "../../etc"},
        {"tags": [""]},
        {"tags": ["a,b"]},
        {"tags": ["x" * 257]},
        {"tags": [str(n) for n in range(65)]},
    ],
)
async def test_ids_and_tags_that_are_none_are_refused_before_anything_happens(changed: Any) -> None:
    world = World()
    with pytest.raises(InvalidRequest):
        await world.run(table("t"), **changed)
    assert world.order == []
    assert len(world.service) == 0


async def test_bytes_that_are_no_request_are_refused() -> None:
    world = World()
    for data in (b"\xff", b"", serialize(pb.ExecutePlanRequest(session_id=SESSION))):
        with pytest.raises(InvalidRequest):
            await anext(world.service.execute(BOB, CLIENT, data))
    assert world.order == []


async def test_what_this_gateway_does_not_know_is_refused() -> None:
    world = World()
    unknown = execute_request(table("t")) + b"\xf2\x3e\x01x"
    with pytest.raises(InvalidRequest, match="does not support"):
        await anext(world.service.execute(BOB, CLIENT, unknown))
    request = pb.ExecutePlanRequest.FromString(execute_request(table("t")))
    request.request_options.add().extension.type_url = "x"
    with pytest.raises(InvalidRequest, match="request option"):
        await anext(world.service.execute(BOB, CLIENT, serialize(request)))
    request = pb.ExecutePlanRequest.FromString(execute_request(table("t")))
    request.client_type = "x" * 3000
    with pytest.raises(InvalidRequest, match="name"):
        await anext(world.service.execute(BOB, CLIENT, serialize(request)))
    assert world.order == []


async def test_an_error_of_spark_is_redacted_and_recorded() -> None:
    world = World()
    world.judge.scans["TABLE t"] = (GUARDED,)
    world.spark.script("TABLE t", schema(), rows(1), fault("[CAST_INVALID_INPUT] The value 'secret' of x"))
    with pytest.raises(RpcError) as caught:
        await world.run(table("t"))
    assert "secret" not in caught.value.message
    event = world.ledger.of("completed")[-1]
    assert event.body["outcome"] == "failed"
    assert event.body["rows"] == 1
    assert "secret" not in event.body["error"]
    world.require_balance()


async def test_metrics_of_a_guarded_plan_lose_their_counts() -> None:
    world = World()
    world.judge.scans["TABLE t"] = (GUARDED,)
    counted = pb.ExecutePlanResponse()
    counted.metrics.metrics.add(name="rows before the filter")
    world.spark.script("TABLE", schema(), rows(1), counted)
    assert not any(response.HasField("metrics") for response in await world.run(table("t")))
    assert any(response.HasField("metrics") for response in await world.run(table("free")))


async def test_an_answer_with_a_relation_gets_the_clients_own_back() -> None:
    world = World()
    world.spark.script("SELECT", sql_relation("SELECT * FROM (guarded)"))
    responses = await world.run(sql("SELECT * FROM t"))
    assert cases(responses) == ["sql_command_result", "result_complete"]
    assert responses[0].sql_command_result.relation.sql.query == "SELECT * FROM t"
    envelope = world.spark.envelopes[-1]
    # INVARIANT (no unchanged answer): nobody can take this up again at Spark.
    assert not envelope.reattachable
    assert not envelope.chunked


async def test_an_answer_that_lists_names_is_filtered() -> None:
    world = World()
    world.hidden.add("spark_catalog.secret")
    world.judge.rules["SHOW DATABASES"] = AnswerRule(filter=AnswerFilter.DATABASES, catalog="spark_catalog")
    world.spark.script("SHOW DATABASES", sql_rows(("default",), ("secret",)))
    responses = await world.run(sql("SHOW DATABASES"))
    data = responses[0].sql_command_result.relation.local_relation.data
    assert b"default" in data
    assert b"secret" not in data


async def test_an_answer_of_unknown_shape_is_not_shown() -> None:
    world = World()
    world.judge.rules["SHOW DATABASES"] = AnswerRule(filter=AnswerFilter.DATABASES, catalog="spark_catalog")
    world.spark.script("SHOW DATABASES", sql_rows(("default", "secret")))
    with pytest.raises(StatementFailed, match="cannot be filtered"):
        await world.run(sql("SHOW DATABASES"))
    assert world.outcomes() == {"SHOW DATABASES": "failed"}
    world.require_balance()


async def test_an_answer_that_is_too_large_to_be_held_fails() -> None:
    world = World(SessionLimits(buffered_answer_bytes=2000, close_timeout_s=patience(5)))
    world.spark.script("SHOW", *[sql_rows(("x" * 1500,))] * 3)
    with pytest.raises(LimitExceeded, match="too large"):
        await world.run(sql("SHOW TABLES"))
    assert world.outcomes() == {"SHOW TABLES": "failed"}


async def test_a_session_has_a_bounded_number_of_bytes_held() -> None:
    world = World(SessionLimits(buffered_answer_bytes=3000, close_timeout_s=patience(5)))
    world.spark.script("SHOW", sql_rows(("x" * 1500,)))
    operation = uid()
    await world.run(sql("SHOW TABLES"), operation=operation)
    with pytest.raises(LimitExceeded, match="too large"):
        await world.run(sql("SHOW TABLES"))
    await world.release(operation)
    await world.run(sql("SHOW TABLES"))


async def test_a_relation_where_none_was_asked_for_goes_nowhere() -> None:
    world = World()
    world.spark.script("TABLE t", sql_relation("SELECT * FROM (guarded)"))
    with pytest.raises(StatementFailed, match="cannot be shown"):
        await world.run(table("t"))
    assert world.outcomes() == {"TABLE t": "failed"}


async def test_a_client_that_cannot_come_back_ends_its_operation_by_going() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), rows(1), asyncio.Event())
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), reattachable=False))
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    assert world.outcomes() == {"TABLE t": "canceled"}
    assert world.session().operations == {}
    await until(lambda: any(method == "Interrupt" for method, _ in world.spark.calls))
    world.require_balance()


async def test_a_client_that_does_not_want_to_come_back_gets_no_result_complete() -> None:
    world = World()
    assert cases(await world.run(table("t"), reattachable=False)) == [None, "arrow_batch", "arrow_batch"]
    assert cases(await world.run(sql("SHOW TABLES"), reattachable=False)) == ["sql_command_result"]
    assert world.outcomes() == {"TABLE t": "finished", "SHOW TABLES": "finished"}
    assert world.session().operations == {}


async def test_one_response_is_read_when_the_one_before_was_taken() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), *[rows(1)] * 50)
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=(operation := uid())))
    for taken in range(1, 6):
        await anext(stream)
        assert len(world.spark.operation(operation).responses) == taken
    await stream.aclose()


async def test_an_operation_that_is_known_is_not_run_twice() -> None:
    world = World()
    request = execute_request(table("t"), operation=uid())
    first = [data async for data in world.service.execute(BOB, CLIENT, request)]
    again = [data async for data in world.service.execute(BOB, CLIENT, request)]
    assert again == first
    assert world.statements() == ["TABLE t"]
    held = execute_request(sql("SHOW TABLES"), operation=uid())
    first = [data async for data in world.service.execute(BOB, CLIENT, held)]
    assert [data async for data in world.service.execute(BOB, CLIENT, held)] == first
    world.require_balance()


async def test_an_id_in_use_does_not_name_another_plan() -> None:
    world = World()
    operation = uid()
    await world.run(table("t"), operation=operation)
    with rpc_error("OPERATION_ALREADY_EXISTS"):
        await world.run(table("u"), operation=operation)
    assert world.statements() == ["TABLE t"]


async def test_an_operation_belongs_to_its_user_and_session() -> None:
    world = World()
    from tests.session.connect.fakes import ALICE, OTHER_SESSION

    operation = uid()
    await world.run(table("t"), operation=operation)
    # The same id is another operation for somebody else, and in another session.
    await world.run(table("u"), operation=operation, principal=ALICE)
    await world.run(table("w"), operation=operation, session=OTHER_SESSION)
    assert world.statements() == ["TABLE t", "TABLE u", "TABLE w"]
    with rpc_error("INVALID_HANDLE"):
        await world.reattach(operation, principal=ALICE, session=OTHER_SESSION)


async def test_a_session_has_a_bounded_number_of_operations() -> None:
    world = World(SessionLimits(operations_per_session=2))
    await world.run(table("t"))
    await world.run(table("t"))
    with pytest.raises(LimitExceeded, match="open operations"):
        await world.run(table("t"))
    await world.release(next(iter(world.session().operations)))
    await world.run(table("t"))


async def test_spark_that_cannot_be_reached_ends_what_cannot_be_taken_up() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), BackendUnavailable("Spark cannot be reached"))
    with pytest.raises(BackendUnavailable):
        await world.run(table("t"), reattachable=False)
    assert world.outcomes() == {"TABLE t": "failed"}
    world.spark.script("TABLE u", schema(), BackendUnavailable("Spark cannot be reached"))
    with pytest.raises(BackendUnavailable):
        await world.run(table("u"), operation=(operation := uid()))
    assert "TABLE u" not in world.outcomes()
    await world.release(operation)
    assert world.outcomes()["TABLE u"] == "canceled"
    world.require_balance()


async def test_an_analysis_is_judged_recorded_and_answered_with_sparks_bytes() -> None:
    world = World()
    request = pb.AnalyzePlanRequest(session_id=SESSION, client_type="pyspark")
    request.user_context.user_id = "mallory"
    request.schema.plan.CopyFrom(table("t"))
    answer = pb.AnalyzePlanResponse.FromString(await world.service.analyze(BOB, CLIENT, serialize(request)))
    assert answer.spark_version.version == "schema TABLE t"
    assert answer.server_side_session_id == world.session().server_session
    judged = world.judge.judged[-1]
    assert judged.plan is not None
    inside = pb.AnalyzePlanRequest.FromString(judged.plan.message)
    assert [field.name for field, _ in inside.ListFields()] == ["schema"]
    assert world.spark.envelopes[-1].user == "bob"
    assert world.order[-3:] == ["decided", "forwarded", "completed"]
    assert world.ledger.of("decided")[-1].body["plan"] == "analyze"
    assert world.session().operations == {}
    world.require_balance()


async def test_an_analysis_that_is_refused_or_fails_gives_no_result() -> None:
    world = World()
    request = pb.AnalyzePlanRequest(session_id=SESSION)
    with pytest.raises(InvalidRequest, match="no analysis"):
        await world.service.analyze(BOB, CLIENT, serialize(request))
    request.schema.plan.CopyFrom(table("t"))
    world.judge.refused = "TABLE t"
    with pytest.raises(StatementRefused):
        await world.service.analyze(BOB, CLIENT, serialize(request))
    world.judge.refused = None
    world.spark.script("schema", fault("[UNRESOLVED_COLUMN] no"))
    with rpc_error("UNRESOLVED_COLUMN"):
        await world.service.analyze(BOB, CLIENT, serialize(request))
    assert world.session().operations == {}
    world.require_balance()


async def test_an_analysis_whose_client_goes_is_ended() -> None:
    world = World()
    world.spark.script("schema", asyncio.Event())
    request = pb.AnalyzePlanRequest(session_id=SESSION)
    request.schema.plan.CopyFrom(table("t"))
    task = asyncio.create_task(world.service.analyze(BOB, CLIENT, serialize(request)))
    await until(lambda: "schema TABLE t" in world.spark.received)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.ledger.outcomes()[-1] == "canceled"
    world.require_balance()


async def test_a_stream_of_sparks_that_ends_early_leaves_the_operation_open() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), rows(1), STREAM_ENDS, rows(2))
    operation = uid()
    first = await world.run(table("t"), operation=operation)
    assert cases(first) == [None, "arrow_batch"]
    assert world.outcomes() == {}
    await asyncio.sleep(0.02)  # a client that takes its time
    rest = await world.reattach(operation, first[-1].response_id)
    assert cases(rest) == ["arrow_batch", "result_complete"]
    assert world.outcomes() == {"TABLE t": "finished"}
    body = world.ledger.of("completed")[-1].body
    assert body["rows"] == 3
    assert 0 <= body["spark_ms"] <= body["duration_ms"] - 20
    assert body["record_ms"] > 0
    assert "wait_ms" not in body, "plans wait before they are judged"


async def test_progress_is_passed_on_while_a_held_answer_is_made() -> None:
    world = World()
    finished = asyncio.Event()
    world.spark.script("INSERT", progress(), finished, sql_rows())
    stream = world.service.execute(BOB, CLIENT, execute_request(sql("INSERT INTO t VALUES (1)")))
    first = pb.ExecutePlanResponse.FromString(await anext(stream))
    assert first.WhichOneof("response_type") == "execution_progress"
    finished.set()
    assert len([data async for data in stream]) == 2


async def test_many_clients_at_once_each_get_their_own() -> None:
    world = World()
    plans = [(f"t{n}", f"11111111-2222-4333-8444-{n % 5:012}") for n in range(100)]
    answers = await asyncio.gather(*(world.run(table(name), session=session) for name, session in plans))
    assert all(cases(a) == [None, "arrow_batch", "arrow_batch", "result_complete"] for a in answers)
    assert sorted(world.statements()) == sorted(f"TABLE {name}" for name, _ in plans)
    assert len(world.service) == 5
    world.require_balance()
