"""The laws of a statement's way: recorded before forwarded, one end, own handles only, names in step."""

from __future__ import annotations

import asyncio
import gc
import hashlib
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import (
    AuthenticationFailed,
    BackendUnavailable,
    GatewayStopping,
    InvalidHandle,
    InvalidRequest,
    LedgerUnavailable,
    LimitExceeded,
)
from gateway.model.catalog import TableName
from gateway.model.decision import PolicyRef, RowFilter
from gateway.model.statement import (
    AnswerFilter,
    AnswerRule,
    CatalogChanged,
    Cleared,
    CreateTempView,
    DropTempView,
    ScanRecord,
    UseNamespace,
)
from gateway.session.failures import NotFinished, StatementFailed, StatementRefused
from gateway.session.identifiers import Handle
from gateway.session.limits import SessionLimits
from gateway.session.metadata import Patterns
from gateway.session.open_sessions import OpenSessions
from gateway.session.operation import Batch
from gateway.session.ports import BackendError
from gateway.session.words import mentions
from tests.session.fakes import ALICE, BOB, CLIENT, Sink, World, until
from tests.speed import patience


async def open_session(world: World, principal=BOB, **more) -> Handle:  # type: ignore[no-untyped-def]
    handle: Handle = await world.sessions.open_session(principal, CLIENT, protocol_version=9, **more)
    return handle


async def run(world: World, handle: Handle, text: str, *, run_async: bool = False) -> Handle:
    opened = await world.sessions.execute(BOB, handle, text, run_async=run_async)
    return opened.handle


async def fetch(world: World, operation: Handle, max_rows: int = 100, orientation: int = 0):  # type: ignore[no-untyped-def]
    return await world.sessions.fetch(
        BOB, operation, orientation=orientation, max_rows=max_rows, fetch_type=0, seqid=1, sink=Sink()
    )


async def test_a_login_that_spark_does_not_answer_ends_and_says_why() -> None:
    """Whether it is silent when it should open the session, or at the statements that begin it."""
    world = World(SessionLimits(login_s=0.05, close_timeout_s=patience(600)))
    world.backend.silent = asyncio.Event()
    with pytest.raises(BackendUnavailable, match=r"within 0\.05 s \(`backend\.login_timeout_s`\)"):
        await open_session(world)
    world.backend.silent = None
    world.backend.hold = asyncio.Event()
    with pytest.raises(BackendUnavailable, match="it may be waiting for its metastore"):
        await open_session(world, database="hr")
    assert len(world.sessions._registry) == 0
    world.backend.hold = None
    world.sessions.limits = replace(world.sessions.limits, login_s=patience())
    await run(world, await open_session(world, database="hr"), "SELECT 1")


# -- audit first ---------------------------------------------------------------------------------------------


async def test_the_decision_is_durable_before_spark_gets_the_statement() -> None:
    world = World()
    await run(world, await open_session(world), "SELECT 1")
    assert world.order[:2] == ["decided", "forwarded"]


async def test_without_a_ledger_nothing_is_forwarded_and_nothing_is_completed() -> None:
    world = World()
    handle = await open_session(world)
    world.ledger.down = True
    with pytest.raises(LedgerUnavailable):
        await run(world, handle, "SELECT 1")
    assert world.backend.received == []
    assert world.ledger.events == []


async def test_what_the_ledger_refused_is_not_counted_as_cleared() -> None:
    world = World()
    handle = await open_session(world)
    await run(world, handle, "SELECT 1")
    world.ledger.down = True
    with pytest.raises(LedgerUnavailable):
        await run(world, handle, "SELECT 2")
    with pytest.raises(LedgerUnavailable):
        await world.sessions.metadata(BOB, handle, 2, "GetCatalogs", Patterns())
    read = world.sessions.metrics.registry.get_sample_value
    counted = [
        read("sluice_statements_total", {"verdict": verdict})
        for verdict in ("cleared", "refused", "unrecorded")
    ]
    assert counted == [1, 0, 2]


async def test_a_refusal_is_recorded_and_names_the_event_to_quote() -> None:
    world = World()
    world.judge.refused = "secret"
    handle = await open_session(world)
    with pytest.raises(StatementRefused) as refused:
        await run(world, handle, "SELECT secret")
    read = world.sessions.metrics.registry.get_sample_value
    assert read("sluice_refusals_total", {"code": refused.value.code}) == 1
    (event,) = world.ledger.of("decided")
    assert event.body["verdict"] == "refused"
    assert refused.value.text.endswith(f"quote audit event {event.statement_id}")
    assert refused.value.text.startswith("[SLUICE_ACCESS_DENIED] user bob needs select")
    assert refused.value.sqlstate == "42501"
    assert world.backend.received == []
    assert world.ledger.of("completed") == []


async def test_what_is_refused_in_the_background_is_an_operation_that_has_failed() -> None:
    """As Spark has it of what it does not parse: the session's like any other, and nothing of it in Spark."""
    world = World(SessionLimits(operations_per_session=2))
    world.judge.refused = "secret"
    handle = await open_session(world)
    first, second = [await run(world, handle, "SELECT secret", run_async=True) for _ in range(2)]
    report = await world.sessions.status(BOB, first)
    assert (report.state, report.has_result_set) == (5, True)
    assert isinstance(report.error, StatementRefused)
    assert [event.statement_id for event in world.ledger.of("decided")] == [
        await world.sessions.statement_id(BOB, one, 0) for one in (first, second)
    ]
    assert [c.columnName for c in (await world.sessions.schema(BOB, first)).columns] == ["Result"]
    with pytest.raises(StatementRefused):
        await fetch(world, first)
    await world.sessions.cancel(BOB, first)
    assert (await world.sessions.status(BOB, first)).state == 5
    with pytest.raises(LimitExceeded, match="2 open operations"):
        await run(world, handle, "SELECT 1")
    await world.sessions.close_operation(BOB, first)
    with pytest.raises(InvalidHandle):
        await world.sessions.status(BOB, first)
    await run(world, handle, "SELECT 1")
    await world.sessions.close_session(BOB, handle)
    with pytest.raises(InvalidHandle):
        await world.sessions.status(BOB, second)
    assert world.backend.received == ["SELECT 1"]
    assert world.ledger.outcomes() == ["finished"]
    read = world.sessions.metrics.registry.get_sample_value
    assert read("sluice_operations") == 0


async def test_what_a_ledger_cannot_record_is_no_operation() -> None:
    world = World()
    world.judge.refused = "secret"
    handle = await open_session(world)
    world.ledger.down = True
    with pytest.raises(LedgerUnavailable):
        await run(world, handle, "SELECT secret", run_async=True)
    assert world.sessions.metrics.registry.get_sample_value("sluice_operations") == 0


async def test_a_refused_statement_of_megabytes_does_not_fill_the_record() -> None:
    world = World()
    world.judge.refused = "x"
    text = "x" * 5_000_000
    with pytest.raises(StatementRefused):
        await run(world, await open_session(world), text)
    (event,) = world.ledger.of("decided")
    assert len(event.body["reqData"]) == 65_536
    assert event.body["reqData_sha256"] == hashlib.sha256(text.encode()).hexdigest()


async def test_statements_of_megabytes_are_not_kept_once_their_session_has_ended() -> None:
    world = World()
    session = await open_session(world)
    for number in range(3):
        operation = await run(world, session, f"SELECT {number} -- {'x' * 1_000_000}")
        await world.sessions.close_operation(BOB, operation)
    await world.sessions.close_session(BOB, session)
    for one in world.backend.sessions:  # it remembers what it was asked
        one.operations.clear()
    await asyncio.sleep(0)
    gc.collect()
    kept = [one for one in gc.get_objects() if type(one) is Cleared and len(one.forwarded) > 1_000_000]
    assert not kept


# -- one end -------------------------------------------------------------------------------------------------


async def test_a_finished_statement_is_completed_when_it_is_closed() -> None:
    world = World()
    operation = await run(world, await open_session(world), "SELECT 1")
    await fetch(world, operation)
    assert world.ledger.outcomes() == []
    await world.sessions.close_operation(BOB, operation)
    (event,) = world.ledger.of("completed")
    assert event.body["outcome"] == "finished"
    assert event.body["rows"] == 1
    assert event.body["bytes"] == 100
    assert event.body["backend_operation"] == "ab" * 16
    assert event.statement_id == world.ledger.of("decided")[0].statement_id
    assert world.backend.last.closed


async def test_how_long_spark_took_is_told_apart_from_the_way_to_the_client() -> None:
    world = World()
    operation = await run(world, await open_session(world), "SELECT 1")
    await fetch(world, operation)
    await asyncio.sleep(0.02)  # a client that takes its time
    await world.sessions.close_operation(BOB, operation)
    body = world.ledger.of("completed")[0].body
    assert 0 <= body["wait_ms"] <= body["spark_ms"] <= body["duration_ms"] - 20
    assert body["record_ms"] > 0
    decided = world.ledger.of("decided")[0].body
    assert 0 <= decided["read_us"] <= decided["duration_us"]


async def test_every_way_to_end_twice_gives_one_event() -> None:
    world = World()
    handle = await open_session(world)
    operation = await run(world, handle, "SELECT 1")
    await asyncio.gather(
        world.sessions.close_operation(BOB, operation),
        world.sessions.close_disconnected([handle]),
        world.sessions.close(),
    )
    assert world.ledger.outcomes() == ["finished"]


async def test_an_error_is_completed_at_once_and_whole() -> None:
    world = World()
    message = (
        "org.apache.hive.service.cli.HiveSQLException: Error running query: [CAST_INVALID_INPUT] a.B: "
        "[CAST_INVALID_INPUT] The value 'x' is bad. SQLSTATE: 22018\n\tat java.lang.Foo.f(Foo.java:1)\n"
        "Caused by: a.B: [CAST_INVALID_INPUT] The value 'x' is bad. SQLSTATE: 22018\n\tat c.D.f(D.java:1)"
    )
    world.backend.fail["SELECT bad"] = (message, "22018")
    handle = await open_session(world)
    with pytest.raises(StatementFailed) as failed:
        await run(world, handle, "SELECT bad")
    assert failed.value.text == (
        "Error running query: [CAST_INVALID_INPUT] a.B: "
        "[CAST_INVALID_INPUT] The value 'x' is bad. SQLSTATE: 22018"
    )
    assert failed.value.trace == message
    assert failed.value.sqlstate == "22018"
    assert world.ledger.outcomes() == ["failed"]
    assert world.backend.last.closed


async def test_an_asynchronous_error_is_told_by_the_status_and_completed_once() -> None:
    world = World()
    world.backend.fail["SELECT bad"] = ("[X] no", "42000")
    operation = await run(world, await open_session(world), "SELECT bad", run_async=True)
    report = await world.sessions.status(BOB, operation)
    assert report.state == 5
    assert report.error is not None
    assert report.error.text.startswith("[X] no")
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes() == ["failed"]


async def test_values_in_errors_are_withheld_when_filters_apply() -> None:
    world = World()
    text = "SELECT CAST(name AS INT) FROM t"
    row_filter = RowFilter(expression="region = 'EU'", policy=PolicyRef(id=1, name="p"))
    world.judge.scans[text] = (
        ScanRecord(
            table=TableName("spark_catalog", "default", "t"),
            access="select",
            columns=("name",),
            obligations=(row_filter,),
        ),
    )
    world.backend.fail[text] = ("[CAST_INVALID_INPUT] The value 'Ann' of it. SQLSTATE: 22018", "22018")
    with pytest.raises(StatementFailed) as failed:
        await run(world, await open_session(world), text)
    assert "Ann" not in failed.value.text


async def test_spark_refusing_at_once_is_an_error_of_the_statement() -> None:
    world = World()
    world.backend.refuse["SELECT 1"] = BackendError("[PARSE] no\n\tat x.y(Z.java)", "42601")
    with pytest.raises(StatementFailed, match="PARSE"):
        await run(world, await open_session(world), "SELECT 1")
    assert world.ledger.outcomes() == ["failed"]


async def test_cancel_stops_spark_and_is_completed_as_canceled() -> None:
    world = World()
    world.backend.slow = "SLOW"
    operation = await run(world, await open_session(world), "SLOW", run_async=True)
    await world.sessions.cancel(BOB, operation)
    assert world.backend.last.cancelled
    assert (await world.sessions.status(BOB, operation)).state == 3
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes() == ["canceled"]


async def test_a_timeout_in_spark_is_completed_as_timed_out() -> None:
    world = World()
    world.backend.slow = "SLOW"
    operation = await run(world, await open_session(world), "SLOW", run_async=True)
    world.backend.last.end(state=8)
    report = await world.sessions.status(BOB, operation)
    assert report.state == 8
    assert world.ledger.outcomes() == ["timed_out"]


async def test_a_disconnected_client_stops_what_runs_and_ends_its_waiting_call() -> None:
    world = World()
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    waiting = asyncio.create_task(run(world, handle, "SLOW"))
    await until(lambda: bool(world.backend.received))
    await world.sessions.close_disconnected([handle])
    with pytest.raises(InvalidHandle):
        await waiting
    assert world.backend.last.cancelled
    assert world.backend.sessions[0].closed
    (event,) = world.ledger.of("completed")
    assert event.body["outcome"] == "canceled"
    assert event.body["error"] == "the client disconnected"


async def test_a_client_that_vanishes_while_spark_takes_the_statement() -> None:
    world = World()
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    world.backend.hold = asyncio.Event()
    waiting = asyncio.create_task(run(world, handle, "SLOW"))
    await until(lambda: bool(world.backend.received))
    await world.sessions.close_disconnected([handle])
    world.backend.hold.set()
    with pytest.raises(InvalidHandle):
        await waiting
    assert world.backend.last.cancelled
    assert world.ledger.outcomes() == ["canceled"]


async def test_a_session_closed_between_decision_and_forwarding_forwards_nothing() -> None:
    world = World()
    handle = await open_session(world)
    reached, go_on = asyncio.Event(), asyncio.Event()
    decided = world.ledger.record_decided

    async def slow_disk(event) -> None:  # type: ignore[no-untyped-def]
        await decided(event)
        reached.set()
        await go_on.wait()

    world.ledger.record_decided = slow_disk  # type: ignore[method-assign]
    waiting = asyncio.create_task(run(world, handle, "SELECT 1"))
    await reached.wait()
    await world.sessions.close_session(BOB, handle)
    go_on.set()
    with pytest.raises(InvalidHandle):
        await waiting
    assert world.backend.received == []
    assert world.ledger.outcomes() == ["not_forwarded"]


async def test_a_given_up_task_still_records_an_end_and_ends_the_session() -> None:
    world = World()
    handle = await open_session(world)
    world.backend.hold = asyncio.Event()
    waiting = asyncio.create_task(run(world, handle, "SELECT 1"))
    await until(lambda: bool(world.backend.received))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert world.ledger.outcomes() == ["failed"]
    assert world.backend.sessions[0].closed


async def test_spark_lost_in_the_middle_ends_the_session() -> None:
    world = World()
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    operation = await run(world, handle, "SLOW", run_async=True)
    world.backend.last.lost = True
    with pytest.raises(BackendUnavailable):
        await world.sessions.status(BOB, operation)
    with pytest.raises(InvalidHandle):
        await run(world, handle, "SELECT 1")
    assert world.ledger.outcomes() == ["failed"]


async def test_shutdown_closes_everything_and_refuses_new_sessions() -> None:
    world = World()
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    await run(world, handle, "SLOW", run_async=True)
    await world.sessions.close()
    assert world.backend.sessions[0].closed
    assert world.ledger.outcomes() == ["canceled"]
    assert len(world.sessions) == 0
    (event,) = world.ledger.of("completed")
    assert event.body["error"] == "the gateway is stopping"
    with pytest.raises(GatewayStopping):
        await open_session(world)


async def test_while_a_gateway_stops_what_runs_goes_on_and_nothing_begins() -> None:
    world = World()
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    operation = await run(world, handle, "SLOW", run_async=True)
    other = await open_session(world)
    sessions = world.sessions
    sessions.lifecycle.stopping = True
    with pytest.raises(GatewayStopping) as refusal:
        await open_session(world)
    assert refusal.value.sqlstate == "57P01"
    assert "connect again" in refusal.value.text
    with pytest.raises(GatewayStopping):
        await run(world, other, "SELECT 1")
    assert sessions.busy() == 1
    await sessions.status(BOB, operation)
    await sessions.close_disconnected([handle])
    assert sessions.busy() == 0
    (event,) = world.ledger.of("completed")
    assert event.body["error"] == "the client disconnected", "its own doing, while the gateway waits for it"


async def test_what_a_gateway_cuts_is_not_its_clients_doing() -> None:
    world = World()
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    await run(world, handle, "SLOW", run_async=True)
    world.sessions.lifecycle.cut()
    await world.sessions.close_disconnected([handle])
    (event,) = world.ledger.of("completed")
    assert event.body["error"] == "the gateway is stopping"


async def test_calls_being_answered_are_waited_for_as_statements_are() -> None:
    world = World()
    every = OpenSessions()
    every.add(world.sessions)
    answering = [0]
    every.add_connections(lambda _: None, lambda: answering[0])
    assert every.busy() == 0
    answering[0] = 2  # of metadata, or of an answer that a slow client takes
    assert every.busy() == 2
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    await run(world, handle, "SLOW", run_async=True)
    answering[0] = 1
    assert every.busy() == 1


async def test_sessions_of_a_user_are_listed_and_ended_with_what_runs_in_them() -> None:
    world = World()
    world.backend.slow = "SLOW"
    every = OpenSessions()
    every.add(world.sessions)
    handle = await open_session(world)
    await run(world, handle, "SLOW", run_async=True)
    assert [(one.user, one.statements, one.idle_s) for one in every.list_sessions()] == [("bob", 1, 0.0)]
    assert await every.end(["alice"], "why") == 0
    assert await every.end(["bob"], "why", by="ruth") == 1
    assert every.list_sessions() == []
    assert world.backend.sessions[0].closed
    assert world.ledger.outcomes() == ["canceled"]
    (event,) = world.ledger.of("session_ended")
    assert (event.user, event.body["reason"], event.body["by"]) == ("bob", "why", "ruth")
    assert event.body["sess"] == str(handle)
    with pytest.raises(InvalidHandle):
        await run(world, handle, "SELECT 1")
    await open_session(world)


async def test_a_removed_user_has_no_session_and_no_connection() -> None:
    world, closed = World(), list[bool]()
    every = OpenSessions()
    every.add(world.sessions)
    acting = replace(CLIENT, real_user="bob")
    others = (BOB, CLIENT), (ALICE, CLIENT), (ALICE, acting)
    every.add_connections(lambda is_over: closed.extend(is_over(*one) for one in others), lambda: 0)
    await open_session(world)
    await every.end_removed_users(["bob"])
    assert closed == [True, False, True]
    assert every.list_sessions() == []
    assert [event.body.get("by") for event in world.ledger.of("session_ended")] == [None]


async def test_who_cannot_be_shown_to_spark_gets_no_session_and_it_is_on_record() -> None:
    world = World()

    async def refuse(*_: Any, **__: Any) -> Any:
        raise AuthenticationFailed("this Spark takes users by tokens of their own")

    world.backend.open_session = refuse  # type: ignore[method-assign]
    with pytest.raises(AuthenticationFailed):
        await open_session(world)
    assert [one.body["reason"] for one in world.ledger.of("security")] == [
        "this Spark takes users by tokens of their own"
    ]
    assert not world.sessions._registry.per_user


async def test_nor_has_he_one_that_was_being_opened() -> None:
    """Over HTTP a call goes on when its connection has ended, and who acts as another has a connection of his
    own."""
    acting = replace(CLIENT, real_user="hue")
    for removed in ("bob", "hue"):
        world, every = World(), OpenSessions()
        every.add(world.sessions)
        world.backend.silent = asyncio.Event()
        opening = asyncio.create_task(world.sessions.open_session(BOB, acting, protocol_version=9))
        await until(lambda world=world: bool(world.sessions._registry.per_user))  # type: ignore[misc]
        await every.end_removed_users([removed])
        world.backend.silent.set()
        with pytest.raises(AuthenticationFailed):
            await opening
        assert every.list_sessions() == []
        await until(lambda world=world: world.backend.sessions[0].closed)  # type: ignore[misc]


# -- handles -------------------------------------------------------------------------------------------------


async def test_a_handle_of_another_principal_is_invalid_and_recorded() -> None:
    world = World()
    handle = await open_session(world)
    operation = await run(world, handle, "SELECT 1")
    with pytest.raises(InvalidHandle, match=r"Invalid SessionHandle: SessionHandle \["):
        await world.sessions.execute(ALICE, handle, "SELECT 1", run_async=True)
    with pytest.raises(InvalidHandle, match=r"Invalid OperationHandle: OperationHandle \[opType=EXECUTE"):
        await world.sessions.status(ALICE, operation)
    with pytest.raises(InvalidHandle):
        await world.sessions.close_session(ALICE, handle)
    events = world.ledger.of("security")
    assert [event.user for event in events] == ["alice"] * 3
    assert {event.body["action"] for event in events} == {"foreign_handle"}
    assert (await world.sessions.status(BOB, operation)).state == 2


async def test_half_a_handle_is_none() -> None:
    world = World()
    handle = await open_session(world)
    operation = await run(world, handle, "SELECT 1")
    for wrong in (Handle(handle.guid, bytes(16)), Handle(handle.guid, b""), Handle(b"", b"")):
        with pytest.raises(InvalidHandle):
            await world.sessions.execute(BOB, wrong, "SELECT 1", run_async=True)
    with pytest.raises(InvalidHandle):
        await world.sessions.status(BOB, operation, 6)
    assert world.ledger.of("security") == []


async def test_the_same_user_may_bring_a_handle_on_any_connection() -> None:
    world = World()
    handle = await open_session(world)
    again = type(BOB)(user="bob")
    await world.sessions.execute(again, handle, "SELECT 1", run_async=True)


async def test_limits_of_sessions_and_operations() -> None:
    world = World(SessionLimits(sessions_per_user=2, sessions=3, operations_per_session=1))
    first = await open_session(world)
    await open_session(world)
    with pytest.raises(LimitExceeded, match="bob"):
        await open_session(world)
    await open_session(world, ALICE)
    with pytest.raises(LimitExceeded, match="gateway"):
        await open_session(world, ALICE)
    await run(world, first, "SELECT 1")
    with pytest.raises(LimitExceeded, match="operations"):
        await run(world, first, "SELECT 1")
    await world.sessions.close_session(BOB, first)
    await open_session(world)


async def test_a_spark_that_is_away_leaves_no_session_behind() -> None:
    world = World(SessionLimits(sessions_per_user=1))
    world.backend.down = True
    for _ in range(3):
        with pytest.raises(BackendUnavailable):
            await open_session(world)
    world.backend.down = False
    await open_session(world)


async def test_idle_sessions_and_operations_are_closed_busy_ones_are_not() -> None:
    world = World(SessionLimits(session_idle_s=100, operation_idle_s=50))
    world.backend.slow = "SLOW"
    idle, busy, fetching = [await open_session(world) for _ in range(3)]
    await run(world, busy, "SLOW", run_async=True)
    result = await run(world, fetching, "SELECT 1")
    world.now += 60
    await world.sessions.expire()
    assert len(world.sessions) == 3
    assert world.ledger.outcomes() == ["finished"]
    with pytest.raises(InvalidHandle):
        await fetch(world, result)
    world.now += 60
    await world.sessions.expire()
    with pytest.raises(InvalidHandle):
        await run(world, idle, "SELECT 1")
    assert len(world.sessions) == 1


# -- opening -------------------------------------------------------------------------------------------------


async def test_database_and_settings_are_statements_like_any_other() -> None:
    world = World()
    await open_session(world, database="hr", settings={"spark.sql.shuffle.partitions": "4`;x"})
    assert world.backend.received == ["SET `spark.sql.shuffle.partitions`=`4``;x`", "USE `hr`"]
    assert len(world.ledger.of("decided")) == 2
    assert world.ledger.outcomes() == ["finished", "finished"]


async def test_a_refused_database_refuses_the_session() -> None:
    world = World()
    world.judge.refused = "USE"
    with pytest.raises(StatementRefused):
        await open_session(world, database="secret")
    assert len(world.sessions) == 0
    assert world.backend.sessions[0].closed


# -- names in step -------------------------------------------------------------------------------------------


def names(world: World) -> None:
    world.judge.effects = [
        (r"^USE", (UseNamespace("spark_catalog", ("hr",)),)),
        (r"^CREATE.*VIEW v\b", (CreateTempView("V"),)),
        (r"^DROP VIEW.*v", (DropTempView("v"),)),
        (r"^CREATE TABLE", (CatalogChanged((TableName("spark_catalog", "default", "t"),)),)),
    ]


async def test_use_counts_only_after_spark_has_finished_it() -> None:
    world = World()
    names(world)
    world.backend.slow = "USE"
    handle = await open_session(world)
    await run(world, handle, "USE hr", run_async=True)
    use = world.backend.last
    following = asyncio.create_task(run(world, handle, "SELECT 1"))
    await until(lambda: use.polls > 1)
    # INVARIANT (effect barrier): not judged yet, because Spark is leaving the context.
    assert [s.text for s in world.judge.judged] == ["USE hr"]
    use.end()
    await following
    assert world.judge.judged[-1].context.namespace == ("hr",)


@pytest.mark.parametrize("change", ["DROP VIEW v", "USE hr", "CREATE OR REPLACE TEMP VIEW v AS SELECT 2"])
async def test_names_do_not_change_under_a_running_statement(change: str) -> None:
    """The attack: a view over nothing named like a secret table, a slow read of it, a quick DROP VIEW."""
    world = World()
    names(world)
    world.backend.slow = "FROM v"
    handle = await open_session(world)
    await run(world, handle, "CREATE TEMP VIEW v AS SELECT 1")
    reading = await run(world, handle, "SELECT * FROM v", run_async=True)
    read = world.backend.last
    changing = asyncio.create_task(run(world, handle, change, run_async=True))
    await until(lambda: read.polls > 1)
    assert change not in world.backend.received
    read.end()
    await changing
    assert world.backend.received[-1] == change
    assert (await world.sessions.status(BOB, reading)).state == 2


async def test_a_statement_that_does_not_end_keeps_names_as_they_are() -> None:
    world = World(SessionLimits(settle_timeout_s=0.1))
    names(world)
    world.backend.slow = "SLOW"
    handle = await open_session(world)
    await run(world, handle, "SLOW", run_async=True)
    with pytest.raises(LimitExceeded, match="still running"):
        await run(world, handle, "USE hr")
    assert world.backend.received == ["SLOW"]
    assert [e.body["reqData"] for e in world.ledger.of("decided")] == ["SLOW"]
    await run(world, handle, "SELECT 1")
    assert world.judge.judged[-1].context.namespace == ("default",)


@pytest.mark.parametrize("how", ["cancel", "close", "timeout"])
async def test_names_wait_for_what_was_stopped_with_its_work_half_done(how: str) -> None:
    """Spark loses a cancel that comes while it plans, and looks the names up after that."""
    world = World(
        SessionLimits(settle_timeout_s=0.05, close_timeout_s=patience(5), stopped_s=1000, unsettled_s=1000)
    )
    names(world)
    world.backend.slow = "INSERT|SELECT"
    handle = await open_session(world)

    async def stop(text: str) -> None:
        operation = await run(world, handle, text, run_async=True)
        if how == "timeout":
            world.backend.last.end(state=8)
            await world.sessions.status(BOB, operation)
        elif how == "cancel":
            await world.sessions.cancel(BOB, operation)
        await world.sessions.close_operation(BOB, operation)

    # What only reads is not shown any more, whatever its names have come to mean.
    await stop("SELECT 1")
    await run(world, handle, "USE hr")
    await stop("INSERT INTO t SELECT * FROM v")
    with pytest.raises(LimitExceeded, match="still running"):
        await run(world, handle, "USE other")
    assert "USE other" not in world.backend.received
    # Others go on.
    await run(world, handle, "SHOW TABLES")
    await run(world, await open_session(world), "USE hr")


async def test_what_was_stopped_has_an_end_for_the_names_of_its_session() -> None:
    world = World(SessionLimits(settle_timeout_s=patience(60), close_timeout_s=patience(5), stopped_s=0.01))
    names(world)
    world.backend.slow = "INSERT"
    handle = await open_session(world)
    operation = await run(world, handle, "INSERT INTO t SELECT * FROM v", run_async=True)
    await world.sessions.cancel(BOB, operation)
    await run(world, handle, "USE hr")
    assert world.backend.received[-1] == "USE hr"


async def test_a_failed_use_changes_nothing() -> None:
    world = World()
    names(world)
    world.backend.fail["USE hr"] = ("[SCHEMA_NOT_FOUND] no", "42704")
    handle = await open_session(world)
    with pytest.raises(StatementFailed):
        await run(world, handle, "USE hr")
    await run(world, handle, "SELECT 1")
    assert world.judge.judged[-1].context.namespace == ("default",)


@pytest.mark.parametrize("state", [3, 4, 8])
async def test_a_use_stopped_half_way_ends_the_session(state: int) -> None:
    world = World()
    names(world)
    world.backend.slow = "USE"
    handle = await open_session(world)
    operation = await run(world, handle, "USE hr", run_async=True)
    world.backend.last.end(state=state)
    await world.sessions.status(BOB, operation)
    with pytest.raises(InvalidHandle):
        await run(world, handle, "SELECT 1")


@pytest.mark.parametrize("state", [3, 4, 8])
async def test_a_view_whose_making_was_stopped_ends_the_session(state: int) -> None:
    """It may be the old view or the new one: Spark loses a cancel that comes while it analyses."""
    world = World()
    names(world)
    world.backend.slow = "CREATE"
    handle = await open_session(world)
    operation = await run(world, handle, "CREATE TEMP VIEW v AS SELECT 1", run_async=True)
    world.backend.last.end(state=state)
    await world.sessions.status(BOB, operation)
    with pytest.raises(InvalidHandle):
        await run(world, handle, "SELECT 1")


async def test_a_view_is_judged_again_when_what_it_reads_has_changed() -> None:
    world = World()
    names(world)
    handle = await open_session(world)
    await run(world, handle, "CREATE TEMP VIEW v AS SELECT 1")
    world.judge.mark = " /* masked now */"
    # Somebody changed a table; the policies are as they were.
    await world.catalog.look_up([TableName("spark_catalog", "default", "t")])
    await run(world, handle, "SELECT 1")
    assert world.backend.received[-3:] == [
        "DROP VIEW IF EXISTS `V` /* masked now */",
        "CREATE TEMP VIEW v AS SELECT 1 /* masked now */",
        "SELECT 1 /* masked now */",
    ]


async def test_an_outcome_that_cannot_be_learnt_ends_the_session() -> None:
    world = World(SessionLimits(settle_timeout_s=0.1))
    names(world)
    world.backend.slow = "USE"
    handle = await open_session(world)
    await run(world, handle, "USE hr", run_async=True)
    with pytest.raises(InvalidHandle):
        await run(world, handle, "SELECT 1")
    assert world.backend.sessions[0].closed
    assert [s.text for s in world.judge.judged] == ["USE hr"]


async def test_a_view_exists_after_finished_and_is_gone_when_its_drop_is_forwarded() -> None:
    world = World()
    names(world)
    handle = await open_session(world)
    await run(world, handle, "CREATE TEMP VIEW v AS SELECT 1")
    await run(world, handle, "SELECT 1")
    assert world.judge.judged[-1].context.temp_views == {"v"}
    world.backend.slow = "DROP"
    world.backend.fail["DROP VIEW v"] = ("[X] no", "42000")
    with pytest.raises(StatementFailed):
        await run(world, handle, "DROP VIEW v")
    await run(world, handle, "SELECT 2")
    assert world.judge.judged[-1].context.temp_views == frozenset()


async def test_closing_a_view_statement_waits_for_its_outcome() -> None:
    world = World()
    names(world)
    world.backend.slow = "CREATE"
    handle = await open_session(world)
    operation = await run(world, handle, "CREATE TEMP VIEW v AS SELECT 1", run_async=True)
    closing = asyncio.create_task(world.sessions.close_operation(BOB, operation))
    await until(lambda: world.backend.last.polls > 1)
    world.backend.last.end()
    await closing
    await run(world, handle, "SELECT 1")
    assert world.judge.judged[-1].context.temp_views == {"v"}
    assert world.ledger.outcomes() == ["finished"]


async def test_a_changed_table_is_looked_up_again_even_when_the_statement_failed() -> None:
    world = World()
    names(world)
    world.backend.fail["CREATE TABLE t"] = ("[X] no", "42000")
    with pytest.raises(StatementFailed):
        await run(world, await open_session(world), "CREATE TABLE t")
    assert world.catalog.invalidated == [TableName("spark_catalog", "default", "t")] * 2, "before and after"


# -- temporary views and policies ----------------------------------------------------------------------------

CREATE = "CREATE TEMP VIEW v AS SELECT * FROM t"


async def test_a_view_that_would_be_written_the_same_stays() -> None:
    world = World()
    names(world)
    handle = await open_session(world)
    await run(world, handle, CREATE)
    world.new_policies()
    await run(world, handle, "SELECT 1")
    await run(world, handle, "SELECT 1")
    assert world.backend.received == [CREATE, "SELECT 1", "SELECT 1"]
    assert world.judge.judged[-1].context.temp_views == {"v"}


async def test_the_record_of_a_read_names_the_statement_that_made_its_view() -> None:
    world = World()
    names(world)
    world.judge.reads = {"SELECT * FROM v": frozenset({"v"})}
    handle = await open_session(world)
    await run(world, handle, CREATE)
    (made,) = world.ledger.of("decided")
    world.backend.fail[f"{CREATE} again"] = ("[X] no", "42000")
    with pytest.raises(StatementFailed):
        await run(world, handle, f"{CREATE} again")
    await run(world, handle, "SELECT * FROM v")
    assert world.ledger.of("decided")[-1].body["lineage"] == {"temp_views": {"v": made.statement_id}}
    # A view that was made again is another statement's, under the masks of then.
    world.new_policies()
    world.judge.mark = " /* other mask */"
    await run(world, handle, "SELECT * FROM v")
    *_, again, read = world.ledger.of("decided")
    assert again.body["reqData"] == CREATE
    assert read.body["lineage"] == {"temp_views": {"v": again.statement_id}}


async def test_a_view_under_another_mask_is_made_again() -> None:
    world = World()
    names(world)
    handle = await open_session(world)
    await run(world, handle, CREATE)
    world.new_policies()
    world.judge.mark = " /* other mask */"
    await run(world, handle, "SELECT 1")
    assert [t.replace(world.judge.mark, "") for t in world.backend.received] == [
        CREATE,
        "DROP VIEW IF EXISTS `V`",
        CREATE,
        "SELECT 1",
    ]
    assert world.judge.judged[-1].context.temp_views == {"v"}
    assert len(world.ledger.of("decided")) == 4


async def test_a_view_that_is_refused_now_ends_and_its_name_does_not_become_a_tables() -> None:
    world = World()
    names(world)
    handle = await open_session(world)
    await run(world, handle, CREATE)
    world.new_policies()
    world.judge.refused = "CREATE TEMP VIEW"
    world.judge.scans["SELECT * FROM V"] = (
        ScanRecord(table=TableName("spark_catalog", "default", "v"), access="select", columns=None),
    )
    world.judge.scans["SELECT * FROM default.v"] = world.judge.scans["SELECT * FROM V"]
    with pytest.raises(StatementRefused, match="ended because the policies"):
        await run(world, handle, "SELECT * FROM V")
    assert world.judge.judged[-1].context.temp_views == frozenset()
    assert "SELECT * FROM V" not in world.backend.received
    await run(world, handle, "SELECT * FROM default.v")
    world.judge.refused = None
    await run(world, handle, CREATE)
    await run(world, handle, "SELECT * FROM V")


async def two_views(world: World, second: str = "w") -> Handle:
    """Make `v`, and a view that reads it."""
    names(world)
    world.judge.effects.insert(0, (rf"^CREATE.*VIEW {second}\b", (CreateTempView(second),)))
    world.judge.effects.insert(0, (rf"^DROP VIEW.*{second}\b", (DropTempView(second),)))
    handle = await open_session(world)
    await run(world, handle, CREATE)
    await run(world, handle, f"CREATE TEMP VIEW {second} AS SELECT * FROM `V`")
    return handle


async def test_a_view_that_another_one_reads_cannot_be_dropped() -> None:
    """The attack: `employee` as a view of nothing, a view over it, and then the first one is dropped: Spark
    keeps the text of the second, and its `employee` would be the table."""
    world = World()
    handle = await two_views(world)
    with pytest.raises(StatementRefused, match="`w` may read `v`") as refused:
        await run(world, handle, "DROP VIEW v")
    assert refused.value.code == "VIEW_IN_USE"
    assert "DROP VIEW v" not in world.backend.received
    await run(world, handle, "DROP VIEW w")
    await run(world, handle, "DROP VIEW v")
    await run(world, handle, "SELECT 1")
    assert world.judge.judged[-1].context.temp_views == frozenset()


async def test_views_with_other_names_do_not_hold_each_other() -> None:
    world = World()
    names(world)
    world.judge.effects.insert(0, (r"^CREATE.*VIEW views", (CreateTempView("views"),)))
    handle = await open_session(world)
    await run(world, handle, CREATE)
    await run(world, handle, "CREATE TEMP VIEW views AS SELECT have, v1 FROM x.vv")
    await run(world, handle, "DROP VIEW v")


async def test_what_reads_a_view_that_is_refused_now_ends_with_it() -> None:
    world = World()
    handle = await two_views(world)
    # Made again, so that it comes after its reader.
    world.judge.effects.insert(0, (r"REPLACE TEMP VIEW v", (CreateTempView("v"),)))
    await run(world, handle, "CREATE OR REPLACE TEMP VIEW v AS SELECT 2")
    world.new_policies()
    world.judge.refused = "REPLACE TEMP VIEW v"
    world.backend.received.clear()
    world.judge.scans["CREATE TEMP VIEW w AS SELECT * FROM `V`"] = (
        ScanRecord(table=TableName("spark_catalog", "default", "v"), access="select", columns=None),
    )
    await run(world, handle, "SELECT 1")
    assert world.backend.received == ["DROP VIEW IF EXISTS `w`", "DROP VIEW IF EXISTS `v`", "SELECT 1"]
    assert world.judge.judged[-1].context.temp_views == frozenset()


async def test_a_chain_under_another_mask_is_made_again_in_order() -> None:
    world = World()
    handle = await two_views(world)
    world.new_policies()
    world.judge.mark = " /* other */"
    world.backend.received.clear()
    await run(world, handle, "SELECT 1")
    assert [text.replace(world.judge.mark, "") for text in world.backend.received] == [
        "DROP VIEW IF EXISTS `w`",
        "DROP VIEW IF EXISTS `V`",
        CREATE,
        "CREATE TEMP VIEW w AS SELECT * FROM `V`",
        "SELECT 1",
    ]
    assert world.judge.judged[-1].context.temp_views == {"v", "w"}


@pytest.mark.parametrize(
    ("name", "text", "mentioned"),
    [
        ("v", "SELECT * FROM V", True),
        ("v", "SELECT * FROM `v`", True),
        ("v", "SELECT 1 AS vv, a_v FROM v2", False),
        ("v", "SELECT 1 /* v */", True),
        ("a b", "SELECT * FROM `A b`", True),
        ("a`b", "SELECT * FROM `a``b`", True),
        ("a`b", "SELECT * FROM ab", False),
        ("k", "SELECT * FROM \u212a", True),
        ("\u00fc", "SELECT 1", True),
    ],
)
def test_a_mention_is_found_however_it_is_written(name: str, text: str, mentioned: bool) -> None:
    assert mentions(text, name) is mentioned


# -- answers and fetching ----------------------------------------------------------------------------------


async def test_an_answer_that_lists_names_is_filtered_and_served_by_the_gateway() -> None:
    world = World()
    world.judge.rules["SHOW DATABASES"] = AnswerRule(filter=AnswerFilter.DATABASES, catalog="spark_catalog")
    world.backend.answers["SHOW DATABASES"] = [("default",), ("hr",), ("secret",)]
    world.hidden = {"spark_catalog.secret"}
    handle = await open_session(world)
    operation = await run(world, handle, "SHOW DATABASES")
    batch = await fetch(world, operation, 1)
    assert isinstance(batch, Batch)
    assert (batch.offset, list(batch.rows), batch.schema) == (0, [("default",)], "spark's schema")
    assert list((await fetch(world, operation, 9)).rows) == [("hr",)]
    assert list((await fetch(world, operation, 9)).rows) == []
    assert list((await fetch(world, operation, 9, orientation=4)).rows) == [("default",), ("hr",)]
    with pytest.raises(InvalidRequest):
        await fetch(world, operation, 9, orientation=3)
    assert await world.sessions.schema(BOB, operation) == "spark's schema"


async def test_an_answer_of_unknown_shape_is_not_shown() -> None:
    world = World()
    world.judge.rules["SHOW DATABASES"] = AnswerRule(filter=AnswerFilter.DATABASES, catalog="spark_catalog")
    world.backend.answers["SHOW DATABASES"] = [("default", "and more")]
    operation = await run(world, await open_session(world), "SHOW DATABASES")
    with pytest.raises(StatementFailed, match="cannot be filtered"):
        await fetch(world, operation)
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes() == ["failed"]


async def test_an_answer_is_not_filtered_before_it_is_finished() -> None:
    world = World()
    world.judge.rules["SHOW DATABASES"] = AnswerRule(filter=AnswerFilter.DATABASES, catalog="spark_catalog")
    world.backend.slow = "SHOW"
    operation = await run(world, await open_session(world), "SHOW DATABASES", run_async=True)
    with pytest.raises(NotFinished):
        await fetch(world, operation)


async def test_negative_rows_unknown_fetch_types_orientations_and_logs() -> None:
    world = World()
    operation = await run(world, await open_session(world), "SELECT 1")
    with pytest.raises(InvalidRequest):
        await fetch(world, operation, -1)
    for fetch_type in (2, -1):
        with pytest.raises(InvalidRequest):
            await world.sessions.fetch(
                BOB, operation, orientation=0, max_rows=1, fetch_type=fetch_type, seqid=1, sink=Sink()
            )
    for orientation in (6, -1):
        with pytest.raises(InvalidRequest):
            await world.sessions.fetch(
                BOB, operation, orientation=orientation, max_rows=1, fetch_type=0, seqid=1, sink=Sink()
            )
    log = await world.sessions.fetch(
        BOB, operation, orientation=0, max_rows=1, fetch_type=1, seqid=1, sink=Sink()
    )
    assert isinstance(log, Batch)
    assert log.rows == []


async def test_an_error_while_rows_are_computed_is_told_and_recorded() -> None:
    world = World()
    operation = await run(world, await open_session(world), "SELECT 1")
    world.backend.last.fetch_error = BackendError("[X] no\n\tat a.b(C.java)", "22018")
    with pytest.raises(StatementFailed, match=r"^\[X\] no"):
        await fetch(world, operation)
    await world.sessions.close_operation(BOB, operation)
    assert world.ledger.outcomes() == ["failed"]


# -- judging -------------------------------------------------------------------------------------------------


async def test_judging_asks_the_catalog_and_a_second_time_comes_from_the_cache() -> None:
    world = World()
    world.judge.needs = (TableName("spark_catalog", "default", "t"),)
    handle = await open_session(world)
    await run(world, handle, "SELECT 1")
    assert world.catalog.look_ups == 1
    judged = len(world.judge.judged)
    await run(world, handle, "SELECT 1")
    assert len(world.judge.judged) == judged
    world.now += 1000
    await run(world, handle, "SELECT 1")
    assert len(world.judge.judged) == judged + 1


async def test_new_policies_are_asked_at_once() -> None:
    world = World()
    handle = await open_session(world)
    await run(world, handle, "SELECT secret")
    world.judge.refused = "secret"
    world.new_policies()
    with pytest.raises(StatementRefused):
        await run(world, handle, "SELECT secret")


async def test_a_catalog_that_never_knows_enough_refuses() -> None:
    world = World()

    async def look_up(tables):  # type: ignore[no-untyped-def]
        return world.catalog.snapshot

    world.catalog.look_up = look_up  # type: ignore[method-assign]
    world.judge.needs = (TableName("spark_catalog", "default", "t"),)
    with pytest.raises(StatementRefused, match="too deep"):
        await run(world, await open_session(world), "SELECT 1")


async def test_a_session_knows_the_catalogs_that_spark_was_told_of() -> None:
    world = World()
    world.told = {"grav": 1, "moving": 2}
    opening = world.backend.open_session

    async def slowly(*arguments: Any, **more: Any) -> Any:
        # Which of both Spark was told nobody knows.
        opened = await opening(*arguments, **more)
        world.told = {"grav": 1, "moving": 3, "new": 4}
        return opened

    world.backend.open_session = slowly  # type: ignore[method-assign]
    handle = await open_session(world)
    await run(world, handle, "SELECT 1")
    assert world.judge.judged[-1].context.catalogs == {("grav", 1)}
    # What comes later is nothing to a session that is there.
    world.told = {"grav": 9}
    await run(world, handle, "SELECT 2")
    assert world.judge.judged[-1].context.catalogs == {("grav", 1)}
