"""How policies for the same resources become one, as Ranger does it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.admin.ranger.merging import (
    NotMergeable,
    build_grant_policy,
    build_granted_resources,
    grant,
    merge,
    replace_policy,
    revoke,
)
from gateway.admin.ranger.shapes import ITEM_LISTS
from tests.admin.ranger.objects import item, policy

Lists = dict[str, Any]
ALLOW, DENY, ALLOW_EXCEPT, DENY_EXCEPT = ITEM_LISTS


def said(body: Any) -> dict[str, set[str]]:
    """List → `principal: accesses` with `+` for delegated administration; what is empty is left out."""
    found: dict[str, set[str]] = {}
    for name in ITEM_LISTS:
        for one in body.get(name) or []:
            accesses = " ".join(sorted(a["type"] for a in one["accesses"]))
            mark = "+" if one.get("delegateAdmin") else ""
            names = [*one["users"], *("@" + g for g in one["groups"]), *("%" + r for r in one["roles"])]
            found.setdefault(name, set()).update(f"{n}: {accesses}{mark}" for n in names)
    return found


CASES: list[tuple[str, Lists, Lists, dict[str, set[str]]]] = [
    (
        "an access is added to what a principal has",
        {ALLOW: [item("select", users="ann")]},
        {ALLOW: [item("update", users="ann")]},
        {ALLOW: {"ann: select update"}},
    ),
    (
        "items are split, so that others keep what they have",
        {ALLOW: [item("select", users="ann bob", groups="g")]},
        {ALLOW: [item("drop", users="ann")]},
        {ALLOW: {"ann: drop select", "bob: select", "@g: select"}},
    ),
    (
        "what was denied and is allowed leaves the denial and becomes an exception of it",
        {DENY: [item("select drop", users="ann")]},
        {ALLOW: [item("select", users="ann")]},
        {ALLOW: {"ann: select"}, DENY: {"ann: drop"}, DENY_EXCEPT: {"ann: select"}},
    ),
    (
        "what was allowed and is denied: the mirror image",
        {ALLOW: [item("select drop", groups="g")]},
        {DENY: [item("drop", groups="g")]},
        {ALLOW: {"@g: select"}, DENY: {"@g: drop"}, ALLOW_EXCEPT: {"@g: drop"}},
    ),
    (
        "allowing ends an exception from allowing",
        {ALLOW_EXCEPT: [item("select drop", roles="r")]},
        {ALLOW: [item("select", roles="r")]},
        {ALLOW: {"%r: select"}, ALLOW_EXCEPT: {"%r: drop"}},
    ),
    (
        "denying ends an exception from denying",
        {DENY_EXCEPT: [item("select", users="ann")]},
        {DENY: [item("select", users="ann")]},
        {DENY: {"ann: select"}},
    ),
    (
        "an exception takes the allowance away",
        {ALLOW: [item("select drop", users="ann")]},
        {ALLOW_EXCEPT: [item("drop", users="ann")]},
        {ALLOW: {"ann: select"}, ALLOW_EXCEPT: {"ann: drop"}},
    ),
    (
        "a deny exception takes the denial away",
        {DENY: [item("select", users="ann")]},
        {DENY_EXCEPT: [item("select", users="ann")]},
        {DENY_EXCEPT: {"ann: select"}},
    ),
    (
        "delegated administration is added, too",
        {ALLOW: [item("select", users="ann")]},
        {ALLOW: [item("select", users="ann", delegateAdmin=True)]},
        {ALLOW: {"ann: select+"}},
    ),
    (
        "the same access in other letters is the same",
        {ALLOW: [item("select", users="ann")]},
        {ALLOW: [item("SELECT", users="ann")]},
        {ALLOW: {"ann: select"}},
    ),
]


@pytest.mark.parametrize(("stored", "applied", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_merge(stored: Lists, applied: Lists, expected: dict[str, set[str]]) -> None:
    assert said(merge(policy(**stored), policy(**applied))) == expected


def test_principals_with_the_same_share_an_item() -> None:
    merged = merge(
        policy(policyItems=[item("select", users="ann")]), policy(policyItems=[item("select", users="bob")])
    )
    assert len(merged[ALLOW]) == 1
    assert merged[ALLOW][0]["users"] == ["ann", "bob"]


def test_merging_changes_nothing_else() -> None:
    stored = policy(
        id=7, policyPriority=1, policyType=0, description="mine", policyItems=[item("select", users="ann")]
    )
    merged = merge(
        stored, policy(name="other", description="theirs", policyItems=[item("drop", users="bob")])
    )
    kept = {key: value for key, value in merged.items() if key not in ITEM_LISTS}
    assert kept == {key: value for key, value in stored.items() if key not in ITEM_LISTS}


def test_items_under_conditions_are_added_as_they_are_and_once() -> None:
    conditional = item("select", users="ann", conditions=[{"type": "ip-range", "values": ["10.*"]}])
    stored = policy(policyItems=[item("select", users="bob")])
    applied = policy(policyItems=[conditional, item("select", users="bob")])
    merged = merge(merge(stored, applied), applied)
    assert [one["users"] for one in merged[ALLOW]] == [["bob"], ["ann"]]
    assert merged[ALLOW][1]["conditions"] == conditional["conditions"]


def test_a_policy_that_denies_all_else_is_not_merged_into_one_that_does_not() -> None:
    with pytest.raises(NotMergeable):
        merge(policy(), policy(isDenyAllElse=True))
    merge(policy(isDenyAllElse=True), policy())


def test_an_overwritten_policy_stays_the_one_it_is() -> None:
    made = replace_policy(
        {"id": 7, "guid": "g", "version": 3, "service": "dev_hive"}, policy(name="new", guid="h")
    )
    assert (made["id"], made["guid"], made["version"], made["name"]) == (7, "g", 3, "new")


def request(accesses: str, users: str = "ann", **more: Any) -> dict[str, Any]:
    return {"users": users.split(), "groups": [], "roles": [], "accessTypes": accesses.split(), **more}


def test_a_grant_is_a_merge() -> None:
    granted = grant(policy(denyPolicyItems=[item("select", users="ann")]), request("select"))
    assert said(granted) == {ALLOW: {"ann: select"}, DENY_EXCEPT: {"ann: select"}}


def test_a_grant_may_replace_what_there_was() -> None:
    stored = policy(policyItems=[item("select drop", users="ann bob", delegateAdmin=True)])
    granted = grant(stored, request("update", replaceExistingPermissions=True))
    assert said(granted) == {ALLOW: {"bob: drop select+", "ann: update"}}


def test_a_new_policy_of_a_grant() -> None:
    asked = request(
        "SELECT", resource={"database": "shop", "table": "a, b"}, delegateAdmin=True, isRecursive=True
    )
    made = build_grant_policy(
        asked, service="s", service_type="hive", resources=build_granted_resources(asked, ["url"]), now_ms=17
    )
    assert made["name"] == "grant-17"
    assert made["resources"]["table"] == {"values": ["a", "b"], "isExcludes": False, "isRecursive": False}
    assert said(made) == {ALLOW: {"ann: select+"}}


REVOKES: list[tuple[str, Lists, dict[str, Any], dict[str, set[str]]]] = [
    (
        "an access goes, with the delegated administration; others keep theirs",
        {ALLOW: [item("select drop", users="ann bob", delegateAdmin=True)]},
        request("drop"),
        {ALLOW: {"bob: drop select+", "ann: select"}},
    ),
    (
        "a deny exception goes and the denial stays",
        {DENY: [item("select", groups="public")], DENY_EXCEPT: [item("select", users="ann")]},
        request("select"),
        {DENY: {"@public: select"}},
    ),
    (
        "denials never go",
        {DENY: [item("select", users="ann")], ALLOW_EXCEPT: [item("select", users="ann")]},
        request("select", replaceExistingPermissions=True),
        {DENY: {"ann: select"}, ALLOW_EXCEPT: {"ann: select"}},
    ),
    (
        "everything goes",
        {ALLOW: [item("select", users="ann"), item("drop", users="ann bob")]},
        request("", replaceExistingPermissions=True),
        {ALLOW: {"bob: drop"}},
    ),
    (
        "what was not there is not missed",
        {ALLOW: [item("select", users="bob")]},
        request("select"),
        {ALLOW: {"bob: select"}},
    ),
]


@pytest.mark.parametrize(
    ("stored", "asked", "expected"), [c[1:] for c in REVOKES], ids=[c[0] for c in REVOKES]
)
def test_revoke(stored: Lists, asked: dict[str, Any], expected: dict[str, set[str]]) -> None:
    assert said(revoke(policy(**stored), asked)) == expected


def test_a_revoke_keeps_the_conditions_of_what_is_left() -> None:
    conditional = item("select drop", users="ann", conditions=[{"type": "ip-range", "values": ["10.*"]}])
    left = revoke(policy(policyItems=[conditional]), request("drop"))
    assert left[ALLOW][0]["conditions"] == conditional["conditions"]
