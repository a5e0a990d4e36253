"""Regular expressions of service definitions, matched in time linear in the value.

They come from outside and are run on values from outside: with Python's own engine one of each could stop the
server. This one keeps a set of states and never goes back. It knows what such expressions hold: characters,
classes, groups, alternation, repetition, anchors; others are refused when the definition is saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

MAX_STATES = 4096
MAX_VALUE = 4096
"""Characters of a value that is checked; longer ones do not match."""

_Test = Callable[[str], bool]
_CLASSES: dict[str, _Test] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c.isascii() and (c.isalnum() or c == "_"),
    "s": lambda c: c in " \t\n\x0b\f\r",
}
_POSIX: dict[str, _Test] = {
    "Alpha": lambda c: c.isascii() and c.isalpha(),
    "Digit": _CLASSES["d"],
    "Alnum": lambda c: c.isascii() and c.isalnum(),
    "Lower": lambda c: "a" <= c <= "z",
    "Upper": lambda c: "A" <= c <= "Z",
    "Punct": lambda c: c in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "Space": _CLASSES["s"],
    "L": str.isalpha,
    "N": str.isnumeric,
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_COUNT = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")


class NotTaken(Exception):
    """The expression holds something that this engine does not know, or is too large."""


@dataclass(slots=True)
class _State:
    """One state: a character to take, or places to go on without one."""

    test: _Test | None = None
    anchor: str = ""
    onward: list[_State] = field(default_factory=list)


_Piece = tuple[_State, _State]


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.states = text, 0, 0

    def state(self, test: _Test | None = None, anchor: str = "") -> _State:
        self.states += 1
        if self.states > MAX_STATES:
            raise NotTaken("it is too large")
        return _State(test, anchor)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        if self.at >= len(self.text):
            raise NotTaken("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def choice(self, depth: int) -> _Piece:
        if depth > 32:
            raise NotTaken("its groups are nested too deeply")
        start, end = self.state(), self.state()
        while True:
            first, last = self.sequence(depth)
            start.onward.append(first)
            last.onward.append(end)
            if self.peek() != "|":
                return start, end
            self.at += 1

    def sequence(self, depth: int) -> _Piece:
        start = end = self.state()
        while self.peek() not in ("", "|", ")"):
            begin = self.at
            first, last = self.atom(depth)
            low, high = self.quantifier()
            if (low, high) != (1, 1):
                first, last = self.repeated(begin, self.at, low, high, depth)
            end.onward.append(first)
            end = last
        return start, end

    def repeated(self, begin: int, after: int, low: int, high: int | None, depth: int) -> _Piece:
        """Write the atom that begins at `begin` as often as it may stand."""
        start = end = self.state()
        leave = self.state()

        def once() -> _Piece:
            self.at = begin
            return self.atom(depth)

        for _ in range(low):
            first, last = once()
            end.onward.append(first)
            end = last
        if high is None:
            first, last = once()
            end.onward += [first, leave]
            last.onward += [first, leave]
        else:
            for _ in range(high - low):
                end.onward.append(leave)
                first, last = once()
                end.onward.append(first)
                end = last
            end.onward.append(leave)
        self.at = after
        return start, leave

    def quantifier(self) -> tuple[int, int | None]:
        mark = self.peek()
        low: int
        high: int | None
        if mark in ("*", "+", "?"):
            self.at += 1
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
        elif mark == "{":
            found = _COUNT.match(self.text, self.at)
            if found is None:
                raise NotTaken("a count in braces cannot be read")
            self.at = found.end()
            low = int(found[1])
            high = low if found[2] is None else int(found[3]) if found[3] else None
            if high is not None and high < low:
                raise NotTaken("a count in braces goes down")
        else:
            return 1, 1
        if self.peek() == "?":  # lazy: which way it matches is not asked
            self.at += 1
        if self.peek() in ("*", "+", "?", "{"):
            raise NotTaken("a repetition is repeated")
        return low, high

    def atom(self, depth: int) -> _Piece:
        mark = self.take()
        if mark == "(":
            if self.peek() == "?":
                if self.text[self.at : self.at + 2] != "?:":
                    raise NotTaken("groups that begin with `(?` are not taken")
                self.at += 2
            piece = self.choice(depth + 1)
            if self.take() != ")":
                raise NotTaken("a group is not closed")
            return piece
        if mark in "^$":
            return self.single(self.state(anchor=mark))
        if mark in "*+?{":
            raise NotTaken("a repetition has nothing to repeat")
        if mark == ".":
            return self.single(self.state(lambda c: c not in "\n\r"))
        if mark == "[":
            return self.single(self.state(self.set()))
        if mark == "\\":
            return self.single(self.state(self.escaped()[0]))
        return self.single(self.state(mark.__eq__))

    def single(self, state: _State) -> _Piece:
        end = self.state()
        state.onward.append(end)
        return state, end

    def escaped(self) -> tuple[_Test, str]:
        """Return the test after a backslash, and the character when it is one."""
        mark = self.take()
        lower = mark.lower()
        if lower in _CLASSES:
            test = _CLASSES[lower]
            return (test if mark == lower else lambda c: not test(c)), ""
        if lower == "p":
            end = self.text.find("}", self.at)
            posix = _POSIX.get(self.text[self.at + 1 : end]) if self.peek() == "{" and end > 0 else None
            if posix is None:
                raise NotTaken("a class after `\\p` is not known")
            self.at = end + 1
            return (posix if mark == "p" else lambda c: not posix(c)), ""
        if mark.isalnum() and mark not in _CONTROLS:
            raise NotTaken(f"`\\{mark}` is not taken")
        character = _CONTROLS.get(mark, mark)
        return character.__eq__, character

    def set(self) -> _Test:
        """Return the test of a class in brackets."""
        negated = self.peek() == "^"
        self.at += negated
        tests: list[_Test] = []
        while not (self.peek() == "]" and tests):
            mark = self.take()
            if mark == "[" or (mark == "&" and self.peek() == "&"):
                raise NotTaken("a class within a class is not taken")
            if mark == "\\":
                test, low = self.escaped()
            else:
                test, low = mark.__eq__, mark
            if low and self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.take()
                if high == "\\":
                    high = self.escaped()[1]
                if not high or high < low:
                    raise NotTaken("a range in a class goes down")
                test = _between(low, high)
            tests.append(test)
        self.at += 1
        if negated:
            return lambda c: not any(test(c) for test in tests)
        return lambda c: any(test(c) for test in tests)


def _between(low: str, high: str) -> _Test:
    return lambda c: low <= c <= high


@lru_cache(maxsize=256)
def _compile(text: str) -> tuple[_State, _State]:
    parser = _Parser(text)
    piece = parser.choice(0)
    if parser.at < len(text):
        raise NotTaken("a group is closed that was not opened")
    return piece


def fault_of(text: str) -> str | None:
    """Return why an expression is not taken, or None."""
    try:
        _compile(text)
    except NotTaken as found:
        return str(found)
    return None


def matches(text: str, value: str) -> bool:
    """Say whether the whole value matches; raise NotTaken for an expression that is not taken."""
    start, end = _compile(text)
    if len(value) > MAX_VALUE:
        return False
    current = _reached([start], at_start=True, at_end=not value)
    for i, character in enumerate(value):
        onward = [
            after
            for state in current
            if state.test is not None and state.test(character)
            for after in state.onward
        ]
        if not onward:
            return False
        current = _reached(onward, at_start=False, at_end=i == len(value) - 1)
    return any(state is end for state in current)


def _reached(states: list[_State], *, at_start: bool, at_end: bool) -> list[_State]:
    """Return all states that can be reached from these without taking a character."""
    seen: dict[int, _State] = {}
    stack = list(states)
    while stack:
        state = stack.pop()
        if id(state) in seen:
            continue
        seen[id(state)] = state
        stands = {"^": at_start, "$": at_end, "": True}[state.anchor]
        if state.test is None and stands:
            stack += state.onward
    return list(seen.values())
