"""A Spark that hangs: its process is stopped, so that it takes connections, and answers nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tests.e2e import standing
from tests.e2e.cluster_load import PACK
from tests.e2e.one_pack import PASSWORD, write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark, until
from tests.e2e.wire_client import StatusError, WireClient
from tests.speed import patience

pytestmark = [pytest.mark.night, pytest.mark.timeout(1800)]
CALL_S, OPEN_S = 8.0, 3.0
VANISHED_S = 80.0
"""By when gRPC finds out that nobody is there: a minute of silence, and 20 s for an answer to its ping."""


@pytest.fixture(scope="module")
def hanging(session_loop: LoopThread, open_directory: Path) -> Iterator[Spark]:
    """A Spark of this module's own, which it stops and lets go on."""
    made = standing.server(open_directory / "spark-hanging", open_directory, heap="700m")
    session_loop.run(made.start())
    found = Spark.of(made)
    try:
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGCONT)
        session_loop.run(made.stop())


@pytest.fixture(scope="module")
def gateway(spark: Spark, hanging: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    directory = open_directory / "hung"
    settings = write_settings(directory, spark, PACK, {"ann": ()})
    token = directory / "hanging.token"
    token.touch(mode=0o600)
    token.write_text(hanging.connect_token)
    written = json.loads(settings.read_text())
    written["backends"] = {
        "hanging": {
            "thrift": {"host": hanging.host, "port": hanging.port},
            "connect": {
                "host": hanging.host,
                "port": hanging.connect_port,
                "token": {"file": "hanging.token"},
            },
            "call_timeout_s": CALL_S,
        }
    }
    # Half of new sessions come to each of them.
    written["routing"] = {"default": ["default", "hanging"], "open_s": OPEN_S, "retry_s": 2}
    settings.write_text(json.dumps(written))
    running = RunningGateway(settings).start()
    until(lambda: takes_sessions(running), "both Sparks", 300)
    yield running
    assert running.stop() == 0


def takes_sessions(gateway: RunningGateway) -> bool:
    metrics = gateway.admin("/metrics")[1]
    return 'sluice_backend_up{backend="hanging",endpoint="thrift"} 1.0' in metrics


def client(gateway: RunningGateway) -> WireClient:
    return WireClient(gateway.host, gateway.port, "ann", PASSWORD)


def ask(one: WireClient, session: Any) -> list[Any]:
    return list(one.rows(one.execute(session, "SELECT 1")))


def test_sessions_there_end_with_an_error_and_new_ones_go_elsewhere_until_it_goes_on(
    gateway: RunningGateway, hanging: Spark
) -> None:
    from pyspark.sql import SparkSession

    there = {"sluice.backend": "hanging"}
    url = f"sc://localhost:{gateway.connect_port}/;token=ann:{PASSWORD.replace(' ', '%20')}"
    plans = SparkSession.builder.remote(f"{url};x-sluice-backend=hanging").create()
    with client(gateway) as old:
        session = old.open_session(configuration=there)
        assert ask(old, session) == [(1,)]
        assert plans.range(3).count() == 3
        os.kill(hanging.pid, signal.SIGSTOP)
        try:
            # A new session, with its statement, waits for the one that hangs at most once.
            for _ in range(6):
                began = time.monotonic()
                with client(gateway) as new:
                    assert ask(new, new.open_session()) == [(1,)]
                assert time.monotonic() - began < patience(OPEN_S + 5)
            began = time.monotonic()
            with pytest.raises(StatusError, match="Spark"):
                ask(old, session)
            assert time.monotonic() - began < patience(CALL_S + 5)
            until(lambda: not takes_sessions(gateway), "its breaker to open", 60)
            began = time.monotonic()
            with client(gateway) as new:
                assert ask(new, new.open_session()) == [(1,)]
            with client(gateway) as new, pytest.raises(StatusError, match="`hanging` does not answer"):
                new.open_session(configuration=there)
            assert time.monotonic() - began < patience(OPEN_S)
            began = time.monotonic()
            with pytest.raises(PySparkException, match="SLUICE_BACKEND_UNAVAILABLE"):
                plans.range(4).count()
            assert time.monotonic() - began < patience(VANISHED_S + 20)
        finally:
            os.kill(hanging.pid, signal.SIGCONT)
        until(lambda: takes_sessions(gateway), "it to be healed", 120)
        with client(gateway) as new:
            assert ask(new, new.open_session(configuration=there)) == [(1,)]
    healed = SparkSession.builder.remote(f"{url};x-sluice-backend=hanging").create()
    assert healed.range(5).count() == 5
    healed.stop()
