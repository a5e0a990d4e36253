"""Objects as they come in and go out: defaults, types, what is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.ranger import shapes
from gateway.admin.ranger.json_fields import ShownEmpty, read, show
from gateway.admin.ranger.signature import policy_signature, resource_signature
from tests.admin.ranger.objects import item, policy, resources

SHAPES = [
    shapes.POLICY, shapes.SERVICE, shapes.SERVICE_DEF, shapes.ROLE, shapes.ZONE, shapes.ZONE_V2,
    shapes.ZONE_CHANGE, shapes.GRANT_REVOKE, shapes.GRANT_REVOKE_ROLE, shapes.SERVICE_TAGS, shapes.USER,
    shapes.GROUP, shapes.GROUP_USER,
]  # fmt: skip


def test_defaults_are_rangers() -> None:
    body, _ = read(shapes.POLICY, {"policyItems": [{"accesses": [{"type": "select"}]}]})
    assert (body["isEnabled"], body["isAuditEnabled"], body["isDenyAllElse"]) == (True, True, False)
    assert (body["policyType"], body["policyPriority"], body["zoneName"]) == (0, 0, "")
    assert body["policyItems"][0]["accesses"] == [{"type": "select", "isAllowed": True}]
    assert body["policyItems"][0]["delegateAdmin"] is False


def test_unknown_fields_are_passed_over_and_null_is_absent() -> None:
    body, faults = read(shapes.POLICY, {"name": None, "isEnabled": None, "surprise": 1})
    assert not faults
    assert body["isEnabled"] is True
    assert "surprise" not in body


def test_a_definition_keeps_what_is_not_known_here() -> None:
    body, _ = read(
        shapes.SERVICE_DEF, {"name": "x", "rbKeyLabel": "k", "resources": [{"name": "a", "new": 1}]}
    )
    assert body["rbKeyLabel"] == "k"
    assert body["resources"][0]["new"] == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"id": "12"}, 12),
        ({"id": 12.0}, 12),
        ({"name": 7}, "7"),
        ({"name": True}, "true"),
        ({"isEnabled": "false"}, False),
        ({"createTime": 1735689600000}, 1735689600000),
        ({"createTime": "20250101-00:00:00.000-+0000"}, 1735689600000),
        ({"createTime": "2025-01-01 00:00:00.000"}, 1735689600000),
    ],
)
def test_loose_types_are_read_as_javas_reader_does(given: dict[str, Any], expected: object) -> None:
    body, faults = read(shapes.POLICY, given)
    assert not faults
    assert body[next(iter(given))] == expected


def test_all_wrong_types_are_told_with_their_place() -> None:
    _, faults = read(
        shapes.POLICY,
        {
            "id": "seven",
            "isEnabled": "maybe",
            "policyItems": [{"users": "ann"}, {"accesses": ["select"]}, None],
            "resources": {"database": ["shop"]},
            "createTime": "yesterday",
            "version": 10**30,
        },
    )
    text = "\n".join(faults)
    for place in ("id", "isEnabled", "policyItems[0].users", "policyItems[1].accesses[0]", "policyItems[2]",
                  "resources.database", "createTime", "version"):  # fmt: skip
        assert f"`{place}`" in text
    assert len(faults) == 8


@pytest.mark.parametrize("body", [None, 1, "x", [], [{}]])
def test_what_is_no_object_is_refused(body: object) -> None:
    assert read(shapes.POLICY, body) == ({}, read(shapes.POLICY, body)[1])
    assert read(shapes.POLICY, body)[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["name", "id", "resources", "policyItems", "services", "tags", "users", "configs", "accessTypes",
         "serviceResources", "resourceToTagIds", "validitySchedules", "admins", "options"]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@given(body=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4))
def test_nothing_breaks_a_reader(shape: Any, body: dict[str, Any]) -> None:
    found, _ = read(shape, body)
    again, faults = read(shape, show(found))
    assert show(again) == show(found) or faults


def test_what_is_empty_is_left_out_but_for_what_means_something() -> None:
    shown = show(
        {
            "a": None, "b": "", "c": [], "d": {}, "e": False, "f": 0,
            "configs": {"k": "", "n": None},
            "rowFilterInfo": {"filterExpr": ""},
            "list": ShownEmpty(),
        }
    )  # fmt: skip
    assert shown == {
        "e": False,
        "f": 0,
        "configs": {"k": ""},
        "rowFilterInfo": {"filterExpr": ""},
        "list": [],
    }


def test_a_signature_is_about_resources_and_not_about_who_gets_what() -> None:
    one = policy("shop/a,b/*", policyItems=[item("select", users="ann")])
    assert policy_signature(one) == policy_signature(policy("shop/b,a/*", name="other", description="x"))
    different = [
        policy("shop/a/*"),
        policy("shop/a,b/*", policyType=1),
        policy("shop/a,b/*", policyPriority=1),
        policy("shop/a,b/*", zoneName="z"),
        policy("shop/a,b/*", conditions=[{"type": "t", "values": ["v"]}]),
        policy("shop/a,b/*", validitySchedules=[{"startTime": "2026/01/01 00:00:00"}]),
        policy("shop/a,b/*", additionalResources=[resources("crm/leads/*")]),
        policy(resources=resources("shop/a,b/*", isExcludes=True)),
        policy("shop/a,b/*", isEnabled=False, guid="g"),
        policy("shop/a,b/*", isEnabled=False, guid="h"),
    ]
    assert len({policy_signature(body) for body in (one, *different)}) == len(different) + 1


def test_no_value_imitates_two() -> None:
    joined, apart = policy(resources={"database": {"values": ["a, b"]}}), policy(resources=resources("a,b"))
    apart["resources"]["database"]["values"] = ["a", "b"]
    assert policy_signature(joined) != policy_signature(apart)
    assert resource_signature(joined["resources"]) != resource_signature(apart["resources"])


def test_a_stored_policy_has_the_signature_of_the_read_one() -> None:
    body = policy(validitySchedules=[{"startTime": "2026/01/01 00:00:00"}], conditions=[{"type": "t"}])
    assert policy_signature(show(body)) == policy_signature(body)
