"""More statements at once than Spark is given: the others wait, and each of them runs. Limits of packs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.wire.tcli import TOperationState
from tests.bench.raw_client import RawClient, Server
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, session, write_settings
from tests.e2e.running import RunningGateway, Spark, takes_plans

pytestmark = pytest.mark.in_turn(2)

PACK = """
service: spark
policies:
  - name: anything of the default database
    on: {catalog: spark_catalog, database: default, table: "*", column: "*"}
    allow: [{users: [ann, ben], access: [select]}]
limits:
  - {name: small, set_by: the tests, users: [cal], seconds: 2, rows: 3}
"""
SLOTS, SESSIONS = 2, 24
LONG = "SELECT count(*) FROM range(1000000000000)"
"""More than anybody waits for; it is ended by closing it."""
WORK = "SELECT count(DISTINCT id % 1000) FROM range(0, 400000, 1, 4)"


@pytest.fixture(scope="module")
def narrow(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway that gives Spark two statements at a time."""
    config = write_settings(open_directory / "narrow", spark, PACK, {"ann": [], "ben": [], "cal": []})
    settings = json.loads(config.read_text())
    settings["backend"]["statements"] = SLOTS
    config.write_text(json.dumps(settings))
    running = RunningGateway(config).start()
    yield running
    assert running.stop() == 0


def figure(gateway: RunningGateway, name: str) -> float:
    _, page = gateway.admin("/metrics")
    return float(next(line.split()[1] for line in page.splitlines() if line.startswith(f"{name} ")))


def test_what_waits_is_pending_until_there_is_room(narrow: RunningGateway) -> None:
    with ExitStack() as stack:
        server = Server(narrow.host, narrow.port, "ann", PASSWORD)
        *busy, third = (stack.enter_context(RawClient(server)) for _ in range(SLOTS + 1))
        held = [(client, client.execute(LONG, run_async=True)) for client in busy]
        waiting = third.execute(WORK, run_async=True)
        assert third.state(waiting) == TOperationState.PENDING
        for client, operation in held:
            client.close(operation)
        third.until_finished(waiting)
        assert third.fetch(waiting, 10)[0] == 1


def test_every_statement_of_many_runs(narrow: RunningGateway) -> None:
    def run(client: RawClient) -> int:
        operation = client.execute(WORK, run_async=True)
        client.until_finished(operation)
        rows, _ = client.fetch(operation, 10)
        client.close(operation)
        return rows

    with ExitStack() as stack, ThreadPoolExecutor(SESSIONS) as pool:
        servers = [Server(narrow.host, narrow.port, ("ann", "ben")[n % 2], PASSWORD) for n in range(SESSIONS)]
        clients = [stack.enter_context(client) for client in pool.map(RawClient, servers)]
        assert list(pool.map(run, clients)) == [1] * SESSIONS
    assert figure(narrow, "sluice_spark_wait_seconds_count") > 0
    assert figure(narrow, "sluice_statements_waiting") == 0
    assert narrow.admin("/readyz")[0] == 200


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_limit_ends_what_passes_it_and_real_clients_say_which(
    narrow: RunningGateway, endpoint: str
) -> None:
    if endpoint == "connect" and not takes_plans():
        pytest.skip("the Spark of this run has no Spark Connect that plans are given to")
    with session(narrow, endpoint, "cal") as ask:
        assert ask("SELECT id FROM range(3)") == [(0,), (1,), (2,)]
        for text, bound in ((LONG, "2 seconds"), ("SELECT id FROM range(4)", "3 rows")):
            with pytest.raises(Exception) as failed:
                ask(text)
            told = f"limit `small`, set by the tests, allows {bound} a statement; the statement was canceled"
            assert f"[SLUICE_LIMIT_EXCEEDED] {told}" in str(failed.value)
        assert ask("SELECT 1") == [(1,)]
    recorded = json.loads(narrow.sluice("audit", "search", "--user", "cal", "--json").stdout)
    ends = [one["end"] for one in recorded if one["end"] is not None]
    assert [one["outcome"] for one in ends if one.get("limit") == "small"][:2] == ["canceled"] * 2
