"""Commands in SQL on tables, views and caches; views over views; several threads; streams with state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Place, error_of, fresh, plain, scenario
from tests.speed import patience


@contextmanager
def _table(x: Place, query: str = "SELECT id, title FROM dept") -> Iterator[str]:
    name = f"{x.scratch}.{fresh('t')}"
    x.spark.sql(f"CREATE TABLE {name} USING parquet AS {query}")
    try:
        yield name
    finally:
        x.spark.sql(f"DROP TABLE IF EXISTS {name}")


def _sql(x: Place, *texts: str) -> list[Any]:
    """What each text gives, or its error, in one session."""
    return [_one(x, text) for text in texts]


def _one(x: Place, text: str) -> Any:
    results: list[Any] = []
    error = error_of(lambda: results.append(plain(x.spark.sql(text))))
    return results[0] if results else error


# --- views over views


@scenario("views")
def view_replaces_the_one_that_it_reads(x: Place) -> Any:
    x.people.select("id", "email", "region").createOrReplaceTempView("v")
    for i in range(4):
        x.spark.table("v").where(F.col("id") != i).createOrReplaceTempView("v")
    x.spark.sql("SELECT id, region FROM v").createOrReplaceTempView("v")
    return [x.spark.table("v"), x.spark.sql("SELECT region, count(*) AS n FROM v GROUP BY region")]


@scenario("views", daily=True)
def view_replaces_a_table_that_it_reads(x: Place) -> Any:
    x.dept.createOrReplaceTempView("dept")
    x.spark.table("dept").where("id > 2").createOrReplaceTempView("dept")
    return [x.spark.sql("SELECT id FROM dept"), x.spark.table(f"{x.db}.dept").count()]


@scenario("views", daily=True)
def view_outlives_what_it_read(x: Place) -> Any:
    x.people.select("id", "email").createTempView("a")
    x.spark.table("a").where("id > 5").createTempView("b")
    x.spark.range(100, 102).createOrReplaceTempView("a")
    before = plain(x.spark.table("b"))
    dropped = x.spark.catalog.dropTempView("a")
    return [before, dropped, x.spark.table("b"), error_of(lambda: x.spark.table("a").count())]


@scenario("views")
def view_of_text_reads_by_name(x: Place) -> Any:
    x.spark.range(3).createTempView("a")
    x.spark.sql("CREATE TEMP VIEW b AS SELECT id FROM a WHERE id > 0")
    before = plain(x.spark.table("b"))
    x.spark.range(100, 102).createOrReplaceTempView("a")
    again = error_of(lambda: x.spark.sql("CREATE OR REPLACE TEMP VIEW b AS SELECT * FROM b").collect())
    return [before, x.spark.table("b"), again]


@scenario("views")
def view_over_a_cache(x: Place) -> Any:
    frame = x.dept.select("id").cache()
    frame.createTempView("v")
    cached = x.spark.catalog.isCached("v")
    frame.unpersist()
    kept = x.dept.select("id").localCheckpoint()
    kept.createTempView("k")
    return [cached, x.spark.catalog.isCached("v"), x.spark.sql("SELECT sum(k.id) FROM v JOIN k USING (id)")]


# --- commands


@scenario("commands")
def cache_by_sql(x: Place) -> Any:
    with _table(x) as name:
        return _sql(
            x,
            f"CACHE TABLE {name}",
            f"SELECT count(*) FROM {name}",
            f"UNCACHE TABLE {name}",
            f"UNCACHE TABLE IF EXISTS {name}",
            f"UNCACHE TABLE {x.scratch}.no_such_table",
        )


@scenario("commands")
def cache_a_query_by_sql(x: Place) -> Any:
    return _sql(
        x,
        "CACHE TABLE kept AS SELECT id, email FROM people WHERE id > 3",
        "SELECT * FROM kept",
        "CACHE TABLE kept AS SELECT 1",
        "CACHE LAZY TABLE later OPTIONS ('storageLevel' 'MEMORY_ONLY') AS SELECT max(id) AS m FROM kept",
        "SELECT * FROM later",
        "UNCACHE TABLE kept",
        "DROP VIEW later",
        "SELECT count(*) FROM kept",
    )


@scenario("commands", daily=True)
def statistics_by_sql(x: Place) -> Any:
    with _table(x) as name:
        return _sql(
            x,
            f"ANALYZE TABLE {name} COMPUTE STATISTICS",
            f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS id",
            f"DESCRIBE EXTENDED {name} id",
            f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS nope",
            f"REFRESH TABLE {name}",
        )


@scenario("commands")
def describe_a_column(x: Place) -> Any:
    return _sql(
        x, "DESCRIBE dept id", "DESC people home", "DESCRIBE orders nope", "DESCRIBE QUERY SELECT 1 AS a"
    )


# A name that may be that of a hidden column is denied, whether there is such a column or not.
@scenario("commands", governed="elsewhere", daily=True)
def describe_a_column_that_is_not_there(x: Place) -> Any:
    return _sql(x, "DESCRIBE dept nope", "DESC people nope")


@scenario("commands")
def change_a_view(x: Place) -> Any:
    view = f"{x.scratch}.{fresh('v')}"
    return _sql(
        x,
        f"CREATE VIEW {view} AS SELECT 1 AS a, 'x' AS b",
        f"ALTER VIEW {view} AS SELECT 5 AS five",
        f"SELECT * FROM {view}",
        f"ALTER VIEW {view} SET TBLPROPERTIES ('meta.x' = 'y')",
        f"ALTER VIEW {view} UNSET TBLPROPERTIES ('meta.x')",
        f"CREATE OR REPLACE VIEW {view} (n COMMENT 'number') AS SELECT id FROM range(2)",
        f"SELECT * FROM {view}",
        f"DROP VIEW {view}",
        f"DROP VIEW {view}",
    )


@scenario("commands")
def make_a_table_like_another(x: Place) -> Any:
    with _table(x, "SELECT v, p FROM parts") as name:
        return _sql(
            x,
            f"CREATE TABLE {name}_like LIKE {name} USING orc",
            f"INSERT INTO {name}_like SELECT * FROM parts",
            f"SELECT * FROM {name}_like",
            f"COMMENT ON TABLE {name}_like IS 'a copy'",
            f"ALTER TABLE {name}_like SET TBLPROPERTIES ('comment' = 'another', 'meta.k' = 'v')",
            f"COMMENT ON DATABASE {x.scratch} IS 'of the scenarios'",
            f"ALTER DATABASE {x.scratch} SET DBPROPERTIES ('meta.k' = 'v')",
            f"DROP TABLE {name}_like",
        )


@scenario("commands")
def partitions_by_sql(x: Place) -> Any:
    name = f"{x.scratch}.{fresh('p')}"
    return _sql(
        x,
        f"CREATE TABLE {name} USING parquet PARTITIONED BY (p) AS SELECT v, p FROM parts",
        f"INSERT OVERWRITE {name} PARTITION (p = 'x') SELECT 77",
        f"ALTER TABLE {name} ADD PARTITION (p = 'new')",
        f"SHOW PARTITIONS {name}",
        f"DESCRIBE {name} PARTITION (p = 'x')",
        f"MSCK REPAIR TABLE {name}",
        f"ALTER TABLE {name} DROP PARTITION (p = 'new')",
        f"TRUNCATE TABLE {name} PARTITION (p = 'y')",
        f"SELECT * FROM {name}",
        f"DROP TABLE {name}",
    )


@scenario("commands")
def rows_of_parquet_cannot_be_changed(x: Place) -> Any:
    with _table(x) as name:
        return _sql(
            x,
            f"DELETE FROM {name} WHERE id = 1",
            f"UPDATE {name} AS t SET title = 'q' WHERE t.id IN (SELECT id FROM dept)",
            f"MERGE INTO {name} t USING dept s ON t.id = s.id WHEN MATCHED THEN UPDATE SET title = s.title",
            f"INSERT INTO {name} VALUES (1)",
            f"INSERT INTO {name} BY NAME SELECT 'n' AS title, 9 AS id",
            f"SELECT count(*) FROM {name}",
        )


@scenario("commands")
def explain_of_commands(x: Place) -> Any:
    return [
        len(x.spark.sql(f"EXPLAIN {text}").collect())
        for text in ("SHOW TABLES", "SELECT 1", "SHOW DATABASES")
    ]


# --- names in errors


@scenario("errors")
def error_names_the_table(x: Place) -> Any:
    def told(name: str) -> Any:
        try:
            x.spark.table(name).collect()
        except Exception as error:  # noqa: BLE001 - what it tells is the result
            return error.getMessageParameters()  # type: ignore[attr-defined]
        return None

    return [told("no_such_table"), told(f"{x.scratch}.no_such_table")]


@scenario("errors")
def a_table_cannot_be_overwritten_from_itself(x: Place) -> Any:
    with _table(x) as name:
        try:
            x.spark.table(name).write.mode("overwrite").saveAsTable(name)
        except Exception as error:  # noqa: BLE001 - what it tells is the result
            told = error.getMessageParameters()  # type: ignore[attr-defined]
            return told["table"].replace(name.partition(".")[2], "itself")
        return None


# --- sessions


@scenario("sessions")
def threads_on_one_session(x: Place) -> Any:
    seen: dict[int, Any] = {}

    def work(i: int) -> None:
        x.spark.range(i).createOrReplaceTempView(f"v{i}")
        seen[i] = [
            x.people.where(F.col("id") > i).count(),
            x.spark.sql(f"SELECT :i + count(*) AS n FROM v{i}", args={"i": i}).collect(),
            x.spark.catalog.dropTempView(f"v{i}"),
        ]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(180))
    return plain(seen)


@scenario("code", governed="refused")
def a_registered_function_exists(x: Place) -> Any:
    name = fresh("plus")
    x.spark.udf.register(name, lambda a: a + 1, "int")
    found = x.spark.catalog.getFunction(name)
    missing = x.spark.catalog.functionExists(fresh("minus"))
    return [x.spark.catalog.functionExists(name), found.name == name, found.isTemporary, missing]


@scenario("metrics")
def observe_a_write_and_a_failure(x: Place) -> Any:
    from pyspark.sql import Observation

    written, failed = Observation("written"), Observation("failed")
    name = f"{x.scratch}.{fresh('o')}"
    x.people.select("id", "salary").observe(written, F.max("salary").alias("top")).write.saveAsTable(name)
    x.spark.sql(f"DROP TABLE {name}")
    frame = x.dept.observe(failed, F.count(F.lit(1)).alias("n")).select(F.expr("1 div 0"))
    return [written.get, error_of(frame.collect)]


@scenario("commands", daily=True)
def commands_that_are_all_of_a_plan(x: Place) -> Any:
    """As the ADBC driver sends every text: the answer is rows, and Spark runs each once."""
    from pyspark.sql.connect.proto import Plan

    def whole(text: str) -> Any:
        plan = Plan()
        plan.root.sql.query = text
        return error_of(lambda: x.spark.client.to_table(plan, {})[0])

    made = f"{x.scratch}.whole"
    return [
        whole(f"CREATE TABLE {made} USING parquet AS SELECT id, email FROM people"),
        whole(f"INSERT INTO {made} SELECT id, email FROM people WHERE id < 3"),
        whole(f"SELECT count(*), count(DISTINCT id), min(email), max(email) FROM {made}"),
        whole(f"SHOW TABLES IN {x.scratch} LIKE 'whole'"),
        whole(f"DESCRIBE {made}"),
        whole("CREATE OR REPLACE TEMPORARY VIEW mine AS SELECT id, email FROM people"),
        whole("SELECT max(email) FROM mine"),
        whole("SET spark.sql.session.timeZone = Europe/Berlin"),
        whole("SELECT current_timezone()"),
        whole("DECLARE OR REPLACE VARIABLE v INT DEFAULT 2"),
        whole("SET VAR v = (SELECT max(id) FROM people)"),
        whole("SELECT v"),
        whole("EXECUTE IMMEDIATE 'SELECT max(email) AS m FROM people WHERE id < ?' USING 4"),
        whole(f"BEGIN INSERT INTO {made} VALUES (0, 'z'); SELECT count(*) AS n FROM {made}; END"),
        whole(f"SELECT count(*) FROM {made}"),
        whole("SELEKT 1"),
        whole(f"DROP TABLE {made}"),
        whole(f"DROP TABLE {made}"),
        whole("DROP VIEW mine"),
    ]


# --- streams


@scenario("streams")
def streams_with_state(x: Place) -> Any:
    events = x.spark.readStream.table("events").withWatermark("at", "1 minute")

    def rows(stream: Any, mode: str = "append") -> Any:
        name = fresh("q")
        writer = stream.writeStream.format("memory").queryName(name).outputMode(mode)
        writer.trigger(availableNow=True).start().awaitTermination(patience(180))
        return plain(x.spark.table(name))

    events.createOrReplaceTempView("sv")
    return [
        rows(events.dropDuplicates(["kind"]).select("kind")),
        rows(events.groupBy("kind").agg(F.max("value").alias("v")), "complete"),
        rows(x.spark.sql("SELECT seq FROM sv WHERE seq < 7")),
        error_of(lambda: events.orderBy("seq").writeStream.format("noop").start()),
    ]
