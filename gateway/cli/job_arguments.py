"""The arguments of `jobs` and `report`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # argparse names the type only so
Command = Callable[[Commands, str, str, str, str], argparse.ArgumentParser]
WithConfig = Callable[[argparse.ArgumentParser], None]


def add(commands: Commands, command: Command, with_config: WithConfig) -> None:
    """Add the commands, made as all others are."""
    _jobs(commands, command, with_config)


def _jobs(commands: Commands, command: Command, with_config: WithConfig) -> None:
    parser = command(
        commands,
        "jobs",
        "`run` a job on Spark, `list` what there is, or show the last `runs`",
        "  sluice jobs list\n"
        "  sluice jobs run archive                  days of the record to the lake\n"
        "  sluice jobs run archive --remote sc://spark:15002\n"
        "  sluice jobs runs --limit 5\n"
        "\nexit codes of run: 0 done, 4 faults in files, 5 PostgreSQL or Spark cannot be reached,\n"
        "6 somebody else runs the job, 1 anything else\n",
        "jobs",
    )
    with_config(parser)
    parser.add_argument("action", choices=("run", "list", "runs"), metavar="run|list|runs")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the job; `runs` shows all jobs' without")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--master", help="where Spark runs, instead of the settings' `jobs.master`")
    where.add_argument("--remote", metavar="sc://HOST:PORT", help="a Spark Connect server that runs it")
    parser.add_argument("--limit", type=int, default=20, help="runs to show; default 20")
    parser.add_argument("--unless-since", metavar="TIME", help="do nothing if a run has begun since TIME")
