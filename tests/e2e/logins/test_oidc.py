"""Logins by tokens of a real OpenID provider: its discovery document, keys that change, and drivers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, Request, build_opener

import impala.dbapi
import orjson
import pytest
from pyhive import hive
from pyspark.sql.connect.proto import base_pb2

from gateway.frontends.jwt_logins import MIN_REFRESH_S, REFRESH_S, JwtLogins, JwtRules, TokenRefused
from gateway.frontends.login_mechanisms import IssuerLogins
from tests.e2e.logins.directories import free_port
from tests.e2e.running import until
from tests.frontends.connect_listening import connect_listening
from tests.frontends.listening import Gateway
from tests.frontends.test_clients import answers, in_thread
from tests.frontends.test_jwt_logins import Issuer, bad_tokens, token
from tests.frontends.test_thrift_http import listening as http_listening
from tests.speed import patience

pytestmark = pytest.mark.logins
CLAIMS = {"preferred_username": "eva", "groups": ["analysts"], "office": {"site": "B"}}
CALLBACK = "http://localhost:1/callback"


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Provider:
    """A provider at one address, which has another key each time that it starts."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._http = build_opener(_NoRedirects, HTTPCookieProcessor(CookieJar()))

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(self.port)]
        claims = orjson.dumps({"sub": "4711", **CLAIMS}).decode()
        log = subprocess.DEVNULL
        self._process = subprocess.Popen([*command, "--user-claims", claims], stdout=log, stderr=log)
        until(self._answers, "the provider answers")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the provider has ended"
        try:
            with self._http.open(f"{self.issuer}/jwks", timeout=5) as answer:
                return bool(answer.read())
        except OSError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def token(self, client: str = "sluice") -> str:
        """Return what a user gets who logs in there, by the code flow: an ID token for the client."""
        query = {
            "client_id": client,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid profile",
        }
        address = f"{self.issuer}/oauth2/authorize?{urlencode(query)}"
        with self._post(address, {"sub": "4711"}) as redirect:
            location = redirect.headers["Location"]
        form = {
            "grant_type": "authorization_code",
            "code": parse_qs(urlsplit(location).query)["code"][0],
            "redirect_uri": CALLBACK,
            "client_id": client,
            "client_secret": "any",
        }
        with self._post(f"{self.issuer}/oauth2/token", form) as answer:
            return str(orjson.loads(answer.read())["id_token"])

    def _post(self, url: str, form: dict[str, str]) -> Any:
        try:
            return self._http.open(Request(url, urlencode(form).encode()), timeout=patience(20))
        except HTTPError as answer:
            if answer.code not in (302, 303):
                raise
            return answer  # a redirect, which nobody follows


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    made.start()
    yield made
    made.stop()


@contextlib.asynccontextmanager
async def gateway_of(issuer: str) -> AsyncIterator[tuple[Gateway, JwtLogins]]:
    logins = JwtLogins(JwtRules(issuer=issuer, audiences=("sluice",)))
    async with http_listening() as gateway:
        gateway.chain.mechanisms += (IssuerLogins(logins),)
        answers(gateway)
        yield gateway, logins
        logins.close()


def over_http(gateway: Gateway, token: str) -> str:
    """What impyla is told, which sends tokens as such over HTTP."""
    made = impala.dbapi.connect(
        "127.0.0.1",
        gateway.port,
        use_http_transport=True,
        http_path="cliservice",
        auth_mechanism="JWT",
        jwt=token,
    )
    try:
        # Left to the collector, a cursor closes its session in whatever thread that runs: in the loop's, too,
        # which would wait for itself.
        with closing(made.cursor()) as cursor:
            cursor.execute("SELECT 1")
            return str(cursor.fetchall())
    except Exception as error:  # noqa: BLE001 - whatever impyla raises
        return str(error)
    finally:
        # The collector would find its open socket during another test.
        if made.service.client._iprot.trans.isOpen():  # refused, it has closed, and cannot once more
            made.close()


async def test_a_user_of_the_provider_logs_in_by_its_discovery_document(provider: Provider) -> None:
    logins = JwtLogins(
        JwtRules(issuer=provider.issuer, audiences=("sluice",), attribute_claims={"site": ("office", "site")})
    )
    token = await in_thread(provider.token)
    principal = await logins.check(token)
    assert (principal.user, principal.id, sorted(principal.groups)) == ("eva", "4711", ["analysts"])
    assert principal.attributes == (("site", "B"),)
    with pytest.raises(TokenRefused, match="audience is not this gateway"):
        await logins.check(await in_thread(lambda: provider.token("another")))
    head, body, signature = token.split(".")
    other = ("B" if signature[9] == "A" else "A").join((signature[:9], signature[10:]))
    with pytest.raises(TokenRefused, match="does not match any key"):
        await logins.check(f"{head}.{body}.{other}")


@pytest.mark.filterwarnings("ignore:JWT authentication is running without SSL")
async def test_drivers_log_in_by_its_tokens_and_are_refused_at_once(provider: Provider) -> None:
    token = await in_thread(provider.token)
    wrong = await in_thread(lambda: provider.token("another"))
    async with gateway_of(provider.issuer) as (gateway, _):
        assert await in_thread(lambda: over_http(gateway, token)) == "[(1, 'one'), (2, None)]"
        assert "401" in await in_thread(lambda: over_http(gateway, wrong))
        port = await gateway.server.start("127.0.0.1", 0)

        def by_password(secret: str, user: str = "eva") -> str:
            """What PyHive is told, which has but a password field."""
            try:
                with hive.connect("127.0.0.1", port, username=user, password=secret, auth="LDAP") as made:
                    cursor = made.cursor()
                    cursor.execute("SELECT 1")
                    return str(cursor.fetchall())
            except Exception as error:  # noqa: BLE001 - whatever PyHive raises
                return str(error)

        assert await in_thread(lambda: by_password(token)) == "[(1, 'one'), (2, None)]"
        assert "audience is not this gateway" in await in_thread(lambda: by_password(wrong))
        assert "belongs to another user" in await in_thread(lambda: by_password(token, "bob"))
        await gateway.server.close(within_s=5)
        told = [(one.body["reason"], one.body["mechanism"]) for one in gateway.world.ledger.of("login")]
        # impyla asks for its session once more, and then not again.
        assert told.count(("the token's audience is not this gateway", "JWT")) <= 4
        assert all(secret not in str(gateway.world.ledger.events) for secret in (token, wrong))


async def test_a_key_that_the_provider_has_changed_is_asked_for(provider: Provider) -> None:
    now = 1000.0
    rules = JwtRules(issuer=provider.issuer, audiences=("sluice",))
    logins = JwtLogins(rules, clock=lambda: now)
    old = await in_thread(provider.token)
    await logins.check(old)
    provider.stop()
    now += REFRESH_S / 2
    await logins.check(old)  # while it is away the keys of then count
    provider.start()
    new = await in_thread(provider.token)
    now += MIN_REFRESH_S
    assert (await logins.check(new)).user == "eva"
    with pytest.raises(TokenRefused, match="does not match any key"):
        await logins.check(old)
    logins.close()


PYSPARK = """
import json, sys, time
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
for url in json.load(sys.stdin):
    began = time.monotonic()
    try:
        told = SparkSession.builder.remote(url).create().version
    except PySparkException as error:
        told = f"{type(error).__name__}: {error}"
    print(json.dumps([time.monotonic() - began, told]))
"""


async def test_pyspark_logs_in_by_a_token_and_is_refused_at_once() -> None:
    """With each call; a bad one is UNAUTHENTICATED, which PySpark does not try again."""

    async def say_the_version(method: str, request: bytes) -> bytes:
        found = getattr(base_pb2, f"{method}Request").FromString(request)
        answer = getattr(base_pb2, f"{method}Response")(session_id=found.session_id)
        if method == "AnalyzePlan":
            answer.spark_version.version = "4.3.0"
        return bytes(answer.SerializeToString())

    async with connect_listening() as here:
        here.service.unary = say_the_version
        here.server._authenticator._chain.mechanisms += (IssuerLogins(Issuer().logins()),)
        shown = [token(), *bad_tokens().values()]
        # In the clear PySpark shows a token to `localhost` alone.
        urls = [f"sc://localhost:{here.port}/;token={one}" for one in shown]
        done = await in_thread(
            lambda: subprocess.run(
                [sys.executable, "-c", PYSPARK],
                input=orjson.dumps(urls),
                capture_output=True,
                check=False,
                timeout=patience(120),
            )
        )
        told = [orjson.loads(line) for line in done.stdout.splitlines()]
        assert [one[1] for one in told][:1] == ["4.3.0"], done.stderr
        assert all(why in one[1] for why, one in zip(bad_tokens(), told[1:], strict=True)), told
        assert all(one[0] < patience(30) for one in told), told
        reasons = [one.body["reason"] for one in here.world.ledger.of("login")]
        assert list(dict.fromkeys(reasons)) == ["", *bad_tokens()]
        assert len(reasons) <= 2 * len(shown)
