"""Delta's and Iceberg's parsers before Spark's: what is read in two ways reaches no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins
from tests.e2e.running import RunningGateway

PACK = """
service: spark
policies:
  - name: analysts read
    on: {catalog: spark_catalog, database: lk, table: people, column: "*"}
    allow: [{groups: [analysts], access: [select, show]}]
  - name: numbers
    on: {catalog: spark_catalog, database: lk, table: people, column: ssn}
    mask: [{groups: [analysts], type: MASK_NULL}]
"""


@pytest.fixture(scope="module", params=["4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    lake.spark.query(
        "CREATE DATABASE lk",
        "CREATE TABLE lk.people (id INT, ssn STRING) USING delta",
        "INSERT INTO lk.people VALUES (1, '078-05-1120'), (2, '219-09-9999')",
        "CREATE DATABASE lk_copy",
        "CREATE TABLE lk_copy.people (id INT, ssn STRING) USING delta",
        "INSERT INTO lk_copy.people SELECT id, NULL FROM lk.people",
        user="loader",
    )
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    with lake.gateway("chain", PACK, {"bob": ["analysts"]}) as running:
        yield running


@pytest.fixture(scope="module")
def twins(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "bob", governed="lk", copies="lk_copy") as twins:
        yield twins


@pytest.mark.parametrize(
    "text",
    [
        r"SELECT r'\', 'CLUSTER /*' AS `*/ BY (x) ' AS c, ssn FROM spark_catalog.lk.people --'`",
        r"SELECT r'\', ' CLUSTER BY (x) ', ssn FROM people --'",
        "CREATE TEMPORARY VIEW v COMMENT r'\\' AS SELECT r\"\\\" -- CLUSTER /*\n"
        ', " CLUSTER /* */ BY (x) ", ssn FROM people --\'`',
    ],
)
def test_what_is_read_in_two_ways_is_refused(twins: Twins, text: str) -> None:
    assert twins.refusal(text).startswith("[SLUICE_TWO_READINGS]")


def test_what_is_read_in_one_way_is_governed(twins: Twins) -> None:
    for text in (
        "SELECT * FROM people CLUSTER BY id",
        "SELECT id /* /* */ CLUSTER BY (x) */, ssn FROM people ORDER BY id",
        r"SELECT r'\' AS a, ssn FROM people ORDER BY id",
        "SELECT 'drop branch' AS a, count(ssn) AS n FROM people",
        "SELECT * FROM people VERSION AS OF 1 ORDER BY id",
    ):
        twins.same(text)


def test_the_parser_runs_the_extensions_of_the_backend(gateway: RunningGateway) -> None:
    assert any(record.get("event") == "spark_attested" for record in gateway.records)
    assert not any(record.get("event") == "spark_reads_otherwise" for record in gateway.records)
