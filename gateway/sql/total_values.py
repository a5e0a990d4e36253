"""Total expressions: what is known of a value whatever stands in the rows that it is made of.

An expression is total if it has a value for every row that columns of its types can have, with ANSI mode on
and off; see `gateway.sql.total`. What is on no list here is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.algebra.nodes import Alias, Cast, Expression, Literal, NamedCall, Operator
from gateway.model.reading import Span
from gateway.sql.functions import AGGREGATES, builtin_name
from gateway.sql.leakproof_copies import (
    DECIMAL,
    DIGITS,
    INTEGERS,
    MAX_DIGITS,
    TEXT,
    date_of,
    is_simple_pattern,
    timestamp_of,
)

MAX_CALCULATED: Final = 31
"""Digits of a sum or product of decimals; databases have room for no more, Spark for 38."""

_INTEGER_TYPES: Final = tuple(INTEGERS)
"""From the narrowest to the widest."""
_FRACTIONS: Final = frozenset({"float", "double"})
KNOWN: Final = frozenset({*_INTEGER_TYPES, *_FRACTIONS, "boolean", "date", "timestamp", "string"})
_MAX_DAYS: Final = 40_000
_MAX_MONTHS: Final = 1_200
"""How far from a date of four digits one may go that is still a date."""
_MAX_PLACES: Final = (1 << 31) - 1
"""Of a text."""
_MICROS_A_DAY: Final = 86_400_000_000
_OF_MONTHS: Final = ("interval year", "interval month", "interval year to month")

_COMPARISONS: Final = frozenset(
    "EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual".split()
)

_TEXT_TO_TEXT: Final = frozenset("btrim lcase lower ltrim rtrim trim ucase upper".split())
_LENGTHS: Final = frozenset("char_length character_length len length".split())
_TEXTS_TO_BOOLEAN: Final = frozenset("contains endswith startswith".split())
_PARTS_OF_DATES: Final = frozenset(
    "day dayofmonth dayofweek dayofyear month quarter weekday weekofyear year".split()
)
_ALIKE: Final = frozenset("coalesce ifnull nvl".split())
_WHO: Final = frozenset("current_user session_user user".split())
_TODAY: Final = frozenset("curdate current_date".split())
_NOW: Final = frozenset("current_timestamp now".split())
WORDS: Final = _WHO | _TODAY | _NOW
"""What stands for a value where no column has its name."""
_OF_ITS_ARGUMENT: Final = frozenset("any_value first last max min".split())


class TotalValue(NamedTuple):
    """What is known of an expression."""

    type: str = ""
    """Its type as Spark writes it, varchar as string; empty when it is not known. A decimal may be said to
    have more digits than it has."""
    total: bool = True
    number: int | None = None
    """Of a whole number that is the same in every row: which one."""
    fixed: bool = False
    """Of a date or an instant: whether it is the same in every row, and far from the end of time."""
    grouped: bool = False
    """Whether it is made of a group of rows."""
    below: bool = True
    """Whether all is total of which aggregates in it are made."""
    source: tuple[Span, str] | None = None
    """Of a column: the scan's column that it is."""
    written: str = ""
    """Of a column: its type as the catalog has it, where that is not looked at further."""


UNKNOWN: Final = TotalValue()
FAILING: Final = TotalValue(total=False)
BOOLEAN: Final = TotalValue("boolean")


@lru_cache(maxsize=4096)
def column_kind(written: str) -> str:
    """Return a column's type as far as it is looked at here; empty for all others. CHAR is among these: its
    values are made longer where they are read and where they are compared."""
    lowered = written.lower()
    if TEXT.match(lowered):
        return "string"
    return lowered if lowered in KNOWN or DECIMAL.match(lowered) else ""


@dataclass(frozen=True, slots=True)
class Values:
    """What operators and functions make of their operands, in one text."""

    text: str

    def compute(self, expression: Expression, operands: Sequence[TotalValue]) -> TotalValue:
        """Return what an expression makes of its operands; their own totality is the caller's."""
        match expression:
            case Literal():
                return self._literal(expression)
            case Alias():
                return operands[0]
            case Cast():
                return self._cast(expression, operands[0])
            case NamedCall():
                return self._check_call(expression, operands)
            case Operator():
                return self._check_operation(expression, operands)
        return FAILING

    def _literal(self, literal: Literal) -> TotalValue:
        if literal.value is None:
            return TotalValue("void")
        if literal.type in INTEGERS:
            return TotalValue(literal.type, number=int(literal.value))
        if literal.type == "date":
            return TotalValue("date", fixed=date_of(literal) is not None)
        if literal.type == "timestamp":
            return TotalValue("timestamp", fixed=timestamp_of(literal, self.text) is not None)
        return TotalValue(column_kind(literal.type))

    def _check_operation(self, node: Operator, operands: Sequence[TotalValue]) -> TotalValue:
        match node.name:
            case "And" | "Or" | "Not":
                return BOOLEAN if _all_of(operands, "boolean") else FAILING
            case "UnaryPositive":
                # Of a text it is the number that stands in it.
                return operands[0] if _is_number(operands[0].type) else FAILING
            case comparison if comparison in _COMPARISONS:
                return self._check_comparison(node.operands, operands)
            case "In":
                return self._check_in(node.operands, operands)
            case "Like":
                return self._like(node, operands)
            case "Add" | "Subtract" | "Multiply":
                return _arithmetic(node, operands)
            case "Remainder" | "Divide":
                return _check_division(node, operands)
            case "CaseWhen":
                return _case(operands)
        return FAILING

    def _check_comparison(self, nodes: Sequence[Expression], operands: Sequence[TotalValue]) -> TotalValue:
        (one, other), (left, right) = operands, nodes
        if _comparable(one, other) or self._read(right, one.type) or self._read(left, other.type):
            return BOOLEAN
        return FAILING

    def _check_in(self, nodes: Sequence[Expression], operands: Sequence[TotalValue]) -> TotalValue:
        """An IN: Spark takes all of it to one type."""
        pairs = zip(nodes[1:], operands[1:], strict=True)
        compared = all(self._check_comparison((nodes[0], n), (operands[0], o)).total for n, o in pairs)
        return BOOLEAN if compared and _alike(operands[1:]) and _room(operands) else FAILING

    def _read(self, node: Expression, type_: str) -> bool:
        """Whether a literal is text in which a date or an instant is written as Spark writes them."""
        if not isinstance(node, Literal) or node.type != "string":
            return False
        if type_ == "date":
            return date_of(node) is not None
        return type_ == "timestamp" and timestamp_of(node, self.text) is not None

    def _like(self, node: Operator, operands: Sequence[TotalValue]) -> TotalValue:
        known = node.escape == "\\" and is_simple_pattern(node.operands[1])
        return BOOLEAN if known and operands[0].type == "string" else FAILING

    def _cast(self, node: Cast, operand: TotalValue) -> TotalValue:
        target, source = column_kind(node.type), operand.type
        if node.type.lower().startswith("varchar"):
            return FAILING
        known = source in KNOWN - {"date", "timestamp"} or DECIMAL.match(source)
        tried = node.tried and known and target not in ("timestamp", "")
        if self._read(node.operand, target):
            return TotalValue(target, fixed=True)
        if source == "date" and target == "timestamp":
            return TotalValue(target, total=operand.fixed, fixed=operand.fixed)
        if target and (tried or source == "void" or _loses_nothing(source, target)):
            return TotalValue(target, fixed=operand.fixed)
        return TotalValue(target, total=False)

    def _check_call(self, node: NamedCall, operands: Sequence[TotalValue]) -> TotalValue:
        name = builtin_name(node.parts) or ""
        types = [one.type for one in operands]
        if name in AGGREGATES:
            return aggregate(name, operands)
        if name in _TEXT_TO_TEXT and 1 <= len(types) <= 2:
            return TotalValue("string") if _all_of(operands, "string") else FAILING
        if name in _LENGTHS and types == ["string"]:
            return TotalValue("int")
        if name in _TEXTS_TO_BOOLEAN and types == ["string", "string"]:
            return BOOLEAN
        if name == "concat":
            return _check_join(node, operands)
        if name in ("substr", "substring"):
            return _part(operands)
        if name == "left" and len(operands) == 2:
            return _part(operands)
        if name == "round" and 1 <= len(operands) <= 2:
            return _check_rounding(operands)
        if name in _PARTS_OF_DATES and types in (["date"], ["timestamp"]):
            return TotalValue("int")
        if (
            name in ("extract", "date_part", "datepart")
            and len(types) == 2
            and types[1] in ("date", "timestamp")
        ):
            part = node.operands[0]
            named = (part.value or "").lower() if isinstance(part, Literal) else ""
            return TotalValue("int") if named in _PARTS_OF_DATES - {"weekday"} else FAILING
        if name in ("date_add", "date_sub", "dateadd") and len(types) == 2 and types[0] == "date":
            return _days(operands)
        if name in ("datediff", "date_diff") and types == ["date", "date"]:
            return TotalValue("int")
        if name in _ALIKE:
            return _same(operands)
        if name == "if" and len(operands) == 3:
            return _case(operands)
        if name == "between" and len(operands) == 3:
            value, low, high = node.operands
            pairs = (((value, low), operands[:2]), ((value, high), (operands[0], operands[2])))
            return BOOLEAN if all(self._check_comparison(n, o).total for n, o in pairs) else FAILING
        if name in ("equal_null", "nullif") and len(operands) == 2:
            found = self._check_comparison(node.operands, operands)
            return found if name == "equal_null" else TotalValue(types[0], total=found.total)
        if name in ("isnull", "isnotnull") and len(operands) == 1:
            return BOOLEAN
        if not operands:
            return word(name)
        return FAILING


def word(name: str) -> TotalValue:
    """What a word or a call without arguments stands for that no column has for its name."""
    if name in _TODAY:
        return TotalValue("date", fixed=True)
    if name in _NOW:
        return TotalValue("timestamp", fixed=True)
    return TotalValue("string") if name in _WHO else FAILING


def _all_of(operands: Iterable[TotalValue], type_: str) -> bool:
    return all(one.type in (type_, "void") for one in operands)


@lru_cache(maxsize=4096)
def _digits(type_: str) -> tuple[int, int] | None:
    """Return the digits before and behind the point of a whole number's type or a decimal."""
    if type_ in DIGITS:
        return DIGITS[type_], 0
    found = DECIMAL.match(type_)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _is_number(type_: str) -> bool:
    return type_ in _FRACTIONS or _digits(type_) is not None


def _comparable(one: TotalValue, other: TotalValue) -> bool:
    """Whether two values can be compared whatever they are: Spark's cast of either to the type of both loses
    nothing."""
    types = {one.type, other.type}
    if "" in types:
        return False
    if len(types) == 1 or "void" in types:
        return True
    if types == {"date", "timestamp"}:
        return one.fixed if one.type == "date" else other.fixed
    if not all(map(_is_number, types)):
        return False
    if types & _FRACTIONS:
        return True
    return _room((one, other))  # RULE (compared-decimal-room)


def _room(values: Iterable[TotalValue]) -> bool:
    """Whether there is a decimal for all of these numbers."""
    digits = [found for one in values if (found := _digits(one.type)) is not None]
    return max([a for a, _ in digits], default=0) + max([b for _, b in digits], default=0) <= MAX_DIGITS


def _alike(values: Iterable[TotalValue]) -> bool:
    """Whether values are all of one type, or all numbers."""
    types = {one.type for one in values} - {"void"}
    return len(types) <= 1 or all(map(_is_number, types))


def _same(operands: Sequence[TotalValue]) -> TotalValue:
    """Return the type of values one of which is chosen: the one that all have."""
    types = {one.type for one in operands} - {"void"}
    if len(types) != 1 or "" in types:
        return FAILING
    return TotalValue(types.pop())


def _case(operands: Sequence[TotalValue]) -> TotalValue:
    pairs = len(operands) // 2 * 2
    found = _same([*operands[1:pairs:2], *operands[pairs:]])
    return found if _all_of(operands[0:pairs:2], "boolean") else FAILING


def _check_join(node: NamedCall, operands: Sequence[TotalValue]) -> TotalValue:
    """One text with known ones around it; one that is repeated grows beyond what a text can have."""
    unknown = [one for one in node.operands if not isinstance(one, Literal)]
    return TotalValue("string") if len(unknown) <= 1 and _all_of(operands, "string") else FAILING


def _part(operands: Sequence[TotalValue]) -> TotalValue:
    if not operands:
        return FAILING
    text, *places = operands
    known = text.type == "string" and len(places) in (1, 2)
    known = known and all(0 < (one.number or 0) <= _MAX_PLACES for one in places)
    return TotalValue("string") if known else FAILING


def _check_rounding(operands: Sequence[TotalValue]) -> TotalValue:
    """A decimal to so many known digits, for which Spark has a type with room for what is carried. A whole
    number is rounded in its own type, and may leave it."""
    found = DECIMAL.match(operands[0].type)
    places = operands[1].number if len(operands) > 1 else 0
    if found is None or places is None:
        return FAILING
    before, behind = int(found[1]) - int(found[2]) + 1, max(0, min(int(found[2]), places))
    before = max(before, 1 - places)
    if before + behind > MAX_CALCULATED:
        return FAILING
    return TotalValue(f"decimal({before + behind},{behind})")


def _days(operands: Sequence[TotalValue]) -> TotalValue:
    """A day so many days from a known one."""
    start, days = operands
    near = start.fixed and days.number is not None and abs(days.number) <= _MAX_DAYS
    return TotalValue("date", fixed=True) if near else FAILING


_CALCULATED: Final[Mapping[str, Callable[[int, int], int]]] = {
    "Add": lambda one, other: one + other,
    "Subtract": lambda one, other: one - other,
    "Multiply": lambda one, other: one * other,
}


def _arithmetic(node: Operator, operands: Sequence[TotalValue]) -> TotalValue:
    """Sums and products that have room in their types: of decimals and of known numbers."""
    if len(operands) != 2:
        return FAILING
    one, other = operands
    if one.fixed and node.name != "Multiply" and _is_near(node.operands[1]):
        whole = one.type == "timestamp" or _is_whole_days(node.operands[1])
        return TotalValue(one.type, fixed=True) if whole else FAILING
    if one.type == "date" and node.name != "Multiply":
        return _days(operands)
    types = {one.type, other.type}
    if not all(_digits(type_) for type_ in types):
        return FAILING
    if types <= INTEGERS.keys():
        type_ = max(types, key=_INTEGER_TYPES.index)
        if one.number is None or other.number is None:
            return TotalValue(type_, total=False)
        number = _CALCULATED[node.name](one.number, other.number)
        fits = abs(number) < 1 << INTEGERS[type_][0] - 1  # RULE (sum-room)
        return TotalValue(type_, number=number) if fits else FAILING
    (a, b), (c, d) = (_digits(one.type) or (0, 0)), (_digits(other.type) or (0, 0))
    if node.name == "Multiply":
        # Spark has one digit more for a product than it can have.
        needed, behind, spare = a + c, b + d, 1
    else:
        needed, behind, spare = max(a, c) + 1, max(b, d), 0
    fits = needed + behind <= MAX_CALCULATED
    return TotalValue(f"decimal({needed + spare + behind},{behind})") if fits else FAILING


def _check_division(node: Operator, operands: Sequence[TotalValue]) -> TotalValue:
    """A number by a known one that is not zero. What decimals are divided to may have no room, and at the
    smallest number by -1, whose quotient has none, databases fail that Spark hands the remainder to."""
    (one, other) = operands
    digits, divisor = _digits(one.type), _digits(other.type)
    if not other.number or digits is None or divisor is None:
        return FAILING
    if node.name == "Remainder" and other.number == -1:
        return FAILING
    integers = {one.type, other.type} <= INTEGERS.keys()
    if node.name == "Divide":
        return TotalValue("double") if integers else FAILING
    if integers:
        return TotalValue(max(one.type, other.type, key=_INTEGER_TYPES.index))
    return TotalValue(f"decimal({digits[0] + digits[1]},{digits[1]})")


def _is_near(node: Expression) -> bool:
    """Whether a literal is an interval that leads from a date of four digits to another date."""
    if not isinstance(node, Literal) or node.value is None:
        return False
    if node.type in _OF_MONTHS:
        return abs(int(node.value)) <= _MAX_MONTHS
    return node.type.startswith("interval ") and abs(int(node.value)) <= _MAX_DAYS * _MICROS_A_DAY


def _is_whole_days(node: Expression) -> bool:
    return isinstance(node, Literal) and node.type in (*_OF_MONTHS, "interval day")


def _loses_nothing(source: str, target: str) -> bool:
    """Whether a cast has a value for every one of the source's."""
    if source == target and source:
        return True
    if target == "string":
        return source in KNOWN - _FRACTIONS - {"timestamp"} or bool(DECIMAL.match(source))
    if (source, target) == ("timestamp", "date"):
        return True
    digits, room = _digits(source), _digits(target)
    if target in _FRACTIONS:
        # A double may be beyond the largest float: infinite to Spark, an error to a database.
        return digits is not None or source == "float"
    if digits is None or room is None:
        return False
    if target in INTEGERS:
        return source in INTEGERS and INTEGERS[source][0] <= INTEGERS[target][0]
    # Fewer digits behind the point can carry into one more before it.
    return digits[0] + (1 if room[1] < digits[1] else 0) <= room[0]


def aggregate(name: str, operands: Sequence[TotalValue]) -> TotalValue:
    """Return what an aggregate makes of a group; that it can fail tells of rows that are in the group."""
    below = all(one.total and one.below for one in operands)
    type_ = operands[0].type if operands else ""
    digits = _digits(type_)
    made = ""
    if name in ("count", "count_if"):
        made = "bigint"
    elif name in _OF_ITS_ARGUMENT:
        made = type_
    elif name in ("avg", "mean", "sum") and (type_ in _FRACTIONS or (type_ in INTEGERS and name != "sum")):
        made = "double"
    elif name == "sum" and type_ in INTEGERS:
        made = "bigint"
    elif name in ("avg", "mean", "sum") and digits is not None:
        more, behind = (10, 0) if name == "sum" else (4, 4)
        fits = digits[0] + digits[1] + more <= MAX_DIGITS
        made = f"decimal({digits[0] + digits[1] + more},{digits[1] + behind})" if fits else ""
    return TotalValue(made, grouped=True, below=below)


def never_fails(name: str, operands: Sequence[TotalValue]) -> bool:
    """Whether an aggregate has a value for every group: no sum that has no room in its type."""
    type_ = operands[0].type if operands else ""
    if name in ("avg", "mean", "sum"):
        return type_ in _FRACTIONS or (type_ in INTEGERS and name != "sum")
    return name in ("count", "count_if") or name in _OF_ITS_ARGUMENT
