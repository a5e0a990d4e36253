"""Which values may come with an SQL text for its parameter markers.

Spark writes an argument into the text as SQL and parses the result, and not all of it is escaped: the name of
a struct's field stands between quotes as it is, so that on 4.3.0 a field called `x', (SELECT a FROM t)) --`
reads a table that nobody judged. So only what is written safely may pass: numbers, strings, times, and arrays
and maps of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from gateway.model.catalog import quote_parts
from gateway.model.reading import Reading
from gateway.plan.identifiers import table_parts
from gateway.plan.reading import SqlText
from gateway.wire.connect import pb

_EPOCH = date(1970, 1, 1)
_DAYS = 700_000
"""Days since then, or before, of dates that Python has and that are written alike."""
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
    "an argument of a SQL text must be a number, a string, a time, or an array or map of them; Spark would "
    "insert it into the text"
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
        if parts is not None and match.span(1) in markers:  # RULE (argument-names-written)
            written = written[: match.start()] + quote_parts(parts) + written[match.end() :]
    return written


_TEMPORARY_VIEW = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:LOCAL\s+)?TEMP(?:ORARY)?\s+VIEW\b", re.IGNORECASE
)
_AS = re.compile(r"\bAS\b", re.IGNORECASE)
MAX_BEGINNINGS = 8
"""Words AS in a text, behind each of which its query may begin."""


def queries_of_view(text: SqlText) -> list[tuple[str, str]]:
    """Return what may be the query of a text with arguments that makes a temporary view, each with what
    stands before it; none for any other text."""
    found = _TEMPORARY_VIEW.match(text.text) if text.arguments and text.runs_commands else None
    if found is None:
        return []
    begins = [match.end() for match in _AS.finditer(text.text, found.end())][:MAX_BEGINNINGS]
    return [(text.text[:at], text.text[at:]) for at in begins]


def with_written_arguments(text: SqlText, query: Reading, written: str) -> str | None:
    """Return a query with its arguments in it, as Spark (since 4.1) writes them before it parses a text; None
    where one is of a kind that is not written here. `query` is Spark's reading of it, `written` its text."""
    sql = text.relation.sql
    by_place = [*sql.pos_arguments] or [pb.Expression(literal=one) for one in sql.pos_args]
    markers = sorted(query.parameters, key=lambda one: one.span.start if one.span is not None else -1)
    for place, marker in reversed(list(enumerate(markers))):
        if marker.span is None or not (marker.value and marker.apart):
            return None
        name = marker.span.of(written).strip().removeprefix(":")
        if name == "?":
            given = by_place[place] if place < len(by_place) else None
        elif name in sql.named_arguments:
            given = sql.named_arguments[name]
        else:
            given = pb.Expression(literal=sql.args[name]) if name in sql.args else None
        literal = _write_argument(given) if given is not None else None
        if literal is None:
            return None
        written = written[: marker.span.start] + literal + written[marker.span.end :]
    return written


def _write_argument(given: pb.Expression) -> str | None:
    """Write an argument as Spark's own literals are written."""
    if given.WhichOneof("expr_type") != "literal" or given.literal.HasField("data_type"):
        return None
    literal = given.literal
    match literal.WhichOneof("literal_type"):
        case "null":
            return "NULL" if literal.null.WhichOneof("kind") == "null" else None
        case "boolean":
            return "TRUE" if literal.boolean else "FALSE"
        case "byte":
            return f"{literal.byte}Y"
        case "short":
            return f"{literal.short}S"
        case "integer":
            return str(literal.integer)
        case "long":
            return f"{literal.long}L"
        case "string":
            text = literal.string.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{text}'"
        case "date":
            return f"DATE '{_EPOCH + timedelta(days=literal.date)}'" if abs(literal.date) < _DAYS else None
        case _:
            return None


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
        # RULE (argument-types)
        return [cast.expr, cast.type] if cast.WhichOneof("cast_to_type") == "type" else None
    if case == "unresolved_function":
        call = expression.unresolved_function
        plain = not (call.is_distinct or call.is_user_defined_function or call.is_internal)
        # RULE (argument-functions)
        return list(call.arguments) if plain and call.function_name in _CONSTRUCTORS else None
    return None


def _of_literal(literal: pb.Expression.Literal) -> Sequence[_Part] | None:
    types = [literal.data_type] if literal.HasField("data_type") else []
    case = literal.WhichOneof("literal_type")
    if case in _SCALARS:  # RULE (argument-struct-fields)
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
    if kind == "string" and data_type.string.collation:  # RULE (argument-collations)
        return None
    if kind is None or kind in _SCALAR_TYPES:
        return []
    if kind == "array":
        return [data_type.array.element_type]
    if kind == "map":
        return [data_type.map.key_type, data_type.map.value_type]
    return None
