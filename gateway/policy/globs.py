"""Globs: `*` is any run of characters, `?` exactly one, in those pieces of a text in which they are live.

A `*` that a `?` follows is lost, so that `a*?` is `a?`: Ranger compares with `FilenameUtils.wildcardMatch` of
Apache Commons IO, which forgets it ("the sequence `*?` does not work properly at present").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NOT_LITERAL = re.compile(r"[{}\\$]")
"""What a policy's values do not take literally, besides wildcards, which match themselves."""
LOST_STAR = re.compile(r"\*+(?=\?)")
GlobPieces = Sequence[tuple[str, bool]]
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
            if live and character == "*":  # RULE (glob-star)
                runs.append([])
            elif live and character == "?":
                while len(runs) > 1 and not runs[-1]:  # RULE (glob-star-question)
                    runs.pop()
                runs[-1].append(".")  # RULE (glob-question-mark)
            else:
                runs[-1].append(re.escape(character))  # RULE (glob-letters)
    joined = ["".join(run) for run in runs]
    if len(joined) == 1:
        return f"(?s:{joined[0]})"
    middle = "".join(f"(?>.*?{run})" for run in joined[1:-1] if run)
    return f"(?s:{joined[0]}{middle}.*{joined[-1]})"


def parent(pieces: GlobPieces, separator: str) -> GlobPieces | None:
    """Return what stands before the last separator; None when there is none."""
    for i in range(len(pieces) - 1, -1, -1):
        text, live = pieces[i]
        if separator in text:
            return (*pieces[:i], (text.rpartition(separator)[0], live))
    return None


def may_go_on(pieces: GlobPieces, asked: str) -> bool:
    """Say whether Ranger's engine takes `asked` for the beginning of something that the glob matches.

    It does so when all of the glob has been met, whatever follows in `asked`, and behind a `*` that nothing
    has followed yet. For a `?` there must be a character in `asked`.
    """
    tokens = _tokens(pieces)
    ways = [(0, 0, False)]
    """Still to be tried: the token, where in `asked`, whether a `*` stands before it."""
    tried: set[tuple[int, int]] = set()
    free = False
    while ways:
        number, place, free = ways.pop()
        for at in range(number, len(tokens)):
            text, live = tokens[at]
            if live and text == "?":
                place += 1
                if place > len(asked):
                    break
                free = False
            elif live:
                free = True
                if at == len(tokens) - 1:
                    place = len(asked)
            else:
                begun = text[: len(asked) - place]
                found = asked.find(begun, place) if free else place
                if found < 0 or not asked.startswith(begun, found):  # RULE (prefix-glob)
                    break
                again = asked.find(begun, found + 1) if free else -1
                if again >= 0 and (at, again) not in tried:
                    tried.add((at, again))
                    ways.append((at, again, True))
                place, free = found + len(begun), False  # RULE (prefix-past-star)
        else:
            return True
    return free


def _tokens(pieces: GlobPieces) -> list[tuple[str, bool]]:
    """Return the glob as wildcards, each by itself and no `*` twice in a row, and the texts between them."""
    tokens: list[tuple[str, bool]] = []
    for text, live in pieces:
        for character in text:
            wild = live and character in "*?"
            if wild and not (character == "*" and tokens and tokens[-1] == ("*", True)):
                tokens.append((character, True))
            elif not wild and tokens and not tokens[-1][1]:
                tokens[-1] = (tokens[-1][0] + character, False)
            elif not wild:
                tokens.append((character, False))
    return tokens
