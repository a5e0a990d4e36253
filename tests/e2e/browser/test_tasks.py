"""What somebody new does first, by the mouse alone and by the keyboard alone, and how long it takes him: why
carol sees no cards, what bob sees of a table, and a grant that is asked for, given, used and ended.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyhive.exc import OperationalError

from tests.e2e.browser.conftest import People
from tests.e2e.browser.walk import Hand, Walk
from tests.e2e.running import RunningGateway
from tests.speed import patience

pytestmark = [pytest.mark.console, pytest.mark.asyncio(loop_scope="session")]
REFUSED = "SELECT name, email FROM hr.employee ORDER BY id LIMIT 1"
SECONDS = {"why carol sees no cards": 60, "what bob sees of sales.customer": 60, "a grant": 180}
"""What each may take."""


async def take_time(task: str, hand: Hand, pictures: Path, *walks: Walk) -> None:
    """Note how long a task took, and that it was not too long."""
    took, acts = max(one.seconds for one in walks), sum(one.acts for one in walks)
    line = f"{task}, by {hand}: {took:.1f} s, {acts} acts\n"
    await asyncio.to_thread(_append, pictures / "tasks.txt", line)
    assert took < patience(SECONDS[task]), line
    assert [fault for one in walks for fault in one.faults] == []
    assert [complaint for one in walks for complaint in one.page.complaints] == []


def _append(file: Path, line: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(line)


async def test_why_carol_sees_no_cards(people: People, hand: Hand, pictures: Path) -> None:
    walk = Walk(await people.page("carol"), hand)
    await walk.menu("Table access")
    await walk.fill("#f-table", "sales.customer")
    await walk.press("Show")
    await walk.look("cards", "card", "only the last 4 characters", "card numbers", "own region only")
    await take_time("why carol sees no cards", hand, pictures, walk)


async def test_what_bob_sees(people: People, hand: Hand, pictures: Path) -> None:
    walk = Walk(await people.page("alice"), hand)
    await walk.menu("Table access")
    await walk.fill("#f-user", "bob")
    await walk.fill("#f-table", "sales.customer")
    await walk.enter()
    await walk.look("bob", "region = 'EMEA'", "a hash of the value")
    await walk.press("Why email is masked")
    await walk.look("bob-why", "Why email")
    await walk.press("Read a few rows as bob")
    text = await walk.look("bob-rows", "read as bob by alice", "EMEA")
    assert "APAC" not in text
    await take_time("what bob sees of sales.customer", hand, pictures, walk)


async def test_a_grant(people: People, gateway: RunningGateway, hand: Hand, pictures: Path) -> None:
    def ask() -> str:
        try:
            return str(gateway.query("carol", REFUSED))
        except OperationalError as error:
            return str(error.args[0].status.errorMessage)

    carol, dave = Walk(await people.page("carol"), hand), Walk(await people.page("dave"), hand)
    told = await asyncio.to_thread(ask)
    assert "SLUICE_ACCESS_DENIED" in told
    event = told.split("/console/events/")[1].split()[0].rstrip(".")
    await carol.wait_until("/console/events", lambda text: "hr.employee" in text)
    await carol.menu("Why refused?")
    await carol.fill("#f-event", event)
    await carol.press("Show")
    await carol.look("refused", "What was lacking", "hr.employee")
    await carol.press("Ask for this")
    await carol.fill("#f-reason", "a customer asks who his contact is")
    await carol.press("Ask")
    await carol.look("asked", "open", "a customer asks")
    number = (await carol.page.path()).rsplit("/", 1)[1]
    await dave.menu("Requests")
    await dave.press("To decide on")
    await dave.press(number)
    await dave.press("Grant")
    await carol.wait_until(f"/console/requests/{number}", lambda text: "it can be used now" in text)
    assert "Liam Haddad" in await asyncio.to_thread(ask)
    await carol.press("What you see of it now")
    await carol.look("granted", "hr.employee", "masked")
    await take_time("a grant", hand, pictures, carol, dave)
    await dave.page.go(f"/console/requests/{number}")
    await dave.fill("#n-reason", "it is done")
    await dave.press("End the grant now")
    await dave.look("ended", "ended")
    await carol.wait_until(f"/console/requests/{number}", lambda text: "it can be used now" not in text)
    assert "SLUICE_ACCESS_DENIED" in await asyncio.to_thread(ask)
