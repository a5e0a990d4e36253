"""One event of the record: all of it to auditors, a cut version to the person concerned, nothing to
others."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.admin.requests import NotFound
from gateway.audit.search import Found
from gateway.console.pages import events as events_page
from gateway.console.pages.events import (
    MAX_FLOWS,
    EventPages,
    EventParameters,
    EventSearch,
    ShownEvent,
    ShownFlow,
    build_event_part,
)
from gateway.console.texts import WITHHELD, ShownTexts
from gateway.lineage.graph import Edge, GraphColumn
from gateway.model.audit import AuditEvent
from gateway.model.reading import NotRead
from tests.console.fakes import FakeConsole, as_user, serving, viewer

EVENT = "01920000-0000-7000-8000-000000000001"
NOW = datetime(2026, 11, 30, tzinfo=UTC)
SENT = "SELECT name, salary FROM hr.employee WHERE name = 'Ada'"
FORWARDED = "SELECT name, salary FROM (SELECT * FROM hr.employee WHERE region = 'EMEA') WHERE name = 'Ada'"
DECISIONS = [
    {
        "resource": "spark_catalog/hr/employee",
        "resType": "@column",
        "action": "select",
        "result": 0,
        "columns": ["salary"],
        "policy": 7,
        "policy_name": "pay",
        "policy_version": 3,
        "reason": "denied by pay",
    },
    {
        "resource": "spark_catalog/hr/v",
        "resType": "@table",
        "action": "select",
        "result": 0,
        "user": "owner",
        "policy": -1,
        "policy_name": "",
        "policy_version": 0,
        "reason": "no policy",
    },
]
SCANS = [
    {
        "table": "spark_catalog.hr.employee",
        "access": "select",
        "columns": ["name"],
        "obligations": [
            {
                "type": "ROW_FILTER",
                "expression": "region = 'EMEA'",
                "policy_name": "emea",
                "policy_version": 2,
            }
        ],
    },
    {
        "table": "spark_catalog.hr.hidden",
        "access": "select",
        "columns": None,
        "definer": "owner",
        "obligations": [
            {
                "type": "MASK_HASH",
                "column": "id",
                "expression": "h(id)",
                "policy_name": "p",
                "policy_version": 1,
            }
        ],
    },
]


def event(verdict: str = "refused", **more: Any) -> AuditEvent:
    body = {
        "reqUser": "cleo",
        "groups": ["support"],
        "roles": [],
        "attributes": [["region", "APAC"]],
        "reqData": SENT,
        "verdict": verdict,
        "decisions": DECISIONS,
        "duration_us": 1500,
        **({"code": "ACCESS_DENIED", "message": "user cleo needs select"} if verdict == "refused" else {}),
        **more,
    }
    return AuditEvent(
        event_id=EVENT,
        kind="decided",
        time="2026-11-30T12:00:00.000000Z",
        statement_id=EVENT,
        gateway="gw",
        user="cleo",
        body=body,
    )


class Rows:
    """A connection that has some rows."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.asked: list[tuple[Any, ...]] = []

    async def fetch(self, text: str, *given: Any) -> list[dict[str, Any]]:
        self.asked.append(given)
        return self.rows

    async def fetchrow(self, query: str, *given: Any) -> None:
        """No statement is in the graph of lineage."""


async def fingerprint(text: str) -> str | NotRead:
    if "unreadable" in text:
        return NotRead("PARSER_FAILED", "no")
    return text.replace("'Ada'", "?").replace("'EMEA'", "?")


def pages(found: Found | None, rows: list[dict[str, Any]] | None = None) -> EventPages:
    connection = Rows(rows or [])

    @asynccontextmanager
    async def connect() -> AsyncIterator[Rows]:
        yield connection

    async def find(one: Any, key: uuid.UUID) -> tuple[Found | None, list[AuditEvent]]:
        return (found, []) if str(key) == EVENT else (None, [])

    return EventPages(connect, find, ShownTexts(fingerprint))


async def show(name: str, found: AuditEvent, end: AuditEvent | None = None) -> ShownEvent:
    return await pages(Found(found, end)).show(viewer(name), EventParameters(event=f" {EVENT} "))


async def test_an_auditor_sees_each_decision_and_literals_replaced() -> None:
    shown = await show("ben", event())
    assert [one.policy_name for one in shown.decisions] == ["pay", ""]
    assert shown.decisions[1].about == "owner"
    assert "'Ada'" not in shown.text
    assert not shown.texts_whole
    assert shown.message == "user cleo needs select", "it names what was lacking, and no value"
    assert shown.who == {"groups": ("support",), "roles": (), "attributes": ("region = APAC",)}
    assert [one.resource for one in shown.lacking] == ["spark_catalog.hr.employee"]


async def test_who_reads_texts_sees_what_was_spliced_in() -> None:
    shown = await show("dora", event("cleared", forwarded=FORWARDED, scans=SCANS))
    assert "".join(text for _, text in shown.sent) == SENT
    assert "".join(text for _, text in shown.forwarded) == FORWARDED
    assert any(marked and "EMEA" in text for marked, text in shown.forwarded)
    assert [one.expression for one in shown.obligations] == ["region = 'EMEA'", "h(id)"]


async def test_without_that_role_both_sides_have_no_literals() -> None:
    shown = await show("ben", event("cleared", forwarded=FORWARDED, scans=SCANS))
    whole = "".join(text for _, text in (*shown.sent, *shown.forwarded))
    assert "Ada" not in whole
    assert "EMEA" not in whole


async def test_the_person_concerned_sees_what_he_sent_and_lacked_and_no_policies() -> None:
    shown = await show("cleo", event("refused"))
    assert shown.is_cut
    assert shown.text == SENT
    assert shown.decisions == ()
    assert [(one.resource, one.columns, one.policy_name, one.reason) for one in shown.lacking] == [
        ("spark_catalog.hr.employee", ("salary",), "", "")
    ], "what a view's definer lacked is not his to know"
    cleared = await show("cleo", event("cleared", forwarded=FORWARDED, scans=SCANS, snapshot="policies=3"))
    assert (cleared.sent, cleared.forwarded, cleared.scans) == ((), (), ())
    assert [(one.type, one.expression, one.policy_name) for one in cleared.obligations] == [
        ("ROW_FILTER", "", "")
    ]
    assert "policies=3" not in repr(cleared)
    assert "region = 'EMEA'" not in repr(cleared)


async def test_events_of_others_are_not_there() -> None:
    """An id that is guessed, or was seen over a shoulder, is worth nothing."""
    other = AuditEvent(**{**_fields(event()), "user": "zoe"})
    with pytest.raises(NotFound) as theirs:
        await show("cleo", other)
    with pytest.raises(NotFound) as nobodys:
        await pages(None).show(viewer("cleo"), EventParameters(event=EVENT))
    assert str(theirs.value) == str(nobodys.value)
    with pytest.raises(NotFound):
        await pages(None).show(viewer("ann"), EventParameters(event="' OR 1=1 --"))


async def test_who_acts_as_another_sees_what_he_did() -> None:
    acted = AuditEvent(**{**_fields(event(realUser="cleo")), "user": "zoe"})
    assert (await show("cleo", acted)).user == "zoe"


async def test_a_text_that_the_lexer_does_not_read_is_not_shown() -> None:
    assert (await show("ben", event(reqData="unreadable 'secret'"))).text == WITHHELD


@pytest.mark.parametrize("code", ["SPARK", "INVALID"])
async def test_messages_that_may_quote_a_value_are_for_readers_of_texts(code: str) -> None:
    found = event(code=code, message="Syntax error at 'Ada'")
    assert (await show("ben", found)).message == ""
    assert (await show("dora", found)).message != ""
    assert (await show("cleo", found)).message != ""


async def test_how_it_ended_and_how_long_it_took() -> None:
    end = AuditEvent(
        event_id=EVENT[:-1] + "2",
        kind="completed",
        time="2026-11-30T12:00:02.000000Z",
        statement_id=EVENT,
        gateway="gw",
        user="cleo",
        body={
            "outcome": "failed",
            "duration_ms": 20.5,
            "spark_ms": 12.0,
            "rows": 3,
            "bytes": 9,
            "error": "'Ada'",
        },
    )
    shown = await show("ben", event("cleared"), end)
    assert [(one.name, one.ms) for one in shown.timings] == [
        ("Read and judge", 1.5),
        ("Wait and Spark", 12.0),
        ("Relay", 8.5),
        ("In all", 20.5),
    ]
    assert (shown.end, shown.rows, shown.error) == ("failed", 3, "")


async def test_each_step_of_a_statement_is_told_by_itself() -> None:
    end = AuditEvent(
        event_id=EVENT[:-1] + "2",
        kind="completed",
        time="2026-11-30T12:00:02.000000Z",
        statement_id=EVENT,
        gateway="gw",
        user="cleo",
        body={
            "outcome": "finished",
            "duration_ms": 20.5,
            "spark_ms": 12.0,
            "wait_ms": 2.0,
            "record_ms": 0.7,
        },
    )
    shown = await show("ben", event("cleared", read_us=900), end)
    assert [(one.name, one.ms) for one in shown.timings] == [
        ("Read", 0.9),
        ("Judge", 0.6),
        ("Record", 0.7),
        ("Wait", 2.0),
        ("Spark", 10.0),
        ("Relay", 8.5),
        ("In all", 20.5),
    ]


async def test_hostile_events_are_shown_as_text() -> None:
    """Everything in a record may be what somebody wrote who wanted it to be a part of the page."""
    hostile = "<img src=x onerror=alert(1)>\u202e\x00"
    found = event(
        "refused",
        reqData=hostile,
        application=hostile,
        groups=[hostile],
        message=hostile,
        sess=hostile,
        decisions=[{"resource": hostile, "reason": hostile, "policy_name": hostile, "columns": [hostile]}],
    )
    console = FakeConsole([build_event_part(pages(Found(found)))])
    async with serving(console) as nobody:
        dora = await as_user(console, nobody, "dora")
        status, page, _ = await dora.ask("GET", f"/console/events/{EVENT}")
        assert status == 200
        assert "<img" not in page
        assert "\u202e" not in page
        assert "&lt;img src=x onerror=alert(1)&gt;⟨U+202E⟩⟨U+0000⟩" in page
        status, page, _ = await dora.ask("GET", f"/console/events?event={EVENT}")
        assert (status, "<img" in page) == (200, False)
        status, _, headers = await dora.ask("GET", f"/api/v1/events/{EVENT}")
        assert (status, headers["Content-Type"].split(";")[0]) == (200, "application/json")
        tag = headers["ETag"]
        assert (await dora.ask("GET", f"/api/v1/events/{EVENT}", headers={"If-None-Match": tag}))[0] == 304
        unknown = (await dora.ask("GET", f"/console/events?event={hostile}"))[1]
        assert "<img" not in unknown


async def test_the_search_lists_the_viewers_own_refusals() -> None:
    row = {"event_id": uuid.UUID(EVENT), "time": _now(), "code": "ACCESS_DENIED", "statement": SENT}
    found = await pages(None, [row]).search(viewer("cleo"), EventSearch())
    assert [one.id for one in found.refusals] == [EVENT]
    missing = await pages(None).search(viewer("cleo"), EventSearch(event=EVENT))
    assert "no such event" in missing.fault


def _fields(found: AuditEvent) -> dict[str, Any]:
    return {name: getattr(found, name) for name in AuditEvent.__slots__}


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


async def test_auditors_see_what_flowed_where_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = GraphColumn("c.hr.employee", "salary"), GraphColumn("c.hr.report", "pay")
    edge = Edge(
        source=source,
        target=target,
        subtype="IDENTITY",
        masking=True,
        expression=None,
        statements=1,
        finished=True,
        first_seen=NOW,
        last_seen=NOW,
        last_statement=None,
    )

    async def statement(*_: Any) -> Any:
        return SimpleNamespace(edges=[edge] * (MAX_FLOWS + 2))

    monkeypatch.setattr(events_page, "statement", statement)
    shown = await show("ben", event())
    assert shown.flows[0] == ShownFlow(
        source="c.hr.employee.salary", target="c.hr.report.pay", carries="masked"
    )
    assert (len(shown.flows), shown.more_flows) == (MAX_FLOWS, 2)
    assert (await show("cleo", event())).flows == ()
