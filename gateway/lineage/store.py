"""The lineage graph in PostgreSQL: statements are brought in batches, each counts once.

A batch is one transaction. Gateways that bring batches at once wait for each other at the edges that both
have, in one order (by name), so that none waits in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from gateway.lineage.rows import EdgeRow, Seen, columns_of, datasets_of, edges_of, storable

_NEW_STATEMENTS = """
INSERT INTO sluice.lineage_statement (id, time, user_name, operation, outcome, table_level)
SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[])
ON CONFLICT DO NOTHING RETURNING id"""

_DATASETS = """
INSERT INTO sluice.lineage_dataset AS d (name, kind, parts, first_seen, last_seen)
SELECT name, kind, string_to_array(parts, chr(31)), first, last
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[])
  AS n (name, kind, parts, first, last) ORDER BY name
ON CONFLICT (name) DO UPDATE SET
  kind = CASE WHEN excluded.last_seen >= d.last_seen THEN excluded.kind ELSE d.kind END,
  first_seen = least(d.first_seen, excluded.first_seen),
  last_seen = greatest(d.last_seen, excluded.last_seen)"""

_COLUMNS = """
INSERT INTO sluice.lineage_column (dataset, name)
SELECT d.id, n.name FROM unnest($1::text[], $2::text[]) AS n (dataset, name)
JOIN sluice.lineage_dataset d ON d.name = n.dataset
ORDER BY n.dataset, n.name
ON CONFLICT DO NOTHING"""

_EDGES = """
INSERT INTO sluice.lineage_edge AS e (source, target, subtype, masking, expression, statements, finished,
  first_seen, last_seen, last_statement, aggregates)
SELECT sc.id, tc.id, n.subtype, n.masking, n.expression, n.statements, n.finished,
  n.first, n.last, n.statement, string_to_array(n.aggregates, ' ')
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[],
  $8::bigint[], $9::boolean[], $10::timestamptz[], $11::timestamptz[], $12::uuid[], $13::text[])
  AS n (sd, sn, td, tn, subtype, masking, expression, statements, finished, first, last, statement,
    aggregates)
JOIN sluice.lineage_dataset sd ON sd.name = n.sd
JOIN sluice.lineage_column sc ON sc.dataset = sd.id AND sc.name = n.sn
JOIN sluice.lineage_dataset td ON td.name = n.td
JOIN sluice.lineage_column tc ON tc.dataset = td.id AND tc.name = n.tn
ORDER BY n.td, n.tn, n.sd, n.sn, n.subtype, n.masking
ON CONFLICT (target, source, subtype, masking) DO UPDATE SET
  statements = e.statements + excluded.statements,
  finished = e.finished OR excluded.finished,
  aggregates = CASE WHEN e.aggregates @> excluded.aggregates THEN e.aggregates
    ELSE (SELECT array_agg(DISTINCT a) FROM unnest(e.aggregates || excluded.aggregates) a) END,
  changed_in = CASE WHEN excluded.finished AND NOT (e.finished AND e.aggregates @> excluded.aggregates)
    THEN pg_current_xact_id() ELSE e.changed_in END,
  first_seen = least(e.first_seen, excluded.first_seen),
  expression = CASE WHEN excluded.last_seen >= e.last_seen THEN excluded.expression ELSE e.expression END,
  last_statement = CASE WHEN excluded.last_seen >= e.last_seen
    THEN excluded.last_statement ELSE e.last_statement END,
  last_seen = greatest(e.last_seen, excluded.last_seen)"""


@dataclass(slots=True)
class _Edge:
    """One edge of a batch, of all statements that have it."""

    row: EdgeRow
    statements: int
    finished: bool
    first: datetime
    last: datetime
    statement: UUID
    aggregates: set[str]
    """Of the finished ones."""

    def also(self, row: EdgeRow, seen: Seen) -> None:
        self.statements += 1
        self.finished |= seen.finished
        if seen.finished:
            self.aggregates.add(row.aggregate)
        self.first = min(self.first, seen.time)
        if seen.time >= self.last:
            self.row, self.last, self.statement = row, seen.time, seen.statement_id


async def bring(connection: Any, batch: Sequence[Seen]) -> int:
    """Put the lineage of statements into the graph, in one transaction; return how many were new to it.

    A statement that is there already changes nothing, so a batch may be sent again after any failure. Raises
    what asyncpg raises.
    """
    async with connection.transaction():
        new = await connection.fetch(
            _NEW_STATEMENTS,
            [seen.statement_id for seen in batch],
            [seen.time for seen in batch],
            [storable(seen.user) for seen in batch],
            [seen.lineage.operation.value for seen in batch],
            [seen.outcome for seen in batch],
            [storable(seen.lineage.table_level) for seen in batch],
        )
        ids = {row["id"] for row in new}
        fresh = {seen.statement_id: seen for seen in reversed(batch) if seen.statement_id in ids}
        if fresh:
            await _bring_graph(connection, list(fresh.values()))
    return len(ids)


async def _bring_graph(connection: Any, batch: Sequence[Seen]) -> None:
    datasets: dict[str, list[Any]] = {}
    columns: set[tuple[str, str]] = set()
    edges: dict[object, _Edge] = {}
    for seen in sorted(batch, key=lambda one: one.time):
        for name, dataset in datasets_of(seen).items():
            row = datasets.setdefault(name, [dataset, seen.time, seen.time])
            row[0], row[2] = dataset, seen.time
        columns |= columns_of(seen)
        for edge in edges_of(seen):
            known = edges.get(edge.key)
            if known is None:
                edges[edge.key] = _Edge(
                    edge,
                    1,
                    seen.finished,
                    seen.time,
                    seen.time,
                    seen.statement_id,
                    {edge.aggregate} if seen.finished else set(),
                )
            else:
                known.also(edge, seen)
    await connection.execute(
        _DATASETS,
        list(datasets),
        [dataset.kind.value for dataset, _, _ in datasets.values()],
        [storable(chr(31).join(dataset.parts)) for dataset, _, _ in datasets.values()],
        [first for _, first, _ in datasets.values()],
        [last for _, _, last in datasets.values()],
    )
    in_order = sorted(columns)
    await connection.execute(_COLUMNS, [dataset for dataset, _ in in_order], [name for _, name in in_order])
    rows = list(edges.values())
    await connection.execute(
        _EDGES,
        [edge.row.source[0] for edge in rows],
        [edge.row.source[1] for edge in rows],
        [edge.row.target[0] for edge in rows],
        [edge.row.target[1] for edge in rows],
        [edge.row.subtype for edge in rows],
        [edge.row.masking for edge in rows],
        [edge.row.expression for edge in rows],
        [edge.statements for edge in rows],
        [edge.finished for edge in rows],
        [edge.first for edge in rows],
        [edge.last for edge in rows],
        [edge.statement for edge in rows],
        [" ".join(sorted(edge.aggregates)) for edge in rows],
    )
