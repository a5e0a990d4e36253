"""A real Hive metastore in `catalogs:`, of which an embedded Spark is told: policies hold on its tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.backends.unprivileged import run_as
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.frontends.users import set_user
from tests.catalog.hive_server import hive_metastore
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, session
from tests.e2e.running import LoopThread, RunningGateway

PACK = """
service: spark
tags:
  - on: {catalog: spark_catalog, database: shop, table: person, column: phone}
    tags: [PII]
policies:
  - name: who sets it up
    on:
      - {catalog: spark_catalog}
      - {catalog: spark_catalog, database: "*"}
      - {catalog: spark_catalog, database: "*", table: "*", column: "*"}
    allow: [{users: [loader], access: [all]}]
  - name: the shop
    on:
      - {catalog: spark_catalog}
      - {catalog: spark_catalog, database: shop}
      - {catalog: spark_catalog, database: shop, table: "*", column: "*"}
    allow: [{groups: [readers], access: [use, show, select]}]
  - name: not for eve
    on: {catalog: spark_catalog, database: shop, table: person, column: "*"}
    deny: [{users: [eve], access: [select]}]
  - name: of a region
    on: {catalog: spark_catalog, database: shop, table: person}
    filter: [{users: [bob], where: "region = 1"}]
  - name: cards
    on: {catalog: spark_catalog, database: shop, table: person, column: card}
    mask: [{users: [bob], type: MASK_HASH}]
  - name: what is personal
    on: {tag: PII}
    mask: [{users: [bob], type: MASK_NULL}]
"""


@pytest.fixture(scope="module")
def metastore(open_directory: Path) -> Iterator[int]:
    """As the user that Spark is: it makes directories that Spark writes into."""
    place = open_directory / "metastore"
    place.mkdir()
    user = run_as()
    if user is not None:
        os.chown(place, user.uid, user.gid)
    with hive_metastore(place, **({"user": user.uid, "group": user.gid} if user else {})) as port:
        yield port


@pytest.fixture(scope="module")
def gateway(metastore: int, open_directory: Path) -> Iterator[RunningGateway]:
    directory = open_directory / "hive"
    directory.mkdir(mode=0o711)
    for user, groups in {"loader": [], "ann": ["readers"], "bob": ["readers"], "eve": ["readers"]}.items():
        set_user(directory / "users.yaml", user, password=PASSWORD, groups=groups)
    (directory / "pack.yaml").write_text(PACK)
    hive = {"type": "hive", "connection-params": {"hive.metastore.uris": f"thrift://127.0.0.1:{metastore}"}}
    settings = {
        "listeners": {name: {"port": 0} for name in ("thrift", "connect", "admin")},
        "backend": {"embedded": {"directory": "spark", "heap": "768m"}},
        "catalogs": [{"name": "spark_catalog", "catalog": hive, "policies": "spark"}],
        "policies": {"paths": ["pack.yaml"]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    (directory / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(directory / "gateway.yaml").start()
    with session(running, "thrift", "loader") as loader:
        loader("CREATE DATABASE shop")
        loader("CREATE TABLE shop.person (id INT, card STRING, phone STRING, region INT) USING parquet")
        loader("INSERT INTO shop.person VALUES (1, '4000', '555', 1), (2, '4001', '556', 2)")
        loader("CREATE DATABASE hidden")
    yield running
    assert running.stop() == 0


PERSONS = "SELECT * FROM shop.person"
ALL = [(1, "4000", "555", 1), (2, "4001", "556", 2)]


def test_its_tables_are_the_metastores(
    gateway: RunningGateway, metastore: int, session_loop: LoopThread
) -> None:
    async def tables() -> list[str]:
        async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{metastore}") as catalog:
            return list(await catalog.tables("shop"))

    assert session_loop.run(tables()) == ["person"]
    tested = gateway.sluice("catalogs", "test", "-c", str(gateway.config))
    assert "spark_catalog: answers, with 3 databases" in tested.stdout, tested


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_masks_filters_denials_and_tags_hold(gateway: RunningGateway, endpoint: str) -> None:
    with session(gateway, endpoint, "ann") as ann, session(gateway, endpoint, "bob") as bob:
        assert ann(PERSONS) == ALL
        ((id_, card, phone, region),) = bob(PERSONS)
        assert (id_, phone, region) == (1, None, 1)
        assert card not in ("4000", None)
        assert bob("SELECT count(*) FROM shop.person WHERE card = '4000' OR phone IS NOT NULL") == [(0,)]
        assert ("hidden",) not in bob("SHOW DATABASES")
        bob("USE shop")
        assert bob("SELECT id FROM person") == [(1,)]
    with session(gateway, endpoint, "eve") as eve, pytest.raises(Exception, match="ACCESS_DENIED"):
        eve(PERSONS)


def test_they_hold_for_dataframes(gateway: RunningGateway) -> None:
    with gateway.session("ann", PASSWORD) as ann, gateway.session("bob", PASSWORD) as bob:
        assert sorted(tuple(row) for row in ann.table("shop.person").collect()) == ALL
        (row,) = bob.read.table("spark_catalog.shop.person").filter("id < 3").collect()
        assert (row.id, row.phone, row.region) == (1, None, 1)
        assert row.card not in ("4000", None)
        assert bob.table("shop.person").filter("card = '4000'").count() == 0
    with gateway.session("eve", PASSWORD) as eve, pytest.raises(Exception, match="ACCESS_DENIED"):
        eve.table("shop.person").collect()
