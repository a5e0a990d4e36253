"""JDBC's search patterns: `%` any run, `_` any one character, a backslash before either means itself.

Never a regular expression of the client's: Spark hands `t|v%` and `.*` to one, which is how a pattern that
was checked as text matches more than it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_PATTERN_CHARS = 1024


def is_everything(pattern: str | None) -> bool:
    """Whether the pattern does not narrow: None, nothing, `%`, and what drivers for Hive say instead, `*`
    (Hive's own wildcard) and `.*` (impyla)."""
    return pattern is None or pattern in ("", "%", "*", ".*")


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Return whether a name matches the pattern, case being insignificant."""
    if pattern is None or is_everything(pattern):
        return lambda name: True
    if len(pattern) > MAX_PATTERN_CHARS:
        return lambda name: False
    compiled = re.compile(_translate(pattern), re.IGNORECASE | re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def _translate(pattern: str) -> str:
    written: list[str] = []
    escaped = False
    for character in pattern:
        if escaped:
            if character not in "%_\\":
                # A backslash before anything else is a backslash.
                written.append(r"\\")
            written.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "%":
            # Runs collapse: `%%%%…a` would make matching exponential.
            if not written or written[-1] != ".*":
                written.append(".*")
        elif character == "_":
            written.append(".")
        else:
            written.append(re.escape(character))
    if escaped:
        written.append(r"\\")
    return "".join(written)
