"""What Spark calls a column that a plan computes and gives no name: `sum(a)`, `(a + 1)`.

A later operation of the plan may name it so. Where Spark's name is not known for certain there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.algebra.types_in_ddl import is_map, is_plain, kind_of
from gateway.algebra.usage import Unclear
from gateway.plan.lineage_structs import NUMBERS, infer_type, literal_name, parts_of
from gateway.wire.connect import pb

MAX_DEPTH = 20
"""Calls within calls of a name; nobody writes a longer one."""

_OPERATORS = {
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "==": "=", "=": "=", "<": "<", "<=": "<=", ">": ">",
    ">=": ">=", "<=>": "<=>", "and": "and", "or": "or",
}  # fmt: skip
_RENAMED = {"mean": "avg", "stddev_samp": "stddev_samp", "approxcountdistinct": "approx_count_distinct"}
_ARITHMETIC = frozenset("+-*/%")


Shown = Callable[[pb.Expression.UnresolvedAttribute], tuple[str | None, str]]
"""How Spark shows a reference within an expression, and the type of what it means; empty where not known."""


def column_name(expression: pb.Expression, shown: Shown) -> str | None:
    """Return the name in lower case, None where it is not known."""
    return _name(expression, shown, 0)


def _name(expression: pb.Expression, shown: Shown, depth: int) -> str | None:
    if depth > MAX_DEPTH:
        return None
    match expression.WhichOneof("expr_type"):
        case "unresolved_attribute":
            if depth:
                return shown(expression.unresolved_attribute)[0]
            try:
                return parts_of(expression.unresolved_attribute.unparsed_identifier)[-1]
            except Unclear:
                return None
        case "literal":
            return literal_name(expression.literal)
        case "unresolved_function":
            return _function(expression.unresolved_function, shown, depth)
        case "unresolved_star":
            return "1"  # count(*) is called count(1)
        case "alias" if len(expression.alias.name) == 1:
            return (
                expression.alias.name[0].lower() if not depth else _name(expression.alias.expr, shown, depth)
            )
        case "cast" if not depth and expression.cast.expr.WhichOneof("expr_type") == "unresolved_attribute":
            return _cast(expression.cast.expr.unresolved_attribute, shown)
        case "unresolved_extract_value":
            return _extract(expression.unresolved_extract_value, shown, depth)
        case "window" | "common_inline_user_defined_function":
            return None
    return None


def _extract(extract: pb.Expression.UnresolvedExtractValue, shown: Shown, depth: int) -> str | None:
    of, key = _name(extract.child, shown, depth + 1), literal_name(extract.extraction.literal)
    if of is None or key is None:
        return None
    if extract.extraction.literal.WhichOneof("literal_type") != "string":
        return f"{of}[{key}]"
    type_ = infer_type(extract.child, lambda column: shown(column)[1])
    if not type_:
        return None
    return f"{of}[{key}]" if is_map(type_) else f"{of}.{key}"


def _cast(column: pb.Expression.UnresolvedAttribute, shown: Shown) -> str | None:
    """Return the column's own name; a cast of a field is called otherwise."""
    name, _ = shown(column)
    return name if name is not None and "." not in name else None


def _is_plain(operand: pb.Expression, shown: Shown) -> bool:
    """Whether an operand is a number or a string: with dates and intervals Spark puts other functions in the
    place of some operators."""
    case = operand.WhichOneof("expr_type")
    if case == "literal":
        return operand.literal.WhichOneof("literal_type") in (
            *NUMBERS,
            "string",
            "double",
            "float",
            "decimal",
        )
    function = operand.unresolved_function
    if case == "unresolved_function" and function.function_name in _ARITHMETIC:
        return all(_is_plain(argument, shown) for argument in function.arguments)
    return is_plain(infer_type(operand, lambda column: shown(column)[1]))


def _date(
    operator: str, left: pb.Expression, right: pb.Expression, names: Sequence[str], shown: Shown
) -> str | None:
    """Return what Spark calls a sum or a difference with dates in it."""
    first, second = (
        "number" if _is_plain(one, shown) else kind_of(infer_type(one, lambda column: shown(column)[1]))
        for one in (left, right)
    )
    match first, operator, second:
        case "date", "+", "number":
            return f"date_add({names[0]}, {names[1]})"
        case "number", "+", "date":
            return f"date_add({names[1]}, {names[0]})"
        case "date", "-", "number":
            return f"date_sub({names[0]}, {names[1]})"
        case "date" | "timestamp", "-", "date" | "timestamp":
            return f"({names[0]} - {names[1]})"
    return None


def _function(function: pb.Expression.UnresolvedFunction, shown: Shown, depth: int) -> str | None:
    name = function.function_name.lower()
    if len(function.arguments) > MAX_DEPTH:
        return None
    arguments = [_name(argument, shown, depth + 1) for argument in function.arguments]
    known = [argument for argument in arguments if argument is not None]
    if len(known) < len(arguments):
        return None
    if name in _OPERATORS and len(known) == 2:
        if name in "+-" and not all(_is_plain(argument, shown) for argument in function.arguments):
            return _date(name, function.arguments[0], function.arguments[1], known, shown)
        return f"({known[0]} {_OPERATORS[name]} {known[1]})"
    if not name.isidentifier():
        return None
    distinct = "distinct " if function.is_distinct else ""
    return f"{_RENAMED.get(name, name)}({distinct}{', '.join(known)})"
