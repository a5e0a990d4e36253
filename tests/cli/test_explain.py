"""`sluice explain` shows the verdict, its reasons and the text, from files alone: no Spark runs here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.app import exit_codes
from gateway.cli import main

ROOT = Path(__file__).resolve().parents[2]
TABLES = """\
catalogs:
  spark_catalog:
    sales:
      orders:
        columns: {id: bigint, customer_id: int, region: string, amount: "decimal(12,2)"}
    hr:
      employee:
        columns: {id: int, name: string, email: string, salary: "decimal(10,2)"}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "tables.yaml").write_text(TABLES)
    config = tmp_path / "gateway.yaml"
    config.write_text(f"policies: {{paths: [{ROOT / 'rules' / 'policies'}]}}\n")
    return ("-c", str(config), "--tables", str(tmp_path / "tables.yaml"))


def test_a_cleared_statement_shows_policies_obligations_and_text(
    files: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "SELECT amount FROM sales.orders -- mine"
    assert main(["explain", *files, "--as", "bob", "--groups", "analysts", "--json", sql]) == exit_codes.OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "cleared"
    assert answer["groups"] == ["analysts"]
    assert "region = 'EMEA'" in answer["forwarded"]
    assert answer["forwarded"].endswith("-- mine")
    assert {"table": "spark_catalog.sales.orders", "kind": "filter", "expression": "region = 'EMEA'",
            "policy": "own region only"} in answer["obligations"]  # fmt: skip
    assert any(
        decision["policy"] == "analysts and support read sales" and decision["allowed"]
        for decision in answer["decisions"]
    )

    assert main(["explain", *files, "--as", "bob", "--groups", "analysts", sql]) == exit_codes.OK
    out = capsys.readouterr().out
    assert out.startswith("cleared for bob (analysts)")
    assert answer["forwarded"] in out


def test_a_refused_statement_says_what_is_missing(
    files: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["explain", *files, "--as", "bob", "--groups", "analysts"]
    assert main([*arguments, "--database", "hr", "SELECT * FROM employee"]) == exit_codes.REFUSED
    out = capsys.readouterr().out
    assert "[SLUICE_ACCESS_DENIED]" in out
    assert "needs select on every column of table spark_catalog.hr.employee" in out
    assert "pay and identity stay with payroll" in out


def test_an_unknown_user_needs_groups(files: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *files, "--as", "mallory", "SELECT 1"]) == exit_codes.FAULTS
    assert "user `mallory` does not exist; set the groups with --groups" in capsys.readouterr().err


def test_without_a_running_spark_it_says_what_to_do(
    files: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["explain", *files[:2], "--as", "bob", "--groups", "", "SELECT 1"]
    assert main(arguments) == exit_codes.UNAVAILABLE
    assert "--tables" in capsys.readouterr().err


def test_one_of_several_sparks_is_named(
    files: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gateway.yaml"
    sparks = "backends: {bi: {thrift: {host: a}}, etl: {thrift: {host: b}}}\n"
    config.write_text(sparks + "reader: {spark_version: '4.3', extensions: []}\n" + config.read_text())
    asked = ["explain", *files, "--as", "bob", "--groups", "analysts", "--backend"]
    assert main([*asked, "nowhere", "SELECT 1"]) == exit_codes.FAULTS
    assert "there are: bi, etl" in capsys.readouterr().err
