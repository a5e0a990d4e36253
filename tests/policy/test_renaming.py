"""A table that gets another name: nobody may do more with it, and what cannot be told counts as more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.policy import (
    FilterItem,
    MaskItem,
    Policy,
    PolicyType,
    Service,
    TaggedResource,
    Zone,
)
from gateway.model.resource import Resource
from gateway.model.tags import Tag
from gateway.policy.engine import Engine
from tests.policy.test_engine import IN_OFFICE, TAG, item, on, policy, policy_set

OLD, NEW = Resource.table("c", "hr", "old"), Resource.table("c", "hr", "new")
READ = {"allow": (item(("ann",)),)}
DENY = {"deny": (item(("ann",)),)}
WHO: dict[str, Any] = {"groups": frozenset({"public"}), "accesses": frozenset({"select"})}
MASK: dict[str, Any] = {"type": PolicyType.MASK, "masks": (MaskItem(**WHO, mask_type="MASK_NULL"),)}
ROWS: dict[str, Any] = {
    "type": PolicyType.ROW_FILTER,
    "filters": (FilterItem(**WHO, filter_expression="id = 1"),),
}


def opens(*policies: Policy, **fields: object) -> bool:
    return Engine(policy_set(*policies, **fields)).renaming_opens(OLD, NEW)


@pytest.mark.parametrize(
    ("resources", "fields", "expected"),
    [
        # Whoever may do something with every table of the database may do no more with this one.
        (on("c", "hr", "*", "*"), READ, False),
        (on("c", "hr", "?*", "id"), READ, False),
        (on("c", "hr"), READ, False),
        (on("c", "hr", "old", "*"), READ, False),
        (on("c", "hr", "new", "*"), READ, True),
        (on("c", "hr", "n*", "*"), READ, True),
        (on("c", "hr", "new"), READ, True),
        (on("c", "hr", "new", "one_column"), READ, True),
        (on("c", "hr", "new", "*"), {"allow": (item(("ann",), access=("drop",)),)}, True),
        (on("c", "other", "new", "*"), READ, False),
        (on("c", "hr", "new", "*"), READ | {"enabled": False}, False),
        # What denies may not be left behind.
        (on("c", "hr", "new", "*"), DENY, False),
        (on("c", "hr", "old", "*"), DENY, True),
        (on("c", "hr", "old", "ssn"), DENY, True),
        (on("c", "hr", "*", "ssn"), DENY, False),
        (on("c", "hr", "old", "*"), READ | {"deny_all_else": True}, True),
        # Of masks and filters the first holds: one more may be a weaker one.
        (on("c", "hr", "old", "ssn"), MASK, True),
        (on("c", "hr", "new", "ssn"), MASK, True),
        (on("c", "hr", "*", "ssn"), MASK, False),
        (on("c", "hr", "old"), ROWS, True),
        (on("c", "hr", "new"), ROWS, True),
        (on("c", "hr", "*"), ROWS, False),
        # It depends on who asks, or on a condition that may look at the name.
        (on("c", "hr", "{USER}", "*"), READ, True),
        (on("c", "hr", "{USER}", "*"), DENY, True),
        (on("c", "hr", "{USER}", "ssn"), MASK, True),
        (on("c", "hr", "*", "*"), {"allow": (item(("ann",), conditions=IN_OFFICE),)}, True),
        (on("c", "hr", "*", "*"), DENY | {"conditions": IN_OFFICE}, True),
    ],
)
def test_what_one_policy_says_of_both_names(
    resources: Any, fields: dict[str, object], expected: bool
) -> None:
    assert opens(policy(1, resources, **fields)) is expected


def test_a_second_set_of_resources_counts() -> None:
    both = policy(1, on("c", "hr", "old", "*"), additional_resources=(on("c", "hr", "new", "*"),), **READ)
    assert opens(both), "the columns that the sets speak of may differ"


def test_zones_and_tags_go_by_names_too() -> None:
    assert opens(zones=(Zone(name="z", resources=(on("c", "hr", "old"),)),))
    assert opens(zones=(Zone(name="z", resources=(on("c", "hr", "new", "ssn"),)),))
    assert not opens(zones=(Zone(name="z", resources=(on("c", "hr"),)),))
    zone = (Zone(name="z", resources=(on("c", "hr"),)),)
    assert opens(policy(1, on("c", "hr", "new", "*"), zone="z", **READ), zones=zone)

    def tagged(*values: str) -> tuple[TaggedResource, ...]:
        return (TaggedResource(resources=on(*values), tags=(Tag(type="PII"),)),)

    tags = Service(name="tags", definition=TAG, policies=())
    assert opens(tagged=tagged("c", "hr", "old", "ssn"), tags=tags)
    assert opens(tagged=tagged("c", "hr", "new"), tags=tags)
    assert not opens(tagged=tagged("c", "hr", "other"), tags=tags)
    assert not opens(tagged=tagged("c", "hr"), tags=tags)


def test_nobody_speaks_for_a_catalog_that_has_no_service() -> None:
    engine = Engine(replace(policy_set(), services={}))
    assert engine.renaming_opens(OLD, NEW)
