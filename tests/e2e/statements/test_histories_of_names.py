"""Variables, functions and dynamic text over time: policies change, names are taken by others, sessions of
two people and of both endpoints stand beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException

from tests.e2e.one_pack import ENDPOINTS, Ask, session, write_settings
from tests.e2e.running import RunningGateway, Spark, until

SETUP = (
    "DROP DATABASE IF EXISTS named CASCADE",
    "CREATE DATABASE named",
    "CREATE TABLE named.pay USING parquet AS SELECT * FROM VALUES (1, 'EMEA', 10), (2, 'AMER', 20) "
    "AS t(id, region, amount)",
    "CREATE TABLE named.plain USING parquet AS SELECT 7 AS id",
    "CREATE VIEW named.over AS SELECT id, amount FROM named.pay WHERE region = 'EMEA'",
)
GRANTS = """
service: spark
policies:
  - name: everything in the database
    on:
      - {catalog: spark_catalog}
      - {catalog: spark_catalog, database: named}
      - {catalog: spark_catalog, database: named, table: "*", column: "*"}
      - {catalog: spark_catalog, database: named, udf: "*"}
      - {catalog: system, database: session, udf: "*"}
    allow: [{users: [owen], access: [all]}]
  - name: ann reads and calls
    on:
      - {catalog: spark_catalog, database: named}
      - {catalog: spark_catalog, database: named, table: "*", column: "*"}
      - {catalog: spark_catalog, database: named, udf: "*"}
      - {catalog: system, database: session, udf: "*"}
    allow: [{users: [ann], access: [use, select, execute, create]}]
"""
FILTER = """
  - name: one region
    on: {catalog: spark_catalog, database: named, table: pay}
    filter: [{users: [ann], where: "region = 'EMEA'"}]
"""
Put = Callable[[str], None]


@pytest.fixture(scope="module")
def named(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(*SETUP, user="loader")
    users: dict[str, list[str]] = {"owen": [], "ann": []}
    settings = write_settings(
        open_directory / "named", spark, GRANTS, users, policies={"paths": ["pack.yaml"], "reload_s": 0.2}
    )
    gateway = RunningGateway(settings).start()
    yield gateway
    assert gateway.stop() == 0
    spark.query("DROP DATABASE IF EXISTS named CASCADE", user="loader")


@pytest.fixture
def put(named: RunningGateway) -> Put:
    """Put another pack in force, and wait until a new statement is judged by it."""

    def version() -> float:
        _, metrics = named.admin("/metrics")
        (line,) = (line for line in metrics.splitlines() if line.startswith("sluice_policy_version "))
        return float(line.split()[1])

    def change(pack: str) -> None:
        file = named.config.parent / "pack.yaml"
        if file.read_text() == pack:
            return
        before = version()
        new = file.with_suffix(".new")
        new.write_text(pack)
        new.replace(file)
        until(lambda: version() > before, "the policies are in force")

    change(GRANTS + FILTER)
    return change


def said(ask: Ask, text: str) -> str:
    """Return what a statement is refused with, or fails with."""
    try:
        rows: Any = ask(text)
    except (hive.OperationalError, PySparkException) as error:
        return str(error)
    raise AssertionError(f"answered {rows}")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_value_ends_with_the_access_that_it_came_of(named: RunningGateway, put: Put, endpoint: str) -> None:
    put(GRANTS)
    with session(named, endpoint, "ann") as ann:
        ann("DECLARE v BIGINT")
        ann("DECLARE w BIGINT")
        ann("DECLARE own INT DEFAULT 3")
        ann("SET VAR v = (SELECT sum(amount) FROM named.pay)")
        ann("SET VAR w = v + 1")
        assert ann("SELECT v, w, own") == [(30, 31, 3)]
        put(GRANTS + FILTER)
        # What it came of would be other rows now, and so would what came of it.
        assert "UNRESOLVED_COLUMN" in said(ann, "SELECT v")
        assert "UNRESOLVED_COLUMN" in said(ann, "SELECT w")
        assert ann("SELECT own") == [(3,)]
        ann("DECLARE v BIGINT")
        ann("SET VAR v = (SELECT sum(amount) FROM named.pay)")
        assert ann("SELECT v") == [(10,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_variable_is_not_what_a_policy_or_a_view_names(
    named: RunningGateway, put: Put, endpoint: str, spark: Spark
) -> None:
    with session(named, endpoint, "ann") as ann:
        ann("DECLARE region STRING DEFAULT 'EMEA'")
        assert "DROP TEMPORARY VARIABLE region" in said(ann, "SELECT id FROM named.pay")
        assert "DROP TEMPORARY VARIABLE region" in said(ann, "SELECT id FROM named.over")
        assert ann("SELECT id FROM named.plain") == [(7,)]
        ann("DROP TEMPORARY VARIABLE region")
        assert ann("SELECT id FROM named.pay") == [(1,)]
        assert ann("SELECT id FROM named.over") == [(1,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_text_that_is_run_is_judged_and_takes_effect(named: RunningGateway, put: Put, endpoint: str) -> None:
    with session(named, endpoint, "ann") as ann:
        assert ann("EXECUTE IMMEDIATE 'SELECT id FROM named.pay'") == [(1,)]
        assert "ACCESS_DENIED" in said(ann, "EXECUTE IMMEDIATE 'DROP TABLE named.plain'")
        ann("DECLARE q STRING DEFAULT 'SELECT sum(amount) FROM named.pay'")
        assert ann("EXECUTE IMMEDIATE q") == [(10,)]
        ann("SET VAR q = upper('select 1')")
        assert "not known before it runs" in said(ann, "EXECUTE IMMEDIATE q")
        ann("EXECUTE IMMEDIATE 'USE named'")
        assert ann("SELECT id FROM pay") == [(1,)]
        ann("EXECUTE IMMEDIATE 'CREATE TEMPORARY VIEW mine AS SELECT id FROM pay'")
        assert ann("SELECT * FROM mine") == [(1,)]


def test_functions_of_a_database_are_everybodys_who_may(named: RunningGateway, put: Put) -> None:
    with session(named, "thrift", "owen") as owen, session(named, "connect", "ann") as ann:
        owen("USE named")
        owen("CREATE FUNCTION raised(x INT) RETURNS INT RETURN x + 1")
        assert owen("SELECT raised(1)") == [(2,)]
        ann("USE named")
        assert ann("SELECT raised(id) FROM pay") == [(2,)]
        owen("CREATE OR REPLACE FUNCTION raised(x INT) RETURNS INT RETURN x + 10")
        with session(named, "thrift", "ann") as later:  # Spark's sessions keep what they have called
            assert later("SELECT named.raised(id) FROM named.pay") == [(11,)]
        assert "ACCESS_DENIED" in said(ann, "DROP FUNCTION raised")
        assert "may read no table" in said(
            ann, "CREATE FUNCTION peek() RETURNS BIGINT RETURN SELECT sum(amount) FROM named.pay"
        )
        owen("DROP FUNCTION raised")
        assert "UNRESOLVED_ROUTINE" in said(ann, "SELECT raised(1)")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_temporary_function_that_goes_is_no_others(named: RunningGateway, put: Put, endpoint: str) -> None:
    with session(named, "thrift", "owen") as owen, session(named, endpoint, "ann") as ann:
        owen("CREATE FUNCTION named.both(x INT) RETURNS STRING RETURN 'of the database'")
        ann("USE named")
        ann("CREATE TEMPORARY FUNCTION both(x INT) RETURNS STRING RETURN 'of the session'")
        assert ann("SELECT both(1)") == [("of the session",)]
        ann("CREATE TEMPORARY VIEW calling AS SELECT both(id) AS b FROM pay")
        assert "VIEW_IN_USE" in said(ann, "DROP TEMPORARY FUNCTION both")
        ann("DROP VIEW calling")
        ann("DROP TEMPORARY FUNCTION both")
        assert ann("SELECT both(1)") == [("of the database",)]
        owen("DROP FUNCTION named.both")
