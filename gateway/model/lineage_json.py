"""A `StatementLineage` as JSON and back: what is read is equal to what was written.

Datasets and columns stand in lists and are meant by their positions there, since an edge names columns that
many others name too. What is empty is left out. Texts are as they are: whoever keeps the JSON where not every
character may be has to see to that.

    {"version": 1, "operation": "insert", "datasets": [["table", "spark_catalog", "db", "t"], …],
     "vertices": [[0, "x"], …], "targets": [0], "inputs": [1], "columns": [0],
     "edges": [{"type": "PROJECTION", "sources": [[1, "IDENTITY", "FILTER!"]], "targets": [0],
                "expression": "x"}, …]}

A transformation is its subtype, with `!` behind it where a mask stood between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from gateway.model.lineage import (
    Clause,
    ColumnVertex,
    Conjunct,
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

VERSION = 1
"""Raised when what an older reader makes of the JSON would be wrong."""

_MASKING = "!"

_Item = TypeVar("_Item")


def to_json(lineage: StatementLineage) -> dict[str, Any]:
    """Return a lineage as objects, lists, strings, numbers and booleans of JSON."""
    writer = _Writer()
    body: dict[str, Any] = {
        "version": VERSION,
        "operation": lineage.operation.value,
        "datasets": writer.datasets,
        "vertices": writer.vertices,
        "targets": writer.some(lineage.targets),
        "inputs": writer.some(lineage.inputs),
        "views": writer.some(lineage.views),
        "columns": [writer.vertex(vertex) for vertex in lineage.columns],
        "edges": [writer.edge(edge) for edge in lineage.edges],
        "view_edges": [writer.edge(edge) for edge in lineage.view_edges],
        "table_level": lineage.table_level,
        "unread": [[writer.dataset(dataset), why] for dataset, why in lineage.unread],
        "guessed": list(lineage.guessed),
    }
    return _without_empty(body)


def from_json(body: object) -> StatementLineage:
    """Return the lineage that `to_json` made this of. Raises ValueError where it is none, or of a version
    that is not known."""
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise ValueError(f"this is no lineage of version {VERSION}")
    try:
        return _Reader(body).lineage()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no lineage: {type(error).__name__} {error}") from None


def _without_empty(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value not in ([], "", None, False)}


class _Writer:
    """Numbers datasets and columns as they come."""

    def __init__(self) -> None:
        self.datasets: list[list[str]] = []
        self.vertices: list[list[int | str]] = []
        self._datasets: dict[Dataset, int] = {}
        self._vertices: dict[ColumnVertex, int] = {}

    def dataset(self, dataset: Dataset) -> int:
        found = self._datasets.get(dataset)
        if found is None:
            found = self._datasets[dataset] = len(self.datasets)
            self.datasets.append([dataset.kind.value, *dataset.parts])
        return found

    def some(self, datasets: Iterable[Dataset]) -> list[int]:
        return [self.dataset(dataset) for dataset in datasets]

    def vertex(self, vertex: ColumnVertex) -> int:
        found = self._vertices.get(vertex)
        if found is None:
            found = self._vertices[vertex] = len(self.vertices)
            self.vertices.append([self.dataset(vertex.dataset), vertex.column])
        return found

    def source(self, source: SourceColumn) -> list[int | str]:
        ways = [one.subtype.value + _MASKING * one.masking for one in source.transformations]
        return [self.vertex(source.column), *ways]

    def edge(self, edge: LineageEdge) -> dict[str, Any]:
        return _without_empty(
            {
                "type": edge.type.value,
                "sources": [self.source(source) for source in edge.sources],
                "targets": [self.vertex(vertex) for vertex in edge.targets],
                "expression": edge.expression,
                "clause": edge.clause.value if edge.clause is not None else None,
                "steps": [self.source(source) for source in edge.steps],
                "conjuncts": [self.conjunct(conjunct) for conjunct in edge.conjuncts],
                "aggregates": edge.aggregates,
            }
        )

    def conjunct(self, conjunct: Conjunct) -> dict[str, Any]:
        return _without_empty(
            {
                "expression": conjunct.expression,
                "sources": [self.source(source) for source in conjunct.sources],
                "scans": list(conjunct.scans),
                "whole": not conjunct.by_row,
                "not_null": [[scan, self.vertex(vertex)] for scan, vertex in conjunct.not_null],
            }
        )


class _Reader:
    """Reads what a `_Writer` wrote; raises all sorts of errors where something else was."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.datasets = [
            Dataset(DatasetKind(kind), tuple(map(_text, parts))) for kind, *parts in body.get("datasets", ())
        ]
        self.vertices = [
            ColumnVertex(self._at(self.datasets, dataset), _text(column))
            for dataset, column in body.get("vertices", ())
        ]

    def lineage(self) -> StatementLineage:
        body = self.body
        return StatementLineage(
            operation=Operation(body["operation"]),
            targets=self._some("targets"),
            inputs=self._some("inputs"),
            views=self._some("views"),
            columns=self._columns(body),
            edges=tuple(self._edge(edge) for edge in body.get("edges", ())),
            view_edges=tuple(self._edge(edge) for edge in body.get("view_edges", ())),
            table_level=_text(body.get("table_level", "")),
            unread=tuple(
                (self._at(self.datasets, dataset), _text(why)) for dataset, why in body.get("unread", ())
            ),
            guessed=tuple(map(_text, body.get("guessed", ()))),
        )

    def _some(self, key: str) -> tuple[Dataset, ...]:
        return tuple(self._at(self.datasets, number) for number in self.body.get(key, ()))

    def _columns(self, body: dict[str, Any], key: str = "columns") -> tuple[ColumnVertex, ...]:
        return tuple(self._at(self.vertices, number) for number in body.get(key, ()))

    def _sources(self, body: dict[str, Any], key: str = "sources") -> tuple[SourceColumn, ...]:
        return tuple(
            SourceColumn(self._at(self.vertices, number), tuple(map(_transformation, ways)))
            for number, *ways in body.get(key, ())
        )

    def _edge(self, body: dict[str, Any]) -> LineageEdge:
        return LineageEdge(
            type=EdgeType(body["type"]),
            sources=self._sources(body),
            targets=self._columns(body, "targets"),
            expression=_text(body.get("expression", "")),
            clause=Clause(body["clause"]) if "clause" in body else None,
            steps=self._sources(body, "steps"),
            conjuncts=tuple(self._conjunct(conjunct) for conjunct in body.get("conjuncts", ())),
            aggregates=_boolean(body.get("aggregates", False)),
        )

    def _conjunct(self, body: dict[str, Any]) -> Conjunct:
        return Conjunct(
            expression=_text(body.get("expression", "")),
            sources=self._sources(body),
            scans=tuple(map(_number, body.get("scans", ()))),
            by_row=not _boolean(body.get("whole", False)),
            not_null=tuple(
                (_number(scan), self._at(self.vertices, number)) for scan, number in body.get("not_null", ())
            ),
        )

    @staticmethod
    def _at(items: Sequence[_Item], number: object) -> _Item:
        return items[_number(number)]


def _transformation(way: object) -> Transformation:
    text = _text(way)
    return Transformation(Subtype(text.removesuffix(_MASKING)), masking=text.endswith(_MASKING))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string is missing")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("a position is missing")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("a boolean is missing")
    return value
