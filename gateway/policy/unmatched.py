"""Names of tables and columns in policies, and which of them nothing has.

A mask, a denial or a tag on a column that its table does not have hides nothing, and nobody notices: a
misspelt name opens the column that was meant. Tables, as they are described, tell which names those are.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway.model.catalog import Column, TableName, namespaces_of
from gateway.model.policy import (
    FileLine,
    Policy,
    PolicySet,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    Service,
    ServiceDef,
)
from gateway.policy.engine import DEFAULT_SERVICE
from gateway.policy.globs import NOT_LITERAL, has_wildcard
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.matching import NOBODY, LevelMatcher, comparison, fold

_TABLE, _COLUMN = "table", "column"
_ABOVE = ("catalog", "database")
_MAX_SHARED = 65_536
_Level = tuple[str, Callable[[str], str], LevelMatcher]
_Shape = tuple[tuple[ResourceDef, ...], ResourceDef | None]
"""The levels above the columns, from the root down, and that of the columns."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnValue:
    """One value of a policy at the level of columns."""

    text: str
    matcher: LevelMatcher

    def is_there(self, columns: Iterable[str]) -> bool:
        """Whether one of the names (as they are compared) is what the value means."""
        return any(self.matcher.matches(name, NOBODY) is not False for name in columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedResources:
    """The tables and columns that one resource set of a policy, or of tags, names."""

    owner: str
    """The policy that names the columns, for messages: ``policy `cards` ``."""
    key: tuple[str, str, int]
    """Identity under which a policy is counted once: service, kind and id."""
    place: FileLine | None
    levels: tuple[tuple[ResourceDef, ResourceValues], ...]
    """The levels above the columns, from the root down, and what is written there."""
    shared: _Shared
    """Where their matchers are, once somebody has asked."""
    tables: frozenset[str]
    """Names (folded) of tables that are written out, and not matched by a pattern."""
    patterns: bool
    """Whether a pattern says which tables are meant, too."""
    columns: tuple[ColumnValue, ...]
    """Named columns, without a wildcard for every column."""
    guards: bool
    """Whether what the names are for is open where they are wrong: masks, denials, tags, all but some."""

    def speaks_of(self, table: TableName) -> bool:
        """Whether the table, or a namespace with a table of this name that it lies below, is meant."""
        values = {
            "catalog": (table.catalog,),
            "database": namespaces_of(table.database),
            _TABLE: (table.table,),
        }
        return all(
            any(matcher.matches(compared(value), NOBODY) is not False for value in values[level])
            for level, compared, matcher in (self.shared.level(*one) for one in self.levels)
        )

    def find_missing(self, names: Sequence[str]) -> Iterator[ColumnValue]:
        """Yield the columns that are none of these names, of a table that it speaks of."""
        for value in self.columns:
            if not value.is_there(names):
                yield value


class ResourceNames:
    """All names in a set of policies, found by table. Immutable."""

    def __init__(self, policies: PolicySet, base: ResourceNames | None = None) -> None:
        """Collect the names; from `base`, those of older policies, comes what has not changed."""
        self._speaking = {fold(catalog): name for catalog, name in policies.catalog_services.items()}
        old = base.services if base is not None else {}
        self.services: dict[str, tuple[Service, ServiceNames]] = {}
        for name, service in policies.services.items():
            known = old.get(name)
            if known is None or known[0] is not service:
                known = service, ServiceNames(service, known[1] if known is not None else None)
            self.services[name] = known
        self._before: ResourceNames | None = None
        if policies.before is not None:
            older = base if base is None or base._before is None else base._before
            self._before = ResourceNames(policies.before, older)

    def of(self, table: TableName) -> tuple[ServiceNames, Sequence[NamedResources]] | None:
        """Return the names of the service that speaks for a table's catalog, and those in it that write the
        table's name out and are about it."""
        found = self.services.get(self._speaking.get(fold(table.catalog), DEFAULT_SERVICE))
        if found is None:
            return None
        written = found[1].by_table.get(fold(table.table), ())
        return found[1], [one for one in written if one.speaks_of(table)]

    def find_unmatched(
        self, table: TableName, columns: Sequence[Column]
    ) -> tuple[NamedResources, ColumnValue] | None:
        """Return a mask, a denial or a tag on a column that the table does not have, and the column; None:
        there is none. Only those count that write the table's name out."""
        found = self.of(table)
        if found is None:
            return None
        service, named = found
        names: Sequence[str] | None = None
        for one in named:
            if one.guards and one.columns:
                names = service.fold_columns(columns) if names is None else names
                for value in one.find_missing(names):
                    return one, value
        return None if self._before is None else self._before.find_unmatched(table, columns)


class ServiceNames:
    """The names in the policies and tags of one service."""

    def __init__(self, service: Service, base: ServiceNames | None = None) -> None:
        """Collect the names; from `base` comes what was made of policies that are the same objects."""
        self._definition = service.definition
        if base is not None and base._definition is not service.definition:
            base = None
        column = service.definition.resource(_COLUMN)
        self._compare = fold if column is None else comparison(column)
        self._shared: _Shared = _Shared() if base is None else base._shared
        before = {} if base is None else base._made
        self._made: dict[int, tuple[Policy, tuple[NamedResources, ...]]] = {}
        """Identity of a policy, which is kept alive by it → what it names."""
        self.by_table: dict[str, tuple[NamedResources, ...]] = {} if base is None else dict(base.by_table)
        came: list[NamedResources] = []
        for kind, policies in (("policy", service.policies), ("share", _obligations(service))):
            for policy in policies:
                known = before.get(id(policy))
                if known is None or known[0] is not policy:
                    known = policy, tuple(self._names_of(policy, service, kind))
                    came += known[1]
                self._made[id(policy)] = known
        gone = [one for key in before.keys() - self._made.keys() for one in before[key][1]]
        self._tags = tuple(self._names_of_tags(service))
        gone += () if base is None else base._tags
        self._exchange(gone, [*came, *self._tags])
        self.patterns = tuple(one for one in self.all() if one.patterns)

    def _exchange(self, gone: Iterable[NamedResources], came: Iterable[NamedResources]) -> None:
        out: dict[str, set[int]] = {}
        new: dict[str, list[NamedResources]] = {}
        for one in gone:
            for table in one.tables:
                out.setdefault(table, set()).add(id(one))
        for one in came:
            for table in one.tables:
                new.setdefault(table, []).append(one)
        for table in out.keys() | new.keys():
            kept = [one for one in self.by_table.get(table, ()) if id(one) not in out.get(table, ())]
            self.by_table[table] = (*kept, *new.get(table, ()))

    def all(self) -> Iterator[NamedResources]:
        """Yield everything that names something."""
        for _, made in self._made.values():
            yield from made
        yield from self._tags

    def fold_columns(self, columns: Iterable[Column]) -> tuple[str, ...]:
        """Return names of columns as they are compared."""
        return tuple([self._compare(column.name) for column in columns])

    def _names_of(self, policy: Policy, service: Service, kind: str) -> Iterator[NamedResources]:
        if not policy.enabled or policy.is_closing:
            return
        for resources in (policy.resources, *policy.additional_resources):
            shape = self._shared.shape(service.definition, policy.type, resources)
            if shape is None:
                continue
            owner = f"policy `{policy.name}`" if policy.name else f"policy {policy.id}"
            key = (service.name, kind, policy.id)
            guards = _guards(policy, resources)
            named = _list_named(resources, shape, owner, key, policy.place, self._shared, guards=guards)
            if named is not None:
                yield named

    def _names_of_tags(self, service: Service) -> Iterator[NamedResources]:
        for tagged in service.tagged:
            shape = self._shared.shape(service.definition, None, tagged.resources)
            if shape is None:
                continue
            owner = "tag " + ", ".join(f"`{tag.type}`" for tag in tagged.tags)
            key = (service.name, "tag", tagged.id)
            named = _list_named(tagged.resources, shape, owner, key, tagged.place, self._shared, guards=True)
            if named is not None:
                yield named


def _obligations(service: Service) -> tuple[Policy, ...]:
    return () if service.sharing is None else tuple(service.sharing.obligations())


class _Shared:
    """Matchers of equal values and the levels of equal shapes, which policies repeat; of one definition."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[PolicyType | None, frozenset[str]], _Shape | None] = {}
        self._levels: dict[tuple[ResourceDef, ResourceValues], _Level] = {}
        self._columns: dict[tuple[ResourceDef, str], ColumnValue] = {}

    def shape(self, definition: ServiceDef, kind: PolicyType | None, resources: ResourceSet) -> _Shape | None:
        """Return the levels that a resource set of policies of a type, or of tags, is of; None where these
        are not of a table or column."""
        key = kind, frozenset(resources)
        if key not in self._shapes:
            levels = definition.resources if kind is None else definition.levels(kind)
            self._shapes[key] = _find_shape(levels, key[1])
        return self._shapes[key]

    def level(self, level: ResourceDef, values: ResourceValues) -> _Level:
        found = self._levels.get((level, values))
        if found is None:
            if len(self._levels) >= _MAX_SHARED:
                self._levels.clear()
            found = level.name, comparison(level), LevelMatcher(level, values)
            self._levels[level, values] = found
        return found

    def column(self, level: ResourceDef, text: str) -> ColumnValue:
        found = self._columns.get((level, text))
        if found is None:
            if len(self._columns) >= _MAX_SHARED:
                self._columns.clear()
            found = ColumnValue(text, LevelMatcher(level, ResourceValues(values=(text,))))
            self._columns[level, text] = found
        return found


def _guards(policy: Policy, resources: ResourceSet) -> bool:
    columns = resources.get(_COLUMN)
    if policy.type is PolicyType.ACCESS:
        # RULE (unmatched-all-but)
        return bool(policy.deny or policy.deny_all_else or (columns is not None and columns.excludes))
    return policy.type is PolicyType.MASK


def _find_shape(definition: Sequence[ResourceDef], names: frozenset[str]) -> _Shape | None:
    if _TABLE not in names or not names <= {*_ABOVE, _TABLE, _COLUMN}:
        return None
    way = hierarchy_to(_COLUMN if _COLUMN in names else _TABLE, definition)
    if way is None or {level.name for level in way} != names:
        return None
    above = tuple([level for level in way if level.name != _COLUMN])
    return above, way[-1] if _COLUMN in names else None


def _list_named(
    resources: ResourceSet,
    shape: _Shape,
    owner: str,
    key: tuple[str, str, int],
    place: FileLine | None,
    shared: _Shared,
    *,
    guards: bool,
) -> NamedResources | None:
    """Return what a resource set names; None where that is no table and no column."""
    above, column = shape
    table = resources[_TABLE]
    written = frozenset() if table.excludes else frozenset([v for v in table.values if _is_literal(v)])
    columns = () if column is None else _columns(resources[_COLUMN], column, shared)
    if not written and not columns:
        return None
    return NamedResources(
        owner=owner,
        key=key,
        place=place,
        levels=tuple([(level, resources[level.name]) for level in above]),
        shared=shared,
        tables=frozenset([fold(value) for value in written]),
        patterns=len(written) < len(table.values),
        columns=columns,
        guards=guards,
    )


def _columns(values: ResourceValues, level: ResourceDef, shared: _Shared) -> tuple[ColumnValue, ...]:
    """Return the values that mean some columns; what depends on who asks is left out."""
    return tuple(
        [
            shared.column(level, text)
            for text in values.values
            if text.strip("*").strip() and NOT_LITERAL.search(text) is None
        ]
    )


def _is_literal(value: str) -> bool:
    return bool(value.strip()) and not has_wildcard(value) and NOT_LITERAL.search(value) is None


_kept: weakref.WeakKeyDictionary[PolicySet, ResourceNames] = weakref.WeakKeyDictionary()


def names_in(policies: PolicySet, base: PolicySet | None = None) -> ResourceNames:
    """Return the names in a PolicySet, collected once; from those of `base`, an older set, comes what has not
    changed."""
    found = _kept.get(policies)
    if found is None:
        found = _kept[policies] = ResourceNames(policies, _kept.get(base) if base is not None else None)
    return found
