"""What a column name means inside a plan: the columns that a relation gives, and where they come from.

A DataFrame says `SELECT *` all the time without meaning it: `spark.table("t").select("a")` asks what
`SELECT a FROM t` asks. So the columns that an operation only passes on are shown no earlier than at the end,
or where an operation works on all of them.

The plan is known to be one that Spark's parser accepts, not one that its analyser does: a name that Spark
would call ambiguous or unknown may get any answer, for Spark will not run it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.model.catalog import TableName
from gateway.sql import analyse_scope as sql
from gateway.sql.analyse_scope import (
    LITERAL_FUNCTIONS,
    NO_ORIGINS,
    Origins,
    OutputColumn,
    Parts,
    Unclear,
    is_guessed,
    is_literal,
)

_Tables = frozenset[TableName]
NO_TABLES: _Tables = frozenset()

MAX_COLUMNS = 400_000
"""Columns looked at over a whole plan: 1,000 operations on a table of 400 columns. Beyond it, silence."""


class PlanColumn(NamedTuple):
    """A column of a relation."""

    name: str | None
    """Lower case; None where Spark makes one up."""
    qualifier: Parts
    origins: Origins
    tables: _Tables = NO_TABLES
    """Tables that it shows a column of, should it be shown, without anybody having named it yet."""


@dataclass(slots=True, eq=False)
class Node:
    """A relation's columns. Operations that pass all of them on share one Node."""

    columns: list[PlanColumn]
    complete: bool = True
    """Whether `columns` has every column at its position."""
    open: tuple[Parts, ...] = ()
    """Qualifiers of relations within it that may have columns under names that are not known."""
    below: Node | None = None
    """Where Spark looks for a name that is not here: it pulls a missing column up through a projection."""
    _names: dict[str, list[PlanColumn]] | None = field(default=None, init=False)

    @property
    def names(self) -> dict[str, list[PlanColumn]]:
        """The columns by their names."""
        names = self._names
        if names is None:
            names = self._names = {}
            for column in self.columns:
                name = column.name
                if name is None:
                    continue
                if name in names:
                    names[name].append(column)
                else:
                    names[name] = [column]
        return names

    def find_columns(self, name: str) -> Sequence[PlanColumn]:
        """Return the columns of a name."""
        return self.names.get(name, ())

    def replace_columns(self, added: dict[str, PlanColumn], *, add: bool = True) -> Node:
        """Return the relation with columns in the place of those of their names, the others at its end."""
        mine = self.names
        columns = self.columns
        if not mine.keys().isdisjoint(added):
            columns = [added.get(column.name or "", column) for column in columns]
        if add:
            columns = columns + [column for name, column in added.items() if name not in mine]
        made = Node(columns, self.complete, self.open, self)
        if add:
            made._names = {**mine, **{name: [column] for name, column in added.items()}}
        return made

    def find(self, parts: Parts) -> Origins | None:
        """Return what a reference means here, or None when no known column has the name."""
        count = len(parts)
        if count == 1:
            alone = self.names.get(parts[0])
            if alone is None:
                return None
            column = alone[0].origins if len(alone) == 1 else single(alone, parts)
            # One of a relation of unknown columns is as likely.
            return None if self.open and is_guessed(column) else column
        for length in (3, 2, 1):
            if count <= length:
                continue
            qualifier = parts[:length]
            matching = [c for c in self.find_columns(parts[length]) if c.qualifier[-length:] == qualifier]
            if matching:
                return single(matching, parts)
            if any(unknown[-length:] == qualifier for unknown in self.open):
                return NO_ORIGINS
        found = self.find_columns(parts[0])
        return single(found, parts) if found else None

    def has_qualifier(self, parts: Parts) -> bool:
        """Whether a reference begins with the name of a relation that is here."""
        for length in range(1, min(len(parts), 4)):
            found = [*self.open, *(column.qualifier for column in self.find_columns(parts[length]))]
            if any(one[-length:] == parts[:length] for one in found):
                return True
        return False

    def resolve_anywhere(self, parts: Parts) -> tuple[Origins | None, bool]:
        """Return what a reference means here or in what this was made from, and whether it is from here."""
        found = self.find(parts)
        if found is not None:
            return found, True
        node = self.below
        while node is not None:
            found = node.find(parts)
            if found is not None:
                return found, False
            node = node.below
        return None, False

    def select(self, qualifier: Parts) -> tuple[list[PlanColumn], bool]:
        """Return the columns of `qualifier.*` and whether they are all that there are."""
        if not qualifier:
            return self.columns, self.complete
        length = len(qualifier)
        found = [c for c in self.columns if c.qualifier[-length:] == qualifier]
        unknown = any(q[-length:] == qualifier for q in self.open)
        if found or unknown:
            return found, self.complete and not unknown
        if (origins := self.find(qualifier)) is not None:
            # `s.*` over a struct column: its fields are not known, its values are shown.
            return [PlanColumn(None, (), origins)], False
        raise Unclear(f"`{'.'.join(qualifier)}.*` names no relation in scope")


def single(found: Sequence[PlanColumn], parts: Parts) -> Origins:
    found = [column for column in found if not is_guessed(column.origins)] or found
    first = found[0]
    if len(found) == 1:
        return first.origins
    if any(column.qualifier != first.qualifier for column in found):
        raise Unclear(f"`{'.'.join(parts)}` is in {len(found)} relations")
    return frozenset().union(*(column.origins for column in found))


def build_unknown_relation(qualifier: Parts = ()) -> Node:
    """Return a relation of which no column is known and none comes from a table."""
    return Node([], complete=False, open=(qualifier,))


@dataclass(slots=True)
class ColumnPlace:
    """Where an expression stands: the relation that it reads, what is named beside it, the query around."""

    node: Node
    outer: ColumnPlace | None = None
    written: dict[str, Origins] = field(default_factory=dict)
    """Names given earlier in the same projection, which a later column may use."""

    def resolve(self, parts: Parts) -> Origins:
        """Return the base columns that a reference reads unchanged; raise Unclear when that is not sure."""
        place: ColumnPlace | None = self
        perhaps_inner = False
        below: Origins | None = None
        while place is not None:
            found, here = place.node.resolve_anywhere(parts)
            if found is None:
                found, here = place.written.get(parts[0]), True
            if found is not None and here:
                if perhaps_inner:
                    raise Unclear(f"`{'.'.join(parts)}` may belong to a relation of unknown columns")
                if is_guessed(found) and not place._is_elsewhere(parts):
                    raise Unclear(f"`{'.'.join(parts)}` is not in any relation in scope")
                # Pulled up from below or from the query around: Spark's order is not relied on.
                return found if below is None else found | below
            if found is not None:
                below = found if below is None else below | found
            perhaps_inner = perhaps_inner or bool(place.node.open)
            place = place.outer
        if below is not None:
            return below
        if perhaps_inner or is_literal(parts):
            return NO_ORIGINS
        raise Unclear(f"`{'.'.join(parts)}` is not in any relation in scope")

    def looks_for(self, parts: Parts) -> str | None:
        """Return the name of the column that a reference looks for without saying of which relation."""
        place: ColumnPlace | None = self
        while place is not None and len(parts) > 1:
            node: Node | None = place.node
            while node is not None:
                if node.has_qualifier(parts):
                    return None
                node = node.below
            place = place.outer
        return parts[0]

    def _is_elsewhere(self, parts: Parts) -> bool:
        """Whether Spark would take something else for a name, had the relation no such column: not what is
        below it, which it looks at for few operations."""
        if parts[0] in self.written or is_literal(parts):
            return True
        outer = self.outer
        while outer is not None:
            found = outer.node.find(parts)
            if outer.node.open or (found is not None and not is_guessed(found)) or parts[0] in outer.written:
                return True
            outer = outer.outer
        return False

    def is_function(self, name: str) -> bool | None:
        """Whether a word that a function without brackets has too means that here; None: it is not certain.

        Spark looks for a column of the relation itself first, then for the function, and only then further
        down, in the query around, and among the columns that are being named.
        """
        node = self.node
        if node.find_columns(name):
            return False
        if not _is_known(node) or self.written.get(name) is not None:
            return None
        below, outer = node.below, self.outer
        while below is not None:
            if below.find_columns(name):
                return None
            below = below.below
        while outer is not None:
            if outer.node.find_columns(name) or not _is_known(outer.node):
                return None
            outer = outer.outer
        return True

    def environment(self) -> sql.ColumnEnvironment:
        """Return the same place for the column analysis of SQL text."""
        outer = None if self.outer is None else self.outer.environment()
        if self.node.below is not None:
            outer = sql.ColumnEnvironment(_frame(self.node.below), outer)
        return sql.ColumnEnvironment(_frame(self.node), outer, dict(self.written))


def _is_known(node: Node) -> bool:
    """Whether every column of a relation is known by its name."""
    return node.complete and not node.open and all(column.name is not None for column in node.columns)


def _frame(node: Node) -> sql.ColumnFrame:
    """Return a relation as the column analysis of SQL text sees what stands in a FROM clause."""
    by_qualifier: dict[Parts, list[OutputColumn]] = {qualifier: [] for qualifier in node.open}
    frame = sql.ColumnFrame(complete=node.complete)
    for column in node.columns:
        if column.name in LITERAL_FUNCTIONS and is_guessed(column.origins):
            continue
        output = OutputColumn(column.name, column.origins)
        by_qualifier.setdefault(column.qualifier, []).append(output)
        for table in column.tables or (None,):
            frame.star.append(sql.StarColumn(output, table))
    for qualifier, columns in by_qualifier.items():
        source = sql.ScopeSource(qualifier, columns, None, complete=qualifier not in node.open)
        frame.sources.append(source)
        frame.open = frame.open or source.open
    return frame


@dataclass(slots=True)
class ColumnUsage(sql.ColumnFindings):
    """What is found of a whole plan."""

    looked_at: int = 0
    asked: set[int] = field(default_factory=set)
    """Messages, by identity, of which it matters where they stand."""
    places: dict[int, list[ColumnPlace]] = field(default_factory=dict)
    """Where they were found to stand."""
    unclear: Unclear | None = None
    """Why column analysis has to be silent in the end, though it went on."""
    not_columns: set[str] = field(default_factory=set)
    """Names, lower case, that stand where only a column of the relation is meant, and it has none."""

    def note(self, message: object, *places: ColumnPlace) -> None:
        """Note where a message stands, if it matters."""
        if id(message) in self.asked:
            self.places.setdefault(id(message), []).extend(places)

    def count(self, columns: int) -> None:
        """Raise Unclear when more columns were looked at than is worth an advisor's time."""
        self.looked_at += columns
        if self.looked_at > MAX_COLUMNS:
            raise Unclear("the plan has too many columns for column analysis")

    def show(self, columns: Collection[PlanColumn]) -> None:
        """Note columns that are shown, by whatever name."""
        self.count(len(columns))
        for column in columns:
            self.used |= column.origins
            if column.tables:
                self.stars |= column.tables

    def note_meant(self, *nodes: Node) -> None:
        """Note that columns are meant by their places, or by a pattern: one more would change which."""
        for node in nodes:
            self.count(len(node.columns))
            self.stars.update(*(column.tables for column in node.columns))

    def use_all(self, node: Node) -> None:
        """Note an operation on all columns of a relation."""
        self.show(node.columns)
        self.compute(node.columns)


def show_column(column: PlanColumn) -> PlanColumn:
    """Return a column that somebody has named or shown."""
    return column._replace(tables=NO_TABLES) if column.tables else column
