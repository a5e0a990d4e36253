"""Two texts side by side: what the gateway has spliced into a statement, marked in what was forwarded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

Pieces = tuple[tuple[bool, str], ...]
"""Parts of a text in order, each with whether it is only there."""
_TOKEN = re.compile(r"\w+(?:\.\w+)*|\s+|'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|.", re.DOTALL)
MAX_TOKENS = 4_000
"""Of each text; of longer ones only their beginnings and ends are compared."""


def compare(sent: str, forwarded: str) -> tuple[Pieces, Pieces]:
    """Return the pieces of both texts, those that the other has not marked."""
    left, right = _TOKEN.findall(sent), _TOKEN.findall(forwarded)
    head = _common(left, right)
    tail = _common(left[head:][::-1], right[head:][::-1])
    middle = left[head : len(left) - tail], right[head : len(right) - tail]
    pieces: tuple[list[tuple[bool, str]], list[tuple[bool, str]]] = ([], [])
    for side in pieces:
        side.append((False, "".join(left[:head])))
    if max(len(one) for one in middle) > MAX_TOKENS:
        for side, tokens in zip(pieces, middle, strict=True):
            side.append((True, "".join(tokens)))
    else:
        matcher = SequenceMatcher(None, *middle, autojunk=False)
        for kind, i, j, k, m in matcher.get_opcodes():
            pieces[0].append((kind != "equal", "".join(middle[0][i:j])))
            pieces[1].append((kind != "equal", "".join(middle[1][k:m])))
    for side in pieces:
        side.append((False, "".join(left[len(left) - tail :])))
    return _join(pieces[0]), _join(pieces[1])


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many tokens both begin with."""
    return next(
        (at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
        min(len(left), len(right)),
    )


def _join(pieces: Sequence[tuple[bool, str]]) -> Pieces:
    found: list[tuple[bool, str]] = []
    for marked, text in pieces:
        if not text:
            continue
        if found and found[-1][0] == marked:
            found[-1] = (marked, found[-1][1] + text)
        else:
            found.append((marked, text))
    return tuple(found)
