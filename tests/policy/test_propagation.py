"""Rules of tag propagation: what follows what, and every fault with its line."""

from __future__ import annotations

import pytest

from gateway.errors import Faults
from gateway.model.tags import FLOWS, Propagation, PropagationRules
from gateway.policy.propagation import load_propagation

CARRY, ASK, DROP = Propagation.CARRY, Propagation.ASK, Propagation.DROP
FUNCTIONS = ("count", "max", "sum")
WHOLE = "flows: {" + ", ".join(f"{flow}: drop" for flow in FLOWS) + "}\n"


def load(text: str) -> PropagationRules:
    return load_propagation(text, "rules.yaml", FUNCTIONS)


def faults(text: str) -> list[str]:
    with pytest.raises(Faults) as raised:
        load(text)
    return list(raised.value.faults)


def test_an_aggregate_counts_by_its_name_and_by_the_most_that_any_of_them_says() -> None:
    rules = load(
        WHOLE.replace("AGGREGATION: drop", "AGGREGATION: ask") + "aggregates: {count: drop, max: carry}"
    )
    assert rules.follows("PII", "AGGREGATION", ["count"]) is DROP
    assert rules.follows("PII", "AGGREGATION", ["count", "max"]) is CARRY
    assert rules.follows("PII", "AGGREGATION", ["count", "-"]) is ASK
    assert rules.follows("PII", "AGGREGATION", []) is ASK
    assert rules.follows("PII", "IDENTITY", ["max"]) is DROP
    assert rules.carrying == {"AGGREGATION"}


def test_a_tag_has_rules_of_its_own_where_it_says_so() -> None:
    rules = load(
        WHOLE.replace("IDENTITY: drop", "IDENTITY: carry")
        + "aggregates: {count: ask}\n"
        + "tags:\n  GEO: {flows: {JOIN: carry}}\n  FREE: {flows: {IDENTITY: drop, AGGREGATION: carry}}\n"
    )
    assert [rules.follows(tag, "JOIN", ()) for tag in ("GEO", "FREE", "PII")] == [CARRY, DROP, DROP]
    assert [rules.follows(tag, "IDENTITY", ()) for tag in ("GEO", "FREE", "PII")] == [CARRY, DROP, CARRY]
    # What a tag says of all aggregations is said of count, too.
    assert [rules.follows(tag, "AGGREGATION", ["count"]) for tag in ("GEO", "FREE")] == [ASK, CARRY]


def test_faults_are_told_together_with_their_lines() -> None:
    text = (
        "flows:\n"
        + "".join(f"  {flow}: drop\n" for flow in FLOWS if flow != "TABLE")
        + "  IDENTIY: carry\n"
        + "aggregates:\n  cuont: drop\n  max: yes please\n"
        + "tag: {}\n"
        + "tags:\n  PII: carry\n  GEO: {flow: {}}\n"
    )
    assert faults(text) == [
        "rules.yaml:1: `flows` has no rule for tags in `TABLE`",
        "rules.yaml:11: unknown flow `IDENTIY` (did you mean `IDENTITY`?)",
        "rules.yaml:13: unknown aggregate function `cuont` (did you mean `count`?)",
        "rules.yaml:14: `max` must be `carry`, `ask` or `drop`, not `yes please`",
        "rules.yaml:15: unknown key `tag` in the tag propagation rules (did you mean `tags`?)",
        "rules.yaml:17: the rules of a tag must be a mapping with `flows` or `aggregates`",
        "rules.yaml:18: unknown key `flow` in the rules of a tag (did you mean `flows`?)",
    ]


@pytest.mark.parametrize("text", ["", "[]", "flows: [a]", "flows: {}"])
def test_what_says_nothing_is_at_fault(text: str) -> None:
    assert faults(text)[0].startswith("rules.yaml:1: ")


def test_other_rules_have_another_digest() -> None:
    assert load(WHOLE).digest != load(WHOLE + "tags: {}").digest
