"""The lineage graph around one column, one level each way, opened step by step, and laid out in layers.

What is drawn is bounded here and not where it is shown: a picture of ten thousand columns shows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.lineage.graph import (
    Carries,
    Direction,
    Edge,
    GraphColumn,
    Knows,
    get_far_end,
    see_all_columns,
    walk,
)
from gateway.lineage.rows import OWN, TABLE_LEVEL

MAX_DRAWN = 150
"""Columns of one picture."""
MAX_EDGES = 1_000
"""Edges that one step reads."""
MAX_COUNTED = 5_000
"""Neighbours that are looked at to say how many more there are."""
MAX_OPENED = 40
"""Columns that are opened at once, besides the start."""
NODE_WIDTH, NODE_HEIGHT = 230, 44
_GAP_X, _GAP_Y, _MARGIN = 90, 14, 12
_SWEEPS = 4

OpenedSide = tuple[GraphColumn, Direction]
"""A column, and the way in which its neighbours are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourCount:
    """What a column has besides what is drawn, one way."""

    more: int = 0
    """Columns that opening it would show."""
    hidden: int = 0
    """Columns of tables, views and files of which the asker may not know."""
    at_least: bool = False
    """Whether there may be more of both: only the first some thousand were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """A part of the graph as one asker may see it."""

    start: GraphColumn
    columns: tuple[GraphColumn, ...]
    """All that is drawn, nearest first, the start at the beginning."""
    edges: tuple[Edge, ...]
    counts: Mapping[OpenedSide, NeighbourCount]
    opened: frozenset[OpenedSide]
    cut_off: str
    """Why columns are left out; empty when none are."""


async def load_neighbourhood(
    connection: Any,
    start: GraphColumn,
    opened: Iterable[OpenedSide],
    knows: Knows,
    *,
    most: int = MAX_DRAWN,
) -> Neighbourhood:
    """Return the start with what feeds it and what it feeds, and likewise of each column that is opened.

    Raises what asyncpg raises.
    """
    wanted = list(dict.fromkeys(((start, Direction.UP), (start, Direction.DOWN), *opened)))[: MAX_OPENED + 2]
    known = await knows([column for column, _ in wanted])
    wanted = [one for one in wanted if one[0] in known]
    edges: dict[tuple[GraphColumn, GraphColumn, str, bool], Edge] = {}
    cut_off = ""
    for direction in Direction:
        columns = [column for column, way in wanted if way is direction]
        if columns:
            answer = await walk(connection, columns, direction, knows, depth=1, most_edges=MAX_EDGES)
            # That it goes on is what the counts are for.
            if len(answer.edges) >= MAX_EDGES:
                cut_off = f"more than {MAX_EDGES:,} edges lead on"
            for edge in answer.edges:
                edges[edge.source, edge.target, edge.subtype, edge.masking] = edge
    layers = find_layers(start, edges.values())
    drawn = list(layers)[:most]
    if len(layers) > most:
        cut_off = f"{len(layers) - most:,} more columns are not drawn"
    shown = set(drawn)
    kept = [edge for edge in edges.values() if edge.source in shown and edge.target in shown]
    counts = {
        (column, direction): count
        for direction in Direction
        for column, count in (await _count(connection, drawn, direction, kept, knows)).items()
    }
    return Neighbourhood(
        start=start,
        columns=tuple(drawn),
        edges=tuple(kept),
        counts=counts,
        opened=frozenset(wanted),
        cut_off=cut_off,
    )


async def _count(
    connection: Any,
    columns: Sequence[GraphColumn],
    direction: Direction,
    drawn: Sequence[Edge],
    knows: Knows,
) -> dict[GraphColumn, NeighbourCount]:
    """Count for each column its neighbours that are not drawn as such."""
    near, far = ("target", "source") if direction is Direction.UP else ("source", "target")
    rows = await connection.fetch(
        _PAIRS.format(near=near, far=far),
        [column.dataset for column in columns],
        [column.name for column in columns],
        MAX_COUNTED + 1,
    )
    at_least = len(rows) > MAX_COUNTED
    pairs: dict[GraphColumn, set[GraphColumn]] = {}
    own = set()
    for row in rows[:MAX_COUNTED]:
        there = GraphColumn(row["far_dataset"], row["far_name"])
        pairs.setdefault(GraphColumn(row["dataset"], row["name"]), set()).add(there)
        if row["far_kind"] in _OWN:
            own.add(there)
    everything = {there for some in pairs.values() for there in some}
    known = frozenset(everything) if knows is see_all_columns else await knows(sorted(everything))
    shown: dict[GraphColumn, set[GraphColumn]] = {}
    for edge in drawn:
        here = edge.target if direction is Direction.UP else edge.source
        shown.setdefault(here, set()).add(get_far_end(edge, direction))
    found = {}
    for column in columns:
        beside = pairs.get(column, set())
        # How many results of others a column went into is nobody's business.
        hidden = beside - known - own  # RULE (hidden-results)
        count = NeighbourCount(
            more=len((beside & known) - shown.get(column, set())), hidden=len(hidden), at_least=at_least
        )
        if count.more or count.hidden or count.at_least:
            found[column] = count
    return found


_OWN = frozenset(kind.value for kind in OWN)
_PAIRS = """
SELECT d.name AS dataset, c.name, fd.name AS far_dataset, fc.name AS far_name, fd.kind AS far_kind
FROM unnest($1::text[], $2::text[]) AS f (dataset, name)
  JOIN sluice.lineage_dataset d ON d.name = f.dataset
  JOIN sluice.lineage_column c ON c.dataset = d.id AND c.name = f.name
  JOIN sluice.lineage_edge e ON e.{near} = c.id
  JOIN sluice.lineage_column fc ON fc.id = e.{far}
  JOIN sluice.lineage_dataset fd ON fd.id = fc.dataset
LIMIT $3"""


# -- layers --------------------------------------------------------------------------------------------------


def find_layers(start: GraphColumn, edges: Iterable[Edge]) -> dict[GraphColumn, int]:
    """Return how many steps each column is away from the start, nearest first: less than 0 for what feeds it.

    A column that is reached both ways has the way that is shorter, and of two equal ones what feeds it.
    """
    beside: dict[GraphColumn, list[tuple[GraphColumn, int]]] = {}
    for edge in edges:
        beside.setdefault(edge.target, []).append((edge.source, -1))
        beside.setdefault(edge.source, []).append((edge.target, 1))
    layers, frontier = {start: 0}, [start]
    while frontier:
        reached = []
        for column in frontier:
            for there, step in sorted(set(beside.get(column, ())), key=lambda one: (one[1], one[0])):
                if there not in layers:
                    layers[there] = layers[column] + step
                    reached.append(there)
        frontier = reached
    return layers


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnColumn:
    """A box, at whole pixels from the upper left corner."""

    column: GraphColumn
    x: int
    y: int
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEdge:
    """An arrow; all edges between two columns are one, by what carries most."""

    source: GraphColumn
    target: GraphColumn
    carries: Carries
    kind: str
    """`PROJECTION`, `PREDICATE`, or `TABLE` where only tables are known."""
    subtypes: tuple[str, ...]
    path: str
    """As SVG has it in `d`."""
    middle: tuple[int, int]
    """A place for a mark on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A picture of a neighbourhood."""

    width: int
    height: int
    columns: tuple[DrawnColumn, ...]
    edges: tuple[DrawnEdge, ...]


def kind_of(edge: Edge) -> str:
    """Return whether an edge carries values or decides on rows and choices."""
    if edge.subtype == TABLE_LEVEL:
        return "TABLE"
    return "PREDICATE" if edge.carries is Carries.INFLUENCE else "PROJECTION"


async def draw(found: Neighbourhood) -> Drawing:
    """Lay a neighbourhood out, off the event loop."""
    return await asyncio.to_thread(lay_out, found.start, found.columns, found.edges)


def lay_out(start: GraphColumn, columns: Sequence[GraphColumn], edges: Sequence[Edge]) -> Drawing:
    """Return places for columns: what feeds the start on its left, what it feeds on its right, and within a
    layer each near the middle of those that it is connected with (Sugiyama's barycentres)."""
    layers = {column: layer for column, layer in find_layers(start, edges).items() if column in set(columns)}
    rows: dict[int, list[GraphColumn]] = {}
    for column in sorted(layers):
        rows.setdefault(layers[column], []).append(column)
    _order(rows, edges)
    first = min(rows)
    highest = max(len(row) for row in rows.values())
    height = 2 * _MARGIN + highest * (NODE_HEIGHT + _GAP_Y) - _GAP_Y
    places: dict[GraphColumn, DrawnColumn] = {}
    for layer, row in rows.items():
        free = height - len(row) * (NODE_HEIGHT + _GAP_Y) + _GAP_Y
        for number, column in enumerate(row):
            places[column] = DrawnColumn(
                column=column,
                x=_MARGIN + (layer - first) * (NODE_WIDTH + _GAP_X),
                y=free // 2 + number * (NODE_HEIGHT + _GAP_Y),
                layer=layer,
            )
    width = 2 * _MARGIN + (max(rows) - first + 1) * (NODE_WIDTH + _GAP_X) - _GAP_X
    return Drawing(
        width=width,
        height=height,
        columns=tuple(
            places[column] for column in sorted(places, key=lambda one: (layers[one], places[one].y))
        ),
        edges=tuple(_arrows(edges, places)),
    )


def _order(rows: dict[int, list[GraphColumn]], edges: Sequence[Edge]) -> None:
    beside: dict[GraphColumn, set[GraphColumn]] = {}
    for edge in edges:
        beside.setdefault(edge.source, set()).add(edge.target)
        beside.setdefault(edge.target, set()).add(edge.source)
    for sweep in range(_SWEEPS):
        place = {
            column: number / max(len(row), 1) for row in rows.values() for number, column in enumerate(row)
        }
        for layer in sorted(rows, reverse=sweep % 2 == 1):
            middle = {}
            for column in rows[layer]:
                near = [place[one] for one in beside.get(column, ()) if one in place]
                middle[column] = sum(near) / len(near) if near else place[column]
            rows[layer].sort(key=lambda column: (middle[column], column))
            place |= {column: number / len(rows[layer]) for number, column in enumerate(rows[layer])}


def _arrows(edges: Sequence[Edge], places: Mapping[GraphColumn, DrawnColumn]) -> Iterable[DrawnEdge]:
    between: dict[tuple[GraphColumn, GraphColumn], list[Edge]] = {}
    for edge in edges:
        if edge.source in places and edge.target in places:
            between.setdefault((edge.source, edge.target), []).append(edge)
    for (source, target), some in sorted(between.items()):
        best = max(some, key=lambda edge: edge.carries)
        a, b = places[source], places[target]
        x, y = a.x + NODE_WIDTH, a.y + NODE_HEIGHT // 2
        to_x, to_y = b.x, b.y + NODE_HEIGHT // 2
        bend = max(40, abs(to_x - x) // 2)
        yield DrawnEdge(
            source=source,
            target=target,
            carries=best.carries,
            kind=kind_of(best),
            subtypes=tuple(sorted({edge.subtype for edge in some})),
            path=f"M{x},{y} C{x + bend},{y} {to_x - bend},{to_y} {to_x},{to_y}",
            middle=((x + to_x) // 2, (y + to_y) // 2),
        )
