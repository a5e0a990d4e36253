"""Programs of PySpark that fail, in a session whose database is that of `failing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "select of no column": lambda s: s.table("t").select("nope").collect(),
    "column of no frame": lambda s: s.table("t").select(s.table("t")["nope"].cast("int")).collect(),
    "column of another frame": lambda s: s.table("t").select(s.table("u")["id"]).collect(),
    "filter by text": lambda s: s.table("t").filter("nope > 1").collect(),
    "text that does not parse": lambda s: s.table("t").filter("id >").collect(),
    "expressions that do not parse": lambda s: s.table("t").selectExpr("id +").collect(),
    "no table": lambda s: s.table("missing").collect(),
    "no table in a database": lambda s: s.table("failing.missing").select("a").collect(),
    "schema of no table": lambda s: s.table("missing").schema,
    "a column that could be two": lambda s: s.table("t").join(s.table("u"), "id").select("t.nope").collect(),
    "a name of both": lambda s: s.table("t").join(s.table("u")).select("id").collect(),
    "division": lambda s: s.table("t").select(F.col("id") / F.lit(0)).collect(),
    "cast": lambda s: s.table("t").select(F.col("name").cast("int")).collect(),
    "overflow": lambda s: s.table("t").select(F.col("n") + F.lit(2147483647)).collect(),
    "index": lambda s: s.table("t").select(F.expr("tags[9]")).collect(),
    "element": lambda s: s.table("t").select(F.element_at("tags", 9)).collect(),
    "raised": lambda s: s.table("t").select(F.raise_error(F.lit("on purpose"))).collect(),
    "asserted": lambda s: s.table("t").select(F.assert_true(F.col("id") > 9)).collect(),
    "types": lambda s: s.table("t").select(F.array_contains("id", 1)).collect(),
    "arguments": lambda s: s.table("t").selectExpr("sha2(name)").collect(),
    "group": lambda s: s.table("t").groupBy("id").agg(F.col("name")).collect(),
    "aggregate in a filter": lambda s: s.table("t").filter(F.sum("id") > 1).collect(),
    "window without order": lambda s: s.table("t").select(F.row_number().over(_window())).collect(),
    "union of others": lambda s: s.table("t").union(s.table("u")).collect(),
    "union by name": lambda s: s.table("t").unionByName(s.table("u")).collect(),
    "intersection of maps": lambda s: s.table("t").intersect(s.table("t")).collect(),
    "duplicates by no column": lambda s: s.table("t").dropDuplicates(["nope"]).collect(),
    "order by no column": lambda s: s.table("t").orderBy("nope").collect(),
    "order by a map": lambda s: s.table("t").orderBy("m").collect(),
    "join on no column": lambda s: s.table("t").join(s.table("u"), "nope").collect(),
    "pivot": lambda s: s.table("t").groupBy("id").pivot("nope", [1]).sum("n").collect(),
    "unpivot": lambda s: s.table("t").unpivot("id", ["name", "n"], "k", "v").collect(),
    "renamed to two": lambda s: s.table("t").toDF("a", "b").collect(),
    "a view twice": lambda s: [s.table("t").createTempView("twice") for _ in range(2)],
    "write over a table": lambda s: s.table("t").write.saveAsTable("u"),
    "insert of other columns": lambda s: s.table("t").write.insertInto("u"),
    "parameters": lambda s: s.sql("SELECT :a", args={"b": 1}).collect(),
    "places of parameters": lambda s: s.sql("SELECT ?, ?", args=[1]).collect(),
    "files that are gone": lambda s: s.table("gone").collect(),
    "a setting that is no number": lambda s: s.conf.set("spark.sql.shuffle.partitions", "many"),
    "to a date": lambda s: s.table("t").select(F.to_date("name", "yyyy-MM-dd")).collect(),
    "a stream that is collected": lambda s: s.readStream.format("rate").load().collect(),
}


def _window() -> Any:
    from pyspark.sql import Window

    return Window.partitionBy("name")
