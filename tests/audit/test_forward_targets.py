"""Syslog and HTTP servers, some of which refuse, close early, or are slow."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gateway.audit.forward_targets import HttpTarget, SyslogTarget
from gateway.audit.forwarding import ForwardLine, NotDelivered
from tests.app.certificate_files import make_pair
from tests.audit.samples import until

LINES = [ForwardLine("2026-11-30T08:00:00.000001Z", "gate 1-ab", f"event {n} ü".encode()) for n in range(3)]
FRAME = re.compile(rb"(\d+) ")


def frames(data: bytes) -> list[str]:
    """Split what a server got by the length before each message."""
    found = []
    while data:
        length = FRAME.match(data)
        assert length
        end = length.end() + int(length[1])
        found.append(data[length.end() : end].decode())
        data = data[end:]
    return found


@asynccontextmanager
async def syslog(
    *, tls: ssl.SSLContext | None = None, then: Callable[[asyncio.StreamWriter], None] | None = None
) -> AsyncIterator[tuple[int, bytearray]]:
    """A server, its port, and what it has read; `then` is called after each read."""
    got = bytearray()
    open_writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.append(writer)
        while data := await reader.read(65536):
            got.extend(data)
            if then is not None:
                then(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], got
    finally:
        server.close()
        for writer in open_writers:
            writer.transport.abort()


async def test_messages_are_framed_by_their_length() -> None:
    async with syslog() as (port, got):
        target = SyslogTarget("127.0.0.1", port)
        await target.deliver(LINES)
        await target.deliver(LINES[:1])
        await until(lambda: len(frames(bytes(got))) == 4)
        await target.close()
        assert frames(bytes(got))[0] == "<86>1 2026-11-30T08:00:00.000001Z gate1-ab sluice - - - event 0 ü"


async def test_syslog_over_tls_verifies_the_server(tmp_path: Path) -> None:
    make_pair(tmp_path)
    certificate = tmp_path / "c.pem"
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, tmp_path / "k.pem")
    async with syslog(tls=server) as (port, got):
        target = SyslogTarget("localhost", port, ssl.create_default_context(cafile=str(certificate)))
        await target.deliver(LINES)
        await until(lambda: len(frames(bytes(got))) == 3)
        await target.close()
        with pytest.raises(ssl.SSLError):
            await SyslogTarget("localhost", port, ssl.create_default_context()).deliver(LINES)


async def deliver_often(target: SyslogTarget) -> None:
    for _ in range(100):
        await target.deliver(LINES)


async def test_a_connection_that_is_closed_confirms_nothing() -> None:
    async with syslog(then=lambda writer: writer.transport.abort()) as (port, _):
        target = SyslogTarget("127.0.0.1", port)
        with pytest.raises((NotDelivered, OSError)):
            await deliver_often(target)
        await target.close()


async def test_a_server_that_reads_nothing_confirms_nothing() -> None:
    long = [ForwardLine(LINES[0].time, "g", b"x" * 1_000_000)] * 20
    with socket.create_server(("127.0.0.1", 0)) as server:  # connections wait there, and nobody takes them
        target = SyslogTarget("127.0.0.1", server.getsockname()[1], timeout_s=0.5)
        with pytest.raises(TimeoutError):
            await target.deliver(long)
        await target.close()


@asynccontextmanager
async def http(answer: Callable[[web.Request, bytes], Awaitable[web.Response]]) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        return await answer(request, await request.read())

    app = web.Application()
    app.router.add_post("/raw", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/raw"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("packed", [True, False])
async def test_lines_are_posted_with_the_headers_of_this_moment(packed: bool) -> None:
    got: list[tuple[str, bytes]] = []

    async def answer(request: web.Request, body: bytes) -> web.Response:
        got.append((request.headers["Authorization"], body))
        return web.Response(status=204)

    tokens = iter(["one", "two"])
    async with http(answer) as url:
        target = HttpTarget(url, lambda: {"Authorization": next(tokens)}, packed=packed)
        await target.deliver(LINES)
        await target.deliver(LINES[:1])
        await target.close()
    bodies = [body if not body.startswith(b"\x1f\x8b") else gzip.decompress(body) for _, body in got]
    assert bodies == ["event 0 ü\nevent 1 ü\nevent 2 ü\n".encode(), "event 0 ü\n".encode()]
    assert [token for token, _ in got] == ["one", "two"]


async def test_what_is_too_much_goes_in_halves() -> None:
    taken: list[bytes] = []

    async def answer(_: web.Request, body: bytes) -> web.Response:
        if len(body.splitlines()) > 1:
            return web.Response(status=413)
        taken.append(body)
        return web.Response()

    async with http(answer) as url:
        target = HttpTarget(url, packed=False)
        await target.deliver(LINES)
        await target.close()
    assert taken == [line.content + b"\n" for line in LINES]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "HTTP 400"),
        (401, "HTTP 401"),
        (503, "HTTP 503"),
        (302, "HTTP 302"),
        (413, "takes no event as long as this"),
    ],
)
async def test_what_is_not_taken_is_not_confirmed(status: int, said: str) -> None:
    async def answer(_: web.Request, body: bytes) -> web.Response:
        return web.Response(status=status, headers={"Location": "/raw"}, text=body.decode())

    async with http(answer) as url:
        target = HttpTarget(url, packed=False)
        with pytest.raises(NotDelivered, match=said) as raised:
            await target.deliver(LINES)
        await target.close()
    assert "event 0" not in str(raised.value)


async def test_a_server_that_is_not_there_is_named() -> None:
    target = HttpTarget("http://127.0.0.1:1/raw")
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.1"):
        await target.deliver(LINES)
    await target.close()
