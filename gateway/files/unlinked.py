"""Local directories of tables that have been looked through for links, by the stamps of their directories.

A link that comes later, or a directory that becomes one, changes the time of what it lies in, which nobody
can set back. So a statement costs a look at the directories, and the files are gone through when one has
changed. A link that is made between that check and Spark's read is not seen: docs/hardening.md says who must
not write there.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gateway.files.hidden import compile_glob
from gateway.files.links import LeadsOut, NotThere, require_no_links
from gateway.model.files import FileSource

MAX_KEPT = 200_000
"""Stamps of directories that are kept, of all tables; what has more is gone through for each statement."""
MAX_LOOKS = 4
"""Looks at once: one that hangs, on a file system whose server is away, has one of these threads alone."""
MAX_LOOK_S = 300.0
"""Seconds that a look may take; then the files are not read."""
SURE_AFTER_NS = 2_000_000_000
"""A younger stamp may be that of two changes, one of which came later: it is not relied on."""
ANY_NUMBER = 10**12
"""Files that a table may have by now: its source bounds what becomes one."""


class _Stamp(NamedTuple):
    """Stamp of the file or directory at a path: kind, device, inode and change time."""

    path: str
    kind: int
    device: int
    inode: int
    changed_ns: int
    """When; 0 of what a table lies in, where others come and go."""


class Unlinked:
    """Remembers which directories were walked, of all tables of local sources."""

    def __init__(self, clock: Callable[[], int] = time.time_ns, *, within_s: float = MAX_LOOK_S) -> None:
        self._clock = clock
        self._within_s = within_s
        self._threads = ThreadPoolExecutor(MAX_LOOKS, thread_name_prefix="sluice-links")
        self._kept: OrderedDict[tuple[str, tuple[str, ...]], tuple[_Stamp, ...]] = OrderedDict()
        self._count = 0
        self.walks = 0
        """How often files were gone through."""

    async def trouble(self, source: FileSource, path: tuple[str, ...]) -> str | None:
        """Say why local files may not be read, None when there is no link among them, or nothing at all."""
        if not source.is_local:
            return None
        known = self._kept.get((source.root, path))
        try:
            async with asyncio.timeout(self._within_s):  # RULE (link-walk-timeout)
                return await self._look(source, path, known)
        except TimeoutError:
            return "the gateway could not look at its files in time"

    async def _look(
        self, source: FileSource, path: tuple[str, ...], known: tuple[_Stamp, ...] | None
    ) -> str | None:
        loop = asyncio.get_running_loop()
        if known is not None and await loop.run_in_executor(self._threads, _are_as_known, source, known):
            return None
        self._forget(source, path)
        self.walks += 1
        try:
            began = self._clock()
            stamps = await loop.run_in_executor(self._threads, _walk_files, source, path)
        except NotThere:
            return None
        except LeadsOut as why:
            return str(why)
        except OSError:
            return "it contains something that the gateway cannot read"
        # RULE (recent-stamps)
        if len(stamps) <= MAX_KEPT and all(began - one.changed_ns > SURE_AFTER_NS for one in stamps):
            self._keep(source, path, stamps)
        return None

    def _keep(self, source: FileSource, path: tuple[str, ...], stamps: tuple[_Stamp, ...]) -> None:
        self._forget(source, path)
        self._kept[source.root, path] = stamps
        self._count += len(stamps)
        while self._count > MAX_KEPT:
            _, oldest = self._kept.popitem(last=False)
            self._count -= len(oldest)

    def _forget(self, source: FileSource, path: tuple[str, ...]) -> None:
        self._count -= len(self._kept.pop((source.root, path), ()))


def _root_of(source: FileSource) -> str:
    """Return where the root is now: it may be reached by links, which the operator who named it changes."""
    return os.path.realpath(source.root.removeprefix("file:"))


def _is_there(stamp: _Stamp) -> bool:
    try:
        return _stamp_of(stamp.path, of_within=bool(stamp.changed_ns)) == stamp
    except OSError:
        return False


def _are_as_known(source: FileSource, stamps: Sequence[_Stamp]) -> bool:
    return stamps[0].path == _root_of(source) and all(map(_is_there, stamps))  # RULE (root-link)


def _stamp_of(path: str, *, of_within: bool = True) -> _Stamp:
    told = os.lstat(path)
    changed_ns = told.st_ctime_ns if of_within else 0
    return _Stamp(path, stat.S_IFMT(told.st_mode), told.st_dev, told.st_ino, changed_ns)


def _walk_files(source: FileSource, path: tuple[str, ...]) -> tuple[_Stamp, ...]:
    """Go through all files, and return the stamps that their directories had before. Raises LeadsOut."""
    root = _root_of(source)
    above = [str(Path(root).joinpath(*path[:depth])) for depth in range(len(path) + 1)]
    try:
        stamps = [_stamp_of(one, of_within=one is above[-1]) for one in above]
    except FileNotFoundError:
        raise NotThere from None
    if stat.S_ISDIR(stamps[-1].kind):
        for directory, _, _ in os.walk(above[-1]):
            if directory != above[-1]:  # RULE (directory-links)
                with suppress(FileNotFoundError):  # the directory that it was in has another time by now
                    stamps.append(_stamp_of(directory))
    require_no_links(root, path, ANY_NUMBER, counts=compile_glob(source.pattern))
    return tuple(stamps)
