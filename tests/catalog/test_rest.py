"""Logins at servers with a REST API: what a client shows, when it logs in anew, and where it asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.app.catalog_access import open_catalog
from gateway.catalog.iceberg_rest import IcebergRestCatalog
from gateway.catalog.readable import CatalogUnavailable, NoSuchTable
from gateway.catalog.rest import CatalogError, RestClient, RestLogin
from gateway.errors import Faults
from gateway.settings.catalogs import CatalogConnection, CatalogEntry
from gateway.settings.section import Secret
from tests.catalog.doubles import Double, iceberg, serving


@dataclass
class Server:
    """Answers who shows what it has given out, and gives out a token for a secret."""

    secret: str = "hush"
    wanted: str = ""
    """Authorization that is taken; empty: the last token's."""
    granted: dict[str, Any] = field(default_factory=dict)
    """What an answer to a login has beside the token."""
    logins: list[dict[str, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    url: str = ""

    def revoke(self) -> None:
        self.wanted = "Bearer of nobody"

    async def ask(self, request: web.Request) -> web.Response:
        self.shown.append(request.headers.get("Authorization", ""))
        if self.shown[-1] != self.wanted:
            return web.json_response({"type": "Unauthorized", "message": "no"}, status=401)
        return web.json_response({"well": True})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.logins.append({**{key: str(value) for key, value in form.items()}, "path": request.path})
        if form.get("client_secret") != self.secret:
            return web.json_response({}, status=400)
        token = f"t{len(self.logins)}"
        self.wanted = f"Bearer {token}"
        return web.json_response({"access_token": token, **self.granted})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def error(told: Any) -> tuple[str, str]:
    return str(told["type"]), str(told["message"])


@asynccontextmanager
async def asking(
    server: Server, login: Callable[[], RestLogin], clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[RestClient]:
    app = web.Application()
    app.router.add_get("/a", server.ask)
    app.router.add_post("/{path:.*}", server.token)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    client = RestClient(server.url, login, told=error, clock=clock)
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


def oauth2() -> RestLogin:
    return RestLogin(token_url="login", credential="me:hush")


@pytest.mark.parametrize("lasts", [3600, "3600", 3600.0])
async def test_a_token_is_replaced_before_it_ends(lasts: object) -> None:
    server, clock = Server(granted={"expires_in": lasts}), Clock()
    async with asking(server, oauth2, clock) as client:
        await client.ask("GET", "a")
        clock.now = 3500
        await client.ask("GET", "a")
        assert len(server.logins) == 1
        clock.now = 3600
        await client.ask("GET", "a")
        assert len(server.logins) == 2
        assert server.logins[0]["path"] == "/login"


@pytest.mark.parametrize("lasts", [{}, {"expires_in": None}, {"expires_in": "soon"}, {"expires_in": "NaN"}])
async def test_a_token_without_an_end_is_replaced_when_it_is_refused(lasts: dict[str, Any]) -> None:
    server = Server(granted=lasts)
    async with asking(server, oauth2) as client:
        await client.ask("GET", "a")
        server.revoke()
        assert await client.ask("GET", "a") == {"well": True}
        assert server.shown == ["Bearer t1", "Bearer t1", "Bearer t2"]


async def test_who_are_refused_together_log_in_once() -> None:
    server = Server()
    async with asking(server, oauth2) as client:
        await client.ask("GET", "a")
        server.revoke()
        await asyncio.gather(*(client.ask("GET", "a") for _ in range(8)))
        assert len(server.logins) == 2


async def test_who_is_refused_with_a_new_token_is_refused() -> None:
    server = Server()

    async def never(request: web.Request) -> web.Response:
        server.shown.append("")
        return web.json_response({"type": "Unauthorized", "message": "no"}, status=401)

    server.ask = never  # type: ignore[method-assign]
    async with asking(server, oauth2) as client:
        with pytest.raises(CatalogError, match="no"):
            await client.ask("GET", "a")
        assert (len(server.shown), len(server.logins)) == (2, 2)


async def test_a_rotated_credential_is_read_for_the_next_login(tmp_path: Path) -> None:
    server, secret = Server(), tmp_path / "secret"
    secret.write_text("me:hush\n")
    read = Secret(file=secret)
    async with asking(server, lambda: RestLogin(token_url="login", credential=read.reveal())) as client:
        await client.ask("GET", "a")
        server.secret = "new"
        secret.write_text("me:new\n")
        server.revoke()
        await client.ask("GET", "a")
        assert [one["client_secret"] for one in server.logins] == ["hush", "new"]
        secret.unlink()
        server.revoke()
        with pytest.raises(Faults, match="cannot be read"):
            await client.ask("GET", "a")


async def test_an_address_of_a_login_is_one_however_its_scheme_is_written() -> None:
    """Taken for a path, it would be the server of the catalog that is shown the secret."""
    server = Server()
    async with asking(
        server, lambda: RestLogin(token_url=f"HTTP{server.url[4:]}/login", credential="me:hush")
    ) as client:
        await client.ask("GET", "a")
    assert [one["path"] for one in server.logins] == ["/login"]


@pytest.mark.parametrize("how", ["bearer", "basic"])
async def test_a_rotated_token_or_password_is_read_when_the_old_one_is_refused(how: str) -> None:
    server, now = Server(), ["old"]
    shown = {"bearer": "Bearer {}", "basic": "Basic {}"}[how]
    encoded = {"old": "bTpvbGQ=", "new": "bTpuZXc="} if how == "basic" else {"old": "old", "new": "new"}

    def login() -> RestLogin:
        return RestLogin(token=now[0]) if how == "bearer" else RestLogin(user="m", password=now[0])

    server.wanted = shown.format(encoded["old"])
    async with asking(server, login) as client:
        await client.ask("GET", "a")
        server.wanted = shown.format(encoded["new"])
        with pytest.raises(CatalogError):
            await client.ask("GET", "a")
        assert len(server.shown) == 2  # nothing else is known: it is not asked again
        now[0] = "new"
        assert await client.ask("GET", "a") == {"well": True}
        assert server.shown[-1] == shown.format(encoded["new"])


def entry(url: str, **parameters: str | Secret) -> CatalogEntry:
    given = {"type": "rest", "uri": url, **{k.replace("_", "-"): v for k, v in parameters.items()}}
    return CatalogEntry(name="ice", catalog=CatalogConnection(type="iceberg", connection_params=given))


async def test_what_icebergs_client_takes_is_taken(tmp_path: Path) -> None:
    """A relative address of the login, `header.*`, `audience`, and a scope that is `catalog` by itself."""
    credential = tmp_path / "credential"
    credential.write_text("me:hush")
    double = Double(databases={"a": {}, "a.b": {}}, secret="hush")
    double.wished = {"x-warehouse": "eu"}
    async with serving(double, iceberg(double)):
        made = entry(
            f"{double.url}",
            oauth2_server_uri="v1/oauth/tokens",
            credential=Secret(file=credential),
            audience="lake",
            **{"header.X-Warehouse": "eu"},
        )
        opened = open_catalog(made)
        assert opened is not None
        async with opened as catalog:
            assert list(await catalog.databases()) == ["a", "a.b"]
    assert double.forms == [
        {
            "grant_type": "client_credentials",
            "client_id": "me",
            "client_secret": "hush",
            "scope": "catalog",
            "audience": "lake",
        }
    ]


async def test_an_address_of_a_login_alone_is_none() -> None:
    double = Double(databases={"a": {}})
    async with serving(double, iceberg(double)):
        opened = open_catalog(entry(double.url, oauth2_server_uri=f"{double.url}/nowhere"))
        assert opened is not None
        async with opened as catalog:
            assert list(await catalog.databases()) == ["a"]


async def test_the_servers_configuration_counts() -> None:
    """It says what stands between the levels of a namespace, which headers it wants, and where it is."""
    double = Double(databases={"a": {"t": "table"}, "a.b": {"t": "table"}}, separator=".")
    other = Double(databases={"there": {}})
    other.wished = {"x-tenant": "ours", "x-zone": "b"}
    async with serving(double, iceberg(double)), serving(other, iceberg(other)):
        double.overrides = {"namespace-separator": "%2E"}
        async with IcebergRestCatalog(double.url, login=RestLogin) as catalog:
            assert list(await catalog.databases()) == ["a", "a.b"]
            assert list(await catalog.tables("a.b")) == ["t"]
        double.overrides = {"uri": other.url, "header.X-Tenant": "ours"}
        double.defaults = {"header.x-tenant": "usual", "header.x-zone": "a"}

        def login() -> RestLogin:
            return RestLogin(headers={"X-Zone": "b"})

        async with IcebergRestCatalog(double.url, login=login) as catalog:
            assert list(await catalog.databases()) == ["there"]
        for nowhere in ("ftp://x", "there", ""):
            double.overrides = {"uri": nowhere}
            with pytest.raises(CatalogUnavailable, match="invalid address"):
                async with IcebergRestCatalog(double.url, login=RestLogin):
                    pass


def test_what_was_encrypted_stays_so() -> None:
    client = RestClient("https://lake/x", RestLogin, told=error)
    with pytest.raises(CatalogUnavailable, match="unencrypted"):
        client.move("http://lake/x")


@pytest.mark.parametrize("status", [400, 404, 405, 406, 501, 0])
async def test_a_server_without_views_has_none(status: int) -> None:
    """It says so by a status, or (0) by the list of its routes."""
    double = Double(databases={"d": {"t": "table"}}, without_views=status or 500)
    double.endpoints = ["GET /v1/{prefix}/namespaces/{namespace}/tables"] if not status else []
    async with serving(double, iceberg(double)), IcebergRestCatalog(double.url, login=RestLogin) as catalog:
        assert list(await catalog.views("d")) == []
        assert (await catalog.table("d", "t")).name == "t"
        with pytest.raises(NoSuchTable):
            await catalog.table("d", "v")


async def test_a_server_whose_views_fail_is_told() -> None:
    double = Double(databases={"d": {}}, without_views=500)
    async with serving(double, iceberg(double)), IcebergRestCatalog(double.url, login=RestLogin) as catalog:
        with pytest.raises(CatalogUnavailable, match="status 500"):
            await catalog.views("d")
