"""Errors: class, condition and SQLSTATE are Spark's own."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from tests.e2e.connect.framework import Place, error_of, scenario


@scenario("errors")
def unknown_column(x: Place) -> Any:
    return error_of(lambda: x.people.select("no_such_column").collect())


@scenario("errors")
def unknown_column_of_frame(x: Place) -> Any:
    return error_of(lambda: x.people["no_such_column"])


@scenario("errors")
def unknown_column_in_text(x: Place) -> Any:
    return error_of(lambda: x.spark.sql("SELECT no_such_column FROM people").collect())


@scenario("errors")
def unknown_column_in_filter(x: Place) -> Any:
    return error_of(lambda: x.people.filter("no_such_column > 1").collect())


@scenario("errors")
def unknown_table(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.table(f"{x.scratch}.no_such_table").collect()),
        error_of(lambda: x.spark.table(f"{x.scratch}.no_such_table").schema),
        error_of(lambda: x.spark.sql(f"SELECT * FROM {x.scratch}.no_such_table")),
    ]


@scenario("errors")
def parse_error(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELEC 1")),
        error_of(lambda: x.spark.sql("SELECT FROM WHERE")),
        error_of(lambda: x.people.filter("id >").collect()),
        error_of(lambda: x.people.selectExpr("id +").collect()),
    ]


@scenario("errors")
def division_by_zero(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELECT 1/0").collect()),
        error_of(lambda: x.people.select(F.col("id") / F.lit(0)).collect()),
    ]


@scenario("errors")
def cast_error(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELECT CAST('a' AS INT)").collect()),
        error_of(lambda: x.dept.select(F.col("title").cast("int")).collect()),
    ]


@scenario("errors")
def type_mismatch(x: Place) -> Any:
    return [
        error_of(lambda: x.people.select(F.array_contains("id", 1)).collect()),
        error_of(lambda: x.people.where("tags + 1 > 2").collect()),
        error_of(lambda: x.spark.sql("SELECT date_add('x', tags) FROM people").collect()),
    ]


@scenario("errors")
def ambiguous_column(x: Place) -> Any:
    return [
        error_of(lambda: x.people.join(x.dept, x.people.dept_id == x.dept.id).select("id").collect()),
        error_of(lambda: x.spark.sql("SELECT id FROM people p JOIN dept d ON p.dept_id = d.id").collect()),
    ]


@scenario("errors")
def wrong_arguments_of_function(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELECT substring() FROM people").collect()),
        error_of(lambda: x.people.selectExpr("sha2(name)").collect()),
    ]


@scenario("errors")
def group_by_error(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELECT id, count(*) FROM people").collect()),
        error_of(lambda: x.people.groupBy("region").agg(F.col("salary")).collect()),
    ]


@scenario("errors")
def set_operation_error(x: Place) -> Any:
    return error_of(lambda: x.people.select("id").union(x.dept.select("id", "title")).collect())


@scenario("errors")
def raised_by_the_query(x: Place) -> Any:
    return [
        error_of(lambda: x.people.select(F.raise_error(F.lit("on purpose"))).collect()),
        error_of(lambda: x.people.select(F.assert_true(F.col("id") < 3)).collect()),
    ]


@scenario("errors")
def overflow(x: Place) -> Any:
    return [
        error_of(lambda: x.people.select(F.col("id").cast("int") + F.lit(2147483647)).collect()),
        error_of(lambda: x.spark.sql("SELECT CAST(300 AS TINYINT)").collect()),
    ]


@scenario("errors")
def index_out_of_bounds(x: Place) -> Any:
    return error_of(lambda: x.people.select(F.expr("tags[7]")).collect())


@scenario("errors")
def bad_argument_markers(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELECT :missing", args={"other": 1}).collect()),
        error_of(lambda: x.spark.sql("SELECT ?, ?", args=[1]).collect()),
    ]


@scenario("errors")
def datetime_error(x: Place) -> Any:
    return [
        error_of(lambda: x.spark.sql("SELECT DATE'2023-13-45'")),
        error_of(lambda: x.spark.sql("SELECT to_date('nonsense', 'yyyy-MM-dd')").collect()),
    ]


@scenario("errors")
def scalar_subquery_of_many_rows(x: Place) -> Any:
    return error_of(lambda: x.spark.sql("SELECT (SELECT id FROM dept)").collect())


@scenario("errors")
def session_goes_on_after_errors(x: Place) -> Any:
    for _ in range(3):
        error_of(lambda: x.people.select("no_such_column").collect())
    return x.dept.count()


@scenario("errors")
def error_names_the_column(x: Place) -> Any:
    try:
        x.people.select("no_such_column").collect()
    except Exception as error:  # noqa: BLE001 - what it tells is the result
        text = str(error)
        parameters = error.getMessageParameters()  # type: ignore[attr-defined]
        return ["no_such_column" in text, (parameters or {}).get("objectName")]
    return "no error"
