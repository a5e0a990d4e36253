"""Asks Spark for the tables and columns that policies name, and what it says of their texts: `sluice check`.

Nothing is read of a table: Spark lists and describes, and analyses the texts of masks and filters over empty
relations of the same columns.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gateway.app.explaining import asking
from gateway.app.table_checks import (
    COLUMN_LEVEL,
    TABLE_LEVEL,
    ExistingName,
    FittingText,
    NameCheck,
    Readings,
    Tree,
    against_tables,
    checks_of,
    kind_of,
    matching,
    some,
)
from gateway.errors import BackendMismatch, BackendUnavailable, Faults
from gateway.model.catalog import Table, TableName, quote
from gateway.model.policy import FilterItem, MaskItem, PolicySet
from gateway.policy.column_types import column_type
from gateway.policy.transformers import hive_masking
from gateway.reader.pool import ReaderPool
from gateway.session.ports import BackendError, Catalog
from gateway.settings.models import Settings

MAX_DATABASES = 1_000
"""Databases whose tables are listed."""
MAX_TABLES = 1_000
"""Tables that are described."""
MAX_ANALYSED = 10
"""Tables and columns on which one text is analysed."""
_TRUTHS = frozenset({"boolean", "void"})
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]*)\] ([^\n]*)")
_BEHIND = re.compile(r" (?:SQLSTATE: \w{5}.*|Did you mean .*)")
_OF_THE_TEXT = ("07", "21", "22", "42", "0A")
"""Classes of SQLSTATEs of errors that are the text's own."""

Ask = Callable[[str], Awaitable[Sequence[Sequence[object]]]]
"""Runs one statement in a session of the gateway's own, and raises BackendError as Spark does."""


@dataclass(slots=True, kw_only=True)
class SparkCheck:
    """What Spark's answers tell of policies."""

    names: list[str] = field(default_factory=list)
    """Names that nothing has, and texts that do not fit, each with its place."""
    faults: list[str] = field(default_factory=list)
    """Texts that Spark refuses."""
    not_asked: list[str] = field(default_factory=list)
    """What Spark was not asked, and why."""


async def ask_spark(policies: PolicySet, settings: Settings, reader: ReaderPool) -> SparkCheck:
    """Hold policies against the Spark of the settings, as far as it can be reached."""
    told = SparkCheck()
    try:
        async with asking(settings, reader) as (queries, catalog):
            tables = SparkTables(catalog, settings.named_catalogs, more=bool(settings.metalakes))
            readings = Readings(reader)
            for check in checks_of(policies, tables.tree):
                await tables.fill(check)
            for check in checks_of(policies, tables.tree):
                await tables.fill_read(await check.relations(readings))
            told.not_asked += tables.not_asked()
            told.names += await against_tables(policies, tables.tree, reader)
            for check in checks_of(policies, tables.tree):
                for one in await check.fitting(readings, MAX_ANALYSED):
                    fault = await text_fault(one, queries.query)
                    if fault is not None:
                        told.faults.append(f"{one.place}: {check.who}: {fault}")
    except (BackendUnavailable, BackendMismatch, Faults) as error:
        why = error.message if isinstance(error, BackendUnavailable) else "it reads texts otherwise"
        told.not_asked.append(f"Spark was not asked for the tables and columns that policies name: {why}")
    return told


class SparkTables:
    """What Spark has of what policies name, asked for once."""

    def __init__(self, catalog: Catalog, catalogs: Iterable[str], *, more: bool = False) -> None:
        """`more`: there are catalogs that come and go, and are not asked."""
        names = {name.lower() for name in catalogs} | {"spark_catalog"}
        self.tree = Tree(known={(): names}, more_catalogs=more)
        self._catalog = catalog
        self._tried: set[tuple[str, ...]] = {()}
        self._databases = 0
        self._failed: list[str] = []
        self._passed_over = 0

    async def fill(self, check: NameCheck) -> None:
        """Ask for what a policy speaks of, as far down as it names or reads something."""
        for resources in check.sets:
            named = [i for i, level in enumerate(check.way) if level in resources]
            wanting = [i for i in named if any(value.strip("*") for value in resources[check.way[i]].values)]
            last = len(check.way) if check.has_texts else max(wanting, default=-1) + 1
            nodes = check.roots()
            for level in check.way[:last]:
                await self._ask_below(nodes)
                if level not in resources:
                    break
                nodes = matching(self.tree, nodes, resources[level])
        await self._ask_paths(check.together_paths())

    async def fill_read(self, relations: Iterable[TableName]) -> None:
        """Ask for tables that texts read."""
        await self._ask_paths((name.catalog, name.database, name.table) for name in relations)

    async def _ask_paths(self, paths: Iterable[tuple[str, ...]]) -> None:
        for path in paths:
            for depth in range(1, len(path) + 1):
                if depth == 1 or path[depth - 1] in self.tree.below(path[: depth - 1]):
                    await self._ask_below([ExistingName(path[:depth])])

    async def _ask_below(self, nodes: Sequence[ExistingName]) -> None:
        for node in nodes:
            if node.path in self._tried:
                continue
            self._tried.add(node.path)
            try:
                await self._ask(node.path)
            except BackendUnavailable as error:
                self._failed.append(f"{node} ({error.message})")

    async def _ask(self, path: tuple[str, ...]) -> None:
        if path[0] not in self.tree.below(()):
            return
        if len(path) == 1:
            names = await self._catalog.databases(path[0])
            self.tree.known[path] = {name.lower() for name in names}
        elif len(path) == TABLE_LEVEL:
            if self._databases >= MAX_DATABASES:
                self._passed_over += 1
                return
            self._databases += 1
            listed = await self._catalog.list_tables(*path)
            self.tree.known[path] = {name.lower() for name, _ in listed}
        elif len(path) == COLUMN_LEVEL:
            if len(self.tree.tables) >= MAX_TABLES:
                self._passed_over += 1
                return
            name = TableName(*path)
            table = (await self._catalog.look_up([name])).table(name)
            if table is not None:
                self.tree.add(table)

    def not_asked(self) -> list[str]:
        """Return what is not known, and why."""
        told = [f"Spark did not say what is in {one}" for one in self._failed]
        if self._passed_over:
            told.append(
                f"Spark was not asked for {self._passed_over} more databases and tables: policies speak of "
                f"more than {MAX_DATABASES} databases, or more than {MAX_TABLES} tables have to be described"
            )
        return told


async def text_fault(text: FittingText, ask: Ask) -> str | None:
    """Return what Spark says against a text on a table, None: nothing."""
    item, table = text.item, text.table
    expression = _expression(text)
    if expression is None:
        return None
    where = some([ExistingName((table.name.catalog, table.name.database, table.name.table))])
    try:
        rows = await ask(f"DESCRIBE QUERY SELECT {expression} AS `v` FROM {await _relation(table, ask)}")
    except BackendError as error:
        if not (error.sqlstate or "42").startswith(_OF_THE_TEXT):
            return None
        return f"Spark refuses this {kind_of(item)} for {where}: {in_short(error.message)}"
    type_ = str(rows[0][1]).lower() if rows else "boolean"
    if isinstance(item, FilterItem) and type_ not in _TRUTHS:
        return f"this filter is of type {type_} for {where}: it cannot say which rows are shown"
    return None


def _expression(text: FittingText) -> str | None:
    """Return the expression that a guard would have; None where the mask's type says what that is."""
    if isinstance(text.item, MaskItem):
        type_ = next((one.type for one in text.table.columns if one.name.lower() == text.column), "")
        sql = column_type(type_).sql
        if sql is None or hive_masking(text.item.text) is not None:
            return None
        return f"TRY_CAST((\n{text.text}\n) AS {sql})"
    return f"(\n{text.text}\n)"


async def _relation(table: Table, ask: Ask) -> str:
    """Return a relation without rows that has the table's columns; the table, where Spark takes none such."""
    columns = ", ".join(f"CAST(NULL AS {one.type}) AS {quote(one.name)}" for one in table.columns)
    empty = f"(SELECT {columns}) AS {quote(table.name.table)}"
    try:
        await ask(f"DESCRIBE QUERY SELECT * FROM {empty}")
    except BackendError:
        return f"{'.'.join(map(quote, table.name.parts))} AS {quote(table.name.table)}"
    return empty


def in_short(message: str) -> str:
    """Return the first sentence of an error of Spark's, without what names other things that there are."""
    found = _CONDITION.search(message)
    told = f"[{found[1]}] {found[2]}" if found is not None else message.partition("\n")[0]
    return _BEHIND.sub("", told)[:300]
