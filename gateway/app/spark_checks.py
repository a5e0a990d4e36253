"""Asks Spark for the tables and columns that policies name, and what it says of their texts: `sluice check`.

Nothing is read of a table: Spark lists and describes, and analyses the texts of masks and filters over empty
relations of the same columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gateway.app.explaining import asking
from gateway.app.text_analysis import text_fault
from gateway.errors import BackendMismatch, BackendUnavailable, Faults
from gateway.model.catalog import TableName
from gateway.model.policy import PolicySet
from gateway.pipeline.table_checks import (
    COLUMN_LEVEL,
    TABLE_LEVEL,
    ExistingName,
    NameCheck,
    Readings,
    Tree,
    against_tables,
    checks_of,
    find_matching_names,
    meaningless_masks,
)
from gateway.reader.pool import ReaderPool
from gateway.session.ports import Catalog
from gateway.settings.models import Settings

MAX_DATABASES = 1_000
"""Databases whose tables are listed."""
MAX_TABLES = 1_000
"""Tables that are described."""
MAX_ANALYSED = 10
"""Tables and columns on which one text is analysed."""


@dataclass(slots=True, kw_only=True)
class SparkCheck:
    """What Spark's answers tell of policies."""

    names: list[str] = field(default_factory=list)
    """Names that nothing has, and texts that do not fit, each with its place."""
    warnings: list[str] = field(default_factory=list)
    """Masks that mean nothing for the types of their columns."""
    faults: list[str] = field(default_factory=list)
    """Texts that Spark refuses."""
    not_asked: list[str] = field(default_factory=list)
    """What Spark was not asked, and why."""


async def ask_spark(
    policies: PolicySet, settings: Settings, reader: ReaderPool, *, texts: bool = True
) -> SparkCheck:
    """Hold policies against the Spark of the settings, as far as it can be reached; without `texts`, only
    what they name."""
    told = SparkCheck()
    try:
        async with asking(settings, reader) as (queries, catalog):
            tables = SparkTables(catalog, settings.named_catalogs, more=bool(settings.metalakes))
            readings = Readings(reader)
            for check in checks_of(policies, tables.tree):
                await tables.fill(check)
            for check in checks_of(policies, tables.tree) if texts else ():
                await tables.fill_read(await check.relations(readings))
            told.not_asked += tables.not_asked()
            told.names += await against_tables(policies, tables.tree, reader if texts else None)
            told.warnings += meaningless_masks(policies, tables.tree)
            for check in checks_of(policies, tables.tree) if texts else ():
                for one in await check.select_fitting_texts(readings, MAX_ANALYSED):
                    where = f"{one.place}: {check.who}"
                    try:
                        fault = await text_fault(one, queries.query)
                    except BackendUnavailable as error:
                        told.not_asked.append(f"{where}: not analyzed: {error.for_operators}")
                        continue
                    if fault is not None:
                        told.faults.append(f"{where}: {fault}")
    except (BackendUnavailable, BackendMismatch, Faults) as error:
        match error:
            case BackendMismatch():
                why = "it parses texts differently"
            case BackendUnavailable():
                why = error.for_operators
            case _:
                why = "; ".join(error.faults)
        told.not_asked.append(f"tables and columns of policies were not checked against Spark: {why}")
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
                nodes = find_matching_names(self.tree, nodes, resources[level])
        await self._ask_paths(check.together_paths())

    async def fill_read(self, relations: Iterable[TableName]) -> None:
        """Ask for tables that texts read."""
        await self._ask_paths((name.catalog, name.database, name.table) for name in relations)

    async def _ask_paths(self, paths: Iterable[tuple[str, ...]]) -> None:
        for path in paths:
            for depth in range(1, len(path) + 1):
                if depth == 1 or path[depth - 1] in self.tree.list_names_below(path[: depth - 1]):
                    await self._ask_below([ExistingName(path[:depth])])

    async def _ask_below(self, nodes: Sequence[ExistingName]) -> None:
        for node in nodes:
            if node.path in self._tried:
                continue
            self._tried.add(node.path)
            try:
                await self._ask(node.path)
            except BackendUnavailable as error:
                self._failed.append(f"{node} ({error.for_operators})")

    async def _ask(self, path: tuple[str, ...]) -> None:
        if path[0] not in self.tree.list_names_below(()):
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
        told = [f"Spark did not return the schema of {one}" for one in self._failed]
        if self._passed_over:
            told.append(
                f"{self._passed_over} more databases and tables were not checked against Spark: policies "
                f"name more than {MAX_DATABASES} databases, or more than {MAX_TABLES} tables"
            )
        return told
