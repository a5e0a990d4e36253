"""An answer of the lineage graph as a tree for people, as JSON, and as pictures in Mermaid and DOT."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from gateway.lineage.graph import (
    Carries,
    Direction,
    Edge,
    GraphAnswer,
    GraphColumn,
    covers,
    get_far_end,
    get_near_end,
)

EXPRESSION_CHARS = 60
_CARRIES = {
    Carries.VALUES: "values",
    Carries.MASKED: "masked values",
    Carries.INFLUENCE: "decides on it",
}


def as_tree(answer: GraphAnswer) -> str:
    """Return the walk as an indented tree; a column that stands above already is not gone into again."""
    by_near: dict[str, list[Edge]] = {}
    for edge in answer.edges:
        by_near.setdefault(get_near_end(edge, answer.direction).dataset, []).append(edge)
    lines: list[str] = []
    shown: set[GraphColumn] = set()

    def grow(column: GraphColumn, indent: str) -> None:
        shown.add(column)
        branches: dict[GraphColumn, list[Edge]] = {}
        for edge in by_near.get(column.dataset, ()):
            if covers(get_near_end(edge, answer.direction), column):
                branches.setdefault(get_far_end(edge, answer.direction), []).append(edge)
        for number, (there, edges) in enumerate(branches.items(), start=1):
            last = number == len(branches)
            again = " …" if there in shown else ""
            lines.append(f"{indent}{'└─ ' if last else '├─ '}{there}  {_format_edges(edges)}{again}")
            if not again:
                grow(there, indent + ("   " if last else "│  "))

    for column in answer.start:
        lines.append(str(column))
        grow(column, "")
    if not answer.edges:
        lines.append("   nothing " + ("feeds it" if answer.direction is Direction.UP else "is fed by it"))
    if answer.cut_off:
        lines.append(f"… {answer.cut_off}")
    return "\n".join(lines)


def _format_edges(edges: list[Edge]) -> str:
    best = max(edge.carries for edge in edges)
    kinds = ", ".join(sorted({edge.subtype for edge in edges}))
    expression = next((edge.expression for edge in edges if edge.carries == best and edge.expression), "")
    text = " ".join(expression.split())
    if len(text) > EXPRESSION_CHARS:
        text = text[: EXPRESSION_CHARS - 1] + "…"
    never = "" if any(edge.finished for edge in edges) else "; never finished"
    return f"[{_CARRIES[best]}: {kinds}{never}]" + (f"  {text}" if text else "")


def as_json(answer: GraphAnswer) -> dict[str, Any]:
    """Return the walk as JSON can hold it."""
    return {
        "start": [str(column) for column in answer.start],
        "direction": answer.direction.value,
        "reached": [
            {"column": str(one.column), "distance": one.distance, "carries": one.carries.name.lower()}
            for one in answer.reached
        ],
        "edges": [edge_as_json(edge) for edge in answer.edges],
        "complete": not answer.cut_off,
        "cut_off": answer.cut_off,
    }


def edge_as_json(edge: Edge) -> dict[str, Any]:
    return {
        "source": str(edge.source),
        "target": str(edge.target),
        "subtype": edge.subtype,
        "masking": edge.masking,
        "expression": edge.expression,
        "statements": edge.statements,
        "finished": edge.finished,
        "first_seen": edge.first_seen.isoformat(),
        "last_seen": edge.last_seen.isoformat(),
        "last_statement": None if edge.last_statement is None else str(edge.last_statement),
    }


def as_mermaid(edges: Iterable[Edge]) -> str:
    """Return a Mermaid flowchart: datasets are boxes, dotted arrows decide and carry no values."""
    arrows = {Carries.VALUES: "-->", Carries.MASKED: "-- masked -->", Carries.INFLUENCE: "-.->"}
    names = _Names(edges)
    lines = ["flowchart LR"]
    for number, (dataset, columns) in enumerate(names.datasets.items()):
        lines.append(f"  subgraph d{number}[{_mermaid(dataset)}]")
        lines += [f"    {names.of[column]}[{_mermaid(column.name)}]" for column in columns]
        lines.append("  end")
    lines += names.arrows(lambda carries: arrows[carries])
    return "\n".join(lines)


def as_dot(edges: Iterable[Edge]) -> str:
    """Return a graph for Graphviz: datasets are clusters, dashed edges decide and carry no values."""
    names = _Names(edges)
    lines = ["digraph lineage {", "  rankdir=LR;", "  node [shape=box];"]
    for number, (dataset, columns) in enumerate(names.datasets.items()):
        lines.append(f"  subgraph cluster_{number} {{ label={_dot(dataset)};")
        lines += [f"    {names.of[column]} [label={_dot(column.name)}];" for column in columns]
        lines.append("  }")
    styles = {Carries.VALUES: "", Carries.MASKED: ' [label="masked"]', Carries.INFLUENCE: " [style=dashed]"}
    lines += names.arrows(lambda _: "->", lambda carries: styles[carries] + ";")
    lines.append("}")
    return "\n".join(lines)


class _Names:
    """Short names for the columns of a picture, and one arrow between two of them."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._arrows: dict[tuple[GraphColumn, GraphColumn], Carries] = {}
        for edge in edges:
            ends = edge.source, edge.target
            self._arrows[ends] = max(self._arrows.get(ends, Carries.INFLUENCE), edge.carries)
        columns = sorted({column for ends in self._arrows for column in ends})
        self.of = {column: f"c{number}" for number, column in enumerate(columns)}
        self.datasets: dict[str, list[GraphColumn]] = {}
        for column in columns:
            self.datasets.setdefault(column.dataset, []).append(column)

    def arrows(
        self, arrow: Callable[[Carries], str], tail: Callable[[Carries], str] = lambda _: ""
    ) -> list[str]:
        return [
            f"  {self.of[source]} {arrow(carries)} {self.of[target]}{tail(carries)}"
            for (source, target), carries in sorted(self._arrows.items())
        ]


def _mermaid(text: str) -> str:
    """Return a label that Mermaid takes as text only, whatever is in it."""
    return '"' + "".join(c if c.isalnum() or c in " ._-/:" else f"#{ord(c)};" for c in text) + '"'


def _dot(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
