"""In whose name catalogs are asked: the user's, by a token for his, or the gateway's for what it looks up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.app.catalogs import SparkCatalogs, make_catalogs
from gateway.catalog.token_exchange import NotExchanged
from gateway.errors import AuthenticationFailed, Faults
from gateway.frontends.authentication import Authenticator
from gateway.frontends.login_mechanisms import IssuerLogins
from gateway.model.credentials import Bearer, Credentials, Password
from gateway.model.spark_minors import Minor
from gateway.model.statement import Client
from gateway.session.ports import ASKER, NO_TOKEN, CatalogAsker, ask_as_gateway
from gateway.settings.loading import parse_settings
from gateway.settings.models import Settings
from tests.app.test_logins import BLOCKS
from tests.frontends.connect_listening import connect_listening
from tests.frontends.listening import Gateway, RawClient, chain_of, listening, user
from tests.frontends.test_impersonation import HUE, acting
from tests.frontends.test_jwt_logins import OTHER, Issuer, token
from tests.frontends.test_thrift_http import basic, client
from tests.frontends.test_thrift_http import listening as http_listening
from tests.session.fakes import World

(BLOCK,) = [block for block in BLOCKS if "exchange:" in block]
LAKE = "spark.sql.catalog.lake"


def documented(directory: Path) -> Settings:
    """Return the settings of docs/logins.md."""
    (directory / "client-secret").write_text("of the gateway")
    (directory / "lake-credential").write_text("sluice:of the lake")
    return parse_settings(BLOCK, "gateway.yaml", directory)


class Exchange:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.fault: Exception | None = None

    async def exchange(self, shown: str, audience: str) -> str:
        self.asked.append((shown, audience))
        if self.fault is not None:
            raise self.fault
        return f"for.{audience}.of-{shown}"


def made(exchange: Exchange, directory: Path) -> SparkCatalogs:
    settings = documented(directory)
    exchanging: Any = exchange
    return SparkCatalogs(settings.catalogs, audiences=settings.audiences, exchange=exchanging)


def told(catalogs: SparkCatalogs, asker: CatalogAsker) -> dict[str, Any]:
    """Return what a session is told that is opened in a name."""

    async def ask() -> dict[str, Any]:
        ASKER.set(asker)
        return {**catalogs.of_sessions(), **await catalogs.log_in()}

    return asyncio.run(ask())


def test_a_users_session_has_a_token_of_his_and_nothing_of_the_gateways(tmp_path: Path) -> None:
    catalogs = made(Exchange(), tmp_path)
    found = told(catalogs, CatalogAsker("bobs"))
    assert found[f"{LAKE}.token"] == "for.lake-api.of-bobs"
    assert found[f"{LAKE}.uri"] == "https://lake.corp.example"
    assert found[f"{LAKE}.token-refresh-enabled"] == "false"
    assert f"{LAKE}.credential" not in found
    # Nor is it shown to anybody.
    assert "for.lake-api.of-bobs" in catalogs.secrets()


@pytest.mark.parametrize("fault", [None, NotExchanged("status 400")])
def test_who_has_no_token_asks_the_catalog_as_nobody(tmp_path: Path, fault: Exception | None) -> None:
    exchange = Exchange()
    exchange.fault = fault
    found = told(made(exchange, tmp_path), CatalogAsker("bobs") if fault else NO_TOKEN)
    assert found[LAKE] == "org.apache.iceberg.spark.SparkCatalog"
    assert not {f"{LAKE}.token", f"{LAKE}.credential", f"{LAKE}.oauth2-server-uri"} & found.keys()


def test_the_gateway_itself_asks_by_its_own_login(tmp_path: Path) -> None:
    exchange = Exchange()
    catalogs = made(exchange, tmp_path)

    async def ask() -> dict[str, Any]:
        ASKER.set(CatalogAsker("bobs"))
        with ask_as_gateway():
            own = {**catalogs.of_sessions(), **await catalogs.log_in()}
        assert ASKER.get() == CatalogAsker("bobs")
        return own

    found = asyncio.run(ask())
    assert found[f"{LAKE}.credential"] == "sluice:of the lake"
    assert found[f"{LAKE}.token-refresh-enabled"] == "true"
    assert exchange.asked == []
    assert "bobs" not in repr(CatalogAsker("bobs"))


def test_sparks_own_configuration_has_no_login_of_such_a_catalog(tmp_path: Path) -> None:
    found = make_catalogs(documented(tmp_path)).of_start(Minor(4, 1))
    assert f"{LAKE}.uri" in found
    assert f"{LAKE}.credential" not in found


def test_only_catalogs_of_iceberg_rest_are_asked_so(tmp_path: Path) -> None:
    for before, after in (("lake: lake-api", "other: lake-api"), ("type: rest", "type: hadoop")):
        with pytest.raises(Faults, match="is no catalog of type `iceberg` with `type: rest`"):
            parse_settings(BLOCK.replace(before, after), "gateway.yaml", tmp_path)
    with pytest.raises(Faults, match="must be an `https://` address"):
        parse_settings(BLOCK.replace("token_url: https", "token_url: http"), "gateway.yaml", tmp_path)


@pytest.mark.parametrize(
    ("show", "asks_by"),
    [
        (lambda: Bearer(token()), True),
        (lambda: Password("Eva", token()), True),
        (lambda: Bearer(token(OTHER)), False),
        (lambda: Password("bob", "secret"), False),
        (lambda: Password("bob", "wrong"), False),
    ],
)
async def test_each_login_says_anew_in_whose_name_is_asked(show: Any, asks_by: bool) -> None:
    world = World()
    users = {"bob": user("bob", "secret")}
    one = Authenticator(
        chain_of(lambda: users, IssuerLogins(Issuer().logins())),
        recorder=world.sessions.recorder,
        metrics=world.sessions.metrics,
    )
    ASKER.set(CatalogAsker("of the request before, on the same connection"))
    shown: Credentials = show()
    try:
        await one.login(shown, Client(protocol="thrift", address="192.0.2.1"))
    except AuthenticationFailed:
        assert not asks_by
    secret = shown.password if isinstance(shown, Password) else getattr(shown, "secret", "")
    assert ASKER.get() == (CatalogAsker(secret) if asks_by else NO_TOKEN)


async def test_what_was_shown_goes_to_the_session_that_it_opens_and_to_no_other() -> None:
    opened: list[CatalogAsker] = []

    def watch(gateway: Gateway) -> None:
        gateway.chain.mechanisms += (IssuerLogins(Issuer().logins()),)
        real = gateway.world.backend.open_session

        async def open_session(*given: Any, **named: Any) -> Any:
            opened.append(ASKER.get())
            return await real(*given, **named)

        gateway.world.backend.open_session = open_session  # type: ignore[method-assign]

    bearer = {"Authorization": f"Bearer {token()}"}
    async with http_listening() as over_http, client(over_http, bearer) as one:
        watch(over_http)
        await one.open_session()
        one.headers = basic()
        await one.open_session()
        one.headers = bearer
        await one.open_session()
    assert [bool(asker.token) for asker in opened] == [True, False, True]
    opened.clear()
    async with listening() as binary:
        watch(binary)
        for name, secret in (("Eva", token()), ("bob", "secret")):
            await (await RawClient.logged_in(binary.port, name, secret)).open_session()
    assert [bool(asker.token) for asker in opened] == [True, False]
    async with connect_listening() as connect:
        connect.server._authenticator._chain.mechanisms += (IssuerLogins(Issuer().logins()),)
        found: list[CatalogAsker] = []

        async def answer(_method: str, _request: bytes) -> bytes:
            found.append(ASKER.get())
            return b""

        connect.service.unary = answer
        await connect.call(metadata=(("authorization", bearer["Authorization"]),))
        await connect.call()
        assert [bool(asker.token) for asker in found] == [True, False]


async def test_who_acts_as_another_asks_by_no_token() -> None:
    async with acting(HUE) as gateway:
        ASKER.set(CatalogAsker("of hue"))
        here = Client(protocol="thrift", address="192.0.2.1")
        await gateway.server.service.act_as(gateway.users["hue"].principal, here, [("doAs", "bob")])
        assert ASKER.get() == NO_TOKEN
