"""What is written of an expression or a condition: the statement's own words, for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.algebra.nodes import Expression, WindowCall
from gateway.algebra.walking import names_in
from gateway.model.reading import Span

MAX_EXPRESSION: Final = 2_000
"""Characters of an expression or a condition that are kept."""
_UNKNOWN: Final = "…"


@dataclass(frozen=True, slots=True, eq=False)
class WrittenWords:
    """Expressions as a text has them, to be cut out of it if they are asked for."""

    expressions: tuple[Expression, ...]
    text: str
    keyword: str = ""
    """What stands before them."""

    def __str__(self) -> str:
        spans = [span for one in self.expressions if (span := hull(one)) is not None]
        if spans:
            start, end = min(one.start for one in spans), max(one.end for one in spans)
            shown = _with_brackets(self.text, start, min(end, start + 2 * MAX_EXPRESSION))
        else:
            shown = ", ".join(dict.fromkeys(_names(self.expressions))) or _UNKNOWN
        shown = f"{self.keyword} {shown}".strip()
        return shown if len(shown) <= MAX_EXPRESSION else shown[:MAX_EXPRESSION] + _UNKNOWN


def cut(expression: Expression, text: str) -> str:
    """Return an expression's words; empty where its place is not known."""
    return "" if expression.span is None else expression.span.of(text)


def hull(expression: Expression) -> Span | None:
    """Return where an expression stands: Spark's place of `x IS NULL` is without the x."""
    spans: list[Span] = []
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        if one.span is not None:
            spans.append(one.span)
        if one.span is None or not isinstance(one, WindowCall):  # whose window may stand elsewhere
            waiting += one.operands
    return Span(min(one.start for one in spans), max(one.end for one in spans)) if spans else None


def _names(expressions: Iterable[Expression]) -> Iterable[str]:
    return (".".join(parts) for one in expressions for parts in names_in(one))


def _with_brackets(text: str, start: int, end: int) -> str:
    """Return a part of a text with the brackets that belong to those in it."""
    before = after = depth = 0
    quote = ""
    for sign in text[start:end]:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"`":
            quote = sign
        elif sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
            before = max(before, -depth)
    after = depth + before
    while before and (found := text.rfind("(", 0, start)) >= 0:
        start, before = found, before - 1
    while after > 0 and (found := text.find(")", end)) >= 0:
        end, after = found + 1, after - 1
    return text[start:end]
