"""The console in a browser: every page of the menu by keyboard and by mouse, in both themes and widths,
without a violation of axe-core's rules and without a complaint of the browser; and why carol was refused.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from pyhive.exc import OperationalError

from tests.e2e.browser.chromium import Page
from tests.e2e.browser.conftest import People
from tests.e2e.running import PASSWORDS, RunningGateway, connect

pytestmark = [pytest.mark.console, pytest.mark.asyncio(loop_scope="session")]
DOCS = Path(__file__).parents[3] / "docs" / "pictures"
LOOKS = ((1440, "light"), (1440, "dark"), (360, "light"), (360, "dark"))
_MENU = "[...document.querySelectorAll('.top nav a')].map(one => one.getAttribute('href'))"
_CURRENT = "document.querySelector('.top nav a[aria-current]').getAttribute('href')"
_NEWEST = "document.querySelector('a[href^=\"/console/events/\"]')?.getAttribute('href') ?? ''"
_MARKED = "[...document.querySelectorAll('.split figure:last-child mark')].map(m => m.innerText).join(' ')"
_TOO_WIDE = (
    "[...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, pre, svg'))"
    ".filter(one => one.getBoundingClientRect().right > innerWidth + 1)"
    ".map(one => one.outerHTML.slice(0, 120))"
)


async def check(page: Page) -> list[str]:
    """Return what is wrong with a page as it is shown now."""
    wrong = await page.violations()
    if await page.run("document.scrollingElement.scrollWidth > innerWidth"):
        wrong += [f"too wide: {one}" for one in await page.run(_TOO_WIDE)]
    return wrong


async def test_every_page_of_the_menu(people: People, pictures: Path) -> None:
    page = await people.page("dave")
    wrong: dict[str, list[str]] = {}
    for path in await page.run(_MENU):
        name = path.removeprefix("/console/").replace("/", "-")
        await page.look(1440)
        async with page.loading():
            await page.click(f".top nav a[href='{path}']")
        assert (await page.path()).split("?")[0] == path
        assert await page.run("document.querySelectorAll('h1').length") == 1
        assert await page.run(_CURRENT) == path
        for width, theme in LOOKS:
            await page.look(width, theme)  # type: ignore[arg-type]  # of LOOKS
            if found := await check(page):
                wrong[f"{path} {width} {theme}"] = found
            await page.picture(pictures / f"{name}-{width}-{theme}.png")
    assert not wrong, "\n".join(f"{where}: {one}" for where, found in wrong.items() for one in found)
    assert page.complaints == []


async def test_the_menu_by_the_keyboard(people: People) -> None:
    page = await people.page("dave")
    await page.look(1440)
    for path in await page.run(_MENU):
        await page.tab_to(f".top nav a[href='{path}']")
        async with page.loading():
            await page.press("Enter")
        assert (await page.path()).split("?")[0] == path
    await page.press("Tab")
    assert await page.run("document.activeElement.className") == "skip"
    await page.press("Enter")
    await page.press("Tab")
    assert await page.run("document.querySelector('main').contains(document.activeElement)")
    assert page.complaints == []


async def test_why_carol_was_refused(people: People, gateway: RunningGateway, pictures: Path) -> None:
    """She has the id from the error, and sees what she lacked; alice sees by which policies, and the
    literals."""
    statement = "SELECT name, salary FROM hr.employee WHERE name = 'Alice Smith <b>x</b>'"
    message = gateway.refusal("carol", statement)
    event = re.search(r"audit event ([0-9a-f-]{36})", message)
    assert event is not None, message
    carol = await people.page("carol")
    await carol.look(360)
    await carol.go("/console/events")
    await carol.tab_to("#f-event")
    await carol.type(event[1])
    async with carol.loading():
        await carol.press("Enter")
    told = await carol.text()
    assert "What was lacking" in told
    assert "Alice Smith <b>x</b>" in told, "her own words, as they were sent"
    assert "Decisions" not in told
    assert await check(carol) == []
    alice = await people.page("alice")
    await alice.look(1440)
    await alice.go(f"/console/events/{event[1]}")
    told = await alice.text()
    assert "Decisions" in told
    assert "denied" in told
    assert await check(alice) == []
    await alice.picture(pictures / "event.png")
    dave = await people.page("dave")
    await dave.go(f"/console/events/{event[1]}")
    assert "Alice Smith" not in await dave.text(), "he has not the role that sees texts"
    assert "name = ?" in await dave.text()
    bob = await people.page("bob")
    await bob.go(f"/console/events/{event[1]}")
    assert "there is no such event" in await bob.text()
    assert [one for page in (carol, alice, dave) for one in page.complaints] == []
    bob.complaints.clear()  # it says 404


async def test_a_statement_as_it_was_sent_and_forwarded(
    people: People, gateway: RunningGateway, pictures: Path
) -> None:
    gateway.query("bob", "SELECT name, email, region FROM sales.customer ORDER BY id LIMIT 2")
    bob, alice = await people.page("bob"), await people.page("alice")
    await bob.look(1440)

    async def newest() -> str:
        await bob.go("/console/mine")
        return str(await bob.run(_NEWEST))

    path = await newest()
    while "sales.customer" not in await bob.text():
        path = await newest()
    await alice.look(1440)
    await alice.go(path)
    marked = await alice.run(_MARKED)
    assert "region" in marked, "the row filter"
    assert "mask" in (await alice.text()).lower()
    assert await check(alice) == []
    await alice.picture(pictures / "forwarded.png")


async def test_who_has_not_the_role_has_not_the_page(people: People) -> None:
    carol = await people.page("carol")
    await carol.look(360)
    menu = await carol.run(_MENU)
    assert "/console/mine" in menu
    assert "/console/live" not in menu
    await carol.go("/console/live")
    assert "do not have the role" in await carol.text()
    assert await check(carol) == []
    carol.complaints.clear()  # it says 403


async def test_live_shows_and_ends_a_session(people: People, gateway: RunningGateway) -> None:
    """By the mouse, with the question whether he means it. Nobody else's tests have sessions of his."""
    dave = await people.page("dave")
    await dave.look(1440)
    client = connect(gateway.host, gateway.port, "dave", PASSWORDS["dave"])
    asked = "fetch('/api/v1/live?user=dave').then(r => r.json()).then(it => it.sessions.length)"
    try:
        while not await dave.run(asked):  # noqa: ASYNC110  what is shown is what was so a moment ago
            await asyncio.sleep(0.5)
        await dave.go("/console/live?user=dave")
        assert "dave" in await dave.text()
        await dave.run("window.confirm = question => { window.asked = question; return true; }")
        async with dave.loading():
            await dave.click("form[action='/console/live/end'] button")
        assert (await dave.path()) == "/console/live", await dave.text()
    finally:
        with suppress(OperationalError):  # its session is not there any more
            client.close()
    assert dave.complaints == []


async def test_pictures_of_the_documents(pictures: Path) -> None:
    """With SLUICE_PICTURES they are put there anew."""
    page = (DOCS.parent / "console.md").read_text()
    named = re.findall(r"pictures/([\w-]+\.png)", page)
    assert named
    for name in named:
        if os.environ.get("SLUICE_PICTURES"):
            shutil.copy(pictures / name, DOCS / name)
        assert (pictures / name).exists()
        assert (DOCS / name).exists()


async def test_logging_out(people: People) -> None:
    page = await people.page("carol")
    await page.go("/console/mine")
    async with page.loading():
        await page.click(".who button")
    assert await page.path() == "/console/login"
    assert await check(page) == []
    await page.go("/console/mine")
    assert (await page.path()).startswith("/console/login?next=")
