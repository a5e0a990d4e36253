"""How far something goes along the graph with the values of columns: tags, and what policies protect.

A walk over ids, level by level, of unmasked flows that the rules let pass. What arrives at a column is kept
for each column that it came from, by the best of the ways between them.

INVARIANT (what may have landed counts): a statement that failed, was canceled or was never seen to end may
have written all the same, as the first of two inserts does when the second fails. Its flows are followed,
too, and somebody has to look.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from gateway.lineage.graph import GraphColumn
from gateway.model.lineage import DatasetKind
from gateway.model.tags import Propagation, PropagationRules

MAX_FLOWS = 2_000_000
"""Edges of one walk."""
MAX_SOURCES = 20
_PAGE = 10_000
"""Columns of one question to the database."""


class PropagationNode(NamedTuple):
    """A column of the graph."""

    id: int
    dataset: str
    kind: str
    parts: tuple[str, ...]
    """Names of the dataset, from the catalog down."""
    name: str

    @property
    def column(self) -> GraphColumn:
        return GraphColumn(self.dataset, self.name)

    @property
    def is_in_table(self) -> bool:
        """Whether policies can speak of it by catalog, database, table and column."""
        return self.kind == DatasetKind.TABLE.value and len(self.parts) == 3


class Flow(NamedTuple):
    """An edge by which values flow."""

    source: int
    target: int
    kind: str
    aggregates: tuple[str, ...]
    finished: bool
    """Whether any statement that has it really finished."""
    statement: UUID
    """The last one that has it."""


class Arrival(NamedTuple):
    """That something of one column arrives at another, and by which last step."""

    how: Propagation
    identical: bool
    """Whether the value is the source's own on all of the way."""
    before: int
    """Where the last step begins; the column itself for a start."""
    by: Flow | None


@dataclass(slots=True)
class Spread:
    """Where everything arrived."""

    arrivals: dict[int, dict[str, dict[int, Arrival]]] = field(default_factory=dict)
    """Column → tag → column that it came from."""
    flows: int = 0
    cut_off: str = ""
    """Why there may be more; empty when this is all."""
    most_sources: int = MAX_SOURCES
    """Columns that one column is told to have something from, for each tag; those that are nearest."""
    crowded: bool = False
    """Whether some column has something from more of them."""

    def trace(self, target: int, tag: str, source: int) -> list[Flow]:
        """Return the steps from a source to where it arrived, in their order."""
        steps: list[Flow] = []
        at = target
        while (arrival := self.arrivals[at][tag][source]).by is not None:
            steps.append(arrival.by)
            at = arrival.before
        return steps[::-1]

    def take(self, target: int, tag: str, source: int, arrival: Arrival) -> bool:
        """Note an arrival; return whether it is new, or better than what was known."""
        sources = self.arrivals.setdefault(target, {}).setdefault(tag, {})
        known = sources.get(source)
        if known is None:
            if len(sources) >= self.most_sources:
                self.crowded = True
                return False
        elif known[:2] >= arrival[:2]:
            return False
        sources[source] = arrival
        return True


async def spread_tags(
    connection: Any,
    starts: Mapping[int, Collection[str]],
    rules: PropagationRules,
    *,
    stops: Collection[tuple[int, str]] = frozenset(),
    most_flows: int = MAX_FLOWS,
    most_sources: int = MAX_SOURCES,
) -> Spread:
    """Follow the tags of columns (id → tags) as far as the rules let them go.

    What arrives at one of `stops` does not leave it. Raises what asyncpg raises.
    """
    found = Spread(most_sources=most_sources)
    for column in sorted(starts):
        for tag in sorted(starts[column]):
            found.take(
                column, tag, column, Arrival(Propagation.CARRY, identical=True, before=column, by=None)
            )
    kinds = sorted(rules.carrying)
    known: dict[int, list[Flow]] = {}
    frontier = list(found.arrivals)
    while frontier and not found.cut_off:
        async for page in _flows(connection, [column for column in frontier if column not in known], kinds):
            for column, flow in page:
                known.setdefault(column, []).append(flow)
            found.flows += len(page)
            if found.flows > most_flows:
                found.cut_off = f"more than {most_flows:,} outgoing edges"
                break
        reached: dict[int, None] = {}
        for column in frontier:
            known.setdefault(column, [])
            for flow in known[column]:
                if flow.target != column and _pass_on(found, column, flow, rules, stops):
                    reached[flow.target] = None
        frontier = list(reached)
    return found


def _pass_on(
    found: Spread, column: int, flow: Flow, rules: PropagationRules, stops: Collection[tuple[int, str]]
) -> bool:
    better = False
    for tag, sources in found.arrivals[column].items():
        follows = rules.follows(tag, flow.kind, flow.aggregates)
        if not follows or (column, tag) in stops:
            continue
        if not flow.finished:
            follows = Propagation.ASK
        for source, arrival in list(sources.items()):
            if source == flow.target:
                continue
            identical = arrival.identical and flow.kind == "IDENTITY"
            onward = Arrival(min(arrival.how, follows), identical, column, flow)
            better |= found.take(flow.target, tag, source, onward)
    return better


_FLOWS = """
WITH here AS (SELECT c.id, c.dataset, c.name FROM sluice.lineage_column c WHERE c.id = ANY($1::bigint[])),
near AS (
    SELECT h.id AS at, h.id AS leaves FROM here h
    UNION ALL
    SELECT h.id, o.id FROM here h JOIN sluice.lineage_column o ON o.dataset = h.dataset AND o.name = '*'
    WHERE h.name <> '*'
    UNION ALL
    SELECT h.id, o.id FROM here h JOIN sluice.lineage_column o ON o.dataset = h.dataset AND o.name <> '*'
    WHERE h.name = '*'
)
SELECT n.at, e.target, e.subtype, e.aggregates, e.finished, e.last_statement
FROM near n JOIN sluice.lineage_edge e ON e.source = n.leaves
WHERE NOT e.masking AND e.subtype = ANY($2::text[])
ORDER BY n.at, e.target, e.subtype"""


async def _flows(
    connection: Any, columns: Sequence[int], kinds: Sequence[str]
) -> AsyncIterator[list[tuple[int, Flow]]]:
    """Yield the flows that leave columns, those of their whole dataset too, in pages."""
    for some in _pages(columns):
        rows = await connection.fetch(_FLOWS, some, kinds)
        yield [
            (
                row["at"],
                Flow(
                    row["at"],
                    row["target"],
                    row["subtype"],
                    tuple(row["aggregates"]),
                    row["finished"],
                    row["last_statement"],
                ),
            )
            for row in rows
        ]


_NODES = """
SELECT c.id, c.name, d.name AS dataset, d.kind, d.parts
FROM sluice.lineage_column c JOIN sluice.lineage_dataset d ON d.id = c.dataset"""


async def nodes(connection: Any, ids: Iterable[int]) -> dict[int, PropagationNode]:
    """Return columns by id."""
    found: dict[int, PropagationNode] = {}
    for some in _pages(sorted(ids)):
        rows = await connection.fetch(f"{_NODES} WHERE c.id = ANY($1::bigint[])", some)
        found.update((node.id, node) for node in _as_nodes(rows))
    return found


async def find_ids(connection: Any, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the ids of columns by (dataset, column), of those that are in the graph."""
    rows = await connection.fetch(
        "SELECT c.id, d.name AS dataset, c.name FROM unnest($1::text[], $2::text[]) AS n (dataset, name)"
        " JOIN sluice.lineage_dataset d ON d.name = n.dataset"
        " JOIN sluice.lineage_column c ON c.dataset = d.id AND c.name = n.name",
        [dataset for dataset, _ in names],
        [name for _, name in names],
    )
    return {(row["dataset"], row["name"]): row["id"] for row in rows}


async def sources(connection: Any, kinds: Collection[str]) -> AsyncIterator[list[PropagationNode]]:
    """Yield the columns of tables whose values flow on by edges of some kinds, in pages."""
    last = 0
    while True:
        rows = await connection.fetch(
            f"{_NODES} WHERE c.id > $1 AND d.kind = 'table' AND cardinality(d.parts) = 3"
            " AND EXISTS (SELECT FROM sluice.lineage_edge e WHERE e.source = c.id"
            " AND NOT e.masking AND e.subtype = ANY($2::text[])) ORDER BY c.id LIMIT $3",
            last,
            sorted(kinds),
            _PAGE,
        )
        if not rows:
            return
        last = rows[-1]["id"]
        yield list(_as_nodes(rows))


async def list_columns_of(connection: Any, tables: Iterable[PropagationNode]) -> list[PropagationNode]:
    """Return the columns that the graph has of tables, given by their `*`."""
    found: list[PropagationNode] = []
    for some in _pages(sorted(node.id for node in tables)):
        rows = await connection.fetch(
            f"{_NODES} WHERE c.name <> '*' AND c.dataset IN"
            " (SELECT dataset FROM sluice.lineage_column WHERE id = ANY($1::bigint[])) ORDER BY c.id",
            some,
        )
        found += _as_nodes(rows)
    return found


def _as_nodes(rows: Iterable[Mapping[str, Any]]) -> Iterator[PropagationNode]:
    for row in rows:
        yield PropagationNode(row["id"], row["dataset"], row["kind"], tuple(row["parts"]), row["name"])


def _pages(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[i : i + _PAGE] for i in range(0, len(ids), _PAGE))
