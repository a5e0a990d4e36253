"""A replay tells what anybody would who judged each statement of the record under both sets of policies.

It takes some 40 s: each of Spark's Python workers starts a parser.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import random
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from gateway.cli.replay import show
from gateway.cli.terminal import Terminal
from gateway.jobs.replay.comparing import (
    AskedAccess,
    Change,
    Judged,
    changes,
    explain_not_comparable,
    extract_judged,
)
from gateway.jobs.replay.judging import Judges, Known, Parcel, ReaderOptions, Sides
from gateway.jobs.replay.report import ReplayReport, read_report
from gateway.lineage.recorded import LineageInput
from gateway.model.audit import AuditEvent
from gateway.model.statement import Cleared, Client, PlanRequest
from gateway.pipeline import Rules
from gateway.plan.rendering import render
from gateway.reader.java_runtime import find_spark_home, spark_version
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from gateway.session import audit_records
from gateway.session.audit_records import Stamp
from tests.jobs.records import DAY, NOW, at, fill, identity, question
from tests.jobs.worker import Ran, Worker, archive_of, replay_of
from tests.judge_world import World
from tests.pipeline import test_functions as functions
from tests.plan.frames import message, sql, table
from tests.readers import patient

STATEMENTS = (
    ("bob", "SELECT name, email FROM employee WHERE id = 7"),
    ("bob", "SELECT name, email FROM employee WHERE id = 8"),
    ("bob", "SELECT salary FROM employee"),
    ("bob", "SELECT * FROM department WHERE name = 'Geheim'"),
    ("bob", "SELECT id FROM sales.orders"),
    ("bob", "INSERT INTO sales.orders VALUES (1, 2, 'EMEA', 3)"),
    ("bob", "SELECT 1"),
    ("bob", "SELECT nonsense FROM FROM"),
    ("eve", "SELECT name FROM department"),
    ("ann", "SELECT ssn FROM employee"),
    ("ann", "SELECT who FROM directory"),
)
OLD = str(World().data["pack"])
NEW = (
    OLD.replace("column: [id, name, email, region]", "column: [id, email, region, salary]")
    .replace("type: MASK_HASH", "type: MASK_NULL")
    .replace("access: [insert, delete, create, drop, alter]", "access: [delete, create, drop, alter]")
    + """
  - name: everybody reads departments
    on: {catalog: spark_catalog, database: hr, table: department, column: "*"}
    allow: [{groups: [public], access: [select]}]
  - name: few departments
    on: {catalog: spark_catalog, database: hr, table: department}
    filter: [{groups: [analysts], where: "id < 10"}]
"""
)


async def recorded(
    world: World, reader: ReaderPool, statements: Any = STATEMENTS, *, number: int = 1, use: str = "hr"
) -> list[AuditEvent]:
    """Return the record of statements, as a gateway makes it under the old policies."""
    seed, lineage = random.Random(number), LineageInput()
    found = []
    for index, (user, text) in enumerate(statements):
        verdict = await world.judge(text, reader, user=user, use=use, rules=Rules())
        moment = DAY + timedelta(minutes=index)
        event = audit_records.build_decided(
            Stamp(identity(moment, seed), "", ""),
            verdict,
            client=Client(address="10.0.0.5:51000", protocol="thrift"),
            duration_us=1800,
            lineage=lineage(verdict, {}, {}) if isinstance(verdict, Cleared) else None,
        )
        found.append(at(event, moment, "gate0-00000000", seed))
    return found


def frames() -> list[tuple[str, Any]]:
    """Return DataFrames, by who asks: read, filtered, joined, with SQL within, and one refused."""
    from pyspark.sql.connect import functions as f

    employees, departments = table("employee"), table("department")
    return [
        ("bob", employees.filter(f.col("id") > 7).select("name", "email")),
        ("bob", employees.filter(f.col("id") > 8).select("name", "email")),
        ("bob", employees.join(departments, "id").select(employees["email"], departments["name"])),
        ("bob", sql("SELECT email FROM employee").limit(3)),
        ("bob", sql("SELECT name FROM department")),
        ("ann", employees.select("ssn")),
        ("bob", employees.select("salary")),
        ("eve", departments.select("name")),
    ]


def request(frame: Any) -> PlanRequest:
    return PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))


async def recorded_frames(world: World, reader: ReaderPool) -> list[AuditEvent]:
    """Return the record of the DataFrames, as a gateway makes it under the old policies."""
    seed, lineage = random.Random(5), LineageInput()
    found = []
    for index, (user, frame) in enumerate(frames()):
        verdict = await world.judge_plan(request(frame), reader, user=user, rules=Rules())
        moment = DAY + timedelta(hours=2, minutes=index)
        event = audit_records.build_decided(
            Stamp(identity(moment, seed), "", ""),
            verdict,
            client=Client(address="10.0.0.5:51000", protocol="connect"),
            duration_us=1800,
            lineage=lineage(verdict, {}, {}) if isinstance(verdict, Cleared) else None,
        )
        found.append(at(event, moment, "gate0-00000000", seed))
    return found


# ---------------------------------------------------------------- without Spark


def cleared(**more: Any) -> Judged:
    return Judged(cleared=True, **more)


SSN = AskedAccess("spark_catalog.hr.employee", "ssn", "select")
DENIED = Judged(cleared=False, code="ACCESS_DENIED", denied=frozenset({SSN}))


def test_what_is_compared_of_two_verdicts() -> None:
    masked = cleared(masks={("t", "a"): "NULL"})
    filtered = cleared(filters={"t": "id < 10"})
    assert changes(cleared(), cleared()) == []
    assert changes(DENIED, DENIED) == []
    assert changes(cleared(), DENIED) == [
        Change("lost", "spark_catalog.hr.employee", "ssn", "as it is", "refused")
    ]
    seen = cleared(masks={("spark_catalog.hr.employee", "ssn"): "NULL"})
    assert changes(DENIED, seen) == [Change("gained", "spark_catalog.hr.employee", "ssn", "refused", "NULL")]
    assert changes(cleared(), masked) == [Change("mask", "t", "a", "as it is", "NULL")]
    assert changes(masked, cleared()) == [Change("mask", "t", "a", "NULL", "as it is")]
    assert changes(filtered, cleared()) == [Change("filter", "t", "", "id < 10", "every row")]
    # A column that `*` has no more, and one that it names and that is not there for the user.
    both, one = (cleared(used={"t": frozenset(names)}) for names in ("ab", "a"))
    one = replace(one, masks={("t", "c"): "NULL"})
    assert changes(both, one) == [Change("lost", "t", "b", "as it is", "refused")]
    assert changes(cleared(), cleared(denied=frozenset({SSN})))[0].kind == "lost"
    # A mask that does not fit its column is no decision on anything.
    assert changes(cleared(), Judged(cleared=False, code="NOT_GOVERNABLE")) == [
        Change("lost", "", "", "as it is", "refused: NOT_GOVERNABLE")
    ]


EMPLOYEE, DIRECTORY = "spark_catalog.hr.employee", "spark_catalog.hr.directory"
EVES = """
  - name: eve reads
    on: {catalog: spark_catalog, database: hr, table: [employee, directory], column: "*"}
    allow: [{users: [eve], access: [select]}]
  - name: no pay for eve
    on: {catalog: spark_catalog, database: hr, table: employee, column: salary}
    mask: [{users: [eve], type: MASK_NULL}]
  - name: rows of eve
    on: {catalog: spark_catalog, database: hr, table: employee}
    filter: [{users: [eve], where: "id < 9"}]
"""
NULL_PAY = ("gained", EMPLOYEE, "salary", "CASE WHEN FALSE THEN `salary` END")
FEW_ROWS = ("filter", EMPLOYEE, "", "id < 9")


@pytest.mark.parametrize(
    ("text", "gained"),
    [
        (
            "SELECT name, salary FROM employee",
            {("gained", EMPLOYEE, "", "as it is, except some rows, salary"), NULL_PAY, FEW_ROWS},
        ),
        ("SELECT name FROM employee", {("gained", EMPLOYEE, "", "as it is, except some rows"), FEW_ROWS}),
        ("SELECT pay FROM directory", {("gained", DIRECTORY, "", "as it is"), NULL_PAY, FEW_ROWS}),
    ],
)
@pytest.mark.asyncio(loop_scope="session")
async def test_of_a_table_it_is_told_what_is_masked_and_filtered(
    reader: ReaderPool, text: str, gained: set[tuple[str, str, str, str]]
) -> None:
    worlds = (World(), World({**World().data, "pack": OLD + EVES}))
    old, new = [extract_judged(await one.judge(text, reader, user="eve", rules=Rules())) for one in worlds]
    assert set(changes(old, new)) == {
        Change(kind, table, column, "refused", seen) for kind, table, column, seen in gained
    }
    lost = {"gained": "lost", "filter": "filter"}
    assert set(changes(new, old)) == {
        Change(lost[kind], table, column, seen, "refused") for kind, table, column, seen in gained
    }


def test_what_is_masked_is_told_of_what_was_denied_alone() -> None:
    guarded = {"masks": {("t", "a"): "NULL", ("t", "b"): "0"}, "filters": {"t": "id < 9"}}
    of_column = Judged(
        cleared=False, denied=frozenset({AskedAccess("t", "a", "select")}), allowed=frozenset({"t"})
    )
    assert changes(of_column, cleared(**guarded)) == [
        Change("filter", "t", "", "refused", "id < 9"),
        Change("gained", "t", "a", "refused", "NULL"),
    ]
    of_others = frozenset({AskedAccess("u", "", access) for access in ("select", "delete")})
    both = Judged(cleared=False, denied=of_others, allowed=frozenset({"t"}))
    assert changes(both, cleared(**guarded)) == [
        Change("gained", "u", "", "refused", "as it is"),
        Change("gained", "u", "", "refused", "delete"),
    ]
    insert = Judged(cleared=False, denied=frozenset({AskedAccess("u", "", "insert")}))
    assert changes(insert, cleared(**guarded)) == [Change("gained", "u", "", "refused", "insert")]


@pytest.mark.parametrize(
    ("recorded", "code", "old", "trusted"),
    [
        ("cleared", "", cleared(plan_class="Project"), True),
        ("cleared", "", cleared(plan_class="Filter"), False),
        ("cleared", "", DENIED, True),
        ("cleared", "", Judged(cleared=False, code="SPARK"), False),
        ("refused", "ACCESS_DENIED", cleared(), True),
        ("refused", "SPARK", Judged(cleared=False, code="SPARK"), True),
        ("refused", "ACCESS_DENIED", Judged(cleared=False, code="SPARK"), False),
        ("refused", "ACCESS_DENIED", Judged(cleared=False, code="UNAVAILABLE"), False),
    ],
)
def test_a_verdict_that_policies_do_not_decide_has_to_be_that_of_the_record(
    recorded: str, code: str, old: Judged, trusted: bool
) -> None:
    assert (explain_not_comparable(recorded, code, "Project", old) == "") is trusted


def test_a_worker_keeps_one_parser_and_asks_for_names_that_it_does_not_know() -> None:
    """Without a loop of ours around it, as in a worker."""
    world = functions.world("(SELECT max(id) FROM department)")
    version = spark_version(find_spark_home())
    options = ReaderOptions(spark_version=version, limits=patient(ReaderLimits()))
    judges = Judges(options)
    try:
        sides = Parcel.of(
            Sides(old=world.policies, new=world.policies, principals=world.principals, rules=Rules())
        )
        row = question("SELECT who FROM directory WHERE id = 4711", groups=["admins"], namespace="hr")
        nothing = Known(catalogs=frozenset({"spark_catalog"}))
        (asked,) = judges.answers([row], sides, Parcel.of(nothing))
        assert asked["needs"] == [["spark_catalog", "hr", "directory", ""]]
        pids = {process.pid for process in judges.reader._processes}
        known = dataclasses.replace(nothing, tables=world.tables)
        (answer,) = judges.answers([row], sides, Parcel.of(known))
        assert (answer["needs"], answer["old"], answer["new"], answer["changes"]) == (
            None,
            *["cleared"] * 2,
            [],
        )
        assert "4711" not in answer["fingerprint"]
        frame = message(
            sql('SELECT who FROM directory WHERE who = "Ann Lee" OR who = "x"').filter("who > 'a'")
        )
        packed = base64.b64encode(zlib.compress(frame.SerializeToString())).decode()
        (answer,) = judges.answers(
            [{**row, "text": render(frame), "plan": packed, "plan_class": ""}], sides, Parcel.of(known)
        )
        assert (answer["reason"], answer["old"]) == (None, "cleared")
        assert answer["fingerprint"] == "spark . sql ( ? ) . filter ( ? )"
        assert {process.pid for process in judges.reader._processes} == pids
        # A function is not the table of its name.
        calls = question("SELECT spark_catalog.hr.f()", groups=["admins"], namespace="hr")
        without = dataclasses.replace(known, tables={n: t for n, t in world.tables.items() if not n.version})
        (asked,) = judges.answers([calls], sides, Parcel.of(without))
        assert asked["needs"] == [[*dataclasses.astuple(functions.CALLED)]]
        (answer,) = judges.answers([calls], sides, Parcel.of(known))
        assert (answer["reason"], answer["old"]) == (None, "cleared")
        broken = {**row, "tables": base64.b64encode(b"nonsense").decode()}
        (answer,) = judges.answers([broken], sides, Parcel.of(known))
        assert answer["reason"] == "the recorded tables cannot be read"
    finally:
        judges.close()


# ---------------------------------------------------------------- on Spark


@dataclass
class Ground:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any
    world: World

    async def replay(self, *, new: str = NEW, **chosen: Any) -> tuple[Ran, ReplayReport]:
        chosen = {"now": list(self.world.tables.values()), **chosen}
        chosen |= {"old": OLD, "new": new, "principals": self.world.principals}
        ran = await self.worker.run(replay_of, chosen, dsn=self.dsn, lake=self.lake, now=NOW)
        run = await self.connection.fetchval("SELECT max(run) FROM sluice.replay")
        return ran, await read_report(self.connection, run, limit=1_000)


@pytest_asyncio.fixture(loop_scope="session")
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Ground]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        yield Ground(database, tmp_path / "lake", worker, connection, World())
    finally:
        await connection.close()


def told(report: ReplayReport) -> set[tuple[Any, ...]]:
    names = ("kind", "user_name", "resource", "column_name", "before", "after", "statements")
    return {tuple(one[name] for name in names) for one in report.changes}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(4, place=2)
async def test_a_replay_tells_what_judging_each_statement_tells(place: Ground, reader: ReaderPool) -> None:
    events = await recorded(place.world, reader)
    again = [dataclasses.replace(one) for one in await recorded(place.world, reader, number=2)]
    await fill(place.dsn, [*events, *again])
    _, report = await place.replay()
    other = World({**place.world.data, "pack": NEW})
    expected: dict[tuple[str, ...], int] = {}
    for user, text in STATEMENTS:
        old = extract_judged(await place.world.judge(text, reader, user=user, rules=Rules()))
        new = extract_judged(await other.judge(text, reader, user=user, rules=Rules()))
        for one in changes(old, new):
            key = (one.kind, user, one.resource, one.column, one.before, one.after)
            expected[key] = expected.get(key, 0) + 2
    assert told(report) == {(*key, count) for key, count in expected.items()}
    assert {one["kind"] for one in report.changes} == {"lost", "gained", "mask", "filter"}
    assert ("gained", "eve", "spark_catalog.hr.department", "", "refused", "as it is", 2) in told(report)
    assert "Geheim" not in repr(report)
    totals = report.totals
    assert (totals["statements"], totals["asked_nothing"], totals["unjudged"]) == (22, 2, 0)
    assert totals["decided_otherwise"] == 0
    rows = await place.worker.rows(place.lake / "replay", "SELECT sum(statements) AS n FROM lake")
    assert rows == [{"n": 22}]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(3)
async def test_the_same_policies_change_nothing(place: Ground, reader: ReaderPool) -> None:
    await fill(place.dsn, await recorded(place.world, reader))
    _, report = await place.replay(new=OLD)
    assert (report.totals["judged"], report.totals["changed"], report.unjudged) == (10, 0, ())


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(4, place=0)
async def test_names_stand_for_what_they_stood_for(place: Ground, reader: ReaderPool) -> None:
    """Tables that are gone since are judged by the record; of what was refused names of now are known."""
    await fill(place.dsn, await recorded(place.world, reader))
    _, was = await place.replay(now=None)
    assert {one["reason"]: one["statements"] for one in was.unjudged} == {
        "it names tables that are not in the record, and no Spark is configured to look them up": 1
    }
    assert was.totals["judged"] == 9
    _, now = await place.replay(now=[], catalog="now")
    assert {one["reason"]: one["statements"] for one in now.unjudged} == {
        "a table that it names does not exist": 7,
        "it was cleared, and is now refused for a reason other than policies: SPARK": 1,
    }
    # What policies say of a name does not go by whether it is there.
    assert {one[:3] for one in told(now)} == {("gained", "eve", "spark_catalog.hr.department")}
    assert now.totals["decided_otherwise"] == 0


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(3)
async def test_what_cannot_be_judged_is_counted_with_the_reason(place: Ground, reader: ReaderPool) -> None:
    events = await recorded(place.world, reader, STATEMENTS[:6])
    bare = {name: value for name, value in events[0].body.items() if name != "lineage"}
    seed = random.Random(9)
    more = [
        dataclasses.replace(events[0], body=bare),
        dataclasses.replace(events[1], body={**events[1].body, "plan_class": "Command"}),
        dataclasses.replace(events[3], body={**events[3].body, "reqData": "SELECT 2"}),
        dataclasses.replace(events[4], body={**events[4].body, "plan": "analyze"}),
        # As of rows of the client's, or of a command that has neither text nor plan on record.
        dataclasses.replace(events[5], body={**bare, "plan": "execute", "texts": []}),
        dataclasses.replace(events[5], body={**events[5].body, "plan": "execute", "texts": []}),
    ]
    moment = DAY + timedelta(hours=1)
    more = [at(one, moment, "gate0-00000000", seed, statement_id=identity(moment, seed)) for one in more]
    await fill(place.dsn, [*events, *more])
    _, report = await place.replay()
    assert {one["reason"]: one["statements"] for one in report.unjudged} == {
        "the record does not contain the tables that it read": 3,
        "this Spark version parses it differently from the recorded one": 1,
        "its text was too long for the record, or had characters that cannot be stored": 1,
        "the record has no plan of it: Spark only analyzed it": 1,
    }
    assert report.totals["judged"] == 6


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(4, place=3)
async def test_dataframes_are_judged_by_their_plans(place: Ground, reader: ReaderPool) -> None:
    """With the rest of the record around them; what a plan's SQL and its messages read counts the same."""
    await fill(place.dsn, [*await recorded_frames(place.world, reader), *await recorded(place.world, reader)])
    _, report = await place.replay(since=DAY + timedelta(hours=1))
    other = World({**place.world.data, "pack": NEW})
    expected: dict[tuple[str, ...], int] = {}
    for user, frame in frames():
        old = extract_judged(await place.world.judge_plan(request(frame), reader, user=user, rules=Rules()))
        new = extract_judged(await other.judge_plan(request(frame), reader, user=user, rules=Rules()))
        if old.cleared:
            for one in changes(old, new):
                key = (one.kind, user, one.resource, one.column, one.before, one.after)
                expected[key] = expected.get(key, 0) + 1
    assert told(report) == {(*key, count) for key, count in expected.items()}
    assert {one["kind"] for one in report.changes} == {"lost", "gained", "mask", "filter"}
    assert {one["reason"]: one["statements"] for one in report.unjudged} == {
        "the record has no plan of a refused DataFrame": 1
    }
    assert (report.totals["judged"], report.totals["decided_otherwise"]) == (7, 0)
    _, same = await place.replay(since=DAY + timedelta(hours=1), new=OLD)
    assert (same.totals["judged"], same.totals["changed"]) == (7, 0)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(4, place=0)
async def test_a_killed_replay_leaves_nothing_and_old_ones_go(place: Ground, reader: ReaderPool) -> None:
    await fill(place.dsn, await recorded(place.world, reader, STATEMENTS[:2]))
    for _ in range(2):
        await place.replay(keep=1)
    (place.lake / "replay" / "run=999").mkdir()
    ran, _ = await place.replay(keep=1)
    kept = await place.connection.fetch("SELECT run FROM sluice.replay")
    assert len(kept) == 1
    left = {one.name for one in (place.lake / "replay").glob("run=*")}
    assert f"run={kept[0]['run']}" in left
    assert len(left) == 2  # those before this one go with the next
    assert ran.rows_in == 2


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(4, place=3)
async def test_days_that_only_the_archive_has(place: Ground, reader: ReaderPool) -> None:
    events = await recorded(place.world, reader)
    await fill(place.dsn, events)
    _, before = await place.replay(since=DAY, until=DAY + timedelta(days=1))
    await place.worker.run(archive_of, {}, dsn=place.dsn, lake=place.lake, now=NOW)
    await place.connection.execute(
        "UPDATE sluice.archive_day SET dropped_events = events WHERE day = $1", DAY.date()
    )
    await place.connection.execute("ALTER TABLE sluice.audit_event DISABLE TRIGGER ALL")
    await place.connection.execute("DELETE FROM sluice.audit_event")
    _, after = await place.replay(since=DAY, until=DAY + timedelta(days=1))
    assert told(after) == told(before)
    assert after.totals["judged"] == before.totals["judged"] > 0
    asked = await read_report(place.connection, after.totals["run"], limit=1_000, literals=True)
    assert set(asked.texts.values()) == {None}
    stream = io.StringIO()
    show(Terminal(stream, colour=False), asked)
    assert f"{len(asked.texts)} examples without their literals" in stream.getvalue()
