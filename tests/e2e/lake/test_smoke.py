"""What has to hold before every minor of Spark: masks, filters and refusals, on each endpoint, in seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.model.spark_minors import NEWEST, SUPPORTED
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
"""
pytestmark = pytest.mark.in_turn(1)
BESIDE = ("3.5", "4.1")
"""Minors whose Sparks the suites of table formats have up."""
ALONE = [str(minor) for minor in SUPPORTED if minor < NEWEST and str(minor) not in BESIDE]
MINORS = [*BESIDE, *in_turn(ALONE, len(ALONE))]
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
    with lake.gateway("smoke", PACK, {"bob": ["analysts"], "eve": []}) as running:
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
        "grouped", lambda spark, db: spark.read.table(f"{db}.customer").groupBy("region").count()
    )
    twins.same_frame(
        "of a text", lambda spark, db: spark.sql("SELECT * FROM customer").filter("phone IS NULL")
    )


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
