"""Samples, statistics, missing values, shapes, subqueries, local data, actions and big plans."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Ordered, Place, error_of, printed, scenario

# --- samples and statistics


@scenario("statistics")
def sample_with_seed(x: Place) -> Any:
    return x.people.sample(fraction=0.5, seed=7).select("id")


@scenario("statistics")
def random_split(x: Place) -> Any:
    return [part.select("id") for part in x.people.select("id").randomSplit([1.0, 2.0], seed=3)]


@scenario("statistics")
def sample_by(x: Place) -> Any:
    return x.people.sampleBy("region", {"EMEA": 0.5, "APAC": 1.0}, seed=1).select("id")


@scenario("statistics")
def describe(x: Place) -> Any:
    return x.people.select("id", "name", "salary", "score").describe()


@scenario("statistics")
def describe_named(x: Place) -> Any:
    return x.people.describe("salary", "email")


@scenario("statistics")
def summary(x: Place) -> Any:
    return x.people.select("salary", "region").summary("count", "min", "50%", "max")


@scenario("statistics")
def crosstab(x: Place) -> Any:
    return x.people.crosstab("region", "active")


@scenario("statistics")
def freq_items(x: Place) -> Any:
    return x.people.freqItems(["region"], 0.3).select(F.sort_array("region_freqItems"))


@scenario("statistics")
def corr_and_cov(x: Place) -> Any:
    p = x.people
    return [
        round(p.corr("id", "salary"), 9),
        round(p.cov("id", "salary"), 6),
        round(p.stat.corr("id", "score"), 9),
    ]


@scenario("statistics")
def approx_quantile(x: Place) -> Any:
    return x.people.approxQuantile(["salary", "id"], [0.25, 0.5], 0.0)


@scenario("statistics")
def rand_with_seed(x: Place) -> Any:
    return x.people.select("id", F.rand(5) < 0.5, F.monotonically_increasing_id())


# --- missing values, shapes


@scenario("shapes")
def fillna(x: Place) -> Any:
    p = x.people.select("id", "name", "dept_id", "score")
    return [p.fillna(0), p.fillna("?", subset=["name"]), p.na.fill({"name": "-", "score": 1.5})]


@scenario("shapes")
def dropna(x: Place) -> Any:
    p = x.people.select("id", "name", "dept_id", "email")
    return [p.dropna(), p.dropna("all"), p.na.drop(thresh=3), p.dropna(subset=["email"])]


@scenario("shapes")
def replace(x: Place) -> Any:
    p = x.people.select("id", "region", "salary")
    return [
        p.replace("EMEA", "EU"),
        p.na.replace({"EMEA": "E", "APAC": "A"}, subset=["region"]),
        p.replace(3000, 1),
    ]


@scenario("shapes")
def unpivot(x: Place) -> Any:
    return x.people.unpivot("id", ["salary", "dept_id"], "what", "value")


@scenario("shapes")
def transpose(x: Place) -> Any:
    return x.dept.select("title", "id", "parent").transpose("title")


@scenario("shapes")
def watermark_on_batch(x: Place) -> Any:
    return x.table("events").withWatermark("at", "1 hour").dropDuplicates(["kind"]).count()


@scenario("shapes", since=(4, 3))
def zipped(x: Place) -> Any:
    d = x.dept
    return error_of(lambda: d.select("id").zip(d.select("title")).collect())


# --- subqueries


@scenario("subqueries")
def scalar_subquery(x: Place) -> Any:
    top = x.people.agg(F.max("salary")).scalar()
    return x.people.where(F.col("salary") == top).select("id", "salary")


@scenario("subqueries")
def scalar_subquery_in_select(x: Place) -> Any:
    return x.dept.select("id", x.people.agg(F.count("*")).scalar().alias("people"))


@scenario("subqueries", daily=True)
def exists_subquery(x: Place) -> Any:
    o = x.orders.where(F.col("orders.person_id") == F.col("p.id").outer())
    return x.people.alias("p").where(o.exists()).select("id", "email")


@scenario("subqueries", daily=True)
def frames_that_are_used_twice(x: Place) -> Any:
    """Within one plan their ids and names come twice, each time for the same."""
    some = x.orders.where("amount > 20")
    within = x.people.where(some.exists()).select("id", "region")
    also = x.people.where(some.exists() & (F.col("id") > 3)).select("id", "region")
    text = x.spark.sql("SELECT id, region FROM {p} WHERE id > 2", p=x.people.select("id", "region"))
    return [
        within.union(also),
        within.join(also, "id").select("id"),
        text.union(text),
        text.join(text.select("id"), "id").select("id", "region"),
        x.spark.sql("SELECT a.id FROM {a} AS a JOIN {b} AS b ON a.id = b.id", a=text, b=within),
    ]


@scenario("subqueries")
def not_exists_subquery(x: Place) -> Any:
    o = x.orders.where(F.col("person_id") == F.col("people.id").outer())
    return x.people.where(~o.exists()).select("id")


@scenario("subqueries")
def correlated_scalar_subquery(x: Place) -> Any:
    total = x.orders.where(F.col("person_id") == F.col("p.id").outer()).agg(F.sum("amount")).scalar()
    return x.people.alias("p").select("p.id", total.alias("total"))


@scenario("subqueries")
def outer_by_frame_column(x: Place) -> Any:
    p = x.people
    return error_of(lambda: p.where(x.orders.where(F.col("person_id") == p["id"].outer()).exists()).collect())


@scenario("subqueries")
def in_subquery(x: Place) -> Any:
    return x.people.where(F.col("id").isin(x.orders.where("qty > 3").select("person_id"))).select("id")


# --- local data


@scenario("local data")
def local_tuples(x: Place) -> Any:
    return x.spark.createDataFrame([(1, "a"), (2, None)], "id int, name string")


@scenario("local data")
def local_rows(x: Place) -> Any:
    return x.spark.createDataFrame([Row(a=1, b=Row(c="x", d=[1, 2])), Row(a=2, b=None)])


@scenario("local data")
def local_dicts(x: Place) -> Any:
    return x.spark.createDataFrame([{"a": 1, "m": {"k": 1.5}}, {"a": 2, "m": {}}])


@scenario("local data")
def local_pandas(x: Place) -> Any:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    return x.spark.createDataFrame(
        pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.5, 1.5, 2.5]})
    )


@scenario("local data")
def local_arrow(x: Place) -> Any:
    import pyarrow as pa

    return x.spark.createDataFrame(pa.table({"a": [1, 2], "b": [[1], None]}))


@scenario("local data")
def local_types(x: Place) -> Any:
    row = (
        True,
        1,
        1.5,
        decimal.Decimal("1.25"),
        "s",
        b"\x00\xff",
        datetime.date(2020, 2, 29),
        datetime.datetime(2020, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001 - a timestamp without a zone
        [1, None],
        {"k": 2},
    )
    schema = (
        "a boolean, b bigint, c double, d decimal(5,2), e string, f binary, g date, h timestamp_ntz, "
        "i array<int>, j map<string,int>"
    )
    return x.spark.createDataFrame([row, (None,) * 10], schema)


@scenario("local data")
def local_empty(x: Place) -> Any:
    return [x.spark.createDataFrame([], "a int, b string"), x.spark.range(0)]


@scenario("local data")
def local_many_rows(x: Place) -> Any:
    """So many that the client sends them as an artifact of their own."""
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    frame = pd.DataFrame({"a": range(200_000), "b": [f"value number {i} of many" for i in range(200_000)]})
    big = x.spark.createDataFrame(frame)
    return big.agg(F.count("*"), F.sum("a"), F.max("b"), F.sum(F.hash("b").cast("bigint")))


@scenario("local data")
def local_joined_with_table(x: Place) -> Any:
    mine = x.spark.createDataFrame([(3, "three"), (5, "five"), (9, "nine")], "id int, word string")
    return mine.join(x.people, "id", "left").select("id", "word", "email", "salary")


@scenario("local data")
def ranges(x: Place) -> Any:
    return [x.spark.range(5), x.spark.range(2, 9, 3), x.spark.range(0, 10, 1, 3).where("id % 2 = 0")]


# --- actions


@scenario("actions")
def to_pandas(x: Place) -> Any:
    return x.people.orderBy("id").select("id", "name", "salary", "born", "pay", "hired").toPandas()


@scenario("actions")
def to_pandas_nested(x: Place) -> Any:
    return x.people.orderBy("id").select("id", "home", "tags").toPandas()


@scenario("actions")
def to_arrow(x: Place) -> Any:
    return x.people.orderBy("id").select("id", "email", "born").toArrow()


@scenario("actions")
def to_local_iterator(x: Place) -> Any:
    return list(x.people.orderBy("id").select("id", "region").toLocalIterator())


@scenario("actions")
def counts(x: Place) -> Any:
    p = x.people
    return [
        p.count(),
        p.isEmpty(),
        p.where("id < 0").isEmpty(),
        x.dept.count(),
        x.orders.where("qty > 1").count(),
    ]


@scenario("actions")
def count_of_the_whole_table(x: Place) -> Any:
    return x.dept.count()


@scenario("actions")
def shown(x: Place) -> Any:
    p = x.people.orderBy("id").select("id", "name", "email", "salary")
    return [
        printed(p.show),
        printed(lambda: p.show(2, truncate=5)),
        printed(lambda: p.show(2, vertical=True)),
    ]


@scenario("actions")
def html(x: Place) -> Any:
    x.spark.conf.set("spark.sql.repl.eagerEval.enabled", "true")
    return x.people.orderBy("id").select("id", "salary")._repr_html_()


@scenario("actions")
def to_json(x: Place) -> Any:
    return x.people.orderBy("id").select(F.to_json(F.struct("id", "born", "home")).alias("j"))


# --- big plans


@scenario("big plans")
def three_hundred_columns(x: Place) -> Any:
    frame = x.people.select("id", "salary")
    for i in range(300):
        frame = frame.withColumn("salary", F.col("salary") + (i % 2))
    return frame


@scenario("big plans")
def many_filters(x: Place) -> Any:
    """Spark itself takes 30 s for 500 of them."""
    frame = x.people
    for i in range(120):
        frame = frame.filter(F.col("id") != 1000 + i)
    return frame.select("id")


@scenario("big plans")
def wide_plan(x: Place) -> Any:
    return (
        x.people.select(*(F.lit(i).alias(f"c{i}") + F.col("id") for i in range(400)))
        .toDF(*(f"d{i}" for i in range(400)))
        .agg(F.sum("d399"))
    )


@scenario("big plans")
def ten_megabytes(x: Place) -> Any:
    """So large that the client compresses it."""
    text = "".join(f"{i:07d}" for i in range(1_700_000))
    return x.people.select("id", "salary", F.length(F.lit(text)).alias("n")).where("id < 6")


@scenario("big plans")
def many_unions(x: Place) -> Any:
    frame = x.dept.select("id")
    for _ in range(40):
        frame = frame.union(x.dept.select("id"))
    return frame.groupBy("id").count()


@scenario("big plans")
def ordered_top_of_many(x: Place) -> Any:
    frame = x.spark.range(100_000).select((F.col("id") * 7919 % 100_003).alias("v"))
    return Ordered(frame.orderBy(F.desc("v")).limit(5))
