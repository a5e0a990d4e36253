"""What Gravitino's policies say that hide rows or values: its `restricted-rego-v1`, read whole or not at all.

A row filter is `filter := PREDICATE if CONDITION else := PREDICATE`, a mask `mask := action("NAME") if …`;
conditions of masks speak of the user alone.

INVARIANT (what is not certain hides): what a comparison with NULL or NaN is differs between readings of
these predicates in public. So each is two predicates, of rows for which it certainly holds and of those for
which it certainly does not; a row that is neither is not shown, negated or not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal, TypeVar

from gateway.model.restrictions import (
    ACTIONS,
    FilterColumn,
    Fixed,
    JoinedPredicates,
    JsonLiteral,
    LiteralComparison,
    LiteralMembership,
    Negated,
    Predicate,
    ReferenceTest,
)

V = TypeVar("V")
MAX_CHARS: Final = 16 * 1024
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 256
MAX_OPERATORS: Final = 100
"""Words that join or negate conditions, or begin a branch: predicates nest as deep."""
_OPERATORS: Final = frozenset({"and", "or", "not", "if"})
_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\\x00-\x1f]|\\.)*")|(?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?)(?![\w.])'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>:=|==|!=|<=|>=|[<>()\[\],]))",
    re.ASCII,
)
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_MIRRORED: Final[Mapping[str, str]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_ORDERS: Final[Mapping[str, Literal["lt", "lt-eq", "gt", "gt-eq"]]] = {
    "<": "lt", "<=": "lt-eq", ">": "gt", ">=": "gt-eq",
}  # fmt: skip
_TRUE, _FALSE = Fixed(value=True), Fixed(value=False)


class PolicyNotConvertible(Exception):
    """A policy that is not enforced here; the message says why."""


@dataclass(frozen=True, slots=True)
class PolicySubject:
    """Whom a policy is asked for, and the columns of the table that it is on."""

    user: str
    groups: frozenset[str]
    columns: Mapping[str, FilterColumn]


@dataclass(frozen=True, slots=True)
class _ColumnRef:
    name: str


@dataclass(frozen=True, slots=True)
class _SessionUser:
    pass


@dataclass(frozen=True, slots=True)
class _GroupTest:
    group: str


@dataclass(frozen=True, slots=True)
class _Constant:
    value: str | bool | Decimal | None


@dataclass(frozen=True, slots=True)
class _ConstantList:
    values: tuple[_Constant, ...]


@dataclass(frozen=True, slots=True)
class _Inverted:
    child: _ProgramNode


@dataclass(frozen=True, slots=True)
class _BothOf:
    operator: Literal["AND", "OR"]
    left: _ProgramNode
    right: _ProgramNode


@dataclass(frozen=True, slots=True)
class _Comparison:
    operator: str
    left: _ProgramNode
    right: _ProgramNode


_ProgramNode = (
    _ColumnRef | _SessionUser | _GroupTest | _Constant | _ConstantList | _Inverted | _BothOf | _Comparison
)


@dataclass(frozen=True, slots=True)
class RowProgram:
    """A row filter: what holds under the first condition that is met."""

    branches: tuple[tuple[_ProgramNode, _ProgramNode], ...]
    """Each condition with the filter that holds under it."""
    otherwise: _ProgramNode

    @property
    def groups(self) -> frozenset[str]:
        """The groups that it asks about."""
        return _list_groups(*(node for branch in self.branches for node in branch), self.otherwise)

    def bind(self, subject: PolicySubject) -> Predicate:
        """Return the filter for somebody, on a table. Raises PolicyNotConvertible."""
        found = _bind(self.otherwise, subject)
        for condition, value in reversed(self.branches):
            when, then = _bind(condition, subject), _bind(value, subject)
            found = _SurePair(
                _or(_and(when.true, then.true), _and(when.false, found.true)),
                _or(_and(when.true, then.false), _and(when.false, found.false)),
            )
        return found.true


@dataclass(frozen=True, slots=True)
class MaskProgram:
    """A mask: the action of the first condition that is met."""

    branches: tuple[tuple[_ProgramNode, str], ...]
    otherwise: str

    @property
    def groups(self) -> frozenset[str]:
        """The groups that it asks about."""
        return _list_groups(*(condition for condition, _ in self.branches))

    def bind(self, user: str, groups: frozenset[str]) -> str:
        """Return the action for somebody. Raises PolicyNotConvertible."""
        subject = PolicySubject(user, groups, {})
        for condition, action in self.branches:
            if _bind(condition, subject).true == _TRUE:
                return action
        return self.otherwise


@lru_cache(maxsize=1_000)
def read_row_filter(text: str) -> RowProgram:
    """Return the program of a row filter. Raises PolicyNotConvertible."""
    reader = _ProgramReader(text)
    reader.take("filter")
    return RowProgram(*reader.read_branches(reader.read_expression))


@lru_cache(maxsize=1_000)
def read_column_mask(text: str) -> MaskProgram:
    """Return the program of a mask. Raises PolicyNotConvertible."""
    reader = _ProgramReader(text)
    reader.take("mask")
    program = MaskProgram(*reader.read_branches(reader.read_action))
    for condition, _ in program.branches:
        _require_no_columns(condition)
    return program


def _list_groups(*nodes: _ProgramNode) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for node in nodes:
        match node:
            case _GroupTest():
                found |= {node.group}
            case _Inverted():
                found |= _list_groups(node.child)
            case _BothOf() | _Comparison():
                found |= _list_groups(node.left, node.right)
    return found


def _require_no_columns(node: _ProgramNode) -> None:
    match node:
        case _ColumnRef():
            raise PolicyNotConvertible("a mask whose condition reads a column")
        case _Inverted():
            _require_no_columns(node.child)
        case _BothOf() | _Comparison():
            _require_no_columns(node.left)
            _require_no_columns(node.right)


class _ProgramReader:
    """Reads one text by recursive descent; whatever the grammar does not have raises PolicyNotConvertible."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            raise PolicyNotConvertible("a policy that is too long")
        self._tokens = list(_list_tokens(text))
        # RULE (metalake-operators)
        if sum(token in _OPERATORS for _, token in self._tokens) > MAX_OPERATORS:
            raise PolicyNotConvertible("a policy of too many conditions")
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _is(self, token: str) -> bool:
        """Whether a word or sign is next: a text in quotes is neither."""
        return self._peek() == token and self._tokens[self._at][0] in ("word", "sign")

    def take(self, token: str) -> None:
        """Go over a word or sign that has to be there."""
        if not self._is(token):
            raise PolicyNotConvertible(f"a policy without `{token}` where it has to be")
        self._at += 1

    def _take_text(self) -> str:
        kind, token = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind != "text":
            raise PolicyNotConvertible("a policy without a text in quotes where it has to be")
        self._at += 1
        return _decode(token)

    def read_branches(self, read_value: Callable[[], V]) -> tuple[tuple[tuple[_ProgramNode, V], ...], V]:
        """Return the conditions with their values, and the value that holds otherwise."""
        branches: list[tuple[_ProgramNode, V]] = []
        while True:
            self.take(":=")
            value = read_value()
            if self._at == len(self._tokens):
                return tuple(branches), value
            self.take("if")
            branches.append((self.read_expression(), value))
            self.take("else")

    def read_action(self) -> str:
        """Return the name of an action."""
        self.take("action")
        self.take("(")
        action = self._take_text()
        self.take(")")
        if action not in ACTIONS:
            raise PolicyNotConvertible("a mask with an action that is not known")
        return action

    def read_expression(self, depth: int = 0) -> _ProgramNode:
        """Return an expression."""
        found = self._read_all(depth)
        while self._is("or"):
            self._at += 1
            found = _BothOf("OR", found, self._read_all(depth))
        return found

    def _read_all(self, depth: int) -> _ProgramNode:
        found = self._read_negated(depth)
        while self._is("and"):
            self._at += 1
            found = _BothOf("AND", found, self._read_negated(depth))
        return found

    def _read_negated(self, depth: int) -> _ProgramNode:
        if depth > MAX_DEPTH:
            raise PolicyNotConvertible("a policy that is nested too deep")
        if self._is("not"):
            self._at += 1
            return _Inverted(self._read_negated(depth + 1))
        left = self._read_primary(depth)
        operator = self._peek()
        if operator in _COMPARISONS and self._is(operator):
            self._at += 1
            return _Comparison(operator, left, self._read_primary(depth))
        return left

    def _read_primary(self, depth: int) -> _ProgramNode:
        kind, written = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        self._at += 1
        match kind, written:
            case "sign", "(":
                found = self.read_expression(depth + 1)
                self.take(")")
                return found
            case "sign", "[":
                return self._read_array()
            case "text", _:
                return _Constant(_decode(written))
            case "number", _:
                return _Constant(Decimal(written))
            case "word", "true" | "false":
                return _Constant(written == "true")
            case "word", "null":
                return _Constant(None)
            case "word", "col" | "is_group_member":
                self.take("(")
                name = self._take_text()
                self.take(")")
                return _ColumnRef(name) if written == "col" else _GroupTest(name)
            case "word", "session_user":
                self.take("(")
                self.take(")")
                return _SessionUser()
        raise PolicyNotConvertible("a policy with something that is not known")

    def _read_array(self) -> _ConstantList:
        values: list[_Constant] = []
        while True:
            one = self._read_primary(MAX_DEPTH)
            if not isinstance(one, _Constant) or one.value is None:
                raise PolicyNotConvertible("a list of something else than constants")
            values.append(one)
            if len(values) > MAX_VALUES or type(one.value) is not type(values[0].value):
                raise PolicyNotConvertible("a list that is too long, or of several types")
            if self._is("]"):
                self._at += 1
                return _ConstantList(tuple(values))
            self.take(",")


def _list_tokens(text: str) -> Iterator[tuple[str, str]]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise PolicyNotConvertible("a policy with a sign that is not known")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def _decode(token: str) -> str:
    try:
        found = json.loads(token)
        found.encode()
    except ValueError:
        raise PolicyNotConvertible("a text that is no JSON") from None
    return str(found)


# -- for somebody, on a table --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SurePair:
    true: Predicate
    """Of rows for which it certainly holds."""
    false: Predicate
    """Of rows for which it certainly does not."""


def _bind(node: _ProgramNode, subject: PolicySubject) -> _SurePair:
    match node:
        case _Constant(value=bool()):
            return _fix(node.value is True)
        case _GroupTest():
            return _fix(node.group in subject.groups)
        case _Inverted():
            child = _bind(node.child, subject)
            return _SurePair(child.false, child.true)
        case _BothOf():
            left, right = _bind(node.left, subject), _bind(node.right, subject)
            if node.operator == "AND":
                return _SurePair(_and(left.true, right.true), _or(left.false, right.false))
            return _SurePair(_or(left.true, right.true), _and(left.false, right.false))
        case _Comparison():
            return _compare(node.operator, node.left, node.right, subject)
    raise PolicyNotConvertible("a value where a condition has to be")


def _compare(operator: str, left: _ProgramNode, right: _ProgramNode, subject: PolicySubject) -> _SurePair:
    if operator == "in":
        return _is_in(left, right, subject)
    if not isinstance(left, _ColumnRef) and isinstance(right, (_ColumnRef, _SessionUser)):
        left, right, operator = right, left, _MIRRORED[operator]
    if isinstance(left, _SessionUser):
        if (
            operator not in ("==", "!=")
            or not isinstance(right, _Constant)
            or not isinstance(right.value, str)
        ):
            raise PolicyNotConvertible("a comparison with the user that is not known")
        return _fix((subject.user == right.value) is (operator == "=="))
    if not isinstance(left, _ColumnRef):
        raise PolicyNotConvertible("a comparison without a column")
    if isinstance(right, _SessionUser):
        if operator not in ("==", "!="):
            raise PolicyNotConvertible("an order by the user")
        right = _Constant(subject.user)
    if not isinstance(right, _Constant):
        raise PolicyNotConvertible("a comparison of a column with something else than a constant")
    column = _find(left, subject, any_type=right.value is None)
    if right.value is None:
        if operator not in ("==", "!="):
            raise PolicyNotConvertible("an order by null")
        return _swap(_SurePair(_is_null(column), Negated(_is_null(column))), swaps=operator == "!=")
    literal = _literal(column, right)
    if operator in _ORDERS:
        if column.type == "boolean":
            raise PolicyNotConvertible("an order of true and false")
        held = LiteralComparison(_ORDERS[operator], column.id, literal)
        known: Predicate = Negated(_is_null(column))
        if column.type in ("float", "double"):
            known = JoinedPredicates("AND", known, Negated(ReferenceTest("is-nan", column.id)))
        return _SurePair(_and(held, known), _and(Negated(held), known))
    same = LiteralComparison("eq", column.id, literal)
    return _swap(_SurePair(same, Negated(same)), swaps=operator == "!=")


def _is_in(left: _ProgramNode, right: _ProgramNode, subject: PolicySubject) -> _SurePair:
    if not isinstance(right, _ConstantList):
        raise PolicyNotConvertible("`in` without a list of constants")
    if isinstance(left, _SessionUser):
        return _fix(subject.user in {one.value for one in right.values})
    if not isinstance(left, _ColumnRef):
        raise PolicyNotConvertible("`in` of something else than a column")
    column = _find(left, subject)
    values = tuple(_literal(column, one) for one in right.values)
    inside = LiteralMembership(column.id, values)
    return _SurePair(inside, Negated(inside))


def _find(node: _ColumnRef, subject: PolicySubject, *, any_type: bool = False) -> FilterColumn:
    found = subject.columns.get(node.name)
    if found is None:
        # Spark's names have another case where a database's own have.
        alike = [one for name, one in subject.columns.items() if name.lower() == node.name.lower()]
        if len(alike) != 1:
            raise PolicyNotConvertible("a row filter that reads a column which the table does not have")
        (found,) = alike
    if not found.type and not any_type:
        raise PolicyNotConvertible("a row filter on a column that is not a single value")
    return found


def _literal(column: FilterColumn, one: _Constant) -> JsonLiteral:
    """Return a constant as one of the column's type; nothing is rounded, and no type becomes another."""
    value, kind = one.value, column.type
    if isinstance(value, bool) and kind == "boolean":
        return JsonLiteral(value)
    if isinstance(value, str) and kind in ("string", "date", "timestamp"):
        return JsonLiteral(value)
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value()
        if kind in ("int", "long") and whole:
            return JsonLiteral(int(value))
        if kind in ("float", "double") and math.isfinite(float(value)):
            return JsonLiteral(float(value))
        if kind.startswith("decimal("):
            scale = int(kind[8:-1].split(",")[1])
            written = f"{value:.{scale}f}"
            if Decimal(written) == value:
                return JsonLiteral(written)
    raise PolicyNotConvertible(f"a constant that is none of the type `{kind}`")


def _is_null(column: FilterColumn) -> Predicate:
    return ReferenceTest("is-null", column.id)


def _swap(both: _SurePair, *, swaps: bool) -> _SurePair:
    return _SurePair(both.false, both.true) if swaps else both


def _fix(value: bool) -> _SurePair:
    return _SurePair(_TRUE, _FALSE) if value else _SurePair(_FALSE, _TRUE)


def _and(left: Predicate, right: Predicate) -> Predicate:
    if _FALSE in (left, right):
        return _FALSE
    if left == _TRUE:
        return right
    return left if right == _TRUE else JoinedPredicates("AND", left, right)


def _or(left: Predicate, right: Predicate) -> Predicate:
    if _TRUE in (left, right):
        return _TRUE
    if left == _FALSE:
        return right
    return left if right == _FALSE else JoinedPredicates("OR", left, right)
