"""What references mean, and what is laid on rows: what walks over texts and over plans have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gateway.algebra.lineage_values import (
    NO_DEPENDENCIES,
    TRANSFORMED,
    Value,
    merge_values,
)
from gateway.algebra.types_in_ddl import struct_fields
from gateway.algebra.usage import Parts, Unclear, is_literal
from gateway.sql.lineage_scope import (
    Attribute,
    Environment,
    Open,
    Sum,
)

_CALLED_SO = frozenset({"current_date", "current_user", "current_timestamp", "localtimestamp"})
"""Functions without brackets that Spark calls the same with them, in all its versions."""


class References(ABC):
    """What a walk has come by, and how it finds what a name means."""

    def __init__(self) -> None:
        self.references: set[Parts] = set()
        self.star_references: set[Parts] = set()
        self.guessed: dict[str, None] = {}

    @abstractmethod
    def spend(self, work: int) -> None:
        """Count work; raise Unclear when it is too much."""

    @abstractmethod
    def open_column(self, unknown: Open, name: str) -> Value:
        """Return a column of a relation whose columns are not known."""

    def reference(self, parts: Parts, place: Environment) -> Attribute:
        """Return the column that a reference means; raise Unclear when there is none."""
        self.references.add(parts)
        found = self._find_known(parts, place) or self._guess(parts, place)
        if found is None:
            if is_literal(parts):
                return Attribute(f"{parts[0]}()" if parts[0] in _CALLED_SO else None, Value(NO_DEPENDENCIES))
            raise Unclear(f"`{'.'.join(parts)}` is not in any relation in scope")
        return found

    def _find_known(self, parts: Parts, place: Environment) -> Attribute | None:
        around: Environment | None = place
        while around is not None:
            if parts[0] in around.variables:
                return Attribute(parts[-1], Value(NO_DEPENDENCIES))
            found, length = around.find_columns(parts)
            if found:
                return self._one(found, parts, length)
            around = around.parent
        return None

    def resolve_shown(self, parts: Parts, place: Environment) -> tuple[Attribute | None, Parts]:
        """Return the column that a reference means, and its name with those of the fields that are taken."""
        around: Environment | None = place
        while around is not None:
            found, length = around.find_columns(parts)
            if found:
                return found[0], parts[length - 1 :]
            around = around.parent
        around = place
        while around is not None:
            unknown, at = around.frame.candidates(parts)
            if unknown and not is_literal(parts):
                return Attribute(parts[at], Value(NO_DEPENDENCIES)), parts[at:]
            around = around.parent
        return None, ()

    def _one(self, found: list[Attribute], parts: Parts, length: int) -> Attribute:
        attribute = found[0]
        if len(found) > 1:
            if any(other.value is not attribute.value for other in found):
                self.guessed[".".join(parts)] = None
            attribute = Attribute(parts[length - 1], merge_values(other.value for other in found))
        if length < len(parts):
            return Attribute(parts[-1], attribute.value.take_field(parts[length:], ".".join(parts)))
        return attribute

    def _guess(self, parts: Parts, place: Environment) -> Attribute | None:
        """Look among the relations whose columns are not known, those of the innermost query first."""
        around: Environment | None = place
        while around is not None:
            unknown, at = around.frame.candidates(parts)
            if unknown:
                if len(unknown) > 1:
                    self.guessed[".".join(parts)] = None
                value = merge_values(self.open_column(one, parts[at]) for one in unknown)
                if at + 1 < len(parts):
                    value = value.as_operand(TRANSFORMED, (".".join(parts),))
                return Attribute(parts[-1], value)
            around = around.parent
        return self._nameless(parts, place)

    def _nameless(self, parts: Parts, place: Environment) -> Attribute | None:
        """Look among columns whose names Spark makes up and nobody knows here."""
        around: Environment | None = place
        while around is not None and not is_literal(parts):
            nameless = [a for a in around.frame.attributes if a.name is None]
            if nameless:
                if len(nameless) > 1:
                    self.guessed[".".join(parts)] = None
                return Attribute(parts[-1], merge_values(a.value for a in nameless))
            around = around.parent
        return None

    def expand_star(self, qualifier: Parts, place: Environment) -> tuple[list[Attribute], list[Open]]:
        """Return what `qualifier.*` shows, or `*` without a qualifier."""
        self.star_references.add(qualifier)
        frame = place.frame
        if not qualifier:
            if not frame.shown and not frame.opens and place.parent is None and not frame.rows.parents:
                raise Unclear("a star without a FROM clause")
            return frame.shown, frame.opens
        shown = frame.expand_qualified_star(qualifier)
        unknown = [o for o in frame.opens if o.qualifier[-len(qualifier) :] == qualifier]
        if not shown and not unknown:
            shown, unknown = self._fields(qualifier, place)
        return shown, unknown

    def _fields(self, parts: Parts, place: Environment) -> tuple[list[Attribute], list[Open]]:
        """Return the fields of `struct.*`."""
        found = self._find_known(parts, place) or self._guess(parts, place)
        if found is None:
            raise Unclear(f"`{'.'.join(parts)}.*` does not name a relation in scope")
        names = struct_fields(found.value.type)
        if names is None:
            value = found.value.as_operand(TRANSFORMED)
            return [Attribute("*", value)], [Open((), None, value)]
        return [Attribute(n, found.value.take_field((n,), f"{parts[-1]}.{n}")) for n in names], []


def note_grouping(place: Environment, found: Sum) -> None:
    """Note over which groups an aggregate is computed: those of the innermost query that has some."""
    if place.groups is not None:
        found.add_deciding_rows((place.groups,))
