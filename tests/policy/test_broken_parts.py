"""What roles, tags, zones, shares and people at fault close: what rests on them, and nothing else.

Each fault comes with a revocation in the same document, which has to be in force at once.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.model.policy import PolicySet, UserStore
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.broken_parts import build_invalid_role_policies, close_dependents
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.ranger import load_files, roles_of, users_of
from gateway.policy.ranger.services import Converter
from gateway.policy.service_defs import load_service_defs
from gateway.policy.unusable import list_invalid_policies, with_closed
from tests.judge_world import SERVICE_DEFS

DEFINITIONS = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
CATALOGS = {"spark_catalog": "spark"}


def in_force(policies: PolicySet) -> PolicySet:
    fitted = close_dependents(policies)
    return with_closed(fitted, list_invalid_policies(fitted))


def may(policies: PolicySet, table: str, user: str = "ann", *groups: str) -> bool:
    """Whether somebody sees values of a table: he may select, and no policy at fault hides it."""
    above = Resource.table("spark_catalog", "shop", table)
    resource = above.child("column", "id")
    who = Principal(user=user, groups=frozenset(groups))
    engine = engine_for(policies)
    mask, rows = engine.mask(who, resource, "INT"), engine.row_filter(who, above)
    hidden = (mask is not None and "(closed" in mask.policy.name) or (
        rows is not None and rows.expression == "FALSE"
    )
    allowed = engine.decide(AccessRequest(principal=who, resource=resource, access="select")).allowed
    return allowed and not hidden


def told(policies: PolicySet) -> list[str]:
    fitted = close_dependents(policies)
    at_fault = [*list_invalid_policies(fitted), *build_invalid_role_policies(policies.roles)]
    return [fault for policy in at_fault for fault in policy.broken]


BASE = """\
policies:
  - name: all read
    on: {catalog: spark_catalog, database: "*", table: "*", column: "*"}
    allow: [{users: [ann, bob], access: [select]}, {roles: [readers], access: [select]}]
  - name: a revocation
    on: {catalog: spark_catalog, database: shop, table: gone, column: "*"}
    deny: [{groups: [public], access: [select]}]
"""
PAY = "on: {catalog: spark_catalog, database: shop, table: pay, column: '*'}"
TABLE = "{catalog: spark_catalog, database: shop, table: pay}"


def pack(*texts: str, base: str = BASE) -> PolicySet:
    """Return what stands in force of packs with faults, each text after a pack without."""
    files = {"a.yaml": base} | {f"b{i}.yaml": text for i, text in enumerate(texts)}
    return load_packs(files, DEFINITIONS, catalog_services=CATALOGS, tolerant=True)


def policies(*entries: str) -> str:
    return "policies:\n" + "".join(f"  - {entry}\n" for entry in entries)


DENY_ROLE = f"{{name: no, {PAY}, deny: [{{roles: [readers], access: [select]}}]}}"
BAD_ROLES = [
    "roles: {readers: {uers: [ann]}}\n",
    "roles: {readers: {users: [ann, 5]}}\n",
    "roles: {readers: [ann]}\n",
    "roles: {readers: }\n",
    "roles: {readers: {users: [rae], roles: [nobody]}}\n",
    "roles: {inner: {users: [[]]}, readers: {users: [rae], roles: [inner]}}\n",
    "roles: [readers]\n",
    "roles: {readers: {users: []}}\n",
]


@pytest.mark.parametrize("roles", BAD_ROLES)
def test_a_role_at_fault_lets_nobody_in_and_closes_what_it_may_deny(roles: str) -> None:
    found = pack(roles + policies(DENY_ROLE))
    now = in_force(found)
    assert not may(now, "gone"), "a revocation is in force"
    assert may(now, "orders")
    assert not may(now, "orders", "rae"), "nobody is let in by it"
    assert not may(now, "pay"), "who is denied nobody can tell: all are"
    assert any("b0.yaml:1: " in fault for fault in told(found))


@pytest.mark.parametrize("roles", BAD_ROLES)
@pytest.mark.parametrize(
    ("entry", "closes"),
    [
        (f"{{name: m, {PAY}, mask: [{{roles: [readers], type: MASK_NULL}}]}}", True),
        (f"{{name: f, on: {TABLE}, filter: [{{roles: [readers], where: 'id = 1'}}]}}", True),
        (
            f"{{name: x, {PAY}, allow: [{{users: [ann], access: [select]}}], "
            "allow_exceptions: [{roles: [readers], access: [select]}]}",
            True,
        ),
        (
            f"{{name: c, {PAY}, deny: [{{users: [bob], access: [select], when: "
            "\"IS_IN_ROLE('readers')\"}]}",
            True,
        ),
        (
            f"{{name: f, on: {TABLE}, filter: [{{groups: [public], where: 'id IN (${{{{UR_NAMES}}}})'}}]}}",
            True,
        ),
        (f"{{name: f, on: {TABLE}, filter: [{{groups: [public], where: '(role = 1)'}}]}}", False),
        (f"{{name: a, {PAY}, allow: [{{roles: [readers], access: [select]}}]}}", False),
        (
            f"{{name: m, {PAY}, mask: [{{roles: [readers], type: MASK_NONE}}, "
            "{groups: [public], type: MASK_NULL}]}",
            False,
        ),
    ],
)
def test_what_a_role_at_fault_may_hide_is_closed_and_what_it_may_show_is_not(
    roles: str, entry: str, *, closes: bool
) -> None:
    now = in_force(pack(roles + policies(entry)))
    assert may(now, "pay") is not closes
    assert may(now, "orders")
    assert not may(now, "gone")


@pytest.mark.parametrize(("role", "masked"), [("fine", False), ("readers", True)])
def test_who_may_be_exempt_by_a_role_at_fault_is_not(role: str, *, masked: bool) -> None:
    items = f"[{{roles: [{role}], type: MASK_NONE}}, {{groups: [public], type: MASK_NULL}}]"
    text = "roles: {readers: {users: [ann, 5]}, fine: {users: [ann]}}\n"
    now = in_force(pack(text + policies(f"{{name: m, {PAY}, mask: {items}}}")))
    column = Resource.table("spark_catalog", "shop", "pay").child("column", "id")
    mask = engine_for(now).mask(Principal(user="ann"), column, "INT")
    assert (mask is not None) is masked


def test_a_role_in_two_packs_is_one_at_fault() -> None:
    role = "roles: {readers: {users: [rae]}}\n"
    now = in_force(pack(role + policies(DENY_ROLE), role))
    assert not may(now, "orders", "rae")
    assert not may(now, "pay")
    assert may(now, "orders")


@pytest.mark.parametrize(
    "tags",
    [
        f"tags: [{{on: {TABLE}, tags: [{{tpye: PII}}]}}]\n",
        f"tags: [{{on: {TABLE}, tags: 5}}]\n",
        f"tags: [{{on: {TABLE}, tags: [PII], validty: x}}]\n",
        f"tags: [{{on: {TABLE}}}]\n",
        "tags: [{on: {catalog: spark_catalog, database: shop, table: pay, colum: id}, tags: [PII]}]\n",
        "tags: [{on: {catalog: spark_catalog, database: shop, table: [pay, 5]}, tags: [PII]}]\n",
    ],
)
def test_what_carries_a_tag_at_fault_is_closed_and_nothing_else(tags: str) -> None:
    found = pack(tags)
    now = in_force(found)
    assert not may(now, "pay")
    assert not may(now, "gone")
    assert any("b0.yaml:1: " in fault for fault in told(found))
    if "[pay, 5]" not in tags:
        assert may(now, "orders")


@pytest.mark.parametrize(
    "tags", ["tags: [foo]\n", "tags: [null]\n", "tags: {on: x}\n", "tags: [{tags: [PII]}]\n"]
)
def test_tags_of_nobody_knows_what_close_everything(tags: str) -> None:
    now = in_force(pack(tags))
    assert not may(now, "pay")
    assert not may(now, "orders")


def test_no_tag_that_allows_opens_what_a_tag_at_fault_closes() -> None:
    tags = (
        f"tags: [{{on: {TABLE}, tags: [OPEN]}}, {{on: {TABLE}, tags: [{{tpye: PII}}]}}]\n"
        "policies:\n  - {name: open, priority: override, on: {tag: OPEN}, "
        "allow: [{users: [ann], access: [select]}]}\n"
    )
    assert not may(in_force(pack(tags)), "pay")


ZONES = [
    "zones: {z: {on: {catalog: spark_catalog, database: shop, table: [pay, 5]}}}\n",
    "zones: {z: {on: {catalog: spark_catalog, database: shop, tabel: pay}}}\n",
    "zones: {z: [shop]}\n",
    "zones: {z: }\n",
    "zones: {z: {om: 1}}\n",
    f"zones: {{z: {{on: {TABLE}, own_tag_policies: x}}}}\n",
    "zones: [z]\n",
]


@pytest.mark.parametrize("zones", ZONES)
def test_what_a_zone_at_fault_may_hold_is_closed(zones: str) -> None:
    mine = f"{{name: in z, zone: z, {PAY}, allow: [{{users: [ann], access: [select]}}]}}"
    found = pack(zones + policies(mine))
    now = in_force(found)
    assert not may(now, "pay")
    assert not may(now, "gone")
    assert any("b0.yaml:1: " in fault for fault in told(found))
    if TABLE in zones:
        assert may(now, "orders")


@pytest.mark.parametrize("other", ["", "zones: {other: {on: {catalog: spark_catalog, database: shop}}}\n"])
def test_a_policy_of_a_zone_that_is_not_there_closes_what_it_hides_wherever_that_lies(other: str) -> None:
    every = "on: {catalog: spark_catalog, database: shop, table: '*', column: '*'}"
    opens = f"{{name: o, zone: other, {every}, allow: [{{users: [ann], access: [select]}}]}}"
    mask = f"{{name: m, zone: othr, {PAY}, mask: [{{groups: [public], type: MASK_NULL}}]}}"
    texts = [other + policies(mask, *([opens] if other else []))]
    found = pack(*texts)
    now = in_force(found)
    assert not may(now, "pay")
    assert may(now, "orders")
    assert any("zone `othr` does not exist" in fault for fault in told(found))
    grants = policies(f"{{name: g, zone: othr, {PAY}, allow: [{{users: [zed], access: [select]}}]}}")
    now = in_force(pack(grants))
    assert not may(now, "pay", "zed")
    assert may(now, "pay")


def test_a_zone_that_two_packs_define_is_closed_with_both() -> None:
    zone = f"zones: {{z: {{on: {TABLE}}}}}\n"
    now = in_force(pack(zone, zone.replace("pay", "more"), zone.replace("pay", "third")))
    assert [may(now, table) for table in ("pay", "more", "third", "orders")] == [False, False, False, True]


@pytest.mark.parametrize(
    "entry",
    ["foo", "", "5", "[a, b]", "{}", "'name: x'", "{name: x}", "{name: x, on: }", "~"],
)
def test_a_policy_of_which_nothing_can_be_read_closes_everything_of_its_service(entry: str) -> None:
    found = pack(policies(entry))
    now = in_force(found)
    assert not may(now, "orders")
    assert not may(now, "gone")
    assert any("b0.yaml:2: " in fault for fault in told(found))


@pytest.mark.parametrize("text", ["policies: foo\n", "policies: {name: x}\n", "policys: [{name: x}]\n"])
def test_policies_that_are_no_list_close_everything(text: str) -> None:
    assert not may(in_force(pack(text)), "orders")


@pytest.mark.parametrize(
    "text",
    [
        "cases: [foo]\n",
        "people: {ann: [x]}\n",
        "descripton: what it is for\n",
        "super_users: [root, 5]\n",
        "audit: {mode: nothing}\n",
        "audit: {filters: [{on: 5}]}\n",
        "audit: 5\n",
    ],
)
def test_what_opens_nothing_and_hides_nothing_holds_nothing_back(text: str) -> None:
    now = in_force(pack(text))
    assert may(now, "orders")
    assert not may(now, "gone")
    assert not may(now, "gone", "root"), "nobody is a super user by a list at fault"
    assert now.services["spark"].audit.mode == ("audit-all" if "audit" in text else "audit-default")


@pytest.mark.parametrize(
    "directory",
    [
        "{users: {ann: {attributes: {dept: [a, b]}}}}",
        "{users: {ann: {attributes: {dept: 5}}}}",
        "{users: {ann: {groups: [x, 5]}}}",
        "{users: {ann: foo}}",
        "{groups: {staff: {attributes: [x]}}}",
    ],
)
def test_who_cannot_be_read_is_denied_everything_and_nobody_else_is(directory: str) -> None:
    found = pack(f"directory: {directory}\n")
    now = in_force(found)
    assert not may(now, "orders", "ann", "staff")
    assert may(now, "orders", "bob")
    assert not may(now, "gone", "bob")
    assert any("b0.yaml:1: " in fault for fault in told(found))


# Ranger's JSON


def entry(ident: int, table: str, **more: Any) -> dict[str, Any]:
    resources = {
        level: {"values": [value]}
        for level, value in {"catalog": "*", "database": "shop", "table": table, "column": "*"}.items()
    }
    items = [{"users": ["ann", "bob"], "roles": ["readers"], "accesses": [{"type": "select"}]}]
    return {
        "id": ident,
        "name": f"p{ident}",
        "service": "spark",
        "policyType": 0,
        "resources": resources,
        "policyItems": items,
        **more,
    }


def denied(ident: int, table: str, **who: list[str]) -> dict[str, Any]:
    item = {**who, "accesses": [{"type": "select"}]}
    return entry(ident, table, policyItems=[], denyPolicyItems=[item])


def download(*policies: Any, tags: Any = None, **more: Any) -> PolicySet:
    body = {
        "serviceName": "spark",
        "serviceType": "spark",
        "policies": [entry(1, "*"), denied(2, "gone", groups=["public"]), *policies],
        **more,
    }
    converted = Converter(DEFINITIONS, tolerant=True).service(body, tags=tags, file="spark")
    return PolicySet(
        version=1,
        services={"spark": converted.service},
        roles=converted.roles,
        catalog_services=CATALOGS,
        users=converted.users or UserStore(),
    )


@pytest.mark.parametrize(
    "role",
    [
        {"name": "readers", "users": [{"name": 5}]},
        {"name": "readers", "users": "ann"},
        {"name": 5, "users": [{"name": "rae"}]},
        {"users": [{"name": "rae"}]},
        {"name": "readers", "isEnabled": "maybe", "users": [{"name": "rae"}]},
        "readers",
        None,
    ],
)
def test_a_role_of_an_admin_at_fault_holds_back_no_other(role: Any) -> None:
    document = {"rangerRoles": [role, {"name": "fine", "users": [{"name": "fay"}]}], "roleVersion": 2}
    roles = roles_of(document, file="spark (roles)", tolerant=True)
    found = download(denied(3, "pay", roles=["readers"]), denied(4, "fees", roles=["fine"]))
    found = PolicySet(
        version=1, services=found.services, roles=roles, catalog_services=found.catalog_services
    )
    now = in_force(found)
    assert not may(now, "orders", "rae")
    assert not may(now, "pay")
    assert may(now, "fees")
    assert not may(now, "fees", "fay")
    assert not may(now, "gone")
    assert any("spark (roles): rangerRoles[0]" in fault for fault in told(found))


TAGGED = {
    "serviceName": "spark",
    "tagVersion": 5,
    "tags": {"7": {"type": "PII"}},
    "serviceResources": [
        {
            "id": 1,
            "resourceElements": {
                "catalog": {"values": ["*"]},
                "database": {"values": ["shop"]},
                "table": {"values": ["pay"]},
            },
        }
    ],
    "resourceToTagIds": {"1": [7]},
}


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(TAGGED))
    at: Any = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return document


RESOURCE = ("serviceResources", 0, "resourceElements")


@pytest.mark.parametrize(
    ("path", "value", "closes_all"),
    [
        (("tags", "7"), {"type": 5}, False),
        (("tags", "7"), None, False),
        (("tags", "7"), {"type": "PII", "attributes": {"a": [1]}}, False),
        (("tags",), {"x": {"type": "PII"}}, True),
        (("tags",), 3, True),
        (("resourceToTagIds", "1"), [77], False),
        (("resourceToTagIds", "1"), "7", False),
        (("resourceToTagIds",), 5, True),
        ((*RESOURCE, "tabel"), {"values": ["x"]}, False),
        ((*RESOURCE, "table"), {"values": [5]}, True),
        ((*RESOURCE, "table"), 5, True),
        (RESOURCE, [], True),
        (("serviceResources", 0), None, True),
        (("serviceResources", 0, "id"), None, False),
        (("serviceResources", 0, "isEnabled"), "maybe", False),
    ],
)
def test_tags_of_an_admin_at_fault_close_what_carries_them(
    path: tuple[Any, ...], value: Any, *, closes_all: bool
) -> None:
    found = download(tags=changed(path, value))
    now = in_force(found)
    assert not may(now, "pay")
    assert may(now, "orders") is not closes_all
    assert not may(now, "gone")
    assert any("tags" in fault for fault in told(found))


def test_tags_that_were_read_before_are_told_of_again_and_mended() -> None:
    converter = Converter(DEFINITIONS, tolerant=True)
    body = {"serviceName": "spark", "serviceType": "spark", "policies": []}
    bad, good = changed(("tags", "7"), {"type": 5}), changed(("tags", "7"), {"type": "PII"})
    for tags, faults in ((good, 0), (bad, 1), (bad, 1), (good, 0)):
        service = converter.service(body, tags=tags).service
        assert len([one for one in service.policies if one.broken]) == faults
        assert len(service.tagged) == 1 - faults


@pytest.mark.parametrize(
    ("zone", "closes_all"),
    [
        ({"resources": [{"database": ["shop"], "tabel": ["pay"], "catalog": ["*"]}]}, True),
        ({"resources": [{"catalog": ["*"], "database": ["shop"], "table": [5]}]}, True),
        ({"resources": "x"}, True),
        ({"resources": [None]}, True),
        (5, True),
        (
            {"resources": [{"catalog": ["*"], "database": ["shop"], "table": ["pay"]}], "policies": 5},
            False,
        ),
        (
            {
                "resources": [{"catalog": ["*"], "database": ["shop"], "table": ["pay"]}],
                "containsAssociatedTagService": "maybe",
            },
            False,
        ),
    ],
)
def test_a_zone_of_an_admin_at_fault_closes_what_it_holds(zone: Any, *, closes_all: bool) -> None:
    found = download(securityZones={"z": zone})
    now = in_force(found)
    assert not may(now, "pay")
    assert may(now, "orders") is not closes_all
    assert not may(now, "gone")
    assert any("securityZones.z" in fault for fault in told(found))


@pytest.mark.parametrize("raw", ["foo", None, 5, [], {}, {"policyType": 1}, {"x": 1}, {"id": 5, "name": 3}])
def test_a_policy_of_an_admin_of_which_nothing_can_be_read_closes_everything(raw: Any) -> None:
    now = in_force(download(raw))
    assert not may(now, "orders")
    assert not may(now, "gone")


@pytest.mark.parametrize(
    "more", [{"resources": {}}, {"denyPolicyItems": [], "policyItems": []}, {"isDenyAllElse": "false"}]
)
def test_a_policy_of_an_admin_at_fault_that_hides_nothing_closes_nothing(more: dict[str, Any]) -> None:
    assert may(in_force(download({**entry(3, "pay"), "id": None, **more})), "pay")


@pytest.mark.parametrize(
    "more",
    [
        {"denyPolicyItems": ""},
        {"denyPolicyItems": {}},
        {"isDenyAllElse": "maybe"},
        {"isDenyAllElse": []},
        {"policyType": 1, "resources": []},
        {"policyType": 1, "resources": ""},
        {"policyType": 1, "resources": {"catalog": {"values": ["*"]}, "tabel": {"values": ["pay"]}}},
        {"policyType": 2, "resources": {"catalog": {"values": ["*"]}, "database": {"values": ["*"]}}},
    ],
)
def test_a_policy_of_an_admin_at_fault_that_may_hide_something_does(more: dict[str, Any]) -> None:
    assert not may(in_force(download({**entry(3, "pay"), "id": None, **more})), "pay")


@pytest.mark.parametrize("zones", [5, "z", ["z"]])
def test_zones_of_an_admin_that_are_none_close_everything(zones: Any) -> None:
    assert not may(in_force(download(securityZones=zones)), "orders")


@pytest.mark.parametrize("level", ["catalog", "database", "table"])
def test_a_mask_that_lacks_a_level_hides_all_that_it_may_be_about(level: str) -> None:
    """A wildcard of a mask is closed by NULL, not by a denial: it has to match what it may be about."""
    on = PAY.replace(f"{level}:", f"{level}x:")
    now = in_force(pack(policies(f"{{name: m, {on}, mask: [{{groups: [public], type: MASK_NULL}}]}}")))
    assert not may(now, "pay")


def test_more_resources_of_a_policy_that_cannot_be_read_are_any() -> None:
    bad = denied(3, "pay", groups=["public"]) | {"additionalResources": ["x"]}
    assert not may(in_force(download(bad)), "orders")


@pytest.mark.parametrize(
    "configuration",
    [{"ranger.plugin.super.users": ["root"]}, 5, {"x": {}}],
    ids=["a list", "a number", "odd"],
)
def test_a_configuration_at_fault_makes_nobody_a_super_user(configuration: Any) -> None:
    now = in_force(download(serviceConfig=configuration, superUsers=["root"]))
    assert not may(now, "gone", "root")
    assert may(now, "orders")
    assert now.services["spark"].audit.mode == "audit-all"


@pytest.mark.parametrize(
    "users",
    [
        {"userAttrMapping": {"ann": {"dept": ["x"]}}},
        {"userAttrMapping": {"ann": 5}},
        {"userGroupMapping": {"ann": "staff"}},
        {"groupAttrMapping": {"staff": {"x": {}}}},
    ],
)
def test_users_of_an_admin_at_fault_are_denied_everything(users: dict[str, Any]) -> None:
    store = users_of({"userStoreVersion": 1, **users}, tolerant=True)
    found = download()
    now = in_force(PolicySet(version=1, services=found.services, users=store, catalog_services=CATALOGS))
    assert not may(now, "orders", "ann", "staff")
    assert may(now, "orders", "bob")


# Data sharing


def shared(**more: Any) -> dict[str, Any]:
    """A share of `pay` with a mask, in a dataset that Sue may use; the admin's own policy lets Ann in."""
    resource = {level: {"values": [value]} for level, value in (("catalog", "*"), ("database", "shop"))}
    base: dict[str, Any] = {
        "serviceName": "spark",
        "gdsVersion": 3,
        "dataShares": [{"id": 1, "name": "s", "defaultAccessTypes": ["select"]}],
        "datasets": [
            {
                "id": 5,
                "name": "d",
                "policies": [
                    {
                        "id": 9,
                        "name": "d",
                        "resources": {"dataset-id": {"values": ["5"]}},
                        "policyItems": [{"users": ["sue", "ann"], "accesses": [{"type": "select"}]}],
                    }
                ],
            }
        ],
        "dshids": [{"id": 1, "dataShareId": 1, "datasetId": 5, "status": "ACTIVE"}],
        "resources": [
            {
                "id": 2,
                "dataShareId": 1,
                "name": "r",
                "resource": {**resource, "table": {"values": ["pay"]}},
                "subResourceType": "column",
                "subResource": {"values": ["*"]},
                "rowFilter": {"filterExpr": "id = 1"},
            },
            {
                "id": 3,
                "dataShareId": 1,
                "name": "open",
                "resource": {**resource, "table": {"values": ["shared"]}},
                "subResourceType": "column",
                "subResource": {"values": ["*"]},
            },
        ],
    }
    return {**base, **more}


def test_what_is_shared_is_filtered_for_whom_policies_let_in() -> None:
    now = in_force(download(gdsInfo=shared()))
    assert may(now, "shared", "sue")
    table = Resource.table("spark_catalog", "shop", "pay")
    assert engine_for(now).row_filter(Principal(user="ann"), table) is not None


@pytest.mark.parametrize(
    "more",
    [
        {"dataShares": [{"id": 1, "conditionExpr": "(("}]},
        {"dataShares": [{"id": "x"}]},
        {"dataShares": ["s"]},
        {"dataShares": 5},
        {"datasets": [{"id": 5, "policies": ["x"]}]},
        {"datasets": [{"id": 5, "policies": 3}]},
        {"datasets": [None]},
        {"projects": [{"id": "x"}]},
        {"dshids": [{"id": 1, "dataShareId": "x", "datasetId": 5, "status": "ACTIVE"}]},
        {"dshids": "x"},
        {"dataShares": [{"id": 1, "defaultAccessTypes": ["select"]}] * 2},
    ],
)
def test_a_share_or_dataset_at_fault_grants_nothing_and_closes_what_is_shared_under_filters(
    more: dict[str, Any],
) -> None:
    found = download(gdsInfo=shared(**more))
    now = in_force(found)
    assert not may(now, "pay"), "nobody can tell whom the filter is for"
    assert may(now, "orders")
    assert not may(now, "gone")
    assert any("gdsInfo" in fault for fault in told(found))
    if "projects" not in more:
        assert not may(now, "shared", "sue")


@pytest.mark.parametrize(
    ("change", "closes_all"),
    [
        ({"rowFilter": {"filterExpr": 5}}, False),
        ({"rowFilter": {"filterExpr": "a -- b"}}, False),
        ({"subResourceType": "colum"}, False),
        ({"resource": 5}, True),
        ({"resource": {"database": {"values": [5]}, "catalog": {"values": ["*"]}}}, True),
        ({"conditionExpr": "(("}, False),
    ],
)
def test_a_shared_resource_at_fault_closes_itself(change: dict[str, Any], *, closes_all: bool) -> None:
    document = shared()
    document["resources"][0] |= change
    now = in_force(download(gdsInfo=document))
    assert not may(now, "pay")
    assert may(now, "orders") is not closes_all
    assert may(now, "shared", "sue") is not closes_all
    assert not may(now, "gone")


@pytest.mark.parametrize("raw", ["x", None])
def test_a_shared_resource_of_which_nothing_can_be_read_closes_everything(raw: Any) -> None:
    assert not may(in_force(download(gdsInfo=shared(resources=[raw]))), "orders")


def test_what_is_shared_with_a_role_at_fault_is_not() -> None:
    document = shared()
    document["datasets"][0]["policies"][0]["policyItems"] = [
        {"roles": ["readers"], "accesses": [{"type": "select"}]}
    ]
    found = download(
        gdsInfo=document, roles={"rangerRoles": [{"name": "readers", "users": 5}], "roleVersion": 1}
    )
    now = in_force(found)
    assert not may(now, "pay")
    assert may(now, "orders")


# Ranger's files


def test_files_of_rangers_have_the_same() -> None:
    export = {
        "policies": [{**entry(1, "*"), "serviceType": "spark"}, {**denied(2, "gone", groups=["public"])}]
    }
    zoned = {**entry(3, "pay"), "zoneName": "z", "policyType": 0, "isDenyAllElse": True}
    export["policies"].append(zoned)
    texts = {
        "export.json": json.dumps(export),
        "tags.json": json.dumps(changed(("tags", "7"), {"type": 5})).replace('"pay"', '"fees"'),
        "roles.json": json.dumps({"rangerRoles": [{"name": "readers", "users": 5}]}),
    }
    files = load_files(texts, DEFINITIONS, tolerant=True)
    found = PolicySet(version=1, services=files.services, roles=files.roles, catalog_services=CATALOGS)
    now = in_force(found)
    assert [may(now, table) for table in ("pay", "fees", "gone", "orders")] == [False, False, False, True]
    assert {fault.split(":")[0] for fault in told(found)} == {"export.json", "tags.json", "roles.json"}
