"""Sources of files: which path a name means, and which table stands for it on Spark.

A table's name is made of the path alone and leads back to it, so every gateway gives a path the same name,
and no two paths share one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.model.catalog import TableName
from gateway.model.decision import Decision

SESSION_CATALOG = "spark_catalog"
"""Spark's own catalog, whose databases are not nested."""
MAX_NAME = 255
"""Characters of a table's name. Hive's metastore takes 256 since 2.3, AWS Glue 255."""

_SEGMENT = re.compile(r"[\w.=+@ -]+")
"""No separator, glob, quote, percent or backslash: what Hadoop or Spark would read as anything but a name."""
_ROOT = re.compile(r"(?P<start>file:/{1,3}|(?:hdfs|s3a|s3|gs|abfs|abfss|viewfs)://[\w.@:-]*/)(?P<rest>.*)")


@dataclass(frozen=True, slots=True)
class FileSource:
    """A directory whose files become tables when they are first named.

    `name` is the first part of the names that users write, `root` the URL of the directory without a slash at
    its end, `database` the database of Spark's session catalog that its tables are in, and no other tables.
    """

    name: str
    root: str
    database: str
    formats: tuple[str, ...]
    """Formats that are taken, in the order in which they are tried."""
    depth: int
    """Names below the root that a path may have."""
    leaf_columns: int
    """Columns that a table may have, fields of structures counted one by one."""
    files: int
    """Files that a table may have when it is made."""
    refresh_s: float = 0.0
    """Seconds after which a gateway looks at the files of a table again by itself, and for directories that
    are none; 0: never."""
    walk: int = 10_000
    """Directories that it looks at in one round for that; 0: it looks at tables alone."""
    auto_promote: bool = True
    """Whether naming files makes a table of them; if not, a statement or command for that does."""
    schema_learning: bool = False
    """Whether a table is made anew where it is looked at again and its files have other columns by now."""
    closed: bool = True
    """Whether a table is closed to all but its promoter and the administrators until a policy names it."""
    administrators: frozenset[str] = frozenset()
    """Groups whose members closed tables are not closed to."""
    pattern: str = ""
    """Glob of the names of files that count; empty: all that Spark does not hide."""

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of the machine, which the gateway looks into by itself."""
        return self.root.startswith("file:")

    def url(self, path: tuple[str, ...]) -> str:
        """Return the URL of a path below the root."""
        return "/".join((self.root, *path))

    def table(self, path: tuple[str, ...]) -> TableName:
        """Return the table that stands for a path. Raises ValueError, in words, when none can."""
        if not path:
            raise ValueError("names no file below its source")
        if len(path) > self.depth:
            raise ValueError(f"is deeper than the {self.depth} levels of its source")
        for segment in path:
            require_segment(segment)
        table = encode_table_name(path)
        if len(table) > MAX_NAME:
            raise ValueError(f"is too long for the name of a table ({len(table)} of {MAX_NAME} characters)")
        return TableName(SESSION_CATALOG, self.database, table)

    def path(self, table: str) -> tuple[str, ...] | None:
        """Return the path that a table's name stands for; None: for none that this source takes."""
        path = decode_table_name(table.lower())
        try:
            return path if path is not None and self.table(path).table == table.lower() else None
        except ValueError:
            return None


def require_segment(segment: str) -> None:
    """Raise ValueError when one name of a path could mean another file than it looks like, or none."""
    if segment.startswith((".", "_")):
        raise ValueError("names a hidden file or leads out of its source")
    _require_plain(segment)


def _require_plain(segment: str) -> None:
    if not _SEGMENT.fullmatch(segment) or segment != segment.strip():
        raise ValueError("has characters that are not allowed in paths")
    if unicodedata.normalize("NFKC", segment) != segment:
        raise ValueError("has characters that look like others, or that are not normalized (NFKC)")


def require_root(root: str) -> str:
    """Return a root in its one spelling. Raises ValueError when it is not a plain URL of a directory.

    It may lie in directories that would be hidden below it, such as `.run`: Spark hides what it finds, not
    what it is told to look into.
    """
    found = _ROOT.fullmatch(root)
    if found is None:
        raise ValueError("a source must be `file:/…`, `hdfs://host/…`, `s3a://bucket/…` or similar")
    start, rest = found["start"], found["rest"].rstrip("/")
    for segment in rest.split("/") if rest else ():
        if segment in (".", ".."):
            raise ValueError("the path of a source must not contain `.` and `..`")
        _require_plain(segment)
    if start.startswith("file:"):
        if not rest:
            raise ValueError("the root of a file system cannot be a source")
        start = "file:/"
    return f"{start}{rest}".rstrip("/")


def encode_table_name(path: tuple[str, ...]) -> str:
    """Return a path as the name of a table: `raw/page_views` is `raw__page_views`.

    `__` separates. Other characters than `a-z`, `0-9` and a `_` before one of them but `z` are `_z<hex>z`.
    """
    made = []
    for segment in path:
        name = []
        for at, character in enumerate(segment):
            after = segment[at + 1 : at + 2]
            plain = character in _PLAIN or (character == "_" and after in _AFTER and after != "")
            name.append(character if plain else f"_z{ord(character):x}z")
        made.append("".join(name))
    return "__".join(made)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_AFTER = _PLAIN - {"z"}
_TOKEN = re.compile(r"(?P<separator>__)|_z(?P<code>[0-9a-f]{1,6})z|(?P<plain>[a-z0-9]|_(?=[a-y0-9]))")


def decode_table_name(table: str) -> tuple[str, ...] | None:
    """Return the path of a name that `encode_table_name` made; None for other names."""
    segments, at = [""], 0
    while at < len(table):
        found = _TOKEN.match(table, at)
        if found is None or (found["code"] and int(found["code"], 16) > 0x10FFFF):
            return None
        if found["separator"]:
            segments.append("")
        else:
            segments[-1] += chr(int(found["code"], 16)) if found["code"] else found["plain"]
        at = found.end()
    path = tuple(segments)
    return path if all(path) and encode_table_name(path) == table else None


def source_of(sources: Iterable[FileSource], name: TableName) -> tuple[FileSource, tuple[str, ...]] | None:
    """Return the source and the path that a table stands for, None when it stands for none."""
    folded = name.fold()
    for source in sources:
        if folded.catalog == SESSION_CATALOG and folded.database == source.database.lower():
            path = source.path(folded.table)
            return (source, path) if path is not None else None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPromoted:
    """Why files do not become a table; becomes a Refused."""

    code: str
    sqlstate: str
    message: str
    decisions: tuple[Decision, ...] = ()
