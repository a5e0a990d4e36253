"""Policies kept through Ranger's API, managed with Ranger's own client, reach users of another gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_ranger.client.ranger_client import RangerClient
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_role import RangerRole
from apache_ranger.model.ranger_service import RangerService

from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from tests.e2e.running import PASSWORDS, RunningGateway, Spark, until

SERVICE = "lake"
KEEPER, PLUGIN, PASSWORD = "ruth", "poller", "correct horse battery"
CUSTOMER = {
    "catalog": {"values": ["spark_catalog"]},
    "database": {"values": ["sales"]},
    "table": {"values": ["customer"]},
}
COLUMNS = CUSTOMER | {"column": {"values": ["id", "name", "email", "region"]}}
SELECT = [{"type": "select"}]
REGIONS = "SELECT DISTINCT region FROM sales.customer ORDER BY region"


def settings_of(directory: Path, spark: Spark, **changes: Any) -> dict[str, Any]:
    return {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    } | changes


def made(directory: Path, settings: dict[str, Any]) -> RunningGateway:
    directory.mkdir(exist_ok=True)
    directory.chmod(0o711)
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return RunningGateway(file)


@pytest.fixture
def keeper(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway that keeps policies."""
    directory = open_directory / "keeper"
    api = {"administrators": [KEEPER], "plugins": [PLUGIN]}
    listeners = {"thrift": {"port": 0}, "admin": {"port": 0, "ranger": api}}
    gateway = made(directory, settings_of(directory, spark, listeners=listeners))
    for user in (KEEPER, PLUGIN):
        set_user(directory / "users.yaml", user, password=PASSWORD)
    yield gateway.start()
    gateway.stop()
    # One that was killed leaves its PostgreSQL to its next start, which does not come.
    EmbeddedPostgres(directory / "postgres").stop()


@pytest.fixture
def governed(
    spark: Spark, open_directory: Path, keeper: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RunningGateway]]:
    """Start a gateway that polls the keeper; what is started is stopped."""
    monkeypatch.setenv("POLLER_PASSWORD", PASSWORD)
    directory = open_directory / "governed"
    started: list[RunningGateway] = []

    def start(**changes: Any) -> RunningGateway:
        source = {
            "service": SERVICE,
            "urls": [f"http://127.0.0.1:{keeper.admin_port}"],
            "user": PLUGIN,
            "password": {"env": "POLLER_PASSWORD"},
            "cache": "cache",
            "poll_s": 0.3,
            "tags_poll_s": 0.3,
        } | changes
        policies = {"ranger": [source], "catalogs": {"spark_catalog": SERVICE}}
        gateway = made(directory, settings_of(directory, spark, policies=policies))
        set_user(directory / "users.yaml", "bob", password=PASSWORDS["bob"], groups=["analysts"])
        started.append(gateway)
        return gateway.start()

    yield start
    for gateway in started:
        gateway.stop()


def policy(name: str, **fields: Any) -> RangerPolicy:
    return RangerPolicy({"service": SERVICE, "name": name, "resources": COLUMNS, **fields})


def test_a_change_reaches_a_client_and_the_last_word_counts_until_it_is_too_old(
    keeper: RunningGateway, governed: Callable[..., RunningGateway]
) -> None:
    ranger = RangerClient(f"http://127.0.0.1:{keeper.admin_port}", (KEEPER, PASSWORD))
    ranger.create_service(RangerService({"name": SERVICE, "type": "spark"}))
    ranger.create_role(SERVICE, RangerRole({"name": "readers", "groups": [{"name": "analysts"}]}), {})
    ranger.create_policy(policy("customers", policyItems=[{"roles": ["readers"], "accesses": SELECT}]))
    mask = {"dataMaskInfo": {"dataMaskType": "MASK_HASH"}, "groups": ["public"], "accesses": SELECT}
    email = CUSTOMER | {"column": {"values": ["email"]}}
    ranger.create_policy(policy("email", policyType=1, resources=email, dataMaskPolicyItems=[mask]))
    rows = {"groups": ["public"], "accesses": SELECT, "rowFilterInfo": {"filterExpr": "region = 'EMEA'"}}
    region = ranger.create_policy(
        policy("region", policyType=2, resources=CUSTOMER, rowFilterPolicyItems=[rows])
    )

    gateway = governed()
    assert gateway.query("bob", REGIONS) == [("EMEA",)]
    assert all(len(email) == 64 for (email,) in gateway.query("bob", "SELECT email FROM sales.customer"))
    assert "[UNRESOLVED_COLUMN" in gateway.refusal("bob", "SELECT card FROM sales.customer")
    assert "[SLUICE_ACCESS_DENIED]" in gateway.refusal("bob", "SELECT * FROM sales.customer")

    region.rowFilterPolicyItems[0].rowFilterInfo.filterExpr = "region <> 'EMEA'"
    ranger.update_policy_by_id(region.id, region)
    until(lambda: gateway.query("bob", REGIONS) == [("AMER",), ("APAC",)], "the new filter is in force")
    last = [r for r in gateway.records if r["event"] == "ranger_service_in_force"][-1]
    assert last["versions"]["policies"] == ranger.get_service(SERVICE).policyVersion

    downloaded = ranger.client_http.session.get(
        f"http://127.0.0.1:{keeper.admin_port}/service/plugins/policies/download/{SERVICE}",
        params={
            "lastKnownVersion": last["versions"]["policies"] - 1,
            "supportsPolicyDeltas": "true",
            "pluginId": "test",
        },
    ).json()
    assert [delta["policy"]["name"] for delta in downloaded["policyDeltas"]] == ["region"]
    assert "policies" not in downloaded

    keeper.stop(number=9)
    assert gateway.query("bob", REGIONS) == [("AMER",), ("APAC",)]
    gateway.stop()

    restarted = governed(max_stale_s=3600)
    assert restarted.query("bob", REGIONS) == [("AMER",), ("APAC",)], "from the cache"
    assert "ranger" in restarted.admin("/readyz")[1] or SERVICE in restarted.admin("/readyz")[1]
    restarted.stop()

    stale = governed(max_stale_s=0.5)
    assert "[SLUICE_POLICIES_STALE]" in stale.refusal("bob", REGIONS)
