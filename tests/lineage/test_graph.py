"""The graph answers what feeds what, as the statements that were brought into it say."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from gateway.database.migrate import migrate
from gateway.errors import Faults
from gateway.lineage.graph import (
    Carries,
    Direction,
    GraphAnswer,
    GraphColumn,
    Ways,
    find,
    find_paths,
    search,
    see_all_columns,
    walk,
)
from gateway.lineage.store import KnownIds, store_lineage
from gateway.model.lineage import Dataset, DatasetKind, Operation, StatementLineage
from tests.lineage.statements import BEGINNING, seen, table, vertex

UP, DOWN = Direction.UP, Direction.DOWN


@pytest.fixture
async def graph(database: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    yield connection
    await connection.close()


def column(name: str) -> GraphColumn:
    of, _, last = name.rpartition(".")
    return GraphColumn(f"spark_catalog.lab.{of}", last)


def reached(answer: GraphAnswer) -> dict[str, tuple[int, str]]:
    return {
        str(one.column).removeprefix("spark_catalog.lab."): (one.distance, one.carries.name.lower())
        for one in answer.reached
    }


async def test_values_masked_values_and_what_decides_are_told_apart(graph: Any) -> None:
    await store_lineage(
        graph,
        [
            seen("raw.ssn -> mid.ssn: ssn IDENTITY", "raw.region -> mid.ssn: region='x' FILTER"),
            seen(
                "mid.ssn -> top.id: sha2(ssn) TRANSFORMATION masked",
                "mid.ssn -> top.n: count(ssn) AGGREGATION",
            ),
        ],
    )
    down = await walk(graph, [column("raw.ssn")], DOWN, see_all_columns)
    assert reached(down) == {"mid.ssn": (1, "values"), "top.id": (2, "masked"), "top.n": (2, "values")}
    assert not down.cut_off
    assert reached(await walk(graph, [column("raw.region")], DOWN, see_all_columns)) == {
        "mid.ssn": (1, "influence"),
        "top.id": (2, "influence"),
        "top.n": (2, "influence"),
    }
    up = await walk(graph, [column("top.id")], UP, see_all_columns)
    assert reached(up) == {"mid.ssn": (1, "masked"), "raw.ssn": (2, "masked"), "raw.region": (2, "influence")}


async def test_a_condition_on_all_columns_is_one_edge_and_found_from_each(graph: Any) -> None:
    await store_lineage(
        graph, [seen("a.x -> b.x: x IDENTITY", "a.y -> b.y: y IDENTITY", "a.z -> b.x, b.y: z > 0 FILTER")]
    )
    assert await graph.fetchval("SELECT count(*) FROM sluice.lineage_edge") == 3
    up = await walk(graph, [column("b.y")], UP, see_all_columns)
    assert reached(up) == {"a.y": (1, "values"), "a.z": (1, "influence")}
    down = await walk(graph, [column("a.z")], DOWN, see_all_columns)
    assert reached(down) == {"b.*": (1, "influence")}


async def test_what_is_known_of_tables_only_leads_on_through_every_column(graph: Any) -> None:
    unread = StatementLineage(
        operation=Operation.INSERT, targets=(table("b"),), inputs=(table("a"),), table_level="no reading"
    )
    await store_lineage(
        graph,
        [
            seen("raw.x -> a.x: x IDENTITY"),
            replace(seen("a.x -> b.x: x IDENTITY", minute=1), lineage=unread),
            seen("b.y -> c.y: y IDENTITY", minute=2),
        ],
    )
    assert reached(await walk(graph, [column("c.y")], UP, see_all_columns)) == {
        "b.y": (1, "values"),
        "a.*": (2, "values"),
        "raw.x": (3, "values"),
    }
    assert "c.y" in reached(await walk(graph, [column("raw.x")], DOWN, see_all_columns))


async def test_of_a_statement_with_too_many_edges_its_tables_are_known(graph: Any) -> None:
    sources = ", ".join(f"a.x{i}" for i in range(200))
    wide = seen(*(f"{sources} -> b.y{i}: x TRANSFORMATION" for i in range(101)))
    assert await store_lineage(graph, [wide]) == 1
    assert reached(await walk(graph, [column("b.*")], UP, see_all_columns)) == {"a.*": (1, "values")}
    told = await graph.fetchval("SELECT table_level FROM sluice.lineage_statement")
    assert told == "it has more than 20,000 edges between columns"


async def test_a_name_of_any_length_is_there_and_is_its_own(graph: Any) -> None:
    chance = random.Random(7)
    long, other = ("".join(chance.choices("abcdefghijklmnopqrstuvwxyzäßΩ", k=9_000)) for _ in range(2))
    await store_lineage(
        graph,
        [
            seen(
                f"a.x -> {long}.y: x IDENTITY",
                f"a.x -> b.{long}: x IDENTITY",
                f"a.z -> {other}.y: z IDENTITY",
            )
        ],
    )
    down = reached(await walk(graph, [column("a.x")], DOWN, see_all_columns))
    assert len(down) == 2
    assert len({name for name in down if len(name) < 600}) == 2
    assert await graph.fetchval("SELECT count(*) FROM sluice.lineage_dataset") == 4


async def test_what_is_remembered_of_large_statements_is_bounded(graph: Any) -> None:
    sources = ", ".join(f"a.x{i}" for i in range(150))
    known = KnownIds()
    for number in range(3):
        edges = (f"{sources} -> b.y{i}: x + {number} TRANSFORMATION" for i in range(100))
        await store_lineage(graph, [seen(*edges)], known)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gateway.lineage.store.MAX_KEPT", 35_000)
        known.trim()
    assert sum(shape.weight for shape in known._shapes.values()) <= 35_000
    assert len(known._shapes) == 2


async def test_a_longer_way_that_carries_more_counts(graph: Any) -> None:
    await store_lineage(
        graph,
        [
            seen("a.x -> d.x: x>0 FILTER"),
            seen("a.x -> b.x: x IDENTITY"),
            seen("b.x -> c.x: x IDENTITY"),
            seen("c.x -> d.x: x IDENTITY"),
            seen("d.x -> e.x: x IDENTITY"),
        ],
    )
    down = reached(await walk(graph, [column("a.x")], DOWN, see_all_columns))
    assert down["d.x"] == (1, "values")
    assert down["e.x"] == (2, "values")


async def test_circles_end_and_bounds_are_told(graph: Any) -> None:
    await store_lineage(graph, [seen(f"t{n}.x -> t{(n + 1) % 30}.x: x IDENTITY") for n in range(30)])
    whole = await walk(graph, [column("t0.x")], DOWN, see_all_columns, depth=100)
    assert len(whole.edges) == 30
    assert len(whole.reached) == 29
    assert not whole.cut_off
    near = await walk(graph, [column("t0.x")], DOWN, see_all_columns, depth=5)
    assert len(near.reached) == 5
    assert "more than 5 steps" in near.cut_off
    few = await walk(graph, [column("t0.x")], DOWN, see_all_columns, depth=100, most_edges=7)
    assert len(few.edges) == 7
    assert "more than 7" in few.cut_off


async def test_what_the_asker_may_not_know_of_hides_what_lies_behind_it(graph: Any) -> None:
    await store_lineage(
        graph,
        [seen("a.x -> b.x: x IDENTITY"), seen("b.x -> c.x: x IDENTITY"), seen("a.x -> d.x: x IDENTITY")],
    )

    async def all_but_b(columns: Sequence[GraphColumn]) -> frozenset[GraphColumn]:
        return frozenset(columns) - {column("b.x")}

    assert reached(await walk(graph, [column("a.x")], DOWN, all_but_b)) == {"d.x": (1, "values")}
    with pytest.raises(Faults, match="may not see it"):
        await find(graph, "b.x", all_but_b)
    with pytest.raises(Faults, match="may not see it"):
        await find(graph, "nope.x", all_but_b)
    assert await find_paths(graph, column("a.x"), column("c.x"), all_but_b) == Ways()


async def test_a_name_is_found_from_its_end(graph: Any) -> None:
    await store_lineage(
        graph,
        [seen("emp.salary -> top.pay: salary IDENTITY"), seen("old.salary -> top.`p.q`: salary IDENTITY")],
    )
    assert await find(graph, "emp.salary", see_all_columns) == (column("emp.salary"),)
    assert await find(graph, "LAB.Emp.Salary", see_all_columns) == (column("emp.salary"),)
    assert await find(graph, "lab.emp", see_all_columns) == (column("emp.salary"),)
    with pytest.raises(Faults, match="is ambiguous"):
        await find(graph, "salary", see_all_columns)
    with pytest.raises(Faults, match="no statement"):
        await find(graph, "alary", see_all_columns)


@pytest.mark.parametrize("chunk", [7, 1_000])
async def test_a_part_of_a_name_is_found_wherever_it_is(
    graph: Any, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """As each name by itself says: within the table's, within the column's, over the dots; in pages, too."""
    monkeypatch.setattr("gateway.lineage.graph._CHUNK", chunk)
    tables = {f"`C.at`.d{n // 40}.t{n}": n for n in range(1, 120)}
    columns = ("id", "a.b", "d1", "t1", "*")
    await graph.execute(
        """INSERT INTO sluice.lineage_dataset (name, kind, parts, first_seen, last_seen)
          SELECT name, 'table', ARRAY[name], now(), now() FROM unnest($1::text[]) AS t (name)""",
        list(tables),
    )
    await graph.execute(
        """INSERT INTO sluice.lineage_column (dataset, name)
          SELECT id, column_name FROM sluice.lineage_dataset, unnest($1::text[]) AS c (column_name)""",
        list(columns),
    )
    every = sorted(GraphColumn(table, name) for table in tables for name in columns)
    for text in (
        "",
        "id",
        "at.d1.t4",
        "d1",
        "t1.a",
        "1.a.b",
        ".",
        "t11.",
        ".*",
        "A.B",
        "`c.at`.d0",
        "nothing",
    ):
        wanted = text.lower().replace("`", "")
        expected = [one for one in every if wanted in f"{one.dataset.lower().replace('`', '')}.{one.name}"]
        assert await search(graph, text, see_all_columns, limit=10_000) == (expected, ""), text
        found: list[GraphColumn] = []
        while page := (
            await search(graph, text, see_all_columns, after=found[-1] if found else None, limit=101)
        )[0]:
            found += page
        assert found == expected, text


async def test_ways_between_two_columns_come_shortest_first(graph: Any) -> None:
    await store_lineage(
        graph,
        [
            seen("a.x -> c.x: x IDENTITY"),
            seen("a.x -> b.x: x IDENTITY"),
            seen("b.x -> c.x: x IDENTITY"),
            seen("c.x -> a.x: x IDENTITY"),
        ],
    )
    found = (await find_paths(graph, column("a.x"), column("c.x"), see_all_columns)).found
    assert [[str(e.target).rpartition("lab.")[2] for e in way] for way in found] == [["c.x"], ["b.x", "c.x"]]


async def test_a_statement_counts_once_however_often_it_comes(graph: Any) -> None:
    one = seen("a.x -> b.x: x IDENTITY", minute=5, outcome="failed")
    again = seen("a.x -> b.x: x + 0 IDENTITY", minute=3)
    assert await store_lineage(graph, [one, one]) == 1
    assert await store_lineage(graph, [one, again]) == 1
    (edge,) = (await walk(graph, [column("b.x")], UP, see_all_columns)).edges
    assert (edge.statements, edge.finished, edge.expression) == (2, True, "x")
    assert (edge.last_statement, edge.last_seen) == (one.statement_id, one.time)
    assert edge.first_seen == again.time


async def test_gateways_that_bring_the_same_edges_at_once_do_not_stop_each_other(
    graph: Any, database: str
) -> None:
    lines = [f"a.c{n} -> b.c{n}: c IDENTITY" for n in range(40)]

    async def gateway(number: int) -> None:
        chance = random.Random(number)
        connection = await asyncpg.connect(database)
        for _ in range(10):
            await store_lineage(connection, [seen(*chance.sample(lines, 20)) for _ in range(5)])
        await connection.close()

    await asyncio.gather(*(gateway(number) for number in range(4)))
    assert await graph.fetchval("SELECT sum(statements) FROM sluice.lineage_edge") == 4 * 10 * 5 * 20


async def test_names_that_postgresql_does_not_take_are_kept_as_it_can(graph: Any) -> None:
    odd = seen("a.x -> b.x: x IDENTITY")
    path = Dataset(DatasetKind.PATH, ("/data/\0/\ud800", "x"))
    lineage = replace(odd.lineage, inputs=(path, Dataset(DatasetKind.PATH, ("/data/\u2400/\ufffd", "x"))))
    assert await store_lineage(graph, [replace(odd, user="b\0b", lineage=lineage)]) == 1
    assert await graph.fetchval("SELECT count(*) FROM sluice.lineage_dataset WHERE kind = 'path'") == 1


async def test_results_and_temporary_views_have_names_of_their_own(graph: Any) -> None:
    one = seen("a.x -> b.x: x IDENTITY")
    view = Dataset(DatasetKind.TEMP_VIEW, ("v",))
    result = Dataset(DatasetKind.RESULT, ())
    lineage = replace(one.lineage, inputs=(view,), targets=(result,), edges=(), columns=())
    for session in ("s1", "s2"):
        await store_lineage(
            graph, [replace(one, statement_id=uuid.uuid4(), session_id=session, lineage=lineage)]
        )
    names = {row["name"] for row in await graph.fetch("SELECT name FROM sluice.lineage_dataset")}
    assert {"session:bob/s1.v", "session:bob/s2.v"} < names
    assert len([name for name in names if name.startswith("result:")]) == 1
    await store_lineage(
        graph, [replace(one, statement_id=uuid.uuid4(), user="eve", session_id="s1", lineage=lineage)]
    )
    rows = await graph.fetch("SELECT name, user_name FROM sluice.lineage_dataset WHERE user_name = 'eve'")
    assert "session:eve/s1.v" in {row["name"] for row in rows}
    assert len(rows) == 2, "another user's views and results are others"


def test_the_words_of_the_tests_mean_what_they_say() -> None:
    statement = seen("a.x, a.y -> b.z: x + y TRANSFORMATION")
    assert [s.column for s in statement.lineage.edges[0].sources] == [vertex("a.x"), vertex("a.y")]
    assert statement.time == BEGINNING
    assert Carries.VALUES > Carries.MASKED > Carries.INFLUENCE
