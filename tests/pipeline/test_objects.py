"""An object that is neither a table nor a view is refused by its kind to whoever may select it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.catalog import TableKind, TableName
from gateway.model.statement import Refused
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_plans import analyze, execute, refused
from tests.plan.frames import sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = TableName("spark_catalog", "hr", "employee")


def world_with(object_type: str) -> World:
    """The world of the cases, in which `hr.employee` is of another type."""
    world = World()
    table = world.tables[NAME.fold()]
    world.tables[NAME.fold()] = replace(
        table, kind=TableKind.UNGOVERNED, object_type=object_type, unread="so it is"
    )
    return world


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM employee",
        "SELECT count(*) FROM employee",
        "WITH e AS (SELECT * FROM employee) SELECT 1 FROM e",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM employee)",
        "CREATE TABLE mine AS SELECT * FROM employee",
        "CACHE TABLE employee",
    ],
)
@pytest.mark.parametrize("user", ["ann", "bob"])
async def test_it_is_refused_in_sql(reader: ReaderPool, text: str, user: str) -> None:
    verdict = await world_with("METRIC_VIEW").judge(text, reader, user=user)
    assert isinstance(verdict, Refused)
    assert verdict.code in ("NOT_GOVERNABLE", "ACCESS_DENIED")


async def test_the_refusal_says_what_it_is(reader: ReaderPool) -> None:
    for object_type, said in {
        "METRIC_VIEW": "spark_catalog.hr.employee is a metric view that cannot be governed: so it is",
        "DYNAMIC_TABLE": "spark_catalog.hr.employee is a DYNAMIC_TABLE, a kind of object that",
        "": "Spark does not report what kind of object spark_catalog.hr.employee is",
    }.items():
        verdict = await world_with(object_type).judge("SELECT id FROM employee", reader, user="bob")
        assert isinstance(verdict, Refused)
        assert verdict.code == "NOT_GOVERNABLE"
        assert verdict.message.startswith(said)


@pytest.mark.parametrize(
    ("provider", "passes"),
    [("parquet", True), ("CSV", True), ("jdbc", False), ("delta", False), (None, False)],
)
async def test_a_table_is_made_like_one_of_files_of_which_rows_are_hidden(
    reader: ReaderPool, provider: str | None, passes: bool
) -> None:
    """Of other kinds its options could say where the rows are, and with which password."""
    world = World()
    fit = TableName("spark_catalog", "sales", "fit")
    world.tables[fit] = replace(world.tables[fit], provider=provider)
    verdict = await world.judge("CREATE TABLE sales.tmp_x LIKE sales.fit", reader, user="bob")
    assert isinstance(verdict, Refused) is not passes
    for text in (
        "CREATE TABLE sales.tmp_x LIKE sales.fit LOCATION '/x'",
        "EXPLAIN CREATE TABLE sales.tmp_x LIKE sales.fit",
        "CREATE TABLE sales.tmp_x LIKE employee",  # it has columns that he may not select
    ):
        assert isinstance(await world.judge(text, reader, user="bob"), Refused)


@pytest.mark.parametrize(
    ("provider", "passes"),
    [("parquet", True), ("CSV", True), ("jdbc", False), ("delta", False), ("iceberg", False), (None, False)],
)
async def test_a_plan_describes_a_table_of_files_of_which_rows_are_hidden(
    reader: ReaderPool, provider: str | None, passes: bool
) -> None:
    """Others stand in the plan as their connector writes them: with properties, addresses and counts."""
    world = World()
    fit = TableName("spark_catalog", "sales", "fit")
    world.tables[fit] = replace(world.tables[fit], provider=provider)
    for text in ("EXPLAIN DESCRIBE sales.fit", "EXPLAIN EXTENDED SHOW TBLPROPERTIES sales.fit"):
        assert isinstance(await world.judge(text, reader, user="bob"), Refused) is not passes


async def test_it_is_refused_in_plans(reader: ReaderPool) -> None:
    world = world_with("METRIC_VIEW")
    for frame in (
        table("employee").select("id"),
        table("employee").groupBy("id").count(),
        sql("SELECT id FROM employee"),
    ):
        for plan in (execute(frame), analyze("schema", frame)):
            verdict = await world.judge_plan(plan, reader, user="bob")
            refused(verdict, "NOT_GOVERNABLE", "is a metric view")
