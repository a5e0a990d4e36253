"""Readers of sqlglot's syntax nodes that the walk shares; each raises Unclear at what it does not know."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from gateway.sql.analyse_scope import Parts, Unclear

NOT_UNDERSTOOD = "column analysis does not understand "

# What the walk reads of each kind of node. A node that says anything else silences column analysis, so
# a newer sqlglot cannot put columns where nobody looks.
ORDERING = ("sort", "order", "cluster", "distribute")
SELECT_PARTS = frozenset(
    {"with_", "expressions", "hint", "distinct", "from_", "joins", "laterals", "where", "group", "having",
     "qualify", "windows", "limit", "offset", *ORDERING}
)  # fmt: skip
SET_OPERATION_PARTS = frozenset({"with_", "this", "expression", "distinct", "limit", "offset", *ORDERING})
SUBQUERY_PARTS = frozenset(
    {"this", "alias", "with_", "sample", "pivots", "joins", "laterals", "limit", "offset", *ORDERING}
)
TABLE_PARTS = frozenset(
    {"this", "db", "catalog", "alias", "sample", "pivots", "joins", "laterals", "version", "when"}
)
JOIN_PARTS = frozenset({"this", "on", "using", "method", "side", "kind", "hint"})
VALUES_PARTS = frozenset({"expressions", "alias", "sample", "joins", "laterals"})
LATERAL_PARTS = frozenset({"this", "alias", "view", "outer", "ordinality"})
PIVOT_PARTS = frozenset(
    {"expressions", "fields", "alias", "unpivot", "columns", "include_nulls", "default_on_null",
     "value_columns_first", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming"}
)  # fmt: skip
LEAVES = (exp.Identifier, exp.Literal, exp.DataType, exp.Var, exp.Null, exp.Boolean, exp.Hint)


def only(node: exp.Expr, known: frozenset[str]) -> None:
    """Raise Unclear when a node says something that the walk does not read."""
    for name, value in node.args.items():
        if value and name not in known:
            raise Unclear(f"{NOT_UNDERSTOOD}`{name.rstrip('_')}` of {type(node).__name__}")


def folded(node: exp.Expr) -> str:
    if not isinstance(node, exp.Identifier):
        raise Unclear(f"a name is a {type(node).__name__}")
    return str(node.this).lower()


def names_of(nodes: Iterable[exp.Expr] | None) -> list[str]:
    return [folded(node) for node in nodes or ()]


def star_of(node: exp.Expr) -> exp.Star | None:
    """Return the star of `*` or `t.*`."""
    if isinstance(node, exp.Column):
        node = node.this
    return node if isinstance(node, exp.Star) else None


def qualifier_of(node: exp.Expr) -> Parts:
    return tuple(folded(part) for part in node.parts[:-1]) if isinstance(node, exp.Column) else ()


def parts_of(node: exp.Expr) -> Parts | None:
    """Return the name parts of a column reference with its struct fields, or None for anything else."""
    fields: list[str] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        fields.append(folded(node.expression))
        node = node.this
    if not isinstance(node, exp.Column):
        return None
    return (*(folded(part) for part in node.parts), *reversed(fields))


def is_star_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Select) and [type(e) for e in node.expressions] == [exp.Star]


def without_list(node: exp.Expr) -> exp.Expr:
    """Return the query of `EXISTS (SELECT * …)` without its star: EXISTS looks at rows only."""
    bare = exp.Select(**{k: v for k, v in node.args.items() if k != "expressions"})
    bare.set("expressions", [])
    return bare


def counts_outputs(clause: object) -> bool:
    """Whether GROUP BY or ORDER BY means output columns without naming them: by number, or ALL."""
    if not isinstance(clause, exp.Expr):
        return False
    if clause.args.get("all"):
        return True
    items = [
        item
        for name in ("expressions", "grouping_sets", "cube", "rollup")
        for item in clause.args.get(name) or ()
    ]
    while items:
        item = items.pop()
        if isinstance(item, (exp.Ordered, exp.Paren)):
            items.append(item.this)
        elif isinstance(item, (exp.GroupingSets, exp.Cube, exp.Rollup, exp.Tuple)):
            items.extend(item.expressions)
        elif isinstance(item, (exp.Literal, exp.Var, exp.Placeholder)):
            return True  # the argument of a marker is written in its place, so it may be a number
    return False
