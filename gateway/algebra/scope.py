"""What names can mean at one place of a query: the columns there are, and the answers that a name has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Generic, NamedTuple, TypeVar

from gateway.algebra.nodes import Join, Star, declare_value

V = TypeVar("V")
"""What a domain knows of a column or an expression."""


class RelationColumn(NamedTuple, Generic[V]):
    """A column of a relation."""

    name: str
    """Lower case; empty where Spark makes one up."""
    value: V
    qualifiers: frozenset[tuple[str, ...]] = frozenset()
    bare: bool = True
    """Whether its name finds it without a qualifier: of two that USING makes one only that one."""
    guessed: bool = False
    """Whether the name is one that Spark may have given it: what else has that name may be meant."""


@declare_value
class RelationColumns(Generic[V]):
    """The columns of a relation."""

    columns: tuple[RelationColumn[V], ...] = ()
    open: bool = False
    """Whether there may be others, by names that are not known."""
    unlisted: frozenset[tuple[str, ...]] = frozenset()
    """The names of relations that have such others."""
    uncounted: bool = False
    """Whether there may be more than these, so that places say nothing."""
    rows: object = field(default=None, compare=False)
    """What a domain knows of the rows that they are in."""

    _by_name: dict[str, RelationColumn[V]] | None = field(default=None, init=False, repr=False, compare=False)
    """One of each name, once somebody has asked for one."""
    _alike: dict[str, list[RelationColumn[V]]] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """All of each name that several have; None: there is none."""

    def find_columns(self, parts: Sequence[str]) -> Sequence[RelationColumn[V]]:
        """Return the columns that a reference can mean."""
        name = parts[-1].lower()
        one = (self._by_name or self._index_columns()).get(name)
        if one is None:
            return ()
        named: Sequence[RelationColumn[V]] = (one,)
        if self._alike is not None:
            named = self._alike.get(name, named)
        if len(parts) == 1:
            return named if one.bare and len(named) == 1 else [one for one in named if one.bare]
        qualifier = tuple([part.lower() for part in parts[:-1]])
        return [one for one in named if qualifier in one.qualifiers]

    def _index_columns(self) -> dict[str, RelationColumn[V]]:
        by_name = {one.name: one for one in self.columns}
        object.__setattr__(self, "_by_name", by_name)
        if len(by_name) < len(self.columns):
            counts = Counter([one.name for one in self.columns])
            alike: dict[str, list[RelationColumn[V]]] = {}
            for one in self.columns:
                if counts[one.name] > 1:
                    alike.setdefault(one.name, []).append(one)
            object.__setattr__(self, "_alike", alike)
        return by_name

    def beside(self, other: RelationColumns[V]) -> RelationColumns[V]:
        columns = (*self.columns, *other.columns)
        uncounted = self.uncounted or other.uncounted
        return RelationColumns(columns, self.open or other.open, self.unlisted | other.unlisted, uncounted)

    def with_name(self, qualifiers: frozenset[tuple[str, ...]]) -> RelationColumns[V]:
        """Return what a relation shows under another name."""
        # RULE (alias-shows-plain-names)
        shown = [
            RelationColumn(one.name, one.value, qualifiers, guessed=one.guessed)
            for one in self.columns
            if one.bare
        ]
        unlisted = qualifiers if self.open else frozenset[tuple[str, ...]]()
        return RelationColumns(tuple(shown), self.open, unlisted, self.uncounted, self.rows)


@declare_value
class FoundName(Generic[V]):
    """A name means this column, or nothing."""

    attribute: RelationColumn[V]
    depth: int
    """How many queries further out it stands."""
    open: bool
    """Whether another column may have the name as well; Spark then refuses the query."""


@declare_value
class AmbiguousName(Generic[V]):
    """Several columns have the name; Spark takes none, unless a plan says which."""

    attributes: tuple[RelationColumn[V], ...]
    depth: int
    open: bool


@declare_value
class FoundField(Generic[V]):
    """A reference means a field of one of these columns, or nothing."""

    attributes: tuple[RelationColumn[V], ...]
    depth: int
    open: bool
    fields: tuple[str, ...] = ()
    """The field, and those of it, as they are written."""


@declare_value
class UnknownName:
    """No column has the name: it is a word such as `user`, or nothing."""


@declare_value
class OpenName(Generic[V]):
    """A column may have the name whose name is not known."""

    otherwise: tuple[RelationColumn[V], ...] = ()
    """What the reference means where that one has another name."""
    fields: tuple[str, ...] = ()
    """The field of it that is meant then, and those of that one."""


NameAnswer = FoundName[V] | AmbiguousName[V] | FoundField[V] | UnknownName | OpenName[V]


def list_meant(answer: NameAnswer[V]) -> tuple[tuple[RelationColumn[V], ...], tuple[str, ...]]:
    """Return the listed columns that a reference may mean, none for a word, and the field of them that it
    means, as it is written."""
    match answer:
        case FoundName():
            return (answer.attribute,), ()
        case AmbiguousName():
            return answer.attributes, ()
        case FoundField():
            return answer.attributes, answer.fields
        case OpenName():
            return answer.otherwise, answer.fields
    return (), ()


@declare_value
class NameScope(Generic[V]):
    """What names can mean at one place of a query."""

    ctes: Mapping[str, RelationColumns[V]] = field(default_factory=dict)
    """Common table expressions by name, lower case."""
    levels: tuple[tuple[RelationColumns[V], ...], ...] = ()
    """The queries around, the innermost first; of each, what comes first, and what comes then."""

    def over(self, *tiers: RelationColumns[V]) -> NameScope[V]:
        """Return the scope of what stands above these columns."""
        return NameScope(self.ctes, (tiers, *self.levels))

    def bind_variables(self, variables: RelationColumns[V]) -> NameScope[V]:
        """Return the scope of the body of a lambda function."""
        here, *around = self.levels or ((),)
        return NameScope(self.ctes, ((variables, *here), *around))

    def resolve(self, parts: Sequence[str]) -> NameAnswer[V]:
        if len(parts) == 1 and self.levels and self.levels[0]:  # nearly all are of what comes first
            first = self.levels[0][0]
            name = parts[0].lower()
            one = (first._by_name or first._index_columns()).get(name)
            if one is not None and one.bare and (first._alike is None or name not in first._alike):
                return FoundName(one, 0, first.open)
        perhaps = False
        fields: tuple[str, ...] = ()
        for depth, tiers in enumerate(self.levels):
            for tier in tiers:
                if len(parts) == 1:  # as nearly all are
                    found = tier.find_columns(parts)
                else:
                    found, fields = _find_longest(parts, tier)
                if perhaps and found:
                    return OpenName(tuple(found), fields)
                if fields and found:
                    return FoundField(tuple(found), depth, tier.open, fields)
                if len(found) == 1:  # RULE (ambiguous-name)
                    return FoundName(found[0], depth, tier.open)
                if found:
                    return AmbiguousName(tuple(found), depth, tier.open)
                if fields:
                    return OpenName()
                perhaps = perhaps or tier.open  # RULE (open-name)
        return OpenName() if perhaps else UnknownName()

    def has_qualifier(self, parts: Sequence[str]) -> bool:
        """Whether a reference begins with the name of a relation."""
        starts = {tuple(part.lower() for part in parts[:length]) for length in range(1, len(parts))}
        tiers = [tier for level in self.levels for tier in level]
        return any(
            not starts.isdisjoint(tier.unlisted)
            or any(not starts.isdisjoint(one.qualifiers) for one in tier.columns)
            for tier in tiers
        )


def _find_longest(
    parts: Sequence[str], tier: RelationColumns[V]
) -> tuple[Sequence[RelationColumn[V]], tuple[str, ...]]:
    """Return the columns that a reference can mean by its longest qualifier, and what are fields then; with
    fields alone it is of a relation whose columns are not known."""
    for length in range(len(parts), 0, -1):
        found = tier.find_columns(parts[:length])
        if found:
            return found, tuple(parts[length:])
        if length > 1 and tuple(part.lower() for part in parts[: length - 1]) in tier.unlisted:
            return [], tuple(parts[length - 1 :])
    return [], ()


def scope_of(columns: RelationColumns[V]) -> NameScope[V]:
    """Return the scope of what stands above these columns alone."""
    return NameScope({}, ((columns,),))


def star_columns(star: Star, below: RelationColumns[V]) -> list[RelationColumn[V]]:
    """Return the columns that a star shows, of those that are known."""
    qualifier = tuple([part.lower() for part in star.qualifier])
    pattern = None if star.pattern is None else re.compile(star.pattern, re.IGNORECASE)
    return [
        one
        for one in below.columns
        if (qualifier in one.qualifiers if qualifier else one.bare)
        and not any(is_named(one, excluded) for excluded in star.excluded)
        and (pattern is None or pattern.fullmatch(one.name))
    ]


def is_named(column: RelationColumn[V], parts: Sequence[str]) -> bool:
    """Whether a reference means a column, its name alone or with that of its relation."""
    return column.name == parts[-1] and (len(parts) == 1 or tuple(parts[:-1]) in column.qualifiers)


def list_join_names(join: Join, left: RelationColumns[V], right: RelationColumns[V]) -> Sequence[str]:
    """Return the names of the columns of which a join makes one, as far as the columns are known: those of
    USING, or with NATURAL the plain names that both sides have, in the left one's order."""
    if not join.natural:
        return join.using
    plain = {one.name for one in right.columns if one.bare}
    return [one.name for one in left.columns if one.bare and one.name in plain]


def of_groups(shown: RelationColumns[V], below: RelationColumns[V]) -> RelationColumns[V]:
    """Return what names in HAVING find: what a select list shows, then what that is made of."""
    names = {one.name for one in shown.columns}
    kept = [one for one in below.columns if one.name not in names]
    return RelationColumns((*shown.columns, *kept), shown.open or below.open)
