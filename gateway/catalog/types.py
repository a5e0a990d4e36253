"""Types as Spark SQL writes them in DDL, from Spark's description of them; nothing else gets out of here.

A mask ends in `CAST(… AS <type>)`, so a type's text becomes part of a statement, and the names in it were
chosen by whoever made the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gateway.model.catalog import quote


class NotUnderstood(Exception):
    """Spark described something in a way that is not known; it must not be guessed at."""


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*(\(\d{1,9}(, ?\d{1,9})?\))?")
_COLLATION = re.compile(r"[A-Za-z0-9_.]+")
_UNITS = ("year", "month", "day", "hour", "minute", "second")
_MAX_DEPTH = 100


def ddl_of(described: Any, depth: int = 0) -> str:
    """Return the DDL of a type in the JSON of `DESCRIBE TABLE … AS JSON`. Raises NotUnderstood."""
    if not isinstance(described, Mapping) or not isinstance(name := described.get("name"), str):
        raise NotUnderstood("a type without a name")
    if depth > _MAX_DEPTH:
        raise NotUnderstood("a type that is nested too deep")
    match name:
        case "string":
            return _read_string(described.get("collation", "UTF8_BINARY"))
        case "char" | "varchar":
            return _plain(f"{name}({described.get('length')})")
        case "decimal":
            return _plain(f"decimal({described.get('precision')},{described.get('scale')})")
        case "timestamp_ltz":
            return "timestamp"
        case "interval":
            return _interval(described.get("start_unit"), described.get("end_unit"))
        case "array":
            return f"array<{ddl_of(described.get('element_type'), depth + 1)}>"
        case "map":
            key, value = (ddl_of(described.get(f"{side}_type"), depth + 1) for side in ("key", "value"))
            return f"map<{key},{value}>"
        case "struct":
            fields = described.get("fields")
            if not isinstance(fields, list):
                raise NotUnderstood("a struct without fields")
            return f"struct<{','.join(_field(field, depth) for field in fields)}>"
        case _:
            return _plain(name)


def _field(field: Any, depth: int) -> str:
    if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
        raise NotUnderstood("a field without a name")
    return f"{quote(field['name'])}:{ddl_of(field.get('type'), depth + 1)}"


def _plain(text: str) -> str:
    if not _PLAIN.fullmatch(text):
        raise NotUnderstood("an unknown type")
    return text


def _read_string(collation: Any) -> str:
    if collation == "UTF8_BINARY":
        return "string"
    if not isinstance(collation, str) or not _COLLATION.fullmatch(collation):
        raise NotUnderstood("an unknown collation")
    return f"string collate {collation}"


def _interval(start: Any, end: Any) -> str:
    if start not in _UNITS or end not in _UNITS:
        raise NotUnderstood("an unknown interval")
    return f"interval {start}" if start == end else f"interval {start} to {end}"


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|([A-Za-z_][A-Za-z0-9_.]*)|(\d{1,9})|([<>(),:]))")


def normalize_ddl(text: str) -> str:
    """Return a type that somebody wrote as DDL, unchanged but for case and spaces. Raises NotUnderstood.

    Read are the names of types with lengths, `array<…>`, `map<…>`, `struct<name:type>` with plain or quoted
    names, intervals and collations; what Spark cuts short (`… 5 more fields`) is not a type.
    """
    parser = _Ddl(text)
    ddl = parser.type(0)
    parser.end()
    return ddl


class _Ddl:
    """A recursive descent over the tokens of a type."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise NotUnderstood("an unknown type")
            self._tokens.append(match.group().strip())
            at = match.end()
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self, wanted: str = "") -> str:
        token = self._peek()
        if not token or (wanted and token != wanted):
            raise NotUnderstood("an unknown type")
        self._at += 1
        return token

    def end(self) -> None:
        if self._peek():
            raise NotUnderstood("unexpected text after the type")

    def type(self, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise NotUnderstood("a type that is nested too deep")
        name = self._next().lower()
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise NotUnderstood("an unknown type")
        if name == "interval":
            start = self._next().lower()
            end = start
            if self._peek().lower() == "to":
                self._next()
                end = self._next().lower()
            return _interval(start, end)
        if self._peek() == "<":
            return self._read_nested(name, depth)
        if self._peek() == "(":
            self._next()
            numbers = [self._number()]
            if self._peek() == ",":
                self._next()
                numbers.append(self._number())
            self._next(")")
            name = f"{name}({','.join(numbers)})"
        if self._peek().lower() == "collate":
            self._next()
            collation = self._next()
            if not name.startswith(("string", "char", "varchar")) or not _COLLATION.fullmatch(collation):
                raise NotUnderstood("a collation on a type that has none")
            return f"{name} collate {collation}"
        return name

    def _number(self) -> str:
        number = self._next()
        if not number.isdigit():
            raise NotUnderstood("a length that is not a number")
        return number

    def _read_nested(self, name: str, depth: int) -> str:
        self._next("<")
        match name:
            case "array":
                inside = [self.type(depth + 1)]
            case "map":
                key = self.type(depth + 1)
                self._next(",")
                inside = [key, self.type(depth + 1)]
            case "struct":
                inside = [self._read_named(depth)]
                while self._peek() == ",":
                    self._next()
                    inside.append(self._read_named(depth))
            case _:
                raise NotUnderstood("an unknown type")
        self._next(">")
        return f"{name}<{','.join(inside)}>"

    def _read_named(self, depth: int) -> str:
        name = self._next()
        if not (name.startswith("`") or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)):
            raise NotUnderstood("a field without a name")
        self._next(":")
        return f"{name}:{self.type(depth + 1)}"
