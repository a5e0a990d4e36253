"""Files of whole lines: an append is on the disk when it returns."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gateway.errors import Faults

CHUNK_BYTES = 64 * 1024


class LineFile:
    """A file of JSON lines that one process appends to. Not for several threads at once.

    After a failed write or sync the file descriptor is not used again: Linux reports a lost page once only.
    What a crash or a full disk has cut short is cut off before the next append, so that each line is whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes that are on the disk for certain."""
        self._fd = -1

    def append(self, lines: bytes) -> None:
        """Append whole lines. Raises OSError when they are not on the disk for certain, and then may be
        appended again; Faults when the file holds something else than JSON lines."""
        self._open()
        try:
            left = memoryview(lines)
            while left:
                left = left[os.write(self._fd, left) :]
            os.fdatasync(self._fd)
        except OSError:
            self.close()
            raise
        self.size += len(lines)

    def close(self) -> None:
        """Close it; the next append opens it again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self) -> None:
        if self._fd >= 0:
            if _same_file(self._fd, self.path):
                return
            # It was moved away, as logrotate does: what comes now belongs in a new one.
            self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self.size = _whole_lines(fd, self.path)
            os.ftruncate(fd, self.size)
            os.fsync(fd)
            sync_directory(self.path.parent)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd


class Lock:
    """A file that one process holds at a time; the system lets go of it when the process ends."""

    def __init__(self, path: Path, what: str) -> None:
        """`what` is said to whoever finds it held: what another process does already."""
        self._path = path
        self._what = what
        self._fd = -1

    def take(self) -> None:
        """Hold it. Raises Faults when another process does, or it cannot be made."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise Faults([f"another process {self._what}"]) from None
        except OSError as error:
            self.release()
            raise Faults([f"{self._path}: cannot be locked: {error.strerror}"]) from None

    def release(self) -> None:
        """Let go of it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def sync_directory(path: Path) -> None:
    """Return when the directory's entries are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _same_file(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _whole_lines(fd: int, path: Path) -> int:
    """Return how many bytes of a file are whole lines. Raises Faults when the rest is no part of one."""
    size = end = os.fstat(fd).st_size
    while end:
        begin = max(0, end - CHUNK_BYTES)
        at = os.pread(fd, end - begin, begin).rfind(b"\n")
        if at >= 0:
            end = begin + at + 1
            break
        end = begin
    if end < size and os.pread(fd, 1, end) != b"{":
        raise Faults([f"{path}: contains something other than lines of JSON"])
    return end
