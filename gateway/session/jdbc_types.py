"""Spark's types as JDBC and ODBC describe them: the columns of GetColumns and the rows of GetTypeInfo.

Numbers are those of java.sql.Types; sizes follow Hive's TypeDescriptor, which drivers for Hive expect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST = 2**31 - 1
_DECLARED = re.compile(r"^(\w+)\s*(?:\((\d+)(?:\s*,\s*(\d+))?\))?")


@dataclass(frozen=True, slots=True)
class JdbcType:
    """How a column's type is described; None where the question does not apply."""

    name: str
    number: int
    size: int | None
    digits: int | None
    radix: int | None


@dataclass(frozen=True, slots=True)
class _TypeKind:
    number: int
    size: int | None = None
    digits: int | None = None
    radix: int | None = None


_KINDS = {
    "VOID": _TypeKind(0),
    "BOOLEAN": _TypeKind(16, 1),
    "TINYINT": _TypeKind(-6, 3, 0, 10),
    "SMALLINT": _TypeKind(5, 5, 0, 10),
    "INT": _TypeKind(4, 10, 0, 10),
    "BIGINT": _TypeKind(-5, 19, 0, 10),
    "FLOAT": _TypeKind(6, 7, 7, 10),
    "DOUBLE": _TypeKind(8, 15, 15, 10),
    "STRING": _TypeKind(12, _LONGEST),
    "CHAR": _TypeKind(1),
    "VARCHAR": _TypeKind(12),
    "BINARY": _TypeKind(-2, _LONGEST),
    "DATE": _TypeKind(91, 10),
    "TIMESTAMP": _TypeKind(93, 29, 9),
    "TIMESTAMP_NTZ": _TypeKind(93, 29, 9),
    "TIMESTAMP_LTZ": _TypeKind(93, 29, 9),
    "DECIMAL": _TypeKind(3, 10, 0, 10),
    "INTERVAL": _TypeKind(1111),
    "ARRAY": _TypeKind(2003),
    "MAP": _TypeKind(2000),
    "STRUCT": _TypeKind(2002),
    "VARIANT": _TypeKind(1111),
}
_SYNONYMS = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT",
             "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "CHARACTER": "CHAR"}  # fmt: skip


def describe(declared: str) -> JdbcType:
    """Describe a type as DDL writes it; one that is not known is OTHER (1111) under its own name."""
    found = _DECLARED.match(declared)
    word = found.group(1).upper() if found else ""
    word = _SYNONYMS.get(word, word)
    kind = _KINDS.get(word, _TypeKind(1111))
    nested = word in ("ARRAY", "MAP", "STRUCT")
    name = word + declared[len(found.group(1)) :] if found and nested else declared.upper()
    size, digits = kind.size, kind.digits
    if found and found.group(2):
        if word == "DECIMAL":
            size, digits = int(found.group(2)), int(found.group(3) or 0)
        elif word in ("CHAR", "VARCHAR"):
            size = int(found.group(2))
    return JdbcType(name, kind.number, size, digits, kind.radix)


_NULLABLE, _SEARCHABLE, _NOT_SEARCHABLE = 1, 3, 0


def type_info_rows() -> list[tuple[object, ...]]:
    """Return the rows of GetTypeInfo in Spark's order and with Spark's values."""
    #        name, java.sql.Types, precision, radix
    types: list[tuple[str, int, int | None, int | None]] = [
        ("VOID", 0, None, None),
        ("BOOLEAN", 16, None, None),
        ("STRING", 12, None, None),
        ("BINARY", -2, None, None),
        ("TINYINT", -6, 3, 10),
        ("SMALLINT", 5, 5, 10),
        ("INT", 4, 10, 10),
        ("BIGINT", -5, 19, 10),
        ("FLOAT", 6, 7, 2),
        ("DOUBLE", 8, 15, 2),
        ("DECIMAL", 3, 38, 10),
        ("DATE", 91, 10, None),
        ("TIMESTAMP", 93, 29, None),
        ("ARRAY", 2003, None, None),
        ("MAP", 2000, None, None),
        ("STRUCT", 2002, None, None),
        ("CHAR", 1, None, None),
        ("VARCHAR", 12, None, None),
        ("INTERVAL_YEAR_MONTH", 1111, None, None),
        ("INTERVAL_DAY_TIME", 1111, None, None),
    ]
    rows: list[tuple[object, ...]] = []
    for name, number, precision, radix in types:
        nested = name in ("ARRAY", "MAP", "STRUCT")
        numeric = radix is not None
        searchable = _NOT_SEARCHABLE if nested else _SEARCHABLE
        case_sensitive, unsigned = name == "STRING", not numeric
        rows.append(
            (name, number, precision, None, None, None, _NULLABLE, case_sensitive, searchable, unsigned,
             False, False, None, 0, 0, None, None, radix)
        )  # fmt: skip
    return rows
