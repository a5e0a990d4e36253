"""Questions to the lineage graph: what feeds a column, what it feeds, by which ways, and what arrives there.

A walk goes level by level, so an answer has the shortest way to every column first, and circles end. It is
bounded by depth and by edges; where a bound cut it off, the answer says so.

INVARIANT (hidden is not there): an answer is that of a graph without the columns of which the asker may not
know. So they are taken out before anything is counted, bounded or walked on from. Only `MAX_COLUMNS`, which
bounds work, counts all of them.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from gateway.errors import Faults
from gateway.lineage.rows import TABLE_LEVEL
from gateway.model.lineage import ANY_COLUMN, Subtype, TransformationType

T = TypeVar("T")

MAX_EDGES = 10_000
"""Edges of one answer."""
MAX_DEPTH = 100
MAX_COLUMNS = 50_000
"""Columns that one step of a walk, or one search, looks at."""
MAX_TRIED = 50_000
"""Edges that are tried while ways between two columns are looked for."""
TOO_WIDE = f"it has more than {MAX_COLUMNS:,} columns side by side"


class Direction(enum.Enum):
    UP = "up"
    """Against the flow: what feeds it."""
    DOWN = "down"
    """With the flow: what it feeds."""


class Carries(enum.IntEnum):
    """How much of a column reaches another one, along the best path between them."""

    INFLUENCE = 1
    """It decides on rows, order or choices; its values do not arrive."""
    MASKED = 2
    """Values that a mask of a policy had in hand."""
    VALUES = 3


class Ambiguous(Faults):
    """A name could be of several tables, or of too many columns."""


@dataclass(frozen=True, slots=True, order=True)
class GraphColumn:
    """A column of the graph; `name` is `*` for all of its dataset."""

    dataset: str
    name: str

    def __str__(self) -> str:
        return f"{self.dataset}.{self.name}" if "." not in self.name else f"{self.dataset}.`{self.name}`"


Knows = Callable[[Sequence[GraphColumn]], Awaitable[frozenset[GraphColumn]]]
"""Columns → those of them that the asker may know of."""


async def see_all_columns(columns: Sequence[GraphColumn]) -> frozenset[GraphColumn]:
    """Let the asker know of all columns: for operators and administrators."""
    return frozenset(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge of the graph, and what is known of the statements that it comes from."""

    source: GraphColumn
    target: GraphColumn
    subtype: str
    """As OpenLineage names it; `TABLE` where only tables are known."""
    masking: bool
    expression: str | None
    """None: not for the asker."""
    statements: int
    finished: bool
    """Whether any of them really finished."""
    first_seen: datetime
    last_seen: datetime
    last_statement: UUID | None
    """None: not for the asker."""

    @property
    def carries(self) -> Carries:
        if self.subtype != TABLE_LEVEL and Subtype(self.subtype).type is TransformationType.INDIRECT:
            return Carries.INFLUENCE
        return Carries.MASKED if self.masking else Carries.VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A column that a walk came to."""

    column: GraphColumn
    distance: int
    """Edges of the shortest way."""
    carries: Carries


@dataclass(slots=True, kw_only=True)
class GraphAnswer:
    """Columns and edges that a walk found."""

    start: tuple[GraphColumn, ...]
    direction: Direction
    edges: list[Edge] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    """Without the start, nearest first."""
    cut_off: str = ""
    """Why there may be more; empty when this is all."""


@dataclass(slots=True, kw_only=True)
class Ways:
    """Ways from one column to another, shortest first."""

    found: list[tuple[Edge, ...]] = field(default_factory=list)
    cut_off: str = ""
    """Why there may be more; empty when these are all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementEdges:
    """A statement of the graph, and what it brought."""

    statement_id: UUID
    time: datetime
    user: str
    operation: str
    outcome: str
    table_level: str
    """Why it has no edges between columns; empty when they are known."""
    edges: list[Edge]


async def find(connection: Any, name: str, knows: Knows) -> tuple[GraphColumn, ...]:
    """Return the columns that a dotted name means, from its end: `salary`, `employee.salary`,
    `hr.employee.salary`; `hr.employee` for all of a table.

    Raises Faults when there is none, Ambiguous when it could be of several tables.
    """
    wanted = _plain(name)
    ends = wanted.split(".")
    rows = await connection.fetch(
        _FIND, "." + wanted, [".".join(ends[first:]) for first in range(len(ends))], MAX_COLUMNS + 1
    )
    if len(rows) > MAX_COLUMNS:
        raise Ambiguous([f"`{name}` matches too many columns; write more of the name"])
    found = await knows([GraphColumn(row["dataset"], row["name"]) for row in rows])
    exact = {column for column in found if _plain(str(column)) == wanted}
    as_column = exact or {column for column in found if _ends_with(column, wanted)}
    chosen = as_column or found
    datasets = sorted({column.dataset for column in chosen})
    if not chosen:
        raise Faults([f"no statement in the lineage graph has `{name}`, or you may not see it"])
    if len(datasets) > 1:
        shown = ", ".join(f"`{dataset}`" for dataset in datasets[:10])
        raise Ambiguous(
            [f"`{name}` is ambiguous: {shown}{' …' if len(datasets) > 10 else ''}; write more of the name"]
        )
    return tuple(sorted(chosen))


def _plain(name: str) -> str:
    return name.lower().replace("`", "").replace("\0", "")


def _ends_with(column: GraphColumn, wanted: str) -> bool:
    return ("." + _plain(str(column))).endswith("." + wanted)


_FIND = """
SELECT d.name AS dataset, c.name FROM sluice.lineage_column c
  JOIN sluice.lineage_dataset d ON d.id = c.dataset
  WHERE c.name = ANY($2::text[])
    AND right('.' || lower(replace(d.name, '`', '')) || '.' || c.name, length($1)) = $1
UNION
SELECT d.name, c.name FROM sluice.lineage_dataset d
  JOIN sluice.lineage_column c ON c.dataset = d.id
  WHERE right('.' || lower(replace(d.name, '`', '')), length($1)) = $1
LIMIT $3"""


async def search(
    connection: Any, text: str, knows: Knows, *, after: GraphColumn | None = None, limit: int = 100
) -> tuple[list[GraphColumn], str]:
    """Return columns whose full names have a text in them, by name, from `after` on; and why there may be
    more that were not looked at.

    Raises what asyncpg raises.
    """
    found: list[GraphColumn] = []
    looked_at = 0
    while len(found) < limit:
        rows = await _search(connection, _plain(text), after)
        columns = [GraphColumn(row["dataset"], row["name"]) for row in rows]
        known = await knows(columns)
        found += [column for column in columns if column in known]
        if len(rows) < _CHUNK:
            break
        after = columns[-1]
        looked_at += len(rows)
        if looked_at >= MAX_COLUMNS:
            return found[:limit], "too many columns match; write more of the name"
    return found[:limit], ""


async def _search(connection: Any, text: str, after: GraphColumn | None) -> Sequence[Any]:
    """Return the next `_CHUNK` columns that have a plain text in their names, fewer where there are no more.

    A text that is common is found in the first tables, and one that is rare by tables and columns apart: to
    put together the name of each of a million columns takes three times as long.
    """
    arguments = (text, after.dataset if after else "", after.name if after else "", _CHUNK)
    found: Sequence[Any] = await connection.fetch(_SEARCH_NEXT, *arguments)
    if len(found) < _CHUNK:
        found = await connection.fetch(_SEARCH, *arguments, *_split(text))
    return found


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return what stands before and behind each dot."""
    parts = text.split(".")
    dots = range(1, len(parts))
    return [".".join(parts[:n]) for n in dots], [".".join(parts[n:]) for n in dots]


_CHUNK = 1_000
_SEARCH_NEXT = """
WITH d AS MATERIALIZED (
  SELECT id, name FROM sluice.lineage_dataset
    WHERE name COLLATE "C" >= $2 ORDER BY name COLLATE "C" LIMIT 1000)
SELECT d.name AS dataset, c.name FROM d JOIN sluice.lineage_column c ON c.dataset = d.id
  WHERE strpos(lower(replace(d.name, '`', '')) || '.' || c.name, $1) > 0
    AND (d.name COLLATE "C", c.name COLLATE "C") > ($2, $3)
  ORDER BY d.name COLLATE "C", c.name COLLATE "C" LIMIT $4"""
# The text is within the table's name, over the dot between both, or within the column's.
_SEARCH = """
WITH d AS MATERIALIZED (
  SELECT id, name, lower(replace(name, '`', '')) AS plain FROM sluice.lineage_dataset
    WHERE name COLLATE "C" >= $2)
SELECT dataset, name FROM (
  SELECT d.name AS dataset, c.name FROM d JOIN sluice.lineage_column c ON c.dataset = d.id
    WHERE strpos(d.plain, $1) > 0
  UNION
  SELECT d.name, c.name FROM d
    JOIN unnest($5::text[], $6::text[]) AS s (front, rest) ON right(d.plain, length(s.front)) = s.front
    JOIN sluice.lineage_column c ON c.dataset = d.id AND starts_with(c.name, s.rest)
  UNION
  SELECT d.name, c.name FROM sluice.lineage_column c JOIN d ON d.id = c.dataset
    WHERE strpos(c.name, $1) > 0
) AS found
  WHERE (dataset COLLATE "C", name COLLATE "C") > ($2, $3)
  ORDER BY dataset COLLATE "C", name COLLATE "C" LIMIT $4"""


async def walk(
    connection: Any,
    start: Iterable[GraphColumn],
    direction: Direction,
    knows: Knows,
    *,
    depth: int = 10,
    most_edges: int = MAX_EDGES,
) -> GraphAnswer:
    """Walk from columns and return every edge on the way, at most `depth` edges far.

    Raises what asyncpg raises.
    """
    answer = GraphAnswer(start=tuple(start), direction=direction)
    steps = _Steps(connection, direction, knows)
    carried = _Carried()
    for column in answer.start:
        carried.take(column, Carries.VALUES)
    distance: dict[GraphColumn, int] = dict.fromkeys(answer.start, 0)
    frontier = await steps.begin(answer.start)
    taken: set[int] = set()
    for level in range(1, depth + 1):
        edges = await steps.next(frontier, most_edges + 1 + len(taken))
        if edges is None:
            answer.cut_off = TOO_WIDE
            break
        reached: set[int] = set()
        for id_, there, edge in edges:
            best = min(carried.get_carried(get_near_end(edge, direction)), edge.carries)
            if id_ not in taken:
                if len(answer.edges) == most_edges:
                    answer.cut_off = f"it has more than {most_edges:,} edges"
                    break
                taken.add(id_)
                answer.edges.append(edge)
            # Also when it was reached before: a longer way may carry more.
            column = get_far_end(edge, direction)
            if carried.take(column, best):
                distance.setdefault(column, level)
                reached.add(there)
        frontier = reached
        if answer.cut_off or not frontier:
            break
    else:
        if await steps.next(frontier, 1) != []:
            answer.cut_off = _goes_on(depth)
    answer.reached = sorted(
        (
            Reached(column=column, distance=steps, carries=carried.of(column))
            for column, steps in distance.items()
            if column not in answer.start
        ),
        key=lambda one: (one.distance, one.column),
    )
    return answer


async def find_paths(
    connection: Any,
    source: GraphColumn,
    target: GraphColumn,
    knows: Knows,
    *,
    depth: int = 10,
    most: int = 20,
) -> Ways:
    """Return up to `most` ways from one column to another, shortest first; no way comes by a column twice.

    Raises what asyncpg raises.
    """
    up = await walk(connection, [target], Direction.UP, knows, depth=depth)
    answer = Ways(cut_off="" if up.cut_off == _goes_on(depth) else up.cut_off)
    leading = _Leading(up)
    tried = 0
    # By the least length that it can come to, so that the shortest are found first; of these what is left.
    open_ways: list[tuple[int, int, int, tuple[Edge, ...]]] = [(0, 0, 0, ())]
    while open_ways:
        *_, way = heapq.heappop(open_ways)
        at = way[-1].target if way else source
        if way and covers(at, target):
            answer.found.append(way)
            if len(answer.found) > most:
                answer.found.pop()
                answer.cut_off = f"there are more than {most} paths"
                break
            continue
        passed = {source, *(edge.target for edge in way)}
        for edge in leading.list_edges_from(at):
            tried += 1
            least = len(way) + 1 + leading.distance(edge.target)
            if edge.target not in passed and least <= depth:
                heapq.heappush(open_ways, (least, least - len(way), tried, (*way, edge)))
        if tried > MAX_TRIED:
            answer.cut_off = "there are too many paths to search them all"
            break
        if len(passed) % 8 == 0:
            await asyncio.sleep(0)
    return answer


async def statement(connection: Any, statement_id: UUID, knows: Knows) -> StatementEdges | None:
    """Return what a statement brought into the graph; None when it is not there.

    Its edges are those between columns of which the asker may know. Raises what asyncpg raises.
    """
    row = await connection.fetchrow(
        "SELECT * FROM sluice.lineage_statement WHERE id = $1::uuid", statement_id
    )
    if row is None:
        return None
    columns = _Columns(connection, knows)
    rows = await connection.fetch(_EDGES_BY_ID, row["edges"])
    await columns.look_at({one[end] for one in rows for end in ("source", "target")})
    return StatementEdges(
        statement_id=statement_id,
        time=row["time"],
        user=row["user_name"],
        operation=row["operation"],
        outcome=row["outcome"],
        table_level=row["table_level"],
        edges=_in_order(
            columns.edge(one)
            for one in rows
            if one["source"] in columns.known and one["target"] in columns.known
        ),
    )


class _Columns:
    """Columns by their ids in the database, each looked at once."""

    def __init__(self, connection: Any, knows: Knows) -> None:
        self._connection = connection
        self._knows = knows
        self._looked_at: set[int] = set()
        self.known: dict[int, GraphColumn] = {}
        """Those of which the asker may know."""

    async def look_at(self, ids: Iterable[int]) -> None:
        """Find out what columns are called, and whether the asker may know of them."""
        new = list(set(ids) - self._looked_at)
        if not new:
            return
        self._looked_at.update(new)
        rows = await self._connection.fetch(_NAMES, new)
        columns = [GraphColumn(row["dataset"], row["name"]) for row in rows]
        known = await self._knows(columns)
        self.known.update((row["id"], c) for row, c in zip(rows, columns, strict=True) if c in known)

    def edge(self, row: Any) -> Edge:
        return Edge(
            source=self.known[row["source"]],
            target=self.known[row["target"]],
            subtype=row["subtype"],
            masking=row["masking"],
            expression=row["expression"],
            statements=row["statements"],
            finished=row["finished"],
            first_seen=row["first_seen"],
            last_seen=row["last_seen"],
            last_statement=row["last_statement"],
        )


class _Steps(_Columns):
    """Takes one step after the other, all edges from a set of columns at once."""

    def __init__(self, connection: Any, direction: Direction, knows: Knows) -> None:
        super().__init__(connection, knows)
        up = direction is Direction.UP
        self._near, self._far = ("target", "source") if up else ("source", "target")

    async def begin(self, columns: Sequence[GraphColumn]) -> set[int]:
        """Return the ids of columns."""
        rows = await self._connection.fetch(
            _IDS, [column.dataset for column in columns], [column.name for column in columns]
        )
        return {row["id"] for row in rows}

    async def next(self, frontier: set[int], most: int) -> list[tuple[int, int, Edge]] | None:
        """Return up to so many of the edges that lead on, each with its id and that of its far end; None when
        the columns that they lead to are too many to look at."""
        if self._knows is see_all_columns:
            rows = await self._connection.fetch(self._sql(_ALL), list(frontier), most)
            await self.look_at({row[end] for row in rows for end in ("source", "target")})
        else:
            beside = {row["id"] for row in await self._connection.fetch(_BESIDE, list(frontier))}
            await self.look_at(beside)
            near_ids = [id_ for id_ in beside if id_ in self.known]
            found = await self._connection.fetch(self._sql(_FAR), near_ids, MAX_COLUMNS + 1)
            if len(found) > MAX_COLUMNS:
                return None
            await self.look_at(row["far"] for row in found)
            far_ids = [row["far"] for row in found if row["far"] in self.known]
            rows = await self._connection.fetch(self._sql(_BETWEEN), near_ids, far_ids, most)
        edges = []
        for number, row in enumerate(rows):
            edges.append((row["id"], row[self._far], self.edge(row)))
            if number % 500 == 499:
                await asyncio.sleep(0)  # statements share the event loop with us
        edges.sort(key=lambda one: _names(one[2]))
        return edges

    def _sql(self, template: str) -> str:
        return template.format(near=self._near, far=self._far)


def _names(edge: Edge) -> tuple[str, str, str, str, str, bool]:
    source, target = edge.source, edge.target
    return source.dataset, source.name, target.dataset, target.name, edge.subtype, edge.masking


def _in_order(edges: Iterable[Edge]) -> list[Edge]:
    return sorted(edges, key=_names)


_IDS = """
SELECT c.id FROM unnest($1::text[], $2::text[]) AS f (dataset, name)
  JOIN sluice.lineage_dataset d ON d.name = f.dataset
  JOIN sluice.lineage_column c ON c.dataset = d.id AND c.name = f.name"""

_NAMES = """
SELECT c.id, c.name, d.name AS dataset FROM sluice.lineage_column c
  JOIN sluice.lineage_dataset d ON d.id = c.dataset WHERE c.id = ANY($1::bigint[])"""

_BESIDE = """
WITH f AS (SELECT id, dataset, name FROM sluice.lineage_column WHERE id = ANY($1::bigint[]))
SELECT id FROM f
UNION SELECT s.id FROM f JOIN sluice.lineage_column s ON s.dataset = f.dataset AND s.name = '*'
UNION SELECT s.id FROM f JOIN sluice.lineage_column s ON s.dataset = f.dataset WHERE f.name = '*'"""

_FAR = """
SELECT DISTINCT {far} AS far FROM sluice.lineage_edge WHERE {near} = ANY($1::bigint[]) LIMIT $2"""

_FIELDS = """id, source, target, subtype, masking, expression, statements, finished, first_seen, last_seen,
  last_statement"""

_BETWEEN = f"""
SELECT {_FIELDS} FROM sluice.lineage_edge
  WHERE {{near}} = ANY($1::bigint[]) AND {{far}} = ANY($2::bigint[]) ORDER BY id LIMIT $3"""

_ALL = f"""
SELECT {_FIELDS} FROM sluice.lineage_edge WHERE {{near}} = ANY(ARRAY({_BESIDE})) LIMIT $2"""

_EDGES_BY_ID = f"SELECT {_FIELDS} FROM sluice.lineage_edge WHERE id = ANY($1::bigint[])"


class _Leading:
    """The edges of an upstream walk, from which each column one comes nearer to its start."""

    def __init__(self, up: GraphAnswer) -> None:
        self._edges: dict[str, dict[str, list[Edge]]] = {}
        for edge in up.edges:
            self._edges.setdefault(edge.source.dataset, {}).setdefault(edge.source.name, []).append(edge)
        self._distances: dict[str, dict[str, int]] = {}
        for column in up.start:
            self._distances.setdefault(column.dataset, {})[column.name] = 0
        for one in up.reached:
            self._distances.setdefault(one.column.dataset, {})[one.column.name] = one.distance

    def list_edges_from(self, column: GraphColumn) -> Iterable[Edge]:
        """Return the edges that lead on from a column."""
        for edges in _list_covered(self._edges.get(column.dataset, {}), column.name):
            yield from edges

    def distance(self, column: GraphColumn) -> int:
        """Return the edges from a column to the start, at least."""
        return min(_list_covered(self._distances.get(column.dataset, {}), column.name), default=0)


def _list_covered(columns: Mapping[str, T], name: str) -> list[T]:
    """Return what is kept of those columns of a dataset that a name covers."""
    if name == ANY_COLUMN:
        return list(columns.values())
    return [columns[one] for one in (name, ANY_COLUMN) if one in columns]


def _goes_on(depth: int) -> str:
    return f"some paths have more than {depth} steps"


class _Carried:
    """How much arrives at each column that a walk has reached."""

    def __init__(self) -> None:
        self._by_dataset: dict[str, dict[str, Carries]] = {}

    def of(self, column: GraphColumn) -> Carries:
        return self._by_dataset[column.dataset][column.name]

    def get_carried(self, column: GraphColumn) -> Carries:
        """Return what leaves by a column: its own, and that of all columns of its dataset."""
        columns = self._by_dataset[column.dataset]
        if column.name == ANY_COLUMN:
            return max(columns.values())
        return max(columns[name] for name in (column.name, ANY_COLUMN) if name in columns)

    def take(self, column: GraphColumn, carries: Carries) -> bool:
        """Note what arrives; return whether that is more than what was known."""
        columns = self._by_dataset.setdefault(column.dataset, {})
        if columns.get(column.name, 0) >= carries:
            return False
        columns[column.name] = carries
        return True


def get_near_end(edge: Edge, direction: Direction) -> GraphColumn:
    """Return the end of an edge that a walk comes from."""
    return edge.target if direction is Direction.UP else edge.source


def get_far_end(edge: Edge, direction: Direction) -> GraphColumn:
    """Return the end of an edge that a walk goes to."""
    return edge.source if direction is Direction.UP else edge.target


def covers(one: GraphColumn, other: GraphColumn) -> bool:
    """Whether two columns are the same, or one of them is all of the other's dataset."""
    return one.dataset == other.dataset and (one.name == other.name or ANY_COLUMN in {one.name, other.name})
