"""Ranger's mask transformers, such as `mask_show_last_n({col}, 4, 'x', 'x', 'x', -1, '1')`, read as data.

What Hive's masking functions mean is known here; `masks` writes it as Spark SQL per type. Any other text over
`{col}` is an expression of Spark SQL, as in a custom mask.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateway.policy.sqltext import faults_of

KEEP: Final = -1
"""Hive's mark for "leave as it is"."""
MAX_CHARACTERS: Final = 1_000_000
MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<column>\{col\})|(?P<type>\{(?:type|colType)\})"
    r"|(?P<number>-?[0-9]{1,9})|'(?P<text>[^'\\]*)'|(?P<mark>[(),]))"
)
_FUNCTIONS: Final = {
    "mask": False,
    "mask_first_n": True,
    "mask_last_n": True,
    "mask_show_first_n": True,
    "mask_show_last_n": True,
    "mask_hash": False,
}
"""Hive's functions, and whether the second argument is a number of characters."""
_HIVE_ONLY = re.compile(r"\b(?:mask_hash|mask_(?:show_)?(?:first|last)_n)\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Masking:
    """One of Hive's masking functions with its arguments; the defaults are Hive's."""

    function: str
    characters: int = 4
    """`n` of the functions that have one."""
    upper: str | None = "X"
    lower: str | None = "x"
    digit: str | None = "n"
    other: str | None = None
    """Replacement of a character of each kind; None keeps the character."""
    number: int = 1
    """The digit that replaces digits of whole numbers."""
    day: int = 1
    month: int = 0
    """Number of the month; January is 0, as in Hive."""
    year: int = 0
    """Parts of a date; KEEP keeps one."""


@lru_cache(maxsize=1024)
def hive_masking(text: str) -> Masking | None:
    """Return the masking that a transformer means; None when it is not a call of one of Hive's functions.

    A cast to the column's own type (or to text) around the call changes nothing: every mask is cast back.
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    if len(tokens) > 6 and _word(tokens[0]) == "cast" and tokens[1] == "(" and tokens[-1] == ")":
        inner, keyword, target = tokens[2:-3], _word(tokens[-3]), tokens[-2]
        if keyword == "as" and (isinstance(target, _Type) or _word(target) == "string"):
            tokens = inner
    return _call(tokens)


class _ColumnPlaceholder:
    """`{col}`."""


class _Type:
    """`{type}` or `{colType}`."""


@dataclass(frozen=True, slots=True)
class _Name:
    text: str


@dataclass(frozen=True, slots=True)
class _LiteralText:
    text: str


_Part = _ColumnPlaceholder | _Type | _Name | _LiteralText | int | str


def _word(part: _Part) -> str:
    return part.text.lower() if isinstance(part, _Name) else ""


def _tokens(text: str) -> list[_Part] | None:
    tokens: list[_Part] = []
    position, text = 0, text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or len(tokens) > 40:
            return None
        position = found.end()
        match found.lastgroup:
            case "name":
                tokens.append(_Name(found["name"]))
            case "column":
                tokens.append(_ColumnPlaceholder())
            case "type":
                tokens.append(_Type())
            case "number":
                tokens.append(int(found["number"]))
            case "text":
                tokens.append(_LiteralText(found["text"]))
            case _:
                tokens.append(found["mark"])
    return tokens


def _call(tokens: list[_Part]) -> Masking | None:
    function = _word(tokens[0]) if tokens else ""
    if function not in _FUNCTIONS or len(tokens) < 4 or tokens[1] != "(" or tokens[-1] != ")":
        return None
    inside = tokens[2:-1]
    arguments, commas = inside[::2], inside[1::2]
    if len(inside) % 2 == 0 or any(comma != "," for comma in commas):
        return None
    if not isinstance(arguments[0], _ColumnPlaceholder):
        return None
    return _build_masking(function, arguments[1:])


def _build_masking(function: str, arguments: list[_Part]) -> Masking | None:
    if function == "mask_hash":
        return None if arguments else Masking(function)
    characters = 4
    if _FUNCTIONS[function] and arguments:
        count = _number(arguments[0])
        if count is None or count > MAX_CHARACTERS:
            return None
        characters, arguments = max(count, 0), arguments[1:]
    if len(arguments) > 8:
        return None
    try:
        letters = [_character(part) for part in arguments[:4]]
        numbers = [_whole(part) for part in arguments[4:]]
    except ValueError:
        return None
    upper, lower, digit, other = [*letters, *("X", "x", "n", None)[len(letters) :]]
    number, day, month, year = [*numbers, *(1, 1, 0, 0)[len(numbers) :]]
    return _check_date(
        Masking(
            function=function,
            characters=characters,
            upper=upper,
            lower=lower,
            digit=digit,
            other=other,
            number=number if 0 <= number <= 9 else 1,
            day=day if day == KEEP or 1 <= day <= 31 else 1,
            month=month if month == KEEP or 0 <= month <= 11 else 0,
            year=year,
        )
    )


def _check_date(masking: Masking) -> Masking | None:
    """Return the masking when its date exists in every year that it can meet; None otherwise."""
    if not (masking.year == KEEP or 0 <= masking.year <= 9999):
        return None
    longest = 28 if masking.month == KEEP else MONTH_DAYS[masking.month]
    return masking if masking.day == KEEP or masking.day <= longest else None


def _number(part: _Part) -> int | None:
    try:
        return _whole(part)
    except ValueError:
        return None


def _whole(part: _Part) -> int:
    if isinstance(part, int):
        return part
    if isinstance(part, _LiteralText) and re.fullmatch("-?[0-9]{1,9}", part.text):
        return int(part.text)
    raise ValueError("not a number")


def _character(part: _Part) -> str | None:
    """Return the character that an argument means, None for "keep"; ValueError when we cannot write it."""
    if part == KEEP:
        return None
    if isinstance(part, _LiteralText) and part.text:
        character = part.text[0]
    elif isinstance(part, int) and not isinstance(part, bool):
        character = chr(part) if 0 <= part < 128 else "\0"
    else:
        raise ValueError("not a character")
    if not (" " <= character <= "~") or character in "'\\$":
        raise ValueError("a character that a literal cannot contain unescaped")
    return character


STANDARD: Final = {
    "MASK": Masking("mask"),
    "MASK_SHOW_LAST_4": Masking("mask_show_last_n", 4, "x", "x", "x"),
    "MASK_SHOW_FIRST_4": Masking("mask_show_first_n", 4, "x", "x", "x"),
    "MASK_HASH": Masking("mask_hash"),
    "MASK_DATE_SHOW_YEAR": Masking("mask", 4, "x", "x", "x", year=KEEP),
}
"""The transformers that every Ranger service definition names."""
FIXED: Final = ("MASK_NULL", "MASK_NONE", "CUSTOM")
"""Mask types whose meaning no transformer changes."""


def transformer_faults(text: str) -> list[str]:
    """Return what is wrong with the transformer of a mask type; empty when it is understood."""
    if not text.strip() or hive_masking(text) is not None:
        return []
    faults = [fault.replace("a custom mask", "a transformer") for fault in faults_of(text, "mask")]
    found = _HIVE_ONLY.search(text)
    if found or _calls_mask_as_hive(text):
        name = found.group().rstrip("( ") if found else "mask"
        faults.append(f"`{name}` is not supported with these arguments, or inside another expression")
    return faults


def is_understood(text: str) -> bool:
    """Whether a transformer says what a mask type shows: a call of Hive's, or an expression of Spark SQL."""
    return bool(text.strip()) and not transformer_faults(text)


def sql_of(mask_type: str, transformer: str) -> str:
    """Return a transformer that is Spark SQL, and that the mask type goes by; else nothing."""
    if mask_type in STANDARD or mask_type in FIXED or hive_masking(transformer) is not None:
        return ""
    return transformer if is_understood(transformer) else ""


def _calls_mask_as_hive(text: str) -> bool:
    """Whether a text calls `mask` with more arguments than Spark's own function of that name takes."""
    tokens = _tokens(text) or []
    return len(tokens) > 1 and _word(tokens[0]) == "mask" and tokens.count(",") > 4
