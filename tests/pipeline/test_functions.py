"""What functions in SQL read counts among the names that a statement was judged by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.catalog.describe import function_from_rows
from gateway.model.catalog import FUNCTION, Table, TableName
from gateway.model.statement import Cleared
from gateway.reader.pool import ReaderPool
from tests.judge_world import CASES, World
from tests.pipeline.test_plans import execute
from tests.plan.frames import sql

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALLED = TableName("spark_catalog", "hr", "f", FUNCTION)
DEPARTMENT = TableName("spark_catalog", "hr", "department")
MORE = """
  - name: they call functions
    on: {catalog: spark_catalog, database: hr, udf: "*"}
    allow: [{users: [ann, bob], access: [execute]}]
"""
FILTER = "fit.id IN (SELECT d.id FROM spark_catalog.hr.department d WHERE d.name = 'x')"


def function(name: TableName, body: str) -> Table:
    return function_from_rows([(f"Function:      {name}",), (f"Body:          {body}",)], name)


def world(body: str, filter_: str = FILTER) -> World:
    data = yaml.safe_load((Path(CASES) / "world.yaml").read_text())
    assert FILTER in data["pack"]
    data["pack"] = data["pack"].replace(FILTER, filter_) + MORE
    made = World(data)
    made.tables[CALLED] = function(CALLED, body)
    again = replace(CALLED, table="g")
    made.tables[again] = function(again, "1 + hr.f()")
    return made


@pytest.mark.parametrize(
    "body",
    [
        "(SELECT max(id) FROM spark_catalog.hr.department)",
        "SELECT max(id) FROM hr.department",
        "(SELECT max(id) FROM department)",
        "(SELECT max(id) FROM HR.Department)",
        "(WITH d AS (SELECT id FROM department) SELECT max(d.id) FROM d, nowhere)",
        "(SELECT max(id) FROM hr.units)",  # a view
    ],
)
@pytest.mark.parametrize("call", ["f", "g"])
async def test_what_a_function_reads_is_looked_at_as_what_a_statement_reads(
    reader: ReaderPool, body: str, call: str
) -> None:
    made = world(body)
    text = f"SELECT spark_catalog.hr.{call}()"
    frame = sql("SELECT 1").select(F.call_function(f"spark_catalog.hr.{call}"))
    for verdict in (
        await made.judge(text, reader, user="bob"),
        await made.judge_plan(execute(sql(text)), reader, user="bob"),
        await made.judge_plan(execute(frame), reader, user="bob"),
    ):
        assert isinstance(verdict, Cleared), verdict
        assert {CALLED, DEPARTMENT} <= verdict.names
        assert {DEPARTMENT} <= {table.name for table in verdict.tables} - {CALLED}
        assert all(table.name.version != FUNCTION for table in verdict.tables)
        assert not verdict.policy_tables


async def test_a_body_that_nobody_can_read_is_sparks_to_say(reader: ReaderPool) -> None:
    for body in ("(SELECT", "", "nowhere.at.all(1)", "(SELECT 1 FROM there.is.none)"):
        verdict = await world(body).judge("SELECT spark_catalog.hr.f()", reader, user="bob")
        assert isinstance(verdict, Cleared), verdict


async def test_what_a_function_in_a_policy_reads_is_looked_at_once_a_period(reader: ReaderPool) -> None:
    made = world("(SELECT max(id) FROM hr.department)", "id <> spark_catalog.hr.g()")
    text = "SELECT id FROM sales.fit"
    for verdict in (
        await made.judge(text, reader, user="bob"),
        await made.judge_plan(execute(sql(text)), reader, user="bob"),
    ):
        assert isinstance(verdict, Cleared), verdict
        assert verdict.policy_tables == {DEPARTMENT}
        assert "period" in verdict.context_dependencies
