"""JSON of a hundred megabytes, written bit by bit.

One call of a JSON library for all of it would hold the interpreter's lock for a second, and with it every
session of the gateway. Here it is held for less than a millisecond at a time; meant for a thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

SLICE_ENTRIES = 64
"""Entries of a list that are written in one go."""
_DEEPEST = 4
"""Levels that are written entry by entry: download, `securityZones`, zone, its policies."""


class Texts(list[str]):
    """A list of objects that are JSON already."""


def pieces(document: Any, depth: int = _DEEPEST) -> Iterator[bytes]:
    """Yield the JSON of a document in small parts. Raises TypeError for what JSON cannot hold."""
    if isinstance(document, Texts):
        yield b"["
        for at, text in enumerate(document):
            yield (b"," if at else b"") + text.encode()
        yield b"]"
    elif depth and isinstance(document, dict):
        yield b"{"
        for at, (key, value) in enumerate(document.items()):
            yield (b"," if at else b"") + orjson.dumps(key) + b":"
            yield from pieces(value, depth - 1)
        yield b"}"
    elif depth and isinstance(document, list):
        yield b"["
        for at in range(0, len(document), SLICE_ENTRIES):
            yield (b"," if at else b"") + orjson.dumps(document[at : at + SLICE_ENTRIES])[1:-1]
        yield b"]"
    else:
        yield orjson.dumps(document)
