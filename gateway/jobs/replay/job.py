"""The run of `replay`: questions of the record, judged in rounds, and what is otherwise.

A round leaves questions that name tables nobody has looked up; these are looked up once, here, and go with
the next round to all workers. Views within views take a round for each level.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from gateway.errors import BackendUnavailable, Faults
from gateway.jobs.archive import TABLE as ARCHIVE
from gateway.jobs.events import SPARK_SCHEMA, land
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.replay import frames
from gateway.jobs.replay.judging import ANSWER, Known, Parcel, ReaderOptions, Sides, judge_questions
from gateway.jobs.replay.questions import EVENTS, NAMES, SELECT, questions
from gateway.model.catalog import LookUp, TableName
from gateway.model.metalakes import NONE_LISTED, ListedCatalogs
from gateway.pipeline import MAX_VIEW_DEPTH
from gateway.policy.differences import depends_on_context

VERSION = 1
TABLE = "replay"
LOOKED_UP_AT_ONCE = 100
NO_CATALOG = "it names tables that are not in the record, and no Spark is configured to look them up"
TOO_MANY = "it names too many tables to look up"
TOO_DEEP = "its views are nested too deep"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """Everything that a replay judges by: both sides' policies, the reader and the catalogs."""

    sides: Sides
    old: str
    new: str
    """Where the policies of the two sides were read, for people."""
    reader: ReaderOptions
    catalogs: frozenset[str]
    listed: ListedCatalogs = NONE_LISTED
    """Catalogs that come and go, as they are now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    proposal: Callable[[], ReplayPlan]
    """Reads the policies; raises Faults, JavaNotFound."""
    look_up: Callable[[], AbstractAsyncContextManager[LookUp]]
    """Asks catalogs; raises BackendUnavailable where there is no Spark."""
    since: datetime | None = None
    """The first statement; without it, those of `days`."""
    until: datetime | None = None
    """Before which they were sent; without it, the beginning of the run."""
    days: int = 7
    catalog: Literal["was", "now"] = "was"
    tables: int = 20_000
    """Names that are looked up in one run."""
    changes: int = 10_000
    """Changes that PostgreSQL keeps of a run; the lake has all."""
    keep: int = 20
    """Runs that are kept."""
    parts: int = 8
    """Parts in which questions are judged, at least; as many at once as Spark has cores."""


def replay(options: ReplayOptions) -> Job:
    return Job(
        name="replay",
        version=VERSION,
        about="authorizes the statements of a period again under proposed policies: who would lose, gain "
        "or see what",
        reads=("sluice.audit_event", ARCHIVE),
        writes=(TABLE, "sluice.replay", "sluice.replay_change", "sluice.replay_unjudged"),
        run=lambda work: _Replay(work, options).run(),
    )


class _Replay:
    def __init__(self, work: Work, options: ReplayOptions) -> None:
        self._work, self._options = work, options
        self._until = options.until or work.now
        self._since = options.since or self._until - timedelta(days=options.days)
        self._table = work.table(TABLE)
        self._known = Known(catalogs=frozenset())
        self._unknown: str | None = None
        """Why no more names are looked up."""

    async def run(self) -> Outcome:
        work = self._work
        if self._since >= self._until:
            raise Faults(["the period of a replay ends before it begins"])
        proposal = await asyncio.to_thread(self._options.proposal)
        self._known = Known(catalogs=proposal.catalogs, listed=proposal.listed)
        await self._table.settle(work.connection)
        await self._sweep()
        partition = f"run={work.run}"
        landing = self._table.make_landing(partition)
        (landing / "events").mkdir()
        rows_in = await self._land(landing / "events")
        work.progress(f"{rows_in:,} verdicts read from PostgreSQL")
        spark = await work.spark()
        asked = await self._questions(spark, landing, proposal)
        count = await asyncio.to_thread(asked.count)
        work.progress(f"{count:,} different questions")
        answers = await self._judge_questions(spark, asked, proposal, landing)
        staged = self._table.make_staging_path(partition)
        found = await asyncio.to_thread(self._write, spark, asked, answers, staged)
        totals = (await asyncio.to_thread(frames.totals(found).collect))[0].asDict()
        changed = await asyncio.to_thread(frames.summarize_changes(found, self._options.changes).collect)
        unjudged = await asyncio.to_thread(frames.count_unjudged(found).collect)
        work.progress(
            f"{totals['judged']:,} statements replayed, {totals['changed']:,} of them with another result"
        )
        await work.replace(self._table, partition)
        self._table.remove_landing(partition)

        async def finish(connection: Any) -> None:
            await self._summarize(connection, proposal, totals, changed, unjudged)
            await self._table.commit(connection, partition, work.run)

        return Outcome(
            rows_in=int(totals["statements"]),
            rows_out=count,
            range_from=self._since,
            range_to=self._until,
            finish=finish,
        )

    async def _land(self, place: Path) -> int:
        """Copy the verdicts of the period, from a snapshot of the database."""
        connection = await self._work.connect()
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return await land(
                    connection,
                    f"SELECT {SELECT} FROM sluice.audit_event"
                    " WHERE kind = 'decided' AND time >= $1 AND time < $2",
                    (self._since, self._until),
                    place,
                    names=NAMES,
                    told=lambda count: self._work.progress(f"{count:,} verdicts read so far"),
                )
        finally:
            connection.terminate()

    async def _questions(self, spark: Any, landing: Path, proposal: ReplayPlan) -> Any:
        """Write the questions, those of days that only the archive has among them, and return them."""
        days = await self._work.connection.fetch(
            "SELECT day FROM sluice.archive_day WHERE dropped_events > 0 AND day BETWEEN $1 AND $2"
            " ORDER BY day",
            self._since.astimezone(UTC).date(),
            self._until.astimezone(UTC).date(),
        )
        archive = self._work.table(ARCHIVE, writer="archive")
        sides = proposal.sides

        def write() -> Any:
            from pyspark.sql import functions as f

            events = spark.read.schema(EVENTS).parquet(str(landing / "events"))
            for row in days:
                kept = archive.read(spark, SPARK_SCHEMA, [f"day={row['day'].isoformat()}"])
                archived = kept.where("kind = 'decided'")
                within = archived.where(
                    (f.col("time") >= f.lit(self._since)) & (f.col("time") < f.lit(self._until))
                )
                events = events.unionByName(within.select(*NAMES))
            frame = questions(
                events,
                was=self._options.catalog == "was",
                circumstances=any(map(depends_on_context, (sides.old, sides.new))),
            )
            frame.write.parquet(str(landing / "questions"))
            return spark.read.schema(frame.schema).parquet(str(landing / "questions"))

        return await asyncio.to_thread(write)

    async def _judge_questions(self, spark: Any, asked: Any, proposal: ReplayPlan, landing: Path) -> Any:
        """Return the frame of answers, one for each question that is not skipped."""
        sides = Parcel.of(proposal.sides)
        rest = asked.where("skip IS NULL")
        places: list[str] = []
        async with AsyncExitStack() as stack:
            look_up: LookUp | None = None
            for number in range(MAX_VIEW_DEPTH + 2):
                place = landing / f"answers-{number}"
                known = Parcel.of(self._known)

                def judge(rest: Any = rest, place: Path = place, known: Parcel = known) -> list[Any]:
                    parts = max(self._options.parts, 1)
                    judge_questions(rest.repartition(parts), proposal.reader, sides, known).write.parquet(
                        str(place)
                    )
                    answers = spark.read.schema(ANSWER).parquet(str(place)).where("needs IS NOT NULL")
                    names = answers.selectExpr("explode(needs) AS name").distinct()
                    return list(names.limit(self._options.tables + 1).collect())

                needed = await asyncio.to_thread(judge)
                places.append(str(place))
                if not needed:
                    break
                self._work.progress(f"looking up {len(needed):,} names")
                if look_up is None:
                    try:
                        look_up = await stack.enter_async_context(self._options.look_up())
                    except BackendUnavailable:
                        self._unknown = NO_CATALOG
                        break
                if not await self._look_up(look_up, [TableName(*row["name"]) for row in needed]):
                    self._unknown = TOO_MANY
                    break
                waiting = spark.read.schema(ANSWER).parquet(str(place)).where("needs IS NOT NULL")
                rest = asked.join(waiting.select("key"), "key", "left_semi")
            else:
                self._unknown = TOO_DEEP

        from pyspark.sql import functions as f

        answers = spark.read.schema(ANSWER).parquet(*places)
        done = answers.where("needs IS NULL")
        last = spark.read.schema(ANSWER).parquet(places[-1]).where("needs IS NOT NULL")
        return done.unionByName(last.withColumn("reason", f.lit(self._unknown)))

    async def _look_up(self, look_up: LookUp, names: list[TableName]) -> bool:
        """Look up more names; False where that would be more than a run may."""
        known = self._known
        if len(known.tables) + len(known.missing) + len(names) > self._options.tables:
            return False
        tables, missing = dict(known.tables), set(known.missing)
        for at in range(0, len(names), LOOKED_UP_AT_ONCE):
            some = names[at : at + LOOKED_UP_AT_ONCE]
            snapshot = await look_up(some)
            for name in some:
                table = snapshot.table(name)
                if table is None:
                    missing.add(name.fold())
                else:
                    tables[name.fold()] = table
            self._known = replace(
                known,
                catalogs=known.catalogs | snapshot.catalogs,
                tables=tables,
                missing=frozenset(missing),
                listed=snapshot.listed,
            )
        return True

    @staticmethod
    def _write(spark: Any, asked: Any, answers: Any, place: Path) -> Any:
        frame = frames.result(asked.withColumnRenamed("code", "questions_code"), answers)
        frame.write.parquet(str(place))
        return spark.read.schema(frames.TABLE).parquet(str(place))

    async def _summarize(
        self,
        connection: Any,
        proposal: ReplayPlan,
        totals: dict[str, Any],
        changed: Sequence[Any],
        unjudged: Sequence[Any],
    ) -> None:
        run = self._work.run
        await connection.execute(
            "INSERT INTO sluice.replay (run, old, new, catalog, range_from, range_to, statements, judged,"
            " asked_nothing, unjudged, changed, decided_otherwise)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            *(run, proposal.old, proposal.new, self._options.catalog, self._since, self._until),
            *(
                totals[name]
                for name in (
                    *("statements", "judged", "asked_nothing"),
                    *("unjudged", "changed", "decided_otherwise"),
                )
            ),
        )
        names = ("kind", "user_name", "resource", "column_name", "before", "after", "statements")
        await connection.copy_records_to_table(
            "replay_change",
            schema_name="sluice",
            columns=("run", *names, "fingerprints", "examples"),
            records=[
                (
                    run,
                    *(row[name] for name in names),
                    list(row["fingerprints"]),
                    [UUID(one) for one in row["examples"]],
                )
                for row in changed
            ],
        )
        await connection.copy_records_to_table(
            "replay_unjudged",
            schema_name="sluice",
            columns=("run", "reason", "statements", "example"),
            records=[(run, row["reason"], row["statements"], UUID(row["example"])) for row in unjudged],
        )
        await connection.execute(
            "DELETE FROM sluice.replay WHERE run NOT IN"
            " (SELECT run FROM sluice.replay ORDER BY run DESC LIMIT $1)",
            self._options.keep,
        )
        await connection.execute(
            "DELETE FROM sluice.job_partition p WHERE table_name = $1 AND partition <> $2 AND NOT EXISTS"
            " (SELECT FROM sluice.replay r WHERE p.partition = 'run=' || r.run)",
            TABLE,
            f"run={run}",
        )

    async def _sweep(self) -> None:
        """Remove the files of runs that are not kept any more, and of those that were killed."""
        rows = await self._work.connection.fetch(
            "SELECT partition FROM sluice.job_partition WHERE table_name = $1", TABLE
        )
        kept = {row["partition"] for row in rows}
        for name in await self._table.partitions():
            if name not in kept:
                await asyncio.to_thread(self._table.remove, name)
