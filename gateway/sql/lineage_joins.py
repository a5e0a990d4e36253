"""The keys of USING and NATURAL joins."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.sql.analyse_scope import Unclear
from gateway.sql.lineage_expressions import Expressions
from gateway.sql.lineage_scope import Attribute, Environment, Frame


def key_columns(left: Frame, right: Frame) -> list[str]:
    """Return the names that a NATURAL join compares."""
    if left.opens or right.opens:
        raise Unclear("a natural join with unknown columns")
    theirs = {a.name for a in right.shown}
    shared = dict.fromkeys(a.name for a in left.shown if a.name in theirs)
    return [name for name in shared if name is not None]


def using_attributes(
    walk: Expressions, keys: Sequence[str], left: Frame, right: Frame
) -> dict[str, tuple[Attribute, Attribute]]:
    """Return the key columns of both sides, by name."""
    places = Environment(left), Environment(right)
    found: dict[str, tuple[Attribute, Attribute]] = {}
    for name in keys:
        mine, theirs = (walk.reference((name,), place) for place in places)
        found[name] = (mine, theirs)
    walk.references -= {(name,) for name in keys}
    return found
