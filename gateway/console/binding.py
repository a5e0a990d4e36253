"""Parameters of a request become the dataclass of their route, or a sentence of what is wrong with them."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gateway.admin.requests import BadRequest
from gateway.console.routes import DEFAULT_CHARS
from gateway.database.texts import storable

MAX_LIST = 1_000
"""Values of a parameter that may be given several times."""
_LEFT_EMPTY = (int, date, datetime)
"""Types of which an empty field of a form says nothing."""
_TRUE = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def bind(parameters: type[Any], given: Mapping[str, Sequence[Any]]) -> Any:
    """Return parameters from what was given of each: texts, or values of JSON. Raises BadRequest."""
    hints = get_type_hints(parameters)
    known = {one.name: one for one in fields(parameters)}
    if unknown := sorted(set(given) - set(known)):
        told = ", ".join(known) or "none"
        raise BadRequest(f"unknown parameter `{unknown[0]}`; the parameters are {told}")
    found = {}
    for name, one in known.items():
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        is_left_empty = given.get(name) == [""] and hints[name] in _LEFT_EMPTY
        if name in given and not (is_left_empty and has_default):
            found[name] = _read(one, hints[name], list(given[name]))
        elif not has_default:
            raise BadRequest(f"`{name}` is missing")
    return parameters(**found)


def _read(one: Field[Any], hint: Any, values: Sequence[Any]) -> Any:
    inner, optional = without_none(hint)
    if get_origin(inner) is tuple:
        item = get_args(inner)[0]
        listed = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        if len(listed) > one.metadata.get("items", MAX_LIST):
            raise BadRequest(f"`{one.name}` has too many values")
        return tuple(_value(one, item, value) for value in listed if value != "")
    if len(values) != 1:
        raise BadRequest(f"`{one.name}` is given {len(values)} times")
    if optional and (values[0] is None or (values[0] == "" and inner is not str)):
        # An empty field of a form.
        return None
    return _value(one, inner, values[0])


def _value(one: Field[Any], kind: Any, value: Any) -> Any:
    most = one.metadata.get("most", DEFAULT_CHARS)
    if get_origin(kind) is Literal:
        return _choice(one, {str(choice): choice for choice in get_args(kind)}, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice(one, {str(choice.value): choice for choice in kind}, value)
    if kind is bool:
        return value if isinstance(value, bool) else _choice(one, _TRUE, value)
    if kind is int:
        return _whole(one, value, most)
    if not isinstance(value, str):
        raise BadRequest(f"`{one.name}` must be a text")
    if storable(value) != value:
        raise BadRequest(f"`{one.name}` contains a character that names cannot have")
    if kind is str:
        if len(value) > most:
            raise BadRequest(f"`{one.name}` has more than {most:,} characters")
        return value
    return _time(one, kind, value)


def _choice(one: Field[Any], choices: Mapping[str, Any], value: Any) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise BadRequest(f"`{one.name}` must be one of {', '.join(choices)}")
    return choices[value]


def _whole(one: Field[Any], value: Any, most: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 18:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise BadRequest(f"`{one.name}` must be a number from 0 to {most:,}")
    return value


def _time(one: Field[Any], kind: Any, value: str) -> Any:
    try:
        if kind is date:
            return date.fromisoformat(value)
        found = datetime.fromisoformat(value)
        # Python's own range ends within a day of it: nothing beyond can be moved to UTC.
        if not 1970 <= found.year <= 9000:
            raise ValueError
    except ValueError:
        raise BadRequest(f"`{one.name}` must be a time such as 2026-11-30T13:00:00Z") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it had it."""
    if get_origin(hint) in (Union, types.UnionType):
        left = [one for one in get_args(hint) if one is not type(None)]
        if len(left) == 1:
            return left[0], True
    return hint, False
