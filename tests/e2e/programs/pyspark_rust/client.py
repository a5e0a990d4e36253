"""What a program does with the client in Rust, twice in a row; runs where `pyspark-client-rust` is installed.

`client.py REMOTE SHOP SCRATCH`: where Spark Connect is, which database to read and which to write. It is
PySpark's own API, so what it does any PySpark could.
"""

from __future__ import annotations

import datetime as dt
import decimal
import sys
from typing import Any

from pyspark.sql import Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention
from pyspark.sql import types as T  # noqa: N812

from tests.e2e.programs.steps import Steps, tell


def steps(spark: Any, shop: str, scratch: str) -> Steps:
    customer = spark.table(f"{shop}.customer")
    numbers = spark.table(f"{shop}.numbers")
    region = spark.table(f"{shop}.region")
    every = spark.table(f"{shop}.every_type")
    made = f"{scratch}.made"

    def rows(frame: Any) -> Any:
        return {"columns": frame.schema.simpleString(), "rows": [list(one) for one in frame.collect()]}

    def written(mode: str) -> Any:
        customer.select("id", "email").write.mode(mode).saveAsTable(made)
        return spark.table(made).count()

    def view() -> Any:
        customer.createOrReplaceTempView("mine")
        found = rows(spark.sql("SELECT count(*) AS n, max(email) FROM mine"))
        return [found, spark.catalog.dropTempView("mine"), spark.catalog.dropTempView("mine")]

    def cached() -> Any:
        kept = customer.select("id", "email").cache()
        try:
            return rows(kept.orderBy("id"))
        finally:
            kept.unpersist()

    def elsewhere() -> Any:
        spark.catalog.setCurrentDatabase(shop)
        try:
            return [spark.catalog.currentDatabase(), spark.table("customer").count()]
        finally:
            spark.catalog.setCurrentDatabase("default")

    def setting() -> Any:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        return [spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.no.such", "none")]

    def function() -> Any:
        twice = F.udf(lambda one: 2 * one, T.IntegerType())
        return rows(customer.select(twice("id")).limit(1))

    def printed() -> str:
        shown: str = customer.orderBy("id")._show_string(n=3, truncate=12)
        return shown

    by_region = Window.partitionBy("region").orderBy("id")
    local = [
        Row(a=1, b="x", c=decimal.Decimal("1.50"), d=dt.date(2024, 2, 29)),
        Row(a=2, b=None, c=None, d=None),
    ]
    return {
        "the version": lambda: spark.version,
        "a value": lambda: rows(spark.sql("SELECT 1 AS one")),
        "customers": lambda: rows(customer.orderBy("id")),
        "customers by SQL": lambda: rows(spark.sql(f"SELECT * FROM {shop}.customer ORDER BY id")),
        "every type": lambda: rows(every.orderBy("number")),
        "a view": lambda: rows(spark.table(f"{shop}.emea").orderBy("id")),
        "by name": lambda: rows(
            spark.sql(f"SELECT id FROM {shop}.customer WHERE id > :least ORDER BY id", args={"least": 3})
        ),
        "by place": lambda: rows(
            spark.sql(f"SELECT id, ? AS said FROM {shop}.customer WHERE id < ? ORDER BY id", args=["it's", 3])
        ),
        "of a DataFrame": lambda: rows(spark.sql("SELECT max(email) AS m FROM {some}", some=customer)),
        "the schema": lambda: every.schema.json(),
        "types": lambda: customer.dtypes,
        "columns": lambda: customer.columns,
        "filtered": lambda: rows(customer.filter(F.col("spent") > 0).select("id", "email").orderBy("id")),
        "filtered by text": lambda: rows(customer.where("region = 'EMEA' AND id > 1").orderBy(F.desc("id"))),
        "computed": lambda: rows(
            customer.select("id", F.upper("email").alias("up"), customer.spent * 2).orderBy("id")
        ),
        "expressions": lambda: rows(customer.selectExpr("id", "concat(name, '!') AS n").orderBy("id")),
        "cases": lambda: rows(
            customer.select(
                "id", F.when(F.col("spent").isNull(), "none").otherwise("some").alias("k")
            ).orderBy("id")
        ),
        "a column more": lambda: rows(customer.withColumn("host", F.split("email", "@")[1]).orderBy("id")),
        "renamed": lambda: rows(customer.withColumnRenamed("email", "mail").drop("name").orderBy("id")),
        "grouped": lambda: rows(
            customer.groupBy("region")
            .agg(F.count("*").alias("n"), F.avg("id"), F.sum("spent"))
            .orderBy("region")
        ),
        "rolled up": lambda: rows(customer.rollup("region").count().orderBy(F.asc_nulls_last("region"))),
        "pivoted": lambda: rows(
            customer.groupBy("id").pivot("region", ["EMEA", "AMER"]).count().orderBy("id")
        ),
        "joined": lambda: rows(
            customer.join(region, customer.region == region.code).select("id", "title").orderBy("id")
        ),
        "joined to none": lambda: rows(
            customer.join(region, customer.region == region.code, "left_anti").select("id").orderBy("id")
        ),
        "united": lambda: rows(customer.select("id").union(customer.select("id")).distinct().orderBy("id")),
        "less": lambda: rows(customer.select("region").exceptAll(region.select("code")).orderBy("region")),
        "a window": lambda: rows(
            customer.select("id", F.row_number().over(by_region), F.sum("id").over(by_region)).orderBy("id")
        ),
        "unnested": lambda: rows(every.select("number", F.explode("list")).orderBy("number")),
        "structs": lambda: rows(
            every.select("number", "pair.a", F.col("dict")["k"].alias("k")).orderBy("number")
        ),
        "filled": lambda: rows(
            customer.select("id", "email", "spent").fillna({"email": "?", "spent": 0}).orderBy("id")
        ),
        "dropped": lambda: rows(customer.dropna(subset=["email"]).select("id").orderBy("id")),
        "described": lambda: rows(customer.describe("id", "email")),
        "head": lambda: [str(one) for one in numbers.orderBy("id").head(3)],
        "tail": lambda: [str(one) for one in numbers.orderBy("id").tail(2)],
        "first": lambda: str(customer.orderBy("id").first()),
        "count": numbers.count,
        "one by one": lambda: sum(one.id for one in numbers.toLocalIterator()),
        "pandas": lambda: customer.orderBy("id").toPandas().astype(str).to_numpy().tolist(),
        "arrow": lambda: str(customer.select("id", "email").orderBy("id").toArrow().to_pylist()),
        "printed": printed,
        "local rows": lambda: rows(spark.createDataFrame(local)),
        "a range": lambda: rows(spark.range(0, 10, 3)),
        "sampled": lambda: numbers.sample(1.0).count(),
        "in parts": lambda: numbers.repartition(3).count(),
        "hinted": lambda: rows(customer.hint("broadcast").orderBy("id").limit(1)),
        "a temporary view": view,
        "cached": cached,
        "written": lambda: written("overwrite"),
        "written again": lambda: written("append"),
        "written where there is one": lambda: written("error"),
        "inserted": lambda: [
            customer.select("id", "email").write.insertInto(made),
            spark.table(made).count(),
        ],
        "made anew": lambda: [
            customer.select("id").writeTo(f"{scratch}.anew").using("parquet").createOrReplace(),
            rows(spark.table(f"{scratch}.anew").orderBy("id")),
        ],
        "explained": lambda: str(spark.sql("EXPLAIN SELECT 1 AS one").collect()),
        "columns of a command": lambda: spark.sql("EXPLAIN SELECT 1 AS one").columns,
        "the same": lambda: customer.sameSemantics(spark.table(f"{shop}.customer")),
        "the current database": spark.catalog.currentDatabase,
        "databases": lambda: sorted({one.name for one in spark.catalog.listDatabases()} & {shop, scratch}),
        "tables": lambda: sorted(str(one) for one in spark.catalog.listTables(shop)),
        "columns of a table": lambda: [str(one) for one in spark.catalog.listColumns(f"{shop}.customer")],
        "a table is there": lambda: [
            spark.catalog.tableExists(f"{shop}.customer"),
            spark.catalog.tableExists(f"{shop}.nothing"),
        ],
        "another database": elsewhere,
        "a setting": setting,
        "a function in Python": function,
        "files by path": lambda: rows(spark.read.parquet(f"/tmp/nothing-{shop}")),
        "no such table": lambda: rows(spark.table(f"{shop}.nothing")),
        "no such column": lambda: rows(customer.select("nothing")),
        "no SQL": lambda: rows(spark.sql("SELEKT 1")),
        "a value that fails": lambda: rows(customer.select(F.lit(1) / (F.col("id") - F.col("id")))),
        "a cast that fails": lambda: rows(customer.where("id = 2").select(F.col("name").cast("int"))),
        "dropped again": lambda: [
            spark.sql(f"DROP TABLE IF EXISTS {one}").collect() for one in (made, f"{scratch}.anew")
        ],
        "after all that": lambda: rows(spark.sql("SELECT 1 AS one")),
    }


def main(remote: str, shop: str, scratch: str) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    tell(steps(spark, shop, scratch), times=2)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
