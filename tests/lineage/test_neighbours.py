"""The graph around one column: a level each way, opened by steps, counted and laid out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from gateway.database.migrate import migrate
from gateway.lineage.graph import Carries, Direction, Edge, GraphColumn, see_all_columns
from gateway.lineage.neighbours import (
    NODE_HEIGHT,
    NODE_WIDTH,
    NeighbourCount,
    find_layers,
    kind_of,
    lay_out,
    load_neighbourhood,
)
from gateway.lineage.store import store_lineage
from tests.lineage.statements import BEGINNING, seen

LAB = "spark_catalog.lab."


def column(name: str) -> GraphColumn:
    table, _, of = name.rpartition(".")
    return GraphColumn(LAB + table, of)


def edge(source: str, target: str, subtype: str = "IDENTITY", *, masking: bool = False) -> Edge:
    return Edge(
        source=column(source),
        target=column(target),
        subtype=subtype,
        masking=masking,
        expression="",
        statements=1,
        finished=True,
        first_seen=BEGINNING,
        last_seen=BEGINNING,
        last_statement=None,
    )


@pytest.fixture
async def graph(database: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    yield connection
    await connection.close()


def short(columns: Sequence[GraphColumn]) -> list[str]:
    return [str(one).removeprefix(LAB) for one in columns]


async def test_one_level_each_way_and_further_by_opening(graph: Any) -> None:
    await store_lineage(
        graph,
        [
            seen("raw.a, raw.b -> mid.c: a IDENTITY", "raw.k -> mid.c: k > 0 FILTER"),
            seen("older.z -> raw.a: z IDENTITY masked", "mid.c -> out.d, out.e: c IDENTITY"),
            seen("out.d -> last.f: d IDENTITY"),
        ],
    )
    found = await load_neighbourhood(graph, column("mid.c"), (), see_all_columns)
    assert short(found.columns) == ["mid.c", "raw.a", "raw.b", "out.d", "out.e"] or set(
        short(found.columns)
    ) >= {"mid.c", "raw.a", "raw.b", "out.d", "out.e"}
    assert "older.z" not in short(found.columns)
    assert found.counts[column("raw.a"), Direction.UP] == NeighbourCount(more=1)
    assert found.counts[column("out.d"), Direction.DOWN] == NeighbourCount(more=1)
    assert (column("mid.c"), Direction.UP) not in found.counts
    opened = await load_neighbourhood(
        graph,
        column("mid.c"),
        [(column("raw.a"), Direction.UP), (column("out.d"), Direction.DOWN)],
        see_all_columns,
    )
    assert set(short(opened.columns)) - set(short(found.columns)) == {"older.z", "last.f"}
    assert {kind_of(one) for one in opened.edges} == {"PROJECTION", "PREDICATE"}
    assert [one.carries for one in opened.edges if one.source == column("older.z")] == [Carries.MASKED]
    assert not opened.cut_off


async def test_what_the_viewer_may_not_know_of_is_counted_and_not_named(graph: Any) -> None:
    await store_lineage(
        graph,
        [
            seen("secret.s, raw.a -> mid.c: a IDENTITY", "secret.t -> secret.s: t IDENTITY"),
            seen("mid.c -> hidden.h: c IDENTITY"),
        ],
    )

    async def knows(columns: Sequence[GraphColumn]) -> frozenset[GraphColumn]:
        return frozenset(
            one for one in columns if "secret" not in one.dataset and "hidden" not in one.dataset
        )

    found = await load_neighbourhood(graph, column("mid.c"), [(column("secret.s"), Direction.UP)], knows)
    assert short(found.columns) == ["mid.c", "raw.a"]
    assert found.counts == {
        (column("mid.c"), Direction.UP): NeighbourCount(hidden=1),
        (column("mid.c"), Direction.DOWN): NeighbourCount(hidden=1),
    }
    assert (column("secret.s"), Direction.UP) not in found.opened
    assert "secret" not in repr(found)
    assert "hidden.h" not in repr(found)


async def test_results_of_others_are_not_counted(graph: Any) -> None:
    await store_lineage(graph, [seen("mid.c -> out.d: c IDENTITY")])
    await graph.execute("UPDATE sluice.lineage_dataset SET kind = 'result' WHERE name LIKE '%out'")

    async def knows(columns: Sequence[GraphColumn]) -> frozenset[GraphColumn]:
        return frozenset(one for one in columns if not one.dataset.endswith("out"))

    assert (await load_neighbourhood(graph, column("mid.c"), (), knows)).counts == {}


class OneResult:
    """A graph in which a column went into a result of a query, and into a table."""

    async def fetch(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        if "far_kind" not in sql:
            return []
        both = (("result:1", "result"), ("spark_catalog.lab.out", "table"))
        return [
            {"dataset": LAB + "mid", "name": "c", "far_dataset": name, "far_name": "d", "far_kind": kind}
            for name, kind in both
        ]


async def test_hidden_results_are_not_counted_and_hidden_tables_are() -> None:
    async def knows(columns: Sequence[GraphColumn]) -> frozenset[GraphColumn]:
        return frozenset({column("mid.c")})

    found = await load_neighbourhood(OneResult(), column("mid.c"), (), knows)
    assert found.counts[column("mid.c"), Direction.DOWN] == NeighbourCount(hidden=1)


async def test_a_picture_has_a_limit_and_says_what_is_left_out(graph: Any) -> None:
    sources = ", ".join(f"raw.c{number:03}" for number in range(200))
    await store_lineage(graph, [seen(f"{sources} -> mid.c: x IDENTITY")])
    found = await load_neighbourhood(graph, column("mid.c"), (), see_all_columns)
    assert len(found.columns) == 150
    assert found.cut_off == "51 more columns are not drawn"
    assert found.counts[column("mid.c"), Direction.UP] == NeighbourCount(more=51)
    assert len(lay_out(found.start, found.columns, found.edges).columns) == 150


def test_layers_are_steps_from_the_start_and_circles_end() -> None:
    edges = [edge("a.x", "b.x"), edge("b.x", "c.x"), edge("c.x", "a.x"), edge("b.x", "b.x")]
    assert find_layers(column("b.x"), edges) == {column("b.x"): 0, column("a.x"): -1, column("c.x"): 1}


def test_boxes_do_not_overlap_and_lie_within_the_picture() -> None:
    edges = [edge(f"a.c{n}", "m.x") for n in range(7)] + [edge("m.x", f"z.c{n}") for n in range(3)]
    edges += [edge(f"older.c{n}", f"a.c{6 - n}") for n in range(7)]
    columns = tuple(find_layers(column("m.x"), edges))
    drawing = lay_out(column("m.x"), columns, edges)
    boxes = [(one.x, one.y) for one in drawing.columns]
    assert len(set(boxes)) == len(boxes) == len(columns)
    for x, y in boxes:
        assert 0 <= x <= drawing.width - NODE_WIDTH
        assert 0 <= y <= drawing.height - NODE_HEIGHT
        assert not [1 for a, b in boxes if a == x and 0 < abs(b - y) < NODE_HEIGHT]
    # Each is beside what it is connected with: no two arrows between the two layers on the left cross.
    place = {one.column: one.y for one in drawing.columns}
    pairs = [(place[one.source], place[one.target]) for one in edges if one.source.dataset.endswith("older")]
    assert sorted(pairs) == sorted(pairs, key=lambda pair: pair[1])


def test_edges_between_two_columns_are_one_arrow_by_what_carries_most() -> None:
    edges = [edge("a.x", "b.x", "FILTER"), edge("a.x", "b.x", masking=True)]
    (arrow,) = lay_out(column("b.x"), (column("b.x"), column("a.x")), edges).edges
    assert (arrow.kind, arrow.carries, arrow.subtypes) == (
        "PROJECTION",
        Carries.MASKED,
        ("FILTER", "IDENTITY"),
    )
