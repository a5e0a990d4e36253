"""What a column name means inside a query: sources, frames and environments, with Spark's precedence.

A name is looked for with its longest qualifier first, then as a column with struct fields behind it, then in
the query around. The statement is known to be one that Spark's parser accepts, not one that its analyser
does: a name that Spark would call ambiguous may get any answer, for Spark will not run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from gateway.model.catalog import TableName

Parts = tuple[str, ...]
"""Name parts, lower case."""
Origins = frozenset[tuple[TableName, str]]
"""The base columns whose values a column passes on unchanged; none for a computed column."""

NO_ORIGINS: Origins = frozenset()

GUESSED: Final = "?"
"""What the name of a column begins with that a table may have, for all that is told of it."""


def is_guessed(origins: Origins) -> bool:
    """Whether a name means a column that a table may have: no table is known to."""
    return any(column.startswith(GUESSED) for _, column in origins)


LITERAL_FUNCTIONS = frozenset(
    {
        "current_catalog",
        "current_database",
        "current_date",
        "current_path",
        "current_role",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_timezone",
        "current_user",
        "grouping__id",
        "localtime",
        "localtimestamp",
        "session_user",
        "user",
    }
)
"""Names that Spark takes for a function without brackets when no column has them."""


def is_literal(parts: Parts) -> bool:
    """Whether a name that no relation has is a function without brackets."""
    return len(parts) == 1 and parts[0] in LITERAL_FUNCTIONS


class Unclear(Exception):
    """Something cannot be attributed with certainty; column analysis then keeps silent."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Unfound(Unclear):
    """A name that no column has, be it of a relation around: Spark refuses the statement."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a result; the name is None where Spark makes one up."""

    name: str | None
    origins: Origins


class HasOrigins(Protocol):
    @property
    def origins(self) -> Origins: ...


@dataclass(slots=True)
class ColumnFindings:
    """What the columns of base tables are used for."""

    used: set[tuple[TableName, str]] = field(default_factory=set)
    named: set[tuple[TableName, str]] = field(default_factory=set)
    computed: set[tuple[TableName, str]] = field(default_factory=set)
    stars: set[TableName] = field(default_factory=set)
    """Tables all of whose columns are shown."""
    words: set[str] = field(default_factory=set)
    """Names that columns were looked for by, lower case; of a reference to a column's field, the column's."""

    def mark(self, origins: Origins, *, plain: bool) -> None:
        """Note columns that are named; those that are not only passed on count as computed with."""
        self.used |= origins
        self.named |= origins
        if not plain:
            self.computed |= origins

    def compute(self, columns: Iterable[HasOrigins]) -> None:
        """Note columns that are computed with, by whatever name."""
        for column in columns:
            self.computed |= column.origins


@dataclass(slots=True)
class ScopeSource:
    """One relation in a FROM clause: what its columns are called and where they come from."""

    qualifier: Parts
    columns: list[OutputColumn]
    table: TableName | None = None
    """Set when the relation is a table itself, so that a star over it shows all of the table."""
    complete: bool = True
    """Whether `columns` has every column at its position; False for functions and pivots."""
    names: dict[str, Origins] = field(init=False)
    open: bool = field(init=False)
    """Whether the relation may have columns under names that are not known."""

    def __post_init__(self) -> None:
        self.names = {}
        self.open = not self.complete
        for column in self.columns:
            if column.name is None:
                self.open = True
            else:
                self.names[column.name] = self.names.get(column.name, NO_ORIGINS) | column.origins

    def rename(self, alias: str, columns: Sequence[str]) -> ScopeSource:
        """Return the relation under an alias, with its columns renamed by position if names are given."""
        if not columns:
            return ScopeSource((alias,), self.columns, self.table, self.complete)
        if not self.complete:
            if any(column.origins for column in self.columns):
                raise Unclear(f"the columns of `{alias}` cannot be counted")
            return ScopeSource((alias,), [OutputColumn(name, NO_ORIGINS) for name in columns], self.table)
        if len(columns) != len(self.columns):
            raise Unclear(f"`{alias}` has {len(self.columns)} columns, not {len(columns)}")
        return ScopeSource(
            (alias,),
            [OutputColumn(name, old.origins) for name, old in zip(columns, self.columns, strict=True)],
            self.table,
        )


@dataclass(frozen=True, slots=True)
class Output:
    """The columns of a query's result; not `complete` when their number is not known."""

    columns: list[OutputColumn]
    complete: bool = True

    def source(self, qualifier: Parts = ()) -> ScopeSource:
        return ScopeSource(qualifier, self.columns, None, self.complete)

    def rename(self, name: str, columns: Sequence[str]) -> Output:
        """Return the output with its columns renamed by position if names are given."""
        return Output(self.source().rename(name, columns).columns) if columns else self


@dataclass(frozen=True, slots=True)
class StarColumn:
    """What one column of `*` is, and the table that it is shown of when it is a base column."""

    column: OutputColumn
    table: TableName | None


@dataclass(slots=True)
class ColumnFrame:
    """The relations that one FROM clause has brought into scope so far."""

    sources: list[ScopeSource] = field(default_factory=list)
    star: list[StarColumn] = field(default_factory=list)
    merged: dict[str, Origins] = field(default_factory=dict)
    """Columns of USING and NATURAL joins: one name for both sides."""
    complete: bool = True
    """Whether `star` is all that `*` means."""
    open: bool = False

    def add(self, source: ScopeSource) -> None:
        """Bring a relation into scope, as after a comma."""
        self.sources.append(source)
        self.star.extend(StarColumn(column, source.table) for column in source.columns)
        self.complete = self.complete and source.complete
        self.open = self.open or source.open

    def join(self, right: ColumnFrame, using: Sequence[str], *, left_only: bool) -> None:
        """Bring the right side of a join into scope, or only its key names after a semi or anti join."""
        merged = {name: self.column(name) | right.column(name) for name in using}
        if left_only:
            return
        keys = [StarColumn(OutputColumn(name, origins), None) for name, origins in merged.items()]
        rest = [c for side in (self, right) for c in side.star if c.column.name not in merged]
        self.star = keys + rest
        self.merged = {**self.merged, **right.merged, **merged}
        self.sources = self.sources + right.sources
        self.complete = self.complete and right.complete
        self.open = self.open or right.open

    def column(self, name: str) -> Origins:
        """Return the origins of a join key, which must be a known column."""
        found = self.find((name,))
        if found is None:
            kind = Unclear if self.open else Unfound
            raise kind(f"the join column `{name}` is not in any known relation")
        return found

    def find(self, parts: Parts) -> Origins | None:
        """Return what a reference means here, or None when no known column has the name."""
        for length in (3, 2, 1):
            if len(parts) <= length:
                continue
            qualifier, name = parts[:length], parts[length]
            known, unknown = [], False
            for source in self.sources:
                if source.qualifier[-length:] == qualifier:
                    if name in source.names:
                        known.append(source.names[name])
                    unknown = unknown or source.open
            if known or unknown:
                return _single(known, parts) if known else NO_ORIGINS
        if parts[0] in self.merged:
            return self.merged[parts[0]]
        found = [source.names[parts[0]] for source in self.sources if parts[0] in source.names]
        return _single(found, parts) if found else None

    def has_qualifier(self, parts: Parts) -> bool:
        """Whether a reference begins with the name of a relation that is here."""
        lengths = range(1, min(len(parts), 4))
        return any(one.qualifier[-n:] == parts[:n] for one in self.sources for n in lengths)

    def select(self, qualifier: Parts) -> tuple[list[StarColumn], bool]:
        """Return the columns of `qualifier.*` and whether they are all that there are."""
        if not qualifier:
            return self.star, self.complete
        found = [s for s in self.sources if s.qualifier[-len(qualifier) :] == qualifier]
        if len(found) == 1:
            tables = {id(shown.column): shown.table for shown in self.star}
            columns = found[0].columns
            return [StarColumn(c, tables.get(id(c), found[0].table)) for c in columns], found[0].complete
        if not found and (origins := self.find(qualifier)) is not None:
            # `s.*` over a struct column: its fields are not known, its values are shown.
            return [StarColumn(OutputColumn(None, origins), None)], False
        raise Unclear(f"`{'.'.join(qualifier)}.*` names {len(found)} relations in scope")


def _single(found: Sequence[Origins], parts: Parts) -> Origins:
    found = [one for one in found if not is_guessed(one)] or found[:1]  # RULE (known-column-before-guessed)
    if len(found) > 1:
        raise Unclear(f"`{'.'.join(parts)}` is in {len(found)} relations")
    return found[0]


@dataclass(slots=True)
class ColumnEnvironment:
    """Where an expression stands: the frame, the names of the select list, and the query around."""

    frame: ColumnFrame
    parent: ColumnEnvironment | None = None
    outputs: dict[str, Origins] = field(default_factory=dict)
    """Output names of the select list, as far as they are in scope."""
    prefer: Literal["columns", "outputs", "both"] = "columns"
    """What a name that is both means: the FROM clause's column (GROUP BY, the select list itself), the
    output column (ORDER BY), or perhaps either, so that it counts as both (HAVING, QUALIFY)."""

    def resolve(self, parts: Parts) -> Origins:
        """Return the base columns that a reference reads unchanged; raise Unclear when that is not sure."""
        place: ColumnEnvironment | None = self
        perhaps_inner = False
        while place is not None:
            found = place._find(parts)
            if found is not None:
                if perhaps_inner:
                    raise Unclear(f"`{'.'.join(parts)}` may belong to a relation of unknown columns")
                return found
            perhaps_inner = perhaps_inner or place.frame.open
            place = place.parent
        if perhaps_inner or is_literal(parts):
            return NO_ORIGINS
        # Other names than plain ones may be those that Spark makes up.
        kind = Unfound if len(parts) == 1 and parts[0].isidentifier() else Unclear
        raise kind(f"`{'.'.join(parts)}` is not in any relation in scope")

    def looks_for(self, parts: Parts) -> str | None:
        """Return the name of the column that a reference looks for without saying of which relation."""
        place: ColumnEnvironment | None = self
        while place is not None and len(parts) > 1:
            if place.frame.has_qualifier(parts):  # RULE (qualifier-before-column)
                return None
            place = place.parent
        return parts[0]

    def _find(self, parts: Parts) -> Origins | None:
        output = self.outputs.get(parts[0])
        if output is not None and self.prefer == "outputs" and len(parts) == 1:
            return output
        column = self.frame.find(parts)
        # RULE (alias-beside-unknown-columns)
        if column is not None and output is None and self.frame.open and is_guessed(column):
            return None  # one of a relation of unknown columns is as likely
        if output is None or column is None or self.prefer == "columns":
            return output if column is None else column
        return output if is_guessed(column) else output | column  # RULE (having-output-first)
