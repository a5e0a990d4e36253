"""PostgreSQL goes, or says nothing, within a run; a run that was killed is made up for once. 6 s."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from gateway.app.jobs import due_since
from gateway.app.jobs_metrics import JobStates
from gateway.database import asking, connections
from gateway.database.postgres import EmbeddedPostgres
from gateway.errors import LedgerUnavailable
from gateway.jobs import running
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.running import run_job, runs
from gateway.jobs.spark import SparkOptions
from gateway.settings.jobs import ScheduleSettings
from tests.speed import patience

CUT = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'sluice-job-%'"
)


def job(run: Any) -> Job:
    return Job(name="sample", version=1, about="for tests", reads=(), writes=(), run=run)


async def start(dsn: str, lake: Path, run: Any, **more: Any) -> Any:
    return await run_job(job(run), dsn=dsn, lake=lake, spark=SparkOptions(), **more)


async def nothing(work: Work) -> Outcome:
    return Outcome()


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Any]:
    found = await asyncpg.connect(database)
    yield found
    await found.close()


@pytest.fixture
def server(reachable_directory: Path) -> Iterator[EmbeddedPostgres]:
    found = EmbeddedPostgres(reachable_directory / "interrupted", settings={"fsync": "off"})
    found.start()
    yield found
    found.stop()


async def test_a_run_whose_connection_is_cut_has_failed_on_record(
    database: str, connection: Any, tmp_path: Path
) -> None:
    async def is_cut(work: Work) -> Outcome:
        await connection.execute(CUT)
        await work.connection.execute("SELECT 1")
        return Outcome()

    with pytest.raises(asking.REFUSALS):
        await start(database, tmp_path, is_cut)
    (only,) = await runs(connection)
    assert (only["state"], only["ended_at"] is None) == ("failed", False)
    assert only["error"].startswith("PostgreSQL has failed: ")
    states = JobStates({})
    await states.look(database)
    assert states.jobs["sample"].failed
    await start(database, tmp_path, nothing)
    assert [one["state"] for one in await runs(connection)] == ["done", "failed"]


def test_what_asyncpg_says_of_a_connection_that_was_cut_within_a_copy_is_trouble() -> None:
    """It must end neither the task that looks at schedules nor a command with a traceback."""
    with pytest.raises(LedgerUnavailable, match=r"^PostgreSQL has failed: cannot switch"), asking.asking():
        raise asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")
    assert issubclass(asyncpg.InternalClientError, asking.TROUBLE)


async def test_a_run_that_waits_for_something_else_ends_when_its_lock_is_gone(
    database: str, connection: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may take hours, in which somebody else would run the job as well."""
    monkeypatch.setattr(running, "WATCH_S", 0.05)
    looks, cleaned = asyncio.Semaphore(0), list[str]()

    def connected(dsn: str, name: str) -> Any:
        looks.release()
        return asking.connected(dsn, name)

    monkeypatch.setattr(running, "connected", connected)

    async def waits(work: Work) -> Outcome:
        for _ in range(3):  # behind the first two the lock was there
            await looks.acquire()
        try:
            await connection.execute(CUT)
            await asyncio.Event().wait()
        finally:
            cleaned.append(work.job)
        return Outcome()

    with pytest.raises(LedgerUnavailable, match="closed the connection that held the lock"):
        await start(database, tmp_path, waits)
    assert cleaned == ["sample"]
    (only,) = await runs(connection)
    assert (only["state"], "held the lock" in only["error"]) == ("failed", True)


async def test_a_run_is_recorded_by_a_postgresql_that_comes_back(
    server: EmbeddedPostgres, tmp_path: Path
) -> None:
    async def restarts(work: Work) -> Outcome:
        await asyncio.to_thread(server.stop)
        again.append(asyncio.create_task(asyncio.to_thread(server.start)))
        await work.connection.execute("SELECT 1")
        return Outcome()

    again: list[asyncio.Task[str]] = []
    with pytest.raises(asking.TROUBLE):
        await start(server.dsn, tmp_path, restarts)
    await again[0]
    connection = await asyncpg.connect(server.dsn)
    assert [one["state"] for one in await runs(connection)] == ["failed"]
    await start(server.dsn, tmp_path, nothing)
    await connection.close()


@pytest.mark.parametrize("within", ["a transaction", "nothing"])
async def test_a_postgresql_that_says_nothing_ends_the_run_and_not_one_that_was_slow(
    server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: str
) -> None:
    short = {"WATCH_S": 0.05, "SILENT_S": 0.5, "RECORD_S": 0.2, "RELEASE_S": 0.2, "CLEAN_UP_S": 0.2}
    for name, seconds in short.items():
        monkeypatch.setattr(running, name, seconds)
    assert server.pid is not None
    stopped = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]

    async def asks(work: Work) -> Outcome:
        await work.connection.execute("SELECT 1")
        monkeypatch.setattr(connections, "CONNECT_S", 0.1)  # the run's own connection may take its time
        stopped[:] = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        if within == "nothing":
            await work.connection.execute("SELECT 1")
        async with work.connection.transaction():
            await work.connection.execute("SELECT 1")
        return Outcome()

    lines: list[str] = []
    try:
        async with asyncio.timeout(patience()):
            with pytest.raises(LedgerUnavailable, match="has not answered for"):
                await start(server.dsn, tmp_path, asks, progress=lines.append)
    finally:
        for process in stopped:
            process.send_signal(signal.SIGCONT)
        monkeypatch.undo()
    assert lines[-1].startswith("the end of the run could not be recorded: ")
    # What it had asked for is done by now, and nobody holds its lock.
    states = JobStates({})
    async with asyncio.timeout(patience()):
        while not states.jobs or not states.jobs["sample"].failed:
            await states.look(server.dsn)
    await start(server.dsn, tmp_path, nothing)


async def test_the_time_of_a_run_is_that_of_postgresql(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway whose clock is ahead would archive, and drop, days that have not ended."""
    found: list[datetime] = []

    async def looks(work: Work) -> Outcome:
        found.append(work.now)
        found.append(await work.connection.fetchval("SELECT now()"))
        return Outcome()

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr(running, "datetime", Ahead)
    await start(database, tmp_path, looks)
    assert timedelta(0) <= found[1] - found[0] < timedelta(minutes=5)


async def test_a_run_that_was_killed_is_made_up_for_once(
    database: str, connection: Any, tmp_path: Path
) -> None:
    """What kills each run, as a lack of memory does, is not tried again and again."""
    day = ScheduleSettings(every_s=86_400)

    async def due() -> datetime | None:
        states = JobStates({})
        now = await states.look(database)
        known = states.jobs.get("sample")
        return due_since(day, now, known.began if known is not None else None)

    async def vanish() -> None:
        await connection.execute(
            "INSERT INTO sluice.job_run (job, version, state, runner) VALUES ('sample', 1, 'running', 'gone')"
        )

    async def is_stopped(work: Work) -> Outcome:
        raise asyncio.CancelledError

    await start(database, tmp_path, nothing)
    await connection.execute("UPDATE sluice.job_run SET started_at = now() - interval '2 days'")
    await vanish()
    since = await due()
    assert since is not None
    # Two gateways see it, and one of them makes up for it.
    assert (await start(database, tmp_path, nothing, unless_since=since)).number
    assert not (await start(database, tmp_path, nothing, unless_since=since)).number
    assert await due() is None

    await connection.execute("UPDATE sluice.job_run SET started_at = now() - interval '2 days'")
    with pytest.raises(asyncio.CancelledError):
        await start(database, tmp_path, is_stopped, unless_since=since)
    since = await due()
    assert since is not None
    await vanish()
    assert await due() is None
    assert not (await start(database, tmp_path, nothing, unless_since=since)).number
