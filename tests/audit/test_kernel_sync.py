"""The kernel syncs a file beside the loop and says how that ended; where it cannot, the thread does."""

from __future__ import annotations

import asyncio
import errno
import os
import platform
from pathlib import Path

import pytest

from gateway.audit.kernel_sync import KernelSync
from gateway.audit.spool import Spool
from tests.audit.test_spool import entry, on_disk


async def test_the_loop_is_told_when_a_file_is_on_the_disk(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Queue[OSError | None]()
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    syncing = KernelSync.start(loop, ended.put_nowait, fd)
    if syncing is None:
        pytest.skip("this kernel has no asynchronous I/O for us")
    try:
        for _ in range(3):
            os.write(fd, b"something")
            syncing.begin(fd)
            assert await ended.get() is None
        os.close(fd)
        with pytest.raises(OSError, match="Bad file descriptor") as told:
            syncing.begin(fd)
        assert told.value.errno == errno.EBADF
    finally:
        syncing.close()


async def test_what_cannot_be_synced_is_told_as_an_error(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    reads, writes = os.pipe()
    syncing = KernelSync.start(loop, lambda _: None, fd)
    try:
        if syncing is not None:
            with pytest.raises(OSError, match="Invalid argument"):
                syncing.begin(writes)
            syncing.close()
        assert KernelSync.start(loop, lambda _: None, writes) is None, "what does not work is not used"
    finally:
        for one in (fd, reads, writes):
            os.close(one)


async def test_another_machine_has_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    spool = Spool(tmp_path)
    spool.open()
    try:
        assert spool._syncing is None
        for number in range(3):
            await spool.append(entry(number))
        assert len(on_disk(spool)) == 3
    finally:
        await spool.close()
