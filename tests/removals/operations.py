"""How a rule is taken out of the code: operations on Python's tree, on the statement that its mark names.

An operation changes one part of the head of the marked statement (`if …:`, not the block below it). `nth`
says which, of the parts that it could change, from 0 in the order they are written. So an operation names
nothing that the source names, except in an expression that it puts in; there `...` is what it replaces.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

Marked = ast.stmt | ast.excepthandler | ast.match_case
"""What carries a mark: one entry of a block, of the `except`s of a `try`, or of the `case`s of a `match`."""
_DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict)
_NO_VALUES = frozenset({"annotation", "returns", "target", "targets", "optional_vars"})
_VALUES = ("value", "iter", "subject", "context_expr")
"""The fields of a statement that hold what it gives, goes through or opens."""


class NoSuchPart(Exception):
    """The marked statement has no part that the operation could change."""


@dataclass(frozen=True)
class Place:
    """Where an expression stands: in a field of a node, or at an index of one."""

    node: ast.AST
    field: str
    index: int | None
    above: Place | None
    """Where `node` stands; None: it is no expression."""

    @property
    def part(self) -> Any:
        found = getattr(self.node, self.field)
        return found if self.index is None else found[self.index]

    def becomes(self, text: str) -> None:
        """Put an expression there; `...` in it is what was there."""
        part = self.part.value if isinstance(self.part, ast.keyword) else self.part
        self.put(_Dots(part).visit(expression(text)))

    def put(self, part: ast.expr) -> None:
        if isinstance(self.part, ast.keyword):
            self.part.value = part
        elif self.index is None:
            setattr(self.node, self.field, part)
        else:
            getattr(self.node, self.field)[self.index] = part

    def drop(self) -> None:
        del getattr(self.node, self.field)[self.index]


def first_line(node: Marked) -> int:
    """Return the line that a mark stands on, or directly above."""
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def places(node: ast.AST, above: Place | None = None) -> Iterator[Place]:
    """Yield where each expression stands in a statement's head, but no annotation or target of assignment."""
    for field, value in ast.iter_fields(node):
        if field in _NO_VALUES:
            continue
        for index, part in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(part, ast.AST) or isinstance(part, Marked):
                continue
            if isinstance(part, ast.expr | ast.keyword):
                place = Place(node, field, index, above)
                yield place
                yield from places(part, place)
            else:
                yield from places(part, above)


def covered(node: Marked, line: int | None) -> list[Place]:
    """Return the places of a statement's head, or of those what begins on a line, in the order written."""
    found = [one for one in places(node) if line is None or one.part.lineno == line]
    return sorted(found, key=lambda one: (one.part.lineno, one.part.col_offset))


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _Dots(ast.NodeTransformer):
    """Puts what was there where `...` is written."""

    def __init__(self, was: ast.AST) -> None:
        self._was = was

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        found = self.generic_visit(node)
        return node.value if isinstance(node.value, ast.stmt) else found

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self._was if node.value is ... else node


class Operation:
    """Changes one marked entry of a block."""

    def apply(self, block: list[Any], index: int, line: int | None = None) -> None:
        """Change `block[index]`, or of it what begins on a line. Raises NoSuchPart."""
        raise NotImplementedError


@dataclass(frozen=True)
class Deleted(Operation):
    """The statement, `except` or `case` is not there."""

    def apply(self, block: list[Any], index: int, line: int | None = None) -> None:
        alone = isinstance(block[index], ast.stmt) and len(block) == 1
        block[index : index + 1] = [ast.Pass()] if alone else []


@dataclass(frozen=True)
class Statement(Operation):
    """Other statements stand there. For what no other operation can say."""

    text: str

    def apply(self, block: list[Any], index: int, line: int | None = None) -> None:
        marked = block[index]
        block[index : index + 1] = _Dots(marked).visit(ast.parse(self.text)).body


@dataclass(frozen=True)
class Becomes(Operation):
    """Another value is returned, assigned, gone through …; where a line is marked, what begins it."""

    expression: str

    def apply(self, block: list[Any], index: int, line: int | None = None) -> None:
        found = covered(block[index], line)
        if line is None:
            found = [one for one in found if one.above is None and one.field in _VALUES]
        if not found:
            raise NoSuchPart("no value")
        found[0].becomes(self.expression)


class _OnPart(Operation):
    """Changes the nth part that fits."""

    nth: int

    def apply(self, block: list[Any], index: int, line: int | None = None) -> None:
        found = [one for one in covered(block[index], line) if self.fits(one)]
        if self.nth >= len(found):
            raise NoSuchPart(f"of what it could change there are {len(found)}")
        self.change(found[self.nth])

    def fits(self, place: Place) -> bool:
        raise NotImplementedError

    def change(self, place: Place) -> None:
        raise NotImplementedError


class _OnCondition(_OnPart):
    """Of `if`, `elif`, `while`, `assert`, `case`, `… if … else …` and comprehensions."""

    def fits(self, place: Place) -> bool:
        return place.field in ("test", "guard", "ifs")


@dataclass(frozen=True)
class Condition(_OnCondition):
    """A condition is another."""

    expression: str
    nth: int = 0

    def change(self, place: Place) -> None:
        place.becomes(self.expression)


@dataclass(frozen=True)
class Never(_OnCondition):
    """A condition never holds; a `case` without one, or an `except`, is never taken."""

    nth: int = 0

    def apply(self, block: list[Any], index: int, line: int | None = None) -> None:
        node = block[index]
        if isinstance(node, ast.ExceptHandler):
            node.type = ast.Tuple(elts=[], ctx=ast.Load())
        elif isinstance(node, ast.match_case) and node.guard is None:
            node.guard = ast.Constant(value=False)
        else:
            super().apply(block, index, line)

    def change(self, place: Place) -> None:
        place.put(ast.Constant(value=False))


@dataclass(frozen=True)
class Always(_OnCondition):
    """A condition always holds."""

    nth: int = 0

    def change(self, place: Place) -> None:
        place.put(ast.Constant(value=True))


def _is_operand(place: Place) -> bool:
    """Return whether it is one side of `and`, `or`, an arithmetic or comparing operator, or `… if … else …`.

    Of `a + b + c` each of the three is.
    """
    node = place.node
    if isinstance(node, ast.BinOp):
        is_chain = isinstance(place.part, ast.BinOp) and type(place.part.op) is type(node.op)
        return place.field == "right" or not is_chain
    if isinstance(node, ast.IfExp):
        return place.field != "test"
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.Compare) and len(node.ops) == 1)


class _OnOperand(_OnPart):
    def fits(self, place: Place) -> bool:
        return _is_operand(place)


@dataclass(frozen=True)
class Operand(_OnOperand):
    """An operand is another expression."""

    nth: int
    expression: str

    def change(self, place: Place) -> None:
        place.becomes(self.expression)


@dataclass(frozen=True)
class Operator(_OnPart):
    """An operator is another: `<`, `or`, `+` …"""

    sign: str
    nth: int = 0

    def fits(self, place: Place) -> bool:
        return (place.field, type(place.node)) in (
            ("comparators", ast.Compare),
            ("right", ast.BinOp),
        ) or (isinstance(place.node, ast.BoolOp) and place.index == 1)

    def change(self, place: Place) -> None:
        put: Any = expression(f"a {self.sign} b")
        node: Any = place.node
        if isinstance(put, ast.Compare):
            node.ops[place.index] = put.ops[0]
        else:
            node.op = put.op


def _is_element(place: Place) -> bool:
    """Return whether it is an element of a tuple, list, set or dict that is written out."""
    return isinstance(place.node, _DISPLAYS) and place.field in ("elts", "values")


class _OnElement(_OnPart):
    def fits(self, place: Place) -> bool:
        return _is_element(place)


@dataclass(frozen=True)
class Element(_OnElement):
    """An element, or the value of a key, is another."""

    nth: int
    expression: str

    def change(self, place: Place) -> None:
        place.becomes(self.expression)


def _is_argument(place: Place) -> bool:
    return isinstance(place.node, ast.Call) and place.field in ("args", "keywords")


class _OnArgument(_OnPart):
    def fits(self, place: Place) -> bool:
        return _is_argument(place)


@dataclass(frozen=True)
class Argument(_OnArgument):
    """What a call is given is another."""

    nth: int
    expression: str

    def change(self, place: Place) -> None:
        place.becomes(self.expression)


class _Drop(Operation):
    """Takes away some of the parts that fit."""

    def __init__(self, *nths: int) -> None:
        self.nths = nths

    def apply(self, block: list[Any], index: int, line: int | None = None) -> None:
        found = [one for one in covered(block[index], line) if self.fits(one)]
        if max(self.nths) >= len(found):
            raise NoSuchPart(f"of what it could drop there are {len(found)}")
        for nth in sorted(self.nths, reverse=True):  # so the others keep their indices
            self.drop(found[nth])

    def fits(self, place: Place) -> bool:
        raise NotImplementedError

    def drop(self, place: Place) -> None:
        place.drop()


class DropOperand(_Drop):
    """Operands are gone, and the operator where one side is left."""

    def fits(self, place: Place) -> bool:
        return _is_operand(place)

    def drop(self, place: Place) -> None:
        node = place.node
        if isinstance(node, ast.BoolOp) and len(node.values) > 2:
            place.drop()
        elif place.above is None:
            raise NoSuchPart("the operator is no expression")
        else:
            place.above.put(next(one for one in _sides(node) if one is not place.part))


def _sides(node: Any) -> list[ast.expr]:
    match node:
        case ast.BoolOp():
            return list(node.values)
        case ast.BinOp():
            return [node.left, node.right]
        case ast.IfExp():
            return [node.body, node.orelse]
        case _:
            return [node.left, *node.comparators]


class DropElement(_Drop):
    """Elements, or keys with their values, are not there."""

    def fits(self, place: Place) -> bool:
        return _is_element(place)

    def drop(self, place: Place) -> None:
        place.drop()
        if isinstance(place.node, ast.Dict):
            del place.node.keys[place.index or 0]


class DropArgument(_Drop):
    """A call is not given something."""

    def fits(self, place: Place) -> bool:
        return _is_argument(place)


class _OnCall(_OnPart):
    def fits(self, place: Place) -> bool:
        return isinstance(place.part, ast.Call)


@dataclass(frozen=True)
class Uncalled(_OnCall):
    """Instead of `x.f(…)` there is `x`, and instead of `f(x, …)` too."""

    nth: int = 0

    def change(self, place: Place) -> None:
        call: ast.Call = place.part
        if isinstance(call.func, ast.Attribute):
            place.put(call.func.value)
        elif call.args:
            place.put(call.args[0])
        else:
            raise NoSuchPart("the call is given nothing")


@dataclass(frozen=True)
class Calls(_OnCall):
    """Another function, or method of the same object, is called."""

    name: str
    nth: int = 0

    def change(self, place: Place) -> None:
        func = place.part.func
        if isinstance(func, ast.Attribute):
            func.attr = self.name
        else:
            place.part.func = expression(self.name)


@dataclass(frozen=True)
class Named(_OnPart):
    """What `:=` gives a name is another value."""

    expression: str
    nth: int = 0

    def fits(self, place: Place) -> bool:
        return isinstance(place.node, ast.NamedExpr) and place.field == "value"

    def change(self, place: Place) -> None:
        place.becomes(self.expression)


@dataclass(frozen=True)
class Literal(_OnPart):
    """A literal has another value."""

    value: Any
    nth: int = 0

    def fits(self, place: Place) -> bool:
        return isinstance(place.part, ast.Constant)

    def change(self, place: Place) -> None:
        place.put(ast.Constant(self.value))


@dataclass(frozen=True)
class AddWord(Literal):
    """A text has one more word."""

    def change(self, place: Place) -> None:
        place.put(ast.Constant(f"{place.part.value} {self.value}"))


@dataclass(frozen=True)
class Add(_OnPart):
    """A tuple, list, set or call has one more at its end: `x`, or for a call also `name=x`."""

    added: str
    nth: int = 0
    _to: ClassVar[tuple[type, ...]] = (*_DISPLAYS[:3], ast.Call)

    def fits(self, place: Place) -> bool:
        return isinstance(place.part, self._to)

    def change(self, place: Place) -> None:
        put: Any = expression(f"f({self.added})")
        if isinstance(place.part, ast.Call):
            place.part.args += put.args
            place.part.keywords += put.keywords
        else:
            place.part.elts += put.args
