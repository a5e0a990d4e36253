"""What the gateway answers to somebody who may do everything is what Spark answers, reply by reply.

Each conversation is held with Spark and with the gateway and compared as structs. `neutral` lists what may
differ; what differs on purpose otherwise has a test of its own that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.wire import calls
from gateway.wire.messages import CallFailed
from gateway.wire.tcli import (
    THandleIdentifier,
    TOperationHandle,
    TOperationState,
    TProtocolVersion,
    TSessionHandle,
    TStatus,
    TStatusCode,
)
from gateway.wire.thrift import Struct
from tests.e2e.lab import PASSWORD, TESTER
from tests.e2e.running import RunningGateway, Spark
from tests.e2e.wire_client import WireClient

LONG = "SELECT count(*) FROM range(0, 4000000000, 1, 2)"
"""Takes minutes. Spark 4.3 loses a cancel, even a close, that comes while it plans, and the job runs on: who
stops it looks at its status before, which Spark answers after 5 seconds, when nothing is being planned."""


@dataclass(frozen=True)
class Side:
    """One connection with one session, to Spark or to the gateway."""

    client: WireClient
    session: TSessionHandle

    def ask(self, method: str, **fields: Any) -> Any:
        return self.client.ask(method, calls.METHODS[method][0](**fields))

    def execute(self, statement: str, **more: Any) -> Any:
        return self.ask("ExecuteStatement", sessionHandle=self.session, statement=statement, **more)

    def fetch(self, operation: TOperationHandle, rows: int = 100, **more: Any) -> Any:
        return self.ask("FetchResults", operationHandle=operation, maxRows=rows, **more)


Conversation = Callable[[Side], list[Any]]


@dataclass(frozen=True)
class Pair:
    """Spark and the gateway."""

    direct: Side
    gateway: Side

    def say_the_same(self, conversation: Conversation) -> list[Any]:
        """Hold a conversation with both, compare every reply, and return Spark's replies."""
        theirs, ours = conversation(self.direct), conversation(self.gateway)
        assert [neutral(reply) for reply in ours] == [neutral(reply) for reply in theirs]
        return theirs


@pytest.fixture(scope="module")
def pair(spark: Spark, lab_gateway: RunningGateway) -> Iterator[Pair]:
    with (
        WireClient(spark.host, spark.port, TESTER) as direct,
        WireClient(lab_gateway.host, lab_gateway.port, TESTER, PASSWORD) as through,
    ):
        yield Pair(Side(direct, direct.open_session()), Side(through, through.open_session()))


# -- what may differ -----------------------------------------------------------------------------------------

_HANDLE = re.compile(r"getHandleIdentifier\(\)=[0-9a-f-]+|SessionHandle \[[0-9a-f-]+\]")
_JAVA_CLASS = re.compile(r"^(?:[\w$]+\.)+[\w$]+: ")
_POSITION = re.compile(r"; line \d+ pos \d+;?")
_SQLSTATE = re.compile(r" SQLSTATE: [0-9A-Z]{5}")
_EXPRESSION_ID = re.compile(rb"#\d+")


def neutral(value: Any, field: str = "") -> Any:
    """Return a reply without what two servers cannot have in common, and without what the gateway leaves out.

    Handles; ids of expressions in plans; Java's stacks; of an error's message everything but the first
    paragraph, its position and its SQLSTATE; zero bytes at the end of a null bitmap. Spark leaves
    SQLSTATE and code of some errors out, the gateway says HY000 and 0. Spark's status does not say whether
    there is a result set, the gateway's does.
    """
    match value:
        case Struct():
            fields = {f.name: getattr(value, f.name) for f in type(value).wire_fields}
            for left_out in ("operationId", "sessionId", "infoMessages"):
                fields.pop(left_out, None)
            if isinstance(value, calls.TGetOperationStatusResp):
                del fields["hasResultSet"]
            if isinstance(value, TStatus) and value.statusCode == TStatusCode.ERROR:
                fields["sqlState"] = value.sqlState or "HY000"
                fields["errorCode"] = value.errorCode or 0
            return {name: neutral(it, name) for name, it in fields.items() if it is not None}
        case list():
            return [neutral(item, field) for item in value]
        case dict():
            return {key: neutral(item) for key, item in value.items()}
        case float():
            return repr(value)  # NaN is not equal to itself
        case bytes() if field == "nulls":
            return value.rstrip(b"\0")
        case bytes():
            return _EXPRESSION_ID.sub(b"#", value)
        case str() if field == "errorMessage":
            return first_paragraph(value)
    return value


def first_paragraph(message: str) -> str:
    text = _JAVA_CLASS.sub("", message).split("\n")[0]
    for left_out in (_POSITION, _SQLSTATE, _HANDLE):
        text = left_out.sub("", text)
    return " ".join(text.split())


def whole(statement: str, *, run_async: bool = False) -> Conversation:
    """Return the conversation about one statement, to its end and beyond."""

    def conversation(side: Side) -> list[Any]:
        started = side.execute(statement, runAsync=run_async)
        operation = started.operationHandle
        if operation is None:
            return [started]
        status = side.client.ended(operation)
        replies = [started, status, side.ask("GetResultSetMetadata", operationHandle=operation)]
        if status.operationState == TOperationState.FINISHED:
            for rows, orientation in ((2, 0), (1000, 0), (1000, 0), (1, 4), (1000, 0)):
                replies.append(side.fetch(operation, rows, orientation=orientation))
        replies.append(side.ask("CloseOperation", operationHandle=operation))
        replies.append(side.ask("GetOperationStatus", operationHandle=operation))
        return replies

    return conversation


# -- results -------------------------------------------------------------------------------------------------

TYPES = {
    "boolean": "true",
    "tinyint": "CAST(-128 AS TINYINT)",
    "smallint": "CAST(-32768 AS SMALLINT)",
    "int": "-2147483648",
    "bigint": "9223372036854775807",
    "float": "CAST('NaN' AS FLOAT)",
    "double": "CAST('-Infinity' AS DOUBLE)",
    "decimal": "12345678901234567890.123456789012345678BD",
    "string": "'ü\U0001f600 \\0 \"q\" '",
    "string with a collation": "'a' COLLATE UTF8_LCASE",
    "char": "CAST('ab' AS CHAR(5))",
    "varchar": "CAST('ab' AS VARCHAR(5))",
    "binary": "X'ff00fe'",
    "date": "DATE '0001-01-01'",
    "timestamp": "TIMESTAMP '9999-12-31 23:59:59.999999'",
    "timestamp without a zone": "TIMESTAMP_NTZ '2020-02-29 12:00:00.5'",
    "interval of months": "INTERVAL '-1-2' YEAR TO MONTH",
    "interval of seconds": "INTERVAL '1 02:03:04.5' DAY TO SECOND",
    "calendar interval": "make_interval(1, 2, 3, 4, 5, 6, 7.5)",
    "array": "array(1, NULL, 3)",
    "map": "map('k', X'ff', 'l', NULL)",
    "struct": "named_struct('x', 1, 'y z', array(named_struct('q', DATE '2020-01-01')))",
    "void": "NULL",
}
ALL_TYPES = "SELECT " + ", ".join(f"{value} AS `{name}`" for name, value in TYPES.items())


@pytest.mark.parametrize("name", TYPES)
def test_a_value_and_a_null_of_every_type(pair: Pair, name: str) -> None:
    replies = pair.say_the_same(whole(f"SELECT * FROM VALUES ({TYPES[name]}), (NULL) AS t(`{name}`)"))
    assert replies[1].operationState == TOperationState.FINISHED


@pytest.mark.parametrize("version", TProtocolVersion)
def test_every_protocol_version(pair: Pair, version: TProtocolVersion) -> None:
    def conversation(side: Side) -> list[Any]:
        other = Side(side.client, side.client.open_session(version))
        replies = whole(ALL_TYPES)(other)
        return [*replies, side.ask("CloseSession", sessionHandle=other.session)]

    replies = pair.say_the_same(conversation)
    rows = replies[3].results
    assert bool(rows.rows) is (version < TProtocolVersion.V6)
    assert bool(rows.columns) is (version >= TProtocolVersion.V6)


def test_fetching_in_every_direction(pair: Pair) -> None:
    def conversation(side: Side) -> list[Any]:
        operation = side.execute("SELECT id FROM range(0, 7, 1, 1)").operationHandle
        turns = [
            (3, 0),
            (3, 1),
            (2, 2),
            (2, 3),
            (2, 5),
            (0, 0),
            (2, 4),
            (9, 0),
            (9, 0),
            (9, 0),
            (3, 1),
            (9, 4),
        ]
        replies = [side.fetch(operation, rows, orientation=orientation) for rows, orientation in turns]
        log = side.fetch(operation, fetchType=1)
        return [*replies, log, side.ask("CloseOperation", operationHandle=operation)]

    replies = pair.say_the_same(conversation)
    assert replies[0].results.columns[0].i64Val.values == [0, 1, 2]
    assert replies[8].results.columns[0].i64Val.values == []


def test_an_empty_result(pair: Pair) -> None:
    pair.say_the_same(whole("SELECT id, 'x' AS x FROM range(3) WHERE id > 5"))


def test_calls_that_do_not_wait_for_replies_are_answered_in_order(pair: Pair) -> None:
    def conversation(side: Side) -> list[Any]:
        operation = side.execute("SELECT id FROM range(4)").operationHandle
        fetch = calls.TFetchResultsReq(operationHandle=operation, maxRows=1)
        sent: list[tuple[str, Struct]] = [
            ("FetchResults", fetch),
            ("GetOperationStatus", calls.TGetOperationStatusReq(operationHandle=operation)),
            ("FetchResults", fetch),
            ("GetResultSetMetadata", calls.TGetResultSetMetadataReq(operationHandle=operation)),
            ("FetchResults", fetch),
            ("CloseOperation", calls.TCloseOperationReq(operationHandle=operation)),
            ("FetchResults", fetch),
        ]
        for method, request in sent:
            side.client.send(method, request)
        return [side.client.receive(method) for method, _ in sent]

    replies = pair.say_the_same(conversation)
    assert [replies[i].results.columns[0].i64Val.values for i in (0, 2, 4)] == [[0], [1], [2]]


# -- statements that are no queries --------------------------------------------------------------------------

SCRIPT = """
CREATE DATABASE wire
USE wire
SELECT current_database(), current_user()
CREATE TABLE t (a INT COMMENT 'an a', b STRING, c DECIMAL(5,2)) USING parquet COMMENT 'a table'
CREATE TABLE t (a INT) USING parquet
INSERT INTO t VALUES (1, 'x', 1.5), (2, NULL, NULL)
SELECT * FROM t
SELECT t.a AS z, wire.t.b FROM wire.t
SELECT x.*, count(*) OVER () FROM t AS x
CREATE TABLE u USING parquet AS SELECT * FROM t
INSERT OVERWRITE u SELECT * FROM t WHERE a = 1
ALTER TABLE u ADD COLUMNS (d INT)
SHOW TABLES
SHOW TABLES IN wire LIKE 'u'
SHOW COLUMNS IN t
DESCRIBE t
DESCRIBE QUERY SELECT * FROM t
DESCRIBE DATABASE wire
SHOW CREATE TABLE t
SHOW TBLPROPERTIES t
SHOW PARTITIONS t
SHOW VIEWS
EXPLAIN SELECT * FROM t
CREATE TEMPORARY VIEW v AS SELECT a FROM t
SELECT * FROM v
DROP VIEW v
SELECT * FROM v
CREATE VIEW w AS SELECT a FROM t
SELECT * FROM w
DROP VIEW w
TRUNCATE TABLE u
SELECT count(*) FROM u
DROP TABLE u
DROP TABLE IF EXISTS u
DROP TABLE u
SET spark.sql.shuffle.partitions=3
SET spark.sql.shuffle.partitions
RESET spark.sql.shuffle.partitions
SHOW FUNCTIONS LIKE 'abs'
DESCRIBE FUNCTION abs
SHOW DATABASES LIKE 'w*'
REFRESH TABLE t
USE default
DROP DATABASE wire CASCADE
USE wire
""".strip().splitlines()


def test_a_script_of_definitions_and_changes(pair: Pair) -> None:
    theirs = [whole(statement)(pair.direct) for statement in SCRIPT]
    for statement, expected in zip(SCRIPT, theirs, strict=True):
        ours = whole(statement)(pair.gateway)
        assert [neutral(r) for r in ours] == [neutral(r) for r in expected], statement


def test_the_comment_of_a_column_is_told(pair: Pair) -> None:
    assert pair.direct.execute("CREATE TABLE default.noted (a INT COMMENT 'an a') USING parquet")
    try:
        replies = pair.say_the_same(whole("SELECT a FROM default.noted"))
        assert replies[2].schema.columns[0].comment == "an a"
    finally:
        pair.direct.execute("DROP TABLE default.noted")


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
def test_what_cannot_be_parsed_is_refused_at_once(pair: Pair, run_async: bool) -> None:
    """On purpose: Spark starts an operation that fails, the gateway starts none."""
    (ours,) = whole("SELEC 1", run_async=run_async)(pair.gateway)
    theirs = whole("SELEC 1", run_async=run_async)(pair.direct)
    told = theirs[1] if run_async else theirs[0].status
    assert (ours.status.sqlState, ours.status.errorCode) == (told.sqlState, told.errorCode) == ("42601", 0)
    assert "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'" in ours.status.errorMessage
    assert "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'" in told.errorMessage


def test_an_unknown_function_is_refused_before_spark(pair: Pair) -> None:
    """On purpose: whether it exists is not told, because a function of somebody's could read anything."""
    status = pair.gateway.execute("SELECT no_such_function(1)").status
    assert (status.statusCode, status.sqlState) == (TStatusCode.ERROR, "0A000")
    assert "[SLUICE_NOT_GOVERNABLE] `no_such_function` is not a built-in function" in status.errorMessage


def test_no_stack_and_no_plan_reaches_a_client(pair: Pair) -> None:
    """On purpose: one line in `infoMessages`, which drivers read the exception's class and message from."""
    ours, theirs = pair.gateway.execute(ERRORS["42703"]).status, pair.direct.execute(ERRORS["42703"]).status
    assert len(theirs.infoMessages) > 10
    assert "OneRowRelation" in theirs.errorMessage
    assert len(ours.infoMessages) == 1
    assert ours.infoMessages[0].startswith(
        "*org.apache.hive.service.cli.HiveSQLException:Error running query"
    )
    assert "OneRowRelation" not in repr(ours)


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
    def conversation(side: Side) -> list[Any]:
        operation = side.execute(LONG, runAsync=True).operationHandle
        return [
            side.ask("GetOperationStatus", operationHandle=operation),
            side.fetch(operation),
            side.ask("GetResultSetMetadata", operationHandle=operation),
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


@pytest.mark.parametrize(
    ("state", "sqlstate", "how"),
    [
        (TOperationState.CANCELED, "HY008", "canceled"),
        (TOperationState.TIMEDOUT, "HYT00", "ran into its timeout"),
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


# -- metadata ------------------------------------------------------------------------------------------------

METADATA: dict[str, dict[str, Any]] = {
    "GetTypeInfo": {},
    "GetCatalogs": {},
    "GetSchemas": {"schemaName": "%"},
    "GetTableTypes": {},
    "GetTables": {"schemaName": "sales", "tableName": "%"},
    "GetColumns": {"schemaName": "sales", "tableName": "%", "columnName": "%"},
    "GetFunctions": {"functionName": "%"},
    "GetPrimaryKeys": {"schemaName": "sales", "tableName": "orders"},
    "GetCrossReference": {"foreignSchemaName": "sales", "foreignTableName": "orders"},
}


@pytest.mark.parametrize("method", METADATA)
def test_metadata_have_sparks_columns(pair: Pair, method: str) -> None:
    """Names and types of the columns are Spark's; comments are ours, and one misspelt name is right."""

    def conversation(side: Side) -> list[Any]:
        started = side.ask(method, sessionHandle=side.session, **METADATA[method])
        operation = started.operationHandle
        schema = side.client.schema(operation)
        for column in schema.columns:
            column.columnName = column.columnName.replace("KEQ_SEQ", "KEY_SEQ")
            column.comment = None
        return [started, schema, side.ask("CloseOperation", operationHandle=operation)]

    pair.say_the_same(conversation)


@pytest.mark.parametrize(
    ("method", "of_the_catalog"),
    [("GetSchemas", 1), ("GetTables", 0), ("GetColumns", 0), ("GetTableTypes", None)],
)
def test_metadata_list_what_spark_lists(pair: Pair, method: str, of_the_catalog: int | None) -> None:
    """On purpose: the gateway names the catalog, which Spark leaves out, and no schema of temporary views."""

    def listed(side: Side) -> list[list[Any]]:
        started = side.ask(method, sessionHandle=side.session, **METADATA[method])
        rows = side.client.rows(started.operationHandle, 10_000)
        side.ask("CloseOperation", operationHandle=started.operationHandle)
        return [[cell for i, cell in enumerate(row) if i != of_the_catalog] for row in rows]

    ours, theirs = listed(pair.gateway), listed(pair.direct)
    if method == "GetSchemas":
        theirs.remove(["global_temp"])
    if method == "GetColumns":
        # Schema to SQL type; sizes are the gateway's own, because Spark counts bytes there.
        ours, theirs = ([row[:5] for row in rows] for rows in (ours, theirs))
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)


def test_every_info_is_answered(spark: Spark, pair: Pair) -> None:
    """On purpose: Spark drops the connection on most types of GetInfo, because a union stays empty."""
    for known in (13, 17, 18):
        replies = [
            side.ask("GetInfo", sessionHandle=side.session, infoType=known)
            for side in (pair.gateway, pair.direct)
        ]
        assert neutral(replies[0]) == neutral(replies[1])
    assert pair.gateway.ask("GetInfo", sessionHandle=pair.gateway.session, infoType=47).status.statusCode == 0
    with WireClient(spark.host, spark.port, TESTER) as doomed, pytest.raises((OSError, CallFailed)):
        doomed.ask("GetInfo", calls.TGetInfoReq(sessionHandle=doomed.open_session(), infoType=47))
