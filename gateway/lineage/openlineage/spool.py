"""Keeps events on the disk until a server has taken them: whole lines in files that are sent in their order.

It is bounded by size and by age. Beyond that the oldest file goes, with what was not sent of it, and that is
counted: a server that is away for a week must not fill the disk, nor keep the graph and the record from going
on, and `sluice lineage import --since … --openlineage` makes the same events again from the record. What a
server will not take ever is put aside in `refused.jsonl`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson
import structlog

from gateway.errors import Faults
from gateway.lineage.openlineage.lines import LineFile, Lock

log = structlog.get_logger(__name__)

SEGMENT_BYTES = 8 * 1024 * 1024
BATCH_BYTES = 1024 * 1024
"""Bytes read of the spool in one go, when no line is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSpoolLimits:
    """Bounds of the spool."""

    max_bytes: int = 1024**3
    """Bytes of events that no server has taken yet."""
    max_age_s: float = 7 * 86_400.0
    """Seconds for which they are kept."""
    max_refused_bytes: int = 64 * 1024 * 1024
    """Bytes of `refused.jsonl`, after which it becomes `refused.old.jsonl` and a new one begins."""


class EventPosition(NamedTuple):
    """A place in the spool: a segment's number, and bytes of it."""

    segment: int
    offset: int


class SpooledEvent(NamedTuple):
    line: bytes
    end: EventPosition


@dataclass(slots=True)
class _Segment:
    number: int
    file: LineFile
    written: float
    """When it was last written, in seconds since 1970."""
    size: int
    begun: float = 0.0
    fresh: bool = False
    """Whether it is appended to; others are whole."""


class EventSpool:
    """The spool in one directory. Its methods may be called from any thread, and block on the disk."""

    def __init__(
        self,
        directory: Path,
        *,
        limits: EventSpoolLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory
        self.dropped = 0
        """Events that went before a server took them."""
        self._limits = limits or EventSpoolLimits()
        self._segment_bytes = max(1, min(SEGMENT_BYTES, self._limits.max_bytes // 4))
        self._clock = clock
        self._lock = Lock(directory / "lock", f"uses the spool of events `{directory}`")
        self._guard = threading.Lock()
        self._segments: list[_Segment] = []
        self._sent = EventPosition(0, 0)
        """Up to where events were taken, or put aside; whoever sends them writes it, and nobody else."""
        self._gone = EventPosition(0, 0)
        """Up to where events went unsent; the guard is held to write it."""
        self._next = 1

    # Without the guard, which is held while the disk is waited for: the event loop asks these.

    @property
    def backlog_bytes(self) -> int:
        """Bytes that no server has taken yet."""
        return self._backlog()

    @property
    def oldest_s(self) -> float:
        """Seconds since the oldest file with events that no server has taken was written; 0 without one."""
        behind = [s.written for s in list(self._segments) if s.size > self._offset(s)]
        return max(0.0, self._clock() - min(behind)) if behind else 0.0

    def advance(self, position: EventPosition) -> None:
        """Note that everything up to a position has been taken, or put aside; `save` makes it last."""
        self._sent = max(self._sent, position)

    def has(self, position: EventPosition) -> bool:
        """Whether an event that was taken is still to be sent: it may have gone meanwhile."""
        return position > self._passed

    def open(self) -> None:
        """Take the directory. Raises Faults when another process has it, or it cannot be used."""
        self._lock.take()
        try:
            with self._guard:
                self._sent = self._read_passed()
                self._segments = self._discover()
                numbers = [s.number for s in self._segments]
                self._next = max([self._passed.segment, *numbers]) + 1
                self._forget_passed()
        except OSError as error:
            self._lock.release()
            raise Faults([f"{self.directory}: cannot be used: {error.strerror or error}"]) from None

    def close(self) -> None:
        """Note what has been sent, and let go of the directory."""
        with self._guard:
            try:
                self._write_passed()
            except OSError as error:
                log.warning("openlineage_position_not_kept", error=str(error))
            for segment in self._segments:
                segment.file.close()
            self._segments = []
        self._lock.release()

    def append(self, lines: bytes) -> None:
        """Keep whole lines. Returns when they are on the disk; raises Faults when they are not."""
        if not lines:
            return
        with self._guard:
            segment = self._fresh()
            try:
                segment.file.append(lines)
            except OSError as error:
                # What of it is on the disk all the same is not sent before a restart; the caller tries again.
                segment.fresh = False
                raise Faults([f"{segment.file.path}: cannot be written: {error.strerror or error}"]) from None
            segment.size = segment.file.size
            segment.written = self._clock()
            self._drop_beyond()

    def take(self, most: int = 64) -> list[SpooledEvent]:
        """Return the oldest events that have not been passed. They stay until they are."""
        with self._guard:
            for segment in list(self._segments):
                begin = self._offset(segment)
                if begin < segment.size:
                    try:
                        return _entries(segment, begin, most)
                    except (FileNotFoundError, EOFError):
                        log.error("openlineage_spool_damaged", path=str(segment.file.path))
                        self._remove(segment)
            return []

    def save(self) -> None:
        """Remove what has been passed. Raises OSError.

        A crash before costs nothing but that some events are sent again.
        """
        with self._guard:
            self._forget_passed()
            self._write_passed()

    def expire(self) -> None:
        """Drop what is older than the limit."""
        with self._guard:
            self._drop_beyond()

    def put_aside(self, line: bytes) -> None:
        """Keep an event that no server will take, for people. Raises OSError."""
        path = self.directory / "refused.jsonl"
        with self._guard:
            if path.exists() and path.stat().st_size + len(line) > self._limits.max_refused_bytes:
                path.replace(path.with_name("refused.old.jsonl"))
            refused = LineFile(path)
            try:
                refused.append(line)
            finally:
                refused.close()

    @property
    def _passed(self) -> EventPosition:
        return max(self._sent, self._gone)

    def _backlog(self) -> int:
        return sum(segment.size - self._offset(segment) for segment in list(self._segments))

    def _offset(self, segment: _Segment) -> int:
        """Return how much of a segment has been passed."""
        passed = self._passed
        if segment.number < passed.segment:
            return segment.size
        return min(segment.size, passed.offset) if segment.number == passed.segment else 0

    # The guard is held in all that follows.

    def _fresh(self) -> _Segment:
        now = self._clock()
        last = self._segments[-1] if self._segments else None
        if last is not None:
            # Its age is that of its last event, so there must not be much older ones in it.
            young = now - last.begun < self._limits.max_age_s / 8
            if last.fresh and young and last.size < self._segment_bytes:
                return last
            last.fresh = False
            last.file.close()
        file = LineFile(self.directory / f"{self._next:012d}.jsonl")
        segment = _Segment(self._next, file, now, 0, begun=now, fresh=True)
        self._next += 1
        self._segments.append(segment)
        return segment

    def _drop_beyond(self) -> None:
        now = self._clock()
        while self._segments:
            oldest = self._segments[0]
            full = not oldest.fresh and self._backlog() > self._limits.max_bytes
            old = now - oldest.written > self._limits.max_age_s
            if not full and not old:
                return
            lost = _count_lines(oldest, self._offset(oldest)) if self._offset(oldest) < oldest.size else 0
            self.dropped += lost
            if lost:
                log.error(
                    "openlineage_events_dropped",
                    events=lost,
                    why="the spool is full" if full else "they are too old",
                    spool=str(self.directory),
                )
            self._gone = max(self._gone, EventPosition(oldest.number, oldest.size))
            self._remove(oldest)

    def _forget_passed(self) -> None:
        for segment in [s for s in self._segments if self._offset(s) >= s.size]:
            # A sent statement does not stay on the disk of a quiet gateway: the next event begins a new file.
            self._remove(segment)

    def _remove(self, segment: _Segment) -> None:
        segment.file.close()
        segment.file.path.unlink(missing_ok=True)
        self._segments.remove(segment)

    def _discover(self) -> list[_Segment]:
        found = []
        for path in sorted(self.directory.glob("*.jsonl")):
            if not path.stem.isdecimal():
                continue
            # Opening cuts off what a crash left of a line, and makes the rest last.
            file = LineFile(path)
            file.append(b"")
            file.close()
            found.append(_Segment(int(path.stem), file, path.stat().st_mtime, file.size))
        return sorted(found, key=lambda s: s.number)

    def _read_passed(self) -> EventPosition:
        path = self.directory / "sent"
        try:
            segment, offset = orjson.loads(path.read_bytes())
            return EventPosition(int(segment), int(offset))
        except FileNotFoundError:
            return EventPosition(0, 0)
        except (ValueError, TypeError):
            log.warning("openlineage_position_damaged", path=str(path))
            return EventPosition(0, 0)

    def _write_passed(self) -> None:
        path = self.directory / "sent"
        new = path.with_name("sent.new")
        new.write_bytes(orjson.dumps(list(self._passed)))
        new.replace(path)


def _entries(segment: _Segment, begin: int, most: int) -> list[SpooledEvent]:
    entries: list[SpooledEvent] = []
    with segment.file.path.open("rb") as file:
        file.seek(begin)
        at = begin
        while len(entries) < most and at < segment.size and at - begin < BATCH_BYTES:
            line = file.readline(segment.size - at)
            at += len(line)
            entries.append(SpooledEvent(line, EventPosition(segment.number, at)))
            if not line:
                raise EOFError(f"{segment.file.path} has become shorter")
    return entries


def _count_lines(segment: _Segment, begin: int) -> int:
    fd = os.open(segment.file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        counted, at = 0, begin
        while chunk := os.pread(fd, 256 * 1024, at):
            counted += chunk.count(b"\n")
            at += len(chunk)
        return counted
    finally:
        os.close(fd)
