"""What lineage knows of a value: which stored columns are in it and in which ways, and what decided on it.

A value is a set of base columns, each with the ways in which it takes part, and with what decided on it. Rows
are a graph of conditions: what decides on the rows of a table decides on those of every query over it.
Columns that are only passed on share one value, so a level of subqueries costs no more than its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gateway.algebra.types_in_ddl import field_type
from gateway.model.lineage import Clause, Subtype

AttributeDependencies = dict[int, int]
"""Columns by number, and in which ways each takes part: a sum of the bits below."""

IDENTITY, TRANSFORMATION, AGGREGATION, CONDITIONAL, WINDOW = 1, 2, 4, 8, 16
SUBTYPES = {
    IDENTITY: Subtype.IDENTITY,
    TRANSFORMATION: Subtype.TRANSFORMATION,
    AGGREGATION: Subtype.AGGREGATION,
    CONDITIONAL: Subtype.CONDITIONAL,
    WINDOW: Subtype.WINDOW,
}
WAYS = 5
"""So many bits; as many above them say the same of ways that a mask stands in."""
DIRECT = IDENTITY | TRANSFORMATION | AGGREGATION
ALL = (1 << WAYS) - 1

MAX_WORK = 4_000_000
"""Dependencies copied for one statement, about two seconds; above this it has table-level lineage."""


def _compose(way: int) -> tuple[int, ...]:
    """Return for every sum of bits what it becomes within an expression of one way."""

    def half(bits: int) -> int:
        if not bits:
            return 0
        kept = bits & ~DIRECT
        direct = bits & DIRECT
        if direct:
            kept |= AGGREGATION if way == AGGREGATION else direct & AGGREGATION
            if way == TRANSFORMATION and direct & (IDENTITY | TRANSFORMATION):
                kept |= TRANSFORMATION
        return kept

    return tuple(half(bits & ALL) | half(bits >> WAYS) << WAYS for bits in range(1 << 2 * WAYS))


@dataclass(frozen=True, slots=True)
class OperandUse:
    """How an operand takes part in the expression around it."""

    becomes: tuple[int, ...]
    """By the operand's own bits."""
    direct: bool = True
    """Whether what is within can still take part in another way."""


def _indirect(bit: int) -> tuple[int, ...]:
    return tuple(
        (bit if bits & ALL else 0) | (bit << WAYS if bits >> WAYS else 0) for bits in range(1 << 2 * WAYS)
    )


TRANSFORMED = OperandUse(_compose(TRANSFORMATION))
AGGREGATED = OperandUse(_compose(AGGREGATION))
CHOOSING = OperandUse(_indirect(CONDITIONAL), direct=False)
WINDOWED = OperandUse(_indirect(WINDOW), direct=False)


@dataclass(slots=True, eq=False)
class ConditionPart:
    """One conjunct of a condition; `written` is syntax that only its maker understands."""

    written: object
    dependencies: AttributeDependencies
    by_row: bool = True
    not_null: tuple[int, ...] = ()
    """Columns, by number, that cannot be NULL where it holds."""


@dataclass(slots=True, eq=False)
class RowCondition:
    """Something written that decides on rows."""

    clause: Clause
    written: object
    parts: list[ConditionPart] = field(default_factory=list)
    aggregates: bool = False
    """Of a GROUP_BY: whether some target's value is an aggregate over its groups; set at the end."""


@dataclass(slots=True, eq=False)
class RelationRows:
    """The rows of a relation: conditions of its own, and those of what it is made of."""

    conditions: list[RowCondition] = field(default_factory=list)
    parents: list[RelationRows] = field(default_factory=list)
    groups: RowCondition | None = None
    """Set where an aggregate is computed: the GROUP BY that says over what."""


NO_DEPENDENCIES: AttributeDependencies = {}


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What is in a column: nobody changes it after it is made."""

    dependencies: AttributeDependencies
    rows: tuple[RelationRows, ...] = ()
    """What decided on this value alone: windows, conditions within scalar subqueries."""
    written: tuple[object, ...] = ()
    """The expressions that made it, one for each branch of a set operation; syntax, or text."""
    type: str = ""
    """As DDL writes it, where it is known: of what a table has, and of structs that are built."""
    fields: Mapping[str, Value] | None = None
    """Of a struct that an expression builds: the values of its fields, lower case. What merges values or
    computes with them drops these, and each field counts as made of all."""
    unlisted: tuple[Callable[[str], Value], ...] = ()
    """Of a column that stands for others whose names nobody knows: what each of them is, by the name that is
    asked of it."""

    def __eq__(self, other: object) -> bool:
        """Whether another is made of the same columns: a query that reads itself is followed until nothing
        new comes to it."""
        return isinstance(other, Value) and self.dependencies == other.dependencies

    __hash__ = object.__hash__

    def take_field(self, names: tuple[str, ...], written: str) -> Value:
        """Return a field of a field of … the value."""
        value, type_ = self, self.type
        for name in names:
            # RULE (lineage-field-of-built-struct)
            value = (value.fields or {}).get(name, value)
            type_ = field_type(type_, name)
        return replace(value.as_operand(TRANSFORMED, (written,)), type=type_, fields=value.fields)

    def as_operand(self, way: OperandUse, written: tuple[object, ...] = ()) -> Value:
        """Return the value as an operand of an expression."""
        becomes = way.becomes
        return Value({k: becomes[bits] for k, bits in self.dependencies.items()}, self.rows, written)


NO_SOURCES = Value(NO_DEPENDENCIES)
"""A value that no column is in."""


def merge_values(values: Iterable[Value], way: OperandUse | None = None) -> Value:
    """Return a value that may be any of several."""
    found: AttributeDependencies = {}
    rows: dict[int, RelationRows] = {}
    written: dict[object, None] = {}
    for value in values:
        for key, bits in value.dependencies.items():
            found[key] = found.get(key, 0) | (bits if way is None else way.becomes[bits])
        for one in value.rows:
            rows[id(one)] = one
        written.update(dict.fromkeys(value.written))
    return Value(found, tuple(rows.values()), tuple(written))


def add_conjunct(
    condition: RowCondition, rows: RelationRows, written: object, value: Value, keys: Iterable[int] = ()
) -> None:
    """Add one conjunct to a condition on rows. `keys`: columns whose NULLs it keeps out by comparing them."""
    alone = not value.rows and not any(
        (bits | bits >> WAYS) & (AGGREGATION | WINDOW) for bits in value.dependencies.values()
    )
    condition.parts.append(ConditionPart(written, value.dependencies, alone, tuple(keys) if alone else ()))
    rows.parents += value.rows


def group_by(rows: RelationRows, grouping: RowCondition, by: Value) -> None:
    """Lay a grouping on rows, now that it is known by what it groups."""
    grouping.parts = [ConditionPart(grouping.written, by.dependencies, by_row=False)]
    rows.conditions.append(grouping)
    rows.parents += by.rows


def decide_by(
    rows: RelationRows,
    clause: Clause,
    written: object,
    value: Value,
    parts: Iterable[ConditionPart] | None = None,
) -> RowCondition:
    """Lay something on rows that is no boolean: keys, groups, an order."""
    parts = [ConditionPart(written, value.dependencies, by_row=False)] if parts is None else list(parts)
    condition = RowCondition(clause, written, parts)
    rows.conditions.append(condition)
    rows.parents += value.rows
    return condition
