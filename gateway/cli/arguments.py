"""The arguments of every command, with help that teaches by examples."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gateway
from gateway.cli import job_arguments, policy_arguments
from gateway.cli.commands import CommandParser, Commands, command, count, with_config

OVERVIEW = """\
examples:
  sluice demo                              Spark, PostgreSQL and a gateway on this machine, and a tour
  sluice check config/gateway.yaml         report every fault of settings and their packs
  sluice serve -c config/gateway.yaml      run a gateway
  sluice doctor -c config/gateway.yaml     why a gateway does not serve, and what to do about it
  sluice explain --as bob "SELECT * FROM hr.employee"
                                           the verdict, the policies, and the text for Spark
  sluice policy diff OLD NEW               decisions that a change of policies would change
  sluice audit tail --follow               statements as they are decided
  sluice tags list                         tags proposed for columns, and for what reason
  sluice users add dana --group analysts   add a user

exit codes: 0 done, 2 wrong arguments, 3 refused (explain), 4 faults in files, 5 something cannot be reached,
6 somebody else runs the job, 1 anything else; policy diff: 0 no change, 1 changes, 2 errors
"""


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments with `run`, the function of the command. Exits with 2 when they are wrong."""
    return make_parser().parse_args(argv)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="sluice",
        description="A governance gateway for SQL on Apache Spark.",
        epilog=OVERVIEW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sluice {gateway.__version__}")
    commands: Any = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    _serve(commands)
    _demo(commands)
    _lake_demo(commands)
    _check(commands)
    _doctor(commands)
    _explain(commands)
    policy_arguments.add(commands)
    _audit(commands)
    _lineage(commands)
    _tags(commands)
    _catalogs(commands)
    _datasets(commands)
    job_arguments.add(commands)
    _users(commands)
    _sessions(commands)
    _backends(commands)
    _spark_jars(commands)
    _version(commands)
    return parser


def _serve(commands: Commands) -> None:
    parser = command(
        commands,
        "serve",
        "run a gateway until SIGTERM or Ctrl-C",
        "  sluice serve -c config/gateway.yaml\n  SLUICE_CONFIG=/etc/sluice/gateway.yaml sluice serve\n",
        "serve",
    )
    with_config(parser)


def _demo(commands: Commands) -> None:
    parser = command(
        commands,
        "demo",
        "start Spark, PostgreSQL and a gateway with sample data, show a tour, stay up until Ctrl-C",
        "  sluice demo\n"
        "  sluice demo --exit-after-tour            for a script: stop when the tour is over\n"
        "  sluice demo --directory /tmp/sluice      keep the state elsewhere\n",
        "demo",
    )
    _add_demo_options(parser, ".run/demo")
    parser.add_argument("--port", type=int, default=10009, help="port of the gateway; default 10009, 0: any")
    parser.add_argument(
        "--connect-port", type=int, default=15009, help="port for Spark Connect; default 15009, 0: any"
    )
    parser.add_argument(
        "--admin-port", type=int, default=10080, help="port of /healthz, /metrics; default 10080"
    )
    parser.add_argument("--heap", default="1g", help="Java heap of Spark; default 1g")


def _add_demo_options(parser: CommandParser, directory: str) -> None:
    default = Path(directory)
    parser.path("--directory", "DIRECTORY", f"keeps the state; default {directory}", default=default)
    parser.flag("--no-tour", "start and stay up, without the tour")
    parser.flag("--exit-after-tour", "stop when the tour is over")


def _lake_demo(commands: Commands) -> None:
    parser = command(
        commands,
        "lake-demo",
        "start a demo with Iceberg and Delta on Spark 4.1, and Paimon on Spark 3.5; needs Maven",
        "  sluice lake-demo\n"
        "  sluice lake-demo --exit-after-tour       for a script: stop when the tour is over\n",
        "lake_demo",
    )
    _add_demo_options(parser, ".run/lake-demo")
    parser.add_argument(
        "--port",
        type=int,
        default=10019,
        help="port of the first gateway; the second has the next one; 0: any",
    )
    parser.add_argument("--heap", default="1g", help="Java heap of each Spark; default 1g")
    text = "directory of the jars, fetched if missing; default ~/.cache/sluice/spark-jars"
    parser.path("--spark-jars", "SPARK_JARS", text, default=Path("~/.cache/sluice/spark-jars"))


def _check(commands: Commands) -> None:
    parser = command(
        commands,
        "check",
        "report every fault of settings and policy packs, with file and line",
        "  sluice check rules/policies              packs, their cases, and every mask and filter\n"
        "  sluice check config/gateway.yaml         settings, their packs, and all that a gateway opens on\n"
        "                                           this machine; asks Spark whether it parses like the\n"
        "                                           gateway, has the tables that policies name, and accepts\n"
        "                                           their masks and filters\n"
        "  sluice check rules/policies --tables tables.yaml\n"
        "                           warn of policies on missing tables and columns\n"
        "  sluice check --login bob config/gateway.yaml\n"
        "                           try a password or token in every way to log in\n",
        "check",
    )
    parser.path(
        "--tables",
        "FILE",
        "tables to check the policies against, as for `sluice explain`; filters need the parser",
    )
    parser.value(
        "--login",
        "USER",
        "say what each way to log in makes of a password or token, which is asked for\n"
        "or read from standard input; nobody is logged in",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="settings, packs, or directories")
    parser.flag("--engines", "say of each mask and filter what engines get that read Iceberg by themselves")
    parser.flag("--no-parser", "check masks and filters without Spark's parser (no Java)")
    parser.flag("--no-backend", "do not connect to Spark and PostgreSQL of the settings")
    parser.flag(
        "--no-site",
        "check only files, as in CI: not this machine's users, secrets, certificates, ports\nand directories",
    )


def _doctor(commands: Commands) -> None:
    parser = command(
        commands,
        "doctor",
        "look at all that a gateway needs, and say what to do about what is wrong",
        "  sluice doctor -c config/gateway.yaml     DNS, TLS, ports, disk, clock, PostgreSQL, migrations,\n"
        "                                           Spark, policies; run it as the gateway's user\n"
        "  sluice doctor --json                     for a script\n",
        "doctor",
    )
    with_config(parser)


def _explain(commands: Commands) -> None:
    parser = command(
        commands,
        "explain",
        "judge a statement as a user, without running it",
        '  sluice explain --as bob "SELECT name, salary FROM hr.employee"\n'
        '  sluice explain --as dana --groups analysts,emea --database sales "TABLE orders"\n'
        "  sluice explain --as bob --json - < query.sql\n",
        "explain",
    )
    with_config(parser)
    parser.value("--as", "USER", "the user to judge for", dest="user", required=True)
    parser.add_argument("--groups", help="comma-separated; by default those of the user file")
    parser.add_argument("--catalog", default="spark_catalog", help="current catalog; default spark_catalog")
    parser.add_argument("--database", default="default", help="current database; default `default`")
    parser.add_argument("--backend", help="which of several Sparks; by default the first of the settings")
    parser.path("--tables", "FILE", "tables from a YAML file instead of from Spark's catalog")
    parser.add_argument("sql", metavar="SQL", help="one statement; - reads it from standard input")


def _audit(commands: Commands) -> None:
    parser = command(
        commands,
        "audit",
        "read the audit record: `tail` new statements, `search`, `verify` that nothing was changed, `seal`"
        " it, `erase` texts",
        "  sluice audit tail -n 20\n"
        "  sluice audit tail --follow\n"
        "  sluice audit search --user bob --verdict refused --since 2h\n"
        "  sluice audit search --resource hr.employee --json\n"
        "  sluice audit search --id 0193ab…          everything about one statement\n"
        "  sluice audit verify                       check that every event is as it was written\n"
        "  sluice audit verify --from 2026-11-01 --to 2026-11-08\n"
        "  sluice audit verify --on spark            years of events, as the job `verify`\n"
        "  sluice audit seal                         sign the record of now\n"
        "  sluice audit seals > seals.txt            keep them elsewhere\n"
        "  sluice audit verify --seals seals.txt --public-key seals.pem\n"
        "  sluice audit erase --user bob --reason 'left, ticket 4711'\n"
        "                                            removes the texts of his statements; decisions stay\n"
        "\nexit codes of verify: 0 the record is unchanged, 1 it is not, 2 that is unknown\n",
        "audit",
    )
    with_config(parser)
    parser.add_argument("action", choices=("tail", "search", "verify", "seal", "seals", "erase"))
    parser.add_argument("-n", "--limit", type=count, default=20, help="number of events; default 20")
    parser.add_argument("-f", "--follow", action="store_true", help="tail: wait for new events")
    parser.add_argument("--user", help="search: who sent it; erase: whose statements")
    parser.add_argument("--reason", help="erase: the reason, for the record")
    parser.add_argument(
        "--verdict",
        choices=("cleared", "refused", "accepted", "rejected"),
        help="search: cleared or refused statements, accepted or rejected logins",
    )
    parser.value("--resource", "NAME", "search: a table or column, such as hr.employee")
    parser.add_argument("--text", help="search: a part of the statement's text")
    parser.add_argument(
        "--since",
        "--from",
        metavar="TIME",
        help="search, verify: `30m`, `2h`, `7d` ago, or 2026-11-20T13:00 (UTC)",
    )
    parser.add_argument("--until", "--to", metavar="TIME", help="search, verify, erase: the same")
    parser.add_argument("--id", help="search: one statement, by its id")
    parser.path("--seals", "FILE", "verify: exported seals (`audit seals`)")
    parser.several(
        "--public-key",
        "FILE",
        "verify: a key that may have signed seals, in PEM; may repeat; by default the keys of "
        "`ledger.seal_key` and `ledger.older_seal_keys`",
        type=Path,
    )
    parser.add_argument("--on", choices=("spark",), help="verify: on Spark, as the job `verify`")
    job_arguments.add_spark(parser)


def _lineage(commands: Commands) -> None:
    parser = command(
        commands,
        "lineage",
        "show what feeds a column and what it feeds",
        "  sluice lineage hr.employee.salary              up and down, as a tree\n"
        "  sluice lineage mart.top.pay --up --depth 3\n"
        "  sluice lineage hr.employee.salary --impact     what a change of it would affect\n"
        "  sluice lineage hr.employee.salary --impact --tag PII     and what the tag would do\n"
        "  sluice lineage hr.employee.ssn --to mart.top.id\n"
        "                           how one column gets into another, by statements\n"
        "  sluice lineage hr.employee --down --format mermaid\n"
        "  sluice lineage import target/compiled --database analytics\n"
        "                           add statements of scripts, or of a dbt project\n"
        "  sluice lineage import --since 30d              add statements of the record\n"
        "  sluice lineage laundering                      protected columns whose values somebody may read\n"
        "                           in another column: who, by which policies and statements\n"
        "  sluice lineage laundering hr.employee.ssn      of one column, or one table\n"
        "\nWrite as many parts of a name, from its end, as make it unique; a table means all its columns.\n"
        "Names with dots need `backticks`.\n"
        "exit codes of laundering: 0 nothing found, 1 something found, 2 an error\n",
        "lineage",
    )
    with_config(parser)
    parser.add_argument(
        "column", metavar="COLUMN", help="a column or a table; or the word `import` or `laundering`"
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="import: scripts, directories of `*.sql`")
    parser.flag("--ungranted", "laundering: also columns whose table is simply granted to fewer people")
    parser.flag("--up", "only what feeds it")
    parser.flag("--down", "only what it feeds")
    parser.value("--to", "COLUMN", "the paths from it to this column, shortest first")
    parser.flag(
        "--impact",
        "list everything that it feeds, with what arrives there, and policies and views that name it",
    )
    parser.value("--tag", "TAG", "impact: and policies that this tag would bring to it and what it feeds")
    parser.value("--depth", "N", "maximum of steps; default 10", type=int, default=10)
    parser.value("--limit", "N", "maximum of edges; default 10,000", type=count, default=10000)
    parser.add_argument(
        "--format", choices=("tree", "json", "mermaid", "dot"), default="tree", help="default tree"
    )
    parser.value("--since", "TIME", "import: recorded statements since `2h`, `30d`, …")
    parser.add_argument("--catalog", default="spark_catalog", help="import: current catalog of scripts")
    parser.add_argument("--database", default="default", help="import: current database of scripts")
    parser.path("--tables", "FILE", "import: tables from a YAML file, not from Spark's catalog")
    parser.value("--processes", "N", "import: worker processes", type=int, default=os.cpu_count() or 1)
    parser.value("--deadline", "S", "import: seconds for one statement; default 10", type=float, default=10.0)
    parser.path(
        "--openlineage",
        "FILE",
        "import: append the statements to a file as OpenLineage events, one to a line",
    )


def _tags(commands: Commands) -> None:
    parser = command(
        commands,
        "tags",
        "list, show and decide proposals of tags, made from lineage and from classification",
        "  sluice tags list --state proposed        undecided proposals, and where each comes from\n"
        "  sluice tags list hr_copy.employee        those for one table or column\n"
        "  sluice tags list --gone                  those whose origin is gone\n"
        "  sluice tags show 17                      the paths of the values, with their statements\n"
        "  sluice tags accept 17 18                 in force in every gateway within the reload time\n"
        "  sluice tags accept --all --tag PII\n"
        "  sluice tags reject 19                    for good, for these origins; it passes nothing on\n"
        "  sluice tags reject 17 --again            take back an accepted one\n"
        "  sluice tags drift                        columns that no longer fit what was decided\n"
        "\nrules/tag_propagation.yaml says which flows carry which tags. Whoever can read the settings and\n"
        "reach the database may decide, under the name of this machine's user.\n",
        "tags",
    )
    with_config(parser)
    parser.add_argument("action", choices=("list", "show", "accept", "reject", "drift"))
    parser.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help="list: a column or table; drift: a table; otherwise ids of proposals",
    )
    parser.add_argument("--state", choices=("proposed", "accepted", "rejected"), help="list: only these")
    parser.add_argument("--tag", help="list, --all: only of this tag")
    parser.flag("--gone", "list, --all: only those whose origin is gone")
    parser.flag("--all", "accept, reject: every undecided proposal")
    parser.flag("--again", "accept, reject: also proposals that were decided the other way")
    parser.add_argument("-n", "--limit", type=count, default=100, help="number to list; default 100")


def _datasets(commands: Commands) -> None:
    parser = command(
        commands,
        "datasets",
        "list, show, promote, refresh and forget files that become tables",
        "  sluice datasets list                     all, each with its table and its promoter\n"
        "  sluice datasets show lake/raw/events     its format, options and columns\n"
        "  sluice datasets promote lake/raw/events --user alice\n"
        "                                           make them a table, with the privileges of alice\n"
        "  sluice datasets refresh lake/raw/events  check the files again; exit code 1: other columns\n"
        "  sluice datasets forget lake/raw/events   drop the table; the files stay\n"
        "\nForgotten files become a table again when somebody who may names them.\n",
        "datasets",
    )
    with_config(parser)
    parser.add_argument("action", choices=("list", "show", "promote", "refresh", "forget"))
    parser.add_argument("what", nargs="?", metavar="SOURCE/PATH", help="the files; not for list")
    parser.add_argument("--user", help="promote: the user whose privileges count")


def _users(commands: Commands) -> None:
    parser = command(
        commands,
        "users",
        "edit the user file: add, list, remove, passwd; token, tokens, revoke",
        "  sluice users add dana --group analysts --group emea     prompts for the password\n"
        "  pass show dana | sluice users add dana --password-stdin\n"
        "  sluice users list\n"
        "  sluice users passwd dana\n"
        "  sluice users remove dana\n"
        "  sluice users token dana --label notebook --expires 90d  print a token for PySpark, once\n"
        "  sluice users tokens dana                                list them\n"
        "  sluice users revoke dana 3f9a1c2b\n"
        "\nAfter add, passwd, remove and revoke, the command asks running gateways whether they have loaded\n"
        "the change, unless --file names another file.\n"
        "Exit code 1: the file is changed, and a gateway has not loaded it.\n",
        "users",
    )
    with_config(parser)
    parser.add_argument("--file", type=Path, help="user file; by default the one of the settings")
    actions = ("add", "list", "remove", "passwd", "token", "tokens", "revoke")
    parser.add_argument("action", choices=actions, metavar="ACTION", help=", ".join(actions))
    parser.add_argument("name", nargs="?", help="user name; not for list")
    parser.add_argument("token", nargs="?", metavar="ID", help="revoke: the token's id")
    parser.several("--group", "GROUP", "add: may repeat")
    parser.several(
        "--attribute",
        "NAME=VALUE",
        "add: for {USER.name} in filters; may repeat, also with one name for several values",
    )
    parser.add_argument("--label", default="", help="token: what it is for")
    parser.value("--expires", "TIME", "token: after `12h`, `90d`, or at 2027-01-31T13:00 (UTC)")
    parser.several("--endpoint", "NAME", "token: where it may be shown, else everywhere; may repeat")
    parser.add_argument("--purpose", default="", help="token: the attribute `purpose` of who shows it")
    parser.flag("--password-stdin", "read the password from standard input")


def _sessions(commands: Commands) -> None:
    parser = command(
        commands,
        "sessions",
        "list open sessions of all running gateways, or end those of a user",
        "  sluice sessions list                     users, addresses, and how long each is open\n"
        "  sluice sessions end dana                 end hers, in Spark too, with what runs in them\n"
        "\nShe can log in again; `sluice users remove dana` keeps her out, and ends her sessions, too.\n"
        "Gateways are reached through their PostgreSQL. Exit code 1: one did not answer.\n",
        "sessions",
    )
    with_config(parser)
    parser.add_argument("action", choices=("list", "end"), metavar="ACTION", help="list, end")
    parser.add_argument("user", nargs="?", metavar="USER", help="end: the user")


def _backends(commands: Commands) -> None:
    parser = command(
        commands,
        "backends",
        "list the Sparks behind all running gateways, or drain one",
        "  sluice backends list                     versions, states and sessions, by gateway\n"
        "  sluice backends drain etl                no new sessions; open ones go on\n"
        "  sluice backends undrain etl\n"
        "\nIt holds until a gateway is started anew; `drain: true` in the settings lasts.\n"
        "Gateways are reached through their PostgreSQL. Exit code 1: one did not answer.\n",
        "backends",
    )
    with_config(parser)
    actions = ("list", "drain", "undrain")
    parser.add_argument("action", choices=actions, metavar="ACTION", help=", ".join(actions))
    parser.add_argument("backend", nargs="?", metavar="BACKEND", help="drain, undrain: its name")


def _catalogs(commands: Commands) -> None:
    parser = command(
        commands,
        "catalogs",
        "list, show and test the catalogs of the settings, and print Spark's configuration for them",
        "  sluice catalogs list\n"
        "  sluice catalogs show lake lake.sales.orders   parameters and databases; a table, or a database\n"
        "  sluice catalogs create-database lake.sales\n"
        "  sluice catalogs test                     ask each for an answer\n"
        "  sluice catalogs spark-conf >> conf/spark-defaults.conf\n",
        "catalogs",
    )
    with_config(parser)
    actions = ["list", "show", "test", "spark-conf", "create-database", "drop-database"]
    parser.add_argument("action", choices=actions, metavar="ACTION", help=", ".join(actions))
    parser.add_argument("names", nargs="*", metavar="NAME", help="catalogs (default: all), databases, tables")


def _spark_jars(commands: Commands) -> None:
    parser = command(
        commands,
        "spark-jars",
        "fetch the jars of a minor version of Spark, or of table formats, for the gateway's parser",
        "  sluice spark-jars 4.2                    once for all gateways of this machine\n"
        "  sluice spark-jars 4.2 --into /opt/spark-jars\n"
        "                                           elsewhere; set `reader.spark_jars` for gateways\n"
        "  sluice spark-jars 4.1 --formats iceberg,delta\n"
        "                                           only those of table formats, with Maven (`mvn`)\n"
        "  sluice spark-jars --catalog-servers      servers of catalogs, for `sluice lake-demo` and tests\n"
        "  sluice spark-jars --archive              compiles the parser, which then starts twice as fast\n"
        "  sluice spark-jars --archive spark        the same for the embedded Spark and that of jobs, once\n"
        "                                           for all: 230 MB\n",
        "spark_jars",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("minor", nargs="?", metavar="MINOR", help="minor version, such as 4.2")
    what.add_argument(
        "--catalog-servers",
        action="store_true",
        help="fetch Iceberg's REST server and PostgreSQL's JDBC driver instead, with Maven",
    )
    what.add_argument(
        "--archive",
        nargs="?",
        const="parser",
        choices=("parser", "spark"),
        metavar="OF",
        help="fetch nothing; archive the classes that the parser, or `spark`, loads, beside Spark's jars",
    )
    parser.value(
        "--formats",
        "FORMATS",
        "fetch the jars of these table formats instead: iceberg, delta, paimon, with commas between",
    )
    parser.path(
        "--into",
        "DIR",
        "directory; default ~/.cache/sluice/spark-jars",
        default=Path("~/.cache/sluice/spark-jars"),
    )


def _version(commands: Commands) -> None:
    command(commands, "version", "print the versions of Sluice and its dependencies", "", "version")
