"""Paths that are not what they look like are told from plain ones before any policy is asked.

Hadoop resolves `..` and expands globs after us: `s3://lake/in/../secret` starts with `s3://lake/in/`, and
`s3://lake/{in,secret}` names two directories. Both would pass a comparison of texts. Delta takes a version
off the end: `s3://lake/secret@v1` is `s3://lake/secret` as it was.
"""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"[/\\{},]")
_DOT = re.compile(r"%2e", re.IGNORECASE)
_SEPARATOR_CODE = re.compile(r"%(?:2f|5c)", re.IGNORECASE)
_VERSION = re.compile(r"@[vV]?\d+/*$")
_START = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<slashes>/*)")
_SLASHES = re.compile(r"/{2,}")
_GLOB = re.compile(r"[*?\[{\\]")


def canonical(path: str) -> str:
    """Return the one spelling of what Hadoop takes as one path.

    `s3://b//x` is `s3://b/x`, `file:/x` is `file:///x`.
    """
    start = _START.match(path)
    if start is None:
        return _SLASHES.sub("/", path)
    rest = _SLASHES.sub("/", path[start.end() :])
    # Two slashes are followed by an authority; one, three or more begin the path itself.
    return f"{start['scheme']}:{'//' if len(start['slashes']) == 2 else '///'}{rest}"


def has_scheme(path: str) -> bool:
    return _START.match(path) is not None


def deviates(path: str) -> bool:
    """Return whether the path holds `.` or `..` segments, in any spelling, also inside glob alternatives,
    or ends with a version of Delta's."""
    decoded = _SEPARATOR_CODE.sub("/", _DOT.sub(".", path))
    return bool(_VERSION.search(path)) or any(
        segment in (".", "..") for segment in _SEPARATORS.split(decoded)
    )


def cut_at_glob(path: str) -> str:
    """Return the path up to its first glob character: everything it can name starts so."""
    found = _GLOB.search(path)
    return path[: found.start()] if found else path


def may_reach(path: str, value: str) -> bool:
    """Return whether reading `path` may read something below it that the policy value `value` names.

    Reading a directory reads what is in it, so a denial further down matters. Errs on the side of yes.
    """
    if not has_scheme(path):
        return True  # whose default file system?
    path_part, value_part = cut_at_glob(path), cut_at_glob(value.split("{", 1)[0])
    if path_part != path:
        return value_part.startswith(path_part) or path_part.startswith(value_part)
    bare = path.rstrip("/")
    if bare != path and value_part == bare:
        return True  # to Hadoop `x/` is `x`, also where that is a file
    return value_part.startswith(bare + "/") or (value_part != value and path.startswith(value_part))
