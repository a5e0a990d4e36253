"""A policy's values at one level become one matcher; values are never compared in any other place.

Ranger's default, path and URL matchers: `*` is any run of characters, `?` exactly one, the whole value must
match, case matters or not as the service definition says. Substituted tokens are matched literally: a user
called `*` is no wildcard (a deviation from Ranger, on the safe side).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from gateway.model.policy import ResourceDef, ResourceValues
from gateway.policy.paths import canonical

_TOKEN = re.compile(r"\\(?P<escaped>[{}])|\{(?P<token>USER|OWNER)\}")
_MAX_REMEMBERED = 4096
_REMEMBERED_LENGTH = 128
"""Longer names than anybody gives are folded each time, so that they cannot fill the memory."""
_MAX_SEGMENTS = 512
"""More segments than any real path; keeps a hostile path from costing more than a page of work."""


def fold(text: str) -> str:
    """Return `text` as Java's `equalsIgnoreCase` sees it, character by character.

    That is how Spark resolves names. `str.lower` differs: `ſ` and `K` (Kelvin) must meet `s` and `k` here.
    """
    return _remembered_fold(text) if len(text) <= _REMEMBERED_LENGTH else _fold(text)


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(_fold_character, text))


_remembered_fold = lru_cache(maxsize=65_536)(_fold)


def _fold_character(character: str) -> str:
    upper = character.upper()
    single = upper if len(upper) == 1 else character
    lower = single.lower()
    return lower if len(lower) == 1 else "i" if single == "İ" else single


@dataclass(frozen=True, slots=True)
class Asker:
    """What tokens stand for: the user who asks and the owner of the resource, if known."""

    user: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a value: a token's name, or text in which wildcards still mean what they mean."""

    text: str
    token: bool = False
    literal: bool = False


def _parts(value: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    position = 0
    for found in _TOKEN.finditer(value):
        if found.start() > position:
            parts.append(_Part(value[position : found.start()]))
        if found["token"]:
            parts.append(_Part(found["token"], token=True))
        else:
            parts.append(_Part(found["escaped"], literal=True))
        position = found.end()
    if position < len(value):
        parts.append(_Part(value[position:]))
    return tuple(parts)


def is_dynamic(value: str) -> bool:
    """Return whether the value's meaning depends on who asks."""
    return "{" in value and any(part.token for part in _parts(value))


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


class _Value:
    """One policy value that is not a plain literal: wildcards, tokens or a recursive path."""

    __slots__ = ("_dynamic", "_fold", "_parts", "_patterns", "_plain", "_recursive", "_static", "_wild")

    def __init__(self, value: str, definition: ResourceDef, recursive: bool) -> None:
        wild = definition.wildcard
        if definition.is_path and wild and value.endswith("/"):
            value += "*"
        self._wild = wild and has_wildcard(value)
        self._fold = definition.ignore_case
        self._recursive = recursive and definition.is_path
        self._plain = self._recursive and not self._wild
        self._parts = _parts(value.rstrip("/") if self._plain else value)
        self._dynamic = any(part.token for part in self._parts)
        self._patterns: dict[Asker, re.Pattern[str] | None] = {}
        self._static = None if self._dynamic else self._compile(Asker(""))

    def _compile(self, asker: Asker) -> re.Pattern[str] | None:
        pieces: list[tuple[str, bool]] = []
        for part in self._parts:
            text = part.text
            if part.token:
                known = asker.user if text == "USER" else asker.owner
                if not known:
                    return None  # an unknown owner owns nothing
                text = known
            pieces.append(
                (fold(text) if self._fold else text, self._wild and not part.token and not part.literal)
            )
        pattern = glob(pieces)
        return re.compile(pattern + "(?s:/.*)?" if self._plain else pattern)

    def matches(self, value: str, asker: Asker) -> bool:
        pattern = self._static
        if self._dynamic:
            if asker not in self._patterns:
                if len(self._patterns) >= _MAX_REMEMBERED:
                    self._patterns.clear()
                self._patterns[asker] = self._compile(asker)
            pattern = self._patterns[asker]
        if pattern is None:
            return False
        if self._recursive and self._wild:
            return any(pattern.fullmatch(part) for part in leading_paths(value))
        return pattern.fullmatch(value) is not None


def leading_paths(path: str) -> list[str]:
    """Return the path's leading sub-paths, segment by segment, the whole path last."""
    scheme = path.find("://")
    start = scheme + 3 if scheme >= 0 else 1
    ends = [i for i in range(start, len(path)) if path[i] == "/"][:_MAX_SEGMENTS]
    return [path[:end] for end in ends] + [path]


class LevelMatcher:
    """Says whether a requested value at one level is among a policy's values there."""

    __slots__ = ("_others", "any", "dynamic", "excludes", "fold", "literals")

    def __init__(self, definition: ResourceDef, values: ResourceValues) -> None:
        self.excludes = values.excludes
        self.fold = definition.ignore_case
        kept = [v for v in values.values if v.strip()]
        self.any = not kept or (definition.wildcard and any(not v.strip("*") for v in kept))
        """Whether every value matches, also the absent one; with `excludes` nothing does."""
        self.dynamic = any(map(is_dynamic, kept))
        literals, others = set[str](), list[_Value]()
        for value in map(canonical, kept) if definition.is_path else kept:
            if definition.needs_scheme and value.strip("*") and ":" not in value:
                continue
            wild = definition.wildcard and (
                has_wildcard(value) or (definition.is_path and value.endswith("/"))
            )
            recursive = values.recursive and definition.is_path
            if wild or recursive or "{" in value or "\\" in value:
                others.append(_Value(value, definition, values.recursive))
            else:
                literals.add(fold(value) if self.fold else value)
        self.literals = frozenset(literals)
        self._others = tuple(others)

    @property
    def is_literal(self) -> bool:
        """Whether membership in `literals` is the whole answer, so that an index may use them as keys."""
        return not (self.any or self.excludes or self._others)

    @property
    def never(self) -> bool:
        """Whether no value can match: everything is excluded."""
        return self.any and self.excludes

    def matches(self, value: str, asker: Asker) -> bool:
        """Say whether `value`, folded already when `fold` is set, matches; `` and `*` mean all values."""
        if self.any:
            return not self.excludes
        if value in ("", "*"):
            return False
        return self.excludes != (
            value in self.literals or any(other.matches(value, asker) for other in self._others)
        )
