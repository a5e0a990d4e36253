"""The Thrift backend over HTTP, against a scripted HiveServer2 behind a small HTTP server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway.backends.spark_http_connection import _HttpResponse
from gateway.backends.spark_thrift import SparkThriftBackend
from gateway.backends.spark_thrift_connection import SparkAddress
from gateway.backends.spark_thrift_options import SparkThriftOptions
from gateway.errors import AuthenticationFailed, BackendUnavailable
from gateway.model.principal import Principal
from gateway.model.spark_logins import SparkLogin
from gateway.session.ports import ASKER, NO_TOKEN, CatalogAsker
from gateway.wire import messages
from gateway.wire.calls import TFetchResultsResp
from gateway.wire.rows import decode_rows
from gateway.wire.sasl import PlainClient
from gateway.wire.thrift import MalformedMessage
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.backends.test_spark_thrift import ALICE, NUMBERS, Sink, cleared
from tests.session.fakes import until
from tests.speed import patience

Way = Literal["length", "chunks", "pieces"]


@dataclass
class HttpServer:
    """Takes requests, and hands each on to a HiveServer2 as the user that it is for."""

    hive: FakeHiveServer
    way: Way = "length"
    heads: list[dict[str, str]] = field(default_factory=list)
    port: int = 0
    requests: int = 1000
    """How many a connection may make."""
    tells: bool = True
    """Whether it says that it closes one."""
    status: str = "200 OK"
    told: str = "oops"
    """What it says with another status."""
    until: asyncio.Event | None = None
    """Replies come after it."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    kept: list[asyncio.StreamWriter] = field(default_factory=list)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def drop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def close(self) -> None:
        await self.drop()
        for writer in self.kept:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._converse(reader, writer)
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            for left in reversed(range(self.requests)):
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode().strip().split("\r\n")
                headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in lines)}
                self.heads.append({**headers, "path": first.split(" ")[1]})
                body = await reader.readexactly(int(headers["content-length"]))
                if self.status != "200 OK":
                    length = f"Content-Length: {len(self.told)}"
                    writer.write(f"HTTP/1.1 {self.status}\r\n{length}\r\n\r\n{self.told}".encode())
                    continue
                if inner is None:
                    inner = await self._log_in(self._user(headers, first.split(" ")[1]))
                inner[1].write(struct.pack(">I", len(body)) + body)
                (length,) = struct.unpack(">I", await inner[0].readexactly(4))
                body = await inner[0].readexactly(length)
                if self.until is not None:
                    await self.until.wait()
                await self._answer(writer, body, is_last=not left)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            if inner is not None:
                # A session does not end with its connection.
                self.kept.append(inner[1])

    def _user(self, headers: dict[str, str], path: str) -> str:
        acts_as = parse_qs(urlsplit(path).query).get("doAs")
        if acts_as:
            return acts_as[0]
        kind, value = headers["authorization"].split(" ")
        return (
            value.removeprefix("of-") if kind == "Bearer" else base64.b64decode(value).decode().split(":")[0]
        )

    async def _log_in(self, user: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.hive.host, self.hive.port)
        login = PlainClient(user, "x")
        writer.write(login.start())
        while not login.receive(await reader.read(100)):
            pass
        return reader, writer

    async def _answer(self, writer: asyncio.StreamWriter, body: bytes, *, is_last: bool) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\n"
        head += b"Connection: close\r\n" if is_last and self.tells else b""
        if self.way == "length":
            writer.write(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            return
        parts = [body[at : at + 700] for at in range(0, len(body), 700)]
        chunks = b"".join(f"{len(one):x}\r\n".encode() + one + b"\r\n" for one in parts)
        whole = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        size = 7 if self.way == "pieces" else len(whole)
        for at in range(0, len(whole), size):
            writer.write(whole[at : at + size])
            await writer.drain()


@contextlib.asynccontextmanager
async def over_http(way: Way = "length") -> AsyncIterator[tuple[HttpServer, FakeHiveServer]]:
    async with FakeHiveServer() as hive:
        made = HttpServer(hive, way)
        listening = await asyncio.start_server(made.accept, "127.0.0.1", 0)
        made.port = listening.sockets[0].getsockname()[1]
        try:
            yield made, hive
        finally:
            listening.close()
            await made.close()


def backend_for(server: HttpServer, **options: Any) -> SparkThriftBackend:
    return SparkThriftBackend(
        SparkThriftOptions(
            address=SparkAddress(
                host="127.0.0.1",
                port=server.port,
                http_path="cliservice",
                call_timeout_s=patience(5),
                urgent_timeout_s=patience(5),
                fetch_timeout_s=patience(5),
                connect_timeout_s=patience(5),
            ),
            stop_grace_s=0.05,
            **options,
        )
    )


async def token_of(login: SparkLogin) -> str:
    if not login.is_gateway and not login.shown:
        raise AuthenticationFailed("this Spark takes users by tokens of their own")
    return f"of-{login.principal.user}"


@pytest.mark.parametrize("way", ["length", "chunks", "pieces"])
async def test_a_statement_over_http_gives_the_rows_that_it_gives_over_the_binary_transport(way: Way) -> None:
    async with over_http(way) as (server, hive):
        hive.on("SELECT 1", NUMBERS)
        ASKER.set(CatalogAsker("shown"))
        session = await backend_for(server, user_tokens=token_of).open_session(
            ALICE, protocol_version=9, settings={}
        )
        operation = await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        while not (await operation.status()).terminal:
            pass
        sink = Sink()
        relayed = await operation.relay(0, 2000, 0, 7, sink)
        assert relayed.rows > 0
        assert relayed.bytes == len(sink.data)
        reply = messages.decode_reply(bytes(sink.data[4:]), TFetchResultsResp)
        assert reply.results is not None
        assert len(decode_rows(reply.results)) == relayed.rows
        await operation.close()
        await session.close()
        assert [one.user for one in hive.opened] == ["alice"]
        assert {head["authorization"] for head in server.heads} == {"Bearer of-alice"}
        assert {head["path"] for head in server.heads} == {"/cliservice"}


async def test_a_service_acts_as_each_user_by_do_as() -> None:
    async with over_http() as (server, hive):
        hive.on("SELECT current_user()", Answer.text(("an n",)))
        hive.on("SELECT 1", NUMBERS)
        backend = backend_for(server, service="svc", password="p w")
        session = await backend.open_session(Principal(user="an n"), protocol_version=9, settings={})
        await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        assert {head["path"] for head in server.heads} == {"/cliservice?doAs=an%20n"}
        assert {head["authorization"] for head in server.heads} == {
            "Basic " + base64.b64encode(b"svc:p w").decode()
        }
        assert "hive.server2.proxy.user" not in hive.opened[0].configuration
        await session.close()


async def test_a_session_that_nobody_waits_for_any_more_is_closed_when_spark_has_opened_it() -> None:
    """It does not end with its connection, as over the binary transport."""
    async with over_http() as (server, hive):
        server.until = asyncio.Event()
        ASKER.set(CatalogAsker("shown"))
        backend = backend_for(server, user_tokens=token_of)
        opening = asyncio.create_task(backend.open_session(ALICE, protocol_version=9, settings={}))
        while not hive.opened:  # noqa: ASYNC110
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        server.until.set()
        async with asyncio.timeout(patience(5)):
            while "CloseSession" not in hive.calls:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await backend.close()


async def test_every_call_of_an_open_session_is_made_by_a_token_of_that_moment() -> None:
    """A session lasts longer than a token, and is silent for longer: also the first call after that."""
    is_late = False

    async def renewed(login: SparkLogin) -> str:
        return "later" if is_late else f"of-{login.principal.user}"

    async with over_http() as (server, hive):
        hive.on("SELECT 1", NUMBERS)
        backend = backend_for(server, user_tokens=renewed)
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        before = len(server.heads)
        is_late = True
        operation = await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        while not (await operation.status()).terminal:
            pass
        await operation.fetch(10)
        await operation.close()
        await session.close()
        assert {head["authorization"] for head in server.heads[before:]} == {"Bearer later"}


async def test_a_user_is_shown_with_the_groups_that_he_has_by_now() -> None:
    shown: list[frozenset[str]] = []

    async def noting(login: SparkLogin) -> str:
        shown.append(login.principal.groups)
        return f"of-{login.principal.user}"

    async with over_http() as (server, hive):
        hive.on("SELECT 1", NUMBERS)
        now = Principal(user="alice", groups=frozenset({"staff", "payroll"}))
        session = await backend_for(server, user_tokens=noting).open_session(
            now, protocol_version=9, settings={}
        )
        session.follow(lambda: now)
        now = Principal(user="alice", groups=frozenset({"staff"}))
        del shown[:]
        await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        await session.close()
        assert set(shown) == {now.groups}


async def test_an_issuer_that_is_away_for_a_moment_ends_no_session() -> None:
    is_away = False

    async def token(login: SparkLogin) -> str:
        if is_away:
            raise BackendUnavailable("the issuer cannot be asked")
        return f"of-{login.principal.user}"

    async with over_http() as (server, hive):
        hive.on("SELECT 1", NUMBERS)
        backend = backend_for(server, user_tokens=token)
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        is_away = True
        with pytest.raises(BackendUnavailable, match="cannot be asked"):
            await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        is_away = False
        operation = await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        while not (await operation.status()).terminal:
            pass
        await session.close()


async def test_a_user_whose_token_has_ended_ends_his_session() -> None:
    has_ended = False

    async def token(login: SparkLogin) -> str:
        if has_ended:
            raise AuthenticationFailed("log in again")
        return f"of-{login.principal.user}"

    async with over_http() as (server, _):
        backend = backend_for(server, user_tokens=token)
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        before, has_ended = len(server.heads), True
        with pytest.raises(BackendUnavailable, match="log in again"):
            await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        assert not session.alive
        await session.close()
        assert len(server.heads) == before


async def test_a_session_goes_on_when_its_connection_was_closed_while_nothing_was_asked() -> None:
    async with over_http() as (server, hive):
        hive.on("SELECT 1", NUMBERS)
        ASKER.set(CatalogAsker("shown"))
        backend = backend_for(server, user_tokens=token_of)
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        await until(lambda: not session.connection._waiting)
        await server.drop()
        await until(lambda: session.connection._transport is None)
        await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
        await session.close()
        await backend.close()
        assert (len(hive.opened), hive.sessions) == (1, 0)


@pytest.mark.parametrize("way", ["length", "chunks"])
async def test_a_session_goes_on_by_another_connection_when_the_server_has_closed_one(way: Way) -> None:
    async with over_http(way) as (server, hive):
        server.requests = 1
        hive.on("SELECT 1", NUMBERS)
        ASKER.set(CatalogAsker("shown"))
        backend = backend_for(server, user_tokens=token_of)
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        for _ in range(2):
            operation = await session.execute(cleared("SELECT 1"), run_async=True, timeout_s=0)
            while not (await operation.status()).terminal:
                pass
            sink = Sink()
            assert (await operation.relay(0, 2000, 0, 7, sink)).rows > 0
            await operation.close()
        await session.close()
        await backend.close()
        assert (len(hive.opened), hive.sessions) == (1, 0)
        assert len(server.tasks) == len(server.heads)


async def test_no_session_is_left_in_spark_that_was_opened_as_somebody_else() -> None:
    async with over_http() as (server, hive):
        hive.on("SELECT current_user()", Answer.text(("svc",)))
        backend = backend_for(server, service="svc", password="x")
        with pytest.raises(BackendUnavailable, match="as somebody else"):
            await backend.open_session(ALICE, protocol_version=9, settings={})
        await backend.close()
        assert (len(hive.opened), hive.sessions) == (1, 0)


async def test_no_session_is_left_in_spark_whose_connection_was_lost() -> None:
    async with over_http() as (server, hive):
        ASKER.set(CatalogAsker("shown"))
        backend = backend_for(server, user_tokens=token_of)
        session = await backend.open_session(ALICE, protocol_version=9, settings={})
        session.connection.abort()
        assert hive.sessions == 1
        await session.close()
        await backend.close()
        assert hive.sessions == 0


async def test_no_part_of_a_token_is_told_that_a_server_repeats() -> None:
    token = "of-alice" + "x" * 400

    async def long_token(_login: SparkLogin) -> str:
        return token

    for before in range(0, 1200, 100):
        async with over_http() as (server, _):
            backend = backend_for(server, user_tokens=long_token, secrets=(token,))
            server.status, server.told = "500 Oops", "y" * before + f" Bearer {token} \r\n"
            with pytest.raises(BackendUnavailable) as raised:
                await backend.open_session(ALICE, protocol_version=9, settings={})
            assert "xx" not in raised.value.for_operators


async def test_who_has_nothing_to_show_makes_no_connection() -> None:
    ASKER.set(NO_TOKEN)
    async with over_http() as (server, _):
        with pytest.raises(AuthenticationFailed, match="tokens of their own"):
            await backend_for(server, user_tokens=token_of).open_session(
                ALICE, protocol_version=9, settings={}
            )
        assert not server.heads


async def test_a_user_who_is_not_let_in_is_no_outage_and_a_gateway_that_is_not_is_one() -> None:
    async with over_http() as (server, _):
        server.status = "401 Unauthorized"
        ASKER.set(CatalogAsker("shown"))
        backend = backend_for(server, user_tokens=token_of)
        with pytest.raises(AuthenticationFailed, match="does not accept you"):
            await backend.open_session(ALICE, protocol_version=9, settings={})
        with pytest.raises(BackendUnavailable, match="refused the gateway's login"):
            await backend.introduction()
        server.status = "500 Internal Server Error"
        with pytest.raises(BackendUnavailable, match="did not answer a call over HTTP"):
            await backend.open_session(ALICE, protocol_version=9, settings={})


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n" + b"x" * 2000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_what_is_no_answer_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        _HttpResponse(1000).take(data)
