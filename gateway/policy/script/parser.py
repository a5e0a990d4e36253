"""Expressions of the language: text becomes closures once, or is refused with its offending part.

The language is the part of JavaScript that occurs in Ranger's policies, without loops, functions, regular
expressions or any name but those of `names`. Length, nesting and number of parts are limited, and so
is every value that is made, so that no script can keep the gateway busy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.policy.script.names import (
    BARE,
    CALLED,
    CONTEXT,
    NO_NAMES,
    REQUEST,
    VARIABLES,
    Function,
    Getter,
    ScriptScope,
    boundary,
)
from gateway.policy.script.tokens import Cursor, ScriptToken, Untranslatable, unescape
from gateway.policy.script.values import (
    METHODS,
    UNDEFINED,
    Indeterminate,
    ScriptValue,
    add,
    at_most,
    is_less,
    is_nothing,
    json_text,
    loosely_equal,
    member,
    strictly_equal,
    subtract,
    to_number,
    to_text,
    truthy,
)

MAX_DEPTH: Final = 32
"""Brackets, conditions and negations within each other, when read."""
MAX_HEIGHT: Final = 64
"""Operations within each other, when run."""

_BINDS: Final[Mapping[str, int]] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "===", "!=="), 3),
    **dict.fromkeys(("<", "<=", ">", ">="), 4),
    **dict.fromkeys(("+", "-"), 5),
}
_OPERATIONS: Final[Mapping[str, Callable[[ScriptValue, ScriptValue], ScriptValue]]] = {
    "==": loosely_equal,
    "!=": lambda one, two: not loosely_equal(one, two),
    "===": strictly_equal,
    "!==": lambda one, two: not strictly_equal(one, two),
    "<": is_less,
    "<=": at_most,
    ">": lambda one, two: is_less(two, one),
    ">=": lambda one, two: at_most(two, one),
    "+": add,
    "-": subtract,
}
CONSTANTS: Final[Mapping[str, ScriptValue]] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": UNDEFINED,
}
_LEADING_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,30})")
_LEADING_DECIMAL = re.compile(r"\s*([+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?)")
_TIMES: Final[Mapping[str, tuple[tuple[int, ...], int]]] = {
    "isAccessTimeAfter": ((0,), 1),
    "isAccessTimeBefore": ((0,), 1),
    "isAccessTimeBetween": ((0, 1), 2),
    "IS_ACCESS_TIME_AFTER": ((0,), 1),
    "IS_ACCESS_TIME_BEFORE": ((0,), 1),
    "IS_ACCESS_TIME_BETWEEN": ((0, 1), 2),
}
"""Places of times and of the zone among the arguments, for a look at literals when the script is read."""


@dataclass(frozen=True, slots=True)
class _CompiledPart:
    """A compiled expression, and how many operations lie within each other in it."""

    run: Getter
    height: int = 1
    literal: str | None = None


def _match_start(pattern: re.Pattern[str], value: ScriptValue) -> ScriptValue:
    found = pattern.match(to_text(value))
    return float(found[1]) if found else float("nan")


def _keys(value: ScriptValue) -> ScriptValue:
    if isinstance(value, Mapping):
        return [*value]
    raise Indeterminate("a record is wanted")


GLOBALS: Final[Mapping[str, Callable[[ScriptValue], ScriptValue]]] = {
    "J": json_text,
    "JSON.stringify": json_text,
    "Object.keys": _keys,
    "Number": to_number,
    "String": to_text,
    "Boolean": truthy,
    "parseInt": lambda value: _match_start(_LEADING_NUMBER, value),
    "parseFloat": lambda value: _match_start(_LEADING_DECIMAL, value),
}
"""JavaScript's own functions of one argument (and Ranger's `J`)."""


class Parser(Cursor):
    """Reads one script. `context_dependencies` grows with every name that depends on the access at hand."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._depth = 0
        self._variables: set[str] = {"result"}
        self.context_dependencies: set[str] = set()

    def _go_deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._build_refusal(f"is nested more than {MAX_DEPTH} levels deep")

    def _part(self, run: Getter, *inner: _CompiledPart) -> _CompiledPart:
        height = 1 + max((part.height for part in inner), default=0)
        if height > MAX_HEIGHT:
            raise self._build_refusal(
                f"ends an expression of more than {MAX_HEIGHT} operations within each other"
            )
        return _CompiledPart(run, height)

    def expression(self) -> _CompiledPart:
        """Read one expression, `?:` included."""
        self._go_deeper()
        condition = self._binary(1)
        if self._take("?"):
            then = self.expression()
            self._expect(":")
            otherwise = self.expression()
            test, yes, no = condition.run, then.run, otherwise.run
            condition = self._part(
                lambda scope: yes(scope) if truthy(test(scope)) else no(scope), condition, then, otherwise
            )
        self._depth -= 1
        return condition

    def _binary(self, least: int) -> _CompiledPart:
        left = self._unary()
        while True:
            token = self._peek()
            binds = _BINDS.get(token.text, 0) if token.kind == "mark" else 0
            if binds < max(least, 1):
                return left
            if token.text in ("&&", "||"):
                left = self._chain(left, token.text, binds)
                continue
            self._at += 1
            right = self._binary(binds + 1)
            left = self._operation(token.text, left, right)

    def _chain(self, left: _CompiledPart, mark: str, binds: int) -> _CompiledPart:
        parts = [left]
        while self._take(mark):
            parts.append(self._binary(binds + 1))
        runs, stops_at = tuple(part.run for part in parts), mark == "||"

        def run(scope: ScriptScope) -> ScriptValue:
            value: ScriptValue = UNDEFINED
            for each in runs:
                value = each(scope)
                if each is not runs[-1] and truthy(value) is stops_at:
                    return value
            return value

        return self._part(run, *parts)

    def _operation(self, mark: str, left: _CompiledPart, right: _CompiledPart) -> _CompiledPart:
        operate, one, two = _OPERATIONS[mark], left.run, right.run
        return self._part(lambda scope: operate(one(scope), two(scope)), left, right)

    def _unary(self) -> _CompiledPart:
        for mark, operate in (
            ("!", lambda v: not truthy(v)),
            ("-", lambda v: -to_number(v)),
            ("+", to_number),
        ):
            if self._take(mark):
                self._go_deeper()
                inner = self._unary()
                self._depth -= 1
                return self._negate(operate, inner)
        return self._postfix(self._primary())

    def _negate(self, operate: Callable[[ScriptValue], ScriptValue], inner: _CompiledPart) -> _CompiledPart:
        return self._part(lambda scope: operate(inner.run(scope)), inner)

    def _postfix(self, part: _CompiledPart) -> _CompiledPart:
        while True:
            if self._take("."):
                name = self._next()
                if name.kind != "name":
                    self._at -= 1
                    raise self._build_refusal("where a name is expected")
                part = self._method(part, name.text) if self._is("(") else self._member(part, name.text)
            elif self._take("["):
                key = self.expression()
                self._expect("]")
                part = self._element(part, key)
            elif self._is("("):
                raise self._build_refusal("calls what is not a function here")
            else:
                return part

    def _member(self, part: _CompiledPart, name: str) -> _CompiledPart:
        return self._part(lambda scope: member(part.run(scope), name), part)

    def _element(self, part: _CompiledPart, key: _CompiledPart) -> _CompiledPart:
        return self._part(lambda scope: member(part.run(scope), key.run(scope)), part, key)

    def _method(self, part: _CompiledPart, name: str) -> _CompiledPart:
        if name not in METHODS:
            self._at -= 1
            raise self._build_refusal(
                f"is not a method; known are {', '.join(f'`{each}`' for each in METHODS)}"
            )
        fewest, most, call = METHODS[name]
        arguments = self._arguments(name, fewest, most)
        runs = tuple(argument.run for argument in arguments)

        def run(scope: ScriptScope) -> ScriptValue:
            value = part.run(scope)
            if is_nothing(value):
                raise Indeterminate(f"`{name}` is asked of {to_text(value)}")
            return call(value, tuple([each(scope) for each in runs]))

        return self._part(run, part, *arguments)

    def _arguments(self, name: str, fewest: int, most: int) -> list[_CompiledPart]:
        self._expect("(")
        arguments: list[_CompiledPart] = []
        while not self._take(")"):
            if arguments:
                self._expect(",")
            arguments.append(self.expression())
        if not fewest <= len(arguments) <= most:
            count = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise Untranslatable(f"script: `{name}` takes {count} arguments, not {len(arguments)}")
        return arguments

    # Things.

    def _primary(self) -> _CompiledPart:
        token = self._next()
        if token.kind == "number":
            number = float(token.text)
            return _CompiledPart(lambda _: number)
        if token.kind == "text":
            text = unescape(token.text)
            return _CompiledPart(lambda _: text, literal=text)
        if token.kind == "name":
            return self._parse_name(token)
        if token.text == "(":
            inner = self.expression()
            self._expect(")")
            return inner
        if token.text == "[":
            return self._list()
        self._at -= token.kind != "end"
        raise self._build_refusal("where a value is expected")

    def _list(self) -> _CompiledPart:
        """Read what follows `[`: a list, or Ranger's `[[text]]` and `[[text,'|']]`, which cut a text."""
        outer = self._at - 1
        if self._is("[") and not self._peek(1).text.startswith("'"):
            inner = self._find_closing_bracket(self._at)
            if inner >= 0 and inner + 1 == self._find_closing_bracket(outer):
                self._at += 1
                items = self._items()
                self._expect("]")
                by = "," if len(items) == 1 else items[1].literal if len(items) == 2 else None
                return self._make_list([self._make_list(items)]) if by is None else self._cut(items[0], by)
        return self._make_list(self._items())

    def _items(self) -> list[_CompiledPart]:
        items: list[_CompiledPart] = []
        while not self._take("]"):
            if items:
                self._expect(",")
            items.append(self.expression())
        return items

    def _make_list(self, items: list[_CompiledPart]) -> _CompiledPart:
        runs = tuple(item.run for item in items)
        return self._part(lambda scope: [run(scope) for run in runs], *items)

    def _cut(self, text: _CompiledPart, by: str) -> _CompiledPart:
        cut = METHODS["split"][2]
        return self._part(lambda scope: cut(text.run(scope), (by,)), text)

    def _parse_name(self, token: ScriptToken) -> _CompiledPart:
        name = token.text
        if name in CONSTANTS:
            constant = CONSTANTS[name]
            return _CompiledPart(lambda _: constant)
        if name in VARIABLES:
            context_dependencies, get = VARIABLES[name]
            self.context_dependencies |= context_dependencies
            return _CompiledPart(get)
        if name == "REQ":
            return self._request()
        if name == "ctx":
            return self._context()
        if name in CALLED or name in BARE:
            return self._macro(name)
        if name in ("JSON", "Object") and self._is("."):
            name = f"{name}.{self._peek(1).text}"
            self._at += 2
        if name in GLOBALS and self._is("("):
            call = GLOBALS[name]
            (argument,) = self._arguments(name, 1, 1)
            return self._part(lambda scope: call(argument.run(scope)), argument)
        if name in self._variables:
            return _CompiledPart(lambda scope: scope.variables.get(name, UNDEFINED))
        raise self._build_refusal("is not a name that scripts know", token.place)

    def _request(self) -> _CompiledPart:
        """`REQ.x` and `REQ['x']` depend on what they name; `REQ` in any other place depends on everything."""
        name, length = None, 0
        if self._is(".") and self._peek(1).kind == "name":
            name, length = self._peek(1).text, 2
        elif self._is("[") and self._peek(1).kind == "text" and self._is("]", 2):
            name, length = unescape(self._peek(1).text), 3
        if name is None:
            self.context_dependencies |= {one for read, _ in REQUEST.values() for one in read}
            return _CompiledPart(lambda scope: {key: get(scope) for key, (_, get) in REQUEST.items()})
        if name not in REQUEST:
            raise self._build_refusal(
                f"is not a field of `REQ`; it has {', '.join(f'`{each}`' for each in REQUEST)}"
            )
        self._at += length
        context_dependencies, get = REQUEST[name]
        self.context_dependencies |= context_dependencies
        return _CompiledPart(get)

    def _context(self) -> _CompiledPart:
        if not self._is(".") or self._peek(1).kind != "name":
            raise self._build_refusal("follows `ctx`, which needs `.` and a method")
        name = self._peek(1).text
        if self._is("(", 2):
            if name not in CONTEXT:
                raise self._build_refusal("is not a method of `ctx`")
            self._at += 2
            return self._call(name, CONTEXT[name])
        read = CONTEXT.get(f"get{name[:1].upper()}{name[1:]}")
        if read is None or read.fewest:
            raise self._build_refusal("is not a property of `ctx`")
        self._at += 2
        self.context_dependencies |= read.context_dependencies
        return _CompiledPart(lambda scope: read.call(scope, ()))

    def _macro(self, name: str) -> _CompiledPart:
        if name in BARE:
            if self._is("("):
                raise self._build_refusal(f"follows `{name}`, which takes no brackets")
            bare = BARE[name]
            self.context_dependencies |= bare.context_dependencies
            return _CompiledPart(lambda scope: bare.call(scope, ()))
        if not self._is("("):
            raise self._build_refusal(f"follows `{name}`, which needs brackets")
        return self._call(name, CALLED[name])

    def _call(self, name: str, function: Function) -> _CompiledPart:
        arguments = self._arguments(name, function.fewest, function.most)
        self._look_at_times(name, arguments)
        self.context_dependencies |= function.context_dependencies or NO_NAMES
        runs = tuple(argument.run for argument in arguments)
        call = function.call
        return self._part(lambda scope: call(scope, tuple([run(scope) for run in runs])), *arguments)

    def _look_at_times(self, name: str, arguments: list[_CompiledPart]) -> None:
        places, zone = _TIMES.get(name, ((), 0))
        where = arguments[zone].literal if zone and zone < len(arguments) else None
        for place in places:
            try:
                boundary(arguments[place].literal, where)
            except Indeterminate as error:
                raise Untranslatable(f"script: in `{name}`, {error}") from None
