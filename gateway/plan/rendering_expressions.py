"""Expressions of a plan as one would write them in PySpark, where a template cannot say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Never

from gateway.plan.rendering_values import (
    MAX_ITEMS,
    Rendered,
    RenderedPieces,
    bare,
    join_with_commas,
    literal,
    quote_text,
    sql_text,
)
from gateway.wire.connect import Message, pb

NAME, VALUE, OPERAND = 0, 1, 2
"""How an expression stands: where the name of a column may stand for it (`select("a")`), as a Column, or as
a Column beside an operator, where Python's own values may stand and operators need brackets."""

_BINARY = {
    **{name: name for name in ("==", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "^")},
    "and": "&",
    "or": "|",
    "power": "**",
}
_UNARY = {"not": "~", "!": "~", "negative": "-"}
_METHODS = {
    "<=>": "eqNullSafe",
    "&": "bitwiseAND",
    "|": "bitwiseOR",
    "contains": "contains",
    "endsWith": "endswith",
    "endswith": "endswith",
    "ilike": "ilike",
    "in": "isin",
    "isNaN": "isNaN",
    "isNotNull": "isNotNull",
    "isNull": "isNull",
    "isnotnull": "isNotNull",
    "isnull": "isNull",
    "like": "like",
    "rlike": "rlike",
    "startsWith": "startswith",
    "startswith": "startswith",
}


def join_pieces(pieces: RenderedPieces) -> Rendered:
    """Return pieces as one text if they are nothing else, which is less work for everybody behind."""
    texts = [piece for piece in pieces if isinstance(piece, str)]
    return "".join(texts) if len(texts) == len(pieces) else pieces


def now(message: pb.Expression, how: int = NAME) -> Rendered:
    """Return the piece of an `Expression`, with a function's call written out; what is within it may wait.

    Most functions are called on columns and values: that is one text then.
    """
    if message.WhichOneof("expr_type") == "unresolved_function":
        return _function(message.unresolved_function, how)
    return expression(message, how)


def expression(message: pb.Expression, how: int = NAME) -> Rendered:
    """Return the piece of an `Expression`."""
    case = message.WhichOneof("expr_type")
    if case == "unresolved_attribute":
        name = quote_text(message.unresolved_attribute.unparsed_identifier)
        return name if how == NAME else f"F.col({name})"
    if case == "literal":
        value = literal(message.literal)
        if how == OPERAND:
            return value
        return f"F.lit({value})" if isinstance(value, str) else ["F.lit(", value, ")"]
    if case is None:
        return "<nothing>"
    render = _CASES.get(case)
    if render is None:
        body: Message = getattr(message, case)
        return body
    return (render, getattr(message, case), how)


def receiver(message: pb.Expression) -> Rendered:
    """Return the piece of an `Expression` on which a method is called: operators stand in brackets."""
    case = message.WhichOneof("expr_type")
    return now(message, OPERAND if case == "unresolved_function" else VALUE)


def order(order: pb.Expression.SortOrder) -> Rendered:
    """Return the piece of a `SortOrder`; ascending is not written."""
    method = _ORDERS.get((order.direction, order.null_ordering))
    if method is None:
        return expression(order.child)
    if order.child.WhichOneof("expr_type") == "unresolved_attribute":
        return f"F.{method}({expression(order.child)})"
    return [receiver(order.child), f".{method}()"]


_ORDERS = {(2, 2): "desc", (2, 0): "desc", (1, 2): "asc_nulls_last", (2, 1): "desc_nulls_first"}


def _function(function: pb.Expression.UnresolvedFunction, how: int) -> Rendered:
    name, arguments = function.function_name, function.arguments[:MAX_ITEMS]
    count = len(arguments)
    if not function.is_distinct and not function.is_user_defined_function:
        if count == 2 and name in _BINARY:
            left, right = arguments
            first = expression(left, VALUE if left.WhichOneof("expr_type") == "literal" else OPERAND)
            second = expression(right, OPERAND)
            before, after = ("(", ")") if how == OPERAND else ("", "")
            return join_pieces([before, first, f" {_BINARY[name]} ", second, after])
        if count == 1 and name in _UNARY:
            return join_pieces([_UNARY[name], expression(arguments[0], OPERAND)])
        if count and name in _METHODS:
            rest = join_with_commas([expression(item, OPERAND) for item in arguments[1:MAX_ITEMS]])
            return join_pieces([expression(arguments[0], OPERAND), f".{_METHODS[name]}(", *rest, ")"])
        if count > 1 and name == "when":
            return _when(arguments)
    pieces = join_with_commas([expression(item) for item in arguments])
    if function.is_user_defined_function or not name.isidentifier():
        called = "call_udf" if function.is_user_defined_function else "call_function"
        return [f"F.{called}({quote_text(name)}", *([", "] if count else []), *pieces, ")"]
    distinct = "_distinct" if function.is_distinct else ""
    return join_pieces([f"F.{name}{distinct}(", *pieces, ")"])


def _when(items: Sequence[pb.Expression]) -> RenderedPieces:
    pieces: RenderedPieces = ["F"]
    for at in range(0, len(items) - 1, 2):
        pieces += [".when(", expression(items[at], VALUE), ", ", expression(items[at + 1], OPERAND), ")"]
    if len(items) % 2:
        pieces += [".otherwise(", expression(items[-1], OPERAND), ")"]
    return pieces


def _text(message: pb.Expression.ExpressionString, how: int) -> str:
    text = sql_text(message.expression)
    return text if how == NAME else f"F.expr({text})"


def _star(star: pb.Expression.UnresolvedStar, how: int) -> str:
    return quote_text(star.unparsed_target or "*")


def _order(sort_order: pb.Expression.SortOrder, how: int) -> Rendered:
    return order(sort_order)


def _lambda(function: pb.Expression.LambdaFunction, how: int) -> RenderedPieces:
    names = [_variable(argument, how) for argument in function.arguments[:MAX_ITEMS]]
    return [f"lambda {', '.join(names)}: ", expression(function.function, VALUE)]


def _variable(variable: pb.Expression.UnresolvedNamedLambdaVariable, how: int) -> str:
    return bare(".".join(variable.name_parts[:]) or "_")


def _update(update: pb.Expression.UpdateFields, how: int) -> RenderedPieces:
    struct, name = expression(update.struct_expression, VALUE), quote_text(update.field_name)
    if not update.HasField("value_expression"):
        return [struct, f".dropFields({name})"]
    return [struct, f".withField({name}, ", expression(update.value_expression, VALUE), ")"]


_CASES: Mapping[str, Callable[[Never, int], Rendered]] = {
    "expression_string": _text,
    "lambda_function": _lambda,
    "sort_order": _order,
    "unresolved_function": _function,
    "unresolved_named_lambda_variable": _variable,
    "unresolved_star": _star,
    "update_fields": _update,
}
