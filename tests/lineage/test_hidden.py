"""INVARIANT (hidden is not there): who may not know of columns gets the answers of a graph without them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import asyncpg

from gateway.database.migrate import migrate
from gateway.errors import Faults
from gateway.lineage.graph import (
    Direction,
    GraphColumn,
    Knows,
    find,
    find_paths,
    search,
    see_all_columns,
    statement,
    walk,
)
from gateway.lineage.store import KnownIds, store_lineage
from gateway.model.lineage import Operation, StatementLineage
from tests.effort import tries
from tests.lineage.statements import seen, table

TABLES, WIDTH = 6, 4


def column(chance: random.Random) -> str:
    return f"t{chance.randrange(TABLES)}.c{chance.randrange(WIDTH)}"


async def told(graph: Any, knows: Knows, ids: Sequence[Any], asked: random.Random) -> list[object]:
    """Return the answers to all kinds of questions."""
    found: list[object] = []
    for _ in range(4):
        name = asked.choice(
            [column(asked), f"t{asked.randrange(TABLES)}", "c1", f"lab.t{asked.randrange(9)}.*"]
        )
        depth, most = asked.randint(1, 6), asked.randint(1, 12)
        try:
            start = await find(graph, name, knows)
        except Faults as fault:
            found.append(fault.message)
            continue
        for direction in Direction:
            found.append(await walk(graph, start, direction, knows, depth=depth, most_edges=most))
            found.append(await walk(graph, start, direction, knows))
        try:
            (end, *_) = await find(graph, column(asked), knows)
        except Faults as fault:
            found.append(fault.message)
            continue
        found.append(await find_paths(graph, start[0], end, knows, depth=depth, most=5))
    after = GraphColumn("spark_catalog.lab.t1", "c2")
    found.append(await search(graph, asked.choice(("t", "c1", "t3")), knows, limit=5))
    found.append(await search(graph, "", knows, after=after, limit=3))
    found += [await statement(graph, id_, knows) for id_ in ids]
    return found


async def test_answers_are_those_of_a_graph_without_what_is_hidden(database: str) -> None:
    graph = await asyncpg.connect(database)
    await migrate(graph)
    for seed in range(tries(25)):
        chance = random.Random(seed)
        await graph.execute("TRUNCATE sluice.lineage_dataset, sluice.lineage_statement CASCADE")
        batch = []
        for _ in range(chance.randint(3, 12)):
            kind = chance.choice(("x IDENTITY", "x TRANSFORMATION masked", "x > 0 FILTER"))
            targets = ", ".join({column(chance) for _ in range(chance.randint(1, 2))})
            batch.append(seen(f"{column(chance)} -> {targets}: {kind}"))
        lineage = StatementLineage(
            operation=Operation.INSERT,
            targets=(table("t1"),),
            inputs=(table("t2"),),
            table_level="no reading",
        )
        batch.append(replace(seen("t2.c1 -> t1.c1: x IDENTITY"), lineage=lineage))
        await store_lineage(graph, batch)
        of_hidden_table = f"spark_catalog.lab.t{chance.randrange(TABLES)}"
        hidden = {
            GraphColumn(row["dataset"], row["name"])
            for row in await graph.fetch(
                "SELECT d.name AS dataset, c.name FROM sluice.lineage_column c"
                " JOIN sluice.lineage_dataset d ON d.id = c.dataset ORDER BY 1, 2"
            )
            if chance.random() < 0.2 or row["dataset"] == of_hidden_table
        }

        async def knows(
            columns: Sequence[GraphColumn], hidden: set[GraphColumn] = hidden
        ) -> frozenset[GraphColumn]:
            return frozenset(columns) - hidden

        ids = [one.statement_id for one in batch[:3]]
        to_asker = await told(graph, knows, ids, random.Random(seed))
        await graph.execute(
            "DELETE FROM sluice.lineage_column c USING sluice.lineage_dataset d WHERE d.id = c.dataset"
            " AND (d.name, c.name) IN (SELECT * FROM unnest($1::text[], $2::text[]))",
            [one.dataset for one in hidden],
            [one.name for one in hidden],
        )
        assert to_asker == await told(graph, see_all_columns, ids, random.Random(seed)), f"seed {seed}"
    await graph.close()


async def test_a_graph_that_was_emptied_is_filled_again(database: str) -> None:
    graph = await asyncpg.connect(database)
    await migrate(graph)
    known = KnownIds()
    lines = "a.x -> b.x: x IDENTITY", "a.y -> b.x: y > 0 FILTER"
    for _ in range(2):
        await store_lineage(graph, [seen(*lines)], known)
    await graph.execute("TRUNCATE sluice.lineage_dataset, sluice.lineage_statement CASCADE")
    assert await store_lineage(graph, [seen(*lines), seen("a.x -> c.x: x IDENTITY")], known) == 2
    assert await graph.fetchval("SELECT sum(statements) FROM sluice.lineage_edge") == 3
    assert await store_lineage(graph, [seen(*lines)], known) == 1
    assert await graph.fetchval("SELECT sum(statements) FROM sluice.lineage_edge") == 5
    await graph.close()
