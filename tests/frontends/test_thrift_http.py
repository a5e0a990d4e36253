"""HiveServer2's HTTP transport over a real socket: who is let in, how, and what bad clients get."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import ipaddress
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import aiohttp
import pytest

from gateway.errors import BackendUnavailable
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.guessing import LoginLimits
from gateway.frontends.login_cookies import NAME, LoginCookies
from gateway.frontends.thrift_http import HttpLimits, ThriftHttpServer
from gateway.frontends.tokens import new_token
from gateway.frontends.users import User
from gateway.session.open_sessions import OpenSessions
from gateway.session.ports import FrameSink, RelayedFrame
from gateway.wire import calls
from gateway.wire.frames import frame
from gateway.wire.messages import CallFailed, decode_reply, encode_call
from gateway.wire.rows import decode_rows
from gateway.wire.tcli import THandleIdentifier, TOperationHandle, TSessionHandle
from gateway.wire.thrift import Struct
from tests.frontends.listening import SCHEMA, Gateway, user
from tests.session.fakes import World, until
from tests.speed import patience

R = TypeVar("R", bound=Struct)
KEY = b"k" * 32
NO_SESSION = TSessionHandle(sessionId=THandleIdentifier(guid=b"0" * 16, secret=b"1" * 16))


class HttpGateway(Gateway):
    """A running listener; `world` has the fakes behind it."""

    def __init__(self, limits: HttpLimits | None, logins: LoginLimits | None, **more: Any) -> None:
        super().__init__(World(), logins=logins)
        self.authenticator.cookies = LoginCookies(KEY, clock=lambda: self.now)
        self.http = ThriftHttpServer(
            self.server.service,
            self.authenticator,
            door=ConnectionLimiter("thrift_http"),
            limits=limits,
            **more,
        )


@contextlib.asynccontextmanager
async def listening(
    limits: HttpLimits | None = None, logins: LoginLimits | None = None, **more: Any
) -> AsyncIterator[HttpGateway]:
    gateway = HttpGateway(limits, logins, **more)
    gateway.port = await gateway.http.start("127.0.0.1", 0)
    try:
        yield gateway
    finally:
        await gateway.http.close(within_s=5)
        await gateway.world.sessions.close()


def basic(name: str = "bob", password: str = "secret") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


class HttpClient:
    """Speaks the transport as drivers do, with cookies if it keeps them."""

    def __init__(self, port: int, headers: dict[str, str], *, path: str = "/cliservice") -> None:
        jar = aiohttp.CookieJar(unsafe=True)
        self.http = aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(patience()))
        self.url = f"http://127.0.0.1:{port}{path}"
        self.headers = headers

    async def post(self, data: Any, **headers: str) -> tuple[int, bytes, Any]:
        async with self.http.post(self.url, data=data, headers=self.headers | headers) as answer:
            return answer.status, await answer.read(), answer.headers

    async def call(self, method: str, request: Struct, response: type[R], **headers: str) -> R:
        status, body, _ = await self.post(encode_call(method, 1, request), **headers)
        assert status == 200, body
        return decode_reply(body, response)

    async def open_session(self) -> TSessionHandle:
        reply = await self.call("OpenSession", calls.TOpenSessionReq(), calls.TOpenSessionResp)
        assert reply.sessionHandle is not None, reply.status.errorMessage
        return reply.sessionHandle

    async def execute(self, session: TSessionHandle) -> TOperationHandle:
        request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 1")
        reply = await self.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        assert reply.operationHandle is not None, reply.status.errorMessage
        return reply.operationHandle


@contextlib.asynccontextmanager
async def client(
    gateway: HttpGateway, headers: dict[str, str] | None = None, *, path: str = "/cliservice"
) -> AsyncIterator[HttpClient]:
    made = HttpClient(gateway.port, basic() if headers is None else headers, path=path)
    try:
        yield made
    finally:
        await made.http.close()


async def open_status(one: HttpClient, **headers: str) -> int:
    return (await one.post(encode_call("OpenSession", 1, calls.TOpenSessionReq()), **headers))[0]


# -- calls ---------------------------------------------------------------------------------------------------


async def fetch(
    one: HttpClient, gateway: HttpGateway, rows: Sequence[Any], accepted: str
) -> tuple[int, bytes, Any]:
    operation = await one.execute(await one.open_session())
    gateway.world.backend.last.rows = rows
    gateway.world.backend.last.spark_schema = SCHEMA
    request = calls.TFetchResultsReq(operationHandle=operation, maxRows=1000)
    return await one.post(encode_call("FetchResults", 1, request), **{"Accept-Encoding": accepted})


@pytest.mark.parametrize(
    ("accepted", "zipped"),
    [("identity", False), ("gzip", True), ("gzip;q=0", False), ("deflate, gzip;q=0.5", True)],
)
async def test_rows_are_relayed_compressed_for_who_asks_for_it(accepted: str, zipped: bool) -> None:
    rows = [(i, "some text that is the same in each row") for i in range(200)]
    async with listening() as gateway, client(gateway) as one:
        status, body, headers = await fetch(one, gateway, rows, accepted)
        assert (status, headers.get("Content-Encoding") == "gzip") == (200, zipped)
        assert headers["Content-Type"] == "application/x-thrift"
        assert ("Content-Length" in headers) != zipped
        reply = decode_reply(body, calls.TFetchResultsResp)
        assert reply.results is not None
        assert decode_rows(reply.results) == rows


async def test_nothing_is_compressed_where_the_settings_say_so() -> None:
    async with listening(compresses=False) as gateway, client(gateway) as one:
        _, _, headers = await fetch(one, gateway, [(1, "x" * 5000)], "gzip")
        assert "Content-Encoding" not in headers


async def test_a_session_outlives_its_connection_and_is_its_users_alone() -> None:
    async with listening() as gateway:
        async with client(gateway) as one:
            session = await one.open_session()
        async with client(gateway, path="/hive2/") as other:
            with pytest.raises(AssertionError, match="no such path"):
                await other.execute(session)
        async with client(gateway, basic("alice", "wonder")) as alice:
            request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 1")
            reply = await alice.call("ExecuteStatement", request, calls.TExecuteStatementResp)
            assert (reply.status.errorMessage or "").startswith("Invalid SessionHandle: SessionHandle [")
        async with client(gateway, path="/cliservice/") as again:
            await again.execute(session)
        closing = calls.TCloseSessionReq(sessionHandle=session)
        async with client(gateway) as last:
            closed = await last.call("CloseSession", closing, calls.TCloseSessionResp)
            assert closed.status.statusCode == 0


async def test_a_reply_that_ends_early_is_a_cut_connection() -> None:
    async def half(rows: Sequence[Any], seqid: int, sink: FrameSink) -> RelayedFrame:
        sink.write(frame(b"x" * 100)[:50])
        await sink.drain()
        raise BackendUnavailable("Spark is gone")

    async with listening() as gateway, client(gateway) as one:
        gateway.world.backend.relay_rows = half
        with pytest.raises(aiohttp.ClientError):
            await fetch(one, gateway, [(1, "x")], "identity")
        await one.open_session()


async def test_who_takes_nothing_of_his_rows_is_let_go() -> None:
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def endless(rows: Sequence[Any], seqid: int, sink: FrameSink) -> RelayedFrame:
        sink.write((2**30).to_bytes(4, "big"))
        try:
            while True:
                sink.write(b"x" * 65536)
                await sink.drain()
        except BaseException as fault:
            ended.set_result(fault)
            raise

    limits = HttpLimits(write_timeout_s=0.2, buffered_bytes=100_000)
    async with listening(limits) as gateway, client(gateway) as one:
        gateway.world.backend.relay_rows = endless
        operation = await one.execute(await one.open_session())
        request = encode_call("FetchResults", 1, calls.TFetchResultsReq(operationHandle=operation, maxRows=9))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1000)
        writer.write(head(len(request)) + request)
        async with asyncio.timeout(patience()):
            await ended
        writer.close()
        del reader


@pytest.mark.parametrize(
    ("data", "status", "says"),
    [
        (b"", 400, b"fewer than 8 bytes"),
        (b"GET / HTTP/1.1", 400, b"strict binary protocol"),
        (b"x" * 70_000, 413, b"more than 65536 bytes"),
    ],
)
async def test_what_is_no_message_is_refused_and_the_next_is_answered(
    data: bytes, status: int, says: bytes
) -> None:
    async with listening(HttpLimits(max_body_bytes=65536)) as gateway, client(gateway) as one:
        for body in (data, parts(data)):
            answered, text, _ = await one.post(body)
            assert answered == status
            assert says in text
        await one.open_session()


async def parts(data: bytes) -> AsyncIterator[bytes]:
    """Send it without saying how long it is."""
    yield data


async def test_unknown_methods_and_other_kinds_of_messages_are_thrifts_own_exceptions() -> None:
    async with listening() as gateway, client(gateway) as one:
        call = encode_call("GetInfo", 9, calls.TGetInfoReq(sessionHandle=NO_SESSION, infoType=1))
        for data in (call.replace(b"GetInfo", b"GetLogs"), call.replace(b"\x00\x01", b"\x00\x04", 1)):
            status, body, _ = await one.post(data)
            assert status == 200
            with pytest.raises(CallFailed):
                decode_reply(body, calls.TGetInfoResp)


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with listening(HttpLimits(request_timeout_s=0.2)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(head(100) + b"\x80\x01")
        async with asyncio.timeout(patience()):
            assert b" 408 " in await reader.readline()
            await reader.read()
        writer.close()


async def test_who_asks_before_he_sends_his_body_is_told_to_only_when_logged_in() -> None:
    call = encode_call("OpenSession", 1, calls.TOpenSessionReq())
    async with listening() as gateway:
        for name, first in (("bob", b"HTTP/1.1 100 Continue\r\n"), ("eve", b"HTTP/1.1 401 Unauthorized\r\n")):
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(head(len(call), name=name, more="Expect: 100-continue\r\n"))
            async with asyncio.timeout(patience()):
                assert await reader.readline() == first
                if name == "bob":
                    await reader.readline()
                    writer.write(call)
                    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            writer.close()


def head(length: int, *, name: str = "bob", more: str = "") -> bytes:
    login = basic(name)["Authorization"]
    return (
        f"POST /cliservice HTTP/1.1\r\nHost: x\r\nAuthorization: {login}\r\n{more}"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


async def test_other_methods_and_paths_are_refused() -> None:
    async with listening(paths=["cliservice", "a/b"]) as gateway, client(gateway) as one:
        async with one.http.get(one.url, headers=basic()) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        for path, status in (("/nothing", 404), ("/cliservice/x", 404), ("/a/b/", 200), ("/", 404)):
            one.url = f"http://127.0.0.1:{gateway.port}{path}"
            assert await open_status(one) == status


# -- logins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    [
        {},
        basic("bob", "wrong"),
        basic("bob", ""),
        basic("", "secret"),
        basic("nobody", "secret"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic %%%"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer sluice_nothing"},
        {"Authorization": "Negotiate YII="},
        {"Authorization": basic()["Authorization"].replace("Basic", "Digest")},
        {"Cookie": f"{NAME}=nothing"},
    ],
    ids=str,
)
async def test_who_does_not_say_who_he_is_gets_a_401(shown: dict[str, str]) -> None:
    async with listening() as gateway, client(gateway, shown) as one:
        call = encode_call("OpenSession", 1, calls.TOpenSessionReq())
        for body in (call, parts(call)):
            status, text, headers = await one.post(body)
            assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="sluice", charset="UTF-8"')
            assert text
        assert not gateway.world.backend.sessions


async def test_a_login_that_cannot_be_read_is_recorded_without_what_it_says() -> None:
    async with listening() as gateway, client(gateway) as one:
        for header in (
            "sluice_secret",
            "bob:sluice_secret",
            "Basic sluice_secret",
            "Negotiate sluice_secret",
        ):
            assert await open_status(one, Authorization=header) == 401
        told = [event.body for event in gateway.world.ledger.of("login")]
        assert {(one["mechanism"], one["verdict"]) for one in told} == {("UNKNOWN", "rejected")}
        assert len(told) == 4
        assert "secret" not in str(told)


async def test_a_login_is_recorded_once_in_a_while_and_a_failure_each_time() -> None:
    async with listening() as gateway:
        for _ in range(3):
            async with client(gateway) as one:
                await one.open_session()
            async with client(gateway, basic("bob", "wrong")) as one:
                assert await open_status(one) == 401
        events = gateway.world.ledger.of("login")
        assert sorted(one.body["verdict"] for one in events) == [
            "accepted",
            "rejected",
            "rejected",
            "rejected",
        ]
        assert {one.body["cliIP"] for one in events} == {"127.0.0.1"}


async def test_an_address_that_guesses_is_blocked() -> None:
    async with listening(logins=LoginLimits(failures=3)) as gateway:
        for _ in range(3):
            async with client(gateway, basic("bob", "wrong")) as one:
                assert await open_status(one) == 401
        async with client(gateway, basic("alice", "wonder")) as one:
            status, text, _ = await one.post(encode_call("OpenSession", 1, calls.TOpenSessionReq()))
            assert status == 401
            assert b"too many failed logins" in text


async def test_a_token_logs_in() -> None:
    async with listening() as gateway:
        secret, token = new_token()
        alice = gateway.users["alice"].principal
        gateway.users["alice"] = User(principal=alice, password_hash="", tokens=(token,))
        async with client(gateway, {"Authorization": f"Bearer {secret}"}) as one:
            await one.open_session()
            one.headers = {}
            await one.open_session()
            gateway.users["alice"] = User(principal=alice, password_hash="")
            assert await open_status(one) == 401


async def test_a_cookie_is_worth_what_was_shown_for_it_and_no_more() -> None:
    """A token in the place of a password is a token: its cookie ends with it, and what is for something gets
    none."""
    async with listening() as gateway:
        confined, billing = new_token(purpose="billing")
        plain, token = new_token()
        bob = gateway.users["bob"]
        gateway.users["bob"] = dataclasses.replace(bob, tokens=(billing, token))
        async with client(gateway, basic("bob", confined)) as one:
            await one.open_session()
            one.headers = {}
            assert await open_status(one) == 401
        async with client(gateway, basic("bob", plain)) as one:
            await one.open_session()
            one.headers = {}
            await one.open_session()
            opened = OpenSessions()
            opened.add(gateway.world.sessions)
            assert [session.client.token for session in opened.all()] == [billing.id, token.id, token.id]
            gateway.users["bob"] = bob
            assert await open_status(one) == 401


async def test_two_logins_in_one_request_are_refused_and_a_cookie_gives_way_to_a_password() -> None:
    async with listening() as gateway:
        async with client(gateway) as one:
            await one.open_session()
            one.headers = basic("alice", "wonder")
            session = await one.open_session()
            one.headers = {}
            await one.execute(session)
            one.headers = basic("alice", "wrong")
            assert await open_status(one) == 401
        login = basic()["Authorization"]
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(head(0, more=f"Authorization: {login}\r\n"))
        async with asyncio.timeout(patience()):
            assert b" 401 " in await reader.readline()
        writer.close()
        (event,) = [one for one in gateway.world.ledger.of("login") if one.body["mechanism"] == "UNKNOWN"]
        assert event.body["reason"] == "the request has more than one `Authorization`"


async def test_acting_as_another_user_is_refused_and_recorded() -> None:
    async with listening() as gateway, client(gateway) as one:
        for asked, status in (("alice", 403), ("bob", 200), ("bob&doAs=alice", 403)):
            one.url = f"http://127.0.0.1:{gateway.port}/cliservice?doAs={asked}"
            assert await open_status(one) == status
        one.url = f"http://127.0.0.1:{gateway.port}/cliservice?DOAS=alice"
        assert await open_status(one) == 403
        assert len(gateway.world.ledger.of("security")) == 3


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("203.0.113.1, 198.51.100.7", "198.51.100.7"),
        ("203.0.113.1, 198.51.100.7, 10.0.0.3", "198.51.100.7"),
        ("198.51.100.7, nonsense", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
async def test_a_trusted_proxy_says_where_the_client_is(forwarded: str, address: str) -> None:
    trusted = [ipaddress.ip_network(one) for one in ("127.0.0.0/8", "10.0.0.0/8")]
    for proxies, expected in ((trusted, address), ([], "127.0.0.1")):
        async with listening(trusted_proxies=proxies) as gateway, client(gateway) as one:
            assert await open_status(one, **{"X-Forwarded-For": forwarded}) == 200
            (event,) = gateway.world.ledger.of("login")
            assert event.body["cliIP"] == expected


# -- cookies -------------------------------------------------------------------------------------------------


async def test_a_cookie_stands_for_the_login_on_every_gateway_with_the_key() -> None:
    async with listening() as gateway, listening() as other, client(gateway) as one:
        _, _, headers = await one.post(encode_call("OpenSession", 1, calls.TOpenSessionReq()))
        assert all(word in headers["Set-Cookie"] for word in (f"{NAME}=", "HttpOnly", "Max-Age=86400"))
        assert "Secure" not in headers["Set-Cookie"]
        one.headers = {}
        await one.open_session()
        one.url = f"http://127.0.0.1:{other.port}/cliservice"
        other.users = gateway.users
        await one.open_session()
        other.authenticator.cookies = LoginCookies(b"other key" * 4)
        assert await open_status(one) == 401
        one.url = f"http://127.0.0.1:{gateway.port}/cliservice"
        one.headers = basic()
        await one.open_session()


@pytest.mark.parametrize("why", ["password", "removed", "added again", "old", "from the future", "changed"])
async def test_a_cookie_ends_with_what_it_stands_for(why: str) -> None:
    async with listening() as gateway, client(gateway) as one:
        await one.open_session()
        one.headers = {}
        match why:
            case "password":
                gateway.users["bob"] = user("bob", "another")
            case "removed":
                del gateway.users["bob"]
            case "added again":
                new = dataclasses.replace(gateway.users["bob"].principal, id="2")
                gateway.users["bob"] = dataclasses.replace(gateway.users["bob"], principal=new)
            case "old":
                gateway.now += 86_401
            case "from the future":
                gateway.now -= 61
            case "changed":
                for cookie in one.http.cookie_jar:
                    one.headers = {"Cookie": f"{NAME}={cookie.value[:10]}A{cookie.value[11:]}"}
                one.http.cookie_jar.clear()
        status, _, headers = await one.post(encode_call("OpenSession", 1, calls.TOpenSessionReq()))
        assert status == 401
        assert "Max-Age=0" in headers["Set-Cookie"]


async def test_there_are_no_cookies_where_the_settings_say_so() -> None:
    async with listening(cookies=False) as gateway, client(gateway) as one:
        _, _, headers = await one.post(encode_call("OpenSession", 1, calls.TOpenSessionReq()))
        assert "Set-Cookie" not in headers
        cookie = gateway.authenticator.cookies.issue(gateway.users["bob"], gateway.users["bob"].password_hash)
        one.headers = {"Cookie": f"{NAME}={cookie}"}
        assert await open_status(one) == 401


@pytest.mark.parametrize("value", ["", ".", "a", "a.b", "é.é", "=.=", "x" * 5000, "W10.W10"])
def test_what_is_no_cookie_is_none(value: str) -> None:
    assert LoginCookies(KEY).owner(value, {}) is None


def test_a_key_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        LoginCookies(b"short")


# -- ends ----------------------------------------------------------------------------------------------------


async def test_a_removed_users_connections_end() -> None:
    async with listening() as gateway, client(gateway) as one:
        await one.open_session()
        gateway.http.end_where(lambda who, _: who.user == "alice")
        assert len(gateway.http.connections) == 1
        gateway.http.end_where(lambda who, _: who.user == "bob")
        await until(lambda: not gateway.http.connections)


async def test_a_client_that_goes_away_leaves_its_statement_and_no_task() -> None:
    async with listening() as gateway, client(gateway) as one:
        session = await one.open_session()
        gateway.world.backend.slow = "SELECT"
        running = asyncio.create_task(one.execute(session))
        await until(lambda: gateway.http.count_running_calls() == 1 and bool(gateway.world.backend.received))
        running.cancel()
        await until(lambda: len(gateway.http.connections) == 0)
        gateway.world.backend.last.end()
        await until(lambda: gateway.http.count_running_calls() == 0)
