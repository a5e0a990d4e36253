"""Expressions of a plan as one would write them in PySpark.

Each function here takes a message and returns a piece or a list of pieces: text, and what is still to be
rendered, which is a tuple of a function and its arguments, or a message. Nobody recurses.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Never, TypeAlias

from gateway.wire.connect import Message, pb

MAX_CHARACTERS = 65_536
"""A rendering is cut behind this."""
MAX_ITEMS = MAX_CHARACTERS // 2
"""More items of a list than can be seen of it: each takes two characters or more."""

_Call = tuple[Any, ...]  # type: ignore[explicit-any]  # of arguments of any kind
Piece: TypeAlias = "str | Message | _Call | list[Piece]"
"""Text, a tuple of a function and its arguments that gives another piece, a message, or a list of pieces."""
Pieces = list[Piece]

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
_TYPES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "null": "void",
    "calendar_interval": "interval",
}
_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double", "boolean"})
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def quoted(text: str) -> str:
    """Return text as Python writes it, in double quotes where it has nothing to escape."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return repr(text[: MAX_CHARACTERS + 1])


def sql_text(text: str) -> str:
    """Return SQL text as it was written, between quotes that let it stand as it is if any do."""
    text = text[: MAX_CHARACTERS + 1]
    if '"""' in text or text.endswith(('"', "\\")):
        return repr(text)
    if text.isprintable():
        if '"' not in text and "\\" not in text:
            return f'"{text}"'
    elif not text.replace("\n", "").replace("\t", "").isprintable():
        return repr(text)
    raw = "r" if "\\" in text else ""
    return f'{raw}"""{text}"""'


def size(data: bytes) -> str:
    return f"{len(data):,} bytes"


def joined(pieces: Pieces) -> Piece:
    """Return pieces as one text if they are nothing else, which is less work for everybody behind."""
    texts = [piece for piece in pieces if isinstance(piece, str)]
    return "".join(texts) if len(texts) == len(pieces) else pieces


def listed(pieces: Iterable[Piece]) -> Pieces:
    """Return pieces with commas between them."""
    found: Pieces = []
    for piece in islice(pieces, MAX_ITEMS):
        found.append(piece)
        found.append(", ")
    if found:
        found.pop()
    return found


def each(messages: Sequence[pb.Expression], how: int = NAME) -> Pieces:
    return [expression(message, how) for message in messages[:MAX_ITEMS]]


def now(message: pb.Expression, how: int = NAME) -> Piece:
    """Return the piece of an `Expression`, with a function's call written out; what is within it may wait.

    Most functions are called on columns and values: that is one text then.
    """
    if message.WhichOneof("expr_type") == "unresolved_function":
        return _function(message.unresolved_function, how)
    return expression(message, how)


def expressions(messages: Sequence[pb.Expression], how: int = NAME) -> Pieces:
    """Return expressions with commas between them."""
    return listed([now(message, how) for message in messages[:MAX_ITEMS]])


def expression(message: pb.Expression, how: int = NAME) -> Piece:
    """Return the piece of an `Expression`."""
    case = message.WhichOneof("expr_type")
    if case == "unresolved_attribute":
        name = quoted(message.unresolved_attribute.unparsed_identifier)
        return name if how == NAME else f"F.col({name})"
    if case == "literal":
        value = literal(message.literal)
        if how == OPERAND:
            return value
        return f"F.lit({value})" if isinstance(value, str) else (_around, "F.lit(", value, ")")
    if case is None:
        return "<nothing>"
    render = _CASES.get(case)
    if render is None:
        body: Message = getattr(message, case)
        return body
    return (render, getattr(message, case), how)


def _around(before: str, piece: Piece, after: str) -> Pieces:
    return [before, piece, after]


# -------------------------------------------------------------------- values


def literal(message: pb.Expression.Literal) -> Piece:
    """Return the piece of a `Literal`: a Python value."""
    case = message.WhichOneof("literal_type")
    if case == "string":
        return quoted(message.string)
    if case in _NUMBERS:
        return repr(getattr(message, case))
    if case is None or case == "null":
        return "None"
    return (_literal, message, case)


def _literal(message: pb.Expression.Literal, case: str) -> Piece:
    microsecond = datetime.timedelta(microseconds=1)
    match case:
        case "binary":
            return repr(bytes(message.binary[:MAX_CHARACTERS]))
        case "decimal":
            return f"Decimal({quoted(message.decimal.value)})"
        case "date":
            return _moment("date", message.date, datetime.timedelta(days=1))
        case "timestamp":
            return _moment("datetime", message.timestamp, microsecond)
        case "timestamp_ntz":
            return _moment("datetime", message.timestamp_ntz, microsecond)
        case "array":
            return ["[", *listed(literal(item) for item in message.array.elements[:MAX_ITEMS]), "]"]
        case "struct":
            return ["(", *listed(literal(item) for item in message.struct.elements[:MAX_ITEMS]), ")"]
        case "map":
            entries = message.map
            pairs = zip(entries.keys[:MAX_ITEMS], entries.values[:MAX_ITEMS], strict=False)
            return ["{", *listed((_pair, key, item) for key, item in pairs), "}"]
        case "specialized_array":
            array = message.specialized_array
            kind = array.WhichOneof("value_type")
            items = getattr(array, kind).values if kind else ()
            return f"[{', '.join(_plain(item) for item in items[:MAX_ITEMS])}]"
        case "calendar_interval":
            span = message.calendar_interval
            return f"interval(months={span.months}, days={span.days}, microseconds={span.microseconds})"
        case "year_month_interval":
            return f"interval(months={message.year_month_interval})"
        case "day_time_interval":
            return f"interval(microseconds={message.day_time_interval})"
        case "time":
            return f"time(nanoseconds={message.time.nano})"
        case "timestamp_ntz_nanos":
            return _nanoseconds(message.timestamp_ntz_nanos)
        case "timestamp_ltz_nanos":
            return _nanoseconds(message.timestamp_ltz_nanos)
    return f"<{case}>"


def _nanoseconds(
    value: pb.Expression.Literal.TimestampNTZNanos | pb.Expression.Literal.TimestampLTZNanos,
) -> str:
    return f"datetime(microseconds={value.epoch_micros}, nanoseconds={value.nanos_within_micro})"


def _plain(item: object) -> str:
    return quoted(item) if isinstance(item, str) else repr(item)


def _pair(key: pb.Expression.Literal, value: pb.Expression.Literal) -> Pieces:
    return [literal(key), ": ", literal(value)]


def _moment(kind: str, count: int, unit: datetime.timedelta) -> str:
    try:
        moment = _EPOCH + count * unit
    except OverflowError:
        return f"{kind}({count})"
    written = moment.date().isoformat() if kind == "date" else moment.replace(tzinfo=None).isoformat(" ")
    return f'{kind}("{written}")'


def data_type(message: pb.DataType) -> Piece:
    """Return the piece of a `DataType`, as DDL writes it."""
    case = message.WhichOneof("kind")
    if case is None:
        return "?"
    if case in ("array", "map", "struct", "decimal"):
        return (_nested_type, message, case)
    return _TYPES.get(case, case)


def _nested_type(message: pb.DataType, case: str) -> Piece:
    match case:
        case "array":
            return ["array<", data_type(message.array.element_type), ">"]
        case "map":
            return ["map<", data_type(message.map.key_type), ", ", data_type(message.map.value_type), ">"]
        case "decimal":
            return f"decimal({message.decimal.precision},{message.decimal.scale})"
    inner = message.struct.fields
    fields = [(_around, f"{field.name} ", data_type(field.data_type), "") for field in inner]
    return ["struct<", *listed(fields), ">"]


# -------------------------------------------------------------------- the cases of Expression


def _function(function: pb.Expression.UnresolvedFunction, how: int) -> Piece:
    name, arguments = function.function_name, function.arguments[:MAX_ITEMS]
    count = len(arguments)
    if not function.is_distinct and not function.is_user_defined_function:
        if count == 2 and name in _BINARY:
            left, right = arguments
            first = expression(left, VALUE if left.WhichOneof("expr_type") == "literal" else OPERAND)
            second = expression(right, OPERAND)
            before, after = ("(", ")") if how == OPERAND else ("", "")
            return joined([before, first, f" {_BINARY[name]} ", second, after])
        if count == 1 and name in _UNARY:
            return joined([_UNARY[name], expression(arguments[0], OPERAND)])
        if count and name in _METHODS:
            rest = listed([expression(item, OPERAND) for item in arguments[1:MAX_ITEMS]])
            return joined([expression(arguments[0], OPERAND), f".{_METHODS[name]}(", *rest, ")"])
        if count > 1 and name == "when":
            return _when(arguments)
    if function.is_user_defined_function or not name.isidentifier():
        called = "call_udf" if function.is_user_defined_function else "call_function"
        return [f"F.{called}(", *listed([quoted(name), *each(arguments)]), ")"]
    distinct = "_distinct" if function.is_distinct else ""
    if count == 1:
        return joined([f"F.{name}{distinct}(", expression(arguments[0]), ")"])
    return joined([f"F.{name}{distinct}(", *listed(each(arguments)), ")"])


def _when(items: Sequence[pb.Expression]) -> Pieces:
    pieces: Pieces = ["F"]
    for at in range(0, len(items) - 1, 2):
        pieces += [".when(", expression(items[at], VALUE), ", ", expression(items[at + 1], OPERAND), ")"]
    if len(items) % 2:
        pieces += [".otherwise(", expression(items[-1], OPERAND), ")"]
    return pieces


def _text(message: pb.Expression.ExpressionString, how: int) -> str:
    text = sql_text(message.expression)
    return text if how == NAME else f"F.expr({text})"


def _star(star: pb.Expression.UnresolvedStar, how: int) -> str:
    return quoted(star.unparsed_target or "*")


def _alias(alias: pb.Expression.Alias, how: int) -> Piece:
    inner = now(alias.expr, OPERAND if _bare(alias.expr) else VALUE)
    names = ", ".join([quoted(name) for name in alias.name[:MAX_ITEMS]])
    return joined([inner, f".alias({names})"])


def _bare(message: pb.Expression) -> bool:
    """Whether a method may only be called on an expression in brackets."""
    return bool(message.WhichOneof("expr_type") == "unresolved_function")


def _cast(cast: pb.Expression.Cast, how: int) -> Pieces:
    method = ".try_cast(" if cast.eval_mode == 3 else ".cast("
    kind = quoted(cast.type_str) if cast.HasField("type_str") else (_around, '"', data_type(cast.type), '"')
    return [expression(cast.expr, OPERAND if _bare(cast.expr) else VALUE), method, kind, ")"]


def _regex(regex: pb.Expression.UnresolvedRegex, how: int) -> str:
    return f"df.colRegex({quoted(regex.col_name)})"


_ORDERS = {(2, 2): "desc", (2, 0): "desc", (1, 2): "asc_nulls_last", (2, 1): "desc_nulls_first"}


def order(order: pb.Expression.SortOrder, how: int = NAME) -> Piece:
    """Return the piece of a `SortOrder`; ascending is not written."""
    method = _ORDERS.get((order.direction, order.null_ordering))
    if method is None:
        return expression(order.child)
    if order.child.WhichOneof("expr_type") == "unresolved_attribute":
        return f"F.{method}({expression(order.child)})"
    return (_ordered, order.child, method)


def _ordered(child: pb.Expression, method: str) -> Pieces:
    return [expression(child, OPERAND if _bare(child) else VALUE), f".{method}()"]


def _order(sort_order: pb.Expression.SortOrder, how: int) -> Pieces:
    return [order(sort_order)]


def _lambda(function: pb.Expression.LambdaFunction, how: int) -> Pieces:
    names = [".".join(argument.name_parts[:]) for argument in function.arguments[:MAX_ITEMS]]
    return [f"lambda {', '.join(names)}: ", expression(function.function, VALUE)]


def _variable(variable: pb.Expression.UnresolvedNamedLambdaVariable, how: int) -> str:
    return ".".join(variable.name_parts[:]) or "_"


def _window(window: pb.Expression.Window, how: int) -> Pieces:
    spec: Pieces = ["Window"]
    if window.partition_spec:
        spec += [".partitionBy(", *expressions(window.partition_spec), ")"]
    if window.order_spec:
        spec += [".orderBy(", *listed(order(item) for item in window.order_spec[:MAX_ITEMS]), ")"]
    if window.HasField("frame_spec"):
        frame = window.frame_spec
        spec += [".rangeBetween(" if frame.frame_type == 2 else ".rowsBetween(",
                 *_bound(frame.lower, "Preceding"), ", ", *_bound(frame.upper, "Following"), ")"]  # fmt: skip
    return [expression(window.window_function, OPERAND), ".over(", *spec, ")"]


def _bound(bound: pb.Expression.Window.WindowFrame.FrameBoundary, side: str) -> Pieces:
    match bound.WhichOneof("boundary"):
        case "value":
            return [expression(bound.value, OPERAND)]
        case "unbounded":
            return [f"Window.unbounded{side}"]
    return ["Window.currentRow"]


def _extract(extract: pb.Expression.UnresolvedExtractValue, how: int) -> Pieces:
    return [expression(extract.child, VALUE), "[", expression(extract.extraction, OPERAND), "]"]


def _update(update: pb.Expression.UpdateFields, how: int) -> Pieces:
    struct, name = expression(update.struct_expression, VALUE), quoted(update.field_name)
    if not update.HasField("value_expression"):
        return [struct, f".dropFields({name})"]
    return [struct, f".withField({name}, ", expression(update.value_expression, VALUE), ")"]


_CODE = {
    "python_udf": "python function",
    "python_udtf": "python table function",
    "scalar_scala_udf": "scala function",
    "java_udf": "java function",
}


def code(function: pb.CommonInlineUserDefinedFunction | pb.CommonInlineUserDefinedTableFunction) -> str:
    """Return what stands for code of the user's: its name and size."""
    kind = function.WhichOneof("function")
    name = f" {function.function_name}" if function.function_name else ""
    if kind is None:
        return f"<function{name}>"
    body = getattr(function, kind)
    if kind == "java_udf":
        return f"<java function{name}, class {body.class_name}>"
    data = body.payload if kind == "scalar_scala_udf" else body.command
    return f"<{_CODE.get(kind, 'function')}{name}, {size(data)}>"


def _udf(function: pb.CommonInlineUserDefinedFunction, how: int) -> Pieces:
    return [code(function), "(", *expressions(function.arguments), ")"]


def _call(call: pb.CallFunction, how: int) -> Pieces:
    return ["F.call_function(", *listed([quoted(call.function_name), *each(call.arguments)]), ")"]


def _named_argument(argument: pb.NamedArgumentExpression, how: int) -> Pieces:
    return [f"{argument.key}=", expression(argument.value)]


_CASES: Mapping[str, Callable[[Never, int], Piece]] = {
    "alias": _alias,
    "call_function": _call,
    "cast": _cast,
    "common_inline_user_defined_function": _udf,
    "expression_string": _text,
    "lambda_function": _lambda,
    "named_argument_expression": _named_argument,
    "sort_order": _order,
    "unresolved_extract_value": _extract,
    "unresolved_function": _function,
    "unresolved_named_lambda_variable": _variable,
    "unresolved_regex": _regex,
    "unresolved_star": _star,
    "update_fields": _update,
    "window": _window,
}
