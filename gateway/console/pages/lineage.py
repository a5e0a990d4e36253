"""Column lineage: around one column a level each way, opened by clicks; what a change would reach; and copies
that are less protected than what they were made of.

Everybody sees what policies let them know of; what they do not is counted and not named.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from gateway.admin.requests import BadRequest, NotFound
from gateway.console.routes import (
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NoParameters,
    PagedParameters,
    Viewer,
    Who,
    decode_cursor,
    encode_cursor,
    parameter,
)
from gateway.errors import Faults
from gateway.lineage.graph import (
    Ambiguous,
    Carries,
    Direction,
    Edge,
    GraphColumn,
    Knows,
    find,
    search,
    see_all_columns,
    walk,
)
from gateway.lineage.laundering import LaunderingReport
from gateway.lineage.neighbours import (
    NODE_HEIGHT,
    NODE_WIDTH,
    DrawnColumn,
    NeighbourCount,
    Neighbourhood,
    draw,
    kind_of,
    load_neighbourhood,
)

OWN = "policies of this moment decide which columns the viewer may know of"
NOT_RECORDED = "it shows the lineage graph, by the viewer's own policies, and nothing of the audit record"
MAX_OPENED = 40
MAX_CHOICES = 200
MAX_IMPACT_EDGES = 2_000
_LABEL_CHARS = 30
_ON_DROP = {True: "fails", False: "gets nothing new"}
_ON_TAG = {
    Carries.VALUES: "follows",
    Carries.MASKED: "does not follow: masked",
    Carries.INFLUENCE: "does not",
}


class SeesLineage(Protocol):
    """What one person may know of the graph."""

    async def knows(self, columns: Any) -> frozenset[GraphColumn]: ...

    async def filter_visible(self, edges: Any) -> list[Edge]: ...


ReadGraph = Callable[[], AbstractAsyncContextManager[Any]]
"""Yields a connection that sees one instant of the graph and writes nothing."""
OpenSight = Callable[[Any, Viewer], SeesLineage]
"""Raises PoliciesStale."""
MakeLaundering = Callable[[Any], Awaitable[LaunderingReport]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLineage:
    """A column, and which others are opened."""

    column: str = parameter("Column, such as `hr.employee.salary`; as many parts as make it unique.", "")
    up: tuple[str, ...] = parameter("Keys of columns whose sources are shown.", (), most=800)
    down: tuple[str, ...] = parameter("Keys of columns whose targets are shown.", (), most=800)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSide:
    """What a column has one way besides what is drawn."""

    is_open: bool
    more: int
    hidden: int
    """Columns that policies hide from the viewer."""
    at_least: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownColumn:
    """A column in the picture."""

    name: str
    dataset: str
    label: str
    place: str
    """Beginning of its dataset's name, as much as there is room for."""
    key: str
    x: int
    y: int
    layer: int
    is_start: bool
    sources: ShownSide
    targets: ShownSide


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownArrow:
    """An arrow in the picture: all edges between two columns."""

    source: str
    target: str
    kind: str
    """`PROJECTION`, `PREDICATE` or `TABLE`."""
    is_masked: bool
    subtypes: tuple[str, ...]
    path: str
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEdge:
    """An edge in the table."""

    source: str
    target: str
    kind: str
    subtype: str
    is_masked: bool
    expression: str | None
    """None where the viewer may not see it."""
    statements: int
    finished: bool
    first_seen: datetime
    last_seen: datetime
    last_statement: str
    """Empty for somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageView:
    """A part of the graph, as a picture and as a table."""

    start: str
    choices: tuple[str, ...]
    """Columns that the name could mean; the viewer has to take one."""
    columns: tuple[ShownColumn, ...]
    arrows: tuple[ShownArrow, ...]
    edges: tuple[ShownEdge, ...]
    width: int
    height: int
    node_width: int
    node_height: int
    cut_off: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedColumns(PagedParameters):
    """A part of columns' names."""

    text: str = parameter("Part of the full name.", "", most=400)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundColumn:
    """A column of the graph."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnList:
    """Columns by name."""

    items: tuple[FoundColumn, ...]
    next: str
    cut_off: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedImpact:
    """A column that is to be changed."""

    column: str = parameter("Column or table.")
    depth: int = parameter("How many steps away.", 10, most=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedColumn:
    """What a change of the start does to a column."""

    name: str
    distance: int
    carries: str
    on_drop: str
    on_tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """All columns that a start feeds, nearest first."""

    start: tuple[str, ...]
    items: tuple[AffectedColumn, ...]
    cut_off: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakerReader:
    """Somebody who sees more of the copy."""

    principal: str
    protection: str
    there: str
    here: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunderedColumn:
    """A copy that is less protected than what it was made of."""

    source: str
    target: str
    way: tuple[str, ...]
    asks: bool
    readers: tuple[WeakerReader, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Laundered:
    """The last report; `made_at` is None where none was made yet."""

    made_at: datetime | None
    items: tuple[LaunderedColumn, ...]
    columns: int
    people: int
    cut_off: tuple[str, ...]


class LineagePages:
    """Answers questions to the graph."""

    def __init__(self, connect: ReadGraph, sight: OpenSight, make_report: MakeLaundering) -> None:
        self._connect = connect
        self._sight = sight
        self._make_report = make_report
        self._making = asyncio.Lock()
        self._report: Laundered | None = None
        self._made_s = 0.0

    async def show(self, viewer: Viewer, asked: AskedLineage) -> LineageView:
        if not asked.column.strip():
            return _empty_view("", ())
        async with self._connect() as connection:
            sight = self._sight_of(connection, viewer)
            start = await _find(connection, asked.column, _knows(sight))
            if len(start) != 1:
                return _empty_view("", tuple(str(one) for one in start[:MAX_CHOICES]))
            if len(asked.up) + len(asked.down) > MAX_OPENED:
                raise BadRequest(f"more than {MAX_OPENED} columns are open; begin at another column")
            opened = [(_column(key), Direction.UP) for key in asked.up]
            opened += [(_column(key), Direction.DOWN) for key in asked.down]
            found = await load_neighbourhood(connection, start[0], opened, _knows(sight))
            edges = await self._filter(viewer, sight, found.edges)
        drawing = await draw(found)
        shown = [_show(one, found) for one in drawing.columns]
        return replace(
            _empty_view(str(found.start), ()),
            columns=tuple(shown),
            arrows=tuple(
                ShownArrow(
                    source=str(one.source),
                    target=str(one.target),
                    kind=one.kind,
                    is_masked=one.carries is Carries.MASKED,
                    subtypes=one.subtypes,
                    path=one.path,
                    x=one.middle[0],
                    y=one.middle[1],
                )
                for one in drawing.edges
            ),
            edges=tuple(map(_edge, edges)),
            width=drawing.width,
            height=drawing.height,
            cut_off=found.cut_off,
        )

    async def list_columns(self, viewer: Viewer, asked: AskedColumns) -> ColumnList:
        after = GraphColumn(*decode_cursor(asked.after, str, str)) if asked.after else None
        limit = max(asked.limit, 1)
        async with self._connect() as connection:
            knows = _knows(self._sight_of(connection, viewer))
            found, cut_off = await search(connection, asked.text, knows, after=after, limit=limit + 1)
        page = found[:limit]
        return ColumnList(
            items=tuple(FoundColumn(name=str(one), key=_key(one)) for one in page),
            next=_key(page[-1]) if len(found) > limit else "",
            cut_off=cut_off,
        )

    async def report_impact(self, viewer: Viewer, asked: AskedImpact) -> Impact:
        async with self._connect() as connection:
            knows = _knows(self._sight_of(connection, viewer))
            start = await _find(connection, asked.column, knows)
            answer = await walk(
                connection,
                start,
                Direction.DOWN,
                knows,
                depth=max(asked.depth, 1),
                most_edges=MAX_IMPACT_EDGES,
            )
        return Impact(
            start=tuple(str(one) for one in answer.start[:MAX_CHOICES]),
            items=tuple(
                AffectedColumn(
                    name=str(one.column),
                    distance=one.distance,
                    carries=one.carries.name.lower(),
                    on_drop=_ON_DROP[one.distance == 1],
                    on_tag=_ON_TAG[one.carries],
                )
                for one in answer.reached
            ),
            cut_off=answer.cut_off,
        )

    async def show_laundering(self, viewer: Viewer, asked: NoParameters) -> Laundered:
        return self._report or Laundered(made_at=None, items=(), columns=0, people=0, cut_off=())

    async def make_laundering(self, viewer: Viewer, asked: NoParameters) -> Laundered:
        wanted_s = time.monotonic()
        # One at a time; whoever waited meanwhile is shown what the other one made.
        async with self._making:
            if self._report is None or self._made_s < wanted_s:
                async with self._connect() as connection:
                    report = await self._make_report(connection)
                self._made_s, self._report = time.monotonic(), _show_copy(report)
            return self._report

    def _sight_of(self, connection: Any, viewer: Viewer) -> SeesLineage | None:
        """Return what the viewer may know of; None for auditors, who see the names of all in the record."""
        return None if viewer.is_auditor else self._sight(connection, viewer)  # RULE (lineage-sight)

    async def _filter(self, viewer: Viewer, sight: SeesLineage | None, edges: tuple[Edge, ...]) -> list[Edge]:
        if sight is not None:
            return await sight.filter_visible(edges)
        if viewer.reads_texts:
            return list(edges)
        # They are parts of texts, and may hold values.
        return [replace(edge, expression=None) for edge in edges]  # RULE (lineage-expressions)


def _knows(sight: SeesLineage | None) -> Knows:
    return see_all_columns if sight is None else sight.knows


async def _find(connection: Any, name: str, knows: Knows) -> tuple[GraphColumn, ...]:
    try:
        return await find(connection, name.strip(), knows)
    except Ambiguous as error:
        raise BadRequest(error.message) from None
    except Faults as error:
        raise NotFound(error.message) from None


def _key(column: GraphColumn) -> str:
    return encode_cursor(column.dataset, column.name)


def _column(key: str) -> GraphColumn:
    return GraphColumn(*decode_cursor(key, str, str))


def _empty_view(start: str, choices: tuple[str, ...]) -> LineageView:
    return LineageView(
        start=start,
        choices=choices,
        columns=(),
        arrows=(),
        edges=(),
        width=0,
        height=0,
        node_width=NODE_WIDTH,
        node_height=NODE_HEIGHT,
        cut_off="",
    )


def _show(drawn: DrawnColumn, found: Neighbourhood) -> ShownColumn:
    column = drawn.column

    def side(direction: Direction) -> ShownSide:
        count = found.counts.get((column, direction), NeighbourCount())
        return ShownSide(
            is_open=(column, direction) in found.opened,
            more=count.more,
            hidden=count.hidden,
            at_least=count.at_least,
        )

    return ShownColumn(
        name=str(column),
        dataset=column.dataset,
        label=_shorten(column.name, keep_end=False),
        place=_shorten(column.dataset, keep_end=True),
        key=_key(column),
        x=drawn.x,
        y=drawn.y,
        layer=drawn.layer,
        is_start=column == found.start,
        sources=side(Direction.UP),
        targets=side(Direction.DOWN),
    )


def _shorten(text: str, *, keep_end: bool) -> str:
    if len(text) <= _LABEL_CHARS:
        return text
    return f"…{text[1 - _LABEL_CHARS :]}" if keep_end else f"{text[: _LABEL_CHARS - 1]}…"


def _edge(edge: Edge) -> ShownEdge:
    return ShownEdge(
        source=str(edge.source),
        target=str(edge.target),
        kind=kind_of(edge),
        subtype=edge.subtype,
        is_masked=edge.masking,
        expression=edge.expression,
        statements=edge.statements,
        finished=edge.finished,
        first_seen=edge.first_seen,
        last_seen=edge.last_seen,
        last_statement=str(edge.last_statement or ""),
    )


def _show_copy(report: LaunderingReport) -> Laundered:
    return Laundered(
        made_at=datetime.now(UTC),
        items=tuple(
            LaunderedColumn(
                source=str(one.source),
                target=str(one.target),
                way=tuple(f"{step['column']} ({step['flow']})" for step in one.way),
                asks=one.asks,
                readers=tuple(
                    WeakerReader(
                        principal=each.principal,
                        protection=each.protection.value,
                        there=each.there,
                        here=each.here,
                    )
                    for each in one.weaker
                ),
            )
            for one in report.found
        ),
        columns=report.columns,
        people=report.people,
        cut_off=tuple(report.cut_off),
    )


def part(service: LineagePages) -> ConsolePart:
    """Return the routes and the pages."""
    shown = ConsoleRoute.get(
        "/lineage",
        service.show,
        "Show a column with what feeds it and what it feeds, one level each way, and of those opened "
        "likewise.",
        name="show_lineage",
        own=OWN,
        unrecorded_because=NOT_RECORDED,
    )
    impact = ConsoleRoute.get(
        "/lineage/impact",
        service.report_impact,
        "List what dropping or tagging a column would reach.",
        name="show_impact",
        own=OWN,
        unrecorded_because=NOT_RECORDED,
        examples={"column": "hr.employee.salary"},
    )
    columns = ConsoleRoute.get(
        "/lineage/columns",
        service.list_columns,
        "Search columns of the graph by a part of their names.",
        name="find_columns",
        own=OWN,
        unrecorded_because=NOT_RECORDED,
    )
    laundering = ConsoleRoute.get(
        "/lineage/laundering",
        service.show_laundering,
        "List copies of protected columns that somebody may read who may not read these, as of the last "
        "report.",
    )
    # By POST, so that no link makes it: all policies, people and lineage are compared.
    made = ConsoleRoute.post(
        "/lineage/laundering",
        service.make_laundering,
        "Make the report of copies that are less protected than their source.",
        who=Who.AUDITOR,
    )
    return ConsolePart(
        routes=(columns, shown, impact, laundering, made),
        pages=(
            ConsolePage(
                route=shown,
                path="/lineage",
                template="lineage.html",
                title="Lineage",
                menu="Lineage",
                place=6,
            ),
            ConsolePage(
                route=columns, path="/lineage/columns", template="lineage_columns.html", title="Columns"
            ),
            ConsolePage(route=impact, path="/lineage/impact", template="lineage_impact.html", title="Impact"),
            ConsolePage(
                route=laundering,
                path="/lineage/laundering",
                template="lineage_laundering.html",
                title="Less protected copies",
            ),
        ),
        forms=(ConsoleForm(route=made, path="/lineage/laundering", then=lambda *_: "/lineage/laundering"),),
    )
