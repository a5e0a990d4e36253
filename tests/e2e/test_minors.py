"""What has to hold before each minor of Spark: `make minors` runs this before those but the newest."""

from __future__ import annotations

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import Observation
from pyspark.sql.connect import functions

from gateway.model.spark_minors import minor_of
from gateway.reader.java_runtime import find_spark_home, spark_version
from tests.e2e.running import RunningGateway, Spark, takes_plans

NAMES = "SELECT name, email FROM hr.employee ORDER BY id LIMIT 2"
MASKED = [
    ("Liam Haddad", "xxxx.xxxxxx@xxxxxxxxx.xxxxxxx"),
    ("Ingrid Nakamura", "xxxxxx.xxxxxxxx@xxxxxxxxx.xxxxxxx"),
]
REGIONS = "SELECT DISTINCT region FROM sales.customer"


def test_the_gateway_took_the_parser_of_its_backend(gateway: RunningGateway, spark: Spark) -> None:
    ((version,),) = spark.query("SELECT version()")
    assert minor_of(str(version)) == minor_of(spark_version(find_spark_home()))
    attested = {record["version"] for record in gateway.records if record.get("event") == "spark_attested"}
    assert {minor_of(one) for one in attested} == {minor_of(str(version))}


def test_masks_and_filters_on_both_endpoints(gateway: RunningGateway, spark: Spark) -> None:
    everywhere = spark.query(REGIONS)
    mine = gateway.query("carol", REGIONS)
    assert 0 < len(mine) < len(everywhere)
    assert gateway.query("bob", NAMES) == MASKED
    if not takes_plans():
        return
    with gateway.session("bob") as session:
        assert [tuple(row) for row in session.sql(NAMES).collect()] == MASKED
        for _ in range(2):
            # Made again, it has other ids and the same verdict; what is observed comes by its id.
            seen = Observation("seen")
            frame = session.table("hr.employee").orderBy("id").select("name", "email").limit(2)
            frame = frame.observe(seen, functions.count(functions.lit(1)).alias("rows"))
            assert [tuple(row) for row in frame.collect()] == MASKED
            assert seen.get == {"rows": 2}
    with gateway.session("carol") as session:
        assert sorted(tuple(row) for row in session.sql(REGIONS).collect()) == sorted(mine)
        frame = session.read.table("sales.customer").select("region").distinct()
        assert sorted(tuple(row) for row in frame.collect()) == sorted(mine)


def test_each_mask_that_calls_a_function(gateway: RunningGateway) -> None:
    """The functions of a mask are Spark's own, by whichever name this Spark has for them."""
    for person in ("bob", "carol"):
        columns = [row[0] for row in gateway.query(person, "DESCRIBE sales.customer") if row[1]]
        seen = gateway.query(person, f"SELECT {', '.join(columns)} FROM sales.customer")
        assert seen
        if not takes_plans():
            continue
        with gateway.session(person) as session:
            assert len(session.table("sales.customer").select(*columns).collect()) == len(seen) > 0


def test_views_are_judged_by_their_text(gateway: RunningGateway, spark: Spark) -> None:
    """Also one with columns that lists of names could be taken apart at."""
    view, text = "hr.of_any_minor", "SELECT name, email FROM hr.employee"
    spark.query(f"CREATE OR REPLACE VIEW {view} (name, `e, mail`) AS {text}", user="loader")
    try:
        seen = gateway.query("dave", f"SELECT * FROM {view}")
        assert sorted(seen) == sorted(spark.query(text))
        assert "needs select" in gateway.refusal("bob", f"SELECT * FROM {view}")
    finally:
        spark.query(f"DROP VIEW {view}", user="loader")


def test_a_view_that_was_made_under_other_settings_is_refused(gateway: RunningGateway, spark: Spark) -> None:
    """Its text may say something else to Spark than to the parser: here, what stands in double quotes."""
    view = "hr.of_another_session"
    spark.query(
        "SET spark.sql.ansi.doubleQuotedIdentifiers=true",
        "SET spark.sql.ansi.enabled=true",
        f"CREATE OR REPLACE VIEW {view} AS SELECT id FROM hr.employee WHERE \"ssn\" > ''",
        user="loader",
    )
    try:
        assert "is not available" in gateway.refusal("dave", f"SELECT * FROM {view}")
    finally:
        spark.query(f"DROP VIEW {view}", user="loader")


def test_lists_of_databases_tables_and_columns(gateway: RunningGateway) -> None:
    assert ("hr",) in gateway.query("bob", "SHOW DATABASES")
    tables = {row[1] for row in gateway.query("bob", "SHOW TABLES IN hr")}
    assert "employee" in tables
    assert {row[1] for row in gateway.query("bob", "USE hr", "SHOW TABLES")} == tables
    (row,) = gateway.query("bob", "SHOW TABLE EXTENDED IN hr LIKE 'employee'")
    assert row[1] == "employee"
    described = [row[0] for row in gateway.query("bob", "DESCRIBE hr.employee")]
    assert [row[0] for row in gateway.query("bob", "SHOW COLUMNS IN hr.employee")] == described


def test_the_default_of_a_column_is_read(gateway: RunningGateway) -> None:
    for statement in (
        "CREATE TABLE default.n (a STRING DEFAULT reflect('java.lang.System', 'getenv', 'HOME'))",
        "ALTER TABLE default.n ADD COLUMNS (a STRING DEFAULT reflect('java.lang.System', 'lineSeparator'))",
    ):
        assert "on udf system.session.reflect" in gateway.refusal("dave", statement)


def test_nobody_makes_a_function_with_the_name_of_a_built_in(gateway: RunningGateway) -> None:
    for name in ("sha2", "mask", "length"):
        statement = f"CREATE TEMPORARY FUNCTION {name} AS 'x.Y'"
        assert "functions of classes and jars are code" in gateway.refusal("bob", statement)
        if not takes_plans():
            continue
        with gateway.session("bob") as session, pytest.raises(Exception, match="built-in function of Spark"):
            session.udf.register(name, lambda value: value)


def test_a_plan_of_a_newer_spark_is_refused_with_the_version(gateway: RunningGateway, spark: Spark) -> None:
    ((version,),) = spark.query("SELECT version()")
    if minor_of(str(version)) >= (4, 3) or not takes_plans():
        return
    with gateway.session("bob") as session:
        request = session.client._execute_plan_request_with_metadata()
        zipped = request.plan.root.zip
        zipped.left.range.end = zipped.right.range.end = 3
        zipped.left.range.step = zipped.right.range.step = 1
        with pytest.raises(SparkConnectGrpcException, match=r"Relation\.zip needs Spark 4\.3"):
            session.client._execute_and_fetch(request, {}, None)
