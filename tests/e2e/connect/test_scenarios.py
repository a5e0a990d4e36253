"""What PySpark users do gives through the gateway what Spark itself gives, over the data that they may see.

Every scenario runs in four ways, through the gateway with two clients: straight at Spark; through the gateway
as somebody who may do everything; straight at Spark over tables that were masked, filtered and cut by hand;
through the gateway over the real ones as somebody whom policies mask, filter and cut likewise. Results are
columns, types and rows, or an error's class, condition and SQLSTATE.
"""

from __future__ import annotations

import json

import pytest

from tests.e2e.connect import child, world
from tests.e2e.connect.conftest import BASELINE, CLIENTS, Runs
from tests.e2e.connect.framework import SCENARIOS, Scenario
from tests.shares import turn

VERSIONS = {client: tuple(int(part) for part in client.split(".")) for client in CLIENTS}
TURNS = {client: 10 if client == BASELINE else 20 for client in CLIENTS}
"""By day a client runs one scenario in so many, on each day others. The older client sends what the newer one
does, but for details."""


def cases(*governed: str) -> list[object]:
    return [
        pytest.param(
            client,
            item,
            id=f"{client}: {item.group}: {item.name}",
            marks=[] if item.daily and client == BASELINE else turn(number, TURNS[client]),
        )
        for client in CLIENTS
        for number, item in enumerate(SCENARIOS.values())
        if item.since <= VERSIONS[client] and (not governed or item.governed in governed)
    ]


def test_there_are_enough() -> None:
    assert child.GROUPS
    assert len(SCENARIOS) >= 150


@pytest.mark.parametrize(("client", "item"), cases())
def test_everything_allowed_is_spark_itself(runs: Runs, client: str, item: Scenario) -> None:
    ours, direct = (runs.outcome(client, "allowed", item.name), runs.outcome(BASELINE, "direct", item.name))
    assert ours["result"] == direct["result"], ours.get("message")


@pytest.mark.parametrize(("client", "item"), cases("same"))
def test_governed_is_spark_over_governed_data(runs: Runs, client: str, item: Scenario) -> None:
    ours, copy = (runs.outcome(client, "governed", item.name), runs.outcome(BASELINE, "copy", item.name))
    assert ours["result"] == copy["result"], ours.get("message")
    assert world.CANARY not in json.dumps(ours)


@pytest.mark.parametrize(("client", "item"), cases("refused"))
def test_what_is_not_granted_is_refused(runs: Runs, client: str, item: Scenario) -> None:
    ours = runs.outcome(client, "governed", item.name)
    assert "raised" in ours["result"], ours
    assert "[SLUICE_" in ours["message"]
    assert world.CANARY not in json.dumps(ours)


def test_scenarios_do_something(runs: Runs) -> None:
    """None of them fails straight at Spark: else equality would say little."""
    failed = {
        name: outcome.get("message")
        for name, outcome in runs.outcomes[BASELINE, "direct"].items()
        if isinstance(outcome["result"], dict) and {"raised", "no session"} & outcome["result"].keys()
    }
    assert failed == {}
