"""Refuses texts that no parser should see: too long, too deep, or not what the backend would read.

The checks look at raw characters. They do not know strings from comments, so they may count too much and,
against a text made to fool them, too little; what they let through is bounded by the deadline.

Figures behind the defaults (Spark 4.3, Java 17, 2 cores, first parse of that shape): 500 nested brackets
0.1 s, 500 nested CASE 0.2 s, 200 nested `ARRAY<` 0.2 s, 1,000 nested lambdas 0.4 s, 200 nested comments
0.3 s (1,000 exhaust the heap); 10,000 OR terms 0.3 s, 50,000 IN elements 0.2 s, 5,000 UNION ALL 0.1 s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.model.reading import NotRead


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLimits:
    """Bounds on one statement."""

    max_chars: int = 1_000_000
    """Code points of a statement; a rewritten one may be twice as long."""
    max_nesting: int = 200
    """Open brackets, of all kinds together."""
    max_case_nesting: int = 200
    """CASE without its END."""
    max_type_nesting: int = 100
    """`ARRAY<`, `MAP<` and `STRUCT<` without their `>`."""
    max_comment_nesting: int = 20
    """`/*` without its `*/`; Spark's comments nest, and its lexer's memory grows steeply with it."""
    max_arrows: int = 1_000
    """`->` in all; lambdas nest without brackets."""
    start_timeout_s: float = 60.0
    """Seconds until a new parser must have said hello: 2.5 on an idle machine, 6 with both cores busy."""
    deadline_s: float = 5.0
    """Seconds until a parser that has not answered is killed and replaced."""
    wait_s: float = 30.0
    """Seconds until a request is answered as unavailable that no parser has taken."""
    max_in_flight: int = 8
    """Requests under way in one parser process, which its deadline counts for; others wait for their turn."""


_SURROGATE = re.compile("[\ud800-\udfff]")
_BRACKET = re.compile(r"[(\[{)\]}]")
_COMMENT = re.compile(r"/\*|\*/")
# Matched in the upper-cased text, as Spark's lexer does: `ſ` (U+017F) is an S to it.
_CASE = re.compile(r"\b(?:CASE|END)\b")
_TYPE = re.compile(r"(?:ARRAY|MAP|STRUCT)\s*<|>")


def refuse(text: str, limits: ReaderLimits, *, growth: int = 1) -> NotRead | None:
    """Say why `text` may not be parsed, or None. `growth` multiplies the length allowed."""
    if len(text) > limits.max_chars * growth:
        return NotRead("TOO_LARGE", f"the statement has more than {limits.max_chars:,} characters")
    if "\0" in text or _SURROGATE.search(text):
        return NotRead("UNSAFE_TEXT", "the statement contains a character that is not valid Unicode")
    if "${" in text:
        # Spark would substitute before it lexes, also inside strings: its text would not be this one.
        return NotRead("UNSAFE_TEXT", "the statement contains `${`, which Spark would substitute")
    for what, depth, limit in _depths(text, limits):
        if depth > limit:
            return NotRead("TOO_DEEP", f"the statement nests {what} more than {limit} deep")
    return None


def _depths(text: str, limits: ReaderLimits) -> list[tuple[str, int, int]]:
    depths = [("brackets", _depth(_BRACKET, text, "([{"), limits.max_nesting)]
    if "/*" in text:
        depths.append(("comments", _depth(_COMMENT, text, "/"), limits.max_comment_nesting))
    if "->" in text:
        depths.append(("`->`", text.count("->"), limits.max_arrows))
    upper = text.upper()
    if upper.count("CASE") > limits.max_case_nesting:
        depths.append(("CASE", _depth(_CASE, upper, "C"), limits.max_case_nesting))
    if text.count("<") > limits.max_type_nesting:
        depths.append(("types", _depth(_TYPE, upper, "AMS"), limits.max_type_nesting))
    return depths


def _depth(pattern: re.Pattern[str], text: str, openings: str) -> int:
    """Return the deepest level; a closing that closes nothing does not count."""
    depth = deepest = 0
    for found in pattern.finditer(text):
        if text[found.start()] in openings:
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
    return deepest
