"""Audit events on their way from PostgreSQL to Parquet: bounded chunks, and sums that tell whether all came.

The sums are over links and digests of events, modulo 2^256, so that they do not depend on the order of
events. A digest is what the chain binds an event by: it does not change when texts are erased.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gateway.audit.rows import COLUMNS, event_digest

CHUNK_ROWS, CHUNK_BYTES = 2_000, 16 * 1024**2
"""What is in memory at once on the way; a chunk is a row group of the file."""
FETCH_ROWS = 500
TELL_S = 5.0
"""Seconds between lines of progress."""
MODULUS = 1 << 256

_TEXTS = frozenset({"groups", "roles", "resources", "policies"})
_BYTES = frozenset({"statement_sha256", "forwarded_sha256", "original_record", "link"})
_TIMES = frozenset({"time", "stored_at"})
_INTEGERS = frozenset({"rows", "bytes", "chain_position"})
STORED = (*COLUMNS, "erased", "chain_position", "link", "stored_at")
"""Columns of the archive: everything that a row of `sluice.audit_event` has."""
SPARK_SCHEMA = ", ".join(
    f"`{name}` "
    + (
        "array<string>"
        if name in _TEXTS
        else "binary"
        if name in _BYTES
        else "timestamp"
        if name in _TIMES
        else "bigint"
        if name in _INTEGERS
        else {"readers_agree": "boolean", "duration_ms": "double"}.get(name, "string")
    )
    for name in STORED
)


@dataclass(frozen=True, slots=True)
class Sums:
    """How many events there are, how many of them are in no chain, and what they come to."""

    events: int = 0
    unchained: int = 0
    links: int = 0
    digests: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.events + other.events,
            self.unchained + other.unchained,
            (self.links + other.links) % MODULUS,
            (self.digests + other.digests) % MODULUS,
        )

    def hexadecimal(self) -> tuple[str, str]:
        return f"{self.links:064x}", f"{self.digests:064x}"


def sums_of(row: Mapping[str, Any]) -> Sums:
    """Return what one event adds."""
    kept = row["link"]
    return Sums(
        1,
        int(row["chain_position"] is None),
        int.from_bytes(kept or b"", "big") % MODULUS,
        int.from_bytes(event_digest(row), "big"),
    )


_LANES = ", ".join(
    f"coalesce(sum(('x' || encode(substring(link, {4 * lane + 1}, 4), 'hex'))::bit(32)::bigint), 0)"
    f" AS l{lane}"
    for lane in range(8)
)


async def links_in_database(connection: Any, relation: str) -> tuple[int, int]:
    """Return how many events a relation has and the sum of their links, as PostgreSQL itself makes them."""
    row = await connection.fetchrow(f"SELECT count(*) AS events, {_LANES} FROM {relation}")
    total = sum(int(row[f"l{lane}"]) << 32 * (7 - lane) for lane in range(8))
    return int(row["events"]), total % MODULUS


async def stored_by(connection: Any) -> datetime:
    """Return a moment before which whatever was stored can be seen by a snapshot that is taken after this.

    `stored_at` is the beginning of a transaction, which may end much later. Of a transaction that we may not
    look at, an hour is taken for granted.
    """
    found: datetime = await connection.fetchval(
        "SELECT least(now(), min(CASE WHEN backend_type = 'client backend' AND state IS NULL"
        " THEN now() - interval '1 hour' ELSE xact_start END))"
        " FROM pg_stat_activity WHERE datname = current_database()"
    )
    return found


async def land(
    connection: Any,
    query: str,
    arguments: Sequence[Any],
    directory: Path,
    *,
    names: Sequence[str] = STORED,
    schema: Any = None,
    each: Callable[[Any], None] = lambda row: None,
    told: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write the rows of a query, in a transaction, to a Parquet file and return how many there were.

    `schema` is that of Arrow for what are no columns of events.
    """
    import pyarrow
    from pyarrow import parquet

    schema = arrow_schema(names) if schema is None else schema
    rows: list[Any] = []
    size, total, spoken = 0, 0, time.monotonic()
    with parquet.ParquetWriter(directory / "events.parquet", schema, compression="zstd") as writer:

        def write() -> None:
            columns = {name: [_plain(row[name]) for row in rows] for name in names}
            writer.write_table(pyarrow.table(columns, schema=schema))
            rows.clear()

        async for row in connection.cursor(query, *arguments, prefetch=FETCH_ROWS):
            each(row)
            rows.append(row)
            size += sum(len(value) for value in row.values() if isinstance(value, str | bytes))
            total += 1
            if len(rows) >= CHUNK_ROWS or size >= CHUNK_BYTES:
                write()
                size = 0
                if time.monotonic() - spoken > TELL_S:
                    told(total)
                    spoken = time.monotonic()
        if rows:
            write()
    return total


def arrow_schema(names: Iterable[str] = STORED) -> Any:
    """Return the types of columns in Parquet files that are made here."""
    import pyarrow

    def kind(name: str) -> Any:
        if name in _TEXTS:
            return pyarrow.list_(pyarrow.string())
        if name in _BYTES:
            return pyarrow.binary()
        if name in _TIMES:
            return pyarrow.timestamp("us", "UTC")
        if name in _INTEGERS:
            return pyarrow.int64()
        return {"readers_agree": pyarrow.bool_(), "duration_ms": pyarrow.float64()}.get(
            name, pyarrow.string()
        )

    return pyarrow.schema([(name, kind(name)) for name in names])


def _plain(value: Any) -> Any:
    """Return what Arrow takes: ids are texts in the lake."""
    return str(value) if type(value).__name__ == "UUID" else value


def sums_in_spark(frame: Any) -> Sums:
    """Return the sums of a DataFrame of events; one small row for each of Spark's tasks comes back."""
    parts = frame.mapInArrow(
        _summed, "events bigint, unchained bigint, links string, digests string"
    ).collect()
    found = Sums()
    for part in parts:
        found += Sums(part["events"], part["unchained"], int(part["links"], 16), int(part["digests"], 16))
    return found


def _summed(batches: Iterator[Any]) -> Iterator[Any]:
    """Sum the events of one task, in a Python worker."""
    import pyarrow

    found = Sums()
    for batch in batches:
        for row in batch.to_pylist():
            found += sums_of(row)
    links, digests = found.hexadecimal()
    columns = {
        "events": [found.events],
        "unchained": [found.unchained],
        "links": [links],
        "digests": [digests],
    }
    yield pyarrow.RecordBatch.from_pydict(columns)
