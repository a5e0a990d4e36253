"""Places in error messages: Spark tells them in the text that it was sent, clients read them in their own.

Spark counts characters of a text, and takes the line that it shows by UTF-16 units (SQLQueryContext, 4.3); so
beyond the first character outside of the basic plane its own marks are off, and here they are off as much.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from gateway.model.statement import RewrittenText

_SUMMARY = re.compile(r"== SQL \(line (\d{1,9}), position (\d{1,9})\) ==\n((?:[^\n]*\n[ ^]*\n)+)")
_POSITION = re.compile(r"(?<=; )line (\d{1,9}) pos (\d{1,9})")
_MOST = 64
"""Places of each kind that are told in one message: a user can raise an error with any number of them."""
_WIDE = re.compile("[\U00010000-\U0010ffff]")
_CONTEXT = 32
"""Characters that Spark shows on either side of a fragment."""


def in_users_text(message: str, texts: Sequence[RewrittenText]) -> str:
    """Return a message of Spark's with its places in the texts as the user wrote them.

    What does not fit the texts stays: it may be a place in a view, or in something that a user raised. Of
    several texts Spark does not say which a bare position is in, so it is left then.
    """
    if not texts:
        return message
    message = _SUMMARY.sub(lambda found: _summary_in(found, texts), message, count=_MOST)
    if len(texts) == 1:
        message = _POSITION.sub(lambda found: _position_in(found, texts[0]), message, count=_MOST)
    return message


def original_range(text: RewrittenText, start: int, stop: int) -> tuple[int, int]:
    """Return where in the original the characters `start` to `stop`, inclusive, of the forwarded text are."""
    first, last = _original(text, start, at_end=False), _original(text, stop, at_end=True)
    return first, max(first, last)


def summary_of(text: str, start: int, stop: int) -> str:
    """Return what Spark says of a fragment of a text: its line and position, its lines, and marks below."""
    line, column = place_of(text, start)
    units = _units(text)
    begin = start
    while begin >= 0 and start - begin <= _CONTEXT and units[begin : begin + 1] != "\n":
        begin -= 1
    cut_before = start - begin > _CONTEXT
    end = stop = max(0, min(stop, len(units) - 1))
    while end < len(units) and end - stop <= _CONTEXT and units[end] != "\n":
        end += 1
    cut_after = end - stop > _CONTEXT
    shown = ("..." if cut_before else "") + units[begin + 1 : end] + ("..." if cut_after else "")
    at = begin - 3 if cut_before else begin
    written = [f"== SQL (line {line}, position {column + 1}) ==\n"]
    for one in _lines(shown):
        written.append(f"{one}\n")
        at += 1
        before = min(max(start - at, 0), len(one))
        marked = max(min(at + len(one), stop + 1) - max(at, start), 0)
        written.append(f"{' ' * before}{'^' * marked}\n")
        at += len(one)
    return _text("".join(written))


def fragment_of(text: str, start: int, stop: int) -> str:
    """Return the characters `start` to `stop`, inclusive, as Spark takes them."""
    return _text(_units(text)[start : stop + 1])


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Return the line, from 1, and the position in it, from 0, of a character."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1)


def _offset(text: str, line: int, column: int) -> int | None:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
        if at == 0:
            return None
    return at + column if at + column <= len(text) else None


def _original(text: RewrittenText, offset: int, *, at_end: bool) -> int:
    moved = 0
    for start, end, length in text.changes:
        if offset < start + moved:
            break
        if offset < start + moved + length:
            return end - 1 if at_end else start
        moved += length - (end - start)
    return offset - moved


def _summary_in(found: re.Match[str], texts: Sequence[RewrittenText]) -> str:
    line, column = int(found[1]), int(found[2]) - 1
    lines = found[3].split("\n")[1::2]
    marks = sum(one.count("^") for one in lines)
    for text in texts:
        start = _offset(text.forwarded, line, column)
        if start is None or not 0 <= start < len(text.forwarded) or not marks:
            continue
        stop = _last_marked(_units(text.forwarded), start, marks)
        shown = summary_of(text.forwarded, start, stop)
        if found[0].startswith(shown):
            return summary_of(text.original, *original_range(text, start, stop)) + found[0][len(shown) :]
    return found[0]


def _last_marked(units: str, start: int, marks: int) -> int:
    """Return where a fragment ends of which Spark marks so many characters: line breaks have no mark."""
    at = start
    while (breaks := units.count("\n", at, at + marks)) and at < len(units):
        at, marks = at + marks, breaks
    return at + marks - 1


def _position_in(found: re.Match[str], text: RewrittenText) -> str:
    offset = _offset(text.forwarded, int(found[1]), int(found[2]))
    if offset is None:
        return found[0]
    line, column = place_of(text.original, _original(text, offset, at_end=False))
    return f"line {line} pos {column}"


def _lines(text: str) -> list[str]:
    """Split as Java does, without empty lines at the end."""
    lines = text.split("\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


@lru_cache(maxsize=4)
def _units(text: str) -> str:
    return _WIDE.sub(lambda found: _surrogates(ord(found[0]) - 0x10000), text)


def _surrogates(rest: int) -> str:
    return chr(0xD800 + (rest >> 10)) + chr(0xDC00 + (rest & 0x3FF))


def _text(units: str) -> str:
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
