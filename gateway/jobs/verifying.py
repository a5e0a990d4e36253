"""`verify`: the whole record is held to its chains and seals, on Spark: what PostgreSQL has, and the archive.

`gateway.audit.verify` says what is known of the chains, and `gateway.audit.walking` what is found, as for
`sluice audit verify`. Only who reads events, and makes their digests, is another: Spark, in parts of chains.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import groupby, pairwise
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.chain import Head
from gateway.audit.erasing import Erasures, read_erasures
from gateway.audit.rows import KNOWN_DAY
from gateway.audit.verify import find_least_places, prepare_chains, require_tables
from gateway.audit.walking import Chain, Kind, Verified
from gateway.database.texts import storable
from gateway.errors import LedgerUnavailable, RecordChanged
from gateway.jobs.archive import TABLE, partitions
from gateway.jobs.events import SPARK_SCHEMA, STORED, land, midnight, with_lost
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.locks import keep_archive
from gateway.jobs.spark import cause_of
from gateway.jobs.tables import LakeTable
from gateway.jobs.verifying_frames import ARCHIVE, COPY, DATABASE, NEEDED, Walked, from_json, parts

VERSION = 1
MAX_REPORTED_LINES = 20
AT_ONCE = 4
"""Connections that read PostgreSQL's events, each a day at a time."""
_ROWS = (
    "SELECT {columns} FROM sluice.audit_event e WHERE ($1::text[] IS NULL OR EXISTS ("
    "SELECT FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS r (gateway, first, last)"
    " WHERE r.gateway = e.gateway AND e.chain_position BETWEEN r.first AND r.last))"
    " AND ($4::timestamptz IS NULL OR time >= $4 OR (time IS NULL AND $5::timestamptz IS NULL))"
    " AND ($5::timestamptz IS NULL OR time < $5)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Scope and keys of a verification, as for `gateway.audit.verify.verify`."""

    since: datetime | None = None
    until: datetime | None = None
    exported: tuple[str, ...] = ()
    keys: Sequence[Ed25519PublicKey] = ()
    reached: Mapping[str, Head] | None = None
    part_events: int = 1 << 16
    """Places of a chain that one task sorts and walks at once."""
    report: Callable[[Verified], None] = lambda found: None
    """Given what was found, before the run ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Archived:
    """A day that the archive has."""

    day: date
    dropped: bool
    verified_at: datetime
    """What PostgreSQL stored later, the archive need not have."""
    chains: Mapping[str, int]
    """The last place that it has of each gateway."""

    @property
    def name(self) -> str:
        return f"day={self.day.isoformat()}"


def verify(options: VerifyOptions) -> Job:
    """Return the job. Its run raises RecordChanged where the record is not what was recorded; what was found
    is in PostgreSQL by then."""

    return Job(
        name="verify",
        version=VERSION,
        about="verifies the whole record, in PostgreSQL and in the archive, against its chains and seals",
        reads=("sluice.audit_event", TABLE),
        writes=("sluice.verification", "sluice.verification_finding"),
        run=lambda work: _Verifying(work, options).run(),
        whole=options.since is None and options.until is None,
    )


class _Verifying:
    def __init__(self, work: Work, options: VerifyOptions) -> None:
        self._work, self._options = work, options
        self._table = work.table(TABLE, writer="archive")
        # Its directory is where PostgreSQL's events land; there is no such table.
        self._way = LakeTable(work.lake, "_verify")
        self._landing = work.lake
        self._found = Verified()
        self._erasures = Erasures()
        self._least: Mapping[tuple[date, str], int] = {}

    async def run(self) -> Outcome:
        work, options, found = self._work, self._options, self._found
        await keep_archive(work.connection, work.progress)
        await self._table.settle(work.connection)
        await self._way.settle(work.connection)
        self._landing = self._way.make_landing("record")
        chains, days, rows = await self._look()
        walked: dict[str, list[Walked]] = {}
        if rows or days:
            spark = await work.spark()
            walked = await asyncio.to_thread(self._walk, spark, chains, days)
        self._way.remove_landing("record")
        self._join(chains, walked)
        await self._record()
        options.report(found)
        for finding in found.findings[:MAX_REPORTED_LINES]:
            work.progress(f"{finding.kind.value}: {finding.where}")
        if not found.holds:
            count = len(found.findings) + found.more
            kinds = {finding.kind for finding in found.findings}
            what = "is not sealed" if kinds == {Kind.UNSEALED} else "was changed"
            raise RecordChanged(f"the record {what}, in {count:,} places; see `sluice.verification_finding`")
        work.progress(f"the record is intact: {found.events:,} events, {found.seals:,} seals")
        return Outcome(rows_in=found.events, range_from=options.since, range_to=options.until)

    async def _look(self) -> tuple[list[Chain], list[_Archived], int]:
        """Read in one snapshot what is known of chains, and land the events that PostgreSQL has."""
        options, work = self._options, self._work
        async with self._snapshot() as connection:
            await require_tables(connection)
            self._erasures = Erasures(await read_erasures(connection, options.keys))
            chains = await prepare_chains(
                connection,
                self._found,
                self._erasures,
                since=options.since,
                until=options.until,
                exported=options.exported,
                keys=options.keys,
                reached=options.reached,
            )
            days = await self._days(connection, chains)
            self._least = await find_least_places(connection)
            rows = await self._land(connection, chains)
        work.progress(f"{rows:,} events read from PostgreSQL, {len(days)} days of the archive")
        return chains, days, rows

    @asynccontextmanager
    async def _snapshot(self, exported: str | None = None) -> AsyncIterator[Any]:
        """Open a connection that sees one snapshot of the database: one that another exported, or its own."""
        connection = await self._work.connect()
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                if exported is not None:
                    await connection.execute(f"SET TRANSACTION SNAPSHOT '{exported}'")
                yield connection
        finally:
            connection.terminate()

    async def _land(self, connection: Any, chains: Sequence[Chain]) -> int:
        """Land the events that PostgreSQL has, several days at a time, and return how many there are.

        Days are stretches of time without a gap between them, and not tables: what lies in a table that is
        none of ours lands with its day.
        """
        ranges = _ranges(chains)
        places = [[one[at] for one in ranges] if self._bounded else None for at in range(3)]
        bounds = [midnight(day) for day in await partitions(connection)][1:]
        stretches = list(enumerate(pairwise([None, *bounds, None])))
        exported = await connection.fetchval("SELECT pg_export_snapshot()")
        waiting, landed = iter(stretches), [0] * len(stretches)

        async def some() -> None:
            async with self._snapshot(exported) as reading:
                for number, stretch in waiting:
                    landed[number] = await land(
                        reading,
                        _ROWS.format(columns=", ".join(STORED)),
                        (*places, *stretch),
                        self._landing,
                        file=f"events-{number}.parquet",
                        told=partial(tell, number),
                    )

        def tell(number: int, rows: int) -> None:
            landed[number] = rows
            self._work.progress(f"{sum(landed):,} events read from PostgreSQL so far")

        tasks = [asyncio.ensure_future(some()) for _ in range(min(AT_ONCE, len(stretches)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return sum(landed)

    @property
    def _bounded(self) -> bool:
        return self._options.since is not None or self._options.until is not None

    async def _days(self, connection: Any, chains: Sequence[Chain]) -> list[_Archived]:
        """Return the archive's days with events of these chains; tell of those that are gone, or too many."""
        rows = await connection.fetch(
            "SELECT day, dropped_events > 0 AS dropped, verified_at FROM sluice.archive_day"
            f" WHERE {KNOWN_DAY} ORDER BY day"
        )
        stretches = await connection.fetch(
            f"SELECT day, gateway, first, last FROM sluice.archive_chain WHERE first <= last AND {KNOWN_DAY}"
        )
        lasts: dict[date, dict[str, int]] = {row["day"]: {} for row in rows}
        for row in stretches:
            of_day = lasts.get(row["day"], {})
            of_day[row["gateway"]] = max(row["last"], of_day.get(row["gateway"], 0))
        days = [_Archived(**row, chains=lasts[row["day"]]) for row in rows]
        there = set(await self._table.partitions())
        for name in sorted(there - {one.name for one in days}):
            self._found.report(Kind.ADDED, f"`{name}` of the archive was not written by any run")
        if self._bounded:
            ranges = {name: (first, last) for name, first, last in _ranges(chains)}
            touched = {
                row["day"]
                for row in stretches
                if row["gateway"] in ranges
                and row["first"] <= ranges[row["gateway"]][1]
                and row["last"] >= ranges[row["gateway"]][0]
            }
            days = [one for one in days if one.day in touched]
        for one in days:
            if one.name not in there:
                self._found.report(Kind.MISSING, f"`{one.name}` of the archive")
        return days

    def _walk(
        self, spark: Any, chains: Sequence[Chain], days: Sequence[_Archived]
    ) -> dict[str, list[Walked]]:
        """Return the parts of each gateway's chain, in their order."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return self._walk_chains(spark, chains, days)
        except (PySparkException, Py4JError) as error:
            readable = [one for one in days if self._is_readable(spark, one)]
            if len(readable) == len(days):
                raise LedgerUnavailable(f"the record cannot be read: {cause_of(error)}") from error
        # What the other days hold is there all the same; of these, what is not in PostgreSQL will be missed.
        return self._walk_chains(spark, chains, readable)

    def _is_readable(self, spark: Any, day: _Archived) -> bool:
        """Read a day of the archive to its end; tell of it where that cannot be done."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as f

        try:
            rows = self._table.read(spark, SPARK_SCHEMA, [day.name], all_there=False)
            rows.agg(f.count(f.when(f.xxhash64(*rows.columns) == 0, 1))).collect()
        except (PySparkException, Py4JError) as error:
            self._found.report(Kind.UNREADABLE, f"`{day.name}` of the archive: {cause_of(error)}")
            return False
        return True

    def _walk_chains(
        self, spark: Any, chains: Sequence[Chain], days: Sequence[_Archived]
    ) -> dict[str, list[Walked]]:
        frame = self._events(spark, days)
        if self._bounded:
            from pyspark.sql import functions as f

            wanted = spark.createDataFrame(_ranges(chains), "of string, first bigint, last bigint")
            here = (f.col("gateway") == f.col("of")) & f.col("chain_position").between(
                f.col("first"), f.col("last")
            )
            frame = frame.join(f.broadcast(wanted), here, "left_semi")
        sealed = {one.gateway: one.sealed for one in chains}
        rows = parts(frame, sealed, self._options.part_events).collect()
        self._work.progress(f"{len(rows):,} parts of chains checked")
        found = sorted((from_json(row["walked"]) for row in rows), key=lambda one: (one.gateway, one.number))
        return {name: list(some) for name, some in groupby(found, key=lambda one: one.gateway)}

    def _events(self, spark: Any, days: Sequence[_Archived]) -> Any:
        """Return a frame of events, of PostgreSQL and of the archive."""
        from pyspark.sql import functions as f

        no = f.expr("false")
        of_day = f.date_format("time", "yyyy-MM-dd")
        archived = f.broadcast(
            spark.createDataFrame(
                [(one.day.isoformat(), one.dropped, one.verified_at) for one in days],
                "archived string, dropped boolean, verified_at timestamp",
            )
        )
        places = [
            (one.day.isoformat(), gateway, last) for one in days for gateway, last in one.chains.items()
        ]
        reached = f.broadcast(
            spark.createDataFrame(places, "reached_on string, reached_by string, reached bigint")
        )
        landed = spark.read.schema(SPARK_SCHEMA).parquet(str(self._landing))
        record = (
            with_lost(landed, self._erasures)
            .join(archived, of_day == f.col("archived"), "left")
            .join(
                reached, (of_day == f.col("reached_on")) & (f.col("gateway") == f.col("reached_by")), "left"
            )
            .select(
                *NEEDED,
                f.lit(DATABASE).alias("source"),
                # What is in no chain is older than all chains, unless somebody has put it there since.
                f.when(
                    f.col("chain_position").isNull(),
                    f.coalesce(f.col("stored_at") <= f.col("verified_at"), no),
                )
                .otherwise(f.coalesce(f.col("chain_position") <= f.col("reached"), no))
                .alias("copied"),
                no.alias("astray"),
                no.alias("behind"),
                "lost",
            )
        )
        least = f.broadcast(
            spark.createDataFrame(
                [(day.isoformat(), gateway, place) for (day, gateway), place in self._least.items()],
                "kept_on string, kept_by string, least bigint",
            )
        )
        names = [one.name for one in days]
        schema = f"{SPARK_SCHEMA}, day string, hour string"
        kept = self._table.read(spark, schema, names, all_there=False)
        in_place = (of_day == f.col("day")) & (f.date_format("time", "HH") == f.col("hour"))
        lake = (
            with_lost(kept, self._erasures)
            .join(archived, f.col("day") == f.col("archived"))
            .join(least, (of_day == f.col("kept_on")) & (f.col("gateway") == f.col("kept_by")), "left")
            .select(
                *NEEDED,
                f.when(f.col("dropped"), f.lit(ARCHIVE)).otherwise(f.lit(COPY)).alias("source"),
                no.alias("copied"),
                (~f.coalesce(in_place, no)).alias("astray"),
                f.coalesce(f.col("chain_position") > f.col("least"), no).alias("behind"),
                "lost",
            )
        )
        return record.unionByName(lake)

    def _join(self, chains: Sequence[Chain], walked: Mapping[str, Sequence[Walked]]) -> None:
        """Join the parts, and hold each chain to what is known of it."""
        found = self._found
        known = {chain.gateway: chain for chain in chains}
        # Of a gateway that only the archive knows, nobody has an end.
        unknown = [Chain(gateway=name, first=1, last=0) for name in sorted(walked.keys() - known.keys())]
        for chain in (*chains, *unknown):
            some = list(walked.get(chain.gateway, ()))
            for one in some:
                for finding in one.findings:
                    found.add(finding)
                found.more += one.more
            there = [one.part for one in some if one.part is not None]
            begun = bool(there) and chain.first > 1 and there[0].first.position == chain.first - 1
            walk = chain.walk(found, there[0].first if begun else None)
            for number, part in enumerate(there):
                walk.join(part, begun=begun and number == 0)
            if there or chain in chains:
                chain.close(walk)
            found.gateways += chain in chains

    async def _record(self) -> None:
        found, connection = self._found, self._work.connection
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO sluice.verification (run, range_from, range_to, events, gateways, seals,"
                " signatures_checked, before_chain, findings) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                *(self._work.run, self._options.since, self._options.until, found.events, found.gateways),
                *(found.seals, found.signatures_checked, found.before_chain),
                len(found.findings) + found.more,
            )
            await connection.copy_records_to_table(
                "verification_finding",
                schema_name="sluice",
                columns=("run", "kind", "place", "gateway", "first", "last", "event_id"),
                records=[
                    (
                        *(self._work.run, one.kind.value, storable(one.where), storable(one.gateway)),
                        *(one.first, one.last, storable(one.event_id)),
                    )
                    for one in found.findings
                ],
            )


def _ranges(chains: Sequence[Chain]) -> list[tuple[str, int, int]]:
    """Return which events of chains are walked over, with the one before each."""
    return [(one.gateway, max(one.first - 1, 1), one.last) for one in chains]
