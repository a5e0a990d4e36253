"""`read-restrictions` as servers may answer: read whole, or a fault."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.catalog.read_restrictions import read_restrictions
from gateway.model.restrictions import (
    ColumnAction,
    Fixed,
    JoinedPredicates,
    JsonLiteral,
    LiteralComparison,
    LiteralMembership,
    Negated,
    ReferenceTest,
)
from tests.policy.restricted_tables import answer, schema

PLAIN = schema({"id": "long", "name": "string"})
ID = {"type": "reference", "id": 1}


def fault(told: Any) -> str:
    return read_restrictions("lake", told).fault


def filtered(predicate: Any) -> Any:
    told = read_restrictions("lake", answer(PLAIN, row_filter=predicate))
    assert not told.fault, told.fault
    return told.predicate


def columns(*listed: Any, **more: Any) -> dict[str, Any]:
    told = answer(PLAIN)
    told["read-restrictions"] = {"required-column-projections": list(listed), **more}
    return told


@pytest.mark.parametrize(
    "restrictions",
    [
        None,
        {},
        {"required-row-filter": None, "required-column-projections": []},
        {"required-row-filter": True},
        {"required-row-filter": {"type": "true"}},
    ],
)
def test_absent_or_empty_is_no_restriction(restrictions: Any) -> None:
    told = read_restrictions("lake", {**answer(PLAIN), "read-restrictions": restrictions})
    assert not told.restricts
    assert not told.schemas


def test_filters_and_actions_are_read_by_ids() -> None:
    told = read_restrictions("lake", answer(PLAIN, row_filter=False, columns={2: "mask-alphanum"}))
    assert told.predicate == Fixed(value=False)
    assert told.columns == (ColumnAction(field_id=2, action="mask-alphanum"),)
    for action in ({"action": "mask-alphanum"}, {"type": "mask-alphanum"}):
        assert read_restrictions("lake", columns({"field-id": 2, "action": action})).columns == told.columns


def test_the_grammar_of_predicates() -> None:
    seven = JsonLiteral(7)
    assert filtered({"type": "lt", "left": ID, "right": 7}) == LiteralComparison("lt", 1, seven)
    literal = {"type": "literal", "value": 7, "data-type": "long"}
    assert filtered({"type": "lt-eq", "left": literal, "right": ID}) == LiteralComparison(
        "gt-eq", 1, JsonLiteral(7, "long")
    )
    assert filtered({"type": "not-eq", "left": ID, "right": 7}) == Negated(LiteralComparison("eq", 1, seven))
    assert filtered({"type": "not-null", "child": ID}) == Negated(ReferenceTest("is-null", 1))
    assert filtered({"type": "not-in", "child": ID, "values": [7]}) == Negated(LiteralMembership(1, (seven,)))
    both = {"type": "or", "left": {"type": "is-nan", "child": ID}, "right": False}
    assert filtered({"type": "not", "child": both}) == Negated(
        JoinedPredicates("OR", ReferenceTest("is-nan", 1), Fixed(value=False))
    )


@pytest.mark.parametrize(
    ("listed", "named"),
    [
        ({"field-id": 2, "action": "mask-some"}, "unknown action `mask-some`"),
        ({"field-id": 2, "action": {"action": "mask-alphanum", "keep": 4}}, "unknown member `keep`"),
        ({"field-id": 2, "action": None}, "unknown action"),
        ({"field-id": 2, "action": "MASK-ALPHANUM"}, "unknown action"),
        ({"field-id": 9, "action": "mask-alphanum"}, "field id 9"),
        ({"field-id": "2", "action": "mask-alphanum"}, "no number"),
        ({"field-id": True, "action": "mask-alphanum"}, "no number"),
        ({"field-id": 2}, "has no `action`"),
        ({"action": "mask-alphanum"}, "has no `field-id`"),
        ({"field-id": 2, "action": "mask-alphanum", "when": 1}, "unknown member `when`"),
        ("name", "no object"),
    ],
)
def test_what_is_not_understood_of_a_column_is_a_fault(listed: Any, named: str) -> None:
    assert named in fault(columns(listed))


def test_a_column_occurs_once() -> None:
    one = {"field-id": 2, "action": "mask-alphanum"}
    assert "two actions" in fault(columns(one, dict(one)))


def test_unknown_members_and_shapes_are_faults() -> None:
    assert "unknown member `required-aggregates`" in fault(columns(**{"required-aggregates": []}))
    assert "no object" in fault({**answer(PLAIN), "read-restrictions": []})
    told = {**answer(PLAIN), "read-restrictions": {"required-column-projections": {"2": "mask-alphanum"}}}
    assert "no list" in fault(told)


@pytest.mark.parametrize("told", [None, [], "", {}, {"metadata": None}, {"metadata": []}])
def test_an_answer_without_a_table_is_a_fault(told: Any) -> None:
    assert "the answer has no table" in fault(told)


@pytest.mark.parametrize(
    "predicate",
    [
        "region = 'EU'",
        17,
        [],
        {},
        {"type": "exists", "child": ID},
        {"type": "eq", "term": "name", "value": "x"},
        {"type": "eq", "left": {"type": "reference", "name": "name"}, "right": "x"},
        {"type": "eq", "left": {"type": "reference", "id": 1, "name": "name"}, "right": 1},
        {"type": "eq", "left": ID, "right": ID},
        {"type": "eq", "left": ID, "right": None},
        {"type": "eq", "left": ID, "right": {"type": "apply", "function": "current_user"}},
        {"type": "eq", "left": {"type": "apply", "function": "year", "arguments": [ID]}, "right": 1},
        {"type": "starts-with", "left": "a", "right": {"type": "reference", "id": 2}},
        {"type": "in", "child": ID, "values": []},
        {"type": "in", "child": ID, "values": 1},
        {"type": "in", "child": ID, "values": [None]},
        {"type": "is-null", "child": ID, "of": 1},
        {"type": "not", "child": "true"},
        {"type": "and", "left": True},
        {"type": "lt", "left": {"type": "reference", "id": 9}, "right": 1},
    ],
)
def test_what_is_not_understood_of_a_filter_is_a_fault(predicate: Any) -> None:
    assert fault(answer(PLAIN, row_filter=predicate))


def test_a_filter_that_is_nested_without_end_is_a_fault() -> None:
    deep: Any = True
    for _ in range(200):
        deep = {"type": "not", "child": deep}
    assert "nested too deep" in fault(answer(PLAIN, row_filter=deep))


@pytest.mark.parametrize(
    "change",
    [
        {"schemas": None},
        {"schemas": [{"fields": []}]},
        {"current-schema-id": 7},
        {"schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "id", "type": {"type": "set"}}]}]},
    ],
)
def test_a_restricted_table_whose_schemas_are_odd_is_a_fault(change: dict[str, Any]) -> None:
    told = answer(PLAIN, columns={1: "sha-256-global"})
    told["metadata"] |= change
    assert fault(told)
