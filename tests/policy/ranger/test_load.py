"""ServicePolicies become a PolicySet with everything in them, or every fault is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.model.policy import (
    AuditFilter,
    Condition,
    FilterItem,
    MaskItem,
    PolicyItem,
    PolicyType,
    ResourceValues,
    Role,
    Service,
)
from gateway.policy.json_documents import parse_json
from gateway.policy.ranger import Converter, load
from tests.policy.ranger.data import at, download, hive, item, policy, shipped, tag


def only(data: dict[str, Any]) -> Service:
    (service,) = load(data).services.values()
    return service


def warnings_of(*policies: Any, **fields: Any) -> tuple[str, ...]:
    return load(download(*policies, **fields)).warnings


def faults_of(data: Any) -> tuple[str, ...]:
    with pytest.raises(Faults) as caught:
        load(data)
    return caught.value.faults


def test_every_field_of_a_policy() -> None:
    condition = {"type": "_expression", "values": ["USER.dept == 'hr'"]}
    written = policy(
        9,
        guid="g-9",
        version=4,
        isEnabled=False,
        isAuditEnabled=False,
        policyPriority=1,
        description="about",
        policyLabels=["blue"],
        additionalResources=[at(database="crm", table="leads", column="*")],
        conditions=[condition],
        isDenyAllElse=True,
        resources={
            "database": {"values": ["shop", " "], "isExcludes": True, "isRecursive": "true"},
            "table": {"values": ["orders"]},
        },
        policyItems=[
            {
                "accesses": [{"type": "SELECT"}, {"type": "drop", "isAllowed": False}],
                "users": ["ann", ""],
                "groups": ["hr"],
                "roles": ["boss"],
                "delegateAdmin": True,
                "conditions": [condition],
            }
        ],
        denyPolicyItems=[item("update", users=["bob"])],
        allowExceptions=[item("alter", users=["cyd"])],
        denyExceptions=[item("lock", users=["dan"])],
        validitySchedules=[{"startTime": "2025/01/01 00:00:00"}],
    )
    (found,) = only(download(written)).policies
    test = Condition(type="_expression", values=("USER.dept == 'hr'",))
    assert (found.id, found.guid, found.version, found.name, found.service) == (9, "g-9", 4, "p9", "dev")
    assert (found.enabled, found.audited, found.priority, found.deny_all_else) == (False, False, 1, True)
    assert (found.description, found.labels, found.type) == ("about", ("blue",), PolicyType.ACCESS)
    assert found.resources == {
        "database": ResourceValues(values=("shop",), excludes=True, recursive=True),
        "table": ResourceValues(values=("orders",)),
    }
    assert [list(more) for more in found.additional_resources] == [["database", "table", "column"]]
    assert found.allow == (
        PolicyItem(
            users=frozenset({"ann"}),
            groups=frozenset({"hr"}),
            roles=frozenset({"boss"}),
            accesses=frozenset({"select"}),
            conditions=(test,),
            delegate_admin=True,
        ),
    )
    assert found.conditions == (test,)
    assert [i.accesses for i in (*found.deny, *found.allow_exceptions, *found.deny_exceptions)] == [
        {"update"},
        {"alter"},
        {"lock"},
    ]
    assert len(found.schedules) == 1


def test_masks_and_filters() -> None:
    on = at(database="hr", table="emp", column="ssn")
    info = {"dataMaskType": "CUSTOM", "valueExpr": "upper({col})", "conditionExpr": "x > 1"}
    mask = policy(1, policyType=1, resources=on, dataMaskPolicyItems=[item("select", dataMaskInfo=info)])
    rows = [
        item("select", rowFilterInfo={"filterExpr": " country = 'US' "}),
        item("select", rowFilterInfo={"filterExpr": ""}),
        item("select", rowFilterInfo={}),
    ]
    where = at(database="hr", table="emp")
    row_filter = policy(2, policyType=2, resources=where, rowFilterPolicyItems=rows)
    service = only(download(mask, row_filter))
    everybody = {"groups": frozenset({"public"}), "accesses": frozenset({"select"})}
    assert service.policies[0].masks == (
        MaskItem(
            **everybody,  # type: ignore[arg-type]
            mask_type="CUSTOM",
            value_expression="upper({col})",
            condition_expression="x > 1",
        ),
    )
    assert service.policies[1].filters == (
        FilterItem(**everybody, filter_expression="country = 'US'"),  # type: ignore[arg-type]
        FilterItem(**everybody, filter_expression=""),  # type: ignore[arg-type]
    )


def test_zones_super_users_and_audit_rules() -> None:
    filters = (
        "[{'accessResult':'DENIED','isAudited':true}, "
        "{'users':['it\\'s'],'actions':['a \"b\"'],'isAudited':false}]"
    )
    config = {
        "ranger.plugin.super.users": "root, ops",
        "ranger.plugin.super.groups": "wheel",
        "ranger.plugin.audit.exclude.users": "robot",
        "ranger.plugin.audit.filters": filters,
    }
    zone = {
        "zoneName": "z",
        "resources": [{"database": ["hr", "pay"]}, {"url": ["s3://b"]}],
        "policies": [policy(2, zoneName="z")],
        "containsAssociatedTagService": True,
    }
    service = only(
        download(policy(1), securityZones={"z": zone}, serviceConfig=config, auditMode="audit-all")
    )
    assert [(p.id, p.zone) for p in service.policies] == [(1, ""), (2, "z")]
    assert service.version == 7
    (found,) = service.zones
    assert (found.name, found.governs_tags) == ("z", True)
    assert found.resources[0]["database"] == ResourceValues(values=("hr", "pay"))
    assert found.resources[1]["url"].recursive
    assert service.super_users == {"root", "ops"}
    assert service.super_groups == {"wheel"}
    assert service.audit.mode == "audit-all"
    assert service.audit.excluded_users == {"robot"}
    assert service.audit.filters == (
        AuditFilter(audited=True, result="DENIED"),
        AuditFilter(audited=False, users=frozenset({"it's"}), actions=frozenset({'a "b"'})),
    )


def test_audit_filters_that_cannot_be_read_filter_nothing() -> None:
    config = {"ranger.plugin.audit.filters": "[{'isAudited': "}
    loaded = load(download(serviceConfig=config))
    assert loaded.services["dev"].audit.filters == ()
    assert "not JSON" in loaded.warnings[0]


@pytest.mark.parametrize(
    "filters", ["1", "[1]", "[{'isAudited': 'x'}]", "[{'isAudited': true, 'users': 'ann'}]"]
)
def test_what_is_wrong_with_audit_filters_keeps_no_policy_away(filters: str) -> None:
    loaded = load(download(serviceConfig={"ranger.plugin.audit.filters": filters}))
    assert loaded.services["dev"].audit.filters == ()
    assert "are ignored" in loaded.warnings[-1]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"serviceResources": []}, "resource `5` does not exist"),
        ({"resourceToTagIds": {"05": [1]}}, "resource `05` does not exist"),
        ({"serviceResources": [{"id": 5, "resourceElements": at(table="emp")}]}, "do not form a path"),
        ({"serviceResources": [{"id": 5}]}, "do not form a path"),
    ],
)
def test_tags_that_lie_on_nothing_are_told(more: dict[str, Any], told: str) -> None:
    resources = [{"id": 5, "resourceElements": at(database="hr")}]
    tags = {"tags": {"1": {"type": "PII"}}, "serviceResources": resources, "resourceToTagIds": {"5": [1]}}
    assert load(download(tags=tags)).warnings == ()
    (warning,) = load(download(tags=tags | more)).warnings
    assert told in warning
    nameless = {"resourceElements": at(database="hr")}
    with pytest.raises(Faults, match="`id` is missing"):
        load(download(tags=tags | {"serviceResources": [*resources, nameless]}))


@pytest.mark.parametrize("nothing", [{}, "", 0, False])
def test_a_list_that_is_empty_and_no_list_is_told(nothing: object) -> None:
    for key in ("validitySchedules", "conditions", "dataMaskPolicyItems", "rowFilterPolicyItems"):
        with pytest.raises(Faults, match=f"`{key}` must be a list"):
            load(download(policy(1, **{key: nothing})))
    with pytest.raises(Faults, match="`conditions` must be a list"):
        load(download(policy(1, policyItems=[item("select", conditions=nothing)])))


def test_tags_and_policies_on_them() -> None:
    on_pii = at(tag="PII")
    masks = [
        item("hive:select", dataMaskInfo={"dataMaskType": "hive:MASK_NULL"}),
        item("hive:select", dataMaskInfo={"dataMaskType": "trino:MASK_NULL"}),
    ]
    tag_policies = [
        policy(11, resources=on_pii, policyItems=[item("hive:SELECT", "hdfs:read"), item("hdfs:read")]),
        policy(12, resources=on_pii, policyItems=[item("hdfs:read")], isAuditEnabled=False),
        policy(13, resources=on_pii, policyItems=[item("hdfs:read")], zoneName="z"),
        policy(14, policyType=1, resources=on_pii, policyItems=[], dataMaskPolicyItems=masks),
    ]
    tags = {
        "serviceName": "dev",
        "tagDefinitions": {},
        "tags": {
            "1": {
                "type": "PII",
                "owner": 1,
                "attributes": {"level": 3, "none": None},
                "validityPeriods": [{"endTime": "2030/01/01 00:00:00"}],
            },
            "2": {"type": "OLD"},
        },
        "serviceResources": [
            {"id": 5, "resourceElements": at(database="hr", table="emp")},
            {"id": 6, "resourceElements": at(database="hr")},
        ],
        "resourceToTagIds": {"5": [1, "2"], "6": []},
    }
    definition = tag(
        accessTypes=[
            {"name": "hive:select"},
            {"name": "hive:all", "impliedGrants": ["hive:select", "hive:drop"]},
            {"name": "hive:drop"},
            {"name": "hdfs:read"},
        ]
    )
    info = {"serviceName": "tags", "serviceDef": definition, "policies": tag_policies, "policyVersion": 3}
    service = only(download(tagPolicies=info, tags=tags))
    assert service.tags is not None
    assert (service.tags.name, service.tags.version) == ("tags", 3)
    assert [(p.id, p.zone, p.service) for p in service.tags.policies] == [
        (11, "", "tags"),
        (13, "z", "tags"),
        (14, "", "tags"),
    ]
    assert [i.accesses for i in service.tags.policies[0].allow] == [{"select"}]
    assert service.tags.policies[1].allow == ()
    assert [m.mask_type for m in service.tags.policies[2].masks] == ["MASK_NULL"]
    own = {access.name: access.implied for access in service.tags.definition.access_types}
    assert own.keys() == {access.name for access in service.definition.access_types}
    assert own["all"] == {"select", "drop"}
    assert [level.name for level in service.tags.definition.levels(PolicyType.MASK)] == ["tag"]
    (tagged,) = service.tagged
    assert tagged.id == 5
    assert [t.type for t in tagged.tags] == ["PII", "OLD"]
    assert (tagged.tags[0].owner, dict(tagged.tags[0].attributes)) == (1, {"level": "3"})
    assert len(tagged.tags[0].validity) == 1


def test_names_with_blanks_stay_as_they_are_and_a_policy_counts_where_it_stands() -> None:
    service = only(download(policy(service="prod", policyItems=[item("select", users=[" bob"])])))
    assert service.policies[0].allow[0].users == {" bob"}
    assert service.policies[0].service == "dev"
    assert warnings_of(policy(service="dev", policyItems=[item("select", users=["bob"])])) == ()


def test_policies_on_tags_of_a_zone_that_the_service_has_no_part_in_are_told() -> None:
    """They are another service's: a tag service serves several. A misspelled zone looks the same."""
    on_pii = {"resources": at(tag="PII"), "policyItems": [item("hive:select")]}
    zoned = [policy(n, zoneName="z", **on_pii) for n in range(1, 8)]
    info = {
        "serviceName": "tags",
        "policies": [*zoned, policy(8, zoneName="y", **on_pii), policy(9, **on_pii)],
    }
    zones = {"y": {"resources": [{"database": ["y"]}], "containsAssociatedTagService": True}}
    found = warnings_of(tagPolicies=info, securityZones=zones)
    assert found == (
        (
            "tagPolicies: the service has no resources in zone `z`: tag policies apply to nothing here: 1 "
            "`p1`, 2 `p2`, 3 `p3`, 4 `p4`, 5 `p5`, …"
        ),
    )


def test_a_tag_service_without_a_definition() -> None:
    info = {"policies": [policy(11, resources=at(tag="PII"), policyItems=[item("hive:select")])]}
    service = only(download(tagPolicies=info))
    assert service.tags is not None
    assert service.tags.definition.resource("tag") is not None
    assert {c.name for c in service.tags.definition.conditions} >= {"accessed-after-expiry"}


def test_roles_and_users() -> None:
    roles = [
        {"name": "a", "users": [{"name": "ann", "isAdmin": True}], "roles": [{"name": "b"}]},
        {"name": "b", "groups": ["eng"]},
    ]
    store = {
        "userAttrMapping": {"ann": {"dept": "hr", "level": 3}},
        "groupAttrMapping": {"eng": {"site": "x"}},
        "userGroupMapping": {"ann": ["eng"]},
    }
    policies = load(download(roles={"rangerRoles": roles}, userStore=store, groupRoles={"ops": ["a"]}))
    assert policies.roles == (
        Role(name="a", users=frozenset({"ann"}), groups=frozenset({"ops"}), roles=frozenset({"b"})),
        Role(name="b", groups=frozenset({"eng"})),
    )
    assert policies.users.users == {"ann": {"dept": "hr", "level": "3"}}
    assert policies.users.groups == {"eng": {"site": "x"}}
    assert policies.users.memberships == {"ann": {"eng"}}
    assert not policies.users.adds_groups


def test_what_the_test_files_of_ranger_hold() -> None:
    data = download(
        policy(),
        tagPolicyInfo={
            "serviceName": "tagdev",
            "tagPolicies": [policy(2, resources=at(tag="X"), policyItems=[])],
        },
        userRoles={"ann": ["r1"]},
        groupRoles={"eng": ["r1", "r2"]},
        roleRoles={"r1": ["r3"]},
        superUsers=["root"],
        auditExcludedGroups=["robots"],
        tests=[{"name": "not ours"}],
    )
    policies = load(data)
    service = policies.services["dev"]
    assert service.tags is not None
    assert [p.id for p in service.tags.policies] == [2]
    assert service.super_users == {"root"}
    assert service.audit.excluded_groups == {"robots"}
    members = {role.name: (role.users, role.groups, role.roles) for role in policies.roles}
    assert members == {
        "r1": ({"ann"}, {"eng"}, frozenset()),
        "r2": (frozenset(), {"eng"}, frozenset()),
        "r3": (frozenset(), frozenset(), {"r1"}),
    }


def test_empty_and_null_are_absent() -> None:
    sparse: dict[str, Any] = {
        "id": 3,
        "name": None,
        "isEnabled": None,
        "policyType": None,
        "policyItems": None,
        "conditions": None,
        "resources": at(database="shop"),
        "validitySchedules": [],
    }
    (found,) = only({"serviceDef": hive(), "policies": [sparse], "securityZones": None, "tags": {}}).policies
    assert (found.enabled, found.audited, found.name, found.allow) == (True, True, "", ())
    assert load({"serviceDef": hive()}).services["hive"].policies == ()


def test_a_definition_may_be_given_beside() -> None:
    data = download(policy(), serviceType="hive")
    del data["serviceDef"]
    assert load(data, service_defs=shipped()).services["dev"].definition is shipped()["hive"]
    assert faults_of(data) == ("serviceDef: `serviceDef` is missing",)


def test_a_definition_of_an_admin_takes_over_what_its_plugin_calls_things() -> None:
    """A Ranger Admin's `hive` does not say that inserting is its `update`; the gateway's own does."""
    raw = hive(options={"enableDenyAndExceptionsInPolicies": "true"})
    found = load(download(policy(), serviceDef=raw), service_defs=shipped()).services["dev"].definition
    assert found.access_aliases == shipped()["hive"].access_aliases
    assert load(download(policy(), serviceDef=raw)).services["dev"].definition.access_aliases == {}
    raw["accessTypes"] = [*raw["accessTypes"], {"itemId": 50, "name": "insert"}]
    raw["options"]["sluice.access.delete"] = "insert"
    found = load(download(policy(), serviceDef=raw), service_defs=shipped()).services["dev"].definition
    assert found.access_aliases == {"delete": "insert"}
    del raw["options"]["sluice.access.delete"]
    found = load(download(policy(), serviceDef=raw), service_defs=shipped()).services["dev"].definition
    assert "insert" not in found.access_aliases
    assert found.access_aliases["delete"] == "update"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"id": None}, "policies[0]: policy `p1`: `id` is missing"),
        ({"id": "x"}, "`id` must be a whole number, not the text `x`"),
        ({"name": 5}, "`name` must be a text, not a number"),
        ({"policyType": 3}, "unknown policy type 3"),
        ({"policyPriority": 2}, "priority must be 0 (normal) or 1 (override), not 2"),
        ({"isEnabled": "perhaps"}, "`isEnabled` must be true or false, not the text `perhaps`"),
        ({"resources": []}, "`resources` must be an object (`{…}`), not a list"),
        ({"resources": at(databse="x")}, "unknown level `databse` (did you mean `database`?)"),
        ({"resources": {"database": "x"}}, "`database` must be an object (`{…}`), not the text `x`"),
        ({"resources": {"database": {"values": "x"}}}, "`values` must be a list, not the text `x`"),
        ({"resources": {"database": {"values": [1]}}}, "`values` must hold texts, not a number"),
        ({"resources": at(database="${{while(1)}}")}, "policies[0].resources.database: policy 1 `p1`: "),
        ({"additionalResources": at(database="x")}, "`additionalResources` must be a list, not an object"),
        ({"policyItems": {}}, "`policyItems` must be a list, not an object"),
        ({"policyItems": [None]}, "`policyItems` must hold objects (`{…}`), not null"),
        ({"denyPolicyItems": [item("selekt")]}, "unknown access type `selekt` (did you mean `select`?)"),
        ({"policyItems": [{"accesses": [{}]}]}, "`type` must be a text"),
        ({"policyItems": [item("select", users="ann")]}, "`users` must be a list, not the text `ann`"),
        ({"policyItems": [item("select", users=[None])]}, "`users` must hold texts, not null"),
        ({"denyPolicyItems": [item("select", conditions=[{"values": []}])]}, "`type` must be a text"),
        (
            {"conditions": [{"type": "_expression", "values": ["require('fs')"]}]},
            "condition `_expression`: ",
        ),
        (
            {"policyType": 1, "dataMaskPolicyItems": [item("select")]},
            "`dataMaskType` must be a text",
        ),
        (
            {
                "policyType": 1,
                "dataMaskPolicyItems": [
                    item("select", dataMaskInfo={"dataMaskType": "CUSTOM", "valueExpr": "{col} -- x"})
                ],
            },
            "a custom mask must not contain comments",
        ),
        (
            {"policyType": 2, "rowFilterPolicyItems": [item("select", rowFilterInfo={"filterExpr": "a; b"})]},
            "a row filter must not contain a semicolon",
        ),
        ({"validitySchedules": "always"}, "`validitySchedules` must be a list, not the text `always`"),
        ({"policyLabels": "blue"}, "`policyLabels` must be a list"),
    ],
)
def test_faults_of_a_policy(change: dict[str, Any], fault: str) -> None:
    found = faults_of(download(policy(**change)))
    assert any(fault in told and told.startswith("policies[0]") for told in found), found


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"policies": {}}, "policies: `policies` must be a list, not an object"),
        ({"policies": ["p"]}, "policies[0]: a policy must be an object"),
        ({"policyVersion": "new"}, "policyVersion: `policyVersion` must be a whole number"),
        ({"serviceDef": []}, "serviceDef: service definition: `serviceDef` must be an object"),
        ({"serviceDef": {}}, "serviceDef.name: service definition: `name` must be a text"),
        ({"policyDeltas": [{}]}, "policyDeltas: these are policy deltas"),
        (
            {"securityZones": {"z": {"policyDeltas": [{}]}}},
            "securityZones.z.policyDeltas: these are policy deltas",
        ),
        ({"securityZones": {"z": {"resources": [{"db": ["x"]}]}}}, "zone `z`: unknown level `db`"),
        ({"securityZones": {"z": 1}}, "securityZones.z: `z` must be an object"),
        ({"roles": [{"users": []}]}, "roles[0].name: `name` must be a text"),
        ({"roles": {"rangerRoles": [{"name": "r", "users": [{}]}]}}, "roles.rangerRoles[0].users[0].name:"),
        ({"userStore": {"userAttrMapping": {"ann": []}}}, "userStore.userAttrMapping.ann: `ann` must be an"),
        ({"tags": {"isDelta": True}}, "tags: these are tag deltas"),
        ({"tags": {"op": "delete"}}, "tags.op: `delete` is a deletion"),
        ({"tags": {"tags": {"x": {"type": "A"}}}}, "tags.tags.x: a tag's id must be a whole number"),
        ({"tags": {"tags": {"1": {}}}}, "tags.tags.1.type: `type` must be a text"),
        (
            {"tags": {"serviceResources": [{"id": 1}], "resourceToTagIds": {"1": [9]}}},
            "tags.resourceToTagIds.1[0]: tag 9 does not exist",
        ),
    ],
)
def test_faults_around_policies(change: dict[str, Any], fault: str) -> None:
    found = faults_of(download(**change))
    assert any(told.startswith(fault) or fault in told for told in found), found


def test_a_download_is_an_object() -> None:
    assert faults_of([1]) == ("the document must be an object (`{…}`), not a list",)


def test_all_faults_are_told_at_once_with_their_lines() -> None:
    denying = policy(1, denyPolicyItems=[item("selekt")])
    data = download(denying, policy(2, isEnabled="no"), roles=[{"name": ""}])
    text = json.dumps(data, indent=1)
    document = parse_json(text, "hive.json")
    with pytest.raises(Faults) as caught:
        Converter().service(document.data, document=document)
    lines = text.splitlines()
    found = [fault.split(":", 2) for fault in caught.value.faults]
    assert [file for file, _, _ in found] == ["hive.json"] * 3
    assert [lines[int(line) - 1].strip() for _, line, _ in found] == [
        '"type": "selekt",',
        '"isEnabled": "no"',
        '"name": ""',
    ]
    assert found[0][2].startswith(" policy 1 `p1`: unknown access type")


def test_policies_of_a_file_know_their_place() -> None:
    text = json.dumps(download(policy(1), policy(2)), indent=1)
    document = parse_json(text, "hive.json")
    service = Converter().service(document.data, document=document).service
    places = [p.place for p in service.policies]
    assert [place.line for place in places if place] == [
        i for i, line in enumerate(text.splitlines(), 1) if line == "  {"
    ][-2:]
    assert service.policies[0].allow[0].place == places[0]


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"resources": at(table="t")}, "`table` alone does not form a path from the root"),
        ({"resources": at(database="d", table="t", udf="f")}, "does not form a path from the root"),
        ({"resources": {}}, "a policy without resources never matches"),
        (
            {"policyType": 2, "resources": at(database="d", table="t", column="c")},
            "row-filter policies do not support level `column`, so it never matches",
        ),
        (
            {"policyItems": [item("select", conditions=[{"type": "moon", "values": []}])]},
            "unknown condition `moon`: it counts against access",
        ),
        ({"service": "prod"}, "it names service `prod` but is among the policies of `dev`, where it"),
        ({"policyItems": [item("select", users=["ann", " bob"])]}, "` bob` has surrounding blanks, so it"),
        ({"denyPolicyItems": [item("select", groups=["staff "])]}, "`staff ` has surrounding blanks, so it"),
        ({"policyItems": [item("select", roles=["\tclerks"])]}, "`\tclerks` has surrounding blanks, so it"),
        ({"zoneName": "z"}, "it names zone `z` but is among the policies of no zone"),
        (
            {
                "policyType": 1,
                "dataMaskPolicyItems": [item("select", dataMaskInfo={"dataMaskType": "SHUFFLE"})],
            },
            "unknown mask type `SHUFFLE`: the column will show NULL",
        ),
        (
            {
                "policyType": 1,
                "dataMaskPolicyItems": [item("select", dataMaskInfo={"dataMaskType": "CUSTOM"})],
            },
            "a custom mask without an expression shows NULL",
        ),
        (
            {"policyType": 2, "rowFilterPolicyItems": [item("select")]},
            "an item without `filterExpr` has no effect",
        ),
        (
            {"validitySchedules": [{"startTime": "soon"}]},
            "until it is fixed, the policy allows nothing, and its denials",
        ),
    ],
)
def test_warnings(change: dict[str, Any], warning: str) -> None:
    found = warnings_of(policy(**change))
    assert any(warning in told and "policy 1 `p1`" in told for told in found), found


def test_conditions_that_nobody_can_tell_are_warned_of() -> None:
    conditions = [{"name": "geo", "evaluator": "org.example.Geo"}]
    written = policy(policyItems=[item("select", conditions=[{"type": "geo", "values": ["x"]}])])
    found = load(download(written, serviceDef=hive(policyConditions=conditions))).warnings
    assert any("condition `geo` is not supported (Geo)" in told for told in found)


def test_markers_count_as_the_definition_says() -> None:
    written = policy(policyItems=[item("_READ")])
    assert not warnings_of(written)
    (found,) = only(download(written)).policies
    assert found.allow[0].accesses == {"_read"}
    silent = warnings_of(written, serviceDef=hive(markerAccessTypes=[]))
    assert any("does not define `_READ`: it grants nothing" in told for told in silent)


def test_a_mask_type_whose_transformer_is_not_understood_is_told() -> None:
    on = at(database="hr", table="emp", column="ssn")
    written = policy(
        policyType=1,
        resources=on,
        dataMaskPolicyItems=[item("select", dataMaskInfo={"dataMaskType": "SHUFFLE"})],
    )
    for transformer, told in (
        ("", True),
        ("mask_hash({col}) || 'x'", True),
        ("reverse({col})", False),
        ("mask_hash({col})", False),
    ):
        masks = {**hive()["dataMaskDef"], "maskTypes": [{"name": "SHUFFLE", "transformer": transformer}]}
        found = warnings_of(written, serviceDef=hive(dataMaskDef=masks))
        assert any("what mask type `SHUFFLE` shows is not supported" in warning for warning in found) is told


def test_roles_that_contain_each_other_are_harmless_and_told() -> None:
    roles = [{"name": "a", "roles": ["b"]}, {"name": "b", "roles": ["a", "gone"]}]
    found = warnings_of(roles=roles)
    assert any("contain each other: `a` → `b` → `a`" in told for told in found)
    assert any("`b` contains `gone`, which is not a role here" in told for told in found)


def test_two_policies_with_one_id_are_told() -> None:
    assert any("2 policies have the id 1" in told for told in warnings_of(policy(1), policy(1)))
