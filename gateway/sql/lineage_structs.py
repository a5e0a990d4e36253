"""Types of what a query builds, as far as the names of their fields go: `struct(a, b)` has `a` and `b`."""

from __future__ import annotations

from sqlglot import exp

from gateway.algebra.usage import Unclear
from gateway.sql.analyse_tree import fold_identifier, parts_of, qualifier_of, star_of
from gateway.sql.lineage_expressions import Ctes, SqlLineageExpressions
from gateway.sql.lineage_scope import Environment
from gateway.sql.lineage_types import element_type, field_type, is_nested, struct_of, sum_type

MAX_DEPTH = 20
"""Values within values; nobody writes a longer one."""

_SAME = (
    exp.Paren, exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Max, exp.Min, exp.First,
    exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.Lag, exp.Lead,
    exp.NthValue,
)  # fmt: skip
"""They give a value of their first operand's type."""


def infer_type(node: exp.Expr, walk: SqlLineageExpressions, place: Environment, ctes: Ctes) -> str:
    """Return the type of an expression in DDL, empty where it is not told here."""
    return _type(node, walk, place, ctes, 0)


def _type(node: object, walk: SqlLineageExpressions, place: Environment, ctes: Ctes, depth: int) -> str:
    if not isinstance(node, exp.Expr) or depth > MAX_DEPTH:
        return ""

    def within(child: object) -> str:
        return _type(child, walk, place, ctes, depth + 1)

    if (parts := parts_of(node)) is not None:
        return "" if walk.argument(parts[0]) is not None else walk.infer_reference_type(parts, place)
    match node:
        case exp.Struct():
            return _struct(node, walk, place, ctes, depth)
        case exp.Distinct():
            return within(node.expressions[0]) if len(node.expressions) == 1 else ""
        case exp.Count() | exp.CountIf() | exp.ApproxDistinct():
            return "bigint"
        case exp.Sum():
            return sum_type(within(node.this))
        case exp.Coalesce():
            type_ = within(node.this)
        case exp.If():
            type_ = within(node.args.get("true"))
        case exp.Case():
            branches = node.args.get("ifs") or ()
            type_ = within(branches[0].args.get("true")) if branches else ""
        case exp.ArrayAgg() | exp.ArrayUniqueAgg():
            inner = within(node.this)
            return f"array<{inner}>" if inner else ""
        case exp.Array():
            inner = within(node.expressions[0]) if node.expressions else ""
            return f"array<{inner}>" if inner else ""
        case exp.Explode() | exp.ExplodeOuter():
            return element_type(within(node.this))
        case exp.Bracket():
            return element_type(within(node.this)) if len(node.expressions) == 1 else ""
        case exp.Dot(expression=exp.Identifier()):
            return field_type(within(node.this), fold_identifier(node.expression))
        case exp.Cast():
            return node.to.sql(dialect="spark") if node.to.this is exp.DataType.Type.STRUCT else ""
        case exp.FromJson() if isinstance(node.expression, exp.Literal) and node.expression.is_string:
            return of_schema(str(node.expression.this))
        case _:
            return within(node.args.get("this")) if isinstance(node, _SAME) else ""
    return type_ if is_nested(type_) else ""


def of_schema(schema: str) -> str:
    """Return the type that a schema in DDL is; one in JSON is not told."""
    text = schema.strip()
    if text[:1] in '{["' or text[:6].lower() in ("array<", "map<"):
        return text if text[:6].lower() == "array<" else ""
    return text if text[:7].lower() == "struct<" else f"struct<{text}>"


def _struct(node: exp.Struct, walk: SqlLineageExpressions, place: Environment, ctes: Ctes, depth: int) -> str:
    fields: list[tuple[str, str]] = []
    for item in node.expressions:
        if (star := star_of(item)) is not None:
            try:
                shown, unknown = walk.expand(star, qualifier_of(item), place)
            except Unclear:
                return ""
            if unknown or any(a.name is None for a in shown):
                return ""
            fields += [(a.name or "", a.value.type) for a in shown]
        elif isinstance(item, exp.PropertyEQ) and isinstance(item.this, exp.Identifier):
            name = fold_identifier(item.this)
            if name.startswith("col") and name[3:].isdigit() and len(fields) + 1 != int(name[3:]):
                return ""  # numbered by sqlglot, which does not count what a star stands for
            fields.append((name, _type(item.expression, walk, place, ctes, depth + 1)))
        else:
            return ""
    return struct_of(fields)  # RULE (lineage-struct-fields)
