"""A running gateway: rules and users change without a restart, the commands beside it tell the truth."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import thrift.transport.TTransport
from pyhive.exc import Error

from gateway.app import exit_codes
from gateway.app.explaining import verdicts_without_sessions
from gateway.cli.users import principal_of
from gateway.demo.tour import PEOPLE, STOPS
from gateway.model.statement import Client, Refused, SessionContext, Statement, Verdict
from gateway.settings import load_settings
from tests.e2e.conftest import SyslogServer
from tests.e2e.running import PASSWORDS, LoopThread, RunningGateway, until

FILTER = "\"region = 'EMEA'\""


@contextmanager
def changed(file: Path, old: str, new: str) -> Iterator[None]:
    """Replace a text in a file, as an editor does, and put everything back afterwards."""
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new))
    try:
        yield
    finally:
        file.write_text(before)


def version_in_force(gateway: RunningGateway) -> int:
    _, metrics = gateway.admin("/metrics")
    (line,) = (line for line in metrics.splitlines() if line.startswith("sluice_policy_version "))
    return int(float(line.split()[1]))


REGIONS = "SELECT region, count(*) FROM sales.customer GROUP BY region ORDER BY region"


def count_of_regions(gateway: RunningGateway) -> list[object]:
    return gateway.query("bob", REGIONS)


def test_it_is_alive_ready_and_measured(gateway: RunningGateway) -> None:
    assert gateway.admin("/healthz")[0] == 200
    # A busy Spark may answer the probe too late.
    until(lambda: gateway.admin("/readyz")[0] == 200, "a gateway that is ready")
    parts = json.loads(gateway.admin("/readyz")[1])["parts"]
    assert set(parts) >= {"parser", "spark", "ledger", "policies", "users"}
    assert version_in_force(gateway) >= 1


def test_a_changed_pack_is_in_force_without_a_restart(gateway: RunningGateway) -> None:
    pack = gateway.config.parent / "policies" / "sales.yaml"
    # The pack's cases say EMEA, too: a change that forgets them would not be loaded.
    with changed(pack, "'EMEA'", "'AMER'"):
        until(lambda: count_of_regions(gateway)[0][0] == "AMER", "the new filter")  # type: ignore[index]
    until(lambda: count_of_regions(gateway)[0][0] == "EMEA", "the old filter again")  # type: ignore[index]


def test_a_pack_with_a_case_that_fails_hides_and_shows_nothing_new(gateway: RunningGateway) -> None:
    pack = gateway.config.parent / "policies" / "sales.yaml"
    with changed(pack, "where: " + FILTER, "where: \"region = 'APAC'\""):
        until(lambda: "cases fail" in gateway.admin("/readyz")[1], "the note")
        assert gateway.admin("/readyz")[0] == 200
        assert count_of_regions(gateway) == [], "rows pass the filter of before and the new one"
        told = next(r for r in reversed(gateway.records) if r["event"] == "policy_file_at_fault")
        assert "case fails" in told["fault"]
        assert 'kind="cases"' in gateway.admin("/metrics")[1]
    until(lambda: "cases fail" not in gateway.admin("/readyz")[1], "mended")
    assert count_of_regions(gateway)[0][0] == "EMEA"  # type: ignore[index]


def test_a_broken_pack_changes_nothing_and_is_told_of(gateway: RunningGateway) -> None:
    before = version_in_force(gateway)
    with changed(gateway.config.parent / "policies" / "sales.yaml", "\ncases:", "\ncases: ["):
        until(
            lambda: "the last valid policies, or closed ones, are in force" in gateway.admin("/readyz")[1],
            "the note",
        )
        assert gateway.admin("/readyz")[0] == 200
        assert version_in_force(gateway) == before
        assert count_of_regions(gateway)[0][0] == "EMEA"  # type: ignore[index]
        told = next(r for r in reversed(gateway.records) if r["event"] == "rules_not_loaded")
        assert "not YAML" in told["first"]
    until(
        lambda: "the last valid policies, or closed ones, are in force" not in gateway.admin("/readyz")[1],
        "mended",
    )


def test_a_filter_that_does_not_parse_closes_its_table_until_it_is_mended(gateway: RunningGateway) -> None:
    with changed(gateway.config.parent / "policies" / "sales.yaml", FILTER, '"region ="'):
        until(lambda: "closed ones" in gateway.admin("/readyz")[1], "the note")
        assert gateway.admin("/readyz")[0] == 200
        assert "SLUICE_ACCESS_DENIED" in gateway.refusal("bob", REGIONS)
        told = next(r for r in reversed(gateway.records) if r["event"] == "policy_closed")
        assert "not a Spark SQL expression" in told["fault"]
    until(lambda: "closed ones" not in gateway.admin("/readyz")[1], "mended")
    assert count_of_regions(gateway)[0][0] == "EMEA"  # type: ignore[index]


def test_a_user_is_let_in_and_out_without_a_restart(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PASSWORDS, "erin", "erin has one")
    added = gateway.sluice("users", "add", "erin", "--group", "hr", stdin="erin has one\n")
    assert added.returncode == exit_codes.OK, added.stderr

    def can_log_in() -> bool:
        try:
            return gateway.query("erin", "SELECT count(*) FROM hr.employee") == [(200,)]
        except thrift.transport.TTransport.TTransportException:
            return False

    until(can_log_in, "erin is let in")
    assert gateway.sluice("users", "remove", "erin").returncode == exit_codes.OK
    until(lambda: not can_log_in(), "erin is let in no more")


@pytest.mark.in_turn(6, place=1)
def test_explain_shows_exactly_what_spark_is_sent(gateway: RunningGateway, session_loop: LoopThread) -> None:
    """For every statement of the tour as every person; one parser for all, because a JVM takes seconds."""
    settings = load_settings(gateway.config)

    async def explained() -> dict[tuple[str, str], Verdict]:
        async with verdicts_without_sessions(settings) as verdicts:
            return {
                (person.name, stop.sql): await verdicts.judge(
                    Statement(
                        text=stop.sql,
                        principal=principal_of(settings.users.file, person.name, None),
                        context=SessionContext(),
                    ),
                    Client(protocol="thrift"),
                )
                for person in PEOPLE
                for stop in STOPS
            }

    for (user, sql), verdict in session_loop.run(explained()).items():
        if isinstance(verdict, Refused):
            assert verdict.message in gateway.refusal(user, sql)
            continue
        with contextlib.suppress(Error):  # a column that is not there for the user
            gateway.query(user, sql)
        found = gateway.sluice("audit", "search", "--user", user, "--text", sql, "-n", "1", "--json")
        (one,) = json.loads(found.stdout)
        assert one["event"]["forwarded"] == verdict.forwarded


def test_the_command_explains_with_the_catalog_of_the_running_spark(gateway: RunningGateway) -> None:
    done = gateway.sluice("explain", "--as", "bob", "--json", "TABLE hr.department")
    assert done.returncode == exit_codes.OK, done.stderr
    assert json.loads(done.stdout)["forwarded"] == "TABLE `spark_catalog`.`hr`.`department`"


@pytest.mark.in_turn(6, place=0)
def test_the_audit_commands_find_what_happened(gateway: RunningGateway) -> None:
    gateway.query("carol", "SELECT 'needle one' AS n, card FROM sales.customer LIMIT 3")
    refusal = gateway.refusal("carol", "SELECT 'needle two', salary FROM hr.employee")

    def search(*arguments: str) -> list[dict[str, dict[str, object]]]:
        done = gateway.sluice("audit", "search", "--json", "--since", "10m", *arguments)
        assert done.returncode == exit_codes.OK, done.stderr
        found: list[dict[str, dict[str, object]]] = json.loads(done.stdout)
        return found

    until(lambda: bool(search("--text", "needle one")[0]["end"]), "the end of the statement")
    (one,) = search("--text", "NEEDLE ONE")
    assert one["event"]["verdict"] == "cleared"
    assert one["end"]["rows"] == 3
    assert "card numbers" in one["event"]["policies"]  # type: ignore[operator]

    (two,) = search("--text", "needle two", "--verdict", "refused", "--user", "carol")
    assert str(two["event"]["statement_id"]) in refusal
    assert search("--text", "needle two", "--verdict", "cleared") == []
    assert any(found == one for found in search("--resource", "sales.customer", "-n", "500"))

    whole = gateway.sluice("audit", "search", "--id", str(two["event"]["statement_id"]))
    assert "needle two" in whole.stdout
    assert "ACCESS_DENIED" in whole.stdout
    tail = gateway.sluice("audit", "tail", "-n", "200")
    assert "needle two" in tail.stdout
    assert "login from" in tail.stdout


def test_the_record_is_forwarded_to_a_syslog_server(gateway: RunningGateway, syslog: SyslogServer) -> None:
    refusal = gateway.refusal("carol", "SELECT 'needle three', salary FROM hr.employee")
    until(lambda: b"needle three" in syslog.got, "the event at the syslog server")
    (line,) = [one for one in syslog.got.decode().split("CEF:0|") if "needle three" in one]
    assert line.startswith("Sluice|Sluice|")
    assert "|decided.refused|decided|5|" in line
    assert " suser=carol " in line
    assert next(word for word in line.split() if word.startswith("cs1="))[4:] in refusal
    assert 'sluice_forward_active{target="siem"} 1.0' in gateway.admin("/metrics")[1]


def test_a_second_gateway_on_the_same_ledger_is_refused(gateway: RunningGateway) -> None:
    second = gateway.sluice("serve")
    assert second.returncode == exit_codes.FAULTS
    assert "another gateway already uses" in second.stderr
    assert gateway.query("alice", "SELECT 1") == [(1,)]


def test_logs_hold_no_statement(gateway: RunningGateway) -> None:
    gateway.query("alice", "SELECT 'a literal in no log' AS x")
    gateway.refusal("bob", "SELECT 'a literal in no log', salary FROM hr.employee")
    assert "a literal in no log" not in json.dumps(gateway.records)
    assert all("event" in record for record in gateway.records)
    assert not [r for r in gateway.records if r["event"] == "not_json"]


def test_proposed_policies_are_held_against_what_was_asked(gateway: RunningGateway, tmp_path: Path) -> None:
    """The record of the last minutes, in PostgreSQL, decided by the policies in force and by others."""
    gateway.query("bob", "SELECT region, amount FROM sales.orders LIMIT 1")
    proposed = tmp_path / "proposed.yaml"
    proposed.write_text(
        "policies:\n"
        '  - {name: engineers only, on: {catalog: spark_catalog, database: sales, table: "*", column: "*"},\n'
        "     allow: [{groups: [engineers], access: [select]}]}\n"
    )
    in_force = gateway.config.parent / "policies"

    def compared(new: Path) -> subprocess.CompletedProcess[str]:
        return gateway.sluice("policy", "diff", str(in_force), str(new), "--since", "1h", "--json")

    until(lambda: "sales.orders.amount" in compared(proposed).stdout, "the record knows the statement")
    done = compared(proposed)
    assert done.returncode == 1, done.stderr
    lost = [change for change in json.loads(done.stdout)["changes"] if "sales.orders.amount" in str(change)]
    assert any("bob" in str(change) for change in lost), done.stdout[:2000]
    same = compared(in_force)
    assert (same.returncode, json.loads(same.stdout)["changes"]) == (0, []), same.stdout[:2000]


def test_the_readme_shows_what_the_demo_forwards(gateway: RunningGateway) -> None:
    """Its lines are folded, and `explain` prints one."""
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    before, after = re.findall(r"```sql\n(.*?)```", readme.partition("## Before and after")[2], re.S)[:2]
    told = gateway.sluice("explain", "--json", "--as", "carol", before.strip())
    assert told.returncode == exit_codes.OK, told.stderr
    forwarded = json.loads(told.stdout)["forwarded"]
    assert unfolded(forwarded) == unfolded(after), forwarded


def unfolded(text: str) -> str:
    return re.sub(r"(?<=\() | (?=\))", "", " ".join(text.split()))
