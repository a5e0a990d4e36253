"""Handshake, frames and calls over a real socket, from clients that mean well and others."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import BackendUnavailable
from gateway.frontends.connection_limits import ConnectionLimits
from gateway.frontends.guessing import LoginLimits
from gateway.frontends.thrift_binary import ThriftLimits
from gateway.model.statement import UseNamespace
from gateway.session.limits import SessionLimits
from gateway.wire import calls
from gateway.wire.frames import frame
from gateway.wire.messages import CallFailed, ExceptionKind, decode_message, decode_reply, encode_call
from gateway.wire.rows import decode_rows
from gateway.wire.sasl import Status, step
from gateway.wire.tcli import THandleIdentifier, TOperationHandle, TSessionHandle
from tests.effort import tries
from tests.frontends.listening import SCHEMA, RawClient, listening
from tests.session.fakes import FakeJudge, until
from tests.speed import patience

# -- login ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [Status.OK, Status.COMPLETE])
async def test_python_and_java_end_the_handshake_differently_and_both_log_in(last: Status) -> None:
    async with listening() as gateway:
        client = await RawClient.connect(gateway.port)
        assert await client.log_in("bob", "secret", last=last) == (Status.COMPLETE, b"")
        await client.open_session()
        (event,) = gateway.world.ledger.of("login")
        assert event.body["verdict"] == "accepted"
        assert event.body["cliIP"] == "127.0.0.1"
        await client.close()


@pytest.mark.parametrize(
    ("user", "password", "authzid"),
    [
        ("bob", "wrong", ""),
        ("bob", "", ""),
        ("nobody", "secret", ""),
        ("bob", "secret", "root"),
        ("", "x", ""),
    ],
)
async def test_a_bad_login_is_told_so_and_closed(user: str, password: str, authzid: str) -> None:
    async with listening() as gateway:
        client = await RawClient.connect(gateway.port)
        status, text = await client.log_in(user, password, authzid=authzid)
        assert status == Status.BAD
        assert text
        assert await client.is_closed()


async def test_an_unknown_user_and_a_wrong_password_read_the_same() -> None:
    async with listening() as gateway:
        texts = set()
        for user in ("bob", "nobody"):
            client = await RawClient.connect(gateway.port)
            texts.add(await client.log_in(user, "wrong"))
        assert len(texts) == 1
        assert [e.user for e in gateway.world.ledger.of("login")] == ["bob", "nobody"]


async def test_too_many_failures_block_the_address_and_not_for_ever() -> None:
    async with listening(logins=LoginLimits(failures=3, window_s=60)) as gateway:
        for _ in range(3):
            client = await RawClient.connect(gateway.port)
            await client.log_in("bob", "wrong")
        for _ in range(2):
            client = await RawClient.connect(gateway.port)
            status, text = await client.log_in("bob", "secret")
            assert status == Status.BAD
            assert b"try again in 60 seconds" in text
        # One event tells of the block, however many attempts run into it.
        assert len(gateway.world.ledger.of("login")) == 4
        gateway.now += 61
        await RawClient.logged_in(gateway.port)


async def test_calls_sent_before_the_login_is_answered_are_kept() -> None:
    async with listening() as gateway:
        client = await RawClient.connect(gateway.port)
        call = frame(encode_call("OpenSession", 7, calls.TOpenSessionReq()))
        client.writer.write(step(Status.START, b"PLAIN") + step(Status.OK, b"\0bob\0secret") + call)
        assert await client.sasl_answer() == (Status.COMPLETE, b"")
        data = await client.message()
        assert decode_message(data).seqid == 7
        assert decode_reply(data, calls.TOpenSessionResp).status.statusCode == 0


HANDSHAKE = step(Status.START, b"PLAIN") + step(Status.OK, b"\0bob\0secret")


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 9, 10, 11, 15, len(HANDSHAKE) - 1])
async def test_a_handshake_that_stops_is_cut_off_in_time(cut: int) -> None:
    async with listening(doors=ConnectionLimits(login_s=0.15, first_byte_s=0.15)) as gateway:
        client = await RawClient.connect(gateway.port)
        client.writer.write(HANDSHAKE[:cut])
        assert await client.is_closed()
        assert gateway.world.ledger.of("login") == []


async def test_a_handshake_of_one_byte_at_a_time_has_the_same_deadline() -> None:
    async with listening(doors=ConnectionLimits(login_s=0.2)) as gateway:
        client = await RawClient.connect(gateway.port)

        async def dribble() -> None:
            for byte in HANDSHAKE * 100:
                client.writer.write(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        assert await client.is_closed()
        with pytest.raises(ConnectionError):
            await dribbling


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        struct.pack(">BI", 1, 2**31),
        step(Status.START, b"GSSAPI"),
        step(Status.COMPLETE, b"\0bob\0secret"),
        step(Status.START, b"PLAIN") + step(Status.OK, b"\0bob"),
        step(Status.START, b"PLAIN") + step(Status.OK, b"\0b\xff\0x"),
        step(Status.START, b"PLAIN") + step(Status.BAD, b""),
        b"\x00" * 5,
    ],
)
async def test_what_is_not_a_handshake_is_answered_with_bad_and_closed(garbage: bytes) -> None:
    async with listening() as gateway:
        client = await RawClient.connect(gateway.port)
        client.writer.write(garbage)
        status, _ = await client.sasl_answer()
        assert status == Status.BAD
        assert await client.is_closed()
        assert len(gateway.world.sessions) == 0


async def test_more_connections_than_allowed_are_closed_at_once() -> None:
    async with listening(doors=ConnectionLimits(connections=1)) as gateway:
        first = await RawClient.logged_in(gateway.port)
        second = await RawClient.connect(gateway.port)
        assert await second.is_closed()
        await first.open_session()


# -- frames --------------------------------------------------------------------------------------------------


async def test_an_oversized_frame_is_refused_with_a_reason() -> None:
    async with listening(ThriftLimits(max_frame_bytes=1000)) as gateway:
        client = await RawClient.logged_in(gateway.port)
        client.writer.write(struct.pack(">I", 1001))
        with pytest.raises(CallFailed, match="more than 1000 bytes"):
            decode_reply(await client.message(), calls.TOpenSessionResp)
        assert await client.is_closed()


@pytest.mark.parametrize("garbage", [b"", b"\x00", b"not thrift at all", b"\x80\x01\x00\x01\x7f\xff\xff\xff"])
async def test_a_frame_that_holds_no_message_is_refused_with_a_reason(garbage: bytes) -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        client.writer.write(frame(garbage))
        with pytest.raises(CallFailed):
            decode_reply(await client.message(), calls.TOpenSessionResp)
        assert await client.is_closed()


async def test_a_call_with_a_broken_body_keeps_the_connection() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        whole = encode_call("OpenSession", 5, calls.TOpenSessionReq())
        client.writer.write(frame(whole[:-3]))
        with pytest.raises(CallFailed) as failed:
            decode_reply(await client.message(), calls.TOpenSessionResp)
        assert failed.value.kind == ExceptionKind.PROTOCOL_ERROR
        await client.open_session()


async def test_a_frame_that_stops_is_cut_off_in_time() -> None:
    async with listening(ThriftLimits(frame_timeout_s=0.15)) as gateway:
        client = await RawClient.logged_in(gateway.port)
        await client.open_session()
        client.writer.write(frame(encode_call("OpenSession", 5, calls.TOpenSessionReq()))[:20])
        assert await client.is_closed()
        await until(lambda: len(gateway.world.sessions) == 0)


async def test_a_frame_byte_by_byte_is_understood() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        for byte in frame(encode_call("OpenSession", 5, calls.TOpenSessionReq())):
            client.writer.write(bytes([byte]))
            await client.writer.drain()
        assert decode_reply(await client.message(), calls.TOpenSessionResp).status.statusCode == 0


async def test_an_idle_client_is_let_go() -> None:
    async with listening(ThriftLimits(idle_timeout_s=0.15)) as gateway:
        client = await RawClient.logged_in(gateway.port)
        await client.open_session()
        assert await client.is_closed()
        await until(lambda: len(gateway.world.sessions) == 0)


@settings(max_examples=tries(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.binary(max_size=40), max_size=4), st.booleans())
async def test_any_bytes_end_in_an_answer_or_a_closed_line_and_execute_nothing(
    chunks: list[bytes], framed: bool
) -> None:
    async with listening(ThriftLimits(frame_timeout_s=0.05, idle_timeout_s=0.05)) as gateway:
        client = await RawClient.logged_in(gateway.port)
        for chunk in chunks:
            client.writer.write(frame(chunk) if framed else chunk)
        assert await client.is_closed()
        assert gateway.world.backend.received == []


# -- calls ---------------------------------------------------------------------------------------------------


async def test_an_unknown_method_is_said_to_be_one_and_the_connection_stays() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        body = encode_call("GetInfo", 9, calls.TGetInfoReq(sessionHandle=_handle(), infoType=1))
        client.writer.write(frame(body.replace(b"\x00\x00\x00\x07GetInfo", b"\x00\x00\x00\x06GetLog")))
        with pytest.raises(CallFailed, match="Invalid method name") as failed:
            decode_reply(await client.message(), calls.TGetInfoResp)
        assert failed.value.kind == ExceptionKind.UNKNOWN_METHOD
        await client.open_session()


async def test_what_hive_4_has_beside_is_refused_in_words() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        body = encode_call("GetInfo", 9, calls.TGetInfoReq(sessionHandle=_handle(), infoType=1))
        for method, length in (("UploadData", b"\x0a"), ("DownloadData", b"\x0c")):
            named = b"\x00\x00\x00" + length + method.encode()
            client.writer.write(frame(body.replace(b"\x00\x00\x00\x07GetInfo", named)))
            with pytest.raises(CallFailed, match=f"{method} is not supported; rows are") as failed:
                decode_reply(await client.message(), calls.TGetInfoResp)
            assert failed.value.kind == ExceptionKind.UNKNOWN_METHOD
        await client.open_session()


async def test_the_whole_way_of_a_statement() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session(client_protocol=5)
        operation = await client.execute(session, "SELECT 1")
        gateway.world.backend.last.rows = [(1, "one"), (2, None)]
        gateway.world.backend.last.spark_schema = SCHEMA
        metadata = await client.call(
            "GetResultSetMetadata",
            calls.TGetResultSetMetadataReq(operationHandle=operation),
            calls.TGetResultSetMetadataResp,
        )
        assert metadata.schema == SCHEMA
        reply = await client.call(
            "FetchResults",
            calls.TFetchResultsReq(operationHandle=operation, maxRows=10),
            calls.TFetchResultsResp,
        )
        assert reply.results is not None
        assert decode_rows(reply.results) == [(1, "one"), (2, None)]
        closed = await client.call(
            "CloseOperation", calls.TCloseOperationReq(operationHandle=operation), calls.TCloseOperationResp
        )
        assert closed.status.statusCode == 0
        assert gateway.world.ledger.outcomes() == ["finished"]
        assert gateway.world.ledger.of("completed")[0].body["rows"] == 2


async def test_handles_are_the_gateways_own() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT 1")
        assert operation.operationId.guid.hex() != gateway.world.backend.last.id
        assert len(operation.operationId.secret) == 16


async def test_another_users_handle_is_invalid_in_sparks_words() -> None:
    async with listening() as gateway:
        bob = await RawClient.logged_in(gateway.port)
        session = await bob.open_session()
        alice = await RawClient.logged_in(gateway.port, "alice", "wonder")
        request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 1")
        reply = await alice.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        assert reply.status.statusCode == 3
        assert (reply.status.errorMessage or "").startswith("Invalid SessionHandle: SessionHandle [")
        assert len(gateway.world.ledger.of("security")) == 1


async def test_calls_of_one_connection_are_answered_in_order() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        gateway.world.backend.slow = "SLOW"
        operation = await client.execute(session, "SLOW", run_async=True)
        client.send("GetOperationStatus", calls.TGetOperationStatusReq(operationHandle=operation))
        for _ in range(200):
            client.send("GetInfo", calls.TGetInfoReq(sessionHandle=session, infoType=17))
        seqids = [decode_message(await client.message()).seqid for _ in range(201)]
        assert seqids == sorted(seqids)


async def test_a_client_that_sends_and_never_reads_is_not_buffered_without_end() -> None:
    limits = ThriftLimits(write_timeout_s=0.3, write_buffer_bytes=10_000, pipelined_calls=4)
    async with listening(limits) as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        call = frame(encode_call("GetInfo", 1, calls.TGetInfoReq(sessionHandle=session, infoType=89)))
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]

        async def flood() -> None:
            while True:
                client.writer.write(call * 1000)
                await client.writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(flood(), patience())
        await until(lambda: len(gateway.world.sessions) == 0)


async def test_an_answer_that_its_client_does_not_take_is_being_answered() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        assert gateway.server.count_running_calls() == 0
        (connection,) = gateway.server._connections
        connection.pause_writing()  # as asyncio does where a client takes nothing
        client.send("GetInfo", calls.TGetInfoReq(sessionHandle=session, infoType=17))
        await client.message()
        assert gateway.server.count_running_calls() == 1
        connection.resume_writing()
        await until(lambda: gateway.server.count_running_calls() == 0)


async def test_a_disconnected_client_takes_its_sessions_and_statements_with_it() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        gateway.world.backend.slow = "SLOW"
        client.send("ExecuteStatement", calls.TExecuteStatementReq(sessionHandle=session, statement="SLOW"))
        await until(lambda: bool(gateway.world.backend.received))
        client.writer.transport.abort()
        await until(lambda: len(gateway.world.ledger.of("completed")) == 1)
        assert gateway.world.backend.last.cancelled
        assert gateway.world.ledger.outcomes() == ["canceled"]
        await until(lambda: gateway.world.backend.sessions[0].closed)


async def test_a_client_that_vanishes_while_its_session_opens_leaves_none() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        gateway.world.judge.effects = [("USE", (UseNamespace(None, ("hr",)),))]
        gateway.world.backend.slow = "USE"
        client.send("OpenSession", calls.TOpenSessionReq(configuration={"use:database": "hr"}))
        await until(lambda: bool(gateway.world.backend.received))
        client.writer.transport.abort()
        await until(lambda: gateway.server._metrics.connections._value.get() == 0)
        gateway.world.backend.last.end()
        await until(lambda: len(gateway.world.sessions) == 0 and gateway.world.backend.sessions[0].closed)


async def test_spark_lost_in_the_middle_of_a_batch_cuts_the_line() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        operation = await client.execute(await client.open_session(), "SELECT 1")

        async def half(rows, seqid, sink):  # type: ignore[no-untyped-def]
            sink.write(struct.pack(">I", 1000) + b"half a frame")
            raise BackendUnavailable("the connection to Spark was lost")

        gateway.world.backend.relay_rows = half
        client.send("FetchResults", calls.TFetchResultsReq(operationHandle=operation, maxRows=10))
        assert await client.is_closed()


async def test_a_fault_of_ours_ends_the_call_and_not_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()

        async def broken(self, statement, snapshot):  # type: ignore[no-untyped-def]
            raise RuntimeError("a bug with a secret in it")

        monkeypatch.setattr(FakeJudge, "__call__", broken)
        request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 1")
        reply = await client.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        monkeypatch.undo()
        assert "internal error" in (reply.status.errorMessage or "")
        assert "secret" not in (reply.status.errorMessage or "")
        assert gateway.world.backend.received == []
        await client.execute(session, "SELECT 1")


async def test_a_ledger_that_is_down_is_an_error_of_the_statement() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        session = await client.open_session()
        gateway.world.ledger.down = True
        request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 1")
        reply = await client.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        assert reply.status.statusCode == 3
        assert (reply.status.errorMessage or "").startswith("[SLUICE_LEDGER_UNAVAILABLE]")
        assert reply.status.sqlState == "58030"


async def test_shutdown_closes_connections_and_sessions() -> None:
    async with listening() as gateway:
        client = await RawClient.logged_in(gateway.port)
        await client.open_session()
        await gateway.server.close(within_s=5)
        assert await client.is_closed()
        assert len(gateway.world.sessions) == 0


async def test_limits_of_the_session_room_reach_the_client() -> None:
    async with listening(sessions=SessionLimits(sessions_per_user=1)) as gateway:
        client = await RawClient.logged_in(gateway.port)
        await client.open_session()
        reply = await client.call("OpenSession", calls.TOpenSessionReq(), calls.TOpenSessionResp)
        assert reply.status.statusCode == 3
        assert reply.status.sqlState == "54000"


def _handle() -> TSessionHandle:
    return TSessionHandle(sessionId=THandleIdentifier(guid=bytes(16), secret=bytes(16)))


def _operation() -> TOperationHandle:
    return TOperationHandle(
        operationId=THandleIdentifier(guid=bytes(16), secret=bytes(16)), operationType=0, hasResultSet=True
    )
