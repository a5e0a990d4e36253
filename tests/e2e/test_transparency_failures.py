"""Errors, states and sessions are Spark's through the gateway, too, for somebody who may do everything.

`neutral` lists what may differ; what differs on purpose otherwise has a test of its own that says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire.messages import CallFailed
from gateway.wire.tcli import (
    THandleIdentifier,
    TOperationHandle,
    TOperationState,
    TSessionHandle,
    TStatusCode,
)
from tests.e2e.lab import TESTER
from tests.e2e.running import Spark
from tests.e2e.wire_client import WireClient
from tests.e2e.wire_comparison import Pair, Side, whole

LONG = "SELECT count(*) FROM range(0, 4000000000, 1, 2)"
"""Takes minutes. Spark 4.3 loses a cancel, even a close, that comes while it plans, and the job runs on: who
stops it looks at its status before, which Spark answers after 5 seconds, when nothing is being planned."""


# -- errors --------------------------------------------------------------------------------------------------

ERRORS = {
    "42703": "SELECT nope",
    "42P01": "SELECT * FROM default.missing",
    "42K09": "SELECT 1 + array(1)",
    "22012": "SELECT 1 / (id - id) FROM range(1)",
    "22018": "SELECT CAST(concat('x', id) AS INT) FROM range(1)",
    "22003": "SELECT CAST(id + 300 AS TINYINT) FROM range(1)",
    "42803": "SELECT id, count(*) FROM range(1)",
}


@pytest.mark.parametrize("run_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("sqlstate", ERRORS)
def test_an_error_of_spark(pair: Pair, sqlstate: str, run_async: bool) -> None:
    replies = pair.say_the_same(whole(ERRORS[sqlstate], run_async=run_async))
    told = replies[1] if len(replies) > 1 else replies[0].status
    assert told.sqlState in (sqlstate, None), told


def test_an_error_while_rows_are_fetched(pair: Pair) -> None:
    def conversation(side: Side) -> list[Any]:
        started = side.execute("SELECT IF(id = 9, raise_error('no more'), id) FROM range(0, 10, 1, 2)")
        fetched = side.fetch(started.operationHandle)
        return [started, fetched, side.ask("CloseOperation", operationHandle=started.operationHandle)]

    replies = pair.say_the_same(conversation)
    assert "no more" in replies[1].status.errorMessage


def test_a_type_that_thrift_does_not_know(pair: Pair) -> None:
    replies = pair.say_the_same(whole("SELECT parse_json('{}') AS v"))
    assert replies[2].status.statusCode == TStatusCode.ERROR


@pytest.mark.parametrize("run_async", [False, True], ids=["sync", "async"])
def test_what_cannot_be_parsed_fails_where_spark_says_so(pair: Pair, run_async: bool) -> None:
    """In the background an operation begins, and fails."""
    for replies in (whole("SELEC 1", run_async=run_async)(one) for one in (pair.gateway, pair.direct)):
        told = replies[1] if run_async else replies[0].status
        assert (told.sqlState, told.errorCode) == ("42601", 0)
        assert "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'" in told.errorMessage


def test_what_the_parser_throws_is_told_as_spark_tells_it(pair: Pair) -> None:
    text = "SELECT 1 FROM range(1) a NATURAL SEMI JOIN range(1) b"
    told = [one.execute(text).status.errorMessage.split("\n")[0] for one in (pair.gateway, pair.direct)]
    assert told[0] == told[1]


def test_an_unknown_function_is_refused_before_spark(pair: Pair) -> None:
    """On purpose: whether it exists is not looked up; a function of somebody's could read anything."""
    status = pair.gateway.execute("SELECT no_such_function(1)").status
    assert (status.statusCode, status.sqlState) == (TStatusCode.ERROR, "42883")
    assert "[UNRESOLVED_ROUTINE] Cannot resolve routine `no_such_function`" in status.errorMessage


def test_stack_and_plan_reach_a_client_to_whom_no_policy_applies(pair: Pair) -> None:
    """Drivers read the exception's class, message, frames and causes from `infoMessages`."""
    ours, theirs = pair.gateway.execute(ERRORS["42703"]).status, pair.direct.execute(ERRORS["42703"]).status
    for status in (ours, theirs):
        assert len(status.infoMessages) > 10
        assert status.infoMessages[0].startswith(
            "*org.apache.hive.service.cli.HiveSQLException:Error running"
        )
        assert "OneRowRelation" in status.errorMessage


def test_an_unknown_orientation_tells_nothing_of_sparks_handle(spark: Spark, pair: Pair) -> None:
    """On purpose: Spark's exception repeats the request, with the secret of the operation in it."""
    with WireClient(spark.host, spark.port, TESTER) as doomed:
        side = Side(doomed, doomed.open_session())
        operation = side.execute("SELECT 1").operationHandle
        with pytest.raises(CallFailed, match="secret"):
            side.fetch(operation, orientation=9)
    status = pair.gateway.fetch(pair.gateway.execute("SELECT 1").operationHandle, orientation=9).status
    assert status.statusCode == TStatusCode.ERROR
    assert "secret" not in repr(status)


def test_handles_that_never_were(pair: Pair) -> None:
    nobody = THandleIdentifier(guid=b"\1" * 16, secret=b"\2" * 16)
    operation = TOperationHandle(operationId=nobody, operationType=0, hasResultSet=True)
    session = TSessionHandle(sessionId=nobody)

    def conversation(side: Side) -> list[Any]:
        return [
            side.ask("GetOperationStatus", operationHandle=operation),
            side.ask("GetResultSetMetadata", operationHandle=operation),
            side.fetch(operation),
            side.ask("CancelOperation", operationHandle=operation),
            side.ask("CloseOperation", operationHandle=operation),
            side.ask("ExecuteStatement", sessionHandle=session, statement="SELECT 1"),
        ]

    for reply in pair.say_the_same(conversation):
        assert reply.status.statusCode == TStatusCode.ERROR


# -- states --------------------------------------------------------------------------------------------------


def test_running_then_canceled(pair: Pair) -> None:
    """Columns are asked for when it has ended: the gateway would wait for its end, which is minutes off; see
    `test_slow_spark`."""

    def conversation(side: Side) -> list[Any]:
        operation = side.execute(LONG, runAsync=True).operationHandle
        return [
            side.ask("GetOperationStatus", operationHandle=operation),
            side.fetch(operation),
            side.ask("CancelOperation", operationHandle=operation),
            side.ask("CancelOperation", operationHandle=operation),
            side.ask("GetResultSetMetadata", operationHandle=operation),
            side.ask("CloseOperation", operationHandle=operation),
            side.ask("CloseOperation", operationHandle=operation),
        ]

    replies = pair.say_the_same(conversation)
    assert replies[0].operationState == TOperationState.RUNNING
    assert "found RUNNING" in replies[1].status.errorMessage


def test_running_then_finished(pair: Pair) -> None:
    pair.say_the_same(whole("SELECT count(*) FROM range(0, 1000000, 1, 2)", run_async=True))


@pytest.mark.parametrize("run_async", [False, True])
@pytest.mark.parametrize("text", ["SELEKT 1", "SELECT nope(1)", "SELECT nope"])
def test_what_does_not_parse_fails_where_it_fails_in_spark(pair: Pair, text: str, run_async: bool) -> None:
    """In the background an operation that ends with the error; else ExecuteStatement itself."""
    replies = pair.say_the_same(whole(text, run_async=run_async))
    assert (len(replies) > 1) is run_async
    if run_async:
        assert replies[1].operationState == TOperationState.ERROR


@pytest.mark.parametrize(
    ("state", "sqlstate", "how"),
    [
        (TOperationState.CANCELED, "HY008", "canceled"),
        (TOperationState.TIMEDOUT, "HYT00", "timed out"),
        (TOperationState.ERROR, "42703", "UNRESOLVED_COLUMN"),
    ],
    ids=["canceled", "timed out", "failed"],
)
def test_why_there_are_no_rows_is_told_again(
    pair: Pair, state: TOperationState, sqlstate: str, how: str
) -> None:
    """On purpose: where Spark says "Expected state FINISHED" without SQLSTATE, the gateway says what was."""

    def conversation(side: Side) -> list[Any]:
        failing = state is TOperationState.ERROR
        timeout_s = 1 if state is TOperationState.TIMEDOUT else None
        started = side.execute("SELECT nope" if failing else LONG, runAsync=True, queryTimeout=timeout_s)
        operation = started.operationHandle
        if state is TOperationState.CANCELED:
            side.ask("GetOperationStatus", operationHandle=operation)
            side.ask("CancelOperation", operationHandle=operation)
        ended, fetched = side.client.ended(operation), side.fetch(operation)
        side.ask("CloseOperation", operationHandle=operation)
        return [ended, fetched]

    theirs, ours = conversation(pair.direct), conversation(pair.gateway)
    assert ours[0].operationState == theirs[0].operationState == state
    assert ours[0].sqlState == sqlstate
    assert theirs[1].status.errorMessage == f"Expected state FINISHED, but found {state.name}"
    assert (ours[1].status.statusCode, ours[1].status.sqlState) == (TStatusCode.ERROR, sqlstate)
    assert how in ours[1].status.errorMessage


def test_a_synchronous_statement_that_runs_out_of_time_fails(pair: Pair) -> None:
    """On purpose: Spark answers success and leaves it to the client to find an operation without rows."""
    theirs, ours = (side.execute(LONG, queryTimeout=1) for side in (pair.direct, pair.gateway))
    assert theirs.status.statusCode == TStatusCode.SUCCESS
    assert pair.direct.client.ended(theirs.operationHandle).operationState == TOperationState.TIMEDOUT
    pair.direct.client.close_operation(theirs.operationHandle)
    assert (ours.status.statusCode, ours.status.sqlState) == (TStatusCode.ERROR, "HYT00")


# -- sessions ------------------------------------------------------------------------------------------------


def test_several_sessions_of_one_connection_do_not_mix(pair: Pair) -> None:
    def conversation(side: Side) -> list[Any]:
        one, two = (Side(side.client, side.client.open_session()) for _ in range(2))
        replies = whole("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")(one)
        replies += whole("SELECT * FROM mine")(one)
        replies += whole("SELECT * FROM mine")(two)
        replies += whole("USE sales")(two)
        for each in (two, one, two):
            replies += whole("SELECT current_database()")(each)
        replies.append(side.ask("CloseSession", sessionHandle=one.session))
        replies += whole("SELECT current_database()")(two)
        replies += whole("SELECT 1")(one)
        replies.append(side.ask("CloseSession", sessionHandle=two.session))
        return replies

    pair.say_the_same(conversation)


def test_a_session_that_is_closed_while_a_statement_runs(pair: Pair) -> None:
    def conversation(side: Side) -> list[Any]:
        other = Side(side.client, side.client.open_session())
        operation = other.execute(LONG, runAsync=True).operationHandle
        return [
            side.ask("GetOperationStatus", operationHandle=operation),
            side.ask("CloseSession", sessionHandle=other.session),
            side.ask("GetOperationStatus", operationHandle=operation),
            side.fetch(operation),
            side.ask("CancelOperation", operationHandle=operation),
            other.execute("SELECT 1"),
            *whole("SELECT 1")(side),
        ]

    replies = pair.say_the_same(conversation)
    assert replies[1].status.statusCode == TStatusCode.SUCCESS
    assert "Invalid OperationHandle" in replies[2].status.errorMessage
