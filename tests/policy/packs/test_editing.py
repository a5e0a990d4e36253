"""A pack that is edited says what it said, but for the edit, and keeps its comments."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import Faults
from gateway.policy.documents import parse_document
from gateway.policy.packs.editing import apply_edits

PACK = """\
# Sales.
service: spark

policies:
  # Who reads.
  - name: readers
    on: {catalog: c, database: sales, table: "*", column: "*"}   # all of it
    allow:
      - {groups: [analysts], access: [select, show]}
      - {users: [ann], access: [SELECT]}

  # The other one.
  - name: masks
    on: {catalog: c, database: sales, table: customer, column: phone}
    mask:
      - {groups: [hr], type: MASK_NONE}
      - {groups: [public], type: MASK_NULL}

cases:
  - as: {user: bob, groups: [analysts]}
    on: {catalog: c, database: sales, table: t, column: x}
    expect: allow
"""
ITEM = {"do": "remove_item", "policy": "readers", "list": "allow"}


def parsed(text: str) -> Any:
    return parse_document(text, "pack.yaml").data


def test_an_item_goes_and_the_rest_stays() -> None:
    text = apply_edits(PACK, "pack.yaml", [{**ITEM, "item": {"users": ["ann"], "access": ["select"]}}])
    expected = parsed(PACK)
    del expected["policies"][0]["allow"][1]
    assert parsed(text) == expected
    assert "# The other one." in text
    assert "# Sales." in text


def test_a_policy_without_items_goes_as_a_whole_with_its_comment() -> None:
    edits = [
        {**ITEM, "item": {"users": ["ann"], "access": ["select"]}},
        {**ITEM, "item": {"groups": ["analysts"], "access": ["show", "select"]}},
    ]
    text = apply_edits(PACK, "pack.yaml", edits)
    assert [one["name"] for one in parsed(text)["policies"]] == ["masks"]
    assert "Who reads" not in text
    assert "# The other one." in text
    none = apply_edits(text, "pack.yaml", [{"do": "remove_policy", "policy": "masks"}])
    assert parsed(none)["policies"] == []
    assert parsed(none)["cases"] == parsed(PACK)["cases"]


def test_narrowed_and_added_with_cases_only_once() -> None:
    on = [{"catalog": "c", "database": "sales", "table": ["NO", "1e3"], "column": "*"}]
    case = {"as": {"user": "eve"}, "on": {"catalog": "c"}, "expect": {"effect": "deny"}}
    policy = {"name": "new: one", "on": {"catalog": "c"}, "deny": [{"groups": ["public"], "access": ["use"]}]}
    edits: list[Any] = [
        {"do": "narrow", "policy": "readers", "on": on},
        {"do": "add_policy", "policy": policy},
        {"do": "add_role", "name": "r", "role": {"users": ["ann"]}},
    ]
    text = apply_edits(PACK, "pack.yaml", edits, [case])
    data = parsed(text)
    assert data["policies"][0]["on"] == on[0]
    assert data["policies"][2] == policy
    assert data["roles"] == {"r": {"users": ["ann"]}}
    assert data["cases"][-1] == case
    assert apply_edits(text, "pack.yaml", [], [case]) == text


@pytest.mark.parametrize(
    "pack",
    [
        "policies: [{name: readers, on: {catalog: c}, allow: [{users: [ann], access: [select]}]}]\n",
        "policies:\n  -\n    name: readers\n    allow: [{users: [ann], access: [select]}]\n",
        "[]",
        "policies: []",
    ],
)
def test_what_cannot_be_edited_is_told(pack: str) -> None:
    with pytest.raises(Faults, match=r"pack\.yaml"):
        apply_edits(pack, "pack.yaml", [{**ITEM, "item": {"users": ["ann"], "access": ["select"]}}])


def test_an_item_that_delegates_is_another() -> None:
    first = "      - {users: [ann], access: [select], delegate_admin: true}\n"
    pack = PACK.replace("      - {users: [ann]", f"{first}      - {{users: [ann]")
    text = apply_edits(pack, "pack.yaml", [{**ITEM, "item": {"users": ["ann"], "access": ["select"]}}])
    items = parsed(text)["policies"][0]["allow"]
    assert [item.get("delegate_admin", False) for item in items] == [False, True]


def test_an_item_that_is_not_there_is_told() -> None:
    with pytest.raises(Faults, match="no longer has such an item"):
        apply_edits(PACK, "pack.yaml", [{**ITEM, "item": {"users": ["eve"], "access": ["select"]}}])
    with pytest.raises(Faults, match="no policy"):
        apply_edits(PACK, "pack.yaml", [{"do": "remove_policy", "policy": "readers", "zone": "z"}])


def test_the_shipped_packs_can_be_edited_anywhere() -> None:
    from gateway.app.rule_files import find_shipped_rules

    for file in sorted((find_shipped_rules() / "policies").glob("*.yaml")):
        text = file.read_text()
        for policy in parsed(text)["policies"]:
            after = apply_edits(text, file.name, [{"do": "remove_policy", "policy": policy["name"]}])
            assert policy["name"] not in [one["name"] for one in parsed(after)["policies"]]
            on = [{"catalog": "other"}]
            after = apply_edits(
                text, file.name, [{"do": "narrow", "policy": policy["name"], "on": on}], [{"x": 1}]
            )
            assert parsed(after)["cases"][-1] == {"x": 1}
