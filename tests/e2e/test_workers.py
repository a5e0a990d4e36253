"""A gateway of two workers before a stub Spark: one session is one session through either, and the record
loses nothing when one of them is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import psutil
import pytest

from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from gateway.wire import calls
from tests.app.certificate_files import make_pair
from tests.bench.connect_client import ConnectClient
from tests.bench.processes import stub_spark
from tests.bench.raw_client import RawClient, Server
from tests.e2e.running import RunningGateway, until
from tests.speed import patience
from tests.tpch.governed import POLICIES, UNGOVERNED

pytestmark = [pytest.mark.night, pytest.mark.timeout(1800)]

PASSWORD = "correct horse battery"
KILLS = 4
RECORD = """
SELECT count(*) FILTER (WHERE kind = 'decided') AS begun,
       count(*) FILTER (WHERE kind = 'completed' AND body->>'outcome' = 'finished') AS finished,
       count(*) FILTER (WHERE kind IN ('completed', 'abandoned')) AS ended,
       count(DISTINCT statement_id) FILTER (WHERE kind IN ('completed', 'abandoned')) AS ended_once
FROM sluice.audit_event WHERE statement_id IS NOT NULL AND user_name = $1"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    directory = tmp_path_factory.mktemp("workers")
    directory.chmod(0o711)
    server = EmbeddedPostgres(directory / "postgres")
    server.start(patience(60))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def gateway(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    home = tmp_path_factory.mktemp("gateway")
    set_user(home / "users.yaml", UNGOVERNED.user, password=PASSWORD, groups=sorted(UNGOVERNED.groups))
    (home / "dsn").touch(mode=0o600)
    (home / "dsn").write_text(postgres.dsn)
    with stub_spark() as ports:
        settings = {
            "workers": 2,
            "listeners": {name: {"port": 0} for name in ("thrift", "connect", "admin")},
            "backend": {
                "thrift": {"host": "127.0.0.1", "port": ports["thrift"]},
                "connect": {"host": "127.0.0.1", "port": ports["connect"]},
            },
            "policies": {"paths": [str(POLICIES)]},
            "users": {"file": "users.yaml"},
            "ledger": {"directory": "ledger", "dsn": {"file": "dsn"}},
            "logging": {"format": "json"},
        }
        (home / "gateway.yaml").write_text(json.dumps(settings))
        running = RunningGateway(home / "gateway.yaml").start()
        try:
            yield running
        finally:
            assert running.stop() == 0


def list_workers(gateway: RunningGateway) -> list[psutil.Process]:
    return [one for one in psutil.Process(gateway.pid).children() if _is_worker(one)]


def _is_worker(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):  # it has ended meanwhile
        return "gateway.cli.worker" in process.cmdline()
    return False


def connect(gateway: RunningGateway) -> RawClient:
    return RawClient(Server(gateway.host, gateway.port, UNGOVERNED.user, PASSWORD))


def connect_plans(gateway: RunningGateway, session: str = "") -> ConnectClient:
    return ConnectClient(gateway.connect_port, f"{UNGOVERNED.user}:{PASSWORD}", session=session)


def count_by_worker(gateway: RunningGateway, metric: str) -> dict[str, float]:
    _, page = gateway.admin("/metrics")
    lines = (line.split() for line in page.splitlines() if line.startswith(f'{metric}{{worker="'))
    return {name.split('"')[1]: float(value) for name, value in lines}


def test_sessions_are_shared_out_and_each_is_found_through_either_worker(gateway: RunningGateway) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connect(gateway)).in_four_calls("SELECT 1")
        assert count_by_worker(gateway, "sluice_connections") == {"1": 2.0, "2": 2.0}
        one = stack.enter_context(connect_plans(gateway))
        one.select_one()
        for _ in range(3):
            stack.enter_context(connect_plans(gateway, one.session)).select_one()


def test_the_record_loses_nothing_when_workers_are_killed(
    gateway: RunningGateway, postgres: EmbeddedPostgres
) -> None:
    over = threading.Event()
    answered: list[int] = []

    def ask(number: int) -> None:
        count = 0
        while not over.is_set():
            # What was cut is begun anew, as clients do.
            with contextlib.suppress(OSError, AssertionError, grpc.RpcError):
                if number % 2:
                    with connect(gateway) as client:
                        while not over.is_set():
                            client.in_four_calls("SELECT 1")
                            count += 1
                else:
                    with connect_plans(gateway) as plans:
                        while not over.is_set():
                            plans.select_one()
                            count += 1
        answered.append(count)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    try:
        for kill in range(KILLS):
            before = count_by_worker(gateway, "sluice_ledger_recorded_events")
            until(lambda: _has_grown(gateway, before), "statements run")  # noqa: B023
            killed = list_workers(gateway)[kill % 2]
            os.kill(killed.pid, signal.SIGKILL)
            until(lambda: len(list_workers(gateway)) == 2 and _are_up(gateway), "the worker is replaced")
    finally:
        over.set()
        for thread in threads:
            thread.join(patience(60))
    found: dict[str, Any] = {}

    def is_settled() -> bool:
        found.update(asyncio.run(_read_record(postgres.dsn)))
        return bool(found["begun"] == found["ended"] and found["finished"] >= sum(answered))

    until(is_settled, "each statement has its end in the record")
    assert found["ended"] == found["ended_once"]


def _has_grown(gateway: RunningGateway, before: dict[str, float]) -> bool:
    with contextlib.suppress(OSError):
        now = count_by_worker(gateway, "sluice_ledger_recorded_events")
        return any(now[name] > before.get(name, 0.0) + 20 for name in now)
    return False


def _are_up(gateway: RunningGateway) -> bool:
    with contextlib.suppress(OSError):
        return gateway.admin("/readyz")[0] == 200 and len(count_by_worker(gateway, "sluice_sessions")) == 2
    return False


async def _read_record(dsn: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return dict(await connection.fetchrow(RECORD, UNGOVERNED.user))
    finally:
        await connection.close()


class TlsClient(RawClient):
    """One connection under TLS; whose certificate it is, is looked at by itself."""

    def log_in(self, server: Server) -> calls.TOpenSessionResp:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = secured = context.wrap_socket(self.socket)
        self.shown = ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"")
        return super().log_in(server)


def test_a_hangup_has_every_worker_show_the_new_certificate(
    postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home: Path = tmp_path_factory.mktemp("tls")
    make_pair(home)
    set_user(home / "users.yaml", UNGOVERNED.user, password=PASSWORD, groups=sorted(UNGOVERNED.groups))
    (home / "dsn").touch(mode=0o600)
    (home / "dsn").write_text(postgres.dsn)
    with contextlib.ExitStack() as stack:
        ports = stack.enter_context(stub_spark())
        settings = {
            "workers": 2,
            "listeners": {
                "thrift": {"port": 0, "tls": {"certificate": "c.pem", "key": "k.pem"}},
                "admin": {"port": 0},
            },
            "backend": {"thrift": {"host": "127.0.0.1", "port": ports["thrift"]}},
            "policies": {"paths": [str(POLICIES)]},
            "users": {"file": "users.yaml"},
            "ledger": {"directory": "ledger", "dsn": {"file": "dsn"}},
            "logging": {"format": "json"},
        }
        (home / "gateway.yaml").write_text(json.dumps(settings))
        running = RunningGateway(home / "gateway.yaml").start()
        stack.callback(running.stop)
        server = Server(running.host, running.port, UNGOVERNED.user, PASSWORD)

        def enter() -> list[TlsClient]:
            """Connect so often that each worker has a half."""
            return [stack.enter_context(TlsClient(server)) for _ in range(4)]

        before = enter()
        assert count_by_worker(running, "sluice_connections") == {"1": 2.0, "2": 2.0}
        assert {one.shown for one in before} == {(home / "c.pem").read_text()}
        make_pair(home, days=90)
        os.kill(running.pid, signal.SIGHUP)
        new = (home / "c.pem").read_text()
        until(lambda: {one.shown for one in enter()} == {new}, "both workers show the new certificate")
        for one in before:
            one.in_four_calls("SELECT 1")
        for worker in list_workers(running):
            os.kill(worker.pid, signal.SIGHUP)
        before[0].in_four_calls("SELECT 1")
        assert len(list_workers(running)) == 2, "a hangup ends nobody"
