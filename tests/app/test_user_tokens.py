"""Whom users are shown as to what stands before a Spark: each by a token of his own, or not at all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway.app import user_tokens
from gateway.app.probes import start_probes
from gateway.app.public_keys import make_key_application
from gateway.app.user_tokens import make_user_tokens
from gateway.catalog.token_exchange import NotExchanged
from gateway.errors import AuthenticationFailed, BackendUnavailable, Faults
from gateway.model.principal import Principal
from gateway.model.spark_logins import OWN_LOGIN, SparkLogin
from gateway.session.metrics import Metrics
from gateway.settings.loading import parse_settings
from gateway.settings.models import Settings
from tests.backends.test_token_signing import new_key

BOB = Principal(user="bob", groups=frozenset({"sales", "all"}))
SIGNED = """
listeners: {connect: {}}
backend:
  connect: {host: spark-gateway, tls: true}
  identity: {by: signed, audience: spark}
token_signing: {issuer: "https://sluice.example", keys: [{file: key.pem}]}
"""
EXCHANGED = """
listeners: {connect: {}}
backend:
  connect: {host: localhost}
  identity: {by: exchanged, audience: spark}
logins:
  jwt:
    issuer: https://id.example
    audiences: [sluice]
    exchange: {token_url: "https://id.example/token", client_id: sluice, client_secret: {file: secret}}
"""
PASSED_ON = """
listeners: {connect: {}}
backend:
  connect: {host: localhost, token: {file: own}}
  identity: {by: passed_on}
logins: {jwt: {issuer: "https://id.example", audiences: [sluice]}}
"""


def settings_of(text: str, directory: Path) -> Settings:
    (directory / "key.pem").write_text(new_key())
    (directory / "secret").write_text("of the gateway")
    (directory / "own").write_text("the gateway's own")
    return parse_settings(text, "gateway.yaml", directory)


class Shown:
    """What is shown for whom, by settings."""

    def __init__(self, text: str, directory: Path) -> None:
        settings = settings_of(text, directory)
        self.hidden: list[str] = []
        made = make_user_tokens(settings, settings.backend, self.hidden.append)
        assert made is not None
        self._make = made

    def of(self, login: SparkLogin) -> str:
        async def ask() -> str:
            return await self._make(login)

        return asyncio.run(ask())

    def claims(self, login: SparkLogin) -> dict[str, Any]:
        found: dict[str, Any] = jwt.decode(self.of(login), options={"verify_signature": False})
        return found


def test_signed_tokens_say_who_the_user_is_and_no_client_reads_them(tmp_path: Path) -> None:
    shown = Shown(SIGNED, tmp_path)
    found = shown.claims(SparkLogin(BOB, "whatever he has shown"))
    assert (found["sub"], found["aud"], found["iss"]) == ("bob", "spark", "https://sluice.example")
    assert found["groups"] == ["all", "sales"]
    assert shown.hidden == [shown.of(SparkLogin(BOB))] * 2
    assert shown.claims(OWN_LOGIN)["sub"] == "sluice"


def test_nobody_is_shown_as_the_gateway_itself(tmp_path: Path) -> None:
    shown = Shown(SIGNED, tmp_path)
    with pytest.raises(AuthenticationFailed, match="the gateway's own"):
        shown.of(SparkLogin(Principal(user="sluice")))


def test_only_the_groups_of_the_settings_are_told(tmp_path: Path) -> None:
    text = SIGNED.replace("audience: spark", "audience: spark, groups: [sales, other]")
    assert Shown(text, tmp_path).claims(SparkLogin(BOB))["groups"] == ["sales"]


class Issuer:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.fault: Exception | None = None

    async def exchange(self, shown: str, audience: str) -> str:
        self.asked.append((shown, audience))
        if self.fault is not None:
            raise self.fault
        return f"for-{audience}-of-{shown}"

    async def fetch_own(self, audience: str) -> str:
        self.asked.append(("", audience))
        return f"for-{audience}"


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Issuer:
    made = Issuer()
    monkeypatch.setattr(user_tokens, "make_exchange", lambda _settings: made)
    return made


def test_tokens_are_exchanged_for_those_that_users_have_shown(tmp_path: Path, issuer: Issuer) -> None:
    shown = Shown(EXCHANGED, tmp_path)
    assert shown.of(SparkLogin(BOB, "bobs")) == "for-spark-of-bobs"
    assert shown.of(OWN_LOGIN) == "for-spark"
    assert shown.hidden == ["for-spark-of-bobs", "for-spark"]


@pytest.mark.parametrize("text", [EXCHANGED, PASSED_ON])
def test_who_has_shown_no_token_is_not_let_in_by_anybody_elses(tmp_path: Path, text: str) -> None:
    with pytest.raises(AuthenticationFailed, match="by tokens of their own"):
        Shown(text, tmp_path).of(SparkLogin(BOB))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (NotExchanged("status 400 (invalid_grant)", is_refusal=True), AuthenticationFailed),
        (NotExchanged("the issuer cannot be reached"), BackendUnavailable),
        (Faults(["the secret in `secret` cannot be read"]), BackendUnavailable),
    ],
)
def test_a_refusal_of_the_issuers_is_the_users_and_a_silence_the_sparks(
    tmp_path: Path, issuer: Issuer, fault: Exception, told: type[Exception]
) -> None:
    issuer.fault = fault
    with pytest.raises(told) as raised:
        Shown(EXCHANGED, tmp_path).of(SparkLogin(BOB, "bobs-secret-token"))
    assert "bobs-secret-token" not in str(raised.value)


def test_tokens_are_passed_on_as_they_were_shown(tmp_path: Path) -> None:
    shown = Shown(PASSED_ON, tmp_path)
    assert shown.of(SparkLogin(BOB, "bobs")) == "bobs"
    assert shown.of(OWN_LOGIN) == "the gateway's own"


@pytest.mark.parametrize(
    ("text", "before", "after", "why"),
    [
        (SIGNED, ", tls: true", "", "`identity` needs `tls: true`"),
        (SIGNED, "token_signing", "# token_signing", "needs `token_signing`"),
        (SIGNED, ", audience: spark", "", "`audience` is missing"),
        (SIGNED, "connect: {host: spark-gateway, tls: true}", "thrift: {host: localhost}",
         "needs `connect`, or `thrift` with"),
        (EXCHANGED, "exchange:", "# exchange:", "needs `logins.jwt.exchange`"),
        (PASSED_ON, ", token: {file: own}", "", "needs `connect.token`"),
    ],
)  # fmt: skip
def test_settings_by_which_nobody_could_be_shown_are_refused(
    tmp_path: Path, text: str, before: str, after: str, why: str
) -> None:
    assert before in text
    with pytest.raises(Faults, match=why):
        settings_of(text.replace(before, after), tmp_path)


async def test_the_public_keys_are_there_while_the_gateway_starts(tmp_path: Path) -> None:
    """What is behind asks for them when the gateway asks it whether it is ready."""
    settings = settings_of(SIGNED.replace("connect: {}}", "connect: {}, admin: {port: 0}}"), tmp_path)
    probes = await start_probes(settings, Metrics())
    try:
        address = f"http://127.0.0.1:{probes.port}/.well-known/jwks.json"
        async with aiohttp.ClientSession() as http, http.get(address) as answer:
            assert (answer.status, len((await answer.json())["keys"])) == (200, 1)
    finally:
        await probes.admin.close()


async def test_the_public_keys_are_where_openid_connect_looks_for_them(tmp_path: Path) -> None:
    signing = settings_of(SIGNED, tmp_path).token_signing
    assert signing is not None
    app = web.Application()
    app.add_subapp("/.well-known", make_key_application(signing)())
    async with TestClient(TestServer(app)) as client:
        found = await (await client.get("/.well-known/openid-configuration")).json()
        assert found == {
            "issuer": "https://sluice.example",
            "jwks_uri": "https://sluice.example/.well-known/jwks.json",
        }
        keys = json.loads(await (await client.get("/.well-known/jwks.json")).text())["keys"]
        assert [sorted(one) for one in keys] == [["alg", "crv", "kid", "kty", "use", "x", "y"]]
