"""Questions to the lineage graph: what feeds a column, what it feeds, by which ways, and what arrives there.

A walk goes level by level, so an answer has the shortest way to every column first, and circles end. It is
bounded by depth and by edges; where a bound cut it off, the answer says so. A dataset that the asker may not
know of is left out together with all that is only reached through it.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from gateway.errors import Faults
from gateway.lineage.rows import TABLE_LEVEL
from gateway.model.lineage import ANY_COLUMN, Subtype, TransformationType

MOST_EDGES = 10_000
"""Edges of one answer."""
MOST_DEPTH = 100

Knows = Callable[[Sequence[str]], Awaitable[frozenset[str]]]
"""Datasets by name → those of them that the asker may know of."""


class Direction(enum.Enum):
    UP = "up"
    """Against the flow: what feeds it."""
    DOWN = "down"
    """With the flow: what it feeds."""


class Carries(enum.IntEnum):
    """What of a column arrives at another, by the best of the ways between them."""

    INFLUENCE = 1
    """It decides on rows, order or choices; its values do not arrive."""
    MASKED = 2
    """Values that a mask of a policy had in hand."""
    VALUES = 3


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """A column of the graph; `name` is `*` for all of its dataset."""

    dataset: str
    name: str

    def __str__(self) -> str:
        return f"{self.dataset}.{self.name}" if "." not in self.name else f"{self.dataset}.`{self.name}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge of the graph, and what is known of the statements that it comes from."""

    source: Column
    target: Column
    subtype: str
    """As OpenLineage names it; `TABLE` where only tables are known."""
    masking: bool
    expression: str
    statements: int
    finished: bool
    """Whether any of them really finished."""
    first_seen: datetime
    last_seen: datetime
    last_statement: UUID

    @property
    def carries(self) -> Carries:
        if self.subtype != TABLE_LEVEL and Subtype(self.subtype).type is TransformationType.INDIRECT:
            return Carries.INFLUENCE
        return Carries.MASKED if self.masking else Carries.VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A column that a walk came to."""

    column: Column
    distance: int
    """Edges of the shortest way."""
    carries: Carries


@dataclass(slots=True, kw_only=True)
class Answer:
    """What a walk found."""

    start: tuple[Column, ...]
    direction: Direction
    edges: list[Edge] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    """Without the start, nearest first."""
    cut_off: str = ""
    """Why there may be more; empty when this is all."""


async def find(connection: Any, name: str, knows: Knows) -> tuple[Column, ...]:
    """Return the columns that a dotted name means, from its end: `salary`, `employee.salary`,
    `hr.employee.salary`; `hr.employee` for all of a table.

    Raises Faults when there is none, or when it could be of several tables.
    """
    wanted = name.lower().replace("`", "")
    rows = await connection.fetch(
        "SELECT d.name AS dataset, c.name FROM sluice.lineage_column c"
        " JOIN sluice.lineage_dataset d ON d.id = c.dataset"
        " WHERE right('.' || replace(d.name, '`', '') || '.' || c.name, length($1)) = $1"
        "    OR right('.' || replace(d.name, '`', ''), length($1)) = $1",
        "." + wanted,
    )
    known = await knows(sorted({row["dataset"] for row in rows}))
    found = {Column(row["dataset"], row["name"]) for row in rows if row["dataset"] in known}
    exact = {column for column in found if str(column).replace("`", "") == wanted}
    as_column = exact or {c for c in found if ("." + str(c).replace("`", "")).endswith("." + wanted)}
    chosen = as_column or found
    datasets = sorted({column.dataset for column in chosen})
    if not chosen:
        raise Faults([f"no statement in the lineage graph has `{name}`, or you may not know of it"])
    if len(datasets) > 1:
        shown = ", ".join(f"`{dataset}`" for dataset in datasets[:10])
        raise Faults(
            [f"`{name}` could be of {shown}{' …' if len(datasets) > 10 else ''}; write more of its name"]
        )
    return tuple(sorted(chosen))


async def walk(
    connection: Any,
    start: Iterable[Column],
    direction: Direction,
    knows: Knows,
    *,
    depth: int = 10,
    most_edges: int = MOST_EDGES,
) -> Answer:
    """Walk from columns and return every edge on the way, at most `depth` edges far.

    Raises what asyncpg raises.
    """
    answer = Answer(start=tuple(start), direction=direction)
    carried = _Carried()
    for column in answer.start:
        carried.take(column, Carries.VALUES)
    distance: dict[Column, int] = dict.fromkeys(answer.start, 0)
    frontier: set[Column] = set(answer.start)
    taken: set[tuple[Column, Column, str, bool]] = set()
    allowed: dict[str, bool] = {}
    for level in range(1, depth + 1):
        if not frontier:
            break
        edges = await _next_edges(connection, frontier, direction, most_edges + 1)
        await _ask(knows, allowed, (far(edge, direction).dataset for edge in edges))
        reached: set[Column] = set()
        for edge in edges:
            key = edge.source, edge.target, edge.subtype, edge.masking
            there = far(edge, direction)
            if not allowed[there.dataset]:
                continue
            best = min(carried.by(near(edge, direction)), edge.carries)
            if key not in taken:
                taken.add(key)
                answer.edges.append(edge)
                if len(answer.edges) >= most_edges:
                    answer.cut_off = f"it has more than {most_edges:,} edges"
            # Also when it was reached before: a longer way may carry more.
            if carried.take(there, best):
                distance.setdefault(there, level)
                reached.add(there)
        frontier = reached
        if answer.cut_off:
            break
    else:
        if frontier and await _next_edges(connection, frontier, direction, 1):
            answer.cut_off = f"it goes on after {depth} steps"
    answer.reached = sorted(
        (
            Reached(column=column, distance=steps, carries=carried.of(column))
            for column, steps in distance.items()
            if column not in answer.start
        ),
        key=lambda one: (one.distance, one.column),
    )
    return answer


async def ways(
    connection: Any, source: Column, target: Column, knows: Knows, *, depth: int = 10, most: int = 20
) -> list[tuple[Edge, ...]]:
    """Return up to `most` ways from one column to another, shortest first; no way comes by a column twice."""
    up = await walk(connection, [target], Direction.UP, knows, depth=depth)
    from_source: dict[Column, list[Edge]] = {}
    for edge in up.edges:
        from_source.setdefault(edge.source, []).append(edge)
    found: list[tuple[Edge, ...]] = []
    open_ways: list[tuple[Edge, ...]] = [()]
    while open_ways and len(found) < most:
        longer: list[tuple[Edge, ...]] = []
        for way in open_ways:
            at = way[-1].target if way else source
            if way and covers(at, target):
                found.append(way)
                continue
            passed = {source, *(edge.target for edge in way)}
            for here, edges in from_source.items():
                if covers(at, here):
                    longer += [(*way, edge) for edge in edges if edge.target not in passed]
        open_ways = longer[:MOST_EDGES] if len(longer[0] if longer else ()) <= depth else []
    return found[:most]


class _Carried:
    """What arrives at the columns that a walk has come to."""

    def __init__(self) -> None:
        self._by_dataset: dict[str, dict[str, Carries]] = {}

    def of(self, column: Column) -> Carries:
        return self._by_dataset[column.dataset][column.name]

    def by(self, column: Column) -> Carries:
        """Return what leaves by a column: its own, and that of all columns of its dataset."""
        columns = self._by_dataset[column.dataset]
        if column.name == ANY_COLUMN:
            return max(columns.values())
        return max(columns[name] for name in (column.name, ANY_COLUMN) if name in columns)

    def take(self, column: Column, carries: Carries) -> bool:
        """Note what arrives; return whether that is more than what was known."""
        columns = self._by_dataset.setdefault(column.dataset, {})
        if columns.get(column.name, 0) >= carries:
            return False
        columns[column.name] = carries
        return True


def near(edge: Edge, direction: Direction) -> Column:
    """Return the end of an edge that a walk comes from."""
    return edge.target if direction is Direction.UP else edge.source


def far(edge: Edge, direction: Direction) -> Column:
    """Return the end of an edge that a walk goes to."""
    return edge.source if direction is Direction.UP else edge.target


def covers(one: Column, other: Column) -> bool:
    """Whether two columns are the same, or one of them is all of the other's dataset."""
    return one.dataset == other.dataset and (one.name == other.name or ANY_COLUMN in {one.name, other.name})


async def _ask(knows: Knows, allowed: dict[str, bool], datasets: Iterable[str]) -> None:
    new = sorted(set(datasets) - allowed.keys())
    if new:
        known = await knows(new)
        allowed.update((dataset, dataset in known) for dataset in new)


_NEXT = """
WITH here AS (
    SELECT DISTINCT c.id FROM unnest($1::text[], $2::text[]) AS f (dataset, name)
    JOIN sluice.lineage_dataset d ON d.name = f.dataset
    JOIN sluice.lineage_column c ON c.dataset = d.id AND (c.name = f.name OR c.name = '*' OR f.name = '*')
), found AS MATERIALIZED (
    SELECT e.* FROM sluice.lineage_edge e WHERE e.{near} IN (SELECT id FROM here) LIMIT $3
)
SELECT sd.name AS source_dataset, sc.name AS source_name, td.name AS target_dataset, tc.name AS target_name,
       e.subtype, e.masking, e.expression, e.statements, e.finished, e.first_seen, e.last_seen,
       e.last_statement
FROM found e
JOIN sluice.lineage_column sc ON sc.id = e.source JOIN sluice.lineage_dataset sd ON sd.id = sc.dataset
JOIN sluice.lineage_column tc ON tc.id = e.target JOIN sluice.lineage_dataset td ON td.id = tc.dataset
ORDER BY 1, 2, 3, 4, 5, 6"""


async def _next_edges(connection: Any, frontier: set[Column], direction: Direction, most: int) -> list[Edge]:
    in_order = sorted(frontier)
    rows = await connection.fetch(
        _NEXT.format(near="target" if direction is Direction.UP else "source"),
        [column.dataset for column in in_order],
        [column.name for column in in_order],
        most,
    )
    return [
        Edge(
            source=Column(row["source_dataset"], row["source_name"]),
            target=Column(row["target_dataset"], row["target_name"]),
            subtype=row["subtype"],
            masking=row["masking"],
            expression=row["expression"],
            statements=row["statements"],
            finished=row["finished"],
            first_seen=row["first_seen"],
            last_seen=row["last_seen"],
            last_statement=row["last_statement"],
        )
        for row in rows
    ]
