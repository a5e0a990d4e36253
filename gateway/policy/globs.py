"""Globs: `*` is any run of characters, `?` exactly one, in those pieces of a text in which they are live."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Pieces = Sequence[tuple[str, bool]]
"""Texts, and whether wildcards in them mean what they mean."""


def has_wildcard(value: str) -> bool:
    return "*" in value or "?" in value


def glob(pieces: Iterable[tuple[str, bool]]) -> str:
    """Return a regular expression for (text, wildcards live) pieces, to be used with `fullmatch`.

    Every run between two `*` is matched at its first occurrence and never given back (atomic groups): right
    for globs, and the time stays linear in the value for each run, whatever the pattern.
    """
    runs: list[list[str]] = [[]]
    for text, live in pieces:
        for character in text:
            if live and character == "*":
                runs.append([])
            elif live and character == "?":
                runs[-1].append(".")
            else:
                runs[-1].append(re.escape(character))
    joined = ["".join(run) for run in runs]
    if len(joined) == 1:
        return f"(?s:{joined[0]})"
    middle = "".join(f"(?>.*?{run})" for run in joined[1:-1] if run)
    return f"(?s:{joined[0]}{middle}.*{joined[-1]})"


def parent(pieces: Pieces, separator: str) -> Pieces | None:
    """Return what stands before the last separator; None when there is none."""
    for i in range(len(pieces) - 1, -1, -1):
        text, live = pieces[i]
        if separator in text:
            return (*pieces[:i], (text.rpartition(separator)[0], live))
    return None


def may_go_on(pieces: Pieces, asked: str) -> bool:
    """Say whether something that matches the pieces begins with `asked`.

    As in Ranger `asked` must reach beyond every `?` before the first `*`; behind that anything may follow.
    """
    units = [(character, live and character in "*?") for text, live in pieces for character in text]
    star = next((i for i, unit in enumerate(units) if unit == ("*", True)), None)
    head = units if star is None else units[:star]
    if len(asked) > len(head) and star is None:
        return False
    if any(unit == ("?", True) for unit in head[len(asked) :]):
        return False
    return all(wild or own == other for (own, wild), other in zip(head, asked, strict=False))
