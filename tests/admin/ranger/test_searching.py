"""Every search parameter finds what it should and nothing else; pages and orders."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.admin.ranger.searching import (
    BadParameter,
    SearchContext,
    find,
    find_policies,
    for_resource,
    resource_of,
)
from tests.admin.ranger.objects import hive, item, policy, resources

A = policy(
    "shop/orders/*",
    id=1, guid="ga", name="Alpha", serviceType="hive", policyLabels=["gold", "eu"], updateTime=30,
    resourceSignature="sig", policyItems=[item("select", users="ann")],
)  # fmt: skip
B = policy(
    "shop/cust*/email",
    id=2, guid="gb", name="beta", serviceType="hive", zoneName="z", isEnabled=False, updateTime=10,
    denyPolicyItems=[item("select", groups="g")],
)  # fmt: skip
C = policy(
    resources={"url": {"values": ["s3://b/in"], "isRecursive": True}},
    id=3, guid="gc", name="Gamma", serviceType="hive", policyPriority=1, service="other", updateTime=20,
    policyItems=[item("read", roles="r")],
)  # fmt: skip
D = policy(
    "hr/emp/ssn",
    id=4, guid="gd", name="delta", serviceType="hive", policyType=1, updateTime=40,
    additionalResources=[resources("crm/leads/phone")],
    dataMaskPolicyItems=[item("select", users="bob", dataMaskInfo={"dataMaskType": "MASK"})],
)  # fmt: skip
T = policy(resources={"tag": {"values": ["PII"]}}, id=5, guid="gt", name="pii", service="dev_tag")
ALL = [A, B, C, D, T]
KNOWN = SearchContext(
    definitions={"hive": hive()},
    services={"dev_hive": {"id": 10, "name": "dev_hive", "tagService": "dev_tag"}, "other": {"id": 11}},
    zones={"z": {"id": 7, "name": "z"}},
)


def found(**parameters: str) -> list[int]:
    given = {key.replace("__", ":"): value for key, value in parameters.items()}
    return [body["id"] for body in find_policies(ALL, given, KNOWN).items]


CASES: list[tuple[dict[str, str], list[int]]] = [
    ({}, [1, 2, 3, 4, 5]),
    ({"surprise": "x"}, [1, 2, 3, 4, 5]),
    ({"serviceName": "dev_hive"}, [1, 2, 4]),
    ({"serviceName": "dev_hive", "fetchTagPolicies": "true"}, [1, 2, 4, 5]),
    ({"serviceType": "hive"}, [1, 2, 3, 4]),
    ({"serviceId": "11"}, [3]),
    ({"policyName": "Alpha"}, [1]),
    ({"policyName": "alpha"}, []),
    ({"policyNamePartial": "ET"}, [2]),
    ({"policyNamePrefix": "de"}, [4]),
    ({"policyId": "2"}, [2]),
    ({"guid": "gc"}, [3]),
    ({"isEnabled": "false"}, [2]),
    ({"isEnabled": "true"}, [1, 3, 4, 5]),
    ({"isRecursive": "true"}, [3]),
    ({"policyType": "1"}, [4]),
    ({"policyType": "0"}, [1, 2, 3, 5]),
    ({"policyPriority": "1"}, [3]),
    ({"user": "bob"}, [4]),
    ({"group": "g"}, [2]),
    ({"role": "r"}, [3]),
    ({"policyLabel": "gold"}, [1]),
    ({"policyLabelsPartial": "OL"}, [1]),
    ({"zoneName": "z"}, [2]),
    ({"zoneName": "z", "fetchZoneAndUnzonePolicies": "true"}, [1, 2, 3, 4, 5]),
    ({"zoneId": "7"}, [2]),
    ({"zoneId": "1"}, [1, 3, 4, 5]),
    ({"zoneId": "99"}, []),
    ({"resourceSignature": "sig"}, [1]),
    ({"polResource": "LEADS"}, [4]),
    ({"resource__database": "shop"}, [1, 2]),
    ({"resource__table": "customers"}, [2]),
    ({"resource__database": "crm", "resource__column": "phone"}, [4]),
    ({"resource__url": "s3://b/in/x"}, [3]),
    ({"resource__database": "shop", "resource__table": "orders", "resourceMatchScope": "self"}, [1]),
    ({"resource__database": "shop", "resourceMatchScope": "self"}, []),
    ({"resource__database": "shop", "resourceMatchScope": "self_or_descendant"}, [1, 2]),
    ({"resource__database": "shop", "resourceMatchScope": "ancestor"}, []),
    ({"serviceName": "dev_hive", "policyType": "0", "isEnabled": "true"}, [1]),
]


@pytest.mark.parametrize(("parameters", "expected"), CASES, ids=[str(c[0]) for c in CASES])
def test_a_search_for_policies(parameters: dict[str, str], expected: list[int]) -> None:
    assert found(**parameters) == expected


def test_order() -> None:
    assert found(sortBy="policyName") == [1, 2, 4, 3, 5]
    assert found(sortBy="updateTime", sortType="desc")[:4] == [4, 1, 3, 2]
    assert found(sortBy="serviceName")[-1] == 3
    assert found(sortType="desc") == [5, 4, 3, 2, 1]


def test_pages() -> None:
    page = find_policies(ALL, {"startIndex": "1", "pageSize": "2"}, KNOWN)
    assert [body["id"] for body in page.items] == [2, 3]
    wrapped = page.wrap_page("policies")
    expected = {"startIndex": 1, "pageSize": 2, "totalCount": 5, "resultSize": 2, "sortType": "asc",
                "sortBy": "id", "queryTimeMS": 0}  # fmt: skip
    assert {key: wrapped[key] for key in expected} == expected
    assert found(startIndex="9") == []
    assert len(find_policies(ALL, {}, KNOWN, size=2).items) == 2


@pytest.mark.parametrize(
    "parameters",
    [
        {"policyId": "x"}, {"isEnabled": "yes"}, {"sortBy": "moon"}, {"sortType": "up"}, {"startIndex": "-1"},
        {"pageSize": "many"}, {"zoneId": "z"}, {"serviceId": "s"},
        {"resource__database": "a", "resourceMatchScope": "near"},
    ],
    ids=str,
)  # fmt: skip
def test_a_parameter_that_cannot_be_read_is_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(BadParameter):
        found(**parameters)


def test_policies_for_a_resource_touch_it_above_at_or_below() -> None:
    assert [p["id"] for p in for_resource(ALL, {"database": "shop"}, KNOWN)] == [1, 2]
    assert [p["id"] for p in for_resource(ALL, {"database": "shop", "table": "customers"}, KNOWN)] == [2]
    assert resource_of({"resource:database": "shop", "x": "y", "resource:table": ""}) == {"database": "shop"}


def names(kind: str, bodies: list[dict[str, Any]], **parameters: str) -> list[str]:
    return [body["name"] for body in find(kind, bodies, parameters).items]


def test_other_kinds() -> None:
    services = [
        {"id": 1, "name": "a", "type": "hive", "tagService": "t"},
        {"id": 2, "name": "b", "type": "tag"},
    ]
    assert names("service", services, serviceType="tag") == ["b"]
    assert names("service", services, tagServiceName="t") == ["a"]
    assert names("service", services, serviceNamePartial="B") == ["b"]
    assert names("service-def", [{"id": 3, "name": "hive"}], serviceType="hive", serviceTypeId="3") == [
        "hive"
    ]
    roles = [
        {"id": 1, "name": "r", "users": [{"name": "ann"}]},
        {"id": 2, "name": "s", "groups": [{"name": "g"}]},
    ]
    assert names("role", roles, userName="ann") == ["r"]
    assert names("role", roles, groupNamePartial="G") == ["s"]
    assert names("role", roles, roleNamePartial="R") == ["r"]
    zones = [{"id": 1, "name": "z", "services": {"a": {}}}, {"id": 2, "name": "y", "tagServices": ["t"]}]
    assert names("zone", zones, serviceName="a") == ["z"]
    assert names("zone", zones, serviceName="t") == ["y"]
    users = [
        {"id": 1, "name": "ann", "userRoleList": ["ROLE_USER"]},
        {"id": 2, "name": "bob", "isVisible": 0},
    ]
    assert names("user", users, name="AN") == ["ann"]
    assert names("user", users, isVisible="0") == ["bob"]
    assert names("user", users, userRole="ROLE_USER") == ["ann"]
