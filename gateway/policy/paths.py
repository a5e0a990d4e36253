"""Paths that are not what they look like are told from plain ones before any policy is asked.

Hadoop resolves `..` and expands globs after us: `s3://lake/in/../secret` starts with `s3://lake/in/`, and
`s3://lake/{in,secret}` names two directories. Both would pass a comparison of texts.
"""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"[/\\{},]")
_DOT = re.compile(r"%2e", re.IGNORECASE)
_SEPARATOR_CODE = re.compile(r"%(?:2f|5c)", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[{\\]")


def deviates(path: str) -> bool:
    """Return whether the path holds `.` or `..` segments, in any spelling, also inside glob alternatives."""
    decoded = _SEPARATOR_CODE.sub("/", _DOT.sub(".", path))
    return any(segment in (".", "..") for segment in _SEPARATORS.split(decoded))


def fixed_part(path: str) -> str:
    """Return the path up to its first glob character: everything it can name starts so."""
    found = _GLOB.search(path)
    return path[: found.start()] if found else path


def may_reach(path: str, value: str) -> bool:
    """Return whether reading `path` may read something below it that the policy value `value` names.

    Reading a directory reads what is in it, so a denial further down matters. Errs on the side of yes.
    """
    path_part, value_part = fixed_part(path), fixed_part(value.split("{", 1)[0])
    if path_part != path:
        return value_part.startswith(path_part) or path_part.startswith(value_part)
    return value_part.startswith(path.rstrip("/") + "/") or (
        value_part != value and path.startswith(value_part)
    )
