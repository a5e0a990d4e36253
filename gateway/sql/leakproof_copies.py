"""A leakproof condition, written anew over a column as it is stored; see `gateway.sql.leakproof`.

Leakproof is a comparison of a column with constants of its type, or with such as can be written in it, and
what AND, OR and NOT make of such ones. `d = '2024-03-01'` becomes `d = DATE'2024-03-01'`, which is the same
whether Spark compares dates or, in an older mode, texts. A column of another type than the catalog said can
make no copy fail either: it stands in a TRY_CAST to that type, which Spark leaves out where it changes
nothing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeGuard

from gateway.algebra.nodes import Expression, Literal, NamedCall, NamedColumn, Operator
from gateway.model.catalog import quote
from gateway.policy.sqltext import write_string_literal
from gateway.sql.functions import builtin_name

Stored = Callable[[Sequence[str]], tuple[str, str] | None]
"""A reference's parts → name and type of the column that it means."""

_COMPARISONS: Final = {
    "EqualNullSafe": "<=>",
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
INTEGERS: Final = {"tinyint": (8, "Y"), "smallint": (16, "S"), "int": (32, ""), "bigint": (64, "L")}
"""Bits, and what is behind a literal of the type."""
DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Digits of the decimal that Spark takes a whole number for."""
MAX_DIGITS: Final = 38
"""Digits of a decimal."""
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)\Z")
NUMBER = re.compile(r"-?[0-9]{1,38}(?:\.[0-9]{1,38})?\Z")
MAX_ANY: Final = 3
"""How often a pattern may say `%`. Of four, a text of a hundred letters may take seconds."""
MAX_OF_PATTERN: Final = 1_000
"""Characters of a pattern."""
TEXT = re.compile(r"string\Z|varchar\(\d+\)\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\Z")
_TYPED_TIMESTAMP = re.compile(
    r"timestamp\s*(['\"])([0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?)\1\Z",
    re.IGNORECASE,
)
_EPOCH = datetime.date(1970, 1, 1)
_YEARS = (-719_162, 2_932_896)
"""Days since 1970 of the first and the last date with a year of four digits."""


def copy_of(node: Expression, stored: Stored, text: str) -> str | None:
    """Write a condition over stored columns; None when it is not known to be leakproof. `text` is the
    statement's, which literals are looked up in."""
    match node:
        case NamedColumn():
            column = stored(node.parts)
            return _write_literal(*column) if column is not None and column[1].lower() == "boolean" else None
        case Operator():
            return _write_operation(node, stored, text)
        case NamedCall():
            return _write_call(node, stored, text)
    return None


def _write_operation(node: Operator, stored: Stored, text: str) -> str | None:
    operands = node.operands
    match node.name:
        case "And" | "Or":
            parts = [copy_of(child, stored, text) for child in operands]
            known = [part for part in parts if part is not None]
            return f"({f' {node.name.upper()} '.join(known)})" if len(known) == len(parts) else None
        case "Not":
            inner = copy_of(operands[0], stored, text)
            return None if inner is None else f"(NOT {inner})"
        case comparison if comparison in _COMPARISONS:
            return _compare(operands, _COMPARISONS[comparison], stored, text)
        case "In":
            return _compare_in(operands, stored, text)
        case "Like" if node.escape == "\\":
            return _alike(operands, stored)
    return None


def _write_call(node: NamedCall, stored: Stored, text: str) -> str | None:
    match builtin_name(node.parts), node.operands:
        case "isnull" | "isnotnull" as name, (NamedColumn(parts=parts),):
            column = stored(parts)
            test = "IS NULL" if name == "isnull" else "IS NOT NULL"
            return None if column is None else f"({quote(column[0])} {test})"
        case "between", (value, low, high):
            above = _compare((value, low), ">=", stored, text)
            below = _compare((value, high), "<=", stored, text)
            return None if above is None or below is None else f"({above} AND {below})"
    return None


def _write_literal(name: str, kind: str) -> str:
    return f"TRY_CAST({quote(name)} AS {'STRING' if TEXT.match(kind.lower()) else kind.upper()})"


def _write_stored(node: Expression, stored: Stored) -> tuple[str, str] | None:
    return stored(node.parts) if isinstance(node, NamedColumn) else None


def _compare(operands: Sequence[Expression], operator: str, stored: Stored, text: str) -> str | None:
    left, right = operands
    first = isinstance(left, NamedColumn)
    column = _write_stored(left if first else right, stored)
    if column is None:
        return None
    value = _constant(right if first else left, column[1].lower(), text)
    if value is None:
        return None
    return (
        f"({_write_literal(*column)} {operator} {value})"
        if first
        else f"({value} {operator} {_write_literal(*column)})"
    )


def _compare_in(operands: Sequence[Expression], stored: Stored, text: str) -> str | None:
    column = _write_stored(operands[0], stored)
    if column is None:
        return None
    values = [_constant(one, column[1].lower(), text) for one in operands[1:]]
    known = [value for value in values if value is not None]
    types = {one.type for one in operands[1:] if isinstance(one, Literal)}
    if len(types) > 1 or not known or len(known) < len(values):
        return None
    if column[1].lower() == "timestamp" and types == {"string"}:  # RULE (leakproof-timestamp-lists)
        return None  # without ANSI mode texts are compared, and an hour that comes twice has one text
    return f"({_write_literal(*column)} IN ({', '.join(known)}))"


def _alike(operands: Sequence[Expression], stored: Stored) -> str | None:
    column, pattern = _write_stored(operands[0], stored), operands[1]
    if column is None or not TEXT.match(column[1].lower()) or not is_simple_pattern(pattern):
        return None
    literal = write_string_literal(pattern.value or "")
    return None if literal is None else f"({_write_literal(*column)} LIKE {literal})"


def is_simple_pattern(node: Expression) -> TypeGuard[Literal]:
    """Whether a pattern of LIKE is known, escapes nothing, and is soon tried. One that ends in an escape
    fails. One that says `%` often takes long only where a text has what is between: `secret%%%%%%%%x`
    would tell by hours that a hidden row begins so."""
    if not isinstance(node, Literal) or node.type != "string" or not node.value:
        return False
    short = len(node.value) <= MAX_OF_PATTERN and node.value.count("%") <= MAX_ANY
    return short and "\\" not in node.value


def _constant(node: Expression, kind: str, text: str) -> str | None:
    """Write a literal in a column's type; None when that could be another value, or fail."""
    if not isinstance(node, Literal) or node.value is None:
        return None
    value = node.value
    if kind in INTEGERS and node.type in INTEGERS:
        bits, suffix = INTEGERS[kind]
        return f"({value}{suffix})" if -(1 << bits - 1) < int(value) < 1 << bits - 1 else None
    if (found := DECIMAL.match(kind)) and (node.type in INTEGERS or DECIMAL.match(node.type)):
        whole, _, rest = value.lstrip("-").partition(".")
        before, behind = int(found[1]) - int(found[2]), int(found[2])
        # RULE (leakproof-decimal-copies)
        fits = len(whole) <= before and len(rest) <= behind and _in_one_decimal(before, behind, node.type)
        return f"({value}BD)" if fits and NUMBER.match(value) else None
    if kind == "boolean" and node.type == "boolean":
        return value.upper()
    if kind == "date":
        return date_of(node)
    if kind == "timestamp":
        return timestamp_of(node, text)
    if TEXT.match(kind) and node.type == "string":
        return write_string_literal(value)
    return None


def _in_one_decimal(before: int, behind: int, kind: str) -> bool:
    """Whether a column's digits before and behind the point and those of a literal's type have room in one
    decimal. Otherwise Spark rounds both, and the comparison is of other values."""
    found = DECIMAL.match(kind)
    whole = int(found[1]) - int(found[2]) if found else DIGITS[kind]
    return max(before, whole) + max(behind, int(found[2]) if found else 0) <= MAX_DIGITS


def date_of(node: Literal) -> str | None:
    """Write a day that is a literal's value, or its text; None when it is none with a year of four digits."""
    day = _day(node) if node.type == "date" else node.value
    if day is None or node.type not in ("date", "string") or not _DATE.match(day):
        return None
    try:
        datetime.date.fromisoformat(day)
    except ValueError:
        return None
    return f"DATE'{day}'"


def _day(node: Literal) -> str | None:
    days = int(node.value or 0)
    return (_EPOCH + datetime.timedelta(days=days)).isoformat() if _YEARS[0] <= days <= _YEARS[1] else None


def timestamp_of(node: Literal, text: str) -> str | None:
    """Write an instant as the user did, without a zone: which one it is, is up to the session's, as there."""
    when: str | None = None
    if node.type == "timestamp" and node.span is not None:
        found = _TYPED_TIMESTAMP.match(node.span.of(text))
        when = found[2] if found else None
    elif node.type == "date":
        day = _day(node)
        when = None if day is None else f"{day} 00:00:00"
    elif node.type == "string" and node.value is not None and _TIMESTAMP.match(node.value):
        when = node.value
    if when is None:
        return None
    try:
        datetime.datetime.fromisoformat(when)
    except ValueError:
        return None
    return f"TIMESTAMP'{when}'"
