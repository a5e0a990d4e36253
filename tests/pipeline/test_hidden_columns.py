"""A column that one may not select and one that nobody has get the same answer, wherever they are named.

Spark does not find either in the guarded relation, and nothing before Spark may tell them apart: a verdict is
the same for both but for the name that its sender wrote. What only the record has may differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.types import IntegerType, StructType

from gateway.model.reading_settings import VARIABLES_MARK
from gateway.model.statement import Cleared, PlanRequest, Refused, Verdict
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from gateway.sql.analyse import Silent, Usage
from gateway.sql.evaluate import Evaluation
from gateway.wire.connect import parse, pb
from tests.judge_world import CASES, World
from tests.plan.frames import message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

HIDDEN = {"ledger": "secret", "chest": "pin", "employee": "salary"}
NOBODYS = "sclory"
_PLAN_ID = re.compile(r"plan_ids?: \d+")

TEXTS = [
    "SELECT {c} FROM employee",
    "SELECT name, {c} + 1 AS x FROM employee",
    "SELECT e.{c} FROM employee e",
    "SELECT hr.employee.{c} FROM hr.employee",
    "SELECT spark_catalog.hr.employee.{c} FROM hr.employee",
    "SELECT {c}.cents FROM employee",
    "SELECT {c}[0] FROM employee",
    "SELECT name FROM employee WHERE {c} > 1",
    "SELECT name FROM employee ORDER BY {c}",
    "SELECT count(*) FROM employee GROUP BY {c}",
    "SELECT name, count(*) FROM employee GROUP BY name HAVING max({c}) > 1",
    "SELECT a.name FROM employee a JOIN department b USING ({c})",
    "SELECT a.name FROM employee a JOIN employee b ON a.{c} = b.{c}",
    "SELECT name FROM department d WHERE EXISTS (SELECT 1 FROM employee WHERE {c} = d.id)",
    "SELECT (SELECT max({c}) FROM employee)",
    "SELECT name, row_number() OVER (PARTITION BY {c} ORDER BY id) FROM employee",
    "SELECT * EXCEPT ({c}) FROM employee",
    "SELECT *, {c} FROM employee",
    "WITH w AS (SELECT {c} FROM employee) SELECT * FROM w",
    "SELECT name FROM employee LATERAL VIEW explode({c}) t AS n",
    "FROM employee |> WHERE {c} > 1 |> SELECT id",
    "SELECT * FROM employee PIVOT (max(id) FOR {c} IN (1, 2))",
    "SELECT id FROM employee UNPIVOT (v FOR n IN ({c}))",
    "CREATE TEMP VIEW w AS SELECT {c} FROM employee",
    "CREATE TABLE sales.tmp_c AS SELECT {c} FROM employee",
    "INSERT INTO sales.orders SELECT {c}, 1, 'x', 1 FROM employee",
    "DESCRIBE QUERY SELECT {c} FROM employee",
    "EXPLAIN SELECT {c} FROM employee",
    "DESCRIBE employee {c}",
    "DESCRIBE EXTENDED employee {c}",
    "DESCRIBE ledger {c}",
    "INSERT INTO ledger (id, {c}) VALUES (1, 'x')",
    "INSERT INTO ledger PARTITION ({c} = 'x') SELECT 1",
    "INSERT INTO ledger BY NAME SELECT 1 AS {c}",
    "INSERT INTO chest ({c}) VALUES (1)",
    "INSERT OVERWRITE chest PARTITION ({c} = 1) SELECT 1",
    "ALTER TABLE chest ALTER COLUMN {c} COMMENT 'x'",
    "ALTER TABLE chest RENAME COLUMN {c} TO x",
    "ALTER TABLE chest ADD COLUMN {c} INT",
    "ALTER TABLE chest DROP COLUMN {c}",
    "ALTER TABLE chest DROP PARTITION ({c} = 1)",
    "ANALYZE TABLE chest COMPUTE STATISTICS FOR COLUMNS {c}",
    "DELETE FROM chest WHERE {c} = 1",
    "UPDATE chest SET {c} = 1",
    "SELECT {c} FROM chest",
    "SHOW PARTITIONS employee PARTITION ({c} = 1)",
]


def seen(verdict: Verdict, name: str) -> tuple[object, ...]:
    """Return everything of a verdict that its sender may notice, without the name."""
    if isinstance(verdict, Refused):
        return ("refused", verdict.code, verdict.sqlstate, verdict.message.replace(name, "{c}"))
    assert isinstance(verdict, Cleared)
    plan = parse(pb.Plan, verdict.forwarded_plan) if verdict.forwarded_plan else None
    return (
        "cleared",
        verdict.forwarded.replace(name, "{c}"),
        str(plan).replace(name, "{c}"),
        verdict.effects,
        verdict.answer,
        verdict.hides_columns,
        verdict.hides_target,
        verdict.obligations,
    )


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.mark.parametrize("star", ["refuse", "visible"])
@pytest.mark.parametrize("text", TEXTS)
async def test_in_sql(text: str, star: Any, world: World, reader: ReaderPool) -> None:
    hidden = next(column for name, column in HIDDEN.items() if name in text)
    told = [
        seen(await world.judge(text.format(c=name), reader, user="bob", rules=Rules(star=star)), name)
        for name in (hidden, NOBODYS)
    ]
    assert told[0] == told[1]
    assert hidden not in str(told[0])


FRAMES: list[Callable[[str], Any]] = [
    lambda c: table("employee").select(c),
    lambda c: table("employee").select(F.col(c) + 1),
    lambda c: table("employee").select("name").filter(F.col(c) > 1),
    lambda c: table("employee").filter(f"{c} > 1").select("name"),
    lambda c: table("employee").selectExpr(f"{c} AS x"),
    lambda c: table("employee").select("name").orderBy(c),
    lambda c: table("employee").groupBy(c).count(),
    lambda c: table("employee").join(table("department"), c).select("region"),
    lambda c: table("employee").drop(c).select("name"),
    lambda c: table("employee").withColumnRenamed(c, "x").select("name"),
    lambda c: table("employee").withColumn(c, F.lit(1)).select(c),
    lambda c: table("employee").dropDuplicates([c]).select("name"),
    lambda c: table("employee").fillna("x", subset=[c]).select("name"),
    lambda c: table("employee").alias("e").select(f"e.{c}"),
    lambda c: table("employee").select(f"{c}.cents"),
    lambda c: table("employee").select("name").sort(F.expr(f"max({c})")),
    lambda c: sql(f"SELECT {c} FROM employee"),
    lambda c: table("employee").unpivot(["id"], [c], "n", "v"),
    lambda c: table("chest").select(c),
]


@pytest.mark.parametrize("kind", ["execute", "schema"])
@pytest.mark.parametrize("star", ["refuse", "visible"])
@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
async def test_in_dataframes(
    frame: Callable[[str], Any], star: Any, kind: str, world: World, reader: ReaderPool
) -> None:
    told = []
    for name in ("salary", NOBODYS):
        plan = message(frame(name))
        request = PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))
        if kind == "schema":
            analysis = pb.AnalyzePlanRequest()
            analysis.schema.plan.CopyFrom(plan)
            request = PlanRequest(kind="analyze", message=analysis.SerializeToString(deterministic=True))
        verdict = await world.judge_plan(request, reader, user="bob", rules=Rules(star=star))
        told.append(_without_ids(seen(verdict, name)) if kind == "execute" else _schema(verdict, name))
    assert told[0] == told[1]
    assert "ssn" not in str(told[0])


def _without_ids(told: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(_PLAN_ID.sub("", part) if isinstance(part, str) else part for part in told)


def _schema(verdict: Verdict, name: str) -> object:
    if isinstance(verdict, Refused):
        return seen(verdict, name)
    assert isinstance(verdict, Cleared)
    found = str(parse(pb.AnalyzePlanRequest, verdict.forwarded_plan)).replace(name, "{c}")
    return _PLAN_ID.sub("", found)


async def test_an_attempt_is_on_record_all_the_same(world: World, reader: ReaderPool) -> None:
    text = await world.judge("SELECT name FROM employee WHERE salary > 1", reader, user="bob")
    request = PlanRequest(
        kind="execute",
        message=message(table("employee").filter("salary > 1").select("name")).SerializeToString(),
    )
    plan = await world.judge_plan(request, reader, user="bob")
    for verdict in (text, plan):
        assert isinstance(verdict, Cleared)
        denied = [d.request.resource.elements[-1] for d in verdict.decisions if not d.allowed]
        assert denied == [("column", "salary")]


@pytest.mark.parametrize("columns", ["id", "ID"])
async def test_what_one_may_select_can_be_named(columns: str, world: World, reader: ReaderPool) -> None:
    verdict = await world.judge(f"INSERT INTO ledger ({columns}) VALUES (1)", reader, user="bob")
    assert isinstance(verdict, Cleared), verdict
    assert verdict.hides_target
    whole = await world.judge("INSERT INTO sales.orders (id, nope) VALUES (1, 2)", reader, user="bob")
    assert isinstance(whole, Cleared), whole
    assert not whole.hides_target


async def test_a_hidden_column_called_user_is_not_the_user_that_spark_runs_as(
    world: World, reader: ReaderPool
) -> None:
    """It would be the user's name; whoever means that writes the brackets."""
    frame = message(sql("SELECT id FROM profile WHERE user = 'x'"))
    request = PlanRequest(kind="execute", message=frame.SerializeToString(deterministic=True))
    assert "could be resolved to a column" in str(await world.judge_plan(request, reader, user="bob"))
    visible = await world.judge_plan(request, reader, user="bob", rules=Rules(star="visible"))
    assert isinstance(visible, Cleared)
    assert parse(pb.Plan, visible.forwarded_plan).root.sql.query.endswith("WHERE 'bob' = 'x'")
    called = await world.judge("SELECT id FROM profile WHERE current_user() = 'x'", reader, user="bob")
    assert isinstance(called, Cleared), called
    verdict = await world.judge_plan(request, reader, user="ann")
    assert isinstance(verdict, Cleared)
    assert parse(pb.Plan, verdict.forwarded_plan).root.sql.query.endswith("WHERE user = 'x'")


ELSEWHERE = [
    # An outer query's column, from within a subquery.
    "SELECT id FROM (SELECT id, name AS {c} FROM department) d "
    "WHERE EXISTS (SELECT 1 FROM employee e WHERE {c} = e.name)",
    "SELECT (SELECT max({c}) FROM employee) FROM (SELECT name AS {c} FROM department) d",
    "SELECT d.id FROM (SELECT id, name AS {c} FROM department) d "
    "JOIN LATERAL (SELECT count(*) AS n FROM employee WHERE name = {c}) l",
    # What is named beside it.
    "SELECT upper(name) AS {c}, concat({c}, '!') AS x FROM employee",
    "SELECT upper(name) AS {c}, row_number() OVER (ORDER BY {c}) AS r FROM employee",
    "SELECT upper(name) AS {c}, count(*) FROM employee GROUP BY {c}",
    "SELECT upper(name) AS {c}, count(*) FROM employee GROUP BY ROLLUP ({c})",
    "SELECT upper(name) AS {c}, count(*) FROM employee GROUP BY upper(name), {c} HAVING {c} > 'a'",
    "SELECT upper(name) AS {c}, id FROM employee QUALIFY row_number() OVER (ORDER BY {c}) = 1",
    "WITH w AS (SELECT upper(name) AS {c}, count(*) AS n FROM employee GROUP BY {c}) SELECT n FROM w",
    "CREATE TEMP VIEW w AS SELECT upper(name) AS {c}, concat({c}, '!') AS x FROM employee",
    "INSERT INTO sales.orders SELECT id AS {c}, {c} + 1, 'x', 1 FROM employee",
    # Beside a name that a hidden column could have, and that another relation has.
    "SELECT upper(e.name) AS {c}, title, count(*) FROM employee e "
    "JOIN (SELECT id, name AS title FROM department) d ON e.id = d.id GROUP BY {c}, title",
    "DELETE FROM sales.tmp_own WHERE EXISTS (SELECT 1 FROM employee e WHERE e.name = {c})",
    # Within a lambda function, where Spark's parser sees no column.
    "SELECT upper(name) AS {c}, transform(array(id), x -> {c}) AS y FROM employee",
    "SELECT upper(name) AS {c}, aggregate(array(1), '', (a, x) -> a || {c}) AS y FROM employee",
    "SELECT d.id FROM (SELECT id, name AS {c} FROM department) d "
    "WHERE EXISTS (SELECT 1 FROM employee WHERE exists(array(name), x -> x = {c}))",
    # A field of it.
    "SELECT named_struct('k', name) AS {c}, {c}.k AS y FROM employee",
    "SELECT named_struct('k', named_struct('j', name)) AS {c}, {c}.k.j AS y FROM employee",
    "SELECT d.id FROM (SELECT id, named_struct('k', name) AS {c} FROM department) d "
    "WHERE EXISTS (SELECT 1 FROM employee WHERE {c}.k = name)",
    # One of several names of a generator's columns.
    "SELECT posexplode(array(1)) AS (p, {c}), {c} + 1 AS y FROM employee",
    # What USING joins by: the first of several columns.
    "SELECT count(*) FROM employee JOIN (SELECT id, name AS {c} FROM department) d USING (id) "
    "JOIN (SELECT name AS {c} FROM department) w USING ({c})",
    "SELECT w.n FROM (SELECT name AS {c}, 1 AS n FROM department) w LEFT JOIN "
    "(employee JOIN (SELECT id, name AS {c} FROM department) d USING (id)) USING ({c})",
    "SELECT id FROM employee JOIN (SELECT id, name AS {c} FROM department) d USING (id) "
    "LEFT ANTI JOIN (SELECT name AS {c} FROM department) w USING ({c})",
    # Behind a pipe.
    "FROM employee |> EXTEND upper(name) AS {c}, concat({c}, 'x') AS q |> SELECT q",
    "FROM employee |> SELECT upper(name) AS {c}, concat({c}, 'x') AS q",
    "FROM employee |> WHERE id > 1 |> AS e |> SELECT upper(name) AS {c}, concat({c}, 'x') AS q",
    "FROM employee |> AGGREGATE count(*) AS n GROUP BY upper(name) AS {c}, concat({c}, 'x') AS q |> SELECT n",
    "FROM employee |> SELECT upper(name) AS {c}, transform(array(1), x -> {c}) AS q",
    "FROM employee |> SELECT upper(name) AS {c}, count(*) OVER w AS n WINDOW w AS (ORDER BY {c})",
    "FROM employee |> EXTEND id + 1 |> SELECT upper(name) AS {c}, concat({c}, 'x') AS q",
    "FROM employee |> JOIN LATERAL explode(array(1)) |> SELECT upper(name) AS {c}, concat({c}, 'x') AS q",
    "FROM employee |> EXTEND named_struct('k', name) AS {c}, upper({c}.k) AS q |> SELECT q",
    "FROM employee |> SELECT id |> JOIN employee e USING (id) |> SELECT upper(name) AS {c}, {c} || 'x' AS q",
    "FROM department |> SELECT id, name AS {c} |> AS d |> "
    "WHERE EXISTS (FROM employee |> WHERE {c} = name) |> SELECT id",
    "FROM department |> SELECT id, name AS {c} |> "
    "JOIN LATERAL (SELECT max({c}) AS m FROM employee) |> SELECT m",
    "SELECT id FROM (SELECT id, name AS {c} FROM department) d "
    "WHERE EXISTS (FROM employee |> WHERE {c} = name)",
    "INSERT INTO sales.orders FROM employee |> SELECT id AS {c}, {c} + 1, 'x', 1",
    "CREATE TEMP VIEW w AS FROM employee |> EXTEND upper(name) AS {c}, {c} || 'x' AS q |> SELECT q",
    "WITH w AS (FROM employee |> EXTEND upper(name) AS {c}, {c} || 'x' AS q |> SELECT q) SELECT q FROM w",
    # Behind pipes that column analysis does not follow.
    "FROM employee |> SELECT upper(name) AS {c}, {c} || 'x' AS {c} "
    "|> WHERE EXISTS (WITH w AS (VALUES (1)) VALUES (1) AS v(v))",
    # In lambda functions of what changes rows, and a field there.
    "DELETE FROM sales.tmp_own WHERE EXISTS "
    "(SELECT 1 FROM employee e WHERE exists(array(e.name), x -> x = {c}))",
    "DELETE FROM sales.tmp_own WHERE EXISTS (SELECT 1 FROM employee e WHERE "
    "exists(array(e.name), x -> exists(array(1), y -> x = {c})))",
    "DELETE FROM sales.tmp_own WHERE EXISTS (SELECT 1 FROM employee e WHERE e.name = {c}.k)",
]
"""Statements in which Spark would take another column for the hidden one of the table."""
NOT_ELSEWHERE = [
    "SELECT upper(name) AS {c}, count(*) AS n FROM employee GROUP BY upper(name) HAVING {c} > 'a' AND n > 1",
    "SELECT upper(name) AS {c}, count(*) FROM employee GROUP BY 1 ORDER BY {c}",
    "SELECT upper(name) AS {c} FROM employee ORDER BY concat({c}, '')",
    "SELECT {c} FROM (SELECT upper(name) AS {c} FROM employee) w GROUP BY {c}",
    "SELECT d.id FROM (SELECT id, name AS {c} FROM department) d "
    "WHERE EXISTS (SELECT 1 FROM employee e WHERE d.{c} = e.name)",
    "SELECT d.{c} FROM (SELECT id, name AS {c} FROM department) d JOIN employee e ON e.id = d.id",
    "SELECT id, row_number() OVER (ORDER BY id) AS {c} FROM employee QUALIFY {c} = 1",
    "SELECT transform(array(id), {c} -> {c} + 1) AS x FROM employee",
    "SELECT name, {c} FROM employee LATERAL VIEW explode(array(1)) t AS {c}",
    "SELECT transform(array(id), {c} -> transform(array(1), x -> {c} + x)) AS x FROM employee",
    "SELECT {c}.id FROM department {c} WHERE EXISTS (SELECT 1 FROM employee WHERE {c}.id = id)",
    "SELECT {c}.id FROM department {c} JOIN employee e ON {c}.id = e.id",
    "SELECT hr.department.id FROM hr.department WHERE EXISTS "
    "(SELECT 1 FROM employee WHERE hr.department.id = id)",
    "SELECT {c}.k FROM (SELECT named_struct('k', name) AS {c} FROM employee) w",
    "SELECT count(*) FROM (SELECT id, name AS {c} FROM department) d JOIN employee USING (id) "
    "JOIN (SELECT name AS {c} FROM department) w USING ({c})",
    "FROM employee |> SELECT upper(name) AS {c} |> WHERE {c} > 'a' |> ORDER BY {c} |> SELECT {c}, {c} || 'x'",
    "FROM employee |> AGGREGATE count(*) AS {c} GROUP BY name |> WHERE {c} > 1",
    "FROM employee |> EXTEND upper(name) AS {c} |> SELECT {c}",
    "FROM employee |> SELECT id, name |> PIVOT (count(*) FOR name IN ('a' AS {c})) |> SELECT {c}",
    "FROM employee |> SELECT name, region |> UNPIVOT ({c} FOR n IN (name, region)) |> SELECT {c}",
    "FROM employee |> SELECT name, region |> UNPIVOT (({c}, x) FOR n IN ((name, region) AS m)) |> SELECT x",
    "FROM employee |> WHERE id > 1 |> SELECT upper(name) AS {c} ORDER BY {c} LIMIT 3",
    "FROM department |> SELECT id, name AS {c} |> JOIN employee USING (id) |> SELECT {c}",
    "FROM employee |> SELECT name AS {c} |> UNION ALL SELECT name FROM department |> WHERE {c} = 'x'",
    "FROM employee |> SELECT transform(array(id), {c} -> {c} + 1) AS x",
    "FROM employee |> JOIN LATERAL (SELECT 1 AS {c}) |> SELECT {c}",
    "FROM employee |> SET name = upper(name) |> SELECT name AS {c}",
]


@pytest.mark.parametrize("text", ELSEWHERE)
async def test_a_hidden_column_is_not_found_elsewhere(text: str, world: World, reader: ReaderPool) -> None:
    told = []
    for name in ("salary", NOBODYS):
        verdict = await world.judge(text.format(c=name), reader, user="bob")
        assert isinstance(verdict, Refused), verdict
        assert f"`{name}` could be resolved to a column" in verdict.message
        told.append(seen(verdict, name))
    assert told[0] == told[1]
    for user, rules in (("ann", Rules()), ("bob", Rules(star="visible"))):
        if "tmp_own" not in text and (user == "bob" or "orders" not in text):
            verdict = await world.judge(text.format(c="salary"), reader, user=user, rules=rules)
            assert isinstance(verdict, Cleared), verdict


VARIABLE = [
    "SELECT id, {c} FROM employee",
    "SELECT id FROM employee WHERE {c} = 'x'",
    "SELECT d.id FROM department d WHERE EXISTS (SELECT 1 FROM employee WHERE name = {c})",
    "SELECT transform(array(id), x -> {c}) AS y FROM employee",
    "SELECT {c}.k FROM employee",
    "SELECT id FROM employee JOIN department USING (id) ORDER BY {c}",
    "INSERT INTO sales.orders SELECT id, {c}, 'x', 1 FROM employee",
    "FROM employee |> WHERE {c} = 'x' |> SELECT id",
    "BEGIN DECLARE {c} STRING DEFAULT 'x'; SELECT id FROM employee WHERE {c} = 'x'; END",
    "BEGIN FOR r AS SELECT 'x' AS {c} DO SELECT id FROM employee WHERE {c} = 'x'; END FOR; END",
]
"""Statements in which Spark would take a variable for the hidden column."""


@pytest.mark.parametrize("text", VARIABLE)
async def test_a_hidden_column_is_no_variable(text: str, world: World, reader: ReaderPool) -> None:
    told = []
    for name in ("salary", NOBODYS):
        variables = frozenset() if text.startswith("BEGIN") else frozenset({name})
        verdict = await world.judge(text.format(c=name), reader, user="bob", variables=variables)
        assert isinstance(verdict, Refused), verdict
        assert f"`{name}` could be resolved to a column" in verdict.message
        told.append(seen(verdict, name))
    assert told[0] == told[1]


async def test_a_variable_is_one_where_no_column_is_hidden(world: World, reader: ReaderPool) -> None:
    for text in (
        f"SELECT id, {NOBODYS} FROM department",
        f"SELECT id, session.{NOBODYS} FROM employee",
        f"SELECT w.{NOBODYS} FROM (SELECT id AS {NOBODYS} FROM employee) w",
    ):
        verdict = await world.judge(text, reader, user="bob", variables=frozenset({NOBODYS}))
        assert isinstance(verdict, Cleared), verdict


@pytest.mark.parametrize(
    "frame",
    [
        lambda c: table("employee").where(f"{c} = 'x'").select("id"),
        lambda c: table("employee").select("id", F.col(c)),
        lambda c: table("employee").selectExpr(f"transform(array(id), x -> {c}) AS y"),
        lambda c: sql(f"SELECT id FROM employee WHERE {c} = 'x'"),
    ],
    ids=range(4),
)
async def test_nor_is_it_one_in_dataframes(
    frame: Callable[[str], Any], world: World, reader: ReaderPool
) -> None:
    for name in ("salary", NOBODYS):
        plan = message(frame(name)).SerializeToString(deterministic=True)
        request = PlanRequest(kind="execute", message=plan)
        verdict = await world.judge_plan(request, reader, user="bob", variables=frozenset({name}))
        assert isinstance(verdict, Refused), verdict
        assert f"`{name}` could be resolved to a column" in verdict.message
        # Variables that a gateway before this one knew of.
        settings = frozenset({VARIABLES_MARK})
        assert isinstance(await world.judge_plan(request, reader, user="bob", settings=settings), Refused)
        assert isinstance(await world.judge_plan(request, reader, user="bob"), Cleared)


@pytest.mark.parametrize("text", NOT_ELSEWHERE)
async def test_what_no_column_stands_nearer_to_can_be_named(
    text: str, world: World, reader: ReaderPool
) -> None:
    for name in ("salary", NOBODYS):
        verdict = await world.judge(text.format(c=name), reader, user="bob")
        assert isinstance(verdict, Cleared), verdict


@pytest.mark.parametrize(
    "text",
    [
        "SELECT e.id FROM employee e NATURAL JOIN department d",
        "SELECT d.id FROM department d NATURAL LEFT JOIN employee e",
        "SELECT e.a FROM employee AS e(a, b, c, d)",
        "TABLE employee",
        "INSERT INTO sales.tmp_own TABLE employee",
        "FROM employee |> WHERE id = 1",
        "FROM employee |> ORDER BY 2 |> SELECT id",
        "FROM employee |> AGGREGATE count(*) AS n GROUP BY 2",
        "FROM employee |> UNION ALL TABLE employee |> SELECT id",
        "FROM employee |> AS e |> EXTEND 1 AS x |> NATURAL JOIN department |> SELECT x",
        "FROM employee |> PIVOT (count(*) FOR name IN ('a')) |> SELECT a",
        "FROM employee |> AS e |> SELECT e.* |> SELECT id",
        "SELECT y.id FROM employee, LATERAL (SELECT employee.*) y",
        "SELECT transform(array(1), x -> hash(*)) FROM employee",
        "SELECT y.v FROM employee, LATERAL (SELECT hash(employee.*) AS v) y",
        "SELECT id FROM employee UNION ALL SELECT hash(*) FROM employee",
    ],
)
async def test_what_means_all_columns_is_refused_as_a_star_is(
    text: str, world: World, reader: ReaderPool
) -> None:
    verdict = await world.judge(text, reader, user="bob")
    assert isinstance(verdict, Refused), verdict
    assert "select on every column of table spark_catalog.hr.employee" in verdict.message


ALL_IN_FRAMES: list[Callable[[], Any]] = [
    lambda: table("employee").union(table("department").select("id", "name", "name", "name")).select("name"),
    lambda: table("department").select("id", "name", "name", "name").union(table("employee")).select("id"),
    lambda: table("employee").unionAll(table("employee")).select("name"),
    lambda: table("employee").toDF("a", "b", "c", "d").select("a"),
    lambda: table("employee").alias("e").where("id > 1").toDF("a", "b", "c", "d").select("a"),
    lambda: (lambda e: e.select("id", e.colRegex("`s.*`")))(table("employee")),
    lambda: (lambda e: e.select(e.colRegex("`.*`")))(table("employee")),
    lambda: table("employee").dropna().select("name"),
    lambda: table("employee").selectExpr("hash(*)"),
    lambda: table("employee").where("hash(*) > 0").select("id"),
    lambda: table("employee").groupBy(F.expr("hash(*)")).count(),
    lambda: table("employee").select("id", table("employee").colRegex("`s.*`")),
    lambda: (lambda e: e.select("id", e.colRegex("`(?i)s.*`")))(table("employee")),
    lambda: table("employee").to(StructType().add("id", IntegerType()).add("salary", IntegerType())),
    lambda: table("employee").to(StructType().add("id", IntegerType()).add(NOBODYS, IntegerType())),
]


@pytest.mark.parametrize("frame", ALL_IN_FRAMES, ids=range(len(ALL_IN_FRAMES)))
async def test_what_means_all_columns_is_refused_in_dataframes_too(
    frame: Callable[[], Any], world: World, reader: ReaderPool
) -> None:
    plan = message(frame()).SerializeToString(deterministic=True)
    verdict = await world.judge_plan(PlanRequest(kind="execute", message=plan), reader, user="bob")
    assert isinstance(verdict, Refused), verdict
    assert "select on every column of table spark_catalog.hr.employee" in verdict.message


ELSEWHERE_IN_FRAMES: list[Callable[[str], Any]] = [
    lambda c: table("employee").select(F.upper("name").alias(c), F.concat(F.col(c), F.lit("!"))),
    lambda c: table("employee").selectExpr(f"upper(name) AS {c}", f"concat({c}, '!')"),
    lambda c: (
        table("department")
        .select("id", F.col("name").alias(c))
        .where(table("employee").where(F.col(c) == F.col("name")).select("id").exists())
        .select("id")
    ),
    lambda c: sql(f"SELECT upper(name) AS {c}, count(*) FROM employee GROUP BY {c}").select(c),
    lambda c: table("employee").select(F.struct("name").alias(c), F.col(f"{c}.name").alias("y")),
    lambda c: table("employee").selectExpr(f"named_struct('k', name) AS {c}", f"{c}.k"),
    lambda c: table("employee").select(
        F.upper("name").alias(c), F.transform(F.array("id"), lambda x: F.concat(F.col(c), x)).alias("y")
    ),
    lambda c: table("employee").selectExpr(f"upper(name) AS {c}", f"transform(array(id), x -> {c})"),
    lambda c: (
        table("department")
        .select("id", F.struct("name").alias(c))
        .where(table("employee").where(F.col(f"{c}.name") == F.col("name")).select("id").exists())
        .select("id")
    ),
    lambda c: (
        table("employee").withColumns({c: F.upper("name"), "q": F.concat(F.col(c), F.lit("x"))}).select("q")
    ),
    lambda c: (
        table("employee")
        .withColumns({c: F.struct(F.col("name").alias("k")), "q": F.concat(F.col(f"{c}.k"), F.lit("x"))})
        .select("q")
    ),
    lambda c: table("employee").groupBy(F.upper("name").alias(c)).agg(F.max(F.col(c)).alias("q")),
    lambda c: (
        table("employee")
        .join(table("department").select("id", F.col("name").alias(c)), "id")
        .join(table("department").select(F.col("name").alias(c)), c)
        .select("id")
    ),
    lambda c: sql(f"FROM employee |> EXTEND upper(name) AS {c}, {c} || 'x' AS q |> SELECT q").select("q"),
    lambda c: (
        table("department")
        .select("id", F.col("name").alias(c))
        .where(F.expr(f"EXISTS (FROM employee |> WHERE {c} = name)"))
        .select("id")
    ),
]
NOT_ELSEWHERE_IN_FRAMES: list[Callable[[str], Any]] = [
    lambda c: (
        table("department")
        .alias(c)
        .where(table("employee").where(F.col(f"{c}.id") == F.col("id")).select("id").exists())
        .select("id")
    ),
    lambda c: table("department").alias(c).join(table("employee"), "id").select(f"{c}.id", "email"),
    lambda c: table("employee").select(F.struct("name").alias(c)).select(f"{c}.name"),
    lambda c: table("employee").select("name").union(table("department").select("name")).toDF(c),
    lambda c: table("employee").unionByName(table("employee")).select(F.col("name").alias(c)),
    lambda c: table("department").union(table("department")).toDF(c, "q").select(c),
    lambda c: (lambda e: e.select(e.colRegex("`name`")))(table("employee")),
    lambda c: table("employee").select(F.transform(F.array("id"), lambda x: x + 1).alias(c)),
    lambda c: table("employee").withColumns({c: F.upper("name"), "q": F.col("id") + 1}).select(c, "q"),
]


@pytest.mark.parametrize("frame", ELSEWHERE_IN_FRAMES, ids=range(len(ELSEWHERE_IN_FRAMES)))
async def test_a_hidden_column_is_not_found_elsewhere_in_dataframes(
    frame: Callable[[str], Any], world: World, reader: ReaderPool
) -> None:
    told = []
    for name in ("salary", NOBODYS):
        plan = message(frame(name)).SerializeToString(deterministic=True)
        verdict = await world.judge_plan(PlanRequest(kind="execute", message=plan), reader, user="bob")
        assert isinstance(verdict, Refused), verdict
        assert f"`{name}` could be resolved to a column" in verdict.message
        told.append(seen(verdict, name))
        whole = await world.judge_plan(PlanRequest(kind="execute", message=plan), reader, user="ann")
        assert name == NOBODYS or isinstance(whole, Cleared), whole
    assert told[0] == told[1]


@pytest.mark.parametrize("frame", NOT_ELSEWHERE_IN_FRAMES, ids=range(len(NOT_ELSEWHERE_IN_FRAMES)))
async def test_what_no_column_stands_nearer_to_can_be_named_in_dataframes(
    frame: Callable[[str], Any], world: World, reader: ReaderPool
) -> None:
    for name in ("salary", NOBODYS):
        plan = message(frame(name)).SerializeToString(deterministic=True)
        verdict = await world.judge_plan(PlanRequest(kind="execute", message=plan), reader, user="bob")
        assert isinstance(verdict, Cleared), verdict


@pytest.mark.parametrize(("name", "looked"), [("salary", 1), (NOBODYS, 1), ("region", 0)])
async def test_time_does_not_tell_them_apart_either(
    name: str, looked: int, world: World, reader: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done for the record of an attempt is done for every name that may be one."""
    calls = []
    tried = Evaluation.record_denied_columns

    def noted(self: Evaluation, usage: Usage | Silent) -> None:
        calls.append(usage)
        tried(self, usage)

    monkeypatch.setattr(Evaluation, "record_denied_columns", noted)
    await world.judge(f"SELECT name FROM employee WHERE {name} IS NULL", reader, user="bob")
    plan = message(table("employee").filter(f"{name} IS NULL").select("name"))
    request = PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))
    await world.judge_plan(request, reader, user="bob")
    assert len(calls) == 2 * looked


EVERYBODY = {
    "columns": {"id": "int", "who": "string", "e": "string", "pay": "decimal(10,2)", "region": "string"},
    "text": "SELECT * FROM employee",
    "database": "hr",
    "output": ["id", "name", "email", "salary", "region"],
}
NAMES = {
    "columns": {"who": "string"},
    "text": "SELECT name FROM employee",
    "database": "hr",
    "output": ["name"],
}


@pytest.fixture(scope="module")
def views() -> World:
    """The world with two more views of employees, which bob may read."""
    data = yaml.safe_load((CASES / "world.yaml").read_text(encoding="utf-8"))
    data["views"] |= {"spark_catalog.hr.everybody": EVERYBODY, "spark_catalog.hr.names": NAMES}
    data["pack"] = data["pack"].replace(
        "[department, directory,", "[department, directory, everybody, names,"
    )
    return World(data)


@pytest.mark.parametrize("star", ["refuse", "visible"])
async def test_a_star_within_a_view_means_every_column(star: Any, views: World, reader: ReaderPool) -> None:
    """Read as the invoker: with fewer columns Spark would not find the others, and name them."""
    rules = Rules(star=star, views="invoker")
    verdict = await views.judge("SELECT who FROM everybody", reader, user="bob", rules=rules)
    assert isinstance(verdict, Refused), verdict
    assert "employee" in verdict.message
    assert "salary" not in verdict.message
    assert isinstance(
        await views.judge("SELECT who FROM everybody", reader, user="ann", rules=rules), Cleared
    )


async def test_names_within_a_view_are_not_told(views: World, reader: ReaderPool) -> None:
    """Should its text fail on a column after all, Spark would tell names that its reader did not write."""
    rules = Rules(star="visible", views="invoker")
    request = PlanRequest(
        kind="execute", message=message(table("names").select("who")).SerializeToString(deterministic=True)
    )
    for user, hides in (("bob", True), ("ann", False)):
        text = await views.judge("SELECT who FROM names", reader, user=user, rules=rules)
        plan = await views.judge_plan(request, reader, user=user, rules=rules)
        for verdict in (text, plan):
            assert isinstance(verdict, Cleared), verdict
            assert verdict.hides_target is hides
