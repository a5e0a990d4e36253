"""Which values may come with an SQL text for its parameter markers.

Spark writes an argument into the text as SQL and parses the result, and not all of it is escaped: the name of
a struct's field stands between quotes as it is, so that on 4.3.0 a field called `x', (SELECT a FROM t)) --`
reads a table that nobody judged. So only what is written safely may pass: numbers, strings, times, and arrays
and maps of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gateway.model.catalog import dotted
from gateway.model.reading import Reading
from gateway.plan.identifiers import table_parts
from gateway.plan.reading import SqlText
from gateway.wire.connect import pb

_IDENTIFIER = re.compile(r"\bIDENTIFIER\s*\(\s*(:\w+)\s*\)", re.IGNORECASE)

_Part = pb.Expression | pb.Expression.Literal | pb.DataType

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


def argument_refusal(sql: pb.SQL) -> str | None:
    """Return why the arguments of a `SQL` relation may not come with its text, or None when they may."""
    pending: list[_Part] = [*sql.args.values(), *sql.pos_args]
    pending += [*sql.named_arguments.values(), *sql.pos_arguments]
    while pending:
        message = pending.pop()
        parts = _parts(message)
        if parts is None:
            return _WHY
        pending += parts
    return None


def with_named_arguments(text: SqlText, reading: Reading) -> str:
    """Return a text with the names in it that its arguments give to `IDENTIFIER(:x)`.

    Spark, too, writes arguments into a text before it parses it. Where no marker stands, within strings and
    comments, nothing is changed. `reading`: Spark's of the text as it is.
    """
    markers = {(one.span.start, one.span.end) for one in reading.parameters if one.span is not None}
    given, written = text.relation.sql.named_arguments, reading.written or text.text
    for match in reversed(list(_IDENTIFIER.finditer(written))):
        name = match[1][1:]
        literal = given[name].literal if name in given else None
        parts = table_parts(literal.string) if literal is not None and literal.HasField("string") else None
        if parts is not None and match.span(1) in markers:
            written = written[: match.start()] + dotted(parts) + written[match.end() :]
    return written


def names_by_argument(text: SqlText) -> bool:
    """Whether a text may have names that its arguments give."""
    return text.arguments and _IDENTIFIER.search(text.text) is not None


def schemas_in(sql: pb.SQL) -> tuple[str, ...]:
    """Return the strings among arguments that `argument_refusal` lets pass, as the text may have one for a
    schema. Those within lists and maps cannot be one."""
    literals = [*sql.args.values(), *sql.pos_args]
    literals += [e.literal for e in (*sql.named_arguments.values(), *sql.pos_arguments)]
    return tuple(literal.string for literal in literals if literal.HasField("string"))


def _parts(message: _Part) -> Sequence[_Part] | None:
    """Return what is to be looked at within a message; None when it may not be part of an argument."""
    match message:
        case pb.Expression():
            return _of_expression(message)
        case pb.Expression.Literal():
            return _of_literal(message)
        case pb.DataType():
            return _of_type(message)


def _of_expression(expression: pb.Expression) -> Sequence[_Part] | None:
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


def _of_literal(literal: pb.Expression.Literal) -> Sequence[_Part] | None:
    types = [literal.data_type] if literal.HasField("data_type") else []
    case = literal.WhichOneof("literal_type")
    if case in _SCALARS:
        return types
    if case == "null":
        return [literal.null, *types]
    if case == "array":
        array = literal.array
        return [array.element_type, *array.elements, *types]
    if case == "map":
        entries = literal.map
        return [entries.key_type, entries.value_type, *entries.keys, *entries.values, *types]
    return None


def _of_type(data_type: pb.DataType) -> Sequence[pb.DataType] | None:
    kind = data_type.WhichOneof("kind")
    if kind == "string" and data_type.string.collation:
        return None
    if kind is None or kind in _SCALAR_TYPES:
        return []
    if kind == "array":
        return [data_type.array.element_type]
    if kind == "map":
        return [data_type.map.key_type, data_type.map.value_type]
    return None
