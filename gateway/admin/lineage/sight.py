"""Of which columns of the lineage graph somebody may know, by the policies of this moment.

Of tables and views those that DESCRIBE would list for them; of files those in places that they may read;
results of queries and temporary views only where they are their own. What cannot be told is hidden.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.errors import BackendUnavailable
from gateway.lineage.graph import Edge, GraphColumn
from gateway.lineage.rows import OWN
from gateway.model.catalog import TableName
from gateway.model.context import AccessContext
from gateway.model.lineage import ANY_COLUMN, Dataset, DatasetKind
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import Engine
from gateway.session.ports import Catalog

MAX_OWNERS = 500
"""Tables whose owner one question has looked up in Spark."""
MAX_TEXTS = 20_000
"""Columns that are looked at before expressions are shown; where there are more, no expression is."""
_IN_ONE_GO = 100
"""Decisions between two looks at what else the event loop has to do: one takes some 20 µs."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _StoredDataset:
    """A dataset as the database has it."""

    kind: DatasetKind | None
    """None: of a kind that this gateway does not know."""
    parts: tuple[str, ...]
    user: str | None

    def table(self, name: str) -> TableName | None:
        """Return the table or view that a dataset of this name is; None when it is none, or not clearly."""
        if self.kind not in (DatasetKind.TABLE, DatasetKind.VIEW) or len(self.parts) != 3:
            return None
        return TableName(*self.parts) if str(Dataset(self.kind, self.parts)) == name else None

    def location(self, name: str) -> str | None:
        """Return the place that a dataset of this name is; None when it is none."""
        if self.kind is not DatasetKind.PATH or name != "path:" + "/".join(self.parts):
            return None
        return self.parts[0] if len(self.parts) == 1 else None


class Sight:
    """What one asker may see at one instant. Made for one question; caches its own answers."""

    def __init__(
        self,
        connection: Any,
        principal: Principal,
        engine: Engine,
        context: AccessContext,
        catalog: Catalog,
    ) -> None:
        self._connection = connection
        self._principal = principal
        self._engine = engine
        self._context = context
        self._catalog = catalog
        self._kept: dict[str, _StoredDataset] = {}
        self._tables: dict[str, _OwnedTable | None] = {}
        """By dataset; None: not a table or view."""
        self._columns: dict[GraphColumn, bool] = {}
        self._decided = 0
        self._owners_asked = 0

    async def knows(self, columns: Sequence[GraphColumn]) -> frozenset[GraphColumn]:
        """Return those of the columns of which the asker may know; a whole table (`*`) where SHOW TABLES
        would name it. Raises what asyncpg raises."""
        await self._look_at({column.dataset for column in columns})
        new = [column for column in dict.fromkeys(columns) if column not in self._columns]
        for column in new:
            self._columns[column] = await self._visible(column)
        return frozenset(column for column in columns if self._columns[column])

    async def filter_visible(self, edges: Sequence[Edge]) -> list[Edge]:
        """Return edges between columns of which the asker may know, without what tells more than that.

        An expression is in the words of whoever ran the statement, and may hold values. It is shown where
        the asker may know of every table of that statement and no filter lies on one, and where no column
        that its target was ever made of, or whose name is among its words, is hidden or masked. Ids of
        statements are shown to those who ran them.
        """
        statements = await self._statements(edges)
        feeding = await self._find_sources({edge.target for edge in edges})
        barred = None
        if feeding is not None:
            about = {name for statement in statements.values() for name in statement.datasets}
            about |= {one.dataset for sources in feeding.values() for one in sources}
            barred = await self._find_barred(about | {edge.target.dataset for edge in edges})
        answer = []
        for edge in edges:
            statement = statements.get(edge.last_statement) if edge.last_statement is not None else None
            own = statement is not None and statement.user == self._principal.user
            readable = (
                statement is not None
                and feeding is not None
                and barred is not None
                and all(_is_plain(one, barred) for one in (edge.target, *feeding.get(edge.target, ())))
                and _may_read(edge.expression or "", statement, barred)
            )
            answer.append(
                replace(
                    edge,
                    expression=edge.expression if readable else None,
                    last_statement=edge.last_statement if own else None,
                )
            )
        return answer

    # -- columns ---------------------------------------------------------------------------------------------

    async def _look_at(self, datasets: set[str]) -> None:
        """Fetch what the database has of datasets, and find out who owns tables where that matters."""
        new = sorted(datasets - self._kept.keys())
        if not new:
            return
        rows = await self._connection.fetch(
            "SELECT name, kind, parts, user_name FROM sluice.lineage_dataset WHERE name = ANY($1::text[])",
            new,
        )
        for row in rows:
            kind = DatasetKind(row["kind"]) if row["kind"] in _KINDS else None
            self._kept[row["name"]] = _StoredDataset(kind, tuple(row["parts"]), row["user_name"])
        for name in new:
            kept = self._kept.setdefault(name, _StoredDataset(None, (), None))
            table = kept.table(name)
            self._tables[name] = None if table is None else _OwnedTable(table)

    async def _visible(self, column: GraphColumn) -> bool:
        kept, table = self._kept[column.dataset], self._tables[column.dataset]
        if table is not None:
            if column.name == ANY_COLUMN:
                return await self._of_either(table, self._sees)
            return await self._of_either(table, lambda t: self._may(t.child("column", column.name), "select"))
        if kept.kind in OWN:
            return kept.user is not None and kept.user == self._principal.user
        location = kept.location(column.dataset)
        return location is not None and self._may(Resource.url(location), "read")

    async def _of_either(self, table: _OwnedTable, holds: Callable[[Resource], bool]) -> bool:
        """Whether something holds for a table, whose owner is asked for only where it matters."""
        await self._pace()
        if table.owner_known:
            return holds(table.resource)
        free, own = holds(table.resource), holds(replace(table.resource, owner=self._principal.user))
        if free == own:
            return free
        await self._ask_owner(table)
        return await self._ask_owner(table) and holds(table.resource)

    async def _ask_owner(self, table: _OwnedTable) -> bool:
        """Look up who owns a table; return whether that is known now."""
        self._owners_asked += 1
        if self._owners_asked > MAX_OWNERS:
            return False
        try:
            found = (await self._catalog.look_up([table.name])).table(table.name)
        except BackendUnavailable:
            return False
        table.resource = replace(table.resource, owner=None if found is None else found.owner)
        table.owner_known = True
        return True

    def _sees(self, table: Resource) -> bool:
        return self._engine.visible(self._principal, table, self._context)

    def _may(self, resource: Resource, access: str) -> bool:
        # Not from the engine's memory: what statements need there would be pushed out.
        request = AccessRequest(
            principal=self._principal, resource=resource, access=access, context=self._context
        )
        return self._engine.decide(request).allowed

    async def _pace(self) -> None:
        self._decided += 1
        if self._decided % _IN_ONE_GO == 0:
            await asyncio.sleep(0)

    # -- expressions -----------------------------------------------------------------------------------------

    async def _statements(self, edges: Sequence[Edge]) -> dict[Any, _AskedStatement]:
        ids = list({edge.last_statement for edge in edges if edge.last_statement is not None})
        rows = await self._connection.fetch(
            "SELECT s.id, s.user_name, s.datasets, array_agg(d.name) AS names FROM sluice.lineage_statement s"
            " JOIN sluice.lineage_dataset d ON d.id = ANY(s.datasets)"
            " WHERE s.id = ANY($1::uuid[]) GROUP BY s.id",
            ids,
        )
        return {
            row["id"]: _AskedStatement(row["user_name"], frozenset(row["names"]))
            for row in rows
            if len(row["names"]) == len(row["datasets"])
        }

    async def _find_sources(self, targets: set[GraphColumn]) -> dict[GraphColumn, list[GraphColumn]] | None:
        """Return all that columns have ever been made of; None when that is too much to look at."""
        in_order = sorted(targets)
        rows = await self._connection.fetch(
            _FEEDING, [t.dataset for t in in_order], [t.name for t in in_order], MAX_TEXTS + 1
        )
        if len(rows) > MAX_TEXTS:
            return None
        feeding: dict[GraphColumn, list[GraphColumn]] = {}
        for row in rows:
            source = GraphColumn(row["source_dataset"], row["source_name"])
            feeding.setdefault(GraphColumn(row["dataset"], row["name"]), []).append(source)
        return feeding

    async def _find_barred(self, datasets: Iterable[str]) -> dict[str, set[str]] | None:
        """Return for each dataset those columns whose values the asker is not shown as they are, `*` where
        that is so of its rows; None when that is too much to look at."""
        names = sorted(datasets)
        rows = await self._connection.fetch(
            "SELECT d.name AS dataset, c.name FROM sluice.lineage_dataset d"
            " JOIN sluice.lineage_column c ON c.dataset = d.id WHERE d.name = ANY($1::text[]) LIMIT $2",
            names,
            MAX_TEXTS + 1,
        )
        if len(rows) > MAX_TEXTS:
            return None
        columns = [GraphColumn(row["dataset"], row["name"]) for row in rows]
        columns += [GraphColumn(dataset, ANY_COLUMN) for dataset in names]
        known = await self.knows(columns)
        found: dict[str, set[str]] = {dataset: set() for dataset in names}
        for column in columns:
            if column not in known or await self._has_obligations(column):
                found[column.dataset].add(column.name)
        return found

    async def _has_obligations(self, column: GraphColumn) -> bool:
        """Whether a mask may lie on a column; of `*`, whether a filter may lie on the rows."""
        table = self._tables[column.dataset]
        if table is None:
            return False
        await self._pace()
        for resource in table.either(self._principal.user):
            if column.name == ANY_COLUMN:
                found: object = self._engine.row_filter(self._principal, resource, self._context)
            else:
                below = resource.child("column", column.name)
                found = self._engine.mask(self._principal, below, "string", self._context)
            if found is not None:
                return True
        return False


def _is_plain(column: GraphColumn, barred: Mapping[str, set[str]]) -> bool:
    """Whether the asker is shown the values of a column as they are, in every row."""
    names = barred[column.dataset]
    return not names if column.name == ANY_COLUMN else not names & {column.name, ANY_COLUMN}


def _may_read(text: str, statement: _AskedStatement, barred: Mapping[str, set[str]]) -> bool:
    """Whether an expression names nothing that is kept from the asker."""
    text = text.lower()
    words = set(_WORD.findall(text))
    for dataset in statement.datasets:
        names = barred[dataset]
        if ANY_COLUMN in names or any(name in (words if _WORD.fullmatch(name) else text) for name in names):
            return False
    return True


_KINDS = frozenset(kind.value for kind in DatasetKind)


@dataclass(frozen=True, slots=True)
class _AskedStatement:
    user: str
    datasets: frozenset[str]
    """All that it reads, writes or goes through; never empty."""


class _OwnedTable:
    """A table or view as a resource; who owns it may not be known."""

    def __init__(self, name: TableName) -> None:
        self.name = name
        self.resource = Resource.table(name.catalog, name.database, name.table)
        self.owner_known = False

    def either(self, user: str) -> tuple[Resource, ...]:
        """Return the table as it may be for a user: owned by him or by somebody else."""
        return (self.resource,) if self.owner_known else (self.resource, replace(self.resource, owner=user))


_FEEDING = """
SELECT t.dataset, t.name, sd.name AS source_dataset, sc.name AS source_name
FROM (
  SELECT DISTINCT f.dataset, f.name, e.source FROM unnest($1::text[], $2::text[]) AS f (dataset, name)
    JOIN sluice.lineage_dataset d ON d.name = f.dataset
    JOIN sluice.lineage_column c ON c.dataset = d.id AND c.name = f.name
    JOIN sluice.lineage_edge e ON e.target = c.id
  LIMIT $3
) t
JOIN sluice.lineage_column sc ON sc.id = t.source JOIN sluice.lineage_dataset sd ON sd.id = sc.dataset"""
