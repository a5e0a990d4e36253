"""The spool from its reader's side: what PostgreSQL does not have yet, and segments that nobody needs.

The checkpoint says where shipping stands. Losing it costs time, never a record: rows are inserted once
however often they are sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import structlog

from gateway.audit.chain import Head
from gateway.audit.disk import replace_file, sync_directory
from gateway.audit.segment import CLOSES, FILE_HEADER, OPENS, Entry, scan
from gateway.audit.spool import Segment

log = structlog.get_logger(__name__)

CHECKPOINT = "checkpoint.json"
DAMAGED = "damaged"
"""Directory for segments with bytes that are no entry; nobody deletes them but a person."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the spool: everything before it is in PostgreSQL."""

    segment: int = 0
    offset: int = len(FILE_HEADER)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Entries read from one segment, the position to continue at, and the bytes skipped."""

    entries: Sequence[Entry]
    position: Position
    passed: int


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Open statements and damage that a previous run left behind."""

    open: tuple[Entry, ...]
    """The entries that opened statements without an end."""
    damaged: bool
    """Whether some bytes could not be read as entries."""


@dataclass(frozen=True, slots=True)
class ShippedUpTo:
    """How far shipping has come."""

    position: Position = Position()
    clean: bool = False
    """Whether the last run ended cleanly with everything shipped."""
    chains: Mapping[str, Head] = field(default_factory=dict)
    """Gateway → the end of its chain as it was last committed."""


WORKER_PREFIX = "worker-"


def find_spool(ledger: Path, worker: int) -> Path:
    """Return where a worker of a gateway keeps its spool: the first where a gateway without workers does."""
    return ledger if worker == 1 else ledger / f"{WORKER_PREFIX}{worker}"


def list_spools(ledger: Path) -> list[Path]:
    """Return the spools of a gateway and of all its workers, also of those that there are no longer; the
    first one's first."""
    others = [
        path for path in ledger.glob(f"{WORKER_PREFIX}*") if path.name.removeprefix(WORKER_PREFIX).isdecimal()
    ]
    return [ledger, *sorted(others)]


def read_checkpoint(directory: Path) -> ShippedUpTo:
    """Return how far shipping has come; the beginning when nothing, or nothing readable, tells."""
    try:
        found = orjson.loads((directory / CHECKPOINT).read_bytes())
        return ShippedUpTo(
            Position(int(found["segment"]), int(found["offset"])),
            bool(found["clean"]),
            {
                gateway: Head(int(position), bytes.fromhex(link))
                for gateway, (position, link) in found.get("chains", {}).items()
            },
        )
    except FileNotFoundError:
        return ShippedUpTo()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.error("audit_checkpoint_unreadable", error=str(error))
        return ShippedUpTo()


def write_checkpoint(
    directory: Path, position: Position, chains: Mapping[str, Head], *, clean: bool = False
) -> None:
    """Make the position durable. A disk that takes no more is only logged: the cost is shipping twice."""
    data = orjson.dumps(
        {
            "segment": position.segment,
            "offset": position.offset,
            "clean": clean,
            "chains": {gateway: (head.position, head.link.hex()) for gateway, head in chains.items()},
        }
    )
    try:
        replace_file(directory / CHECKPOINT, data)
    except OSError as error:
        log.warning("audit_checkpoint_not_written", error=str(error))


def find_leftovers(segments: Sequence[Segment]) -> Leftovers:
    """Read closed segments whole; cut torn tails off their durable length and mark damaged ones.

    What opens a statement always stands before what closes it, so that only statements that were open at
    one time are held in memory, however long the spool is.
    """
    opened: dict[bytes, Entry] = {}
    damaged = False
    for segment in segments:
        data = segment.path.read_bytes()
        start = min(len(FILE_HEADER), len(data))
        if not FILE_HEADER.startswith(data[:start]):
            segment.damaged = True
            log.error("audit_segment_damaged", path=str(segment.path), first=0, last=start)
        found = scan(data[start:], start)
        for first, last in found.damage:
            segment.damaged = True
            log.error("audit_segment_damaged", path=str(segment.path), first=first, last=last)
        if found.tail < len(data):
            log.warning("audit_segment_torn", path=str(segment.path), dropped=len(data) - found.tail)
        segment.durable = found.tail
        damaged = damaged or segment.damaged
        for entry in found.entries:
            if entry.mark in OPENS:
                opened[entry.statement] = entry
            elif entry.mark in CLOSES:
                opened.pop(entry.statement, None)
    return Leftovers(tuple(opened.values()), damaged)


def bytes_behind(segments: Sequence[Segment], position: Position) -> int:
    """Return how many bytes of entries stand behind the position."""
    behind = 0
    for segment in segments:
        if segment.number >= position.segment:
            start = position.offset if segment.number == position.segment else len(FILE_HEADER)
            behind += max(0, segment.durable - start)
    return behind


def read_stretch(
    segments: Sequence[Segment], position: Position, *, max_bytes: int, max_entries: int
) -> Stretch | None:
    """Read the next entries of one segment; None when everything durable has been read.

    Bytes that cannot be read as entries are passed over, and their segment is marked as damaged.
    """
    for segment in segments:
        if segment.number < position.segment:
            continue
        start = position.offset if segment.number == position.segment else len(FILE_HEADER)
        end = segment.durable
        if start < end:
            try:
                return _read_segment(segment, start, end, max_bytes, max_entries)
            except FileNotFoundError:
                log.error("audit_segment_missing", path=str(segment.path), unshipped=end - start)
                return Stretch((), Position(segment.number, end), end - start)
    return None


def _read_segment(segment: Segment, start: int, end: int, max_bytes: int, max_entries: int) -> Stretch:
    size = max_bytes
    while True:
        stop = min(end, start + size)
        found = scan(_read(segment.path, start, stop), start)
        whole = stop == end
        # A chunk cuts its last entry in two. Only at the durable end is an incomplete entry damage.
        if not found.entries and not whole:
            size *= 2
            continue
        entries = found.entries[:max_entries]
        complete = whole and len(entries) == len(found.entries)
        if complete and found.tail < end:
            found.damage.append((found.tail, end))
        reached = end if complete else entries[-1].end
        for first, last in found.damage:
            # Behind the last entry a cut one may only look like damage: it is read again.
            if first < reached:
                segment.damaged = True
                log.error("audit_segment_damaged", path=str(segment.path), first=first, last=last)
        return Stretch(entries, Position(segment.number, reached), reached - start)


def _read(path: Path, start: int, stop: int) -> bytes:
    """Read with pread, not a memory map: a bad block then is an OSError instead of the end of the process."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while start < stop:
            part = os.pread(fd, stop - start, start)
            if not part:
                break
            parts.append(part)
            start += len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def list_shipped_segments(segments: Sequence[Segment], position: Position) -> list[Segment]:
    """Return the closed segments that lie wholly before the position."""
    return [
        segment
        for segment in segments
        if segment.closed
        and (
            segment.number < position.segment
            or (segment.number == position.segment and position.offset >= segment.durable)
        )
    ]


def remove(segment: Segment) -> None:
    """Delete a segment's file, or put it aside when it is damaged. Raises OSError."""
    directory = segment.path.parent
    if segment.damaged and segment.path.exists():
        aside = directory / DAMAGED
        aside.mkdir(mode=0o700, exist_ok=True)
        segment.path.rename(aside / segment.path.name)
        sync_directory(aside)
        log.error("audit_segment_put_aside", path=str(aside / segment.path.name))
    else:
        segment.path.unlink(missing_ok=True)
    sync_directory(directory)
