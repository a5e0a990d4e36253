"""Imports of tags, exports and imports of policies, and what downloads are made of."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from gateway.admin.ranger.downloads import (
    DownloadPart,
    Extent,
    extent,
    other_attributes,
    policy_deltas,
    ranger_roles,
    service_policies,
    service_tags,
    user_store,
)
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.kinds import ObjectChange, Version
from gateway.admin.ranger.shapes import SERVICE_TAGS, read
from gateway.admin.ranger.tags import apply_import, tag_failures
from gateway.admin.ranger.transfers import (
    Mapped,
    build_export,
    file_name,
    place_policies,
    policies_of,
    read_mapping,
    roles_of,
)
from tests.admin.ranger.objects import hive, hive_body, policy, resources

NOW = Version(5, 1000)


def tags(op: str = "set", **given: Any) -> dict[str, Any]:
    body, faults = read(SERVICE_TAGS, {"op": op, **given})
    assert not faults
    return body


def one(path: str, *types: str, op: str = "set", **more: Any) -> dict[str, Any]:
    return tags(
        op,
        tags={str(i): {"type": kind, **more} for i, kind in enumerate(types, 70)},
        serviceResources=[{"id": 9, "resourceElements": resources(path)}],
        resourceToTagIds={"9": [70 + i for i in range(len(types))]},
    )


def told(body: dict[str, Any]) -> dict[str, list[str]]:
    """Resource → its tags."""
    shown = {}
    for resource in body["serviceResources"]:
        values = "/".join(v for e in resource["resourceElements"].values() for v in e["values"])
        ids = body["resourceToTagIds"].get(str(resource["id"]), [])
        shown[values] = [body["tags"][str(id_)]["type"] for id_ in ids]
    return shown


def after(*imports: dict[str, Any]) -> dict[str, Any]:
    stored: dict[str, Any] | None = None
    for given in imports:
        assert tag_failures(given, "s", hive()) == []
        stored = show(apply_import(stored, given, "s"))
    assert stored is not None
    for key in ("tags", "serviceResources", "resourceToTagIds", "tagDefinitions"):
        stored.setdefault(key, [] if key == "serviceResources" else {})
    return stored


def test_set_adds_and_changes() -> None:
    body = after(one("hr/emp/ssn", "PII"), one("hr/emp/pay", "PII", "MONEY"))
    assert told(body) == {"hr/emp/ssn": ["PII"], "hr/emp/pay": ["PII", "MONEY"]}
    assert {d["name"] for d in body["tagDefinitions"].values()} == {"PII", "MONEY"}
    again = after(one("hr/emp/ssn", "PII"), one("hr/emp/ssn", "SECRET"))
    assert told(again) == {"hr/emp/ssn": ["SECRET"]}
    assert len(again["tags"]) == 1


def test_replace_begins_anew() -> None:
    assert told(after(one("hr/emp/ssn", "PII"), one("crm", "X", op="replace"))) == {"crm": ["X"]}


def test_delete_takes_resources_with_their_tags() -> None:
    body = after(one("hr/emp/ssn", "PII"), one("crm", "X"), one("crm", op="delete"))
    assert told(body) == {"hr/emp/ssn": ["PII"]}
    assert {t["type"] for t in body["tags"].values()} == {"PII"}


def test_delete_of_a_tag_takes_it_off() -> None:
    body = after(one("hr/emp/ssn", "PII", guid="g"), tags("delete", tags={"1": {"guid": "g", "type": "PII"}}))
    assert told(body) == {"hr/emp/ssn": []}
    assert body["tags"] == {}


def test_a_shared_tag_is_one() -> None:
    body = after(one("a", "PII", owner=1), one("b", "PII", owner=1))
    assert len(body["tags"]) == 1
    assert told(body) == {"a": ["PII"], "b": ["PII"]}
    left = after(one("a", "PII", owner=1), one("b", "PII", owner=1), one("b", op="delete"))
    assert told(left) == {"a": ["PII"]}


@pytest.mark.parametrize(
    "given",
    [
        tags("explode"),
        tags("set", serviceName="other"),
        tags("set", tags={"1": {}}),
        tags("set", serviceResources=[{"id": 1}]),
        tags("set", serviceResources=[{"id": 1, "resourceElements": {"table": {"values": ["t"]}}}]),
        tags("set", resourceToTagIds={"1": [2]}),
        tags("set", tagDefinitions={"1": {}}),
        tags("set", tags={"1": {"type": "X", "validityPeriods": [{"startTime": "soon"}]}}),
    ],
)
def test_bad_imports_of_tags(given: dict[str, Any]) -> None:
    assert tag_failures(given, "s", hive())


def test_extent() -> None:
    changes = [ObjectChange(4, 1, {"id": 1}), ObjectChange(5, 0, {"id": 2})]
    assert extent(5, 5, deltas=True) is Extent.NOTHING
    assert extent(9, 5, deltas=True) is Extent.FULL
    assert extent(3, 5, deltas=True, changes=changes) is Extent.DELTA
    assert extent(3, 5, deltas=False, changes=changes) is Extent.FULL
    assert extent(-1, 5, deltas=True, changes=changes) is Extent.FULL
    assert extent(2, 5, deltas=True, changes=changes) is Extent.FULL, "version 3 is not told any more"
    told_all = [*changes[:1], ObjectChange(5, 3, None)]
    assert extent(3, 5, deltas=True, changes=told_all) is Extent.FULL, "a service changed"


SERVICE = {
    "id": 1, "name": "s", "type": "hive", "tagService": "t",
    "configs": {"ranger.plugin.super.users": "root", "password": "*******"},
}  # fmt: skip
TAGS = DownloadPart(
    service={"id": 2, "name": "t", "type": "tag"},
    definition={"name": "tag"},
    policies=[policy(id=8, service="t", serviceType="tag", zoneName="z")],
    version=Version(2, 0),
)
ZONE = {"name": "z", "services": {"s": {"resources": [{"database": ["shop"]}]}}, "tagServices": ["t"]}


def part(*policies: dict[str, Any], **more: Any) -> DownloadPart:
    return DownloadPart(service={**SERVICE, **more}, definition=hive_body(), policies=policies, version=NOW)


def test_a_download_of_policies() -> None:
    document = service_policies(
        part(policy(id=1), policy(id=2, zoneName="z"), policy(id=3, isEnabled=False)), TAGS, [ZONE]
    )
    assert [p["id"] for p in document["policies"]] == [1]
    zone = document["securityZones"]["z"]
    assert [p["id"] for p in zone["policies"]] == [2]
    assert zone["resources"] == [{"database": ["shop"]}]
    assert zone["containsAssociatedTagService"] is True
    assert [p["id"] for p in document["tagPolicies"]["policies"]] == [8]
    assert document["serviceConfig"] == {"ranger.plugin.super.users": "root"}
    assert (document["policyVersion"], document["policyUpdateTime"]) == (5, 1000)
    assert {m["name"] for m in document["serviceDef"]["markerAccessTypes"]} >= {"_READ", "_ALL"}


def test_a_disabled_service_has_a_head_only() -> None:
    assert "policies" not in service_policies(part(policy(id=1), isEnabled=False), None, [])


def test_a_difference_tells_the_last_change_of_every_policy() -> None:
    changes = [
        ObjectChange(2, 0, policy(id=1)),
        ObjectChange(3, 1, policy(id=1, description="x")),
        ObjectChange(3, 2, policy(id=2, policyType=1)),
        ObjectChange(4, 1, policy(id=3, isEnabled=False)),
        ObjectChange(5, 1, policy(id=4, zoneName="z")),
        ObjectChange(5, 1, policy(id=8, service="t", serviceType="tag", zoneName="z")),
    ]
    document = policy_deltas(part(), changes, [ZONE], tag_service="t")
    assert "policies" not in document
    told = {d["id"]: (d["changeType"], d["policiesVersion"]) for d in document["policyDeltas"]}
    assert told == {1: (1, 3), 2: (2, 3), 3: (2, 4), 8: (1, 5)}
    gone = next(d["policy"] for d in document["policyDeltas"] if d["id"] == 2)
    assert (gone["policyType"], gone["serviceType"], "resources" in gone) == (1, "hive", False)
    assert [d["id"] for d in document["securityZones"]["z"]["policyDeltas"]] == [4]


def test_other_downloads() -> None:
    stored = after(one("hr/emp/ssn", "PII"))
    assert service_tags(stored, service="s", version=NOW)["tagVersion"] == 5
    assert service_tags(None, service="s", version=NOW)["serviceResources"] == []
    roles = ranger_roles([{"name": "r"}, {"name": "off", "isEnabled": False}], service="s", version=NOW)
    assert [r["name"] for r in roles["rangerRoles"]] == ["r"]
    users = [{"id": 1, "name": "ann", "emailAddress": "a@b", "otherAttributes": '{"dept":"hr","level":3}'}]
    store = user_store(
        users,
        [{"id": 4, "name": "g", "otherAttributes": '{"x":"y"}'}],
        [{"userId": 1, "name": "g"}, {"userId": 9, "name": "g"}],
        version=NOW,
    )
    assert store["userAttrMapping"]["ann"] == {
        "_name": "ann", "_emailAddress": "a@b", "dept": "hr", "level": "3",
    }  # fmt: skip
    assert store["groupAttrMapping"]["g"]["x"] == "y"
    assert store["userGroupMapping"] == {"ann": ["g"]}


@pytest.mark.parametrize("text", ["{", "[]", "1", '"x"'])
def test_attributes_that_are_no_object_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="otherAttributes"):
        other_attributes(text)


def test_files() -> None:
    now = dt.datetime(2026, 1, 31, 10, 0, tzinfo=dt.UTC)
    assert file_name("Policies", now) == "Ranger_Policies_20260131_100000.json"
    document = build_export([policy(id=1)], name="policies", host="h", user="admin", now=now, version="1")
    assert document["metaDataInfo"]["Export time"] == "Jan 31, 2026, 10:00:00 AM"
    items, failures = policies_of(document)
    assert not failures
    assert items[0]["id"] == 1
    _, failures = policies_of({"policies": [{"name": "x", "id": "y"}, 3]})
    assert len(failures) == 2
    assert "policies[0] (`x`)" in failures[0].reason
    assert policies_of({"other": 1})[1]
    assert policies_of("text")[1]
    assert roles_of([{"name": "r"}])[0][0]["name"] == "r"


def test_policies_go_where_the_maps_say() -> None:
    policies = [policy(id=1, service="a", zoneName="z"), policy(id=2, service="b")]
    here = place_policies(policies, Mapped(services={}, zones={}))
    assert [(p["service"], p["zoneName"], p["id"]) for p in here] == [("a", "z", None), ("b", "", None)]
    there = place_policies(policies, Mapped(services={"a": "c"}, zones={"z": ""}))
    assert [(p["service"], p["zoneName"]) for p in there] == [("c", "")]
    assert read_mapping({"a": "b"}, "servicesMapJson") == ({"a": "b"}, [])
    assert read_mapping({"a": ""}, "zoneMapJson") == ({"a": ""}, [])
    for wrong in ({"a": ""}, {"a": 1}, ["a"]):
        assert read_mapping(wrong, "servicesMapJson")[1]
