"""An acknowledged entry is on the disk, whatever the disk does; without one there is no acknowledgement."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.audit.backlog import Position, read_stretch
from gateway.audit.segment import FILE_HEADER, Entry, Mark, encode
from gateway.audit.spool import Spool, SpoolLimits
from gateway.errors import LedgerUnavailable
from tests.audit.disks import TROUBLES, FailingDisk, FullDisk
from tests.audit.samples import until
from tests.speed import patience

QUICK = SpoolLimits(probe_interval_s=0.02)


def entry(number: int, size: int = 0) -> Entry:
    return Entry(Mark.CLEARED, uuid.UUID(int=number).bytes, b'{"n": %d}' % number + b" " * size)


def on_disk(spool: Spool) -> list[bytes]:
    """Payloads of everything durable, in order."""
    found: list[bytes] = []
    position = Position()
    while True:
        stretch = read_stretch(spool.segments, position, max_bytes=1 << 20, max_entries=1000)
        if stretch is None:
            return found
        found += [e.payload for e in stretch.entries if e.mark is not Mark.PADDING]
        position = stretch.position


@asynccontextmanager
async def opened(
    directory: Path,
    *,
    limits: SpoolLimits = QUICK,
    disk: FailingDisk | FullDisk | None = None,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[Spool]:
    spool = Spool(directory, limits=limits, disk=disk, **({"clock": clock} if clock else {}))
    spool.open()
    try:
        yield spool
    finally:
        await spool.close()


async def test_entries_are_on_the_disk_when_append_returns(tmp_path: Path) -> None:
    async with opened(tmp_path) as spool:
        for number in range(3):
            segment = await spool.append(entry(number))
            assert segment == 1
            assert on_disk(spool) == [entry(n).payload for n in range(number + 1)]


async def test_one_sync_serves_all_who_wait(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with opened(tmp_path, disk=disk) as spool:
        await spool.append(entry(0))
        disk.gate.clear()
        disk.syncing.clear()
        first = asyncio.ensure_future(spool.append(entry(1)))
        await asyncio.to_thread(disk.syncing.wait, 20)
        rest = [asyncio.ensure_future(spool.append(entry(n))) for n in range(2, 130)]
        await asyncio.sleep(0)
        disk.gate.set()
        await asyncio.gather(first, *rest)
        assert len(disk.synced) == 3, "one for each batch, 128 entries in the last"
        assert on_disk(spool) == [entry(n).payload for n in range(130)]


async def test_nobody_is_told_before_the_sync(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with opened(tmp_path, disk=disk) as spool:
        disk.gate.clear()
        waiting = asyncio.ensure_future(spool.append(entry(1)))
        await asyncio.to_thread(disk.syncing.wait, 20)
        assert not waiting.done()
        assert on_disk(spool) == [], "written, but nobody may read it yet"
        disk.gate.set()
        await waiting


async def test_segments_roll_by_size_and_nothing_is_split(tmp_path: Path) -> None:
    limits = SpoolLimits(max_segment_bytes=1000)
    async with opened(tmp_path, limits=limits) as spool:
        for number in range(10):
            await spool.append(entry(number, 300))
        assert len(spool.segments) == 5
        assert all(segment.path.stat().st_size <= 1000 for segment in spool.segments)
        assert len(on_disk(spool)) == 10
        await spool.append(entry(10, 5000))
        assert len(on_disk(spool)) == 11, "an entry larger than a segment has one of its own"


async def test_segments_roll_by_age_also_when_nobody_writes(tmp_path: Path) -> None:
    now = [0.0]
    limits = SpoolLimits(max_segment_age_s=0.05)
    async with opened(tmp_path, limits=limits, clock=lambda: now[0]) as spool:
        await spool.append(entry(1))
        assert not spool.segments[0].closed
        now[0] = 1.0
        await until(lambda: spool.segments[0].closed)
        await spool.append(entry(2))
        assert [segment.number for segment in spool.segments] == [1, 2]


async def test_a_directory_serves_one_spool(tmp_path: Path) -> None:
    async with opened(tmp_path):
        with pytest.raises(LedgerUnavailable, match="another gateway already uses"):
            Spool(tmp_path).open()
    async with opened(tmp_path):
        pass


async def test_identity_and_numbers_outlive_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as spool:
        identity = spool.identity
        await spool.append(entry(1))
    async with opened(tmp_path) as spool:
        assert spool.identity == identity
        assert await spool.append(entry(2)) == 2
        assert on_disk(spool) == [entry(1).payload, entry(2).payload]
    (tmp_path / "identity").write_text("nonsense")
    async with opened(tmp_path) as spool:
        assert spool.identity != identity
        assert uuid.UUID((tmp_path / "identity").read_text().strip())


async def test_files_are_closed_to_others(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    async with opened(directory) as spool:
        await spool.append(entry(1))
        assert directory.stat().st_mode & 0o077 == 0
        assert spool.segments[0].path.stat().st_mode & 0o077 == 0


async def test_after_a_failed_sync_the_file_is_left_and_everything_is_written_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with opened(tmp_path, disk=disk) as spool:
        await spool.append(entry(1))
        disk.fail["sync"] = (1, errno.EIO)
        assert await spool.append(entry(2)) == 2, "in a new segment"
        assert spool.segments[0].closed
        assert spool.segments[0].durable == len(FILE_HEADER) + len(encode(entry(1)))
        assert spool.segments[0].path.stat().st_size > spool.segments[0].durable
        assert on_disk(spool) == [entry(1).payload, entry(2).payload]
        assert spool.failure == ""


@pytest.mark.parametrize("call", ["write", "sync", "create"])
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_disk_that_takes_nothing_refuses_until_it_does_again(
    tmp_path: Path, call: str, trouble: str
) -> None:
    disk = FailingDisk()
    disk.half = True
    async with opened(tmp_path, disk=disk, limits=SpoolLimits(probe_interval_s=0.02)) as spool:
        await spool.append(entry(1))
        if call == "create":
            disk.fail["sync"] = (1, TROUBLES[trouble])
        disk.fail[call] = (-1, TROUBLES[trouble])
        with pytest.raises(LedgerUnavailable, match="cannot be written") as told:
            await spool.append(entry(2))
        assert told.value.text.startswith("[SLUICE_LEDGER_UNAVAILABLE] ")
        before = len(disk.calls)
        with pytest.raises(LedgerUnavailable):
            await spool.append(entry(3))
        spool.append_soon(entry(4))
        await until(lambda: len(disk.calls) > before + 5)
        assert spool.failure
        disk.fail.clear()
        await until(lambda: not spool.failure)
        await spool.append(entry(5))
        assert on_disk(spool) == [entry(n).payload for n in (1, 4, 5)], "what waits for nobody is kept"
    files = await asyncio.to_thread(os.listdir, tmp_path)
    assert len(files) == 2 + len(spool.segments), "failed attempts leave no files"


async def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = FullDisk()
    async with opened(tmp_path, disk=disk) as spool:
        with pytest.raises(LedgerUnavailable, match="no space left on device"):
            await spool.append(entry(1))
        disk.full = False
        await until(lambda: not spool.failure)
        await spool.append(entry(2))
        assert on_disk(spool) == [entry(2).payload]


def test_a_real_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """The kernel cuts a write short at RLIMIT_FSIZE; what was acknowledged before and after is there."""
    program = textwrap.dedent(
        """
        import asyncio, resource, sys
        from pathlib import Path
        from gateway.audit.spool import Spool, SpoolLimits
        from gateway.errors import LedgerUnavailable
        from tests.audit.test_spool import entry, on_disk
        from tests.speed import patience

        async def main():
            spool = Spool(Path(sys.argv[1]), limits=SpoolLimits(probe_interval_s=0.02))
            spool.open()
            resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
            acknowledged = []
            for number in range(100):
                await spool.append(entry(number, 1000))
                acknowledged.append(entry(number, 1000).payload)
            try:
                await spool.append(entry(100, 50_000))
            except LedgerUnavailable as error:
                print(error.message)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            async with asyncio.timeout(patience()):
                while spool.failure:
                    await asyncio.sleep(0.01)
            await spool.append(entry(101))
            acknowledged.append(entry(101).payload)
            assert on_disk(spool) == acknowledged
            print(len(spool.segments))
            await spool.close()

        asyncio.run(main())
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "file too large" in done.stdout


async def test_the_queue_has_a_bound(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.gate.clear()
    limits = SpoolLimits(max_queue_bytes=1000)
    async with opened(tmp_path, disk=disk, limits=limits) as spool:
        waiting = [asyncio.ensure_future(spool.append(entry(n, 250))) for n in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(LedgerUnavailable, match="are waiting to be written to disk"):
            await spool.append(entry(3, 250))
        with pytest.raises(LedgerUnavailable, match="are waiting to be written to disk"):
            spool.append_soon(entry(3, 250))
        disk.gate.set()
        await asyncio.gather(*waiting)
        await spool.append(entry(4, 250))


async def test_a_backlog_beyond_its_bound_refuses_beginnings_and_takes_ends(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=SpoolLimits(max_spool_bytes=500)) as spool:
        await spool.append(entry(1, 1000))
        with pytest.raises(LedgerUnavailable, match="are waiting for the audit database"):
            await spool.append(entry(2))
        await spool.append(entry(3), closes=True)
        spool.append_soon(entry(4))
        spool.note_shipped(spool.backlog_bytes)
        await spool.append(entry(5))
        assert len(on_disk(spool)) == 4


async def test_close_writes_what_is_queued(tmp_path: Path) -> None:
    async with opened(tmp_path) as spool:
        for number in range(100):
            spool.append_soon(entry(number))
    assert len(on_disk(spool)) == 100
    with pytest.raises(LedgerUnavailable, match="closed"):
        await spool.append(entry(1))


async def test_a_writer_that_dies_leaves_nobody_waiting(tmp_path: Path) -> None:
    class Broken(FailingDisk):
        def write(self, fd: int, data: bytes) -> None:
            raise MemoryError

    async with opened(tmp_path, disk=Broken()) as spool:
        with pytest.raises(LedgerUnavailable, match="writer stopped"):
            await spool.append(entry(1))
        with pytest.raises(LedgerUnavailable):
            await spool.append(entry(2))


async def test_what_nobody_waits_for_rides_with_what_somebody_waits_for(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with opened(tmp_path, disk=disk, limits=SpoolLimits(ride_s=3600)) as spool:
        await spool.append(entry(1))
        before = disk.calls.count("sync")
        spool.append_soon(entry(2))
        await spool.append(entry(3))
        assert disk.calls.count("sync") == before + 1
        assert on_disk(spool) == [entry(n).payload for n in (1, 2, 3)]


async def test_what_nobody_waits_for_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with opened(tmp_path) as spool:
        await spool.append(entry(1))
        spool.append_soon(entry(2))
        await until(lambda: len(on_disk(spool)) == 2)
