"""From what a walk found to edges: sources by column instead of by scan, conditions by what they bear on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gateway.algebra.lineage_values import (
    ALL,
    CONDITIONAL,
    DIRECT,
    SUBTYPES,
    WAYS,
    AttributeDependencies,
    RelationRows,
    RowCondition,
    Value,
)
from gateway.model.lineage import (
    ColumnVertex,
    Conjunct,
    EdgeType,
    LineageEdge,
    SourceColumn,
    Subtype,
    Transformation,
)
from gateway.sql.lineage_sources import Vertices

_IN_VALUE = DIRECT | CONDITIONAL
"""What is said by a PROJECTION; a window has a PREDICATE of its own."""

TargetValue = tuple[ColumnVertex, Value]


def projections(targets: Iterable[TargetValue], vertices: Vertices) -> list[LineageEdge]:
    """Return an edge for each target column that has sources."""
    edges = []
    for vertex, value in targets:
        sources, steps = _split(value.dependencies, vertices, _transformations)
        if sources:
            edges.append(
                LineageEdge(
                    type=EdgeType.PROJECTION,
                    sources=sources,
                    targets=(vertex,),
                    expression="; ".join(dict.fromkeys(map(str, value.written))) or vertex.column,
                    steps=steps,
                )
            )
    return edges


def predicates(targets: Sequence[TargetValue], rows: RelationRows, vertices: Vertices) -> list[LineageEdge]:
    """Return an edge for each condition that bears on a target column."""
    everywhere: dict[int, RowCondition] = {}
    visited: set[int] = set()
    _collect([rows], visited, everywhere)
    # INVARIANT (bearing): a condition of the rows bears on every column; one of a value on that column only.
    alone: dict[int, tuple[RowCondition, dict[ColumnVertex, None]]] = {}
    reached: dict[int, Mapping[int, RowCondition]] = {}
    for vertex, value in targets:
        for own in value.rows:
            if id(own) in visited:
                continue
            found = reached.get(id(own))
            if found is None:
                found = {}
                _collect([own], set(visited), found)
                reached[id(own)] = found
            for key, condition in found.items():
                alone.setdefault(key, (condition, {}))[1][vertex] = None
    all_targets = tuple(dict.fromkeys(vertex for vertex, _ in targets))
    edges = [_predicate(condition, all_targets, vertices) for condition in everywhere.values()]
    edges += [_predicate(condition, tuple(some), vertices) for condition, some in alone.values()]
    return [edge for edge in edges if edge is not None]


def _collect(roots: list[RelationRows], visited: set[int], found: dict[int, RowCondition]) -> None:
    """Gather the conditions of rows and of all that they are made of, the innermost first."""
    stack = [(rows, False) for rows in roots]
    while stack:
        rows, done = stack.pop()
        if done:
            found.update((id(condition), condition) for condition in rows.conditions)
            continue
        if id(rows) in visited:
            continue
        visited.add(id(rows))
        if rows.groups is not None:
            rows.groups.aggregates = True
        stack.append((rows, True))
        stack += [(parent, False) for parent in reversed(rows.parents)]


def _predicate(
    condition: RowCondition, targets: tuple[ColumnVertex, ...], vertices: Vertices
) -> LineageEdge | None:
    dependencies: AttributeDependencies = {}
    for part in condition.parts:
        for key, bits in part.dependencies.items():
            dependencies[key] = dependencies.get(key, 0) | bits

    def list_transformations(bits: int) -> tuple[Transformation, ...]:
        return _list_transformations(condition.clause.subtype, bits)

    sources, steps = _split(dependencies, vertices, list_transformations)
    if not sources or not targets:
        return None
    conjuncts = []
    for part in condition.parts:
        of_part, _ = _split(part.dependencies, vertices, list_transformations)
        if of_part:
            real = [key for key in part.dependencies if key not in vertices.steps]
            conjuncts.append(
                Conjunct(
                    expression=str(part.written) if len(condition.parts) > 1 else str(condition.written),
                    sources=of_part,
                    scans=tuple(dict.fromkeys(vertices.scans[key] for key in real)),
                    by_row=part.by_row,
                    not_null=tuple(
                        (vertices.scans[key], vertices.columns[key])
                        for key in part.not_null
                        if key not in vertices.steps
                    ),
                )
            )
    return LineageEdge(
        type=EdgeType.PREDICATE,
        sources=sources,
        targets=targets,
        expression=str(condition.written),
        clause=condition.clause,
        steps=steps,
        conjuncts=tuple(conjuncts),
        aggregates=condition.aggregates,
    )


def _split(
    dependencies: AttributeDependencies,
    vertices: Vertices,
    transformations: Callable[[int], tuple[Transformation, ...]],
) -> tuple[tuple[SourceColumn, ...], tuple[SourceColumn, ...]]:
    """Return sources and steps; of several scans of one table a column is there once."""
    columns: dict[ColumnVertex, int] = {}
    steps: dict[ColumnVertex, int] = {}
    for key, bits in dependencies.items():
        of = steps if key in vertices.steps else columns
        vertex = vertices.columns[key]
        of[vertex] = of.get(vertex, 0) | bits
    both = []
    for found in (columns, steps):
        sources = [SourceColumn(vertex, transformations(bits)) for vertex, bits in found.items()]
        both.append(tuple(source for source in sources if source.transformations))
    return both[0], both[1]


def _transformations(bits: int) -> tuple[Transformation, ...]:
    found = []
    for bit, subtype in SUBTYPES.items():
        if not bit & _IN_VALUE:
            continue
        if bits & bit:
            found.append(Transformation(subtype))
        if bits >> WAYS & bit:
            found.append(Transformation(subtype, masking=True))
    return tuple(found)


def _list_transformations(subtype: Subtype, bits: int) -> tuple[Transformation, ...]:
    plain = (Transformation(subtype),) if bits & ALL else ()
    return (*plain, Transformation(subtype, masking=True)) if bits >> WAYS else plain
