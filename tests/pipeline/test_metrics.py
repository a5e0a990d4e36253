"""Metric views: by name where nobody has an obligation, written out where somebody has, refused elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.catalog import FUNCTION, Column, Table, TableKind, TableName
from gateway.model.statement import Cleared, Refused, Verdict
from gateway.reader.pool import ReaderPool
from gateway.sql.metric_views import metric_view
from tests.judge_world import CASES, World, with_function
from tests.pipeline.test_plans import analyze, execute, refused, sql_command
from tests.plan.frames import Frame, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = TableName("spark_catalog", "hr", "mv")
VIEW = """
version: 0.1
source: hr.employee
filter: id > 0
dimensions:
  - name: region
    expr: upper(region)
  - name: Mail
    expr: email
measures:
  - name: total
    expr: sum(salary) / count(*)
  - name: best
    expr: max(region) -- of the dimension
  - name: two
    expr: 2
  - name: again
    expr: sum(id)
"""
INNER = "  - name: inner\n    expr: max(addr.city)\n"
COLUMNS = {"region": "string", "Mail": "string", "total": "decimal(38,2)", "best": "string", "two": "int"}
AGAIN = {"again": "bigint"}
POLICIES = """
  - name: bob reads and makes metric views
    on: {catalog: "*", database: hr, table: "mv*", column: "*"}
    allow: [{users: [bob, eve], access: [select, create, alter]}]
"""
GUARDED = "(SELECT * FROM `spark_catalog`.`hr`.`employee` AS `employee` WHERE (region = 'EMEA')"


def world(text: str = VIEW, *, definer: str | None = None, policies: str = "") -> World:
    data: dict[str, Any] = yaml.safe_load((Path(CASES) / "world.yaml").read_text())
    data["pack"] += POLICIES + policies
    made = World(data)
    columns = COLUMNS | AGAIN | ({"inner": "string"} if INNER in text else {})
    listed = tuple(Column(name=name, type=kind) for name, kind in columns.items())
    body = replace(metric_view(text, list(columns), {}), definer=definer)
    made.tables[NAME] = Table(name=NAME, kind=TableKind.VIEW, columns=listed, view=body)
    return made


def cleared(verdict: Verdict) -> str:
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


def why(verdict: Verdict) -> str:
    assert isinstance(verdict, Refused), verdict
    return f"{verdict.code}: {verdict.message}"


async def test_without_obligations_it_is_read_by_name(reader: ReaderPool) -> None:
    text = "SELECT region, measure(total) FILTER (WHERE region > 'a') FROM {} GROUP BY CUBE (region)"
    verdict = await world(definer="ann").judge(text.format("mv"), reader, user="ann")
    assert cleared(verdict) == text.format("`spark_catalog`.`hr`.`mv`")
    assert isinstance(verdict, Cleared)
    assert {scan.table.table: scan.columns for scan in verdict.scans} == {
        "mv": ("region", "total"),
        "employee": ("email", "id", "region", "salary"),
    }


async def test_a_measure_becomes_what_it_is_over_guarded_rows(reader: ReaderPool) -> None:
    text = "SELECT region, measure(total), left(MEASURE(m.best), 1) b FROM mv m WHERE `mail` > '' GROUP BY 1"
    forwarded = cleared(await world().judge(text, reader, user="bob"))
    assert forwarded.startswith(
        "SELECT region, (sum(`#__0`) / count(*)\n) AS `measure(total)`, "
        "left((max(`region`) -- of the dimension\n), 1) b FROM (SELECT `region`, `Mail`, `#__0` "
    )
    assert "(`salary`\n) AS `#__0`" in forwarded
    assert GUARDED in forwarded
    assert forwarded.endswith("m WHERE `mail` > '' GROUP BY 1")


async def test_qualified_names_of_the_view_are_followed(reader: ReaderPool) -> None:
    text = "SELECT hr.mv.region, measure(hr.mv.total) FROM hr.mv GROUP BY hr.mv.region"
    forwarded = cleared(await world().judge(text, reader, user="bob"))
    assert forwarded.startswith("SELECT `mv`.`region`, (sum(`#__0`) / count(*)\n) AS `measure(total)`")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM mv", "list its columns"),
        ("SELECT max(struct(*)) FROM mv", "list its columns"),
        ("SELECT region FROM mv", "read it with MEASURE"),
        ("SELECT max(region) OVER () FROM mv", "read it with MEASURE"),
        ("SELECT sum(total) FROM mv", "read its measure `total` with MEASURE"),
        ("SELECT region FROM mv GROUP BY region, total", "read its measure `total` with MEASURE"),
        ("SELECT count(*) FROM mv WHERE total > 1", "read its measure `total` with MEASURE"),
        ("SELECT count(*) FROM mv WHERE measure(total) > 1", "only in the select list"),
        ("SELECT measure(total) FILTER (WHERE true) FROM mv", "without DISTINCT or FILTER"),
        ("SELECT measure(DISTINCT total) FROM mv", "without DISTINCT or FILTER"),
        ("SELECT measure(total) OVER () FROM mv", "cannot have a window"),
        ("SELECT measure(total) + 1 FROM mv", "an alias with AS"),
        ("SELECT region, measure(total) FROM mv GROUP BY ROLLUP (region)", "grouping sets"),
        ("SELECT region, measure(total) FROM mv GROUP BY GROUPING SETS ((region), ())", "grouping sets"),
        ("FROM mv |> AGGREGATE measure(total) AS t GROUP BY region", "write SELECT … FROM it instead of |>"),
        ("FROM mv |> SELECT measure(total)", "write SELECT … FROM it instead of |>"),
        ("FROM mv |> EXTEND measure(total) AS t", "write SELECT … FROM it instead of |>"),
        ("SELECT region FROM mv GROUP BY region HAVING max(struct(*)) IS NOT NULL", "list its columns"),
        ("SELECT measure(total) FROM mv AS m ORDER BY count(m.*)", "list its columns"),
        ("SELECT measure(total) FROM mv ORDER BY measure(total)", "only in the select list"),
        (
            "SELECT region r FROM mv GROUP BY 1 HAVING measure(total) > 1 ORDER BY r",
            "only in the select list",
        ),
        ("SELECT measure(total) FROM mv JOIN department d ON true", "with masks, filters or hidden columns"),
        (
            "SELECT measure(total) FROM mv LATERAL VIEW explode(array(1)) AS x",
            "with masks, filters or hidden columns",
        ),
        ("SELECT measure(total) FROM mv AS m(a, b, c, d, e, f, g)", "with masks, filters or hidden columns"),
        ("SELECT measure(total) FROM mv TABLESAMPLE (1 ROWS)", "with masks, filters or hidden columns"),
        (
            "SELECT measure(total) FROM (SELECT region, total FROM mv) GROUP BY region",
            "read its measure `total` with MEASURE",
        ),
        ("SELECT max(`#__0`) FROM mv", "reserved for the gateway"),
        ("SELECT measure(total), max(IDENTIFIER('`\\u0023__0`')) AS x FROM mv", "reserved for the gateway"),
        (
            "SELECT measure(total) FROM mv GROUP BY transform(array(1), x -> `#__0`)",
            "reserved for the gateway",
        ),
        (
            "SELECT measure(total) FROM mv WHERE exists(array(1), x -> mv.`#__0` > 1)",
            "reserved for the gateway",
        ),
        (
            "SELECT measure(total) FROM mv HAVING max(exists(array(1), x -> `#__0` > 1))",
            "reserved for the gateway",
        ),
        ("SELECT measure(two) FROM mv", "it has no aggregate function"),
        ("EXPLAIN SELECT measure(total) FROM mv", "with masks, filters or hidden columns"),
    ],
)
async def test_elsewhere_it_is_refused_by_name(reader: ReaderPool, text: str, said: str) -> None:
    told = why(await world().judge(text, reader, user="bob"))
    assert told.startswith("NOT_GOVERNABLE")
    assert said in told


SHAPES = (
    "SELECT * FROM mv LIMIT 0",
    "SELECT * FROM mv WHERE 1 = 0",
    "SELECT region, total FROM mv AS m WHERE region = 'a' AND false",
    "SELECT * FROM (SELECT * FROM mv) t WHERE 0 = 1 ORDER BY 1",
    "SELECT DISTINCT total + 1 AS t FROM mv JOIN department d ON true LIMIT 0",
    "DESCRIBE QUERY SELECT * FROM mv",
    "WITH m AS (SELECT * FROM mv) SELECT * FROM m LIMIT 0",
    "WITH m AS (SELECT * FROM mv), n AS (SELECT total FROM m) SELECT total AS t FROM n WHERE 1 = 0",
    "WITH m(a, b, c, d, e, f) AS (TABLE mv) (WITH n AS (TABLE m) SELECT * FROM n) LIMIT 0",
    "SELECT * FROM (WITH m AS (SELECT * FROM mv) SELECT region FROM m) WHERE false",
    "DESCRIBE QUERY WITH m AS (SELECT * FROM mv) SELECT * FROM m",
)
EMPTY = (
    "SELECT CAST(NULL AS string) AS `region`, CAST(NULL AS string) AS `Mail`, CAST(NULL AS decimal(38,2)) "
    "AS `total`, CAST(NULL AS string) AS `best`, CAST(NULL AS int) AS `two`, CAST(NULL AS bigint) AS `again` "
    "WHERE false"
)


async def test_who_asks_for_columns_alone_gets_them(reader: ReaderPool) -> None:
    for text in SHAPES:
        assert EMPTY in cleared(await world().judge(text, reader, user="bob"))
        assert "spark_catalog`.`hr`.`employee" not in cleared(await world().judge(text, reader, user="bob"))
    for frame in (
        table("mv"),
        table("mv").filter("total > 1").select("region", F.col("total").alias("t")),
        table("mv").join(table("mv").select("region"), "region"),
        sql("SELECT * FROM mv"),
        sql("WITH m AS (SELECT * FROM mv) SELECT * FROM m"),
    ):
        for case in ("schema", "tree_string", "is_local", "is_streaming"):
            assert EMPTY in cleared(await world().judge_plan(analyze(case, frame), reader, user="bob"))
        assert EMPTY in cleared(await world().judge_plan(execute(frame.limit(0)), reader, user="bob"))
        for asked in (execute(frame), execute(frame.limit(0).groupBy().count()), analyze("explain", frame)):
            assert not isinstance(await world().judge_plan(asked, reader, user="bob"), Cleared)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(total) FROM mv WHERE 1 = 0",
        "SELECT max(total), 1 FROM mv WHERE false",
        "SELECT region FROM mv WHERE '01' = 1",
        "SELECT region FROM mv WHERE 1 = 1.0",
        "SELECT region FROM mv WHERE NOT false",
        "SELECT region FROM mv WHERE DATE'1970-01-02' = TIMESTAMP'1970-01-02 00:00:00'",
        "SELECT region FROM mv WHERE 1 = 0 OR region > ''",
        "SELECT region FROM mv LIMIT 1",
        "INSERT INTO sales.tmp_own SELECT region, total FROM mv LIMIT 0",
        "WITH m AS (SELECT * FROM mv LIMIT 0) SELECT * FROM m UNION ALL SELECT * FROM mv",
        "WITH m AS (SELECT * FROM mv LIMIT 0) SELECT count(*) FROM m",
        "WITH m AS (SELECT * FROM mv) SELECT * FROM m",
        "WITH m AS (SELECT * FROM mv) INSERT INTO sales.tmp_own SELECT region, total FROM m LIMIT 0",
        "EXPLAIN WITH m AS (SELECT * FROM mv) SELECT * FROM m LIMIT 0",
        "SELECT region FROM mv WHERE false UNION ALL SELECT name FROM department",
        "SELECT measure(total) + 1 FROM mv LIMIT 0",
        "EXPLAIN SELECT * FROM mv LIMIT 0",
    ],
)
async def test_rows_are_never_left_out(reader: ReaderPool, text: str) -> None:
    assert why(await world().judge(text, reader, user="bob")).startswith("NOT_GOVERNABLE")


async def test_a_statement_that_names_its_relation_alone_is_none_that_runs(reader: ReaderPool) -> None:
    """Spark Connect gives the relation of a query back; what it shows is judged when it is asked for."""
    told = sql_command(sql("SELECT * FROM mv"))
    assert EMPTY in cleared(await world().judge_plan(told, reader, user="bob"))
    runs = sql_command(sql("INSERT INTO sales.tmp_own SELECT region, total FROM mv"))
    assert why(await world().judge_plan(runs, reader, user="bob")).startswith("NOT_GOVERNABLE")


async def test_a_measure_of_a_measure_is_refused(reader: ReaderPool) -> None:
    made = world(VIEW.replace("sum(id)", "measure(id)"))
    assert "computed from a measure" in why(
        await made.judge("SELECT measure(again) FROM mv", reader, user="bob")
    )


async def test_fields_of_columns_are_followed(reader: ReaderPool) -> None:
    source = "SELECT *, struct(name AS city) AS addr FROM hr.employee"
    made = world(VIEW.replace("hr.employee", source) + INNER)
    forwarded = cleared(await made.judge("SELECT measure(inner) FROM mv", reader, user="bob"))
    assert "(max(`#__0`.`city`)\n) AS `measure(inner)`" in forwarded


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("employee", "`employee` without a database"),
        ("SELECT * FROM employee", "`employee` without a database"),
        (
            "SELECT * FROM hr.employee WHERE EXISTS (TABLE department)",
            "`department` without a database",
        ),
        ("SELECT peek(id) AS id FROM hr.employee", "`peek` resolves in the session"),
        ("hr.employee) UNION (SELECT 1", "neither a table name nor a query"),
        ("DROP TABLE hr.employee", "cannot be parsed"),
    ],
)
async def test_a_source_must_mean_one_thing(reader: ReaderPool, source: str, said: str) -> None:
    for user in ("ann", "bob"):
        told = why(
            await world(VIEW.replace("hr.employee", source)).judge("SELECT 1 FROM mv", reader, user=user)
        )
        assert said in told


async def test_a_definer_lends_what_he_has(reader: ReaderPool) -> None:
    text = "SELECT measure(total) FROM mv"
    told = why(await world(definer="eve").judge(text, reader, user="bob"))
    assert told.startswith("ACCESS_DENIED")
    assert "because its definer" in told
    forwarded = cleared(await world(definer="ann").judge(text, reader, user="bob"))
    assert GUARDED in forwarded


async def test_it_is_a_barrier_to_who_may_not_select_what_it_reads(reader: ReaderPool) -> None:
    """A condition of his that fails on what the view's own filter hides would tell of it."""
    text = "SELECT measure(total) FROM mv WHERE 1 / (length(region) - 4) > 0"
    made = world(definer="ann")
    forwarded = cleared(await made.judge(text, reader, user="eve"))
    assert "AS `mv`) TABLESAMPLE (100 PERCENT) REPEATABLE (0) AS `mv`) AS `mv` WHERE 1 /" in forwarded
    plan = execute(table("mv").filter("1 / (length(region) - 4) > 0").agg(F.expr("measure(total) AS t")))
    assert "TABLESAMPLE (100 PERCENT) REPEATABLE (0) AS `mv`" in cleared(
        await made.judge_plan(plan, reader, user="eve")
    )
    assert "TABLESAMPLE" not in cleared(await made.judge(text, reader, user="ann"))


MASKED = """
  - name: what bob sees of the view
    on: {catalog: "*", database: hr, table: mv, column: MASKED}
    mask: [{users: [bob], type: CUSTOM, show: "left(region, 1)"}]
  - name: which rows
    on: {catalog: "*", database: hr, table: mv}
    filter: [{users: [bob], where: "ROWS"}]
"""


async def test_masks_and_filters_of_the_view_itself(reader: ReaderPool) -> None:
    policies = MASKED.replace("MASKED", "region").replace("ROWS", "mail = 'a'")
    text = "SELECT region, measure(best) FROM mv GROUP BY region"
    forwarded = cleared(await world(policies=policies).judge(text, reader, user="bob"))
    assert "left(`region`, 1)" in forwarded.replace("left(region, 1)", "left(`region`, 1)")
    assert "WHERE (mail = 'a')" in forwarded
    for masked, rows, said in (
        ("best", "mail = 'a'", "the measure `best` of the metric view"),
        ("region", "total > 1", "refers to `total`"),
    ):
        policies = MASKED.replace("MASKED", masked).replace("ROWS", rows)
        assert said in why(await world(policies=policies).judge(text, reader, user="bob"))


async def test_an_obligation_on_the_view_alone_is_enough(reader: ReaderPool) -> None:
    source = "SELECT id, name AS region, name AS email, id AS salary FROM hr.department"
    text = "SELECT measure(total) FROM mv"
    for policies, expected in (
        ("", "SELECT measure(total) FROM `spark_catalog`.`hr`.`mv`"),
        (
            MASKED.replace("MASKED", "region").replace("ROWS", "mail = 'a'"),
            "SELECT (sum(`#__0`)",
        ),
        (HIDDEN, "SELECT (sum(`#__0`)"),
    ):
        made = world(VIEW.replace("hr.employee", source), policies=policies)
        assert cleared(await made.judge(text, reader, user="bob")).startswith(expected)


HIDDEN = """
  - name: not for bob
    on: {catalog: "*", database: hr, table: mv, column: [best, Mail]}
    deny: [{users: [bob], access: [select]}]
"""


async def test_hidden_columns_are_not_there(reader: ReaderPool) -> None:
    made = world(policies=HIDDEN)
    forwarded = cleared(await made.judge("SELECT measure(best) FROM mv", reader, user="bob"))
    assert forwarded.startswith("SELECT measure(best) FROM (SELECT `region` FROM ")


async def test_a_measure_of_a_hidden_dimension_is_refused(reader: ReaderPool) -> None:
    """Its name would be looked for around the view."""
    made = world(policies=HIDDEN.replace("best", "region"), definer="ann")
    around = "SELECT (SELECT measure(best) FROM mv) FROM VALUES (1) t(region)"
    for text in ("SELECT measure(best) FROM mv", around):
        told = why(await made.judge(text, reader, user="bob"))
        assert "computed from a hidden column" in told
        assert "region" not in told
    assert "(sum(`#__0`)" in cleared(await made.judge("SELECT measure(again) FROM mv", reader, user="bob"))


async def test_views_in_views_name_what_they_are_computed_from_apart(reader: ReaderPool) -> None:
    """The text of a view may name none of them either, whoever wrote it."""
    made = world(definer="ann")
    source = "SELECT region, measure(again) AS id, '' AS email FROM hr.mv GROUP BY 1"
    outer = VIEW.replace("hr.employee", source)
    name = replace(NAME, table="mv2")
    table = made.tables[NAME]
    body = replace(metric_view(outer, [c.name for c in table.columns], {}), definer="ann")
    made.tables[name] = replace(table, name=name, view=body)
    forwarded = cleared(await made.judge("SELECT measure(again) FROM mv2", reader, user="bob"))
    assert forwarded.startswith("SELECT (sum(`#__0`)\n) AS `measure(again)` FROM ")
    assert "(sum(`#___0`)\n) AS id" in forwarded
    over = replace(NAME, table="mvover")
    text = "SELECT max(transform(array(1), x -> `#___0`)) AS a, measure(again) AS b FROM hr.mv"
    columns = (Column(name="a", type="array<int>"), Column(name="b", type="bigint"))
    plain = replace(body, text=text, output=("a", "b"), metrics=None, catalog="spark_catalog", database="hr")
    made.tables[over] = replace(table, name=over, columns=columns, view=plain)
    assert "reserved for the gateway" in why(await made.judge("SELECT a FROM mvover", reader, user="bob"))


async def test_inserts_that_share_a_view_have_all_their_measures(reader: ReaderPool) -> None:
    text = (
        "FROM mv INSERT INTO sales.tmp_own SELECT measure(again), 'x' "
        "INSERT INTO sales.tmp_card SELECT 1, measure(best)"
    )
    forwarded = cleared(await world().judge(text, reader, user="bob"))
    assert "SELECT (sum(`#__0`)" in forwarded
    assert "SELECT 1, (max(`region`)" in forwarded


FRAMES: dict[str, Callable[[Frame], Frame]] = {
    "measure(total)": lambda mv: mv.groupBy("region").agg(F.expr("measure(total)")),
    "t": lambda mv: mv.alias("m").filter("m.region > 'a'").agg(F.expr("measure(m.total) + 1 AS t")),
    "x": lambda mv: mv.groupBy("region").agg(F.call_function("measure", F.col("total")).alias("x")),
    "y": lambda mv: mv.select(F.call_function("measure", F.col("total")).alias("y")),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=list(FRAMES))
async def test_dataframes_are_written_out(reader: ReaderPool, make: Callable[[Frame], Frame]) -> None:
    verdict = await world().judge_plan(execute(make(table("mv"))), reader, user="bob")
    forwarded = cleared(verdict)
    assert "sum(`#__0`) / count(*)" in forwarded
    assert GUARDED in forwarded
    by_name = await world().judge_plan(execute(make(table("mv"))), reader, user="ann")
    assert "#__" not in cleared(by_name)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda mv: mv, "with masks, filters or hidden columns"),
        (lambda mv: mv.select("*"), "list its columns"),
        (lambda mv: mv.select("region"), "read it with measure"),
        (lambda mv: mv.select(mv.colRegex("`.*`"), F.expr("measure(total)")), "list its columns"),
        (lambda mv: mv.groupBy("region").agg(F.sum("total")), "read its measure `total` with MEASURE"),
        (lambda mv: mv.rollup("region").agg(F.expr("measure(total) AS t")), "grouping sets"),
        (
            lambda mv: mv.drop("Mail").agg(F.expr("measure(total) AS t")),
            "with masks, filters or hidden columns",
        ),
        (lambda mv: mv.agg(F.call_function("measure", F.col("total")) + 1), "an alias"),
        (lambda mv: mv.agg(F.expr("measure(total) + 1")), "an alias with AS"),
        (lambda mv: mv.filter("measure(total) > 1").agg(F.count("*")), "only in the select list"),
        (lambda mv: mv.agg(F.max("#__0")), "reserved for the gateway"),
        (lambda mv: mv.agg(F.expr("max(IDENTIFIER('`\\u0023__0`')) AS x")), "reserved for the gateway"),
        (
            lambda mv: mv.filter("exists(array(1), x -> `#__0` > 1)").agg(F.count("*")),
            "reserved for the gateway",
        ),
        (
            lambda mv: mv.agg(F.transform(F.array("Mail"), lambda _: F.col("#__0"))),
            "reserved for the gateway",
        ),
        (lambda mv: mv.agg(F.countDistinct("*")), "list its columns"),
        (lambda mv: mv.agg(F.max(F.struct("*").isin(sql("SELECT 1, 2")))), "list its columns"),
        (lambda mv: mv.agg(F.expr("measure(two)")), "it has no aggregate function"),
    ],
)
async def test_other_dataframes_are_refused(
    reader: ReaderPool, make: Callable[[Frame], Frame], said: str
) -> None:
    verdict = await world().judge_plan(execute(make(table("mv"))), reader, user="bob")
    refused(verdict, "NOT_GOVERNABLE", said)


async def test_sql_in_a_plan_is_sql(reader: ReaderPool) -> None:
    verdict = await world().judge_plan(execute(sql("SELECT measure(total) FROM mv")), reader, user="bob")
    assert "#__0" in cleared(verdict)


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("employee", "spark_catalog.hr.employee"),
        (
            "SELECT * FROM employee e WHERE e.id > 0",
            "SELECT * FROM spark_catalog.hr.employee e WHERE e.id > 0",
        ),
    ],
)
async def test_its_source_is_stored_with_its_whole_name(
    reader: ReaderPool, source: str, becomes: str
) -> None:
    made = f"CREATE VIEW hr.mv2 WITH METRICS LANGUAGE YAML AS $${VIEW}$$".replace("hr.employee", source)
    assert f"source: {becomes}\n" in cleared(await world().judge(made, reader, user="ann"))
    assert why(await world().judge(made, reader, user="eve")).startswith("ACCESS_DENIED")


async def test_its_author_must_be_allowed_what_it_reads(reader: ReaderPool) -> None:
    made = f"CREATE VIEW hr.mv2 WITH METRICS LANGUAGE YAML AS $${VIEW}$$"
    forwarded = cleared(await world().judge(made, reader, user="ann"))
    assert "TBLPROPERTIES ('sluice.definer." in forwarded
    assert forwarded.endswith(made[made.index("AS $$") :])
    assert "select on every column of the tables" in why(await world().judge(made, reader, user="bob"))
    assert why(await world().judge(made, reader, user="eve")).startswith("ACCESS_DENIED")
    for text, said in (
        (made.replace("measures:", "joins: []\nmeasures:"), "unknown key `joins`"),
        (made.replace("sum(id)", "reflect('java.lang.System', 'exit')"), "session.reflect"),
        ("ALTER VIEW mv AS SELECT 1 AS a", "would break"),
    ):
        assert said in why(await world().judge(text, reader, user="ann"))


@pytest.mark.parametrize(
    ("measure", "written"),
    [
        (
            "sum(id) FILTER (WHERE salary BETWEEN 1 AND id)",
            "sum(`#__0`) FILTER (WHERE `#__1` BETWEEN 1 AND `#__0`)",
        ),
        (
            "max(CASE WHEN region = 'É\U0001f600' THEN `id` END)",
            "max(CASE WHEN `region` = 'É\U0001f600' THEN `#__0` END)",
        ),
        ("count(DISTINCT ID, id) / count(1)", "count(DISTINCT `#__0`, `#__0`) / count(1)"),
    ],
)
async def test_names_in_a_measure_are_written_over_where_they_stand(
    reader: ReaderPool, measure: str, written: str
) -> None:
    made = world(VIEW.replace("sum(id)", measure))
    forwarded = cleared(await made.judge("SELECT measure(again) AS a FROM mv", reader, user="bob"))
    assert forwarded.startswith(f"SELECT ({written}\n) AS a FROM ")


async def test_a_function_of_ones_own_is_no_measure(reader: ReaderPool) -> None:
    told = why(await world().judge("SELECT hr.measure(total) FROM mv", reader, user="bob"))
    assert "UNRESOLVED_ROUTINE" in told
    text = "SELECT system.builtin.measure(total) AS t FROM mv"
    assert "sum(`#__0`)" in cleared(await world().judge(text, reader, user="bob"))


async def test_a_metric_view_calls_functions_by_their_whole_names(reader: ReaderPool) -> None:
    """By short ones it would call those of whoever reads it."""
    everybody = """
  - name: they call functions
    on: {catalog: spark_catalog, database: hr, udf: "*"}
    allow: [{users: [ann, bob], access: [execute]}]
"""
    called = TableName("spark_catalog", "hr", "f", FUNCTION)
    for call, passes in (("spark_catalog.hr.f(id)", True), ("hr.f(id)", False), ("f(id)", False)):
        made = world(VIEW.replace("sum(id)", f"sum({call})"), definer="ann", policies=everybody)
        made = with_function(made, called, "x + 1")
        for user in ("ann", "bob"):
            text = "SELECT region, measure(again) FROM mv GROUP BY region"
            verdict = await made.judge(text, reader, user=user)
            assert isinstance(verdict, Cleared if passes else Refused), verdict
