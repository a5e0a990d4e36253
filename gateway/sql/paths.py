"""Files that a statement names by their path: in a relation, ``parquet.`/p` ``, or elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.model.resource import Resource
from gateway.model.table_formats import DELTA, SPARK_FORMATS
from gateway.sql.required import Privilege

FILE_FORMATS = SPARK_FORMATS | {DELTA.name}
"""Formats whose path is a path. A path of the others may be the name of a table."""

_PATTERN = re.compile(r"[*?\[\]{}\\\x00-\x1f]|(?:^|/)\.\.(?:/|$)|@[vV]?\d+/*$")
"""Delta takes a version off the end of a path: `/t@v3` is `/t` as it was."""
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/")


@dataclass(frozen=True, slots=True)
class FilesByPath:
    """What a relation's name of two parts means where the first is a format and the second a path."""

    format: str
    path: str


def explain_path(path: str, clipped: str) -> str | None:
    """Say why a path may mean more than one place, None when it means one: it has no pattern, no way up and
    no version of Delta's in it. `clipped`: as messages have it."""
    if path.strip() and not _PATTERN.search(path):  # RULE (path-patterns)
        return None
    return (
        f"the path `{clipped}` is empty or contains `..`, wildcards, backslashes or a version "
        "(`@v1`), so it could match other files than policies check; write the full path"
    )


def explain_relative_path(path: str, clipped: str) -> str | None:
    """Say the same of a path in SQL, which also has to begin at a root: nobody here knows where a relative
    one begins."""
    if not _ABSOLUTE.match(path):  # RULE (relative-path)
        return f"the path `{clipped}` is relative; write the full path"
    return explain_path(path, clipped)


def on_path(path: str, *accesses: str) -> tuple[Privilege, ...]:
    """Return what reading or writing files at a path wants."""
    return tuple(Privilege(Resource.url(path), access) for access in accesses)


def read_urls(privileges: Iterable[Privilege]) -> tuple[tuple[str, str], ...]:
    """Return the urls whose files are read or written, each with the access."""
    return tuple(
        dict.fromkeys(
            (one.resource.elements[-1][1], one.access)
            for one in privileges
            if one.resource.kind == "url" and not one.tells_only
        )
    )
