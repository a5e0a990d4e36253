"""Statements with their lineage, written in one line each."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from gateway.lineage.rows import SeenStatement
from gateway.model.lineage import (
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

BEGINNING = datetime(2026, 11, 1, 12, tzinfo=UTC)


def table(name: str) -> Dataset:
    return Dataset(DatasetKind.TABLE, ("spark_catalog", "lab", name))


def vertex(name: str) -> ColumnVertex:
    """`t.c` → the column c of the table t."""
    of, _, column = name.rpartition(".")
    return ColumnVertex(table(of), column)


def edge(line: str) -> LineageEdge:
    """`a.x, a.y -> b.z: EXPRESSION SUBTYPE[ masked]` → a PROJECTION, or a PREDICATE for indirect subtypes."""
    ends, _, rest = line.partition(": ")
    sources, _, targets = ends.partition(" -> ")
    expression, _, kind = rest.removesuffix(" masked").rpartition(" ")
    transformation = Transformation(Subtype(kind), masking=rest.endswith(" masked"))
    direct = transformation.subtype.type.value == "DIRECT"
    return LineageEdge(
        type=EdgeType.PROJECTION if direct else EdgeType.PREDICATE,
        sources=tuple(SourceColumn(vertex(name), (transformation,)) for name in sources.split(", ")),
        targets=tuple(vertex(name) for name in targets.split(", ")),
        expression=expression,
    )


def seen(
    *lines: str, minute: int = 0, outcome: str = "finished", statement_id: uuid.UUID | None = None
) -> SeenStatement:
    """Return a statement that was run so many minutes after the beginning."""
    edges = tuple(edge(line) for line in lines)
    targets = {v: None for e in edges for v in e.targets}
    return SeenStatement(
        statement_id=statement_id or uuid.uuid4(),
        time=BEGINNING + timedelta(minutes=minute),
        user="bob",
        text="; ".join(lines),
        outcome=outcome,
        lineage=StatementLineage(
            operation=Operation.INSERT,
            targets=tuple({v.dataset: None for v in targets}),
            inputs=tuple({s.column.dataset: None for e in edges for s in e.sources}),
            columns=tuple(targets),
            edges=edges,
        ),
    )
