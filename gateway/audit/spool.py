"""The spool: an append returns only when its entry is on the disk, and one fdatasync serves all who wait.

One writer thread takes whatever has queued up since its last write, appends it with one write and one
fdatasync, and resolves the futures of all of it with one call into the loop. Nobody who waits is delayed to
gather more: while the disk is busy the next batch gathers by itself, and a delay of 2 ms was measured to
triple the latency without any gain.

Failure: after a failed write or sync the file descriptor is never used again, because Linux reports a lost
page once and then forgets it (the "fsyncgate" of 2018). The segment ends where the last good sync left it,
and what is unacknowledged is written to a new one. When that fails too, everyone who waits and everyone who
comes later gets LedgerUnavailable until a probe has written and synced again.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from gateway.audit.disk import Disk, LocalDisk, replace_file, sync_directory
from gateway.audit.segment import FILE_HEADER, NO_STATEMENT, Entry, Mark, encode
from gateway.errors import LedgerUnavailable

log = structlog.get_logger(__name__)

_PADDING = encode(Entry(Mark.PADDING, NO_STATEMENT, bytes(64 * 1024)))
"""A probe must need blocks of its own: a few bytes fit into the last block of a full disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLimits:
    """Bounds of the spool."""

    max_segment_bytes: int = 64 * 1024 * 1024
    max_segment_age_s: float = 300.0
    """An older segment is closed, so that a quiet gateway does not keep shipped statements on its disk."""
    max_spool_bytes: int = 4 * 1024 * 1024 * 1024
    """Bytes not yet in PostgreSQL beyond which statements are refused."""
    max_queue_bytes: int = 64 * 1024 * 1024
    """Bytes that wait for the disk; more are refused at once."""
    ride_s: float = 0.02
    """Seconds in which an entry that nobody waits for may be taken along by one that somebody waits for: the
    end of a statement then shares the write of the next one's decision."""
    probe_interval_s: float = 1.0
    """Pause between attempts to write while the disk takes none."""


@dataclass(slots=True)
class Segment:
    """One file. Only the writer thread changes `durable` and `closed` while it is the newest."""

    number: int
    path: Path
    durable: int
    """Bytes that are on the disk for certain; nobody reads further."""
    closed: bool
    damaged: bool = False


@dataclass(slots=True)
class _Pending:
    data: bytes
    future: asyncio.Future[int] | None


class Spool:
    """The writer of one spool directory. `open` first; `append` and `append_soon` belong to one loop."""

    def __init__(
        self,
        directory: Path,
        *,
        limits: SpoolLimits | None = None,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.identity = ""
        """Identity of this spool, kept in it; set by `open`."""
        self.backlog_bytes = 0
        """Bytes on the disk and not yet in PostgreSQL; the shipper takes away what it has shipped."""
        self.grown = asyncio.Event()
        """Set whenever a segment has grown or was closed; its reader clears it."""
        self._limits = limits or SpoolLimits()
        self._disk: Disk = disk or LocalDisk()
        self._clock = clock
        self._lock_fd = -1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._queue: list[_Pending] = []
        self._writing: list[_Pending] = []
        self._closing = False
        self._ride: asyncio.TimerHandle | None = None
        """Wakes the writer for entries that nobody waits for; None when there are none or it is awake."""
        self._segments: list[Segment] = []
        self._queued_bytes = 0
        self._failure = ""
        # Only the writer thread touches the rest.
        self._fd = -1
        self._current: Segment | None = None
        self._next_number = 1
        self._opened_at = 0.0
        self._retained: list[_Pending] = []

    @property
    def failure(self) -> str:
        """Why nothing can be written at the moment; empty when all is well."""
        return self._failure

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments on the disk, oldest first."""
        with self._changed:
            return tuple(self._segments)

    def open(self, *, next_number: int = 1) -> None:
        """Lock the directory and start the writer. Raises LedgerUnavailable when another process has it.

        `next_number` is the lowest number a new segment may have: numbers never come back, because the
        checkpoint names one.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock()
            self.identity = self._read_identity()
            self._segments = self._discover()
        except OSError as error:
            self._unlock()
            raise LedgerUnavailable(f"the audit spool cannot be opened: {error.strerror}") from error
        self._next_number = max([next_number - 1, *(s.number for s in self._segments)]) + 1
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._main, name="audit-spool", daemon=True)
        self._thread.start()

    async def append(self, entry: Entry, *, closes: bool = False) -> int:
        """Return the segment's number once the entry is on the disk. Raises LedgerUnavailable.

        `closes` marks the end of a statement that was let in before: it may still use the room above
        `max_spool_bytes`.
        """
        future = asyncio.get_running_loop().create_future()
        self._submit(_Pending(encode(entry), future), closes=closes)
        return int(await future)

    def append_soon(self, entry: Entry) -> None:
        """Queue an entry that nobody waits for; it outlives a full disk.

        Raises LedgerUnavailable only when the queue is full.
        """
        self._submit(_Pending(encode(entry), None), closes=True)

    def _submit(self, pending: _Pending, *, closes: bool) -> None:
        if self._thread is None or self._closing:
            raise LedgerUnavailable("the audit ledger is closed")
        if self._failure and pending.future is not None:
            raise LedgerUnavailable(self._failure)
        if self._queued_bytes + len(pending.data) > self._limits.max_queue_bytes:
            raise LedgerUnavailable("too many audit records are waiting to be written to disk")
        if not closes and self.backlog_bytes > self._limits.max_spool_bytes:
            raise LedgerUnavailable("too many audit records are waiting for the audit database")
        self._queued_bytes += len(pending.data)
        if pending.future is None and self._loop is not None:
            with self._changed:
                self._queue.append(pending)
            if self._ride is None:
                self._ride = self._loop.call_later(self._limits.ride_s, self._wake_writer)
            return
        with self._changed:
            self._queue.append(pending)
        self._wake_writer()

    def _wake_writer(self) -> None:
        if self._ride is not None:
            self._ride.cancel()
            self._ride = None
        with self._changed:
            self._changed.notify()

    def note_shipped(self, count: int) -> None:
        """Take bytes that reached PostgreSQL, or will never be read, off the backlog."""
        self.backlog_bytes = max(0, self.backlog_bytes - count)

    def forget(self, segment: Segment) -> None:
        """Drop a closed segment whose file the caller has removed or put aside."""
        with self._changed:
            self._segments.remove(segment)

    async def close(self) -> None:
        """Write what is queued, stop the writer and release the directory."""
        self._closing = True
        self._wake_writer()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._unlock()

    # Opening

    def _lock(self) -> None:
        self._lock_fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LedgerUnavailable(
                f"another gateway already uses the audit spool `{self.directory}`"
            ) from error

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _read_identity(self) -> str:
        path = self.directory / "identity"
        try:
            return str(uuid.UUID(path.read_text("ascii").strip()))
        except FileNotFoundError:
            pass
        except ValueError:
            # Nothing depends on the old one: each event says which gateway wrote it.
            log.error("audit_identity_damaged", path=str(path))
        identity = str(uuid.uuid4())
        replace_file(path, identity.encode() + b"\n")
        return identity

    def _discover(self) -> list[Segment]:
        found = []
        for path in sorted(self.directory.glob("*.spool")):
            if not path.stem.isdecimal():
                continue
            # A crash of the process leaves written pages to the kernel; make them last before they count.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
                size = os.fstat(fd).st_size
            finally:
                os.close(fd)
            found.append(Segment(int(path.stem), path, size, closed=True))
        sync_directory(self.directory)
        return sorted(found, key=lambda s: s.number)

    # The writer thread

    def _main(self) -> None:
        try:
            self._run()
        except Exception as error:  # root of the thread: those who wait must hear of its end
            log.exception("audit_spool_writer_died")
            with self._changed:
                self._closing = True
                waiting = [*self._writing, *self._queue]
            self._failure = f"the audit writer stopped: {type(error).__name__}"
            self._tell(self._fail_pending, [p for p in waiting if p.future is not None], self._failure)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing:
                    if not self._changed.wait(self._patience()):
                        break
                batch, self._queue = self._queue, []
                self._writing = batch
                closing = self._closing
            if batch:
                self._commit([*self._retained, *batch])
            elif self._failure:
                self._commit([*self._retained, _Pending(_PADDING, None)])
            elif self._too_old():
                self._finish_segment()
            if closing and not batch:
                self._finish_segment()
                if self._retained:
                    log.error("audit_records_lost_at_close", count=len(self._retained))
                return

    def _patience(self) -> float | None:
        """How long the writer may sleep when nobody writes."""
        if self._failure:
            return self._limits.probe_interval_s
        if self._current is None:
            return None
        return max(0.01, self._opened_at + self._limits.max_segment_age_s - self._clock())

    def _too_old(self) -> bool:
        return self._current is not None and self._clock() >= self._opened_at + self._limits.max_segment_age_s

    def _commit(self, batch: list[_Pending]) -> None:
        data = b"".join([pending.data for pending in batch])
        try:
            number = self._write(data)
        except OSError as first:
            if not self._failure:
                log.error("audit_spool_write_failed", error=str(first))
            self._drop_segment()
            try:
                number = self._write(data)
            except OSError as second:
                self._drop_segment()
                self._fail(batch, second)
                return
        if self._failure:
            log.warning("audit_spool_writes_again")
        self._retained = []
        self._failure = ""
        self._tell(self._handle_success, batch, number, len(data))

    def _write(self, data: bytes) -> int:
        """Append and sync; a new segment first when the current one is full or old."""
        if self._current is not None and (
            self._current.durable + len(data) > self._limits.max_segment_bytes or self._too_old()
        ):
            self._finish_segment()
        segment = self._current or self._begin_segment()
        written = segment.durable or len(FILE_HEADER)
        self._disk.write(self._fd, data)
        self._disk.sync(self._fd)
        segment.durable = written + len(data)
        return segment.number

    def _begin_segment(self) -> Segment:
        path = self.directory / f"{self._next_number:012d}.spool"
        self._next_number += 1
        self._fd = self._disk.create(path)
        segment = self._current = Segment(int(path.stem), path, 0, closed=False)
        self._opened_at = self._clock()
        self._disk.write(self._fd, FILE_HEADER)
        self._disk.sync_directory(self.directory)
        with self._changed:
            self._segments.append(segment)
        return segment

    def _finish_segment(self) -> None:
        """Close the current segment after a good sync."""
        if self._current is not None:
            self._disk.close(self._fd)
            self._current.closed = True
            self._current, self._fd = None, -1
            self._tell(self.grown.set)

    def _drop_segment(self) -> None:
        """Leave the current segment behind after an error: it ends at its last good sync."""
        segment = self._current
        if segment is None:
            return
        self._current = None
        try:
            self._disk.close(self._fd)
        except OSError as error:
            log.error("audit_spool_close_failed", error=str(error))
        self._fd = -1
        if segment.durable:
            segment.closed = True
            self._tell(self.grown.set)
            return
        with self._changed:
            if segment in self._segments:
                self._segments.remove(segment)
        try:
            self._disk.remove(segment.path)
        except OSError as error:
            log.error("audit_spool_remove_failed", error=str(error))

    def _fail(self, batch: list[_Pending], error: OSError) -> None:
        if not self._failure:
            log.error("audit_spool_down", error=str(error))
        self._failure = f"the audit record cannot be written: {(error.strerror or str(error)).lower()}"
        # What nobody waits for stays, in order, until the disk takes it; statements that wait are refused.
        self._retained = [p for p in batch if p.future is None and p.data is not _PADDING]
        self._tell(self._fail_pending, [p for p in batch if p.future is not None], self._failure)

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop has closed: nobody is left to be told.
            log.warning("audit_spool_outlived_its_loop")

    # Callbacks in the loop

    def _handle_success(self, batch: list[_Pending], number: int, size: int) -> None:
        self.backlog_bytes += size
        for pending in batch:
            if pending.data is not _PADDING:
                self._queued_bytes -= len(pending.data)
            if pending.future is not None and not pending.future.done():
                pending.future.set_result(number)
        self.grown.set()

    def _fail_pending(self, refused: list[_Pending], why: str) -> None:
        for pending in refused:
            self._queued_bytes -= len(pending.data)
            if pending.future is not None and not pending.future.done():
                pending.future.set_exception(LedgerUnavailable(why))
