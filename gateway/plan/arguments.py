"""Which values may come with an SQL text for its parameter markers.

Spark writes an argument into the text as SQL and parses the result, and not all of it is escaped: the name of
a struct's field stands between quotes as it is, so that on 4.3.0 a field called `x', (SELECT a FROM t)) --`
reads a table that nobody judged. So only what is written safely may pass: numbers, strings, times, and arrays
and maps of them.
"""

from __future__ import annotations

from typing import Final

from gateway.plan.reading import Message

_SCALARS: Final = frozenset(
    """
    binary boolean byte short integer long float double decimal string date timestamp timestamp_ntz
    calendar_interval year_month_interval day_time_interval specialized_array time timestamp_ntz_nanos
    timestamp_ltz_nanos
    """.split()
)
"""Cases of a literal that hold neither a name nor another literal."""

_SCALAR_TYPES: Final = frozenset(
    """
    null binary boolean byte short integer long float double decimal string char var_char date timestamp
    timestamp_ntz calendar_interval year_month_interval day_time_interval time timestamp_ntz_nanos
    timestamp_ltz_nanos
    """.split()
)

_CONSTRUCTORS: Final = frozenset({"array", "map", "map_from_arrays"})
"""What PySpark makes lists and dictionaries with."""

_WHY: Final = (
    "an argument of an SQL text must be a number, a string, a time, or an array or a map of them; "
    "Spark would write it into the text"
)


def argument_refusal(sql: Message) -> str | None:
    """Return why the arguments of a `SQL` relation may not come with its text, or None when they may."""
    pending: list[Message] = [*sql.args.values(), *sql.pos_args]
    pending += [*sql.named_arguments.values(), *sql.pos_arguments]
    while pending:
        message = pending.pop()
        parts = _PARTS[message.DESCRIPTOR.full_name](message)
        if parts is None:
            return _WHY
        pending += parts
    return None


def schemas_in(sql: Message) -> tuple[str, ...]:
    """Return the strings among arguments that `argument_refusal` lets pass, as the text may have one for a
    schema. Those within lists and maps cannot be one."""
    literals = [*sql.args.values(), *sql.pos_args]
    literals += [e.literal for e in (*sql.named_arguments.values(), *sql.pos_arguments)]
    return tuple(literal.string for literal in literals if literal.HasField("string"))


def _of_expression(expression: Message) -> list[Message] | None:
    case = expression.WhichOneof("expr_type")
    if case == "literal":
        return [expression.literal]
    if case == "cast":
        # An array of NumPy's is cast to its type.
        cast = expression.cast
        return [cast.expr, cast.type] if cast.WhichOneof("cast_to_type") == "type" else None
    if case == "unresolved_function":
        call = expression.unresolved_function
        plain = not (call.is_distinct or call.is_user_defined_function or call.is_internal)
        return list(call.arguments) if plain and call.function_name in _CONSTRUCTORS else None
    return None


def _of_literal(literal: Message) -> list[Message] | None:
    types = [literal.data_type] if literal.HasField("data_type") else []
    case = literal.WhichOneof("literal_type")
    if case in _SCALARS:
        return types
    if case == "null":
        return [literal.null, *types]
    if case == "array":
        array = literal.array
        return [*_given(array, "element_type"), *array.elements, *types]
    if case == "map":
        entries = literal.map
        return [*_given(entries, "key_type", "value_type"), *entries.keys, *entries.values, *types]
    return None


def _of_type(data_type: Message) -> list[Message] | None:
    kind = data_type.WhichOneof("kind")
    if kind == "string" and data_type.string.collation:
        return None
    if kind is None or kind in _SCALAR_TYPES:
        return []
    if kind == "array":
        return _given(data_type.array, "element_type")
    if kind == "map":
        return _given(data_type.map, "key_type", "value_type")
    return None


def _given(message: Message, *fields: str) -> list[Message]:
    return [getattr(message, field) for field in fields if message.HasField(field)]


_PARTS: Final = {
    "spark.connect.Expression": _of_expression,
    "spark.connect.Expression.Literal": _of_literal,
    "spark.connect.DataType": _of_type,
}
"""What is to be looked at within each kind of message; None when it may not be part of an argument."""
