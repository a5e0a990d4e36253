"""One real Spark with the demo's data, and one gateway before it, for each lane of a run."""

from __future__ import annotations

import json
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist import is_xdist_worker

from gateway.app.rules import find_shipped_rules
from gateway.demo.tour import ENGINEER, PEOPLE
from gateway.frontends.users import set_user
from tests.e2e import lab, standing
from tests.e2e.running import LoopThread, RunningGateway, Spark, takes_plans
from tests.e2e.tpch_session import tpch
from tests.e2e.wire_comparison import pair

__all__ = ["pair", "tpch"]


@pytest.fixture(scope="session")
def session_loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def open_directory() -> Iterator[Path]:
    """A new directory that Spark's and PostgreSQL's unprivileged user can reach; pytest's own are closed."""
    directory = Path(tempfile.mkdtemp(prefix="sluice-test-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _leave_no_database(open_directory: Path) -> Iterator[None]:
    """Remove the databases of gateways that have stopped: each is some 40 MB."""
    yield
    for settings in (*open_directory.glob("*/gateway.yaml"), *open_directory.glob("*/*/gateway.yaml")):
        database = settings.with_name("postgres")
        if not (database / "postmaster.pid").exists():
            shutil.rmtree(database, ignore_errors=True)


@pytest.fixture(scope="session")
def spark(session_loop: LoopThread, open_directory: Path, request: pytest.FixtureRequest) -> Iterator[Spark]:
    """A Spark with the demo's tables: the one that `make lab` keeps, or one of this lane's own."""
    kept = None if is_xdist_worker(request) else standing.find()
    if kept is not None:
        standing.tidy(kept)
        yield kept
        standing.tidy(kept)
        return
    process = standing.server(open_directory / "spark", open_directory)
    session_loop.run(process.start())
    try:
        yield standing.loaded(Spark.of(process))
    finally:
        session_loop.run(process.stop())


def write_settings(directory: Path, spark: Spark) -> Path:
    """Write settings, users and a copy of the shipped packs for a gateway before the test session's Spark."""
    directory.mkdir()
    directory.chmod(0o711)
    for person in (*PEOPLE, ENGINEER):
        set_user(
            directory / "users.yaml",
            person.name,
            password=person.password,
            groups=list(person.groups),
            attributes=dict(person.attributes),
        )
    shutil.copytree(find_shipped_rules() / "policies", directory / "policies")
    backend = spark.backend_settings(directory)
    listeners: dict[str, Any] = {name: {"port": 0} for name in ("thrift", "thrift_http", "connect", "admin")}
    listeners["admin"]["console"] = {
        "administrators": [ENGINEER.name],
        "auditor_groups": ["security"],
        "text_reader_groups": ["security"],
    }
    if not takes_plans():
        del backend["connect"], listeners["connect"]
    settings = {
        "listeners": listeners,
        "backend": backend,
        "policies": {"paths": ["policies"], "reload_s": 0.2},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return file


class _Syslog(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.server.got.extend(data)  # type: ignore[attr-defined]


class SyslogServer(socketserver.ThreadingTCPServer):
    """Keeps what it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Syslog)
        self.got = bytearray()


@pytest.fixture(scope="session")
def syslog() -> Iterator[SyslogServer]:
    """A syslog server to which `gateway` forwards its record."""
    with SyslogServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="session")
def gateway(spark: Spark, open_directory: Path, syslog: SyslogServer) -> Iterator[RunningGateway]:
    """A gateway with the demo's users and packs; tests must leave both as they were."""
    file = write_settings(open_directory / "gateway", spark)
    settings = json.loads(file.read_text())
    host, port = syslog.server_address[:2]
    settings["ledger"]["forward"] = [
        {"name": "siem", "transport": "syslog", "host": host, "port": port, "tls": False, "format": "cef"}
    ]
    file.write_text(json.dumps(settings))
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def lab_gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway with the packs of the lab and of TPC-H, before the same Spark."""
    spark.query(*lab.TABLES, user="loader")
    running = RunningGateway(lab.write_settings(open_directory / "lab", spark)).start()
    yield running
    assert running.stop() == 0
