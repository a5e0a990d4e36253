"""A source is walked for directories that are no tables and could be, so many in one round.

A walk finds, and makes nothing: files become a table at the word of a user who may, and nobody has spoken. It
reads no file either; what their format is, and whether they can be a table, is found out when they are named.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate, islice

from gateway.files.formats import DELTA, MARKS, table_format
from gateway.files.hidden import compile_glob, is_hidden
from gateway.files.links import DEEPEST, LeadsOut, open_below, require_no_links
from gateway.files.looking import Looking, Nothing, UnfitFiles
from gateway.files.taken import RunQuery
from gateway.model.files import FileSource

_AT_ONCE = 100
"""Directories that Spark is asked about in one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Files that a round found in a source. Directories of partitions count for the one that has them."""

    files: Mapping[str, int]
    """Path → files in it, of directories and of files in the root."""
    formats: Mapping[str, str]
    """Path → format of the table that a directory is; empty where it is none."""
    reached: str
    """Where the next round goes on; empty: everything was seen."""
    unread: int = 0
    """Directories that could not be looked at."""


class Walking:
    """Looks at so many directories of a source as its settings allow for a round."""

    def __init__(self, query: RunQuery, refusal: type[Exception], *, timeout_s: float = 300.0) -> None:
        self._looking = Looking(query, refusal)
        self._timeout_s = timeout_s

    async def look(self, source: FileSource, after: str, known: Mapping[str, str]) -> Round:
        """Look at what comes after a path. `known`: path → table format, of what was seen before. Raises
        UnfitFiles."""
        if source.is_local:
            try:
                return await asyncio.to_thread(_look_here, source, after)
            except LeadsOut as why:
                raise UnfitFiles(str(why)) from None
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._look_by_spark(source, after, known)
        except Nothing:
            raise UnfitFiles("its root is missing") from None
        except TimeoutError:
            raise UnfitFiles(f"Spark did not list its files within {self._timeout_s:.0f} s") from None

    async def reach(self, source: FileSource) -> int:
        """Return how many files lie below the root of a source, which is a directory that Spark can list, and
        the gateway as well where it has to. Raises UnfitFiles, with what is wrong.

        A local one with links in it is left to the gateway: Spark follows them, in circles too.
        """
        try:
            if source.is_local:
                local = source.root.removeprefix("file:")
                os.close(await asyncio.to_thread(open_root, local))
                try:
                    counts = compile_glob(source.pattern)
                    await asyncio.to_thread(require_no_links, local, (), source.files, counts=counts)
                except LeadsOut:
                    return sum((await self.look(source, "", {})).files.values())
            async with asyncio.timeout(self._timeout_s):
                return await self._looking.count(source)
        except LeadsOut as why:
            raise UnfitFiles(str(why)) from None
        except Nothing:
            raise UnfitFiles("its root is missing for Spark") from None
        except TimeoutError:
            raise UnfitFiles(f"Spark did not list its files within {self._timeout_s:.0f} s") from None

    async def _look_by_spark(self, source: FileSource, after: str, known: Mapping[str, str]) -> Round:
        rows = await self._looking.directories(source, after, source.walk + 1)
        reached = rows[source.walk - 1][0] if len(rows) > source.walk else ""
        files, formats, new = await asyncio.to_thread(_list_files, source, rows[: source.walk], known)
        for at in range(0, len(new), _AT_ONCE):
            part = new[at : at + _AT_ONCE]
            formats |= dict.fromkeys(part, "") | dict(await self._looking.tables(source, part))
        return Round(files=files, formats=formats, reached=reached)


def _list_files(
    source: FileSource, rows: Sequence[tuple[str, int]], known: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str], Sequence[str]]:
    """Return the files by the path of the table that they could be, the table formats that are known of these
    paths and those above, in which the files of a table may lie, and of which paths none is known."""
    files = _by_table(source, ((tuple(path.split("/")), count) for path, count in rows))
    above = {one for path in files for one in _prefixes(path)}
    return files, {path: known[path] for path in above if path in known}, sorted(above - known.keys())


def _look_here(source: FileSource, after: str) -> Round:
    """Look at local directories; files in them count as much for a round as they may in one table."""
    counted: list[tuple[SourcePath, int]] = []
    formats: dict[str, str] = {}
    reached, unread, seen, left = "", 0, 0, source.files
    walk = directories(
        source.root.removeprefix("file:"),
        tuple(after.split("/")) if after else (),
        counts=compile_glob(source.pattern),
        goes_into=lambda path: _can_lead(source, path),
    )
    with closing(walk):
        for one in walk:
            if reached and (seen >= source.walk or left <= 0):
                break
            seen, left, reached = seen + 1, left - one.files, "/".join(one.path)
            unread += not one.is_read
            if one.table_format is not None:
                formats[reached] = one.table_format
            if not one.path:
                counted += [((name,), 1) for name in one.names]
            elif one.files or one.table_format is not None:
                counted.append((one.path, one.files))
        else:
            reached = ""
    return Round(files=_by_table(source, counted), formats=formats, reached=reached, unread=unread)


def _can_lead(source: FileSource, path: SourcePath) -> bool:
    """Say whether there can be files below a directory that have a name."""
    if "=" in path[-1]:
        return path[-1].isprintable()
    return _has_name(source, path)


def _has_name(source: FileSource, path: SourcePath) -> bool:
    try:
        source.table(path)
    except ValueError:
        return False
    return True


def _by_table(source: FileSource, counted: Iterable[tuple[SourcePath, int]]) -> dict[str, int]:
    """Return how many files there are by the path of the table that they could be."""
    found: dict[str, int] = {}
    for path, files in counted:
        while len(path) > 1 and "=" in path[-1]:
            path = path[:-1]
        if path and _has_name(source, path):
            found["/".join(path)] = found.get("/".join(path), 0) + files
    return found


def not_tables(
    source: FileSource, seen: Mapping[str, tuple[int, str]], datasets: Sequence[str]
) -> dict[str, int]:
    """Return the paths that could become tables, with their files: of what was `seen` (files and table
    format), what shares no files with one of the `datasets` and lies in no table of a format."""
    kept = {path for path, (_, format_) in seen.items() if format_}
    taken = set(datasets)
    above_datasets = {one for path in datasets for one in _prefixes(path)}
    found = {}
    for path, (files, format_) in seen.items():
        above = _prefixes(path)
        if not files and not format_:
            continue
        if format_ and not (format_.lower() == DELTA and DELTA in source.formats):
            continue
        if path in above_datasets or not kept.isdisjoint(above[:-1]) or not taken.isdisjoint(above):
            continue
        found[path] = files
    return found


def _prefixes(path: str) -> list[str]:
    return ["/".join(one) for one in accumulate((name,) for name in path.split("/"))]


# Local directories one after the other: names alone, no links, and no more of them than is asked for.


_MAX_ENTRIES = 1_000_000
"""Maximum number of entries read of one directory."""
_MAX_NAMES = 10_000
"""Files in the root that are seen one by one."""
SourcePath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, by the names below the root that lead to it."""

    path: SourcePath
    files: int = 0
    """How many files are in it that are not empty."""
    names: tuple[str, ...] = ()
    """Names of the entries of the root."""
    table_format: str | None = None
    """The format of the table that it is; nothing that lies in it is looked at then."""
    is_read: bool = True
    """Whether it could be looked at."""


def directories(
    root: str,
    after: SourcePath,
    *,
    counts: Callable[[str], bool],
    goes_into: Callable[[SourcePath], bool],
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
        raise LeadsOut("its root is missing") from None
    except NotADirectoryError:
        raise LeadsOut("its root is not a directory") from None
    except OSError:
        raise LeadsOut("its root cannot be read by the gateway") from None


def _below(
    at: int,
    path: SourcePath,
    after: SourcePath,
    counts: Callable[[str], bool],
    goes_into: Callable[[SourcePath], bool],
) -> Generator[Directory]:
    try:
        files, names, inner = _entries(at, counts)
    except OSError:
        yield Directory(path, is_read=False)
        return
    found = table_format([name for name in _MARKED if name in inner and _has_mark(at, name)])
    if path > after or not after:
        yield Directory(path, files, () if path else tuple(names), found)
    if found is not None or len(path) >= DEEPEST:
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
        for entry in islice(entries, _MAX_ENTRIES):
            if entry.is_dir(follow_symlinks=False):
                inner.add(entry.name)
            elif (
                entry.is_file(follow_symlinks=False)
                and not is_hidden(entry.name)
                and counts(entry.name)
                and entry.stat(follow_symlinks=False).st_size
            ):
                files += 1
                if len(names) < _MAX_NAMES:
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
