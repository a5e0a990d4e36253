"""The lineage graph in PostgreSQL: statements are brought in batches, each counts once.

A batch is one transaction, and gateways on one database take turns with theirs. What a statement brings is
worked out once for as long as the same text has the same lineage: most statements were seen before. Large
batches cost less, because an edge that many of their statements have is counted in one go.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from gateway.database.texts import storable
from gateway.lineage.rows import OWN, Ends, GraphRows, SeenStatement, rows_of
from gateway.model.lineage import Dataset, DatasetKind

K = TypeVar("K")

MAX_SHAPES = 5_000
"""Statements whose edges are remembered; some 10 KB each."""
MAX_KEPT = 200_000
"""Edges of them all, with their texts: half a kilobyte each."""
MAX_COLUMNS = 200_000
"""Columns whose ids are remembered."""
_TURN = 0x736C75696365204C
"""Key of the advisory lock under which the graph grows (`sluice L` in ASCII)."""

_KNOWN = "SELECT id FROM sluice.lineage_statement WHERE id = ANY($1::uuid[])"

# What was ever a table stays one: a CREATE VIEW of its name may have failed, or done nothing, and tags follow
# into tables only.
_DATASETS = """
INSERT INTO sluice.lineage_dataset AS d (name, kind, parts, user_name, first_seen, last_seen)
SELECT name, kind, string_to_array(parts, chr(31)), owner, first, last
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
  AS n (name, kind, parts, owner, first, last) ORDER BY name
ON CONFLICT (name) DO UPDATE SET
  kind = CASE WHEN d.kind = 'table' OR excluded.last_seen < d.last_seen AND excluded.kind <> 'table'
    THEN d.kind ELSE excluded.kind END,
  first_seen = least(d.first_seen, excluded.first_seen),
  last_seen = greatest(d.last_seen, excluded.last_seen)
RETURNING name, id"""

_COLUMNS = """
WITH n AS (SELECT * FROM unnest($1::bigint[], $2::text[]) AS n (dataset, name)),
made AS (
  INSERT INTO sluice.lineage_column (dataset, name) SELECT dataset, name FROM n
  ON CONFLICT DO NOTHING RETURNING id, dataset, name)
SELECT id, dataset, name FROM made
UNION ALL SELECT c.id, c.dataset, c.name FROM sluice.lineage_column c JOIN n USING (dataset, name)"""

_EDGES = """
WITH n AS (
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::text[], $6::bigint[],
    $7::boolean[], $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::text[])
    AS n (source, target, subtype, masking, expression, statements, finished, first_seen, last_seen,
      last_statement, aggregates)),
made AS (
  INSERT INTO sluice.lineage_edge (source, target, subtype, masking, expression, statements, finished,
    first_seen, last_seen, last_statement, aggregates)
  SELECT source, target, subtype, masking, expression, statements, finished, first_seen, last_seen,
    last_statement, string_to_array(aggregates, ' ')
  FROM n ON CONFLICT DO NOTHING RETURNING id, source, target, subtype, masking)
SELECT *, true AS made FROM made
UNION ALL SELECT e.id, e.source, e.target, e.subtype, e.masking, false FROM sluice.lineage_edge e
  JOIN n USING (source, target, subtype, masking)"""

_STATEMENTS = """
INSERT INTO sluice.lineage_statement
  (id, time, user_name, operation, outcome, table_level, edges, datasets)
SELECT id, time, user_name, operation, outcome, table_level, edges::bigint[], datasets::bigint[]
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
  $8::text[]) AS n (id, time, user_name, operation, outcome, table_level, edges, datasets)"""

_COUNTS = """
UPDATE sluice.lineage_edge e SET
  statements = e.statements + n.statements,
  finished = e.finished OR n.finished,
  first_seen = least(e.first_seen, n.first),
  expression = CASE WHEN n.last >= e.last_seen THEN n.expression ELSE e.expression END,
  last_statement = CASE WHEN n.last >= e.last_seen THEN n.statement ELSE e.last_statement END,
  last_seen = greatest(e.last_seen, n.last),
  aggregates = CASE WHEN e.aggregates @> n.functions THEN e.aggregates
    ELSE (SELECT array_agg(DISTINCT a) FROM unnest(e.aggregates || n.functions) a) END,
  changed_in = CASE WHEN n.finished AND NOT e.finished OR NOT e.aggregates @> n.functions
    THEN pg_current_xact_id() ELSE e.changed_in END
FROM (
  SELECT *, string_to_array(aggregates, ' ') AS functions
  FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::boolean[], $5::timestamptz[], $6::timestamptz[],
    $7::uuid[], $8::text[]) AS n (id, expression, statements, finished, first, last, statement, aggregates)) n
WHERE e.id = n.id"""


@dataclass(slots=True, eq=False)
class _Shape:
    """Rows shared by every statement with the same text and the same lineage."""

    seen: SeenStatement
    """One of these statements."""
    rows: GraphRows
    edge_ids: list[int] = field(default_factory=list)
    """In the order of the edges; empty until they are known."""
    edge_ids_text: str = "{}"
    """As PostgreSQL writes an array."""

    @property
    def weight(self) -> int:
        """How much is remembered, in edges."""
        return len(self.rows.edges) + len(self.rows.columns) + len(self.seen.text) // 500

    def is_of(self, seen: SeenStatement) -> bool:
        """Whether a statement brings the same; its text and user are the same already."""
        if self.seen.lineage != seen.lineage:
            return False
        return self.seen.session_id == seen.session_id or all(
            dataset.kind is not DatasetKind.TEMP_VIEW for dataset in self.rows.datasets.values()
        )


class KnownIds:
    """Ids of the graph that a gateway remembers from one batch to the next. It may be dropped at any time."""

    def __init__(self) -> None:
        self._shapes: OrderedDict[bytes, _Shape] = OrderedDict()
        self.columns: dict[Ends, int] = {}

    def shape(self, seen: SeenStatement) -> _Shape:
        """Return what a statement brings."""
        words = f"{len(seen.user)} {seen.user} {seen.text}"
        key = hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        shape = self._shapes.get(key)
        if shape is None or not shape.is_of(seen):
            shape = self._shapes[key] = _Shape(seen, rows_of(seen))
        self._shapes.move_to_end(key)
        return shape

    def trim(self) -> None:
        """Forget what is beyond the bounds; between batches, since one may be larger than they are."""
        kept = sum(shape.weight for shape in self._shapes.values())
        while len(self._shapes) > MAX_SHAPES or kept > MAX_KEPT:
            _, oldest = self._shapes.popitem(last=False)
            kept -= oldest.weight
        if len(self.columns) > MAX_COLUMNS:
            self.columns.clear()

    def clear(self) -> None:
        self._shapes.clear()
        self.columns.clear()


@dataclass(slots=True)
class _Count:
    """Counts of a batch for one edge, or for all edges of one shape."""

    statements: int
    finished: bool
    first: datetime
    last: datetime
    statement: UUID
    expression: str = ""
    aggregates: frozenset[str] = frozenset()
    """For one edge: the aggregate functions that were its whole value."""

    def add(self, other: _Count) -> None:
        """Add statements; those of `other` come later in the batch."""
        self.statements += other.statements
        self.finished |= other.finished
        self.first = min(self.first, other.first)
        if other.last >= self.last:
            self.last, self.statement = other.last, other.statement


class NotOurTurn(Exception):
    """Another gateway brings something, for longer than a connection waits for an answer."""


class _Gone(Exception):
    """Raised when cached ids are no longer in the database."""


async def store_lineage(
    connection: Any, batch: Sequence[SeenStatement], known: KnownIds | None = None
) -> int:
    """Put the lineage of statements into the graph, in one transaction; return how many were new to it.

    A statement that is there already changes nothing, so a batch may be sent again after any failure. `known`
    is what the caller keeps for its next batch to the same database. Raises what asyncpg raises, and
    NotOurTurn.
    """
    known = KnownIds() if known is None else known
    try:
        return await _bring(connection, batch, known)
    except (_Gone, asyncpg.ForeignKeyViolationError):
        # Somebody emptied the graph; by now nothing is remembered of it.
        return await _bring(connection, batch, known)
    finally:
        known.trim()


async def _bring(connection: Any, batch: Sequence[SeenStatement], known: KnownIds) -> int:
    statements = {seen.statement_id: seen for seen in reversed(batch)}
    shapes = await asyncio.to_thread(_shapes, statements, known)
    try:
        async with connection.transaction():
            try:
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _TURN)
            except TimeoutError:
                raise NotOurTurn from None
            there = {row["id"] for row in await connection.fetch(_KNOWN, list(statements))}
            fresh = sorted(
                (seen for id_, seen in statements.items() if id_ not in there), key=lambda seen: seen.time
            )
            if fresh:
                await _bring_fresh(connection, fresh, shapes, known)
    except BaseException:
        # Ids of what is not there after all.
        known.clear()
        raise
    return len(fresh)


def _shapes(statements: Mapping[UUID, SeenStatement], known: KnownIds) -> dict[UUID, _Shape]:
    return {id_: known.shape(seen) for id_, seen in statements.items()}


async def _bring_fresh(
    connection: Any, fresh: Sequence[SeenStatement], shapes: Mapping[UUID, _Shape], known: KnownIds
) -> None:
    counts: dict[_Shape, _Count] = {}
    for seen in fresh:
        shape = shapes[seen.statement_id]
        count = _Count(1, seen.finished, seen.time, seen.time, seen.statement_id)
        if shape in counts:
            counts[shape].add(count)
        else:
            counts[shape] = count
    datasets = await _put_datasets(connection, counts)
    await _put_columns(connection, counts, datasets, known.columns)
    counted = await _put_edges(connection, counts, known.columns)
    about = {shape: _array(sorted(datasets[name] for name in shape.rows.datasets)) for shape in counts}
    of = [shapes[seen.statement_id] for seen in fresh]
    await connection.execute(
        _STATEMENTS,
        [seen.statement_id for seen in fresh],
        [seen.time for seen in fresh],
        [storable(seen.user) for seen in fresh],
        [seen.lineage.operation.value for seen in fresh],
        [seen.outcome for seen in fresh],
        [storable(shape.rows.table_level) for shape in of],
        [shape.edge_ids_text for shape in of],
        [about[shape] for shape in of],
    )
    await _count_edges(connection, counts, counted)


async def _put_datasets(connection: Any, counts: Mapping[_Shape, _Count]) -> dict[str, int]:
    """Write what the batch says of datasets; return the ids of all of them."""
    datasets: dict[str, Dataset] = {}
    users: dict[str, str | None] = {}
    times: dict[str, tuple[datetime, datetime]] = {}
    for shape, count in counts.items():
        for name, dataset in shape.rows.datasets.items():
            first, last = times.get(name, (count.first, count.last))
            known = datasets.get(name, dataset)
            if DatasetKind.TABLE in (dataset.kind, known.kind):
                datasets[name] = dataset if dataset.kind is DatasetKind.TABLE else known
            elif count.last >= last:
                datasets[name] = dataset
            users[name] = storable(shape.seen.user) if dataset.kind in OWN else None
            times[name] = min(first, count.first), max(last, count.last)
    rows = await connection.fetch(
        _DATASETS,
        list(times),
        [datasets[name].kind.value for name in times],
        [storable(chr(31).join(datasets[name].parts)) for name in times],
        [users[name] for name in times],
        [first for first, _ in times.values()],
        [last for _, last in times.values()],
    )
    return {row["name"]: row["id"] for row in rows}


async def _put_columns(
    connection: Any, shapes: Iterable[_Shape], datasets: Mapping[str, int], columns: dict[Ends, int]
) -> None:
    """Add every column of the shapes to the graph, and its id to `columns`."""
    missing = {column for shape in shapes for column in shape.rows.columns if column not in columns}
    if not missing:
        return
    names = {datasets[dataset]: dataset for dataset, _ in missing}
    in_order = sorted((datasets[dataset], name) for dataset, name in missing)
    rows = await connection.fetch(_COLUMNS, [of for of, _ in in_order], [name for _, name in in_order])
    columns.update(((names[row["dataset"]], row["name"]), row["id"]) for row in rows)


async def _put_edges(
    connection: Any, counts: Mapping[_Shape, _Count], columns: Mapping[Ends, int]
) -> set[int]:
    """Add every edge of the shapes to the graph, and its id to its shape; return the ids of those that are
    new to the graph. These are counted."""
    new = [shape for shape in _in_time(counts) if len(shape.edge_ids) < len(shape.rows.edges)]
    if not new:
        return set()
    keys = {
        shape: [
            (columns[target], columns[source], subtype, masking)
            for source, target, subtype, masking in shape.rows.edges
        ]
        for shape in new
    }
    edges: dict[tuple[int, int, str, bool], _Count] = {}
    for shape in new:
        _add(edges, keys[shape], shape, counts[shape])
    in_order = sorted(edges)
    rows = [edges[key] for key in in_order]
    found = await connection.fetch(
        _EDGES,
        [source for _, source, _, _ in in_order],
        [target for target, _, _, _ in in_order],
        [subtype for _, _, subtype, _ in in_order],
        [masking for _, _, _, masking in in_order],
        *_fields(rows),
    )
    ids = {(row["target"], row["source"], row["subtype"], row["masking"]): row["id"] for row in found}
    for shape in new:
        shape.edge_ids = [ids[key] for key in keys[shape]]
        shape.edge_ids_text = _array(shape.edge_ids)
    return {row["id"] for row in found if row["made"]}


async def _count_edges(connection: Any, counts: Mapping[_Shape, _Count], counted: set[int]) -> None:
    edges: dict[int, _Count] = {}
    for shape in _in_time(counts):
        _add(edges, shape.edge_ids, shape, counts[shape])
    in_order = sorted(edges.keys() - counted)
    if not in_order:
        return
    done = await connection.execute(_COUNTS, in_order, *_fields([edges[id_] for id_ in in_order]))
    if done != f"UPDATE {len(in_order)}":
        raise _Gone


def _in_time(counts: Mapping[_Shape, _Count]) -> list[_Shape]:
    return sorted(counts, key=lambda shape: counts[shape].last)


def _add(edges: dict[K, _Count], keys: Iterable[K], shape: _Shape, of_shape: _Count) -> None:
    """Count the edges of a shape, whose last statement is later than those of the shapes before it."""
    for key, words in zip(keys, shape.rows.edges.values(), strict=True):
        count = edges.get(key)
        if count is None:
            edges[key] = _Count(
                of_shape.statements,
                of_shape.finished,
                of_shape.first,
                of_shape.last,
                of_shape.statement,
                words.expression,
                frozenset((words.aggregate,)),
            )
            continue
        count.add(of_shape)
        count.expression = words.expression
        if words.aggregate not in count.aggregates:
            count.aggregates |= {words.aggregate}


def _fields(rows: Sequence[_Count]) -> tuple[list[Any], ...]:
    """Return counts as the columns of an array each: expression, statements, finished, first and last seen,
    last statement, aggregates."""
    return (
        [row.expression for row in rows],
        [row.statements for row in rows],
        [row.finished for row in rows],
        [row.first for row in rows],
        [row.last for row in rows],
        [row.statement for row in rows],
        [" ".join(sorted(row.aggregates)) for row in rows],
    )


def _array(ids: Iterable[int]) -> str:
    """Return ids as PostgreSQL writes an array."""
    return "{" + ",".join(map(str, ids)) + "}"
