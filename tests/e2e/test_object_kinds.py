"""What is neither a table nor a view is refused by its kind, through both endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException
from pyspark.sql.connect import functions

from tests.e2e.lab import CANARY, PASSWORD
from tests.e2e.running import RunningGateway, Spark, query

METRICS = "lab.tmp_metrics"
"""A metric view that mallory may select, over a table with a mask and a row filter."""
MAKE = f"""CREATE VIEW {METRICS} WITH METRICS LANGUAGE YAML AS $$
version: 0.1
source: {{source}}
dimensions:
  - name: ssn
    expr: ssn
measures:
  - name: last_name
    expr: max(name)
$$"""
SOURCES = {"a table": "lab.masked", "a query": "SELECT ssn, name FROM lab.masked"}
READS = (
    f"SELECT ssn, measure(last_name) FROM {METRICS} GROUP BY ssn",
    f"SELECT measure(last_name) FROM {METRICS}",
    f"SELECT count(*) FROM {METRICS}",
    f"SELECT * FROM {METRICS}",
    f"WITH m AS (SELECT ssn FROM {METRICS} GROUP BY ssn) SELECT * FROM m",
    f"CACHE TABLE kept AS SELECT ssn FROM {METRICS} GROUP BY ssn",
    f"CREATE TEMPORARY VIEW over_it AS SELECT ssn FROM {METRICS} GROUP BY ssn",
)
FRAMES: dict[str, Callable[[Any], Any]] = {
    "measure": lambda session: (
        session.table(METRICS).groupBy("ssn").agg(functions.expr("measure(last_name)"))
    ),
    "count": lambda session: session.table(METRICS).groupBy().count(),
    "read": lambda session: session.read.table(METRICS).select("ssn").distinct(),
}


@pytest.fixture(params=SOURCES)
def metrics(request: pytest.FixtureRequest, spark: Spark, lab_gateway: RunningGateway) -> Iterator[None]:
    """The view, after the gateway, which makes the tables."""
    spark.query(MAKE.format(source=SOURCES[request.param]), user="loader")
    yield
    spark.query(f"DROP VIEW {METRICS}", user="loader")


@pytest.mark.usefixtures("metrics")
def test_a_metric_view_shows_spark_what_is_hidden(spark: Spark) -> None:
    """Else its refusals would say little."""
    assert CANARY in repr(spark.query(READS[0]))


@pytest.mark.usefixtures("metrics")
def test_a_metric_view_is_refused_in_sql(lab_gateway: RunningGateway) -> None:
    for user in ("mallory", "tess"):
        for text in READS:
            with pytest.raises(Exception, match=r"SLUICE_NOT_GOVERNABLE.*is a metric view") as refused:
                query(lab_gateway.host, lab_gateway.port, user, text, password=PASSWORD)
            assert CANARY not in str(refused.value)


@pytest.mark.usefixtures("metrics")
def test_a_metric_view_is_refused_in_dataframes(lab_gateway: RunningGateway) -> None:
    with lab_gateway.session("mallory", PASSWORD) as session:
        for make in FRAMES.values():
            frame = make(session)
            with pytest.raises(SparkConnectException, match="is a metric view"):
                frame.collect()
            with pytest.raises(SparkConnectException, match="is a metric view"):
                frame.schema  # noqa: B018 - asking for it is what is tried
        for text in READS[:4]:
            with pytest.raises(SparkConnectException, match="is a metric view"):
                session.sql(text).collect()


@pytest.mark.usefixtures("metrics")
def test_a_view_over_a_metric_view_lends_nothing(spark: Spark, lab_gateway: RunningGateway) -> None:
    spark.query(f"CREATE VIEW lab.tmp_over AS SELECT ssn FROM {METRICS} GROUP BY ssn", user="loader")
    try:
        with pytest.raises(Exception, match=r"SLUICE_") as refused:
            query(lab_gateway.host, lab_gateway.port, "tess", "SELECT * FROM lab.tmp_over", password=PASSWORD)
        assert CANARY not in str(refused.value)
    finally:
        spark.query("DROP VIEW lab.tmp_over", user="loader")
