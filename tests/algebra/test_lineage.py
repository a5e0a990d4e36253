"""What lineage refuses to follow. What it says of statements: tests/sql/test_lineage.py."""

from __future__ import annotations

import pytest

from gateway.algebra.lineage import LineageDomain
from gateway.algebra.lineage_expressions import LineageColumns, store_columns
from gateway.algebra.lineage_values import IDENTITY, Value
from gateway.algebra.nodes import (
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OpaqueExpression,
    OpaqueRelation,
    Pass,
    Passing,
    Projection,
    RelationNode,
)
from gateway.algebra.usage import Unclear

SCAN = NamedScan(("a",))


class Source:
    """One table with one column."""

    def scan(self, scan: NamedScan) -> LineageColumns:
        return store_columns([("x", Value({0: IDENTITY}))])

    def name_function(self, parts: tuple[str, ...]) -> str:
        return parts[-1]

    def is_aggregate(self, name: str) -> bool:
        return name == "max"

    def spend(self, work: int) -> None:
        pass


def test_a_value_is_what_is_in_it() -> None:
    found = LineageDomain(Source()).relation(Projection(SCAN, (NamedCall(("f",), (NamedColumn(("x",)),)),)))
    assert [sorted(one.value.dependencies) for one in found.columns] == [[0]]


@pytest.mark.parametrize(
    "relation",
    [
        OpaqueRelation((SCAN,), (), "Unheard"),
        Projection(SCAN, (OpaqueExpression((), (SCAN,), "Unheard"),)),
        Projection(SCAN, (NamedColumn(("y",)),)),
    ],
)
def test_what_is_not_known_is_not_followed(relation: RelationNode) -> None:
    with pytest.raises(Unclear, match=r"Unheard|`y`"):
        LineageDomain(Source()).relation(relation)


def test_every_reference_is_looked_up() -> None:
    domain = LineageDomain(Source())
    counted = Pass(SCAN, Passing.OBSERVED, (NamedColumn(("x",)), Literal("int", "1")))
    domain.relation(counted)
    domain.check_seen(counted)
    with pytest.raises(Unclear, match="did not come by `x`"):
        domain.check_seen(Projection(SCAN, (NamedColumn(("x",)),)))
