"""One form that values may have: what tells it, of a whole value and within a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Whole = Callable[[str], bool]
Find = Callable[[str], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Chance:
    """How often what only looks like a format has its check digits right."""

    like: Find
    """Finds text of this shape within a longer text, whether or not its check digits are valid."""
    share: float


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """One form that values may have."""

    name: str
    whole: Whole
    """Whether a value as a whole has it; the value has no space around it."""
    find: Find | None = None
    """Finds the format within a longer text; None where that would be a guess."""
    alone: Whole | None = None
    """Decides which whole values count in a column of longer texts; None where some would fit by chance."""
    chance: Chance | None = None
    """None where what looks like it is it."""


def of_pattern(pattern: re.Pattern[str]) -> tuple[Whole, None]:
    """Return how a value is told that is like a pattern as a whole."""
    return lambda value: pattern.fullmatch(value) is not None, None
