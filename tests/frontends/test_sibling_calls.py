"""A call about a session of another worker is answered by that one, whichever worker it came to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import grpc.aio
import orjson
import pytest

from gateway.errors import RpcError, SessionElsewhere
from gateway.frontends.relaying import RelayedConnection
from gateway.frontends.sibling_calls import HAS_SESSION, HEADER, PassedOn, Siblings, session_of
from gateway.wire.connect import METHODS, pb
from tests.frontends.connect_listening import FakeConnect, Listening, connect_listening
from tests.speed import patience

SESSION = "11111111-2222-3333-4444-555555555555"
REQUEST = pb.ConfigRequest(session_id=SESSION).SerializeToString()
RELEASE = pb.ReleaseExecuteRequest(session_id=SESSION, operation_id="o").SerializeToString()


class Elsewhere(FakeConnect):
    """A worker to whom every session is the other's."""

    gateway = "second"

    async def call(self, method: str, principal: Any, client: Any, request: bytes) -> bytes:
        self.calls.append((method, principal, client, request))
        raise SessionElsewhere("it is elsewhere", gateway=self.gateway)

    async def _stream(self, method: str, request: bytes) -> AsyncIterator[bytes]:
        for nothing in tuple[bytes, ...]():
            yield nothing
        raise SessionElsewhere("it is elsewhere", gateway=self.gateway)

    async def add_artifacts(self, principal: Any, client: Any, requests: AsyncIterator[bytes]) -> bytes:
        await anext(requests)
        raise SessionElsewhere("it is elsewhere", gateway=self.gateway)


@asynccontextmanager
async def two_workers() -> AsyncIterator[tuple[Listening, Listening]]:
    """Yield the worker that clients come to, and the one that has their sessions; both know bob."""
    with TemporaryDirectory(dir="/tmp") as made:
        first, second = (Siblings(Path(made), name) for name in ("first", "second"))
        async with connect_listening(siblings=first) as here, connect_listening(siblings=second) as there:
            here.server._service = here.service = Elsewhere()
            there.users["bob"], there.token = here.users["bob"], here.token
            yield here, there


async def ask(here: Listening, method: str, request: bytes) -> None:
    """Make a call that is answered with one or several responses."""
    call = here.stub(method)(request, metadata=here.bearer, timeout=patience(20))
    if METHODS[method].server_streaming:
        assert [bytes(one) async for one in call]
    else:
        assert await call


async def test_a_call_is_answered_by_the_worker_that_has_the_session() -> None:
    async with two_workers() as (here, there):
        assert await here.call(request=REQUEST) == b"answer to " + REQUEST
        ((method, principal, client, request),) = there.service.calls
        assert (method, principal.user, client.address, request) == ("Config", "bob", "127.0.0.1", REQUEST)
        assert client.application.startswith("grpc-python")
        # It is known from now on, and the call that would not find the session goes there, too.
        assert await here.call("ReleaseExecute", RELEASE) == b"answer to " + RELEASE
        assert len(here.service.calls) == 1


async def test_streams_and_uploads_are_passed_on_whole() -> None:
    async with two_workers() as (here, there):
        plan = pb.ExecutePlanRequest(session_id=SESSION).SerializeToString()
        call = here.stub("ExecutePlan")(plan, metadata=here.bearer, timeout=patience(20))
        assert [bytes(one) async for one in call] == [b"one", b"two"]

        other = pb.AddArtifactsRequest(session_id=SESSION[::-1]).SerializeToString()
        stub = here.stub("AddArtifacts")
        await stub(iter([other, b"more", b"last"]), metadata=here.bearer, timeout=patience(20))
        assert there.service.uploads == [other, b"more", b"last"]


@pytest.mark.parametrize("method", ["ReattachExecute", "Interrupt", "ReleaseSession"])
async def test_a_call_that_makes_no_session_is_answered_by_the_worker_that_has_it(
    method: str,
) -> None:
    async with two_workers() as (here, there):
        here.service = here.server._service = FakeConnect()
        there.service.sessions.add(("bob", SESSION))
        request = getattr(pb, f"{method}Request")(session_id=SESSION).SerializeToString()
        await ask(here, method, request)
        assert [name for name, *_ in there.service.calls] == [method]
        assert not here.service.calls
        # Of another one, and of anybody else's of that id, nobody says so: it is answered where it came to.
        other = getattr(pb, f"{method}Request")(session_id=SESSION[::-1]).SerializeToString()
        await ask(here, method, other)
        there.service.sessions = {("alice", SESSION)}
        siblings = here.server._siblings
        assert siblings is not None
        siblings._elsewhere.clear()
        await ask(here, method, request)
        assert len(here.service.calls) == 2
        assert len(there.service.calls) == 1


async def test_a_worker_that_is_gone_has_no_sessions() -> None:
    async with two_workers() as (here, there):
        here.service = here.server._service = FakeConnect()
        there.service.sessions.add(("bob", SESSION))
        await there.server.close(0)
        assert await here.call("ReleaseExecute", RELEASE) == b"answer to " + RELEASE


async def test_clients_may_not_ask_who_has_a_session() -> None:
    async with two_workers() as (here, there):
        there.service.sessions.add(("bob", SESSION))
        ask_for = here.channel().unary_unary(HAS_SESSION)
        question = orjson.dumps(["bob", SESSION])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask_for(question, metadata=here.bearer, timeout=patience(20))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_large_metadata_are_passed_on_with_the_certificate() -> None:
    async with two_workers() as (here, _):
        metadata = [(f"x-{number}", "m" * 1000) for number in range(12)]
        connection = RelayedConnection(PassedOn("10.0.0.1"), b"c" * 8000)

        async def requests() -> AsyncIterator[bytes]:
            yield REQUEST

        siblings = here.server._siblings
        assert siblings is not None
        worker = siblings.find_worker("second")
        assert worker is not None
        call = siblings.call(
            worker,
            METHODS["Config"].path,
            [*here.bearer, *metadata],
            connection,
            requests(),
        )
        # It is read there, and is none.
        with pytest.raises(grpc.aio.AioRpcError, match="the certificate"):
            await anext(call)


async def test_an_error_of_the_other_worker_is_the_clients() -> None:
    async with two_workers() as (here, there):

        async def fail(_method: str, _request: bytes) -> bytes:
            raise RpcError(13, "[WHAT_SPARK_SAYS] no")

        there.service.unary = fail
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await here.call(request=REQUEST)
        assert "WHAT_SPARK_SAYS" in (caught.value.details() or "")


async def test_a_session_of_no_worker_is_refused_and_so_is_one_passed_on_twice() -> None:
    async with two_workers() as (here, there):
        here.service.gateway = "of another machine"  # type: ignore[attr-defined]
        with pytest.raises(grpc.aio.AioRpcError, match="elsewhere"):
            await here.call(request=REQUEST)
        here.service.gateway = "second"  # type: ignore[attr-defined]
        lost = Elsewhere()
        lost.gateway = "first"
        there.server._service = lost
        with pytest.raises(grpc.aio.AioRpcError, match="elsewhere"):
            await here.call(request=REQUEST)
        assert len(lost.calls) == 1


async def test_what_a_client_says_of_its_connection_is_not_believed() -> None:
    async with two_workers() as (_, there):
        said = orjson.dumps({"address": "10.0.0.1", "certificate": "", "fault": None, "agent": "admin"})
        await there.call(metadata=(*there.bearer, (HEADER, said)))
        ((_, _, client, _),) = there.service.calls
        assert client.address == "127.0.0.1"


async def test_a_call_passed_on_shows_its_own_credentials() -> None:
    async with two_workers() as (here, there):
        del there.users["bob"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await here.call(request=REQUEST)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert not there.service.calls


def test_the_session_of_a_request() -> None:
    assert session_of(REQUEST) == SESSION
    assert session_of(b"") == session_of(b"\x12\x01a") == ""
