"""Which names of policies no table has, and which of them close a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.catalog import Column, TableName
from gateway.model.policy import PolicySet, ResourceValues
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.policy.unmatched import names_in
from tests.judge_world import SERVICE_DEFS

DEFINITIONS = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
CARD = TableName("spark_catalog", "shop", "card")
COLUMNS = tuple(Column(name=name, type="string") for name in ("id", "Card", "note"))
CRDA = ResourceValues(values=("crda",))
ALL = "{catalog: spark_catalog, database: shop, table: card"


def policies(text: str) -> PolicySet:
    return load_packs({"pack.yaml": f"service: spark\n{text}"}, DEFINITIONS, 1)


def unmatched(text: str, table: TableName = CARD) -> tuple[str, str] | None:
    found = names_in(policies(text)).find_unmatched(table, COLUMNS)
    return None if found is None else (found[0].owner, found[1].text)


def one(on: str, rest: str) -> str:
    return f"policies:\n  - name: cards\n    on: {on}\n    {rest}\n"


MASK = "mask: [{groups: [public], type: MASK_NULL}]"
DENY = "deny: [{groups: [public], access: [select]}]"
ALLOW = "allow: [{groups: [public], access: [select]}]"


@pytest.mark.parametrize("rest", [MASK, DENY, "deny_all_else: true"])
@pytest.mark.parametrize("column", ["crad", "[card, crad]", '"c?ad_*"', "card.number", "{except: [crad]}"])
def test_a_column_that_the_table_lacks_is_unmatched(rest: str, column: str) -> None:
    found = unmatched(one(f"{ALL}, column: {column}}}", rest))
    assert found is not None
    assert found[0] == "policy `cards`"
    assert found[1] in ("crad", "c?ad_*", "card.number")


@pytest.mark.parametrize("column", ["card", "CARD", '"*"', '"ca*"', '"{USER}"', "[card, id]"])
def test_a_column_that_is_there_is_not(column: str) -> None:
    assert unmatched(one(f"{ALL}, column: {column}}}", MASK)) is None


def test_all_but_a_misspelt_column_opens_the_one_that_was_meant() -> None:
    text = one(f"{ALL}, column: {{except: [crad]}}}}", ALLOW)
    assert unmatched(text) == ("policy `cards`", "crad")


def test_what_is_allowed_on_a_misspelt_column_opens_nothing() -> None:
    assert unmatched(one(f"{ALL}, column: crad}}", ALLOW)) is None


def test_a_tag_on_a_misspelt_column_is_unmatched() -> None:
    text = f"tags:\n  - on: {ALL}, column: crad}}\n    tags: [PII]\n"
    assert unmatched(text) == ("tag `PII`", "crad")


def test_a_policy_that_is_switched_off_names_nothing() -> None:
    assert unmatched(one(f"{ALL}, column: crad}}", f"enabled: false\n    {MASK}")) is None


@pytest.mark.parametrize(
    "on",
    [
        '{catalog: spark_catalog, database: shop, table: "*", column: crad}',
        '{catalog: spark_catalog, database: shop, table: "car*", column: crad}',
        "{catalog: spark_catalog, database: other, table: card, column: crad}",
        "{catalog: spark_catalog, database: shop, table: {except: [orders]}, column: crad}",
    ],
)
def test_patterns_and_other_tables_close_nothing(on: str) -> None:
    assert unmatched(one(on, MASK)) is None


def test_a_table_that_is_written_out_beside_a_pattern_counts() -> None:
    on = '{catalog: spark_catalog, database: shop, table: [card, "old_*"], column: crad}'
    assert unmatched(one(on, MASK)) == ("policy `cards`", "crad")


def test_what_lies_in_a_namespace_counts_as_its_own() -> None:
    inner = TableName("spark_catalog", "shop.eu", "card")
    assert unmatched(one(f"{ALL}, column: crad}}", MASK), inner) == ("policy `cards`", "crad")


def test_a_catalog_of_another_service_is_not_spoken_of() -> None:
    lake = TableName("lake", "shop", "card")
    text = one('{catalog: "*", database: shop, table: card, column: crad}', MASK)
    found = load_packs(
        {"pack.yaml": f"service: spark\n{text}"}, DEFINITIONS, 1, catalog_services={"lake": "hive"}
    )
    assert names_in(found).find_unmatched(lake, COLUMNS) is None
    assert names_in(found).find_unmatched(CARD, COLUMNS) is not None


def test_names_follow_their_policies() -> None:
    before = policies(one(f"{ALL}, column: crad}}", MASK))
    names_in(before)
    service = before.services["spark"]
    (mask,) = service.policies
    other = replace(mask, id=7, name="other", resources={**mask.resources, "column": CRDA})
    both = PolicySet(version=2, services={"spark": replace(service, policies=(mask, other))})
    named = names_in(both, before).of(CARD)
    assert named is not None
    assert [one.key[2] for one in named[1]] == [mask.id, 7]
    alone = PolicySet(version=3, services={"spark": replace(service, policies=(other,))})
    found = names_in(alone, both).find_unmatched(CARD, COLUMNS)
    assert found is not None
    assert found[1].text == "crda"
    none = PolicySet(version=4, services={"spark": replace(service, policies=())})
    assert names_in(none, alone).find_unmatched(CARD, COLUMNS) is None


def test_services_that_have_not_changed_are_not_read_again() -> None:
    before = policies(one(f"{ALL}, column: crad}}", MASK))
    old = names_in(before)
    after = PolicySet(version=2, services=before.services)
    assert names_in(after, before).services["spark"] is old.services["spark"]
