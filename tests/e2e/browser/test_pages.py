"""The console in a browser: the way through each page by mouse and by keyboard, in both themes and widths,
without a violation of axe-core's rules and without a complaint of the browser; and why carol was refused.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyhive.exc import OperationalError

from tests.e2e.browser.conftest import People
from tests.e2e.browser.walk import Hand, Walk, list_faults
from tests.e2e.running import PASSWORDS, RunningGateway, connect
from tests.shares import DAY

pytestmark = [pytest.mark.console, pytest.mark.asyncio(loop_scope="session")]
DOCS = Path(__file__).parents[3] / "docs" / "pictures"
_MENU = "[...document.querySelectorAll('.top nav a')].map(one => one.getAttribute('href'))"
_CURRENT = "document.querySelector('.top nav a[aria-current]')?.getAttribute('href')"
_NEWEST = "document.querySelector('a[href^=\"/console/events/\"]')?.getAttribute('href') ?? ''"
_MARKED = "[...document.querySelectorAll('.split figure:last-child mark')].map(m => m.innerText).join(' ')"
COPY = "sales.walk_copy"


@pytest.fixture(scope="module")
def copied(gateway: RunningGateway) -> Iterator[str]:
    """A table that another one feeds."""
    gateway.query("dave", f"CREATE TABLE {COPY} USING parquet AS SELECT id, name, card FROM sales.customer")
    yield COPY
    gateway.query("dave", f"DROP TABLE {COPY}")


async def begin(people: People, name: str, hand: Hand, pictures: Path) -> Walk:
    """Somebody goes on a way, and looks at each page closely, in today's looks."""
    return Walk(await people.page(name), hand, pictures)


def end(walk: Walk) -> None:
    assert walk.faults == []
    assert walk.page.complaints == []


async def test_the_menu(people: People, hand: Hand, pictures: Path) -> None:
    """Each page of it as it is before anything is asked."""
    walk = await begin(people, "dave", hand, pictures)
    for path in await walk.page.run(_MENU):
        name = await walk.page.run(f"document.querySelector('.top nav a[href=\"{path}\"]').innerText")
        await walk.menu(name)
        assert (await walk.page.path()).split("?")[0] == path
        assert await walk.page.run("document.querySelectorAll('h1').length") == 1
        assert await walk.page.run(_CURRENT) == path
        await walk.look(path.removeprefix("/console/").replace("/", "-"))
    end(walk)


async def test_the_first_tab_leads_to_the_content(people: People) -> None:
    page = await people.page("dave")
    await page.go("/console/overview")
    await page.press("Tab")
    assert await page.run("document.activeElement.className") == "skip"
    await page.press("Enter")
    await page.press("Tab")
    assert await page.run("document.querySelector('main').contains(document.activeElement)")
    assert page.complaints == []


async def test_policies(people: People, gateway: RunningGateway, hand: Hand, pictures: Path) -> None:
    walk = await begin(people, "dave", hand, pictures)
    await walk.menu("Policies")
    await walk.fill("#f-q", "card")
    await walk.enter()
    await walk.press("card numbers")
    await walk.look("policy", "Items", "Last used", "To change it")
    await walk.press("By resource")
    await walk.press("spark")
    await walk.look("policy-tree", "Resources that policies name")
    await walk.press("Who may do what")
    for name in ("spark", "spark_catalog", "sales"):
        await walk.press(name)
    await walk.look("policy-matrix", "group analysts", "customer")
    await walk.press("Versions")
    await walk.look("policy-versions")
    await walk.press("Compare")
    await walk.look("policy-comparison")
    await walk.press("Sources")
    await walk.look("policy-sources", "Sources of policies")
    end(walk)


async def test_a_draft(people: People, gateway: RunningGateway, hand: Hand, pictures: Path) -> None:
    """What is wrong with it is told; what it would change is shown; it is in force nowhere."""
    text = (gateway.config.parent / "policies" / "sales.yaml").read_text()
    walk = await begin(people, "dave", hand, pictures)
    await walk.menu("Policies")
    await walk.press("Drafts")
    await walk.page.run(
        "const all = document.querySelector('#f-target-pack');"
        " all.value = [...all.options].map(one => one.value).find(one => one.endsWith('sales.yaml'))"
    )
    await walk.fill("#f-title-pack", "bob sees cards, too")
    await walk.fill("#f-text-pack", text + "\n  - nonsense")
    await walk.press("Keep and check")
    await walk.look("draft-wrong", "It cannot be in force")
    await walk.fill("#f-text", re.sub(r"EMEA", "APAC", text))
    await walk.press("Keep and check")
    await walk.look("draft", "It loads with all other policies", "What it would change", "The difference")
    await walk.press("Try it on the statements of the last week")
    await walk.look("draft-impact", "What of the record would be decided otherwise")
    await walk.press("Throw it away")
    await walk.look("drafts")
    end(walk)


async def test_the_record(people: People, gateway: RunningGateway, hand: Hand, pictures: Path) -> None:
    refused = gateway.refusal("carol", f"SELECT count(*) FROM hr.department WHERE name = 'walked by {hand}'")
    assert "ACCESS_DENIED" in refused
    walk = await begin(people, "alice", hand, pictures)
    await walk.menu("Record")
    await walk.fill("#f-user", "carol")
    await walk.fill("#f-text", f"walked by {hand}")
    await walk.press("Search")
    await walk.wait_until(await walk.page.path(), lambda text: "hr.department" in text)
    await walk.look("record-found", "ACCESS_DENIED", f"'walked by {hand}'")
    saved = await walk.page.path()
    for form, count in (("CSV", 2), ("JSON lines", 1)):
        lines = await walk.page.run(
            "(async () => { const links = [...document.querySelectorAll('main a[download]')];"
            f" const link = links.find(one => one.innerText.includes({form!r}));"
            " const answer = await fetch(link.href); return (await answer.text()).trim().split('\\n'); })()"
        )
        assert len(lines) == count, "what the page shows"
    assert "user=carol" in saved, "the address keeps the search"
    await walk.page.run("document.querySelector('main tbody a').setAttribute('aria-label', 'the event')")
    await walk.press("the event")
    await walk.look("record-event", "What was lacking", "Decisions")
    end(walk)


async def test_lineage(people: People, copied: str, hand: Hand, pictures: Path) -> None:
    walk = await begin(people, "alice", hand, pictures)
    await walk.wait_until("/console/lineage?column=sales.customer.card", lambda text: copied in text)
    walk.page.complaints.clear()  # it said 404 until the graph had followed
    await walk.menu("Lineage")
    await walk.fill("#f-column", "sales.customer.card")
    await walk.press("Show")
    await walk.look("lineage-card", "Edges", f"{copied}.card", "PROJECTION")
    await walk.press(f"spark_catalog.{copied}.card")
    await walk.look("lineage-copy", "spark_catalog.sales.customer.card")
    await walk.press("Impact of a change")
    await walk.look("lineage-impact")
    await walk.press("Back to the lineage")
    await walk.press("Search columns")
    await walk.fill("#f-text", "walk_copy")
    await walk.press("Search")
    await walk.look("lineage-columns", f"{copied}.name")
    await walk.menu("Lineage")
    await walk.press("Less protected copies")
    await walk.press("Make the report now")
    await walk.look("lineage-laundering", "spark_catalog.sales.customer.card", f"{copied}.card")
    end(walk)


async def test_proposals(people: People, copied: str, hand: Hand, pictures: Path) -> None:
    walk = await begin(people, "dave", hand, pictures)
    await walk.menu("Proposals")
    for name in ("Recommendations", "Files that became tables", "Catalogs", "Jobs", "Tags"):
        await walk.press(name)
        await walk.look(f"proposals-{name.lower().replace(' ', '-')}")
    end(walk)


async def test_break_glass(people: People, hand: Hand, pictures: Path) -> None:
    """Nobody confirms it for himself; while it lasts everybody is told."""
    asking = await begin(people, "alice", hand, pictures)
    deciding = await begin(people, "dave", hand, pictures)
    await asking.menu("Requests")
    await asking.press("Break glass")
    await asking.fill("#f-table", "sales.customer")
    await asking.fill("#f-columns", "*")
    await asking.fill("#f-accesses", "select")
    await asking.fill("#f-reason", "cards were stolen, and customers have to be told")
    await asking.press("Ask to break glass")
    text = await asking.look("break-glass", "open")
    assert "Confirm" not in text
    number = (await asking.page.path()).rsplit("/", 1)[1]
    await deciding.page.go(f"/console/requests/{number}")
    await deciding.fill("#g-reason", "the incident is real")
    await deciding.press("Confirm break-glass")
    await deciding.look("break-glass-confirmed", "are overridden for alice")
    await deciding.wait_until("/console/overview", lambda text: "Break-glass: alice sees" in text)
    await deciding.look("break-glass-overview")
    await deciding.page.go(f"/console/requests/{number}")
    await deciding.fill("#n-reason", "it is over")
    await deciding.press("End the grant now")
    end(asking)
    end(deciding)


async def test_mine(people: People, gateway: RunningGateway, hand: Hand, pictures: Path) -> None:
    gateway.query("bob", "SELECT count(*) FROM sales.orders")
    walk = await begin(people, "bob", hand, pictures)
    await walk.wait_until("/console/mine", lambda text: "sales.orders" in text)
    await walk.menu("Mine")
    await walk.look("mine-bob", "What you may", "How to connect", "PyHive", "sc://")
    await walk.press("Your requests")
    await walk.look("mine-requests")
    await walk.menu("Mine")
    await walk.press("Details of the statement")
    await walk.look("mine-statement", "Your own event", "Time")
    end(walk)


async def test_a_login_that_ends_in_the_middle_of_a_form(people: People, hand: Hand, pictures: Path) -> None:
    """What was typed is there to be copied; whoever logs in again is where he was."""
    walk = await begin(people, "bob", hand, pictures)
    await walk.page.go("/console/requests/new?table=hr.department")
    reason = "the planning of next year needs the departments' budgets"
    await walk.fill("#f-reason", reason)
    other = await people.nobody()
    await other.log_in("bob", PASSWORDS["bob"])
    await other.go("/console/mine")
    async with other.loading():
        await other.click("form[action='/console/mine/logins'] button")
    await walk.press("Ask")
    await walk.look("login-ended", "Your login has ended", "Log in again")
    assert await walk.page.run("document.querySelector('#filled-in ~ .field [readonly]') !== null")
    values = "[...document.querySelectorAll('[readonly]')].map(one => one.value)"
    assert reason in await walk.page.run(values)
    walk.page.complaints.clear()  # it says 401
    await walk.page.go("/console/requests/new?table=hr.department")
    assert (await walk.page.path()).startswith("/console/login?next=")
    await walk.fill("#f-user", "bob")
    await walk.fill("#f-password", PASSWORDS["bob"])
    await walk.enter()
    assert await walk.page.path() == "/console/requests/new?table=hr.department"
    end(walk)


async def test_what_is_not_allowed_is_complained_of(people: People) -> None:
    """The trap of the other tests works: a script or a style in a page would be told."""
    page = await people.page("dave")
    await page.go("/console/mine")
    for tag in ("script", "style"):
        await page.run(
            f"(() => {{ const one = document.createElement({tag!r}); one.textContent = 'window.x = 1';"
            " document.head.append(one); })()"
        )
    assert {one for name in ("script-src", "style-src") for one in page.complaints if name in one}
    assert await page.run("window.x === undefined")
    page.complaints.clear()


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
    assert await list_faults(carol) == []
    alice = await people.page("alice")
    await alice.look(1440)
    await alice.go(f"/console/events/{event[1]}")
    told = await alice.text()
    assert "Decisions" in told
    assert "denied" in told
    assert await list_faults(alice) == []
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
    assert await list_faults(alice) == []
    await alice.picture(pictures / "forwarded.png")


async def test_who_has_not_the_role_has_not_the_page(people: People) -> None:
    carol = await people.page("carol")
    await carol.look(360)
    menu = await carol.run(_MENU)
    assert "/console/mine" in menu
    assert "/console/live" not in menu
    await carol.go("/console/live")
    assert "do not have the role" in await carol.text()
    assert await list_faults(carol) == []
    carol.complaints.clear()  # it says 403


async def test_live_shows_and_ends_a_session(
    people: People, gateway: RunningGateway, hand: Hand, pictures: Path
) -> None:
    """With the question whether he means it. The page shows by itself who has come."""
    walk = await begin(people, "dave", hand, pictures)
    await walk.menu("Live")
    await walk.fill("#f-user", "dave")
    await walk.press("Show")
    await walk.page.run("document.activeElement.blur()")  # what somebody is in is not taken from him
    client = connect(gateway.host, gateway.port, "dave", PASSWORDS["dave"])
    try:
        await walk.page.wait("document.querySelector(\"form[action='/console/live/end']\") !== null")
        await walk.look("live-session", "End")
        await walk.page.run("window.confirm = question => { window.asked = question; return true; }")
        await walk.press("End the session of dave")
        assert (await walk.page.path()) == "/console/live", await walk.page.text()
    finally:
        with suppress(OperationalError):  # its session is not there any more
            client.close()
    end(walk)


@pytest.mark.in_turn(6)
async def test_live_goes_on_when_the_gateway_starts_anew(people: People, gateway: RunningGateway) -> None:
    """The page, which nobody loads again, shows who has come since: the login holds, events come again."""
    page = await people.page("dave")
    await page.go("/console/live?user=dave")
    await page.run("window.kept = true")
    assert await asyncio.to_thread(gateway.stop) == 0
    await asyncio.to_thread(gateway.start)
    client = await asyncio.to_thread(connect, gateway.host, gateway.port, "dave", PASSWORDS["dave"])
    try:
        await page.wait("document.querySelector(\"form[action='/console/live/end']\") !== null")
        assert await page.run("window.kept === true")
    finally:
        client.close()
    page.complaints.clear()  # for a while nobody answered


async def test_pictures_of_the_documents(pictures: Path) -> None:
    """With SLUICE_PICTURES=1 SLUICE_TEST_DAY=all they are put there anew."""
    page = (DOCS.parent / "console.md").read_text()
    named = re.findall(r"pictures/([\w-]+\.png)", page)
    assert named
    for name in named:
        if os.environ.get("SLUICE_PICTURES"):
            shutil.copy(pictures / name, DOCS / name)
        assert DAY is not None or (pictures / name).exists()
        assert (DOCS / name).exists()


async def test_logging_out(people: People) -> None:
    page = await people.page("carol")
    people.forget("carol")
    await page.go("/console/mine")
    async with page.loading():
        await page.click(".who button")
    assert await page.path() == "/console/login"
    assert await list_faults(page) == []
    await page.go("/console/mine")
    assert (await page.path()).startswith("/console/login?next=")
