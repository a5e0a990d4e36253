"""Policies that match nothing are counted, by the tables that Spark has described."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from gateway.app.unmatched import MAX_NAMED, UnmatchedPolicies
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.policy import PolicySet
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from tests.judge_world import SERVICE_DEFS

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEFINITIONS = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})


def policies(*named: str, version: int = 1) -> PolicySet:
    written = [
        f"  - name: p{i}\n    on: {{catalog: spark_catalog, database: shop, {on}}}\n"
        "    mask: [{groups: [public], type: MASK_NULL}]\n"
        for i, on in enumerate(named)
    ]
    return load_packs({"p.yaml": "policies:\n" + "".join(written)}, DEFINITIONS, version)


def table(name: str, *columns: str) -> tuple[TableName, Table]:
    full = TableName("spark_catalog", "shop", name)
    found = tuple(Column(name=column, type="string") for column in columns)
    return full, Table(name=full, kind=TableKind.TABLE, columns=found)


class Counted:
    """The counting, with policies that can be exchanged."""

    def __init__(self, *named: str) -> None:
        self.policies = policies(*named)
        self.unmatched = UnmatchedPolicies(lambda: self.policies)
        self.registry = CollectorRegistry()
        self.registry.register(self.unmatched)

    async def numbers(self) -> tuple[float, float]:
        await self.unmatched.look()
        found = [
            self.registry.get_sample_value("sluice_policies_unmatched", {"what": what})
            for what in ("column", "nothing")
        ]
        return found[0] or 0, found[1] or 0


async def test_what_no_table_was_found_for_counts_until_one_is() -> None:
    counted = Counted("table: card, column: number", 'table: "*", column: number', "table: crad, column: id")
    assert await counted.numbers() == (0, 3)
    counted.unmatched.learn(*table("card", "id", "number"))
    assert await counted.numbers() == (0, 1), "a misspelt table matches nothing"
    assert await counted.unmatched.report_trouble() is None


async def test_a_column_that_a_named_table_lacks_is_certain() -> None:
    counted = Counted("table: card, column: nubmer", 'table: "*", column: nubmer')
    counted.unmatched.learn(*table("card", "id", "number"))
    assert await counted.numbers() == (1, 1)
    told = await counted.unmatched.report_trouble()
    assert told is not None
    assert told.startswith("policy `p0`: ")


async def test_a_table_that_loses_a_column_counts_and_one_that_goes_does_not() -> None:
    counted = Counted("table: card, column: number")
    counted.unmatched.learn(*table("card", "id", "number"))
    assert await counted.numbers() == (0, 0)
    counted.unmatched.learn(*table("card", "id"))
    assert await counted.numbers() == (1, 0)
    counted.unmatched.learn(table("card")[0], None)
    assert await counted.numbers() == (0, 0)


async def test_other_policies_are_held_against_what_is_known() -> None:
    counted = Counted("table: card, column: nubmer")
    counted.unmatched.learn(*table("card", "id", "number"))
    assert await counted.numbers() == (1, 0)
    counted.policies = policies("table: card, column: number", version=2)
    assert await counted.numbers() == (0, 0)


async def test_few_policies_are_named() -> None:
    counted = Counted(*(["table: card, column: nubmer"] * (MAX_NAMED + 2)))
    counted.unmatched.learn(*table("card", "id"))
    await counted.unmatched.look()
    assert " and 2 more: " in (await counted.unmatched.report_trouble() or "")
