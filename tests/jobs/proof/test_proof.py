"""A proof finds what the gateway does wrong, and nothing where it does not. It takes some 100 s of Spark."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from gateway.errors import ProofFailed
from gateway.jobs.proof.comparing import EMPTY, REMNANTS, UNSTABLE, Difference, StatementRuns, difference
from gateway.jobs.proof.copies import Unprovable, recipe
from gateway.jobs.proof.masking import mask_of
from gateway.jobs.proof.report import alarms, load_unproved, proofs
from gateway.jobs.proof.rows import Rows
from gateway.jobs.proof.sandbox import Failed, Sandbox, TooLarge
from gateway.jobs.proof.stopping import Stopped, unless_stopped
from gateway.jobs.spark import NotCollected, collect
from gateway.model.catalog import TableName
from gateway.model.context import AccessContext
from gateway.reader.pool import ReaderPool
from tests.jobs.records import NOW, fill
from tests.jobs.replay.test_replay import recorded
from tests.jobs.worker import Ran, Worker, proof_of
from tests.judge_world import World
from tests.pipeline.test_definers import world_of
from tests.speed import patience

DATA: dict[str, list[tuple[Any, ...]]] = {
    "spark_catalog.hr.employee": [
        (i, f"Name {i}", f"n{i}@x.example", "EMEA" if i % 3 else "APAC", Decimal(i * 100), f"ssn-{i}")
        for i in range(40)
    ],
    "spark_catalog.hr.department": [(i, "x" if i == 3 else f"dept {i}") for i in range(8)],
    "spark_catalog.sales.orders": [(i, i % 7, "EMEA", Decimal(i)) for i in range(60)],
    "spark_catalog.sales.fit": [(i,) for i in range(8)],
}
STATEMENTS = (
    ("bob", "SELECT name, email FROM employee WHERE id < 7"),
    ("bob", "SELECT count(*), region FROM employee GROUP BY region"),
    ("bob", "SELECT e.name, d.name FROM employee e JOIN department d ON d.id = e.id"),
    ("bob", "SELECT sum(amount) FROM sales.orders"),
    ("bob", "SELECT * FROM sales.fit"),
    ("ann", "SELECT ssn, email FROM employee"),
    ("bob", "SELECT who, pay FROM directory WHERE id < 9"),
    ("bob", "SELECT u.name, (SELECT count(*) FROM payroll) AS paid FROM units u"),
    ("ann", "SELECT who, pay FROM payroll"),
)
LEFT_OUT = (
    ("ann", "SELECT rand() AS chance, id FROM employee"),
    ("ann", "SELECT id, current_timestamp() AS now FROM employee"),
    ("ann", "SELECT id FROM employee LIMIT 3"),
    ("ann", "SELECT first(id) AS one FROM employee"),
    ("ann", "SELECT id FROM recent"),
    ("ann", "DESCRIBE employee"),
    ("ann", "SELECT id DIV (id - id) AS none FROM employee"),
    ("ann", "SELECT name, ssn FROM employee WHERE id = 987654"),
    ("ann", "SELECT id, secret FROM ledger"),
    ("ann", "SELECT region, measure(n) FROM measured GROUP BY region"),
    ("ann", "SELECT max(region) FROM measured"),
    (
        "ann",
        "SELECT a || b AS both FROM (SELECT name COLLATE UTF8_LCASE AS a, region COLLATE UNICODE AS b "
        "FROM employee)",
    ),
)
MEASURED = """
version: 0.1
source: spark_catalog.hr.employee
dimensions: [{name: region, expr: region}]
measures: [{name: n, expr: count(*)}]
"""


def days(year: int, month: int, day: int) -> int:
    return (date(year, month, day) - date(1970, 1, 1)).days


TOGETHER = """
  - name: secrets beside their numbers
    on: {catalog: spark_catalog, database: hr, table: ledger, column: secret}
    conditions: [{type: accessed-together, values: [hr.ledger.id, hr.ledger.secret]}]
    mask: [{groups: [admins], type: MASK_NULL}]
"""
ELSEWHERE = ("ann", "SELECT name FROM spark_catalog.hr.department")


@pytest.mark.parametrize(
    ("mask_type", "data_type", "value", "shown"),
    [
        ("MASK", "string", "Ann-42 é", "Xxx-nn x"),
        ("MASK_SHOW_LAST_4", "string", "Ann-42 é", "xxx-42 é"),
        ("MASK_SHOW_FIRST_4", "varchar(20)", "4111 1111 1111 1234", "4111 xxxx xxxx xxxx"),
        ("MASK_HASH", "string", "a", hashlib.sha256(b"a").hexdigest()),
        ("MASK_HASH", "varchar(8)", "a", hashlib.sha256(b"a").hexdigest()[:8]),
        # Letters that have a case in Python only, and numbers that are no digits.
        ("MASK", "string", "2º Ⅷ ½ Ñandú 8", "nº Ⅷ ½ Xxxxx n"),
        ("MASK", "tinyint", -128, -111),
        ("MASK_SHOW_LAST_4", "int", -1234567, -1114567),
        ("MASK_SHOW_FIRST_4", "bigint", 9223372036854775807, 9223111111111111111),
        ("MASK_DATE_SHOW_YEAR", "date", days(1987, 6, 5), days(1987, 1, 1)),
        ("MASK_DATE_SHOW_YEAR", "date", days(9999, 12, 31) + 1, days(9999, 12, 31) + 1),
        ("MASK_DATE_SHOW_YEAR", "date", days(9999, 12, 31) + 366, days(9999, 12, 31) + 1),
        ("MASK_DATE_SHOW_YEAR", "date", days(1, 1, 1) - 1, days(1, 1, 1) - 366),
        ("MASK_DATE_SHOW_YEAR", "date", -(2**31), None),
        ("MASK", "date", days(1987, 6, 5), days(1900, 1, 1)),
        ("MASK_HASH", "date", days(1987, 6, 5), None),
        ("MASK", "decimal(10,2)", Decimal(1), None),
        ("MASK_NULL", "string", "a", None),
        ("MASK", "string", None, None),
    ],
)
def test_masks_of_values_are_those_of_the_documentation(
    mask_type: str, data_type: str, value: Any, shown: Any
) -> None:
    mask = mask_of(mask_type, data_type)
    assert mask is not None
    assert mask(value) == shown


@pytest.mark.parametrize(
    ("mask_type", "data_type"), [("CUSTOM", "string"), ("MASK", "char(4)"), ("OWN", "int")]
)
def test_what_is_not_told_here_is_not_guessed(mask_type: str, data_type: str) -> None:
    assert mask_of(mask_type, data_type) is None


def test_a_copy_has_what_policies_say_of_its_user() -> None:
    world = World()
    table = world.tables[TableName("spark_catalog", "hr", "employee")]
    ann, bob = ((world.principals[name],) for name in ("ann", "bob"))
    of_bob = recipe(world.policies, bob, bob, table, AccessContext())
    assert of_bob.columns == ("id", "name", "email", "region")
    assert (of_bob.rows, [name for name, _ in of_bob.masks]) == ("region = 'EMEA'", ["email"])
    of_ann = recipe(world.policies, ann, ann, table, AccessContext())
    assert not of_ann.hides
    assert of_ann.digest != of_bob.digest
    # Through a view of ann's, his masks and filters hold on what he could not select by himself.
    lent = recipe(world.policies, bob, ann, table, AccessContext())
    assert (len(lent.columns), lent.rows) == (6, "region = 'EMEA'")
    assert [name for name, _ in lent.masks] == ["email", "salary"]


def rows(*values: Any, name: str = "a") -> Rows:
    return Rows.of((name,), [(value,) for value in values])


def test_rows_are_compared_as_multisets() -> None:
    assert rows(1, 2, 2).is_like(rows(2, 1, 2))
    assert not rows(1, 2).is_like(rows(1, 2, 2))
    assert not rows(1).is_like(rows(1, name="b"))
    assert rows(1, 2, 2).count_missing(rows(1, 2)) == 1


SUM, OTHER_ORDER = 27160626.849999998, 27160626.850000005
"""Of the same amounts: by nine digits ….8 and ….9."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SUM, OTHER_ORDER),
        ([("x", SUM)], [("x", OTHER_ORDER)]),
        ({"b": SUM, "a": 1.0}, {"a": 1.0, "b": OTHER_ORDER}),
        ({SUM: 1}, {OTHER_ORDER: 1}),
        (math.nan, math.nan),
        ([-math.inf, SUM], [-math.inf, OTHER_ORDER]),
        (0.0, -0.0),
    ],
)
def test_sums_of_floats_may_be_made_in_another_order(one: Any, other: Any) -> None:
    assert rows(one, one).is_like(rows(other, one))
    assert not rows(one, one).is_like(rows(other, None))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SUM, SUM * (1 + 1e-8)),
        (math.nan, 1.0),
        (math.inf, -math.inf),
        (math.nan, "nan"),
        ([1.0, 2.0], [2.0, 1.0]),
        (("x", SUM), ("y", SUM)),
        (0.0, 1e-12),
        (1.0, 1),
    ],
)
def test_other_floats_are_no_order_of_summing(one: Any, other: Any) -> None:
    assert rows(one, None).count_missing(rows(None, other)) == 1


def test_each_row_of_floats_is_paired_once() -> None:
    pairs = [(1.0, float(i)) for i in range(2_000)]
    turned = [(1.0 + 1e-15, float(i)) for i in reversed(range(2_000))]
    ours, theirs = (Rows.of(("a", "b"), found) for found in (pairs, turned))
    assert ours.is_like(theirs)
    assert Rows.of(("a", "b"), [*pairs, pairs[0]]).count_missing(theirs) == 1
    assert rows(1.0, 1.0 + 1e-15).count_missing(rows(1.0 + 2e-15, 5.0)) == 1


def runs(**shown: Any) -> StatementRuns:
    """Return the runs of one statement that shows a row, but for those with something else; errors are
    raised."""

    def run(what: Any) -> Rows:
        if isinstance(what, Exception):
            raise what
        assert isinstance(what, Rows)
        return what

    names = ("governed", "turned", "copied", "sent")
    return StatementRuns(**{name: (lambda name=name: run(shown.get(name, rows(1)))) for name in names})


NOTHING = dict.fromkeys(("governed", "turned", "copied"), rows())


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ({}, None),
        (
            dict.fromkeys(("governed", "turned"), rows(1.0)) | {"copied": rows(1.1)},
            Difference(what="the rows differ", only_governed=1, only_copied=1),
        ),
        ({"copied": rows(2, 1)}, Difference(what="the rows differ", only_governed=0, only_copied=1)),
        (
            {"copied": rows(1, name="b")},
            Difference(what="the columns differ", only_governed=0, only_copied=0),
        ),
        ({"copied": Failed("X")}, Difference(what="it fails over the copies: X")),
        (
            dict.fromkeys(("governed", "turned"), Failed("X")),
            Difference(what="it fails as forwarded by the gateway: X"),
        ),
        # Rows that only the samples have: a filter did hide.
        ({**NOTHING, "sent": rows(1)}, None),
        ({**NOTHING, "sent": TooLarge()}, None),
    ],
)
def test_what_the_runs_of_a_statement_show(shown: dict[str, Any], found: Difference | None) -> None:
    assert difference(runs(**shown)) == found


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ({"turned": rows(2)}, UNSTABLE),
        (dict.fromkeys(("governed", "turned"), rows(0.0)) | {"copied": rows(2.8e-17)}, REMNANTS),
        (dict.fromkeys(("governed", "turned", "copied"), Failed("X")), "it fails over samples: X"),
        ({**NOTHING, "sent": rows()}, EMPTY),
        ({**NOTHING, "sent": Failed("X")}, "it fails over samples: X"),
    ],
)
def test_of_some_statements_nothing_can_be_said(shown: dict[str, Any], why: str) -> None:
    with pytest.raises(Unprovable, match=f"^{why}$"):
        difference(runs(**shown))


class Session:
    """What a sandbox asks of Spark before it runs anything."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.conf = SimpleNamespace(get=lambda key: "in-memory")
        self.sparkContext = SimpleNamespace(setLogLevel=lambda level: None)

    def sql(self, text: str) -> Any:
        self.texts.append(text)
        return SimpleNamespace(collect=list)


def test_a_statement_that_was_stopped_runs_nothing_more(tmp_path: Path) -> None:
    session = Session()
    sandbox = Sandbox(session, tmp_path / "proof", rows=9)

    def governed() -> Rows:
        sandbox.stop.set()
        raise Failed("CANCELLED")

    def next_one() -> Rows:
        return sandbox.run("SELECT 1")

    before = list(session.texts)
    with pytest.raises(Stopped):
        difference(StatementRuns(governed=governed, turned=next_one, copied=next_one, sent=next_one))
    assert session.texts == before


def test_no_rows_of_a_frame_that_has_some_are_no_empty_answer() -> None:
    def frame(collects: list[Any], counts: int) -> Any:
        return SimpleNamespace(
            collect=lambda: collects, limit=lambda most: SimpleNamespace(count=lambda: min(most, counts))
        )

    assert collect(frame([], 0)) == []
    assert collect(frame([1], 1)) == [1]
    with pytest.raises(NotCollected):
        collect(frame([], 7))


async def test_jobs_are_cancelled_until_none_begins_any_more() -> None:
    """The one that ends the thread begins after the first time."""
    loop, begun, stop, ended = asyncio.get_running_loop(), asyncio.Event(), Event(), Event()
    seen: list[bool] = []

    def cancel() -> None:
        seen.append(stop.is_set())
        if len(seen) == 2:
            ended.set()

    def run() -> None:
        loop.call_soon_threadsafe(begun.set)
        ended.wait()
        raise Stopped

    spark = SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=cancel))
    running = asyncio.create_task(unless_stopped(spark, run, stop, again_s=0.01))
    await begun.wait()
    running.cancel()
    try:
        async with asyncio.timeout(patience(30)):
            with pytest.raises(asyncio.CancelledError):
                await running
    finally:
        ended.set()  # a thread that is left would keep the process
    assert len(seen) > 1
    assert all(seen)


async def test_alarms_are_of_days_of_utc_wherever_postgresql_is(database: str) -> None:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "Asia/Kolkata"})
    try:
        await connection.execute(
            "WITH run AS (INSERT INTO sluice.job_run (job, version, state, runner)"
            " VALUES ('proof', 1, 'failed', 'here') RETURNING id)"
            " INSERT INTO sluice.proof_alarm (run, found_at, statement_id, user_name, fingerprint, tables,"
            " what)"
            " SELECT id, '2026-11-20T23:59:59Z', gen_random_uuid(), 'bob', '', '{}', '' FROM run"
        )
        days = [date(2026, 11, number) for number in (19, 20, 21)]
        found = [len(await alarms(connection, since=day, until=day, user=None, limit=9)) for day in days]
    finally:
        await connection.close()
    assert found == [0, 1, 0]


@dataclass
class Ground:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any

    async def prove(self, **chosen: Any) -> Ran:
        chosen = {"data": DATA, **chosen}
        return await self.worker.run(proof_of, chosen, dsn=self.dsn, lake=self.lake, now=NOW)

    async def alarms(self) -> list[dict[str, Any]]:
        return await alarms(self.connection, since=None, until=None, user=None, limit=100)


@pytest_asyncio.fixture(loop_scope="session")
async def ground(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Ground]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        yield Ground(database, tmp_path / "lake", worker, connection)
    finally:
        await connection.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_gateway_that_does_right_raises_no_alarm(ground: Ground, reader: ReaderPool) -> None:
    await fill(ground.dsn, await recorded(World(), reader, STATEMENTS))
    ran = await ground.prove(reader="bob")
    assert any("masked or filtered for bob, who reads the samples" in line for line in ran.lines)
    (run,) = await proofs(ground.connection, 5)
    assert await load_unproved(ground.connection) == []
    assert (run["statements"], run["proved"], run["different"], run["obliged"]) == (9, 9, 0, 6)
    assert not (ground.lake / "_proof").exists()
    assert await ground.alarms() == []


@pytest.mark.parametrize(
    ("broken", "shown"),
    [
        ("no mask", {STATEMENTS[i][1] for i in (0, 6, 7)}),
        pytest.param("no hash", {STATEMENTS[0][1]}, marks=pytest.mark.night),
        ("no filter", {STATEMENTS[i][1] for i in (0, 1, 2, 4, 6)}),
    ],
)
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(12)
async def test_what_the_gateway_does_wrong_is_an_alarm(
    ground: Ground, reader: ReaderPool, broken: str, shown: set[str]
) -> None:
    events = await recorded(World(), reader, STATEMENTS)
    await fill(ground.dsn, events)
    with pytest.raises(ProofFailed, match=f"{len(shown)} of {len(STATEMENTS)} statements"):
        await ground.prove(broken=broken)
    found = await ground.alarms()
    texts = {event.statement_id: event.body["reqData"] for event in events}
    assert {texts[str(one["statement_id"])] for one in found} == shown
    assert all(one["user_name"] == "bob" and one["only_governed"] > 0 for one in found)
    assert "7" not in found[-1]["fingerprint"]
    state = await ground.connection.fetchrow("SELECT state, error FROM sluice.job_run ORDER BY id DESC")
    assert state["state"] == "failed"
    assert "return rows that policies do not allow" in state["error"]
    assert not (ground.lake / "_proof").exists()
    # Done right again, the same statements prove it.
    await ground.prove()
    assert (await proofs(ground.connection, 1))[0]["different"] == 0


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(6)
async def test_what_cannot_be_proved_is_counted(ground: Ground, reader: ReaderPool) -> None:
    world = World()
    recent = {"text": "SELECT id FROM employee WHERE now() > '2020-01-01'", "columns": {"id": "int"}}
    data = {**world.data, "views": {**world.data["views"]}}
    data["views"]["spark_catalog.hr.recent"] = {**recent, "database": "hr", "output": ["id"]}
    measured = {"columns": {"region": "string", "n": "bigint"}, "metrics": MEASURED}
    data["views"]["spark_catalog.hr.measured"] = measured
    data["pack"] += TOGETHER
    events = await recorded(World(data), reader, [*LEFT_OUT, *STATEMENTS[3:4], ELSEWHERE])
    # One of a session in a catalog that the proof's Spark does not have.
    elsewhere = dataclasses.replace(
        events[-1], body={**events[-1].body, "catalog": "ice", "namespace": ["n"]}
    )
    await fill(ground.dsn, [*events[:-1], elsewhere])
    rows = {**DATA, "spark_catalog.hr.ledger": [(1, "pin")]}
    await ground.prove(world=data, data=rows, per_stratum=10, unreadable=("spark_catalog.sales.orders",))
    assert {one["reason"]: one["statements"] for one in await load_unproved(ground.connection)} == {
        "its rows depend on time, randomness or the session": 3,
        "it returns some of its rows without ORDER BY": 1,
        "its rows depend on the order in which tables are read": 1,
        "a table that it or a policy reads could not be sampled": 1,
        "it fails over samples: DIVIDE_BY_ZERO": 1,
        "it reads a table outside of spark_catalog, or ran in another catalog": 1,
        "it returns no rows over the samples": 1,
        "it reads a metric view, whose measures a copied table does not have": 2,
        "it reads a policy that depends on which tables are accessed together": 1,
        # What PySpark 4.3 collects of it is an empty list.
        "it fails over samples: CANNOT_PARSE_DATATYPE": 1,
    }


TERMS = """
  - name: years of terms
    on: {catalog: spark_catalog, database: hr, table: [term, later], column: [until, after]}
    mask: [{groups: [admins], type: MASK_DATE_SHOW_YEAR}]
"""


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(1)
async def test_dates_and_times_beyond_pythons_years_are_compared(ground: Ground, reader: ReaderPool) -> None:
    world = World()
    data = {**world.data, "tables": {**world.data["tables"]}, "views": {**world.data["views"]}}
    data["tables"]["spark_catalog.hr.term"] = {"id": "int", "until": "date", "seen": "timestamp"}
    data["views"]["spark_catalog.hr.later"] = {
        "text": "SELECT id, date_add(until, 366 - id) AS after FROM term",
        "columns": {"id": "int", "after": "date"},
        "database": "hr",
        "output": ["id", "after"],
    }
    data["pack"] += TERMS
    statements = [
        ("ann", "SELECT id, date_add(until, 365) AS next FROM term"),
        ("ann", "SELECT map(id, array(struct(seen + INTERVAL 8000 YEARS AS far))) AS far FROM term"),
        ("ann", "SELECT to_timestamp_ntz(seen) - INTERVAL 3000 YEARS AS early FROM term"),
        ("ann", "SELECT * FROM later"),
    ]
    await fill(ground.dsn, await recorded(World(data), reader, statements))
    seen = datetime(2026, 11, 1, tzinfo=UTC)
    rows = {"spark_catalog.hr.term": [(i, date(9999, 12, 31 - i), seen) for i in range(3)]}
    await ground.prove(world=data, data=rows, per_stratum=10)
    (run,) = await proofs(ground.connection, 1)
    assert await load_unproved(ground.connection) == []
    assert (run["proved"], run["different"], run["obliged"]) == (4, 0, 4)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(6)
async def test_each_user_and_table_has_its_turn(ground: Ground, reader: ReaderPool) -> None:
    many = [("bob", f"SELECT name FROM employee WHERE id = {i}") for i in range(30)]
    await fill(ground.dsn, await recorded(World(), reader, [*many, *STATEMENTS[3:]]))
    await ground.prove(per_stratum=2, statements=5)
    (run,) = await proofs(ground.connection, 5)
    assert (run["statements"], run["proved"]) == (5, 5)
    # Each is stopped at once, and the run goes on with the next.
    await ground.prove(per_stratum=2, statements=5, statement_s=0)
    (slow,) = await load_unproved(ground.connection)
    assert (slow["reason"], slow["statements"]) == ("it runs longer than the time limit", 5)


@pytest.mark.asyncio(loop_scope="session")
async def test_an_empty_record_proves_nothing_and_needs_no_spark(ground: Ground) -> None:
    ran = await ground.prove()
    assert (ran.rows_in, ran.application) == (0, "")
    assert (await proofs(ground.connection, 1))[0]["statements"] == 0


OF_VIEWS = (
    *(
        (user, f"SELECT * FROM {name}")
        for user in ("dan", "own")
        for name in ("v_direct", "v_plain", "v_made")
    ),
    *((user, f"SELECT id, name FROM {name}") for user in ("ron", "eva") for name in ("v_upper", "v_lent")),
    ("ron", "SELECT a.id, b.name FROM v_wide a JOIN v_lent b ON a.id = b.id"),
    ("own", "SELECT w.pin, t.name FROM v_wider w JOIN t2 t ON t.id = w.id"),
    ("eva", "SELECT id FROM v_over ORDER BY id LIMIT 5"),
    ("ron", "SELECT name, count(*) AS n FROM v_made GROUP BY name"),
)
"""By all of those whose access views are read by; what policies refuse is left out."""
BY_ITSELF = [("dan", "own", "ron", "eva")[i % 4] for i in range(40)]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.in_turn(12, place=5)
async def test_views_show_what_their_definers_lend(ground: Ground, reader: ReaderPool) -> None:
    world = world_of(v_lost="eva", unknown="eva")
    rows = [(i, f"name {i}", who, f"pin {i}") for i, who in enumerate(BY_ITSELF)]
    data = {"spark_catalog.d.t": rows, "spark_catalog.d.t2": rows}
    more = [("ron", "SELECT id, pin FROM v_lost"), ("own", "SELECT * FROM v_lost")]
    events = await recorded(world, reader, [*OF_VIEWS, *more], use="d")
    texts = {event.statement_id: event.body["reqData"] for event in events}
    await fill(ground.dsn, events)
    chosen = {"data": data, "world": world.data, "per_stratum": 20}
    await ground.prove(**chosen)
    (run,) = await proofs(ground.connection, 1)
    assert await load_unproved(ground.connection) == []
    assert (run["proved"], run["different"]) == (run["statements"], 0)
    assert run["obliged"] > 4
    for broken in ("no definer", "no mask", "no filter"):
        with pytest.raises(ProofFailed):
            await ground.prove(broken=broken, **chosen)
        found = await ground.alarms()
        shown = {(one["user_name"], texts[str(one["statement_id"])]) for one in found}
        assert ("ron", "SELECT id, name FROM v_upper") in shown, broken
        await ground.connection.execute("DELETE FROM sluice.proof_alarm")
