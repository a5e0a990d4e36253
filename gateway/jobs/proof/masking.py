"""Masks of values, one by one, from docs/masks.md and not from the gateway's own SQL.

Dates are days since 1970-01-01, since Spark has years that Python has not.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable
from datetime import date
from typing import Any

SHOWN = 4
_EPOCH = date(1970, 1, 1)
_MASKED_DATE = (date(1900, 1, 1) - _EPOCH).days
_CYCLE = 146_097
"""Days of 400 years, after which the calendar is the same."""
_FIRST_DAY = -(2**31)
"""The earliest of Spark's dates."""
_TEXT = re.compile(r"(?:string(?: collate \w+)?|varchar\((\d+)\))\Z")
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_REPORTED = frozenset(
    {"MASK", "MASK_SHOW_LAST_4", "MASK_SHOW_FIRST_4", "MASK_HASH", "MASK_NULL", "MASK_DATE_SHOW_YEAR"}
)
Mask = Callable[[Any], Any]


def mask_of(mask_type: str, data_type: str) -> Mask | None:
    """Return what makes a value's mask; None where that is not told here: other mask types, `char(n)`."""
    type_ = " ".join(data_type.lower().split())
    if mask_type not in _REPORTED or type_.startswith("char"):
        return None
    if mask_type == "MASK_NULL":
        return mask_null
    text = _TEXT.match(type_)
    if text is not None:
        size = int(text[1]) if text[1] else None
        return _unless_null(lambda value: _text(mask_type, value, size))
    if type_ in _INTEGERS:
        return (
            mask_null if mask_type == "MASK_HASH" else _unless_null(lambda value: _integer(mask_type, value))
        )
    if type_ == "date":
        return mask_null if mask_type == "MASK_HASH" else _unless_null(lambda value: _date(mask_type, value))
    return mask_null


def mask_null(value: Any) -> None:
    """Mask by NULL."""


def _unless_null(mask: Mask) -> Mask:
    return lambda value: None if value is None else mask(value)


def _text(mask_type: str, value: str, size: int | None) -> str:
    match mask_type:
        case "MASK_HASH":
            return hashlib.sha256(value.encode()).hexdigest()[:size]
        case "MASK_SHOW_LAST_4":
            return value if len(value) <= SHOWN else _cross_out(value[:-SHOWN], "x", "x") + value[-SHOWN:]
        case "MASK_SHOW_FIRST_4":
            return value[:SHOWN] + _cross_out(value[SHOWN:], "x", "x")
        case "MASK_DATE_SHOW_YEAR":
            return _cross_out(value, "x", "x")
        case _:
            return _cross_out(value, "X", "n")


def _cross_out(text: str, upper: str, digit: str) -> str:
    # By category, as Java has it: `º` and `Ⅷ` are letters with a case to Python only.
    shown = {"Lu": upper, "Ll": "x", "Nd": digit}
    return "".join(shown.get(unicodedata.category(one), one) for one in text)


def _integer(mask_type: str, value: int) -> int:
    digits, sign = str(abs(value)), "-" if value < 0 else ""
    match mask_type:
        case "MASK_SHOW_LAST_4":
            digits = "1" * (len(digits) - SHOWN) + digits[-SHOWN:]
        case "MASK_SHOW_FIRST_4":
            digits = digits[:SHOWN] + "1" * (len(digits) - SHOWN)
        case _:
            digits = "1" * len(digits)
    return int(sign + digits)


def _date(mask_type: str, days: int) -> int | None:
    return _first_of_year(days) if mask_type == "MASK_DATE_SHOW_YEAR" else _MASKED_DATE


def _first_of_year(days: int) -> int | None:
    """Return the first of January; None where Spark has no such date."""
    before = _EPOCH.toordinal() - 1
    cycles, day = divmod(days + before, _CYCLE)
    january = date.fromordinal(day + 1).replace(month=1, day=1)
    first = cycles * _CYCLE + january.toordinal() - 1 - before
    return first if first >= _FIRST_DAY else None
