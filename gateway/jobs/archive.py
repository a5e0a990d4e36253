"""`archive`: days of the record go from PostgreSQL's partitions to Parquet, by day and hour, exactly once.

A day is copied in one snapshot of the database, sorted and written by Spark, read again by Spark, and held
to what PostgreSQL has: the number of its events, the sum of their links, the sum of their digests. Late
events of a day have the whole day written again. `archive_dropping` says when a day may go from PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta
from typing import Any

from gateway.audit.erasing import Erasure, Erasures, read_erasures, without_texts
from gateway.errors import LedgerUnavailable
from gateway.jobs.archive_dropping import Keeping, SeenErasures, Troubles, drop_days, read_dropped_sums
from gateway.jobs.events import (
    SPARK_SCHEMA,
    STORED,
    Sums,
    arrow_schema,
    count_lost,
    land,
    links_in_database,
    midnight,
    sums_in_spark,
    sums_of,
)
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.locks import LOCKS
from gateway.jobs.tables import LANDING, STAGING, clear_landing, landings

VERSION = 1
TABLE = "audit_event"
_PREFIX = "audit_event_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """Settings of the archive job that an operator may change."""

    settle_s: float = 3600.0
    """Seconds after its end before a day is archived: what gateways have not shipped yet comes first."""
    row_group_bytes: int = 32 * 1024**2
    file_rows: int = 1_000_000
    keeping: Keeping


@dataclass(frozen=True, slots=True, kw_only=True)
class _Day:
    """A day that has something for the archive."""

    day: date
    partition: str | None
    """Its table in PostgreSQL; None where only the archive has it, and an erasure came."""
    known: Mapping[str, Any] | None
    """Its row of `sluice.archive_day`; None also where the lake has lost what PostgreSQL still has."""

    @property
    def merges(self) -> bool:
        """Whether some of what is in the lake is in PostgreSQL no more."""
        return self.known is not None and self.known["dropped_events"] > 0

    @property
    def name(self) -> str:
        return _name_partition(self.day)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewCopy:
    """A day that is written and verified, and not in its place yet."""

    came: int
    """Events of it that PostgreSQL has."""
    sums: Sums
    chains: Sequence[Any]
    erasures: SeenErasures


def archive(options: ArchiveOptions) -> Job:
    return Job(
        name="archive",
        version=VERSION,
        about="copies past days of the record to the lake, and drops them from PostgreSQL when that is "
        "allowed",
        reads=("sluice.audit_event",),
        writes=(TABLE, "sluice.archive_day"),
        run=lambda work: _Archive(work, options).run(),
    )


class _Archive:
    def __init__(self, work: Work, options: ArchiveOptions) -> None:
        self._work, self._options = work, options
        self._table = work.table(TABLE)
        self._erased: list[Erasure] = []
        self._troubles = Troubles(work.progress)

    async def run(self) -> Outcome:
        work = self._work
        await self._table.settle(work.connection)
        await _clear_landings(work)
        days = await self._days()
        rows_in = rows_out = put = 0
        for number, day in enumerate(days, 1):
            work.progress(f"{day.day}: archiving begins, day {number} of {len(days)}")
            made = None
            with self._troubles.of(day.day):
                made = await self._make(day)
            # From here on an error ends the run: the next one puts the table right before it does anything.
            if made is not None:
                await self._put_in_place(day, made)
                rows_in += made.came
                rows_out += made.sums.events
                put += 1
            else:
                await asyncio.to_thread(self._table.remove_landing, f"day={day.day.isoformat()}")
        there = await partitions(work.connection)
        dropped = await drop_days(work, self._table, self._options.keeping, self._troubles, there)
        if put and await work.connection.fetchval("SELECT EXISTS (SELECT FROM sluice.audit_erasure)"):
            await asyncio.to_thread(self._table.forget)
        work.progress(f"{len(days)} days checked, {dropped} dropped from PostgreSQL")
        self._troubles.end()
        whole = [day.day for day in days]
        return Outcome(
            rows_in=rows_in,
            rows_out=rows_out,
            range_from=midnight(min(whole)) if whole else None,
            range_to=midnight(max(whole)) + timedelta(days=1) if whole else None,
            watermark=midnight(max(whole)) + timedelta(days=1) if whole else None,
        )

    async def _days(self) -> list[_Day]:
        """Return the days that have ended and are not in the archive as they are, the oldest first."""
        connection = self._work.connection
        known = {row["day"]: row for row in await connection.fetch("SELECT * FROM sluice.archive_day")}
        ended = (self._work.now - timedelta(seconds=self._options.settle_s)).astimezone(UTC).date()
        found = []
        there, gone = await partitions(connection), set(await self._table.find_missing_partitions(connection))
        for day, name in there.items():
            row = known.get(day)
            if row is not None and not row["dropped_events"] and _name_partition(day) in gone:
                row = None
            if day < ended and await self._has_news(day, name, row):
                found.append(_Day(day=day, partition=name, known=row))
        for day, row in known.items():
            if day not in there and await self._has_erasures(day, row):
                found.append(_Day(day=day, partition=None, known=row))
        return sorted(found, key=lambda one: one.day)

    async def _has_news(self, day: date, name: str, known: Mapping[str, Any] | None) -> bool:
        connection = self._work.connection
        if known is None:
            return bool(await connection.fetchval(f"SELECT EXISTS (SELECT FROM sluice.{name})"))
        if await self._has_erasures(day, known):
            return True
        if known["dropped_at"] is not None:
            return bool(await connection.fetchval(f"SELECT EXISTS (SELECT FROM sluice.{name})"))
        # What came since has a later place in its chain. The greatest one is the end of an index.
        late = (
            "SELECT EXISTS (SELECT FROM sluice.audit_chain g LEFT JOIN sluice.archive_chain c"
            " ON c.day = $1 AND c.gateway = g.gateway WHERE coalesce(c.last, 0) <"
            f" (SELECT max(e.chain_position) FROM sluice.{name} e WHERE e.gateway = g.gateway))"
        )
        return bool(await connection.fetchval(late, day))

    async def _erasures(self, day: date, seen: SeenErasures) -> tuple[list[Erasure], int | None]:
        """Return the erasures of texts of the day that are carried out there, or may be; and the number of
        the first behind those seen that a hold forbids: it waits, and whatever is behind it."""
        newest = self._erased[-1].number if self._erased else 0
        some = await read_erasures(self._work.connection, self._options.keeping.keys, behind=newest)
        for one in some:
            if not one.counts:
                self._work.progress(
                    f"erasure {one.number}, of texts of `{one.user}`, is not signed with a seal key: it is "
                    "not applied to the archive"
                )
        self._erased += some
        found = list[Erasure]()
        for one in self._erased:
            if not one.counts or not _concerns(one, day):
                continue
            if seen.has(one.number) or not any(
                hold.forbids_on(one.user, day) for hold in self._options.keeping.holds
            ):
                found.append(one)
            elif one.number > seen.last:
                return found, one.number
        return found, None

    async def _has_erasures(self, day: date, known: Mapping[str, Any]) -> bool:
        """Whether texts of the day were erased and may be, and the archive has them still."""
        seen = SeenErasures.of(known)
        found, _ = await self._erasures(day, seen)
        return not all(seen.has(one.number) for one in found)

    async def _make(self, day: _Day) -> _NewCopy | None:
        """Write a copy of one day beside the table, and hold it to PostgreSQL; None: the archive keeps the
        day as it is. Raises LedgerUnavailable where they are not the same, or the copy would lose events."""
        work, name = self._work, day.name
        spark = await work.spark()
        there = name in await self._table.partitions()
        erasure = int(await work.connection.fetchval("SELECT coalesce(max(id), 0) FROM sluice.audit_erasure"))
        carried_out, waiting = await self._erasures(day.day, SeenErasures.of(day.known))
        if waiting is not None:
            work.progress(f"{day.day}: erasure {waiting} and those after it wait because of a hold")
            erasure = min(erasure, waiting - 1)
        erasures = Erasures(carried_out)
        numbers = {one.number for one in carried_out}
        left = {one.number for one in self._erased if one.number <= erasure and _concerns(one, day.day)}
        came, lost = await self._land(day, erasures)
        if lost and there:
            why = "no erasure is recorded" if waiting is None else "no applicable erasure covers it"
            self._keep(day, f"{lost:,} events have lost texts in PostgreSQL, and {why}")
            return None
        work.progress(f"{day.day}: {came.events:,} events read from PostgreSQL")
        expected = came
        frame = spark.read.schema(SPARK_SCHEMA).parquet(str(self._make_landing(name)))
        if there or day.merges or day.partition is None:
            kept = self._table.read(spark, SPARK_SCHEMA, [name])
            # What PostgreSQL still has counts as it is there; the rest is in the archive only.
            rest = kept.alias("kept").join(frame.alias("came"), _same_event(), "left_anti")
            gone = read_dropped_sums(day.known) if day.known is not None else Sums()
            astray = await asyncio.to_thread(rest.count) - gone.events
            if astray > 0:
                self._keep(
                    day,
                    f"{astray:,} archived events are missing in PostgreSQL, although no run of this job "
                    "has dropped them",
                )
                return None
            expected += gone
            frame = rest.mapInArrow(_build_eraser(erasures), SPARK_SCHEMA).unionByName(frame)
        await asyncio.to_thread(self._write, frame, name)
        work.progress(f"{day.day}: written")
        written = spark.read.schema(SPARK_SCHEMA).parquet(str(self._table.directory / STAGING / name))
        self._require(await asyncio.to_thread(sums_in_spark, written), expected, "Spark has written")
        chains = await asyncio.to_thread(_chains, written)
        work.progress(f"{day.day}: verified, {expected.events:,} events")
        seen = SeenErasures(erasure, frozenset(left - numbers), last_reported=erasure)
        return _NewCopy(came=came.events, sums=expected, chains=chains, erasures=seen)

    def _keep(self, day: _Day, why: str) -> None:
        """Say why the archive keeps a day as it is, or raise it where PostgreSQL knows of no such archive:
        then it may be an older copy of itself."""
        told = f"{why}: the archive keeps the day unchanged"
        if day.known is None:
            raise LedgerUnavailable(f"{told}; PostgreSQL does not list it as archived")
        self._work.progress(f"{day.day}: {told}")

    async def _put_in_place(self, day: _Day, made: _NewCopy) -> None:
        work = self._work
        await work.replace(self._table, day.name)
        work.progress(f"{day.day}: moved into place")
        async with work.connection.transaction():
            await self._save(day, made)
        await asyncio.to_thread(self._table.drop_replaced_files, day.name)
        work.progress(f"{day.day}: archived")

    def _make_landing(self, name: str) -> Any:
        return self._table.directory / LANDING / name

    async def _land(self, day: _Day, erasures: Erasures) -> tuple[Sums, int]:
        """Copy the day's rows to a landing file, in a snapshot of their own; return what they come to, and
        how many of them have lost texts that no erasure covers."""
        found, lost = Sums(), 0

        def each(batch: Any) -> None:
            nonlocal found, lost
            found += sums_of(batch)
            lost += count_lost(batch, erasures)

        def report_rows(rows: int) -> None:
            self._work.progress(f"{day.day}: {rows:,} events read so far")

        directory = self._table.make_landing(day.name)
        relation = (
            f"sluice.{day.partition}" if day.partition else "(SELECT * FROM sluice.audit_event LIMIT 0) e"
        )
        connection = await self._work.connect()
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                await land(
                    connection,
                    f"SELECT {', '.join(STORED)} FROM {relation}",
                    (),
                    directory,
                    each=each,
                    told=report_rows,
                )
                events, links = await links_in_database(connection, relation)
        finally:
            connection.terminate()
        self._require(found, replace(found, events=events, links=links), "the copy has")
        return found, lost

    def _write(self, frame: Any, name: str) -> None:
        """Write a day's files by hour, each sorted as chains are read."""
        from pyspark.sql import functions

        hours = frame.withColumn("hour", functions.date_format("time", "HH"))
        sorted_hours = hours.repartition("hour").sortWithinPartitions("hour", "gateway", "chain_position")
        (
            sorted_hours.write.option("parquet.block.size", str(self._options.row_group_bytes))
            .option("maxRecordsPerFile", str(self._options.file_rows))
            .partitionBy("hour")
            .parquet(str(self._table.make_staging_path(name)))
        )

    def _require(self, found: Sums, expected: Sums, who: str) -> None:
        if found != expected:
            raise LedgerUnavailable(
                f"{who} {found.events:,} events instead of {expected.events:,}, or different ones: nothing "
                "was moved into place"
            )

    async def _save(self, day: _Day, made: _NewCopy) -> None:
        connection = self._work.connection
        sums = made.sums
        links, digests = sums.hexadecimal()
        await connection.execute(
            "INSERT INTO sluice.archive_day (day, version, events, unchained, links, digests, erasure,"
            " left_erasures, left_up_to, bytes, verified_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $10, $7, $8, clock_timestamp())"
            " ON CONFLICT (day) DO UPDATE SET version = excluded.version, events = excluded.events,"
            " unchained = excluded.unchained, links = excluded.links, digests = excluded.digests,"
            " erasure = excluded.erasure, left_erasures = excluded.left_erasures,"
            " left_up_to = excluded.left_up_to, bytes = excluded.bytes, verified_at = excluded.verified_at,"
            " dropped_at = CASE WHEN $9 THEN archive_day.dropped_at END",
            day.day,
            VERSION,
            sums.events,
            sums.unchained,
            links,
            digests,
            made.erasures.last,
            await asyncio.to_thread(self._table.bytes_of, day.name),
            not made.came,  # nothing of it is in PostgreSQL
            sorted(made.erasures.left),
        )
        await connection.execute("DELETE FROM sluice.archive_chain WHERE day = $1", day.day)
        await connection.executemany(
            "INSERT INTO sluice.archive_chain (day, gateway, first, last) VALUES ($1, $2, $3, $4)",
            [(day.day, row["gateway"], row["first"], row["last"]) for row in made.chains],
        )
        await self._table.commit(connection, day.name, self._work.run)


async def _clear_landings(work: Work) -> None:
    """Remove what killed runs of other jobs have left of the record: erasures reach no texts there."""
    for job, place in list(landings(work.lake)):
        if await work.connection.fetchval("SELECT pg_try_advisory_lock($1, hashtext($2))", LOCKS, job):
            try:
                await asyncio.to_thread(clear_landing, work.lake, job)
            finally:
                await work.connection.execute("SELECT pg_advisory_unlock($1, hashtext($2))", LOCKS, job)
            work.progress(f"`{place.parent.name}`: removed what a killed run had left there")


async def partitions(connection: Any) -> dict[date, str]:
    """Return the days that PostgreSQL has, with the names of their tables."""
    rows = await connection.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'sluice.audit_event'::regclass AND c.relnamespace = 'sluice'::regnamespace"
        " AND c.relname ~ '^audit_event_[0-9]{8}$'"
    )
    found = {}
    for name in sorted(str(row["relname"]) for row in rows):
        # Somebody else's, with a name that is no day, has none of ours.
        with contextlib.suppress(ValueError):
            found[date.fromisoformat(name.removeprefix(_PREFIX))] = name
    return found


def _concerns(one: Erasure, day: date) -> bool:
    """Whether an erasure takes texts of a day, if it counts."""
    return one.until is not None and one.until > midnight(day)


def _name_partition(day: date) -> str:
    """Return the name of a day's partition in the lake."""
    return f"day={day.isoformat()}"


def _build_eraser(erasures: Erasures) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what takes the erased texts out of events, in Python workers."""
    names = list(STORED)

    def erase_texts(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            rows = [without_texts(row) if erasures.cover(row) else row for row in batch.to_pylist()]
            columns = {name: [row[name] for row in rows] for name in names}
            yield pyarrow.RecordBatch.from_pydict(columns, schema=arrow_schema(names))

    return erase_texts


def _chains(frame: Any) -> list[Any]:
    """Return where each gateway's chain is in the frame: a row for each gateway."""
    from pyspark.sql import functions

    found: list[Any] = (
        frame.where("chain_position IS NOT NULL")
        .groupBy("gateway")
        .agg(
            functions.min("chain_position").alias("first"),
            functions.max("chain_position").alias("last"),
        )
        .collect()
    )
    return found


def _same_event() -> Any:
    """Return what holds for one event in two frames, `kept` and `came`; a place in a chain may be null."""
    from pyspark.sql import functions

    return (
        (functions.col("kept.event_id") == functions.col("came.event_id"))
        & (functions.col("kept.time") == functions.col("came.time"))
        & functions.col("kept.chain_position").eqNullSafe(functions.col("came.chain_position"))
    )
