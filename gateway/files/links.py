"""A local directory is looked at for links, which lead out of it: Spark follows them without a word."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence


class LeadsOut(Exception):
    """A path is a link, has one in it, or cannot be looked at; the text says which."""


def require_no_links(root: str, path: Sequence[str], most: int) -> None:
    """Raise LeadsOut unless everything from `root` (a local directory) by `path` downwards is plain files and
    directories, at most `most` of them. The root itself may be reached by links: the operator named it."""
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        raise LeadsOut("its source cannot be looked at by the gateway") from None
    try:
        for segment in path:
            _require_spelling(segment, at)
            below = open_below(segment, at)
            os.close(at)
            at = below
        _walk(at, [most])
    finally:
        os.close(at)


def _require_spelling(name: str, at: int) -> None:
    """Raise LeadsOut unless the directory has the name as it is written. Some file systems open `Events` as
    `events`: policies would not know the files by that name."""
    try:
        listed = os.listdir(at)
    except OSError:
        raise LeadsOut("there is something that the gateway cannot read") from None
    if name not in listed:
        raise LeadsOut("there is nothing")


def open_below(name: str, at: int) -> int:
    """Open what an open directory has under a name, unless that is a link. Raises LeadsOut."""
    # O_NONBLOCK: a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=at)
    except FileNotFoundError:
        raise LeadsOut("there is nothing") from None
    except OSError:
        raise LeadsOut("there is a link, or something that the gateway cannot read") from None


def _walk(at: int, left: list[int]) -> None:
    mode = os.fstat(at).st_mode
    if stat.S_ISREG(mode):
        return
    if not stat.S_ISDIR(mode):
        raise LeadsOut("there is something that is no file and no directory")
    with os.scandir(at) as entries:
        found = [(entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in entries]
    left[0] -= len(found)
    if left[0] < 0:
        raise LeadsOut("there are more files than its source may have in one table")
    for name, is_link, is_directory in found:
        if is_link:
            raise LeadsOut("there is a link in it, which could lead out of its source")
        if is_directory:
            below = open_below(name, at)
            try:
                _walk(below, left)
            finally:
                os.close(below)
