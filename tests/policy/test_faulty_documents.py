"""No fault anywhere in a pack or a download opens anything: one value after the other is exchanged.

What the loader takes in spite of a fault shows nobody more than the document without it; what it does not
take is refused with a place.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from gateway.errors import Faults
from gateway.model.policy import PolicySet, UserStore
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.ranger.services import Converter
from tests.policy.test_broken_parts import (
    CATALOGS,
    DEFINITIONS,
    TAGGED,
    denied,
    entry,
    in_force,
    pack,
    shared,
    told,
)

BAD: tuple[Any, ...] = (None, 5, True, "", "((", [], {}, [None], {"x": 1}, "{NAME}", 10**30, "a" * 20_000)
USERS = ("ann", "bob", "rae", "zed", "sue", "root", "mel")
TABLES = ("pay", "orders", "gone", "fees", "shared", "tagged", "zoned", "filtered")
_AT = {"catalog": "spark_catalog", "database": "shop"}
_EVERYBODY = {"groups": ["public"], "access": ["select"]}
PACK: dict[str, Any] = {
    "roles": {"readers": {"users": ["rae"]}, "outer": {"roles": ["readers"]}, "bad": {"users": ["zed"]}},
    "directory": {
        "users": {"mel": {"groups": ["staff"], "attributes": {"dept": "hr"}}},
        "groups": {"staff": {"attributes": {"a": "b"}}},
    },
    "tags": [{"on": {**_AT, "table": "tagged"}, "tags": [{"tag": "PII", "attributes": {"a": "b"}}]}],
    "zones": {"z": {"on": {**_AT, "table": "zoned"}}},
    "super_users": ["root"],
    "policies": [
        {
            "name": "all",
            "on": {**_AT, "table": "*", "column": "*"},
            "allow": [
                {"users": ["ann", "bob", "mel"], "access": ["select"]},
                {"roles": ["readers", "outer", "bad"], "access": ["select"]},
            ],
        },
        {"name": "no", "on": {**_AT, "table": "gone", "column": "*"}, "deny": [_EVERYBODY]},
        {
            "name": "m",
            "on": {**_AT, "table": "pay", "column": "*"},
            "mask": [
                {"roles": ["bad"], "type": "MASK_NONE"},
                {"groups": ["public"], "type": "CUSTOM", "show": "NULL"},
            ],
        },
        {
            "name": "f",
            "on": {**_AT, "table": "filtered"},
            "filter": [
                {"users": ["ann"], "where": "id = 1"},
                {"groups": ["staff"], "where": "x = {USER.dept}", "when": "IS_IN_GROUP('staff')"},
            ],
        },
        {
            "name": "t",
            "on": {"tag": "PII"},
            "deny": [_EVERYBODY],
            "deny_exceptions": [{"roles": ["readers"], "access": ["select"]}],
        },
        {
            "name": "in z",
            "zone": "z",
            "on": {**_AT, "table": "zoned", "column": "*"},
            "allow": [{"users": ["bob"], "access": ["select"]}],
        },
        {
            "name": "d",
            "on": [{**_AT, "table": name, "column": "*"} for name in ("fees", "orders")],
            "deny": [{"roles": ["outer"], "access": ["select"]}],
            "validity": {"from": "2020-01-01"},
        },
    ],
}
_SELECT = [{"type": "select"}]
_PUBLIC = {"groups": ["public"], "accesses": _SELECT}
_MASK = {**_PUBLIC, "dataMaskInfo": {"dataMaskType": "CUSTOM", "valueExpr": "NULL"}}
_ROWS = {"users": ["ann"], "roles": ["bad"], "accesses": _SELECT, "rowFilterInfo": {"filterExpr": "id = 1"}}
_FILTERED = {name: {"values": [value]} for name, value in {**_AT, "table": "filtered"}.items()}
DOWNLOAD: dict[str, Any] = {
    "policies": [
        entry(1, "*", policyItems=[{"users": ["ann", "mel"], "roles": ["readers"], "accesses": _SELECT}]),
        denied(2, "gone", groups=["public"]),
        entry(3, "pay", policyType=1, policyItems=[], dataMaskPolicyItems=[_MASK]),
        entry(4, "", policyType=2, policyItems=[], rowFilterPolicyItems=[_ROWS], resources=_FILTERED),
        denied(5, "fees", roles=["readers"]),
    ],
    "tagPolicies": {
        "serviceName": "tags",
        "policies": [
            {
                "id": 9,
                "name": "t",
                "policyType": 0,
                "resources": {"tag": {"values": ["PII"]}},
                "denyPolicyItems": [{"groups": ["public"], "accesses": [{"type": "spark:select"}]}],
            }
        ],
    },
    "tags": TAGGED,
    "securityZones": {
        "z": {
            "resources": [{"catalog": ["*"], "database": ["shop"], "table": ["zoned"]}],
            "policies": [entry(20, "zoned", policyItems=[{"users": ["bob"], "accesses": _SELECT}])],
        }
    },
    "gdsInfo": shared(),
    "roles": {"rangerRoles": [{"name": "readers", "users": [{"name": "rae"}]}], "roleVersion": 1},
    "userStore": {
        "userAttrMapping": {"mel": {"dept": "hr"}},
        "userGroupMapping": {"mel": ["staff"]},
        "groupAttrMapping": {"staff": {"a": "b"}},
    },
}


def load_pack(document: Any) -> PolicySet:
    return pack(base=yaml.safe_dump(document, allow_unicode=True))


def load_download(document: Any) -> PolicySet:
    body = {**document, "serviceName": "spark", "serviceType": "spark"}
    found = Converter(DEFINITIONS, tolerant=True).service(body, file="spark")
    return PolicySet(
        version=1,
        services={"spark": found.service},
        roles=found.roles,
        users=found.users or UserStore(),
        catalog_services=CATALOGS,
    )


def seen(policies: PolicySet) -> set[tuple[str, str]]:
    """Return who sees which table whole."""
    engine = engine_for(policies)
    found = set()
    for user in USERS:
        groups = frozenset({"staff"}) if user in ("ann", "mel") else frozenset[str]()
        who = Principal(user=user, groups=groups)
        for name in TABLES:
            table = Resource.table("spark_catalog", "shop", name)
            column = table.child("column", "id")
            request = AccessRequest(principal=who, resource=column, access="select")
            hidden = engine.mask(who, column, "INT") or engine.row_filter(who, table)
            if hidden is None and engine.decide(request).allowed:
                found.add((user, name))
    return found


def places(document: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    steps = document.items() if isinstance(document, dict) else enumerate(document)
    for step, value in steps:
        yield (*way, step)
        if isinstance(value, dict | list):
            yield from places(value, (*way, step))


def exchanged(document: Any, way: tuple[str | int, ...], value: Any) -> Any:
    made = copy.deepcopy(document)
    at = made
    for step in way[:-1]:
        at = at[step]
    at[way[-1]] = value
    return made


def misspelt(document: Any, way: tuple[str | int, ...]) -> Any:
    made = copy.deepcopy(document)
    at = made
    for step in way[:-1]:
        at = at[step]
    if isinstance(at, dict):
        entries = [(f"{key}x" if key == way[-1] else key, value) for key, value in at.items()]
        at.clear()
        at.update(entries)
    return made


@pytest.mark.parametrize(
    ("load", "document"), [(load_pack, PACK), (load_download, DOWNLOAD)], ids=["a pack", "a download"]
)
def test_no_fault_anywhere_opens_anything(load: Callable[[Any], PolicySet], document: Any) -> None:
    whole = load(document)
    assert not told(whole)
    before = seen(in_force(whole))
    assert before
    faults = 0
    for way in places(document):
        # One of the values at each place, always the same.
        value = BAD[zlib.crc32(repr(way).encode()) % len(BAD)]
        for changed in (exchanged(document, way, value), misspelt(document, way)):
            try:
                found = load(changed)
            except Faults:
                continue
            why = told(found)
            if not why or way == ("zones",):  # no zones at all are what somebody may want
                continue
            faults += 1
            assert seen(in_force(found)) <= before, (way, why)
            assert all(": " in fault for fault in why), "each has a place"
    assert faults > 100
