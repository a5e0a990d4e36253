"""What a WithRelations binds: ids for subqueries, names for a text that is its root."""

from __future__ import annotations

from gateway.plan.references import ids_bound, names_bound
from gateway.wire.connect import pb


def with_relations(*names: str, text: bool = True) -> pb.WithRelations:
    found = pb.WithRelations()
    (found.root if text else found.root.limit.input).sql.query = "SELECT 1"
    for number, name in enumerate(names):
        reference = found.references.add()
        reference.common.plan_id = number
        reference.subquery_alias.alias = name
    return found


def test_names_are_bound_for_a_text_that_is_the_root_where_all_have_one() -> None:
    found = with_relations("A", "b")
    assert [name for name, _ in names_bound(found)] == ["A", "b"]
    assert [reference.common.plan_id for _, reference in names_bound(found)] == [0, 1]
    assert names_bound(with_relations("A", "b", text=False)) == []
    assert names_bound(with_relations()) == []
    found.references.add().range.end = 1
    assert names_bound(found) == []


def test_zero_is_an_id_and_none_is_not() -> None:
    found = with_relations("a", "b", "c", text=False)
    found.references[1].common.ClearField("plan_id")
    assert [(plan_id, one.subquery_alias.alias) for plan_id, one in ids_bound(found)] == [(0, "a"), (2, "c")]
