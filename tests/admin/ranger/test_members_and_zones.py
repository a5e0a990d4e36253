"""Members of roles, zones in both shapes, and which zones hold a resource."""

from __future__ import annotations

from typing import Any

from gateway.admin.ranger.role_changes import roles_of, with_members, without_admin, without_members
from gateway.admin.ranger.shapes import ZONE, ZONE_CHANGE, ZONE_V2, read
from gateway.admin.ranger.zone_shapes import apply_zone_change, from_v2, to_v2, zones_of
from tests.admin.ranger.objects import hive

ROLE = {"name": "r", "users": [{"name": "ann", "isAdmin": True}], "groups": [{"name": "g", "isAdmin": False}]}
STORED, _ = read(
    ZONE,
    {
        "id": 3,
        "name": "z",
        "services": {"hive": {"resources": [{"database": ["shop"]}, {"url": ["s3://b/in"]}]}},
        "tagServices": ["tags"],
        "adminUsers": ["ann"],
        "adminRoles": ["keepers"],
        "auditUserGroups": ["auditors"],
    },
)


def test_members_come_and_go() -> None:
    more = with_members(ROLE, {"users": ["bob", "ann"], "roles": ["s"]}, admin=False)
    assert more["users"] == [{"name": "ann", "isAdmin": True}, {"name": "bob", "isAdmin": False}]
    assert more["roles"] == [{"name": "s", "isAdmin": False}]
    assert with_members(ROLE, {"groups": ["g"]}, admin=True)["groups"] == [{"name": "g", "isAdmin": True}]
    assert without_members(more, {"users": ["ann", "carl"]})["users"] == [{"name": "bob", "isAdmin": False}]
    assert without_admin(ROLE, {"users": ["ann"]})["users"] == [{"name": "ann", "isAdmin": False}]


def test_roles_of_a_user_reach_through_groups_and_roles_and_end() -> None:
    roles = [
        {"name": "a", "users": [{"name": "ann", "isAdmin": True}], "roles": [{"name": "c"}]},
        {"name": "b", "groups": [{"name": "eng"}], "roles": [{"name": "a", "isAdmin": True}]},
        {"name": "c", "roles": [{"name": "b"}]},
        {"name": "all", "groups": [{"name": "public"}]},
        {"name": "none", "users": [{"name": "zoe"}]},
    ]
    assert roles_of(roles, "ann") == {"a", "b", "c", "all"}
    assert roles_of(roles, "bob", ["eng"]) == {"a", "b", "c", "all"}
    assert roles_of(roles, "eve") == {"all"}
    assert roles_of(roles, "ann", admin=True) == {"a", "b"}


def v2(body: dict[str, Any]) -> dict[str, Any]:
    found, faults = read(ZONE_V2, body)
    assert not faults
    return found


def test_a_zone_goes_to_the_second_shape_and_back() -> None:
    shown = to_v2(STORED)
    assert {"type": "ROLE", "name": "keepers"} in shown["admins"]
    assert shown["auditors"] == [{"type": "GROUP", "name": "auditors"}]
    assert shown["services"]["hive"]["resources"][1] == {
        "id": 2,
        "resource": {"url": {"values": ["s3://b/in"]}},
    }
    back, failures = from_v2(v2(shown))
    assert not failures
    keys = ("name", "tagServices", "adminUsers", "adminRoles", "auditUserGroups")
    assert {key: back[key] for key in keys} == {key: STORED[key] for key in keys}
    assert back["services"]["hive"]["resources"] == STORED["services"]["hive"]["resources"]


def test_what_the_first_shape_cannot_hold_is_refused() -> None:
    excluding = {"resource": {"database": {"values": ["x"], "isExcludes": True}}}
    _, failures = from_v2(
        v2({"admins": [{"type": "ALIEN", "name": "x"}], "services": {"hive": {"resources": [excluding]}}})
    )
    assert len(failures) == 2


def change(**given: Any) -> tuple[dict[str, Any], list[Any]]:
    body, faults = read(ZONE_CHANGE, given)
    assert not faults
    return apply_zone_change(STORED, body)


def test_a_change_of_a_zone() -> None:
    body, failures = change(
        name="y",
        resourcesToUpdate={
            "hive": {"resources": [{"id": 1, "resource": {"database": {"values": ["sales"]}}}]},
            "other": {"resources": [{"resource": {"database": {"values": ["hr"]}}}]},
        },
        resourcesToRemove={"hive": {"resources": [{"resource": {"url": {"values": ["s3://b/in"]}}}]}},
        tagServicesToAdd=["more"],
        tagServicesToRemove=["tags"],
        adminsToAdd=[{"type": "USER", "name": "bob"}],
        adminsToRemove=[{"type": "ROLE", "name": "keepers"}],
    )
    assert not failures
    assert (body["name"], body["tagServices"]) == ("y", ["more"])
    assert (body["adminUsers"], body["adminRoles"]) == (["ann", "bob"], [])
    assert body["services"]["hive"]["resources"] == [{"database": ["sales"]}]
    assert body["services"]["other"]["resources"] == [{"database": ["hr"]}]
    assert STORED["services"]["hive"]["resources"][0] == {"database": ["shop"]}


def test_a_service_whose_last_resource_goes_leaves_the_zone() -> None:
    body, failures = change(resourcesToRemove={"hive": {"resources": [{"id": 1}, {"id": 2}]}})
    assert not failures
    assert body["services"] == {}


def test_changes_of_what_is_not_there_are_refused() -> None:
    _, failures = change(
        resourcesToUpdate={"hive": {"resources": [{"id": 9, "resource": {"database": {"values": ["x"]}}}]}},
        resourcesToRemove={"hive": {"resources": [{"resource": {"database": {"values": ["nothing"]}}}]}},
    )
    assert len(failures) == 2


def test_zones_that_a_resource_touches() -> None:
    def names(**resource: str) -> list[str]:
        return zones_of("hive", resource, [STORED], hive())

    assert names(database="shop", table="orders") == ["z"]
    assert names(database="SHOP") == ["z"]
    assert names(database="hr") == []
    assert names(url="s3://b/in/below") == ["z"]
    assert zones_of("hive", {"database": "shop"}, [{**STORED, "isEnabled": False}], hive()) == []
