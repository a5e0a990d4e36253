"""What functions in SQL read counts among the names that a statement was judged by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.model.catalog import FUNCTION, TableName
from gateway.model.statement import Cleared, Refused
from gateway.reader.pool import ReaderPool
from tests.judge_world import CASES, World, with_function
from tests.pipeline.test_plans import execute
from tests.plan.frames import sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALLED = TableName("spark_catalog", "hr", "f", FUNCTION)
DEPARTMENT = TableName("spark_catalog", "hr", "department")
MORE = """
  - name: they call functions
    on: {catalog: spark_catalog, database: hr, udf: "*"}
    allow: [{users: [ann, bob], access: [execute]}]
"""
FILTER = "fit.id IN (SELECT d.id FROM spark_catalog.hr.department d WHERE d.name = 'x')"


def world(body: str, filter_: str = FILTER) -> World:
    data = yaml.safe_load((Path(CASES) / "world.yaml").read_text())
    assert FILTER in data["pack"]
    data["pack"] = data["pack"].replace(FILTER, filter_) + MORE
    made = World(data)
    return with_function(with_function(made, CALLED, body), replace(CALLED, table="g"), "1 + hr.f()")


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
    made = world("(SELECT max(id) FROM spark_catalog.hr.department)", "id <> spark_catalog.hr.g()")
    text = "SELECT id FROM sales.fit"
    for verdict in (
        await made.judge(text, reader, user="bob"),
        await made.judge_plan(execute(sql(text)), reader, user="bob"),
    ):
        assert isinstance(verdict, Cleared), verdict
        assert verdict.policy_tables == {DEPARTMENT}
        assert "period" in verdict.context_dependencies


async def test_what_a_view_in_a_policy_reads_is_looked_at_once_a_period(reader: ReaderPool) -> None:
    """Views in it, too: whoever gives one of them another text changes what the policy says."""
    made = world("1", "id <> (SELECT max(id) FROM spark_catalog.hr.outer_view)")
    view = made.tables[VIEW]
    assert view.view is not None
    outer, inner = (replace(VIEW, table=name) for name in ("outer_view", "inner_view"))
    for name, told in ((outer, "inner_view"), (inner, "spark_catalog.hr.department")):
        body = replace(view.view, text=f"SELECT id FROM {told}", output=("id",))
        made.tables[name] = replace(view, name=name, columns=view.columns[:1], view=body)
    text = "SELECT id FROM sales.fit"
    for verdict in (
        await made.judge(text, reader, user="bob"),
        await made.judge_plan(execute(sql(text)), reader, user="bob"),
    ):
        assert isinstance(verdict, Cleared), verdict
        assert verdict.policy_tables == {outer, inner, DEPARTMENT}
        assert verdict.policy_tables <= {table.name for table in verdict.tables}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("(SELECT max(id) FROM department)", "which refers to `department` without a catalog"),
        ("(SELECT max(id) FROM hr.department)", "which refers to `hr.department` without a catalog"),
        ("(SELECT max(id) FROM spark_catalog.hr.department JOIN d)", "which refers to `d` without a catalog"),
        ("elsewhere()", "which refers to `elsewhere` without a catalog"),
        ("hr.nowhere()", "calls spark_catalog.hr.nowhere, whose behavior Spark does not report completely"),
        (
            "current_user()",
            "which depends on current_user() or on the session's catalog, database or time zone",
        ),
        (
            "current_database() = 'hr'",
            "which depends on current_user() or on the session's catalog, database or time zone",
        ),
        ("(SELECT", "whose body cannot be parsed"),
        ("(WITH d AS (SELECT id FROM spark_catalog.hr.department) SELECT max(id) FROM d)", ""),
        ("1 + length('x')", ""),
    ],
)
@pytest.mark.parametrize("call", ["f", "g"])
async def test_a_function_in_a_policy_means_the_same_in_each_session(
    reader: ReaderPool, body: str, why: str, call: str
) -> None:
    """Spark finds what a body names in the session that asks, whose user may have tables there."""
    made = world(body, f"id <> spark_catalog.hr.{call}()")
    for verdict in (
        await made.judge("SELECT id FROM sales.fit", reader, user="bob"),
        await made.judge_plan(execute(sql("SELECT id FROM sales.fit")), reader, user="bob"),
    ):
        if not why:
            assert isinstance(verdict, Cleared), verdict
            continue
        assert not isinstance(verdict, Cleared)
        assert why in verdict.message


@pytest.mark.parametrize("called", ["f", "hr.f"])
async def test_a_policy_calls_functions_by_their_whole_names(reader: ReaderPool, called: str) -> None:
    verdict = await world("1", f"id <> {called}()").judge("SELECT id FROM sales.fit", reader, user="bob")
    assert not isinstance(verdict, Cleared)
    assert "calls a function without catalog and database" in verdict.message


VIEW = TableName("spark_catalog", "hr", "units")


@pytest.mark.parametrize(
    ("body", "source", "why"),
    [
        ("(SELECT max(id) FROM department)", "employee", "which refers to `department` without a catalog"),
        (
            "(SELECT max(id) FROM hr.department)",
            "employee",
            "which refers to `hr.department` without a catalog",
        ),
        ("(SELECT max(id) FROM spark_catalog.hr.department)", "employee", ""),
        ("length(current_user())", "employee", ""),
        ("(SELECT max(id) FROM department)", "department", ""),
    ],
)
async def test_a_view_that_is_written_out_calls_nothing_that_means_another_thing_there(
    reader: ReaderPool, body: str, source: str, why: str
) -> None:
    """Spark finds what a body names where the view was written; and in the session, where its text stands."""
    made = world(body)
    view = made.tables[VIEW]
    assert view.view is not None
    text = f"SELECT name FROM {source} WHERE id < spark_catalog.hr.f()"
    made.tables[VIEW] = replace(view, view=replace(view.view, text=text, definer="ann"))
    for verdict in (
        await made.judge("SELECT * FROM hr.units", reader, user="bob"),
        await made.judge_plan(execute(sql("SELECT * FROM hr.units")), reader, user="bob"),
        await made.judge_plan(execute(table("hr.units")), reader, user="bob"),
    ):
        if why:
            assert not isinstance(verdict, Cleared)
            assert why in verdict.message
            continue
        assert isinstance(verdict, Cleared), verdict
        assert ("f()" in verdict.forwarded) == (source == "employee")


@pytest.mark.parametrize(
    ("text", "body", "asks"),
    [
        ("SELECT id FROM department", "1", ""),
        ("SELECT id FROM department WHERE hr.f() > 0", "1", ""),
        ("SELECT id FROM department WHERE name = current_user()", "1", "mine"),
        ("SELECT id FROM department WHERE name = user", "1", "mine"),
        ("SELECT id FROM department WHERE name = current_database()", "1", "mine"),
        ("SELECT id FROM department WHERE name = spark_catalog.hr.f()", "current_user()", "f"),
        ("SELECT id FROM department WHERE name = hr.g()", "current_user()", "f"),
        ("SELECT id FROM inner", "1", "inner"),
        ("SELECT id FROM spark_catalog.hr.inner JOIN elsewhere.nothing", "1", "inner"),
        ("TABLE inner", "1", "inner"),
        ("(SELECT id", "1", "mine"),
    ],
)
@pytest.mark.parametrize("by", ["view", "function"])
async def test_a_view_in_a_policy_means_the_same_for_each_user(
    reader: ReaderPool, text: str, body: str, asks: str, by: str
) -> None:
    """Nobody's name is written into it: over Spark Connect it would ask for whoever Spark runs as."""
    data = yaml.safe_load((Path(CASES) / "world.yaml").read_text())
    reads = "SELECT m.id FROM spark_catalog.hr.mine m"
    filter_ = f"fit.id IN ({reads})" if by == "view" else "fit.id = spark_catalog.hr.h()"
    data["pack"] = data["pack"].replace(FILTER, filter_) + MORE
    for name, told in (
        ("mine", text),
        ("inner", "SELECT id FROM department WHERE session_user() = name"),
    ):
        view = {"columns": {"id": "int"}, "text": told, "database": "hr", "output": ["id"]}
        data["views"][f"spark_catalog.hr.{name}"] = view
    made = with_function(with_function(World(data), CALLED, body), replace(CALLED, table="g"), "hr.f()")
    made = with_function(made, replace(CALLED, table="h"), f"(SELECT max(id) FROM ({reads}))")
    query = "SELECT id FROM sales.fit"
    for verdict in (
        await made.judge(query, reader, user="bob"),
        await made.judge_plan(execute(sql(query)), reader, user="bob"),
    ):
        if not asks:
            assert isinstance(verdict, Cleared), verdict
            continue
        assert isinstance(verdict, Refused), verdict
        assert f"reads spark_catalog.hr.{asks}, wh" in verdict.message
