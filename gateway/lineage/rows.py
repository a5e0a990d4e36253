"""What the database keeps of the lineage of one statement: names of columns, and edges between two of them.

A condition bears on all rows of its target. An edge to each of a hundred columns would say no more than one
to `*`, the column that stands for all, so edges to every column of a target are kept as one to its `*`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from gateway.model.lineage import (
    ANY_COLUMN,
    ColumnVertex,
    Dataset,
    DatasetKind,
    EdgeType,
    LineageEdge,
    StatementLineage,
    Subtype,
)
from gateway.sql.lineage_aggregate import aggregate_of

EXPRESSION_CHARS = 2000
"""What is kept of an expression's text; the whole is in the statement."""
NO_AGGREGATE = "-"
"""Stands for a value that is not one call of one built-in aggregate function."""
TABLE_LEVEL = "TABLE"
"""The subtype of an edge between tables whose columns nobody could read."""


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
    aggregate: str = NO_AGGREGATE
    """The aggregate function that is all of the value, in lower case: `count` of `count(x)`."""

    @property
    def key(self) -> tuple[tuple[str, str], tuple[str, str], str, bool]:
        return self.source, self.target, self.subtype, self.masking


def dataset_name(dataset: Dataset, seen: Seen) -> str:
    """Return the name by which a dataset is known in the graph, across statements and sessions."""
    match dataset.kind:
        case DatasetKind.RESULT:
            return "result:" + hashlib.sha256(seen.text.encode("utf-8", "replace")).hexdigest()[:16]
        case DatasetKind.TEMP_VIEW:
            return storable(f"session:{seen.session_id}.{dataset}")
        case DatasetKind.PATH:
            return storable("path:" + "/".join(dataset.parts))
        case DatasetKind.TABLE | DatasetKind.VIEW:
            return storable(str(dataset))


def storable(text: str) -> str:
    """Return a text that PostgreSQL takes: no NUL, no lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


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
        aggregate = aggregate_of(edge.expression) or NO_AGGREGATE
        for source in edge.sources:
            for transformation in source.transformations:
                for target in targets:
                    row = EdgeRow(
                        source=_column(source.column, seen),
                        target=_column(target, seen),
                        subtype=transformation.subtype.value,
                        masking=transformation.masking,
                        expression=storable(edge.expression[:EXPRESSION_CHARS]),
                        aggregate=aggregate
                        if transformation.subtype is Subtype.AGGREGATION
                        else NO_AGGREGATE,
                    )
                    known = rows.setdefault(row.key, row)
                    if known.aggregate != row.aggregate:
                        rows[row.key] = replace(known, aggregate=NO_AGGREGATE)
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
