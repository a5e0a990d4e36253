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
    ResourceValues,
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
    return Engine(policy_set(*policies, **fields)).would_rename_widen_access(OLD, NEW)


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


# Rows that have two names: `new` in `old`, as directories are.

UNDER = Resource.table("c", "hr", "old__new")
FILTER_B = ROWS | {"filters": (FilterItem(**WHO, filter_expression="id = 2"),)}


def escaped(*policies: Policy, **fields: object) -> tuple[bool, bool]:
    """Whether rows of `old` are seen past its guards as `old__new`, and those of what is in it as `old`."""
    engine = Engine(policy_set(*policies, **fields))
    within = Resource.table("c", "hr", "old__")
    return engine.guards_escaped(UNDER, OLD), engine.guards_escaped(OLD, within, beginning=True)


@pytest.mark.parametrize(
    ("resources", "fields", "expected"),
    [
        # What guards the directory alone is past by in what lies in it.
        (on("c", "hr", "old", "ssn"), MASK, (True, False)),
        (on("c", "hr", "old"), ROWS, (True, False)),
        (on("c", "hr", "old", "*"), DENY, (True, False)),
        (on("c", "hr", "old", "ssn"), DENY, (True, False)),
        (on("c", "hr", "ol?", "ssn"), MASK, (True, False)),
        # What guards something in it alone is past by in the directory.
        (on("c", "hr", "old__new", "ssn"), MASK, (False, True)),
        (on("c", "hr", "old__other", "ssn"), MASK, (False, True)),
        (on("c", "hr", "old__new__deep"), ROWS, (False, True)),
        (on("c", "hr", "old__*"), ROWS, (False, True)),
        (on("c", "hr", "*__new"), ROWS, (False, True)),
        (on("c", "hr", "old__n*", "*"), DENY, (False, True)),
        # What guards both, or neither.
        (on("c", "hr", "old*", "ssn"), MASK, (False, False)),
        (on("c", "hr", "*", "ssn"), MASK, (False, False)),
        (on("c", "hr", "*"), ROWS, (False, False)),
        (on("c", "hr", "*", "*"), DENY, (False, False)),
        (on("c", "*", "*", "*"), DENY | {"deny_all_else": True}, (False, False)),
        (on("c", "hr", "older", "ssn"), MASK, (False, False)),
        (on("c", "hr", "old_new", "ssn"), MASK, (False, False)),
        (on("c", "other", "old", "ssn"), MASK, (False, False)),
        (on("c", "hr", "old", "ssn"), MASK | {"enabled": False}, (False, False)),
        (on("c", "hr"), DENY, (False, False)),
        # What is allowed by one name alone guards nothing.
        (on("c", "hr", "old", "*"), READ, (False, False)),
        (on("c", "hr", "old__new", "*"), READ, (False, False)),
        (on("c", "hr", "old", "*"), READ | {"deny_all_else": True}, (True, False)),
        # It depends on who asks, or on a condition that may look at the name.
        (on("c", "hr", "{USER}", "ssn"), MASK, (True, True)),
        (on("c", "hr", "*"), ROWS | {"conditions": IN_OFFICE}, (True, True)),
        (on("c", "hr", "*", "*"), READ | {"conditions": IN_OFFICE}, (False, False)),
    ],
)
def test_guards_of_one_name_hold_for_the_other(
    resources: Any, fields: dict[str, object], expected: tuple[bool, bool]
) -> None:
    assert escaped(policy(1, resources, **fields)) == expected


def test_a_guard_of_all_names_but_one() -> None:
    but = on("c", "hr", "old__new")
    others = {**but, "table": ResourceValues(values=("old__new",), excludes=True)}
    assert escaped(policy(1, others, **ROWS)) == (True, False)
    others = {**others, "table": ResourceValues(values=("old",), excludes=True)}
    assert escaped(policy(1, others, **ROWS)) == (False, True)


def test_what_is_said_of_the_new_name_alone_may_not_come_first() -> None:
    everywhere = policy(1, on("c", "hr", "*", "ssn"), **MASK)
    other_column = policy(2, on("c", "hr", "old__new", "name"), **MASK)
    assert escaped(everywhere, other_column) == (False, True)
    same = policy(2, on("c", "hr", "old__new", "s*"), **MASK)
    assert not escaped(everywhere, same)[0], "broad policies are asked first"
    assert escaped(everywhere, replace(same, priority=1))[0]
    rows = policy(1, on("c", "hr", "*"), **ROWS)
    assert not escaped(rows, policy(2, on("c", "hr", "old__new"), **FILTER_B))[0]
    assert escaped(rows, policy(2, on("c", "hr", "old__new"), priority=1, **FILTER_B))[0]
    denied = policy(1, on("c", "hr", "*", "*"), **DENY)
    allowed = policy(2, on("c", "hr", "old__new", "*"), **READ)
    assert not escaped(denied, allowed)[0]
    assert escaped(denied, replace(allowed, priority=1))[0]


def test_guards_by_zones_and_tags_escape_too() -> None:
    old = (Zone(name="z", resources=(on("c", "hr", "old"),)),)
    assert escaped(zones=old) == (True, False)
    new = (Zone(name="z", resources=(on("c", "hr", "old__new"),)),)
    assert escaped(zones=new) == (False, True)
    assert escaped(policy(1, on("c", "hr", "*"), **ROWS), zones=new) == (True, True)
    both = (Zone(name="z", resources=(on("c", "hr"),)),)
    assert escaped(policy(1, on("c", "hr", "*"), **ROWS), zones=both) == (False, False), "asked nowhere"
    assert escaped(policy(1, on("c", "hr", "old"), zone="z", **ROWS), zones=both) == (True, False)
    assert escaped(policy(1, on("c", "hr", "*"), zone="z", **ROWS), zones=both) == (False, False)

    def tagged(*values: str) -> tuple[TaggedResource, ...]:
        return (TaggedResource(resources=on(*values), tags=(Tag(type="PII"),)),)

    tags = Service(name="tags", definition=TAG, policies=())
    assert escaped(tagged=tagged("c", "hr", "old", "ssn"), tags=tags) == (False, False), "nothing is on tags"
    resource = {"tag": ResourceValues(values=("PII",))}
    tags = replace(tags, policies=(policy(7, resource, **DENY),))
    assert escaped(tagged=tagged("c", "hr", "old", "ssn"), tags=tags) == (True, False)
    assert escaped(tagged=tagged("c", "hr", "old__new"), tags=tags) == (False, True)
    assert escaped(tagged=tagged("c", "hr"), tags=tags) == (False, False)
    rows = policy(1, on("c", "hr", "*"), **ROWS)
    assert escaped(rows, tagged=tagged("c", "hr", "old__new"), tags=tags) == (True, True)


def test_nobody_speaks_for_a_catalog_that_has_no_service() -> None:
    engine = Engine(replace(policy_set(), services={}))
    assert engine.would_rename_widen_access(OLD, NEW)
    assert engine.guards_escaped(UNDER, OLD)
