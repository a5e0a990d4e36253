"""A job runs alone, says how it ended, and ends with the same tables however often it was killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import asyncpg
import psutil
import pytest
from py4j.protocol import Py4JError

from gateway.app import exit_codes
from gateway.app.jobs import due_since, jobs, keep_running
from gateway.app.jobs_metrics import JobStates
from gateway.errors import BackendUnavailable, JobBusy, RecordChanged
from gateway.jobs.archive import TABLE
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.locks import LOCKS, VERIFYING, keep_archive
from gateway.jobs.running import run_job, runs
from gateway.jobs.spark import SparkOptions
from gateway.jobs.verifying import VerifyOptions, verify
from gateway.settings import Settings
from gateway.settings.jobs import JobName, JobsSettings, ScheduleSettings
from tests.jobs.records import day_of_events, fill
from tests.jobs.worker import HEAP, Worker
from tests.speed import patience

ROOT = Path(__file__).resolve().parents[2]


def job(run: Any, *, version: int = 1) -> Job:
    return Job(name="sample", version=version, about="for tests", reads=(), writes=(), run=run)


def part_of(run: Any) -> Job:
    return replace(job(run), whole=False)


async def nothing(work: Work) -> Outcome:
    return Outcome(rows_in=int(work.watermark is not None), watermark=work.now)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Any]:
    found = await asyncpg.connect(database)
    yield found
    await found.close()


async def start(database: str, tmp_path: Path, chosen: Job, **more: Any) -> Any:
    return await run_job(chosen, dsn=database, lake=tmp_path, spark=SparkOptions(), **more)


def test_every_job_can_have_a_schedule() -> None:
    assert set(get_args(JobName)) == set(jobs(Settings()))


async def test_a_run_is_recorded_with_its_watermark(database: str, connection: Any, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    await start(database, tmp_path, job(nothing), clock=lambda: now)
    assert (await start(database, tmp_path, job(nothing))).outcome.rows_in == 1
    assert (await start(database, tmp_path, job(nothing, version=2))).outcome.rows_in == 0
    last, _, first = await runs(connection)
    assert (first["state"], first["version"], last["version"], first["application"]) == ("done", 1, 2, "")
    assert first["seconds"] >= 0
    assert await connection.fetchval("SELECT run FROM sluice.job_watermark") == last["id"]


async def test_postgresql_looks_whether_the_machine_of_a_run_is_still_there(
    database: str, tmp_path: Path
) -> None:
    """Only TCP has it, and here a socket of the machine answers; but it was asked for."""
    found: dict[str, str] = {}

    async def asks(work: Work) -> Outcome:
        rows = await work.connection.fetch(
            "SELECT name, source FROM pg_settings WHERE name LIKE 'tcp_keepalives_%'"
        )
        found.update(rows)
        return Outcome()

    await start(database, tmp_path, job(asks))
    assert found == {f"tcp_keepalives_{what}": "session" for what in ("idle", "interval", "count")}


async def test_a_failure_is_recorded_and_saves_no_watermark(
    database: str, connection: Any, tmp_path: Path
) -> None:
    async def fails(work: Work) -> Outcome:
        raise BackendUnavailable("no\0 Spark in \udcff\nat all")

    with pytest.raises(BackendUnavailable):
        await start(database, tmp_path, job(fails))
    (only,) = await runs(connection, "sample")
    assert (only["state"], only["error"]) == ("failed", "BackendUnavailable: no␀ Spark in \ufffd")
    assert await connection.fetchval("SELECT count(*) FROM sluice.job_watermark") == 0


async def test_of_an_error_of_spark_its_cause_is_told(database: str, connection: Any, tmp_path: Path) -> None:
    async def fails(work: Work) -> Outcome:
        raise Py4JError(
            "An error occurred while calling o89.parquet.\n: org.apache.spark.SparkException: Job aborted\n"
            "\tat org.apache.spark.Y.z(Y.scala:1)\nCaused by: java.io.IOException: No space left on device\n"
            "\tat java.base/x.y(Z.java:2)\n\t... 1 more"
        )

    with pytest.raises(BackendUnavailable, match=r"^Spark has failed: java\.io\.IOException: No space left"):
        await start(database, tmp_path, job(fails))
    (only,) = await runs(connection)
    assert only["error"].endswith("Spark has failed: java.io.IOException: No space left on device")


async def test_what_ends_with_the_run_is_all_or_nothing(
    database: str, connection: Any, tmp_path: Path
) -> None:
    async def breaks(found: Any) -> None:
        await found.execute("CREATE TABLE sluice.half_done ()")
        await found.execute("SELECT 1 / 0")

    async def run(work: Work) -> Outcome:
        return Outcome(watermark=work.now, finish=breaks)

    with pytest.raises(asyncpg.DivisionByZeroError):
        await start(database, tmp_path, job(run))
    assert await connection.fetchval("SELECT to_regclass('sluice.half_done')") is None
    assert await connection.fetchval("SELECT count(*) FROM sluice.job_watermark") == 0


async def test_two_at_once_exclude_each_other_and_the_second_says_who(database: str, tmp_path: Path) -> None:
    running, go = asyncio.Event(), asyncio.Event()

    async def waits(work: Work) -> Outcome:
        running.set()
        await go.wait()
        return Outcome()

    first = asyncio.create_task(start(database, tmp_path, job(waits)))
    await running.wait()
    with pytest.raises(JobBusy, match=f"process {os.getpid()}, has been running `sample` since 2"):
        await start(database, tmp_path, job(nothing))
    go.set()
    await first
    await start(database, tmp_path, job(nothing))


async def test_who_needs_a_job_to_stand_still_is_told_and_no_run_that_was_killed(
    database: str, connection: Any, tmp_path: Path
) -> None:
    await start(database, tmp_path, job(nothing))
    await connection.execute(
        "INSERT INTO sluice.job_run (job, version, state, runner) VALUES"
        " ('sample', 1, 'running', 'long gone'), ('other', 1, 'running', 'host, process 7,')"
    )
    await connection.execute("SET application_name = 'sluice-job-other'")
    await connection.execute("SELECT pg_advisory_lock($1, hashtext('sample'))", LOCKS)
    with pytest.raises(
        JobBusy, match=r"^host, process 7, has been running `other` since 2.*; run `sample` when"
    ):
        await start(database, tmp_path, job(nothing))


async def test_a_run_that_was_stopped_or_vanished_counts_as_killed(
    database: str, connection: Any, tmp_path: Path
) -> None:
    running = asyncio.Event()

    async def waits(work: Work) -> Outcome:
        running.set()
        await asyncio.Event().wait()
        return Outcome()

    task = asyncio.create_task(start(database, tmp_path, job(waits)))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await connection.execute(
        "INSERT INTO sluice.job_run (job, version, state, runner) VALUES ('sample', 1, 'running', 'gone')"
    )
    await start(database, tmp_path, job(nothing))
    assert [row["state"] for row in await runs(connection)] == ["done", "killed", "killed"]


async def test_what_is_not_due_any_more_does_not_run(database: str, connection: Any, tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    assert (await start(database, tmp_path, job(nothing), unless_since=before)).number
    assert not (await start(database, tmp_path, job(nothing), unless_since=before)).number
    assert len(await runs(connection)) == 1


async def test_a_run_of_a_clock_that_went_back_keeps_no_job_from_running(
    database: str, connection: Any, tmp_path: Path
) -> None:
    await start(database, tmp_path, job(nothing))
    await connection.execute(
        "UPDATE sluice.job_run SET (started_at, ended_at) ="
        " ROW (now() + interval '1 year', now() + interval '1 year')"
    )
    states = JobStates({})
    now = await states.look(database)
    known = states.jobs["sample"]
    since = due_since(ScheduleSettings(every_s=60), now, known.began)
    assert since is not None
    assert figures(states)["sluice_job_done_timestamp_seconds", "sample"] == 0
    assert (await start(database, tmp_path, job(nothing), unless_since=since)).number
    now = await states.look(database)
    assert due_since(ScheduleSettings(every_s=60), now, states.jobs["sample"].began) is None
    assert not (await start(database, tmp_path, job(nothing), unless_since=since)).number


async def forges(work: Work) -> Outcome:
    """Find, as `verify` does, that the record was changed."""
    await work.connection.execute(
        "INSERT INTO sluice.verification"
        " (run, events, gateways, seals, signatures_checked, before_chain, findings)"
        " VALUES ($1, 2, 1, 0, false, 0, 1)",
        work.run,
    )
    raise RecordChanged("the record was changed")


async def breaks(work: Work) -> Outcome:
    raise BackendUnavailable("no address of Spark")


async def test_a_run_of_a_part_says_nothing_of_the_whole_but_what_it_finds(
    database: str, tmp_path: Path
) -> None:
    states = JobStates({})

    async def failed(chosen: Job) -> float | None:
        with contextlib.suppress(RecordChanged, BackendUnavailable):
            await start(database, tmp_path, chosen)
        await states.look(database)
        return figures(states).get(("sluice_job_failed", "sample"))

    assert await failed(part_of(nothing)) is None
    assert await failed(part_of(breaks)) is None
    assert await failed(job(forges)) == 1
    assert await failed(part_of(nothing)) == 1
    assert figures(states)["sluice_job_done_timestamp_seconds", "sample"] == 0
    assert await failed(job(nothing)) == 0
    assert await failed(part_of(breaks)) == 0
    assert await failed(part_of(forges)) == 1
    assert await failed(part_of(nothing)) == 1
    assert await failed(job(nothing)) == 0


async def test_a_run_of_a_part_does_not_stand_in_for_one_of_the_schedule(
    database: str, connection: Any, tmp_path: Path
) -> None:
    missed, part = datetime.now(UTC) - timedelta(hours=2), part_of(nothing)
    await start(database, tmp_path, part)
    states = JobStates({})
    now = await states.look(database)
    assert (states.jobs["sample"].began, states.jobs["sample"].runs) == (None, False)
    assert due_since(ScheduleSettings(every_s=60), now, None) is not None
    assert (await start(database, tmp_path, job(nothing), unless_since=missed)).number
    assert not (await start(database, tmp_path, job(nothing), unless_since=missed)).number
    # What was killed is made up for once, whatever parts were run in between.
    await connection.execute("UPDATE sluice.job_run SET state = 'killed'")
    await start(database, tmp_path, part)
    gone = "INSERT INTO sluice.job_run (job, version, state, runner) VALUES ('sample', 1, 'running', 'gone')"
    await connection.execute(gone)
    await states.look(database)
    assert states.jobs["sample"].began is not None
    assert not (await start(database, tmp_path, job(nothing), unless_since=missed)).number


async def test_a_run_of_a_machine_that_went_down_with_its_clock_ahead_is_nobodys(
    database: str, connection: Any, tmp_path: Path
) -> None:
    await start(database, tmp_path, job(nothing))
    await connection.execute(
        "UPDATE sluice.job_run SET state = 'running', started_at = now() + interval '1 d'"
    )
    states = JobStates({})
    await states.look(database)
    assert not states.jobs["sample"].runs
    await connection.execute("SELECT pg_advisory_lock($1, hashtext('sample'))", LOCKS)
    await states.look(database)
    assert states.jobs["sample"].runs


def test_a_period_of_the_record_is_a_part_of_it() -> None:
    assert verify(VerifyOptions()).whole
    assert not verify(VerifyOptions(since=datetime.now(UTC))).whole
    assert not verify(VerifyOptions(until=datetime.now(UTC))).whole


# -- the command, which can be killed ------------------------------------------------------------------------


@pytest.fixture
def config(database: str, tmp_path: Path) -> Path:
    (tmp_path / "dsn").write_text(database)
    settings = {
        "ledger": {"directory": "ledger", "dsn": {"file": "dsn"}},
        "jobs": {
            "directory": "lake",
            "master": "local[2]",
            "driver_memory": HEAP,
            "shuffle_partitions": 2,
            "archive": {"settle_s": 60},
        },
    }
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return file


async def command(config: Path, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gateway", "jobs", *words, "-c", str(config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def ended(config: Path, *words: str) -> tuple[int, str, str]:
    process = await command(config, *words)
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def killed_at(config: Path, line: str, name: str = "archive") -> bool:
    """Run a job until it says a line, then kill it; return whether it came to that."""
    process = await command(config, "run", name)
    assert process.stderr is not None
    seen = False
    async for told in process.stderr:
        if line in told.decode():
            seen = True
            process.send_signal(signal.SIGKILL)
            break
    await process.communicate()
    return seen


@pytest.mark.in_turn(8, place=0)
async def test_a_process_that_was_killed_leaves_nothing_behind_and_the_next_ends_it(
    database: str, connection: Any, config: Path, worker: Worker
) -> None:
    """By SIGKILL, where files are in their place and PostgreSQL does not know; test_killed has all points."""
    await fill(database, day_of_events(count=30))
    assert await killed_at(config, "moved into place")
    code, out, err = await ended(config, "run", "archive", "--json")
    assert code == exit_codes.OK, err
    events = await connection.fetchval("SELECT count(*) FROM sluice.audit_event")
    rows = await worker.rows(config.parent / "lake" / TABLE, "SELECT event_id FROM lake")
    assert len(rows) == events == len({row["event_id"] for row in rows})
    assert json.loads(out)["rows_out"] == events
    states = [row["state"] for row in await runs(connection)]
    assert states == ["done", "killed"]
    code, out, _ = await ended(config, "runs", "--json")
    assert [row["state"] for row in json.loads(out)] == states


@pytest.mark.in_turn(8, place=2)
async def test_the_command_says_who_runs_it_and_what_there_is(
    database: str, connection: Any, config: Path
) -> None:
    await fill(database, ())
    await connection.execute("SELECT pg_advisory_lock($1, hashtext('archive'))", 0x736C756A)
    code, _, err = await ended(config, "run", "archive")
    assert (code, "another process is about to run `archive`" in err) == (exit_codes.BUSY, True)
    assert (await ended(config, "run", "nonsense"))[0] == exit_codes.FAULTS
    assert (await ended(config, "run"))[0] == exit_codes.FAULTS
    await connection.execute("SELECT pg_advisory_unlock_all()")
    await connection.execute(f"SET application_name = '{VERIFYING}'")
    await keep_archive(connection, lambda _: None)
    code, _, err = await ended(config, "run", "archive")
    assert (code, "`sluice audit verify` is reading the archive" in err) == (exit_codes.BUSY, True)
    await connection.execute("SELECT pg_advisory_unlock_all()")
    (config.parent / "lake").write_text("something else")
    code, _, err = await ended(config, "run", "archive")
    assert (code, f"`jobs.directory`: {config.parent / 'lake'}" in err) == (exit_codes.FAULTS, True), err
    code, out, _ = await ended(config, "list", "--json")
    assert code == exit_codes.OK
    assert "archive" in {one["name"] for one in json.loads(out)}


def commands_of(config: Path) -> list[psutil.Process]:
    """Return the processes of ours, or of theirs, that run by a settings file."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if str(config) in process.cmdline():
                found.append(process)
    return found


@pytest.mark.in_turn(8, place=1)
async def test_the_schedule_runs_a_due_job_once(database: str, connection: Any, config: Path) -> None:
    """Of two gateways, one of which has been given a new schedule already."""
    await fill(database, ())
    # Once a year: on a day that is due at each minute, there may be a second one while we look.
    schedules = ScheduleSettings(cron="0 0 1 1 *"), ScheduleSettings(every_s=86_400)
    gateways = []
    for own in schedules:
        chosen = JobsSettings(schedule={"archive": own}, poll_s=0.2, niceness=7, share=0.6)
        gateways.append(asyncio.create_task(keep_running(chosen, database, config, states=JobStates({}))))
    niceness: list[int] = []
    async with asyncio.timeout(patience()):
        while not [row for row in await runs(connection) if row["state"] == "done"]:
            for process in commands_of(config):
                with contextlib.suppress(psutil.NoSuchProcess):
                    niceness.append(process.nice())
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)
    for gateway in gateways:
        gateway.cancel()
    await asyncio.gather(*gateways, return_exceptions=True)
    assert [row["state"] for row in await runs(connection)] == ["done"]
    assert niceness[-1] == 7  # it gives way to the gateways


@pytest.mark.in_turn(1)
async def test_a_job_that_vanishes_is_run_once_more_by_the_gateway_that_lives(
    database: str, connection: Any, config: Path
) -> None:
    await fill(database, ())
    schedule: dict[JobName, ScheduleSettings] = {"archive": ScheduleSettings(cron="0 0 1 1 *")}
    chosen = JobsSettings(schedule=schedule, poll_s=0.2, share=1)
    looks = asyncio.Semaphore(0)

    class Counted(JobStates):
        async def look(self, dsn: str) -> datetime:
            looks.release()
            return await JobStates.look(self, dsn)

    async with connection.transaction():
        await connection.execute("LOCK TABLE sluice.archive_day")  # where the run stands still
        dying = asyncio.create_task(keep_running(chosen, database, config, states=JobStates({})))
        async with asyncio.timeout(patience()):
            other = await asyncpg.connect(database)
            while not [row for row in await runs(other) if row["state"] == "running"]:  # noqa: ASYNC110 - a run of another process has no event
                await asyncio.sleep(0.1)
        for process in commands_of(config):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
    living = asyncio.create_task(keep_running(chosen, database, config, states=Counted({})))
    async with asyncio.timeout(patience()):
        while next(row["state"] for row in await runs(other)) != "done":  # noqa: ASYNC110 - a run of another process has no event
            await asyncio.sleep(0.1)
        while not looks.locked():
            await looks.acquire()
        for _ in range(3):
            await looks.acquire()
    living.cancel()
    await asyncio.gather(living, return_exceptions=True)
    assert [row["state"] for row in await runs(other)] == ["done", "killed"]
    await other.close()


async def test_a_job_that_cannot_be_started_ends_no_gateway(
    database: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(database, ())
    tries = asyncio.Queue[str]()

    async def refuses(*words: str, **_: Any) -> None:
        tries.put_nowait(words[-1])
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("gateway.app.jobs.asyncio.create_subprocess_exec", refuses)
    schedule: dict[JobName, ScheduleSettings] = {"archive": ScheduleSettings(cron="0 0 1 1 *")}
    chosen = JobsSettings(schedule=schedule, poll_s=0.05)
    states = JobStates({})
    gateway = asyncio.create_task(keep_running(chosen, database, config, states=states))
    async with asyncio.timeout(patience()):
        for _ in range(3):
            await tries.get()
        assert figures(states)["sluice_job_failed", "archive"] == 1
        await start(database, config.parent, replace(job(nothing), name="archive"))
        while states.failing:  # noqa: ASYNC110 - a look of the schedule has no event
            await asyncio.sleep(0.05)
    assert figures(states)["sluice_job_failed", "archive"] == 0
    assert not gateway.done()
    gateway.cancel()
    await asyncio.gather(gateway, return_exceptions=True)


async def test_looks_go_on_while_a_job_runs_and_nobody_starts_a_second(
    database: str, connection: Any, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(database, config.parent, job(nothing))
    started, go, looked = asyncio.Queue[str](), asyncio.Event(), asyncio.Semaphore(0)

    async def runs_long(name: str, *_: Any) -> int:
        started.put_nowait(name)
        await go.wait()
        return exit_codes.OK

    class Counted(JobStates):
        async def look(self, dsn: str) -> datetime:
            now = await JobStates.look(self, dsn)
            looked.release()
            return now

    async def look_again() -> None:
        while not looked.locked():
            await looked.acquire()
        for _ in range(2):
            await looked.acquire()

    monkeypatch.setattr("gateway.app.jobs._wait_for_end", runs_long)
    yearly = ScheduleSettings(cron="0 0 1 1 *")
    schedule: dict[JobName, ScheduleSettings] = {"archive": yearly, "rollups": yearly}
    states = Counted({})
    keeping = keep_running(JobsSettings(schedule=schedule, poll_s=0.05), database, config, states=states)
    async with asyncio.timeout(patience()):
        # Somebody runs a part of one of them by hand.
        await connection.execute("SELECT pg_advisory_lock($1, hashtext('rollups'))", LOCKS)
        await connection.execute(
            "INSERT INTO sluice.job_run (job, version, state, runner, whole)"
            " VALUES ('rollups', 1, 'running', 'elsewhere', false)"
        )
        gateway = asyncio.create_task(keeping)
        assert await started.get() == "archive"
        with pytest.raises(BackendUnavailable):
            await start(database, config.parent, job(breaks))
        await look_again()
        assert figures(states)["sluice_job_failed", "sample"] == 1
        await connection.execute("SELECT pg_advisory_unlock_all()")
        await look_again()
        assert started.empty()
        go.set()
        assert [await started.get(), await started.get()] == ["archive", "rollups"]
    gateway.cancel()
    await asyncio.gather(gateway, return_exceptions=True)


def figures(states: JobStates) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("job", "")): sample.value
        for metric in states.collect()
        for sample in metric.samples
    }


async def test_metrics_say_what_became_of_the_newest_run(
    database: str, connection: Any, tmp_path: Path
) -> None:
    states = JobStates({})
    assert figures(states) == {}
    with pytest.raises(BackendUnavailable):
        await start(database, tmp_path, job(breaks))
    await states.look(database)
    assert figures(states) == {
        ("sluice_job_done_timestamp_seconds", "sample"): 0,
        ("sluice_job_failed", "sample"): 1,
    }

    await start(database, tmp_path, job(nothing))
    await connection.execute(
        "INSERT INTO sluice.job_run (job, version, state, runner) "
        "VALUES ('sample', 1, 'running', 'elsewhere')"
    )
    await connection.execute(
        "INSERT INTO sluice.proof (run, statements, proved, different, obliged) "
        "SELECT max(id), 5, 3, 2, 1 FROM sluice.job_run"
    )
    # Who needs it to stand still does not run it.
    await connection.execute("SELECT pg_advisory_lock_shared($1, hashtext('sample'))", LOCKS)
    await states.look(database)
    newest, done, _ = await runs(connection)
    # Nobody holds its lock: it was killed, and is to be made up for.
    assert states.jobs["sample"].began == done["started_at"]
    assert figures(states)["sluice_job_failed", "sample"] == 1

    await connection.execute("SELECT pg_advisory_lock($1, hashtext('sample'))", LOCKS)
    await states.look(database)
    assert states.jobs["sample"].began == newest["started_at"]  # one that runs counts for the schedule alone
    told = figures(states)
    assert told["sluice_job_done_timestamp_seconds", "sample"] == done["ended_at"].timestamp()
    assert told["sluice_job_failed", "sample"] == 0
    assert told["sluice_proof_different", ""] == 2

    with pytest.raises(OSError):
        await states.look("postgresql://nobody@/none?host=/nonexistent")
    assert figures(states) == told
