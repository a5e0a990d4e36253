"""Joins, groups, windows, sets and order."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Ordered, Place, error_of, scenario

# --- joins


def _joined(x: Place, how: str) -> Any:
    p, o = x.people, x.orders
    return p.join(o, p.id == o.person_id, how).select(p.id, p.name, o.item, o.amount)


@scenario("joins")
def join_inner(x: Place) -> Any:
    return _joined(x, "inner")


@scenario("joins")
def join_left(x: Place) -> Any:
    return _joined(x, "left")


@scenario("joins")
def join_right(x: Place) -> Any:
    return _joined(x, "right")


@scenario("joins")
def join_full(x: Place) -> Any:
    return _joined(x, "full")


@scenario("joins")
def join_semi(x: Place) -> Any:
    p, o = x.people, x.orders
    return p.join(o, p.id == o.person_id, "left_semi")


@scenario("joins")
def join_anti(x: Place) -> Any:
    p, o = x.people, x.orders
    return p.join(o, p.id == o.person_id, "left_anti").select("id", "email")


@scenario("joins")
def join_cross(x: Place) -> Any:
    return x.dept.select("id").crossJoin(x.dept.select("title"))


@scenario("joins")
def join_without_condition(x: Place) -> Any:
    return x.dept.select("title").join(x.table("parts").select("v"))


@scenario("joins")
def join_using(x: Place) -> Any:
    return x.people.select("id", "name").join(x.orders.select("id", "item"), "id")


@scenario("joins")
def join_using_many(x: Place) -> Any:
    left = x.people.select("id", "region", "salary")
    return left.join(x.people.select("id", "region", "email"), ["id", "region"], "full")


@scenario("joins")
def join_by_text(x: Place) -> Any:
    return (
        x.people.alias("p")
        .join(x.orders.alias("o"), F.expr("p.id = o.person_id AND o.qty > 2"))
        .select("p.id", "o.*")
    )


@scenario("joins")
def join_of_qualified_names(x: Place) -> Any:
    joined = x.people.join(x.dept, F.col("people.dept_id") == F.col("dept.id"))
    return joined.select("people.id", "dept.title", f"{x.db}.people.salary")


@scenario("joins")
def self_join_aliased(x: Place) -> Any:
    a, b = x.people.alias("a"), x.people.alias("b")
    return a.join(b, (F.col("a.salary") == F.col("b.salary")) & (F.col("a.id") < F.col("b.id"))).select(
        "a.id", "b.id"
    )


@scenario("joins")
def self_join_of_two_reads(x: Place) -> Any:
    a, b = x.people, x.people
    return a.join(b, a.dept_id == b.id).select(a.id, b.name, a.email)


@scenario("joins")
def self_join_of_one_frame(x: Place) -> Any:
    p = x.people
    return error_of(lambda: p.join(p, p.id == p.dept_id).select(p.id).collect())


@scenario("joins")
def join_three(x: Place) -> Any:
    p, o, d = x.people, x.orders, x.dept
    joined = p.join(o, p.id == o.person_id).join(d, p.dept_id == d.id, "left")
    return joined.groupBy(d.title).agg(F.sum(o.amount).alias("amount"), F.count_distinct(p.id).alias("who"))


@scenario("joins")
def join_on_masked_columns(x: Place) -> Any:
    a, b = x.people.alias("a"), x.people.alias("b")
    return a.join(b, (F.col("a.email") == F.col("b.email")) & (F.col("a.born") <= F.col("b.born"))).select(
        "a.id", "b.id"
    )


@scenario("joins")
def join_non_equal(x: Place) -> Any:
    return (
        x.dept.alias("d").join(x.table("parts").alias("v"), F.col("d.id") > F.col("v.v")).select("title", "v")
    )


@scenario("joins")
def join_hint(x: Place) -> Any:
    p, d = x.people, x.dept
    return p.join(d.hint("broadcast"), p.dept_id == d.id).select("name", "title")


@scenario("joins", daily=True)
def join_as_of(x: Place) -> Any:
    return x.people.select("id", "salary")._joinAsOf(
        x.orders.select("id", "qty", "person_id"),
        leftAsOfColumn="id",
        rightAsOfColumn="person_id",
        how="left",
        tolerance=F.lit(5),
    )


@scenario("joins")
def lateral_join(x: Place) -> Any:
    o = x.orders.where(F.col("person_id") == F.col("p.id").outer()).agg(F.sum("qty").alias("total"))
    return x.people.alias("p").lateralJoin(o).select("p.id", "total")


@scenario("joins")
def lateral_join_of_a_table(x: Place) -> Any:
    same = x.people.where(F.col("region") == F.col("p.region").outer()).agg(F.sum("id").alias("total"))
    return x.people.alias("p").lateralJoin(same).select("p.id", "total")


@scenario("joins")
def lateral_join_of_a_function(x: Place) -> Any:
    return (
        x.people.alias("p")
        .lateralJoin(x.spark.tvf.explode(F.col("p.tags").outer()).toDF("tag"))
        .select("id", "tag")
    )


# --- groups


@scenario("groups")
def group_and_aggregate(x: Place) -> Any:
    return x.people.groupBy("region").agg(
        F.count("*").alias("n"),
        F.sum("salary"),
        F.avg("score"),
        F.min("born"),
        F.max("email"),
        F.collect_set("active"),
    )


@scenario("groups")
def group_by_frame_column(x: Place) -> Any:
    p = x.people
    return p.groupBy(p.region, F.year(p.born).alias("y")).count()


@scenario("groups")
def group_shorthands(x: Place) -> Any:
    g = x.people.groupBy("region")
    return [
        g.count(),
        g.sum("salary"),
        g.max("salary", "id"),
        g.avg("score"),
        g.agg({"salary": "min", "*": "count"}),
    ]


@scenario("groups")
def aggregate_whole(x: Place) -> Any:
    return x.people.agg(
        F.sum("salary"), F.count_distinct("email"), F.count("pay"), F.approx_count_distinct("name")
    )


@scenario("groups")
def having(x: Place) -> Any:
    return x.people.groupBy("region").agg(F.sum("salary").alias("s")).where("s > 10000")


@scenario("groups")
def rollup(x: Place) -> Any:
    return x.people.rollup("region", "active").agg(F.count("*"), F.grouping_id().alias("g"))


@scenario("groups")
def cube(x: Place) -> Any:
    return x.people.cube("region", "active").agg(F.sum("salary"), F.grouping("region"))


@scenario("groups")
def grouping_sets(x: Place) -> Any:
    return x.people.groupingSets([("region",), ("active",), ()], "region", "active").agg(F.count("*"))


@scenario("groups")
def pivot(x: Place) -> Any:
    return x.people.groupBy("region").pivot("active").agg(F.sum("salary"))


@scenario("groups")
def pivot_with_values(x: Place) -> Any:
    return (
        x.people.groupBy("region")
        .pivot("dept_id", [1, 2])
        .agg(F.count("id").alias("n"), F.max("born").alias("b"))
    )


@scenario("groups")
def aggregate_with_filter_text(x: Place) -> Any:
    return x.people.agg(F.expr("count(*) FILTER (WHERE active)"), F.expr("max_by(name, salary)"))


@scenario("groups")
def group_by_ordinal_text(x: Place) -> Any:
    return (
        x.people.selectExpr("region", "salary")
        .groupBy(F.expr("upper(region)"))
        .agg(F.expr("sum(salary) AS s"))
    )


# --- windows


@scenario("windows")
def window_rank(x: Place) -> Any:
    w = Window.partitionBy("region").orderBy(F.desc("salary"), "id")
    return x.people.select("id", F.rank().over(w), F.row_number().over(w), F.lag("name").over(w))


@scenario("windows")
def window_frame(x: Place) -> Any:
    w = Window.orderBy("id").rowsBetween(-2, Window.currentRow)
    return x.people.select("id", F.sum("salary").over(w).alias("s"), F.first("email").over(w))


@scenario("windows")
def window_range(x: Place) -> Any:
    w = Window.partitionBy("active").orderBy("id").rangeBetween(-3, 3)
    return x.people.select("id", F.count("*").over(w), F.max("born").over(w))


@scenario("windows")
def window_by_frame_columns(x: Place) -> Any:
    p = x.people
    w = Window.partitionBy(p.region).orderBy(p.id)
    return p.withColumn("n", F.row_number().over(w)).where("n <= 2").select(p.id, p.region, "n")


@scenario("windows")
def window_of_text(x: Place) -> Any:
    return x.people.selectExpr("id", "dense_rank() OVER (PARTITION BY region ORDER BY salary DESC, id) AS r")


@scenario("windows")
def window_of_time(x: Place) -> Any:
    return (
        x.table("events")
        .groupBy(F.window("at", "10 minutes"))
        .agg(F.count("*").alias("n"))
        .select("window.start", "n")
    )


# --- sets


@scenario("sets")
def union(x: Place) -> Any:
    return x.people.select("id", "name").union(x.dept.select("id", "title"))


@scenario("sets")
def union_by_name(x: Place) -> Any:
    return x.people.select("id", "name").unionByName(x.orders.select(F.col("item").alias("name"), "id"))


@scenario("sets")
def union_by_name_allowing_missing(x: Place) -> Any:
    return x.people.select("id", "email").unionByName(x.dept.select("id", "title"), allowMissingColumns=True)


@scenario("sets")
def union_of_whole_tables(x: Place) -> Any:
    return x.people.drop("props").union(x.people.drop("props")).groupBy("id").count()


@scenario("sets")
def intersect(x: Place) -> Any:
    return x.people.select("id").intersect(x.orders.select("person_id"))


@scenario("sets")
def intersect_all(x: Place) -> Any:
    return x.orders.select("qty").intersectAll(x.people.select("dept_id"))


@scenario("sets")
def subtract(x: Place) -> Any:
    return x.people.select("id").subtract(x.orders.select("person_id"))


@scenario("sets")
def except_all(x: Place) -> Any:
    return x.orders.select("qty").exceptAll(x.people.select("dept_id"))


@scenario("sets")
def distinct(x: Place) -> Any:
    return x.people.select("name", "region").distinct()


@scenario("sets")
def drop_duplicates(x: Place) -> Any:
    return [x.people.select("salary").dropDuplicates(), x.people.dropDuplicates(["region", "active"]).count()]


# --- order


@scenario("order")
def sort_by_names(x: Place) -> Any:
    return Ordered(x.people.sort("region", F.desc("id")).select("id", "region"))


@scenario("order")
def sort_by_frame_columns(x: Place) -> Any:
    p = x.people
    return Ordered(p.orderBy(p.salary.desc_nulls_last(), p.id.asc()).select("id", "salary"))


@scenario("order")
def sort_by_dropped_column(x: Place) -> Any:
    p = x.people
    return Ordered(p.select("id").orderBy(p.salary.desc(), p.id))


@scenario("order")
def sort_by_flags(x: Place) -> Any:
    return Ordered(x.people.sort(["active", "id"], ascending=[False, True]).select("id", "active"))


@scenario("order")
def sort_by_text(x: Place) -> Any:
    return Ordered(x.people.orderBy(F.expr("length(name)"), F.expr("id % 3"), "id").select("id", "name"))


@scenario("order")
def sort_within_partitions(x: Place) -> Any:
    return Ordered(x.people.coalesce(1).sortWithinPartitions(F.desc("id")).select("id"))


@scenario("order")
def limit_and_offset(x: Place) -> Any:
    return Ordered(x.people.orderBy("id").offset(2).limit(4).select("id", "email"))


@scenario("order")
def first_head_take_tail(x: Place) -> Any:
    p = x.people.orderBy("id").select("id", "name", "salary")
    return [p.first(), p.head(), p.head(2), p.take(3), p.tail(2), p.limit(1).collect()]


@scenario("order")
def repartitions(x: Place) -> Any:
    p = x.people.select("id")
    return [
        p.repartition(3).count(),
        p.repartition(2, "id"),
        p.repartitionByRange(2, F.col("id").desc()),
        p.coalesce(1),
    ]
