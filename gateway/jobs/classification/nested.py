"""Values within values: what JSON of nested types, and JSON in texts, holds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MAX_TEXT = 4_000
"""Characters of a value that are looked at."""
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(:)?')
MAX_LEAVES = 500
"""Values that one nested value gives."""
MAX_DEPTH = 20
MAX_KEYS = 200
"""Keys that are looked at, each like a column."""
MANY_KEYS = 20
"""So many keys of one object that are each in few texts are data."""
FEW_TEXTS = 0.05
"""Share of the texts that a key is in which is data; where it is in one, there have to be `LEAST_TEXTS`."""
LEAST_TEXTS = 5
_Path = tuple[str, ...]
FILLERS = frozenset(
    """n/a n.a. na nan nil null none (null) undefined unknown tbd tba todo test xxx empty missing unbekannt
    keine leer k.a. inconnu aucun desconocido ninguno sconosciuto nessuno desconhecido onbekend geen brak
    ukjent ukendt bilinmiyor""".split()
)
"""Placeholders that people enter in place of a value."""


class Inner(NamedTuple):
    """Values within JSON that are like a column."""

    path: _Path
    """The keys that lead to it, without those that are data."""
    values: list[str]


class _Leaf(NamedTuple):
    text: int
    """Index of the text that holds it."""
    path: _Path
    value: str
    """Empty for what is none: null, true, false."""
    times: int


def inner_columns(
    texts: Iterable[tuple[str, int]], *, fields: Iterable[str] = (), maps: bool = False
) -> list[Inner]:
    """Return what is in JSON as columns, those of most values first; each text with how often it counts.

    Keys that are data, as those of maps, make one column more, and the values under all of them another one,
    both named like what they are in. They are keys that many texts have not in common, and with `maps` all;
    none of `fields`.
    """
    found = [
        _Leaf(number, path, value, count)
        for number, (text, count) in enumerate(texts)
        for path, value in leaves(text) or ()
    ]
    descent = _Descent({field.lower() for field in fields}, maps=maps)
    descent.into(found, (), 0, split=True)
    return sorted(descent.columns, key=lambda one: -len(one.values))[:MAX_KEYS]


_BEGINS = re.compile(r'\{\s*"|\[\s*["{\[]')
"""JSON, and no text that has something in brackets before it."""


class _Descent:
    def __init__(self, fields: Collection[str], *, maps: bool) -> None:
        self._fields, self._maps = fields, maps
        self.columns: list[Inner] = []

    def into(self, found: Sequence[_Leaf], path: _Path, depth: int, *, split: bool) -> None:
        """Take what is `depth` keys deep, and all below; without `split` no key is data."""
        by_key: dict[str, list[_Leaf]] = {}
        for leaf in found:
            if len(leaf.path) > depth:
                by_key.setdefault(leaf.path[depth], []).append(leaf)
        self._take(path, ((leaf.value, leaf.times) for leaf in found if len(leaf.path) == depth))
        texts = {key: {leaf.text: leaf.times for leaf in below} for key, below in by_key.items()}
        data = self._data(texts) if split else frozenset()
        for key, below in by_key.items():
            self.into(below, (*path, key), depth + 1, split=split and key not in data)
        if data:
            self._take(path, ((key, count) for key in texts if key in data for count in texts[key].values()))
            below = [leaf for key in by_key if key in data for leaf in by_key[key]]
            self.into(below, path, depth + 1, split=True)

    def _take(self, path: _Path, values: Iterable[tuple[str, int]]) -> None:
        if taken := [value for value, count in values if value for _ in range(count)]:
            self.columns.append(Inner(path, taken))

    def _data(self, texts: Mapping[str, Mapping[int, int]]) -> frozenset[str]:
        """Return which keys of an object are data, by the texts that each is in."""
        keys = frozenset(key for key in texts if key.lower() not in self._fields)
        if self._maps:
            return keys
        total = len({text for key in texts for text in texts[key]})
        rare = frozenset(key for key in keys if len(texts[key]) <= max(1, FEW_TEXTS * total))
        return rare if len(rare) >= (MANY_KEYS if total >= LEAST_TEXTS else MAX_KEYS) else frozenset()


def leaves(text: str) -> list[tuple[_Path, str]] | None:
    """Return the values within JSON, each with the keys that lead to it; None for what is no JSON.

    What is no value is an empty one. A text that was cut gives what is whole in it, each with its last key.
    """
    found = _parse(text)
    return _cut_leaves(text) if found is None else found


def is_whole_json(text: str) -> bool:
    """Whether a text is JSON from its beginning to its end."""
    return _parse(text) is not None


def _parse(text: str) -> list[tuple[_Path, str]] | None:
    try:
        found: list[tuple[_Path, str]] = []
        _gather(json.loads(text), (), found)
    except (ValueError, RecursionError):
        return None
    return found


def is_json(text: str, *, cut: bool = False) -> bool:
    """Whether a text is an object or a list that something can be taken from, going by its ends first; by its
    beginning where it was cut."""
    if cut:
        like = _BEGINS.match(text) is not None
    else:
        like = len(text) > 1 and (text[0], text[-1]) in (("{", "}"), ("[", "]"))
    return like and leaves(text) is not None


def _gather(value: Any, path: _Path, found: list[tuple[_Path, str]]) -> None:
    if len(found) >= MAX_LEAVES or len(path) > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            _gather(inner, (*path, key), found)
    elif isinstance(value, list):
        for inner in value:
            _gather(inner, path, found)
    else:
        found.append((path, "" if value is None or isinstance(value, bool) else str(value)))


def _cut_leaves(text: str) -> list[tuple[_Path, str]] | None:
    if not text.startswith(("{", "[")):
        return None
    found: list[tuple[_Path, str]] = []
    key: _Path = ()
    for one in _STRING.finditer(text):
        if one[2]:
            key = (one[1],)
        found.append((key, "" if one[2] else one[1]))
        if len(found) >= MAX_LEAVES:
            break
    return found or None


def distinct(values: Iterable[str]) -> dict[str, int]:
    """Return each value with how often it is there, without the space around it.

    Empty ones are none, nor are those that only say so, as `n/a` and `-`.
    """
    return Counter(text for value in values if _says_something(text := value[:MAX_TEXT].strip()))


def _says_something(text: str) -> bool:
    return len(text) > 10 or (any(map(str.isalnum, text)) and text.lower() not in FILLERS)
