"""Frontend, session service and the real Thrift backend in one line, over a scripted HiveServer2."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

import pytest

from gateway.backends.spark_thrift import SparkThriftBackend
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.spark_thrift_options import SparkThriftOptions
from gateway.frontends.thrift_binary import ThriftConnection, ThriftLimits
from gateway.model.catalog import TableName
from gateway.model.decision import PolicyRef, RowFilter
from gateway.model.statement import ScanRecord
from gateway.session.redact import WITHHELD
from gateway.wire import calls
from gateway.wire.messages import decode_message, decode_reply
from gateway.wire.rows import decode_rows
from gateway.wire.tcli import TOperationHandle, TTypeId
from tests.backends.fake_hive_server import Answer, Cut, FakeHiveServer
from tests.frontends.listening import Gateway, RawClient, listening
from tests.session.fakes import until
from tests.speed import patience

COLUMNS = [("id", TTypeId.INT), ("name", TTypeId.STRING)]
GUARDED = ScanRecord(
    table=TableName("spark_catalog", "hr", "employee"),
    access="select",
    columns=None,
    obligations=(RowFilter(expression="region = 'EU'", policy=PolicyRef(id=8, name="eu", version=1)),),
)


@contextlib.asynccontextmanager
async def line(limits: ThriftLimits | None = None) -> AsyncIterator[tuple[FakeHiveServer, Gateway]]:
    async with FakeHiveServer() as spark:
        spark.on("SELECT 1", Answer.of(COLUMNS, [(1, "one"), (2, None)]))
        address = SparkAddress(host=spark.host, port=spark.port)
        # Spark forgets a cancel that comes while it plans, so a stopped session ends only after a while.
        backend = SparkThriftBackend(SparkThriftOptions(address=address, stop_grace_s=0.1))
        async with listening(limits, backend=backend) as gateway:
            yield spark, gateway


async def fetch(client: RawClient, operation: TOperationHandle) -> calls.TFetchResultsResp:
    request = calls.TFetchResultsReq(operationHandle=operation, maxRows=1000)
    return await client.call("FetchResults", request, calls.TFetchResultsResp)


async def test_a_batch_is_sparks_with_the_clients_sequence_number() -> None:
    async with line() as (spark, gateway):
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT 1")
        client.seqid = 4710
        client.send("FetchResults", calls.TFetchResultsReq(operationHandle=operation, maxRows=1000))
        data = await client.message()
        assert decode_message(data).seqid == 4711
        reply = decode_reply(data, calls.TFetchResultsResp)
        assert reply.results is not None
        assert decode_rows(reply.results) == [(1, "one"), (2, None)]
        end = await fetch(client, operation)
        assert end.results is not None
        assert decode_rows(end.results) == []
        await client.close()
        await until(lambda: spark.sessions == 0)
        (event,) = gateway.world.ledger.of("completed")
        assert event.body["rows"] == 2
        assert event.body["bytes"] > len(data)
        assert event.body["outcome"] == "finished"
        assert [(s.user, s.text) for s in spark.statements] == [("bob", "SELECT 1")]


@pytest.mark.parametrize("sync", [True, False])
async def test_sparks_error_arrives_redacted(sync: bool) -> None:
    message = (
        "Error running query: [NO_SUCH_THING] org.apache.spark.SparkException: [NO_SUCH_THING] nothing. "
        "SQLSTATE: 42P01\n'Project [*]\n\tat org.apache.X.y(X.scala:1)"
    )
    async with line() as (spark, gateway):
        spark.on("SELECT 2", Answer.error("42P01", message, sync=sync))
        gateway.world.judge.scans["SELECT 2"] = (GUARDED,)
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 2")
        reply = await client.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        assert reply.status.errorMessage == f"[NO_SUCH_THING] {WITHHELD} SQLSTATE: 42P01"
        assert reply.status.sqlState == "42P01"
        assert gateway.world.ledger.outcomes() == ["failed"]
        await client.execute(session, "SELECT 1")


async def test_a_disconnected_client_stops_its_statement_in_spark() -> None:
    async with line() as (spark, gateway):
        spark.on("SLOW", Answer.of(COLUMNS, [], until=asyncio.Event()))
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        client.send("ExecuteStatement", calls.TExecuteStatementReq(sessionHandle=session, statement="SLOW"))
        await spark.until(lambda: spark.texts() == ["SLOW"])
        client.writer.transport.abort()
        await until(lambda: gateway.world.ledger.outcomes() == ["canceled"])
        await spark.until(lambda: spark.sessions == 0)


async def test_a_cancel_does_not_stand_behind_the_poll() -> None:
    async with line() as (spark, gateway):
        spark.on("SLOW", Answer.of(COLUMNS, [], until=asyncio.Event()))
        polling = await RawClient.logged_in(gateway.port)
        operation = await polling.execute(await polling.open_session(), "SLOW", run_async=True)
        polling.send("GetOperationStatus", calls.TGetOperationStatusReq(operationHandle=operation))
        cancelling = await RawClient.logged_in(gateway.port)
        request = calls.TCancelOperationReq(operationHandle=operation)
        reply = await cancelling.call("CancelOperation", request, calls.TCancelOperationResp)
        assert reply.status.statusCode == 0
        state = decode_reply(await polling.message(), calls.TGetOperationStatusResp)
        assert state.operationState in (1, 3)
        assert gateway.world.ledger.outcomes() == ["canceled"]


async def test_spark_that_goes_away_ends_the_session_with_a_clear_error() -> None:
    async with line() as (spark, gateway):
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        operation = await client.execute(session, "SELECT 1")
        await spark.drop()
        reply = await fetch(client, operation)
        assert reply.status.statusCode == 3
        assert (reply.status.errorMessage or "").startswith("[SLUICE_BACKEND_UNAVAILABLE]")
        request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 1")
        again = await client.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        assert (again.status.errorMessage or "").startswith("Invalid SessionHandle")
        assert gateway.world.ledger.outcomes() == ["failed"]
        await client.execute(await client.open_session(), "SELECT 1")


async def test_a_batch_that_breaks_off_cuts_the_client_too() -> None:
    async with line() as (spark, gateway):
        spark.on("SELECT big", Answer.of(COLUMNS, [(i, "x" * 100) for i in range(900)]))
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT big")
        spark.misbehave("FetchResults", Cut(after=20_000))
        client.send("FetchResults", calls.TFetchResultsReq(operationHandle=operation, maxRows=1000))
        assert await client.is_closed()
        await until(lambda: gateway.world.ledger.outcomes() == ["failed"])


async def test_a_client_that_reads_slowly_holds_spark_back_and_not_the_gateways_memory() -> None:
    async with line(ThriftLimits(write_buffer_bytes=100_000)) as (spark, gateway):
        rows = [(i, "x" * 20_000) for i in range(1000)]
        spark.on("SELECT big", Answer.of(COLUMNS, rows))
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT big")
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.send("FetchResults", calls.TFetchResultsReq(operationHandle=operation, maxRows=1000))
        (connection,) = gateway.server._connections
        assert isinstance(connection, ThriftConnection)
        transport = connection._transport
        assert transport is not None
        await until(lambda: connection._writing_paused)
        sizes = []
        for _ in range(50):
            await asyncio.sleep(0.002)
            sizes.append(transport.get_write_buffer_size())
        # The batch has 20 MB; what waits here is the buffer and what Spark's socket gave in one go.
        assert max(sizes) < 4_000_000
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(patience()):
            (length,) = struct.unpack(">I", await client.reader.readexactly(4))
            reply = decode_reply(await client.reader.readexactly(length), calls.TFetchResultsResp)
        assert reply.results is not None
        assert decode_rows(reply.results) == rows
