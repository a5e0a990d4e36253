"""Chains in DataFrames: each event to what its chain has of it, and neighbours to a part that was walked.

Rows of one place in a chain are together, whatever they come from: the record itself, in PostgreSQL and in
the archive, and the archive's copies of what PostgreSQL still has.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson

from gateway.audit.chain import Head
from gateway.audit.rows import COLUMNS
from gateway.audit.verify import GONE
from gateway.audit.walking import NO_TIME, ChainPart, Changed, Finding, Kind, Linked, Verified, Walk
from gateway.jobs.events import digests_of

DATABASE, ARCHIVE, COPY = 0, 1, 2
"""Where a row is from: PostgreSQL; a day of the archive that went from there; one that is there, too."""
UNCHAINED_PARTS = 64
PART_FINDINGS = 200
NEEDED = (*COLUMNS, "erased", "chain_position", "link")
_LINKED = (
    "gateway string, part bigint, chain_position bigint, link binary, digest binary, event_id string,"
    " time timestamp, source int, copied boolean, astray boolean, behind boolean, lost boolean"
)

_Batches = Callable[[Iterator[Any]], Iterator[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """A part of a chain, or events that are in none."""

    gateway: str
    number: int
    """In the order of the chain; below 0 where it is of none."""
    part: ChainPart | None
    findings: Sequence[Finding]
    """Findings about the archive's copies, and about events in no chain."""
    more: int


def parts(events: Any, sealed: Mapping[str, frozenset[int]], places: int) -> Any:
    """Return a frame of parts as JSON, each of so many places of a chain, of a frame of events.

    These have `NEEDED`, `source`, `copied` (the archive must have it as well), `astray` (it lies in the files
    of another hour), `behind` (PostgreSQL has an earlier one of its day, so that it must have this one, too)
    and `lost` (its texts are gone, and no erasure is on record).
    """
    from pyspark.sql import functions as f

    together = events.mapInArrow(_build_linker(places), _LINKED).repartition("gateway", "part")
    in_no_chain = f.when(f.col("part") < 0, f.col("event_id"))
    ordered = together.sortWithinPartitions(
        "gateway", "part", "chain_position", in_no_chain, "source", "time", "event_id"
    )
    return ordered.mapInArrow(_build_walker(sealed), "walked string")


def _build_linker(places: int) -> _Batches:
    def link(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield build_links(batch, places)

    return link


def build_links(batch: Any, places: int) -> Any:
    """Return what chains have of the events of a batch, by columns; what has no value is none of a chain."""
    import pyarrow
    from pyarrow import compute

    def column(name: str, otherwise: Any = None) -> Any:
        values = batch.column(batch.schema.get_field_index(name))
        return values if otherwise is None else compute.fill_null(values, otherwise)

    positions = compute.max_element_wise(column("chain_position", 0), 0)
    event_ids = column("event_id", "")
    found = {
        "gateway": column("gateway", ""),
        "part": _part_numbers(positions.to_pylist(), event_ids, places),
        "chain_position": positions,
        "link": column("link", b""),
        "digest": digests_of(batch),
        "event_id": event_ids,
        "time": column("time", pyarrow.scalar(NO_TIME, pyarrow.timestamp("us", "UTC"))),
        "source": column("source"),
        "copied": column("copied"),
        "astray": column("astray"),
        "behind": column("behind"),
        "lost": column("lost"),
    }
    return pyarrow.RecordBatch.from_pydict(found, schema=_build_link_schema())


def _part_numbers(positions: Sequence[int], event_ids: Any, places: int) -> list[int]:
    """Return the part that each event is walked in; events that are in no chain are spread."""
    if min(positions, default=1) > 0:
        return [(position - 1) // places for position in positions]
    return [
        (position - 1) // places if position > 0 else -1 - zlib.crc32(event_id.encode()) % UNCHAINED_PARTS
        for position, event_id in zip(positions, event_ids.to_pylist(), strict=True)
    ]


def _build_link_schema() -> Any:
    import pyarrow

    kinds = {
        "string": pyarrow.string(),
        "bigint": pyarrow.int64(),
        "binary": pyarrow.binary(),
        "int": pyarrow.int32(),
        "boolean": pyarrow.bool_(),
        "timestamp": pyarrow.timestamp("us", "UTC"),
    }
    pairs = [one.split() for one in _LINKED.split(", ")]
    return pyarrow.schema([(name, kinds[kind]) for name, kind in pairs])


def _build_walker(sealed: Mapping[str, frozenset[int]]) -> _Batches:
    def walk(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        rows = (row for batch in batches for row in batch.to_pylist())
        for (gateway, number), some in groupby(rows, key=itemgetter("gateway", "part")):
            walked = _walk(gateway, number, some, sealed.get(gateway, frozenset()))
            yield pyarrow.RecordBatch.from_pydict({"walked": [to_json(walked)]})

    return walk


def _walk(gateway: str, number: int, rows: Iterable[Mapping[str, Any]], sealed: frozenset[int]) -> Walked:
    told = Verified(most=PART_FINDINGS)
    first: Linked | None = None
    walk: Walk | None = None
    key = itemgetter("chain_position") if number >= 0 else itemgetter("event_id")
    for _, place in groupby(rows, key=key):
        for event in _record_of(list(place), told, chained=number >= 0):
            if walk is None:
                first = event
                begun = Head(event.position, event.link)
                walk = Walk(gateway, sealed, Verified(most=PART_FINDINGS), begun, PART_FINDINGS)
            else:
                walk.step(event)
    part = walk.part(first) if walk is not None and first is not None else None
    return Walked(gateway=gateway, number=number, part=part, findings=told.findings, more=told.more)


def _record_of(place: Sequence[Mapping[str, Any]], told: Verified, *, chained: bool) -> list[Linked]:
    """Return the record's events in one place, and tell where the archive has something else."""
    there = {row["event_id"]: row for row in place if row["source"] == DATABASE}
    seen: set[str] = set()
    record: list[Linked] = []

    def tell(kind: Kind, row: Mapping[str, Any], what: str) -> None:
        where = f"event {row['event_id']} of {row['time']:%Y-%m-%d %H:%M:%S}, by `{row['gateway']}`, {what}"
        told.add(Finding.of_event(kind, where, row))

    for row in place:
        name, twin = row["event_id"], there.get(row["event_id"])
        if row["astray"]:
            tell(Kind.CHANGED, row, "is in the archive's files of another hour")
        if row["lost"] and (chained or row["source"] != DATABASE):  # others are found in PostgreSQL
            tell(Kind.ERASED, row, "lost texts, but no erasure is recorded")
        if row["source"] == DATABASE:
            record.append(_event(row))
            continue
        if twin is not None and (twin["link"], twin["digest"]) != (row["link"], row["digest"]):
            tell(Kind.CHANGED, row, "differs between the archive and PostgreSQL")
        elif name in seen and (twin is not None or row["source"] == COPY):
            tell(Kind.REPEATED, row, "is in the archive twice")
        elif twin is None and row["source"] == COPY:
            tell(Kind.ADDED, row, "is in the archive but not in PostgreSQL, which has its day")
        elif twin is None:
            if row["behind"]:
                tell(Kind.MISSING, row, GONE)
            record.append(_event(row))
        seen.add(name)
    for row in place:
        if row["source"] == DATABASE and row["copied"] and row["event_id"] not in seen:
            tell(Kind.MISSING, row, "is not in the archive, which has its day")
        if not chained and row["source"] == ARCHIVE and row["event_id"] not in there:
            tell(Kind.ADDED, row, "is in the archive, and in no chain")
    return record if chained else []


def _event(row: Mapping[str, Any]) -> Linked:
    return Linked(row["chain_position"], row["link"], row["digest"], row["event_id"], row["time"])


def to_json(walked: Walked) -> str:
    """Write a part as Spark brings it to the driver."""
    return orjson.dumps(walked, default=bytes.hex, option=orjson.OPT_NON_STR_KEYS).decode()


def from_json(text: str) -> Walked:
    """Read what `to_json` has written."""
    found = orjson.loads(text)
    part = found["part"]
    return Walked(
        gateway=found["gateway"],
        number=found["number"],
        part=None
        if part is None
        else ChainPart(
            first=_read_linked(part["first"]),
            last=Head(part["last"]["position"], bytes.fromhex(part["last"]["link"])),
            events=part["events"],
            changed=[
                Changed(_read_linked(one["event"]), bytes.fromhex(one["previous"])) for one in part["changed"]
            ],
            findings=[_read_finding(one) for one in part["findings"]],
            more=part["more"],
            links={int(position): bytes.fromhex(link) for position, link in part["links"].items()},
        ),
        findings=[_read_finding(one) for one in found["findings"]],
        more=found["more"],
    )


def _read_linked(one: Mapping[str, Any]) -> Linked:
    return Linked(
        one["position"],
        bytes.fromhex(one["link"]),
        bytes.fromhex(one["digest"]),
        one["event_id"],
        datetime.fromisoformat(one["time"]),
    )


def _read_finding(one: Mapping[str, Any]) -> Finding:
    return Finding(**{**one, "kind": Kind(one["kind"])})
