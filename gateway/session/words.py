"""Which names a statement may mention, by its words alone: more than need be; and what names lead to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from gateway.model.statement import Cleared

T = TypeVar("T")

_WORD = re.compile(r"\w+")
_NAMES_BY_STRING = re.compile(r"\b(?:immediate|identifier)\b", re.IGNORECASE)
"""Where names stand in strings, with escapes: what is forwarded has them written out."""


def text_of(cleared: Cleared) -> str:
    """Return everything of a statement in which a name can stand, also where a string has it."""
    text = "\n".join((cleared.statement.text, *cleared.plan_texts))
    strings = _NAMES_BY_STRING.search(text) is not None
    return f"{text}\n{cleared.forwarded}" if strings else text  # RULE (names-by-string)


def words_of(text: str) -> frozenset[str]:
    """Return everything in a text that could be a name without backticks, lower case."""
    return frozenset(_WORD.findall(text.lower()))


def find_mentioned(named: Mapping[str, T], cleared: Cleared) -> Iterator[T]:
    """Yield what a statement may read by its name: by its words, or all where more than its words counts."""
    every = cleared.statement.plan is not None or bool(cleared.temp_views_read)
    words = words_of(f"{text_of(cleared)} {cleared.forwarded}")
    for name, kept in named.items():
        if every or name in words:  # RULE (values-of-variables)
            yield kept


def mentions(text: str, name: str, words: frozenset[str] | None = None) -> bool:
    """Whether the name stands anywhere in the text, in a comment or a literal too: more than need be.

    Spark's identifiers have no escapes but the doubled backtick, and its lexer takes the longest run of
    letters, digits and underscores. The case of letters outside of ASCII is folded in more than one way, so
    such a name counts as mentioned everywhere.
    """
    if not name.isascii():
        return True
    if _WORD.fullmatch(name):
        return name in (words_of(text) if words is None else words)
    return name.replace("`", "``") in text.lower()


def has_bare(text: str, name: str) -> bool:
    """Whether the name stands in the text without a qualifier."""
    bare = rf"(?<![\w.`])`?{re.escape(name)}`?(?![\w`])"
    return re.search(bare, text, re.IGNORECASE) is not None


def list_reached(start: str, step: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the names that one leads to, step by step, without itself."""
    found, pending = set[str](), [start]
    while pending:
        new = {name for name in step(pending.pop()) if name != start} - found
        found |= new
        pending += new
    return found
