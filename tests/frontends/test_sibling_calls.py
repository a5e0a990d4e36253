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
from gateway.frontends.sibling_calls import HEADER, Siblings, session_of
from gateway.wire.connect import pb
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
        if self.gateway:
            raise SessionElsewhere("it is elsewhere", gateway=self.gateway)
        yield b""

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
