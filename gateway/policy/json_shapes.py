"""Reads Ranger's JSON, whose types are loose and whose fields may be missing, and gathers what is wrong.

Ranger's own readers pass over what they do not know and take absent for empty. So does this one; a value of
the wrong type is a fault, because guessing what was meant would guess about access.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from gateway.policy.diagnostics import Diagnostics, Path

_LARGEST = 2**63
_CACHE = re.compile(r"(\d{4})(\d{2})(\d{2})-(\d{2}):(\d{2}):(\d{2})\.(\d{3})-?([+-])(\d{2}):?(\d{2})")
_AUDIT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:?\d{2})?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Reader:
    """Reads values of one document; `label` stands before every message, such as `policy 7 \\`pii\\``."""

    def __init__(self, findings: Diagnostics, label: str = "") -> None:
        self.findings = findings
        self.label = f"{label}: " if label else ""

    def fault(self, path: Path, message: str) -> None:
        self.findings.add(path, self.label + message)

    def warn(self, path: Path, message: str) -> None:
        self.findings.warn(path, self.label + message)

    def read_mapping(self, value: object, path: Path, what: str = "") -> Mapping[str, Any]:
        """Return an object; nothing for null, and for anything else, which is a fault."""
        if type(value) is dict or isinstance(value, Mapping):  # an abstract class is slow to ask
            return value
        if value is not None:
            self.fault(path, f"{what or _last(path)} must be an object (`{{…}}`), not {kind_of(value)}")
        return {}

    def field(self, data: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
        """Return the object under a key."""
        return self.read_mapping(data.get(key), (*path, key))

    def read_list(self, data: Mapping[str, Any], key: str, path: Path) -> list[Any]:
        """Return the list under a key."""
        value = data.get(key)
        if isinstance(value, list):
            return value
        if value is None:
            return []
        if isinstance(value, tuple | set | frozenset):
            return list(value)
        self.fault((*path, key), f"`{key}` must be a list, not {kind_of(value)}")
        return []

    def entries(self, data: Mapping[str, Any], key: str, path: Path) -> list[tuple[Mapping[str, Any], Path]]:
        """Return the objects of the list under a key, each with its path."""
        found = []
        for i, entry in enumerate(self.read_list(data, key, path)):
            where = (*path, key, i)
            if type(entry) is dict or isinstance(entry, Mapping):
                found.append((entry, where))
            else:
                self.fault(where, f"`{key}` must hold objects (`{{…}}`), not {kind_of(entry)}")
        return found

    def text(self, data: Mapping[str, Any], key: str, path: Path, default: str = "") -> str:
        """Return a text; absent and null are the default."""
        value = data.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self.fault((*path, key), f"`{key}` must be a text, not {kind_of(value)}")
        return default

    def character(self, data: Mapping[str, Any], key: str, path: Path, default: str) -> str:
        """Return the first character of a text, as Ranger does; absent and empty are the default."""
        return self.text(data, key, path)[:1] or default

    def read_required(self, data: Mapping[str, Any], key: str, path: Path) -> str:
        """Return a text that must be there and say something."""
        value = data.get(key)
        if isinstance(value, str) and value.strip():
            return value
        what = (
            "and is missing"
            if value is None
            else "that is not empty"
            if value == ""
            else f"not {kind_of(value)}"
        )
        self.fault((*path, key), f"`{key}` must be a text {what}".replace("text not", "text, not"))
        return ""

    def flag(self, data: Mapping[str, Any], key: str, path: Path, *, default: bool) -> bool:
        """Return a boolean, which may be written as text."""
        value = data.get(key)
        if value is None:
            return default
        if value is True or value is False:  # as nearly all are
            return value
        found = boolean(value)
        if found is None:
            self.fault((*path, key), f"`{key}` must be true or false, not {kind_of(value)}")
            return default
        return found

    def number(self, data: Mapping[str, Any], key: str, path: Path, default: int = 0) -> int:
        """Return a whole number of at most 64 bits, which may be written as text."""
        value = data.get(key)
        if value is None:
            return default
        if type(value) is int and -_LARGEST <= value < _LARGEST:  # as nearly all are
            return value
        found = whole(value)
        if found is None:
            self.fault((*path, key), f"`{key}` must be a whole number, not {kind_of(value)}")
            return default
        return found

    def names(self, data: Mapping[str, Any], key: str, path: Path) -> frozenset[str]:
        """Return the names in the list under a key; blank ones name nobody."""
        value = data.get(key)
        if not value:
            if value is not None and not isinstance(value, list | tuple | set | frozenset):
                self.fault((*path, key), f"`{key}` must be a list, not {kind_of(value)}")
            return frozenset()
        return frozenset(self.texts(data, key, path))

    def texts(self, data: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...]:
        """Return the texts in the list under a key, less the blank ones."""
        found = []
        for i, entry in enumerate(self.read_list(data, key, path)):
            if isinstance(entry, str):
                if entry.strip():
                    found.append(entry)
            else:
                self.fault((*path, key, i), f"`{key}` must hold texts, not {kind_of(entry)}")
        return tuple(found)

    def literals(self, data: Mapping[str, Any], key: str, path: Path) -> list[str]:
        """Return the list under a key as texts; numbers and booleans are spelled as JSON does."""
        found = []
        for i, entry in enumerate(self.read_list(data, key, path)):
            text = literal(entry)
            if text is None:
                self.fault((*path, key, i), f"`{key}` must hold texts, not {kind_of(entry)}")
            else:
                found.append(text)
        return found

    def scalars(self, data: Mapping[str, Any], key: str, path: Path) -> dict[str, str]:
        """Return the object under a key as texts: numbers and booleans as JSON spells them, no nulls."""
        found = {}
        for name, value in self.field(data, key, path).items():
            text = literal(value)
            if text is not None:
                found[name] = text
            elif value is not None:
                self.fault((*path, key, name), f"`{name}` must be a text, not {kind_of(value)}")
        return found


def literal(value: object) -> str | None:
    """Return a text, a number or a boolean as text, and None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def boolean(value: object) -> bool | None:
    """Return a boolean from one or from a text that spells it, or None."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def whole(value: object) -> int | None:
    """Return a whole number of at most 64 bits from a number or a text, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and len(value) <= 20:
        digits = value.strip()
        if digits.removeprefix("-").isdecimal() and digits.isascii():
            value = int(digits)
    return value if isinstance(value, int) and -_LARGEST <= value < _LARGEST else None


def instant(value: object) -> datetime | None:
    """Return the instant that milliseconds since 1970, a cache file's or an audit event's date stands for.

    A date without a zone is UTC. None for anything that is no date.
    """
    number = whole(value)
    try:
        if number is not None:
            return _EPOCH + timedelta(milliseconds=number)
        if not isinstance(value, str):
            return None
        text = value.strip()
        found = _CACHE.fullmatch(text)
        if found is not None:
            year, month, day, hour, minute, second, milli = (int(found[i]) for i in range(1, 8))
            zone = _offset(found[8], found[9], found[10])
            return datetime(year, month, day, hour, minute, second, milli * 1000, zone).astimezone(UTC)
        found = _AUDIT.fullmatch(text)
        if found is not None:
            parts = [int(found[i]) for i in range(1, 7)]
            micro = int((found[7] or "0").ljust(6, "0"))
            mark = found[8] or "Z"
            own = UTC if mark == "Z" else _offset(mark[0], mark[1:3], mark[-2:])
            year, month, day, hour, minute, second = parts
            return datetime(year, month, day, hour, minute, second, micro, own).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None


def _offset(sign: str, hours: str, minutes: str) -> timezone:
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def kind_of(value: object) -> str:
    """Return what a value is, in the words of its file."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return f"the text `{value if len(value) <= 40 else value[:40] + '…'}`"
    return "an object" if isinstance(value, Mapping) else "a list"


def _last(path: Path) -> str:
    return f"`{path[-1]}`" if path and isinstance(path[-1], str) else "an entry" if path else "the document"
