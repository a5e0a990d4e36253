"""`sluice jobs`: run a job on Spark, list what there is, show the last runs."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from gateway.app import exit_codes
from gateway.app.jobs import jobs, spark_options
from gateway.app.seal_keys import verify_options
from gateway.app.signals import until_signalled
from gateway.cli.audit import find_record, moment, period
from gateway.cli.settings import settings_of
from gateway.cli.terminal import Terminal, complain, print_progress
from gateway.database.asking import asking, connected
from gateway.errors import Faults, JobBusy
from gateway.jobs.job import Job
from gateway.jobs.running import Run, run_job, runs
from gateway.jobs.verifying import verify
from gateway.settings import Settings


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do what `arguments.action` says."""
    settings = settings_of(arguments)
    if arguments.action == "list":
        return _list(settings, arguments, terminal)
    known = jobs(settings)
    if arguments.name is not None and arguments.name not in known:
        raise Faults([f"there is no job `{arguments.name}`; there are {', '.join(sorted(known))}"])
    if (arguments.since or arguments.until) and (arguments.action, arguments.name) != ("run", "verify"):
        raise Faults(["--from and --to are for `jobs run verify` only"])
    if arguments.action == "runs":
        return _runs(settings, arguments, terminal)
    if arguments.name is None:
        raise Faults([f"`jobs run` needs the name of a job: {', '.join(sorted(known))}"])
    job = known[arguments.name]
    if arguments.since is not None or arguments.until is not None:
        since, until = period(arguments.since, arguments.until)
        job = verify(replace(verify_options(settings), since=since, until=until))
    return _run(settings, job, arguments, terminal)


def _run(settings: Settings, job: Job, arguments: argparse.Namespace, terminal: Terminal) -> int:
    dsn, _ = find_record(settings)
    ended: list[Run] = []

    async def work() -> None:
        ended.append(
            await run_job(
                job,
                dsn=dsn,
                lake=settings.jobs.directory,
                spark=spark_options(settings, job.name, master=arguments.master, remote=arguments.remote),
                progress=print_progress,
                unless_since=moment(arguments.unless_since),
            )
        )

    try:
        with asking(alone=False):
            asyncio.run(until_signalled(work()))
    except JobBusy as error:
        if arguments.json:
            terminal.json({"error": error.code, "messages": [error.for_operators]})
        else:
            complain(error.for_operators)
        return exit_codes.BUSY
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
            error = OSError(error.errno, os.strerror(error.errno), settings.jobs.directory)  # from pyarrow
        place = Path(str(error.filename))
        if not place.is_relative_to(settings.jobs.directory):
            raise
        raise Faults([f"`jobs.directory`: {place}: {error.strerror}"]) from error
    if not ended:
        return exit_codes.INTERRUPTED
    done = ended[0]
    if arguments.json:
        terminal.json(
            {
                "run": done.number,
                "job": job.name,
                "seconds": round(done.seconds, 3),
                "rows_in": done.outcome.rows_in,
                "rows_out": done.outcome.rows_out,
                "application": done.application,
            }
        )
    elif not done.number:
        terminal.line(f"{job.name} has already run since {arguments.unless_since}")
    else:
        rows = f"{done.outcome.rows_in:,} rows read, {done.outcome.rows_out:,} written"
        terminal.line(f"{job.name}: {rows}, {done.seconds:.1f} s")
    return exit_codes.OK


def _list(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    found = []
    for job in jobs(settings).values():
        when = settings.jobs.schedule.get(job.name)  # type: ignore[call-overload]  # a name that may have none
        found.append(
            {
                "name": job.name,
                "version": job.version,
                "about": job.about,
                "reads": list(job.reads),
                "writes": list(job.writes),
                "schedule": "" if when is None else when.cron or f"every {when.every_s:g} s",
            }
        )
    if arguments.json:
        terminal.json(found)
    else:
        terminal.table(
            ("job", "version", "schedule", "what it does"),
            [(one["name"], one["version"], one["schedule"], one["about"]) for one in found],
            max_cell=100,
        )
    return exit_codes.OK


def _runs(settings: Settings, arguments: argparse.Namespace, terminal: Terminal) -> int:
    dsn, _ = find_record(settings)
    found = asyncio.run(_ask(dsn, arguments.name, arguments.limit))
    if arguments.json:
        terminal.json([dict(row) for row in found])
        return exit_codes.OK
    terminal.table(
        (
            "run",
            "job",
            "state",
            "began",
            "seconds",
            "rows in",
            "rows out",
            "from",
            "to",
            "whole",
            "application",
            "error",
        ),
        [
            (
                row["id"],
                row["job"],
                row["state"],
                f"{row['started_at']:%Y-%m-%d %H:%M:%S}",
                "" if row["seconds"] is None else f"{row['seconds']:.1f}",
                row["rows_in"],
                row["rows_out"],
                _moment(row["range_from"]),
                _moment(row["range_to"]),
                "yes" if row["whole"] else "no",
                row["application"],
                row["error"],
            )
            for row in found
        ],
    )
    return exit_codes.OK


def _moment(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"


async def _ask(dsn: str, job: str | None, limit: int) -> list[Any]:
    async with connected(dsn, "sluice-jobs") as connection:
        try:
            return await runs(connection, job, limit)
        except asyncpg.UndefinedTableError:
            return []  # none has run
