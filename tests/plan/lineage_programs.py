"""DataFrame programs whose lineage is asked about, and for most the same query in SQL.

Tables are those of tests/lineage_world.py. A program is given a session: one of a real Spark, or one that
cannot be asked (tests/plan/frames.py), so it may do nothing that asks Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect.window import Window

Frame = Any
Session = Any


class Program(NamedTuple):
    """What a user of PySpark writes."""

    run: Callable[[Session], Frame]
    sql: str = ""
    """A query of the same meaning; empty where there is none."""


def _both(s: Session) -> tuple[Frame, Frame]:
    return s.table("a"), s.table("b")


def _join(s: Session, on: Any, how: str) -> Frame:
    a, b = _both(s)
    return a.join(b, on(a, b) if callable(on) else on, how)


def _twice(s: Session) -> Frame:
    a = s.table("a")
    small = a.filter(a["x"] > 1).select(F.col("y").alias("p"), F.col("x").alias("q"))
    return a.join(small, a["i"] == small["p"]).select(a["x"], small["q"], a["y"])


def _using(s: Session, how: str) -> Frame:
    return s.table("a").join(s.table("b").drop("x"), "i", how).select("i", "y", "q")


def _using_then_side(s: Session, how: str) -> Frame:
    a, b = _both(s)
    return a.join(b, "i", how).select("i", a["i"].alias("l"), b["i"].alias("r"), b["x"].alias("bx"))


def _drop_of_one_side(s: Session) -> Frame:
    a, b = _both(s)
    return a.join(b, a["i"] == b["i"]).drop(b["i"]).drop(b["x"]).select("i", "x", "q")


def _exists(s: Session) -> Frame:
    b = s.table("b").filter(F.col("b.i") == F.col("a.i").outer())
    return s.table("a").filter(b.exists()).select("x")


def _scalar(s: Session) -> Frame:
    return s.table("a").select("x", s.table("b").select(F.max("p")).scalar().alias("m"))


def _correlated(s: Session) -> Frame:
    inner = s.table("b").filter(F.col("b.i") == F.col("a.i").outer()).select(F.sum("q"))
    return s.table("a").select(inner.scalar().alias("m"))


def _lateral(s: Session) -> Frame:
    inner = s.table("b").filter(F.col("b.i") == F.col("a.i").outer()).select("p")
    return s.table("a").lateralJoin(inner).select("x", "p")


_W = Window.partitionBy("y").orderBy("z")

NAMES: dict[str, Program] = {
    "table": Program(lambda s: s.table("a"), "SELECT * FROM a"),
    "select": Program(lambda s: s.table("a").select("x", F.col("y")), "SELECT x, y FROM a"),
    "upper case": Program(lambda s: s.table("A").select("X", "a.Y"), "SELECT X, a.Y FROM A"),
    "full names": Program(
        lambda s: s.table("ln.a").select("ln.a.x", "spark_catalog.ln.a.y", "`a`.`z`"),
        "SELECT ln.a.x, spark_catalog.ln.a.y, `a`.`z` FROM ln.a",
    ),
    "alias": Program(lambda s: s.table("a").select(F.col("x").alias("p")), "SELECT x AS p FROM a"),
    "alias of a frame": Program(
        lambda s: s.table("a").alias("q").select("q.x", F.col("q.s.f").alias("f")),
        "SELECT q.x, q.s.f AS f FROM a AS q",
    ),
    "select all": Program(lambda s: s.table("a").select("*", F.lit(1).alias("k")), "SELECT *, 1 AS k FROM a"),
    "star of one": Program(
        lambda s: s.table("a").join(s.table("b"), F.col("a.i") == F.col("b.i")).select("b.*"),
        "SELECT b.* FROM a JOIN b ON a.i = b.i",
    ),
    "star of a struct": Program(lambda s: s.table("a").select("s.*"), "SELECT s.* FROM a"),
    "star within": Program(
        lambda s: s.table("c").select(F.struct("*").alias("q")), "SELECT struct(*) AS q FROM c"
    ),
    "regex": Program(lambda s: s.table("a").select(s.table("a").colRegex("`[xy]`")), "SELECT x, y FROM a"),
    "column of a frame": Program(
        lambda s: (a := s.table("a")).select(a["x"], a.y, a["s"]["f"].alias("f")),
        "SELECT x, y, s.f AS f FROM a",
    ),
    "struct fields": Program(
        lambda s: s.table("a").select("s.f", "s.g.h", F.col("s").getField("g").alias("g")),
        "SELECT s.f, s.g.h, s.g AS g FROM a",
    ),
    "elements": Program(
        lambda s: s.table("a").select(
            F.col("arr")[0].alias("e"), F.col("m")["k"].alias("v"), F.col("ss")[1]["u"].alias("u")
        ),
        "SELECT arr[0] AS e, m['k'] AS v, ss[1].u AS u FROM a",
    ),
    "update fields": Program(
        lambda s: s.table("a").select(F.col("s").withField("f", F.col("x") + 1).alias("q")),
    ),
    "drop fields": Program(lambda s: s.table("a").select(F.col("s").dropFields("f").alias("q"))),
    "lateral alias": Program(
        lambda s: s.table("a").select(F.col("x").alias("p"), (F.col("p") + F.col("y")).alias("q")),
        "SELECT x AS p, p + y AS q FROM a",
    ),
    "selectExpr": Program(
        lambda s: s.table("a").selectExpr("x AS p", "y + z AS q", "*", "s.f AS f"),
        "SELECT x AS p, y + z AS q, *, s.f AS f FROM a",
    ),
    "withColumn": Program(
        lambda s: s.table("c").withColumn("w", F.col("w") + F.col("i")).withColumn("n", F.col("w")),
        "SELECT i, w + i AS w, w + i AS n FROM c",
    ),
    "withColumns": Program(
        lambda s: s.table("c").withColumns({"p": F.col("i") + 1, "w": F.lit(2)}),
        "SELECT i, 2 AS w, i + 1 AS p FROM c",
    ),
    "withColumns of each other": Program(
        lambda s: s.table("c").withColumns({"p": F.col("i") + 1, "q": F.col("p") + F.col("w")}),
        "SELECT *, i + 1 AS p, i + 1 + w AS q FROM c",
    ),
    "withColumnsRenamed": Program(
        lambda s: s.table("c").withColumnsRenamed({"i": "w", "w": "z"}), "SELECT i AS z, w AS z FROM c"
    ),
    "withColumnRenamed": Program(
        lambda s: s.table("c").withColumnRenamed("w", "n").withColumnRenamed("no", "p").select("n", "i"),
        "SELECT w AS n, i FROM c",
    ),
    "toDF": Program(lambda s: s.table("c").toDF("p", "q"), "SELECT i AS p, w AS q FROM c"),
    "drop": Program(lambda s: s.table("c").drop("w", "nothing"), "SELECT i FROM c"),
    "drop of columns": Program(lambda s: (c := s.table("c")).drop(c["w"]), "SELECT i FROM c"),
    "to": Program(
        lambda s: s.table("c").select(F.col("w").cast("string"), "i"),
        "SELECT cast(w AS string) AS w, i FROM c",
    ),
    "metadata": Program(lambda s: s.table("c").select("i", "_metadata.file_name")),
    "limit and friends": Program(
        lambda s: s.table("c").limit(9).offset(1).repartition(2).coalesce(1).hint("broadcast"),
        "SELECT * FROM c LIMIT 9 OFFSET 1",
    ),
}
VALUES: dict[str, Program] = {
    "arithmetic": Program(
        lambda s: s.table("a").select((F.col("x") + F.col("y") * F.col("z")).alias("n")),
        "SELECT x + y * z AS n FROM a",
    ),
    "case": Program(
        lambda s: s.table("a").select(
            F.when(F.col("x") > 1, F.col("y"))
            .when(F.col("z") > 2, F.col("i"))
            .otherwise(F.col("x"))
            .alias("n")
        ),
        "SELECT CASE WHEN x > 1 THEN y WHEN z > 2 THEN i ELSE x END AS n FROM a",
    ),
    "case without else": Program(
        lambda s: s.table("a").select(F.when(F.col("x") > 1, F.col("y")).alias("n")),
        "SELECT CASE WHEN x > 1 THEN y END AS n FROM a",
    ),
    "if in text": Program(
        lambda s: s.table("a").select(F.expr("if(x > 1, y, z)").alias("n"), F.expr("x AS p").alias("q")),
        "SELECT if(x > 1, y, z) AS n, x AS q FROM a",
    ),
    "coalesce": Program(
        lambda s: s.table("a").select(F.coalesce("x", "y").alias("n"), F.nvl2("x", "y", "z").alias("m")),
        "SELECT coalesce(x, y) AS n, nvl2(x, y, z) AS m FROM a",
    ),
    "predicates": Program(
        lambda s: s.table("a").select(
            (F.col("x").isin(1, 2) & F.col("y").isNull() | ~F.col("ssn").like("a%")).alias("n")
        ),
        "SELECT x IN (1, 2) AND y IS NULL OR NOT ssn LIKE 'a%' AS n FROM a",
    ),
    "casts": Program(
        lambda s: s.table("a").select(F.col("x").cast("string"), F.col("ssn").cast("int").alias("n")),
        "SELECT cast(x AS string) AS x, cast(ssn AS int) AS n FROM a",
    ),
    "higher order": Program(
        lambda s: s.table("a").select(
            F.transform("arr", lambda e: e + F.col("x")).alias("p"),
            F.filter("arr", lambda e: e > 1).alias("q"),
            F.aggregate("arr", F.lit(0), lambda acc, e: acc + e).alias("r"),
        ),
        "SELECT transform(arr, e -> e + x) AS p, filter(arr, e -> e > 1) AS q, "
        "aggregate(arr, 0, (acc, e) -> acc + e) AS r FROM a",
    ),
    "structs": Program(
        lambda s: s.table("a").select(F.struct("x", F.col("y").alias("q")).alias("n")),
        "SELECT struct(x, y AS q) AS n FROM a",
    ),
    "fields of structs that are built": Program(
        lambda s: s.table("a").select(
            F.struct(F.col("x").alias("n"), F.col("y").alias("m"))["n"].alias("p"),
            F.named_struct(F.lit("n"), "x", F.lit("m"), "y").getField("M").alias("q"),
            F.struct("x", "s.f", F.col("z") + 1).f.alias("r"),
            F.struct(F.struct("x", "y").alias("o"), "z").o.y.alias("t"),
        ),
        "SELECT struct(x AS n, y AS m).n AS p, named_struct('n', x, 'm', y).M AS q, "
        "struct(x, s.f, z + 1).f AS r, struct(struct(x, y) AS o, z).o.y AS t FROM a",
    ),
    "stars of structs": Program(
        lambda s: (
            s.table("a")
            .select(F.struct("ssn", F.col("x").alias("z"), F.col("y") + 1).alias("t"))
            .select("t.*")
        ),
        "SELECT t.* FROM (SELECT struct(ssn, x AS z, y + 1) AS t FROM a)",
    ),
    "stars of structs by an aggregate": Program(
        lambda s: (
            s.table("a")
            .groupBy("i")
            .agg(F.max(F.struct("x", "ssn")).alias("t"), F.collect_list(F.struct("y")).alias("u"))
            .select("t.*", F.col("u")[0].alias("v"))
            .select("ssn", "v.*")
        ),
        "SELECT ssn, v.* FROM (SELECT t.*, u[0] AS v FROM (SELECT i, max(struct(x, ssn)) AS t, "
        "collect_list(struct(y)) AS u FROM a GROUP BY i))",
    ),
    "fields of what is exploded": Program(
        lambda s: s.table("a").select(F.explode("ss").alias("e")).select("e.*"),
        "SELECT e.* FROM (SELECT explode(ss) AS e FROM a)",
    ),
    "columns without an alias": Program(
        lambda s: s.table("a").select(
            F.max("ssn"), F.concat("ssn", F.lit("-"), "ssn"), F.col("x") + 1, F.sum("s.f"), F.max("x") * 2
        ),
        "SELECT max(p.ssn), concat(p.ssn, '-', p.ssn), p.x + 1, sum(p.s.f), max(x) * 2 FROM a p",
    ),
    "dates and what is taken out without an alias": Program(
        lambda s: s.table("named").select(
            F.col("d") + 1,
            F.col("d") - F.col("ts"),
            F.max("d").over(Window.partitionBy("id")).alias("w"),
            F.col("m")["K"],
            F.col("m")["k"] + 1,
            F.upper(F.col("s")["f"]),
            F.col("arr")[0],
        ),
        "SELECT d + 1, d - ts, max(d) OVER (PARTITION BY id) AS w, m['K'], m['k'] + 1, upper(s['f']), arr[0] "
        "FROM named",
    ),
    "columns without an alias that are referred to": Program(
        lambda s: (
            s.table("a")
            .groupBy("y")
            .agg(F.max("ssn"), F.count("*"))
            .select("`max(ssn)`", F.col("`count(1)`") + 1)
        ),
        "SELECT `max(ssn)`, `count(1)` + 1 FROM (SELECT y, max(q.ssn), count(*) FROM a q GROUP BY y)",
    ),
    "columns without an alias in a union": Program(
        lambda s: (
            s.table("a")
            .select(F.upper("ssn"))
            .union(s.table("a").select(F.lower("ssn")))
            .select("upper(ssn)")
        ),
        "SELECT `upper(ssn)` FROM (SELECT upper(ssn) FROM a UNION ALL SELECT lower(ssn) FROM a)",
    ),
    "call_function": Program(
        lambda s: s.table("a").select(F.call_function("upper", F.col("ssn")).alias("n")),
        "SELECT upper(ssn) AS n FROM a",
    ),
    "window": Program(
        lambda s: s.table("a").select(
            "x",
            F.sum("x").over(_W).alias("t"),
            F.row_number().over(_W).alias("r"),
            F.lag("x").over(_W).alias("l"),
        ),
        "SELECT x, sum(x) OVER (PARTITION BY y ORDER BY z) AS t, row_number() OVER (PARTITION BY y "
        "ORDER BY z) "
        "AS r, lag(x) OVER (PARTITION BY y ORDER BY z) AS l FROM a",
    ),
    "window in a filter": Program(
        lambda s: s.table("a").withColumn("r", F.rank().over(_W)).filter("r = 1").select("x"),
        "SELECT x FROM (SELECT x, rank() OVER (PARTITION BY y ORDER BY z) AS r FROM a) WHERE r = 1",
    ),
    "explode": Program(
        lambda s: s.table("a").select("x", F.explode("arr").alias("e")), "SELECT x, explode(arr) AS e FROM a"
    ),
    "explode without a name": Program(
        lambda s: s.table("a").select(F.explode("arr")).filter("col > 1"),
        "SELECT * FROM (SELECT explode(arr) FROM a) WHERE col > 1",
    ),
    "explode a map": Program(
        lambda s: s.table("a").select(F.explode("m")).select("key", "value"),
        "SELECT key, value FROM (SELECT explode(m) FROM a)",
    ),
    "names of a generator": Program(
        lambda s: s.table("a").select(F.posexplode("arr").alias("p", "e")).select("e", "p"),
        "SELECT e, p FROM (SELECT posexplode(arr) AS (p, e) FROM a)",
    ),
    "inline": Program(
        lambda s: s.table("a").select(F.inline("ss")).select("u", "v"),
        "SELECT u, v FROM (SELECT inline(ss) FROM a)",
    ),
    "json_tuple": Program(
        lambda s: s.table("a").select(F.json_tuple("ssn", "p", "q")).select("c1"),
        "SELECT c1 FROM (SELECT json_tuple(ssn, 'p', 'q') FROM a)",
    ),
    "nothing": Program(lambda s: s.table("a").select(F.lit(1).alias("n"), F.current_date().alias("d"))),
}
ROWS: dict[str, Program] = {
    "filter": Program(lambda s: s.table("a").filter("x > 1").select("y"), "SELECT y FROM a WHERE x > 1"),
    "filter of two": Program(
        lambda s: s.table("a").filter((F.col("x") > 1) & (F.col("y") < F.col("z"))).select("y"),
        "SELECT y FROM a WHERE x > 1 AND y < z",
    ),
    "filter in text": Program(
        lambda s: s.table("a").filter("x > 1 AND y < z OR i IS NULL").select("y"),
        "SELECT y FROM a WHERE x > 1 AND y < z OR i IS NULL",
    ),
    "filters": Program(
        lambda s: s.table("a").filter("x > 1").where(F.col("y") == 2).select("z"),
        "SELECT z FROM (SELECT * FROM a WHERE x > 1) WHERE y = 2",
    ),
    "filter pulls up": Program(
        lambda s: (a := s.table("a")).select("x").filter(a["y"] > 1), "SELECT x FROM a WHERE y > 1"
    ),
    "sort": Program(
        lambda s: s.table("a").orderBy(F.desc("x"), "y").select("z"), "SELECT z FROM a ORDER BY x DESC, y"
    ),
    "sort pulls up": Program(lambda s: s.table("a").select("x").sort("y"), "SELECT x FROM a ORDER BY y"),
    "sort within partitions": Program(
        lambda s: s.table("a").sortWithinPartitions("x").select("z"), "SELECT z FROM a SORT BY x"
    ),
    "distinct": Program(lambda s: s.table("c").distinct(), "SELECT DISTINCT * FROM c"),
    "distinct of some": Program(
        lambda s: s.table("a").select("x", "y").distinct().select("y"),
        "SELECT y FROM (SELECT DISTINCT x, y FROM a)",
    ),
    "dropDuplicates": Program(lambda s: s.table("a").dropDuplicates(["y"]).select("x")),
    "dropna": Program(lambda s: s.table("c").dropna(subset=["w"]), "SELECT * FROM c WHERE w IS NOT NULL"),
    "dropna of all": Program(lambda s: s.table("c").dropna()),
    "fillna": Program(
        lambda s: s.table("c").fillna(0, ["w"]).select("i", "w"), "SELECT i, coalesce(w, 0) AS w FROM c"
    ),
    "fillna by type": Program(
        lambda s: s.table("t").fillna("?").select("a", "e"), "SELECT a, coalesce(e, '?') AS e FROM t"
    ),
    "fillna by name": Program(
        lambda s: s.table("t").fillna({"a": 1, "e": "?"}).select("a", "b", "e"),
        "SELECT coalesce(a, 1) AS a, b, coalesce(e, '?') AS e FROM t",
    ),
    "replace": Program(
        lambda s: s.table("c").replace(1, 2, ["w"]), "SELECT i, CASE WHEN w = 1 THEN 2 ELSE w END AS w FROM c"
    ),
    "sampleBy": Program(lambda s: s.table("c").sampleBy("w", {1: 0.5}, seed=1).select("i")),
    "sample": Program(lambda s: s.table("c").sample(0.5, seed=1), "SELECT * FROM c TABLESAMPLE (50 PERCENT)"),
    "unpivot": Program(
        lambda s: s.table("t").unpivot(["a"], ["b", "c"], "k", "v"),
        "SELECT * FROM (SELECT a, b, c FROM t) UNPIVOT INCLUDE NULLS (v FOR k IN (b, c))",
    ),
    "unpivot the rest": Program(lambda s: s.table("t").drop("e").unpivot(["a"], None, "k", "v")),
    "watermark": Program(
        lambda s: (
            s.table("a")
            .select(F.current_timestamp().alias("w"), "x")
            .withWatermark("w", "1 hour")
            .select("x")
        )
    ),
}
GROUPS: dict[str, Program] = {
    "groupBy": Program(
        lambda s: s.table("e1").groupBy("dept").agg(F.sum("age").alias("s"), F.count("*").alias("n")),
        "SELECT dept, sum(age) AS s, count(*) AS n FROM e1 GROUP BY dept",
    ),
    "groupBy and count": Program(
        lambda s: s.table("e1").groupBy("dept").count(),
        "SELECT dept, count(1) AS count FROM e1 GROUP BY dept",
    ),
    "name that Spark makes up": Program(
        lambda s: (
            s.table("e1").groupBy("dept").agg(F.sum("age")).select("dept", F.col("sum(age)").alias("s"))
        ),
        "SELECT dept, sum(age) AS s FROM e1 GROUP BY dept",
    ),
    "agg without groups": Program(
        lambda s: s.table("e1").agg(F.max("age").alias("m"), F.count_distinct("dept", "boss").alias("n")),
        "SELECT max(age) AS m, count(DISTINCT dept, boss) AS n FROM e1",
    ),
    "agg by dictionary": Program(
        lambda s: s.table("e1").groupBy("dept").agg({"age": "max"}).toDF("d", "m"),
        "SELECT dept AS d, max(age) AS m FROM e1 GROUP BY dept",
    ),
    "group by an expression": Program(
        lambda s: s.table("e1").groupBy((F.col("dept") % 3).alias("g")).agg(F.min("age").alias("m")),
        "SELECT dept % 3 AS g, min(age) AS m FROM e1 GROUP BY dept % 3",
    ),
    "aggregate within an expression": Program(
        lambda s: s.table("e1").groupBy("dept").agg((F.sum("age") / F.count("id") + 1).alias("m")),
        "SELECT dept, sum(age) / count(id) + 1 AS m FROM e1 GROUP BY dept",
    ),
    "rollup": Program(
        lambda s: (
            s.table("e1").rollup("dept", "boss").agg(F.sum("age").alias("s"), F.grouping_id().alias("g"))
        ),
        "SELECT dept, boss, sum(age) AS s, grouping_id() AS g FROM e1 GROUP BY ROLLUP (dept, boss)",
    ),
    "cube": Program(
        lambda s: s.table("e1").cube("dept").agg(F.sum("age").alias("s"), F.grouping("dept").alias("g")),
        "SELECT dept, sum(age) AS s, grouping(dept) AS g FROM e1 GROUP BY CUBE (dept)",
    ),
    "grouping sets": Program(
        lambda s: (
            s.table("e1").groupingSets([["dept"], ["boss"]], "dept", "boss").agg(F.sum("age").alias("s"))
        ),
        "SELECT dept, boss, sum(age) AS s FROM e1 GROUP BY GROUPING SETS ((dept), (boss))",
    ),
    "having": Program(
        lambda s: s.table("e1").groupBy("dept").agg(F.sum("age").alias("n")).filter("n > 1"),
        "SELECT * FROM (SELECT dept, sum(age) AS n FROM e1 GROUP BY dept) WHERE n > 1",
    ),
    "pivot": Program(
        lambda s: s.table("e1").groupBy("dept").pivot("boss", [1, 2]).agg(F.sum("age")),
        "SELECT * FROM (SELECT dept, boss, age FROM e1) PIVOT (sum(age) FOR boss IN (1, 2))",
    ),
    "pivot of two": Program(
        lambda s: (
            s.table("e1")
            .groupBy("dept")
            .pivot("boss", [1])
            .agg(F.sum("age").alias("p"), F.max("id").alias("q"))
        ),
        "SELECT * FROM (SELECT dept, boss, age, id FROM e1) PIVOT (sum(age) AS p, max(id) AS q FOR boss "
        "IN (1))",
    ),
    "groups of groups": Program(
        lambda s: (
            s.table("e1")
            .groupBy("dept", "boss")
            .agg(F.sum("age").alias("n"))
            .groupBy("dept")
            .agg(F.avg("n").alias("m"))
        ),
        "SELECT dept, avg(n) AS m FROM (SELECT dept, boss, sum(age) AS n FROM e1 GROUP BY dept, boss) "
        "GROUP BY dept",
    ),
    "collect": Program(
        lambda s: (
            s.table("e1").groupBy("dept").agg(F.collect_list("name").alias("n"), F.first("id").alias("f"))
        ),
        "SELECT dept, collect_list(name) AS n, first(id) AS f FROM e1 GROUP BY dept",
    ),
}
JOINS: dict[str, Program] = {
    "join": Program(
        lambda s: _join(s, lambda a, b: a["i"] == b["i"], "inner").select("ssn", "q"),
        "SELECT ssn, q FROM a JOIN b ON a.i = b.i",
    ),
    "join of two conditions": Program(
        lambda s: (
            (a := s.table("a"))
            .join((b := s.table("b")), [a["i"] == b["i"], a["x"] > b["p"]], "left")
            .select(a["y"], b["q"])
        ),
        "SELECT a.y, b.q FROM a LEFT JOIN b ON a.i = b.i AND a.x > b.p",
    ),
    **{
        f"using, {how}": Program(
            partial(_using, how=how),
            f"SELECT i, y, q FROM a {words} JOIN (SELECT * EXCEPT (x) FROM b) USING (i)",
        )
        for how, words in {"inner": "", "left": "LEFT", "right": "RIGHT", "full": "FULL"}.items()
    },
    **{
        f"a side of using, {how}": Program(
            partial(_using_then_side, how=how),
            f"SELECT i, a.i AS l, b.i AS r, b.x AS bx FROM a {words} JOIN b USING (i)",
        )
        for how, words in {"inner": "", "left": "LEFT", "right": "RIGHT", "full": "FULL"}.items()
    },
    "semi": Program(
        lambda s: _join(s, lambda a, b: a["i"] == b["i"], "left_semi").select("x"),
        "SELECT x FROM a LEFT SEMI JOIN b ON a.i = b.i",
    ),
    "anti": Program(
        lambda s: _join(s, ["i"], "left_anti").select("x"), "SELECT x FROM a LEFT ANTI JOIN b USING (i)"
    ),
    "cross": Program(
        lambda s: s.table("a").crossJoin(s.table("c")).select("x", "w"), "SELECT x, w FROM a CROSS JOIN c"
    ),
    "with itself by alias": Program(
        lambda s: (
            s.table("a")
            .alias("p")
            .join(s.table("a").alias("q"), F.col("p.i") == F.col("q.x"))
            .select("p.y", "q.z")
        ),
        "SELECT p.y, q.z FROM a p JOIN a q ON p.i = q.x",
    ),
    "with what is made of it": Program(
        _twice,
        "SELECT a.x, q, a.y FROM a JOIN (SELECT y AS p, x AS q FROM a WHERE x > 1) ON a.i = p",
    ),
    "drop of one side": Program(_drop_of_one_side, "SELECT a.i, a.x, q FROM a JOIN b ON a.i = b.i"),
    "exists": Program(_exists, "SELECT x FROM a WHERE EXISTS (SELECT * FROM b WHERE b.i = a.i)"),
    "in": Program(
        lambda s: s.table("a").filter(F.col("x").isin(s.table("b").select("p"))).select("y"),
        "SELECT y FROM a WHERE x IN (SELECT p FROM b)",
    ),
    "scalar": Program(_scalar, "SELECT x, (SELECT max(p) FROM b) AS m FROM a"),
    "correlated": Program(_correlated, "SELECT (SELECT sum(q) FROM b WHERE b.i = a.i) AS m FROM a"),
    "lateral": Program(_lateral, "SELECT x, p FROM a, LATERAL (SELECT p FROM b WHERE b.i = a.i)"),
    "lateral generator": Program(
        lambda s: s.table("a").lateralJoin(s.tvf.explode(F.col("arr").outer()).toDF("e")).select("x", "e"),
        "SELECT x, e FROM a, LATERAL explode(arr) AS t(e)",
    ),
}
SETS: dict[str, Program] = {
    "union": Program(
        lambda s: s.table("a").select("x").union(s.table("b").select("p")),
        "SELECT x FROM a UNION ALL SELECT p FROM b",
    ),
    "union and distinct": Program(
        lambda s: s.table("a").select("x").union(s.table("b").select("p")).distinct(),
        "SELECT DISTINCT * FROM (SELECT x FROM a UNION ALL SELECT p FROM b)",
    ),
    "union of three": Program(
        lambda s: s.table("c").union(s.table("c")).union(s.table("b").select("p", "q")).filter("w > 1"),
        "SELECT * FROM (SELECT * FROM c UNION ALL SELECT * FROM c UNION ALL SELECT p, q FROM b) WHERE w > 1",
    ),
    "unionByName": Program(
        lambda s: s.table("c").unionByName(s.table("a").select(F.col("x").alias("w"), "i")),
        "SELECT i, w FROM c UNION ALL SELECT i, x FROM a",
    ),
    "unionByName with missing": Program(
        lambda s: s.table("c").unionByName(s.table("a").select("i", "x"), allowMissingColumns=True),
        "SELECT i, w, NULL AS x FROM c UNION ALL SELECT i, NULL, x FROM a",
    ),
    "intersect": Program(
        lambda s: s.table("a").select("x").intersect(s.table("b").select("p")),
        "SELECT x FROM a INTERSECT SELECT p FROM b",
    ),
    "exceptAll": Program(
        lambda s: s.table("a").select("x").exceptAll(s.table("b").select("p")),
        "SELECT x FROM a EXCEPT ALL SELECT p FROM b",
    ),
    "subtract": Program(
        lambda s: s.table("a").select("x").subtract(s.table("b").select("p")),
        "SELECT x FROM a EXCEPT SELECT p FROM b",
    ),
}
TEXTS: dict[str, Program] = {
    "sql": Program(
        lambda s: s.sql("SELECT x, y FROM a WHERE z > 1").filter("y > 2").select("x"),
        "SELECT x FROM (SELECT x, y FROM a WHERE z > 1) WHERE y > 2",
    ),
    "sql with a view": Program(
        lambda s: s.sql("SELECT n FROM v1").select((F.col("n") + 1).alias("m")), "SELECT n + 1 AS m FROM v1"
    ),
    "view": Program(lambda s: s.table("v2").select("n", "k"), "SELECT n, k FROM v2"),
    "view that groups": Program(
        lambda s: s.table("v3").filter("total > 1").select("dept"), "SELECT dept FROM v3 WHERE total > 1"
    ),
    "expressions": Program(
        lambda s: s.table("a").select(
            F.expr("transform(arr, e -> e + y)").alias("p"),
            F.expr("s.f"),
            F.expr("sum(x) OVER (PARTITION BY y)").alias("w"),
        ),
        "SELECT transform(arr, e -> e + y) AS p, s.f, sum(x) OVER (PARTITION BY y) AS w FROM a",
    ),
    "aggregates in text": Program(
        lambda s: (
            s.table("e1")
            .groupBy("dept")
            .agg(F.expr("sum(age) AS t"), F.expr("count(DISTINCT boss)").alias("n"))
        ),
        "SELECT dept, sum(age) AS t, count(DISTINCT boss) AS n FROM e1 GROUP BY dept",
    ),
    "subquery in text": Program(
        lambda s: s.table("a").filter("x IN (SELECT p FROM b WHERE b.q = a.y)").select("z"),
        "SELECT z FROM a WHERE x IN (SELECT p FROM b WHERE b.q = a.y)",
    ),
    "join of text": Program(
        lambda s: s.sql("SELECT i, w FROM c").join(s.table("a"), "i").select("w", "x"),
        "SELECT w, x FROM (SELECT i, w FROM c) JOIN a USING (i)",
    ),
}
PROGRAMS: dict[str, Program] = {
    f"{group}: {name}": program
    for group, programs in {
        "names": NAMES, "values": VALUES, "rows": ROWS, "groups": GROUPS, "joins": JOINS, "sets": SETS,
        "texts": TEXTS,
    }.items()
    for name, program in programs.items()
}  # fmt: skip
