"""Values within values: what JSON of nested types, and JSON in texts, holds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

MOST_TEXT = 4_000
"""Characters of a value that are looked at."""
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(:)?')
MOST_LEAVES = 500
"""Values that one nested value gives."""
MOST_DEPTH = 20
FILLERS = frozenset(
    """n/a n.a. na nan nil null none (null) undefined unknown tbd tba todo test xxx empty missing unbekannt
    keine leer k.a. inconnu aucun desconocido ninguno sconosciuto nessuno desconhecido onbekend geen brak
    ukjent ukendt bilinmiyor""".split()
)
"""What people write where there is nothing to write."""


def leaves(text: str) -> list[tuple[tuple[str, ...], str]] | None:
    """Return the values within JSON, each with the keys that lead to it; None for what is no JSON.

    A text that was cut gives what is whole in it, each with its last key.
    """
    try:
        found: list[tuple[tuple[str, ...], str]] = []
        _gather(json.loads(text), (), found)
    except (ValueError, RecursionError):
        return _cut_leaves(text)
    return found


def is_json(text: str) -> bool:
    """Whether a text is an object or a list, going by its ends."""
    return len(text) > 1 and (text[0], text[-1]) in (("{", "}"), ("[", "]"))


def _gather(value: Any, path: tuple[str, ...], found: list[tuple[tuple[str, ...], str]]) -> None:
    if len(found) >= MOST_LEAVES or len(path) > MOST_DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            _gather(inner, (*path, key), found)
    elif isinstance(value, list):
        for inner in value:
            _gather(inner, path, found)
    elif value is not None and not isinstance(value, bool):
        found.append((path, str(value)))


def _cut_leaves(text: str) -> list[tuple[tuple[str, ...], str]] | None:
    if not text.startswith(("{", "[")):
        return None
    found: list[tuple[tuple[str, ...], str]] = []
    key: tuple[str, ...] = ()
    for one in _STRING.finditer(text):
        if one[2]:
            key = (one[1],)
        else:
            found.append((key, one[1]))
        if len(found) >= MOST_LEAVES:
            break
    return found or None


def distinct(values: Iterable[str]) -> dict[str, int]:
    """Return each value with how often it is there, without the space around it.

    Empty ones are none, nor are those that only say so, as `n/a` and `-`.
    """
    return Counter(text for value in values if _says_something(text := value[:MOST_TEXT].strip()))


def _says_something(text: str) -> bool:
    return len(text) > 10 or (any(map(str.isalnum, text)) and text.lower() not in FILLERS)
