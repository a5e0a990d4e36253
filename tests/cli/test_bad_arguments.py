"""Arguments that mean nothing are told, and not answered as if nothing were there."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.cli.audit import moment, period
from gateway.cli.terminal import Terminal, complain, print_progress
from gateway.errors import Faults


@pytest.mark.parametrize("text", ["999999d", "0001-01-01T00:00+05:00", "9999-12-31T23:59-05:00", "never", ""])
def test_a_time_that_there_is_not(text: str) -> None:
    with pytest.raises(Faults, match="is not a time"):
        moment(text)


def test_a_period_that_ends_before_it_begins() -> None:
    with pytest.raises(Faults, match="ends before it begins"):
        period("2026-11-08", "2026-11-01")
    first, last = period("2026-11-01T01:00+02:00", "2026-11-08")
    assert first is not None
    assert last is not None
    assert str(first) == "2026-10-31 23:00:00+00:00"
    assert period(None, "1d")[0] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("user", ""), "needs a user name"),
        (("latency", "--group", "analysts"), "takes no `--group`"),
        (("latency", "--table", "hr"), "takes no `--table`"),
        (("latency", "--user", "bob"), "takes no `--user`"),
        (("user", "bob", "--user", "eve"), "takes no `--user`"),
        (("usage", "--by", "table"), "takes no `--by`"),
        (("usage", "--since", "2026-12-01", "--until", "2026-01-01"), "ends before it begins"),
    ],
)
def test_a_report_says_what_it_does_not_go_by(
    words: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gateway.yaml").write_text("ledger: {directory: ledger, dsn: {file: dsn}}\n")
    (tmp_path / "dsn").write_text("postgresql://nobody@127.0.0.1:1/none")
    assert main(["report", *words, "-c", str(tmp_path / "gateway.yaml")]) == 4
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("erase", "--user", "bob", "--reason", "4711", "--from", "2026-11-01"),
        ("erase", "--user", "bob", "--reason", "4711", "--id", "0193"),
        ("erase", "--user", "bob", "--reason", "4711", "--text", "secret"),
        ("erase", "--user", "bob", "--reason", "4711", "--resource", "hr.employee"),
        ("erase", "--user", "bob", "--reason", "4711", "--verdict", "refused"),
        ("tail", "--user", "bob"),
        ("search", "--public-key", "k.pem"),
        ("verify", "--user", "bob"),
        ("seal", "--to", "2026-11-01"),
    ],
)
def test_the_record_is_asked_for_no_more_than_is_gone_by(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who erases a day would erase the years before it."""
    (tmp_path / "gateway.yaml").write_text("ledger: {directory: ledger, dsn: {file: dsn}}\n")
    (tmp_path / "dsn").write_text("postgresql://nobody@127.0.0.1:1/none")
    assert main(["audit", *words, "-c", str(tmp_path / "gateway.yaml")]) == 4
    option = {"--from": "--since", "--to": "--until"}.get(words[-2], words[-2])
    assert f"`audit {words[0]}` takes no `{option}`" in capsys.readouterr().err


def test_a_report_says_that_its_days_are_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gateway.yaml").write_text("ledger: {directory: ledger, dsn: {file: dsn}}\n")
    (tmp_path / "dsn").write_text("postgresql://nobody@127.0.0.1:1/none")
    words = ["report", "usage", "-c", str(tmp_path / "gateway.yaml")]
    assert main([*words, "--since", "2026-11-20T09:00", "--until", "2026-11-21"]) != 0
    assert "whole days (UTC): from 2026-11-20 to 2026-11-21" in capsys.readouterr().err
    assert main([*words, "--since", "2026-11-20"]) != 0
    assert "whole days" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("report", "usage", "--limit", "-1"),
        ("recommend", "list", "--limit", "0"),
        ("jobs", "runs", "--limit", str(2**63)),
        ("audit", "search", "--limit", "١"),
    ],
)
def test_so_many_rows_cannot_be_shown(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(list(words))
    assert "is not a number from 1 to" in capsys.readouterr().err


def test_what_users_wrote_moves_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for colour in (True, False):
        stream = io.StringIO()
        shown = Terminal(stream, colour=colour)
        shown.line("SELECT '\x1b[8m', '\x1b[30;40m', '\x1b[2J' " + shown.style("ours", "1", "31"))
        assert ("\x1b" in stream.getvalue()) is colour
        assert stream.getvalue().replace("\x1b[1;31m", "").replace("\x1b[0m", "").count("\x1b") == 0
    print_progress("gateway \x1b[2J\nforged")
    complain("no table `\x1b[2J`")
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert told.count("\n") == 2
