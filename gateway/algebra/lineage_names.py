"""What Spark calls the columns of a select list that have no alias, as far as types are known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.algebra.types_in_ddl import field_type, is_map, is_plain, kind_of
from gateway.model.reading import ExtractedValue, NamePieces, Span, UnnamedColumn

ShownName = tuple[str, tuple[str, ...]]
"""The type of a column in DDL, empty where it is not known, and its name with those of the fields taken."""
Look = Callable[[tuple[str, ...]], ShownName | None]
"""Returns what the parts of a reference mean, lower case; None where nothing has the name."""


@dataclass(slots=True)
class ColumnNames:
    """The names of the columns of a text by where the items stand that make them."""

    columns: Sequence[UnnamedColumn] = ()
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = sorted(self.columns, key=lambda one: (one.span.start, -one.span.end))
        self._starts = [one.span.start for one in self.columns]

    def find(self, span: Span | None) -> UnnamedColumn | None:
        """Return the innermost item that something stands in."""
        if span is None:
            return None
        for place in range(bisect_right(self._starts, span.start) - 1, -1, -1):
            if self.columns[place].span.end >= span.end:
                return self.columns[place]
        return None


def name_column(column: UnnamedColumn, look: Look) -> str | None:
    """Return what Spark calls a column without an alias, lower case; None where that is not known."""
    found: list[str] = []
    for piece in _pieces(column, look) or ():
        if isinstance(piece, str):
            found.append(piece)
            continue
        meaning = look(_fold(piece))
        if meaning is None:
            return None
        type_, shown = meaning
        if column.cast and len(shown) == 1:
            return shown[0]
        name = _as_shown(type_, shown, extracted=isinstance(piece, ExtractedValue))
        if name is None:
            return None
        found.append(name)
    return "".join(found).lower() or None


def type_of(parts: tuple[str, ...], look: Look) -> str:
    """Return the type of what a reference means, in DDL; empty where it is not known."""
    type_, shown = look(parts) or ("", ())
    for name in shown[1:]:
        type_ = field_type(type_, name)
    return type_


def _pieces(column: UnnamedColumn, look: Look) -> NamePieces | None:
    """Return the name by the types of what it refers to; None where that takes more than is known."""
    # RULE (lineage-type-for-name)
    if not column.plain or all(
        is_plain(type_of(_fold(piece), look)) for piece in column.pieces if not isinstance(piece, str)
    ):
        return column.pieces
    for dated in column.dated:
        if all(kind_of(type_of(_fold(parts), look)) == kind for parts, kind in dated.where):
            return dated.pieces
    return None


def _fold(piece: tuple[str, ...] | ExtractedValue) -> tuple[str, ...]:
    written = (*piece.parts, piece.key) if isinstance(piece, ExtractedValue) else piece
    return tuple([part.lower() for part in written])


def _as_shown(type_: str, shown: tuple[str, ...], *, extracted: bool) -> str | None:
    """Return how Spark shows a column, or what is taken out of it, within a name; None where it takes a type
    that is not known."""
    found = shown[0]
    for i, name in enumerate(shown[1:], 2):
        if extracted and i == len(shown) and not type_:
            return None
        found += f"[{name}]" if is_map(type_) else f".{name}"
        type_ = field_type(type_, name)
    return found
