"""Logins to the console: by the form and by a provider of tokens, and what nobody can make of them."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import pytest_asyncio

from gateway.console.login_sessions import derive, is_secret, key_of, new_secret
from gateway.console.oidc import OidcClient, OidcRefused
from tests.console.fakes import PASSWORDS, Browser, FakeConsole, as_user, serving

ISSUER = "https://id.example"


class Provider:
    """A provider of tokens: it says what it was asked, and answers with the claims that a test gives it."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.document: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
        }

    async def fetch(self, url: str) -> Any:
        assert url == f"{ISSUER}/.well-known/openid-configuration"
        return self.document

    async def post(self, url: str, form: Mapping[str, str], login: tuple[str, str] | None) -> Any:
        self.asked = {"url": url, "login": login, **form}
        return {"id_token": jwt.encode(self.claims, "k" * 32, algorithm="HS256")}


@pytest.fixture
def provider() -> Iterator[Provider]:
    yield Provider()  # noqa: PT022 - made anew for each test, also where rules are taken out


@pytest.fixture
def console(provider: Provider) -> Iterator[FakeConsole]:
    client = OidcClient(
        issuer=ISSUER,
        client_id="sluice",
        client_secret="hush",
        redirect="https://console.example/console/login/oidc/back",
        scopes=("openid", "profile"),
        name="Example",
        fetch=provider.fetch,
        post=provider.post,
    )
    yield FakeConsole([], oidc=client)  # noqa: PT022 - as above


@pytest_asyncio.fixture
async def browser(console: FakeConsole) -> AsyncIterator[Browser]:
    async with serving(console) as found:
        yield found


def cookies(headers: Any) -> dict[str, str]:
    """Return the cookies that an answer sets, each with what else it says of them."""
    return {name: rest for name, _, rest in (one.partition("=") for one in headers.getall("Set-Cookie", []))}


async def log_in(
    browser: Browser, user: str, password: str, *, following: str = "", **changes: str
) -> tuple[int, str, Any]:
    """Open the login page and send its form."""
    _, page, headers = await browser.ask("GET", "/console/login")
    before = cookies(headers)["sluice-login"].split(";")[0]
    token = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert token is not None
    form = {"user": user, "password": password, "csrf": token[1], "next": following, **changes}
    sent = changes.pop("cookie", before)
    return await browser.ask(
        "POST", "/console/login", data=form, headers={"Cookie": f"sluice-login={sent}; other=1"}
    )


async def test_somebody_logs_in_and_out(console: FakeConsole, browser: Browser) -> None:
    status, _, headers = await log_in(browser, "ann", PASSWORDS["ann"])
    assert (status, headers["Location"]) == (303, "/console/")
    cookie = cookies(headers)["sluice-console"]
    secret = cookie.split(";")[0]
    assert is_secret(secret)
    assert {"HttpOnly", "Path=/", "SameSite=Lax"} <= {one.strip() for one in cookie.split(";")}
    assert secret not in repr(console.sessions.kept), "who reads the table is nobody"
    ann = Browser(browser.http, browser.url, secret)
    assert (await ann.ask("GET", "/console/login"))[0] == 303, "logged in already"
    assert (await ann.ask("POST", "/console/logout", data={"csrf": "0" * 64}))[0] == 403
    assert len(console.sessions.kept) == 1, "another site logs nobody out"
    assert (await ann.ask("POST", "/console/logout", data={"csrf": ann.csrf}))[0] == 303
    assert console.sessions.kept == {}
    assert (await ann.ask("GET", "/api/v1/openapi.json"))[0] == 401


async def test_over_tls_the_cookie_is_bound_to_the_host() -> None:
    console = FakeConsole([], secure=True)
    async with serving(console) as browser:
        _, _, headers = await browser.ask("GET", "/console/login")
        ((name, cookie),) = cookies(headers).items()
        assert name == "__Host-sluice-login"
        assert {"Secure", "Path=/"} <= {one.strip() for one in cookie.split(";")}
        assert "Domain" not in cookie
        assert console.login.cookie == "__Host-sluice-console"


@pytest.mark.parametrize(
    ("user", "password"),
    [("ann", "wrong"), ("nobody", "x"), ("", ""), ("a" * 300, "x"), ("ann", "x" * 20_000)],
)
async def test_what_is_wrong_opens_nothing_and_is_not_told_apart(
    console: FakeConsole, browser: Browser, user: str, password: str
) -> None:
    status, page, headers = await log_in(browser, user, password)
    assert status == 401
    assert "The user name or the password is wrong" in page
    assert "sluice-console" not in cookies(headers)
    assert console.sessions.kept == {}
    assert password != "wrong" or f'value="{password}"' not in page


async def test_a_login_that_another_site_began_is_none(console: FakeConsole, browser: Browser) -> None:
    """Whoever gets a victim logged in as himself sees what the victim then does."""
    for token, before in (
        ("0" * 64, new_secret()),
        ("", new_secret()),
        (derive(new_secret(), "login"), new_secret()),
        (derive("x", "login"), "x"),
    ):
        form = {"user": "ann", "password": PASSWORDS["ann"], "csrf": token}
        headers = {"Cookie": f"sluice-login={before}"}
        status, _, _ = await browser.ask("POST", "/console/login", data=form, headers=headers)
        assert status == 401
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert (await browser.ask("POST", "/console/login", data={}, headers=cross))[0] == 403
    assert console.sessions.kept == {}


async def test_a_session_from_before_the_login_is_not_taken_over(
    console: FakeConsole, browser: Browser
) -> None:
    """Session fixation: what somebody has planted in a browser is not what it is logged in by."""
    planted = await console.open_session("cleo")
    _, page, headers = await browser.ask("GET", "/console/login")
    before = cookies(headers)["sluice-login"].split(";")[0]
    token = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert token is not None
    form = {"user": "ann", "password": PASSWORDS["ann"], "csrf": token[1]}
    both = {"Cookie": f"sluice-login={before}; sluice-console={planted}"}
    _, _, answered = await browser.ask("POST", "/console/login", data=form, headers=both)
    secret = cookies(answered)["sluice-console"].split(";")[0]
    assert secret != planted
    assert list(console.sessions.kept) == [key_of(secret)], "the planted one has ended"


@pytest.mark.parametrize(
    ("following", "leads_to"),
    [
        ("/console/events?event=1", "/console/events?event=1"),
        ("https://evil.example/console/", "/console/"),
        ("//evil.example/console/", "/console/"),
        ("/console/\\..\\..\\evil", "/console/"),
        ("/console/\r\nSet-Cookie: a=b", "/console/"),
        ("/console/#javascript:alert(1)", "/console/"),
        ("javascript:alert(1)", "/console/"),
        ("/healthz", "/console/"),
        ("/console/logout", "/console/"),
        ("/console", "/console/"),
    ],
)
async def test_a_login_leads_to_a_page_of_ours_alone(
    console: FakeConsole, browser: Browser, following: str, leads_to: str
) -> None:
    _, _, headers = await log_in(browser, "ann", PASSWORDS["ann"], following=following)
    assert headers["Location"] == leads_to


async def test_what_looks_like_no_cookie_of_ours_is_not_looked_up(
    console: FakeConsole, browser: Browser
) -> None:
    async def fail(key: bytes) -> None:
        raise AssertionError("the table was asked")

    console.sessions.find = fail  # type: ignore[method-assign]
    for secret in ("", "x", "x" * 44, "é" * 43, "a b" * 14 + "a"):
        assert (await Browser(browser.http, browser.url, secret).ask("GET", "/console/login"))[0] == 200


async def test_passwords_of_a_request_are_for_the_api_alone(console: FakeConsole, browser: Browser) -> None:
    import base64

    shown = "Basic " + base64.b64encode(f"ann:{PASSWORDS['ann']}".encode()).decode()
    headers = {"Authorization": shown}
    assert (await browser.ask("GET", "/api/v1/openapi.json", headers=headers))[0] == 200
    assert (await browser.ask("GET", "/console/", headers=headers))[0] == 303, "to the login"


# -- the provider of tokens ----------------------------------------------------------------------------------


async def begin(browser: Browser, following: str = "") -> tuple[str, dict[str, str]]:
    """Begin a login there; return the cookie and what the provider is asked."""
    status, _, headers = await browser.ask("GET", "/console/login/oidc", params={"next": following})
    assert status == 303
    asked = urlsplit(headers["Location"])
    assert asked._replace(query="").geturl() == f"{ISSUER}/authorize"
    found = {name: values[0] for name, values in parse_qs(asked.query).items()}
    return cookies(headers)["sluice-login"].split(";")[0], found


async def end(browser: Browser, secret: str, **given: str) -> tuple[int, str, Any]:
    headers = {
        "Cookie": f"sluice-login={secret}",
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    return await browser.ask("GET", "/console/login/oidc/back", params=given, headers=headers)


async def test_somebody_logs_in_at_the_provider(
    console: FakeConsole, browser: Browser, provider: Provider
) -> None:
    secret, asked = await begin(browser, "/console/events?event=7")
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == "https://console.example/console/login/oidc/back"
    assert secret not in str(asked)
    provider.claims = {"aud": "sluice", "nonce": asked["nonce"], "exp": time.time() + 60}
    status, _, headers = await end(browser, secret, code="abc", state=asked["state"], iss=ISSUER)
    assert (status, headers["Location"]) == (303, "/console/events?event=7")
    (session,) = console.sessions.kept.values()
    assert session.principal.user == "cleo"
    challenge = provider.asked["code_verifier"]
    assert len(challenge) >= 43
    assert provider.asked["login"] == ("sluice", "hush")
    assert provider.asked["redirect_uri"] == asked["redirect_uri"]


@pytest.mark.parametrize(
    ("given", "claims"),
    [
        ({"state": "0" * 64 + "."}, {}),
        ({"state": ""}, {}),
        ({"iss": "https://evil.example"}, {}),
        ({"error": "access_denied"}, {}),
        ({"code": ""}, {}),
        ({}, {"nonce": "0" * 64}),
        ({}, {"nonce": None}),
        ({}, {"aud": "other"}),
        ({}, {"aud": ["sluice", "other"], "azp": "other"}),
    ],
)
async def test_an_answer_that_is_not_to_this_login_opens_nothing(
    console: FakeConsole,
    browser: Browser,
    provider: Provider,
    given: dict[str, str],
    claims: dict[str, Any],
) -> None:
    secret, asked = await begin(browser)
    provider.claims = {"aud": "sluice", "nonce": asked["nonce"], **claims}
    sent = {"code": "abc", "state": asked["state"], **given}
    status, page, _ = await end(browser, secret, **sent)
    assert (status, "The login failed" in page) == (401, True)
    assert console.sessions.kept == {}


async def test_a_code_of_another_browser_is_of_no_use(
    console: FakeConsole, browser: Browser, provider: Provider
) -> None:
    """Login CSRF: an attacker's code and state in a victim's browser."""
    _, asked = await begin(browser)
    provider.claims = {"aud": "sluice", "nonce": asked["nonce"]}
    for other in (new_secret(), "", "x"):
        assert (await end(browser, other, code="abc", state=asked["state"]))[0] == 401
    assert console.sessions.kept == {}


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://id.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": None},
    ],
)
async def test_a_provider_whose_document_is_wrong_is_not_asked(
    browser: Browser, provider: Provider, change: dict[str, Any]
) -> None:
    provider.document |= change
    status, _, headers = await browser.ask("GET", "/console/login/oidc")
    if status == 303:
        with pytest.raises(OidcRefused):
            raise OidcRefused(await _ended(browser, headers))
    assert status in (303, 401)


async def _ended(browser: Browser, headers: Any) -> str:
    asked = parse_qs(urlsplit(headers["Location"]).query)
    secret = cookies(headers)["sluice-login"].split(";")[0]
    status, page, _ = await end(browser, secret, code="abc", state=asked["state"][0])
    assert status == 401
    return page


async def test_nobody_is_asked_to_frame_or_cache_a_login(browser: Browser) -> None:
    _, _, headers = await browser.ask("GET", "/console/login")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


async def test_sessions_of_one_person_are_ended_together(console: FakeConsole, browser: Browser) -> None:
    one, other = [await as_user(console, browser, "ann") for _ in range(2)]
    assert await console.sessions.close_others("ann", key_of(one.secret)) == 1
    assert (await other.ask("GET", "/api/v1/openapi.json"))[0] == 401
    assert (await one.ask("GET", "/api/v1/openapi.json"))[0] == 200
