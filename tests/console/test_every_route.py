"""Each route, page, form, stream and download that the console has keeps its rule: the list is the console's
own, so that a new one is tried as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
import pytest_asyncio
import structlog

from gateway.console.guards import HEADERS
from gateway.console.routes import ConsoleStream, Recorded, Who
from tests.console.doors import DOORS, PARTS, Door
from tests.console.fakes import Browser, FakeConsole, as_user, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


console: FakeConsole
Try = Callable[[Browser, Door], Awaitable[None]]


def of_every(doors: Sequence[Door]) -> Callable[[Try], Callable[[Browser], Awaitable[None]]]:
    """Have a test tried at each door, and tell all that fail: a test for each of them would cost a hundred
    times the requests."""

    def decorate(test: Try) -> Callable[[Browser], Awaitable[None]]:
        async def every(nobody: Browser) -> None:
            # What is behind the doors is not there, and would log that at length.
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
            wrong = []
            for door in doors:
                try:
                    await test(nobody, door)
                except AssertionError as fault:
                    wrong.append(f"{door}: {fault}")
            assert not wrong, "\n".join(wrong)

        every.__doc__, every.__name__ = test.__doc__, test.__name__
        return every

    return decorate


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nobody() -> AsyncIterator[Browser]:
    """A browser in which nobody is logged in, at a console whose functions answer nothing."""
    global console
    console = FakeConsole(PARTS)
    console.site._rate.take = lambda user: None  # type: ignore[method-assign]  # tests are many and fast
    async with serving(console) as browser:
        yield browser


@of_every(DOORS)
async def test_nobody_gets_in_without_a_login(nobody: Browser, door: Door) -> None:
    status, _, headers = await nobody.ask(door.method, door.path, **door.given(""))
    if door.is_page and door.method == "GET":
        assert (status, headers["Location"].split("?")[0]) == (303, "/console/login")
    else:
        assert status == 401
        assert "WWW-Authenticate" not in headers, "the browser would ask for a password by itself"
    _safe(headers)


@of_every(DOORS)
async def test_other_sites_get_nothing(nobody: Browser, door: Door) -> None:
    somebody = await as_user(console, nobody, "ann")
    given = door.given(somebody.csrf)
    # All ways at each door would take long: the first everywhere, the others in turns.
    others = (
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    )
    for headers in ({"Sec-Fetch-Site": "cross-site"}, others[len(str(door)) % len(others)]):
        sent = {**given, "headers": {**given.get("headers", {}), **headers}}
        before = len(console.recorded)
        status, _, answered = await somebody.ask(door.method, door.path, **sent)
        assert (status, len(console.recorded)) == (403, before), headers
        _safe(answered)


@of_every(DOORS)
async def test_another_name_of_the_host_gets_nothing(nobody: Browser, door: Door) -> None:
    somebody = await as_user(console, nobody, "ann")
    given = door.given(somebody.csrf)
    others = ("localhost.evil.example:80", "evil.example@localhost", "127.0.0.1.nip.io")
    for host in ("evil.example", others[len(str(door)) % len(others)]):
        sent = {**given, "headers": {**given.get("headers", {}), "Host": host}}
        assert (await somebody.ask(door.method, door.path, **sent))[0] == 421, host


@of_every([one for one in DOORS if one.changes])
async def test_nothing_is_changed_without_the_sessions_own_token(nobody: Browser, door: Door) -> None:
    somebody, other = await as_user(console, nobody, "ann"), await as_user(console, nobody, "ben")
    before = len(console.recorded)
    for token in ("", other.csrf):
        status, _, _ = await somebody.ask(door.method, door.path, **door.given(token))
        assert status == 403, token
    assert len(console.recorded) == before


@of_every([one for one in DOORS if one.method in ("POST", "PUT")])
async def test_a_form_of_another_site_is_no_body_of_the_api(nobody: Browser, door: Door) -> None:
    """What a page can have a browser send without asking first: forms, and text."""
    if door.is_form:
        return
    somebody = await as_user(console, nobody, "ann")
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"X-CSRF-Token": somebody.csrf, "Content-Type": kind}
        assert (await somebody.ask(door.method, door.path, data="{}", headers=headers))[0] == 400


@of_every(DOORS)
async def test_only_those_with_the_role_get_in_and_both_are_recorded(nobody: Browser, door: Door) -> None:
    lower = {Who.LOGGED_IN: (), Who.AUDITOR: ("cleo",), Who.ADMINISTRATOR: ("cleo", "ben", "dora")}
    for name in lower[door.used.who]:
        somebody = await as_user(console, nobody, name)
        before = len(console.recorded)
        status, _, headers = await somebody.ask(door.method, door.path, **door.given(somebody.csrf))
        assert status == 403
        assert [one[:2] + one[3:] for one in console.recorded[before:]] == [(name, door.used.name, False)]
        _safe(headers)
    if isinstance(door.used, ConsoleStream):
        return  # it goes on
    who = {Who.LOGGED_IN: "cleo", Who.AUDITOR: "ben", Who.ADMINISTRATOR: "ann"}[door.used.who]
    somebody = await as_user(console, nobody, who)
    before = len(console.recorded)
    console.site._recorded.clear()
    status, _, headers = await somebody.ask(door.method, door.path, **door.given(somebody.csrf))
    assert status not in (401, 403), "the functions behind it answer nothing, but it was let in"
    _safe(headers)
    told = [one[:2] + one[3:] for one in console.recorded[before:]]
    is_told = door.used.recorded is not Recorded.NEVER
    assert told[:1] == ([(who, door.used.name, True)] if is_told else [])
    # That nothing came of it is on record, too.
    is_refused = door.used.recorded is Recorded.EACH and status in (400, 404, 409)
    assert told[1:] == ([(who, door.used.name, False)] if is_refused else [])


@of_every(DOORS)
async def test_nothing_is_answered_that_cannot_be_recorded(nobody: Browser, door: Door) -> None:
    if door.used.recorded is Recorded.NEVER or isinstance(door.used, ConsoleStream):
        return
    somebody = await as_user(console, nobody, "ann")
    console.site._recorded.clear()
    console.ledger_is_away = True
    try:
        status, _, _ = await somebody.ask(door.method, door.path, **door.given(somebody.csrf))
    finally:
        console.ledger_is_away = False
    assert status == 503


@of_every(DOORS)
async def test_who_was_removed_is_out_at_once(nobody: Browser, door: Door) -> None:
    somebody = await as_user(console, nobody, "ann")
    console.people.discard("ann")
    try:
        status, _, _ = await somebody.ask(door.method, door.path, **door.given(somebody.csrf))
    finally:
        console.people.add("ann")
    assert status == (303 if door.is_page and not door.is_form else 401)


async def test_only_known_methods_and_paths_are_answered(nobody: Browser) -> None:
    somebody = await as_user(console, nobody, "ann")
    for method, path in (
        ("PUT", "/console/events"),
        ("GET", "/console/nothing"),
        ("TRACE", "/api/v1/events"),
    ):
        status, _, headers = await somebody.ask(method, path)
        assert status in (404, 405)
        _safe(headers)


def _safe(headers: Any) -> None:
    """What every answer has, whatever it is."""
    assert {name: headers.get(name) for name in HEADERS} == HEADERS
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] in ("no-store", "private, no-cache")
