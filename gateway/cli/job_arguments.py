"""The arguments of `jobs`, `report` and `recommend`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.cli.commands import Commands, command, count, with_config


def add(commands: Commands) -> None:
    _jobs(commands)
    _report(commands)
    _recommend(commands)


def _jobs(commands: Commands) -> None:
    parser = command(
        commands,
        "jobs",
        "`run` a job on Spark, `list` jobs, or show the last `runs`",
        "  sluice jobs list\n"
        "  sluice jobs run archive                  copy days of the record to the lake\n"
        "  sluice jobs run archive --remote sc://spark:15002\n"
        "  sluice jobs run verify --from 2024-01-01 --to 2025-01-01\n"
        "  sluice jobs runs --limit 5\n"
        "\nexit codes of run: 0 done, 4 faults in files, 5 PostgreSQL or Spark cannot be reached,\n"
        "6 somebody else runs the job, 1 anything else\n",
        "jobs",
    )
    with_config(parser)
    parser.add_argument("action", choices=("run", "list", "runs"), metavar="run|list|runs")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the job; `runs` without one shows all jobs")
    add_spark(parser)
    parser.value("--from", "TIME", "verify: events from TIME on", dest="since")
    parser.value("--to", "TIME", "verify: events before TIME", dest="until")
    parser.add_argument("--limit", type=count, default=20, help="runs to show; default 20")
    parser.value("--unless-since", "TIME", "do nothing if a run has begun since TIME")


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add what `policy diff --replay` takes."""
    group = parser.add_argument_group("replay")
    group.add_argument(
        "--replay",
        action="store_true",
        help="judge whole statements of the record again, under both sides, as the job `replay`",
    )
    group.add_argument("--on", choices=("spark",), default="spark", help="where to judge them; default spark")
    group.add_argument(
        "--catalog",
        choices=("was", "now"),
        help="use the tables of each statement's record, or those of now; default `jobs.replay.catalog`",
    )
    group.add_argument(
        "--tables", type=Path, metavar="FILE", help="tables from a YAML file, instead of from Spark"
    )
    group.add_argument("--literals", action="store_true", help="show examples with their literals")
    add_spark(group)


def add_spark(group: argparse._ActionsContainer) -> None:
    """Add what says where a job's Spark is."""
    where = group.add_mutually_exclusive_group()
    where.add_argument("--master", help="where Spark runs, instead of the settings' `jobs.master`")
    where.add_argument("--remote", metavar="sc://HOST:PORT", help="a Spark Connect server that runs it")


def _report(commands: Commands) -> None:
    parser = command(
        commands,
        "report",
        "report from the roll-ups who read what (`usage`), what was `refused`, what was `slow`, how long "
        "it took (`latency`), or everything of one `user`; results of proofs (`proof`); and one page "
        "for a security officer (`officer`)",
        "  sluice report usage --table spark_catalog.hr --since 30d\n"
        "  sluice report usage --tag PII --json\n"
        "  sluice report refused --user bob\n"
        "  sluice report slow --limit 10\n"
        "  sluice report latency --by table\n"
        "  sluice report user bob\n"
        "  sluice report proof\n"
        "  sluice report officer --since 7d\n",
        "report",
    )
    with_config(parser)
    parser.add_argument(
        "what",
        choices=("usage", "refused", "slow", "latency", "user", "proof", "officer"),
        metavar="usage|refused|slow|latency|user|proof|officer",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="user: the user's name")
    parser.value("--since", "TIME", "days since `30d`, or 2026-11-20")
    parser.value("--until", "TIME", "up to that day")
    parser.add_argument("--user")
    parser.add_argument("--group", help="usage: by members of the group")
    parser.value("--table", "NAME", "dotted; a catalog or database means its tables")
    parser.add_argument("--tag", help="usage: columns with this accepted tag")
    parser.add_argument(
        "--by",
        choices=("all", "user", "group", "table", "tag"),
        default="all",
        help="latency: one line for each",
    )
    parser.add_argument("--limit", type=count, default=50, help="rows to show; default 50")
    parser.flag("--no-spark", "officer: do not ask Spark for names")


def _recommend(commands: Commands) -> None:
    parser = command(
        commands,
        "recommend",
        "`list`, `show`, `apply` or `reject` changes of policies that their use suggests",
        "  sluice recommend list --kind unused-grant\n"
        "  sluice recommend show 17                 who, how often, when last; the change and its cases\n"
        "  sluice recommend apply 17 --pack rules/policies/hr.yaml            the diff\n"
        "  sluice recommend apply 17 --pack rules/policies/hr.yaml --write\n"
        "  sluice recommend reject 17 18            for good, unless the change differs\n",
        "recommend",
    )
    with_config(parser)
    actions = ("list", "show", "apply", "reject")
    parser.add_argument("action", choices=actions, metavar="list|show|apply|reject")
    parser.add_argument("numbers", nargs="*", metavar="ID")
    kinds = (
        *("far-from-peers", "group-by-use", "no-policy", "shadowed", "unused-exemption", "unused-grant"),
        "wide-wildcard",
    )
    parser.add_argument("--kind", choices=kinds, help="list: only these")
    states = ("proposed", "rejected", "applied", "all")
    parser.add_argument("--state", choices=states, default="proposed", help="list: these; default proposed")
    parser.path("--pack", "FILE", "apply: a pack of the settings")
    parser.flag("--write", "apply: write the pack")
    parser.add_argument("--limit", type=count, default=100, help="list: rows to show; default 100")
