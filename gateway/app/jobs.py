"""Jobs as the settings have them, and the task that starts those that are due.

A due job is a process of its own (`sluice jobs run NAME`): Spark's driver has no place in a gateway. All
gateways look; the job's lock and the record of its runs have one of them run it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from gateway.app import exit_codes
from gateway.app.accepted_tags import build_accepted_tags_path
from gateway.app.classifying import classify_options, gateway_session
from gateway.app.explaining import (
    catalog_without_sessions,
    find_parser_jars,
    make_reader,
    reader_of,
    select_judging_settings,
)
from gateway.app.jobs_metrics import JobStates
from gateway.app.metalakes import load_cached_metalakes
from gateway.app.policy_diff import load_user_file, settings_side
from gateway.app.propagation_rules import propagation_rules
from gateway.app.recommending import recommend_options
from gateway.app.replaying import replay_options
from gateway.app.revealing import reveal_secrets
from gateway.app.seal_keys import seal_keys, verify_options
from gateway.app.tag_propagation import load_accepted_list
from gateway.catalog.spark_settings import NamedCatalog, session_settings, start_settings
from gateway.database.asking import TROUBLE
from gateway.errors import Faults
from gateway.jobs.archive import ArchiveOptions, archive
from gateway.jobs.archive_dropping import Hold, Keeping
from gateway.jobs.classification.job import classify
from gateway.jobs.closure import ClosureOptions, ClosureRules, closure
from gateway.jobs.job import Job, Work
from gateway.jobs.proof.job import Gate, ProofOptions, proof
from gateway.jobs.proof.source import GatewaySamples
from gateway.jobs.recommending.job import recommend
from gateway.jobs.replay.job import replay
from gateway.jobs.rollups import RollupOptions, rollups
from gateway.jobs.schedules import parse_cron
from gateway.jobs.spark import PY_FILE, SparkOptions
from gateway.jobs.verifying import verify
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home
from gateway.reader.shapes import FingerprintOf
from gateway.settings.jobs import JobsSettings, ScheduleSettings
from gateway.settings.models import Settings
from gateway.sources.accepted_tags import load_cached_list

log = structlog.get_logger(__name__)

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Variable by which `spark-submit` tells a Python application where its Spark is."""
STOP_S = 20.0
"""Seconds between SIGTERM and SIGKILL for a job that runs when its gateway stops."""


def jobs(settings: Settings) -> dict[str, Job]:
    """Return all jobs, by name."""
    # They may be stopped for most of the time, and the clock of their parsers is not.
    times = ("start_timeout_s", "timeout_s")
    patient = {name: getattr(settings.reader, name) / settings.jobs.share for name in times}
    reader = settings.reader.model_copy(update=patient)
    settings = settings.model_copy(update={"reader": reader})
    made = (
        archive(_archive_options(settings)),
        rollups(_rollup_options(settings)),
        classify(classify_options(settings)),
        recommend(recommend_options(settings)),
        closure(closure_options(settings)),
        replay(replay_options(settings)),
        proof(proof_options(settings)),
        verify(verify_options(settings)),
    )
    return {job.name: job for job in made}


def _archive_options(settings: Settings) -> ArchiveOptions:
    chosen = settings.jobs.archive
    return ArchiveOptions(
        settle_s=chosen.settle_s,
        row_group_bytes=chosen.row_group_bytes,
        file_rows=chosen.file_rows,
        keeping=Keeping(
            days=chosen.keep_days,
            holds=holds_of(settings),
            keys=seal_keys(settings.ledger),
        ),
    )


def holds_of(settings: Settings) -> tuple[Hold, ...]:
    """Return the legal holds."""
    return tuple(
        Hold(name=hold.name, users=hold.users, first=_date(hold.first), last=_date(hold.last))
        for hold in settings.jobs.archive.holds
    )


def _rollup_options(settings: Settings) -> RollupOptions:
    # A job keeps the parser busier than sessions do, and can wait.
    chosen = settings.reader.model_copy(update={"wait_s": 10 * settings.reader.wait_s})

    @asynccontextmanager
    async def reader() -> AsyncIterator[FingerprintOf]:
        # Shapes of texts do not depend on extensions: Spark's own lexer, of the version that we came with.
        async with reader_of(chosen, find_parser_jars(chosen, extensions=())) as pool:
            yield pool.fingerprint

    return RollupOptions(reader=reader, statements=settings.jobs.rollups.statements)


def _date(text: str | None) -> date | None:
    return date.fromisoformat(text) if text is not None else None


def spark_options(settings: Settings, name: str, *, master: str | None, remote: str | None) -> SparkOptions:
    """Return where the job runs; what a command says counts before the settings, and before both the Spark
    of a `spark-submit`."""
    chosen = settings.jobs
    if SUBMITTED in os.environ:
        if master or remote:
            raise Faults(["`spark-submit` already determines where Spark runs; remove --master or --remote"])
        packed = os.environ.get(PY_FILE)
        return SparkOptions(
            name=f"sluice-{name}",
            master="",
            py_file=Path(packed) if packed is not None else None,
            **_tables(settings, session_settings),
        )
    remote = remote or (chosen.remote if master is None else None) or ""
    java = None if remote else find_java(settings.reader.java)
    return SparkOptions(
        name=f"sluice-{name}",
        master=master or chosen.master,
        remote=remote,
        driver_memory=chosen.driver_memory,
        shuffle_partitions=chosen.shuffle_partitions,
        java_home=None if java is None else java.resolve().parent.parent,
        classes=None if java is None else find_spark_classes(java, find_spark_home()),
        directory=chosen.directory / "_spark",
        jars=chosen.jars,
        **_tables(settings, session_settings if remote else start_settings),
    )


def _tables(
    settings: Settings, told: Callable[[Iterable[NamedCatalog]], Mapping[str, str]]
) -> dict[str, Any]:
    """Return where jobs have their tables, and what Spark is told of it. Raises Faults."""
    chosen = settings.jobs
    if chosen.catalog is None:
        return {}
    entry = next((one for one in settings.catalogs if one.name.lower() == chosen.catalog.lower()), None)
    if entry is None or entry.catalog.type != "iceberg":
        raise Faults(
            [
                f"`jobs.catalog` is `{chosen.catalog}`, and `catalogs` has no catalog of type `iceberg` with "
                "that name"
            ]
        )
    return {"tables": f"{entry.name}.{chosen.database}", "conf": told([reveal_secrets(entry)])}


async def keep_running(
    settings: JobsSettings,
    dsn: str,
    config: Path,
    *,
    states: JobStates,
) -> None:
    """Start the jobs of the schedule when they are due, one at a time, by what `states` says after a look and
    by the clock of PostgreSQL, since those of gateways may differ. It looks while one runs, too. Never
    returns."""
    async with asyncio.TaskGroup() as group:
        running: asyncio.Task[None] | None = None
        while True:
            try:
                now = await states.look(dsn)
            except TROUBLE as error:
                log.warning("jobs_not_looked_at", error=type(error).__name__)
            else:
                due = _due(settings, states, now)
                if due and (running is None or running.done()):
                    running = group.create_task(_run_each(due, config, settings, states))
            await asyncio.sleep(settings.poll_s)


def _due(settings: JobsSettings, states: JobStates, now: datetime) -> dict[str, datetime]:
    """Return the jobs that are due and that nobody runs, with the moments since when."""
    found: dict[str, datetime] = {}
    for name, when in settings.schedule.items():
        known = states.jobs.get(name)
        since = due_since(when, now, known.began if known is not None else None)
        if since is None:
            states.failing.discard(name)  # there is a run, and the record of it says more
        elif known is None or not known.runs:
            found[name] = since
    return found


async def _run_each(
    due: Mapping[str, datetime], config: Path, settings: JobsSettings, states: JobStates
) -> None:
    """Run jobs one after the other."""
    for name, since in due.items():
        if not await _run(name, config, since, settings):
            states.failing.add(name)


def due_since(when: ScheduleSettings, now: datetime, last: datetime | None) -> datetime | None:
    """Return the moment since when a job is due, given when it last began; None while it is not."""
    if when.cron is not None:
        moment = parse_cron(when.cron).last(now)
    else:
        moment = now - timedelta(seconds=when.every_s or 0)
    if moment is None or (last is not None and last >= moment):
        return None
    return moment


async def _run(name: str, config: Path, since: datetime, settings: JobsSettings) -> bool:
    """Run a job in a process of its own and wait for its end; it is stopped when we are. False: it failed."""
    try:
        code = await _wait_for_end(name, config, since, settings)
    except OSError as error:  # no process to be had, or it was gone at once
        log.warning("job_failed", job=name, error=str(error))
        return False
    if code == exit_codes.BUSY:
        log.info("job_runs_elsewhere", job=name)
    elif code != exit_codes.OK:
        log.warning("job_failed", job=name, code=code)
        return False
    else:
        log.info("job_ended", job=name)
    return True


async def _wait_for_end(name: str, config: Path, since: datetime, settings: JobsSettings) -> int:
    words = ("jobs", "run", name, "--config", str(config), "--unless-since", since.isoformat())
    log.info("job_starting", job=name)
    process = await asyncio.create_subprocess_exec(
        *build_pacing_command(settings.share),
        *(sys.executable, "-m", "gateway", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # It still loads its modules: Spark and its workers are started later, and take after it.
        lower_priority(process.pid, settings.niceness)
        return await process.wait()
    finally:
        if process.returncode is None:
            await _stop(process)


def build_pacing_command(share: float) -> tuple[str, ...]:
    """Return the words before a command that is to run for a share of the time."""
    if share == 1 or sys.platform != "linux":
        return ()
    return sys.executable, "-m", "gateway.jobs.pacing", str(share)


def lower_priority(pid: int, niceness: int) -> None:
    """Have a process that leads a session give way to all others, with all that it starts.

    Where Linux groups processes by their sessions (`man sched`, autogroup), `nice` counts between those of
    one session only, and the session has a number of its own.
    """
    os.setpriority(os.PRIO_PROCESS, pid, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))
    with contextlib.suppress(OSError):  # a kernel without such groups, or none that may be told
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


async def _stop(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# -- The job `proof` as the settings have it: what judges, and the session that samples tables ---------


def proof_options(settings: Settings) -> ProofOptions:
    chosen = settings.jobs.proof

    @asynccontextmanager
    async def gate() -> AsyncIterator[Gate]:
        people = load_user_file(settings)
        policies = await asyncio.to_thread(
            settings_side, settings, people, load_cached_list(build_accepted_tags_path(settings))
        )
        async with await make_reader(settings) as reader:
            metalakes, _ = await load_cached_metalakes(settings)
            async with catalog_without_sessions(settings, reader, None, metalakes) as catalog:
                yield Gate(
                    reader=reader,
                    policies=policies,
                    principals=people,
                    rules=select_judging_settings(settings),
                    catalogs=frozenset(name.lower() for name in settings.policies.catalogs),
                    look_up=catalog.look_up,
                    listed=metalakes.list_catalogs(),
                )

    @contextmanager
    def source(work: Work) -> Iterator[GatewaySamples]:
        with gateway_session("jobs.proof", chosen.gateway, chosen.token) as session:
            work.progress(f"sampling through the gateway at {chosen.gateway}")
            yield GatewaySamples(session)

    return ProofOptions(
        gate=gate,
        source=source,
        days=chosen.days,
        statements=chosen.statements,
        per_stratum=chosen.per_stratum,
        tables=chosen.tables,
        rows=chosen.rows,
        bytes=chosen.bytes,
        result_rows=chosen.result_rows,
        statement_s=chosen.statement_s,
    )


# The job `closure` as the settings have it: tags of columns by the policies, and rules of propagation.


def closure_options(settings: Settings) -> ClosureOptions:
    async def rules(connection: Any) -> ClosureRules:
        people = load_user_file(settings)
        accepted = await load_accepted_list(connection)
        policies = await asyncio.to_thread(settings_side, settings, people, accepted)
        told = repr([sorted(policies.origins.items()), accepted.number])
        return ClosureRules(
            policies=policies,
            propagation=propagation_rules(settings.tag_propagation),
            basis=hashlib.sha256(told.encode()).hexdigest(),
        )

    return ClosureOptions(
        rules=rules, depth=settings.jobs.closure.depth, findings=settings.jobs.closure.findings
    )
