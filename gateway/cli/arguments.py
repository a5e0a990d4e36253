"""The arguments of every command, with help that teaches by examples."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import gateway
from gateway.cli import job_arguments, policy_arguments
from gateway.cli.job_arguments import Commands, count
from gateway.cli.terminal import Terminal

CONFIG_HELP = "settings file; by default $SLUICE_CONFIG, then config/gateway.yaml"

OVERVIEW = """\
examples:
  sluice demo                              Spark, PostgreSQL and a gateway on this machine, and a tour
  sluice check config/gateway.yaml         tell every fault of settings and of the packs they name
  sluice serve -c config/gateway.yaml      run a gateway
  sluice explain --as bob "SELECT * FROM hr.employee"
                                           the verdict, the policies, and what Spark would be sent
  sluice policy diff OLD NEW               which decisions a change of policies changes
  sluice audit tail --follow               statements as they are decided
  sluice tags list                         tags that columns would get from what flows into them
  sluice users add dana --group analysts   let someone in

exit codes: 0 done, 2 wrong arguments, 3 refused (explain), 4 faults in files, 5 something cannot be reached,
6 somebody else runs the job, 1 anything else; policy diff: 0 no change, 1 changes, 2 trouble
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
    commands: Any = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_CommandParser)
    _serve(commands)
    _demo(commands)
    _lake_demo(commands)
    _check(commands)
    _explain(commands)
    policy_arguments.add(commands, _command, _with_config)
    _audit(commands)
    _lineage(commands)
    _tags(commands)
    _catalogs(commands)
    _datasets(commands)
    job_arguments.add(commands, _command, _with_config)
    _users(commands)
    _sessions(commands)
    _spark_jars(commands)
    _version(commands)
    return parser


class _CommandParser(argparse.ArgumentParser):
    """Takes options between an action and its name, `users add --group analysts dana`, which argparse does by
    itself from Python 3.12 on."""

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, which calls this for a command."""
        with_name = any(action.nargs == "?" and not action.option_strings for action in self._actions)
        alone = any(group.required for group in self._mutually_exclusive_groups)
        if self._mixing or alone or not with_name:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


def _command(
    commands: Commands[argparse.ArgumentParser], name: str, summary: str, examples: str, module: str
) -> argparse.ArgumentParser:
    """Add a command whose module is imported only when it runs, so that `--help` is quick."""

    def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
        code: int = import_module(f"gateway.cli.{module}").run(arguments, terminal)
        return code

    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _with_config(parser: argparse.ArgumentParser) -> None:
    default = default_config()
    parser.add_argument("-c", "--config", type=Path, metavar="FILE", default=default, help=CONFIG_HELP)


def default_config() -> Path:
    return Path(os.environ.get("SLUICE_CONFIG") or "config/gateway.yaml")


def _serve(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "serve",
        "run a gateway until SIGTERM or Ctrl-C",
        "  sluice serve -c config/gateway.yaml\n  SLUICE_CONFIG=/etc/sluice/gateway.yaml sluice serve\n",
        "serve",
    )
    _with_config(parser)


def _demo(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "demo",
        "start Spark, PostgreSQL and a gateway with sample data, show a tour, stay up until Ctrl-C",
        "  sluice demo\n"
        "  sluice demo --exit-after-tour            for a script: stop when the tour is over\n"
        "  sluice demo --directory /tmp/sluice      keep the state elsewhere\n",
        "demo",
    )
    parser.add_argument(
        "--directory", type=Path, default=Path(".run/demo"), help="keeps the state; default .run/demo"
    )
    parser.add_argument("--port", type=int, default=10009, help="port of the gateway; default 10009, 0: any")
    parser.add_argument(
        "--connect-port", type=int, default=15009, help="port for Spark Connect; default 15009, 0: any"
    )
    parser.add_argument(
        "--admin-port", type=int, default=10080, help="port of /healthz, /metrics; default 10080"
    )
    parser.add_argument("--heap", default="1g", help="Java heap of Spark; default 1g")
    parser.add_argument("--no-tour", action="store_true", help="start and stay up, without the tour")
    parser.add_argument("--exit-after-tour", action="store_true", help="stop when the tour is over")


def _lake_demo(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "lake-demo",
        "the same with Iceberg and Delta on Spark 4.1, and Paimon on Spark 3.5; needs Maven",
        "  sluice lake-demo\n"
        "  sluice lake-demo --exit-after-tour       for a script: stop when the tour is over\n",
        "lake_demo",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(".run/lake-demo"),
        help="keeps the state; default .run/lake-demo",
    )
    parser.add_argument(
        "--port", type=int, default=10019, help="port of the first gateway, the second has the next; 0: any"
    )
    parser.add_argument("--heap", default="1g", help="Java heap of each Spark; default 1g")
    parser.add_argument(
        "--spark-jars",
        type=Path,
        default=Path("~/.cache/sluice/spark-jars"),
        help="where jars are, or are put; default ~/.cache/sluice/spark-jars",
    )
    parser.add_argument("--no-tour", action="store_true", help="start and stay up, without the tour")
    parser.add_argument("--exit-after-tour", action="store_true", help="stop when the tour is over")


def _check(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "check",
        "tell every fault of settings and policy packs, with file and line",
        "  sluice check rules/policies              packs, their cases, and every mask and filter\n"
        "  sluice check config/gateway.yaml         settings, the packs that they name, all that a gateway\n"
        "                                           opens on this machine, and as Spark says whether it\n"
        "                                           reads statements as the parser does, has what policies\n"
        "                                           name, and takes their masks and filters\n"
        "  sluice check rules/policies --tables tables.yaml\n"
        "                           warn of policies on tables and columns that do not exist\n",
        "check",
    )
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="FILE",
        help="tables to hold the policies against, as of `sluice explain`; filters need the parser",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="settings, packs, or directories")
    parser.add_argument(
        "--no-parser", action="store_true", help="do not start Spark's parser for masks and filters (no Java)"
    )
    parser.add_argument(
        "--no-backend", action="store_true", help="do not ask the Spark and the PostgreSQL of the settings"
    )
    parser.add_argument(
        "--no-site",
        action="store_true",
        help="look at files alone, as where they are written: not at what this machine has of users,\n"
        "secrets, certificates, ports and directories",
    )


def _explain(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "explain",
        "judge a statement as someone, without running it",
        '  sluice explain --as bob "SELECT name, salary FROM hr.employee"\n'
        '  sluice explain --as dana --groups analysts,emea --database sales "TABLE orders"\n'
        "  sluice explain --as bob --json - < query.sql\n",
        "explain",
    )
    _with_config(parser)
    parser.add_argument("--as", dest="user", required=True, metavar="USER", help="whose rights are looked at")
    parser.add_argument("--groups", help="comma-separated; by default those of the user file")
    parser.add_argument("--catalog", default="spark_catalog", help="current catalog; default spark_catalog")
    parser.add_argument("--database", default="default", help="current database; default `default`")
    parser.add_argument(
        "--tables", type=Path, metavar="FILE", help="tables from a YAML file instead of from Spark's catalog"
    )
    parser.add_argument("sql", metavar="SQL", help="one statement, or - to read it from standard input")


def _audit(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "audit",
        "read the audit record: `tail` the newest statements, `search` for some, `verify` that nothing was"
        " changed",
        "  sluice audit tail -n 20\n"
        "  sluice audit tail --follow\n"
        "  sluice audit search --user bob --verdict refused --since 2h\n"
        "  sluice audit search --resource hr.employee --json\n"
        "  sluice audit search --id 0193ab…          all that is known of one statement\n"
        "  sluice audit verify                       every event is there as it was written\n"
        "  sluice audit verify --from 2026-11-01 --to 2026-11-08\n"
        "  sluice audit verify --on spark            years, as the job `verify`\n"
        "  sluice audit seal                         sign the record as it is now\n"
        "  sluice audit seals > seals.txt            to be kept elsewhere\n"
        "  sluice audit verify --seals seals.txt --public-key seals.pem\n"
        "  sluice audit erase --user bob --reason 'left, ticket 4711'\n"
        "                                            the texts of his statements go, what was decided stays\n"
        "\nverify exits with 0 when nothing is wrong with the record, 1 when something is, 2 when that\n"
        "cannot be told.\n",
        "audit",
    )
    _with_config(parser)
    parser.add_argument("action", choices=("tail", "search", "verify", "seal", "seals", "erase"))
    parser.add_argument("-n", "--limit", type=count, default=20, help="how many events; default 20")
    parser.add_argument("-f", "--follow", action="store_true", help="tail: go on with what comes")
    parser.add_argument("--user", help="search: who sent it; erase: whose statements")
    parser.add_argument("--reason", help="erase: why; it is kept")
    parser.add_argument(
        "--verdict",
        choices=("cleared", "refused", "accepted", "rejected"),
        help="search: statements that were cleared or refused, logins that were accepted or rejected",
    )
    parser.add_argument("--resource", metavar="NAME", help="search: a table or column, such as hr.employee")
    parser.add_argument("--text", help="search: a part of the statement")
    parser.add_argument(
        "--since",
        "--from",
        metavar="TIME",
        help="search, verify: `30m`, `2h`, `7d` ago, or 2026-11-20T13:00 (UTC)",
    )
    parser.add_argument("--until", "--to", metavar="TIME", help="search, verify, erase: the same")
    parser.add_argument("--id", help="search: one statement, by its id")
    parser.add_argument("--seals", type=Path, metavar="FILE", help="verify: seals that were kept elsewhere")
    parser.add_argument(
        "--public-key",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="verify: what seals must be signed with, in PEM, once for each key that there was; default the"
        " keys of `ledger.seal_key` and `ledger.older_seal_keys`",
    )
    parser.add_argument("--on", choices=("spark",), help="verify: on Spark, as the job `verify`")
    job_arguments.add_spark(parser)


def _lineage(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "lineage",
        "tell what feeds a column and what it feeds",
        "  sluice lineage hr.employee.salary              up and down, as a tree\n"
        "  sluice lineage mart.top.pay --up --depth 3\n"
        "  sluice lineage hr.employee.salary --impact     what a change of it would touch\n"
        "  sluice lineage hr.employee.salary --impact --tag PII     and what the tag would change\n"
        "  sluice lineage hr.employee.ssn --to mart.top.id\n"
        "                           by which statements one column comes to be in another\n"
        "  sluice lineage hr.employee --down --format mermaid\n"
        "  sluice lineage import target/compiled --database analytics\n"
        "                           statements of scripts, or of a dbt project, into the graph\n"
        "  sluice lineage import --since 30d              statements of the record\n"
        "  sluice lineage laundering                      protected columns whose values somebody may read\n"
        "                           in another column, who, by which policies and by which statements\n"
        "  sluice lineage laundering hr.employee.ssn      of one column, or one table\n"
        "\nA name is written from its end, as far as it is needed to be one column, or one table for all of\n"
        "its columns; dots in a name stand in `backticks`.\n"
        "laundering exits with 0 when nothing is found, 1 when something is, 2 when anything is wrong.\n",
        "lineage",
    )
    _with_config(parser)
    parser.add_argument(
        "column", metavar="COLUMN", help="a column or a table; or the word `import` or `laundering`"
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="import: scripts, directories of `*.sql`")
    parser.add_argument(
        "--ungranted",
        action="store_true",
        help="laundering: also of columns whose table is simply granted to fewer people",
    )
    parser.add_argument("--up", action="store_true", help="only what feeds it")
    parser.add_argument("--down", action="store_true", help="only what it feeds")
    parser.add_argument("--to", metavar="COLUMN", help="the ways from it to this one, shortest first")
    parser.add_argument(
        "--impact",
        action="store_true",
        help="list all that it feeds, with what arrives there, and the policies and views that name it",
    )
    parser.add_argument(
        "--tag", metavar="TAG", help="impact: and which policies this tag would put on it and what it feeds"
    )
    parser.add_argument("--depth", type=int, default=10, metavar="N", help="steps at most; default 10")
    parser.add_argument(
        "--limit", type=count, default=10_000, metavar="N", help="edges at most; default 10,000"
    )
    parser.add_argument(
        "--format", choices=("tree", "json", "mermaid", "dot"), default="tree", help="default tree"
    )
    parser.add_argument("--since", metavar="TIME", help="import: recorded statements since `2h`, `30d`, …")
    parser.add_argument("--catalog", default="spark_catalog", help="import: current catalog of scripts")
    parser.add_argument("--database", default="default", help="import: current database of scripts")
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="FILE",
        help="import: tables from a YAML file, not from Spark's catalog",
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="import: work"
    )
    parser.add_argument(
        "--deadline",
        type=float,
        default=10.0,
        metavar="S",
        help="import: seconds for one statement; default 10",
    )
    parser.add_argument(
        "--openlineage",
        type=Path,
        metavar="FILE",
        help="import: append the statements to a file as OpenLineage events, one to a line",
    )


def _tags(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "tags",
        "tags that columns would get from what flows into them or is in them: list, show, decide",
        "  sluice tags list --state proposed        what waits for a decision, and where each comes from\n"
        "  sluice tags list hr_copy.employee        of one table or column\n"
        "  sluice tags list --gone                  whose origin is gone\n"
        "  sluice tags show 17                      the ways by which values came, with their statements\n"
        "  sluice tags accept 17 18                 in force in every gateway within the reload time\n"
        "  sluice tags accept --all --tag PII\n"
        "  sluice tags reject 19                    stays rejected for these origins, and passes nothing on\n"
        "  sluice tags reject 17 --again            takes back what was accepted\n"
        "  sluice tags drift                        columns that are no longer what was decided of them\n"
        "\nWhich flows carry which tags stands in rules/tag_propagation.yaml. Whoever can read the settings\n"
        "and reach the database may decide, as the user of this machine.\n",
        "tags",
    )
    _with_config(parser)
    parser.add_argument("action", choices=("list", "show", "accept", "reject", "drift"))
    parser.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help="list: a column or table; drift: a table; otherwise ids of proposals",
    )
    parser.add_argument("--state", choices=("proposed", "accepted", "rejected"), help="list: only these")
    parser.add_argument("--tag", help="list, --all: only of this tag")
    parser.add_argument("--gone", action="store_true", help="list, --all: only those whose origin is gone")
    parser.add_argument("--all", action="store_true", help="accept, reject: everything that is open")
    parser.add_argument(
        "--again", action="store_true", help="accept, reject: also what was decided the other way"
    )
    parser.add_argument("-n", "--limit", type=count, default=100, help="how many to list; default 100")


def _datasets(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "datasets",
        "files that became tables: list, show, promote, refresh, forget",
        "  sluice datasets list                     every one, with its table and who named it first\n"
        "  sluice datasets show lake/raw/events     its format, options and columns\n"
        "  sluice datasets promote lake/raw/events --user alice\n"
        "                                           makes them a table, by the privileges of alice\n"
        "  sluice datasets refresh lake/raw/events  looks at the files again; exit code 1: other columns\n"
        "  sluice datasets forget lake/raw/events   drops the table; the files stay\n"
        "\nWho names a forgotten one again, and may, has it made a table again.\n",
        "datasets",
    )
    _with_config(parser)
    parser.add_argument("action", choices=("list", "show", "promote", "refresh", "forget"))
    parser.add_argument("what", nargs="?", metavar="SOURCE/PATH", help="which one; not for list")
    parser.add_argument("--user", help="for promote: who does it, by whose privileges")


def _users(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "users",
        "keep the user file: add, list, remove, passwd; token, tokens, revoke",
        "  sluice users add dana --group analysts --group emea     asks for the password\n"
        "  pass show dana | sluice users add dana --password-stdin\n"
        "  sluice users list\n"
        "  sluice users passwd dana\n"
        "  sluice users remove dana\n"
        "  sluice users token dana --label notebook --expires 90d  prints a token for PySpark, once\n"
        "  sluice users tokens dana                                lists them\n"
        "  sluice users revoke dana 3f9a1c2b\n"
        "\nAfter add, passwd, remove and revoke, gateways that run are asked whether they have taken the\n"
        "change, unless --file names another file.\n"
        "Exit code 1: the file is changed, and one of them has not.\n",
        "users",
    )
    _with_config(parser)
    parser.add_argument("--file", type=Path, help="user file; by default the one of the settings")
    parser.add_argument(
        "action", choices=("add", "list", "remove", "passwd", "token", "tokens", "revoke"), metavar="ACTION"
    )
    parser.add_argument("name", nargs="?", help="user name; not for list")
    parser.add_argument("token", nargs="?", metavar="ID", help="revoke: which token")
    parser.add_argument("--group", action="append", default=[], metavar="GROUP", help="add: may repeat")
    parser.add_argument(
        "--attribute",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="add: for {USER.name} in filters; may repeat, also with one name for several values",
    )
    parser.add_argument("--label", default="", help="token: what it is for")
    parser.add_argument(
        "--expires", metavar="TIME", help="token: in `12h`, `90d`, or at 2027-01-31T13:00 (UTC)"
    )
    parser.add_argument("--password-stdin", action="store_true", help="take the password from standard input")


def _sessions(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "sessions",
        "open sessions of all gateways that run: list them, end those of a user",
        "  sluice sessions list                     who has what open, from where, for how long\n"
        "  sluice sessions end dana                 ends hers here and in Spark, with what runs in them\n"
        "\nWho is in the user file can log in again: `sluice users remove dana` keeps her out, and ends her\n"
        "sessions, too. Gateways are asked by way of their PostgreSQL. Exit code 1: one did not answer.\n",
        "sessions",
    )
    _with_config(parser)
    parser.add_argument("action", choices=("list", "end"), metavar="ACTION", help="list, end")
    parser.add_argument("user", nargs="?", metavar="USER", help="end: whose")


def _catalogs(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "catalogs",
        "the catalogs of the settings: list, show and test them, what Spark must be told, databases",
        "  sluice catalogs list\n"
        "  sluice catalogs show lake lake.sales.orders   parameters and databases; a table, or a database\n"
        "  sluice catalogs create-database lake.sales\n"
        "  sluice catalogs test                     does each of them answer\n"
        "  sluice catalogs spark-conf >> conf/spark-defaults.conf\n",
        "catalogs",
    )
    _with_config(parser)
    actions = ["list", "show", "test", "spark-conf", "create-database", "drop-database"]
    parser.add_argument("action", choices=actions, metavar="ACTION", help=", ".join(actions))
    parser.add_argument("names", nargs="*", metavar="NAME", help="catalogs (by default all); what is in them")


def _spark_jars(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "spark-jars",
        "fetch the jars of a Spark minor version, or of table formats, for the parser before such a Spark",
        "  sluice spark-jars 4.2                    done once, all gateways of this machine have them\n"
        "  sluice spark-jars 4.2 --into /opt/spark-jars\n"
        "                                           elsewhere; `reader.spark_jars` says so to gateways\n"
        "  sluice spark-jars 4.1 --formats iceberg,delta\n"
        "                                           those of table formats alone, by Maven (`mvn`)\n"
        "  sluice spark-jars --catalog-servers      servers of catalogs, for `sluice lake-demo` and tests\n"
        "  sluice spark-jars --archive              parsers of this machine's Spark start in half the time\n",
        "spark_jars",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("minor", nargs="?", metavar="MINOR", help="minor version, such as 4.2")
    what.add_argument(
        "--catalog-servers",
        action="store_true",
        help="fetch Iceberg's REST server and PostgreSQL's JDBC driver instead, by Maven",
    )
    what.add_argument(
        "--archive",
        action="store_true",
        help="fetch nothing, but store the classes that the parser loads, beside the Spark's jars",
    )
    parser.add_argument(
        "--formats",
        metavar="FORMATS",
        help="fetch the jars of these table formats instead: iceberg, delta, paimon, with commas between",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        default=Path("~/.cache/sluice/spark-jars"),
        help="directory; default ~/.cache/sluice/spark-jars",
    )


def _version(commands: Commands[argparse.ArgumentParser]) -> None:
    _command(commands, "version", "print the versions of Sluice and of what it stands on", "", "version")
