"""What the gateway answers to somebody who may do everything is what Spark answers, reply by reply.

`neutral` lists what may differ; what differs on purpose otherwise has a test of its own that says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.wire import calls
from gateway.wire.messages import CallFailed
from gateway.wire.tcli import TOperationState, TProtocolVersion
from gateway.wire.thrift import Struct
from tests.e2e.lab import TESTER
from tests.e2e.running import Spark
from tests.e2e.wire_client import WireClient
from tests.e2e.wire_comparison import Pair, Side, neutral, whole

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


def test_functions_have_sparks_descriptions(pair: Pair) -> None:
    """On purpose: what is built in has no schema, and is not listed once for each."""

    def listed(side: Side, pattern: str) -> list[tuple[str, str, str]]:
        asked = {"schemaName": "default"} if side is pair.direct else {}
        started = side.ask("GetFunctions", sessionHandle=side.session, functionName=pattern, **asked)
        rows = side.client.rows(started.operationHandle, 10_000)
        side.ask("CloseOperation", operationHandle=started.operationHandle)
        assert {row[4] for row in rows} <= {0}
        return sorted((str(row[2]), str(row[3]), str(row[5])) for row in rows)

    for pattern in ("%", "date%", "%_ADD", "abs|upper", "no_such"):
        ours, theirs = (dict.fromkeys(listed(side, pattern)) for side in (pair.gateway, pair.direct))
        # Functions of tables, which Spark lists here, are none to SHOW FUNCTIONS; operators are.
        plans = "org.apache.spark.sql.catalyst.plans."
        assert {one for one in theirs if not one[2].startswith(plans)} <= ours.keys()
        # And `date%` is `date` as well, for JDBC, if not for Spark.
        more = {name for name, remarks, _ in ours.keys() - theirs.keys() if remarks}
        assert more <= {pattern.strip("%")}


def test_texts_of_a_length_have_it(pair: Pair) -> None:
    """In the list of columns and in a result: `CHAR(n)` and `VARCHAR(n)` with their numbers, as Spark has
    them."""
    made = "CREATE TABLE sales.of_lengths (c CHAR(5), v VARCHAR(7), s STRING) USING parquet"
    assert pair.gateway.execute(made).status.statusCode == 0
    try:

        def listed(side: Side) -> list[list[Any]]:
            started = side.ask(
                "GetColumns", sessionHandle=side.session, schemaName="sales", tableName="of_lengths"
            )
            rows = side.client.rows(started.operationHandle, 10)
            side.ask("CloseOperation", operationHandle=started.operationHandle)
            # Names, type, its name and its size, which Spark has of a VARCHAR(n) in the name alone.
            return [[*row[1:6], row[6] if row[3] == "c" else None] for row in rows]

        def schema(side: Side) -> Any:
            operation = side.execute("SELECT c, v, s, c AS d FROM sales.of_lengths").operationHandle
            side.client.ended(operation)
            found = side.client.schema(operation)
            side.ask("CloseOperation", operationHandle=operation)
            return found

        assert listed(pair.gateway) == listed(pair.direct)
        assert schema(pair.gateway) == schema(pair.direct)
    finally:
        pair.gateway.execute("DROP TABLE sales.of_lengths")


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
