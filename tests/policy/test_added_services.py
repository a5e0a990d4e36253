"""Policies of one service that are added to another one's: of one kind, whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import Faults
from gateway.model.context import AccessContext
from gateway.model.policy import (
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceValues,
    Service,
    SharedDataset,
    Sharing,
    Zone,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.parts import Part, combine
from gateway.policy.service_defs import load_service_defs
from gateway.settings.models import PolicySettings

SERVICE_DEFS = Path(__file__).resolve().parents[2] / "rules" / "service_defs"
DEFINITIONS = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
PACK = """
service: spark
policies:
  - name: analysts read
    on: {catalog: spark_catalog, database: shop, table: orders, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
"""
CATALOGS = {"spark_catalog": "spark"}
SELECT = frozenset({"select"})


def policy(
    *, allow: str = "", deny: str = "", table: str = "orders", accesses: frozenset[str] = SELECT
) -> Policy:
    resources = {
        name: ResourceValues(values=(value,))
        for name, value in (
            ("catalog", "spark_catalog"),
            ("database", "shop"),
            ("table", table),
            ("column", "*"),
        )
    }

    def items(who: str) -> tuple[PolicyItem, ...]:
        return (PolicyItem(users=frozenset({who}), accesses=accesses),) if who else ()

    return Policy(
        id=1,
        name=f"{allow}{deny} {table}",
        service="grants",
        type=PolicyType.ACCESS,
        resources=resources,
        allow=items(allow),
        deny=items(deny),
    )


def combined(grants: Service, *, adds_to: str = "spark") -> PolicySet:
    packs = load_packs({"pack.yaml": PACK}, DEFINITIONS, 1)
    parts = [
        Part(name="files", services=packs.services),
        Part(name="the Ranger service `grants`", services={"grants": grants}, adds_to={"grants": adds_to}),
    ]
    return combine(parts, 2, CATALOGS, tolerant=True)


def may(policies: PolicySet, user: str, *groups: str, table: str = "orders") -> bool:
    column = Resource.table("spark_catalog", "shop", table).child("column", "id")
    principal = Principal(user=user, groups=frozenset(groups))
    request = AccessRequest(principal=principal, resource=column, access="select", context=AccessContext())
    return engine_for(policies).decide(request).allowed


def grants(*policies: Policy) -> Service:
    return Service(name="grants", definition=DEFINITIONS["spark"], policies=policies)


def test_what_is_added_allows_and_denies_beside_what_is_there() -> None:
    assert not may(combined(grants()), "carol")
    assert may(combined(grants(policy(allow="carol"))), "carol")
    assert may(combined(grants(policy(allow="carol"))), "bob", "analysts")
    assert not may(combined(grants(policy(deny="bob"))), "bob", "analysts")
    assert not may(combined(grants(policy(allow="carol", table="orders"))), "carol", table="customer")


def test_added_policies_are_there_once_and_name_the_service_that_they_are_changed_in() -> None:
    found = combined(grants(policy(allow="carol")))
    assert [(one.service, one.name) for one in found.policies()] == [
        ("spark", "analysts read"),
        ("grants", "carol orders"),
    ]


def test_an_access_type_that_the_other_service_has_not_allows_nothing_and_denies_everything() -> None:
    unknown = frozenset({"teleport"})
    assert not may(combined(grants(policy(allow="carol", accesses=unknown))), "carol")
    assert not may(combined(grants(policy(deny="bob", accesses=unknown))), "bob", "analysts")


@pytest.mark.parametrize(
    "service",
    [
        replace(grants(policy(allow="carol")), zones=(Zone(name="east", resources=()),)),
        replace(
            grants(policy(allow="carol")),
            tags=Service(name="t", definition=DEFINITIONS["tag"], policies=(policy(deny="bob"),)),
        ),
        replace(grants(policy(allow="carol")), definition=DEFINITIONS["hive"]),
        grants(replace(policy(), allow=(PolicyItem(users=frozenset({"eve"}), delegate_admin=True),))),
    ],
    ids=["zones", "tags", "another kind", "delegates"],
)
def test_what_cannot_be_added_whole_is_not_put_in_force(service: Service) -> None:
    with pytest.raises(Faults):
        combined(service)


def test_a_service_whose_admin_has_nothing_to_share_is_added() -> None:
    """What stands for the data sharing of an Admin without any, as it is downloaded by default."""
    nothing = Sharing(definition=DEFINITIONS["spark"])
    assert may(combined(replace(grants(policy(allow="carol")), sharing=nothing)), "carol")
    dataset = SharedDataset(id=1, name="d", shares=(), projects=(), policies=(), schedules=())
    with pytest.raises(Faults, match="data sharing"):
        combined(replace(grants(policy(allow="carol")), sharing=replace(nothing, datasets=(dataset,))))


def test_administrators_override_the_packs_by_priority_alone() -> None:
    """As documented: a denial of either denies, but to what overrides it, as break-glass does."""
    denied = """
service: spark
policies:
  - name: bob never
    on: {catalog: spark_catalog, database: shop, table: orders, column: "*"}
    deny: [{users: [bob], access: [select]}]
"""
    packs = Part(name="files", services=load_packs({"pack.yaml": denied}, DEFINITIONS, 1).services)

    def beside(one: Policy) -> PolicySet:
        part = Part(name="added", services={"grants": grants(one)}, adds_to={"grants": "spark"})
        return combine([packs, part], 2, CATALOGS, tolerant=True)

    assert not may(beside(policy(allow="bob")), "bob")
    assert may(beside(replace(policy(allow="bob"), priority=1)), "bob")


def test_super_users_of_a_service_that_is_added_are_none_of_the_other() -> None:
    service = replace(grants(policy(allow="carol")), super_users=frozenset({"eve"}))
    assert not may(combined(service), "eve")


def test_a_source_with_both_services_adds_one_to_the_other() -> None:
    packs = load_packs({"pack.yaml": PACK}, DEFINITIONS, 1)
    services = {**packs.services, "grants": grants(policy(allow="carol"))}
    both = Part(name="files", services=services, adds_to={"grants": "spark"})
    assert may(combine([both], 2, CATALOGS), "carol")
    assert not may(combine([replace(both, adds_to={})], 2, CATALOGS), "carol")


def test_nothing_is_added_to_what_is_not_there() -> None:
    with pytest.raises(Faults, match="adds to `lake`"):
        combined(grants(policy(allow="carol")), adds_to="lake")
    assert combined(grants(), adds_to="lake").services["spark"].policies


def test_a_service_that_is_added_speaks_for_no_catalog() -> None:
    entry = {"service": "grants", "urls": ["https://ranger.example"], "adds_to": "spark"}
    assert PolicySettings.model_validate({"ranger": [entry]}).ranger[0].adds_to == "spark"
    with pytest.raises(ValueError, match="cannot speak for a catalog"):
        PolicySettings.model_validate({"ranger": [entry], "catalogs": {"lake": "grants"}})
    with pytest.raises(ValueError, match="cannot speak for a catalog"):
        PolicySettings.model_validate({"ranger": [{**entry, "adds_to": "grants"}]})
