"""Column analysis of plans counts columns as the one for SQL does: each question is asked in both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect import plan as plans
from pyspark.sql.connect.window import Window

from gateway.model.catalog import Column, TableName
from gateway.model.reading import Reading, RelationRole
from gateway.model.statement import PlanRequest
from gateway.plan.analyse import TextUse, analyse_plan
from gateway.plan.reading import PlanReading, TableRead
from gateway.plan.walk import read_plan
from gateway.reader.pool import ReaderPool
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse
from gateway.wire import connect
from tests.plan import frames
from tests.plan.frames import Frame, command, message, sql, table

pb: Any = connect.pb
TABLES = {"t": "a b c s", "u": "id a d"}
SCANNED = {
    name: ScannedTable(
        parts=(name,),
        name=TableName("spark_catalog", "d", name),
        columns=tuple(
            Column(name=column, type="struct<f:int>" if column == "s" else "int")
            for column in columns.split()
        ),
    )
    for name, columns in TABLES.items()
} | {"temp": ScannedTable(parts=("temp",), name=None)}

pytestmark = pytest.mark.asyncio(loop_scope="session")

t, u, temp = table("t"), table("u"), table("temp")


async def in_sql(reader: ReaderPool, text: str) -> Usage | Silent:
    use = await use_of(reader, text, statement=True)
    return analyse(text, use.reading, use.scans)


def reading_of(plan: Any) -> PlanReading:
    analyzed = plan.DESCRIPTOR.name == "AnalyzePlanRequest"
    request = PlanRequest(kind="analyze" if analyzed else "execute", message=plan.SerializeToString())
    reading = read_plan(request)
    assert isinstance(reading, PlanReading), reading
    return reading


async def use_of(reader: ReaderPool, text: str, *, statement: bool) -> TextUse:
    """Return what is known of a text, as the pipeline has it."""
    read = await (reader.read(text) if statement else reader.read_expression(text))
    assert isinstance(read, Reading), read
    scans = [
        replace(SCANNED.get(one.parts[-1], SCANNED["temp"]), parts=one.parts, span=one.span)
        for one in read.relations
        if one.role is RelationRole.SCAN
    ]
    return TextUse(text=text, reading=read, scans=scans)


async def of_plan(reader: ReaderPool, plan: Any) -> Usage | Silent:
    found = reading_of(plan)
    texts = [await use_of(reader, one.text, statement=True) for one in found.texts]
    expressions = [await use_of(reader, one.text, statement=False) for one in found.expressions]
    return analyse_plan(
        found,
        {i: SCANNED[read.parts[-1]] for i, read in enumerate(found.tables)},
        dict(enumerate(texts)),
        dict(enumerate(expressions)),
    )


async def of(reader: ReaderPool, frame: Frame) -> Usage | Silent:
    return await of_plan(reader, message(frame))


def columns(usage: Usage | Silent, table: str = "t") -> tuple[str, str, str]:
    """Return the used, named and computed columns of a table."""
    assert isinstance(usage, Usage), usage
    name = TableName("spark_catalog", "d", table)
    return (
        " ".join(sorted(usage.columns[name])),
        " ".join(sorted(usage.named[name])),
        " ".join(sorted(usage.computed[name])),
    )


SAME: dict[str, Callable[[], Frame]] = {
    "SELECT * FROM t": lambda: t,
    "SELECT a FROM t": lambda: t.select("a"),
    "SELECT a, A AS b FROM t": lambda: t.select("A", F.col("t.a").alias("B")),
    "SELECT a FROM t WHERE b > 1": lambda: t.select("a").filter("b > 1"),
    "SELECT * FROM t WHERE b > 1 AND a IS NULL": lambda: t.filter("b > 1").filter(t["a"].isNull()),
    "SELECT a, max(b) FROM t GROUP BY a": lambda: t.groupBy("a").agg(F.max("b")),
    "SELECT a, count(1) AS count FROM t GROUP BY a": lambda: t.groupBy("a").count(),
    "SELECT count(*) FROM t": lambda: t.agg(F.count("*")),
    "SELECT count(DISTINCT a, b) FROM t": lambda: t.agg(F.count_distinct("a", "b")),
    "SELECT a, sum(b) FROM t GROUP BY ROLLUP (a)": lambda: t.rollup("a").agg(F.sum("b")),
    "SELECT * FROM t JOIN u USING (a)": lambda: t.join(u, "a"),
    "SELECT a, t.b FROM t JOIN u USING (a)": lambda: t.join(u, "a").select("a", "t.b"),
    "SELECT t.b, u.d FROM t JOIN u ON t.a = u.a": lambda: t.join(u, t.a == u.a).select(t.b, u["d"]),
    "SELECT x.a, y.c FROM t x JOIN t y ON x.a = y.b": lambda: (
        t.alias("x").join(t.alias("y"), F.col("x.a") == F.col("y.b")).select("x.a", "y.c")
    ),
    "SELECT * FROM t LEFT SEMI JOIN u ON t.a = u.a": lambda: t.join(u, t.a == u.a, "left_semi"),
    "SELECT t.* FROM t CROSS JOIN u": lambda: t.crossJoin(u).select("t.*"),
    "SELECT * FROM t ORDER BY b DESC LIMIT 3": lambda: t.orderBy(F.desc("b")).limit(3),
    "SELECT a FROM t ORDER BY c": lambda: t.select("a").orderBy("c"),
    "SELECT a FROM t UNION ALL SELECT id FROM u": lambda: t.select("a").union(u.select("id")),
    "SELECT a FROM t UNION SELECT id FROM u": lambda: t.select("a").union(u.select("id")).distinct(),
    "SELECT a, b FROM t UNION ALL SELECT a, id AS b FROM u": lambda: t.select("a", "b").unionByName(
        u.select(F.col("id").alias("b"), "a")
    ),
    "SELECT a FROM t INTERSECT SELECT id FROM u": lambda: t.select("a").intersect(u.select("id")),
    "SELECT a FROM t EXCEPT ALL SELECT id FROM u": lambda: t.select("a").exceptAll(u.select("id")),
    "SELECT DISTINCT * FROM t": lambda: t.distinct(),
    "SELECT DISTINCT a, b FROM t": lambda: t.select("a", "b").distinct(),
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b) AS r, c FROM t": lambda: t.select(
        F.row_number().over(Window.partitionBy("a").orderBy("b")).alias("r"), "c"
    ),
    "SELECT x FROM (SELECT a AS x, b FROM t) WHERE b > 1": lambda: (
        t.select(F.col("a").alias("x"), "b").filter("b > 1").select("x")
    ),
    "SELECT * FROM t WHERE a IN (SELECT id FROM u)": lambda: t.filter(F.col("a").isin(u.select("id"))),
    "SELECT b FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a)": lambda: t.filter(
        u.filter(F.col("u.a") == F.col("t.a").outer()).exists()
    ).select("b"),
    "SELECT a, (SELECT max(id) FROM u) AS m FROM t": lambda: t.select(
        "a", u.select(F.max("id")).scalar().alias("m")
    ),
    "SELECT * FROM t, LATERAL (SELECT id FROM u WHERE u.a = t.a)": lambda: t.lateralJoin(
        u.filter(F.col("u.a") == F.col("t.a").outer()).select("id")
    ),
    "SELECT a AS x, b + 1 AS y, * FROM t": lambda: t.selectExpr("a AS x", "b + 1 AS y", "*"),
    "SELECT s.f AS x FROM t": lambda: t.selectExpr("s.f AS x"),
    "SELECT s.f, t.b, d.t.c, spark_catalog.d.t.a FROM t": lambda: t.select(
        "s.f", F.col("t.b"), "`d`.t.c", "spark_catalog.d.t.a"
    ),
    "SELECT s['f'] FROM t": lambda: t.select(F.col("s")["f"]),
    "SELECT * EXCEPT (a) FROM t": lambda: t.drop("a"),
    "SELECT * EXCEPT (b, c) FROM t": lambda: t.drop(t.b, "c"),
    "SELECT *, a + 1 AS x FROM t": lambda: t.withColumn("x", F.col("a") + 1),
    "SELECT transform(s, x -> x + a) FROM t": lambda: t.select(F.transform("s", lambda x: x + F.col("a"))),
    "SELECT x.c FROM t x JOIN t y ON x.a = x.b": lambda: t.join(t, t.a == t.b).select(t.c),
    "SELECT coalesce(a, 0) AS a FROM t": lambda: t.fillna(0, ["a"]).select("a"),
    "SELECT a FROM (SELECT a, b FROM t) WHERE b = 1": lambda: (
        sql("SELECT a, b FROM t").filter("b = 1").select("a")
    ),
    "SELECT a, k FROM temp JOIN t ON temp.k = t.a": lambda: (
        table("temp").join(t, F.col("temp.k") == t.a).select("a", "k")
    ),
    "SELECT a, sum(b) AS n FROM t GROUP BY a HAVING sum(b) > 1": lambda: (
        t.groupBy("a").agg(F.sum("b").alias("n")).filter("n > 1")
    ),
    "SELECT a, max(b) FROM t GROUP BY a HAVING max(b) > 1": lambda: (
        t.groupBy("a").agg(F.max("b")).filter(F.col("max(b)") > 1)
    ),
    "SELECT explode(s) AS e, a FROM t": lambda: t.select(F.explode("s").alias("e"), "a"),
    "SELECT CASE WHEN a > 1 THEN b ELSE c END AS x FROM t": lambda: t.select(
        F.when(F.col("a") > 1, F.col("b")).otherwise(F.col("c")).alias("x")
    ),
}


@pytest.mark.parametrize("text", SAME)
async def test_a_question_is_counted_the_same_in_both_spellings(reader: ReaderPool, text: str) -> None:
    expected, found = await in_sql(reader, text), await of(reader, SAME[text]())
    assert isinstance(expected, Usage), expected
    assert isinstance(found, Usage), found
    assert found.columns == expected.columns
    assert found.named == expected.named
    assert found.computed == expected.computed
    assert found.conditions == expected.conditions
    assert found.stars == expected.stars


async def test_what_is_only_passed_on_is_not_used(reader: ReaderPool) -> None:
    """A table's columns are not a star of anybody's: only those that reach the end or all of whom count."""
    assert columns(await of(reader, t.withColumn("x", F.lit(1)).filter("a > 1").select("b"))) == (
        "a b",
        "a b",
        "a",
    )
    assert columns(await of(reader, t.withColumnRenamed("a", "x").select("x"))) == ("a", "a", "")
    assert columns(await of(reader, t.alias("y").limit(3).select("y.c"))) == ("c", "c", "")
    assert columns(await of(reader, t.distinct().select("c"))) == ("a b c s", "c", "a b c s")
    assert columns(await of(reader, t.select("*").select("c"))) == ("a b c s", "c", "")
    assert columns(await of(reader, t.drop("a", "s").dropDuplicates(["b"]))) == ("b c", "b", "b")


async def test_what_is_dropped_by_another_relation_stays(reader: ReaderPool) -> None:
    """Spark drops the column of that relation, and not one that has its name."""
    joined = t.join(u, t.a == u.a)
    assert columns(await of(reader, joined.drop(u.a).select("a")), "u")[0] == "a"
    assert columns(await of(reader, t.join(u.select("id"), F.col("id") == 1).drop(u.a)))[0] == "a b c s"
    assert columns(await of(reader, t.alias("x").drop(t.a)))[0] == "b c s"


async def test_operations_on_names(reader: ReaderPool) -> None:
    assert columns(await of(reader, t.dropna(subset=["a"]).select("b"))) == ("a b", "a b", "a")
    assert columns(await of(reader, t.describe("a"))) == ("a", "a", "a")
    assert columns(await of(reader, t.summary())) == ("a b c s", "", "a b c s")
    assert columns(await of(reader, t.fillna(0).select("b"))) == ("a b c s", "", "a b c s")
    assert columns(await of(reader, t.replace(1, 2, ["c"]).select("c"))) == ("c", "c", "c")
    for statistic in (plans.StatCov, plans.StatCrosstab):
        assert columns(await of(reader, frames.made(statistic(t._plan, "a", "b")))) == ("a b", "a b", "a b")
    assert columns(await of(reader, t.sampleBy("a", {1: 0.5}).select("b"))) == ("a b", "a b", "a")
    assert columns(await of(reader, t.toDF("x", "b", "z", "a").select("z"))) == ("c", "c", "")
    assert columns(await of(reader, t.select(t.colRegex("`[ab]`")))) == ("a b", "", "")
    assert columns(await of(reader, t.unpivot(["a"], ["b", "c"], "k", "v")))[0] == "a b c s"
    assert columns(await of(reader, t.repartition(3, "a").hint("rebalance").select("b"))) == (
        "a b",
        "a b",
        "a",
    )
    assert columns(await of(reader, t.groupBy("a").pivot("b", [1]).agg(F.sum("c")))) == (
        "a b c",
        "a b c",
        "a b c",
    )


async def test_what_becomes_of_a_masked_column_is_followed(reader: ReaderPool) -> None:
    """A column that may only be shown is noticed under every name that it gets."""
    renamed = t.withColumnRenamed("a", "x").toDF("p", "q", "r", "z").alias("n")
    assert columns(await of(reader, renamed.filter("n.p = 1").select("q")))[2] == "a"
    assert (
        columns(await of(reader, t.select(F.col("a").alias("x")).union(u.select("id")).filter("x = 1")))[2]
        == "a"
    )
    assert columns(await of(reader, t.withColumn("x", F.col("a")).groupBy("x").count()))[2] == "a"
    assert columns(await of(reader, t.join(u, "a").filter(F.col("a") > 1)), "u")[2] == "a"
    assert columns(await of(reader, sql("SELECT a AS x FROM t").orderBy("x")))[2] == "a"
    assert columns(await of(reader, t.select("a").withColumn("a", F.upper("a"))))[2] == "a"


async def test_texts_that_name_dataframes_of_the_plan(reader: ReaderPool) -> None:
    view = t.select(F.col("a").alias("x"), F.col("b").alias("y"))
    assert columns(await of_text(reader, "SELECT x FROM {v} WHERE y > 1", view)) == ("a b", "a b", "b")
    assert columns(await of_text(reader, "SELECT a FROM {v}", t)) == ("a", "a", "")
    assert columns(await of_text(reader, "SELECT * FROM {v}", t.drop("s"))) == ("a b c", "", "")


async def of_text(reader: ReaderPool, text: str, view: Frame) -> Usage | Silent:
    name = "_pyspark_connect_temp_view_0123456789abcdef0123456789abcdef"
    return await of_plan(reader, message(sql(text.format(v=name), views={name: view})))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT b AS a, max(c) FROM t GROUP BY b, a HAVING a + 1 > 1",
        "SELECT b AS a FROM t ORDER BY a + 1",
        "TABLE t UNION ALL TABLE t",
        "SELECT a FROM t QUALIFY row_number() OVER (ORDER BY b) = 1",
    ],
)
async def test_a_text_within_a_plan_is_counted_as_by_itself(reader: ReaderPool, text: str) -> None:
    assert await of(reader, sql(text).limit(1)) == await in_sql(reader, text)


async def test_expressions_with_subqueries(reader: ReaderPool) -> None:
    usage = await of(reader, t.filter("a IN (SELECT id FROM u WHERE u.d = t.b)").select("c"))
    assert columns(usage) == ("a b c", "a b c", "a b")
    assert columns(usage, "u") == ("d id", "d id", "d id")


async def test_commands_and_analyses_use_what_they_read(reader: ReaderPool) -> None:
    view = plans.CreateView(t.select("a")._plan, "v", is_global=False, replace=True)
    assert columns(await of_plan(reader, command(view))) == ("a", "a", "")
    write = plans.WriteOperation(t.select("a", "b").filter("b > 1")._plan)
    write.table_name, write.table_save_method = "d.x", "save_as_table"
    assert columns(await of_plan(reader, command(write))) == ("a b", "a b", "b")
    schema = pb.AnalyzePlanRequest.Schema(plan=message(t))
    assert columns(await of_plan(reader, pb.AnalyzePlanRequest(schema=schema))) == ("a b c s", "", "")


SILENT: dict[str, Callable[[], Frame]] = {
    "`nothing` is not in any relation in scope": lambda: t.select("nothing"),
    "`none` is not in any relation in scope": lambda: t.select(t["none"]),
    "refers to a relation that is not in the plan": lambda: t.select(u["id"]),
    "cannot be matched": lambda: t.union(table("temp")),
    "nothing is read": lambda: frames.made(plans.Range(0, 9, 1)),
    "the join column `b` is in no known relation": lambda: t.join(u, "b"),
    "does not understand an expression": lambda: t.select(t.colRegex("`(a|b)+`")),
    "a pattern of columns": lambda: temp.select(temp.colRegex("`a.`")),
}


@pytest.mark.parametrize("why", SILENT)
async def test_it_keeps_silent_about_what_is_not_sure(reader: ReaderPool, why: str) -> None:
    answer = await of(reader, SILENT[why]())
    assert isinstance(answer, Silent)
    assert why in answer.reason


async def test_relations_of_unknown_columns_are_no_fault(reader: ReaderPool) -> None:
    local = pb.Plan()
    local.root.project.input.join.join_type = 1
    local.root.project.input.join.left.local_relation.data = b"arrow"
    local.root.project.input.join.right.read.named_table.unparsed_identifier = "t"
    for name in ("whatever", "a"):
        local.root.project.expressions.add().unresolved_attribute.unparsed_identifier = name
    assert columns(await of_plan(reader, local)) == ("a", "a", "")


def nested(count: int) -> Any:
    plan = pb.Plan()
    relation = plan.root
    for i in range(count):
        inner = relation.with_columns
        alias = inner.aliases.add()
        alias.name.append(f"x{i % 7}")
        alias.expr.unresolved_function.function_name = "+"
        for name in ("a", "b"):
            argument = alias.expr.unresolved_function.arguments.add()
            argument.unresolved_attribute.unparsed_identifier = name
        relation = inner.input
    relation.read.named_table.unparsed_identifier = "t"
    return plan


async def test_deep_plans_and_deep_expressions_are_walked_without_recursion(reader: ReaderPool) -> None:
    assert columns(await of_plan(reader, nested(1_000))) == ("a b c s", "a b", "a b")
    plan = pb.Plan()
    plan.root.filter.input.read.named_table.unparsed_identifier = "t"
    condition = plan.root.filter.condition
    for _ in range(1_500):
        condition.unresolved_function.function_name = "not"
        condition = condition.unresolved_function.arguments.add()
    condition.unresolved_attribute.unparsed_identifier = "a"
    assert columns(await of_plan(reader, plan)) == ("a b c s", "a", "a")


def subquery(depth: int) -> Any:
    """Return a plan with subqueries that refer to one another, two at each level."""
    plan = pb.Plan()
    relation = plan.root
    for level in range(depth):
        relation = relation.with_relations
        reference = relation.references.add()
        reference.common.plan_id = level
        reference.filter.input.read.named_table.unparsed_identifier = "t"
        root = relation.root.filter
        root.condition.unresolved_function.function_name = "and"
        for _ in range(2):
            inner = root.condition.unresolved_function.arguments.add().subquery_expression
            inner.plan_id, inner.subquery_type = level, 2
        reference.filter.condition.CopyFrom(_refers_to(level + 1))
        relation = root.input
    relation.read.named_table.unparsed_identifier = "t"
    return plan


def _refers_to(level: int) -> Any:
    condition = pb.Expression()
    condition.unresolved_function.function_name = "and"
    for _ in range(2):
        inner = condition.unresolved_function.arguments.add().subquery_expression
        inner.plan_id, inner.subquery_type = level, 2
    return condition


async def test_subqueries_cannot_make_it_walk_without_end() -> None:
    plan = subquery(15)
    reading = PlanReading(message=plan, root="")
    answer = analyse_plan(reading, _reads(reading, plan), {}, {})
    assert isinstance(answer, Silent)
    itself = pb.Plan()
    bound = itself.root.with_relations
    bound.references.add().CopyFrom(pb.Relation(common=pb.RelationCommon(plan_id=1)))
    bound.references[0].filter.input.range.end = 1
    for place in (bound.root, bound.references[0]):
        place.filter.input.range.end = 1
        place.filter.condition.subquery_expression.plan_id = 1
    answer = analyse_plan(PlanReading(message=itself, root=""), {}, {}, {})
    assert answer == Silent("the plan has too many nested subqueries for column analysis")


def _reads(reading: PlanReading, plan: Any) -> dict[int, ScannedTable]:
    def relations(relation: Any) -> Iterable[Any]:
        yield relation
        case = relation.WhichOneof("rel_type")
        body = getattr(relation, case)
        if case == "filter":
            yield from relations(body.input)
        if case == "with_relations":
            for inner in (body.root, *body.references):
                yield from relations(inner)

    reads = [r for r in relations(plan.root) if r.WhichOneof("rel_type") == "read"]
    reading.tables += [TableRead(relation=relation, parts=("t",)) for relation in reads]
    return {i: SCANNED["t"] for i, _ in enumerate(reads)}
