"""Ranger's requests in all their spellings, and the answers in Ranger's terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.model.policy import PolicySet
from gateway.policy.ranger import evaluate, load
from tests.policy.ranger.data import at, download, hive, item, policy, request, tag


def answer(data: dict[str, Any], asked: Any) -> dict[str, Any]:
    return evaluate(load(data), asked)


def allowed(data: dict[str, Any], asked: Any) -> tuple[bool, int]:
    found = answer(data, asked)
    return found["isAllowed"], found["policyId"]


def test_an_answer_in_full() -> None:
    found = answer(download(policy(3, version=4, policyPriority=1)), request())
    assert found == {
        "isAllowed": True,
        "isAccessDetermined": True,
        "isAudited": True,
        "policyId": 3,
        "policyVersion": 4,
        "policyPriority": 1,
        "reason": found["reason"],
        "item": "allow[0]",
        "zoneName": "",
        "tag": "",
        "dataMask": None,
        "rowFilter": None,
    }
    found = answer(download(policy()), request("other.t.c"))
    assert (found["isAllowed"], found["isAccessDetermined"], found["isAudited"]) == (False, False, False)
    assert (found["policyId"], found["policyVersion"], found["policyPriority"]) == (-1, None, 0)


def test_the_reasons_that_ranger_words() -> None:
    found = answer(download(policy(isDenyAllElse=True, policyItems=[])), request())
    assert (found["isAllowed"], found["reason"]) == (False, "matched deny-all-else policy")
    found = answer(download(superUsers=["root"]), request(user="root"))
    assert (found["isAllowed"], found["reason"], found["policyId"]) == (True, "superuser", -1)
    assert found["policyPriority"] == 2**31 - 1
    assert not answer(download(policy()), request(access="_super_user"))["isAllowed"]


def test_resources_are_put_in_order_whatever_their_spelling() -> None:
    data = download(policy())
    spellings: list[Any] = [
        {"elements": {"column": "total", "database": "shop", "table": "orders"}},
        {"column": "total", "database": "shop", "table": "orders"},
        {"elements": {"database": "SHOP", "table": "Orders", "column": "Total"}, "ownerUser": "x"},
        {"database": "shop", "table": "orders", "column": "total", "ownerUser": "x"},
    ]
    for resource in spellings:
        assert allowed(data, {**request(), "resource": resource}) == (True, 1)
    others: list[Any] = [
        {"elements": {"database": "shop", "column": "total"}},
        {"elements": {"table": "orders"}},
        {"elements": {"database": "shop", "table": "orders", "topic": "x"}},
        {"elements": {}},
        {},
        None,
    ]
    for resource in others:
        assert allowed(data, {**request(), "resource": resource}) == (False, -1)


def test_several_values_at_one_level() -> None:
    data = download(
        policy(1),
        policy(
            2,
            resources=at(database="shop", table="secret", column="*"),
            policyItems=[],
            denyPolicyItems=[item("select")],
        ),
    )

    def of(*tables: str) -> dict[str, Any]:
        return {**request(), "resource": {"database": "shop", "table": list(tables), "column": "c"}}

    assert allowed(data, of("orders", "nothing")) == (True, 1)
    assert allowed(data, of("orders", "secret")) == (False, 2)
    assert allowed(data, of("nothing", "nowhere")) == (False, -1)
    over = policy(3, policyPriority=1)
    assert allowed({**data, "policies": [*data["policies"], over]}, of("orders", "secret")) == (True, 3)


def test_who_asks() -> None:
    data = download(
        policy(1, policyItems=[item("select", roles=["boss"])]),
        policy(
            2,
            resources=at(database="own", table="*", column="*"),
            policyItems=[item("select", users=["{OWNER}"])],
        ),
        policy(3, resources=at(database="eng"), policyItems=[item("select", groups=["eng"])]),
        userRoles={"ann": ["boss"]},
    )
    assert allowed(data, request()) == (True, 1)
    assert allowed(data, request(userRoles=[])) == (True, 1)
    assert allowed(data, request(userRoles=["other"])) == (False, -1)
    assert allowed(data, request(user="bob", userRoles=["boss"])) == (True, 1)
    owned = {"elements": {"database": "own", "table": "t", "column": "c"}, "ownerUser": "ann"}
    assert allowed(data, {**request(), "resource": owned}) == (True, 2)
    assert allowed(data, {**request(user="bob"), "resource": owned}) == (False, -1)
    assert allowed(data, request("eng", userGroups=["eng"])) == (True, 3)
    assert allowed(data, request("eng")) == (False, -1)


def test_access_types_of_ranger() -> None:
    data = download(
        policy(
            1, policyItems=[item("select", users=["ann"]), item("drop", users=["ann"], delegateAdmin=True)]
        )
    )
    assert allowed(data, request(access="SELECT")) == (True, 1)
    assert allowed(data, request("shop", access="")) == (True, 1)
    assert allowed(data, {**request("shop"), "accessType": None}) == (True, 1)
    assert allowed(data, request(access="_any")) == (True, 1)
    assert allowed(data, request(access="_admin")) == (True, 1)
    assert allowed(data, request(access="_admin", user="bob")) == (False, -1)
    assert allowed(data, request(access="selekt")) == (False, -1)


@pytest.mark.parametrize(
    ("context", "answer_"),
    [
        ({"ALLACCESSTYPES": ["select", "update"]}, True),
        ({"ACCESSTYPES": ["update", "select"]}, True),
        ({"ALLACCESSTYPES": ["update", "alter"]}, False),
        ({"ALLACCESSTYPEGROUPS": [["select"], ["update"]]}, False),
        ({"ALLACCESSTYPEGROUPS": [["select", "drop"], ["drop", "alter"]]}, True),
        ({"ALLACCESSTYPEGROUPS": [["select"], ["update"]], "IGNOREIFNOTDENIED": ["update"]}, True),
        ({"ALLACCESSTYPEGROUPS": [["select"], ["alter"]], "IGNOREIFNOTDENIEDACCESSTYPES": ["alter"]}, True),
        ({"ALLACCESSTYPEGROUPS": [["select"], ["lock"]], "IGNOREIFNOTDENIED": ["lock"]}, False),
        ({"ALLACCESSTYPES": ["update"], "IGNOREIFNOTDENIED": ["update"]}, False),
        ({"ALLACCESSTYPES": [], "ALLACCESSTYPEGROUPS": []}, True),
    ],
)
def test_several_accesses(context: dict[str, Any], answer_: bool) -> None:
    data = download(policy(1, policyItems=[item("select", "drop")], denyPolicyItems=[item("lock")]))
    assert answer(data, request(context=context))["isAllowed"] is answer_


def test_what_lies_below() -> None:
    data = download(
        policy(1),
        policy(
            2,
            resources=at(database="shop", table="orders", column="card"),
            policyItems=[],
            denyPolicyItems=[item("select")],
        ),
    )
    table = request("shop.orders", resourceMatchingScope="SELF_OR_DESCENDANTS")
    assert allowed(data, table) == (True, 1)
    assert allowed(data, {**table, "ignoreDescendantDeny": False}) == (False, 2)
    assert allowed(data, request("shop", resourceMatchingScope="ELSEWHERE")) == (False, -1)
    assert allowed(data, request("shop", resourceMatchingScope="SELF_OR_DESCENDANTS")) == (True, 1)


TAG_POLICIES = {
    "serviceName": "t",
    "serviceDef": tag(),
    "policies": [policy(9, resources=at(tag="PII"), policyItems=[], denyPolicyItems=[item("hive:select")])],
}


@pytest.mark.parametrize(
    "tags",
    [
        '[{"type": "PII", "attributes": {"level": "3"}}]',
        [{"type": "PII", "matchType": "SELF"}],
        [{"name": "PII", "attributeValues": {}}],
    ],
)
def test_tags_of_the_request(tags: Any) -> None:
    found = answer(download(policy(1), tagPolicies=TAG_POLICIES), request(context={"TAGS": tags}))
    assert (found["isAllowed"], found["policyId"], found["tag"]) == (False, 9, "PII")


def test_tags_of_the_request_replace_those_of_the_resource() -> None:
    tags = {
        "tags": {"1": {"type": "PII"}},
        "serviceResources": [{"id": 1, "resourceElements": at(database="shop")}],
        "resourceToTagIds": {"1": [1]},
    }
    data = download(policy(1), tagPolicies=TAG_POLICIES, serviceTags=tags)
    assert allowed(data, request()) == (False, 9)
    assert allowed(data, request(context={"TAGS": "[]"})) == (True, 1)
    assert allowed(data, request(context={"TAGS": ""})) == (True, 1)


def conditioned(evaluator: str, *values: str, **options: str) -> dict[str, Any]:
    definition = hive(
        policyConditions=[{"name": "c", "evaluator": f"org.example.{evaluator}", "evaluatorOptions": options}]
    )
    items = [item("select", conditions=[{"type": "c", "values": list(values)}])]
    return download(policy(policyItems=items), serviceDef=definition)


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (conditioned("RangerIpMatcher", "10.1.*"), {"clientIPAddress": "10.1.2.3"}),
        (
            conditioned("RangerIpMatcher", "10.1.*"),
            {"clientIPAddress": "10.1.2.3", "remoteIPAddress": "9.9.9.9"},
        ),
        (conditioned("RangerIpMatcher", "10.1.*"), {"remoteIPAddress": "10.1.2.3"}),
        (conditioned("RangerActionMatcher", "QUERY"), {"action": "query"}),
        (conditioned("RangerAccessedFromClusterCondition", "east"), {"clusterName": "east"}),
        (conditioned("RangerAccessedFromClusterTypeCondition", "prod"), {"clusterType": "prod"}),
        (
            conditioned("RangerContextAttributeValueInCondition", "1", attributeName="a"),
            {"context": {"a": [1, "2"]}},
        ),
        (
            conditioned("RangerHiveResourcesAccessedTogetherCondition", "shop.a.x", "shop.b.y"),
            {
                "context": {
                    "REQUESTED_RESOURCES": {
                        "requestedResources": [
                            {"elements": {"database": "SHOP", "table": "a", "column": "x"}},
                            {"elements": {"database": "shop", "table": "b", "column": "y"}},
                        ]
                    }
                }
            },
        ),
        (
            conditioned("RangerScriptConditionEvaluator", "USER.dept == 'hr'"),
            {"userAttributes": {"dept": "hr"}},
        ),
    ],
)
def test_circumstances(data: dict[str, Any], fields: dict[str, Any]) -> None:
    assert allowed(data, request(**fields)) == (True, 1)


def test_requested_resources_may_be_json() -> None:
    data = conditioned("RangerHiveResourcesAccessedTogetherCondition", "shop.a.x", "shop.b.y")
    resources = [
        {"elements": {"database": "shop", "table": t, "column": c}} for t, c in (("a", "x"), ("b", "y"))
    ]
    context = {"REQUESTED_RESOURCES": json.dumps({"requestedResources": resources})}
    assert allowed(data, request(context=context)) == (True, 1)
    assert allowed(data, request(context={"REQUESTED_RESOURCES": resources[:1]})) == (False, -1)


@pytest.mark.parametrize(
    ("time", "applies"),
    [
        (1735707600000, True),
        ("20250101-05:00:00.000-+0000", True),
        ("2025-01-01 05:00:00.000", True),
        (1735707599000, False),
        (None, False),
    ],
)
def test_schedules_ask_for_the_time(time: Any, applies: bool) -> None:
    schedule = {"startTime": "2025/01/01 00:00:00", "timeZone": "America/New_York"}
    data = download(policy(validitySchedules=[schedule]))
    assert answer(data, request(accessTime=time))["isAllowed"] is applies


def masked(**info: Any) -> dict[str, Any]:
    on = at(database="shop", table="orders", column="total")
    return download(
        policy(
            5,
            version=2,
            policyType=1,
            resources=on,
            dataMaskPolicyItems=[item("select", dataMaskInfo=info)],
        )
    )


def test_masks() -> None:
    asked = request(userAttributes={"dept": "hr"})
    assert answer(masked(dataMaskType="MASK_HASH"), asked)["dataMask"] == {
        "maskType": "MASK_HASH",
        "maskCondition": None,
        "maskedValue": None,
        "isMaskEnabled": True,
        "policyId": 5,
        "policyVersion": 2,
    }
    assert answer(masked(dataMaskType="MASK_NONE"), asked)["dataMask"]["isMaskEnabled"] is False
    custom = masked(
        dataMaskType="CUSTOM",
        valueExpr="CASE WHEN '${{USER.dept}}' = 'hr' THEN {col} ELSE CAST(NULL AS {colType}) END",
        conditionExpr="dept=${{USER.dept}}",
    )
    found = answer(custom, asked)["dataMask"]
    assert found["maskedValue"] == "CASE WHEN 'hr' = 'hr' THEN {col} ELSE CAST(NULL AS {colType}) END"
    assert found["maskCondition"] == "dept=hr"
    assert answer(masked(dataMaskType="MASK_HASH"), request(access="update"))["dataMask"] is None
    assert answer(masked(dataMaskType="MASK_HASH"), request("shop.orders.other"))["dataMask"] is None


def filtered(text: str, **fields: Any) -> dict[str, Any]:
    return download(
        policy(
            6,
            policyType=2,
            resources=at(database="shop", table="orders"),
            rowFilterPolicyItems=[item("select", rowFilterInfo={"filterExpr": text}, **fields)],
        )
    )


def test_row_filters() -> None:
    asked = request("shop.orders", userAttributes={"dept": "hr"})
    assert answer(filtered("dept = '${{USER.dept}}'"), asked)["rowFilter"] == {
        "filterExpr": "dept = 'hr'",
        "isRowFilterEnabled": True,
        "policyId": 6,
        "policyVersion": 1,
    }
    assert answer(filtered(""), asked)["rowFilter"]["isRowFilterEnabled"] is False
    assert answer(filtered("a = 1"), request())["rowFilter"] is None


def test_what_cannot_be_told_hides_everything() -> None:
    conditions = [{"type": "moon", "values": ["full"]}]
    asked = request("shop.orders")
    assert answer(filtered("a = 1", conditions=conditions), asked)["rowFilter"]["filterExpr"] == "FALSE"
    data = masked(dataMaskType="MASK_NONE")
    data["policies"][0]["dataMaskPolicyItems"][0]["conditions"] = conditions
    found = answer(data, request())["dataMask"]
    assert (found["maskType"], found["isMaskEnabled"]) == ("MASK_NULL", True)


def two_services() -> PolicySet:
    first, second = load(download(policy(1))), load(download(policy(2), serviceName="two"))
    return PolicySet(version=1, services={**first.services, **second.services})


def test_one_service_of_several() -> None:
    assert evaluate(two_services(), request(serviceName="two"))["policyId"] == 2
    for name, fault in (
        (None, "`serviceName` is missing"),
        ("tow", "service `tow` does not exist (did you mean `two`?)"),
    ):
        with pytest.raises(Faults, match=fault.replace("(", r"\(").replace(")", r"\)").replace("?", r"\?")):
            evaluate(two_services(), request(serviceName=name))


def test_a_catalog_is_a_level_like_others() -> None:
    levels = [{"name": "catalog", "isValidLeaf": True}, {"name": "schema", "parent": "catalog"}]
    definition = {"name": "lake", "resources": levels, "accessTypes": [{"name": "use"}]}
    written = policy(resources=at(catalog="pai*"), policyItems=[item("use")])
    data = download(written, serviceDef=definition)
    asked = {"accessType": "use", "user": "ann", "resource": {"catalog": "paimon"}}
    assert allowed(data, asked) == (True, 1)
    assert allowed(data, {**asked, "resource": {"catalog": "paimon", "schema": "s"}}) == (False, -1)


def test_unknown_fields_count_for_nothing() -> None:
    assert allowed(download(policy()), request(gdsVersion=4, name={"x": 1})) == (True, 1)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"user": 5}, "`user` must be a text"),
        ({"accessType": ["select"]}, "`accessType` must be a text"),
        ({"userGroups": "hr"}, "`userGroups` must be a list"),
        ({"resource": "shop"}, "`resource` must be an object"),
        ({"resource": {"elements": ["shop"]}}, "`elements` must be an object"),
        ({"resource": {"database": {"a": 1}}}, "`database` must be a text or a list of texts"),
        ({"resource": {"database": list(map(str, range(300)))}}, "more than 256 values"),
        ({"context": []}, "`context` must be an object"),
        ({"context": {"TAGS": "[{"}}, "`TAGS` is not JSON"),
        ({"context": {"TAGS": {"type": "PII"}}}, "`TAGS` must be a list of tags"),
        ({"context": {"TAGS": [{}]}}, "`type` must be a text"),
        ({"context": {"ALLACCESSTYPES": "select"}}, "`ALLACCESSTYPES` must be a list"),
        ({"context": {"ALLACCESSTYPEGROUPS": ["select"]}}, "`group` must be a list"),
        ({"accessTime": "soon"}, "`accessTime` is not a date"),
        ({"ignoreDescendantDeny": 7}, "`ignoreDescendantDeny` must be true or false"),
    ],
)
def test_what_is_no_request(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(Faults) as caught:
        evaluate(load(download(policy())), {**request(), **change})
    assert any(fault in told for told in caught.value.faults), caught.value.faults


def test_a_request_is_an_object() -> None:
    with pytest.raises(Faults, match="a request must be an object"):
        evaluate(load(download()), [])  # type: ignore[arg-type]
