"""The arguments of `policy`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from gateway.app import exit_codes
from gateway.cli import job_arguments
from gateway.cli.commands import CommandParser, Commands, command, count, with_config
from gateway.cli.terminal import Terminal


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "policy",
        "explain one decision of the policies, or compare two sets of policies",
        "  sluice policy explain --as bob select spark_catalog.hr.employee.salary\n"
        "  sluice policy diff rules/policies /tmp/rules/policies\n"
        "  sluice policy diff --help\n",
        "policy",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _policy_explain(actions)
    _policy_diff(actions)


def _action(actions: Commands, name: str, summary: str, epilog: str, function: str) -> CommandParser:
    """Add an action of `policy`; like a command, its module is imported when it runs."""

    def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
        code: int = getattr(import_module("gateway.cli.policy"), function)(arguments, terminal)
        return code

    parser = actions.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Without a default: what stands before the action must not be undone by it.
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    parser.value("--at", "TIME", "time of the access, for schedules; by default now")
    parser.value("--from", "ADDRESS", "address of the client", dest="client_ip")
    parser.set_defaults(run=run)
    return parser


def _policy_explain(actions: Commands) -> None:
    parser = _action(
        actions,
        "explain",
        "show whether a user may do something, and why each policy decides it or not",
        "examples:\n"
        "  sluice policy explain --as bob select spark_catalog.hr.employee.salary\n"
        "  sluice policy explain --as dana --groups analysts --attribute region=EMEA \\\n"
        "      --policies rules/policies select spark_catalog.sales.orders.amount\n"
        "  sluice policy explain --as dave write url:s3://bucket/in\n"
        "  sluice policy explain --as bob --at 2026-12-24T20:00 --from 10.1.2.3 _any spark_catalog.hr\n"
        "\nA resource is dotted from the catalog down, with `backticks` around names with dots, or has its\n"
        "level in front: udf:spark_catalog.hr.f, url:s3://b/in, setting:spark.sql.ansi.enabled.\n"
        "The access _any means any access, _admin delegated administration.\n"
        "exit codes: 0 allowed, 3 denied, 4 faults in files\n",
        "explain",
    )
    with_config(parser)
    parser.path("--policies", "PATH", "packs or Ranger's JSON instead of those of the settings")
    parser.value("--as", "USER", "the user", dest="user", required=True)
    parser.add_argument("--groups", help="comma-separated; by default those of the user file")
    parser.add_argument("--roles", help="comma-separated; in addition to those of the packs")
    parser.several("--attribute", "NAME=VALUE", "may repeat")
    parser.value("--owner", "USER", "owner of the resource")
    parser.several("--tag", "TAG", "assume this tag; may repeat")
    parser.add_argument("--service", help="service that decides; by default the catalog's")
    parser.add_argument("--limit", type=count, default=200, help="number of policies to list; default 200")
    parser.add_argument("access", metavar="ACCESS", help="access type, such as select")
    parser.add_argument("resource", metavar="RESOURCE")


def _policy_diff(actions: Commands) -> None:
    parser = _action(
        actions,
        "diff",
        "show which decisions change from one set of policies to another",
        "OLD and NEW are each a pack, a file of Ranger's JSON, a directory of these, or a settings file.\n"
        "Without --users it decides for one user of each user, group and role that a difference concerns;\n"
        "without --resources about everything that either side names, and one name below each wildcard.\n"
        "\nexamples:\n"
        "  sluice policy diff rules/policies /tmp/branch/rules/policies\n"
        "  sluice policy diff old.json new.json --users users.yaml --resources tables.txt\n"
        "  sluice policy diff rules/policies new -c config/gateway.yaml --since 7d\n"
        "                           statements of the last week with other decisions\n"
        "  sluice policy diff old new --replay --on spark --since 7d   judge each of them again\n"
        "\nexit codes, as of diff: 0 no decision changes, 1 some do, 2 an error, such as faults of a side\n",
        "compare",
    )
    parser.add_argument(
        "-c", "--config", type=Path, metavar="FILE", help="settings: whose catalogs and record to use"
    )
    parser.add_argument(
        "--users",
        "--principals",
        type=Path,
        metavar="FILE",
        help="users to decide for: a user file, or a pack's `people`",
    )
    parser.path("--resources", "FILE", "resources, one on a line; - is standard input")
    parser.several("--resource", "NAME", "one more resource; may repeat")
    parser.value("--since", "TIME", "compare on recorded statements since `2h`, `7d`, …")
    parser.value("--until", "TIME", "up to that time")
    parser.add_argument(
        "--limit",
        type=count,
        default=100_000,
        help="maximum number of recorded statements; with --replay, of changes; default 100,000",
    )
    job_arguments.add_replay(parser)
    parser.set_defaults(trouble=exit_codes.DIFF_TROUBLE)  # as of diff: 1 says that there are changes
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
