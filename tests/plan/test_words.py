"""Words that are a column or the user: what each means where it stands in a plan, on Spark's terms."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql.connect import plan as plans
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.window import Window
from pyspark.sql.types import StructType

from gateway.model.statement import Cleared, PlanRequest, Refused, Verdict
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import parse, pb
from tests.judge_world import World
from tests.plan.frames import SESSION, message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        "spark_catalog.lab.t": {"id": "int", "own": "string"},
        "spark_catalog.lab.events": {"id": "int", "user": "string", "at": "date"},
    },
    "views": {},
    "people": {"ann": {"groups": ["staff"]}},
    "pack": """
service: spark
policies:
  - name: everybody reads
    on: {catalog: spark_catalog, database: lab, table: "*", column: "*"}
    allow: [{groups: [staff], access: [select]}]
""",
}


@pytest.fixture(scope="module")
def world() -> World:
    return World(DATA)


async def judged(world: World, reader: ReaderPool, frame: Any, **session: Any) -> Verdict:
    request = PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))
    return await world.judge_plan(request, reader, user="ann", **{"namespace": ("lab",), **session})


def forwarded(verdict: Verdict) -> Any:
    assert isinstance(verdict, Cleared), verdict
    return parse(pb.Plan, verdict.forwarded_plan)


def unresolved(root: Any) -> list[str]:
    """The words that Spark is left to resolve."""
    return [word for word in ("user", "current_user", "session_user") if f'"{word}"' in str(root).lower()]


async def test_a_word_that_is_no_column_is_the_principal(world: World, reader: ReaderPool) -> None:
    t = table("t")
    for frame in (
        t.select(F.col("user"), F.col("USER"), F.col("`current_user`"), F.col("session_user")),
        t.selectExpr("user"),
        t.selectExpr("upper(current_user) AS u", "id"),
        t.filter(F.col("own") == F.col("current_user")),
        t.filter("own = session_user"),
        t.groupBy("user").count(),
        t.orderBy(F.col("user").desc()),
        t.withColumn("me", F.col("user")),
        t.select(F.max(F.col("user")).over(Window.partitionBy("user").orderBy("session_user"))),
        t.repartition(2, "user"),
        t.filter("own = current_user").agg(F.count(F.lit(1))),
        t.selectExpr("user", "upper(current_user) AS u"),
        t.join(t.alias("o"), F.col("own") == F.col("user")),
        t.select(F.colRegex("user")) if hasattr(F, "colRegex") else t.select("user"),
    ):
        plan = forwarded(await judged(world, reader, frame))
        assert not unresolved(plan), plan
        assert "ann" in str(plan)


async def test_its_column_is_called_what_spark_calls_it(world: World, reader: ReaderPool) -> None:
    first, second = forwarded(
        await judged(world, reader, table("t").select("user", F.col("session_user").alias("s")))
    ).root.project.expressions
    assert (list(first.alias.name), first.alias.expr.literal.string) == (["current_user()"], "ann")
    assert (list(second.alias.name), second.alias.expr.literal.string) == (["s"], "ann")


async def test_a_column_of_that_name_stays_one(world: World, reader: ReaderPool) -> None:
    events = table("events")
    for frame in (
        events.select("user"),
        events.selectExpr("upper(User)"),
        events.filter("user = 'x'"),
        events.groupBy("user").count(),
        events.groupBy("user").count().orderBy("user"),
        events.selectExpr("transform(array(1), user -> user)"),
        events.filter(F.col("user") == "x").drop(F.col("user")),
        events.drop("user").dropDuplicates(["id"]),
        events.dropDuplicates(["user"]).fillna("?", subset=["user"]),
        table("t").withColumn("user", F.lit("x")).filter("user = 'x'"),
        table("t").select(F.lit("x").alias("user")).distinct().sort("user"),
        table("t").join(events, "id").select("user"),
        table("t").alias("a").select("a.id", F.col("a.own")),
        events.crosstab("user", "id"),
    ):
        verdict = await judged(world, reader, frame)
        assert isinstance(verdict, Cleared), (verdict.message, verdict.statement.text)
        assert "ann" not in str(forwarded(verdict)), verdict.statement.text


async def test_what_is_not_certain_is_refused(world: World, reader: ReaderPool) -> None:
    views: dict[str, Any] = {"temp_views": frozenset({"v"})}
    t, events = table("t"), table("events")
    for frame in (
        table("v").select("user"),
        table("v").filter("owner = current_user"),
        t.select(F.explode(F.array("id"))).select(F.inline(F.array(F.struct("col")))).select("user"),
        events.select("id").orderBy("user"),
        events.select("id").filter("user = 'x'"),
        t.select(F.lit("x").alias("user"), F.upper("user")),
        t.crosstab("user", "id"),
        t.filter("id IN (SELECT id FROM events WHERE user = 'x')"),
    ):
        verdict = await judged(world, reader, frame, **views)
        assert isinstance(verdict, Refused), verdict.statement.text
        assert "may be a column or a function" in verdict.message, verdict.message


async def test_an_alias_before_the_column_helps(world: World, reader: ReaderPool) -> None:
    verdict = await judged(world, reader, table("v").alias("x").select("x.user"), temp_views=frozenset({"v"}))
    assert isinstance(verdict, Cleared), verdict


async def test_texts_are_as_they_were(world: World, reader: ReaderPool) -> None:
    plan = forwarded(await judged(world, reader, sql("SELECT user FROM t")))
    assert "'ann' AS `current_user()`" in plan.root.sql.query


async def test_columns_of_what_a_client_brings_stay_columns(world: World, reader: ReaderPool) -> None:
    schema = StructType().add("null", "long").add("true", "long").add("user", "long").add("at", "long")
    rows = pa.table({name: pa.array([1], pa.int64()) for name in schema.names})
    brought = DataFrame(plans.LocalRelation(rows, schema=schema.json()), SESSION)
    for frame in (
        brought.select("user", "at"),
        brought.selectExpr("`null` AS c0", "`user` AS c1", "`at` AS c2"),
        brought.where("`null` > 1 AND `true` = 8").select(F.col("user"), "current_date"),
        brought.groupBy("user").agg(F.sum("at")),
    ):
        verdict = await judged(world, reader, frame)
        assert isinstance(verdict, Cleared), (verdict.message, verdict.statement.text)
        assert "ann" not in str(forwarded(verdict))
