"""Plans that use one id or one name for two DataFrames: Spark looks for it in the WithRelations around, and
nobody is to take the one for the other. A column that may be shown and not compared tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.model.statement import Cleared, PlanRequest, Refused, Verdict
from gateway.pipeline.renewing import extract_ids, renew_clearance
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.plan.frames import Frame, message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = "_pyspark_connect_temp_view_" + "0a" * 16
COLUMNS = {"id": "int", "s": "string"}
PACK = """
service: spark
policies:
  - name: all of it
    on: {catalog: spark_catalog, database: hr, table: "*", column: "*"}
    allow: [{groups: [public], access: [select]}]
  - name: shown, and not compared
    on: {catalog: spark_catalog, database: hr, table: t, column: s}
    mask: [{groups: [public], type: MASK_HASH, predicate: deny}]
"""


@pytest.fixture(scope="module")
def world() -> World:
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {"spark_catalog.hr.t": COLUMNS, "spark_catalog.hr.u": COLUMNS},
            "views": {},
            "people": {"bob": {"groups": []}},
            "pack": PACK,
        }
    )


def by_name(of: str) -> Frame:
    return sql(f"SELECT s FROM {NAME} WHERE s > 'x'", views={NAME: table(of).select("s")})


def by_id(of: str) -> Frame:
    return table("u").select("id").where(table(of).where("s > 'x'").exists())


def one_name() -> Any:
    return message(by_name("u").union(by_name("t")))


def one_name_that_is_none_on_one_side() -> Any:
    """Spark binds names for a text that is the root itself, and for no other."""
    plan = message(by_name("u").union(by_name("t")))
    aside = plan.root.set_op.left_input.with_relations
    root = pb.Relation()
    root.limit.limit = 5
    root.limit.input.sql.query = "SELECT s FROM u"
    aside.root.CopyFrom(root)
    return plan


def one_id() -> Any:
    plan = message(by_id("u").union(by_id("t")))
    sides = [plan.root.set_op.left_input.with_relations, plan.root.set_op.right_input.with_relations]
    same = sides[0].references[0].common.plan_id
    sides[1].references[0].common.plan_id = same
    sides[1].root.filter.condition.subquery_expression.plan_id = same
    return plan


def one_id_that_is_none_on_one_side() -> Any:
    """Zero is an id; where there is none, nothing is found by it."""
    plan = message(by_id("u").union(by_id("t")))
    sides = [plan.root.set_op.left_input.with_relations, plan.root.set_op.right_input.with_relations]
    sides[0].references[0].common.ClearField("plan_id")
    sides[0].root.CopyFrom(message(table("u").select("id")).root)
    sides[1].references[0].common.plan_id = 0
    sides[1].root.filter.condition.subquery_expression.plan_id = 0
    return plan


TWINS: tuple[Callable[[], Any], ...] = (
    one_name,
    one_name_that_is_none_on_one_side,
    one_id,
    one_id_that_is_none_on_one_side,
)


async def judged(world: World, reader: ReaderPool, plan: Any) -> Verdict:
    request = PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))
    return await world.judge_plan(request, reader, user="bob")


@pytest.mark.parametrize("form", [by_name, by_id])
async def test_alone_each_is_judged_by_what_it_reads(
    world: World, reader: ReaderPool, form: Callable[[str], Frame]
) -> None:
    assert isinstance(await judged(world, reader, message(form("u"))), Cleared)
    assert isinstance(await judged(world, reader, message(form("t"))), Refused)


@pytest.mark.parametrize("twins", TWINS)
async def test_what_is_compared_in_one_is_not_read_in_the_other(
    world: World, reader: ReaderPool, twins: Callable[[], Any]
) -> None:
    assert isinstance(await judged(world, reader, twins()), Refused)


@pytest.mark.parametrize("form", [by_name, by_id])
async def test_a_dataframe_may_be_used_twice(
    world: World, reader: ReaderPool, form: Callable[[str], Frame]
) -> None:
    twice = form("u")
    plan = message(twice.union(twice).join(twice, how="cross"))
    cleared = await judged(world, reader, plan)
    assert isinstance(cleared, Cleared), cleared
    assert any(scan.table.table == "u" and "s" in (scan.columns or ()) for scan in cleared.scans)


async def test_with_other_ids_it_is_judged_anew(world: World, reader: ReaderPool) -> None:
    """Twins are told by all that is in them, ids as well."""
    twice = by_name("u")
    first = message(twice.union(twice))
    second = pb.Plan()
    second.CopyFrom(first)
    second.root.set_op.left_input.with_relations.root.common.plan_id = 2**40
    cleared = await judged(world, reader, first)
    assert isinstance(cleared, Cleared)
    assert isinstance(await judged(world, reader, second), Refused)
    was, now = (
        extract_ids(PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True)))
        for plan in (first, second)
    )
    assert was is not None
    assert now is not None
    assert renew_clearance(cleared, was, cleared.statement, now) is None
