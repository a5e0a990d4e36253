"""The few system calls of the spool, behind a port, so that tests can make each of them fail.

Every function raises OSError as the system does; the spool decides what a failure means.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    """Where segments are written."""

    def create(self, path: Path) -> int:
        """Create a file that must not exist, for appending, readable by its owner only."""
        ...

    def write(self, fd: int, data: bytes) -> None:
        """Append all of `data`."""
        ...

    def sync(self, fd: int) -> None:
        """Return when everything written to `fd` is on the disk."""
        ...

    def close(self, fd: int) -> None: ...

    def remove(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Return when creations, renames and removals in the directory are on the disk."""
        ...


class LocalDisk:
    """The disk of this machine."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def remove(self, path: Path) -> None:
        path.unlink()

    def sync_directory(self, path: Path) -> None:
        sync_directory(path)


def sync_directory(path: Path) -> None:
    """Return when the directory's entries are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in place of a file so that a reader, also after a crash, sees the old or the new whole."""
    temporary = path.with_name(path.name + ".new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
    sync_directory(path.parent)
