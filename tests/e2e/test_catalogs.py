"""A catalog that Spark was never told of: each session is given it, and policies hold there as everywhere.

It is a Derby database by way of JDBC. Its password is a secret of the gateway's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyhive import hive

from gateway.app.catalog_access import CatalogAccess, FoundCatalog, entry_named
from gateway.catalog.readable import CatalogRefused, DatabaseAlreadyExists, NoSuchDatabase
from gateway.cli import main
from gateway.settings import load_settings
from tests.catalog.contract import holds, raises
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, session, write_settings
from tests.e2e.running import RunningGateway, Spark, query

SECRET = "s3cret-of-the-shop"
CLASS = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
URL = "jdbc:derby:memory:told;create=true"
DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
PACK = """\
service: spark
policies:
  - name: the shop
    on:
      - {catalog: told}
      - {catalog: told, database: shop}
      - {catalog: told, database: shop, table: person, column: "*"}
    allow: [{users: [ann, bea], access: [use, show, select]}]
  - name: card
    on: {catalog: told, database: shop, table: person, column: card}
    mask: [{users: [bea], type: MASK_NULL}]
  - name: region
    on: {catalog: told, database: shop, table: person}
    filter: [{users: [bea], where: "region = 1"}]
  - name: settings
    on: {setting: "*"}
    allow: [{users: [ann, bea], access: [show, set]}]
  - name: what is bought
    on: {catalog: spark_catalog, database: shopping, table: "*", column: "*"}
    allow: [{users: [ann, bea], access: [select, create]}]
  - name: cities
    on: {catalog: spark_catalog, database: shopping, table: bought}
    filter: [{users: [bea], where: "city <> 'Ulm'"}]
"""
METRICS = """CREATE VIEW shopping.{} WITH METRICS LANGUAGE YAML AS $$
version: 0.1
source: {}
dimensions:
  - name: city
    expr: upper(city)
  - name: card
    expr: card
measures:
  - name: total
    expr: sum(paid)
  - name: cards
    expr: max(card)
  - name: people
    expr: count(DISTINCT id)
$$"""
BOTH = "told.shop.person p JOIN spark_catalog.shopping.bought b ON b.person = p.id"
TOLD = (
    f"SET spark.sql.catalog.told={CLASS}",
    f"SET `spark.sql.catalog.told.url`=`{URL}`",
    f"SET spark.sql.catalog.told.driver={DRIVER}",
)


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(
        *TOLD,
        "CREATE NAMESPACE told.shop",
        "CREATE TABLE told.shop.person (id INT, card INT, region INT)",
        "INSERT INTO told.shop.person VALUES (1, 4000, 1), (2, 4001, 2)",
    )
    told = {
        "type": "jdbc",
        "connection-params": {
            "url": URL,
            "driver": DRIVER,
            "user": "shop",
            "password": {"env": "SLUICE_TEST_SHOP"},
        },
    }
    file = write_settings(
        open_directory / "told",
        spark,
        PACK,
        {"ann": [], "bea": [], "cid": []},
        catalogs=[{"name": "told", "catalog": told}],  # type: ignore[arg-type]
    )
    os.environ["SLUICE_TEST_SHOP"] = SECRET
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0
    del os.environ["SLUICE_TEST_SHOP"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_policies_hold_in_a_catalog_that_only_the_gateway_knows(
    gateway: RunningGateway, endpoint: str
) -> None:
    with session(gateway, endpoint, "ann") as ann, session(gateway, endpoint, "bea") as bea:
        assert ann("SELECT * FROM told.shop.person") == [(1, 4000, 1), (2, 4001, 2)]
        assert bea("SELECT * FROM told.shop.person") == [(1, None, 1)]
        # Two parts are a table in the current catalog, one is in the current database.
        bea("SET CATALOG 'told'")
        assert bea("SELECT id FROM shop.person") == [(1,)]
        bea("USE told.shop")
        assert bea("SELECT id FROM person") == [(1,)]
        assert ("told",) in bea("SHOW CATALOGS")
        bea("USE spark_catalog.default")
        assert bea("SELECT id FROM told.shop.person") == [(1,)]


@pytest.fixture(scope="module")
def metrics(spark: Spark, gateway: RunningGateway) -> Iterator[None]:
    """A metric view over tables of two catalogs, and one over what bea sees of these."""
    rows = "(1, 10, 'Bonn'), (1, 20, 'Ulm'), (2, 40, 'Bonn'), (1, 80, 'Kiel')"
    spark.query(
        *TOLD,
        "CREATE DATABASE shopping",
        "CREATE TABLE shopping.bought (person INT, paid INT, city STRING) USING parquet",
        f"INSERT INTO shopping.bought VALUES {rows}",
        "CREATE TABLE shopping.seen USING parquet AS SELECT id, CAST(NULL AS INT) AS card, paid, city "
        f"FROM {BOTH} WHERE p.region = 1 AND b.city <> 'Ulm'",
        METRICS.format("metrics", f"SELECT p.id, p.card, b.paid, b.city FROM {BOTH}"),
        METRICS.format("seen_metrics", "shopping.seen"),
        user="loader",
    )
    yield
    spark.query("DROP DATABASE shopping CASCADE", user="loader")


@pytest.mark.usefixtures("metrics")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_metric_view_over_two_catalogs_hides_what_each_of_them_hides(
    spark: Spark, gateway: RunningGateway, endpoint: str
) -> None:
    own = f"own_{endpoint}"
    with session(gateway, endpoint, "ann") as ann, session(gateway, endpoint, "bea") as bea:
        ann(METRICS.format(own, f"SELECT p.id, p.card, b.paid, b.city FROM {BOTH}"))
        for text in (
            "SELECT city, measure(total) AS t, measure(cards) AS c FROM {} GROUP BY city",
            "SELECT measure(people) AS n, measure(total) AS t FROM {} WHERE card IS NULL",
            "SELECT card, measure(total) AS t FROM {} WHERE city <> 'KIEL' GROUP BY ALL",
            "SELECT * FROM {} LIMIT 0",
            "WITH m AS (SELECT * FROM {}) SELECT * FROM m LIMIT 0",
        ):
            wanted = sorted(spark.query(text.format("shopping.seen_metrics")), key=repr)
            whole = sorted(spark.query(*TOLD, text.format("shopping.metrics")), key=repr)
            for name in ("metrics", own):
                told = bea(text.format(f"shopping.{name}"))
                assert sorted(map(tuple, told), key=repr) == wanted, (name, text)
                told = ann(text.format(f"shopping.{name}"))
                assert sorted(map(tuple, told), key=repr) == whole, (name, text)
        with pytest.raises(Exception, match="SLUICE_NOT_GOVERNABLE"):
            bea("SELECT card FROM shopping.metrics")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_who_may_see_nothing_of_it_sees_no_such_catalog(gateway: RunningGateway, endpoint: str) -> None:
    with session(gateway, endpoint, "cid") as cid:
        assert ("told",) not in cid("SHOW CATALOGS")
        with pytest.raises(Exception, match=r"ACCESS_DENIED|not found|select"):
            cid("SELECT * FROM told.shop.person")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_its_password_reaches_no_client(gateway: RunningGateway, endpoint: str) -> None:
    with session(gateway, endpoint, "ann") as ann:
        shown = [
            *ann("SET"),
            *ann("SET -v"),
            *ann("DESCRIBE TABLE EXTENDED told.shop.person"),
            *ann("EXPLAIN EXTENDED SELECT * FROM told.shop.person"),
        ]
        assert SECRET not in str(shown)
        assert not [row for row in shown if str(row[0]).startswith("spark.sql.catalog.told.")]
        for key in ("password", "url"):
            with pytest.raises(Exception, match=r"not shown|secret") as raised:
                ann(f"SET spark.sql.catalog.told.{key}")
            assert SECRET not in str(raised.value)
        with pytest.raises(Exception, match="pinned"):
            ann("SET `spark.sql.catalog.told.url`=`jdbc:derby:memory:other;create=true`")
    assert SECRET not in str(gateway.records)


def test_connect_config_tells_no_client(gateway: RunningGateway) -> None:
    with gateway.session("ann", PASSWORD) as frames:
        assert SECRET not in str(frames.conf.getAll)
        with pytest.raises(Exception, match="secret"):
            frames.conf.get("spark.sql.catalog.told.password")
        assert [row.id for row in frames.table("told.shop.person").orderBy("id").collect()] == [1, 2]


def test_an_error_of_the_catalog_names_no_password(gateway: RunningGateway) -> None:
    with pytest.raises(hive.OperationalError) as raised:
        query(gateway.host, gateway.port, "ann", "SELECT * FROM told.shop.nothing", password=PASSWORD)
    assert SECRET not in str(raised.value)


def test_a_catalog_that_spark_alone_reaches_holds_the_contract_of_catalogs(gateway: RunningGateway) -> None:
    async def hold() -> None:
        settings = load_settings(gateway.config)
        own = entry_named(settings, "SPARK_CATALOG")
        assert own is not None
        async with CatalogAccess(settings) as access:
            catalog = await access.open(FoundCatalog(own))
            await holds(catalog, "written")

    asyncio.run(hold())


def test_a_database_behind_jdbc_is_read_and_written_through_spark(
    gateway: RunningGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    async def written() -> None:
        settings = load_settings(gateway.config)
        told = entry_named(settings, "told")
        assert told is not None
        async with CatalogAccess(settings) as access:
            catalog = await access.open(FoundCatalog(told))
            person = await catalog.table("shop", "person")
            assert [(one.name.lower(), one.type) for one in person.columns] == [
                ("id", "int"),
                ("card", "int"),
                ("region", "int"),
            ]
            await raises(NoSuchDatabase, catalog.tables("made"))
            await catalog.create_database("made")
            await raises(DatabaseAlreadyExists, catalog.create_database("made"))
            for question in (catalog.tables, catalog.views, catalog.functions):
                assert list(await question("made")) == []
            # Derby has no such statement without a word that Spark does not write.
            with pytest.raises(CatalogRefused, match=r"^\[FAILED_JDBC") as raised:
                await catalog.drop_database("made")
            assert SECRET not in raised.value.message

    asyncio.run(written())
    assert main(["catalogs", "test", "told", "-c", str(gateway.config)]) == 0
    assert "told: answers, with " in capsys.readouterr().out
    assert main(["catalogs", "show", "told.shop.person", "-c", str(gateway.config)]) == 0
    shown = capsys.readouterr().out
    assert "card int" in shown.lower()
    assert SECRET not in shown
