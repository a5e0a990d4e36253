"""Every rule that an object can break, in Ranger's codes, and all of them at once."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.roles import role_failures
from gateway.admin.ranger.shapes import POLICY, ROLE, SERVICE, ZONE, read
from gateway.admin.ranger.validation import Failure, message, messages
from gateway.admin.ranger.validation_policy import Surroundings, normalise_policy, policy_failures
from gateway.admin.ranger.validation_service import service_def_failures, service_failures
from gateway.admin.ranger.zones import zone_failures
from gateway.policy.ranger import load
from tests.admin.ranger.objects import hive, hive_body, item, policy, resources

SERVICE_ROW = {"id": 1, "name": "dev_hive", "type": "hive"}
AROUND = Surroundings(service=SERVICE_ROW, definition=hive())
ALLOWED = [item("select", users="ann")]


def codes(body: dict[str, Any], around: Surroundings = AROUND) -> list[int]:
    return [failure.code for failure in policy_failures(body, around)]


def masked(**info: Any) -> list[dict[str, Any]]:
    return [item("select", users="ann", dataMaskInfo=info)]


def filtered(text: str | None) -> list[dict[str, Any]]:
    return [item("select", users="ann", rowFilterInfo={"filterExpr": text})]


def schedule(**given: Any) -> dict[str, Any]:
    return {"validitySchedules": [given]}


def recurring(**given: Any) -> dict[str, Any]:
    fields = {"minute": "0", "hour": "9", "dayOfWeek": "2-6", "month": "*", "year": "*"}
    interval = {"hours": 8}
    if "interval" in given:
        interval = given.pop("interval")
    return schedule(recurrences=[{"schedule": fields | given, "interval": interval}])


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("plain", {"policyItems": ALLOWED}),
    ("nobody, but audited", {}),
    ("a database", {"resources": resources("shop"), "policyItems": ALLOWED}),
    ("a url", {"resources": {"url": {"values": ["s3://b/x"], "isRecursive": True}}, "policyItems": ALLOWED}),
    ("access in other letters", {"policyItems": [item("SELECT", users="ann")]}),
    ("a marker access type", {"policyItems": [item("_READ", users="ann")]}),
    ("delegation alone", {"policyItems": [item("", users="ann", delegateAdmin=True)]}),
    ("override", {"policyItems": ALLOWED, "policyPriority": 1}),
    ("all else denied", {"policyItems": ALLOWED, "isDenyAllElse": True}),
    ("further resources", {"policyItems": ALLOWED, "additionalResources": [resources("crm/leads/*")]}),
    ("period", {"policyItems": ALLOWED, **schedule(startTime="2026/01/01 00:00:00", timeZone="Asia/Tokyo")}),
    ("recurrence", {"policyItems": ALLOWED, **recurring()}),
    ("mask", {"policyType": 1, "resources": resources("hr/emp/ssn"),
              "dataMaskPolicyItems": masked(dataMaskType="MASK")}),
    ("custom mask", {"policyType": 1, "resources": resources("hr/emp/ssn"),
                     "dataMaskPolicyItems": masked(dataMaskType="CUSTOM", valueExpr="upper({col})")}),
    ("filter", {"policyType": 2, "resources": resources("hr/emp"),
                "rowFilterPolicyItems": filtered("dept = 'hr'")}),
    ("a filter of who asks", {"policyType": 2, "resources": resources("hr/emp"),
                              "rowFilterPolicyItems": filtered("dept = ${{USER.dept}}")}),
    ("values of who asks", {"resources": resources("u_{USER}/${{USER.dept}}_*/*"), "policyItems": ALLOWED}),
    ("a script", {"policyItems": [item("select", users="a", conditions=[
        {"type": "_expression", "values": ["USER.dept == 'hr' && IS_IN_GROUP('g')"]}])]}),
    ("no filter", {"policyType": 2, "resources": resources("hr/emp"), "rowFilterPolicyItems": filtered("")}),
]  # fmt: skip


@pytest.mark.parametrize("given", [g[1] for g in GOOD], ids=[g[0] for g in GOOD])
def test_a_good_policy_has_no_failures(given: dict[str, Any]) -> None:
    body = normalise_policy(policy(**given), hive())
    assert policy_failures(body, AROUND) == []


@pytest.mark.parametrize("given", [g[1] for g in GOOD], ids=[g[0] for g in GOOD])
def test_what_is_valid_here_is_valid_for_the_engine(given: dict[str, Any]) -> None:
    body = normalise_policy(policy(id=1, **given), hive())
    load({"serviceName": "dev_hive", "serviceDef": hive_body(), "policies": [show(body)]})


MASK = {"policyType": 1, "resources": resources("hr/emp/ssn")}
FILTER = {"policyType": 2, "resources": resources("hr/emp")}
BAD: list[tuple[int, str, dict[str, Any]]] = [
    (3002, "no name", {"name": None}),
    (3002, "no service", {"service": None}),
    (3008, "no items, no audit", {"isAuditEnabled": False}),
    (3011, "levels of two hierarchies", {"resources": {**resources("shop"), "url": {"values": ["s3://x"]}}}),
    (3011, "an unknown level", {"resources": {"schema": {"values": ["x"]}}}),
    (3012, "a missing level", {"resources": {"table": {"values": ["t"]}}}),
    (3025, "a gap", {"resources": {"database": {"values": ["a"]}, "column": {"values": ["c"]}}}),
    (3025, "a missing level of the only way", {"resources": {"udf": {"values": ["f"]}}}),
    (3015, "excluding what cannot be", {"resources": {"url": {"values": ["s3://x"], "isExcludes": True}}}),
    (3017, "recursion where there is none", {"resources": resources("shop", isRecursive=True)}),
    (3020, "nobody", {"policyItems": [item("select")]}),
    (3022, "an unknown access type", {"policyItems": [item("selct", users="ann")]}),
    (3022, "an access type that masks do not have",
     MASK | {"dataMaskPolicyItems": [item("update", users="a", dataMaskInfo={"dataMaskType": "MASK"})]}),
    (3023, "an access that is switched off",
     {"policyItems": [{**item("", users="a"), "accesses": [{"type": "drop", "isAllowed": False}]}]}),
    (3026, "no resources", {"resources": {}}),
    (3026, "no values", {"resources": {"database": {"values": []}}}),
    (3026, "an empty value", {"resources": {"database": {"values": ["a", " "]}}}),
    (3026, "no further resources", {"additionalResources": [{}]}),
    (3029, "an end before the start",
     schedule(startTime="2026/02/01 00:00:00", endTime="2026/01/01 00:00:00")),
    (3029, "a time of another form", schedule(startTime="2026-01-01")),
    (3029, "an unknown zone of time", schedule(startTime="2026/01/01 00:00:00", timeZone="Mars/Base")),
    (3029, "an empty schedule", schedule()),
    (3029, "a recurrence without interval", recurring(interval={})),
    (3029, "an interval of 24 hours in hours", recurring(interval={"hours": 24})),
    (3029, "a recurrence without a day", recurring(dayOfWeek=None)),
    (3029, "an hour that no day has", recurring(hour="25")),
    (3030, "a priority of 2", {"policyPriority": 2}),
    (3033, "an unknown zone", {"zoneName": "z"}),
    (3049, "all else denied, and a denial",
     {"isDenyAllElse": True, "denyPolicyItems": [item("drop", users="bob")]}),
    (3053, "a null user", {"policyItems": [{**item("select"), "users": [None, "a"]}]}),
    (3054, "an empty group", {"policyItems": [{**item("select"), "groups": [""]}]}),
    (3055, "a null role", {"policyItems": [{**item("select"), "roles": [None]}]}),
    (3056, "a value twice", {"resources": resources("shop,shop/t/*")}),
    (4009, "another type", {"serviceType": "trino"}),
    (4010, "no access", {"policyItems": [item("", users="ann")]}),
    (4010, "an access without type", {"policyItems": [{**item("", users="a"), "accesses": [{}]}]}),
    (9001, "an unknown mask", MASK | {"dataMaskPolicyItems": masked(dataMaskType="MASK_ALL")}),
    (9001, "no mask", MASK | {"dataMaskPolicyItems": [item("select", users="ann")]}),
    (9002, "a mask of two statements",
     MASK | {"dataMaskPolicyItems": masked(dataMaskType="CUSTOM", valueExpr="1; drop table t")}),
    (9002, "a filter with a comment", FILTER | {"rowFilterPolicyItems": filtered("a = 1 -- b")}),
    (9002, "no filter text", FILTER | {"rowFilterPolicyItems": filtered(None)}),
    (9003, "an unknown condition", {"conditions": [{"type": "moon", "values": ["full"]}]}),
    (9004, "a script that is none", {"conditions": [{"type": "_expression", "values": ["while (1) {}"]}]}),
    (9004, "a value with a script that is none", {"resources": resources("${{while(1)}}/t/*")}),
    (9002, "a filter with a script that is none", FILTER | {"rowFilterPolicyItems": filtered("a = ${{if}}")}),
    (9005, "items of another type of policy", {"dataMaskPolicyItems": masked(dataMaskType="MASK")}),
    (9006, "an unknown type of policy", {"policyType": 7}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "given"), [(b[0], b[2]) for b in BAD], ids=[f"{b[0]} {b[1]}" for b in BAD])
def test_a_bad_policy(code: int, given: dict[str, Any]) -> None:
    body, faults = read(
        POLICY, {"service": "dev_hive", "name": "p", "resources": resources("a/b/*"), **given}
    )
    assert not faults
    assert code in codes(normalise_policy(body, hive()))


def test_what_depends_on_what_is_stored() -> None:
    body = policy(id=7)
    stored = policy(id=7, service="other", zoneName="z", policyType=1)
    other = {"id": 9, "name": "q"}
    assert codes(body, Surroundings(service=None, definition=None)) == [3007]
    assert codes(body, replace(AROUND, same_name=other)) == [3006]
    assert codes(body, replace(AROUND, same_resources=other)) == [3010]
    assert codes(policy(isEnabled=False), replace(AROUND, same_resources=other)) == []
    assert codes(body, replace(AROUND, updating=True)) == [3004]
    assert codes(body, replace(AROUND, updating=True, stored=stored)) == [3027, 3028, 3032]
    zone = {"name": "z", "services": {"dev_hive": {}}}
    assert codes(policy(zoneName="z"), replace(AROUND, zone=zone)) == []
    assert codes(policy(zoneName="z"), replace(AROUND, zone={"name": "z"})) == [3048]
    excluding = policy(resources=resources("a/b") | {"column": {"values": ["c"], "isExcludes": True}})
    assert codes(excluding, replace(AROUND, administrator=False)) == [3016]


def test_all_failures_are_told_at_once_in_rangers_layout() -> None:
    body = policy(policyPriority=9, policyItems=[item("selct"), item("drp", users="a")])
    failures = policy_failures(body, AROUND)
    assert sorted(f.code for f in failures) == [3020, 3022, 3022, 3030]
    text = message([Failure(3010, "taken", "resources")])
    assert text == (
        "(0) Validation failure: error code[3010], reason[taken], field[resources], subfield[null],"
        " type[semantically incorrect]"
    )
    assert message(failures).count("Validation failure") == 4
    assert "(3) " in message(failures)
    assert [m["fieldName"] for m in messages(failures)][-1] == "policyPriority"
    assert len(messages([Failure(1, str(i)) for i in range(500)])) < 100


def test_access_types_are_spelled_as_the_definition_does() -> None:
    body = normalise_policy(policy(policyItems=[item("SELECT Drop selct", users="ann")]), hive())
    assert [a["type"] for a in body["policyItems"][0]["accesses"]] == ["select", "drop", "selct"]


def test_a_value_must_match_the_expression_of_the_definition() -> None:
    changed = copy.deepcopy(hive_body())
    changed["resources"][0]["validationRegEx"] = "[a-z_]+"
    around = replace(AROUND, definition=ServiceType(changed))
    assert codes(policy("shop/orders/*"), around) == []
    assert codes(policy("Shop/orders/*"), around) == [3018]


def service(**given: Any) -> list[int]:
    configs = {c["name"]: "x" for c in hive_body()["configs"] if c["mandatory"]}
    body, _ = read(SERVICE, {"name": "dev_hive", "type": "hive", "configs": configs, **given})
    others = [{"id": 2, "name": "other", "displayName": "Shown", "type": "hive"}]
    found = service_failures(body, definition=hive() if body["type"] == "hive" else None, others=others)
    return [failure.code for failure in found]


def test_services() -> None:
    assert service() == []
    assert service(name=None) == [1006]
    assert service(name="other") == [1007]
    assert service(type=None) == [1009]
    assert service(type="unknown") == [1010]
    assert service(name="dev hive") == [3031]
    assert service(name="x" * 300) == [3031]
    assert service(displayName="<b>") == [3050]
    assert service(displayName="Shown") == [3051]
    assert service(tagService="other") == [9010]


def test_a_service_needs_the_configuration_that_its_definition_demands() -> None:
    demanding = copy.deepcopy(hive_body())
    demanding["configs"] = [{"name": "jdbc.url", "mandatory": True}]
    body, _ = read(SERVICE, {"name": "s", "type": "hive"})
    found = service_failures(body, definition=ServiceType(demanding), others=[])
    assert [(f.code, f.type) for f in found] == [(1011, "missing")]


def changed_def(change: Any) -> list[int]:
    body = copy.deepcopy(hive_body())
    change(body)
    return [failure.code for failure in service_def_failures(body, others=[{"name": "trino", "id": 5}])]


def test_service_definitions() -> None:
    assert changed_def(lambda b: None) == []
    assert changed_def(lambda b: b.update(name="trino")) == [2007]
    assert 2006 in changed_def(lambda b: b.update(name=""))
    assert 2002 in changed_def(lambda b: b.update(resources=[]))
    assert 2016 in changed_def(lambda b: b["resources"][0].update(parent="nothing"))
    assert 2016 in changed_def(lambda b: b["resources"][0].update(parent="column"))
    assert 2021 in changed_def(lambda b: b["resources"][0].update(level=99))
    assert 2022 in changed_def(lambda b: b["resources"][0].update(name="Database"))
    assert 2009 in changed_def(lambda b: b["accessTypes"][0].update(impliedGrants=["fly"]))
    assert 2011 in changed_def(lambda b: b.update(policyConditions=[{"name": "c"}]))
    assert 2002 in changed_def(lambda b: b["accessTypes"].append(b["accessTypes"][0]))
    assert 2002 in changed_def(lambda b: b["dataMaskDef"]["resources"].append({"name": "schema"}))
    assert 9011 in changed_def(lambda b: b["resources"][0].update(validationRegEx="(?=a)"))


def zone(other: dict[str, Any] | None = None, **given: Any) -> list[int]:
    whole = {
        "name": "z",
        "services": {"dev_hive": {"resources": [{"database": ["shop"]}]}},
        "adminUsers": ["ann"],
        "auditUsers": ["ann"],
        **given,
    }
    body, faults = read(ZONE, whole)
    assert not faults
    services = {
        "dev_hive": (SERVICE_ROW, hive()),
        "dev_tag": ({"id": 2, "name": "dev_tag", "type": "tag"}, hive()),
    }
    return [f.code for f in zone_failures(body, services=services, others=[other] if other else [])]


def held(*maps: dict[str, list[str]]) -> dict[str, Any]:
    return {"services": {"dev_hive": {"resources": list(maps)}}}


def test_zones() -> None:
    assert zone() == []
    assert zone(tagServices=["dev_tag"]) == []
    assert zone(name="") == [3035]
    assert zone({"id": 4, "name": "z"}) == [3036]
    assert zone(adminUsers=[]) == [3038]
    assert zone(auditUsers=[], auditRoles=["r"]) == []
    assert zone(services={"other": {"resources": [{"database": ["x"]}]}}) == [3040]
    assert zone(tagServices=["dev_hive"]) == [3040]
    assert zone(**held()) == [3039]
    assert zone(**held({"table": ["t"]})) == [3042]
    assert zone(**held({"database": ["*"], "table": ["*"]})) == [3043]
    assert zone(services={"dev_tag": {"resources": [{"database": ["x"]}]}}) == [3047]
    assert zone(**held({"database": ["a", "b"]}, {"database": ["b", "a"]})) == [3052]
    assert zone({"id": 4, "name": "y", **held({"database": ["s*"]})}) == [3046]
    assert zone({"id": 4, "name": "y", **held({"database": ["hr"]})}) == []


def role(**given: Any) -> list[int]:
    body, _ = read(ROLE, {"name": "a", "users": [{"name": "ann"}], **given})
    others = [{"name": "b", "roles": [{"name": "c"}]}, {"name": "c", "roles": [{"name": "a"}]}]
    return [failure.code for failure in role_failures(body, others=others)]


def test_roles() -> None:
    assert role() == []
    assert role(users=[]) == []
    assert role(name=None) == [4003]
    assert role(name="b") == [4005]
    assert role(roles=[{"name": "nobody"}]) == [4007]
    assert role(users=[{"name": ""}]) == [4002]
    assert role(users=[{"name": "ann"}, {"name": "ann"}]) == [3056]


def test_a_role_that_would_contain_itself_is_refused_with_the_way() -> None:
    body, _ = read(ROLE, {"name": "a", "roles": [{"name": "b"}]})
    others = [{"name": "b", "roles": [{"name": "c"}]}, {"name": "c", "roles": [{"name": "a"}]}]
    found = role_failures(body, others=others)
    assert [f.code for f in found] == [9020]
    assert "a → b → c → a" in found[0].reason
    assert role(roles=[{"name": "a"}]) == [9020]
