"""What each operation makes of a statement, and of which statement a mark is."""

from __future__ import annotations

import ast

import pytest

from tests.removals.marks import find
from tests.removals.operations import (
    Add,
    AddWord,
    Always,
    Argument,
    Becomes,
    Calls,
    Condition,
    Deleted,
    DropArgument,
    DropElement,
    DropOperand,
    Element,
    Literal,
    Named,
    Never,
    NoSuchPart,
    Operand,
    Operation,
    Operator,
    Statement,
    Uncalled,
)


def without(text: str, operation: Operation, line: int = 1) -> str:
    tree = ast.parse(text)
    marked = find(tree, line)
    operation.apply(marked.block, marked.place, marked.line)
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.parametrize(
    ("text", "operation", "left"),
    [
        ("check()\nrun()", Deleted(), "run()"),
        ("if a:\n    run()", Never(), "if False:\n    run()"),
        ("return [x for x in y if x]", Never(), "return [x for x in y if False]"),
        ("return f(a if b else c, d if e else g)", Always(1), "return f(a if b else c, d if True else g)"),
        ("if a:\n    run()", Condition("... and b"), "if a and b:\n    run()"),
        ("x = f(y)", Becomes("None"), "x = None"),
        ("for x in y:\n    run()", Becomes("reversed(...)"), "for x in reversed(y):\n    run()"),
        ("return a or b or c", DropOperand(1), "return a or c"),
        ("return a or b", DropOperand(0), "return b"),
        ("return a - b - c", DropOperand(1), "return a - c"),
        ("return a - b - c", DropOperand(0, 2), "return b"),
        ("return a is not b", DropOperand(1), "return a"),
        ("return a or b", Operand(0, "not ..."), "return not a or b"),
        ("return a < b and c < d", Operator("<="), "return a <= b and c < d"),
        ("return a < b and c < d", Operator("or", 1), "return a < b or c < d"),
        ("x = (a, *b, c)", DropElement(1), "x = (a, c)"),
        ("x = {a: b, c: d}", DropElement(0), "x = {c: d}"),
        ("x = {a: b, c: d}", Element(1, "e"), "x = {a: b, c: e}"),
        ("f(a, b, c=d)", DropArgument(1, 2), "f(a)"),
        ("f(a, c=d)", Argument(1, "e"), "f(a, c=e)"),
        ("return sorted(x, key=y)", Uncalled(), "return x"),
        ("return x.lower() in f(y)", Uncalled(0), "return x in f(y)"),
        ("return x.fullmatch(y)", Calls("match"), "return x.match(y)"),
        ("if (x := f()) is not None:\n    run()", Named("None"), "if (x := None) is not None:\n    run()"),
        ("x += 5", Literal(0), "x += 0"),
        ("x = 'a b'.split()", AddWord("c"), "x = 'a b c'.split()"),
        ("x = frozenset({'a'})", Add("'b'", 1), "x = frozenset({'a', 'b'})"),
        ("x = f(a)", Add("b=c"), "x = f(a, b=c)"),
        ("x = f(a)", Statement("x = None"), "x = None"),
        ("x = f(a)", Statement("if b:\n    ..."), "if b:\n    x = f(a)"),
    ],
)
def test_an_operation_changes_the_part_that_it_says(text: str, operation: Operation, left: str) -> None:
    assert without(text, operation) == left


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("if a:\n    x = b if c else d", Never(1)),
        ("run()", Condition("a")),
        ("return a", DropOperand(0)),
        ("x = f()", DropArgument(0)),
        ("x = f()", Uncalled()),
        ("raise", Becomes("x")),
        ("x: int | str = a", DropOperand(0)),
        ("a, b = c", DropElement(0)),
    ],
)
def test_an_operation_says_where_there_is_no_such_part(text: str, operation: Operation) -> None:
    """A block below, an annotation and what is assigned to are no parts."""
    with pytest.raises(NoSuchPart):
        without(text, operation)


SEVERAL = """\
@cache
def f(x, y=1):
    if a:
        run()
    elif b:
        return (
            c,
            d,
        )
    try:
        run()
    except Gone:
        return None
    match x:
        case 1:
            return x
"""


@pytest.mark.parametrize(
    ("line", "operation", "gone"),
    [
        (1, Literal(2), ["y=1"]),
        (3, Never(), ["if a"]),
        (5, Never(), ["elif b"]),
        (6, Becomes("None"), ["(c, d)"]),
        (8, DropElement(0), ["d"]),
        (12, Never(), ["Gone"]),
        (13, Deleted(), ["return None"]),
        (15, Deleted(), ["case 1"]),
    ],
)
def test_a_mark_is_of_what_begins_on_its_line(line: int, operation: Operation, gone: list[str]) -> None:
    left = without(SEVERAL + "        case 2:\n            return y\n", operation, line)
    before = ast.unparse(ast.parse(SEVERAL))
    assert left != before
    for one in gone:
        assert one in before
        assert one not in left or left.count(one) < before.count(one)
