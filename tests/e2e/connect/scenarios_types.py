"""Every SQL type on its way to the client, through tables and back."""

from __future__ import annotations

from typing import Any

from tests.e2e.connect.framework import Place, fresh, plain, scenario

SELECTED = {
    "boolean": "true",
    "tinyint": "CAST(-128 AS TINYINT)",
    "smallint": "CAST(32767 AS SMALLINT)",
    "int": "-2147483648",
    "bigint": "9223372036854775807",
    "float": "CAST(1.25 AS FLOAT)",
    "double": "CAST('NaN' AS DOUBLE)",
    "decimal": "CAST(12345678901234567890.123456789012345678 AS DECIMAL(38,18))",
    "string": "'täxt \U0001f600'",
    "char": "CAST('ab' AS CHAR(4))",
    "varchar": "CAST('ab' AS VARCHAR(4))",
    "binary": "X'00FF10'",
    "date": "DATE'0001-01-01'",
    "timestamp": "TIMESTAMP'2020-02-29 23:59:59.123456'",
    "timestamp_ntz": "TIMESTAMP_NTZ'2020-02-29 23:59:59.123456'",
    "day_time": "INTERVAL '1 02:03:04.5' DAY TO SECOND",
    "array": "array(1, NULL, 3)",
    "map": "map('a', array(1), 'b', NULL)",
    "struct": "named_struct('a', 1, 'b', named_struct('c', 'x'))",
    "nested": "array(named_struct('m', map(1, array('x'))))",
    "void": "NULL",
}


@scenario("types")
def every_type_selected(x: Place) -> Any:
    return x.spark.sql("SELECT " + ", ".join(f"{value} AS `{name}`" for name, value in SELECTED.items()))


@scenario("types")
def every_type_null(x: Place) -> Any:
    columns = ", ".join(
        f"nullif({v}, {v}) AS `{n}`" for n, v in SELECTED.items() if n not in ("map", "void", "nested")
    )
    return x.spark.sql(f"SELECT {columns}")


@scenario("types")
def every_type_through_a_table(x: Place) -> Any:
    stored = {n: v for n, v in SELECTED.items() if n != "void"}
    table = f"{x.scratch}.{fresh('types')}"
    x.spark.sql(
        f"CREATE TABLE {table} USING parquet AS SELECT "
        + ", ".join(f"{v} AS `{n}`" for n, v in stored.items())
    )
    try:
        frame = x.spark.table(table)
        again = plain(x.spark.sql(f"SELECT * FROM {table}"))
        return [frame.dtypes, [list(row) for row in frame.collect()], again]
    finally:
        x.spark.sql(f"DROP TABLE {table}")


@scenario("types")
def interval_of_months(x: Place) -> Any:
    return x.spark.sql("SELECT CAST(INTERVAL '1-2' YEAR TO MONTH AS STRING) AS i").union(
        x.spark.sql("SELECT 'x'")
    )


@scenario("types")
def variant(x: Place) -> Any:
    frame = x.spark.sql("SELECT parse_json('{\"a\": [1, 2.5, null]}') AS v")
    return [frame.dtypes, frame.selectExpr("v:a[1]::double AS d"), str(frame.collect()[0][0])]


@scenario("types")
def time_of_day(x: Place) -> Any:
    return [x.spark.sql("SELECT CAST(TIME'12:34:56.789' AS STRING) AS t")]


@scenario("types")
def collated(x: Place) -> Any:
    return x.spark.sql("SELECT 'a' COLLATE UTF8_LCASE = 'A' AS same, collation('x') AS c")


@scenario("types")
def every_type_to_pandas(x: Place) -> Any:
    kept = {n: v for n, v in SELECTED.items() if n not in ("decimal", "date")}
    return x.spark.sql(
        "SELECT " + ", ".join(f"{value} AS `{name}`" for name, value in kept.items())
    ).toPandas()


@scenario("types")
def every_type_to_arrow(x: Place) -> Any:
    return x.spark.sql(
        "SELECT " + ", ".join(f"{value} AS `{name}`" for name, value in SELECTED.items())
    ).toArrow()


@scenario("types")
def schema_as_json(x: Place) -> Any:
    return x.spark.sql(
        "SELECT " + ", ".join(f"{value} AS `{name}`" for name, value in SELECTED.items())
    ).schema.json()


@scenario("types")
def large_values(x: Place) -> Any:
    return x.spark.sql("SELECT length(repeat('x', 3000000)) AS n, md5(repeat('y', 3000000)) AS m")


@scenario("types")
def large_result(x: Place) -> Any:
    rows = x.spark.range(60_000).selectExpr("id", "repeat('v', 40) AS v").collect()
    return [len(rows), sum(row[0] for row in rows), rows[-1][1]]
