"""What tables, views and queries give: columns, among them such as nobody knows, and rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.algebra.lineage_values import (
    NO_SOURCES,
    RelationRows,
    Value,
)
from gateway.algebra.usage import Parts


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A column of a relation, as Spark's analyser has it."""

    name: str | None
    """Lower case; None where Spark makes one up."""
    value: Value
    qualifier: Parts = ()
    hidden: bool = False
    """Found by its qualified name only: the other side's key of a USING join."""


@dataclass(frozen=True, slots=True, eq=False)
class Open:
    """A relation whose columns are not known: whatever name is asked of it, it has it."""

    qualifier: Parts
    scan: int | None
    """The scan whose columns they are; None for a function or the like, where each has `value`."""
    value: Value = NO_SOURCES
    ask: Callable[[str], Value] | None = None
    """What each of them is, by its name, where that is known otherwise."""


@dataclass(slots=True, eq=False)
class LineageRelation:
    """What a query or a FROM clause gives."""

    attributes: list[Attribute]
    rows: RelationRows
    opens: list[Open] = field(default_factory=list)
