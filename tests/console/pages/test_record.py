"""The record's page and its exports: who sees which events, whose texts, and that both show the same."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import aiohttp
import asyncpg
import pytest

from gateway.audit import record_pages
from gateway.audit.record_pages import RecordQuery
from gateway.console.pages import record
from gateway.console.pages.record import RecordFilter, RecordPages, part
from gateway.console.routes import NotAllowed
from gateway.console.texts import ShownTexts
from gateway.database.migrate import migrate
from tests.console.fakes import Browser, FakeConsole, as_user, serving, viewer

BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)
HOSTILE = "SELECT '<script>alert(1)</script>' \u202e AS `x`"


async def hide(text: str) -> str:
    return re.sub(r"'[^']*'|\d+", "?", text)


async def fill(connection: Any) -> None:
    rows = [
        ("cleo", "cleared", "SELECT card FROM sales.customer WHERE id = 4711", ["pii"], None),
        ("ben", "refused", HOSTILE, [], "column `card` of `4711`"),
        (
            "cleo",
            "refused",
            "SELECT secret FROM hr.employee",
            ["hidden policy"],
            "no access to `hr.employee`",
        ),
        ("=ann", "cleared", "=SUM(A1)", [], None),
    ]
    for number, (user, verdict, text, policies, message) in enumerate(rows):
        await connection.execute(
            "INSERT INTO sluice.audit_event (event_id, time, kind, statement_id, gateway, user_name, verdict,"
            " code, message, resources, policies, statement, body)"
            " VALUES ($1, $2, 'decided', $1, 'g', $3, $4, $5, $6, $7, $8, $9, '{}')",
            UUID(int=number + 1),
            BEGINNING + timedelta(minutes=number),
            user,
            verdict,
            "ACCESS_DENIED" if message else None,
            message,
            ["spark_catalog.sales.customer", "spark_catalog.sales.customer.card"],
            policies,
            text,
        )


@pytest.fixture
async def site(database: str) -> AsyncIterator[tuple[FakeConsole, Browser]]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.execute("CREATE TABLE sluice.audit_all PARTITION OF sluice.audit_event DEFAULT")
    await fill(connection)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        yield connection

    service = RecordPages(
        connect,
        ShownTexts(hide),
        catalogs=("spark_catalog",),
        names_of_tag=lambda tag: (
            ["spark_catalog.sales.customer.card"] if tag == "PII" else [],
            tag != "wide",
        ),
    )
    console = FakeConsole([part(service)])
    async with serving(console) as browser:
        yield console, browser
    await connection.close()


async def found(browser: Browser, query: str = "") -> list[dict[str, Any]]:
    status, text, _ = await browser.ask("GET", f"/api/v1/record{query}")
    assert status == 200, text
    return list(json.loads(text)["items"])


async def test_auditors_see_all_and_texts_as_their_role_has_it(site: tuple[FakeConsole, Browser]) -> None:
    ben, dora = [await as_user(*site, name) for name in ("ben", "dora")]
    events = await found(ben)
    assert [one["user"] for one in events] == ["=ann", "cleo", "ben", "cleo"]
    # Of others without literals, and no messages, which may hold values; his own as they are.
    assert events[3]["statement"] == "SELECT card FROM sales.customer WHERE id = ?"
    assert [one["message"] for one in events] == ["", "", "column `card` of `4711`", ""]
    assert events[2]["statement"] == HOSTILE
    assert "4711" in (await found(dora))[3]["statement"]
    status, _, _ = await ben.ask("GET", "/api/v1/record?text=4711")
    assert status == 403, "what is found by a part tells that it is there"
    assert len(await found(dora, "?text=4711")) == 1
    assert len(await found(ben, "?text=script&user=ben")) == 1


async def test_everybody_else_sees_his_own_events_alone(site: tuple[FakeConsole, Browser]) -> None:
    console, _ = site
    cleo = await as_user(*site, "cleo")
    events = await found(cleo)
    assert {one["user"] for one in events} == {"cleo"}
    # Behind a view there are tables and policies of which he may not know.
    assert all(one["resources"] == [] and one["policies"] == [] for one in events)
    assert events[0]["message"] == "no access to `hr.employee`"
    assert len(await found(cleo, "?text=secret&user=cleo")) == 1
    for query in ("user=ben", "table=sales.customer", "policy=pii", "tag=PII", "table=x&column=y"):
        for path in ("/api/v1/record", "/console/record", "/api/v1/record.csv", "/api/v1/record.jsonl"):
            assert (await cleo.ask("GET", f"{path}?{query}"))[0] == 403, query
    assert [one[:2] for one in console.recorded[:2]] == [("cleo", "list_record")] * 2


FILTERS = [
    ("?table=sales.customer&column=card", 4),
    ("?table=spark_catalog.sales.customer", 4),
    ("?table=customer", 4),
    ("?table=sales.other", 0),
    ("?tag=PII", 4),
    ("?tag=none", 0),
    ("?tag=PII&table=sales.other", 0),
    ("?policy=pii", 1),
    ("?verdict=refused", 2),
    ("?user=cleo&verdict=refused", 1),
    ("?since=2026-11-01T00:02:00Z", 2),
    ("?until=2026-11-01T00:02:00", 2),
]


async def test_filters_find_what_they_say(site: tuple[FakeConsole, Browser]) -> None:
    ben = await as_user(*site, "ben")
    for query, count in FILTERS:
        assert len(await found(ben, query)) == count, query


async def test_pages_go_on_where_the_last_one_ended(site: tuple[FakeConsole, Browser]) -> None:
    ben = await as_user(*site, "ben")
    seen, after = [], ""
    while True:
        _, text, _ = await ben.ask("GET", f"/api/v1/record?limit=1&after={after}")
        answer = json.loads(text)
        seen += [one["event_id"] for one in answer["items"]]
        if not (after := answer["next"]):
            break
    assert seen == [str(UUID(int=number)) for number in (4, 3, 2, 1)]
    for bad in (
        "after=x",
        "after=WzEsMl0",
        "limit=0",
        "limit=201",
        "column=card",
        "since=never",
        "colour=red",
    ):
        assert (await ben.ask("GET", f"/api/v1/record?{bad}"))[0] == 400, bad


async def test_an_export_is_exactly_what_is_shown(site: tuple[FakeConsole, Browser]) -> None:
    console, _ = site
    for name, query in product(("ben", "dora", "cleo"), ("?verdict=refused", "")):
        somebody = await as_user(*site, name)
        events = await found(somebody, query)
        _, lines, headers = await somebody.ask("GET", f"/api/v1/record.jsonl{query}")
        assert [json.loads(line) for line in lines.splitlines()] == events
        assert headers["Content-Disposition"] == 'attachment; filename="record.jsonl"'
        _, text, _ = await somebody.ask("GET", f"/api/v1/record.csv{query}")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [row["event_id"] for row in rows] == [one["event_id"] for one in events]
        assert [row["statement"].removeprefix("'") for row in rows] == [one["statement"] for one in events]
        assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@"))]
        assert console.recorded[-1][:2] == (name, "export_record_csv")


async def test_an_export_that_breaks_off_does_not_look_whole(
    site: tuple[FakeConsole, Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    ben = await as_user(*site, "ben")
    monkeypatch.setattr(record_pages, "EXPORT_PAGE", 1)
    count = 0

    async def load(*given: Any) -> Any:
        nonlocal count
        count += 1
        if count > 2:
            raise OSError("PostgreSQL is away")
        return await record_pages.load_all(*given)

    monkeypatch.setattr(record, "load_all", load)
    with pytest.raises(aiohttp.ClientPayloadError):
        await ben.ask("GET", "/api/v1/record.jsonl")
    assert count == 3
    # What breaks before anything is sent is an error like any other.
    assert (await ben.ask("GET", "/api/v1/record.jsonl"))[0] == 503


async def test_the_page_shows_hostile_text_as_text(site: tuple[FakeConsole, Browser]) -> None:
    ben = await as_user(*site, "ben")
    status, text, _ = await ben.ask("GET", "/console/record?user=&verdict=&tag=wide&limit=2")
    assert status == 200
    assert "also on resources that a pattern names" in text
    status, text, _ = await ben.ask("GET", "/console/record?table=sales.customer&column=card&since=&until=")
    assert status == 200
    assert "<script>alert" not in text
    assert "⟨U+202E⟩" in text
    assert "/api/v1/record.csv?table=sales.customer&amp;column=card" in text


def asked_of(name: str, **filters: Any) -> RecordQuery | None:
    """Return what somebody's search asks of the record; None where it is not for him."""
    service = RecordPages(MagicMock(), ShownTexts(hide), catalogs=(), names_of_tag=lambda tag: ([], True))
    try:
        return service._query(viewer(name), RecordFilter(**filters))[0]
    except NotAllowed:
        return None


def test_what_each_may_search_by() -> None:
    assert asked_of("cleo") == RecordQuery(user="cleo")
    assert asked_of("cleo", user="ben") is None
    for name in ("table", "tag", "policy"):
        assert asked_of("cleo", **{name: "x"}) is None
        assert asked_of("ben", **{name: "x"}) is not None
    assert asked_of("ben") == RecordQuery()
    assert asked_of("ben", text="4711") is None
    assert asked_of("ben", text="4711", user="ben") is not None
    assert asked_of("dora", text="4711") == RecordQuery(text="4711")
