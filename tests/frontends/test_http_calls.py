"""A listener for calls of HTTP: who is let in, what is read of a request, and what bad clients get."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.frontends.authentication import Authenticator
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.http_calls import HttpCallLimits, HttpCallServer
from gateway.model.principal import Principal
from gateway.model.statement import Client
from tests.frontends.listening import Gateway
from tests.session.fakes import World, until
from tests.speed import patience

BOB = {"Authorization": "Basic " + base64.b64encode(b"bob:secret").decode()}


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Calls:
    """A listener whose calls are written down."""

    def __init__(self, **limits: Any) -> None:
        gateway = Gateway(World())
        self.world = gateway.world
        self.authenticator: Authenticator = gateway.authenticator
        self.seen: list[tuple[str, str, bytes, str]] = []
        self.held = asyncio.Event()
        self.held.set()
        self.server = HttpCallServer(
            "iceberg_rest",
            self.answer,
            self.explain,
            self.authenticator,
            door=ConnectionLimiter("iceberg_rest"),
            limits=HttpCallLimits(**limits),
        )

    async def answer(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        user: Principal,
        client: Client,
    ) -> Reply:
        self.seen.append((method, target, body, user.user))
        await self.held.wait()
        return Reply(body=b"{}", headers={"ETag": '"x"'})

    @staticmethod
    def explain(status: int, words: str) -> Reply:
        return Reply(status, json.dumps({"error": {"code": status, "message": words}}).encode())


@contextlib.asynccontextmanager
async def listening(**limits: Any) -> AsyncIterator[tuple[Calls, int]]:
    calls = Calls(**limits)
    port = await calls.server.start("127.0.0.1", 0)
    try:
        yield calls, port
    finally:
        await calls.server.close(within_s=5)
        await calls.world.sessions.close()


async def send(port: int, request: bytes, *, ends: bool = False) -> bytes:
    """Send bytes and read until the other side closes, or an answer is whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        if ends:
            writer.write_eof()
        async with asyncio.timeout(patience()):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                ),
                0,
            )
            return head + await reader.readexactly(length)
    finally:
        writer.close()


def request(method: str, target: str, body: bytes = b"", /, **headers: str) -> bytes:
    told = {
        "Host": "x",
        "Content-Length": str(len(body)),
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    lines = [f"{method} {target} HTTP/1.1", *(f"{key}: {value}" for key, value in told.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_a_call_is_of_who_logs_in_with_it() -> None:
    async with listening() as (calls, port):
        answer = await send(port, request("POST", "/v1/x%2Fy?a=b", b"body", **BOB))
        assert status_of(answer) == 200
        assert b'ETag: "x"' in answer
        assert b"no-cache" in answer
        assert calls.seen == [("POST", "/v1/x%2Fy?a=b", b"body", "bob")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic " + base64.b64encode(b"bob:wrong").decode()},
        {"Authorization": "Bearer sluice_00000000_x"},
        {"Authorization": "Digest x"},
    ],
)
async def test_nothing_is_read_of_who_does_not(headers: dict[str, str]) -> None:
    async with listening() as (calls, port):
        answer = await send(port, request("POST", "/v1/config", b"x" * 1000, **headers))
        assert status_of(answer) == 401
        assert b"WWW-Authenticate: Basic" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == 401
        assert not calls.seen


async def test_bodies_have_a_bound_each_and_all_together() -> None:
    async with listening(max_body_bytes=1000, bodies_bytes=1500) as (calls, port):
        assert status_of(await send(port, request("POST", "/", b"x" * 1001, **BOB))) == 413
        chunked = request("POST", "/", b"", **BOB).replace(
            b"Content-Length: 0", b"Transfer-Encoding: chunked"
        )
        assert status_of(await send(port, chunked + b"400\r\n" + b"x" * 1024 + b"\r\n")) == 413
        gzip = request("POST", "/", b"x", Content_Encoding="gzip", **BOB)
        assert status_of(await send(port, gzip)) == 415
        assert not calls.seen
        calls.held.clear()
        first = asyncio.create_task(send(port, request("POST", "/", b"x" * 900, **BOB)))
        await until(lambda: bool(calls.seen))
        assert status_of(await send(port, request("POST", "/", b"x" * 700, **BOB))) == 503
        second = asyncio.create_task(send(port, request("POST", "/", b"x" * 500, **BOB)))
        await until(lambda: len(calls.seen) == 2)
        calls.held.set()
        assert [status_of(one) for one in await asyncio.gather(first, second)] == [200, 200]
        assert status_of(await send(port, request("POST", "/", b"x" * 900, **BOB))) == 200


async def test_slow_and_cut_bodies_are_answered_and_end() -> None:
    async with listening(request_timeout_s=0.05) as (calls, port):
        begun = request("POST", "/", b"", **BOB).replace(b"Content-Length: 0", b"Content-Length: 100")
        assert status_of(await send(port, begun + b"x")) == 408
        assert not calls.seen


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_garbage_reaches_nobody(garbage: bytes) -> None:
    async with listening() as (calls, port):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            assert status_of(await send(port, garbage, ends=True)) >= 400
        assert not calls.seen


async def test_pages_of_other_sites_are_refused() -> None:
    async with listening() as (calls, port):
        answer = await send(port, request("GET", "/", b"", Sec_Fetch_Site="cross-site", **BOB))
        assert status_of(answer) == 403
        assert not calls.seen
