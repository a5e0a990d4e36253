"""Requests on pages and over REST: the whole way, and that nobody sees or decides on what is not for him."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.console.pages.requests import RequestPages, part
from gateway.model.principal import Principal
from tests.admin.ranger.request_desk import Desk
from tests.console.fakes import Browser, FakeConsole, as_user, serving

REASON = "yearly report <script>alert(1)</script> \u202e"
UNTIL = (datetime.now(UTC) + timedelta(days=2)).isoformat()


class Site:
    """A console with requests: `admin` of the desk is the console's `ann`."""

    def __init__(self, desk: Desk, console: FakeConsole, browser: Browser) -> None:
        self.desk = desk
        self.console = console
        self.browser = browser

    async def at(self, name: str) -> Browser:
        return await as_user(self.console, self.browser, name)

    async def post(self, name: str, path: str, **body: Any) -> tuple[int, Any]:
        """Return the answer of REST to a change."""
        somebody = await self.at(name)
        status, text, _ = await somebody.ask(
            "POST", f"/api/v1{path}", json=body, headers={"X-CSRF-Token": somebody.csrf}
        )
        return status, json.loads(text)

    async def get(self, name: str, path: str) -> tuple[int, Any]:
        status, text, _ = await (await self.at(name)).ask("GET", f"/api/v1{path}")
        return status, json.loads(text)

    async def form(self, name: str, path: str, **fields: str) -> tuple[int, str]:
        """Return status, and where a form leads to."""
        somebody = await self.at(name)
        status, text, headers = await somebody.ask(
            "POST", f"/console{path}", data={**fields, "csrf": somebody.csrf}
        )
        return status, headers.get("Location", text)

    async def page(self, name: str, path: str) -> tuple[int, str]:
        status, text, _ = await (await self.at(name)).ask("GET", f"/console{path}")
        return status, text


@asynccontextmanager
async def of_console(database: str) -> AsyncIterator[Site]:
    desk = Desk(database, administrators=("ann", "admin"))
    desk.people = {name: Principal(user=name) for name in ("ann", "ben", "cleo", "dora")}
    await desk.begin()
    pages = RequestPages(
        desk.requests, catalogs=("spark_catalog", "lake"), in_force=lambda service, guids: bool(guids)
    )
    console = FakeConsole([part(pages)])
    async with serving(console) as browser:
        yield Site(desk, console, browser)
    await desk.close()


@pytest.fixture
async def site(database: str) -> AsyncIterator[Site]:
    async with of_console(database) as made:
        yield made


ASKED: dict[str, Any] = {
    "table": "sales.customer",
    "columns": ["name, card"],
    "until": UNTIL,
    "reason": REASON,
}


async def test_a_grant_is_asked_for_given_and_ended_by_forms(site: Site) -> None:
    status, text = await site.page("cleo", "/requests/new?table=sales.customer&columns=card&columns=name")
    assert status == 200
    assert 'value="card, name"' in text
    status, leads = await site.form(
        "cleo",
        "/requests/ask",
        **{**ASKED, "columns": "name, card", "accesses": "SELECT", "purpose": "audit"},
    )
    assert (status, leads) == (303, "/console/requests/1")
    status, text = await site.page("cleo", "/requests/1")
    assert status == 200
    assert "<script>alert" not in text
    assert "⟨U+202E⟩" in text
    assert "/requests/1/withdraw" in text
    assert "/requests/1/grant" not in text
    assert "sales.customer" in (await site.page("ann", "/requests?which=decide"))[1]
    assert "/requests/1/grant" in (await site.page("ann", "/requests/1"))[1]
    status, leads = await site.form("ann", "/requests/1/grant", expires="", reason="ok")
    assert (status, leads) == (303, "/console/requests/1")
    assert await site.desk.sees("cleo")
    status, text = await site.page("ann", "/requests?which=granted&purpose=audit")
    assert status == 200
    assert "audit" in text
    assert (await site.form("cleo", "/requests/1/end", reason=""))[0] == 303
    assert not await site.desk.sees("cleo")
    actions = [one[1] for one in site.console.recorded]
    assert actions == ["ask_access", "grant_request", "end_grant"]


async def test_requests_of_others_are_not_there(site: Site) -> None:
    assert (await site.post("cleo", "/requests", **ASKED))[0] == 200
    missing = await site.get("dora", "/requests/99")
    assert missing[0] == 404
    assert await site.get("dora", "/requests/1") == missing
    assert (await site.page("dora", "/requests/1"))[0] == 404
    for step in ("grant", "refuse", "elsewhere", "withdraw", "end"):
        body = {} if step in ("grant", "withdraw", "end") else {"reason": "x"}
        other = await site.post("dora", f"/requests/1/{step}", **body)
        assert other == await site.post("dora", f"/requests/99/{step}", **body), step
        assert other[0] == 404
    for which in ("own", "decide"):
        status, found = await site.get("dora", f"/requests?which={which}")
        assert (status, found["items"]) == (200, [])
    for which in ("granted", "break_glass"):
        assert (await site.get("cleo", f"/requests?which={which}"))[0] == 403
    assert (await site.get("cleo", "/requests"))[1]["purposes"] == []
    assert not await site.desk.sees("cleo")


async def test_what_cannot_be_is_answered_so(site: Site) -> None:
    for changed, status in (
        ({"table": "sales.*"}, 400),
        ({"table": "customer"}, 400),
        ({"columns": ["*", "card"]}, 400),
        ({"until": "2020-01-01"}, 400),
        ({"until": "soon"}, 400),
        ({"reason": ""}, 400),
        ({"kind": "everything"}, 400),
        ({"colour": "red"}, 400),
    ):
        assert (await site.post("cleo", "/requests", **{**ASKED, **changed}))[0] == status, changed
    assert (await site.post("cleo", "/requests", **ASKED))[0] == 200
    assert (await site.post("ann", "/requests", **ASKED))[0] == 200
    assert (await site.post("ann", "/requests/2/grant"))[0] == 403, "his own"
    assert (await site.post("ann", "/requests/1/refuse", reason="no"))[0] == 200
    assert (await site.post("ann", "/requests/1/grant"))[0] == 409
    assert (await site.post("cleo", "/requests", **{**ASKED, "accesses": ["fly"]}))[0] == 200
    status, answer = await site.post("ann", "/requests/3/grant")
    assert status == 400
    assert "unknown access type" in answer["detail"]


async def test_break_glass_is_loud_where_auditors_look(site: Site) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert (await site.post("cleo", "/requests", **{**ASKED, "kind": "break_glass", "until": until}))[
        0
    ] == 200
    assert "Break-glass is in use" not in (await site.page("ben", "/requests"))[1]
    assert (await site.post("ann", "/requests/1/grant", reason="fire"))[0] == 200
    for name in ("ben", "ann"):
        assert "Break-glass is in use" in (await site.page(name, "/requests"))[1]
    status, found = await site.get("ben", "/requests?which=break_glass")
    assert (status, [one["asker"] for one in found["items"]]) == (200, ["cleo"])
    assert "Break-glass is in use" not in (await site.page("cleo", "/requests"))[1]
