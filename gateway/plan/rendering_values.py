"""Values and types within a plan as Python and DDL write them.

Each function here that returns a piece returns text, or what is still to be rendered: a message, a tuple of a
function and its arguments, or a list of pieces. Nobody recurses.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeAlias

from gateway.wire.connect import Message, pb

MAX_CHARACTERS = 65_536
"""A rendering is cut behind this."""
MAX_ITEMS = MAX_CHARACTERS // 2
"""More items of a list than can be seen of it: each takes two characters or more."""

_Call = tuple[Any, ...]  # type: ignore[explicit-any]  # of arguments of any kind
Rendered: TypeAlias = "str | Message | _Call | list[Rendered]"
"""Text, a tuple of a function and its arguments that gives another piece, a message, or a list of pieces."""
RenderedPieces = list[Rendered]

_TYPES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "null": "void",
    "calendar_interval": "interval",
}
_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double", "boolean"})
_QUOTES = re.compile(r"[\"'\\]")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def quote_text(text: str) -> str:
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


def bare(name: str) -> str:
    """Return a name that stands without quotes, in quotes where it has what opens or closes a text."""
    return quote_text(name) if _QUOTES.search(name) else name


def _inner(name: str) -> str:
    """Return a name as it stands within double quotes."""
    return re.sub(r'["\\]', r"\\\g<0>", name)


def scalar(value: object) -> str:
    """Return a value as Python writes it; of bytes only how many there are."""
    if isinstance(value, str):
        return quote_text(value)
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else repr(value)


def join_with_commas(pieces: Iterable[Rendered]) -> RenderedPieces:
    """Return pieces with commas between them."""
    found: RenderedPieces = []
    for piece in islice(pieces, MAX_ITEMS):
        found.append(piece)
        found.append(", ")
    if found:
        found.pop()
    return found


def literal(message: pb.Expression.Literal) -> Rendered:
    """Return the piece of a `Literal`: a Python value."""
    case = message.WhichOneof("literal_type")
    if case == "string":
        return quote_text(message.string)
    if case in _NUMBERS:
        return repr(getattr(message, case))
    if case is None or case == "null":
        return "None"
    return (_literal, message, case)


def _literal(message: pb.Expression.Literal, case: str) -> Rendered:
    value = getattr(message, case)
    match case:
        case "binary":
            return repr(bytes(value[:MAX_CHARACTERS]))
        case "decimal":
            return f"Decimal({quote_text(value.value)})"
        case "date":
            return _moment("date", value, datetime.timedelta(days=1))
        case "timestamp" | "timestamp_ntz":
            return _moment("datetime", value, datetime.timedelta(microseconds=1))
        case "array":
            return ["[", *join_with_commas(literal(item) for item in value.elements[:MAX_ITEMS]), "]"]
        case "struct":
            return ["(", *join_with_commas(literal(item) for item in value.elements[:MAX_ITEMS]), ")"]
        case "map":
            pairs = zip(value.keys[:MAX_ITEMS], value.values[:MAX_ITEMS], strict=False)
            return ["{", *join_with_commas([literal(key), ": ", literal(item)] for key, item in pairs), "}"]
        case "specialized_array":
            kind = value.WhichOneof("value_type")
            items = getattr(value, kind).values[:MAX_ITEMS] if kind else ()
            return f"[{', '.join([scalar(item) for item in items])}]"
    return value if isinstance(value, Message) else f"{case}({value!r})"


def _moment(kind: str, count: int, unit: datetime.timedelta) -> str:
    try:
        moment = _EPOCH + count * unit
    except OverflowError:
        return f"{kind}({count})"
    written = moment.date().isoformat() if kind == "date" else moment.replace(tzinfo=None).isoformat(" ")
    return f'{kind}("{written}")'


def schema(message: pb.DataType) -> Rendered:
    """Return the piece of a `DataType` that stands for itself."""
    return ['"', _data_type(message), '"']


def _data_type(message: pb.DataType) -> Rendered:
    """Return the piece of a `DataType`, as DDL writes it."""
    case = message.WhichOneof("kind")
    if case is None:
        return "?"
    if case in ("array", "map", "struct", "decimal"):
        return (_render_nested_type, message, case)
    return _TYPES.get(case, case)


def _render_nested_type(message: pb.DataType, case: str) -> Rendered:
    match case:
        case "array":
            return ["array<", _data_type(message.array.element_type), ">"]
        case "map":
            return ["map<", _data_type(message.map.key_type), ", ", _data_type(message.map.value_type), ">"]
        case "decimal":
            return f"decimal({message.decimal.precision},{message.decimal.scale})"
    fields: Iterable[Rendered] = (
        [f"{_inner(field.name)} ", _data_type(field.data_type)] for field in message.struct.fields[:MAX_ITEMS]
    )
    return ["struct<", *join_with_commas(fields), ">"]
