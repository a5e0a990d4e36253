"""Types of columns as Spark writes them: which masks have a meaning for one, and how CAST spells it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_TEXT = re.compile(r"string(?: collate (?P<collation>[A-Za-z0-9_]+))?\Z", re.IGNORECASE)
_SIZED_TEXT = re.compile(
    r"(?P<kind>char|varchar|character) ?\( ?(?P<size>[0-9]{1,9}) ?\)"
    r"(?: collate (?P<collation>[A-Za-z0-9_]+))?\Z",
    re.IGNORECASE,
)
_INTEGERS = {
    "tinyint": "TINYINT",
    "byte": "TINYINT",
    "smallint": "SMALLINT",
    "short": "SMALLINT",
    "int": "INT",
    "integer": "INT",
    "bigint": "BIGINT",
    "long": "BIGINT",
}
_SCALAR = re.compile(
    r"(?:boolean|float|real|double|binary|date|timestamp|timestamp_ntz|timestamp_ltz|variant|void"
    r"|(?:decimal|dec|numeric)(?: ?\( ?[0-9]{1,2} ?(?:, ?[0-9]{1,2} ?)?\))?|time(?: ?\( ?[0-9] ?\))?"
    r"|interval (?:year|month|day|hour|minute|second)(?: to (?:month|hour|minute|second))?)\Z",
    re.IGNORECASE,
)
_NESTED = re.compile(r"\s*(?P<kind>array|map|struct)\s*<", re.IGNORECASE)
_FIELD = re.compile(r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`)\s*:\s*")
_MAX_NESTING = 16


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type: which masks have a meaning for it, and how CAST spells it."""

    family: str
    """`text`, `integer`, `date` or `other`."""
    sql: str | None
    """None when the type cannot be spelled with certainty, say for a field name with odd characters."""
    size: int | None = None
    """Characters, of a char or varchar."""
    padded: bool = False


def column_type(data_type: str) -> ColumnType:
    """Read a type as Spark writes it in DDL; one that is not known is `other` and is never spelled."""
    text = " ".join(data_type.split())
    scalar = _scalar(text)
    if scalar is not None:
        return scalar
    return ColumnType("other", text if _end_of_type(text, 0, 0) == len(text) else None)


def is_collated(data_type: str) -> bool:
    """Whether a text type has a collation by which texts of other bytes may be equal."""
    found = _TEXT.match(text := " ".join(data_type.split())) or _SIZED_TEXT.match(text)
    collation = found["collation"] if found is not None else None
    return collation is not None and collation.upper() != "UTF8_BINARY"


@lru_cache(maxsize=4096)
def has_no_fields(data_type: str) -> bool:
    """Whether a type is known to have neither fields nor elements."""
    text = " ".join(data_type.split())
    return _scalar(text) is not None and text.lower() != "variant"


def _scalar(text: str) -> ColumnType | None:
    lowered = text.lower()
    if found := _TEXT.match(text):
        return ColumnType("text", "STRING" + _collate(found))
    if found := _SIZED_TEXT.match(text):
        padded = found["kind"].lower() != "varchar"
        kind = "CHAR" if padded else "VARCHAR"
        size = int(found["size"])
        return ColumnType("text", f"{kind}({size})" + _collate(found), size, padded)
    if lowered in _INTEGERS:
        return ColumnType("integer", _INTEGERS[lowered])
    if lowered == "date":
        return ColumnType("date", "DATE")
    return ColumnType("other", text.upper()) if _SCALAR.match(text) else None


def _collate(found: re.Match[str]) -> str:
    return f" COLLATE {found['collation']}" if found["collation"] else ""


def _end_of_type(text: str, start: int, depth: int) -> int:
    """Return where the type at `start` ends, −1 when it is not one that we can spell."""
    found = _NESTED.match(text, start)
    if depth > _MAX_NESTING:
        return -1
    if not found:
        return _end_of_scalar(text, start)
    kind, position = found["kind"].lower(), found.end()
    arity = {"array": 1, "map": 2}.get(kind)
    count = 0
    while True:
        if kind == "struct":
            field = _FIELD.match(text, position)
            if not field:
                return -1
            position = field.end()
        position = _end_of_type(text, position, depth + 1)
        if position < 0:
            return -1
        count += 1
        mark = text[position : position + 1]
        if mark == ">":
            return position + 1 if arity in (None, count) else -1
        if mark != ",":
            return -1
        position += 1


def _end_of_scalar(text: str, start: int) -> int:
    """Return the position of the `,` or `>` behind the scalar type at `start`, or the text's end."""
    level = 0
    for position in range(start, len(text) + 1):
        mark = text[position : position + 1]
        level += (mark == "(") - (mark == ")")
        if mark == "" or (mark in ",>" and level == 0):
            return position if _scalar(text[start:position].strip()) else -1
    return -1
