"""Joins: the keys of USING and NATURAL, whose NULLs a join keeps out, which columns it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway.algebra.lineage_values import TRANSFORMED, ConditionPart, RowCondition, merge_values
from gateway.sql.lineage_scope import (
    Attribute,
    Frame,
)


def key_parts(
    pairs: Mapping[str, tuple[Attribute, Attribute]], rejects: Callable[[Attribute], bool]
) -> list[ConditionPart]:
    """Return what a join compares of each key."""
    return [
        ConditionPart(
            f"{name} = {name}",
            merge_values((a.value, b.value)).dependencies,
            by_row=True,
            not_null=tuple(key for one in (a, b) if rejects(one) for key in one.value.dependencies),
        )
        for name, (a, b) in pairs.items()
    ]


def keep_unmatched(condition: RowCondition) -> None:
    """Note of an outer join that its condition alone drops no row of the side that is kept."""
    for part in condition.parts:
        part.by_row = part.by_row and len(part.not_null) > 0


def find_null_rejecting(side: str, kind: str, own: set[int], theirs: set[int]) -> Callable[[Attribute], bool]:
    """Return which columns a join's equations keep NULLs out of: both sides' or, of outer joins, those of the
    side whose rows may be missing."""
    if side == "FULL":
        return lambda attribute: False
    if kind == "ANTI" or (side == "LEFT" and kind != "SEMI"):
        return lambda attribute: id(attribute) in theirs
    if side == "RIGHT":
        return lambda attribute: id(attribute) in own
    return lambda attribute: True


def merge_keys(
    frame: Frame, pairs: dict[str, tuple[Attribute, Attribute]], side: str, kind: str
) -> list[Attribute]:
    """Return the columns after a USING or NATURAL join: the keys first, once, and the other side's hidden."""
    keys, hidden = [], []
    for name, (left, right) in pairs.items():
        match side:
            case "RIGHT":
                keys.append(right)
                hidden.append(left)
            case "FULL":
                both = merge_values((left.value, right.value), TRANSFORMED)
                written = replace(both, written=(f"coalesce({name}, {name})",))
                keys.append(Attribute(name, written))
                hidden += (left, right)
            case _:
                keys.append(left)
                hidden.append(right)
    gone = {id(a) for a in (*keys, *hidden)}
    rest = [a for a in frame.attributes if id(a) not in gone]
    if kind in ("SEMI", "ANTI"):
        hidden = []
    return [*keys, *rest, *(replace(a, hidden=True) for a in hidden)]
