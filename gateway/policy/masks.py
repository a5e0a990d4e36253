"""Masks as Spark SQL: what a column shows for each of Ranger's mask types, in exactly the column's type.

Meaning per type is Hive's (its `mask`, `mask_show_last_n`, `mask_show_first_n` and `mask_hash` functions),
and a mask that has no meaning for a type shows NULL, never the value. docs/masks.md has the whole table; a
test runs each of its cells on Spark, with ANSI mode on and off.

Every expression is made of syntax (CAST, CASE, SUBSTRING … FROM) and of functions named
`system.builtin.…`, which a session cannot shadow with functions of its own (Spark 4.3).
INVARIANT (total): none of them can raise, whatever the column holds. Integers are masked as digits that
stay inside the type; no CAST meets text that we did not make.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.model.principal import Principal
from gateway.policy.sqltext import bind, quote_name

DEFAULT_MASKED_DATE = "1900-01-01"
"""What MASK shows instead of a date. Hive's own is 0000-01-01, which Python clients cannot represent."""

MASK_TYPES = (
    "MASK",
    "MASK_SHOW_LAST_4",
    "MASK_SHOW_FIRST_4",
    "MASK_HASH",
    "MASK_NULL",
    "MASK_NONE",
    "MASK_DATE_SHOW_YEAR",
    "CUSTOM",
)

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


def mask_expression(
    mask_type: str,
    column: str,
    data_type: str,
    *,
    custom: str | None = None,
    principal: Principal | None = None,
    masked_date: str = DEFAULT_MASKED_DATE,
) -> str | None:
    """Return what the column shows, as Spark SQL of the column's type; None for MASK_NONE only.

    A mask type that is not known shows NULL. `custom` is the text of a CUSTOM mask.
    """
    name = quote_name(column)
    type_ = column_type(data_type)
    if mask_type == "MASK_NONE":
        return None
    shown: str | None = None
    if mask_type == "CUSTOM":
        return _custom(custom, name, type_, principal)
    if type_.family == "text":
        shown = _text(mask_type, name, type_)
    elif type_.family == "integer":
        shown = _integer(mask_type, name)
    elif type_.family == "date":
        shown = _date(mask_type, name, masked_date)
    if shown is None:
        return null_of(column)
    return f"CAST({shown} AS {type_.sql})"


def null_of(column: str) -> str:
    """Return NULL of the column's own type, whatever that is, without having to spell the type."""
    return f"CASE WHEN FALSE THEN {quote_name(column)} END"


def _custom(custom: str | None, name: str, type_: ColumnType, principal: Principal | None) -> str:
    bound = None
    if custom is not None and custom.strip() and type_.sql is not None:
        names = {"col": name, "colType": type_.sql, "type": type_.sql}
        bound = bind(custom, principal or Principal(user=""), names)
    if bound is None:
        return f"CASE WHEN FALSE THEN {name} END"
    # TRY_CAST, so that a result which does not fit the type is NULL with ANSI mode on and off alike.
    return f"TRY_CAST(({bound}) AS {type_.sql})"


def _text(mask_type: str, c: str, type_: ColumnType) -> str | None:
    if mask_type == "MASK":
        return f"system.builtin.mask({c}, 'X', 'x', 'n', NULL)"
    if mask_type == "MASK_DATE_SHOW_YEAR":
        return _crossed_out(c)
    if mask_type == "MASK_SHOW_LAST_4":
        length = f"system.builtin.length({c})"
        hidden = _crossed_out(f"SUBSTRING({c} FROM 1 FOR {length} - 4)")
        return f"CASE WHEN {length} <= 4 THEN {c} ELSE {hidden} || SUBSTRING({c} FROM -4) END"
    if mask_type == "MASK_SHOW_FIRST_4":
        return f"SUBSTRING({c} FROM 1 FOR 4) || {_crossed_out(f'SUBSTRING({c} FROM 5)')}"
    if mask_type == "MASK_HASH":
        digest = f"system.builtin.sha2(CAST({c} AS BINARY), 256)"
        if type_.size is None:
            return digest
        if type_.padded and type_.size > 64:
            return f"system.builtin.rpad({digest}, {type_.size}, ' ')"
        # A cast to varchar(n) does not cut in Spark, it raises or keeps the length, depending on settings.
        return f"SUBSTRING({digest} FROM 1 FOR {type_.size})"
    return None


def _crossed_out(text: str) -> str:
    return f"system.builtin.mask({text}, 'x', 'x', 'x', NULL)"


def _integer(mask_type: str, c: str) -> str | None:
    digits = {
        "MASK": "[0-9]",
        "MASK_DATE_SHOW_YEAR": "[0-9]",
        "MASK_SHOW_LAST_4": "[0-9](?=[0-9]{4})",
        "MASK_SHOW_FIRST_4": "(?<=[0-9]{4})[0-9]",
    }.get(mask_type)
    if digits is None:
        return None
    # The largest results (111, 11111, 1111113647, …) lie inside each type: no overflow is possible.
    return f"system.builtin.regexp_replace(CAST({c} AS STRING), '{digits}', '1')"


def _date(mask_type: str, c: str, masked_date: str) -> str | None:
    if mask_type in ("MASK", "MASK_SHOW_LAST_4", "MASK_SHOW_FIRST_4"):
        return f"CASE WHEN {c} IS NOT NULL THEN DATE'{masked_date}' END"
    if mask_type == "MASK_DATE_SHOW_YEAR":
        # Spark's earliest year began before its earliest date: its first of January would overflow.
        return f"CASE WHEN {c} >= DATE'-5877640-01-01' THEN system.builtin.trunc({c}, 'YEAR') END"
    return None
