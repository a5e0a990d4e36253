"""A policy whose text cannot be used closes what it is about, where a denial means just that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.policy import (
    DataShare,
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceValues,
    Service,
    SharedResource,
    Sharing,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.service_defs import load_service_defs
from gateway.policy.unusable import build_invalid_policy, can_deny, list_invalid_policies, with_closed
from tests.judge_world import SERVICE_DEFS

DEFINITIONS = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
ANN = Principal(user="ann")
EVERYBODY = frozenset({"public"})


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


def test_where_no_denial_would_mean_the_same_it_hides_all_in_its_own_kind() -> None:
    bad = filtering("s", database=values("shop"), table=values("*"))
    policies = world(bad, "hive", database=values("*"), table=values("*"), column=values("*"))
    hidden = with_closed(policies, [bad]).services["s"].policies[1]
    assert hidden.type is PolicyType.ROW_FILTER
    assert hidden.resources == bad.resources
    assert [(one.groups, one.filter_expression) for one in hidden.filters] == [(EVERYBODY, "FALSE")]
    no_denials = replace(DEFINITIONS["spark"], deny_enabled=False)
    item = MaskItem(users=frozenset({"ann"}), mask_type="CUSTOM", value_expression="((")
    levels = {level: values("*") for level in ("catalog", "database", "table", "column")}
    mask = Policy(id=3, name="m", service="s", type=PolicyType.MASK, resources=levels, masks=(item,))
    service = Service(name="s", definition=no_denials, policies=(mask,))
    closed = with_closed(PolicySet(version=1, services={"s": service}), [mask])
    (null,) = closed.services["s"].policies[0].masks
    assert (null.mask_type, null.groups, null.accesses) == ("MASK_NULL", EVERYBODY, frozenset({"select"}))


def test_a_mask_of_a_share_that_cannot_be_used_shows_null() -> None:
    levels = {level: values("x") for level in ("catalog", "database", "table", "column")}
    item = MaskItem(groups=frozenset({"public"}), mask_type="CUSTOM", value_expression="((")
    mask = Policy(id=3, name="m", service="s", type=PolicyType.MASK, resources=levels, masks=(item,))
    rows = filtering("s", **levels)
    shared = SharedResource(id=1, resources=levels, above=levels, masks=(mask,), rows=rows)
    sharing = Sharing(definition=DEFINITIONS["spark"], shares=(DataShare(id=1, resources=(shared,)),))
    service = Service(name="s", definition=DEFINITIONS["spark"], sharing=sharing)
    closed = with_closed(PolicySet(version=1, services={"s": service}), [mask, rows]).services["s"].sharing
    assert closed is not None
    (found,) = closed.shares[0].resources
    assert found.masks[0].masks[0].mask_type == "MASK_NULL"
    assert found.rows is not None
    assert found.rows.filters[0].filter_expression == "FALSE"


def at_fault(levels: dict[str, ResourceValues], *, guards: bool = True, named: bool = True) -> Policy:
    policy = Policy(id=2, name="bad", service="s", type=PolicyType.ACCESS, resources=levels)
    return build_invalid_policy(policy, ("p.yaml:1: no",), service="s", zone="", guards=guards, named=named)


EVERY = {level: values("*") for level in ("catalog", "database", "table", "column")}


@pytest.mark.parametrize(
    ("levels", "closed"),
    [
        ({**EVERY, "table": values("orders")}, {"orders"}),
        ({"table": values("orders")}, {"orders"}),
        ({"catalog": values("c"), "table": values("orders"), "column": values("id")}, {"orders"}),
        ({"catalog": values("c"), "database": values("shop"), "table": values("orders")}, {"orders"}),
        ({"catalog": values("c"), "database": values("shop")}, {"orders", "customers"}),
        ({"catalog": values("c"), "database": values("other")}, set()),
        ({**EVERY, "database": values(), "table": values("orders")}, {"orders"}),
        ({}, {"orders", "customers"}),
    ],
    ids=[
        "whole",
        "of the table alone",
        "without its database",
        "a table",
        "a database",
        "another database",
        "values that cannot be read",
        "nothing that is known",
    ],
)
def test_a_policy_at_fault_closes_what_could_be_read_of_it(
    levels: dict[str, ResourceValues], closed: set[str]
) -> None:
    bad = at_fault(levels)
    policies = with_closed(world(bad, "spark", **EVERY), [bad])
    assert {table for table in ("orders", "customers") if not may_select(policies, table)} == closed


def masking(**resources: ResourceValues) -> Policy:
    item = MaskItem(users=frozenset({"ann"}), mask_type="CUSTOM", value_expression="((")
    return Policy(id=2, name="cells", service="s", type=PolicyType.MASK, resources=resources, masks=(item,))


ORDERS = {"catalog": values("c"), "database": values("shop"), "table": values("orders")}
NULL, NO_ROW = "MASK_NULL", "FALSE"


@pytest.mark.parametrize(
    ("bad", "hides"),
    [
        (masking(**ORDERS, column=values("id")), NULL),
        (filtering("s", **ORDERS), NO_ROW),
        (at_fault({**ORDERS, "column": values("id")}), NULL),
        (at_fault({**ORDERS, "column": values()}), NO_ROW),
        (at_fault(ORDERS), NO_ROW),
        (at_fault({"table": values("orders")}), NO_ROW),
        (at_fault({}), NO_ROW),
    ],
    ids=["a mask", "a filter", "of a column", "of any", "of a table", "of any database", "of anything"],
)
def test_what_is_closed_is_hidden_from_whom_no_denial_holds_for(bad: Policy, hides: str) -> None:
    """Nobody needs to be allowed what a view shows that an operator vouches for."""
    policies = world(bad, "spark", **EVERY)
    assert can_deny(bad, policies.services["s"])
    engine = engine_for(with_closed(policies, [bad]))
    for table, hidden in (("orders", True), ("customers", bad.resources == {})):
        resource = Resource.table("c", "shop", table)
        mask = engine.mask(ANN, resource.child("column", "id"), "int")
        rows = engine.row_filter(ANN, resource)
        assert (mask is not None and mask.mask_type == NULL) is (hidden and hides == NULL)
        assert (rows is not None and rows.expression == NO_ROW) is (hidden and hides == NO_ROW)


@pytest.mark.parametrize("type_", [PolicyType.MASK, PolicyType.ACCESS])
def test_what_is_closed_by_its_tag_is_hidden_as_well(type_: PolicyType) -> None:
    bad = replace(masking(tag=values("PII")), service="t", type=type_)
    tags = Service(name="t", definition=DEFINITIONS["tag"], policies=(bad,))
    service = Service(name="s", definition=DEFINITIONS["spark"], tags=tags)
    closed = with_closed(PolicySet(version=1, services={"s": service}), [bad]).services["s"].tags
    assert closed is not None
    denial, hidden = closed.policies
    assert denial.deny
    assert (hidden.type, hidden.resources) == (PolicyType.MASK, bad.resources)
    assert [one.mask_type for one in hidden.masks] == [NULL]


@pytest.mark.parametrize(
    ("guards", "named"), [(False, True), (True, False)], ids=["allows", "says of nothing"]
)
def test_a_policy_at_fault_that_hides_nothing_closes_nothing(guards: bool, named: bool) -> None:
    bad = at_fault(EVERY, guards=guards, named=named)
    policies = world(bad, "spark", **EVERY)
    assert list_invalid_policies(policies) == [bad], "it is told all the same"
    assert may_select(with_closed(policies, [bad]), "orders")
