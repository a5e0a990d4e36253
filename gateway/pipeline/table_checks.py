"""Holds policies against the tables that there are: names that nothing has, and texts over unknown columns.

Such a policy loads: tables come and go. These are warnings, for the author who misspelt one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gateway.model.catalog import CatalogSnapshot, Table, TableName, quote
from gateway.model.policy import (
    Condition,
    FileLine,
    FilterItem,
    MaskItem,
    Policy,
    PolicySet,
    PolicyType,
    ResourceSet,
    ResourceValues,
    Service,
)
from gateway.model.reading import Reading, RelationRole
from gateway.policy.column_types import is_collated
from gateway.policy.diagnostics import hint
from gateway.policy.masks import mask_expression, null_of
from gateway.policy.matching import NOBODY, LevelMatcher
from gateway.policy.resource_names import main_way
from gateway.policy.sqltext import sample
from gateway.policy.transformers import STANDARD
from gateway.reader.port import ReaderPort
from gateway.sql.policy_text import fits

MAX_NAMED = 3
"""Tables that one warning names."""
COLUMN_LEVEL = 3
TABLE_LEVEL = 2
_ALWAYS_THERE = "default"
"""A database that every catalog of Spark's own has, with tables or without."""
_EVERY = ResourceValues(values=("*",))
_NOUNS = ("catalog", "database", "table", "column")
_TOGETHER = "accessedtogether"
"""What evaluators of conditions have in their names whose values are columns."""


@dataclass(frozen=True, slots=True)
class ExistingName:
    """A catalog, database, table or column that exists, with the folded names down to it."""

    path: tuple[str, ...]
    literal: bool = True
    """Whether the policy spells out every name down to it."""

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(slots=True)
class Tree:
    """All that exists, by what it lies in."""

    tables: dict[TableName, Table] = field(default_factory=dict)
    known: dict[tuple[str, ...], set[str]] = field(default_factory=dict)
    """What lies in what; of a path that is not here nothing is known."""
    more_catalogs: bool = False
    """Whether there may be catalogs that are not known."""

    @classmethod
    def of(cls, snapshot: CatalogSnapshot) -> Tree:
        """Return the tree of a catalog that is complete."""
        tree = cls(known={(): set(snapshot.catalogs)} | {(name,): set() for name in snapshot.catalogs})
        for table in snapshot.tables.values():
            tree.add(table)
        return tree

    def add(self, table: Table) -> None:
        """Add a table with its columns."""
        name = table.name.fold()
        path = (name.catalog, name.database, name.table)
        for i, part in enumerate(path):
            self.known.setdefault(path[:i], set()).add(part)
        self.known[path] = {column.name.lower() for column in table.columns}
        self.tables[name] = table

    def list_names_below(self, path: tuple[str, ...]) -> set[str]:
        """Return the names in what has this path."""
        return self.known.get(path, set())


def find_matching_names(
    tree: Tree, nodes: Iterable[ExistingName], values: ResourceValues
) -> list[ExistingName]:
    """Return what lies in the nodes and is among a policy's values."""
    patterns = [(_pattern(value), is_name(value)) for value in values.values]
    found = []
    for node in nodes:
        for name in sorted(tree.list_names_below(node.path)):
            hits = [literal for pattern, literal in patterns if pattern.fullmatch(name)]
            if bool(hits) != values.excludes:
                literal = node.literal and not values.excludes and any(hits)
                found.append(ExistingName((*node.path, name), literal))
    return found


async def against_tables(policies: PolicySet, tree: Tree, reader: ReaderPort | None = None) -> list[str]:
    """Return a warning, with its place, for each name and each text in the policies that fits no table.

    Without a reader the texts of filters and masks are not looked at.
    """
    readings = Readings(reader) if reader is not None else None
    found: list[str] = []
    for check in checks_of(policies, tree):
        found += check.names()
        if readings is not None:
            found += await check.misfits(readings)
    return list(dict.fromkeys(found))


def meaningless_masks(policies: PolicySet, tree: Tree) -> list[str]:
    """Return a warning for each mask type that means nothing for the type of a column which policies name."""
    return [told for check in checks_of(policies, tree) for told in check.meaningless()]


def checks_of(policies: PolicySet, tree: Tree) -> Iterator[NameCheck]:
    """Yield what holds each policy, and each entry of tags, against the tables."""
    for service in policies.services.values():
        way = [level.name for level in main_way(service.definition)]
        if not way or way[-1] != _NOUNS[-1] or len(way) not in (3, 4):
            continue
        catalogs = [c.lower() for c, name in policies.catalog_services.items() if name == service.name]
        catalogs = catalogs or ["spark_catalog"]
        for policy in service.policies:
            if policy.enabled and not policy.is_closing:
                sets = (policy.resources, *policy.additional_resources)
                who = f"policy `{policy.name}`"
                together = tuple(_together(policy, service))
                yield NameCheck(who, policy.place, sets, way, catalogs, tree, policy, together)
        for tagged in service.tagged:
            if tagged.place is not None:
                who = "tags " + ", ".join(f"`{tag.type}`" for tag in tagged.tags)
                yield NameCheck(who, tagged.place, (tagged.resources,), way, catalogs, tree)
        for policy in service.tags.policies if service.tags is not None else ():
            if policy.enabled and policy.type is not PolicyType.ACCESS:
                sets = tuple(_list_tagged_sets(policy, service, way))
                who = f"policy `{policy.name}`"
                yield NameCheck(who, policy.place, sets, way, catalogs, tree, policy, on_tags=True)


def _list_tagged_sets(policy: Policy, service: Service, way: Sequence[str]) -> Iterator[ResourceSet]:
    """Yield what carries a tag that a policy is on, down to the tables or columns that it holds for."""
    if service.tags is None:
        return
    level = service.tags.definition.resources[0]
    sets = (policy.resources, *policy.additional_resources)
    matchers = [LevelMatcher(level, values) for one in sets if (values := one.get(level.name)) is not None]
    last = way[:-1] if policy.type is PolicyType.ROW_FILTER else way
    for tagged in service.tagged:
        named = any(m.matches(tag.type, NOBODY) is not False for tag in tagged.tags for m in matchers)
        if named and tagged.resources.keys() <= set(last):
            yield {name: tagged.resources.get(name, _EVERY) for name in last}


def _together(policy: Policy, service: Service) -> Iterator[tuple[FileLine | None, str]]:
    """Yield the columns that conditions of a policy name, each with its place."""
    named = {one.name for one in service.definition.conditions if _TOGETHER in one.evaluator.lower()}

    def values(conditions: Iterable[Condition]) -> Iterator[str]:
        return (value for one in conditions if one.type in named for value in one.values)

    yield from ((policy.place, value) for value in values(policy.conditions))
    for item in policy.items:
        yield from ((item.place or policy.place, value) for value in values(item.conditions))


class Readings:
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


@dataclass(frozen=True, slots=True)
class FittingText:
    """A text of a policy on a table whose columns it names."""

    place: FileLine | None
    item: MaskItem | FilterItem
    table: Table
    column: str
    """The column that a mask is on."""
    text: str
    """The text with plausible values bound."""


class NameCheck:
    """What one policy or entry of tags names, held against the tables."""

    def __init__(
        self,
        who: str,
        place: FileLine | None,
        sets: Iterable[ResourceSet],
        way: Sequence[str],
        catalogs: Sequence[str],
        tree: Tree,
        policy: Policy | None = None,
        together: Sequence[tuple[FileLine | None, str]] = (),
        *,
        on_tags: bool = False,
    ) -> None:
        """`together`: columns that conditions name, as `database.table.column`; `on_tags`: the names in
        `sets` are those of what carries tags, which are told of there."""
        self.who = who
        self.place = place
        self.way = way
        self.sets = [found for found in sets if found and found.keys() <= set(way)]
        self.together = [
            (where, (parts[-2], parts[-1], ".".join(parts[:-2])))
            for where, value in together
            if len(parts := value.strip().lower().split(".")) > TABLE_LEVEL and is_name(value)
        ]
        """Columns that conditions name: where, and table, column and database."""
        self._catalogs = catalogs
        self._tree = tree
        self._on_tags = on_tags
        self.items: list[MaskItem | FilterItem] = []
        """Its masks and filters."""
        if policy is not None and policy.type is not PolicyType.ACCESS:
            self.items = [*policy.masks, *policy.filters]

    @property
    def has_texts(self) -> bool:
        return any(_text_of(item).strip() for item in self.items)

    def names(self) -> Iterator[str]:
        """Yield a warning for each name that nothing has."""
        for resources in () if self._on_tags else self.sets:
            yield from self._names(resources)
        for place, (table, column, database) in self.together:
            paths = [(catalog, database, table) for catalog in self._catalogs]
            if all(path in self._tree.known or self._absent(path) for path in paths) and not any(
                column in self._tree.list_names_below(path) for path in paths
            ):
                yield f"{place}: {self.who}: column `{database}.{table}.{column}` does not exist"

    def meaningless(self) -> Iterator[str]:
        """Yield a warning for each mask type that has no meaning for the type of a column which is named."""
        named = {
            value.lower()
            for resources in self.sets
            if self.way[-1] in resources and not resources[self.way[-1]].excludes
            for value in resources[self.way[-1]].values
            if is_name(value)
        }
        for item in self.items:
            if not isinstance(item, MaskItem) or item.mask_type not in STANDARD:
                continue
            found = [
                (f"{table.name}.{column.name}", column.type)
                for table, columns in self.list_tables()
                for column in table.columns
                if column.name.lower() in named.intersection(columns)
                and mask_expression(item.mask_type, column.name, column.type) == null_of(column.name)
            ]
            for name, type_ in found[:MAX_NAMED]:
                place = item.place or self.place
                told = (
                    f"mask type `{item.mask_type}` is not defined for {name} of type {type_}: it shows NULL"
                )
                yield f"{place}: {self.who}: {told}"
            yield from self._unequal_hashes(item, named)

    def _unequal_hashes(self, item: MaskItem, named: set[str]) -> Iterator[str]:
        """Yield a warning for each column whose hashes do not say which of its texts are equal."""
        if STANDARD[item.mask_type].function != "mask_hash":
            return
        found = [
            (f"{table.name}.{column.name}", column.type)
            for table, columns in self.list_tables()
            for column in table.columns
            if column.name.lower() in named.intersection(columns) and is_collated(column.type)
        ]
        for name, type_ in found[:MAX_NAMED]:
            told = (
                f"`{item.mask_type}` of {name} of type {type_}: strings that are equal under its collation "
                "get different hashes, so joins and GROUP BY on it give other results"
            )
            yield f"{item.place or self.place}: {self.who}: {told}"

    def _absent(self, path: tuple[str, ...]) -> bool:
        """Whether it is known that there is no such table."""
        return any(
            path[:depth] in self._tree.known and path[depth] not in self._tree.list_names_below(path[:depth])
            for depth in (1, 2)
        )

    def _names(self, resources: ResourceSet) -> Iterator[str]:
        nodes = self.roots()
        for level in self.way:
            if level not in resources:
                return
            noun = _NOUNS[len(nodes[0].path)] if nodes else level
            for value in resources[level].values:
                if is_name(value):
                    yield from self._explain_missing(noun, value, nodes)
            nodes = find_matching_names(self._tree, nodes, resources[level])
            if not nodes:
                return

    def _explain_missing(self, noun: str, value: str, nodes: Sequence[ExistingName]) -> Iterator[str]:
        folded = value.lower()
        known = [node for node in nodes if node.path in self._tree.known]
        without = [node for node in known if folded not in self._tree.list_names_below(node.path)]
        told = without if len(without) == len(nodes) else [node for node in without if node.literal]
        if not told or (not told[0].path and self._tree.more_catalogs):
            return
        if noun == "database" and folded == _ALWAYS_THERE:
            return
        near = hint(value, set[str]().union(*(self._tree.list_names_below(node.path) for node in told)))
        where = f" in {join_first_names(told)}" if told[0].path else ""
        yield f"{self.place}: {self.who}: there is no {noun} `{value}`{where}{near}"

    def roots(self) -> list[ExistingName]:
        """Return what the first level lies in."""
        if len(self.way) == len(_NOUNS):
            return [ExistingName(())]
        return [ExistingName((catalog,), len(self._catalogs) == 1) for catalog in self._catalogs]

    def together_paths(self) -> Iterator[tuple[str, ...]]:
        """Yield the tables whose columns conditions name, in every catalog."""
        for _, (table, _, database) in self.together:
            yield from ((catalog, database, table) for catalog in self._catalogs)

    def list_tables(self) -> list[tuple[Table, list[str]]]:
        """Return the tables that the policy speaks of, each with the columns that it speaks of."""
        found: dict[TableName, list[str]] = {}
        for resources in self.sets:
            nodes = self.roots()
            for level in self.way:
                if level not in resources:
                    break
                nodes = find_matching_names(self._tree, nodes, resources[level])
            for node in nodes:
                name = TableName(*node.path[:COLUMN_LEVEL]) if len(node.path) > TABLE_LEVEL else None
                if name is not None and name in self._tree.tables:
                    found.setdefault(name, []).extend(node.path[COLUMN_LEVEL:])
        return [(self._tree.tables[name], columns) for name, columns in found.items()]

    async def misfits(self, readings: Readings) -> list[str]:
        """Return a warning for each filter or custom mask that some table has not the columns for."""
        tables = self.list_tables() if self.has_texts else []
        found = []
        for item in self.items:
            unfit: list[ExistingName] = []
            unknown: dict[str, None] = {}
            columns = set[str]()
            for table, named in tables if _text_of(item).strip() else ():
                written = _bind_values(item, table, named[0] if named else "")
                reading = await readings.of(written)
                if reading is None:
                    break
                if not self._fits(written, reading, table):
                    name = table.name.fold()
                    unfit.append(ExistingName((name.catalog, name.database, name.table)))
                    own = {each.name.lower() for each in table.columns}
                    columns |= own
                    names = (ref.parts[-1] for ref in reading.columns if ref.parts and not ref.star)
                    unknown |= dict.fromkeys(name for name in names if name.lower() not in own)
            if unfit:
                found.append(self._unfit(item, unfit, list(unknown), columns))
        return found

    async def select_fitting_texts(self, readings: Readings, most: int) -> list[FittingText]:
        """Return the texts of the policy on tables that have what they name: of each text `most` at most."""
        found = []
        for item in self.items:
            if not _text_of(item).strip():
                continue
            here: list[FittingText] = []
            for table, named in self.list_tables():
                for column in named or [""]:
                    written = _bind_values(item, table, column)
                    reading = await readings.of(written) if len(here) < most else None
                    if reading is not None and self._fits(written, reading, table):
                        here.append(FittingText(item.place or self.place, item, table, column, written))
            found += here
        return found

    async def relations(self, readings: Readings) -> list[TableName]:
        """Return the tables that the policy's texts read."""
        found: list[TableName] = []
        for item in self.items:
            text = _text_of(item)
            reading = await readings.of(sample(text)) if text.strip() else None
            found += [
                TableName.of(one.parts).fold()
                for one in (reading.relations if reading is not None else ())
                if one.role is not RelationRole.CTE and len(one.parts) >= COLUMN_LEVEL
            ]
        return found

    def _fits(self, written: str, reading: Reading, table: Table) -> bool:
        read = [self._read(one.parts) for one in reading.relations if one.role is not RelationRole.CTE]
        return fits(written, reading, table, read)

    def _unfit(
        self,
        item: MaskItem | FilterItem,
        unfit: Sequence[ExistingName],
        unknown: Sequence[str],
        columns: set[str],
    ) -> str:
        place = item.place or self.place
        named = " or ".join(
            f"`{name}`{'' if name.lower() in columns else hint(name, columns)}"
            for name in unknown[:MAX_NAMED]
        )
        why = f"there is no column {named}" if named else "it refers to something that does not exist"
        return (
            f"{place}: {self.who}: this {kind_of(item)} does not match the columns of "
            f"{join_first_names(unfit)}: {why}"
        )

    def _read(self, parts: Sequence[str]) -> Table | None:
        if len(parts) < COLUMN_LEVEL or any("." in part for part in parts):
            return None
        return self._tree.tables.get(TableName.of(parts).fold())


def kind_of(item: MaskItem | FilterItem) -> str:
    return "mask" if isinstance(item, MaskItem) else "filter"


def _text_of(item: MaskItem | FilterItem) -> str:
    return item.text if isinstance(item, MaskItem) else item.filter_expression


def _bind_values(item: MaskItem | FilterItem, table: Table, column: str) -> str:
    """Return a text as it would be on a column, with plausible values bound."""
    type_ = next((one.type for one in table.columns if one.name.lower() == column), "STRING")
    text = _text_of(item).replace("{col}", quote(column))
    return sample(text.replace("{colType}", type_).replace("{type}", type_))


def is_name(value: str) -> bool:
    """Whether a policy's value is a name, and no pattern or token."""
    return not any(mark in value for mark in "*?{\\")


def _pattern(value: str) -> re.Pattern[str]:
    """Return what a value matches; a token may stand for anything."""
    plain = re.sub(r"\$?\{.*?\}+", "*", value.lower())
    return re.compile(
        "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in plain), re.DOTALL
    )


def join_first_names(nodes: Sequence[ExistingName]) -> str:
    """Return the names of nodes, of the first few."""
    named = ", ".join(str(node) for node in nodes[:MAX_NAMED])
    more = len(nodes) - MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named
