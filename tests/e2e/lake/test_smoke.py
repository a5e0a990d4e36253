"""What has to hold before every minor of Spark: masks, filters and refusals, on each endpoint, in seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.model.spark_minors import NEWEST, SUPPORTED, Minor
from tests.e2e import one_pack
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins
from tests.e2e.running import RunningGateway
from tests.shares import in_turn

PACK = """
service: spark
policies:
  - name: analysts read the shop
    on: {catalog: spark_catalog, database: smoke, table: customer, column: "*"}
    allow: [{groups: [analysts], access: [select, show]}]
  - name: customers of a region
    on: {catalog: spark_catalog, database: smoke, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: spark_catalog, database: smoke, table: customer, column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: numbers
    on: {catalog: spark_catalog, database: smoke, table: customer, column: phone}
    mask: [{groups: [analysts], type: MASK_SHOW_LAST_4}]
  - name: tess sees all
    on: {catalog: spark_catalog, database: smoke_copy, table: "*", column: "*"}
    allow: [{users: [tess], access: [select]}]
  - name: and make metric views of them
    on: {catalog: spark_catalog, database: "smoke*", table: "metrics*", column: "*"}
    allow: [{groups: [analysts], access: [select, show, create, drop]}]
"""
METRICS = """CREATE VIEW {db}.{name} WITH METRICS LANGUAGE YAML AS $$
version: 0.1
source: {source}
filter: id > 0
dimensions:
  - name: The Region
    expr: lower(region)
  - name: day
    expr: day
measures:
  - name: customers
    expr: count(DISTINCT email)
  - name: last
    expr: max(phone)
  - name: share
    expr: round(sum(id) / count(*), 2)
$$"""
MEASURED = (
    "SELECT `the region`, MEASURE(customers) FROM {v} GROUP BY `The Region`",
    "SELECT measure(last) AS l, count(*) AS n FROM {v} m WHERE m.day = DATE'2024-01-02'",
    "SELECT day, measure(share) AS s FROM {v} GROUP BY ALL HAVING s > 1 ORDER BY day",
    "WITH m AS (SELECT day, measure(last) AS l FROM {v} GROUP BY day) SELECT max(l) FROM m",
    "SELECT * FROM {v} LIMIT 0",
    "DESCRIBE {v}",
)
pytestmark = pytest.mark.in_turn(1)
WITH_METRICS = Minor(4, 2)
"""Since this one, there are metric views."""
BESIDE = ("3.5", "4.1")
"""Minors whose Sparks the suites of table formats have up."""
ALONE = [str(minor) for minor in SUPPORTED if minor < NEWEST and str(minor) not in BESIDE]
MINORS = [*in_turn(BESIDE, 2), *in_turn(ALONE, len(ALONE))]
ROWS = """(1, 'Ann', 'ann@x.example', '555-0123', 'EMEA', DATE'2024-01-01'),
    (2, 'Bob', 'bob@x.example', '555-0199', 'AMER', DATE'2024-01-02'),
    (3, 'Eve', 'eve@x.example', NULL, 'EMEA', DATE'2024-01-02')"""
STATEMENTS = (
    "SELECT * FROM customer ORDER BY id",
    "SELECT count(*) AS n FROM customer",
    "SELECT day, count(DISTINCT region) AS n, max(email) AS m FROM customer GROUP BY day ORDER BY day",
    "SELECT a.name FROM customer a JOIN customer b ON a.email = b.email WHERE b.phone LIKE '%0123'",
    "WITH c AS (SELECT id, upper(name) AS n FROM customer) SELECT * FROM c WHERE id IN (SELECT id FROM c)",
    "SELECT id FROM customer WHERE day = DATE'2024-01-02' UNION ALL SELECT -id FROM customer ORDER BY id",
    "SELECT user FROM (SELECT name AS user FROM customer) WHERE user <> 'x' ORDER BY user",
    "WITH c AS (SELECT day AS current_date FROM customer) SELECT max(current_date) AS d FROM c",
    "SELECT no_such FROM customer",
    "SHOW COLUMNS IN customer",
)


@pytest.fixture(scope="module", params=MINORS)
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    columns = "(id INT, name STRING, email STRING, phone STRING, region STRING, day DATE) USING parquet"
    lake.spark.query(
        "CREATE DATABASE smoke",
        f"CREATE TABLE smoke.customer {columns} PARTITIONED BY (day)",
        f"INSERT INTO smoke.customer VALUES {ROWS}",
        "CREATE TABLE smoke.secret (id INT) USING parquet",
        "CREATE DATABASE smoke_copy",
        f"CREATE TABLE smoke_copy.customer {columns} PARTITIONED BY (day)",
        "INSERT INTO smoke_copy.customer SELECT id, name, sha2(email, 256), "
        "regexp_replace(left(phone, length(phone) - 4), '[0-9]', 'x') || right(phone, 4), region, day "
        "FROM smoke.customer WHERE region = 'EMEA'",
        user="loader",
    )
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    with lake.gateway("smoke", PACK, {"bob": ["analysts"], "eve": [], "tess": []}) as running:
        yield running


@pytest.fixture(scope="module")
def twins(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "bob", governed="smoke", copies="smoke_copy") as twins:
        yield twins


def test_masked_and_filtered_as_a_copy_made_beforehand(twins: Twins) -> None:
    for text in STATEMENTS:
        twins.same(text)


def test_dataframes_as_over_a_copy(lake: LakeSpark, twins: Twins) -> None:
    if not lake.spark.connect_port:
        return
    twins.same_frame("ordered", lambda spark, db: spark.table("customer").orderBy("id"), ordered=True)
    twins.same_frame(
        "a column before a function",
        lambda spark, db: spark.sql("WITH c AS (SELECT name AS user FROM customer) SELECT user FROM c"),
    )
    twins.same_frame(
        "grouped", lambda spark, db: spark.read.table(f"{db}.customer").groupBy("region").count()
    )
    twins.same_frame(
        "of a text", lambda spark, db: spark.sql("SELECT * FROM customer").filter("phone IS NULL")
    )


def test_metric_views_as_over_a_copy(lake: LakeSpark, gateway: RunningGateway, twins: Twins) -> None:
    """Made by the operator and through the gateway; with whom nothing is hidden Spark reads them by name."""
    if lake.minor < WITH_METRICS:
        return
    from pyspark.sql.connect import functions

    made = {"smoke": "{db}.customer", "smoke_copy": "SELECT * FROM smoke_copy.customer"}
    for database, source in made.items():
        text = METRICS.format(db=database, name="metrics", source=source.format(db=database))
        lake.spark.query(text, user="loader")
    for name, source in (("metrics_own", "smoke.customer"), ("metrics_sql", "SELECT * FROM smoke.customer")):
        twins.ours.ask(METRICS.format(db="smoke", name=name, source=source))
        for text in MEASURED:
            twins.same(text, v=(name, "metrics"))
    for text in MEASURED:
        twins.same(text, v=("metrics", "metrics"))
    twins.same_frame(
        "measure",
        lambda spark, db: (
            spark.table("metrics").groupBy("day").agg(functions.expr("measure(customers) AS c"))
        ),
    )
    twins.same_frame("columns", lambda spark, db: spark.table("metrics").limit(0))
    by_name = "SELECT day, measure(customers) AS c FROM smoke_copy.metrics GROUP BY day"
    with one_pack.session(gateway, "connect", "tess") as ask:
        told = [(str(day), customers) for day, customers in ask(by_name)]
        assert told == sorted(lake.spark.query(by_name))
    assert "list its columns" in twins.refusal("SELECT * FROM metrics")
    assert "DENIED" in twins.refusal(METRICS.format(db="smoke", name="metrics_no", source="smoke.secret"))


def test_the_parser_is_the_backends(lake: LakeSpark, gateway: RunningGateway) -> None:
    attested = {record["version"] for record in gateway.records if record.get("event") == "spark_attested"}
    assert attested
    assert all(version.startswith(f"{lake.minor}.") for version in attested)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM secret",
        "INSERT INTO customer SELECT * FROM customer",
        "DROP TABLE customer",
        "CREATE TEMPORARY FUNCTION sha2 AS 'x.Y'",
        "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
        "SELECT * FROM parquet.`/tmp`",
    ],
)
def test_refused(twins: Twins, text: str) -> None:
    assert twins.refusal(text).startswith("[SLUICE_")
