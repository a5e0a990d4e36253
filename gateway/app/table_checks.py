"""Holds policies against the tables that there are: names that nothing has, and texts over unknown columns.

Such a policy loads: tables come and go. These are warnings, for the author who misspelt one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway.model.catalog import CatalogSnapshot, Table, TableName, quote
from gateway.model.policy import (
    FilterItem,
    MaskItem,
    Policy,
    PolicySet,
    PolicyType,
    ResourceSet,
    ResourceValues,
)
from gateway.model.reading import Reading, RelationRole
from gateway.policy.diagnostics import hint
from gateway.policy.resource_names import main_way
from gateway.policy.sqltext import sample
from gateway.reader.port import ReaderPort
from gateway.sql.policy_text import fits

MOST_NAMED = 3
"""Tables that one warning names."""
_COLUMN_LEVEL = 3
_TABLE_LEVEL = 2
_ALWAYS_THERE = "default"
"""A database that every catalog of Spark's own has, with tables or without."""
_NOUNS = ("catalog", "database", "table", "column")


@dataclass(frozen=True, slots=True)
class _Node:
    """A catalog, database, table or column that exists, with the folded names down to it."""

    path: tuple[str, ...]
    literal: bool = True
    """Whether the policy spells out every name down to it."""

    def __str__(self) -> str:
        return ".".join(self.path)


class _Tree:
    """All that exists, by what it lies in."""

    def __init__(self, snapshot: CatalogSnapshot) -> None:
        self.tables = dict(snapshot.tables)
        self._below: dict[tuple[str, ...], set[str]] = {(): set(snapshot.catalogs)}
        for name, table in snapshot.tables.items():
            path = (name.catalog, name.database, name.table)
            for i, part in enumerate(path):
                self._below.setdefault(path[:i], set()).add(part)
            self._below[path] = {column.name.lower() for column in table.columns}

    def below(self, path: tuple[str, ...]) -> set[str]:
        return self._below.get(path, set())


async def against_tables(
    policies: PolicySet, snapshot: CatalogSnapshot, reader: ReaderPort | None = None
) -> list[str]:
    """Return a warning, with its place, for each name and each text in the policies that fits no table.

    Without a reader the texts of filters and masks are not looked at.
    """
    tree = _Tree(snapshot)
    readings = _Readings(reader) if reader is not None else None
    found: list[str] = []
    for service in policies.services.values():
        way = [level.name for level in main_way(service.definition)]
        if not way or way[-1] != _NOUNS[-1] or len(way) not in (3, 4):
            continue
        catalogs = [c for c, name in policies.catalog_services.items() if name == service.name]
        for policy in service.policies:
            if not policy.enabled:
                continue
            check = _PolicyCheck(policy, way, catalogs or ["spark_catalog"], tree)
            found += check.names()
            if readings is not None and policy.type is not PolicyType.ACCESS:
                found += await check.texts(readings)
    return list(dict.fromkeys(found))


class _Readings:
    """What Spark's parser says of texts, each asked once."""

    def __init__(self, reader: ReaderPort) -> None:
        self._reader = reader
        self._known: dict[str, Reading | None] = {}

    async def of(self, text: str) -> Reading | None:
        """Return the reading; None for a text that is no expression, which is told elsewhere."""
        if text not in self._known:
            answer = await self._reader.read_expression(text)
            self._known[text] = answer if isinstance(answer, Reading) else None
        return self._known[text]


class _PolicyCheck:
    """One policy, held against the tables."""

    def __init__(self, policy: Policy, way: Sequence[str], catalogs: Sequence[str], tree: _Tree) -> None:
        self._policy = policy
        self._way = way
        self._catalogs = [catalog.lower() for catalog in catalogs]
        self._tree = tree
        self._sets = [found for found in (policy.resources, *policy.additional_resources) if found]

    def names(self) -> Iterator[str]:
        """Yield a warning for each name that nothing has."""
        for resources in self._sets:
            if resources.keys() <= set(self._way):
                yield from self._names(resources)

    def _names(self, resources: ResourceSet) -> Iterator[str]:
        nodes = self._roots()
        for level in self._way:
            if level not in resources:
                return
            noun = _NOUNS[len(nodes[0].path)] if nodes else level
            for value in resources[level].values:
                if _is_name(value):
                    yield from self._missing(noun, value, nodes)
            nodes = self._matching(nodes, resources[level])
            if not nodes:
                return

    def _missing(self, noun: str, value: str, nodes: Sequence[_Node]) -> Iterator[str]:
        folded = value.lower()
        without = [node for node in nodes if folded not in self._tree.below(node.path)]
        told = without if len(without) == len(nodes) else [node for node in without if node.literal]
        if not told:
            return
        if noun == "database" and folded == _ALWAYS_THERE:
            return
        near = hint(value, set[str]().union(*(self._tree.below(node.path) for node in told)))
        where = f" in {_some(told)}" if told[0].path else ""
        yield f"{self._policy.place}: policy `{self._policy.name}`: there is no {noun} `{value}`{where}{near}"

    def _roots(self) -> list[_Node]:
        if len(self._way) == len(_NOUNS):
            return [_Node(())]
        return [_Node((catalog,), len(self._catalogs) == 1) for catalog in self._catalogs]

    def _matching(self, nodes: Iterable[_Node], values: ResourceValues) -> list[_Node]:
        patterns = [(_pattern(value), _is_name(value)) for value in values.values]
        found = []
        for node in nodes:
            for name in sorted(self._tree.below(node.path)):
                hits = [literal for pattern, literal in patterns if pattern.fullmatch(name)]
                if bool(hits) != values.excludes:
                    literal = node.literal and not values.excludes and any(hits)
                    found.append(_Node((*node.path, name), literal))
        return found

    def _tables(self) -> list[tuple[Table, str]]:
        """Return the tables that the policy speaks of, each with the first column that it speaks of."""
        found: dict[tuple[str, ...], str] = {}
        for resources in self._sets:
            nodes = self._roots()
            for level in self._way:
                if level not in resources:
                    break
                nodes = self._matching(nodes, resources[level])
            for node in nodes:
                if len(node.path) > _TABLE_LEVEL:
                    column = node.path[_COLUMN_LEVEL] if len(node.path) > _COLUMN_LEVEL else ""
                    found.setdefault(node.path[:_COLUMN_LEVEL], column)
        return [
            (self._tree.tables[TableName(path[0], path[1], path[2])], column)
            for path, column in found.items()
        ]

    async def texts(self, readings: _Readings) -> list[str]:
        """Return a warning for each filter or custom mask that some table has not the columns for."""
        tables = self._tables()
        found = []
        items: list[MaskItem | FilterItem] = [*self._policy.masks, *self._policy.filters]
        for item in items:
            text = _text_of(item)
            if not text.strip():
                continue
            unfit: list[_Node] = []
            unknown: dict[str, None] = {}
            columns = set[str]()
            for table, column in tables:
                written = sample(text.replace("{col}", quote(column)))
                reading = await readings.of(written)
                if reading is None:
                    break
                read = [
                    self._read(relation.parts) for relation in reading.relations if _is_table(relation.role)
                ]
                if not fits(written, reading, table, read):
                    unfit.append(_Node((table.name.catalog, table.name.database, table.name.table)))
                    own = {each.name.lower() for each in table.columns}
                    columns |= own
                    names = (ref.parts[-1] for ref in reading.columns if ref.parts and not ref.star)
                    unknown |= dict.fromkeys(name for name in names if name.lower() not in own)
            if unfit:
                found.append(self._unfit(item, unfit, list(unknown), columns))
        return found

    def _unfit(
        self, item: MaskItem | FilterItem, unfit: Sequence[_Node], unknown: Sequence[str], columns: set[str]
    ) -> str:
        what = "mask" if isinstance(item, MaskItem) else "filter"
        place = item.place or self._policy.place
        named = " or ".join(
            f"`{name}`{'' if name.lower() in columns else hint(name, columns)}"
            for name in unknown[:MOST_NAMED]
        )
        why = f"there is no column {named}" if named else "it names something that is not there"
        return f"{place}: policy `{self._policy.name}`: this {what} does not fit {_some(unfit)}: {why}"

    def _read(self, parts: Sequence[str]) -> Table | None:
        if len(parts) < _COLUMN_LEVEL or any("." in part for part in parts):
            return None
        return self._tree.tables.get(TableName.of(parts).folded())


def _is_table(role: RelationRole) -> bool:
    return role is not RelationRole.CTE


def _text_of(item: MaskItem | FilterItem) -> str:
    return item.text if isinstance(item, MaskItem) else item.filter_expression


def _is_name(value: str) -> bool:
    return not any(mark in value for mark in "*?{\\")


def _pattern(value: str) -> re.Pattern[str]:
    """Return what a value matches; a token may stand for anything."""
    plain = re.sub(r"\$?\{.*?\}+", "*", value.lower())
    return re.compile(
        "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in plain), re.DOTALL
    )


def _some(nodes: Sequence[_Node]) -> str:
    named = ", ".join(str(node) for node in nodes[:MOST_NAMED])
    more = len(nodes) - MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named
