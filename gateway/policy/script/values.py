"""Values of the expression language and what its operators make of them: JavaScript's rules for plain data.

A value is None (`null`), UNDEFINED, a boolean, a number (always a float), text, a list, a record (a mapping)
or an Instant. Whatever JavaScript would answer with an error raises CannotTell; so does every operator on
Several, since nobody can say which of the values is meant.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_TEXT: Final = 65_536
"""Characters of any text that a script makes; a condition over attributes needs a few hundred."""
MAX_LIST: Final = 4_096
"""Elements of any list that a script makes."""


class Indeterminate(Exception):
    """A script has no answer: JavaScript would raise an error, or something it asks for is not known."""


class Undefined:
    """JavaScript's `undefined`; there is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Final = Undefined()


@dataclass(frozen=True, slots=True)
class ScriptInstant:
    """A point in time, in milliseconds since 1970."""

    milliseconds: float


class AttributeValues(list["ScriptValue"]):
    """The values of an attribute that has more than one: a list that cannot be compared."""


class Joined(str):
    """Values put together as one text, and still known one by one."""

    __slots__ = ("items", "listed")

    items: tuple[str, ...]
    listed: bool
    """Whether the text is a list as SQL writes one: commas between, quotation marks or nothing around."""

    @classmethod
    def of(cls, items: tuple[str, ...], separator: str, marks: tuple[str, str]) -> Joined:
        """Join items, each between the two quotation marks."""
        joined = cls(check_length(separator.join(f"{marks[0]}{item}{marks[1]}" for item in items)))
        joined.items = items
        joined.listed = separator.strip() == "," and marks in (("", ""), ("'", "'"), ('"', '"'))
        return joined


ScriptValue = (
    None | Undefined | bool | float | str | ScriptInstant | list["ScriptValue"] | Mapping[str, "ScriptValue"]
)  # `AttributeValues` and `Joined` are a list and a text
"""A value of the language."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?\Z")


def is_nothing(value: ScriptValue) -> bool:
    """Whether a value is null or undefined."""
    return value is None or value is UNDEFINED


def truthy(value: ScriptValue) -> bool:
    """Whether JavaScript takes a value for true in `if`, `!`, `&&`, `||` and `?:`."""
    match value:
        case bool():
            return value
        case float():
            return value != 0 and not math.isnan(value)
        case str():
            return value != ""
        case AttributeValues():
            raise Indeterminate("an attribute with several values is neither true nor false")
        case _:
            return not is_nothing(value)


def to_number(value: ScriptValue) -> float:
    """Return a value as a number, NaN where JavaScript says so."""
    match value:
        case bool():
            return 1.0 if value else 0.0
        case float():
            return value
        case None:
            return 0.0
        case str():
            text = value.strip()
            if not text:
                return 0.0
            return float(text) if _NUMBER.match(text) else math.nan
        case ScriptInstant():
            return value.milliseconds
        case list():
            return to_number(to_text(value))
        case _:
            return math.nan


def to_text(value: ScriptValue) -> str:
    """Return a value as JavaScript's string conversion shows it."""
    match value:
        case str():
            return value
        case None:
            return "null"
        case Undefined():
            return "undefined"
        case bool():
            return "true" if value else "false"
        case float():
            return number_text(value)
        case AttributeValues():
            raise Indeterminate("an attribute has several values where one text is wanted")
        case list():
            return check_length(",".join("" if is_nothing(item) else to_text(item) for item in value))
        case _:
            raise Indeterminate("a record has no text")


def number_text(number: float) -> str:
    """Return a number as JavaScript writes it, for all numbers that occur in policies."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return str(int(number)) if number == int(number) and abs(number) < 1e21 else repr(number)


def check_length(text: str) -> str:
    """Return the text; CannotTell when it is longer than any text may grow."""
    if len(text) > MAX_TEXT:
        raise Indeterminate("a text grew too long")
    return text


def strictly_equal(left: ScriptValue, right: ScriptValue) -> bool:
    """JavaScript's `===`."""
    _comparable(left, right)
    if isinstance(left, list | Mapping) or isinstance(right, list | Mapping):
        return left is right
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return left == right


def loosely_equal(left: ScriptValue, right: ScriptValue) -> bool:
    """JavaScript's `==`."""
    _comparable(left, right)
    if is_nothing(left) or is_nothing(right):
        return is_nothing(left) and is_nothing(right)
    if isinstance(left, list | Mapping) and isinstance(right, list | Mapping):
        return left is right
    if isinstance(left, Mapping) or isinstance(right, Mapping):
        raise Indeterminate("a record cannot be compared")
    left, right = _plain(left), _plain(right)
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return to_number(left) == to_number(right)


def _plain(value: ScriptValue) -> ScriptValue:
    return to_text(value) if isinstance(value, list) else value


def _comparable(left: ScriptValue, right: ScriptValue) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, AttributeValues) and not is_nothing(other):
            raise Indeterminate("an attribute with several values cannot be compared with one")


def is_less(left: ScriptValue, right: ScriptValue) -> bool:
    """JavaScript's `<`: two texts by their characters, everything else as numbers; false with NaN."""
    left, right = _operand(left), _operand(right)
    if isinstance(left, str) and isinstance(right, str):
        return left.encode("utf-16-be", "surrogatepass") < right.encode("utf-16-be", "surrogatepass")
    return to_number(left) < to_number(right)


def at_most(left: ScriptValue, right: ScriptValue) -> bool:
    """JavaScript's `<=`, which is false with NaN on either side, unlike the negation of `>`."""
    left, right = _operand(left), _operand(right)
    if isinstance(left, str) and isinstance(right, str):
        return not is_less(right, left)
    return to_number(left) <= to_number(right)


def _operand(value: ScriptValue) -> ScriptValue:
    if isinstance(value, AttributeValues):
        raise Indeterminate("an attribute with several values cannot be compared")
    if isinstance(value, Mapping):
        raise Indeterminate("a record cannot be compared")
    return _plain(value)


def add(left: ScriptValue, right: ScriptValue) -> ScriptValue:
    """JavaScript's `+`: joins when either side is text or a list, adds otherwise."""
    left, right = _operand(left), _operand(right)
    if isinstance(left, ScriptInstant) or isinstance(right, ScriptInstant):
        raise Indeterminate("a time cannot be added to")
    if isinstance(left, str) or isinstance(right, str):
        return check_length(to_text(left) + to_text(right))
    return to_number(left) + to_number(right)


def subtract(left: ScriptValue, right: ScriptValue) -> ScriptValue:
    """JavaScript's `-`."""
    return to_number(_operand(left)) - to_number(_operand(right))


def member(value: ScriptValue, name: ScriptValue) -> ScriptValue:
    """Return `value[name]`: undefined when there is none, CannotTell on null and undefined."""
    if is_nothing(value):
        raise Indeterminate(f"`{name}` is asked of {to_text(value)}")
    if isinstance(value, Mapping):
        return value.get(to_text(name), UNDEFINED)
    if isinstance(value, str | list):
        if name == "length":
            return float(len(value))
        if isinstance(name, float | str) and not isinstance(name, bool):
            position = to_number(name)
            if 0 <= position < len(value) and position == int(position):
                return value[int(position)]
    return UNDEFINED


def json_text(value: ScriptValue) -> str:
    """Return a value as `JSON.stringify` writes it."""

    def plain(part: ScriptValue) -> object:
        match part:
            case float():
                return int(part) if part == part and abs(part) < 1e21 and part == int(part) else part
            case Undefined():
                return None
            case ScriptInstant():
                raise Indeterminate("a time has no JSON here")
            case Mapping():
                return {key: plain(item) for key, item in part.items() if item is not UNDEFINED}
            case list():
                return [plain(item) for item in part]
            case _:
                return part

    return check_length(json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")))


# Methods: name → (fewest arguments, most arguments, function of the value and its arguments).

_Method = Callable[[ScriptValue, tuple[ScriptValue, ...]], ScriptValue]


def _text(value: ScriptValue) -> str:
    if not isinstance(value, str):
        raise Indeterminate("a text is wanted")
    return value


def _argument(arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    return arguments[0] if arguments else UNDEFINED


def _includes(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    return _index(value, arguments) != -1.0


def _index(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    wanted = _argument(arguments)
    if isinstance(value, str):
        return float(value.find(to_text(wanted)))
    if isinstance(value, list):
        found = (place for place, item in enumerate(value) if strictly_equal(item, wanted))
        return float(next(found, -1))
    raise Indeterminate("a list or a text is wanted")


def _intersects(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    other = _argument(arguments)
    if not isinstance(value, list):
        raise Indeterminate("a list is wanted")
    if is_nothing(other):
        return False
    if not isinstance(other, list):
        raise Indeterminate("a list is wanted")
    known = {_identity(item) for item in other}
    return any(_identity(item) in known for item in value)


def _identity(value: ScriptValue) -> object:
    """Return what two values share exactly when `===` holds between them (no NaN occurs in lists)."""
    return (type(value), id(value)) if isinstance(value, list | Mapping) else (type(value) is bool, value)


def _split(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    if isinstance(value, AttributeValues):
        return list(value)
    separator = _argument(arguments)
    if separator is UNDEFINED:
        return [_text(value)]
    by = to_text(separator)
    parts: list[ScriptValue] = [*(_text(value).split(by, MAX_LIST) if by else _text(value))]
    if len(parts) > MAX_LIST:
        raise Indeterminate("a list grew too long")
    return parts


def _join(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    if not isinstance(value, list):
        raise Indeterminate("a list is wanted")
    by = "," if is_nothing(_argument(arguments)) else to_text(_argument(arguments))
    return check_length(by.join("" if is_nothing(item) else to_text(item) for item in value))


def _get(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    if isinstance(value, Mapping):
        found = value.get(to_text(_argument(arguments)), None)
        return None if found is UNDEFINED else found
    raise Indeterminate("a record is wanted")


def _has(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    if isinstance(value, Mapping):
        return to_text(_argument(arguments)) in value
    raise Indeterminate("a record is wanted")


def _size(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    if isinstance(value, Mapping | list | str):
        return float(len(value))
    raise Indeterminate("a list or a record is wanted")


def _time(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    if isinstance(value, ScriptInstant):
        return value.milliseconds
    raise Indeterminate("a time is wanted")


def _after(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    return to_number(_time(value, ())) > to_number(_time(_argument(arguments), ()))


def _before(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    return to_number(_time(value, ())) < to_number(_time(_argument(arguments), ()))


def _starts(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    return _text(value).startswith(to_text(_argument(arguments)))


def _ends(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    return _text(value).endswith(to_text(_argument(arguments)))


def _equals(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    other = _argument(arguments)
    return isinstance(other, str) and _text(value) == other


def _equals_ignoring_case(value: ScriptValue, arguments: tuple[ScriptValue, ...]) -> ScriptValue:
    other = _argument(arguments)
    return isinstance(other, str) and _text(value).casefold() == other.casefold()


METHODS: Final[Mapping[str, tuple[int, int, _Method]]] = {
    "includes": (1, 1, _includes),
    "contains": (1, 1, _includes),
    "indexOf": (1, 1, _index),
    "intersects": (1, 1, _intersects),
    "startsWith": (1, 1, _starts),
    "endsWith": (1, 1, _ends),
    "equals": (1, 1, _equals),
    "equalsIgnoreCase": (1, 1, _equals_ignoring_case),
    "toLowerCase": (0, 0, lambda value, _: _text(value).lower()),
    "toUpperCase": (0, 0, lambda value, _: check_length(_text(value).upper())),
    "trim": (0, 0, lambda value, _: _text(value).strip()),
    "toString": (0, 0, lambda value, _: _text(value) if isinstance(value, str) else to_text(_operand(value))),
    "split": (0, 1, _split),
    "join": (0, 1, _join),
    "get": (1, 1, _get),
    "containsKey": (1, 1, _has),
    "hasOwnProperty": (1, 1, _has),
    "size": (0, 0, _size),
    "isEmpty": (0, 0, lambda value, _: _size(value, ()) == 0.0),
    "getType": (0, 0, lambda value, _: _get(value, ("type",))),
    "getAttributes": (0, 0, lambda value, _: _get(value, ("attributes",))),
    "getTime": (0, 0, _time),
    "after": (1, 1, _after),
    "before": (1, 1, _before),
}
