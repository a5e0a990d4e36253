"""What GROUP BY and ORDER BY mean: expressions, columns of the select list by number, or all of them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from gateway.sql.lineage_scope import AGGREGATION, WAYS, Attribute, Value


def group_items(group: exp.Expr, attributes: list[Attribute]) -> Iterator[exp.Expr | Value]:
    """Yield what is grouped by; a column of the select list as its value."""
    if group.args.get("all"):
        yield from (a.value for a in attributes if not _is_aggregate(a.value))
        return
    stack = [
        item
        for name in ("rollup", "cube", "grouping_sets", "expressions")
        for item in reversed(group.args.get(name) or ())
    ]
    while stack:
        item = stack.pop()
        if isinstance(item, exp.Paren):
            stack.append(item.this)
        elif isinstance(item, (exp.GroupingSets, exp.Cube, exp.Rollup, exp.Tuple)):
            stack += reversed(item.expressions)
        elif (attribute := resolve_ordinal(item, attributes)) is not None:
            yield attribute.value
        else:
            yield item


def order_items(clause: exp.Expr, attributes: list[Attribute]) -> Iterator[exp.Expr | Value]:
    """Yield what is ordered by."""
    if orders_all(clause):
        yield from (a.value for a in attributes)
        return
    for item in clause.iter_expressions():
        key = item.this if isinstance(item, exp.Ordered) else item
        if (attribute := resolve_ordinal(key, attributes)) is not None:
            yield attribute.value
        else:
            yield key


def orders_all(clause: exp.Expr) -> bool:
    """Whether it is ORDER BY ALL."""
    if clause.args.get("all"):
        return True
    items = [item.this if isinstance(item, exp.Ordered) else item for item in clause.expressions]
    return len(items) == 1 and isinstance(items[0], (exp.Column, exp.Var)) and items[0].name.upper() == "ALL"


def resolve_ordinal(item: exp.Expr, attributes: list[Attribute]) -> Attribute | None:
    """Return the column of a select list that an item names by its number."""
    if isinstance(item, exp.Literal) and not item.args.get("is_string") and str(item.this).isdigit():
        place = int(str(item.this))
        if 1 <= place <= len(attributes):
            return attributes[place - 1]
    return None


def _is_aggregate(value: Value) -> bool:
    """Whether a value is an aggregate; one without columns, as count(*), has its groups among its rows."""
    return any((bits | bits >> WAYS) & AGGREGATION for bits in value.dependencies.values()) or any(
        rows.groups is not None for rows in value.rows
    )
