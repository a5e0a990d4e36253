"""Every attack of tests/cases/bypasses.yaml, for real: no canary reaches the attacker, whatever he reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyhive import hive
from pyhive.exc import Error

from tests.e2e.lab import CANARY, PASSWORD
from tests.e2e.running import RunningGateway

ATTACKS = yaml.safe_load((Path(__file__).parents[1] / "cases" / "bypasses.yaml").read_text(encoding="utf-8"))
SCRIPTS = [
    pytest.param(
        script,
        "Sluice" if attack.get("refused") else "somebody" if attack.get("fails") else "",
        id=f"{attack['attack']}: {script[-1]}",
    )
    for attack in ATTACKS
    for script in attack["scripts"]
]


class Attacker:
    """One session of mallory; it remembers everything that came back."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.connection = hive.connect(
            host=gateway.host, port=gateway.port, username="mallory", auth="CUSTOM", password=PASSWORD
        )
        self.seen: list[Any] = []

    def run(self, statement: str) -> str | None:
        """Run a statement; return the error's message, or None when it went through."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement)
            self.seen += [cursor.description, cursor.fetchall() if cursor.description else None]
        except Error as error:
            status = getattr(error.args[0], "status", error.args[0])
            self.seen.append(repr(status))
            return str(getattr(status, "errorMessage", status))
        return None


@pytest.mark.in_turn(4)
@pytest.mark.parametrize(("script", "refuses"), SCRIPTS)
def test_no_canary_gets_out(lab_gateway: RunningGateway, script: list[str], refuses: str) -> None:
    attacker = Attacker(lab_gateway)
    try:
        attacker.run("USE lab")
        messages = [attacker.run(statement) for statement in script]
    finally:
        attacker.connection.close()
    # What the attacker wrote himself may come back to him; what he did not write must not.
    written = sum(statement.count(CANARY) for statement in script)
    assert repr(attacker.seen).upper().count(CANARY) <= written, attacker.seen
    last = messages[-1]
    assert not refuses or last is not None, attacker.seen
    if refuses == "Sluice":
        assert last is not None
        # Refused before Spark: by Sluice in its words or in Spark's, or by Spark's own parser in the reader.
        told = ("[SLUICE_", "[PARSE_", "[INVALID_", "[UNSUPPORTED_", "[UNRESOLVED_ROUTINE]", "[UNRESOLVABLE_")
        assert last.removeprefix("Error running query: ").startswith(told), last


def test_the_attacker_sees_what_is_his(lab_gateway: RunningGateway) -> None:
    """Without this, the attacks could fail because nothing works at all."""
    attacker = Attacker(lab_gateway)
    try:
        assert attacker.run("SELECT a, b FROM lab.ok") is None
        assert attacker.run("SELECT id, name, region, ssn, note FROM lab.masked") is None
    finally:
        attacker.connection.close()
    assert attacker.seen[1] == [(1, "open")]
    assert attacker.seen[3] == [(1, "Ann", "EMEA", None, "x")]
