"""The roll-ups are what anybody would count who went through the record event by event."""

from __future__ import annotations

import dataclasses
import io
import random
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.erasing import erase
from gateway.audit.seals import make_seal
from gateway.cli.report import _show
from gateway.cli.terminal import Terminal
from gateway.jobs import reports
from gateway.jobs.reports import RollupFilter
from gateway.model.audit import AuditEvent
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session import audit_records
from gateway.session.audit_records import Stamp
from tests.audit.samples import cleared, refused
from tests.jobs.records import DAY, NOW, at, day_of_events, fill, identity, statement, written
from tests.jobs.worker import Ran, Worker, archive_of, rollups_of

pytestmark = pytest.mark.in_turn(2)

SUMMARIES = ("rollup_usage", "rollup_refusal", "rollup_statement", "rollup_latency")
KEY = Ed25519PrivateKey.generate()
ALL = RollupFilter()
FILTER = {"type": "ROW_FILTER", "expression": "true", "policy": 8, "policy_name": "own rows"}


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any

    async def roll_up(self, *, now: datetime = NOW, **chosen: Any) -> Ran:
        return await self.worker.run(rollups_of, chosen, dsn=self.dsn, lake=self.lake, now=now)

    async def archive(self, **chosen: Any) -> Ran:
        chosen["key"] = KEY.public_key().public_bytes_raw()
        return await self.worker.run(archive_of, chosen, dsn=self.dsn, lake=self.lake, now=NOW)

    async def fill(self, events: Any) -> None:
        await fill(self.dsn, events)

    async def summary(self, name: str) -> list[tuple[Any, ...]]:
        rows = await self.connection.fetch(f"SELECT * FROM sluice.{name}")
        return sorted(tuple(map(repr, row.values())) for row in rows)

    async def lake_rows(self, name: str) -> list[str]:
        return sorted(map(repr, await self.worker.rows(self.lake / name, "SELECT * FROM lake")))

    async def everything(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: await self.summary(name) for name in SUMMARIES}
        return found | {f"lake {name}": await self.lake_rows(name) for name in SUMMARIES}


@pytest.fixture
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Place]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        yield Place(database, tmp_path / "lake", worker, connection)
    finally:
        await connection.close()


async def test_usage_is_what_the_record_says(place: Place) -> None:
    events = day_of_events(count=60)
    for event in events:
        # The table writes it so; the record has what is read in lower case.
        for mask in (one for scan in event.body.get("scans", ()) for one in scan["obligations"]):
            mask["column"] = "SSN"
    await place.fill(events)
    ran = await place.roll_up()
    assert ran.rows_in > 0
    expected: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        for scan in event.body.get("scans", ()):
            for column in scan["columns"]:
                masked = "MASK_NULL hr readers" if column == "ssn" else ""
                expected[event.user, column, masked] += 1
    rows = await reports.usage(place.connection, RollupFilter())
    assert {
        (r["user_name"], r["column_name"], "".join(r["masks"])): r["statements"] for r in rows
    } == expected
    for row in rows:
        assert (row["table_name"], row["endpoint"], row["tool"]) == (
            "spark_catalog.hr.employee",
            "thrift",
            "beeline",
        )
        assert (row["finished"], row["rows"], row["bytes"]) == (
            row["statements"],
            3 * row["statements"],
            99 * row["statements"],
        )
        assert DAY <= row["first_at"] <= row["last_at"] < DAY + timedelta(days=1)


@pytest.mark.in_turn(4)
async def test_refusals_are_counted_with_logins(place: Place) -> None:
    await place.fill(day_of_events(count=48))
    await place.roll_up()
    rows = await reports.load_refusals(place.connection, RollupFilter())
    assert {(row["user_name"], row["code"]): row["attempts"] for row in rows} == {
        ("ann", "ACCESS_DENIED"): 2,
        ("bob", "ACCESS_DENIED"): 2,
        ("cem", "ACCESS_DENIED"): 2,
    }


async def test_statements_of_one_shape_count_together_and_hold_no_literal(place: Place) -> None:
    await place.fill(day_of_events(count=40))
    await place.roll_up()
    (row,) = await reports.find_slow_shapes(place.connection, RollupFilter())
    assert row["fingerprint"] == "select name , ssn from hr . employee where id = ?"
    assert (row["users"], row["statements"]) == (3, 30)
    assert row["run_ms"] == pytest.approx(30 * 12.5)
    assert row["judge_ms"] == pytest.approx(30 * 1.8)
    for narrowed in (RollupFilter(group="staff"), RollupFilter(table="Spark_Catalog.`HR`")):
        assert await reports.find_slow_shapes(place.connection, narrowed) == [row]
    for narrowed in (RollupFilter(group="others"), RollupFilter(table="spark_catalog.h")):
        assert not await reports.find_slow_shapes(place.connection, narrowed)


SCANS = cleared().body["scans"]


def sent(
    text: str,
    minute: int,
    *,
    plan: str | None = "execute",
    plan_class: str = "Project",
    texts: Sequence[str] = (),
    **body: Any,
) -> list[AuditEvent]:
    """Return a statement and its end: a plan with SQL texts, or SQL; `body` is what others do not have."""
    moment = DAY + timedelta(hours=3, minutes=minute)
    decided, end = statement(moment, text, seed=random.Random(minute))
    told = {**decided.body, "plan_class": plan_class, **body}
    if plan is not None:
        told |= {"plan": plan, "texts": [*texts]}
    return [dataclasses.replace(decided, body=told), end]


async def test_a_plan_of_sql_counts_with_the_sql_and_no_value_of_another_is_told(place: Place) -> None:
    text = 'SELECT * FROM hr.employee WHERE name = "Alice Smith" AND id = 7'
    more = text.replace("7", "8")
    # Before what ran, and after it: what is refused has no texts.
    refused = [sent(f'spark.sql("""{text}""")', minute, plan_class="SQL")[0] for minute in (0, 5)]
    without_texts = [
        {key: value for key, value in one.body.items() if key != "texts"} | {"verdict": "refused"}
        for one in refused
    ]
    await place.fill(
        [
            *(dataclasses.replace(one, body=b) for one, b in zip(refused, without_texts, strict=True)),
            *sent(f'spark.sql("""{text}""")', 1, plan_class="SQL", texts=[text]),
            *sent(f'spark.sql("""{more}""")', 2, plan_class="SQL", texts=[more]),
            *sent(more, 3, plan=None),
            *sent(f'spark.sql("""{text}""").filter("a = 1")', 4, texts=[text, "a = 1"]),
        ]
    )
    await place.roll_up()
    shapes = {
        row["fingerprint"]: row["statements"] for row in await reports.find_slow_shapes(place.connection, ALL)
    }
    assert shapes == {
        "select * from hr . employee where name = ? and id = ?": 3,
        "spark . sql ( ? ) . filter ( ? )": 1,
    }


@pytest.mark.in_turn(1)
async def test_a_read_of_a_temporary_view_is_one_of_what_it_was_made_of(place: Place) -> None:
    """Through views of views and cached relations, made on the day before; masks are those that are in it."""
    (scan,) = SCANS
    chain: list[AuditEvent] = []

    def made(days: int, minute: int, scans: Sequence[Any], user: str = "cem", **reads: Any) -> str:
        moment = DAY + timedelta(days=days, hours=3, minutes=minute)
        decided, end = statement(moment, f"SELECT {minute}", user=user, seed=random.Random(minute))
        body = {**decided.body, "scans": scans, "lineage": {"tables": "…", **reads}}
        chain.extend((dataclasses.replace(decided, body=body), end))
        return decided.statement_id

    other = {**scan, "table": "spark_catalog.hr.pay", "columns": ["amount"], "obligations": []}
    view = made(-1, 1, [scan])
    relation = made(-1, 2, [other], temp_views={"v": view})
    made(0, 3, [], "ann", relations={"r": relation})
    made(0, 4, [], temp_views={"v": identity(DAY, random.Random(9)), "garbage": "'; --"})
    loop = identity(DAY + timedelta(hours=3, minutes=5), random.Random(5))
    made(0, 5, [], temp_views={"v": loop})
    await place.fill(chain)
    await place.roll_up()
    expected = {
        ("spark_catalog.hr.employee", "name", ()),
        ("spark_catalog.hr.employee", "ssn", ("MASK_NULL hr readers",)),
        ("spark_catalog.hr.pay", "amount", ()),
    }

    async def read(user: str, day: date) -> set[tuple[Any, ...]]:
        chosen = RollupFilter(user=user, since=day, until=day)
        rows = await reports.usage(place.connection, chosen)
        return {(row["table_name"], row["column_name"], tuple(row["masks"])) for row in rows}

    assert await read("ann", DAY.date()) == expected
    assert await read("cem", DAY.date()) == set()
    assert await read("cem", (DAY - timedelta(days=1)).date()) == expected
    assert await reports.find_slow_shapes(
        place.connection, RollupFilter(user="ann", table="spark_catalog.hr.pay")
    )
    await make_seal(place.connection, KEY, DAY.date())
    await place.archive(days=3)
    assert await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event") == 0
    await place.connection.execute("DELETE FROM sluice.job_watermark")
    await place.roll_up()
    assert await read("ann", DAY.date()) == expected


async def test_what_a_client_takes_from_another_run_of_a_gateway_counts(place: Place) -> None:
    """Its gateway ended; the client came back to another after midnight, and again: Spark went on."""
    decided, end = sent("spark.table(…)", 1, operation="o-1", sess="s-1")
    abandoned = dataclasses.replace(end, kind="abandoned", body={"outcome": "unknown"})
    other, its_end = sent("spark.table(…)", 2, operation="o-2", sess="s-1")
    elsewhere, _ = sent("spark.table(…)", 3, operation="o-1", sess="s-2")

    def taken(days: int, rows: int, *, complete: bool) -> AuditEvent:
        seed = random.Random(rows)
        return audit_records.build_reattached(
            Stamp(identity(DAY, seed), written(DAY + timedelta(days=days, hours=5)), "gate1-00000000"),
            Principal(user="bob"),
            Client(address="", protocol="connect"),
            session="s-1",
            operation="o-1",
            rows=rows,
            relayed_bytes=10 * rows,
            complete=complete,
        )

    await place.fill([decided, abandoned, other, its_end, elsewhere, taken(0, 5, complete=False)])
    await place.roll_up()
    counted = "SELECT sum(statements), sum(finished), sum(rows), sum(bytes) FROM sluice.rollup_statement"
    assert tuple(await place.connection.fetchrow(counted)) == (3, 1, 3 + 5, 99 + 50)
    await place.fill([taken(1, 7, complete=True)])
    ran = await place.roll_up()
    assert any(line.startswith(f"{DAY:%Y-%m-%d}: 1 hours") for line in ran.lines)
    assert tuple(await place.connection.fetchrow(counted)) == (3, 2, 3 + 12, 99 + 120)
    read = await reports.usage(place.connection, ALL)
    assert {row["rows"] for row in read} == {3 + 12}
    incremental = [await place.summary(name) for name in SUMMARIES]
    await make_seal(place.connection, KEY, (DAY + timedelta(days=1)).date())
    await place.archive(days=2)
    assert await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event") == 0
    await place.connection.execute("DELETE FROM sluice.job_watermark")
    await place.roll_up()
    assert [await place.summary(name) for name in SUMMARIES] == incremental


async def test_what_reads_no_row_is_no_read(place: Place) -> None:
    """`df = spark.sql("SELECT …"); df.schema; df.collect()` is three statements, and one read; a view is read
    when it is read."""
    query, select = "SELECT name, ssn FROM hr.employee", cleared().body["decisions"]
    makes = [{**select[0], "action": "create"}, *select]
    looks: list[tuple[str, dict[str, Any]]] = [
        (query, {"lineage": {"command": True}}),
        (query, {}),
        (query, {"decisions": [*select, {**select[0], "action": "execute"}]}),
        (f"EXPLAIN {query}", {}),
        (f"/* of all */ CREATE OR REPLACE VIEW v AS {query}", {"decisions": makes}),
        (f"ALTER VIEW v AS {query}", {"decisions": makes}),
    ]
    for minute, (text, more) in enumerate(looks):
        await place.fill(sent(f'spark.sql("{text}")', minute, texts=[text], plan_class="SqlCommand", **more))
    whole = f"CREATE VIEW v AS {query}"
    await place.fill(sent(f'spark.sql("{whole}")', 9, texts=[whole], plan_class="SQL", decisions=makes))
    await place.fill(
        sent(f'spark.sql("{query}").schema', 10, plan="analyze", plan_class="SQL", texts=[query])
    )
    for minute, name in enumerate(
        ("CreateView", "AlterViewAs", "ExplainCommand", "DescribeQueryCommand"), 20
    ):
        await place.fill(sent("…", minute, plan=None, plan_class=name))
    await place.roll_up()
    assert await reports.usage(place.connection, ALL) == []
    assert sum(row["statements"] for row in await reports.find_slow_shapes(place.connection, ALL)) == 12
    (all_of_them,) = [r for r in await reports.latency(place.connection, ALL, "all") if r["phase"] == "run"]
    assert all_of_them["statements"] == 12
    counted: list[tuple[str, dict[str, Any]]] = [
        (query, {"plan_class": "SQL", "lineage": {"command": False}}),
        (f"INSERT INTO t {query}", {"plan_class": "SqlCommand", "decisions": makes}),
        (f"create temporary view v AS {query}", {"plan_class": "SqlCommand"}),
        (f"cache table c AS {query}", {"plan_class": "SqlCommand"}),
    ]
    for minute, (text, more) in enumerate(counted, 30):
        await place.fill(sent(f'spark.sql("{text}")', minute, texts=[text], **more))
    # `lineage.queries` is off: all DataFrames are `command`.
    await place.fill(sent("spark.table(…)", 40, lineage={"plan": None, "command": True}))
    await place.fill(
        sent(f"CREATE TEMPORARY VIEW v AS {query}", 41, plan=None, plan_class="CreateViewCommand")
    )
    await place.roll_up()
    read = await reports.usage(place.connection, ALL)
    assert {(row["column_name"], row["statements"]) for row in read} == {("name", 6), ("ssn", 6)}


async def test_a_count_reads_no_column(place: Place) -> None:
    scan = {**SCANS[0], "obligations": [*SCANS[0]["obligations"], FILTER]}
    await place.fill(sent("SELECT count(*) FROM hr.employee", 1, plan=None, scans=[{**scan, "columns": []}]))
    await place.fill(sent("SELECT ?", 2, plan=None, scans=[{**scan, "columns": None}]))
    await place.connection.execute(
        "INSERT INTO sluice.tag_proposal (catalog, database, table_name, column_name, tag, attributes, state,"
        " asks, origins) VALUES"
        " ('spark_catalog', 'hr', 'employee', 'ssn', 'PII', '[]', 'accepted', false, '[]'),"
        " ('spark_catalog', 'hr', 'employee', '*', 'STAFF', '[]', 'accepted', false, '[]')"
    )
    await place.roll_up()
    known, unknown = sorted(await reports.usage(place.connection, ALL), key=lambda row: row["column_name"])
    assert (known["column_name"], known["masks"], known["filters"]) == ("", [], ["own rows"])
    out = io.StringIO()
    _show(Terminal(out), "usage", [known])
    assert "(none)" in out.getvalue()
    assert (unknown["column_name"], unknown["masks"]) == ("*", ["MASK_NULL hr readers"])
    assert unknown["filters"] == ["own rows"]
    assert await reports.usage(place.connection, RollupFilter(tag="PII")) == [unknown]
    assert len(await reports.usage(place.connection, RollupFilter(tag="STAFF"))) == 2
    tagged = await reports.latency(place.connection, ALL, "tag", "PII")
    assert {row["statements"] for row in tagged} == {1}


@pytest.mark.in_turn(4)
async def test_latencies_are_told_by_every_dimension(place: Place) -> None:
    await place.fill(day_of_events(count=40))
    await place.connection.execute(
        "INSERT INTO sluice.tag_proposal (catalog, database, table_name, column_name, tag, attributes, state,"
        " asks, origins) VALUES"
        " ('spark_catalog', 'hr', 'employee', 'ssn', 'PII', '[]', 'accepted', false, '[]'),"
        " ('spark_catalog', 'hr', 'employee', 'name', 'NAME', '[]', 'proposed', false, '[]')"
    )
    await place.roll_up()
    told = {}
    for by in ("all", "user", "group", "table", "tag"):
        for row in await reports.latency(place.connection, RollupFilter(), by):
            told[by, row["name"], row["phase"]] = row["statements"]
            assert row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] <= row["max_ms"]
            assert row["p50_ms"] == pytest.approx(row["mean_ms"], rel=0.1)
    assert told["all", "", "judge"] == 35
    assert told["all", "", "run"] == told["all", "", "spark"] == told["all", "", "relay"] == 30
    assert told["user", "bob", "run"] + told["user", "ann", "run"] + told["user", "cem", "run"] == 30
    assert told["group", "staff", "run"] == 30
    assert told["table", "spark_catalog.hr.employee", "run"] == 30
    assert told["tag", "PII", "run"] == 30
    assert ("tag", "NAME", "run") not in told
    tagged = await reports.usage(place.connection, RollupFilter(tag="PII"))
    assert {row["column_name"] for row in tagged} == {"ssn"}
    assert await reports.find_slow_shapes(place.connection, RollupFilter(tag="PII"))
    assert not await reports.find_slow_shapes(place.connection, RollupFilter(tag="NAME"))


@pytest.mark.in_turn(4)
async def test_late_events_land_in_their_own_hour_and_ends_in_that_of_their_statement(
    place: Place, database: str
) -> None:
    events = day_of_events(count=40) + day_of_events(DAY + timedelta(days=1), count=20, number=2)
    late = statement(
        DAY + timedelta(hours=9, minutes=59),
        "SELECT late",
        after=timedelta(hours=20),
        seed=random.Random(3),
    )
    await place.fill(events)
    await place.roll_up()
    # PostgreSQL's clock was set back: what it stores now, it has stored before the last run.
    await fill(database, late[:1], stored_at=DAY)
    ran = await place.roll_up()
    assert ran.lines[0].startswith(f"{DAY:%Y-%m-%d}: 1 hours") or ran.lines[1].startswith(
        f"{DAY:%Y-%m-%d}: 1 hours"
    )
    await fill(database, late[1:], stored_at=DAY)
    ran = await place.roll_up()
    assert any(line.startswith(f"{DAY:%Y-%m-%d}: 1 hours") for line in ran.lines)
    incremental = await place.everything()
    await place.connection.execute("DELETE FROM sluice.job_watermark")
    await place.roll_up()
    assert await place.everything() == incremental
    (row,) = await place.connection.fetch(
        "SELECT * FROM sluice.rollup_statement WHERE fingerprint = 'select late'"
    )
    assert (row["day"], row["finished"], row["rows"]) == (DAY.date(), 1, 3)


@pytest.mark.in_turn(4)
async def test_nothing_new_is_nothing_to_do(place: Place) -> None:
    ran = await place.roll_up()
    assert (ran.rows_in, ran.application) == (0, "")
    await place.fill(day_of_events(count=8))
    await place.roll_up()
    before = await place.everything()
    ran = await place.roll_up()
    assert (ran.rows_in, ran.application) == (0, "")
    assert await place.everything() == before
    # What somebody has removed, as a file that cannot be read, is made anew: its use would look like none.
    shutil.rmtree(next((place.lake / "rollup_usage").rglob("*.parquet")).parent)
    ran = await place.roll_up()
    assert any(line.startswith(f"{DAY:%Y-%m-%d}: 1 hours") for line in ran.lines)
    assert await place.everything() == before


@pytest.mark.in_turn(4)
async def test_days_that_went_from_postgresql_count_as_before(place: Place) -> None:
    await place.fill(day_of_events(count=30))
    # One that ends after midnight, on a day that stays.
    await place.fill(
        statement(DAY + timedelta(hours=23, minutes=59), after=timedelta(minutes=5), seed=random.Random(5))
    )
    await place.roll_up()
    before = await place.everything()
    await make_seal(place.connection, KEY, DAY.date())
    await place.archive(days=3)
    assert await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event") == 0
    await place.connection.execute("DELETE FROM sluice.job_watermark")
    await place.roll_up()
    assert await place.everything() == before
    assert (await place.roll_up()).rows_in == 0
    # An hour that the archive has no record of any more, or not of the day after it, is not made anew.
    there = max((place.lake / "audit_event").glob("day=*"))
    aside = there.rename(place.lake / there.name)
    shutil.rmtree(min((place.lake / "rollup_usage").glob("hour=*")))
    assert (await place.roll_up()).rows_in == 0
    # Nor is one that an event comes to late; others are made.
    await place.fill(statement(DAY + timedelta(hours=9), seed=random.Random(6)))
    decided, end = statement(DAY + timedelta(days=2), seed=random.Random(7))
    # Its view was made on the day before, of which there is no record any more.
    views = {"lineage": {"temp_views": {"v": str(UUID(int=7))}}}
    await place.fill([dataclasses.replace(decided, body={**decided.body, **views}), end])
    ran = await place.roll_up()
    assert ran.rows_in == 2
    assert any(line.startswith(f"{DAY:%Y-%m-%d}: 2 hours are unchanged") for line in ran.lines), ran.lines
    # Put back from a copy, both are made anew, without anything new.
    aside.rename(there)
    ran = await place.roll_up()
    assert any(line.startswith(f"{DAY:%Y-%m-%d}: 2 hours, day") for line in ran.lines)
    assert (await place.roll_up()).rows_in == 0


@pytest.mark.in_turn(4)
async def test_days_that_went_before_the_roll_ups_came_to_them_count(place: Place) -> None:
    await place.roll_up()
    await place.fill(day_of_events(count=8))
    await make_seal(place.connection, KEY, DAY.date())
    await place.archive(days=3)
    assert await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event") == 0
    await place.roll_up()
    found = await place.everything()
    assert found["rollup_usage"]
    await place.connection.execute("DELETE FROM sluice.job_watermark")
    await place.roll_up()
    assert await place.everything() == found


async def test_a_statement_that_ends_when_the_archive_alone_has_its_verdict_has_ended(place: Place) -> None:
    """Its gateway had no way to PostgreSQL for as long, say. One was sent at the end of an hour, and judged
    in the next; in PostgreSQL there is nothing of either."""
    seed = random.Random(3)
    decided, end = statement(DAY + timedelta(hours=3), seed=seed)
    later, its_end = statement(DAY + timedelta(hours=9, minutes=59, seconds=59), seed=seed)
    later = dataclasses.replace(later, time=written(DAY + timedelta(hours=10, seconds=3)))
    await place.fill([decided, later])
    await place.roll_up()
    await make_seal(place.connection, KEY, DAY.date())
    await place.archive(days=3)
    assert await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event") == 0
    counted = "SELECT sum(statements), sum(finished), sum(rows) FROM sluice.rollup_statement"
    assert tuple(await place.connection.fetchrow(counted)) == (2, 0, 0)
    for one in (end, its_end):
        await place.fill([dataclasses.replace(one, time=written(DAY + timedelta(days=2)))])
    await place.roll_up()
    assert tuple(await place.connection.fetchrow(counted)) == (2, 2, 6)
    assert (await place.roll_up()).rows_in == 0


@pytest.mark.in_turn(4)
async def test_garbage_counts_for_nothing_and_stops_nothing(place: Place) -> None:
    await place.fill(day_of_events(count=8))
    await place.roll_up()
    (before,) = await reports.find_slow_shapes(place.connection, RollupFilter())
    bodies = [
        "[]",
        "null",
        "7",
        '{"scans": 3, "decisions": "x"}',
        '{"scans": [[], {"columns": [[1]]}, null]}',
    ]
    bodies += ['{"scans": [{"table": null, "columns": null, "obligations": [null]}]}']
    bodies += ['{"decisions": [{"result": "no"}, {"result": 0}]}', '{"scans": [{"table": "\\ud83d\\ude00"}]}']
    await place.connection.executemany(
        "INSERT INTO sluice.audit_event"
        " (event_id, time, kind, gateway, user_name, body, verdict, statement_id, duration_ms, statement)"
        " VALUES (gen_random_uuid(), $1, $2, '', '', $3, $4, $5, $6, $7)",
        [
            (DAY + timedelta(hours=index), kind, body, verdict, sid, ms, text)
            for index, body in enumerate(bodies)
            for kind, verdict, sid, ms, text in (
                ("decided", "cleared", None, float("nan"), "SELECT 'x"),
                ("decided", "refused", None, -1.0, None),
                ("completed", None, None, float("inf"), None),
                ("?", "rejected", None, None, "((((" * 200),
            )
        ],
    )
    await place.connection.execute(
        "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, body, verdict,"
        " statement_id, rows, bytes, duration_ms)"
        " SELECT gen_random_uuid(), $1, kind, '', 'max', '{\"scans\": [{\"table\": \"a.b.c\"}]}', 'cleared',"
        " md5(n::text)::uuid, 9223372036854775807, 9223372036854775807, 'Infinity'"
        " FROM generate_series(1, 3) n, unnest('{decided,completed}'::text[]) kind",
        DAY,
    )
    await place.connection.execute(
        "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, body, verdict,"
        " statement_id, rows, bytes, duration_ms)"
        " SELECT gen_random_uuid(), $1, kind, '', 'min', '{\"scans\": [{\"table\": \"a.b.c\"}]}', 'cleared',"
        " md5(ms::text)::uuid, -9223372036854775808, -9223372036854775808, ms"
        " FROM unnest('{-1,NaN,Infinity,-Infinity,1e308,1.1e308}'::float8[]) ms,"
        " unnest('{decided,completed}'::text[]) kind",
        DAY,
    )
    await place.connection.execute("DELETE FROM sluice.job_watermark")
    await place.roll_up()
    found = await reports.find_slow_shapes(place.connection, RollupFilter())
    assert before in found
    (none,) = await reports.find_slow_shapes(place.connection, RollupFilter(user="min"))
    assert (none["statements"], none["rows"], none["judge_ms"], none["run_ms"]) == (6, 0, 0.0, 0.0)
    (least,) = await reports.usage(place.connection, RollupFilter(user="min"))
    assert (least["statements"], least["rows"], least["bytes"]) == (6, 0, 0)
    assert not await reports.latency(place.connection, RollupFilter(), "user", "min")
    (most,) = await reports.usage(place.connection, RollupFilter(user="max"))
    assert (most["statements"], most["rows"], most["bytes"]) == (3, 3 * 10**15, 3 * 10**15)
    assert {row["code"] for row in await reports.load_refusals(place.connection, RollupFilter(user=""))} == {
        "DECIDED",
        "?",
    }


async def test_erased_texts_have_no_shape(place: Place) -> None:
    await place.fill(day_of_events(count=24))
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=None)
    await place.roll_up()
    shapes = await place.connection.fetch("SELECT user_name, fingerprint FROM sluice.rollup_statement")
    assert {row["user_name"] for row in shapes if not row["fingerprint"]} == {"bob"}


async def test_a_day_keeps_the_costliest_shapes_only_and_the_lake_all(place: Place) -> None:
    seed = random.Random(4)
    for index in range(5):
        await place.fill(statement(DAY, f"SELECT column{index} FROM t", seed=seed))
    await place.roll_up(statements=2)
    assert len(await place.summary("rollup_statement")) == 2
    assert len(await place.lake_rows("rollup_statement")) == 5


def at_noon(event: AuditEvent, day: date) -> AuditEvent:
    moment = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    return at(
        event, moment, "gate0-00000000", random.Random(7), statement_id=identity(moment, random.Random(8))
    )


async def test_what_was_denied_is_told_with_its_columns(place: Place) -> None:
    event = at_noon(refused(), DAY.date())
    denied = {
        "resource": "spark_catalog/hr/employee",
        "resType": "@column",
        "action": "select",
        "result": 0,
        "policy": 4,
        "policy_name": "no pay",
        "columns": ["salary", "bonus"],
    }
    allowed = denied | {"result": 1, "columns": ["name"]}
    body = {
        **orjson.loads(orjson.dumps(dict(event.body))),
        "decisions": [allowed, denied],
        "groups": ["staff"],
    }
    await place.fill([dataclasses.replace(event, body=body)])
    await place.connection.execute(
        "INSERT INTO sluice.tag_proposal (catalog, database, table_name, column_name, tag, attributes, state,"
        " asks, origins) VALUES"
        " ('spark_catalog', 'hr', 'employee', 'salary', 'PAY', '[]', 'accepted', false, '[]'),"
        " ('spark_catalog', 'hr', 'employee', 'name', 'NAME', '[]', 'accepted', false, '[]')"
    )
    await place.roll_up()
    (row,) = await reports.load_refusals(place.connection, RollupFilter(table="spark_catalog.hr"))
    assert (row["resource"], row["action"], row["policy"]) == (
        "spark_catalog/hr/employee/bonus,salary",
        "select",
        "no pay",
    )
    assert await reports.load_refusals(place.connection, RollupFilter(table="Spark_Catalog.`HR`.employee"))
    assert not await reports.load_refusals(place.connection, RollupFilter(table="spark_catalog.h"))
    for narrowed in (RollupFilter(group="staff"), RollupFilter(tag="PAY")):
        assert await reports.load_refusals(place.connection, narrowed) == [row]
    for narrowed in (RollupFilter(group="others"), RollupFilter(tag="NAME")):
        assert not await reports.load_refusals(place.connection, narrowed)
    # What was denied is told as it was typed, and tags are in lower case.
    await place.connection.execute(
        "UPDATE sluice.rollup_refusal SET resource = 'Spark_Catalog/HR/Employee/Bonus,SALARY'"
    )
    assert await reports.load_refusals(place.connection, RollupFilter(tag="PAY"))
    assert not await reports.load_refusals(place.connection, RollupFilter(tag="NAME"))
    # A nested namespace is one level with dots.
    await place.connection.execute("UPDATE sluice.rollup_refusal SET resource = 'lake/a.B/t/ssn'")
    for name in ("lake.a.b.t", "lake.a.b", "lake.a", "lake"):
        assert await reports.load_refusals(place.connection, RollupFilter(table=name)), name
    assert not await reports.load_refusals(place.connection, RollupFilter(table="lake.a.b.t.s"))


@pytest.mark.parametrize(
    ("buckets", "share", "least", "most"),
    [
        ({}, 0.5, 0, 0),
        ({1: 1}, 0.5, 1, 1.1),
        ({-80: 99, 80: 1}, 0.99, 0, 0.002),
        ({0: 1, 80: 1}, 0.99, 1024, 1024),
    ],
)
def test_percentiles_are_the_upper_ends_of_buckets(
    buckets: dict[int, int], share: float, least: float, most: float
) -> None:
    assert least <= reports.percentile(buckets, share) <= most
