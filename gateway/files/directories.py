"""Local directories one after the other: names alone, no links, and no more of them than is asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice

from gateway.files.formats import MARKS, table_format
from gateway.files.links import LeadsOut, open_below

_DEEPEST = 32
"""Directories above one that is looked at, those of partitions counted as well."""
_MOST_ENTRIES = 1_000_000
"""Of one directory that are looked at."""
_MOST_NAMES = 10_000
"""Files in the root that are seen one by one."""
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, by the names below the root that lead to it."""

    path: Path
    files: int = 0
    """How many files are in it that are not empty."""
    names: tuple[str, ...] = ()
    """Of the root, their names."""
    table_format: str | None = None
    """The format of the table that it is; nothing that lies in it is looked at then."""
    is_read: bool = True
    """Whether it could be looked at."""


def directories(
    root: str,
    after: Path,
    *,
    counts: Callable[[str], bool],
    goes_into: Callable[[Path], bool],
) -> Generator[Directory]:
    """Yield the root and the directories below it that come after one, in the order of their paths.

    `counts` says which names are files that count, `goes_into` which directories are looked at. Raises
    LeadsOut where the root cannot be looked at.
    """
    at = open_root(root)
    try:
        yield from _below(at, (), after, counts, goes_into)
    finally:
        os.close(at)


def open_root(root: str) -> int:
    """Open the directory of a source, which may be reached by links. Raises LeadsOut, with what is wrong."""
    try:
        # Not to be read shows here, and not only when its entries are asked for.
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise LeadsOut("its root is not there") from None
    except NotADirectoryError:
        raise LeadsOut("its root is no directory") from None
    except OSError:
        raise LeadsOut("its root cannot be read by the gateway") from None


def _below(
    at: int,
    path: Path,
    after: Path,
    counts: Callable[[str], bool],
    goes_into: Callable[[Path], bool],
) -> Generator[Directory]:
    try:
        files, names, inner = _entries(at, counts)
    except OSError:
        yield Directory(path, is_read=False)
        return
    found = table_format([name for name in _MARKED if name in inner and _has_mark(at, name)])
    if path > after or not after:
        yield Directory(path, files, () if path else tuple(names), found)
    if found is not None or len(path) >= _DEEPEST:
        return
    for name in sorted(inner):
        below = (*path, name)
        # Before the place where the last round stopped, only what leads to it is looked at again.
        if is_hidden(name) or not goes_into(below) or not (below > after or after[: len(below)] == below):
            continue
        try:
            opened = open_below(name, at)
        except LeadsOut:
            yield Directory(below, is_read=False)
            continue
        try:
            yield from _below(opened, below, after, counts, goes_into)
        finally:
            os.close(opened)


def _entries(at: int, counts: Callable[[str], bool]) -> tuple[int, list[str], set[str]]:
    """Return how many files count and are not empty, names of some, and directories. Raises OSError."""
    files, names = 0, list[str]()
    inner: set[str] = set()
    with os.scandir(at) as entries:
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.is_dir(follow_symlinks=False):
                inner.add(entry.name)
            elif (
                entry.is_file(follow_symlinks=False)
                and not is_hidden(entry.name)
                and counts(entry.name)
                and entry.stat(follow_symlinks=False).st_size
            ):
                files += 1
                if len(names) < _MOST_NAMES:
                    names.append(entry.name)
    return files, names, inner


_MARKED = tuple(dict.fromkeys(mark.partition("/")[0] for mark in MARKS))


def _has_mark(at: int, name: str) -> bool:
    """Say whether a directory of that name has the file in it that makes the one around it a table."""
    patterns = [mark.partition("/")[2] for mark in MARKS if mark.startswith(f"{name}/")]
    try:
        opened = open_below(name, at)
    except LeadsOut:
        return False
    try:
        with os.scandir(opened) as entries:
            return any(fnmatchcase(entry.name, pattern) for entry in entries for pattern in patterns)
    except OSError:
        return False
    finally:
        os.close(opened)


def is_hidden(name: str) -> bool:
    """Say whether Spark hides a file or directory by its name."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def matching(pattern: str) -> Callable[[str], bool]:
    """Return what says whether a name matches a glob as Hadoop has them; every one does an empty one."""
    if not pattern:
        return lambda _: True
    written = {"*": ".*", "?": ".", "{": "(?:", "}": ")", ",": "|", "[": "[", "]": "]", "^": "^", "-": "-"}
    try:
        made = re.compile("".join(written.get(sign, re.escape(sign)) for sign in pattern))
    except re.error:
        return lambda _: True  # what Hadoop makes of it is told when a table is made
    return lambda name: made.fullmatch(name) is not None
