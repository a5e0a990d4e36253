"""A policy whose text cannot be used closes what it is about, where a denial means just that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.policy import (
    FilterItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceValues,
    Service,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.service_defs import load_service_defs
from gateway.policy.unusable import can_deny, with_closed
from tests.judge_world import SERVICE_DEFS

DEFINITIONS = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
ANN = Principal(user="ann")


def values(*given: str, excludes: bool = False) -> ResourceValues:
    return ResourceValues(values=given, excludes=excludes)


def filtering(service: str, **resources: ResourceValues) -> Policy:
    return Policy(
        id=2,
        name="rows",
        service=service,
        type=PolicyType.ROW_FILTER,
        resources=resources,
        filters=(
            FilterItem(
                users=frozenset({"ann"}), accesses=frozenset({"select"}), filter_expression="region ="
            ),
        ),
    )


def world(bad: Policy, definition: str, **levels: ResourceValues) -> PolicySet:
    """Ann may do everything on all of it, by a policy that overrides."""
    item = PolicyItem(users=frozenset({"ann"}), accesses=frozenset({"select"}))
    open_ = Policy(
        id=1, name="all", service="s", type=PolicyType.ACCESS, resources=levels, priority=1, allow=(item,)
    )
    service = Service(name="s", definition=DEFINITIONS[definition], policies=(open_, bad))
    return PolicySet(version=1, services={"s": service}, catalog_services={"c": "s"})


def may_select(policies: PolicySet, table: str) -> bool:
    resource = Resource.table("c", "shop", table).child("column", "id")
    return (
        engine_for(policies).decide(AccessRequest(principal=ANN, resource=resource, access="select")).allowed
    )


def test_a_denial_that_overrides_closes_the_table_and_no_other() -> None:
    bad = filtering("s", catalog=values("c"), database=values("shop"), table=values("orders"))
    every = {level: values("*") for level in ("catalog", "database", "table", "column")}
    policies = world(bad, "spark", **every)
    assert may_select(policies, "orders")
    assert can_deny(bad, policies.services["s"])
    closed = with_closed(policies, [bad])
    assert not may_select(closed, "orders")
    assert may_select(closed, "customers")
    assert closed.services["s"].policies[1].id == bad.id, "the record names it"


@pytest.mark.parametrize(
    ("table", "closes"),
    [(values("orders"), True), (values("*"), False), (values("tmp*", excludes=True), False)],
    ids=["a name", "every table", "all but some"],
)
def test_where_filters_match_otherwise_nothing_is_closed_by_guess(
    table: ResourceValues, closes: bool
) -> None:
    """Ranger's hive has no wildcards in filters: a denial on the same values would close others, or none."""
    bad = filtering("s", database=values("shop"), table=table)
    policies = world(bad, "hive", database=values("*"), table=values("*"), column=values("*"))
    assert policies.services["s"].definition.filter_resources is not None
    assert can_deny(bad, policies.services["s"]) is closes


def test_a_service_that_knows_no_denials_is_not_closed_by_one() -> None:
    bad = filtering("s", catalog=values("c"), database=values("shop"), table=values("orders"))
    service = Service(name="s", definition=replace(DEFINITIONS["spark"], deny_enabled=False), policies=(bad,))
    assert not can_deny(bad, service)
    on_tag = filtering("s", tag=values("PII"))
    tags = Service(name="t", definition=replace(DEFINITIONS["tag"], deny_enabled=False), policies=(on_tag,))
    assert not can_deny(on_tag, Service(name="s", definition=DEFINITIONS["spark"], tags=tags))
