"""How fields of Ranger's JSON are read, and how objects are written.

Read as Ranger's own reader does: unknown fields are passed over, absent lists are empty, a number may stand
where a text is wanted and the other way round. What fits no type is a fault with its path, and all are told
at once. Objects stay plain dicts with every default filled in; dates are epoch milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.policy.json_shapes import boolean, instant, kind_of, literal, whole

Object = dict[str, Any]
"""A JSON object in Ranger's spelling."""

_WHOLE = re.compile(r"-?[0-9]{1,19}\Z")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class JsonField:
    """How one value is read, and what stands for an absent one (called anew each time)."""

    read: Callable[[object, str, list[str]], Any]
    default: Callable[[], Any] = lambda: None


def _wrong(expected: str, value: object, path: str, faults: list[str]) -> None:
    faults.append(f"`{path or 'the body'}`: {expected} is expected, not {kind_of(value)}")


def _text(value: object, path: str, faults: list[str]) -> str | None:
    text = literal(value)
    if text is None and value is not None:
        _wrong("a text", value, path, faults)
    return text


def _whole(value: object, path: str, faults: list[str]) -> int | None:
    if value is None or value == "":
        return None
    number = whole(value)
    if number is None:
        _wrong("a whole number", value, path, faults)
    return number


def _flag(value: object, path: str, faults: list[str]) -> bool | None:
    found = boolean(value)
    if found is None and value is not None:
        _wrong("true or false", value, path, faults)
    return found


def _date(value: object, path: str, faults: list[str]) -> int | None:
    if not isinstance(value, str) or not value or _WHOLE.match(value):
        return _whole(value, path, faults)
    found = instant(value)
    if found is None:
        _wrong("a date in epoch milliseconds", value, path, faults)
        return None
    return round(found.timestamp() * 1000)


def _accept_anything(value: object, path: str, faults: list[str]) -> Any:
    return value


def list_of(of: JsonField, *, nulls: bool = False) -> JsonField:
    def read(value: object, path: str, faults: list[str]) -> list[Any] | None:
        if value is None:
            return []
        if not isinstance(value, list):
            _wrong("a list", value, path, faults)
            return []
        found = []
        for i, entry in enumerate(value):
            if entry is None and not nulls:
                faults.append(f"`{path}[{i}]`: null in the list")
                continue
            found.append(of.read(entry, f"{path}[{i}]", faults))
        return found

    return JsonField(read, list)


def map_of(of: JsonField, *, drop_null: bool = False) -> JsonField:
    def read(value: object, path: str, faults: list[str]) -> Object:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            _wrong("an object", value, path, faults)
            return {}
        entries = {str(k): v for k, v in value.items() if not (drop_null and v is None)}
        return {k: of.read(v, f"{path}.{k}" if path else k, faults) for k, v in entries.items()}

    return JsonField(read, dict)


def object_of(fields: Mapping[str, JsonField], *, rest: bool = False) -> JsonField:
    """Read an object of these fields; with `rest` unknown fields are kept as they are."""

    def read(value: object, path: str, faults: list[str]) -> Object | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            _wrong("an object", value, path, faults)
            return None
        found: Object = {k: v for k, v in value.items() if k not in fields} if rest else {}
        for name, field in fields.items():
            given = value.get(name, _ABSENT)
            if given is _ABSENT or given is None:
                found[name] = field.default()
                continue
            got = field.read(given, f"{path}.{name}" if path else name, faults)
            found[name] = field.default() if got is None else got
        return found

    return JsonField(read)


def fill_default(field: JsonField, value: Any) -> JsonField:
    return JsonField(field.read, lambda: value)


TEXT = JsonField(_text)
WHOLE = JsonField(_whole)
FLAG = JsonField(_flag)
DATE = JsonField(_date)
ANY = JsonField(_accept_anything)
NAME = fill_default(TEXT, "")
OFF = fill_default(FLAG, value=False)
ON = fill_default(FLAG, value=True)
ZERO = fill_default(WHOLE, 0)
TEXTS = list_of(TEXT, nulls=True)
"""Nulls stay, for validation to name them."""
TEXT_MAP = map_of(TEXT)

_VERBATIM = frozenset(
    {
        "options", "configs", "matcherOptions", "evaluatorOptions", "enricherOptions", "dataMaskOptions",
        "attributes", "additionalInfo", "serviceConfig", "userAttrMapping", "groupAttrMapping",
        "userGroupMapping", "info",
    }
)  # fmt: skip
"""Maps whose entries are the author's: an empty text in them is a value."""
_KEPT_EMPTY = frozenset({"filterExpr"})
"""An empty filter means no filter, an absent one means no answer."""


class ShownEmpty(list[Any]):
    """A list that is shown when it is empty, too: what a search found."""


def read(shape: JsonField, value: object) -> tuple[Object, list[str]]:
    """Return the object with defaults filled in, and what is wrong with it."""
    faults: list[str] = []
    if not isinstance(value, Mapping):
        _wrong("an object", value, "", faults)
        return {}, faults
    found: Object = shape.read(value, "", faults)
    return found, faults


def show(value: Any) -> Any:
    """Return what Ranger's writer would send: no nulls, no empty texts, lists or maps; `false` and 0 stay."""
    if isinstance(value, Mapping):
        shown: Object = {}
        for key, entry in value.items():
            if key in _VERBATIM and isinstance(entry, Mapping):
                kept: Any = {k: v for k, v in entry.items() if v is not None}
            else:
                kept = show(entry)
            if isinstance(entry, ShownEmpty):
                shown[key] = [show(one) for one in entry]
                continue
            empty = kept is None or (kept in ("", [], {}) and not isinstance(kept, bool | int))
            if not empty or (key in _KEPT_EMPTY and kept == ""):
                shown[key] = kept
        return shown
    if isinstance(value, list | tuple):
        return [show(entry) for entry in value]
    return value
