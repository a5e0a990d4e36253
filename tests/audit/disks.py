"""Disks that fail on demand, and one that is full for real."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

from gateway.audit.disk import LocalDisk, Syncing
from gateway.audit.kernel_sync import Synced
from tests.speed import patience


class FailingDisk(LocalDisk):
    """The local disk, but each call asks a plan first whether it fails.

    With `kernel` it syncs as a kernel does, beside the loop, without the spool's thread. `fail` maps a call
    to how many times it fails (−1: until further notice) and with which errno.
    """

    def __init__(self, *, kernel: bool = False) -> None:
        self.kernel = kernel
        self.fail: dict[str, tuple[int, int]] = {}
        self.calls: list[str] = []
        self.synced: list[int] = []
        self.half = False
        """Whether a failing write leaves half of its bytes behind, as a full disk does."""
        self.gate = threading.Event()
        """Cleared: syncs wait. Lets a test gather a batch while the disk is busy."""
        self.gate.set()
        self.syncing = threading.Event()
        self.begun = 0
        """Syncs that were begun in the kernel."""

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

    def start_syncing(self, loop: asyncio.AbstractEventLoop, synced: Synced, trial: int) -> Syncing | None:
        return _SyncedBeside(self, loop, synced) if self.kernel else None


class _SyncedBeside:
    """Syncs by a disk that fails on demand, in a thread for each sync."""

    def __init__(self, disk: FailingDisk, loop: asyncio.AbstractEventLoop, synced: Synced) -> None:
        self._disk, self._loop, self._synced = disk, loop, synced
        self._running: list[threading.Thread] = []

    def begin(self, fd: int) -> None:
        self._disk.begun += 1
        self._disk._ask("begin")
        thread = threading.Thread(target=self._sync, args=(fd,), daemon=True)
        self._running.append(thread)
        thread.start()

    def _sync(self, fd: int) -> None:
        error: OSError | None = None
        try:
            self._disk.sync(fd)
        except OSError as fault:
            error = fault
        self._loop.call_soon_threadsafe(self._synced, error)

    def close(self) -> None:
        for thread in self._running:
            thread.join(patience(5))


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
