"""What the database keeps of the lineage of one statement: names of columns, and edges between two of them.

A condition bears on all rows of its target. An edge to each of a hundred columns would say no more than one
to `*`, the column that stands for all, so edges to every column of a target are kept as one to its `*`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote
from uuid import UUID

from gateway.database.texts import storable
from gateway.model.lineage import (
    ANY_COLUMN,
    ColumnVertex,
    Dataset,
    DatasetKind,
    EdgeType,
    LineageEdge,
    StatementLineage,
)

EXPRESSION_CHARS = 2000
"""What is kept of an expression's text; the whole is in the statement."""
TABLE_LEVEL = "TABLE"
"""The subtype of an edge between tables whose columns nobody could read."""
OWN = frozenset({DatasetKind.RESULT, DatasetKind.TEMP_VIEW})
"""Kinds of datasets that are the user's whose statement made them, and nobody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A statement that was run, or was found in a script, and its lineage."""

    statement_id: UUID
    time: datetime
    user: str
    text: str
    """Its text; what a plain query answers is named by it."""
    session_id: str = ""
    """Temporary views are named within it."""
    outcome: str
    """`finished` or as the audit record has it; `imported` for scripts."""
    ended: datetime | None = None
    """When it came to its outcome; None where nobody knows."""
    error: str = ""
    """Of one that failed: its error as the record has it."""
    lineage: StatementLineage

    @property
    def finished(self) -> bool:
        return self.outcome == "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRow:
    """An edge as it is kept. Names are (dataset, column), as `dataset_name` writes them."""

    source: tuple[str, str]
    target: tuple[str, str]
    subtype: str
    masking: bool
    expression: str

    @property
    def key(self) -> tuple[tuple[str, str], tuple[str, str], str, bool]:
        return self.source, self.target, self.subtype, self.masking


def dataset_name(dataset: Dataset, seen: Seen) -> str:
    """Return the name by which a dataset is known in the graph, across statements and sessions.

    What a query answers and a session's views are named by their user too: another user's are others.
    """
    match dataset.kind:
        case DatasetKind.RESULT:
            text = f"{len(seen.user)} {seen.user} {seen.text}"
            return "result:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        case DatasetKind.TEMP_VIEW:
            # Clients of Spark Connect choose their session ids, so two users may have the same one.
            return storable(
                f"session:{quote(seen.user, safe='', errors='replace')}/{seen.session_id}.{dataset}"
            )
        case DatasetKind.PATH:
            return storable("path:" + "/".join(dataset.parts))
        case DatasetKind.TABLE | DatasetKind.VIEW:
            return storable(str(dataset))


def _column(vertex: ColumnVertex, seen: Seen) -> tuple[str, str]:
    return dataset_name(vertex.dataset, seen), storable(vertex.column)


def datasets_of(seen: Seen) -> dict[str, Dataset]:
    """Return every dataset that a statement's lineage names, by the graph's name of it."""
    lineage = seen.lineage
    named = {dataset_name(d, seen): d for d in (*lineage.inputs, *lineage.targets, *lineage.views)}
    for edge in _edges(lineage):
        for vertex in _vertices(edge):
            named.setdefault(dataset_name(vertex.dataset, seen), vertex.dataset)
    return named


def columns_of(seen: Seen) -> set[tuple[str, str]]:
    """Return every column that a statement gives values or reads, as (dataset, column)."""
    lineage = seen.lineage
    found = {_column(vertex, seen) for vertex in lineage.columns}
    for row in edges_of(seen):
        found |= {row.source, row.target}
    return found


def edges_of(seen: Seen) -> list[EdgeRow]:
    """Return a statement's edges from one column to one column, each once."""
    rows: dict[object, EdgeRow] = {}
    lineage = seen.lineage
    if lineage.table_level:
        for read in lineage.inputs:
            for written in lineage.targets:
                row = EdgeRow(
                    source=(dataset_name(read, seen), ANY_COLUMN),
                    target=(dataset_name(written, seen), ANY_COLUMN),
                    subtype=TABLE_LEVEL,
                    masking=False,
                    expression="",
                )
                rows.setdefault(row.key, row)
    all_columns = _columns_by_dataset(lineage.columns)
    for edge in _edges(lineage):
        targets = _targets(edge, all_columns)
        for source in edge.sources:
            for transformation in source.transformations:
                for target in targets:
                    row = EdgeRow(
                        source=_column(source.column, seen),
                        target=_column(target, seen),
                        subtype=transformation.subtype.value,
                        masking=transformation.masking,
                        expression=storable(edge.expression[:EXPRESSION_CHARS]),
                    )
                    rows.setdefault(row.key, row)
    return list(rows.values())


def _edges(lineage: StatementLineage) -> Iterator[LineageEdge]:
    yield from lineage.edges
    yield from lineage.view_edges


def _vertices(edge: LineageEdge) -> Iterator[ColumnVertex]:
    yield from (source.column for source in edge.sources)
    yield from edge.targets


def _columns_by_dataset(columns: Iterable[ColumnVertex]) -> dict[Dataset, set[str]]:
    found: dict[Dataset, set[str]] = {}
    for vertex in columns:
        found.setdefault(vertex.dataset, set()).add(vertex.column)
    return found


def _targets(edge: LineageEdge, all_columns: dict[Dataset, set[str]]) -> list[ColumnVertex]:
    """Return an edge's targets, with `*` for all columns of a dataset that a condition bears on."""
    if edge.type is EdgeType.PROJECTION:
        return list(edge.targets)
    borne_on = _columns_by_dataset(edge.targets)
    found = []
    for dataset, names in borne_on.items():
        if len(names) > 1 and names >= all_columns.get(dataset, {ANY_COLUMN}):
            found.append(ColumnVertex(dataset, ANY_COLUMN))
        else:
            found += [ColumnVertex(dataset, name) for name in sorted(names)]
    return found
