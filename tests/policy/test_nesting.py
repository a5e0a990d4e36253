"""What policies say of a namespace holds in those in it, where it restricts; grants do not go down."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.catalog import Column
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
from tests.policy.test_engine import ANN, TAG, ask, item, on, policy, policy_set

ALL = policy(1, on("c", "*", "*", "*"), allow=(item(("ann",)),))
INNER = policy(1, on("c", "a.b", "*", "*"), allow=(item(("ann",)),))
DENY = {"deny": (item(("ann",)),)}
WHO: dict[str, Any] = {"users": frozenset({"ann"}), "accesses": frozenset({"select"})}
NULLED: dict[str, Any] = {"type": PolicyType.MASK, "masks": (MaskItem(**WHO, mask_type="MASK_NULL"),)}
HASHED: dict[str, Any] = {"type": PolicyType.MASK, "masks": (MaskItem(**WHO, mask_type="MASK_HASH"),)}
SHOWN: dict[str, Any] = {"type": PolicyType.MASK, "masks": (MaskItem(**WHO, mask_type="MASK_NONE"),)}
ROWS: dict[str, Any] = {
    "type": PolicyType.ROW_FILTER,
    "filters": (FilterItem(**WHO, filter_expression="id = 1"),),
}
OTHERS: dict[str, Any] = {
    "type": PolicyType.ROW_FILTER,
    "filters": (FilterItem(**WHO, filter_expression="id = 2"),),
}
COLUMNS = (Column(name="id", type="int"), Column(name="ssn", type="string"))
TABLE = Resource.table("c", "a.b", "t")


def engine(*policies: Policy, **fields: object) -> Engine:
    return Engine(policy_set(*policies, **fields))


def column(database: str, name: str = "ssn") -> Resource:
    return Resource.table("c", database, "t").child("column", name)


def allows(made: Engine, database: str) -> bool:
    """Whether ann may select a column of a table in a database; every way to ask has one answer."""
    asked = column(database)
    allowed = made.decide(ask(ANN, asked)).allowed
    view = made.table_view(ANN, Resource.table("c", database, "t"), COLUMNS)
    assert ("ssn" not in view.hidden) is allowed
    assert view.allowed["ssn"].allowed is allowed
    assert made.allows(ANN, asked, "select")[0] is allowed
    if allowed:
        assert made.visible(ANN, Resource.database("c", database))
    return allowed


@pytest.mark.parametrize(
    ("granted", "database", "expected"),
    [
        ("a", "a.b", False),
        ("a.b", "a", False),
        ("a.b", "a.b.c", False),
        ("a.b", "a.b", True),
        ("A.B", "a.b", True),
        ("a.*", "a.b.c", True),
        ("a*", "a.b", True),
        ("b", "a.b", False),
        ("*", "a.b", True),
    ],
)
def test_what_is_granted_is_granted_where_it_is_named(granted: str, database: str, expected: bool) -> None:
    made = engine(policy(1, on("c", granted, "*", "*"), allow=(item(("ann",)),)))
    assert allows(made, database) is expected


@pytest.mark.parametrize(
    "resources", [on("c", "a", "*", "*"), on("c", "a", "t", "*"), on("c", "A", "t", "ssn")]
)
def test_what_is_denied_above_is_denied_below(resources: Any) -> None:
    made = engine(ALL, INNER, policy(2, resources, **DENY))
    assert not allows(made, "a")
    assert not allows(made, "a.b")
    assert not allows(made, "a.b.c")
    assert allows(made, "b.a")
    assert allows(made, "ab")
    decision = made.decide(ask(ANN, column("a.b")))
    assert decision.policy.id == 2
    assert "enclosing namespace" in decision.reason


def test_whom_it_does_not_deny_above_it_does_not_deny_below() -> None:
    denied = policy(
        2, on("c", "a", "*", "*"), deny=(item(groups=("public",)),), deny_exceptions=(item(("ann",)),)
    )
    assert allows(engine(ALL, denied), "a.b")
    over = policy(3, on("c", "a", "*", "*"), priority=1, allow=(item(("ann",)),))
    assert allows(engine(ALL, policy(2, on("c", "a", "*", "*"), **DENY), over), "a.b")
    drop = policy(2, on("c", "a", "*", "*"), deny=(item(("ann",), access=("drop",)),))
    assert allows(engine(ALL, drop), "a.b")
    assert not engine(ALL, drop).decide(ask(ANN, TABLE, "drop")).allowed


def test_who_is_denied_everything_above_is_told_no_name_below() -> None:
    made = engine(ALL, policy(2, on("c", "a", "*", "*"), deny=(item(("ann",), access=("all",)),)))
    below = (Resource.table("c", "a.b", "t"), column("a.b"))
    assert not any(made.visible(ANN, one) for one in below)
    assert not any(made.allows(ANN, one, "_any")[0] for one in below)


def test_all_others_that_are_denied_above_are_below() -> None:
    alone = policy(2, on("c", "a", "*", "*"), allow=(item(("bob",)),), deny_all_else=True)
    assert not allows(engine(ALL, alone), "a.b")


def test_a_policy_that_excludes_a_namespace_opens_none_in_it() -> None:
    def but(*databases: str) -> Any:
        values = ResourceValues(values=databases, excludes=True)
        return {**on("c", "x", "*", "*"), "database": values}

    made = engine(policy(1, but("a"), allow=(item(("ann",)),)))
    assert not allows(made, "a")
    assert not allows(made, "a.b")
    assert not allows(made, "a.b.c")
    assert allows(made, "b.a")
    assert not made.visible(ANN, TABLE)
    assert allows(engine(policy(1, but("a"), allow=(item(("ann",)),)), INNER), "a.b")
    further = policy(1, on("c", "x", "*", "*"), additional_resources=(but("a"),), allow=(item(("ann",)),))
    assert not allows(engine(further), "a.b")
    # What is denied everywhere but in one is denied in what lies in that.
    assert not allows(engine(ALL, policy(2, but("a"), **DENY)), "a.b")


def test_zones_above_are_zones_of_others() -> None:
    zone = Zone(name="z", resources=(on("c", "a"),))
    made = engine(ALL, policy(2, on("c", "a", "*", "*"), zone="z", allow=(item(("ann",)),)), zones=(zone,))
    assert allows(made, "a")
    assert not allows(made, "a.b")
    assert not made.visible(ANN, TABLE)
    both = replace(zone, resources=(on("c", "a"), on("c", "a.*")))
    whole = policy(2, on("c", "a*", "*", "*"), zone="z", allow=(item(("ann",)),))
    assert allows(engine(whole, zones=(both,)), "a.b")


@pytest.mark.parametrize(
    "resources", [on("c", "a", "*", "ssn"), on("c", "a", "t", "ssn"), on("c", "a", "t", "*")]
)
def test_masks_above_mask_below(resources: Any) -> None:
    made = engine(INNER, policy(2, resources, **HASHED))
    view = made.table_view(ANN, TABLE, COLUMNS)
    assert "sha2" in (view.masks["ssn"].expression or "")
    assert made.mask(ANN, column("a.b"), "string") == view.masks["ssn"]


@pytest.mark.parametrize("own", [NULLED, SHOWN])
def test_of_two_masks_neither_is_escaped(own: dict[str, Any]) -> None:
    made = engine(
        INNER, policy(2, on("c", "a", "*", "ssn"), **HASHED), policy(3, on("c", "a.b", "*", "ssn"), **own)
    )
    shown = made.table_view(ANN, TABLE, COLUMNS).masks["ssn"].expression or ""
    assert "WHEN FALSE" in shown
    one = policy(2, on("c", "a*", "*", "ssn"), **HASHED)
    assert "sha2" in (engine(INNER, one).table_view(ANN, TABLE, COLUMNS).masks["ssn"].expression or "")


def test_row_filters_above_filter_below() -> None:
    def rows(*policies: Policy) -> str | None:
        found = engine(INNER, *policies).table_view(ANN, TABLE, COLUMNS).row_filter
        return None if found is None else found.expression

    above, below = on("c", "a", "*"), on("c", "a.b", "t")
    assert rows() is None
    assert rows(policy(2, above, **ROWS)) == "id = 1"
    assert rows(policy(2, below, **ROWS)) == "id = 1"
    assert rows(policy(2, on("c", "a*", "*"), **ROWS)) == "id = 1"
    assert rows(policy(2, above, **ROWS), policy(3, below, **OTHERS)) == "FALSE"


def test_tags_of_a_namespace_are_of_what_lies_in_it() -> None:
    tag = {"tag": ResourceValues(values=("PII",))}
    tagged = (TaggedResource(resources=on("c", "a"), tags=(Tag(type="PII"),)),)

    def made(*policies: Policy) -> Engine:
        tags = Service(name="tags", definition=TAG, policies=policies)
        return engine(INNER, tagged=tagged, tags=tags)

    assert [one.type for one in made().tags(TABLE)] == ["PII"]
    assert not allows(made(policy(9, tag, **DENY)), "a.b")
    assert made(policy(9, tag, **HASHED)).table_view(ANN, TABLE, COLUMNS).masks
    opening = Engine(
        policy_set(
            tagged=tagged,
            tags=Service(name="tags", definition=TAG, policies=(policy(9, tag, allow=(item(("ann",)),)),)),
        )
    )
    assert allows(opening, "a")
    assert not allows(opening, "a.b")


def test_who_drops_a_namespace_may_drop_what_lies_in_it() -> None:
    database = Resource.database("c", "a")
    for resources, expected in (
        (on("c", "a.b", "*", "*"), True),
        (on("c", "a.b", "t", "ssn"), True),
        (on("c", "*.b", "t"), True),
        (on("c", "ab", "*", "*"), False),
        (on("c", "b.a", "*", "*"), False),
    ):
        assert engine(ALL, policy(2, resources, **DENY)).may_be_denied_below(database) is expected, resources
    above = engine(ALL, policy(2, on("c", "a", "t"), **DENY))
    assert above.may_be_denied_below(Resource.database("c", "a.b"))
    zones = (Zone(name="z", resources=(on("c", "a.b"),)),)
    assert engine(ALL, zones=zones).may_be_denied_below(database)


def test_a_table_is_not_renamed_past_what_is_said_above() -> None:
    new = Resource.table("c", "a.b", "u")
    for resources, fields in (
        (on("c", "a", "t", "*"), DENY),
        (on("c", "a", "t", "ssn"), HASHED),
        (on("c", "a", "t"), ROWS),
    ):
        assert engine(ALL, policy(2, resources, **fields)).would_rename_widen_access(TABLE, new)
    assert not engine(ALL).would_rename_widen_access(TABLE, new)


DATABASES = st.lists(st.sampled_from(["a", "b", "ab", "*", "a.b", "a.*", "?"]), min_size=1, max_size=2)
KINDS = (DENY, NULLED, HASHED, ROWS, OTHERS, {"allow": (item(("ann",)),)})


@given(st.lists(st.tuples(DATABASES, st.sampled_from(KINDS), st.booleans()), max_size=4))
def test_nesting_escapes_nothing(written: list[tuple[list[str], dict[str, Any], bool]]) -> None:
    """What is not shown by the policies on `a` is not shown in `a.b`, whatever they are."""
    policies = []
    for number, (databases, fields, excludes) in enumerate(written, 2):
        depth = ("*",) if fields in (ROWS, OTHERS) else ("*", "ssn") if "masks" in fields else ("*", "*")
        values = ResourceValues(values=tuple(databases), excludes=excludes)
        resources = {**on("c", "x", *depth), "database": values}
        policies.append(policy(number, resources, **fields))
    made = engine(*policies)
    for outer, inner in product(("a", "b"), ("b", "b.c")):
        denied = any(
            "deny" in fields and _matches(databases, outer) is not excludes
            for databases, fields, excludes in written
        )
        lower = f"{outer}.{inner}"
        if denied:
            assert not allows(made, lower)
        view = made.table_view(ANN, Resource.table("c", lower, "t"), COLUMNS)
        above = made.table_view(ANN, Resource.table("c", outer, "t"), COLUMNS)
        if above.row_filter is not None:
            assert view.row_filter is not None
            assert view.row_filter.expression in (above.row_filter.expression, "FALSE")
        for name, mask in above.masks.items():
            assert name in view.masks
            shown = view.masks[name].expression or ""
            assert shown == mask.expression or "WHEN FALSE" in shown


def _matches(patterns: list[str], value: str) -> bool:
    return any(one in (value, "*") or (one == "?" and len(value) == 1) for one in patterns)
