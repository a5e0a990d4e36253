"""Parts of Spark's types, read from their DDL."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gateway.model.catalog import quote

_QUOTED = re.compile(r"\s*`((?:[^`]|``)*)`\s*:?(.*)", re.DOTALL)
COUNTS = frozenset({"count", "count_if", "approx_count_distinct", "regr_count"})
"""Functions that give a BIGINT, whatever they are given."""
_WHOLE = frozenset("tinyint byte smallint short int integer bigint long".split())
_TEXTS = frozenset("string char varchar".split())
_PLAIN = frozenset(
    "tinyint byte smallint short int integer bigint long float real double decimal dec numeric string char "
    "varchar".split()
)


def struct_fields(type_: str) -> list[str] | None:
    """Return the names of a struct's fields, lower case, from its type in DDL; None for another type."""
    fields = _fields(type_)
    return None if fields is None else [name for name, _ in fields]


def field_type(type_: str, name: str) -> str:
    """Return the type of a struct's field, or of a map's values; empty where that is not known."""
    if is_map(type_):
        return _split(type_.strip()[4:-1])[-1].strip()
    return dict(_fields(type_) or ()).get(name, "")


def is_map(type_: str) -> bool:
    """Whether a type is a map."""
    return type_.strip()[:4].lower() == "map<"


def struct_of(fields: Iterable[tuple[str, str]]) -> str:
    """Return the type of a struct in DDL; types may be empty."""
    return f"struct<{','.join(f'{quote(name)}:{type_}' for name, type_ in fields)}>"


def _fields(type_: str) -> list[tuple[str, str]] | None:
    text = type_.strip()
    if not (text[:7].lower() == "struct<" and text.endswith(">")):
        return None
    return [field_ for one in _split(text[7:-1]) if (field_ := _field(one))[0]]


def _split(inner: str) -> list[str]:
    """Return what stands between the commas of a type, but for those in types within."""
    found, depth, at, quoted = list[str](), 0, 0, False
    for i, sign in enumerate(inner + ","):
        if sign == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "<(":
            depth += 1
        elif sign in ">)":
            depth -= 1
        elif sign == "," and depth == 0:
            found.append(inner[at:i])
            at = i + 1
    return found


def _field(field_: str) -> tuple[str, str]:
    """Return name and type of a field: `a: int`, or `a int` with what may follow."""
    if (quoted := _QUOTED.match(field_)) is not None:
        return quoted[1].replace("``", "`").lower(), quoted[2].strip()
    name, _, type_ = field_.strip().replace(":", " ", 1).partition(" ")
    return name.strip().lower(), type_.strip()


def is_plain(type_: str) -> bool:
    """Whether a type is of numbers or strings: not of dates, times, intervals, or anything nested."""
    return type_.strip().lower().split("(")[0].split(" ")[0] in _PLAIN


def kind_of(type_: str) -> str:
    """Return `number`, `date` or `timestamp`, by which Spark takes another function for an operator; empty
    for any other type."""
    word = type_.strip().lower()
    if is_plain(word):
        return "" if word.split("(")[0].split(" ")[0] in _TEXTS else "number"
    return word if word in ("date", "timestamp") else ""


def sum_type(type_: str) -> str:
    """Return the type of a sum, empty where that takes more than a look."""
    text = type_.strip().lower()
    return "bigint" if text in _WHOLE else "double" if text in ("float", "real", "double") else ""


def is_nested(type_: str) -> bool:
    """Whether a type is a struct or an array: where values meet, one of them is then the type of all, while
    of numbers, strings and dates Spark takes the widest."""
    return type_[:7].lower() == "struct<" or type_[:6].lower() == "array<"


def element_type(type_: str) -> str:
    """Return the type of an array's elements, empty for anything else."""
    text = type_.strip()
    return text[6:-1] if text[:6].lower() == "array<" and text.endswith(">") else ""
