"""Pages of the record have what a search of all has: in order, each event once, however they are cut."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gateway.audit import record_pages
from gateway.audit.record_pages import (
    CSV_COLUMNS,
    RecordLine,
    RecordQuery,
    format_csv,
    format_csv_header,
    load_all,
    load_page,
    spread_name,
)
from gateway.database.migrate import migrate

BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)
EVENTS = 400
VERDICTS = ("cleared", "refused", "accepted", None)
TABLES = ("hr.employee", "hr.salary", "shop.orders", "shop.items")


@pytest.fixture
async def record(database: str) -> AsyncIterator[tuple[Any, list[dict[str, Any]]]]:
    """A record over forty days, with many events at the same instant, and some from a clock that is wrong."""
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.execute("CREATE TABLE sluice.audit_all PARTITION OF sluice.audit_event DEFAULT")
    chance = random.Random(7)
    rows = []
    for number in range(EVENTS):
        hours = 20 * 24 * 365 if number % 97 == 0 else chance.choice((chance.randrange(960), 5, 6))
        names = [f"spark_catalog.{table}" for table in TABLES if chance.random() < 0.3]
        verdict = chance.choice(VERDICTS)
        rows.append(
            {
                "event_id": UUID(int=chance.getrandbits(128)),
                "time": BEGINNING + timedelta(hours=hours),
                "kind": "decided" if verdict in ("cleared", "refused") else "login",
                "statement_id": UUID(int=number + 1),
                "gateway": "g",
                "user_name": chance.choice(("ann", "bob", "eve")),
                "verdict": verdict,
                "resources": names + [f"{name}.id" for name in names],
                "policies": [f"p{n}" for n in range(4) if chance.random() < 0.2],
                "statement": f"SELECT {chance.choice(('Name', 'pay'))} FROM t{number}",
                "body": "{}",
            }
        )
    await _insert(connection, rows)
    ends = [
        {**one, "event_id": UUID(int=10**30 + n), "kind": "completed", "verdict": None, "outcome": "finished"}
        for n, one in enumerate(rows)
        if one["verdict"] == "cleared"
    ]
    await _insert(connection, ends)
    yield connection, rows
    await connection.close()


async def _insert(connection: Any, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    values = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    await connection.executemany(
        f"INSERT INTO sluice.audit_event ({', '.join(names)}) VALUES ({values})",
        [tuple(one.values()) for one in rows],
    )


Fits = Callable[[dict[str, Any]], bool]
EMPLOYEE = "spark_catalog.hr.employee"
QUERIES: list[tuple[RecordQuery, Fits]] = [
    (RecordQuery(), lambda one: True),
    (RecordQuery(user="bob"), lambda one: one["user_name"] == "bob"),
    (RecordQuery(verdict="refused"), lambda one: one["verdict"] == "refused"),
    (RecordQuery(names=(EMPLOYEE,)), lambda one: EMPLOYEE in one["resources"]),
    (RecordQuery(names=("nowhere",)), lambda one: False),
    (RecordQuery(names=()), lambda one: False),
    (RecordQuery(policy="p3"), lambda one: "p3" in one["policies"]),
    (RecordQuery(text="NAME"), lambda one: "Name" in one["statement"]),
    (RecordQuery(text="'; DROP TABLE sluice.audit_event; --"), lambda one: False),
    (RecordQuery(ending="EMPLOYEE.id"), lambda one: f"{EMPLOYEE}.id" in one["resources"]),
    (RecordQuery(ending="ployee"), lambda one: False),
    (
        RecordQuery(user="ann", policy="p1", text="pay", since=BEGINNING + timedelta(hours=5)),
        lambda one: one["user_name"] == "ann" and "p1" in one["policies"] and "pay" in one["statement"]
        and one["time"] >= BEGINNING + timedelta(hours=5),
    ),
    (
        RecordQuery(until=BEGINNING + timedelta(hours=6)),
        lambda one: one["time"] < BEGINNING + timedelta(hours=6),
    ),
    (
        RecordQuery(user="eve", until=BEGINNING + timedelta(hours=6)),
        lambda one: one["user_name"] == "eve" and one["time"] < BEGINNING + timedelta(hours=6),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "budget_s", "slice_"), [(7, 1.0, 50), (50, 0.0, 13), (1_000, 1.0, 5_000)])
async def test_pages_are_the_whole_search_in_order(
    record: tuple[Any, list[dict[str, Any]]],
    limit: int,
    budget_s: float,
    slice_: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, rows = record
    monkeypatch.setattr(record_pages, "SLICE", slice_)
    for query, fits in QUERIES:
        expected = sorted(filter(fits, rows), key=lambda one: (one["time"], one["event_id"]), reverse=True)
        found: list[RecordLine] = []
        mark, pages = None, 0
        while True:
            page = await load_page(connection, query, after=mark, limit=limit, budget_s=budget_s)
            pages += 1
            found += page.lines
            assert len(page.lines) <= limit
            assert (page.searched_to is not None) == (page.next is not None and len(page.lines) < limit)
            if page.next is None:
                break
            mark = page.next
            assert pages < 500
        assert [one.event_id for one in found] == [str(one["event_id"]) for one in expected], query
        for line, one in zip(found, expected, strict=True):
            assert line.outcome == ("finished" if one["verdict"] == "cleared" else "")
        # An export has the same.
        exported: list[RecordLine] = []
        after = None
        while (some := await load_all(connection, query, after)) is not None:
            exported += some.lines
            if (after := some.next) is None:
                break
        assert exported == found


async def test_an_empty_record_has_an_empty_page(database: str) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    for query in (RecordQuery(), RecordQuery(user="bob"), RecordQuery(text="x")):
        page = await load_page(connection, query)
        assert (page.lines, page.next, page.searched_to) == ((), None, None)
    await connection.close()


@pytest.mark.parametrize(
    ("table", "column", "found"),
    [
        ("hr.employee", "", (("main.hr.employee", "lake.hr.employee"), "")),
        ("hr.employee", "SSN", (("main.hr.employee.SSN", "main.hr.employee.ssn",
                                 "lake.hr.employee.SSN", "lake.hr.employee.ssn"), "")),
        ("LAKE.hr.employee", "", (("LAKE.hr.employee", "lake.hr.employee"), "")),
        ("lake.hr", "", (("lake.hr",), "")),
        ("other.hr.employee.ssn", "", (("other.hr.employee.ssn",), "")),
        ("employee", "", ((), "employee")),
        ("employee", "ssn", ((), "employee.ssn")),
        ("`hr`.`employee`", "", (("main.hr.employee", "lake.hr.employee"), "")),
    ],
)  # fmt: skip
def test_names_are_spelled_as_the_record_spells_them(table: str, column: str, found: object) -> None:
    assert spread_name(table, column, ("main", "lake")) == found


def line(**more: Any) -> RecordLine:
    values: dict[str, Any] = dict.fromkeys(RecordLine.__slots__, "")
    values |= {
        "time": BEGINNING,
        "resources": (),
        "policies": (),
        "is_plan": False,
        "rows": 3,
        "duration_ms": 0.5,
    }
    return RecordLine(**(values | more))


HOSTILE = [
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n@x", "\ufeff=1", "\u00a0+1", "＝1",
    '=HYPERLINK("http://x","y")',
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_of_an_export_begins_as_a_formula_does(text: str) -> None:
    written = format_csv(line(user=text, statement=text, resources=(text, "b"), policies=(text,)))
    (row,) = csv.reader(io.StringIO(written.decode(), newline=""))
    cells = dict(zip(CSV_COLUMNS, row, strict=True))
    for name in ("user", "statement", "resources", "policies"):
        assert cells[name].startswith("'" + text), cells[name]
    assert cells["rows"] == "3"


def test_a_line_of_an_export_is_one_record_whatever_is_in_it() -> None:
    text = 'a "b", c\r\nd\n,"'
    written = (format_csv_header() + format_csv(line(statement=text))).decode()
    header, row = csv.reader(io.StringIO(written, newline=""))
    assert header == list(CSV_COLUMNS)
    assert row[header.index("statement")] == text
