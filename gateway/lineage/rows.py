"""What the database keeps of the lineage of one statement: names of columns, and edges between two of them.

A condition bears on all rows of its target. An edge to each of a hundred columns would say no more than one
to `*`, the column that stands for all, so edges to every column of a target are kept as one to its `*`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
    Subtype,
)
from gateway.sql.lineage_aggregate import aggregate_of

NO_AGGREGATE = "-"
"""Stands for a value that is not one call of one built-in aggregate function."""
EXPRESSION_CHARS = 2000
"""Characters stored of an expression's text; the whole is in the statement."""
NAME_BYTES = 2_000
"""Maximum size of a name that is stored as it is; PostgreSQL's indexes take no more than some 2,700."""
MAX_EDGES = 20_000
"""Edges of one statement between columns; of one with more, only its tables are kept."""
IMPORTED = "imported"
"""The outcome of a statement of a script: nobody saw it run."""
TABLE_LEVEL = "TABLE"
"""The subtype of an edge between tables whose columns nobody could read."""
OWN = frozenset({DatasetKind.RESULT, DatasetKind.TEMP_VIEW})
"""Kinds of datasets that are the user's whose statement made them, and nobody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStatement:
    """A statement that was run, or was found in a script, and its lineage."""

    statement_id: UUID
    time: datetime
    user: str
    text: str
    """Its text; what a plain query answers is named by it."""
    is_sql: bool = True
    """Whether the text is SQL; that of a DataFrame is Python."""
    session_id: str = ""
    """Temporary views are named within it."""
    outcome: str
    """`finished` or as the audit record has it; `imported` for scripts."""
    ended: datetime | None = None
    """When it came to its outcome; None where nobody knows."""
    error: str = ""
    """Error of a failed statement, as the record has it."""
    lineage: StatementLineage

    @property
    def finished(self) -> bool:
        return self.outcome == "finished"


Ends = tuple[str, str]
"""A column as (dataset, column), named as the graph does."""
_Key = tuple[Ends, Ends, str, bool]
"""An edge: source, target, subtype, whether a mask stood between."""


@dataclass(frozen=True, slots=True)
class Words:
    """Expression and aggregate function of an edge."""

    expression: str = ""
    aggregate: str = NO_AGGREGATE
    """The aggregate function that is all of the value, in lower case: `count` of `count(x)`."""


@dataclass(frozen=True, slots=True)
class GraphRows:
    """Rows of the database that hold a statement's lineage."""

    datasets: Mapping[str, Dataset]
    """Every dataset that it names, by the graph's name of it."""
    columns: frozenset[Ends]
    """Every column that it gives values or reads."""
    edges: Mapping[_Key, Words]
    """Edges from one column to one column."""
    table_level: str = ""
    """Why they are between tables only; empty when columns are known."""


def dataset_name(dataset: Dataset, seen: SeenStatement) -> str:
    """Return the name by which a dataset is known in the graph, across statements and sessions.

    What a query answers and a session's views are named by their user too: another user's are others.
    """
    match dataset.kind:
        case DatasetKind.RESULT:
            text = f"{len(seen.user)} {seen.user} {seen.text}"
            return "result:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        case DatasetKind.TEMP_VIEW:
            # Clients of Spark Connect choose their session ids, so two users may have the same one.
            return _shorten_name(
                f"session:{quote(seen.user, safe='', errors='replace')}/{seen.session_id}.{dataset}"
            )
        case DatasetKind.PATH:
            return _shorten_name("path:" + "/".join(dataset.parts))
        case DatasetKind.TABLE | DatasetKind.VIEW:
            return _shorten_name(str(dataset))


def _shorten_name(name: str) -> str:
    """Return a name as it is kept; the beginning of a very long one, and what tells it from others."""
    name = storable(name)
    if len(name) <= NAME_BYTES // 4 or len(name.encode()) <= NAME_BYTES:
        return name
    return f"{name[: NAME_BYTES // 5]}…{hashlib.sha256(name.encode()).hexdigest()}"


def rows_of(seen: SeenStatement) -> GraphRows:
    """Return what a statement brings into the graph."""
    try:
        return _rows_of(seen, seen.lineage)
    except _TooMany:
        why = f"it has more than {MAX_EDGES:,} edges between columns"
        return _rows_of(seen, replace(seen.lineage, edges=(), view_edges=(), columns=(), table_level=why))


class _TooMany(Exception):
    """A statement has more edges than are kept of one."""


def _rows_of(seen: SeenStatement, lineage: StatementLineage) -> GraphRows:
    names: dict[Dataset, str] = {}
    # By identity first: hashing vertices costs more than all the rest, and a lineage names few datasets.
    names_by_id: dict[int, str] = {}

    def find_name(dataset: Dataset) -> str:
        name = names_by_id.get(id(dataset))
        if name is None:
            name = names.get(dataset)
            if name is None:
                name = names[dataset] = dataset_name(dataset, seen)
            names_by_id[id(dataset)] = name
        return name

    def column(vertex: ColumnVertex) -> Ends:
        return find_name(vertex.dataset), _shorten_name(vertex.column)

    for dataset in (*lineage.inputs, *lineage.targets, *lineage.views):
        find_name(dataset)
    columns = {column(vertex) for vertex in lineage.columns}
    edges: dict[_Key, Words] = {}
    if lineage.table_level:
        for read in lineage.inputs:
            for written in lineage.targets:
                ends = (find_name(read), ANY_COLUMN), (find_name(written), ANY_COLUMN)
                edges[*ends, TABLE_LEVEL, False] = Words()
    all_columns = _columns_by_dataset(lineage.columns)
    borne_on: dict[int, list[Ends]] = {}
    for edge in (*lineage.edges, *lineage.view_edges):
        # The conditions of a statement mostly share one tuple of targets.
        shared = edge.type is EdgeType.PREDICATE
        targets = borne_on.get(id(edge.targets)) if shared else None
        if targets is None:
            targets = [column(target) for target in _targets(edge, all_columns)]
            if shared:
                borne_on[id(edge.targets)] = targets
        plain = Words(storable(edge.expression[:EXPRESSION_CHARS]))
        aggregated = replace(plain, aggregate=aggregate_of(edge.expression) or NO_AGGREGATE)
        for one in edge.sources:
            source = column(one.column)
            for transformation in one.transformations:
                subtype = transformation.subtype.value
                words = aggregated if transformation.subtype is Subtype.AGGREGATION else plain
                for target in targets:
                    key = source, target, subtype, transformation.masking
                    known = edges.setdefault(key, words)
                    if len(edges) > MAX_EDGES:
                        raise _TooMany
                    if known.aggregate != words.aggregate:
                        edges[key] = replace(known, aggregate=NO_AGGREGATE)
    for source, target, _, _ in edges:
        columns |= {source, target}
    # The first one of a name, should two be written alike.
    datasets: dict[str, Dataset] = {}
    for dataset, name in names.items():
        datasets.setdefault(name, dataset)
    return GraphRows(datasets, frozenset(columns), edges, lineage.table_level)


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
