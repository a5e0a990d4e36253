"""Writes: DataFrame writers of both kinds, and SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Place, error_of, fresh, plain, scenario


@contextmanager
def _table(x: Place, kind: str = "w") -> Iterator[str]:
    name = f"{x.scratch}.{fresh(kind)}"
    try:
        yield name
    finally:
        x.spark.sql(f"DROP TABLE IF EXISTS {name}")


def _rows(x: Place, name: str) -> Any:
    frame = x.spark.table(name)
    return [frame.columns, sorted(([*row] for row in frame.collect()), key=repr)]


@scenario("writes")
def save_as_table(x: Place) -> Any:
    with _table(x) as name:
        x.people.select("id", "email", "salary", "born").write.saveAsTable(name)
        return _rows(x, name)


@scenario("writes")
def save_whole_table(x: Place) -> Any:
    with _table(x) as name:
        x.people.write.saveAsTable(name)
        return _rows(x, name)


@scenario("writes")
def save_modes(x: Place) -> Any:
    with _table(x) as name:
        d = x.dept.select("id", "title")
        d.write.saveAsTable(name)
        twice = error_of(lambda: d.write.saveAsTable(name))
        twice["condition"] = str(twice["condition"])
        d.write.mode("ignore").saveAsTable(name)
        d.write.mode("append").saveAsTable(name)
        appended = x.spark.table(name).count()
        d.where("id = 1").write.mode("overwrite").saveAsTable(name)
        return [twice, appended, _rows(x, name)]


@scenario("writes")
def save_partitioned(x: Place) -> Any:
    with _table(x) as name:
        x.people.select("id", "region").write.partitionBy("region").format("orc").saveAsTable(name)
        return _rows(x, name)


@scenario("writes")
def save_bucketed(x: Place) -> Any:
    with _table(x) as name:
        x.people.select("id", "region").write.bucketBy(2, "id").sortBy("id").saveAsTable(name)
        return _rows(x, name)


@scenario("writes")
def insert_into(x: Place) -> Any:
    with _table(x) as name:
        x.spark.sql(f"CREATE TABLE {name} (id INT, email STRING) USING parquet")
        x.people.select("id", "email").write.insertInto(name)
        x.people.select("id", "email").where("id < 5").write.insertInto(name)
        first = x.spark.table(name).count()
        x.people.select("id", "email").where("id < 9").write.insertInto(name, overwrite=True)
        return [first, _rows(x, name)]


@scenario("writes")
def write_to_create(x: Place) -> Any:
    with _table(x) as name:
        x.dept.select("id", "title").writeTo(name).using("parquet").create()
        return [_rows(x, name), error_of(lambda: x.dept.writeTo(name).create())]


@scenario("writes")
def write_to_append(x: Place) -> Any:
    with _table(x) as name:
        x.dept.select("id", "title").writeTo(name).using("parquet").create()
        return error_of(lambda: x.dept.select("id", "title").writeTo(name).append())


@scenario("writes")
def write_to_overwrite_partitions(x: Place) -> Any:
    with _table(x) as name:
        x.table("parts").writeTo(name).using("parquet").partitionedBy("p").create()
        return error_of(lambda: x.table("parts").writeTo(name).overwritePartitions())


@scenario("writes")
def write_to_replace(x: Place) -> Any:
    with _table(x) as name:
        return error_of(lambda: x.dept.writeTo(name).using("parquet").createOrReplace())


@scenario("writes")
def write_to_properties(x: Place) -> Any:
    with _table(x) as name:
        x.dept.writeTo(name).using("parquet").tableProperty("meta.a", "b").create()
        return _rows(x, name)


@scenario("writes")
def ctas(x: Place) -> Any:
    with _table(x) as name:
        x.spark.sql(
            f"CREATE TABLE {name} USING parquet AS SELECT id, email, salary FROM people WHERE salary > 2500"
        )
        return _rows(x, name)


@scenario("writes")
def insert_by_sql(x: Place) -> Any:
    with _table(x) as name:
        x.spark.sql(f"CREATE TABLE {name} (id INT, name STRING) USING parquet")
        x.spark.sql(f"INSERT INTO {name} SELECT id, name FROM people")
        x.spark.sql(f"INSERT INTO {name} VALUES (:i, :n)", args={"i": 99, "n": "new"})
        first = _rows(x, name)
        x.spark.sql(f"INSERT OVERWRITE {name} SELECT id, title FROM {{d}}", d=x.dept)
        return [first, _rows(x, name)]


@scenario("writes")
def write_after_view(x: Place) -> Any:
    with _table(x) as name:
        x.people.select("region", "salary").createOrReplaceTempView("v")
        x.spark.sql(
            f"CREATE TABLE {name} USING parquet AS SELECT region, sum(salary) AS s FROM v GROUP BY region"
        )
        return _rows(x, name)


@scenario("writes")
def write_to_one_part_name(x: Place) -> Any:
    x.spark.catalog.setCurrentDatabase(x.scratch)
    name = fresh("w")
    try:
        x.table("dept").select("id").write.saveAsTable(name)
        return [plain(x.spark.table(name)), x.spark.table(f"{x.scratch}.{name}").count()]
    finally:
        x.spark.sql(f"DROP TABLE IF EXISTS {name}")


@scenario("writes")
def merge_into_parquet(x: Place) -> Any:
    """Parquet tables take no MERGE; what the client is told is Spark's own answer."""
    with _table(x) as name:
        x.dept.select("id", "title").write.saveAsTable(name)
        source = x.dept.select("id", "title").alias("s")
        merge = source.mergeInto(name, F.col("s.id") == F.col(f"{name}.id")).whenMatched().delete()
        return error_of(merge.merge)


@scenario("writes")
def alter_and_drop(x: Place) -> Any:
    with _table(x) as name:
        x.spark.sql(f"CREATE TABLE {name} (id INT) USING parquet")
        x.spark.sql(f"ALTER TABLE {name} ADD COLUMNS (b STRING)")
        columns = x.spark.table(name).columns
        x.spark.sql(f"TRUNCATE TABLE {name}")
        x.spark.sql(f"DROP TABLE {name}")
        return [columns, x.spark.catalog.tableExists(name)]


@scenario("writes", governed="refused")
def write_to_path(x: Place) -> Any:
    path = str(x.directory / fresh("path"))
    x.dept.select("id", "title").write.parquet(path)
    return x.spark.read.parquet(path)


@scenario("writes", governed="refused")
def write_csv_and_read(x: Place) -> Any:
    path = str(x.directory / fresh("csv"))
    x.dept.select("id", "title").coalesce(1).write.option("header", "true").csv(path)
    return x.spark.read.csv(path, header=True, schema="id int, title string")


@scenario("writes", governed="refused")
def external_table(x: Place) -> Any:
    path = str(x.directory / fresh("external"))
    with _table(x) as name:
        x.dept.select("id").write.option("path", path).saveAsTable(name)
        return x.spark.table(name).count()


@scenario("writes")
def csv_and_json_of_strings(x: Place) -> Any:
    lines = x.spark.createDataFrame([("1,a",), ("2,b",)], "value string")
    texts = x.spark.createDataFrame([('{"a": 1, "b": "x"}',)], "value string")
    return [
        x.spark.read.csv(lines, schema="i int, s string"),
        x.spark.read.json(texts, schema="a int, b string"),
    ]
