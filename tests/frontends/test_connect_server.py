"""The Spark Connect listener: which calls there are, who may make them, what hostile clients cannot do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import grpc
import grpc.aio
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from gateway.frontends.connect_server import ConnectLimits
from gateway.frontends.guessing import LoginLimits
from gateway.frontends.tokens import new_token
from gateway.frontends.users import User
from gateway.wire.connect import METHODS
from tests.frontends.connect_listening import TLS, Listening, connect_listening, status_in
from tests.frontends.listening import user
from tests.speed import patience

Code = grpc.StatusCode


@contextlib.contextmanager
def ends_with(code: grpc.StatusCode, *texts: str) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield caught
    assert caught.value.code() is code, caught.value
    for text in texts:
        assert text in caught.value.details()


# -- which calls there are -----------------------------------------------------------------------------------


def test_every_method_of_pysparks_own_stub_is_known() -> None:
    class Recording:
        def __init__(self) -> None:
            self.paths: dict[str, str] = {}

        def __getattr__(self, kind: str) -> Any:
            return lambda path, **_: self.paths.setdefault(path, kind)

    recording = Recording()
    stub: Any = base_pb2_grpc.SparkConnectServiceStub
    stub(recording)
    kinds = {
        method.path: ("stream" if method.client_streaming else "unary")
        + ("_stream" if method.server_streaming else "_unary")
        for method in METHODS.values()
    }
    assert kinds == recording.paths
    assert set(METHODS) == {
        m.name for m in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
    }


async def test_every_method_reaches_the_service_and_its_answer_the_client() -> None:
    async with connect_listening() as here:
        for method in METHODS.values():
            stub = here.stub(method.name)
            if method.client_streaming:
                answer = await stub(iter([b"a", b"b"]), metadata=here.bearer)
                assert answer == b"taken"
                assert here.service.uploads == [b"a", b"b"]
            elif method.server_streaming:
                assert [m async for m in stub(b"q", metadata=here.bearer)] == [b"one", b"two"]
            else:
                assert await stub(b"q", metadata=here.bearer) == b"answer to q"
        assert {name for name, *_ in here.service.calls} == set(METHODS)
        assert {principal.user for _, principal, *_ in here.service.calls} == {"bob"}


async def test_what_is_no_method_of_the_service_is_unimplemented() -> None:
    async with connect_listening() as here:
        channel = here.channel()
        for path in (
            "/spark.connect.SparkConnectService/Shutdown",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            "/",
        ):
            with ends_with(Code.UNIMPLEMENTED):
                await channel.unary_unary(path)(b"", metadata=here.bearer)
        assert here.service.calls == []


# -- who calls -----------------------------------------------------------------------------------------------


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


async def test_the_ways_to_log_in() -> None:
    async with connect_listening() as here:
        for authorization, who in (
            (f"Bearer {here.token}", "bob"),
            (f"bearer  {here.token}", "bob"),
            ("Bearer bob:secret", "bob"),
            ("Bearer alice:w:on der", "alice"),
            (basic("bob:secret"), "bob"),
            (basic("alice:w:on der"), "alice"),
        ):
            await here.call(metadata=(("authorization", authorization),))
            _, principal, client, _ = here.service.calls[-1]
            assert principal.user == who
            assert (client.address, client.protocol) == ("127.0.0.1", "connect")
            assert "grpc" in client.application
        assert here.service.calls[-2][1].groups == {"analysts"}


async def test_wrong_logins_are_told_apart_from_refusals_and_tell_what_to_do() -> None:
    async with connect_listening(logins=LoginLimits(failures=100)) as here:
        for metadata, text in (
            ((), "no token in the request; connect with `sc://HOST:PORT/;token=TOKEN`"),
            ((("authorization", "Bearer nonsense"),), "the token is unknown or was revoked"),
            ((("authorization", "Bearer bob:wrong"),), "invalid user name or password"),
            ((("authorization", "Bearer bob:"),), "invalid user name or password"),
            ((("authorization", "Bearer nobody:secret"),), "invalid user name or password"),
            ((("authorization", "Bearer :secret"),), "the user name before the colon is empty"),
            ((("authorization", "Bearer"),), "is not supported"),
            ((("authorization", "Digest x"),), "is not supported"),
            ((("authorization", "Basic !!!"),), "in base64"),
            ((("authorization", basic("bob")),), "must have `USER:PASSWORD`"),
            ((("authorization", f"Bearer {here.token}x"),), "the token is unknown or was revoked"),
            ((("authorization", f"Bearer {here.token[:-1]}"),), "the token is unknown or was revoked"),
            (here.bearer * 2, "more than one `Authorization`"),
        ):
            with ends_with(Code.UNAUTHENTICATED, "[SLUICE_AUTHENTICATION_FAILED]", text) as caught:
                await here.call(metadata=metadata)
            # With an ErrorInfo PySpark would call twice more, and three failures would be counted for one.
            assert list(status_in(caught.value).details) == []
        assert here.service.calls == []
        told = [event.body for event in here.world.ledger.events]
        assert here.token not in str(told)
        assert [one["reason"] for one in told if one["mechanism"] == "UNKNOWN"] == [
            "the user name before the colon is empty",
            "the scheme of `Authorization` is not supported; use `Basic` or `Bearer`",
            "`Authorization: Basic` must have `USER:PASSWORD` in base64",
            "the request has more than one `Authorization`",
        ]


async def test_who_somebody_says_to_be_in_metadata_does_not_count() -> None:
    async with connect_listening() as here:
        spoofed = (("user_id", "alice"), ("x-forwarded-user", "alice"), ("user-id", "alice"))
        await here.call(metadata=(*here.bearer, *spoofed))
        assert here.service.calls[-1][1].user == "bob"
        with ends_with(Code.UNAUTHENTICATED):
            await here.call(metadata=spoofed)


async def test_a_revoked_and_an_expired_token_let_nobody_in_at_once() -> None:
    async with connect_listening() as here:
        await here.call()
        secret, expired = new_token(expires=datetime(2020, 1, 1, tzinfo=UTC))
        here.users = {"bob": User(principal=user("bob", "x").principal, password_hash="", tokens=(expired,))}
        with ends_with(Code.UNAUTHENTICATED, "unknown or was revoked"):
            await here.call()
        with ends_with(Code.UNAUTHENTICATED, "has expired", "sluice users token"):
            await here.call(metadata=(("authorization", f"Bearer {secret}"),))
        last = here.world.ledger.of("login")[-1]
        assert (last.user, last.body["verdict"], last.body["mechanism"]) == ("bob", "rejected", "TOKEN")


async def test_guessing_is_slowed_but_who_is_known_gets_in() -> None:
    async with connect_listening(logins=LoginLimits(failures=3)) as here:
        for guess in range(3):
            with ends_with(Code.UNAUTHENTICATED):
                await here.call(metadata=(("authorization", f"Bearer {guess}"),))
        with ends_with(Code.UNAUTHENTICATED, "too many failed logins"):
            await here.call(metadata=(("authorization", "Bearer bob:secret"),))
        await here.call()
        assert [e.body["verdict"] for e in here.world.ledger.of("login")].count("rejected") == 4


async def test_a_wrong_login_that_is_repeated_at_once_is_one() -> None:
    wrong = (("authorization", "Bearer bob:wrong"),)
    async with connect_listening(ConnectLimits(refusal_s=5), LoginLimits(failures=3)) as here:
        for _ in range(6):
            with ends_with(Code.UNAUTHENTICATED, "invalid user name or password"):
                await here.call(metadata=wrong)
        assert len(here.world.ledger.of("login")) == 1
        # Other guesses count, and so does the same one later.
        with ends_with(Code.UNAUTHENTICATED):
            await here.call(metadata=(("authorization", "Bearer bob:wrong2"),))
        here.now += 5
        for text in ("invalid user name", "invalid user name"):
            with ends_with(Code.UNAUTHENTICATED, text):
                await here.call(metadata=wrong)
        with ends_with(Code.UNAUTHENTICATED, "too many failed logins"):
            await here.call(metadata=(("authorization", "Bearer bob:wrong3"),))
        # Who is let in by then is let in: what was refused was another attempt.
        await here.call()


async def test_a_success_is_recorded_once_in_a_while() -> None:
    async with connect_listening(ConnectLimits(record_every_s=60)) as here:
        for _ in range(5):
            await here.call()
        await here.call(metadata=(("authorization", "Bearer alice:w:on der"),))
        assert [e.user for e in here.world.ledger.of("login")] == ["bob", "alice"]
        here.now += 61
        await here.call()
        accepted = here.world.ledger.of("login")
        assert [e.user for e in accepted] == ["bob", "alice", "bob"]
        assert [e.body["mechanism"] for e in accepted] == ["TOKEN", "PLAIN", "TOKEN"]


async def test_a_listener_with_tls_takes_tls_only() -> None:
    async with connect_listening(tls=True) as here:
        root = (TLS / "test-only-certificate.pem").read_bytes()
        channel = here.channel(root=root)
        assert (
            await here.stub("Config", channel)(b"q", metadata=here.bearer, timeout=patience(20))
            == b"answer to q"
        )
        with ends_with(Code.UNAVAILABLE):
            await here.call()
        assert len(here.service.calls) == 1


# -- what hostile clients cannot do --------------------------------------------------------------------------


async def test_a_request_above_the_limit_never_reaches_the_service() -> None:
    async with connect_listening(ConnectLimits(message_bytes=65_536)) as here:
        assert await here.call(request=b"x" * 65_000)
        with ends_with(Code.RESOURCE_EXHAUSTED):
            await here.call(request=b"x" * 70_000)
        assert len(here.service.calls) == 1


async def test_a_compressed_message_is_not_opened() -> None:
    async with connect_listening() as here:
        with ends_with(Code.UNIMPLEMENTED):
            await here.call(request=b"\0" * 10_000_000, compression=grpc.Compression.Gzip)
        assert here.service.calls == []


async def test_who_is_not_known_is_refused_before_anything_is_read() -> None:
    async with connect_listening() as here:
        call = here.channel().stream_stream(METHODS["AddArtifacts"].path)(metadata=())
        # Nothing is written and the stream stays open.
        with ends_with(Code.UNAUTHENTICATED):
            await call.read()


async def test_a_call_without_a_request_is_an_error_and_not_a_wait() -> None:
    async with connect_listening() as here:
        call = here.channel().stream_stream(METHODS["Config"].path)(metadata=here.bearer)
        await call.done_writing()
        with ends_with(Code.INVALID_ARGUMENT, "before sending a request"):
            await call.read()


async def test_a_call_whose_request_does_not_come_is_ended() -> None:
    async with connect_listening(ConnectLimits(request_timeout_s=0.05)) as here:
        for method in ("Config", "ExecutePlan", "AddArtifacts"):
            call = here.channel().stream_stream(METHODS[method].path)(metadata=here.bearer)
            with ends_with(Code.INVALID_ARGUMENT, "no complete request arrived"):
                await call.read()


async def test_a_client_that_takes_nothing_holds_the_service_back_and_is_let_go() -> None:
    produced = 0

    async def endless(_: bytes) -> AsyncIterator[bytes]:
        nonlocal produced
        while True:
            produced += 1
            yield b"x" * 262_144

    async with connect_listening(ConnectLimits(write_timeout_s=0.5)) as here:
        here.service.responses = endless
        call = here.stub("ExecutePlan")(b"q", metadata=here.bearer)
        assert len(await call.read()) == 262_144
        async with asyncio.timeout(patience()):
            await here.service.closed.wait()
        # gRPC's windows hold some of them; what a client does not take is not produced.
        assert produced < 256
        call.cancel()


async def test_a_client_that_vanishes_ends_its_query() -> None:
    async def endless(_: bytes) -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()
        yield b"never"

    async with connect_listening() as here:
        here.service.responses = endless
        for leave in ("cancel", "close"):
            here.service.closed.clear()
            channel = here.channel()
            call = here.stub("ExecutePlan", channel)(b"q", metadata=here.bearer)
            assert await call.read() == b"first"
            if leave == "cancel":
                call.cancel()
            else:
                await channel.close()
            async with asyncio.timeout(patience()):
                await here.service.closed.wait()
        assert here.service.ended == ["ExecutePlan", "ExecutePlan"]


async def test_a_client_that_vanishes_in_the_middle_of_an_upload_ends_it() -> None:
    async with connect_listening() as here:
        channel = here.channel()
        call = here.stub("AddArtifacts", channel)(metadata=here.bearer)
        await call.write(b"a")
        await here.service.arrived.get()
        await channel.close()
        async with asyncio.timeout(patience()):
            await here.service.closed.wait()


async def test_more_calls_than_allowed_are_turned_away() -> None:
    waiting = asyncio.Event()

    async def wait(_method: str, _request: bytes) -> bytes:
        await waiting.wait()
        return b"at last"

    async with connect_listening(ConnectLimits(calls=2, calls_per_connection=1)) as here:
        here.service.unary = wait
        first = [asyncio.create_task(here.call()) for _ in range(2)]
        for _ in first:
            await here.service.arrived.get()
        with ends_with(Code.RESOURCE_EXHAUSTED):
            await here.call()
        waiting.set()
        assert await asyncio.gather(*first) == [b"at last"] * 2
        assert await here.call() == b"at last"


async def test_requests_in_hand_are_bounded_together_and_small_ones_go_on() -> None:
    waiting = asyncio.Event()

    async def wait(_method: str, request: bytes) -> bytes:
        if len(request) > 65_536:
            await waiting.wait()
        return b"at last"

    limits = ConnectLimits(message_bytes=1_000_000, requests_bytes=2_000_000)
    async with connect_listening(limits) as here:
        here.service.unary = wait
        first = [asyncio.create_task(here.call(request=b"x" * 900_000)) for _ in range(2)]
        for _ in first:
            await here.service.arrived.get()
        with ends_with(Code.RESOURCE_EXHAUSTED, "[SLUICE_LIMIT_EXCEEDED]", "large requests; try again later"):
            await here.call(request=b"x" * 300_000)
        assert await here.call(request=b"x" * 65_000) == b"at last"
        waiting.set()
        assert await asyncio.gather(*first) == [b"at last"] * 2
        # Whatever is in hand no more has made room.
        assert await here.call(request=b"x" * 900_000) == b"at last"


async def test_a_request_that_is_long_on_its_way_counts_as_the_largest() -> None:
    limits = ConnectLimits(message_bytes=1_000_000, requests_bytes=1_000_000, request_grace_s=0.05)
    async with connect_listening(limits) as here:
        slow = [here.channel().stream_stream(METHODS["Config"].path)(metadata=here.bearer) for _ in range(2)]
        reading = {asyncio.create_task(call.read()) for call in slow}
        ended, waiting = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        with ends_with(Code.RESOURCE_EXHAUSTED, "large requests; try again later"):
            await ended.pop()
        assert await here.call(request=b"x" * 65_000)
        for call in slow:
            call.cancel()
        await asyncio.wait(waiting)
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                assert await here.call(request=b"x" * 900_000)
                break


async def test_an_upload_has_one_message_in_hand() -> None:
    limits = ConnectLimits(message_bytes=1_000_000, requests_bytes=1_000_000)
    async with connect_listening(limits) as here:
        call = here.stub("AddArtifacts")(metadata=here.bearer)
        for _ in range(4):
            await call.write(b"x" * 600_000)
            await here.service.arrived.get()
        await call.done_writing()
        assert await call == b"taken"


async def test_a_fault_of_ours_tells_nothing_of_itself() -> None:
    async def fail(_method: str, _request: bytes) -> bytes:
        raise RuntimeError("SELECT ssn FROM secret")

    async with connect_listening() as here:
        here.service.unary = fail
        with ends_with(Code.INTERNAL, "[SLUICE_INTERNAL] internal error") as caught:
            await here.call()
        assert "ssn" not in str(caught.value)


async def test_a_gateway_that_stops_asks_its_clients_to_come_back() -> None:
    async def endless(_: bytes) -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    async with connect_listening() as here:
        here.service.responses = endless
        call = here.stub("ExecutePlan")(b"q", metadata=here.bearer)
        assert await call.read() == b"first"
        assert here.server.count_running_calls() == 1
        closing = asyncio.create_task(here.server.close(within_s=5))
        with ends_with(Code.UNAVAILABLE, "the gateway is stopping"):
            await call.read()
        await closing
        assert here.service.ended == ["ExecutePlan"]


async def test_a_client_that_pings_while_nothing_comes_is_not_sent_away() -> None:
    """PySpark pings every minute; here it is every second, which is as often as gRPC lets clients.

    gRPC forgives two pings that come too early, so five seconds are what it takes to be sent away.
    """

    async def silent(_: bytes) -> AsyncIterator[bytes]:
        await asyncio.sleep(5)
        yield b"at last"

    async with connect_listening(ConnectLimits(ping_interval_s=0.05)) as here:
        here.service.responses = silent
        options: dict[str, Any] = {"keepalive_time_ms": 100, "http2.max_pings_without_data": 0}
        channel = here.channel(**options)
        call = here.stub("ExecutePlan", channel)(b"q", metadata=here.bearer)
        assert await call.read() == b"at last"


async def test_a_port_that_is_taken_is_not_shared() -> None:
    async with connect_listening() as here:
        second = Listening(None, None)
        with pytest.raises(OSError, match="in use"):
            await second.server.start("127.0.0.1", here.port)
        await second.world.sessions.close()


async def test_a_call_says_which_spark_its_session_wants() -> None:
    async with connect_listening() as here:
        for header in ("x-sluice-backend", "x-other"):
            await here.stub("Config")(b"q", metadata=(*here.bearer, (header, "etl")))
        assert [client.backend for _, _, client, *_ in here.service.calls] == ["etl", ""]
