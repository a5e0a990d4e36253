"""The npm hive-driver runs the tour's statements as three people. `make npm-test`; needs node and npm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.running import PASSWORDS, RunningGateway
from tests.e2e.test_clients import TOUR
from tests.speed import patience

pytestmark = pytest.mark.npm
CLIENT = Path(__file__).parent / "client.js"


def run(gateway: RunningGateway, user: str, statements: list[str], password: str | None = None) -> Any:
    """Return one outcome per statement: `{"rows": [...]}` or `{"error": "..."}`."""
    asked = {
        "host": gateway.host,
        "port": gateway.port,
        "user": user,
        "password": PASSWORDS[user] if password is None else password,
        "statements": statements,
    }
    done = subprocess.run(
        ["node", str(CLIENT)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    if done.returncode != 0:
        raise ConnectionError(done.stderr)
    return json.loads(done.stdout)


@pytest.mark.parametrize("user", ["alice", "bob", "carol"])
def test_the_driver_sees_what_its_user_may_see(gateway: RunningGateway, user: str) -> None:
    steps = [(sql, expected) for who, sql, expected in TOUR if who == user]
    outcomes = run(gateway, user, [sql for sql, _ in steps])
    for (sql, expected), outcome in zip(steps, outcomes, strict=True):
        if isinstance(expected, str):
            assert expected in outcome.get("error", ""), sql
        else:
            rows = [tuple(str(value) for value in row.values()) for row in outcome["rows"]]
            assert rows == expected, sql


def test_a_wrong_password_is_refused(gateway: RunningGateway) -> None:
    with pytest.raises(ConnectionError, match=r".+"):
        run(gateway, "bob", ["SELECT 1"], password="wrong")
