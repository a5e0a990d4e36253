"""A local directory is looked at for links, which lead out of it: Spark follows them without a word."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence

from gateway.files.hidden import is_hidden

DEEPEST = 32
"""Names from the root of a source to a directory, those of partitions counted as well: of what is looked at
here a descriptor stays open for each."""
_BESIDE = 10
"""Directories, and files that do not count, for each file that may: Hadoop's local writer puts a hidden
`.crc` beside every file that it writes."""
_BESIDE_FEW = 10_000
"""As many of them at least."""


class LeadsOut(Exception):
    """A path is a link, has one in it, or cannot be looked at; the text says which."""


class NotThere(LeadsOut):
    """There is nothing at a path."""

    def __init__(self) -> None:
        super().__init__("it does not exist")


def require_no_links(
    root: str, path: Sequence[str], most: int, *, counts: Callable[[str], bool] = lambda _: True
) -> None:
    """Raise LeadsOut unless everything from `root` (a local directory) by `path` downwards is plain files and
    directories, at most `most` files of those that Spark does not hide and whose names count. The root itself
    may be reached by links: the operator named it."""
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        raise LeadsOut("the gateway cannot read its source") from None
    try:
        for segment in path:
            _require_spelling(segment, at)
            below = open_below(segment, at)
            os.close(at)
            at = below
        mode = os.fstat(at).st_mode
        if stat.S_ISDIR(mode):
            _Walk(most, counts).go(at, DEEPEST - len(path))
        elif not stat.S_ISREG(mode):
            raise LeadsOut("it contains something that is neither a file nor a directory")
    finally:
        os.close(at)


def _require_spelling(name: str, at: int) -> None:
    """Raise LeadsOut unless the directory has the name as it is written. Some file systems open `Events` as
    `events`: policies would not know the files by that name."""
    try:
        listed = os.listdir(at)
    except OSError:
        raise LeadsOut("it contains something that the gateway cannot read") from None
    if name not in listed:
        raise NotThere


def open_below(name: str, at: int) -> int:
    """Open what an open directory has under a name, unless that is a link. Raises LeadsOut and NotThere."""
    # O_NONBLOCK: a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=at)
    except FileNotFoundError:
        raise NotThere from None
    except OSError:
        raise LeadsOut("it contains a link, or something that the gateway cannot read") from None


class _Walk:
    """Goes through directories, and counts."""

    def __init__(self, most: int, counts: Callable[[str], bool]) -> None:
        self._files = most
        self._beside = max(_BESIDE * most, _BESIDE_FEW)
        self._counts = counts

    def go(self, at: int, deepest: int) -> None:
        """Look at an open directory and at all below it, in at most so many levels. Raises LeadsOut."""
        opened: list[tuple[int, Iterator[str]]] = [(at, iter(self._directories(at)))]
        try:
            while opened:
                above, names = opened[-1]
                name = next(names, None)
                if name is None:
                    opened.pop()
                    if opened:
                        os.close(above)
                    continue
                if len(opened) > deepest:
                    raise LeadsOut(f"it is nested more than {DEEPEST} directories below its source")
                try:
                    below = open_below(name, above)
                except NotThere:  # RULE (directory-gone)
                    # It went since it was listed, as those of a writer that ends do. The others stay, and
                    # are looked at: what is between this look and the next shows in the directory's time.
                    continue
                opened.append((below, iter(())))
                opened[-1] = (below, iter(self._directories(below)))
        finally:
            for one, _ in opened[1:]:
                os.close(one)

    def _directories(self, at: int) -> list[str]:
        found = []
        try:
            with os.scandir(at) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise LeadsOut("it contains a link, which could lead out of its source")
                    is_directory = entry.is_dir(follow_symlinks=False)
                    if is_directory:
                        found.append(entry.name)
                    self._count(is_directory or is_hidden(entry.name) or not self._counts(entry.name))
        except OSError:
            raise LeadsOut("it contains something that the gateway cannot read") from None
        return found

    def _count(self, beside: bool) -> None:
        if beside:
            self._beside -= 1
        else:
            self._files -= 1
        if self._files < 0:
            raise LeadsOut("it has more files than its source allows in one table")
        if self._beside < 0:
            raise LeadsOut("it has too many directories and hidden files")
