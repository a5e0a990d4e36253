"""Views of an Iceberg catalog: read as their text is over governed tables, by the rights of who counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e import one_pack
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins
from tests.e2e.running import RunningGateway

PACK = """
service: spark
policies:
  - name: analysts read views
    on: {catalog: over, database: seen, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select, show]}]
  - name: analysts read what they rest on
    on: {catalog: ice, database: base, table: [customer, turned], column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: stewards do all
    on: {catalog: [ice, over], database: "*", table: "*", column: "*"}
    allow: [{groups: [stewards], access: [all]}]
  - name: stewards have databases
    on: {catalog: [ice, over], database: "*"}
    allow: [{groups: [stewards], access: [all]}]
  - name: customers of a region
    on: {catalog: ice, database: base, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: ice, database: base, table: customer, column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: names in one view
    on: {catalog: over, database: seen, table: people, column: name}
    mask: [{groups: [analysts], type: MASK_NULL}]
"""
CANARY = "canary-3308"
ROWS = f"""(1, 'Ann', 'ann@{CANARY}', 'EMEA'), (2, '{CANARY}', 'bob@x.example', 'AMER'),
    (3, 'Eve', 'eve@x.example', 'EMEA')"""
NASTY = "COMMENT 'AS SELECT id' TBLPROPERTIES ('a' = ')\nAS\nSELECT 1 AS n\n', 'z' = 'it is')"


@pytest.fixture(scope="module", params=["3.5", "4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    made = []
    for base, views, rows in (
        ("base", "seen", f"VALUES {ROWS}"),
        (
            "base_copy",
            "seen_copy",
            f"SELECT id, name, sha2(email, 256), region FROM VALUES {ROWS} AS t(id, name, email, region) "
            "WHERE region = 'EMEA'",
        ),
    ):
        name = "name" if base == "base" else "CAST(NULL AS STRING) AS name"
        made += [
            f"CREATE DATABASE ice.{base}",
            f"CREATE TABLE ice.{base}.customer (id INT, name STRING, email STRING, region STRING) "
            "USING iceberg",
            f"INSERT INTO ice.{base}.customer {rows}",
            f"CREATE DATABASE over.{views}",
            f"CREATE VIEW over.{views}.people AS SELECT id, {name}, email FROM ice.{base}.customer",
            f"CREATE VIEW over.{views}.renamed (number COMMENT 'its id', mail) {NASTY} "
            f"AS SELECT id, email\nAS\nmail FROM ice.{base}.customer",
            f"CREATE TABLE ice.{base}.turned (a STRING, b STRING) USING iceberg",
            f"INSERT INTO ice.{base}.turned VALUES ('1', 'x')",
            f"CREATE VIEW over.{views}.by_place AS SELECT * FROM ice.{base}.turned",
            f"ALTER TABLE ice.{base}.turned ALTER COLUMN b FIRST",
            f"CREATE VIEW over.{views}.twice AS SELECT a.id, b.email FROM over.{views}.people a "
            f"JOIN ice.{base}.customer b ON a.id = b.id",
        ]
    lake.spark.query(
        "CREATE TABLE IF NOT EXISTS made_first (a INT) USING parquet",  # makes the metastore's own tables
        *made,
        "CREATE TABLE ice.base.secret (id INT, s STRING) USING iceberg",
        f"INSERT INTO ice.base.secret VALUES (1, '{CANARY}')",
        "CREATE VIEW over.seen.of_secret AS SELECT * FROM ice.base.secret",
        user="loader",
    )
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    with lake.gateway("views", PACK, {"bob": ["analysts"], "stew": ["stewards"]}) as running:
        yield running


@pytest.fixture(scope="module")
def bob(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "bob", governed="over.seen", copies="over.seen_copy") as twins:
        yield twins


@pytest.fixture(scope="module")
def steward(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "stew", governed="over.seen", copies="over.seen_copy") as twins:
        yield twins


def test_views_are_read_over_governed_tables(bob: Twins) -> None:
    bob.all_same(
        (
            "SELECT * FROM people ORDER BY id",
            "SELECT count(*) AS n, max(email) AS m FROM {db}.people",
            "SELECT id FROM people WHERE email = 'ann@canary-3308'",
            "SELECT id FROM people WHERE name IS NULL ORDER BY id",
            "SELECT * FROM renamed ORDER BY number",
            "SELECT a, b FROM by_place",
            "SELECT * FROM {db}.twice ORDER BY id",
            "SELECT p.id, r.mail FROM people p JOIN renamed r ON p.id = r.number ORDER BY p.id",
            "WITH v AS (SELECT * FROM people) SELECT id FROM v WHERE id IN (SELECT number FROM renamed)",
            "SELECT no_such FROM people",
            "DESCRIBE renamed",
        )
    )
    assert not bob.ours.ask("SELECT * FROM people").error


def test_dataframes_of_views(lake: LakeSpark, bob: Twins) -> None:
    if lake.spark.connect_port:
        bob.all_same_frames(
            {
                "table": lambda spark, db: spark.table("people"),
                "named": lambda spark, db: spark.read.table(f"{db}.renamed").filter("number > 1"),
                "joined": lambda spark, db: spark.table(f"{db}.twice").join(spark.table("people"), "id"),
            }
        )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM over.seen.of_secret",
        "SELECT * FROM ice.base.secret",
        "SELECT count(*) FROM of_secret",
        "SHOW CREATE TABLE over.seen.people",
        "CREATE OR REPLACE VIEW over.seen.people AS SELECT * FROM ice.base.customer",
        "DROP VIEW over.seen.people",
        "ALTER VIEW over.seen.people SET TBLPROPERTIES ('x' = 'y')",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM over.seen.of_secret",
        "SELECT * FROM over.seen.people VERSION AS OF 1",
        "SELECT * FROM over.seen.people.files",
    ],
)
def test_a_view_is_no_way_past(bob: Twins, text: str) -> None:
    message = bob.refusal(text)
    assert CANARY not in message
    assert message.startswith("[SLUICE_") or "[TABLE_OR_VIEW_NOT_FOUND]" in message, message


def test_a_view_lists_with_tables(bob: Twins) -> None:
    tables = {row[1] for row in bob.ours.ask("SHOW TABLES IN over.seen").rows}
    views = {row[1] for row in bob.ours.ask("SHOW VIEWS IN over.seen").rows}
    assert {"people", "renamed", "twice"} <= views
    assert tables <= views


def test_who_defined_a_view_through_the_gateway_lends_it(bob: Twins, steward: Twins) -> None:
    assert not steward.ours.ask("CREATE VIEW over.seen.lent AS SELECT id, s FROM ice.base.secret").error
    assert bob.ours.ask("SELECT * FROM over.seen.lent").rows == [(1, CANARY)]
    assert bob.refusal("SELECT * FROM ice.base.secret").startswith("[SLUICE_")
    assert not steward.ours.ask("DROP VIEW over.seen.lent").error
    assert bob.refusal("SELECT * FROM over.seen.lent")


def test_a_view_in_the_place_of_a_table(lake: LakeSpark, gateway: RunningGateway) -> None:
    """Sessions that have read the table, the gateway's own among them, keep it until they look again."""
    with contextlib.ExitStack() as opened:
        steward, known, new = (
            opened.enter_context(one_pack.session(gateway, "thrift", user)) for user in ("stew", "bob", "bob")
        )
        steward("CREATE TABLE over.seen.turned (id INT) USING iceberg")
        assert known("SELECT * FROM over.seen.turned") == []
        steward("DROP TABLE over.seen.turned")
        steward("CREATE VIEW over.seen.turned AS SELECT id, email FROM ice.base.customer WHERE id = 1")
        masked = bob_sees(new, "over.seen.people WHERE id = 1")
        for ask in (new, known):
            assert bob_sees(ask, "over.seen.turned") == masked
        steward("DROP VIEW over.seen.turned")
        steward("CREATE TABLE over.seen.turned (id INT, email STRING) USING iceberg")
        for ask in (new, known):
            assert bob_sees(ask, "over.seen.turned") == []
        steward("DROP TABLE over.seen.turned")


def bob_sees(ask: one_pack.Ask, source: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in ask(f"SELECT id, email FROM {source}")]
