"""The Thrift backend and the live catalog against a real Spark: what the scripted one only claims."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from gateway.backends.spark_thrift import SparkThriftBackend, SparkThriftSession
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.spark_thrift_options import SparkThriftOptions
from gateway.backends.spark_thrift_service import SparkThriftService
from gateway.catalog.live import LiveCatalog
from gateway.catalog.types import normalize_ddl
from gateway.model.catalog import Column, TableKind, TableName
from gateway.model.principal import Principal
from gateway.model.reading_settings import PARSER_SETTINGS, READING_SETTINGS
from gateway.model.statement import Cleared, SessionContext, Statement
from gateway.session.ports import BackendError
from gateway.wire import calls, messages
from gateway.wire.rows import decode_rows
from gateway.wire.tcli import TFetchOrientation, TOperationState
from tests.e2e.running import Spark
from tests.speed import patience

ALICE = Principal(user="alice")


def cleared(text: str) -> Cleared:
    return Cleared(
        statement=Statement(text=text, principal=ALICE, context=SessionContext()),
        forwarded=text,
        plan_class="Project",
        decisions=(),
        scans=(),
        snapshot_version="",
    )


class Sink:
    def __init__(self) -> None:
        self.data = bytearray()
        self.slow = False

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        return


@pytest.fixture
async def backend(spark: Spark) -> AsyncIterator[SparkThriftBackend]:
    made = SparkThriftBackend(
        SparkThriftOptions(address=SparkAddress(host=spark.host, port=spark.port), stop_grace_s=3)
    )
    yield made
    await made.close()  # else a job that was stopped could go on behind the next test


@pytest.fixture
async def session(backend: SparkThriftBackend) -> AsyncIterator[SparkThriftSession]:
    opened = await backend.open_session(ALICE, protocol_version=9, settings={})
    yield opened
    await opened.close()


async def test_a_login_of_the_gateways_acts_as_the_user_of_the_session(spark: Spark) -> None:
    """Spark takes `hive.server2.proxy.user` by its word where it checks no logins."""
    address = SparkAddress(host=spark.host, port=spark.port)
    made = SparkThriftBackend(SparkThriftOptions(address=address, service="svc", password="p"))
    opened = await made.open_session(ALICE, protocol_version=9, settings={})
    await opened.read_spark_configuration()
    assert await opened.answer("SELECT current_user()", max_rows=2) == [("alice",)]
    await opened.close()
    await made.close()


def test_the_parsers_settings_are_the_ones_that_spark_has_by_itself(spark: Spark) -> None:
    """A key that this Spark does not know, or another default, means that reader and Spark could differ."""
    for key, value in PARSER_SETTINGS.items():
        assert spark.query(f"SET {key}") == [(key, value)]


async def test_every_reading_setting_holds_in_a_session(session: SparkThriftSession) -> None:
    for key, value in READING_SETTINGS.items():
        assert await session.answer(f"SET {key}", max_rows=2) == [(key, value)]
    assert await session.answer("SELECT '${env:HOME}' AS x", max_rows=2) == [("${env:HOME}",)]


async def test_the_principal_is_who_spark_knows(
    backend: SparkThriftBackend, session: SparkThriftSession
) -> None:
    await backend.probe()
    assert await session.answer("SELECT current_user(), session_user()", max_rows=2) == [("alice", "alice")]


async def test_the_clients_settings_and_database_are_applied(backend: SparkThriftBackend) -> None:
    session = await backend.open_session(
        ALICE, protocol_version=9, settings={"use:database": "hr", "spark.sql.session.timeZone": "Asia/Tokyo"}
    )
    row = await session.answer("SELECT current_database(), current_timezone()", max_rows=2)
    assert row == [("hr", "Asia/Tokyo")]
    await session.close()
    with pytest.raises(BackendError, match="SCHEMA_NOT_FOUND"):
        await backend.open_session(ALICE, protocol_version=9, settings={"use:database": "nowhere"})


@pytest.mark.parametrize("version", range(11))
async def test_relayed_batches_decode_in_every_protocol_version(
    backend: SparkThriftBackend, version: int
) -> None:
    session = await backend.open_session(ALICE, protocol_version=version, settings={})
    text = "SELECT id, if(id % 3 = 0, NULL, concat('é', id)) AS s, id > 5 AS b, id / 4 AS d FROM range(25)"
    operation = await session.execute(cleared(text), run_async=True, timeout_s=60)
    await operation.wait_for_success()
    got = []
    for seqid in range(1, 10):
        sink = Sink()
        relayed = await operation.relay(TFetchOrientation.NEXT, 10, 0, seqid, sink)
        message = bytes(sink.data[4:])
        assert messages.decode_message(message).seqid == seqid
        results = messages.decode_reply(message, calls.TFetchResultsResp).results
        assert results is not None
        batch = decode_rows(results)
        assert (relayed.rows, relayed.bytes) == (len(batch), len(sink.data))
        if not batch:
            break
        got += batch
    assert got == [(i, None if i % 3 == 0 else f"é{i}", i > 5, i / 4) for i in range(25)]
    await operation.close()
    await session.close()


@pytest.mark.parametrize("incremental", ["true", "false"])
async def test_a_failing_statement_writes_nothing_and_tells_its_error(
    backend: SparkThriftBackend, incremental: str
) -> None:
    """With incremental collection rows are computed while they are fetched, so that is where it fails."""
    session = await backend.open_session(
        ALICE, protocol_version=9, settings={"spark.sql.thriftServer.incrementalCollect": incremental}
    )
    text = "SELECT CAST(concat(id, if(id = 50000, 'x', '')) AS INT) AS n FROM range(60000)"
    operation = await session.execute(cleared(text), run_async=True, timeout_s=60)
    told: BackendError | None = None
    try:
        await operation.wait_for_success()
    except BackendError as error:
        told = error
    while told is None:
        sink = Sink()
        relayed = await operation.relay(TFetchOrientation.NEXT, 10_000, 0, 1, sink)
        assert relayed.rows > 0 or relayed.error is not None
        assert (relayed.error is None) == bool(sink.data)
        told = relayed.error
    assert "CAST_INVALID_INPUT" in told.message
    await operation.close()
    await session.close()


async def test_a_cancel_overtakes_the_long_poll(session: SparkThriftSession) -> None:
    """A poll that Spark answered first, as it does after 5 s, says RUNNING: then it is tried again."""
    text = "SELECT count(*) FROM range(1000000000000)"
    for _ in range(10):
        operation = await session.execute(cleared(text), run_async=True, timeout_s=0)
        poll = asyncio.create_task(operation.status())
        await asyncio.sleep(0)
        await operation.cancel()
        if (await poll).state == TOperationState.CANCELED:
            return
    raise AssertionError("no cancel reached Spark before the answer to the poll")


@pytest.mark.parametrize("how", ["cancel", "close", "close session"])
@pytest.mark.in_turn(6)
async def test_what_is_stopped_while_it_is_planned_frees_its_cores(
    backend: SparkThriftBackend, how: str
) -> None:
    """Spark alone would go on with the job: five tries, 15 ms apart, hit the planning for certain."""
    for i in range(5):
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        text = cleared(f"SELECT count(*) + {i} FROM range(1000000000000)")
        operation = await session.execute(text, run_async=True, timeout_s=0)
        await asyncio.sleep(0.015 * i)
        if how == "cancel":
            await operation.cancel()
        if how != "close session":
            await operation.close()
        await session.close()
    witness = await backend.open_session(ALICE, protocol_version=9, settings={})
    async with asyncio.timeout(patience()):
        assert await witness.answer("SELECT count(*) FROM range(10)", max_rows=1) == [(10,)]
    await witness.close()


async def test_a_timeout_is_sparks_own(session: SparkThriftSession) -> None:
    operation = await session.execute(
        cleared("SELECT count(*) FROM range(1000000000000)"), run_async=True, timeout_s=1
    )
    with pytest.raises(BackendError):
        await operation.wait_for_success()
    assert (await operation.status()).state == TOperationState.TIMEDOUT


async def test_the_catalog_describes_what_is_there(spark: Spark, backend: SparkThriftBackend) -> None:
    spark.query(
        "CREATE DATABASE IF NOT EXISTS catalog_test",
        "CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 'not the table' AS leak",
        "DROP TABLE IF EXISTS catalog_test.t",
        "CREATE TABLE catalog_test.t (id INT COMMENT 'key', `na``me x` STRING, amount DECIMAL(10,2),"
        " at TIMESTAMP, a ARRAY<STRUCT<x: INT, `y z`: STRING>>, m MAP<STRING, BIGINT>, c CHAR(3),"
        " i INTERVAL DAY TO SECOND, v VARIANT, l STRING COLLATE UTF8_LCASE, d DATE)"
        " USING parquet PARTITIONED BY (d)",
        "DROP VIEW IF EXISTS catalog_test.w",
        "CREATE VIEW catalog_test.w (k, n) AS SELECT id, count(*) AS many FROM catalog_test.t GROUP BY id",
    )
    service = SparkThriftService(backend)
    catalog = LiveCatalog(service.query, refusal=BackendError)
    names = [TableName("spark_catalog", "catalog_test", table) for table in ("t", "w", "nothing")]
    snapshot = await catalog.look_up(names)
    table, view = snapshot.table(names[0]), snapshot.table(names[1])
    assert table is not None
    assert view is not None
    assert {column.name: column.type for column in table.columns} == {
        "id": "int",
        "na`me x": "string",
        "amount": "decimal(10,2)",
        "at": "timestamp",
        "a": "array<struct<`x`:int,`y z`:string>>",
        "m": "map<string,bigint>",
        "c": "string",
        "i": "interval day to second",
        "v": "variant",
        "l": "string collate UTF8_LCASE",
        "d": "date",
    }
    assert (table.kind, table.owner, table.provider) == (TableKind.TABLE, "direct", "parquet")
    assert table.location is not None
    for column in table.columns:
        assert normalize_ddl(column.type) == column.type
        await service.query(f"SELECT CAST(NULL AS {column.type}) AS x")
    assert view.columns == (Column(name="k", type="int", comment="key"), Column(name="n", type="bigint"))
    assert view.view is not None
    assert (view.view.output, view.view.catalog, view.view.database) == (
        ("id", "many"),
        "spark_catalog",
        "default",
    )
    assert snapshot.knows(names[2])
    assert snapshot.table(names[2]) is None
    assert "catalog_test" in await catalog.databases("spark_catalog")
    assert await catalog.list_tables("spark_catalog", "catalog_test") == (("t", False), ("w", True))
    assert await catalog.list_tables("spark_catalog", "nowhere") == ()
    await catalog.close()
    await service.close()


async def test_a_table_of_a_v2_catalog_is_described_by_the_plain_form(backend: SparkThriftBackend) -> None:
    settings = {
        "spark.sql.catalog.derby": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.derby.url": "jdbc:derby:memory:v2;create=true",
        "spark.sql.catalog.derby.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }
    session = await backend.open_session(Principal(user="sluice"), protocol_version=9, settings=settings)
    # In memory: it ends with the JVM.
    await session.answer("CREATE DATABASE derby.s1", max_rows=1)
    await session.answer("CREATE TABLE derby.s1.t (a INT, b DECIMAL(5,1))", max_rows=1)

    async def query(sql: str) -> list[tuple[object, ...]]:
        return list(await session.answer(sql, max_rows=1000))

    catalog = LiveCatalog(query, refusal=BackendError, catalogs=["spark_catalog", "derby"], concurrency=1)
    name = TableName("derby", "s1", "t")
    table = (await catalog.look_up([name])).table(name)
    assert table is not None
    assert table.columns == (Column(name="a", type="int"), Column(name="b", type="decimal(5,1)"))
    assert await catalog.list_tables("derby", "s1") == (("t", False),)
    assert any(re.fullmatch("(?i)s1", database) for database in await catalog.databases("derby"))
    await catalog.close()
    await session.close()
