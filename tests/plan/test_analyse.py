"""Column analysis of plans counts columns as the one for SQL does: each question is asked in both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect import plan as plans
from pyspark.sql.connect.window import Window

from gateway.model.catalog import Column, TableName
from gateway.model.statement import PlanRequest
from gateway.plan.analyse import TextUse, _ColumnUsageWalk, analyse_plan
from gateway.plan.analyse_relations import INPUTS
from gateway.plan.analyse_scope import ColumnUsage
from gateway.plan.reading import PlanReading, TableRead
from gateway.plan.walk import read_plan
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse
from gateway.sql.analyse_scope import Unclear
from gateway.wire import connect
from tests.plan import frames
from tests.plan.frames import Frame, command, message, sql, table

pb: Any = connect.pb
TABLES = {"t": "a b c s", "u": "id a d"}
SCANNED = {
    name: ScannedTable(
        parts=(name,),
        name=TableName("spark_catalog", "d", name),
        columns=tuple(Column(name=column, type="int") for column in columns.split()),
    )
    for name, columns in TABLES.items()
} | {"temp": ScannedTable(parts=("temp",), name=None)}

t, u = table("t"), table("u")


def in_sql(text: str) -> Usage | Silent:
    read = [scan for name, scan in SCANNED.items() if re.search(rf"\b{name}\b(?!\.)", text)]
    return analyse(text, read)


def reading_of(plan: Any) -> PlanReading:
    analyzed = plan.DESCRIPTOR.name == "AnalyzePlanRequest"
    request = PlanRequest(kind="analyze" if analyzed else "execute", message=plan.SerializeToString())
    reading = read_plan(request)
    assert isinstance(reading, PlanReading), reading
    return reading


def of_plan(plan: Any, expressions: TextUse | None = None) -> Usage | Silent:
    reading = reading_of(plan)
    return analyse_plan(
        reading,
        {i: SCANNED[read.parts[-1]] for i, read in enumerate(reading.tables)},
        {i: TextUse(usage=in_sql(text.text)) for i, text in enumerate(reading.texts)},
        {i: expressions or TextUse() for i, _ in enumerate(reading.expressions)},
    )


def of(frame: Frame) -> Usage | Silent:
    return of_plan(message(frame))


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
def test_a_question_is_counted_the_same_in_both_spellings(text: str) -> None:
    expected, found = in_sql(text), of(SAME[text]())
    assert isinstance(expected, Usage), expected
    assert isinstance(found, Usage), found
    assert found.columns == expected.columns
    assert found.named == expected.named
    assert found.computed == expected.computed
    assert found.stars == expected.stars
    assert [o.origins for o in found.outputs] == [o.origins for o in expected.outputs]


def test_what_is_only_passed_on_is_not_used() -> None:
    """A table's columns are not a star of anybody's: only those that reach the end or all of whom count."""
    assert columns(of(t.withColumn("x", F.lit(1)).filter("a > 1").select("b"))) == ("a b", "a b", "a")
    assert columns(of(t.withColumnRenamed("a", "x").select("x"))) == ("a", "a", "")
    assert columns(of(t.alias("y").limit(3).select("y.c"))) == ("c", "c", "")
    assert columns(of(t.distinct().select("c"))) == ("a b c s", "c", "a b c s")
    assert columns(of(t.select("*").select("c"))) == ("a b c s", "c", "")
    assert columns(of(t.drop("a", "s").dropDuplicates(["b"]))) == ("b c", "b", "b")


def test_operations_on_names() -> None:
    assert columns(of(t.dropna(subset=["a"]).select("b"))) == ("a b", "a b", "a")
    assert columns(of(t.describe("a"))) == ("a", "a", "a")
    assert columns(of(t.summary())) == ("a b c s", "", "a b c s")
    assert columns(of(t.fillna(0).select("b"))) == ("a b c s", "", "a b c s")
    assert columns(of(t.replace(1, 2, ["c"]).select("c"))) == ("c", "c", "c")
    for statistic in (plans.StatCov, plans.StatCrosstab):
        assert columns(of(frames.made(statistic(t._plan, "a", "b")))) == ("a b", "a b", "a b")
    assert columns(of(t.sampleBy("a", {1: 0.5}).select("b"))) == ("a b", "a b", "a")
    assert columns(of(t.toDF("x", "b", "z", "a").select("z"))) == ("c", "c", "")
    assert columns(of(t.select(t.colRegex("`[ab]`")))) == ("a b", "", "")
    assert columns(of(t.unpivot(["a"], ["b", "c"], "k", "v")))[0] == "a b c s"
    assert columns(of(t.repartition(3, "a").hint("rebalance").select("b"))) == ("a b", "a b", "a")
    assert columns(of(t.groupBy("a").pivot("b", [1]).agg(F.sum("c")))) == ("a b c", "a b c", "a b c")


def test_what_becomes_of_a_masked_column_is_followed() -> None:
    """A column that may only be shown is noticed under every name that it gets."""
    renamed = t.withColumnRenamed("a", "x").toDF("p", "q", "r", "z").alias("n")
    assert columns(of(renamed.filter("n.p = 1").select("q")))[2] == "a"
    assert columns(of(t.select(F.col("a").alias("x")).union(u.select("id")).filter("x = 1")))[2] == "a"
    assert columns(of(t.withColumn("x", F.col("a")).groupBy("x").count()))[2] == "a"
    assert columns(of(t.join(u, "a").filter(F.col("a") > 1)), "u")[2] == "a"
    assert columns(of(sql("SELECT a AS x FROM t").orderBy("x")))[2] == "a"
    assert columns(of(t.select("a").withColumn("a", F.upper("a"))))[2] == "a"


def test_texts_that_name_dataframes_of_the_plan() -> None:
    view = t.select(F.col("a").alias("x"), F.col("b").alias("y"))
    assert columns(of_text("SELECT x FROM {v} WHERE y > 1", view)) == ("a b", "a b", "b")
    assert columns(of_text("SELECT a FROM {v}", t)) == ("a", "a", "")
    assert columns(of_text("SELECT * FROM {v}", t.drop("s"))) == ("a b c", "", "")


def of_text(text: str, view: Frame) -> Usage | Silent:
    name = "_pyspark_connect_temp_view_0123456789abcdef0123456789abcdef"
    reading = reading_of(message(sql(text.format(v=name), views={name: view})))
    tables = {i: SCANNED[read.parts[-1]] for i, read in enumerate(reading.tables)}
    return analyse_plan(reading, tables, {0: TextUse()})


def test_expressions_with_subqueries() -> None:
    use = TextUse(scans=[SCANNED["u"]])
    usage = of_plan(message(t.filter("a IN (SELECT id FROM u WHERE u.d = t.b)").select("c")), use)
    assert columns(usage) == ("a b c", "a b c", "a b")
    assert columns(usage, "u") == ("d id", "d id", "d id")


def test_commands_and_analyses_use_what_they_read() -> None:
    view = plans.CreateView(t.select("a")._plan, "v", is_global=False, replace=True)
    assert columns(of_plan(command(view))) == ("a", "a", "")
    write = plans.WriteOperation(t.select("a", "b").filter("b > 1")._plan)
    write.table_name, write.table_save_method = "d.x", "save_as_table"
    assert columns(of_plan(command(write))) == ("a b", "a b", "b")
    schema = pb.AnalyzePlanRequest.Schema(plan=message(t))
    assert columns(of_plan(pb.AnalyzePlanRequest(schema=schema))) == ("a b c s", "", "")


SILENT: dict[str, Callable[[], Frame]] = {
    "is not in any relation in scope": lambda: t.select("nothing"),
    "is not in the relation that it refers to": lambda: t.select(t["nothing"]),
    "refers to a relation that is not in the plan": lambda: t.select(u["id"]),
    "is in 2 relations": lambda: t.join(u).select("a"),
    "cannot be matched": lambda: t.union(table("temp")),
    "nothing is read": lambda: frames.made(plans.Range(0, 9, 1)),
    "a pattern of columns": lambda: t.select(t.colRegex("`(a|b)+`")),
}


@pytest.mark.parametrize("why", SILENT)
def test_it_keeps_silent_about_what_is_not_sure(why: str) -> None:
    answer = of(SILENT[why]())
    assert isinstance(answer, Silent)
    assert why in answer.reason


def understood(case: str) -> bool:
    walk = _ColumnUsageWalk(reading_of(message(t)), {}, {}, {}, ColumnUsage())
    try:
        walk._leaf(pb.Relation(), case)
    except Unclear as unclear:
        return "does not understand" not in unclear.why
    return True


def test_every_relation_is_understood_or_known_not_to_be() -> None:
    cases = {f.name for f in pb.Relation.DESCRIPTOR.oneofs_by_name["rel_type"].fields}
    assert {case for case in cases - INPUTS.keys() if not understood(case)} == {
        "common_inline_user_defined_data_source",
        "extension",
        "ml_relation",
        "unknown",
    }


def test_relations_of_unknown_columns_are_no_fault() -> None:
    local = pb.Plan()
    local.root.project.input.join.left.local_relation.data = b"arrow"
    local.root.project.input.join.right.read.named_table.unparsed_identifier = "t"
    for name in ("whatever", "a"):
        local.root.project.expressions.add().unresolved_attribute.unparsed_identifier = name
    assert columns(of_plan(local)) == ("a", "a", "")


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


def test_deep_plans_and_deep_expressions_are_walked_without_recursion() -> None:
    assert columns(of_plan(nested(1_000))) == ("a b c s", "a b", "a b")
    plan = pb.Plan()
    plan.root.filter.input.read.named_table.unparsed_identifier = "t"
    condition = plan.root.filter.condition
    for _ in range(1_500):
        condition.unresolved_function.function_name = "not"
        condition = condition.unresolved_function.arguments.add()
    condition.unresolved_attribute.unparsed_identifier = "a"
    assert columns(of_plan(plan)) == ("a b c s", "a", "a")


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


def test_subqueries_cannot_make_it_walk_without_end() -> None:
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
