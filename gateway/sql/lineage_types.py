"""Parts of Spark's types, read from their DDL."""

from __future__ import annotations

_PLAIN = frozenset(
    "tinyint byte smallint short int integer bigint long float real double decimal dec numeric string char "
    "varchar".split()
)


def struct_fields(type_: str) -> list[str] | None:
    """Return the names of a struct's fields, lower case, from its type in DDL; None for another type."""
    text = type_.strip()
    if not (text[:7].lower() == "struct<" and text.endswith(">")):
        return None
    names, depth, at, quoted = [], 0, 7, False
    inner = text[7:-1]
    at = 0
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
            names.append(_field_name(inner[at:i]))
            at = i + 1
    return [name for name in names if name]


def _field_name(field_: str) -> str:
    text = field_.strip()
    if text.startswith("`"):
        return text[1 : text.rfind("`")].replace("``", "`").lower()
    return text.replace(":", " ").split(None, 1)[0].lower() if text else ""


def is_plain(type_: str) -> bool:
    """Whether a type is of numbers or strings: not of dates, times, intervals, or anything nested."""
    return type_.strip().lower().split("(")[0].split(" ")[0] in _PLAIN


def element_type(type_: str) -> str:
    """Return the type of an array's elements, empty for anything else."""
    text = type_.strip()
    return text[6:-1] if text[:6].lower() == "array<" and text.endswith(">") else ""
