"""The file format of the spool: a segment is a header and entries, each of which proves itself whole.

An entry is magic, payload length, CRC-32, mark, statement id and payload. The CRC covers everything after
itself and the length. The magic begins with 0xFF 0xFE, bytes that UTF-8 never contains, and payloads are
JSON in UTF-8: whatever a user types, no payload can look like the start of an entry. That is what lets a
reader find its feet again behind damaged bytes.
"""

from __future__ import annotations

import enum
import struct
import zlib
from dataclasses import dataclass, field

FILE_HEADER = b"SLUICE1\n"
MAGIC = b"\xff\xfeSR"
ENTRY_HEADER = struct.Struct(">4sIIB16s")
_CHECKED = struct.Struct(">IB16s")
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""Statements are limited to far less; a longer length can only be damage."""

NO_STATEMENT = bytes(16)


class Mark(enum.IntEnum):
    """Kind of an entry; enough to find open statements without reading any JSON."""

    PADDING = 0
    """Written to find out whether the disk takes writes again; never shipped."""
    CLEARED = 1
    REFUSED = 2
    COMPLETED = 3
    ABANDONED = 4
    OTHER = 5
    """An event that belongs to no statement: a login, a security event."""
    OPEN = 6
    """A cleared statement that still ran when the segment with its decision was removed; never shipped."""


SHIPPED = frozenset({Mark.CLEARED, Mark.REFUSED, Mark.COMPLETED, Mark.ABANDONED, Mark.OTHER})
OPENS = frozenset({Mark.CLEARED, Mark.OPEN})
CLOSES = frozenset({Mark.COMPLETED, Mark.ABANDONED})


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry; `end` is the offset behind it in its segment, 0 before it was written."""

    mark: Mark
    statement: bytes
    """The statement's UUID as 16 bytes, zeros when there is none."""
    payload: bytes
    end: int = 0


@dataclass(slots=True)
class Scan:
    """Contents of a stretch of a segment. Entries are in order; `damage` lists byte ranges without any."""

    entries: list[Entry] = field(default_factory=list)
    damage: list[tuple[int, int]] = field(default_factory=list)
    tail: int = 0
    """Where whole entries end; equals the stretch's end unless the last entry is incomplete."""


def encode(entry: Entry) -> bytes:
    """Write an entry. Raises ValueError when the payload is longer than MAX_PAYLOAD_BYTES."""
    length = len(entry.payload)
    if length > MAX_PAYLOAD_BYTES:
        raise ValueError(f"an audit record of {length} bytes is longer than {MAX_PAYLOAD_BYTES}")
    check = zlib.crc32(entry.payload, zlib.crc32(_CHECKED.pack(length, entry.mark, entry.statement)))
    return ENTRY_HEADER.pack(MAGIC, length, check, entry.mark, entry.statement) + entry.payload


def scan(data: bytes, base: int = 0) -> Scan:
    """Read every whole entry of `data`, which stands at offset `base` of its segment and starts an entry.

    Bytes that are no entry but have one behind them are damage. At the end, an entry that is cut short, or
    zeros, is a torn tail: a write that never finished and was never acknowledged. Anything else there is
    damage too.
    """
    found = Scan(tail=base + len(data))
    at, end = 0, len(data)
    while at < end:
        entry = _entry_at(data, at, base)
        if entry is not None:
            found.entries.append(entry)
            at = entry.end - base
            continue
        behind = _next_entry(data, at + 1, base)
        if behind < 0:
            if _is_torn(data, at):
                found.tail = base + at
            else:
                found.damage.append((base + at, base + end))
            break
        found.damage.append((base + at, base + behind))
        at = behind
    return found


def _entry_at(data: bytes, at: int, base: int) -> Entry | None:
    start = at + ENTRY_HEADER.size
    if start > len(data):
        return None
    magic, length, check, mark, statement = ENTRY_HEADER.unpack_from(data, at)
    if magic != MAGIC or length > MAX_PAYLOAD_BYTES or start + length > len(data) or mark > Mark.OPEN:
        return None
    payload = data[start : start + length]
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(length, mark, statement))) != check:
        return None
    return Entry(Mark(mark), statement, payload, base + start + length)


def _next_entry(data: bytes, at: int, base: int) -> int:
    """Return the offset of the first whole entry from `at` on, or −1."""
    at = data.find(MAGIC, at)
    while at >= 0 and _entry_at(data, at, base) is None:
        at = data.find(MAGIC, at + 1)
    return at


def _is_torn(data: bytes, at: int) -> bool:
    """Whether the rest is an unfinished write: a prefix of an entry, or blocks that were never filled."""
    rest = data[at : at + ENTRY_HEADER.size]
    if rest[: len(MAGIC)] == MAGIC[: len(rest)]:
        if len(rest) < ENTRY_HEADER.size:
            return True
        length = int(ENTRY_HEADER.unpack(rest)[1])
        return length <= MAX_PAYLOAD_BYTES and at + ENTRY_HEADER.size + length > len(data)
    return not any(rest) and not data[at:].strip(b"\0")
