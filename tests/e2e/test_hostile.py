"""Statements meant to hurt: each is refused with a clear error, recorded, and the gateway goes on."""

from __future__ import annotations

import pytest

from tests.e2e.lab import PASSWORD
from tests.e2e.running import RunningGateway, query
from tests.e2e.test_bypasses import Attacker

HOSTILE = {
    "ten megabytes": ("SELECT '" + "x" * 10_000_000 + "'", "TOO_LARGE"),
    "a NUL": ("SELECT 'a\0b'", "UNSAFE_TEXT"),
    "an open quote": ("SELECT 'open", "PARSE_SYNTAX_ERROR"),
    "an open comment": ("SELECT 1 /* open", "UNCLOSED_BRACKETED_COMMENT"),
    "5,000 brackets": ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "TOO_DEEP"),
    "10,000 subqueries": ("SELECT * FROM (" * 10_000 + "SELECT 1" + ")" * 10_000, "TOO_DEEP"),
    "10,000 CASEs": ("SELECT " + "CASE WHEN true THEN " * 10_000 + "1" + " END" * 10_000, "TOO_DEEP"),
    "a variable": ("SELECT '${env:HOME}'", "UNSAFE_TEXT"),
    "a continued comment": ("SELECT 1 -- \\\n FROM lab.secret", ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_statement_is_refused_and_recorded(lab_gateway: RunningGateway, name: str) -> None:
    sql, code = HOSTILE[name]
    attacker = Attacker(lab_gateway)
    try:
        message = attacker.run(sql)
        if code:
            assert message is not None
            assert code in message
            assert len(message) < 2000
        assert "CANARY" not in repr(attacker.seen)
    finally:
        attacker.connection.close()
    rows = query(lab_gateway.host, lab_gateway.port, "mallory", "SELECT 1", password=PASSWORD)
    assert rows == [(1,)]


def test_long_but_flat_statements_pass(lab_gateway: RunningGateway) -> None:
    wide = "SELECT a FROM lab.ok WHERE a IN (" + ", ".join(map(str, range(5000))) + ")"
    rows = query(lab_gateway.host, lab_gateway.port, "mallory", wide, password=PASSWORD)
    assert rows == [(1,)]


def test_every_hostile_statement_left_its_record(lab_gateway: RunningGateway) -> None:
    query(lab_gateway.host, lab_gateway.port, "mallory", "SELECT 'the last one'", password=PASSWORD)
    found = lab_gateway.sluice("audit", "search", "--user", "mallory", "--verdict", "refused", "--json")
    assert found.returncode == 0, found.stderr
    for code in ("TOO_DEEP", "UNSAFE_TEXT"):
        assert code in found.stdout
