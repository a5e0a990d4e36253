"""PIVOT and UNPIVOT: which columns they use up, and which they make."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from gateway.algebra.usage import Unclear
from gateway.model.lineage import Clause
from gateway.sql.analyse_tree import (
    NOT_UNDERSTOOD,
    PIVOT_PARTS,
    fold_identifier,
    names_of,
    parts_of,
    reject_unread_parts,
)
from gateway.sql.lineage_expressions import Ctes, SqlFragment, SqlLineageExpressions
from gateway.sql.lineage_references import decide_by, group_by
from gateway.sql.lineage_scope import (
    CHOOSING,
    Attribute,
    Environment,
    Frame,
    LineageRelation,
    RelationRows,
    RowCondition,
    Value,
    merge_values,
)


def apply_pivot(
    walk: SqlLineageExpressions,
    node: exp.Expr,
    relation: LineageRelation,
    outer: Environment | None,
    ctes: Ctes,
) -> LineageRelation:
    """Return a relation with a PIVOT or UNPIVOT on it."""
    if not isinstance(node, exp.Pivot):
        raise Unclear(f"{NOT_UNDERSTOOD}{type(node).__name__}")
    reject_unread_parts(node, PIVOT_PARTS)
    if node.args.get("unpivot"):
        found = _unpivot(walk, node, relation, outer, ctes)
    else:
        found = _pivot(walk, node, relation, outer, ctes)
    alias = node.args.get("alias")
    if alias is not None and alias.this is not None:
        return found.apply_alias(fold_identifier(alias.this), names_of(alias.args.get("columns")))
    return found


def _pivot(
    walk: SqlLineageExpressions,
    node: exp.Pivot,
    relation: LineageRelation,
    outer: Environment | None,
    ctes: Ctes,
) -> LineageRelation:
    """Group by what is not named, and compute each aggregate for each value of the pivot's columns."""
    frame = Frame(relation)
    grouping = RowCondition(Clause.GROUP_BY, SqlFragment(node, walk.text))
    place = Environment(frame, outer, groups=RelationRows(groups=grouping))
    before = set(walk.references)
    walk.references.clear()
    aggregates = []
    for item in node.expressions:
        name = fold_identifier(item.args["alias"]) if isinstance(item, exp.Alias) else None
        expression = item.this if isinstance(item, exp.Alias) else item
        if name is not None and name in walk.text.columns:
            name = walk.column_name(walk.text.columns[name], place)
        aggregates.append((name or _format_value(expression), walk.value(expression, place, ctes)))
    fields = [field for field in node.args.get("fields", ()) if isinstance(field, exp.In)]
    chosen = walk.operands([field.this for field in fields], place, ctes)
    used = {id(a) for parts in walk.references for a in frame.find(parts)[0]}
    walk.references |= before
    choosing = chosen.as_operand(CHOOSING)
    if relation.opens:
        whole = merge_values((*(value for _, value in aggregates), choosing))
        names = [name for field in fields for name in _pivot_names(field, [n for n, _ in aggregates])]
        attributes = [*relation.attributes, *(Attribute(name, whole) for name in names)]
        return LineageRelation(attributes, frame.rows, relation.opens)
    grouped = [a for a in frame.shown if id(a) not in used]
    group_by(frame.rows, grouping, merge_values((*(a.value for a in grouped), chosen)))
    attributes = list(grouped)
    for field in fields:
        made = _pivot_names(field, [name for name, _ in aggregates])
        values = [
            Value(both.dependencies, both.rows, value.written)
            for _, value in aggregates
            for both in (merge_values((value, choosing)),)
        ]
        attributes += [Attribute(name, values[i % len(values)]) for i, name in enumerate(made)]
    return LineageRelation(attributes, frame.rows)


def _pivot_names(field: exp.In, aggregates: list[str]) -> Iterator[str]:
    for item in field.expressions:
        aliased = isinstance(item, (exp.PivotAlias, exp.Alias))
        name = fold_identifier(item.args["alias"]) if aliased else _format_value(item)
        if len(aggregates) == 1:
            yield name
        else:
            yield from (f"{name}_{aggregate}" for aggregate in aggregates)


def _format_value(node: exp.Expr) -> str:
    if isinstance(node, exp.Literal):
        return str(node.this).lower()
    if isinstance(node, (exp.Tuple, exp.Paren)):
        items = node.expressions if isinstance(node, exp.Tuple) else [node.this]
        return "{" + ", ".join(_format_value(item) for item in items) + "}"
    if (parts := parts_of(node)) is not None:
        return parts[-1]
    return node.sql(dialect="spark").lower()


def _unpivot(
    walk: SqlLineageExpressions,
    node: exp.Pivot,
    relation: LineageRelation,
    outer: Environment | None,
    ctes: Ctes,
) -> LineageRelation:
    """Keep what is not named; the columns that are named become rows."""
    if relation.opens:
        raise Unclear("an UNPIVOT of unknown columns")
    frame = Frame(relation)
    place = Environment(frame, outer)
    used: set[int] = set()
    attributes: list[Attribute] = []
    for field, named in zip(node.args.get("fields", ()), node.expressions, strict=False):
        if not isinstance(field, exp.In):
            raise Unclear(f"{NOT_UNDERSTOOD}an UNPIVOT without IN")
        walk.references.add((fold_identifier(field.this),))
        makes = names_of(named.expressions if isinstance(named, exp.Tuple) else [named])
        walk.references |= {(name,) for name in makes}
        columns: list[list[Value]] = [[] for _ in makes]
        for item in field.expressions:
            source = item.this if isinstance(item, exp.PivotAlias) else item
            cells = source.expressions if isinstance(source, exp.Tuple) else [source]
            for i, cell in enumerate(cells):
                while isinstance(cell, exp.Paren):
                    cell = cell.this
                attribute = walk.attribute(cell, place, ctes)
                used |= {id(a) for a in frame.attributes if a is attribute}
                columns[min(i, len(columns) - 1)].append(attribute.value)
        attributes.append(Attribute(fold_identifier(field.this), Value({})))
        attributes += [Attribute(n, merge_values(values)) for n, values in zip(makes, columns, strict=True)]
        if not node.args.get("include_nulls"):
            kept = merge_values(value for values in columns for value in values)
            decide_by(frame.rows, Clause.WHERE, f"{', '.join(makes)} IS NOT NULL", kept)
    rest = [a for a in frame.shown if id(a) not in used]
    return LineageRelation([*rest, *attributes], frame.rows)
