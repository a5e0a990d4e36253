"""What column usage makes of what it does not know, and of names that no column has."""

from __future__ import annotations

import pytest

from gateway.algebra.findings import ColumnFindings
from gateway.algebra.nodes import (
    Alias,
    ColumnAliases,
    Expression,
    NamedCall,
    NamedColumn,
    NamedScan,
    OneRow,
    OpaqueExpression,
    OpaqueRelation,
    Projection,
    RelationNode,
    SetKind,
    SetOperation,
    Star,
    SubqueryAlias,
    WindowCall,
)
from gateway.algebra.usage import GUESSED, StoredTable, Unclear, Unfound, UsageDomain
from gateway.model.catalog import TableName
from gateway.model.reading import Span

T = TableName("spark_catalog", "hr", "t")
PLACE = Span(0, 1)
SCAN = NamedScan(("t",), span=PLACE)


def used(relation: RelationNode, guessed: frozenset[str] = frozenset()) -> ColumnFindings:
    domain = UsageDomain({PLACE: StoredTable(T, ["X", "y"], guessed)}, frozenset())
    domain.statement(relation)
    return domain.found


def shown(*items: Expression) -> Projection:
    return Projection(SCAN, items)


@pytest.mark.parametrize(
    "relation",
    [
        OpaqueRelation((SCAN,), (), "Unheard"),
        shown(OpaqueExpression((), (), "Unheard")),
        shown(OpaqueExpression((), (SCAN,), "Hex")),
        NamedScan(("u",), span=Span(5, 6)),
        NamedScan(("u",)),
        shown(Star(("q",))),
        ColumnAliases(SCAN, ("a",)),
        SetOperation(SetKind.UNION, (SCAN, shown(NamedColumn(("x",))))),
        shown(NamedColumn(("q",))),
    ],
)
def test_what_is_not_known_is_unclear(relation: RelationNode) -> None:
    with pytest.raises(Unclear):
        used(relation)


def test_a_reference_that_is_not_looked_up_is_unclear() -> None:
    domain = UsageDomain({PLACE: StoredTable(T, ["x"])}, frozenset())
    bound = WindowCall(NamedCall(("rank",), ()), (), (NamedColumn(("x",)),))
    with pytest.raises(Unclear, match="did not come by `x`"):
        domain.statement(shown(bound))


def test_a_name_that_no_column_has_is_no_column() -> None:
    with pytest.raises(Unfound):
        used(shown(NamedColumn(("q",))))
    with pytest.raises(Unclear) as raised:
        used(shown(NamedColumn(("upper(x)",))))
    assert not isinstance(raised.value, Unfound), "Spark may make it up"


def test_what_is_passed_on_and_what_is_computed() -> None:
    found = used(shown(Alias("n", NamedColumn(("x",))), OpaqueExpression((NamedColumn(("Y",)),), (), "Hex")))
    assert found.used == found.named == {(T, "x"), (T, "y")}
    assert found.computed == {(T, "y")}
    assert found.stars == set()
    assert found.words == {"x", "y"}


def test_a_star_shows_all_of_a_table_unless_nobody_wrote_it() -> None:
    assert used(shown(Star())).stars == {T}
    inner = SubqueryAlias(shown(Star(implied=True)), "q")
    assert used(Projection(inner, (NamedColumn(("x",)),))).used == {(T, "x")}
    assert used(shown(Star(implied=True))).stars == {T}, "what is left in the end is shown"
    assert used(OneRow()).used == set()


def test_names_that_a_table_may_have() -> None:
    found = used(shown(NamedColumn(("q",)), NamedColumn(("x",))), frozenset({"q", "user"}))
    assert found.named == {(T, GUESSED + "q"), (T, "x")}


def test_a_field_of_what_has_none_is_no_column() -> None:
    """Spark takes no other column for it, as none that is hidden is taken."""
    table = StoredTable(T, ["t", "s"], frozenset({"q"}), frozenset({"t"}))
    for name, found in (("t.x", None), ("t.t.x", None), ("t.s", "s"), ("s.x", "s"), ("t.q", GUESSED + "q")):
        domain = UsageDomain({PLACE: table}, frozenset())
        relation = shown(NamedColumn(tuple(name.split("."))))
        if found is None:
            with pytest.raises(Unfound):
                domain.statement(relation)
        else:
            domain.statement(relation)
            assert domain.found.named == {(T, found)}
