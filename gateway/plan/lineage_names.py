"""What Spark calls a column that a plan computes and gives no name: `sum(a)`, `(a + 1)`.

A later operation of the plan may name it so. Where Spark's name is not known for certain there is none.
"""

from __future__ import annotations

from gateway.plan.analyse_expressions import parts_of
from gateway.sql.analyse_scope import Unclear
from gateway.wire.connect import pb

MAX_DEPTH = 20
"""Calls within calls of a name; nobody writes a longer one."""

_OPERATORS = {
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "==": "=", "=": "=", "<": "<", "<=": "<=", ">": ">",
    ">=": ">=", "<=>": "<=>", "and": "and", "or": "or",
}  # fmt: skip
_RENAMED = {"mean": "avg", "stddev_samp": "stddev_samp", "approxcountdistinct": "approx_count_distinct"}
_NUMBERS = ("byte", "short", "integer", "long")


def column_name(expression: pb.Expression) -> str | None:
    """Return the name in lower case, None where it is not known."""
    return _name(expression, 0)


def literal_name(literal: pb.Expression.Literal) -> str | None:
    """Return how Spark writes a literal as a name or as part of one."""
    case = literal.WhichOneof("literal_type")
    if case in _NUMBERS:
        return str(getattr(literal, case))
    if case == "string":
        return literal.string.lower()
    if case == "boolean":
        return str(literal.boolean).lower()
    return "null" if case == "null" else None


def _name(expression: pb.Expression, depth: int) -> str | None:
    if depth > MAX_DEPTH:
        return None
    match expression.WhichOneof("expr_type"):
        case "unresolved_attribute":
            try:
                return parts_of(expression.unresolved_attribute.unparsed_identifier)[-1]
            except Unclear:
                return None
        case "literal":
            return literal_name(expression.literal)
        case "unresolved_function":
            return _function(expression.unresolved_function, depth)
        case "unresolved_star":
            return "1"  # count(*) is called count(1)
        case "alias" if len(expression.alias.name) == 1:
            return expression.alias.name[0].lower() if not depth else _name(expression.alias.expr, depth)
        case "cast" if not depth and expression.cast.expr.WhichOneof("expr_type") == "unresolved_attribute":
            return _name(expression.cast.expr, depth + 1)
        case "unresolved_extract_value":
            extract = expression.unresolved_extract_value
            of, what = _name(extract.child, depth + 1), extract.extraction.literal
            text = what.string if what.WhichOneof("literal_type") == "string" else None
            return f"{of}.{text.lower()}" if of is not None and text is not None else None
        case "window" | "common_inline_user_defined_function":
            return None
    return None


def _function(function: pb.Expression.UnresolvedFunction, depth: int) -> str | None:
    name = function.function_name.lower()
    if len(function.arguments) > MAX_DEPTH:
        return None
    arguments = [_name(argument, depth + 1) for argument in function.arguments]
    known = [argument for argument in arguments if argument is not None]
    if len(known) < len(arguments):
        return None
    if name in _OPERATORS and len(known) == 2:
        return f"({known[0]} {_OPERATORS[name]} {known[1]})"
    if not name.isidentifier():
        return None
    distinct = "distinct " if function.is_distinct else ""
    return f"{_RENAMED.get(name, name)}({distinct}{', '.join(known)})"
