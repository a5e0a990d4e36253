"""Paimon's service definition, as Ranger has it, governs a catalog of that name beside Spark's own.

Paimon itself is not there: the catalog is a Derby database by way of JDBC, a catalog of Spark like any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.app.rules import find_shipped_rules
from gateway.frontends.users import set_user
from tests.e2e.running import PASSWORDS, RunningGateway, Spark

SERVICE = "lake"
DEFINITION = yaml.safe_load((find_shipped_rules() / "service_defs" / "paimon.yaml").read_text())
SELECT = [{"type": "select"}]
CUSTOMER = {"catalog": "paimon", "database": "shop", "table": "customer"}


def policy(ident: int, resources: dict[str, str], **fields: Any) -> dict[str, Any]:
    named = {level: {"values": value.split(",")} for level, value in resources.items()}
    return {"id": ident, "service": SERVICE, "name": f"policy {ident}", "resources": named, **fields}


def for_everybody(**fields: Any) -> list[dict[str, Any]]:
    return [{"groups": ["public"], "accesses": SELECT, **fields}]


POLICIES = [
    policy(
        1,
        CUSTOMER | {"column": "id,name,email,phone,region"},
        policyItems=[{"groups": ["analysts"], "accesses": SELECT}],
    ),
    policy(
        2,
        CUSTOMER | {"column": "email"},
        policyType=1,
        dataMaskPolicyItems=for_everybody(dataMaskInfo={"dataMaskType": "MASK_HASH"}),
    ),
    policy(
        3,
        CUSTOMER | {"column": "phone"},
        policyType=1,
        dataMaskPolicyItems=for_everybody(dataMaskInfo={"dataMaskType": "MASK_SHOW_LAST_4"}),
    ),
    policy(
        4,
        CUSTOMER,
        policyType=2,
        rowFilterPolicyItems=for_everybody(rowFilterInfo={"filterExpr": "region = 'EMEA'"}),
    ),
]


@pytest.fixture(scope="module")
def shop(spark: Spark) -> None:
    spark.query(
        "CREATE NAMESPACE paimon.shop",
        "CREATE TABLE paimon.shop.customer (id INT, name VARCHAR(40), email VARCHAR(80), phone VARCHAR(20), "
        "card VARCHAR(20), region VARCHAR(10))",
        "INSERT INTO paimon.shop.customer VALUES (1, 'Ann', 'ann@x.example', '555-0123', '4000', 'EMEA'), "
        "(2, 'Bob', 'bob@x.example', '555-0199', '4001', 'AMER')",
        "CREATE TABLE paimon.shop.secret (id INT)",
        user="loader",
    )


@pytest.fixture(scope="module")
def lake(spark: Spark, shop: None, open_directory: Path) -> Iterator[RunningGateway]:
    directory = open_directory / "lake"
    directory.mkdir()
    directory.chmod(0o711)
    set_user(directory / "users.yaml", "bob", password=PASSWORDS["bob"], groups=["analysts"])
    downloaded = {"serviceName": SERVICE, "policyVersion": 4, "serviceDef": DEFINITION, "policies": POLICIES}
    (directory / "lake.json").write_text(json.dumps(downloaded))
    settings = {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "policies": {"paths": ["lake.json"], "catalogs": {"spark_catalog": "spark", "paimon": SERVICE}},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    (directory / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(directory / "gateway.yaml").start()
    yield running
    assert running.stop() == 0


def test_rows_are_filtered_and_masked(lake: RunningGateway) -> None:
    rows = lake.query("bob", "SELECT id, name, email, phone FROM paimon.shop.customer")
    digest = hashlib.sha256(b"ann@x.example").hexdigest()
    assert rows == [(1, "Ann", digest, "xxx-0123")]
    assert lake.query("bob", "SELECT count(*) FROM paimon.shop.customer WHERE phone LIKE '555%'") == [(0,)]


def test_what_is_not_granted_is_refused_and_not_shown(lake: RunningGateway) -> None:
    assert "with name `card` cannot be resolved" in lake.refusal(
        "bob", "SELECT card FROM paimon.shop.customer"
    )
    for statement in (
        "SELECT * FROM paimon.shop.secret",
        "INSERT INTO paimon.shop.customer SELECT * FROM paimon.shop.customer",
        "DROP TABLE paimon.shop.customer",
        "SELECT * FROM spark_catalog.sales.customer",
    ):
        assert "[SLUICE_ACCESS_DENIED]" in lake.refusal("bob", statement), statement
    assert lake.query("bob", "SHOW TABLES IN paimon.shop") == [("shop", "customer", False)]
