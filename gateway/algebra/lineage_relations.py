"""What relations make of columns whose lineage is known: joins, set operations, aliases, PIVOT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.algebra.lineage_values import (
    CHOOSING,
    TRANSFORMED,
    ConditionPart,
    RelationRows,
    RowCondition,
    Value,
    merge_values,
)
from gateway.algebra.lineage_words import cut
from gateway.algebra.nodes import (
    Alias,
    Expression,
    JoinKind,
    Literal,
    NamedCall,
    NamedColumn,
    Operator,
    SetKind,
    SetOperation,
)
from gateway.algebra.resolve import LEFT_ONLY
from gateway.algebra.scope import RelationColumn, RelationColumns
from gateway.algebra.usage import Unclear
from gateway.model.lineage import Clause

_Columns = RelationColumns[Value]
_Column = RelationColumn[Value]

NULLS_KEPT_OUT: Final = {
    JoinKind.CROSS: (True, True),
    JoinKind.INNER: (True, True),
    JoinKind.LEFT_SEMI: (True, True),
    JoinKind.LEFT_ANTI: (False, True),
    JoinKind.LEFT_OUTER: (False, True),
    JoinKind.RIGHT_OUTER: (True, False),
    JoinKind.FULL_OUTER: (False, False),
}
"""Of which sides an equation of a join lets no NULL pass."""
_DATED: Final = frozenset({"date", "timestamp", "timestamp_ntz"})


class KeyPair(NamedTuple):
    """A column of both sides that a join compares."""

    name: str
    left: Value
    right: Value


def with_rows(columns: _Columns, rows: RelationRows) -> _Columns:
    """Return columns with what decides on their rows, and whether there may be others among them."""
    unlisted = [one for one in columns.columns if one.value.unlisted]
    is_open = bool(unlisted) or any(not one.name for one in columns.columns)
    qualifiers = frozenset[tuple[str, ...]]().union(*[one.qualifiers for one in unlisted])
    return RelationColumns(columns.columns, is_open, qualifiers, bool(unlisted), rows)


def join_condition(pairs: Sequence[KeyPair], of_left: bool, of_right: bool, *, natural: bool) -> RowCondition:
    """Return what USING or NATURAL compares. `of_left`, `of_right`: whether no NULL of that side passes."""
    names = ", ".join(pair.name for pair in pairs)
    parts = [
        ConditionPart(
            f"{name} = {name}",
            merge_values((left, right)).dependencies,
            by_row=True,
            not_null=(*(left.dependencies if of_left else ()), *(right.dependencies if of_right else ())),
        )
        for name, left, right in pairs
    ]
    return RowCondition(Clause.JOIN, f"{'NATURAL' if natural else 'USING'} ({names})", parts)


def merge_keys(columns: _Columns, pairs: Sequence[KeyPair], kind: JoinKind) -> _Columns:
    """Return the columns of a join with those that it makes of two."""
    if kind in LEFT_ONLY:
        return columns
    if len(columns.columns) < len(pairs):
        raise Unclear("the columns of a join are in several relations")
    merged = []
    for column, (name, left, right) in zip(columns.columns, pairs, strict=False):
        value = right if kind is JoinKind.RIGHT_OUTER else left
        if kind is JoinKind.FULL_OUTER:
            value = replace(merge_values((left, right), TRANSFORMED), written=(f"coalesce({name}, {name})",))
        merged.append(column._replace(value=value))
    return RelationColumns((*merged, *columns.columns[len(pairs) :]))


def alias_columns(names: Sequence[str], below: _Columns) -> _Columns:
    """Return columns under other names, by their places."""
    shown = [one.value for one in below.columns if one.bare]
    if len(shown) != len(names):
        if not any(one.unlisted for one in shown):
            raise Unclear(f"a relation has {len(shown)} columns, not {len(names)}")
        shown = [merge_values(shown)] * len(names)
    named = [
        RelationColumn(name.lower(), replace(value, unlisted=()) if value.unlisted else value)
        for name, value in zip(names, shown, strict=True)
    ]
    return RelationColumns(tuple(named), rows=below.rows)


def merge_sets(relation: SetOperation, inputs: Sequence[_Columns], found: _Columns) -> _Columns:
    """Return the columns of a set operation, by their places. `found`: those that the names tell."""
    first, *others = [[one for one in side.columns if one.bare] for side in inputs]
    unlisted = tuple(
        dict.fromkeys(more for side in inputs for one in side.columns for more in one.value.unlisted)
    )
    if relation.by_name:
        return found
    if not unlisted and any(len(side) != len(first) for side in others):
        raise Unclear("the columns of a set operation cannot be matched")
    columns = [RelationColumn(one.name, one.value) for one in first]
    if relation.kind is SetKind.UNION:
        # Somewhere a star may stand for columns that nobody knows: whatever is there may be in any column.
        values = [
            [one.value for one in side]
            if len(side) == len(first)
            else [merge_values(one.value for one in side)] * len(first)
            for side in others
        ]
        columns = [
            RelationColumn(
                one.name, replace(merge_values((one.value, *more)), type=one.value.type, unlisted=())
            )
            for one, *more in zip(first, *values, strict=True)
        ]
    if unlisted and columns:
        places = [place for place, one in enumerate(first) if one.value.unlisted] or [len(columns) - 1]
        for place in places:
            value = replace(columns[place].value, unlisted=unlisted)
            columns[place] = columns[place]._replace(value=value)
    return RelationColumns(tuple(columns))


def choose(value: Value, chosen: Value) -> Value:
    """Return what a PIVOT makes of an aggregate for one of the values that it chooses by."""
    both = merge_values((value, chosen.as_operand(CHOOSING)))
    return replace(both, written=value.written)


def pivot_names(values: Sequence[Expression], aggregates: Sequence[str], text: str) -> Iterator[str]:
    """Yield what the columns of a PIVOT are called, by value and aggregate."""
    for one in values:
        name = one.name.lower() if isinstance(one, Alias) else value_name(one, text)
        if len(aggregates) == 1:
            yield name
        else:
            yield from (f"{name}_{aggregate}" for aggregate in aggregates)


def value_name(expression: Expression, text: str) -> str:
    """Return what a column is called that is made for a value."""
    match expression:
        case Literal() if expression.type not in _DATED:
            return "null" if expression.value is None else expression.value.lower()
        case NamedColumn():
            return expression.parts[-1].lower()
        case NamedCall(parts=("struct",), operands=values):
            return "{" + ", ".join(value_name(one, text) for one in values) + "}"
        case Operator(name="CreateNamedStruct", operands=pairs):
            return "{" + ", ".join(value_name(one, text) for one in pairs[1::2]) + "}"
        case Alias():
            return value_name(expression.operand, text)
    return cut(expression, text).lower()
