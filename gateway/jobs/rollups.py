"""`rollups`: what the record comes to, by hour in the lake and by day in PostgreSQL.

The hours that an event came to since the last run are made anew as a whole: an event belongs to the hour of
its own time, and a statement with its end to the hour of its verdict. `rollup_frames` says what is counted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import orjson

from gateway.jobs import rollup_frames as frames
from gateway.jobs.archive import TABLE as ARCHIVE
from gateway.jobs.archive import partitions as days_in_database
from gateway.jobs.events import SPARK_SCHEMA, heads_of_chains, land, midnight, moment
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.rollup_frames import LEVELS
from gateway.jobs.rollup_texts import write_fingerprints
from gateway.jobs.spark import build_frame_writer
from gateway.jobs.tables import STAGING, LakeTable
from gateway.reader.shapes import FingerprintOf

VERSION = 3
NAMES = (
    *("event_id", "time", "kind", "statement_id", "user_name", "groups", "client_protocol", "application"),
    *("verdict", "code", "plan_class", "statement", "rows", "bytes", "duration_ms", "outcome", "body"),
)
"""What roll-ups need of an event; of the body, `_BODY_KEYS`, and of `lineage` who made what is read."""
SUMMARY_ROWS = 1_000
_BODY_KEYS = ("scans", "decisions", "action", "spark_ms", "plan", "texts", "sess", "operation", "complete")
_MADE = ", ".join(f"'{key}', body #> '{{lineage,{key}}}'" for key in ("temp_views", "relations"))
_BODY = ", ".join(f"'{key}', body -> '{key}'" for key in _BODY_KEYS)
_BODY += f", 'lineage', jsonb_strip_nulls(jsonb_build_object({_MADE}))"
_SELECT = ", ".join(f"jsonb_build_object({_BODY})::text AS body" if n == "body" else n for n in NAMES)

_ALL_HOURS = "SELECT DISTINCT date_trunc('hour', time, 'UTC') AS hour FROM sluice.audit_event"
_NEW_HOURS = """
WITH new AS MATERIALIZED (
    SELECT time, statement_id, kind IN ('completed', 'abandoned') AS ends,
           user_name, session_id, CASE kind WHEN 'reattached' THEN body->>'operation' END AS operation
    FROM sluice.audit_event
    WHERE gateway = $1 AND chain_position > $2 AND chain_position <= $3
), alone AS (
    SELECT to_timestamp(('x' || translate(left(n.statement_id::text, 13), '-', ''))::bit(48)::bigint / 1000.0)
           AS begun
    FROM new n WHERE n.ends AND NOT EXISTS (
        SELECT FROM sluice.audit_event d WHERE d.statement_id = n.statement_id AND d.kind = 'decided')
)
SELECT date_trunc('hour', time, 'UTC') AS hour FROM new
UNION SELECT date_trunc('hour', d.time, 'UTC') FROM new n
JOIN sluice.audit_event d ON d.statement_id = n.statement_id AND d.kind = 'decided' WHERE n.ends
UNION SELECT date_trunc('hour', d.time, 'UTC') FROM (SELECT * FROM new WHERE operation IS NOT NULL) n
CROSS JOIN LATERAL (
    SELECT d.time FROM sluice.audit_event d WHERE d.user_name = n.user_name AND d.kind = 'decided'
    AND d.time BETWEEN n.time - interval '2 days' AND n.time + interval '1 hour'
    AND d.session_id = n.session_id AND d.body->>'operation' = n.operation OFFSET 0) d
UNION SELECT date_trunc('hour', a.begun, 'UTC') + later
FROM alone a CROSS JOIN unnest('{0, 1 hour}'::interval[]) later JOIN sluice.archive_day g
ON g.dropped_events > 0 AND g.day = ((date_trunc('hour', a.begun, 'UTC') + later) AT TIME ZONE 'UTC')::date
"""
"""Of an end whose verdict the archive alone has, the statement's id tells when it was sent (UUIDv7); it was
decided soon after. What is taken up again is known by its operation alone; OFFSET has PostgreSQL look for
that by user and time."""
_GONE = """
SELECT day FROM sluice.archive_day d WHERE dropped_events > 0 AND ($1 OR EXISTS (
    SELECT FROM sluice.archive_chain c LEFT JOIN sluice.rollup_chain r ON r.gateway = c.gateway
    WHERE c.day = d.day AND c.last > coalesce(r.seen, 0)))
"""
"""Days that have gone from PostgreSQL with something that no run has seen."""
_DROPPED = "SELECT day FROM sluice.archive_day WHERE dropped_events > 0"

OpenFingerprints = Callable[[], AbstractAsyncContextManager[FingerprintOf]]
"""Starts what takes literals out of a text, by Spark's own lexer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupOptions:
    reader: OpenFingerprints
    statements: int = 10_000
    """Fingerprints, by user, that a day's summary has: those with most time."""


def rollups(options: RollupOptions) -> Job:
    return Job(
        name="rollups",
        version=VERSION,
        about="counts reads, refusals, slow statements and run times by hour and day",
        reads=("sluice.audit_event", ARCHIVE),
        writes=tuple(one.name for one in frames.TABLES) + tuple(frames.SUMMARIES),
        run=lambda work: _Rollups(work, options).run(),
    )


class _Rollups:
    def __init__(self, work: Work, options: RollupOptions) -> None:
        self._work, self._options = work, options
        self._tables = {one.name: work.table(one.name) for one in frames.TABLES}
        # Its directory is where events land on their way; there is no such table.
        self._way = LakeTable(work.lake, "_rollups")
        self._left: list[datetime] = []

    async def run(self) -> Outcome:
        work = self._work
        for table in (*self._tables.values(), self._way):
            await table.settle(work.connection)
        now = await work.connection.fetchval("SELECT now()")
        reached = await heads_of_chains(work.connection)
        hours = await self._list_touched_hours(reached)
        rows_in = rows_out = 0
        days = [(day, list(of_day)) for day, of_day in groupby(hours, lambda hour: hour.date())]
        if days:
            async with self._options.reader() as fingerprint:
                for number, (day, of_day) in enumerate(days, 1):
                    work.progress(f"{day}: {len(of_day)} hours, day {number} of {len(days)}")
                    came, written = await self._day(day, of_day, fingerprint)
                    rows_in, rows_out = rows_in + came, rows_out + written
        return Outcome(
            rows_in=rows_in,
            rows_out=rows_out,
            range_from=hours[0] if hours else None,
            range_to=hours[-1] + timedelta(hours=1) if hours else None,
            watermark=now,
            finish=partial(_reach, reached=reached, left=self._left),
        )

    async def _list_touched_hours(self, reached: Mapping[str, int]) -> list[datetime]:
        """Return the hours with something that the last run had not, in order; chains have come so far."""
        connection, found = self._work.connection, set[datetime]()
        anew = self._work.watermark is None
        if anew:
            found |= {row["hour"] for row in await connection.fetch(_ALL_HOURS)}
        else:
            seen = dict(await connection.fetch("SELECT gateway, seen FROM sluice.rollup_chain"))
            for gateway, last in reached.items():
                places = gateway, seen.get(gateway, 0), last
                if last > places[1]:
                    found |= {row["hour"] for row in await connection.fetch(_NEW_HOURS, *places)}
        found |= {row["hour"] for row in await connection.fetch("SELECT hour FROM sluice.rollup_left")}
        for row in await connection.fetch(_GONE, anew):
            found |= {midnight(row["day"]) + timedelta(hours=n) for n in range(24)}
        # What somebody has removed from the lake, as files that cannot be read, is made anew where there is a
        # record of it.
        there = {*(await days_in_database(connection))}
        there |= {row["day"] for row in await connection.fetch(_DROPPED)}
        names = [
            name
            for table in self._tables.values()
            for name in await table.find_missing_partitions(connection)
        ]
        gone = {datetime.strptime(f"{name}+0000", "hour=%Y-%m-%dT%H%z") for name in names}
        found |= {hour for hour in gone if hour.date() in there}
        hours = sorted(hour.astimezone(UTC) for hour in found)
        lost = await self._list_lost_days() if hours else frozenset()
        # Statements may end on the next day.
        self._left = left = [hour for hour in hours if {hour.date(), hour.date() + timedelta(days=1)} & lost]
        for day, of_day in groupby(left, lambda hour: hour.date()):
            self._work.progress(
                f"{day}: {len(list(of_day))} hours are unchanged: the archive has lost events of that day "
                "or the next that are no longer in PostgreSQL"
            )
        return [hour for hour in hours if hour not in left]

    async def _list_lost_days(self) -> frozenset[date]:
        """Return the days that went from PostgreSQL, and are not in the archive."""
        dropped = [row["day"] for row in await self._work.connection.fetch(_DROPPED)]
        if not dropped:
            return frozenset()
        archive = set(await self._work.table(ARCHIVE, writer="archive").partitions())
        return frozenset(day for day in dropped if f"day={day.isoformat()}" not in archive)

    async def _day(self, day: date, hours: Sequence[datetime], fingerprint: FingerprintOf) -> tuple[int, int]:
        """Make the hours of a day anew; return the events read and the rows written."""
        work = self._work
        spark = await work.spark()
        name = f"day={day.isoformat()}"
        landing = self._way.make_landing(name)
        makers = Makers()
        rows_in = await self._land(day, hours, landing, makers)
        work.progress(f"{day}: {rows_in:,} events read")
        await work.tune_for_rows(rows_in)
        events, ends, made_by = await self._frames(spark, day, hours, landing, makers)
        texts = landing / "fingerprints"
        texts.mkdir()
        count = await write_fingerprints(frames.texts_of(events), texts, fingerprint)
        work.progress(f"{day}: {count:,} texts without their literals")
        tags = await self._tags(spark)
        shapes = spark.read.schema(frames.FINGERPRINTS).parquet(str(texts))

        made = await asyncio.to_thread(
            frames.make, events, ends, made_by, shapes, tags, build_frame_writer(spark, landing)
        )
        work.progress(f"{day}: statements counted")
        rows_out = 0
        for table_name, frame in made.items():
            table = self._tables[table_name]
            await asyncio.to_thread(_write, frame, table.make_shared_staging_path())
            rows_out += await asyncio.to_thread(_count, spark, table.directory / STAGING)
        work.progress(f"{day}: {rows_out:,} rows written")
        partitions = [f"hour={hour:%Y-%m-%dT%H}" for hour in hours]
        for table in self._tables.values():
            for partition in partitions:
                await work.replace(table, partition)
        work.progress(f"{day}: moved into place")
        async with work.connection.transaction():
            await self._summarize(spark, day)
            for table in self._tables.values():
                for partition in partitions:
                    await table.commit(work.connection, partition, work.run)
        for table in self._tables.values():
            for partition in partitions:
                await asyncio.to_thread(table.drop_replaced_files, partition)
        self._way.remove_landing(name)
        work.progress(f"{day}: rolled up")
        return rows_in, rows_out

    async def _land(self, day: date, hours: Sequence[datetime], landing: Path, makers: Makers) -> int:
        """Copy the hours' events, what else ends their statements, and what made the temporary views and
        cached relations that these read, from a snapshot of the database."""
        begin, end = midnight(day), midnight(day) + timedelta(days=1)
        of_hours = "date_trunc('hour', {0}.time, 'UTC') = ANY ($1) AND {0}.time >= $2 AND {0}.time < $3"
        (landing / "events").mkdir()
        (landing / "ends").mkdir()
        (landing / "makers").mkdir()
        gone = await self._work.connection.fetchval(
            "SELECT EXISTS (SELECT FROM sluice.archive_day WHERE day = $1 AND dropped_events > 0)", day
        )
        connection = await self._work.connect()
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                rows = await land(
                    connection,
                    f"SELECT {_SELECT} FROM sluice.audit_event e WHERE {of_hours.format('e')}",
                    (list(hours), begin, end),
                    landing / "events",
                    names=NAMES,
                    each=makers.note,
                    told=lambda count: self._work.progress(f"{day}: {count:,} events read so far"),
                )
                rows += await makers.land(connection, _SELECT, NAMES, landing / "makers")
                rows += await land(
                    connection,
                    f"SELECT {_SELECT} FROM sluice.audit_event e WHERE e.kind = 'reattached'"
                    " AND e.time >= $2 AND e.time < $3::timestamptz + interval '1 day'"
                    f" AND NOT ({of_hours.format('e')})"
                    " AND ($4 OR EXISTS (SELECT FROM sluice.audit_event d WHERE d.kind = 'decided'"
                    " AND d.user_name = e.user_name AND d.session_id = e.session_id"
                    f" AND d.body->>'operation' = e.body->>'operation' AND {of_hours.format('d')} OFFSET 0))",
                    (list(hours), begin, end, gone),
                    landing / "ends",
                    file="reattached.parquet",
                    names=NAMES,
                )
                return rows + await land(
                    connection,
                    f"SELECT {_SELECT} FROM sluice.audit_event e WHERE e.kind IN ('completed', 'abandoned')"
                    f" AND e.time >= $2 AND NOT ({of_hours.format('e')})"
                    " AND (EXISTS (SELECT FROM sluice.audit_event d WHERE d.kind = 'decided'"
                    f" AND d.statement_id = e.statement_id AND {of_hours.format('d')})"
                    # What is in no hour of PostgreSQL may have been decided in one that the archive has.
                    " OR $4 AND NOT EXISTS (SELECT FROM sluice.audit_event d WHERE d.kind = 'decided'"
                    " AND d.statement_id = e.statement_id))",
                    (list(hours), begin, end, gone),
                    landing / "ends",
                    names=NAMES,
                )
        finally:
            connection.terminate()

    async def _frames(
        self, spark: Any, day: date, hours: Sequence[datetime], landing: Path, makers: Makers
    ) -> tuple[Any, Any, frames.MadeBy | None]:
        """Return the hours' events, the ends of statements and what made what they read, with those that the
        archive alone has."""
        events = spark.read.schema(frames.EVENTS).parquet(str(landing / "events"))
        later = spark.read.schema(frames.EVENTS).parquet(str(landing / "ends"))
        ends = events.where(frames.ENDS).unionByName(later)
        days = await self._work.connection.fetch(
            "SELECT day FROM sluice.archive_day WHERE dropped_events > 0 AND day BETWEEN $1 AND $2",
            day - timedelta(days=1),
            day + timedelta(days=1),
        )
        landed = landing / "makers"
        made_by = spark.read.schema(frames.EVENTS).parquet(str(landed)) if makers.levels else None
        levels = makers.levels
        archive = self._work.table(ARCHIVE, writer="archive")
        gone = {row["day"] for row in days}
        for row in days:
            if row["day"] < day and not (makers.are_missing or day in gone):
                continue
            # A statement that ends after the next day has its end in PostgreSQL, or is not known to end.
            # Of a day before that the archive has lost, what made views is not known.
            kept = archive.read(
                spark, SPARK_SCHEMA, [f"day={row['day'].isoformat()}"], all_there=row["day"] >= day
            )
            archived = frames.select_columns(kept, NAMES)
            if row["day"] == day:
                events = frames.union_once(events, frames.of_hours(archived, hours))
            if row["day"] <= day:
                # What was made before yesterday is in PostgreSQL, or not known.
                decided = archived.where("kind = 'decided'")
                made_by = decided if made_by is None else frames.union_once(made_by, decided)
                levels = frames.LEVELS
            if row["day"] >= day:
                ends = frames.union_once(ends, archived.where(frames.ENDS))
        return events, ends, None if made_by is None else frames.MadeBy(made_by, levels)

    async def _tags(self, spark: Any) -> Any:
        """Return the tags of columns that administrators have accepted."""
        rows = await self._work.connection.fetch(
            "SELECT concat_ws('.', catalog, database, table_name) AS table_name, column_name, tag"
            " FROM sluice.tag_proposal WHERE state = 'accepted'"
        )
        return spark.createDataFrame(
            [(row["table_name"], row["column_name"], row["tag"]) for row in rows],
            "tagged string, tagged_column string, tag string",
        )

    async def _summarize(self, spark: Any, day: date) -> None:
        """Put a day's summaries into PostgreSQL, made of all hours that the lake has of it."""
        connection = self._work.connection
        for name, summary in frames.SUMMARIES.items():
            where = "hour >= $1 AND hour < $1 + interval '1 day'" if summary.by_hour else "day = $1"
            what = midnight(day) if summary.by_hour else day
            await connection.execute(f"DELETE FROM sluice.{name} WHERE {where}", what)
            hours = [f"hour={day.isoformat()}T{hour:02}" for hour in range(24)]
            kept = self._tables[summary.table].read(
                spark, frames.schema_of(summary.table), hours, all_there=False
            )
            frame = summary.make(kept, self._options.statements)
            async for rows in _batches(frame):
                await connection.copy_records_to_table(
                    name, schema_name="sluice", records=rows, columns=frame.columns
                )


async def _batches(frame: Any) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Bring the rows of a frame here, few at a time."""
    from pyspark.sql import functions

    # toLocalIterator() drops time zones, so timestamps travel as microseconds since the epoch.
    times = {at for at, (_, kind) in enumerate(frame.dtypes) if kind == "timestamp"}
    rows = frame.select(
        *(functions.unix_micros(name) if at in times else name for at, name in enumerate(frame.columns))
    ).toLocalIterator()
    while True:
        batch = await asyncio.to_thread(lambda: list(islice(rows, SUMMARY_ROWS)))
        if not batch:
            return
        yield [
            tuple(moment(value) if at in times else value for at, value in enumerate(row)) for row in batch
        ]


async def _reach(connection: Any, *, reached: Mapping[str, int], left: Sequence[datetime]) -> None:
    """Say how far the roll-ups have come, and which hours wait for what the archive has lost."""
    await connection.execute("DELETE FROM sluice.rollup_left")
    await connection.execute("INSERT INTO sluice.rollup_left SELECT unnest($1::timestamptz[])", left)
    await connection.executemany(
        "INSERT INTO sluice.rollup_chain VALUES ($1, $2)"
        " ON CONFLICT (gateway) DO UPDATE SET seen = excluded.seen",
        list(reached.items()),
    )


def _write(frame: Any, place: Path) -> None:
    frame.repartition("hour").write.partitionBy("hour").parquet(str(place))


def _count(spark: Any, place: Path) -> int:
    if not any(place.glob("hour=*")):
        return 0
    found: int = spark.read.parquet(str(place)).count()
    return found


_READS_SOME = r'"(temp_views|relations)": \{"'
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Makers:
    """The statements that made the tables read: noted batch by batch, then copied from the database."""

    def __init__(self) -> None:
        self._wanted: set[str] = set()
        self._found: set[str] = set()
        self.levels = 0
        """How often one made what another was made of."""

    def note(self, batch: Any) -> None:
        """Note what a batch of landed events was made by."""
        from pyarrow import compute

        self._found.update(one for one in batch.column("statement_id").to_pylist() if one in self._wanted)
        bodies = batch.column("body")
        for body in bodies.filter(compute.match_substring_regex(bodies, _READS_SOME)).to_pylist():
            self._wanted.update(_find_maker(body))

    @property
    def are_missing(self) -> bool:
        """Whether the database does not have all of them."""
        return bool(self._wanted - self._found)

    async def land(self, connection: Any, select: str, names: Sequence[str], directory: Path) -> int:
        """Copy them, and those of what they read, in the transaction; return how many there were."""
        asked: set[str] = set()
        rows = 0
        while self.levels < LEVELS and (new := self._wanted - asked):
            self.levels += 1
            asked |= new
            rows += await land(
                connection,
                f"SELECT {select} FROM sluice.audit_event WHERE kind = 'decided'"
                " AND statement_id = ANY ($1::uuid[])",
                (sorted(new),),
                directory,
                file=f"{self.levels}.parquet",
                names=names,
                each=self.note,
            )
        return rows


def _find_maker(body: str) -> Iterator[str]:
    lineage = orjson.loads(body).get("lineage") or {}
    for key in ("temp_views", "relations"):
        made = lineage.get(key)
        if isinstance(made, dict):
            yield from (one for one in made.values() if isinstance(one, str) and _ID.fullmatch(one))
