"""Minor versions of Spark: which ones the gateway knows, and what each of them has otherwise.

Spark's grammar, plan classes, functions and messages change from minor to minor. What is not known of one is
not guessed: a Spark of another minor than these is refused.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from gateway.errors import SluiceError


class UnsupportedSpark(SluiceError):
    """A Spark of a minor version that the gateway does not know."""

    code = "UNSUPPORTED_SPARK"
    sqlstate = "0A000"


class Minor(NamedTuple):
    """A minor version; they are ordered as Spark released them."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


SUPPORTED = (Minor(3, 5), Minor(4, 0), Minor(4, 1), Minor(4, 2), Minor(4, 3))
"""Oldest first. Each has passed the reader's cases (`make minors`)."""
NEWEST = SUPPORTED[-1]

QUALIFIED_BUILTINS = Minor(4, 2)
"""Since this one, `system.builtin.f` is the built-in function `f`, whatever a session has registered. Before,
there are bare names alone, and a temporary function takes over. So no endpoint lets anybody make one with the
name of a built-in: CREATE FUNCTION is refused, and so are the names in `RESERVED_FUNCTIONS`."""
UNSEEDED_SAMPLES = Minor(4, 2)
"""Since this one, a TABLESAMPLE without REPEATABLE has no seed in its plan. Before, the parser draws one, so
that a text never reads the same twice, and cannot be proved."""

PLANS = Minor(4, 0)
"""Since this one, a Spark is given plans of Spark Connect. A server ignores fields that it does not know. One
of 3.5 would run an empty text, take TRY_CAST for CAST and lose the arguments of SQL; and a client that comes
back after its restart would go on in a new session, without the pinned settings, and nobody would notice."""
JSON_DESCRIPTIONS = Minor(4, 0)
"""Since this one, there is DESCRIBE … AS JSON. Before, a view's properties tell what it was made under."""

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(?![0-9])")


@functools.lru_cache(maxsize=64)
def minor_of(version: str) -> Minor:
    """Return the minor of a version such as `4.2.1`, also of one that is not known.

    Raises UnsupportedSpark when it does not begin with two numbers.
    """
    found = _VERSION.match(version)
    if found is None:
        raise UnsupportedSpark(f"`{version}` is not a Spark version")
    return Minor(int(found[1]), int(found[2]))


def find_supported_minor(version: str) -> Minor:
    """Return the minor of a version. Raises UnsupportedSpark when it is none that the gateway knows."""
    minor = minor_of(version)
    if minor not in SUPPORTED:
        known = ", ".join(map(str, SUPPORTED))
        raise UnsupportedSpark(f"Spark {version} is not supported; this gateway supports Spark {known}")
    return minor
