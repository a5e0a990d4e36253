"""What somebody has typed into a form is not lost when it cannot be taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gateway.console import forms
from tests.console.doors import DOORS, PARTS
from tests.console.fakes import PASSWORDS, Browser, FakeConsole, as_user, serving

ASK = next(one for one in DOORS if one.is_form and one.used.name == "ask_access")
REASON = "the customer <b>waits</b>\r\nsince Monday & longer"
SHOWN = "the customer &lt;b&gt;waits&lt;/b&gt;\r\nsince Monday &amp; longer</textarea>"


@pytest_asyncio.fixture
async def console() -> AsyncIterator[FakeConsole]:
    yield FakeConsole(PARTS)


@pytest_asyncio.fixture
async def browser(console: FakeConsole) -> AsyncIterator[Browser]:
    async with serving(console) as found:
        yield found


async def send(somebody: Browser, csrf: str, **headers: str) -> tuple[int, str]:
    given = ASK.given(csrf)["data"] | {"reason": REASON}
    came_from = f"{somebody.url}/console/requests/new?table=hr.employee"
    status, page, answered = await somebody.ask(
        "POST", ASK.path, data=given, headers={"Referer": came_from, **headers}
    )
    assert "no-store" in answered["Cache-Control"]
    return status, page


async def test_a_login_that_ends_in_the_middle_of_a_form_leaves_what_was_typed(
    console: FakeConsole, browser: Browser
) -> None:
    somebody = await as_user(console, browser, "cleo")
    csrf = somebody.csrf
    console.sessions.kept.clear()
    status, page = await send(somebody, csrf)
    assert status == 401
    assert SHOWN in page
    assert csrf not in page, "the token is nobody's to copy"
    assert 'href="/console/login?next=%2Fconsole%2Frequests%2Fnew%3Ftable%3Dhr.employee" target=' in page


async def test_a_form_of_another_session_is_not_taken_and_not_lost(
    console: FakeConsole, browser: Browser
) -> None:
    """As when somebody has logged in again in another window."""
    before, now = await as_user(console, browser, "cleo"), await as_user(console, browser, "cleo")
    status, page = await send(now, before.csrf)
    assert (status, SHOWN in page) == (403, True)
    assert 'href="/console/requests/new?table=hr.employee" target=' in page
    assert console.recorded == []


async def test_what_the_disk_does_not_take_is_not_lost(console: FakeConsole, browser: Browser) -> None:
    somebody = await as_user(console, browser, "cleo")
    console.ledger_is_away = True
    status, page = await send(somebody, somebody.csrf)
    assert (status, SHOWN in page) == (503, True)


async def test_what_another_site_sends_is_not_shown(console: FakeConsole, browser: Browser) -> None:
    somebody = await as_user(console, browser, "cleo")
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
        status, page = await send(somebody, somebody.csrf, **headers)
        assert status in (403, 421)
        assert "waits" not in page


async def test_a_password_is_shown_nowhere(console: FakeConsole, browser: Browser) -> None:
    form = {"password": "geheim", "user": "cleo", "csrf": "x"}
    _, page, _ = await browser.ask("POST", "/console/logout", data=form)
    assert "geheim" not in page
    somebody = await as_user(console, browser, "cleo")
    status, page, _ = await somebody.ask("POST", "/console/logout", data=form)
    assert status == 403
    assert "geheim" not in page


async def test_where_somebody_came_from_is_a_page_of_ours(console: FakeConsole, browser: Browser) -> None:
    somebody = await as_user(console, browser, "cleo")
    for other in ("https://evil.example/console/requests/new", "http://[", f"{browser.url}/elsewhere"):
        _, page = await send(somebody, "", Referer=other)
        assert "evil" not in page
        assert "Back to the page with the form" not in page


async def test_a_page_that_cannot_be_shown_now_is_tried_again(console: FakeConsole, browser: Browser) -> None:
    somebody = await as_user(console, browser, "ann")
    console.ledger_is_away = True
    status, page, _ = await somebody.ask("GET", "/console/record?user=ben")
    assert status == 503
    assert 'href="/console/record?user=ben">Try again</a>' in page


async def test_while_postgresql_is_away_pages_say_so_and_are_tried_again(
    console: FakeConsole, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logins and the record are there; whoever was about to log in finds no password of his on the page."""

    async def refuse(*_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    somebody = await as_user(console, browser, "cleo")
    _, page, headers = await browser.ask("GET", "/console/login")
    before = headers["Set-Cookie"].split(";")[0]
    token = page.split('name="csrf" value="')[1].split('"')[0]
    monkeypatch.setattr(console.sessions, "find", refuse)
    monkeypatch.setattr(console.sessions, "open", refuse)
    status, page, _ = await somebody.ask("GET", "/console/mine")
    assert (status, "the database of the gateways is not available" in page) == (503, True)
    assert 'href="/console/mine">Try again</a>' in page
    status, page = await send(somebody, somebody.csrf)
    assert (status, SHOWN in page) == (503, True)
    form = {"user": "cleo", "password": PASSWORDS["cleo"], "csrf": token, "next": "/console/mine"}
    status, page, _ = await browser.ask("POST", "/console/login", data=form, headers={"Cookie": before})
    assert (status, PASSWORDS["cleo"] in page) == (503, False)


async def test_a_refused_form_that_does_not_come_keeps_nobody(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "MAX_REFUSED_S", 0.05)
    address = urlsplit(browser.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(
        f"POST {ASK.path} HTTP/1.1\r\nHost: {address.netloc}\r\nSec-Fetch-Site: same-origin\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n"
        "reason=unfinished".encode()
    )
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401 "), answer
    assert b"unfinished" not in await reader.readuntil(b"</html>")
    writer.close()
