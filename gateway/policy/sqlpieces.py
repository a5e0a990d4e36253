"""SQL text of policies cut into pieces: plain text, quoted text, and the places where values are bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.policy.macros import MACRO

_PIECE = re.compile(
    rf"(?P<macro>{MACRO})"
    r"|\{(?P<user>USER)(?:\.(?P<attribute>[A-Za-z_][\w.-]*))?\}"
    r"|\{(?P<name>col|colType|type)\}"
    r"|(?P<quote>['\"`])"
)
_MACRO = re.compile(MACRO)
_WORD = re.compile(r"\w+|[^\s\w]")
_LISTS: Final = frozenset({"in", "array"})
"""Words before a bracket in which a place for a value may take several."""


@dataclass(frozen=True, slots=True)
class Plain:
    """Text outside of quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Quoted:
    """A literal or a quoted name, its quotation marks included."""

    text: str


@dataclass(frozen=True, slots=True)
class Composed:
    """A quoted text with macros in it; `parts` are text and scripts by turns, text first and last."""

    quote: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """`{col}`, `{colType}` or `{type}`."""

    name: str


@dataclass(frozen=True, slots=True)
class UserMacro:
    """`{USER}` or `{USER.attribute}`."""

    attribute: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Macro:
    """`${{script}}` outside of quotes."""

    script: str
    text: str


Piece = Plain | Quoted | Composed | Name | UserMacro | Macro


def cut(text: str) -> list[Piece]:
    """Cut text into pieces; what begins with a quotation mark that nothing closes is plain to the end.

    Macros come first, as in Ranger: they may stand inside quotes and may hold quotes themselves.
    """
    pieces: list[Piece] = []
    plain = position = 0
    while found := _PIECE.search(text, position):
        position = found.end()
        piece = _piece(text, found)
        if piece is None:
            break
        if found.start() > plain:
            pieces.append(Plain(text[plain : found.start()]))
        plain = position = found.start() + _length(piece)
        pieces.append(piece)
    if plain < len(text):
        pieces.append(Plain(text[plain:]))
    return pieces


def _piece(text: str, found: re.Match[str]) -> Piece | None:
    if found["macro"]:
        return Macro(found["script"], found["macro"])
    if found["user"]:
        return UserMacro(found["attribute"], found.group())
    if found["name"]:
        return Name(found["name"])
    return _quoted(text, found.start())


def _length(piece: Piece) -> int:
    match piece:
        case Name():
            return len(piece.name) + 2
        case Composed():
            # Each script stands between `${{` and `}}`.
            return 2 + sum(map(len, piece.parts)) + 5 * (len(piece.parts) // 2)
        case _:
            return len(piece.text)


def _quoted(text: str, start: int) -> Quoted | Composed | None:
    quote, parts, begin, position = text[start], list[str](), start + 1, start + 1
    while position < len(text):
        character = text[position]
        if character == quote:
            if quote == "`" and text[position + 1 : position + 2] == "`":
                position += 2
                continue
            if not parts:
                return Quoted(text[start : position + 1])
            return Composed(quote, (*parts, text[begin:position]))
        if character == "\\" and quote != "`":
            position += 2
            continue
        macro = _MACRO.match(text, position) if character == "$" else None
        if macro:
            parts += [text[begin:position], macro["script"]]
            begin = position = macro.end()
        else:
            position += 1
    return None


def scripts(pieces: list[Piece]) -> Iterator[str]:
    """Yield every script of the macros among the pieces."""
    for piece in pieces:
        if isinstance(piece, Macro):
            yield piece.script
        elif isinstance(piece, Composed):
            yield from piece.parts[1::2]


def list_places(pieces: list[Piece]) -> set[int]:
    """Return the numbers of the places that may take several values: elements of `IN (…)` or `array(…)`."""
    found: set[int] = set()
    brackets: list[bool] = []
    last, waiting = "", -1
    for number, piece in enumerate(pieces):
        if not isinstance(piece, Plain):
            waiting = -1
            if isinstance(piece, UserMacro | Macro) and last in ("(", ",") and brackets and brackets[-1]:
                waiting = number
            last = "'"
            continue
        for word in _WORD.findall(piece.text):
            if waiting >= 0 and word in (")", ","):
                found.add(waiting)
            waiting = -1
            if word == "(":
                brackets.append(last.lower() in _LISTS)
            elif word == ")" and brackets:
                brackets.pop()
            last = word
    return found
