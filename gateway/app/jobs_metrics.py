"""How jobs are doing, for `/metrics`: by PostgreSQL's record of their runs, whichever gateway began them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.database.connections import open_connection
from gateway.jobs.locks import HELD, MADE_UP_FOR, write_lock_condition

_LOCKS = f"SELECT clock_timestamp(), array(SELECT l.objid FROM pg_locks l WHERE {HELD})"
_RUNS = f"""
WITH run AS (
    SELECT id, job, whole, started_at, ended_at, held,
           CASE WHEN state = 'running' AND started_at < $1 AND NOT held THEN 'killed' ELSE state END AS state
    FROM sluice.job_run, LATERAL (SELECT {write_lock_condition("job")} = ANY ($2::oid[])) AS l (held)
), counted AS (
    SELECT *, {MADE_UP_FOR} AS again, whole OR EXISTS (
        SELECT FROM sluice.verification found WHERE found.run = run.id AND found.findings > 0
    ) AS says FROM run
)
SELECT job, bool_or(held) AS runs, bool_or(says) AS says,
       max(started_at) FILTER (WHERE whole AND started_at <= now() AND NOT again) AS began,
       max(ended_at) FILTER (WHERE whole AND state = 'done' AND ended_at <= now()) AS done,
       (array_agg(state ORDER BY id DESC) FILTER (WHERE says AND state <> 'running'))[1] AS ended
FROM counted GROUP BY job
"""
"""A run of which PostgreSQL has no lock, though it began before the locks were looked at, was killed. What is
not whole says something of its job only where it found that the record was changed."""
_DIFFERENT = "SELECT different FROM sluice.proof ORDER BY run DESC LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What is known of the runs of one job."""

    began: datetime | None
    """Of its newest whole run, whatever became of it; but one that was killed is made up for, if the one
    before it was not. None: there is none such, or of all the clock says that they are still to come."""
    done: datetime | None
    """End of the newest whole run that ended well."""
    failed: bool
    """Whether the newest whole run that has ended failed or was killed, or one of a part has since found that
    the record was changed."""
    runs: bool
    """Whether somebody runs it, in whole or in part: there is no second one. By its lock: what a machine that
    went down left as `running` may lie ahead of the clock, and be of nobody."""
    says: bool
    """Whether there is anything to be said of it: not where only parts were run, and found nothing."""


@dataclass(slots=True, eq=False)
class JobStates(Collector):
    """All jobs at the last look. Empty before the first, and where nothing ever ran."""

    jobs: Mapping[str, JobState]
    different: int | None = None
    """Statements of the newest proof that showed something else than policies say; None: no proof yet."""
    failing: set[str] = field(default_factory=set)
    """Jobs whose last process of this gateway's schedule failed: maybe before there was a run to record."""

    async def look(self, dsn: str) -> datetime:
        """Read the record of runs; return the time by PostgreSQL's clock, by which runs have begun.

        Raises OSError, TimeoutError or an error of asyncpg; then what was known stands.
        """
        connection = await open_connection(dsn, "sluice-jobs", command_s=30)
        try:
            rows = await connection.fetch(_RUNS, *await connection.fetchrow(_LOCKS))
            different = await connection.fetchval(_DIFFERENT)
            now: datetime = await connection.fetchval("SELECT now()")
        finally:
            connection.terminate()
        self.jobs = {
            row["job"]: JobState(
                began=row["began"],
                done=row["done"],
                failed=row["ended"] not in (None, "done"),
                runs=row["runs"],
                says=row["says"],
            )
            for row in rows
        }
        self.different = different
        return now

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, one sample for each job."""
        done = GaugeMetricFamily(
            "sluice_job_done_timestamp_seconds",
            "Unix time at which the newest successful run ended; 0: none yet",
            labels=["job"],
        )
        failed = GaugeMetricFamily(
            "sluice_job_failed",
            "1 while the newest ended run failed or was killed, or a run could not be started",
            labels=["job"],
        )
        said = {name for name, job in self.jobs.items() if job.says}
        for name in sorted(said | self.failing):
            job = self.jobs.get(name)
            done.add_metric([name], 0 if job is None or job.done is None else job.done.timestamp())
            failed.add_metric([name], 1 if name in self.failing or (job is not None and job.failed) else 0)
        yield from (done, failed)
        if self.different is not None:
            yield GaugeMetricFamily(
                "sluice_proof_different",
                "Statements whose rows differ from what policies allow, in the newest proof",
                value=self.different,
            )
