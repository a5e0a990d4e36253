"""SQL text of policies: what it may contain, and how values are bound into it.

Text is never pasted together with values: a token or a macro stands where a literal may stand, and becomes
one, and a literal with macros in it becomes one literal as a whole. Values that hold anything but letters,
digits and a few marks are bound as hexadecimal, so that no setting of Spark's lexer (backslash escapes,
doubled quotes, adjacent literals) can give them another meaning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateway.policy.diagnostics import hint
from gateway.policy.facts import Facts
from gateway.policy.macros import MACRO, expression
from gateway.policy.script import PolicyScript
from gateway.policy.script.tokens import Untranslatable
from gateway.policy.script.values import (
    Indeterminate,
    Joined,
    ScriptValue,
    is_nothing,
    number_text,
    to_text,
)

MAX_EXPRESSION = 16_384
"""Characters of one expression."""
MAX_BOUND = 1_048_576
"""Characters of one expression with its values bound."""

_TOKEN = re.compile(r"\{USER(?:\.[A-Za-z_][\w.-]*)?\}|\{(?:col|colType|type)\}")
_BRACED = re.compile(r"\{[^{}']*\}?|\}")
_SIMPLE = re.compile(r"[A-Za-z0-9_.@+ -]{0,256}\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?\Z", re.ASCII)
"""Numbers that are written in one way only: `007` is a text."""
_STRINGS = ("'", '"')
NO_VALUE = "NULL"  # RULE (empty-list)
"""Stands for an empty list: `x IN (NULL)` and `x NOT IN (NULL)` hold for no row."""

_PLACE = {"filter": "a row filter", "mask": "a custom mask"}


def write_string_literal(text: str) -> str | None:
    """Return Spark SQL of exactly this string, or None when it is not Unicode text."""
    if _SIMPLE.match(text):
        return f"'{text}'"
    try:
        return f"CAST(X'{text.encode().hex().upper()}' AS STRING)"  # RULE (values-literal)
    except UnicodeEncodeError:
        return None


# What a text may contain.


def faults_of(text: str, kind: str) -> list[str]:
    """Return what is wrong with a `filter` or a `mask` text before Spark's parser looks at it."""
    what = _PLACE[kind]
    if len(text) > MAX_EXPRESSION:
        return [f"{what} is longer than {MAX_EXPRESSION} characters"]
    faults: list[str] = []
    pieces = cut(text)
    if any("${" in part for part in _list_fixed_texts(pieces)) or any(
        "${" in script for script in scripts(pieces)
    ):
        faults.append(f"{what} must not contain `${{`: Spark would substitute it")
    if any((ord(c) < 32 and c not in "\t\n\r") or 0xD800 <= ord(c) < 0xE000 for c in text):
        faults.append(f"{what} must not contain control characters")
    for piece in pieces:
        match piece:
            case Plain():
                faults += _plain_faults(piece.text, what, kind)
            case Quoted():
                faults += _find_quoted_faults(piece.text)
            case Composed():
                faults += _find_composed_faults(piece)
            case _Placeholder() if kind == "filter":
                faults.append(f"`{{{piece.name}}}` is allowed in a custom mask only")
            case _:
                pass
    for script in scripts(pieces):
        try:
            expression(script)
        except Untranslatable as error:
            faults.append(f"in `${{{{…}}}}`: {error}")
    faults += _neighbour_faults(pieces)
    return list(dict.fromkeys(faults))


def _list_fixed_texts(pieces: list[_Piece]) -> list[str]:
    """Return the texts that Spark will see as they are written."""
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, Composed):
            texts += piece.parts[::2]
        elif isinstance(piece, Plain | Quoted):
            texts.append(piece.text)
    return texts


def _find_quoted_faults(text: str) -> list[str]:
    found = _TOKEN.search(text)
    if not found:
        return []
    return [f"token `{found.group()}` is inside quotes; write it without quotes, it becomes a literal"]


def _find_composed_faults(piece: Composed) -> list[str]:
    faults = [fault for part in piece.parts[::2] for fault in _find_quoted_faults(part)]
    if piece.quote not in _STRINGS:
        faults.append("`${{…}}` is inside a quoted name, where tokens are not allowed")
    if any("\\" in part for part in piece.parts[::2]):
        faults.append("a literal with `${{…}}` in it must not contain a backslash")
    return faults


def _plain_faults(text: str, what: str, kind: str) -> list[str]:
    faults = []
    for mark, reason in (
        ("--", "comments"),
        ("/*", "comments"),
        (";", "a semicolon"),
        ("\\", "a backslash outside quotes"),
        ("$", "`$`"),
        ("?", "parameters"),
    ):
        if mark in text:
            faults.append(f"{what} must not contain {reason}")
    if re.search("['\"`]", text):
        faults.append(f"a quote in {what} is not closed")
    known = ("{USER}", "{USER.attribute}") if kind == "filter" else ("{col}", "{colType}", "{type}", "{USER}")
    braced = (found.group() for found in _BRACED.finditer(text))
    return faults + [f"unknown token `{token}`{hint(token, known)}" for token in braced]


def _neighbour_faults(pieces: list[_Piece]) -> list[str]:
    """Two string literals side by side are one string to Spark, so a token may not stand beside one."""
    # One character for each thing: S a string, N a quoted name, V a place for a value.
    outline = "".join(map(_outline, pieces))
    faults = []
    if re.search("\x01[SV]\\s*\x01V|\x01V\\s*\x01S", outline):
        faults.append("a token is adjacent to another literal; Spark would concatenate the two")
    if re.search("(?:[\\w.]|\x01N)(?<!\x01S)\x01V|\x01V(?:[\\w.]|\x01N)", outline):
        faults.append("a token is adjacent to a name")
    if re.search("(?<![\\w\x01])[rR]\x01S", outline):
        faults.append("raw strings (r'…') are not allowed; double the backslashes instead")
    return faults


def _outline(piece: _Piece) -> str:
    match piece:
        case Plain():
            return piece.text
        case Quoted():
            return "\x01S" if piece.text[0] in _STRINGS else "\x01N"
        case _Placeholder():
            return " "
        case _:
            return "\x01V"


# Binding.


class _Missing(Exception):
    """A value is missing, or has no place where it stands."""


@dataclass(frozen=True, slots=True)
class _Bindable:
    """A text ready for binding: fixed SQL, names, and places for values by turns."""

    parts: tuple[str | _Placeholder | Callable[[Facts], str], ...]
    context_dependencies: frozenset[str]


@lru_cache(maxsize=4096)
def _bindable(text: str) -> _Bindable:
    """Cut a text and parse its macros; raise Untranslatable."""
    pieces = cut(text)
    lists = list_places(pieces)
    parts: list[str | _Placeholder | Callable[[Facts], str]] = []
    context_dependencies: set[str] = set()
    for number, piece in enumerate(pieces):
        match piece:
            case Plain() | Quoted():
                parts.append(piece.text)
            case _Placeholder():
                parts.append(piece)
            case UserMacro():
                parts.append(_user_place(piece.attribute, several=number in lists))
            case Macro():
                script = expression(piece.script)
                context_dependencies |= script.context_dependencies
                parts.append(_macro_place(script, several=number in lists))
            case Composed():
                inner = tuple(expression(source) for source in piece.parts[1::2])
                context_dependencies = context_dependencies.union(
                    *(script.context_dependencies for script in inner)
                )
                parts.append(_find_composed_place(piece.parts[::2], inner))
    return _Bindable(tuple(parts), frozenset(context_dependencies))


def _literal(text: str) -> str:
    literal = write_string_literal(text)
    if literal is None:
        raise _Missing
    return literal


def _join_literals(literals: list[str], *, several: bool) -> str:
    if several:
        return ",".join(literals) or NO_VALUE
    if len(literals) != 1:
        raise _Missing
    return literals[0]


def _user_place(attribute: str | None, *, several: bool) -> Callable[[Facts], str]:
    if attribute is None:
        return lambda facts: _literal(facts.user)

    def place(facts: Facts) -> str:
        values = facts.user_attributes.get(attribute)
        if not values:
            raise _Missing
        return _join_literals([_literal(value) for value in values], several=several)

    return place


def _macro_place(script: PolicyScript, *, several: bool) -> Callable[[Facts], str]:
    return lambda facts: _write_value(script.value(facts), several=several)


def _write_value(value: ScriptValue, *, several: bool) -> str:
    """Return a value as SQL: one literal, or several where a list may stand."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if math.isfinite(value) and abs(value) < 1e15:
            return number_text(value) if value >= 0 else f"({number_text(value)})"
        case Joined() if value.listed:
            quoted = value[:1] in _STRINGS
            items = list(map(_literal, value.items)) if quoted else _unquote(value.items, several=several)
            return _join_literals(items, several=several)
        case str():
            return _join_literals(_unquote((value,), several=several), several=several)
        case list():
            return _join_literals([_literal(to_text(item)) for item in value], several=several)
        case _:
            raise _Missing


def _unquote(items: tuple[str, ...], *, several: bool) -> list[str]:
    """Return texts that stand without quotes: numbers stay numbers, as when Ranger pastes them."""
    numbers = items[0].split(",") if several and len(items) == 1 else items
    if all(map(_NUMBER.match, numbers)):
        return [f"({number})" if number.startswith("-") else number for number in numbers]
    return [_literal(item) for item in items]


def _find_composed_place(fixed: tuple[str, ...], inner: tuple[PolicyScript, ...]) -> Callable[[Facts], str]:
    def place(facts: Facts) -> str:
        text = fixed[0]
        for script, after in zip(inner, fixed[1:], strict=True):
            value = script.value(facts)
            if is_nothing(value) or (isinstance(value, Joined) and not value.items):
                raise _Missing
            text += to_text(value) + after
        return _literal(text)

    return place


def bind(text: str, facts: Facts, names: Mapping[str, str] | None = None) -> str | None:
    """Return the text with its tokens and macros bound; None when a value is missing or has no literal.

    `names` holds what `{col}`, `{colType}` and `{type}` stand for: SQL that the gateway wrote.
    """
    try:
        ready = _bindable(text)
        parts = []
        for part in ready.parts:
            if isinstance(part, str):
                parts.append(part)
            elif isinstance(part, _Placeholder):
                parts.append((names or {})[part.name])
            else:
                parts.append(part(facts))
    except (Untranslatable, Indeterminate, _Missing, KeyError):
        return None
    bound = "".join(parts)
    return bound if len(bound) <= MAX_BOUND else None


def context_dependencies_of(text: str) -> frozenset[str]:
    """Return the fields of the AccessContext that the bound text depends on."""
    try:
        return _bindable(text).context_dependencies
    except Untranslatable:
        return frozenset()


def sample(text: str) -> str:
    """Return the text with plausible values bound, for a parser to read when a pack loads."""
    samples = {"col": "`c`", "colType": "STRING", "type": "STRING"}
    shown = []
    for piece in cut(text):
        match piece:
            case Plain() | Quoted():
                shown.append(piece.text)
            case _Placeholder():
                shown.append(samples[piece.name])
            case _:
                shown.append("'x'")
    return "".join(shown)


# SQL text of policies cut into pieces: plain text, quoted text, and the places where values are bound.


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
class _Placeholder:
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


_Piece = Plain | Quoted | Composed | _Placeholder | UserMacro | Macro


def cut(text: str) -> list[_Piece]:
    """Cut text into pieces; what begins with a quotation mark that nothing closes is plain to the end.

    Macros come first, as in Ranger: they may stand inside quotes and may hold quotes themselves.
    """
    pieces: list[_Piece] = []
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


def _piece(text: str, found: re.Match[str]) -> _Piece | None:
    if found["macro"]:
        return Macro(found["script"], found["macro"])
    if found["user"]:
        return UserMacro(found["attribute"], found.group())
    if found["name"]:
        return _Placeholder(found["name"])
    return _read_quoted(text, found.start())


def _length(piece: _Piece) -> int:
    match piece:
        case _Placeholder():
            return len(piece.name) + 2
        case Composed():
            # Each script stands between `${{` and `}}`.
            return 2 + sum(map(len, piece.parts)) + 5 * (len(piece.parts) // 2)
        case _:
            return len(piece.text)


def _read_quoted(text: str, start: int) -> Quoted | Composed | None:
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


def scripts(pieces: list[_Piece]) -> Iterator[str]:
    """Yield every script of the macros among the pieces."""
    for piece in pieces:
        if isinstance(piece, Macro):
            yield piece.script
        elif isinstance(piece, Composed):
            yield from piece.parts[1::2]


def list_places(pieces: list[_Piece]) -> set[int]:
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
