"""What has to hold before each minor of Spark: `make minors` runs this before those but the newest."""

from __future__ import annotations

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from gateway.catalog.describe import table_from_json
from gateway.model.catalog import TableName
from gateway.model.spark_minors import minor_of
from gateway.reader.java_runtime import find_spark_home, spark_version
from tests.e2e.running import RunningGateway, Spark

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
    with gateway.session("bob") as session:
        assert [tuple(row) for row in session.sql(NAMES).collect()] == MASKED
        frame = session.table("hr.employee").orderBy("id").select("name", "email").limit(2)
        assert [tuple(row) for row in frame.collect()] == MASKED
    with gateway.session("carol") as session:
        assert sorted(tuple(row) for row in session.sql(REGIONS).collect()) == sorted(mine)
        frame = session.read.table("sales.customer").select("region").distinct()
        assert sorted(tuple(row) for row in frame.collect()) == sorted(mine)


def test_each_mask_that_calls_a_function(gateway: RunningGateway) -> None:
    """The functions of a mask are Spark's own, by whichever name this Spark has for them."""
    for person in ("bob", "carol"):
        columns = [row[0] for row in gateway.query(person, "DESCRIBE sales.customer") if row[1]]
        seen = gateway.query(person, f"SELECT {', '.join(columns)} FROM sales.customer")
        with gateway.session(person) as session:
            assert len(session.table("sales.customer").select(*columns).collect()) == len(seen) > 0


def test_spark_describes_tables_and_views_in_a_form_that_is_read(spark: Spark) -> None:
    view = TableName("spark_catalog", "default", "of_any_minor")
    spark.query(f"CREATE OR REPLACE VIEW {view} AS SELECT id, name FROM hr.employee", user="loader")
    try:
        ((described,),) = spark.query(f"DESCRIBE TABLE EXTENDED {view} AS JSON", user="loader")
        found = table_from_json(described, view)
    finally:
        spark.query(f"DROP VIEW {view}", user="loader")
    assert [column.name for column in found.columns] == ["id", "name"]
    assert found.view is not None
    assert found.view.text == "SELECT id, name FROM hr.employee"


def test_nobody_makes_a_function_with_the_name_of_a_built_in(gateway: RunningGateway) -> None:
    for name in ("sha2", "mask", "length"):
        statement = f"CREATE TEMPORARY FUNCTION {name} AS 'x.Y'"
        assert "creating functions is not supported" in gateway.refusal("bob", statement)
        with gateway.session("bob") as session, pytest.raises(Exception, match="function of Spark's own"):
            session.udf.register(name, lambda value: value)


def test_a_plan_of_a_newer_spark_is_refused_with_the_version(gateway: RunningGateway, spark: Spark) -> None:
    ((version,),) = spark.query("SELECT version()")
    if minor_of(str(version)) >= (4, 3):
        return
    with gateway.session("bob") as session:
        request = session.client._execute_plan_request_with_metadata()
        zipped = request.plan.root.zip
        zipped.left.range.end = zipped.right.range.end = 3
        zipped.left.range.step = zipped.right.range.step = 1
        with pytest.raises(SparkConnectGrpcException, match=r"Relation\.zip came with Spark 4\.3"):
            session.client._execute_and_fetch(request, {}, None)
