"""What a query gives and the names in its scope, without any syntax.

Names resolve as in `gateway.algebra.resolve`; here a relation may also have columns that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gateway.algebra.lineage_values import (
    NO_SOURCES,
    AttributeDependencies,
    OperandUse,
    RelationRows,
    Value,
    merge_values,
)
from gateway.algebra.usage import Parts, Unclear


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

    def apply_alias(self, alias: str, columns: Sequence[str] = ()) -> LineageRelation:
        """Return it under an alias, with its columns renamed by position when names are given."""
        shown = [a for a in self.attributes if not a.hidden]
        if columns and self.opens:
            whole = merge_values(a.value for a in shown)
            return LineageRelation([Attribute(name, whole, (alias,)) for name in columns], self.rows)
        if columns and len(columns) != len(shown):
            raise Unclear(f"`{alias}` has {len(shown)} columns, not {len(columns)}")
        names: Sequence[str | None] = columns or [a.name for a in shown]
        attributes = [Attribute(n, a.value, (alias,)) for n, a in zip(names, shown, strict=True)]
        return LineageRelation(attributes, self.rows, [replace(o, qualifier=(alias,)) for o in self.opens])


@dataclass(slots=True, eq=False)
class Sum:
    """What an expression has taken in so far."""

    dependencies: AttributeDependencies = field(default_factory=dict)
    rows: dict[int, RelationRows] = field(default_factory=dict)
    seen: dict[tuple[int, int], Value] = field(default_factory=dict)
    """Kept, so that no other value gets the identity of one."""

    def add(self, value: Value, way: OperandUse) -> int:
        """Take in an operand; return what it cost."""
        key = (id(value), id(way))
        if key in self.seen:
            return 1
        self.seen[key] = value
        found, becomes = self.dependencies, way.becomes
        for column, bits in value.dependencies.items():
            found[column] = found.get(column, 0) | becomes[bits]
        self.add_deciding_rows(value.rows)
        return 1 + len(value.dependencies)

    def add_deciding_rows(self, rows: Iterable[RelationRows]) -> None:
        """Take in what decides on a value."""
        for one in rows:
            self.rows[id(one)] = one

    def value(self, *written: object) -> Value:
        return Value(self.dependencies, tuple(self.rows.values()), written)


class Frame:
    """The relations that one FROM clause has brought into scope so far, as a flat list of columns."""

    __slots__ = ("_index", "attributes", "below", "opens", "rows")

    def __init__(self, relation: LineageRelation | None = None) -> None:
        self.attributes: list[Attribute] = []
        self.opens: list[Open] = []
        self.rows = RelationRows()
        self.below: Frame | None = None
        """Of a DataFrame: what it was made of, where a filter or an order of it may find a column too."""
        self._index: dict[str | None, list[Attribute]] = {}
        if relation is not None:
            self.add(relation)

    def add(self, relation: LineageRelation) -> None:
        """Bring a relation into scope, as after a comma."""
        self.attributes += relation.attributes
        for attribute in relation.attributes:
            self._index.setdefault(attribute.name, []).append(attribute)
        self.opens += relation.opens
        self.rows.parents.append(relation.rows)

    def set_columns(self, attributes: list[Attribute], opens: list[Open]) -> None:
        """Have these columns and no others from now on; the rows stay."""
        self.attributes, self.opens, self._index = attributes, opens, {}
        for attribute in attributes:
            self._index.setdefault(attribute.name, []).append(attribute)

    def relation(self) -> LineageRelation:
        return LineageRelation(self.attributes, self.rows, self.opens)

    def derive(
        self,
        attributes: list[Attribute] | None = None,
        opens: list[Open] | None = None,
        rows: RelationRows | None = None,
    ) -> Frame:
        """Return what an operation makes of this: its own columns and rows where no others are given."""
        made = Frame()
        made.rows = self.rows if rows is None else rows
        if attributes is None and opens is None:
            made.attributes, made.opens, made._index = self.attributes, self.opens, self._index
        else:
            made.set_columns(
                self.attributes if attributes is None else attributes, self.opens if opens is None else opens
            )
        made.below = self
        return made

    @property
    def shown(self) -> list[Attribute]:
        """What `*` means."""
        return [a for a in self.attributes if not a.hidden]

    def expand_qualified_star(self, qualifier: Parts) -> list[Attribute]:
        """Return what `qualifier.*` means; Spark shows the keys that USING hides first."""
        found = [a for a in self.attributes if a.qualifier[-len(qualifier) :] == qualifier]
        return sorted(found, key=lambda a: not a.hidden)

    def find_by_name(self, name: str) -> list[Attribute]:
        """Return the columns of a name, hidden ones too."""
        return self._index.get(name, [])

    def find(self, parts: Parts) -> tuple[list[Attribute], int]:
        """Return the known columns that a reference may mean, and how many parts name them."""
        for length in (3, 2, 1):
            if len(parts) <= length:
                continue
            qualifier = parts[:length]
            found = [a for a in self._index.get(parts[length], ()) if a.qualifier[-length:] == qualifier]
            if found:
                return found, length + 1
            if any(o.qualifier[-length:] == qualifier for o in self.opens):
                return [], 0
        return [a for a in self._index.get(parts[0], ()) if not a.hidden], 1

    def candidates(self, parts: Parts) -> tuple[list[Open], int]:
        """Return the relations of unknown columns that may have the reference, and where its name stands."""
        for length in (3, 2, 1):
            if len(parts) > length:
                found = [o for o in self.opens if o.qualifier[-length:] == parts[:length]]
                if found:
                    return found, length
        return self.opens, 0


@dataclass(slots=True, eq=False)
class Environment:
    """Where an expression stands: the frame, the select list as far as it is in scope, the query around."""

    frame: Frame
    parent: Environment | None = None
    outputs: dict[str, Attribute] = field(default_factory=dict)
    prefer: Literal["columns", "outputs"] = "columns"
    """What a name that is both means: the FROM clause's column, or the output column."""
    groups: RelationRows | None = None
    """The groups over which an aggregate here is computed."""
    windows: dict[str, object] = field(default_factory=dict)
    """Named windows, lower case."""
    variables: frozenset[str] = frozenset()
    """Of a lambda: its arguments; what is in them comes with the array that it is called on."""
    pulls_up: bool = False
    """Whether a column that the frame does not have is looked for below it."""

    def find_columns(self, parts: Parts) -> tuple[list[Attribute], int]:
        """Return the columns of this query that a reference may mean, and how many parts name them."""
        output = self.outputs.get(parts[0])
        if output is not None and self.prefer == "outputs" and len(parts) == 1:
            return [output], 1
        found, length = self.frame.find(parts)
        if not found and output is not None:
            return [output], 1
        below = self.frame.below if self.pulls_up else None
        while not found and below is not None:
            found, length = below.find(parts)
            below = below.below
        return found, length
