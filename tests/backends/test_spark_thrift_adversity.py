"""Spark that cuts, dribbles, stalls, talks nonsense or restarts: clear errors, bounded memory, no mix-ups."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from gateway.errors import BackendUnavailable
from gateway.session.ports import BackendError
from gateway.wire import calls, messages, tcli
from gateway.wire.frames import frame
from gateway.wire.rows import decode_rows
from gateway.wire.tcli import TOperationState, TTypeId
from tests.backends.fake_hive_server import (
    LOGIN,
    Answer,
    Cut,
    Dribble,
    FakeHiveServer,
    Fault,
    Garbage,
    Refuse,
    Silence,
)
from tests.backends.test_spark_thrift import ALICE, Sink, backend_for, cleared, session_on
from tests.speed import patience

ONE = Answer.of([("n", TTypeId.INT), ("s", TTypeId.STRING)], [(1, "x"), (None, "y")])
QUICK = dict.fromkeys(("call_timeout_s", "urgent_timeout_s", "fetch_timeout_s", "connect_timeout_s"), 0.2)
IN_ORDER = (
    "ExecuteStatement",
    "GetOperationStatus",
    "GetResultSetMetadata",
    "FetchResults",
    "CancelOperation",
)


async def _run_all(server: FakeHiveServer, **options: Any) -> None:
    """Use every call of the backend once."""
    async with session_on(server, **options) as session:
        operation = await session.execute(cleared("ONE"), run_async=True, timeout_s=0)
        await operation.status()
        await operation.schema()
        relayed = await operation.relay(0, 10, 0, 1, Sink())
        if relayed.error is not None:
            raise relayed.error
        await operation.cancel()


@pytest.mark.parametrize("method", [LOGIN, "OpenSession", *IN_ORDER])
@pytest.mark.parametrize("after", [0, 1, 3, 4, 5, 20, 40, 60])
async def test_a_cut_at_any_stage_is_backend_unavailable(method: str, after: int) -> None:
    async with FakeHiveServer() as server:
        server.on("ONE", ONE)
        server.misbehave(method, Cut(after=after))
        with pytest.raises(BackendUnavailable):
            await _run_all(server)
        await server.until(lambda: server.connections == 0)


@pytest.mark.parametrize("method", [LOGIN, "OpenSession", *IN_ORDER])
@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x08garbage!",
        b"\x7f\xff\xff\xff\x80\x01\x00\x02",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frame(
            messages.encode_reply(
                "CloseSession", 1, calls.TCloseSessionResp(status=tcli.TStatus(statusCode=0))
            )
        ),
        b"\x01\x00\x00\x00\x05PLAIN",
        b"\x05\x00\x00\x00\x00\x00\x00\x00\x01x",
    ],
)
async def test_garbage_at_any_stage_is_backend_unavailable(method: str, garbage: bytes) -> None:
    async with FakeHiveServer() as server:
        server.on("ONE", ONE)
        server.misbehave(method, Garbage(garbage))
        with pytest.raises(BackendUnavailable):
            await _run_all(server, **QUICK)
        await server.until(lambda: server.connections == 0)


@pytest.mark.parametrize("method", [LOGIN, "OpenSession", *IN_ORDER])
async def test_silence_at_any_stage_ends_at_its_deadline(method: str) -> None:
    async with FakeHiveServer() as server:
        server.on("ONE", ONE)
        server.misbehave(method, Silence())
        async with asyncio.timeout(patience()):
            with pytest.raises(BackendUnavailable, match=r"in time|stopped sending"):
                await _run_all(server, **QUICK)


@pytest.mark.parametrize("method", ["OpenSession", *IN_ORDER])
async def test_an_error_at_any_stage_leaves_the_connection_usable(method: str) -> None:
    async with FakeHiveServer() as server:
        server.on("ONE", ONE)
        server.misbehave(method, Refuse("HY000", "not now"))
        with pytest.raises(BackendError, match="not now"):
            await _run_all(server)
        await _run_all(server)


@pytest.mark.parametrize("chunk", [1, 7])
async def test_dribbled_bytes_mean_the_same(chunk: int) -> None:
    async with FakeHiveServer() as server:
        server.on("ONE", ONE)
        for method in (LOGIN, "OpenSession", *IN_ORDER, "CloseOperation", "CloseSession"):
            server.misbehave(method, Dribble(chunk))
        async with session_on(server) as session:
            operation = await session.execute(cleared("ONE"), run_async=False, timeout_s=0)
            sink = Sink()
            relayed = await operation.relay(0, 10, 0, 5, sink)
            assert (relayed.rows, relayed.bytes) == (2, len(sink.data))
            reply = messages.decode_reply(bytes(sink.data[4:]), calls.TFetchResultsResp)
            assert reply.results is not None
            assert decode_rows(reply.results) == ONE.rows
            await operation.close()


async def test_a_frame_cut_in_the_middle_is_told_after_its_beginning_went_out() -> None:
    big = Answer.of([("s", TTypeId.STRING)], [("x" * 1000,)] * 1000)
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("BIG", big)
        operation = await session.execute(cleared("BIG"), run_async=False, timeout_s=0)
        server.misbehave("FetchResults", Cut(after=500_000))
        sink = Sink()
        with pytest.raises(BackendUnavailable):
            await operation.relay(0, 1000, 0, 5, sink)
        assert 0 < len(sink.data) <= 500_000


class SlowSink(Sink):
    """Accepts everything, and says that it is full until told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self.asked = asyncio.Event()
        self.full = asyncio.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        self.most = max(self.most, len(self.data))
        if len(self.data) > 65536:
            self.free.clear()
            self.full.set()

    async def drain(self) -> None:
        self.asked.set()
        await super().drain()

    def read(self) -> int:
        """Take what has come, as a client would."""
        taken = len(self.data)
        self.data.clear()
        self.free.set()
        return taken


async def test_a_slow_client_holds_spark_up_and_not_memory() -> None:
    rows = [("x" * 100_000,)] * 300  # 30 MB in one frame
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("BIG", Answer.of([("s", TTypeId.STRING)], rows))
        operation = await session.execute(cleared("BIG"), run_async=False, timeout_s=0)
        sink = SlowSink()
        relay = asyncio.create_task(operation.relay(0, 300, 0, 5, sink))
        await asyncio.wait_for(sink.asked.wait(), patience())
        sink.asked.clear()
        total = 0
        while not relay.done():
            waiting = asyncio.create_task(sink.asked.wait())
            await asyncio.wait({waiting, relay}, return_when=asyncio.FIRST_COMPLETED, timeout=patience(10))
            waiting.cancel()
            sink.asked.clear()
            # Give an impatient gateway the chance to read on although nothing was taken.
            for _ in range(20):
                await asyncio.sleep(0)
            total += sink.read()
        relayed = await relay
        assert total + len(sink.data) == relayed.bytes > 30_000_000
        # One read of asyncio (256 KiB) may come on top of what the sink takes gladly.
        assert sink.most <= 65536 + 2 * 256 * 1024


async def test_a_client_that_is_slow_beyond_the_deadline_is_not_sparks_fault() -> None:
    rows = [("x" * 100_000,)] * 50
    async with FakeHiveServer() as server, session_on(server, fetch_timeout_s=0.1) as session:
        server.on("BIG", Answer.of([("s", TTypeId.STRING)], rows))
        operation = await session.execute(cleared("BIG"), run_async=False, timeout_s=0)
        sink = Sink()
        sink.free.clear()
        relay = asyncio.create_task(operation.relay(0, 50, 0, 5, sink))
        done, _ = await asyncio.wait({relay}, timeout=0.5)
        assert not done
        sink.free.set()
        assert (await relay).rows == 50


@pytest.mark.parametrize(
    ("count", "length"), [(100, 100_000), (1, 65_500)], ids=["in the middle", "at the end"]
)
async def test_a_relay_whose_client_vanished_swallows_its_reply_and_no_other(count: int, length: int) -> None:
    rows = [("x" * length,)] * count
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("BIG", Answer.of([("s", TTypeId.STRING)], rows))
        server.on("ONE", ONE)
        big = await session.execute(cleared("BIG"), run_async=False, timeout_s=0)
        sink = SlowSink()
        relay = asyncio.create_task(big.relay(0, 100, 0, 5, sink))
        await asyncio.wait_for(sink.asked.wait(), patience())
        await asyncio.wait_for(sink.full.wait(), patience())
        relay.cancel()
        with pytest.raises(asyncio.CancelledError):
            await relay
        taken = len(sink.data)
        one = await session.execute(cleared("ONE"), run_async=False, timeout_s=0)
        assert list((await one.fetch(10))[0]) == ONE.rows
        assert len(sink.data) == taken


async def test_a_call_whose_caller_vanished_does_not_shift_the_replies() -> None:
    async with FakeHiveServer(long_poll_s=0.3) as server, session_on(server) as session:
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        server.on("ONE", ONE)
        slow = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        poll = asyncio.create_task(slow.status())
        await server.until(lambda: "GetOperationStatus" in server.calls)
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll
        one = await session.execute(cleared("ONE"), run_async=False, timeout_s=0)
        assert list((await one.fetch(10))[0]) == ONE.rows
        assert (await slow.status()).state == TOperationState.RUNNING


async def test_everything_pending_fails_when_spark_goes() -> None:
    async with FakeHiveServer(long_poll_s=600) as server, session_on(server) as session:
        server.on("SLOW", Answer.of([("n", TTypeId.INT)], [], until=asyncio.Event()))
        operation = await session.execute(cleared("SLOW"), run_async=True, timeout_s=0)
        pending = [
            asyncio.create_task(operation.status()),
            asyncio.create_task(operation.schema()),
            asyncio.create_task(operation.relay(0, 1, 0, 1, Sink())),
        ]
        await server.until(lambda: "GetOperationStatus" in server.calls)
        await server.drop()
        for task in pending:
            with pytest.raises(BackendUnavailable):
                await asyncio.wait_for(task, patience())
        with pytest.raises(BackendUnavailable):
            await operation.status()
        await operation.close()


async def test_a_restarted_spark_takes_new_sessions() -> None:
    async with FakeHiveServer() as server:
        server.on("ONE", ONE)
        await _run_all(server)
        await server.stop()
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            await _run_all(server)
        await server.start()
        await _run_all(server)


async def test_nobody_listens() -> None:
    async with FakeHiveServer() as server:
        pass
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await backend_for(server).open_session(ALICE, protocol_version=9, settings={})


async def test_a_listener_that_says_nothing_is_left_after_the_deadline() -> None:
    left = asyncio.Event()

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    listener = await asyncio.start_server(ignore, "127.0.0.1", 0)
    async with listener:
        server = FakeHiveServer()
        server.port = listener.sockets[0].getsockname()[1]
        with pytest.raises(BackendUnavailable, match="in time"):
            await backend_for(server, connect_timeout_s=0.2).open_session(
                ALICE, protocol_version=9, settings={}
            )
        await asyncio.wait_for(left.wait(), patience())


async def test_a_reply_above_the_limit_is_not_gathered() -> None:
    async with FakeHiveServer() as server, session_on(server, max_reply_bytes=100_000) as session:
        server.on("BIG", Answer.of([("s", TTypeId.STRING)], [("x" * 1000,)] * 1000))
        operation = await session.execute(cleared("BIG"), run_async=False, timeout_s=0)
        with pytest.raises(BackendUnavailable, match="more than 100000 bytes"):
            await operation.fetch(1000)


async def test_an_error_frame_above_the_limit_is_not_gathered() -> None:
    fault: Fault = Refuse("HY000", "x" * 200_000)
    async with FakeHiveServer() as server, session_on(server, max_reply_bytes=100_000) as session:
        server.on("ONE", ONE)
        operation = await session.execute(cleared("ONE"), run_async=False, timeout_s=0)
        server.misbehave("FetchResults", fault)
        sink = Sink()
        with pytest.raises(BackendUnavailable, match="more than 100000 bytes"):
            await operation.relay(0, 10, 0, 1, sink)
        assert sink.data == b""


async def test_a_reply_that_never_tells_its_status_is_given_up() -> None:
    """A frame that promises much and begins with a long unknown field."""
    head = messages.encode_reply(
        "FetchResults", 1, calls.TFetchResultsResp(status=tcli.TStatus(statusCode=0))
    )
    at = messages.decode_message(head).body_offset + 3
    endless = head[:at] + b"\x0b\x00\x63" + struct.pack(">i", 1 << 30) + b"x" * 100_000
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("ONE", ONE)
        operation = await session.execute(cleared("ONE"), run_async=False, timeout_s=0)
        server.misbehave("FetchResults", Garbage(struct.pack(">I", 1 << 30) + endless))
        sink = Sink()
        with pytest.raises(BackendUnavailable, match="without a status"):
            await operation.relay(0, 10, 0, 1, sink)
        assert sink.data == b""


async def test_a_reply_that_nobody_asked_for_ends_the_connection() -> None:
    reply = frame(
        messages.encode_reply("CloseSession", 1, calls.TCloseSessionResp(status=tcli.TStatus(statusCode=0)))
    )
    async with FakeHiveServer() as server, session_on(server) as session:
        server.on("ONE", ONE)
        server.misbehave("ExecuteStatement", Garbage(b""), Garbage(reply + reply))
        first = asyncio.create_task(session.execute(cleared("ONE"), run_async=True, timeout_s=0))
        await server.until(lambda: "ExecuteStatement" in server.calls)
        with pytest.raises(BackendUnavailable):
            await session.execute(cleared("ONE"), run_async=True, timeout_s=0)
        with pytest.raises(BackendUnavailable):
            await first
