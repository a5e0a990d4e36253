"""What the lineage API answers: JSON, Mermaid and DOT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.lineage.drawing import edge_as_json
from gateway.lineage.graph import Carries, Edge, GraphAnswer, GraphColumn, StatementEdges, Ways

_ON_DROP = {True: "fails", False: "stale"}
_ON_RETAG = {Carries.VALUES: "follows", Carries.MASKED: "masked", Carries.INFLUENCE: "none"}


def column_as_json(column: GraphColumn) -> dict[str, Any]:
    return {"dataset": column.dataset, "column": column.name, "name": str(column)}


def impact_as_json(answer: GraphAnswer) -> dict[str, Any]:
    """Return what dropping the start would do to each column that it feeds, and whether a tag on it would
    follow."""
    return {
        "start": [str(column) for column in answer.start],
        "affected": [
            {
                "column": str(one.column),
                "distance": one.distance,
                "carries": one.carries.name.lower(),
                "on_drop": _ON_DROP[one.distance == 1],
                "on_retag": _ON_RETAG[one.carries],
            }
            for one in answer.reached
        ],
        "complete": not answer.cut_off,
        "cut_off": answer.cut_off,
    }


def ways_as_json(source: Sequence[GraphColumn], target: Sequence[GraphColumn], ways: Ways) -> dict[str, Any]:
    return {
        "from": [str(column) for column in source],
        "to": [str(column) for column in target],
        "paths": [[edge_as_json(edge) for edge in way] for way in ways.found],
        "complete": not ways.cut_off,
        "cut_off": ways.cut_off,
    }


def statement_as_json(found: StatementEdges, edges: Sequence[Edge], *, whole: bool) -> dict[str, Any]:
    """Return a statement and its edges; the reason why only tables are known of it only with `whole`, since
    it may be in words of a view."""
    return {
        "statement": str(found.statement_id),
        "time": found.time.isoformat(),
        "user": found.user,
        "operation": found.operation,
        "outcome": found.outcome,
        "table_level": bool(found.table_level),
        "table_level_reason": found.table_level if whole else None,
        "edges": [edge_as_json(edge) for edge in edges],
    }
