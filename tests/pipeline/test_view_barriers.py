"""Which views have a barrier, and what of a statement goes below one: judged with the real reader."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.meaning_settings import ANSI_MODE
from gateway.model.statement import Cleared, PlanRequest, Refused, SessionContext, Statement
from gateway.pipeline import Rules, kept
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.plan.frames import Frame, message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = """
service: spark
policies:
  - name: views are everybody's
    on: {catalog: spark_catalog, database: d, table: "v_*", column: "*"}
    allow: [{users: [ann, hal, ray], access: [select, create, drop, alter]}]
  - name: the tables are hal's
    on: {catalog: spark_catalog, database: d, table: [pay, open, inner, filtered], column: "*"}
    allow: [{users: [hal], access: [select]}]
  - name: a view that is not ray's
    on: {catalog: spark_catalog, database: d, table: mid, column: "*"}
    allow: [{users: [ann, hal], access: [select]}]
  - name: some columns
    on: {catalog: spark_catalog, database: d, table: some, column: [id, day]}
    allow: [{users: [ann, hal, ray], access: [select]}]
  - name: the other one
    on: {catalog: spark_catalog, database: d, table: some, column: secret}
    allow: [{users: [hal], access: [select]}]
  - name: numbers
    on: {catalog: spark_catalog, database: d, table: numbers, column: "*"}
    allow: [{users: [ann, hal, ray], access: [select]}]
  - name: rows
    on: {catalog: spark_catalog, database: d, table: filtered}
    filter: [{users: [ray, hal], where: "id < 7"}]
  - name: rows of a view
    on: {catalog: spark_catalog, database: d, table: v_filtered}
    filter: [{users: [ray], where: "id < 7"}]
"""
PAY = {"id": "int", "dept": "string", "pay": "int", "day": "date", "tags": "array<int>"}
ALL = ", ".join(PAY)


def view(
    text: str, definer: str | None = "hal", columns: dict[str, str] = PAY, **more: Any
) -> dict[str, Any]:
    return {
        "text": text,
        "columns": columns,
        "database": "d",
        "output": list(columns),
        "definer": definer,
    } | more


VIEWS = {
    "v_in": view(f"SELECT {ALL} FROM pay WHERE dept IN (SELECT dept FROM open)"),
    "v_of_ann": view("SELECT * FROM v_in", "ann"),
    "v_of_hal": view("SELECT * FROM v_in WHERE id > 0"),
    "v_over": view(f"SELECT {ALL} FROM inner"),
    "v_deep": view("SELECT * FROM v_over", "ann"),
    "v_elsewhere": view(f"SELECT {ALL} FROM inner", None),
    "v_around_elsewhere": view("SELECT * FROM v_in", None),
    "mid": view(f"SELECT {ALL} FROM pay WHERE dept = 'a'"),
    "v_of_mid": view("SELECT * FROM mid", "ann"),
    "v_fails": view("SELECT id, dept, pay * 12 AS pay, day, tags FROM pay WHERE id > 3"),
    "v_sums": view(
        "SELECT dept, sum(wide) AS made FROM pay GROUP BY dept HAVING max(id) > 3",
        columns={"dept": "string", "made": "bigint"},
    ),
    "v_cast": view("SELECT id FROM pay WHERE dept = 'a'", columns={"id": "bigint"}),
    "v_collated": view(f"SELECT {ALL} FROM pay WHERE dept = 'a'", collation="UNICODE_CI"),
    "v_some": view("SELECT id, day FROM some WHERE id > 3", columns={"id": "int", "day": "date"}),
    "v_visible": view("SELECT id, day FROM some WHERE id > 3", "ann", {"id": "int", "day": "date"}),
    "v_limit": view(f"SELECT {ALL} FROM pay LIMIT 3"),
    "v_offset": view(f"SELECT {ALL} FROM pay ORDER BY id OFFSET 1"),
    "v_of_offset": view("SELECT * FROM v_offset", "ann"),
    "v_united": view(f"SELECT {ALL} FROM pay UNION ALL SELECT {ALL} FROM (SELECT * FROM pay OFFSET 1)"),
    "v_own": view("SELECT n FROM numbers WHERE n > 3", "ray", columns={"n": "int"}),
    "v_filtered": view(f"SELECT {ALL} FROM pay WHERE dept = 'a'"),
    "v_of_filtered": view(f"SELECT {ALL} FROM filtered WHERE dept = 'a'"),
    "inner": view(f"SELECT {ALL} FROM pay WHERE dept IN (SELECT dept FROM open)"),
}
BARRIER = "TABLESAMPLE (100 PERCENT)"
FAILS = "1 / (pay - 7000) < 0"
ON_A_DAY = "day = '2024-01-02'"
COPIED = "(TRY_CAST(`day` AS DATE) = DATE'2024-01-02')"


@pytest.fixture(scope="module")
def world() -> World:
    tables = {
        "pay": PAY | {"wide": "bigint"},
        "open": {"dept": "string"},
        "numbers": {"n": "int"},
        "some": {"id": "int", "day": "date", "secret": "string"},
        "filtered": PAY,
    }
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {f"spark_catalog.d.{name}": columns for name, columns in tables.items()},
            "views": {f"spark_catalog.d.{name}": one for name, one in VIEWS.items()},
            "people": {user: {"groups": []} for user in ("ann", "hal", "ray")},
            "pack": PACK,
        }
    )


async def forwarded(
    world: World, reader: ReaderPool, text: str, user: str = "ray", rules: Rules | None = None, **context: Any
) -> str:
    session = SessionContext(namespace=("d",), **context)
    statement = Statement(text=text, principal=world.principal(user), context=session)
    verdict = await world.judge_statement(statement, reader, rules or Rules())
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


@pytest.mark.parametrize(
    ("user", "name", "barriers"),
    [
        ("ray", "v_in", 1),
        ("ann", "v_in", 1),
        ("hal", "v_in", 0),
        # What stands around it is its author's, and the barrier above that keeps ray's off.
        ("ray", "v_over", 1),
        ("ray", "v_elsewhere", 1),
        ("hal", "v_over", 0),
        # ray and ann may select `v_in`: there is the barrier, for both of them.
        ("ray", "v_of_ann", 1),
        ("ann", "v_of_ann", 1),
        ("ray", "v_of_hal", 1),
        ("ray", "v_deep", 1),
        ("ray", "v_around_elsewhere", 1),
        ("hal", "v_of_ann", 0),
        # One for ray, and one for ann, who may not see through `mid` and has ray read her view over it.
        ("ray", "v_of_mid", 2),
        # A hidden column of a table is enough, unless nobody could read it by the view.
        ("ray", "v_some", 1),
        ("ray", "v_visible", 0),
        ("ray", "v_own", 0),
        ("ray", "v_filtered", 1),
        ("ray", "v_of_filtered", 2),
    ],
)
async def test_a_view_has_a_barrier_for_whom_it_shows_more_than_he_may_select(
    world: World, reader: ReaderPool, user: str, name: str, barriers: int
) -> None:
    column = "n" if name == "v_own" else "id"
    asked = f"SELECT count(*) FROM {name} WHERE 1 / {column} > 0"
    assert (await forwarded(world, reader, asked, user)).count(BARRIER) == barriers


async def test_the_author_of_a_view_around_is_kept_off_too(world: World, reader: ReaderPool) -> None:
    """ann may not select what `v_in` reads; the barrier stands in her view and not above it."""
    found = await forwarded(world, reader, f"SELECT * FROM v_of_ann WHERE {FAILS}")
    assert f"`v_in` AS `v_in`) {BARRIER} REPEATABLE (0) AS `v_in`) AS `v_in`\n) AS `v_of_ann`" in found


async def test_a_view_stays_a_name_where_nothing_else_stands_in_it(world: World, reader: ReaderPool) -> None:
    asked = f"SELECT * FROM v_over WHERE {FAILS}"
    assert await forwarded(world, reader, asked) == (
        f"SELECT * FROM (SELECT `id`, `dept`, `pay`, `day`, `tags` FROM (SELECT * FROM "
        f"`spark_catalog`.`d`.`v_over` AS `v_over`) {BARRIER} REPEATABLE (0) AS `v_over`) AS `v_over` "
        f"WHERE {FAILS}"
    )


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("SELECT id, 1 / pay FROM v_in WHERE pay > 3", True),
        ("SELECT * FROM v_of_ann WHERE pay > 3", True),
        ("SELECT * FROM v_deep WHERE pay > 3", True),
        ("SELECT v.id FROM v_in v JOIN numbers n ON n.n = v.id", True),
        ("SELECT count(*) FROM numbers WHERE n IN (SELECT id FROM v_in)", True),
        ("SELECT * FROM v_in WHERE pay + 1 > 3", False),
        ("SELECT v.id FROM v_in v JOIN numbers n ON 1 / n.n = v.id", False),
        ("CREATE TEMPORARY VIEW x AS SELECT id FROM v_in", False),
        # What it shows fails, a sum may, or it casts what it shows.
        ("SELECT * FROM v_fails WHERE pay > 3", False),
        ("SELECT * FROM v_fails WHERE id = 3", False),
        ("SELECT * FROM v_sums WHERE dept = 'a'", False),
        ("SELECT * FROM v_cast WHERE id = 3", False),
        ("SELECT * FROM v_collated WHERE id = 3", False),
        # What is shown of it, Spark makes of rows that a number of rows hides.
        ("SELECT id FROM v_limit", False),
        ("SELECT 1 / (pay - 7000) FROM v_offset", False),
        ("SELECT DISTINCT 1 / (pay - 7000) FROM v_of_offset", False),
        ("SELECT 1 / (pay - 7000) FROM v_united", False),
        ("SELECT 1 / (pay - 7000) FROM v_in", True),
        ("SELECT id FROM v_in ORDER BY id LIMIT 3 OFFSET 1", True),
        ("SELECT * FROM v_filtered WHERE pay > 3", True),
        ("SELECT * FROM v_of_filtered WHERE pay > 3", True),
    ],
)
async def test_where_nothing_can_fail_there_is_none(
    world: World, reader: ReaderPool, text: str, opened: bool
) -> None:
    found = await forwarded(world, reader, text)
    assert (BARRIER not in found) == opened
    # All that the view reads is asked for its types.
    assert ("typeof(`dept`) = 'string'" in found) == opened
    assert BARRIER in await forwarded(world, reader, text, rules=Rules(barriers="always"))


@pytest.mark.parametrize(
    "name", ["v_in", "v_of_ann", "v_of_hal", "v_over", "v_fails", "v_filtered", "v_of_filtered"]
)
async def test_leakproof_conditions_go_down_to_the_tables(
    world: World, reader: ReaderPool, name: str
) -> None:
    asked = f"SELECT * FROM {name} WHERE {ON_A_DAY} AND {FAILS}"
    found = await forwarded(world, reader, asked)
    assert COPIED in found
    assert "1 / (pay - 7000)" in found.rpartition(BARRIER)[2]
    assert "1 / (pay - 7000)" not in found.rpartition(BARRIER)[0]
    assert COPIED not in await forwarded(world, reader, asked, rules=Rules(push_down=False))


async def test_a_view_is_read_under_its_own_settings_where_the_sessions_are_others(
    world: World, reader: ReaderPool
) -> None:
    for condition in (ON_A_DAY, f"{ON_A_DAY} AND {FAILS}"):
        asked = f"SELECT * FROM v_in WHERE {condition}"
        found = await forwarded(world, reader, asked, settings=frozenset({ANSI_MODE}))
        assert f"FROM `spark_catalog`.`d`.`v_in` AS `v_in`) {BARRIER}" in found


async def _plan(world: World, reader: ReaderPool, frame: Frame) -> tuple[str, ...]:
    request = PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))
    verdict = await world.judge_plan(request, reader, user="ray", rules=Rules(), namespace=("d",))
    assert isinstance(verdict, Cleared), verdict
    plan = pb.Plan.FromString(verdict.forwarded_plan)
    return tuple(re.findall(r'query: "(.*?)"\n', str(plan).replace('\\"', "'")))


async def test_plans(world: World, reader: ReaderPool) -> None:
    frame = table("v_in")
    (barred,) = await _plan(world, reader, frame.where(F.expr(f"{ON_A_DAY} AND {FAILS}")))
    assert BARRIER in barred
    assert "TRY_CAST(`day` AS DATE)" in barred
    (opened,) = await _plan(world, reader, frame.where(F.col("pay") > 3))
    assert BARRIER not in opened
    assert "typeof(`dept`)" in opened
    (within,) = await _plan(world, reader, table("v_of_ann").where(F.expr(FAILS)))
    assert within.count(BARRIER) == 1
    (text,) = await _plan(world, reader, sql(f"SELECT * FROM v_in WHERE {FAILS}"))
    assert BARRIER in text


async def test_views_are_written_out_up_to_a_bound(
    world: World, reader: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each as often as it is read: a few views over views would fill the memory."""
    monkeypatch.setattr(kept, "MAX_VIEW_CHARS", 2_000)
    assert "id < 7" in await forwarded(world, reader, "SELECT id FROM v_of_filtered")
    often = " UNION ALL ".join(["SELECT id FROM v_of_filtered"] * 12)
    statement = Statement(
        text=often, principal=world.principal("ray"), context=SessionContext(namespace=("d",))
    )
    frame = table("v_of_filtered").where(F.expr(FAILS))
    for _ in range(4):
        frame = frame.union(frame)
    plan = PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))
    for verdict in (
        await world.judge_statement(statement, reader, Rules()),
        await world.judge_plan(plan, reader, user="ray", rules=Rules(), namespace=("d",)),
    ):
        assert isinstance(verdict, Refused)
        assert (
            "more than 2,000 characters; the last of them is spark_catalog.d.v_of_filtered" in verdict.message
        )
        assert verdict.code == "NOT_GOVERNABLE"
