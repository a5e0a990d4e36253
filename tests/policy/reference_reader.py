"""A reader of Iceberg's read restrictions, in Python: what the specification says, and nothing of ours.

Values are Python's: str, int, float, bool, bytes, Decimal, date, datetime (UTC where the type has a zone),
None; a struct is a dict, a list a list, a map a dict.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

KEPT = set("(),.-@")
FIXED: dict[str, Any] = {
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "XXXXXXXX",
    "date": datetime.date(1970, 1, 1),
    "timestamp": datetime.datetime(1970, 1, 1),  # noqa: DTZ001 - a time without a zone
    "timestamptz": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
    "uuid": "00000000-0000-0000-0000-000000000000",
    "binary": b"",
}


def crossed_out(text: str) -> str:
    return "".join("n" if c in "0123456789" else c if c in KEPT else "x" for c in text)


def hashed(kind: str, value: Any, salt: bytes = b"") -> Any:
    """SHA-256 of a value's bytes: whole numbers are little-endian, in and out."""
    form = {"int": "<i", "long": "<q"}.get(kind)
    if form is not None:
        digest = hashlib.sha256(salt + struct.pack(form, value)).digest()
        return struct.unpack(form, digest[: struct.calcsize(form)])[0]
    if kind == "string":
        return hashlib.sha256(salt + value.encode()).hexdigest()
    return hashlib.sha256(salt + value).digest()


def shown(action: str, kind: str, value: Any, salt: bytes = b"") -> Any:
    """What a reader shows of a value of a primitive type."""
    if action == "mask-to-fixed-value":
        if kind.startswith("decimal("):
            return Decimal(0).scaleb(-int(kind[8:-1].split(",")[1]))
        return bytes(int(kind[6:-1])) if kind.startswith("fixed[") else FIXED[kind]
    if value is None or action == "replace-with-null":
        return None
    match action:
        case "mask-alphanum":
            return crossed_out(value)
        case "show-first-4":
            return value[:4] + crossed_out(value[4:])
        case "show-last-4":
            return value if len(value) <= 4 else crossed_out(value[:-4]) + value[-4:]
        case "sha-256-global":
            return hashed(kind, value)
        case "sha-256-query-local":
            return hashed(kind, value, salt)
        case "truncate-to-year":
            cut = {"month": 1, "day": 1}
        case "truncate-to-month":
            cut = {"day": 1}
        case _:
            raise ValueError(action)
    midnight = {} if kind == "date" else {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    return value.replace(**cut, **midnight)


def holds(predicate: Any, row: Mapping[int, Any]) -> bool:
    """Whether a predicate in its JSON holds for a row, whose values stand by ids: always true or false."""
    if isinstance(predicate, bool):
        return predicate
    match predicate["type"]:
        case "true" | "false" as kind:
            return bool(kind == "true")
        case "not":
            return not holds(predicate["child"], row)
        case "and":
            return holds(predicate["left"], row) and holds(predicate["right"], row)
        case "or":
            return holds(predicate["left"], row) or holds(predicate["right"], row)
        case "is-null":
            return _value(predicate["child"], row) is None
        case "not-null":
            return _value(predicate["child"], row) is not None
        case "is-nan":
            return _is_nan(_value(predicate["child"], row))
        case "not-nan":
            return not _is_nan(_value(predicate["child"], row))
        case "in":
            return _value(predicate["child"], row) in predicate["values"]
        case "not-in":
            return _value(predicate["child"], row) not in predicate["values"]
    left, right = (_value(predicate[side], row) for side in ("left", "right"))
    match predicate["type"]:
        case "eq":
            return bool(left == right)
        case "not-eq":
            return bool(left != right)
        case "starts-with":
            return left is not None and left.startswith(right)
        case "not-starts-with":
            return not (left is not None and left.startswith(right))
    if left is None or right is None or _is_nan(left) or _is_nan(right):
        return left is right and predicate["type"] in ("lt-eq", "gt-eq")
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    match predicate["type"]:
        case "lt":
            return bool(left < right)
        case "lt-eq":
            return bool(left <= right)
        case "gt":
            return bool(left > right)
        case "gt-eq":
            return bool(left >= right)
    raise ValueError(predicate["type"])


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _value(told: Any, row: Mapping[int, Any]) -> Any:
    if isinstance(told, dict):
        return row[told["id"]] if told["type"] == "reference" else told["value"]
    return told
