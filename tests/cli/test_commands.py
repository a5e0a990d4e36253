"""The command line explains itself, fails without traces, and prints for people or for programs."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import cli
from gateway.app import exit_codes
from gateway.cli import main
from gateway.cli.arguments import parse_arguments
from gateway.cli.terminal import Terminal

COMMANDS = (
    "serve",
    "demo",
    "lake-demo",
    "check",
    "explain",
    "policy",
    "audit",
    "lineage",
    "users",
    "spark-jars",
    "version",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert "--json" in out
    assert command == "version" or "examples:" in out


def test_help_starts_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    """Help is quick: it must not import Spark's, PostgreSQL's or the web server's packages."""
    code = "import sys; from gateway.cli.arguments import parse_arguments\n"
    code += "heavy = {'pydantic', 'asyncpg', 'aiohttp', 'sqlglot', 'thrift', 'yaml'} & set(sys.modules)\n"
    code += "sys.exit(1 if heavy else 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_wrong_argument_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["explain", "SELECT 1"])
    assert stopped.value.code == exit_codes.USAGE
    assert "--as" in capsys.readouterr().err


def test_a_missing_settings_file_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = tmp_path / "absent.yaml"
    assert main(["serve", "-c", str(absent)]) == exit_codes.FAULTS
    assert capsys.readouterr().err == f"sluice: {absent}: cannot be read: No such file or directory\n"


def test_errors_are_json_when_json_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--json", "-c", str(tmp_path / "absent.yaml")]) == exit_codes.FAULTS
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == "FAULTS"
    assert "cannot be read" in answer["messages"][0]


def test_version_names_what_a_report_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == exit_codes.OK
    found = json.loads(capsys.readouterr().out)
    assert found["pyspark"].startswith("4.")
    assert set(found) >= {"sluice", "python", "sqlglot"}


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m gateway check --no-parser rules config | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_tables_align_and_stay_plain_in_a_pipe() -> None:
    stream = io.StringIO()
    Terminal(stream).table(("name", "amount"), [("Liam\nHaddad", "12.50"), (None, None), ("x" * 90, "3")])
    lines = stream.getvalue().splitlines()
    assert lines[1].startswith("Liam Haddad ")
    assert lines[2].startswith("NULL")
    assert lines[3].endswith("…       3")
    assert "\x1b" not in stream.getvalue()


def test_colour_is_for_terminals() -> None:
    assert Terminal(io.StringIO(), colour=True).style("x", "1") == "\x1b[1mx\x1b[0m"
    assert Terminal(io.StringIO()).style("x", "1") == "x"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("users add --group analysts dana", {"action": "add", "name": "dana", "token": None}),
        ("users revoke --json dana id7", {"action": "revoke", "name": "dana", "token": "id7"}),
        ("users -c f list", {"action": "list", "name": None}),
        ("jobs run -c f archive", {"action": "run", "name": "archive"}),
        ("report user --since 30d bob", {"what": "user", "name": "bob"}),
        ("datasets promote --user bob raw/x", {"action": "promote", "what": "raw/x"}),
        ("spark-jars --formats delta 4.1", {"minor": "4.1"}),
    ],
)
def test_options_may_stand_between_an_action_and_its_name(line: str, expected: dict[str, str | None]) -> None:
    found = vars(parse_arguments(line.split()))
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(("command", "heeds"), [("serve", True), ("check", False)])
def test_a_gateway_heeds_a_hangup_before_its_modules_are_there(
    command: str, heeds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing them takes seconds on a busy machine, and by default the signal ends a process."""

    def parse(_: object) -> object:
        raise RuntimeError(signal.getsignal(signal.SIGHUP))

    monkeypatch.setattr(cli, "parse_arguments", parse)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(RuntimeError) as told:
            main([command, "-c", "gateway.yaml"])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (told.value.args[0] is not signal.SIG_DFL) is heeds
