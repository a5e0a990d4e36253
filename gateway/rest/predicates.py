"""Row filters as Iceberg's predicates: a filter of Spark's holds where it is TRUE, and its NULLs are told
apart from FALSE; a predicate of Iceberg's is true or false.

So each part is written twice, as what holds where the part is TRUE and as what holds where it is FALSE, and a
comparison says by itself that its column is not NULL. INVARIANT (nothing wider): what has no exact
counterpart is refused; it is never left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from gateway.algebra.nodes import Expression, Literal, NamedCall, NamedColumn, Operator
from gateway.algebra.spark import lower_expression
from gateway.model.reading import Reading
from gateway.model.restrictions import FilterColumn

MAX_DEPTH: Final = 60
MAX_PREDICATES: Final = 2_000
PredicateJson = dict[str, Any]
_TRUE: PredicateJson = {"type": "true"}
_FALSE: PredicateJson = {"type": "false"}
_COMPARISONS: Final = {
    "EqualTo": ("eq", "not-eq"),
    "LessThan": ("lt", "gt-eq"),
    "LessThanOrEqual": ("lt-eq", "gt"),
    "GreaterThan": ("gt", "lt-eq"),
    "GreaterThanOrEqual": ("gt-eq", "lt"),
}
"""Spark's classes → the predicate that it is, and the one that it is not."""
_MIRRORED: Final = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}
_BITS: Final = {"int": 31, "long": 63}
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_USERS: Final = ("current_user", "session_user", "user")
ANY_TYPE: Final = "any"
"""Of a column whose type is not known: a constant's own counts for it."""
_ORDERED: Final = ("int", "long", "float", "double", "date", "string", ANY_TYPE)


class NotServable(Exception):
    """What policies say has no counterpart in Iceberg's restrictions; the message says what, and why."""


@dataclass(frozen=True, slots=True)
class _Both:
    """What holds where an expression is TRUE, and where it is FALSE; where it is NULL neither does."""

    true: PredicateJson
    false: PredicateJson


def write_filter(reading: Reading, columns: Mapping[str, FilterColumn], user: str) -> PredicateJson:
    """Return a predicate that holds for just the rows for which a filter is TRUE. `columns`: by names in
    lower case. Raises NotServable."""
    if reading.tree is None:
        raise NotServable("a row filter that is too long")
    return _Writer(columns, user).write(lower_expression(reading.tree), 0).true


class _Writer:
    def __init__(self, columns: Mapping[str, FilterColumn], user: str) -> None:
        self._columns = columns
        self._user = user
        self._written = 0

    def write(self, told: Expression, depth: int) -> _Both:
        self._written += 1
        if depth > MAX_DEPTH or self._written > MAX_PREDICATES:
            raise NotServable("a row filter that is nested too deep, or too long")
        match told:
            case Literal(type="boolean", value=value):
                return _build_fixed(None if value is None else value == "true")
            case Literal(value=None):
                return _build_fixed(None)
            case Operator("And", (left, right)):
                a, b = self.write(left, depth + 1), self.write(right, depth + 1)
                return _Both(_and(a.true, b.true), _or(a.false, b.false))
            case Operator("Or", (left, right)):
                a, b = self.write(left, depth + 1), self.write(right, depth + 1)
                return _Both(_or(a.true, b.true), _and(a.false, b.false))
            case Operator("Not", (child,)):
                one = self.write(child, depth + 1)
                return _Both(one.false, one.true)
            case Operator(name, (left, right)) if name in _MIRRORED:
                return self._compare(name, left, right)
            case Operator("In", (value, *listed)):
                return self._is_in(value, listed)
            case Operator("Like", (value, pattern)):
                return self._like(value, pattern, told.escape)
            case NamedCall(parts=parts, operands=operands, filtered=None) if len(parts) == 1:
                return self._call(parts[0].lower(), operands, depth)
            case NamedColumn():
                column = self._find(told)
                if column.type in ("boolean", ANY_TYPE):
                    holds, fails = (_predicate("eq", column, value) for value in (True, False))
                    return _with_not_null(column, holds, fails)
        raise NotServable(f"a row filter with {_describe(told)}")

    def _call(self, name: str, operands: tuple[Expression, ...], depth: int) -> _Both:
        match name, operands:
            case "isnull", (NamedColumn() as column,):
                one = self._find(column, any_type=True)
                return _Both(_test("is-null", one), _test("not-null", one))
            case "isnotnull", (NamedColumn() as column,):
                one = self._find(column, any_type=True)
                return _Both(_test("not-null", one), _test("is-null", one))
            case "between", (value, low, high):
                least = self._compare("GreaterThanOrEqual", value, low)
                most = self._compare("LessThanOrEqual", value, high)
                return _Both(_and(least.true, most.true), _or(least.false, most.false))
            case "startswith", (NamedColumn() as column, Literal(type="string", value=str(text))):
                return self._starts_with(self._find(column), text)
        raise NotServable(f"a row filter that calls `{name[:60]}`")

    def _compare(self, name: str, left: Expression, right: Expression) -> _Both:
        left, right = self._fold(left), self._fold(right)
        if isinstance(left, Literal) and isinstance(right, Literal):
            return _compare_literals(name, left, right)
        if isinstance(left, Literal):
            name, left, right = _MIRRORED[name], right, left
        if not isinstance(left, NamedColumn) or not isinstance(right, Literal):
            raise NotServable(f"a row filter that compares {_describe(left)} with {_describe(right)}")
        one = self._find(left)
        if right.value is None:
            if name == "EqualNullSafe":
                return _Both(_test("is-null", one), _test("not-null", one))
            return _build_fixed(None)
        value = _value(one, right)
        if name == "EqualNullSafe":
            other = _or(_test("is-null", one), _and(_predicate("not-eq", one, value), _test("not-null", one)))
            return _Both(_and(_predicate("eq", one, value), _test("not-null", one)), other)
        holds, fails = _COMPARISONS[name]
        if holds != "eq" and not (one.type in _ORDERED or one.type.startswith("decimal(")):
            raise NotServable(f"a row filter that orders by the type `{one.type}`")
        return _with_not_null(one, self._with_nan(one, holds, value), self._with_nan(one, fails, value))

    def _with_nan(self, one: FilterColumn, operator: str, value: Any) -> PredicateJson:
        """Return a comparison that holds of NaN as in Spark, where it is greater than every number."""
        written = _predicate(operator, one, value)
        if one.type not in ("float", "double"):
            return written
        if operator in ("gt", "gt-eq", "not-eq"):  # RULE (rest-nan-greatest)
            return _or(_test("is-nan", one), written)
        return _and(_test("not-nan", one), written)

    def _is_in(self, value: Expression, listed: list[Expression]) -> _Both:
        value, found = self._fold(value), [self._fold(one) for one in listed]
        literals = [one for one in found if isinstance(one, Literal)]
        if len(literals) != len(found):
            raise NotServable("a row filter with IN and something else than constants")
        if isinstance(value, Literal):
            each = [_compare_literals("EqualTo", value, one) for one in literals]
            return _any(each)
        if not isinstance(value, NamedColumn):
            raise NotServable(f"a row filter with IN of {_describe(value)}")
        one = self._find(value)
        values = [_value(one, each) for each in literals if each.value is not None]
        unknown = len(values) < len(literals)
        if not values:
            return _build_fixed(None)
        if one.type in ("float", "double"):
            raise NotServable(f"a row filter with IN of the type `{one.type}`")
        reference = _reference(one)
        inside = {"type": "in", "child": reference, "values": values}
        outside = {"type": "not-in", "child": reference, "values": values}
        both = _with_not_null(one, inside, outside)
        return _Both(both.true, _FALSE) if unknown else both  # RULE (rest-null-in-list)

    def _like(self, value: Expression, pattern: Expression, escape: str) -> _Both:
        value, pattern = self._fold(value), self._fold(pattern)
        if not isinstance(value, NamedColumn) or not isinstance(pattern, Literal) or pattern.value is None:
            raise NotServable("a row filter with LIKE of something else than a column and a constant")
        one, text = self._find(value), pattern.value
        if one.type not in ("string", ANY_TYPE) or pattern.type != "string":
            raise NotServable(f"a row filter with LIKE of the type `{one.type}`")
        begin = text.removesuffix("%")
        if any(mark in begin for mark in ("%", "_", escape or "\\")):  # RULE (rest-like-within)
            raise NotServable("a row filter with LIKE and signs within that stand for others")
        if begin == text:
            return _with_not_null(one, _predicate("eq", one, text), _predicate("not-eq", one, text))
        return self._starts_with(one, begin)

    @staticmethod
    def _starts_with(one: FilterColumn, text: str) -> _Both:
        if one.type not in ("string", ANY_TYPE):
            raise NotServable(f"a row filter by the beginning of the type `{one.type}`")
        if not text:
            return _Both(_test("not-null", one), _FALSE)
        return _with_not_null(
            one, _predicate("starts-with", one, text), _predicate("not-starts-with", one, text)
        )

    def _fold(self, told: Expression) -> Expression:
        """Return what the gateway knows of an expression: who the user is."""
        match told:
            case NamedCall(parts=(name,), operands=()) if name.lower() in _USERS:
                return Literal("string", self._user)
            case NamedColumn(parts=(name,)) if name.lower() in _USERS and name.lower() not in self._columns:
                return Literal("string", self._user)
        return told

    def _find(self, told: NamedColumn, *, any_type: bool = False) -> FilterColumn:
        found = self._columns.get(told.parts[0].lower()) if len(told.parts) == 1 else None
        if found is None:
            raise NotServable(f"a row filter that reads `{'.'.join(told.parts)[:60]}`, which is no column")
        if not found.type and not any_type:
            raise NotServable("a row filter on a column that is not a single value")
        return found


def _build_fixed(value: bool | None) -> _Both:
    return _Both(_TRUE if value is True else _FALSE, _TRUE if value is False else _FALSE)


def _any(each: list[_Both]) -> _Both:
    found = _Both(_FALSE, _TRUE)
    for one in each:
        found = _Both(_or(found.true, one.true), _and(found.false, one.false))
    return found


def _and(left: PredicateJson, right: PredicateJson) -> PredicateJson:
    if _FALSE in (left, right):
        return _FALSE
    if left in (_TRUE, right):
        return right
    return left if right == _TRUE else {"type": "and", "left": left, "right": right}


def _or(left: PredicateJson, right: PredicateJson) -> PredicateJson:
    if _TRUE in (left, right):
        return _TRUE
    if left in (_FALSE, right):
        return right
    return left if right == _FALSE else {"type": "or", "left": left, "right": right}


def both_predicates(left: PredicateJson, right: PredicateJson) -> PredicateJson:
    """Return what holds where both do."""
    return _and(left, right)


def _with_not_null(one: FilterColumn, true: PredicateJson, false: PredicateJson) -> _Both:
    there = _test("not-null", one)
    return _Both(_and(true, there), _and(false, there))  # RULE (rest-null-compares)


def _reference(one: FilterColumn) -> PredicateJson:
    return {"type": "reference", "id": one.id}


def _test(test: str, one: FilterColumn) -> PredicateJson:
    return {"type": test, "child": _reference(one)}


def _predicate(operator: str, one: FilterColumn, value: Any) -> PredicateJson:
    return {"type": operator, "left": _reference(one), "right": value}


def _compare_literals(name: str, left: Literal, right: Literal) -> _Both:
    """Return what a comparison of two constants is, such as of a user's name and that of a policy."""
    if left.value is None or right.value is None:
        if name == "EqualNullSafe":
            return _build_fixed(left.value is None and right.value is None)
        return _build_fixed(None)
    if name not in ("EqualTo", "EqualNullSafe"):
        raise NotServable("a row filter that orders constants")
    if left.type == right.type == "string":
        return _build_fixed(left.value == right.value)
    if left.type in _INTEGERS and right.type in _INTEGERS:
        return _build_fixed(int(left.value) == int(right.value))
    raise NotServable("a row filter that compares constants of two types")


def _value(one: FilterColumn, literal: Literal) -> Any:
    """Return a constant as Iceberg writes one of the column's type. Raises NotServable where Spark would
    change one of the two for the comparison."""
    if one.type == ANY_TYPE:
        return _write_any(literal)
    write = _LITERALS.get("decimal" if one.type.startswith("decimal(") else one.type)
    found = None if write is None or literal.value is None else write(one.type, literal.type, literal.value)
    if found is None:
        raise NotServable(
            f"a row filter that compares the type `{one.type}` with a constant of type `{literal.type}`"
        )
    return found


def _write_any(literal: Literal) -> Any:
    for kind in ("string", "date", "boolean", "long", "double"):
        found = _LITERALS[kind](kind, literal.type, literal.value or "")
        if found is not None:
            return found
    raise NotServable(f"a row filter with a constant of type `{literal.type}`")


def _write_integer(kind: str, type_: str, value: str) -> int | None:
    if type_ not in _INTEGERS:
        return None
    bound = 1 << _BITS[kind]
    return int(value) if -bound <= int(value) < bound else None


def _write_double(kind: str, type_: str, value: str) -> float | None:
    if type_ not in (*_INTEGERS, "double", "float") and not type_.startswith("decimal("):
        return None
    try:
        number, exact = float(value), Decimal(value)
    except (ValueError, InvalidOperation):
        return None
    # Zero has two signs, which only one of the two orders tells apart.
    if number == 0 or number != number or number in (float("inf"), float("-inf")):
        return None
    if type_ in _INTEGERS and int(number) != exact:
        return None
    if kind == "float" or type_ == "float":
        same = struct.unpack("<f", struct.pack("<f", number))[0] == number if abs(number) < 3e38 else False
        return number if same and Decimal(number) == exact else None
    return number


def _write_decimal(kind: str, type_: str, value: str) -> str | None:
    if type_ not in _INTEGERS and not type_.startswith("decimal("):
        return None
    precision, scale = (int(one) for one in kind[8:-1].split(","))
    number = Decimal(value)
    shifted = number.scaleb(scale)
    if shifted != shifted.to_integral_value() or abs(shifted) >= 10**precision:
        return None
    return f"{number:.{scale}f}"


def _write_string(kind: str, type_: str, value: str) -> str | None:
    return value if type_ == "string" and value.isascii() | value.isprintable() else None


def _write_date(kind: str, type_: str, value: str) -> str | None:
    if type_ != "date":
        return None
    try:
        return (date(1970, 1, 1) + timedelta(days=int(value))).isoformat()
    except (OverflowError, ValueError):
        return None


def _write_boolean(kind: str, type_: str, value: str) -> bool | None:
    return value == "true" if type_ == "boolean" else None


_LITERALS: Final[Mapping[str, Callable[[str, str, str], Any]]] = {
    "int": _write_integer,
    "long": _write_integer,
    "float": _write_double,
    "double": _write_double,
    "decimal": _write_decimal,
    "string": _write_string,
    "date": _write_date,
    "boolean": _write_boolean,
}


def _describe(told: Expression) -> str:
    match told:
        case NamedCall(parts=parts):
            return f"the function `{'.'.join(parts)[:60]}`"
        case NamedColumn(parts=parts):
            return f"`{'.'.join(parts)[:60]}` by itself"
        case Operator(name):
            return f"the operator {name}"
        case Literal(type_):
            return f"a constant of type `{type_}`"
    return f"something that no restriction says ({type(told).__name__})"
