"""What others wrote is shown so that it cannot pass for something else: control characters, marks that turn
the direction of text, and what has no width stand there as their numbers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from markupsafe import Markup, escape

MAX_SHOWN = 20_000
"""Characters of a text on a page; its REST route has all of it."""
_PLAIN = re.compile(r"[\n\t\x20-\x7e]*")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Letters and signs that are drawn as nothing."""
MAX_MARKS = 4
"""Combining marks in a row; more would cover the lines around them."""


MASKS = {
    "MASK": "letters and digits replaced by `x`, `X` and `n`",
    "MASK_SHOW_LAST_4": "only the last 4 characters",
    "MASK_SHOW_FIRST_4": "only the first 4 characters",
    "MASK_HASH": "a hash of the value",
    "MASK_NULL": "always NULL",
    "MASK_NONE": "as it is",
    "MASK_DATE_SHOW_YEAR": "only the year",
    "MASK_DATE_SHOW_MONTH": "only the year and month",
    "CUSTOM": "what the policy computes",
    "ROW_FILTER": "only some rows",
}
"""Ranger's types of masks → what a reader gets."""
_ITEM = re.compile(r"`?\b(allow|deny|allow_exceptions|deny_exceptions|masks?|filters?)\[(\d{1,6})\]`?")


def name_mask(kind: str) -> str:
    """Return what somebody gets of a column or a table by a type of mask."""
    return MASKS.get(kind, f"by the mask type {kind}")


def name_items(text: str) -> str:
    """Return a text with items of policies as people count them: `allow[0]` is the first one."""

    def name(one: re.Match[str]) -> str:
        kind = one[1].replace("_", " ").rstrip("s")
        return f"{_count(int(one[2]) + 1)} {kind} item"

    return _ITEM.sub(name, text)


def _count(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"


def reveal(text: str) -> str:
    """Return a text with a visible sign for each character that is not seen, or changes how others are."""
    if _PLAIN.fullmatch(text):
        return text
    found, marks = [], 0
    for sign in text.replace("\r\n", "\n"):
        category = unicodedata.category(sign)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        hides = category in _HIDDEN_CATEGORIES and sign not in "\n\t"
        looks_blank = sign in _BLANKS or (category == "Zs" and sign != " ")
        if hides or looks_blank or marks > MAX_MARKS:  # RULE (console-hidden-shown)
            found.append(f"\u27e8U+{ord(sign):04X}\u27e9")
        else:
            found.append(sign)
    return "".join(found)


def finalize(value: object) -> object:
    """Return what a template may write of a value: what is written by hand in a template stays."""
    if value is None:
        return ""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    if len(value) > MAX_SHOWN:
        value = f"{value[:MAX_SHOWN]}… ({len(value) - MAX_SHOWN:,} more characters)"
    return reveal(value)


def cut(text: str, most: int = 120) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def whole(text: str) -> Markup:
    """Return a text as a form sends it back: all of it, to the letter."""
    # Browsers leave out a line break right behind the beginning of a `textarea`.
    return Markup("\n{}").format(text)


def when(time: datetime | str | None) -> Markup:
    """Return a time in UTC, which the page's script sets the reader's own beside."""
    if not time:
        return Markup("")
    try:
        at = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        return Markup("{}").format(reveal(str(time)))
    at = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", f"{at:%Y-%m-%d %H:%M:%S} UTC"
    )


def mark(pieces: Iterable[tuple[bool, str]]) -> Markup:
    """Return pieces of a text, those that are so marked."""
    written = [
        Markup("<mark>{}</mark>").format(reveal(text)) if is_marked else escape(reveal(text))
        for is_marked, text in pieces
    ]
    return Markup("").join(written)
