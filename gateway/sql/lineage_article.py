"""Lineage in the JSON of Spark field lineage: numbered vertices, PROJECTION and PREDICATE edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.model.lineage import (
    Clause,
    ColumnVertex,
    Conjunct,
    Dataset,
    EdgeType,
    LineageEdge,
    StatementLineage,
)

Predicates = Literal["scans", "written", "conjuncts"]
"""Which PREDICATE edges there are.

`scans`: as a plan has them. Conditions on the rows of one scan are one edge, with the keys of inner joins,
which no NULL passes; conditions over the same scans are one join. GROUP BY counts where an aggregate over its
groups is used; orders and comparisons of whole rows (DISTINCT, UNION) do not.
`written`: one for each condition as it is written, of every kind.
`conjuncts`: one for each part of a condition that AND joins, of every kind.
"""


def article(
    lineage: StatementLineage, *, predicates: Predicates = "scans", omit_catalog: str = ""
) -> dict[str, Any]:
    """Return `{"edges": […], "vertices": […]}`; targets have the first numbers.

    `omit_catalog`: a catalog whose name vertices do not begin with. Lineage without edges between columns has
    vertices of type TABLE, and `tableLevel` says why.
    """
    drawing = _Drawing(omit_catalog)
    if lineage.table_level:
        drawing.tables(lineage)
        return {**drawing.document(), "tableLevel": lineage.table_level}
    for column in lineage.columns:
        drawing.number(column)
    for edge in lineage.edges:
        if edge.type is EdgeType.PROJECTION:
            drawing.edge(_columns(edge), edge.targets, edge.expression, edge.type)
    written = [edge for edge in lineage.edges if edge.type is EdgeType.PREDICATE]
    if predicates == "scans":
        _by_scan(written, drawing)
    else:
        for edge in written:
            if predicates == "written":
                drawing.edge(_columns(edge), edge.targets, edge.expression, edge.type)
                continue
            for part in edge.conjuncts:
                sources = [source.column for source in part.sources]
                drawing.edge(sources, edge.targets, part.expression, edge.type)
    return drawing.document()


def _columns(edge: LineageEdge) -> list[ColumnVertex]:
    return [source.column for source in edge.sources]


@dataclass(slots=True)
class _Drawing:
    """The document as it grows."""

    omit_catalog: str
    edges: list[dict[str, Any]] = field(default_factory=list)
    vertices: list[dict[str, Any]] = field(default_factory=list)
    _numbers: dict[ColumnVertex | Dataset, int] = field(default_factory=dict)

    def number(self, vertex: ColumnVertex | Dataset) -> int:
        found = self._numbers.get(vertex)
        if found is None:
            found = self._numbers[vertex] = len(self.vertices)
            kind = "COLUMN" if isinstance(vertex, ColumnVertex) else "TABLE"
            shown = str(vertex).removeprefix(f"{self.omit_catalog}.") if self.omit_catalog else str(vertex)
            self.vertices.append({"id": found, "vertexType": kind, "vertexId": shown})
        return found

    def edge(
        self,
        sources: Iterable[ColumnVertex | Dataset],
        targets: Iterable[ColumnVertex | Dataset],
        expression: str,
        type_: EdgeType,
    ) -> None:
        self.edges.append(
            {
                "sources": [self.number(vertex) for vertex in sources],
                "targets": [self.number(vertex) for vertex in targets],
                "expression": expression,
                "edgeType": type_.value,
            }
        )

    def tables(self, lineage: StatementLineage) -> None:
        for target in lineage.targets:
            self.number(target)
        if lineage.inputs and lineage.targets:
            self.edge(lineage.inputs, lineage.targets, "", EdgeType.PROJECTION)

    def document(self) -> dict[str, Any]:
        return {"edges": self.edges, "vertices": self.vertices}


_Group = tuple[str, tuple[int, ...], tuple[ColumnVertex, ...]]


@dataclass(slots=True)
class _Gathered:
    """Conditions that a plan decides at one place."""

    sources: dict[ColumnVertex, None] = field(default_factory=dict)
    expressions: dict[str, None] = field(default_factory=dict)


def _by_scan(edges: Sequence[LineageEdge], drawing: _Drawing) -> None:
    joins: dict[_Group, _Gathered] = {}
    filters: dict[_Group, _Gathered] = {}
    others: dict[_Group, _Gathered] = {}
    for place, edge in enumerate(edges):
        if edge.clause is Clause.SORT or (edge.clause is Clause.GROUP_BY and not edge.aggregates):
            continue
        for part in edge.conjuncts:
            if part.by_row and len(part.scans) == 1:
                _gather(filters, ("FILTER", part.scans, edge.targets), part)
            elif part.by_row:
                _gather(joins, ("JOIN", tuple(sorted(part.scans)), edge.targets), part)
            else:
                _gather(others, (edge.expression, (place,), edge.targets), part)
            for scan, column in part.not_null:
                gathered = filters.setdefault(("FILTER", (scan,), edge.targets), _Gathered())
                gathered.sources[column] = None
                gathered.expressions.setdefault(f"{column.column} IS NOT NULL")
    for groups in (joins, filters, others):
        for (_, _, targets), gathered in groups.items():
            expression = " AND ".join(gathered.expressions)
            drawing.edge(gathered.sources, targets, expression, EdgeType.PREDICATE)


def _gather(groups: dict[_Group, _Gathered], key: _Group, part: Conjunct) -> None:
    gathered = groups.setdefault(key, _Gathered())
    gathered.sources.update((source.column, None) for source in part.sources)
    gathered.expressions[part.expression] = None
