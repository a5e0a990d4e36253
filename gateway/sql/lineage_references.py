"""What references mean, and what is laid on rows: what walks over texts and over plans have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from gateway.algebra.usage import Parts, Unclear, is_literal
from gateway.model.lineage import Clause
from gateway.model.reading import ExtractedValue, NamePieces, UnnamedColumn
from gateway.sql.lineage_scope import (
    AGGREGATION,
    NO_DEPENDENCIES,
    TRANSFORMED,
    WAYS,
    WINDOW,
    Attribute,
    ConditionPart,
    Environment,
    Open,
    RelationRows,
    RowCondition,
    Sum,
    Value,
    merge_values,
)
from gateway.sql.lineage_types import field_type, is_map, is_plain, kind_of, struct_fields

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

    def column_name(self, column: UnnamedColumn, place: Environment) -> str | None:
        """Return what Spark calls a column without an alias, lower case; None where that is not known."""
        pieces = self._pieces(column, place)
        found: list[str] = []
        for piece in pieces or ():
            if isinstance(piece, str):
                found.append(piece)
                continue
            attribute, shown = self.resolve_shown(_parts(piece), place)
            if attribute is None:
                return None
            if column.cast and len(shown) == 1:
                return shown[0]
            name = _as_shown(attribute.value.type, shown, extracted=isinstance(piece, ExtractedValue))
            if name is None:
                return None
            found.append(name)
        return "".join(found).lower() or None

    def _pieces(self, column: UnnamedColumn, place: Environment) -> NamePieces | None:
        """Return the name by the types of what it refers to; None where that takes more than is known."""
        # RULE (lineage-type-for-name)
        if not column.plain or all(
            is_plain(self.infer_reference_type(_parts(piece), place))
            for piece in column.pieces
            if not isinstance(piece, str)
        ):
            return column.pieces
        for dated in column.dated:
            if all(
                kind_of(self.infer_reference_type(_parts(parts), place)) == kind
                for parts, kind in dated.where
            ):
                return dated.pieces
        return None

    def infer_reference_type(self, parts: Parts, place: Environment) -> str:
        """Return the type of what a reference means, in DDL; empty where it is not known."""
        attribute, shown = self.resolve_shown(parts, place)
        type_ = "" if attribute is None else attribute.value.type
        for name in shown[1:]:
            type_ = field_type(type_, name)
        return type_

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


def _parts(piece: Parts | ExtractedValue) -> Parts:
    written = (*piece.parts, piece.key) if isinstance(piece, ExtractedValue) else piece
    return tuple(part.lower() for part in written)


def _as_shown(type_: str, shown: Parts, *, extracted: bool) -> str | None:
    """Return how Spark shows a column, or what is taken out of it, within a name; None where it takes a type
    that is not known."""
    found = shown[0]
    for i, name in enumerate(shown[1:], 2):
        if extracted and i == len(shown) and not type_:
            return None
        found += f"[{name}]" if is_map(type_) else f".{name}"
        type_ = field_type(type_, name)
    return found


def note_grouping(place: Environment, found: Sum) -> None:
    """Note over which groups an aggregate is computed: those of the innermost query that has some."""
    if place.groups is not None:
        found.add_deciding_rows((place.groups,))


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
