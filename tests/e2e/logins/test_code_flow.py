"""The console logs in at a real provider of OpenID Connect, by the code flow with PKCE: what others have
written of it, the provider holds it to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer

from gateway.app.console import make_oidc
from gateway.console.login_sessions import ConsoleSession
from gateway.console.oidc import OidcClient
from gateway.errors import AuthenticationFailed
from gateway.frontends.jwt_logins import JwtLogins, JwtRules, TokenRefused
from gateway.model.credentials import Bearer, Password
from gateway.model.principal import Principal
from gateway.settings.console import ConsoleSettings
from gateway.settings.logins import JwtSettings
from tests.console.fakes import FakeConsole
from tests.e2e.logins.directories import free_port
from tests.e2e.running import until
from tests.speed import patience

pytestmark = pytest.mark.logins
SECRET = "a+b/c%41=d e:f"
"""Of signs that mean something in a form and in HTTP Basic."""
MODULES = Path(__file__).parents[1] / "npm" / "package.json"


class Provider:
    """The provider, and the console's address that it leads back to."""

    def __init__(self) -> None:
        self.port, self.console = free_port(), free_port()
        command = ["node", str(Path(__file__).with_name("provider.mjs")), str(self.port)]
        back = f"http://localhost:{self.console}/console/login/oidc/back"
        self.process = subprocess.Popen([*command, back, SECRET, str(MODULES)], stderr=subprocess.DEVNULL)

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.port}"

    def client(self, *, secret: str = SECRET) -> OidcClient:
        console = ConsoleSettings.model_validate(
            {
                "public_url": f"http://localhost:{self.console}",
                "oidc": {"client_id": "sluice", "client_secret": {"command": ["printf", "%s", secret]}},
            }
        )
        made = make_oidc(console, JwtSettings(issuer=self.issuer, audiences=("sluice",)))
        assert made is not None
        return made


class Console(FakeConsole):
    """The console with logins by the provider's keys."""

    def __init__(self, provider: Provider, client: OidcClient) -> None:
        super().__init__([], oidc=client)
        self.tokens = JwtLogins(JwtRules(issuer=provider.issuer, audiences=("sluice",)))

    async def _log_in(self, shown: Password | Bearer, address: str) -> tuple[Principal, str]:
        assert isinstance(shown, Bearer)
        try:
            return await self.tokens.check(shown.secret), "issuer"
        except TokenRefused as refused:
            raise AuthenticationFailed(str(refused)) from None

    async def _confirm(self, session: ConsoleSession) -> Principal | None:
        return session.principal


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()

    def answers() -> bool:
        assert made.process.poll() is None, "the provider has ended"
        try:
            with urlopen(f"{made.issuer}/jwks", timeout=5) as found:
                return bool(found.read())
        except OSError:
            return False

    until(answers, "the provider answers")
    yield made
    made.process.kill()
    made.process.wait()


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.CookieJar(unsafe=True), timeout=aiohttp.ClientTimeout(patience(60))
    ) as made:
        yield made


async def log_in(
    browser: aiohttp.ClientSession, provider: Provider, name: str, **asked: str
) -> tuple[str, str]:
    """Go from the console's page to the provider, log in and agree there, and come back; return where to, and
    the page."""
    answer = await browser.get(f"http://localhost:{provider.console}/console/login/oidc", params=asked)
    for given in ({"prompt": "login", "login": name, "password": "any"}, {"prompt": "consent"}):
        page = await answer.text()
        assert answer.url.port == provider.port, page
        action = re.search(r'action="([^"]+)"', page)
        assert action is not None, page
        answer = await browser.post(answer.url.join(type(answer.url)(action[1])), data=given)
    return str(answer.url.relative()), await answer.text()


async def test_somebody_logs_in_at_the_provider_and_comes_back(
    provider: Provider, browser: aiohttp.ClientSession
) -> None:
    console = Console(provider, provider.client())
    server = TestServer(console.app(), port=provider.console)
    await server.start_server()
    try:
        where, page = await log_in(browser, provider, "eva", next="/console/static/none")
        assert where == "/console/static/none", page
        [session] = console.sessions.kept.values()
        assert session.principal.user == "eva"
        assert session.principal.groups == {"analysts"}
        # The code of before is worth nothing, in this browser or another.
        back = f"http://localhost:{provider.console}/console/login/oidc/back"
        async with browser.get(back, params={"code": "x", "state": "y"}) as again:
            assert "The login failed" in await again.text()
    finally:
        await server.close()
        console.tokens.close()


async def test_a_wrong_secret_of_the_client_logs_nobody_in(
    provider: Provider, browser: aiohttp.ClientSession
) -> None:
    console = Console(provider, provider.client(secret="another"))
    server = TestServer(console.app(), port=provider.console)
    await server.start_server()
    try:
        _, page = await log_in(browser, provider, "eva")
        assert "The login failed: the provider answers 401 to the code" in page
        assert not console.sessions.kept
    finally:
        await server.close()
        console.tokens.close()
