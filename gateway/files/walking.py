"""A source is walked for directories that are no tables and could be, so many in one round.

A walk finds, and makes nothing: files become a table at the word of a user who may, and nobody has spoken. It
reads no file either; what their format is, and whether they can be a table, is found out when they are named.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate

from gateway.files.directories import Path, directories, matching, open_root
from gateway.files.formats import DELTA
from gateway.files.links import LeadsOut, require_no_links
from gateway.files.looking import Looking, Nothing, Refused
from gateway.files.taken import Query
from gateway.model.files import FileSource

_AT_ONCE = 100
"""Directories that Spark is asked about in one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round has seen of a source. Directories of partitions count for the one that has them."""

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

    def __init__(self, query: Query, refusal: type[Exception], *, timeout_s: float = 300.0) -> None:
        self._looking = Looking(query, refusal)
        self._timeout_s = timeout_s

    async def look(self, source: FileSource, after: str, known: Mapping[str, str]) -> Round:
        """Look at what comes after a path. `known`: path → table format, of what was seen before. Raises
        Refused."""
        if source.root.startswith("file:"):
            try:
                return await asyncio.to_thread(_look_here, source, after)
            except LeadsOut as why:
                raise Refused(str(why)) from None
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._look_by_spark(source, after, known)
        except Nothing:
            raise Refused("its root is not there") from None
        except TimeoutError:
            raise Refused(f"Spark did not list its files within {self._timeout_s:.0f} s") from None

    async def reach(self, source: FileSource) -> int:
        """Return how many files lie below the root of a source, which is a directory that Spark can list, and
        the gateway as well where it has to. Raises Refused, with what is wrong.

        A local one with links in it is left to the gateway: Spark follows them, in circles too.
        """
        try:
            if source.root.startswith("file:"):
                local = source.root.removeprefix("file:")
                os.close(await asyncio.to_thread(open_root, local))
                try:
                    await asyncio.to_thread(require_no_links, local, (), source.files)
                except LeadsOut:
                    return sum((await self.look(source, "", {})).files.values())
            async with asyncio.timeout(self._timeout_s):
                return await self._looking.count(source)
        except LeadsOut as why:
            raise Refused(str(why)) from None
        except Nothing:
            raise Refused("its root is not there, as Spark sees it") from None
        except TimeoutError:
            raise Refused(f"Spark did not list its files within {self._timeout_s:.0f} s") from None

    async def _look_by_spark(self, source: FileSource, after: str, known: Mapping[str, str]) -> Round:
        rows = await self._looking.directories(source, after, source.walk + 1)
        reached = rows[source.walk - 1][0] if len(rows) > source.walk else ""
        files, formats, new = await asyncio.to_thread(_listed, source, rows[: source.walk], known)
        for at in range(0, len(new), _AT_ONCE):
            part = new[at : at + _AT_ONCE]
            formats |= dict.fromkeys(part, "") | dict(await self._looking.tables(source, part))
        return Round(files=files, formats=formats, reached=reached)


def _listed(
    source: FileSource, rows: Sequence[tuple[str, int]], known: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str], Sequence[str]]:
    """Return the files by the path of the table that they could be, the table formats that are known of these
    paths and those above, in which the files of a table may lie, and of which paths none is known."""
    files = _by_table(source, ((tuple(path.split("/")), count) for path, count in rows))
    above = {one for path in files for one in _prefixes(path)}
    return files, {path: known[path] for path in above if path in known}, sorted(above - known.keys())


def _look_here(source: FileSource, after: str) -> Round:
    """Look at local directories; files in them count as much for a round as they may in one table."""
    counted: list[tuple[Path, int]] = []
    formats: dict[str, str] = {}
    reached, unread, seen, left = "", 0, 0, source.files
    walk = directories(
        source.root.removeprefix("file:"),
        tuple(after.split("/")) if after else (),
        counts=matching(source.pattern),
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


def _can_lead(source: FileSource, path: Path) -> bool:
    """Say whether there can be files below a directory that have a name."""
    if "=" in path[-1]:
        return path[-1].isprintable()
    return _has_name(source, path)


def _has_name(source: FileSource, path: Path) -> bool:
    try:
        source.table(path)
    except ValueError:
        return False
    return True


def _by_table(source: FileSource, counted: Iterable[tuple[Path, int]]) -> dict[str, int]:
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
