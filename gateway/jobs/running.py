"""One run of a job: alone over all gateways, recorded from its beginning, its end in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.database.asking import REFUSALS, TROUBLE, connect, connected
from gateway.database.migrate import migrate
from gateway.database.texts import storable
from gateway.errors import JobBusy, LedgerUnavailable
from gateway.jobs.job import CONNECTION, Job, Outcome, Progress, Work
from gateway.jobs.locks import HELD, LOCKS, MADE_UP_FOR, TAKEN, VERIFYING, write_lock_condition
from gateway.jobs.spark import SparkOptions, failure_of
from gateway.jobs.tables import clear_landing

ERROR_CHARS = 500
RELEASE_S = 5.0
CLEAN_UP_S = 30.0
"""For what a job does at its end when it is stopped, such as ending its parsers."""
PAUSE_S = 0.5
RECORD_S = 15.0
"""Seconds to wait for PostgreSQL to come back and record a failed run; a stopping gateway waits longer."""
WATCH_S = 30.0
"""Seconds between looks whether a run's lock is still its own."""
SILENT_S = 300.0
"""Seconds for which PostgreSQL may not answer these before the run ends."""
KEEP_ALIVE = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
"""A minute after a machine is gone PostgreSQL gives the lock of its job back, not after hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has ended well."""

    number: int
    """0: nothing was due."""
    outcome: Outcome
    seconds: float
    application: str


async def run_job(
    job: Job,
    *,
    dsn: str,
    lake: Path,
    spark: SparkOptions,
    progress: Progress = lambda line: None,
    unless_since: datetime | None = None,
    clock: Callable[[], datetime] | None = None,
) -> Run:
    """Run a job. With `unless_since`, only where no whole run of it has begun since then; a run that was
    killed does not count, unless the one before it was, too. The time is that of PostgreSQL, or of `clock`.

    Raises JobBusy when somebody else runs it, LedgerUnavailable when PostgreSQL does not answer, or has given
    the run's lock away, BackendUnavailable for errors of Spark's, and whatever else the job raises; the run
    is then recorded as failed.
    """
    connection = await connect(dsn, CONNECTION + job.name, whole=True)
    try:
        await connection.execute(KEEP_ALIVE)
        await migrate(connection)
        if not await connection.fetchval("SELECT pg_try_advisory_lock($1, hashtext($2))", LOCKS, job.name):
            raise JobBusy(await _who(connection, job.name))
        if unless_since is not None and await _began_since(connection, job.name, unless_since):
            return Run(number=0, outcome=Outcome(), seconds=0.0, application="")
        number = await _begin(connection, job)
        work = Work(
            job=job.name,
            run=number,
            connection=connection,
            dsn=dsn,
            lake=lake,
            watermark=await _watermark(connection, job),
            now=clock() if clock is not None else await connection.fetchval("SELECT clock_timestamp()"),
            progress=progress,
            spark_options=spark,
        )
        return await _run_recorded(job, work)
    finally:
        await _release_lock(connection)


async def _release_lock(connection: Any) -> None:
    """Give the lock back and end the connection. PostgreSQL sees its end only later, and whoever comes next
    need not find the job taken."""
    try:
        # A timeout of asyncpg's own begins only behind what is still being cancelled.
        async with asyncio.timeout(RELEASE_S):
            await connection.execute("SELECT pg_advisory_unlock_all()")
    except TROUBLE:
        pass  # then its end does it
    finally:
        connection.terminate()


async def _run_recorded(job: Job, work: Work) -> Run:
    """Run the job and write down how it ended."""
    began = time.monotonic()

    async def to_its_end() -> Run:
        outcome = await job.run(work)
        seconds = time.monotonic() - began
        await _end(work, job, outcome, seconds)
        return Run(number=work.run, outcome=outcome, seconds=seconds, application=work.application)

    try:
        return await _run_watched(work, to_its_end)
    except BaseException as error:
        stopped = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
        told = failure_of(error)
        await _record_failure(work, "killed" if stopped else "failed", told, time.monotonic() - began)
        if told is error:
            raise
        raise told from error
    finally:
        await work.close()
        await _clear_work(work)


async def _clear_work(work: Work) -> None:
    """Remove what the run has read of the record, texts of statements among it, however it has ended."""
    with contextlib.suppress(*TROUBLE):  # where the lock is gone, what is there may be another run's
        async with asyncio.timeout(RELEASE_S):
            await work.connection.execute("SELECT 1")
        await asyncio.to_thread(clear_landing, work.lake, work.job)


async def _run_watched(work: Work, to_its_end: Callable[[], Coroutine[Any, Any, Run]]) -> Run:
    """Go on for as long as the job's lock is the run's, whatever it waits for."""
    pid = await work.connection.fetchval("SELECT pg_backend_pid()")  # a pooler would tell the client another
    running = asyncio.ensure_future(to_its_end())
    watching = asyncio.ensure_future(_watch_lock(work, pid))
    try:
        await asyncio.wait((running, watching), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise LedgerUnavailable(watching.result())
    finally:
        watching.cancel()
        while not running.done():
            # What it cleans up may wait for PostgreSQL as well.
            running.cancel()
            await asyncio.wait((running,), timeout=CLEAN_UP_S)
        if not running.cancelled():
            running.exception()  # where something else is raised, nobody asks for it
    return running.result()


async def _watch_lock(work: Work, pid: int) -> str:
    """Look at the lock again and again, by connections of their own; return why the run cannot go on."""
    answered = time.monotonic()
    while True:
        await asyncio.sleep(WATCH_S)
        try:
            async with connected(work.dsn, CONNECTION + work.job) as connection:
                held = await connection.fetchval(
                    # Of several servers, one that is no primary has no locks.
                    "SELECT pg_is_in_recovery() OR EXISTS (SELECT FROM pg_locks l"
                    f" WHERE {HELD} AND l.pid = $1 AND l.objid = {write_lock_condition('$2')})",
                    pid,
                    work.job,
                    timeout=SILENT_S,
                )
        except LedgerUnavailable as error:
            if time.monotonic() - answered >= SILENT_S:
                return f"PostgreSQL has not answered for {SILENT_S:g} s: {error.message}"
        else:
            if not held:
                return "PostgreSQL closed the connection that held the lock: another run may start"
            answered = time.monotonic()


async def _who(connection: Any, job: str) -> str:
    """Say who keeps a job from running: another run of it, or a job that needs it to stand still."""
    holder = await connection.fetchval(
        "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
        f" WHERE {TAKEN} AND l.objid = {write_lock_condition('$1')}",
        job,
    )
    if holder == VERIFYING:
        return f"`sluice audit verify` is reading the archive; run `{job}` when it has ended"
    name = holder.removeprefix(CONNECTION) if holder is not None and holder.startswith(CONNECTION) else job
    row = await connection.fetchrow(
        "SELECT runner, started_at FROM sluice.job_run WHERE job = $1 AND state = 'running'"
        " ORDER BY id DESC LIMIT 1",
        name,
    )
    if row is None:
        return f"another process is about to run `{name}`"
    since = row["started_at"].astimezone(UTC)
    told = f"{row['runner']} has been running `{name}` since {since:%Y-%m-%d %H:%M:%S} UTC"
    return told if name == job else f"{told}; run `{job}` when it has ended"


async def _began_since(connection: Any, job: str, moment: datetime) -> bool:
    found: bool = await connection.fetchval(
        # Whoever still counts as running was killed, since the lock is ours. What is still to come was
        # written by a clock that has gone back since.
        "WITH run AS (SELECT id, job, whole, started_at, replace(state, 'running', 'killed') AS state"
        " FROM sluice.job_run WHERE job = $1 AND whole)"
        f" SELECT EXISTS (SELECT FROM (SELECT started_at, {MADE_UP_FOR} AS again FROM run) counted"
        " WHERE NOT again AND started_at BETWEEN $2 AND now())",
        job,
        moment,
    )
    return found


async def _begin(connection: Any, job: Job) -> int:
    """Record the beginning; whoever still counts as running does not, since the lock is ours."""
    async with connection.transaction():
        await connection.execute(
            "UPDATE sluice.job_run SET state = 'killed', error = 'it never said how it ended',"
            " ended_at = clock_timestamp() WHERE job = $1 AND state = 'running'",
            job.name,
        )
        number: int = await connection.fetchval(
            "INSERT INTO sluice.job_run (job, version, state, runner, whole)"
            " VALUES ($1, $2, 'running', $3, $4) RETURNING id",
            job.name,
            job.version,
            f"{socket.gethostname()}, process {os.getpid()},",
            job.whole,
        )
    return number


async def _watermark(connection: Any, job: Job) -> datetime | None:
    found: datetime | None = await connection.fetchval(
        "SELECT watermark FROM sluice.job_watermark WHERE job = $1 AND version = $2", job.name, job.version
    )
    return found


async def _end(work: Work, job: Job, outcome: Outcome, seconds: float) -> None:
    async with work.connection.transaction():
        if outcome.finish is not None:
            await outcome.finish(work.connection)
        if outcome.watermark is not None:
            await work.connection.execute(
                "INSERT INTO sluice.job_watermark (job, version, watermark, run) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (job) DO UPDATE SET version = excluded.version,"
                " watermark = excluded.watermark, run = excluded.run, saved_at = clock_timestamp()",
                job.name,
                job.version,
                outcome.watermark,
                work.run,
            )
        await work.connection.execute(
            "UPDATE sluice.job_run SET state = 'done', ended_at = clock_timestamp(), range_from = $2,"
            " range_to = $3, rows_in = $4, rows_out = $5, seconds = $6, application = $7 WHERE id = $1",
            work.run,
            outcome.range_from,
            outcome.range_to,
            outcome.rows_in,
            outcome.rows_out,
            seconds,
            work.application,
        )


async def _record_failure(work: Work, state: str, error: BaseException, seconds: float) -> None:
    """Record the end of a run that came to nothing; where that fails too, the next run will say so."""
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    # What asyncpg says of a connection that was cut tells nobody what it is about.
    what = "PostgreSQL has failed" if isinstance(error, REFUSALS) else type(error).__name__
    told = f"{what}: {line}" if state == "failed" else "it was stopped"
    ended = (work.run, state, seconds, storable(told[:ERROR_CHARS]), work.application)
    last: BaseException | None = None
    try:
        async with asyncio.timeout(RECORD_S):
            while True:
                try:
                    # The run's own connection may be what has failed.
                    async with connected(work.dsn, CONNECTION + work.job) as connection:
                        await connection.execute(_FAILED, *ended)
                        return
                except LedgerUnavailable as error_of_it:
                    last = error_of_it
                    await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        work.progress(f"the end of the run could not be recorded: {last or 'PostgreSQL does not answer'}")


_FAILED = """
UPDATE sluice.job_run SET state = $2, ended_at = clock_timestamp(), seconds = $3, error = $4, application = $5
WHERE id = $1 AND state = 'running'"""


async def runs(connection: Any, job: str | None = None, limit: int = 20) -> list[Any]:
    """Return the last runs, the newest first."""
    found: list[Any] = await connection.fetch(
        "SELECT * FROM sluice.job_run WHERE $1::text IS NULL OR job = $1 ORDER BY id DESC LIMIT $2",
        job,
        limit,
    )
    return found
