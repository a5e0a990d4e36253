"""Users whom a proxy has logged in: by which connections, with which proof, never beside another login."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.frontends.known_users import KnownUsers
from gateway.frontends.proxy_logins import ProxyLogins, ProxyRule, read_proxied_user
from gateway.model.credentials import ProxiedUser, UnreadableLogin
from tests.frontends.test_thrift_http import basic, client, listening, open_status

SECRET = "s" * 32
RULE = ProxyRule(
    addresses=[ipaddress.ip_network("127.0.0.1/32")],
    user_header="X-Forwarded-User",
    secret_header="X-Proxy-Secret",
    secret=lambda: SECRET,
)


def written(*headers: tuple[str, str]) -> Callable[[str], list[str]]:
    return lambda name: [value for key, value in headers if key.lower() == name.lower()]


def read(
    *headers: tuple[str, str], peer: str = "127.0.0.1", has_login: bool = False
) -> ProxiedUser | str | None:
    found = read_proxied_user(written(*headers), peer, RULE, has_login=has_login)
    return found.reason if isinstance(found, UnreadableLogin) else found


USER, PROOF = ("x-forwarded-user", "bob"), ("x-proxy-secret", SECRET)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ((USER,), "the proxy has not proved itself"),
        ((USER, ("X-Proxy-Secret", "wrong")), "the proxy has not proved itself"),
        ((USER, ("X-Proxy-Secret", "")), "the proxy has not proved itself"),
        ((USER, PROOF, ("X-Proxy-Secret", "wrong")), "the proxy has not proved itself"),
        ((PROOF,), "two logins in one request"),
        ((USER, PROOF, ("X-Forwarded-User", "root")), "two logins in one request"),
        ((("X-Forwarded-User", " "), PROOF), "the proxy names no user"),
        ((("X-Forwarded-User", "b\tob"), PROOF), "the proxy names no user"),
    ],
)
def test_a_proxy_that_proves_nothing_names_nobody(headers: tuple[tuple[str, str], ...], told: str) -> None:
    assert read(*headers) == told


def test_a_proxy_names_its_user_where_nobody_else_does() -> None:
    assert read(USER, PROOF) == ProxiedUser("bob")
    assert read(USER, PROOF, has_login=True) == "two logins in one request"
    assert read() is None
    # What comes from elsewhere is what any client may write.
    assert read(USER, PROOF, peer="127.0.0.2") is None
    assert read_proxied_user(written(USER, PROOF), "127.0.0.1", None, has_login=False) is None


async def test_a_session_is_the_users_whom_the_proxy_names_and_the_record_has_both() -> None:
    async with listening(proxies=RULE) as gateway:
        gateway.chain.mechanisms += (ProxyLogins(RULE, KnownUsers(lambda: gateway.users, None)),)
        gateway.chain._kinds |= {"PROXY"}
        async with client(gateway, dict((USER, PROOF))) as one:
            await one.execute(await one.open_session())
            (session,) = gateway.world.backend.sessions
            assert session.principal == gateway.users["bob"].principal
            (event,) = gateway.world.ledger.of("login")
            assert (event.body["mechanism"], event.body["client"]) == ("PROXY", {"proxy": "127.0.0.1"})
            (event,) = gateway.world.ledger.of("decided")
            assert (event.body["reqUser"], event.body["client"]) == ("bob", {"proxy": "127.0.0.1"})
            for bad in (
                basic("alice", "wonder"),
                {"x-proxy-secret": "x"},
                {"x-forwarded-user": "nobody"},
                {"x-forwarded-user": "alice", "Authorization": "Bearer x"},
            ):
                assert await open_status(one, **bad) == 401
            told = [event.body["reason"] for event in gateway.world.ledger.of("login")][1:]
            assert told[0] == told[3] == "two logins in one request"
            assert told[1] == "the proxy has not proved itself"
            assert "neither in the user file" in told[2]
            gateway.http._proxies = replace(RULE, addresses=[ipaddress.ip_network("192.0.2.0/24")])
            assert await open_status(one) == 401
