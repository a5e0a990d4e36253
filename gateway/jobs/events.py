"""Audit events on their way from PostgreSQL to Parquet: bounded chunks, and sums that tell whether all came.

The sums are over links and digests of events, modulo 2^256, so that they do not depend on the order of
events. A digest is what the chain binds an event by: it does not change when texts are erased.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from gateway.audit.chain import digest_of_lines, line, lines_of_body
from gateway.audit.erasing import KINDS, Erasures
from gateway.audit.rows import COLUMN_TYPES, COLUMNS, event_digest, json_object, select_time

CHUNK_BYTES = 8 * 1024**2
"""Bytes held in memory at once, plus one row; a chunk is a row group of the file."""
PROGRESS_EVERY_S = 5.0
"""Seconds between lines of progress."""
MODULUS = 1 << 256
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STORED = (*COLUMNS, "erased", "chain_position", "link", "stored_at")
"""Columns of the archive: everything that a row of `sluice.audit_event` has."""
_SPARK_TYPES = {
    "text[]": "array<string>",
    "bytea": "binary",
    "timestamp with time zone": "timestamp",
    "bigint": "bigint",
    "boolean": "boolean",
    "double precision": "double",
}
SPARK_SCHEMA = ", ".join(f"`{name}` {_SPARK_TYPES.get(COLUMN_TYPES[name], 'string')}" for name in STORED)


def midnight(day: date) -> datetime:
    """Return the beginning of a day of the record."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def moment(micros: int | None) -> datetime:
    """Return a time of Spark's; 1970 for none."""
    return _EPOCH + timedelta(microseconds=micros or 0)


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


def sums_of(batch: Any) -> Sums:
    """Return what a batch of events from PostgreSQL, or from the archive, comes to."""
    links = [link for link in _values(batch, "link") if link is not None]
    return Sums(
        batch.num_rows,
        batch.column(batch.schema.get_field_index("chain_position")).null_count,
        sum(map(_number, links)) % MODULUS,
        sum(map(_number, digests_of(batch))) % MODULUS,
    )


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")


def digests_of(batch: Any) -> list[bytes]:
    """Return the digests that chains bind events by, of a batch from PostgreSQL or from the archive."""
    bodies = [json_object(text) for text in _values(batch, "body")]
    lines = [_lines(batch, name) for name in _BEFORE_BODY]
    lines.append([lines_of_body(body) for body in bodies])
    lines += [_lines(batch, name) for name in _BEHIND_BODY]
    found = [digest_of_lines("".join(of_event)) for of_event in zip(*lines, strict=True)]
    erased = batch.column(batch.schema.get_field_index("erased"))
    if erased.null_count < len(erased):
        columns = {name: _values(batch, name) for name in (*COLUMNS, "erased")}
        for at, digests in enumerate(columns["erased"]):
            if digests is not None:
                found[at] = event_digest({name: values[at] for name, values in columns.items()})
    return found


_BEFORE_BODY = sorted(name for name in COLUMNS if name < "body")
_BEHIND_BODY = sorted(name for name in COLUMNS if name > "body")
"""`body.` is before all that is behind `body`."""
_ALWAYS_NEW = frozenset({"event_id", "time", "statement_id"})


def _lines(batch: Any, name: str) -> list[str]:
    """Return the line that each event has for the value of a column; none for null."""
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count == len(column):
        return [""] * len(column)
    if name in _ALWAYS_NEW or COLUMN_TYPES.get(name) == "text[]":
        return ["" if value is None else line(name, value) for value in _values(batch, name)]
    encoded = column.dictionary_encode()
    known = [line(name, value) for value in encoded.dictionary.to_pylist()]
    return ["" if at is None else known[at] for at in encoded.indices.to_pylist()]


def _values(batch: Any, name: str) -> list[Any]:
    """Return the values of a column as they come from PostgreSQL, but for ids, which are texts."""
    column = batch.column(batch.schema.get_field_index(name))
    if COLUMN_TYPES.get(name) == "timestamp with time zone":
        return [None if since is None else moment(since) for since in column.cast("int64").to_pylist()]
    found: list[Any] = column.to_pylist()
    return found


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


async def heads_of_chains(connection: Any) -> dict[str, int]:
    """Return the last place in the chain of each gateway.

    A snapshot that is taken after this has all events up to there, and what comes later has later places,
    whatever clocks say: one transaction at a time gives events their places, and the chain its end.
    """
    rows = await connection.fetch("SELECT gateway, chain_position FROM sluice.audit_chain")
    return {row["gateway"]: row["chain_position"] for row in rows}


async def land(
    connection: Any,
    query: str,
    arguments: Sequence[Any],
    directory: Path,
    *,
    file: str = "events.parquet",
    names: Sequence[str] = STORED,
    schema: Any = None,
    each: Callable[[Any], None] = lambda batch: None,
    told: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write the rows of a query, in a transaction, to a Parquet file and return how many there were.

    `schema` is that of Arrow for what are no columns of events. `each` is given each batch on its way.
    """
    from pyarrow import parquet

    schema = arrow_schema(names) if schema is None else schema
    total, spoken = 0, time.monotonic()
    with parquet.ParquetWriter(directory / file, schema, compression="zstd") as writer:
        chunk = bytearray()

        async def write() -> None:
            nonlocal total, spoken
            batch = await asyncio.to_thread(batch_of, bytes(chunk), schema)
            chunk.clear()
            each(batch)
            await asyncio.to_thread(writer.write_batch, batch)
            total += batch.num_rows
            if time.monotonic() - spoken > PROGRESS_EVERY_S:
                told(total)
                spoken = time.monotonic()

        async def more(data: bytes) -> None:
            # PostgreSQL sends whole rows.
            chunk.extend(data)
            if len(chunk) >= CHUNK_BYTES:
                await write()

        await connection.execute(_FORM)
        await connection.copy_from_query(
            f"SELECT {_as_texts(schema)} FROM ({query}) AS found", *arguments, output=more, format="csv"
        )
        if chunk:
            await write()
    return total


_FORM = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = ISO; SET LOCAL extra_float_digits = 1"
"""Whatever the database or the user has for others: values as they are, to the last digit."""


def _as_texts(schema: Any) -> str:
    """Return the list of a SELECT that writes columns as `batch_of` reads them."""
    from pyarrow import types

    def write_column(field: Any) -> str:
        if types.is_list(field.type):
            return f'to_json("{field.name}")'
        if types.is_timestamp(field.type):
            return select_time(f'"{field.name}"')
        return f"encode(\"{field.name}\", 'hex')" if types.is_binary(field.type) else f'"{field.name}"'

    return ", ".join(write_column(field) for field in schema)


def batch_of(rows: bytes, schema: Any) -> Any:
    """Read rows as PostgreSQL writes them in CSV: null is nothing, and an empty text is in quotes."""
    import pyarrow
    from pyarrow import csv, types

    as_text = {
        field.name: pyarrow.string()
        if types.is_list(field.type) or types.is_binary(field.type)
        else field.type
        for field in schema
    }
    table = csv.read_csv(
        pyarrow.BufferReader(rows),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(rows) + 1, column_names=schema.names),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=as_text,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )
    return pyarrow.RecordBatch.from_arrays(
        [_of_texts(table.column(at).combine_chunks(), field.type) for at, field in enumerate(schema)],
        schema=schema,
    )


def _of_texts(texts: Any, kind: Any) -> Any:
    """Return lists of the JSON, and bytes of the hexadecimal, in which they came."""
    import pyarrow
    from pyarrow import types

    if types.is_list(kind):
        # The same lists come again and again.
        encoded = texts.dictionary_encode()
        lists = [orjson.loads(text) for text in encoded.dictionary.to_pylist()]
        return pyarrow.array(lists, kind).take(encoded.indices)
    if types.is_binary(kind):
        return pyarrow.array(
            [None if text is None else bytes.fromhex(text) for text in texts.to_pylist()], kind
        )
    return texts


def arrow_schema(names: Iterable[str] = STORED) -> Any:
    """Return the types of columns in Parquet files that are made here: those of the record, and texts."""
    import pyarrow

    types = {
        "text[]": pyarrow.list_(pyarrow.string()),
        "bytea": pyarrow.binary(),
        "timestamp with time zone": pyarrow.timestamp("us", "UTC"),
        "bigint": pyarrow.int64(),
        "boolean": pyarrow.bool_(),
        "double precision": pyarrow.float64(),
    }
    return pyarrow.schema(
        [(name, types.get(COLUMN_TYPES.get(name, "text"), pyarrow.string())) for name in names]
    )


def with_lost(frame: Any, erasures: Erasures) -> Any:
    """Return a DataFrame of events with `lost`: whether its texts are gone, and no erasure covers that."""
    from pyspark.sql import functions as f

    spark = frame.sparkSession
    known = f.broadcast(
        spark.createDataFrame(list(erasures.items()), "erased_of string, erased_until timestamp")
    )
    covered = (
        (f.col("user_name") == f.col("erased_of"))
        & (f.col("time") < f.col("erased_until"))
        & f.col("kind").isin(*KINDS)
    )
    lost = f.col("erased").isNotNull() & f.col("erased_of").isNull()
    return frame.join(known, covered, "left").withColumn("lost", lost).drop("erased_of", "erased_until")


def count_lost(batch: Any, erasures: Erasures) -> int:
    """Return how many events of a batch have lost texts that no erasure covers."""
    from pyarrow import compute

    gone = batch.filter(compute.is_valid(batch.column(batch.schema.get_field_index("erased"))))
    rows = gone.select(["user_name", "time", "kind"]).to_pylist() if gone.num_rows else ()
    return sum(not erasures.cover(row) for row in rows)


def sums_in_spark(frame: Any) -> Sums:
    """Return the sums of a DataFrame of events; one small row for each of Spark's tasks comes back."""
    parts = frame.mapInArrow(
        _sum_events, "events bigint, unchained bigint, links string, digests string"
    ).collect()
    found = Sums()
    for part in parts:
        found += Sums(part["events"], part["unchained"], int(part["links"], 16), int(part["digests"], 16))
    return found


def _sum_events(batches: Iterator[Any]) -> Iterator[Any]:
    """Sum the events of one task, in a Python worker."""
    import pyarrow

    found = Sums()
    for batch in batches:
        found += sums_of(batch)
    links, digests = found.hexadecimal()
    columns = {
        "events": [found.events],
        "unchained": [found.unchained],
        "links": [links],
        "digests": [digests],
    }
    yield pyarrow.RecordBatch.from_pydict(columns)
