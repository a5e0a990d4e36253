"""A graph of a million edges, as a warehouse of some years would have it, and statements that go on in it.

20,000 tables of 25 columns: 8,000 raw; 6,000 staged, each from one of them; 3,000 in the core, each from four
(a fifth of them from the core itself); 2,000 marts, each from four; 1,000 reports, each from three marts. And
the results of 40,000 queries on marts and reports. A column is made of one or two others; a table's rows are
decided by six columns of what it reads, two of them of a handful of dimensions that everybody joins.
"""

from __future__ import annotations

import pickle
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.lineage.graph import GraphColumn
from gateway.lineage.rows import SeenStatement
from gateway.model.lineage import (
    RESULT,
    ColumnVertex,
    Dataset,
    DatasetKind,
    EdgeType,
    LineageEdge,
    Operation,
    SourceColumn,
    StatementLineage,
    Subtype,
    Transformation,
)

BEGAN = datetime(2024, 1, 1, tzinfo=UTC)
WIDTH = 25
LAYERS = {"raw": 8_000, "staging": 6_000, "core": 3_000, "mart": 2_000, "report": 1_000}
READS = {"staging": ("raw", 1), "core": ("staging", 4), "mart": ("core", 4), "report": ("mart", 3)}
RESULTS = 40_000
DIMENSIONS = 5
_VALUES = [*[Subtype.IDENTITY] * 6, *[Subtype.TRANSFORMATION] * 3, Subtype.AGGREGATION]
_ROWS = [Subtype.JOIN, Subtype.FILTER, Subtype.FILTER, Subtype.GROUP_BY]


@dataclass(frozen=True, slots=True)
class Made:
    """A graph in the database."""

    edges: int
    columns: int
    typical: list[GraphColumn]
    """Columns of reports."""
    hub: GraphColumn
    """The key of a dimension, which decides on rows nearly everywhere."""


def names(layer: str) -> Iterator[str]:
    for number in range(LAYERS[layer]):
        yield f"spark_catalog.{layer}.t{number}"


async def make(connection: Any, *, share: float = 1.0, seed: int = 1) -> Made:
    """Put the graph, or a share of it, into an empty database, past `bring`: that has figures of its own."""
    chance = random.Random(seed)
    tables = {layer: list(names(layer))[: max(DIMENSIONS, int(n * share))] for layer, n in LAYERS.items()}
    ids: dict[str, int] = {}
    columns: dict[tuple[str, str], int] = {}
    datasets: list[tuple[Any, ...]] = []
    edges: dict[tuple[int, int, str], tuple[Any, ...]] = {}

    def dataset(name: str, kind: str, width: int) -> None:
        ids[name] = len(ids) + 1
        datasets.append((ids[name], name, kind, name.split("."), BEGAN, BEGAN, None))
        for column in (*(f"c{n}" for n in range(width)), "*"):
            columns[name, column] = len(columns) + 1

    def connect(source: tuple[str, str], target: tuple[str, str], subtype: Subtype) -> None:
        key = columns[source], columns[target], subtype.value
        edges[key] = (
            *key,
            False,
            f"f({source[1]}, {target[1]})",
            3,
            True,
            BEGAN,
            BEGAN,
            uuid.UUID(int=chance.getrandbits(128)),
        )

    def fill(name: str, width: int, read: list[str]) -> None:
        for n in range(width):
            for _ in range(chance.choice((1, 1, 2))):
                source = chance.choice(read), f"c{chance.randrange(WIDTH)}"
                connect(source, (name, f"c{n}"), chance.choice(_VALUES))
        for n in range(6):
            dimension = chance.randrange(DIMENSIONS)
            source = (
                (f"spark_catalog.core.t{dimension}", "c0")
                if n < 2 and name.startswith(("spark_catalog.mart", "spark_catalog.report"))
                else (chance.choice(read), f"c{chance.randrange(WIDTH)}")
            )
            connect(source, (name, "*"), chance.choice(_ROWS))

    for layer in LAYERS:
        for name in tables[layer]:
            dataset(name, "table", WIDTH)
    for layer, (below, count) in READS.items():
        for number, name in enumerate(tables[layer]):
            among = tables[layer][:number] if layer == "core" and number > 50 and number % 5 == 0 else None
            fill(name, WIDTH, chance.sample(among or tables[below], count))
    served = tables["mart"] + tables["report"]
    for number in range(int(RESULTS * share)):
        name = f"result:{number:016x}"
        dataset(name, "result", 8)
        fill(name, 8, chance.sample(served, 2))
    await connection.copy_records_to_table(
        "lineage_dataset",
        schema_name="sluice",
        columns=("id", "name", "kind", "parts", "first_seen", "last_seen", "user_name"),
        records=datasets,
    )
    await connection.copy_records_to_table(
        "lineage_column",
        schema_name="sluice",
        columns=("id", "dataset", "name"),
        records=[(id_, ids[of], name) for (of, name), id_ in columns.items()],
    )
    await connection.copy_records_to_table(
        "lineage_edge",
        schema_name="sluice",
        columns=(
            "source target subtype masking expression statements finished first_seen last_seen last_statement"
        ).split(),
        records=list(edges.values()),
    )
    for name, last in (("dataset", len(ids)), ("column", len(columns))):
        await connection.execute(
            "SELECT setval(pg_get_serial_sequence($1, 'id'), $2)", f"sluice.lineage_{name}", last
        )
    await connection.execute("VACUUM ANALYZE")
    typical = [GraphColumn(name, f"c{chance.randrange(WIDTH)}") for name in tables["report"]]
    return Made(len(edges), len(columns), typical, GraphColumn("spark_catalog.core.t0", "c0"))


def statements(count: int, *, seed: int = 1) -> list[SeenStatement]:
    """Return statements as a day has them.

    Six of ten are queries of dashboards (8 columns and 5 conditions, a thousand of them), three of ten are
    jobs (INSERT of 25 columns with 6 conditions, five hundred of them), of both a few come much more often
    than the others; one of ten is somebody's own query (6 columns, 3 conditions), never seen before. Each has
    a lineage of its own in memory, as one that came from another process.
    """
    chance = random.Random(seed)
    often = [1 / (n + 1) for n in range(1_000)]
    made: dict[tuple[str, int], bytes] = {}
    found = []
    for number in range(count):
        kind = chance.choices(("dashboard", "job", "own"), (6, 3, 1))[0]
        which = (
            number
            if kind == "own"
            else chance.choices(range(1_000), often)[0] % {"dashboard": 1_000, "job": 500}[kind]
        )
        if (kind, which) not in made:
            lineage = _lineage(kind, which, random.Random(f"{kind} {which}"))
            made[kind, which] = pickle.dumps(lineage)
        found.append(
            SeenStatement(
                statement_id=uuid.UUID(int=chance.getrandbits(128)),
                time=BEGAN + timedelta(days=800, seconds=number),
                user="bi" if kind == "dashboard" else "etl" if kind == "job" else f"user{number % 50}",
                text=f"{kind} {which} " + "x" * 800,
                outcome="finished",
                lineage=pickle.loads(made[kind, which]),
            )
        )
    return found


def _table(layer: str, chance: random.Random) -> Dataset:
    return Dataset(DatasetKind.TABLE, ("spark_catalog", layer, f"t{chance.randrange(LAYERS[layer])}"))


def _lineage(kind: str, which: int, chance: random.Random) -> StatementLineage:
    if kind == "job":
        layer = chance.choice(("staging", "core", "mart", "report"))
        target = Dataset(DatasetKind.TABLE, ("spark_catalog", layer, f"t{which}"))
        read = [_table(READS[layer][0], chance) for _ in range(READS[layer][1])]
    else:
        target, read = RESULT, [_table(chance.choice(("mart", "report")), chance) for _ in range(2)]
    width, conditions = {"job": (25, 6), "dashboard": (8, 5), "own": (6, 3)}[kind]
    columns = tuple(ColumnVertex(target, f"c{n}") for n in range(width))

    def sources(count: int, subtype: Subtype) -> tuple[SourceColumn, ...]:
        picked = {ColumnVertex(chance.choice(read), f"c{chance.randrange(WIDTH)}") for _ in range(count)}
        return tuple(SourceColumn(one, (Transformation(subtype),)) for one in picked)

    edges = [
        LineageEdge(
            type=EdgeType.PROJECTION,
            sources=sources(chance.choice((1, 1, 2)), chance.choice(_VALUES)),
            targets=(column,),
            expression=f"coalesce(t.{column.column}, 0) AS {column.column}",
        )
        for column in columns
    ]
    edges += [
        LineageEdge(
            type=EdgeType.PREDICATE,
            sources=sources(chance.choice((1, 2)), chance.choice(_ROWS)),
            targets=columns,
            expression=f"a.c{n} = b.c{n}",
        )
        for n in range(conditions)
    ]
    return StatementLineage(
        operation=Operation.INSERT if kind == "job" else Operation.QUERY,
        targets=(target,),
        inputs=tuple(read),
        columns=columns,
        edges=tuple(edges),
    )
