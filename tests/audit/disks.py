"""Disks that fail on demand, and one that is full for real."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from gateway.audit.disk import LocalDisk
from tests.speed import patience


class FailingDisk(LocalDisk):
    """The local disk, but each call asks a plan first whether it fails.

    `fail` maps a call's name to how many times it fails (−1: until further notice) and with which errno.
    """

    def __init__(self) -> None:
        self.fail: dict[str, tuple[int, int]] = {}
        self.calls: list[str] = []
        self.synced: list[int] = []
        self.half = False
        """Whether a failing write leaves half of its bytes behind, as a full disk does."""
        self.gate = threading.Event()
        """Cleared: syncs wait. Lets a test gather a batch while the disk is busy."""
        self.gate.set()
        self.syncing = threading.Event()

    def _ask(self, call: str) -> None:
        self.calls.append(call)
        left, number = self.fail.get(call, (0, 0))
        if left:
            self.fail[call] = (left - 1 if left > 0 else left, number)
            raise OSError(number, os.strerror(number))

    def create(self, path: Path) -> int:
        self._ask("create")
        return super().create(path)

    def write(self, fd: int, data: bytes) -> None:
        if self.half and self.fail.get("write", (0, 0))[0]:
            super().write(fd, data[: len(data) // 2])
        self._ask("write")
        super().write(fd, data)

    def sync(self, fd: int) -> None:
        self.syncing.set()
        self.gate.wait(patience(30))
        self._ask("sync")
        self.synced.append(fd)
        super().sync(fd)


class FullDisk(LocalDisk):
    """Writes go to /dev/full while `full`: the kernel itself says that there is no space."""

    def __init__(self) -> None:
        self.full = True

    def create(self, path: Path) -> int:
        fd = super().create(path)
        if not self.full:
            return fd
        os.close(fd)
        return os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)


TROUBLES = {
    "full": errno.ENOSPC,
    "quota": errno.EDQUOT,
    "broken": errno.EIO,
    "read-only": errno.EROFS,
    "forbidden": errno.EACCES,
}
