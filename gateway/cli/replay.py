"""`sluice policy diff OLD NEW --replay`: statements of the record judged under both, on Spark."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.app import exit_codes
from gateway.app.jobs import spark_options
from gateway.app.replaying import replay_options
from gateway.app.signals import until_signalled
from gateway.cli.audit import find_record, period
from gateway.cli.commands import default_config
from gateway.cli.terminal import BOLD, DIM, GREEN, RED, YELLOW, Terminal, on_one_line, print_progress
from gateway.database.asking import asking, connected
from gateway.errors import Faults
from gateway.jobs.replay.job import replay
from gateway.jobs.replay.report import ReplayReport, read_report
from gateway.jobs.running import run_job
from gateway.settings import load_settings

_TITLES = {
    "lost": ("lost", RED),
    "gained": ("gained", GREEN),
    "mask": ("mask changed", YELLOW),
    "filter": ("filter changed", YELLOW),
}
_COUNTS = ("statements", "judged", "asked_nothing", "unjudged", "changed", "decided_otherwise")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Replay a period: 0 when nothing changes, 1 when something does, 2 (`trouble`) on faults."""
    if arguments.users or arguments.resources or arguments.resource:
        raise Faults(["`--replay` takes users and resources from the record; leave out files of them"])
    settings = load_settings(arguments.config or default_config())
    dsn, _ = find_record(settings)
    options = replay_options(settings, sides=(arguments.old, arguments.new), tables=arguments.tables)
    since, until = period(arguments.since, arguments.until)
    options = replace(
        options,
        since=since,
        until=until,
        catalog=arguments.catalog or options.catalog,
    )
    spark = spark_options(settings, "replay", master=arguments.master, remote=arguments.remote)
    job = replace(replay(options), whole=False)
    reports: list[ReplayReport] = []

    async def work() -> None:
        done = await run_job(job, dsn=dsn, lake=settings.jobs.directory, spark=spark, progress=print_progress)
        async with connected(dsn, "sluice-replay") as connection:
            reports.append(
                await read_report(connection, done.number, limit=arguments.limit, literals=arguments.literals)
            )

    with asking(alone=False):
        asyncio.run(until_signalled(work()))
    if not reports:
        return exit_codes.INTERRUPTED
    report = reports[0]
    if arguments.json:
        terminal.json(as_json(report))
    else:
        show(terminal, report)
    return exit_codes.DIFF_CHANGES if report.totals["changed"] else exit_codes.OK


def as_json(report: ReplayReport) -> dict[str, Any]:
    """Return a replay for programs; keys are stable."""
    totals = report.totals
    return {
        "run": totals["run"],
        "old": totals["old"],
        "new": totals["new"],
        "catalog": totals["catalog"],
        "from": totals["range_from"].isoformat(),
        "to": totals["range_to"].isoformat(),
        **{name: totals[name] for name in _COUNTS},
        "changes": [
            {
                "kind": one["kind"],
                "user": one["user_name"],
                "resource": one["resource"],
                "column": one["column_name"],
                "before": one["before"],
                "after": one["after"],
                "statements": one["statements"],
                "examples": [
                    {"statement_id": str(example), "fingerprint": fingerprint}
                    | ({"statement": report.texts[str(example)]} if str(example) in report.texts else {})
                    for example, fingerprint in zip(one["examples"], one["fingerprints"], strict=True)
                ],
            }
            for one in report.changes
        ],
        "not_judged": [
            {"reason": one["reason"], "statements": one["statements"], "example": str(one["example"])}
            for one in report.unjudged
        ],
    }


def show(terminal: Terminal, report: ReplayReport) -> None:
    """Print a replay for people, grouped by what changes."""
    totals = report.totals
    for kind, (title, colour) in _TITLES.items():
        some = [one for one in report.changes if one["kind"] == kind]
        if not some:
            continue
        terminal.line(terminal.style(title, BOLD, colour))
        for one in some:
            _show_change(terminal, one, report.texts)
        terminal.line()
    terminal.line(
        f"{totals['changed']:,} of {totals['judged']:,} replayed statements change "
        f"({totals['asked_nothing']:,} more do not depend on policies)"
    )
    if totals["decided_otherwise"]:
        terminal.line(
            f"{totals['decided_otherwise']:,} get another verdict under the old policies than the recorded "
            "one"
        )
    if gone := sum(text is None for text in report.texts.values()):
        told = f"{gone:,} examples without their literals: their texts are no longer in PostgreSQL"
        terminal.line(terminal.style(told, YELLOW))
    if totals["unjudged"]:
        terminal.line(terminal.style(f"{totals['unjudged']:,} could not be replayed", YELLOW))
        for one in report.unjudged:
            terminal.line(on_one_line(f"  {one['statements']:,}: {one['reason']}, as {one['example']}"))


def _show_change(terminal: Terminal, one: dict[str, Any], texts: Mapping[str, str | None]) -> None:
    what = one["resource"] or "the statement"
    if one["column_name"]:
        what += f".{one['column_name']}"
    many = "statement" if one["statements"] == 1 else "statements"
    terminal.line(on_one_line(f"  {one['user_name']}: {what}, {one['statements']:,} {many}"))
    terminal.line(terminal.style(f"      before  {on_one_line(one['before'])}", DIM))
    terminal.line(terminal.style(f"      after   {on_one_line(one['after'])}", DIM))
    for example, fingerprint in zip(one["examples"], one["fingerprints"], strict=True):
        text = " ".join((texts.get(str(example)) or fingerprint).split())
        terminal.line(terminal.style(f"      {example}  {text}", DIM))
