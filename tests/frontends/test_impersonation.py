"""Acting as another user, on both transports of HiveServer2: who may, and what the record has of it."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.frontends.impersonation import Impersonation, ImpersonationRule
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.tokens import new_token
from gateway.session.open_sessions import OpenSessions
from gateway.wire import calls
from gateway.wire.messages import decode_reply, encode_call
from gateway.wire.tcli import TSessionHandle
from tests.frontends.listening import Gateway, RawClient, listening, user
from tests.frontends.test_login_chain import Directory
from tests.frontends.test_thrift_http import HttpClient, basic, client
from tests.frontends.test_thrift_http import listening as http_listening
from tests.session.fakes import until

KEY = "hive.server2.proxy.user"
HUE = ImpersonationRule(users=frozenset({"hue"}), as_groups=frozenset({"analysts"}))


def prepare(gateway: Gateway, *rules: ImpersonationRule) -> None:
    """Give the gateway a service user, and somebody who is no analyst."""
    gateway.users |= {"hue": user("hue", "server"), "root": user("root", "x")}
    known = KnownUsers(lambda: gateway.users, Directory())
    gateway.server.service._impersonation = Impersonation(rules, known)


@contextlib.asynccontextmanager
async def acting(*rules: ImpersonationRule) -> AsyncIterator[Gateway]:
    async with listening() as gateway:
        prepare(gateway, *rules)
        yield gateway


async def open_as(
    gateway: Gateway, name: str, *, key: str = KEY, login: str = "hue", password: str = "server"
) -> tuple[RawClient, calls.TOpenSessionResp]:
    one = await RawClient.logged_in(gateway.port, login, password)
    request = calls.TOpenSessionReq(configuration={key: name})
    return one, await one.call("OpenSession", request, calls.TOpenSessionResp)


async def execute(one: RawClient, session: TSessionHandle | None) -> str | None:
    assert session is not None
    request = calls.TExecuteStatementReq(sessionHandle=session, statement="SELECT 1", runAsync=False)
    return (await one.call("ExecuteStatement", request, calls.TExecuteStatementResp)).status.sqlState


@pytest.mark.parametrize("key", [KEY, f"set:hiveconf:{KEY}"])
async def test_a_service_acts_as_a_user_and_the_record_has_both(key: str) -> None:
    async with acting(HUE) as gateway:
        one, opened = await open_as(gateway, "bob", key=key)
        assert opened.status.statusCode == 0
        assert await execute(one, opened.sessionHandle) is None
        (session,) = gateway.world.backend.sessions
        assert session.principal.user == "bob"
        assert session.principal.groups == {"analysts"}
        (event,) = gateway.world.ledger.of("decided")
        assert (event.body["reqUser"], event.body["realUser"]) == ("bob", "hue")
        # Nobody else has the session, whoever he acts as.
        other, _ = await open_as(gateway, "alice", login="alice", password="wonder")
        assert await execute(other, opened.sessionHandle) == "HY000"


@pytest.mark.parametrize(
    ("rule", "name", "login", "why"),
    [
        (HUE, "root", "hue", "acting as another user is not allowed"),
        (HUE, "alice", "bob", "acting as another user is not allowed"),
        (HUE, "nobody", "hue", "the user is neither in the user file"),
        (
            ImpersonationRule(
                users=HUE.users,
                as_users=frozenset({"*"}),
                addresses=[ipaddress.ip_network("192.0.2.0/24")],
            ),
            "bob",
            "hue",
            "acting as another user is not allowed",
        ),
        # A directory's spelling of a name of the file.
        (
            ImpersonationRule(users=HUE.users, as_users=frozenset({"*"})),
            "BOB",
            "hue",
            "neither in the user file",
        ),
    ],
)
async def test_nobody_acts_as_whom_no_rule_allows(
    rule: ImpersonationRule, name: str, login: str, why: str
) -> None:
    async with acting(rule) as gateway:
        password = {"hue": "server", "bob": "secret"}[login]
        _, opened = await open_as(gateway, name, login=login, password=password)
        assert opened.status.sqlState == "28000"
        assert why in (opened.status.errorMessage or "")
        (event,) = gateway.world.ledger.of("security")
        assert (event.user, event.body["reason"]) == (login, KEY)
        assert gateway.world.backend.sessions == []


async def test_odd_keys_and_two_names_are_refused() -> None:
    async with acting(HUE) as gateway:
        for key in ("Hive.Server2.Proxy.User", "set:hivevar:hive.server2.proxy.user"):
            assert (await open_as(gateway, "bob", key=key))[1].status.sqlState == "28000"
        one = await RawClient.logged_in(gateway.port, "hue", "server")
        request = calls.TOpenSessionReq(configuration={KEY: "bob", f"set:hiveconf:{KEY}": "alice"})
        reply = await one.call("OpenSession", request, calls.TOpenSessionResp)
        assert reply.status.sqlState == "28000"


async def test_sessions_end_with_either_user() -> None:
    for removed in ("bob", "hue"):
        async with acting(HUE) as gateway:
            await open_as(gateway, "bob")
            every = OpenSessions()
            every.add(gateway.world.sessions)
            assert await every.end([removed], "removed") == 1
            await until(lambda: len(gateway.world.sessions) == 0)


async def test_over_http_each_request_says_as_whom() -> None:
    async with http_listening() as gateway, client(gateway) as one:
        prepare(gateway, HUE)
        one.headers = basic("hue", "server")

        async def answer(query: str, configuration: dict[str, str] | None = None) -> int:
            one.url = f"http://127.0.0.1:{gateway.port}/cliservice{query}"
            return await status_of(one, configuration)

        assert await answer("?doAs=bob") == 0
        assert gateway.world.backend.sessions[-1].principal.user == "bob"
        assert await answer("?doAs=root") == 403
        assert await answer("?doAs=bob&doAs=bob") == 0
        assert await answer("?doAs=bob&doAs=root") == 403
        # A chain would hide who is logged in.
        gateway.users["bob"] = user("bob", "secret", "analysts")
        rules = HUE, ImpersonationRule(users=frozenset({"bob"}), as_users=frozenset({"*"}))
        prepare(gateway, *rules)
        assert await answer("?doAs=bob", {KEY: "root"}) == 3
        assert await answer("", {KEY: "bob"}) == 0


async def status_of(one: HttpClient, configuration: dict[str, str] | None) -> int:
    """Open a session; return the status of the reply, or HTTP's where there is none."""
    request = calls.TOpenSessionReq(configuration=configuration)
    status, body, _ = await one.post(encode_call("OpenSession", 1, request))
    return int(decode_reply(body, calls.TOpenSessionResp).status.statusCode) if status == 200 else status


async def test_a_token_is_for_what_it_is_for_whoever_its_owner_acts_as() -> None:
    secret, token = new_token(purpose="billing")
    async with acting(HUE) as gateway:
        gateway.users["hue"] = replace(gateway.users["hue"], tokens=(token,))
        await open_as(gateway, "bob", password=secret)
        (session,) = gateway.world.backend.sessions
        assert (session.principal.user, session.principal.values("purpose")) == ("bob", ("billing",))
        (event,) = gateway.world.ledger.of("login")
        assert event.body["token"] == token.id
