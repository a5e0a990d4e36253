"""`sluice serve` as its operators have it: probed from the first moment on, told to reload, told to stop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pyspark
import pytest
import yaml
from impala.dbapi import connect as impyla
from pyhive import hive
from thrift.transport.TSSLSocket import TSSLSocket
from thrift_sasl import TSaslClientTransport

from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from gateway.session.states import STOP_S
from gateway.wire.tcli import TTypeId
from tests.app.certificate_files import make_pair
from tests.app.otlp_collector import TOLD, Collector, collecting
from tests.backends.fake_hive_server import Answer, FakeHiveServer, Fault, Silence
from tests.e2e.running import LoopThread, RunningGateway, until
from tests.speed import patience

PASSWORD = "correct horse battery"
PACK = """
service: spark
policies:
  - name: everybody may begin
    on: {catalog: spark_catalog, database: default}
    allow: [{groups: [public], access: [use]}]
"""
START_S = 2.0


class HoldingSpark(FakeHiveServer):
    """Answers what a gateway asks at its start, and `SELECT 'held-…'` when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.version = pyspark.__version__
        self.silent = False
        """Takes what it is sent, and answers nothing."""
        self.go_on: dict[str, asyncio.Event] = {}
        """By what is held."""
        self.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        self.on(re.compile("SELECT 1 /.*"), Answer.of([("1", TTypeId.INT)], [(1,)]))
        self.on("USE `spark_catalog`.`default`", Answer.done())  # PyHive's first words
        self.on("SHOW DATABASES LIKE 'default'", Answer.text(["default"]))  # whether it is ready
        self.on(re.compile("DESCRIBE TABLE .*"), Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no."))
        self.on(re.compile("SELECT 'held-.*'"), self._held)

    def _held(self, statement: str) -> Answer:
        name = statement.split("'")[1]
        answer = Answer.text([name])
        answer.until = self.go_on[name] = asyncio.Event()
        return answer

    async def _send(self, writer: asyncio.StreamWriter, data: bytes, fault: Fault | None) -> None:
        await super()._send(writer, data, Silence() if self.silent else fault)

    def has(self, name: str) -> bool:
        return name in self.go_on


@pytest.fixture(scope="module")
def spark(session_loop: LoopThread) -> Iterator[HoldingSpark]:
    async def start() -> HoldingSpark:
        made = HoldingSpark()
        await made.start()
        return made

    made = session_loop.run(start())
    yield made
    session_loop.run(made.stop())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Operated(RunningGateway):
    """One whose settings and certificates change; its listener has TLS."""

    @property
    def directory(self) -> Path:
        return self.config.parent

    def settings(self, **sections: dict[str, Any]) -> None:
        made = yaml.safe_load(self.config.read_text())
        for name, section in sections.items():
            made[name] = {**made.get(name, {}), **section}
        self.config.write_text(yaml.safe_dump(made))

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [record for record in list(self.records) if record["event"] == event]

    def signalled(self, number: signal.Signals, event: str, times: int) -> dict[str, Any]:
        """Send a signal, and return what is logged of it, which is the event for the so manieth time."""
        os.kill(self.pid, number)
        until(lambda: len(self.logged(event)) >= times, f"{event}, {times} times")
        return self.logged(event)[times - 1]

    def connect(self) -> hive.Connection:
        # Whose certificate it is, is looked at by itself.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        wire = TSSLSocket(self.host, self.port, ssl_context=context)
        wire.setTimeout(round(patience() * 1000))

        def client() -> Any:
            return hive.get_installed_sasl(self.host, "PLAIN", username="ann", password=PASSWORD)

        try:
            return hive.connect(thrift_transport=TSaslClientTransport(client, "PLAIN", wire), username="ann")
        except Exception:
            if wire.isOpen():  # it may have been closed, and closes once
                wire.close()
            raise

    def connect_over_http(self) -> Any:
        return impyla(
            self.host,
            self.http_port,
            auth_mechanism="LDAP",
            user="ann",
            password=PASSWORD,
            use_http_transport=True,
            http_path="cliservice",
        )

    def shown(self) -> str:
        """Return the certificate that a new connection sees."""
        return ssl.get_server_certificate((self.host, self.port), timeout=patience()).strip()

    @property
    def certificate(self) -> str:
        return (self.directory / "c.pem").read_text().strip()


@pytest.fixture(scope="module")
def collector(session_loop: LoopThread) -> Iterator[Collector]:
    stack = AsyncExitStack()
    yield session_loop.run(stack.enter_async_context(collecting()))
    session_loop.run(stack.aclose())


@pytest.fixture(scope="module")
def operated(open_directory: Path, spark: HoldingSpark, collector: Collector) -> Iterator[Operated]:
    directory = open_directory / "operated"
    directory.mkdir()
    directory.chmod(0o711)
    set_user(directory / "users.yaml", "ann", password=PASSWORD)
    (directory / "pack.yaml").write_text(PACK)
    make_pair(directory)
    settings = {
        "listeners": {
            "thrift": {"port": 0, "tls": {"certificate": "c.pem", "key": "k.pem"}},
            "thrift_http": {"port": 0},
            "admin": {"port": free_port()},
        },
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "policies": {"paths": ["pack.yaml"], "reload_s": 86_400},  # nobody looks but at a signal
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"drain_s": patience(300)},  # what ends the draining is an event
        "logging": {"format": "json"},
        "tracing": {"url": collector.url},
    }
    (directory / "gateway.yaml").write_text(json.dumps(settings))
    running = Operated(directory / "gateway.yaml")
    yield running
    assert running.stop() == 0


class Probing(threading.Thread):
    """Asks whether a gateway is ready until it is; keeps what it was told, and when."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._url = f"http://127.0.0.1:{port}/readyz"
        self._began = time.monotonic()
        self.told: list[tuple[float, int, str]] = []

    def run(self) -> None:
        while not self.told or self.told[-1][1] != 200:
            try:
                with urllib.request.urlopen(self._url, timeout=patience(20)) as answer:
                    status, body = answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    status, body = error.code, error.read().decode()
            except OSError:
                time.sleep(0.02)
                continue
            self.told.append((time.monotonic() - self._began, status, body))
            time.sleep(0.02)


class Asking(threading.Thread):
    """A client with one statement."""

    def __init__(self, connect: Callable[[], Any], statement: str) -> None:
        super().__init__(daemon=True)
        self._connect, self._statement = connect, statement
        self.rows: list[Any] = []
        self.error: Exception | None = None

    def run(self) -> None:
        connection = self._connect()
        try:
            cursor = connection.cursor()
            cursor.execute(self._statement)
            self.rows = cursor.fetchall()
        except Exception as error:  # noqa: BLE001 - whatever the client says
            self.error = error
        finally:
            if isinstance(connection, hive.Connection):
                connection._transport.close()  # its own `close` asks first, and may be cut


@pytest.mark.timeout(900)
def test_a_gateway_is_probed_while_it_starts(operated: Operated) -> None:
    probing = Probing(yaml.safe_load(operated.config.read_text())["listeners"]["admin"]["port"])
    probing.start()
    operated.start()
    probing.join(patience(60))
    first_s, status, body = probing.told[0]
    assert (status, json.loads(body)["parts"]) == (503, {"gateway": "the gateway is starting"})
    assert first_s < patience(START_S)
    assert probing.told[-1][1] == 200
    page = operated.admin("/metrics")[1]
    assert re.search(rf'^sluice_build_info\{{.*spark="{re.escape(pyspark.__version__)}"', page, re.MULTILINE)


@pytest.mark.timeout(900)
def test_a_statement_is_traced_from_its_reading_to_its_rows(operated: Operated, collector: Collector) -> None:
    connection = operated.connect()
    cursor = connection.cursor()
    cursor.execute(f"SELECT 1 /*traceparent='{TOLD}'*/")
    assert cursor.fetchall() == [(1,)]
    connection.close()
    parts = {"ExecuteStatement", "read", "judge", "record", "spark", "FetchResults"}
    until(lambda: collector.of_trace().keys() >= parts, "the collector has its spans")
    assert 'sluice_trace_spans_total{fate="sent"}' in operated.admin("/metrics")[1]


@pytest.mark.timeout(900)
def test_a_hangup_puts_in_force_what_can_be_and_names_the_rest(operated: Operated) -> None:
    operated.settings(logging={"level": "warning"}, logins={"failures": 3}, sessions={"total": 7})
    # What needs a restart is a warning: it is there at this level.
    line = operated.signalled(signal.SIGHUP, "settings_reloaded", 1)
    assert line["needs_restart"] == ["sessions.total"]
    assert set(line["changed"]) == {"logging.level", "logins.failures"}
    good = operated.config.read_text()
    operated.config.write_text("listeners: [\n")
    line = operated.signalled(signal.SIGHUP, "settings_not_reloaded", 1)
    assert "not YAML" in str(line["faults"])
    operated.config.write_text(good)
    operated.settings(logging={"level": "info"})
    operated.signalled(signal.SIGHUP, "settings_reloaded", 2)

    # Certificates: a connection that is there goes on, what cannot be used leaves the last one.
    open_before = operated.connect()
    make_pair(operated.directory, days=90)
    operated.signalled(signal.SIGHUP, "certificate_reloaded", 1)
    new = operated.certificate
    assert operated.shown() == new
    file = operated.directory / "c.pem"
    broken: list[Callable[[], object]] = [
        lambda: file.write_text("garbage"),
        lambda: file.write_text(new[: len(new) // 2]),
        lambda: make_pair(operated.directory, key_name="other.pem"),
        lambda: make_pair(operated.directory, days=-1, since_days=-3),
    ]
    for times, step in enumerate(broken, start=1):
        step()
        line = operated.signalled(signal.SIGHUP, "certificate_not_reloaded", times)
        assert line["listener"] == "thrift"
        assert operated.shown() == new
    make_pair(operated.directory)
    operated.signalled(signal.SIGHUP, "certificate_reloaded", 2)
    assert operated.shown() == operated.certificate
    cursor = open_before.cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]
    open_before.close()


@pytest.mark.timeout(900)
def test_a_gateway_that_is_told_to_stop_drains(
    operated: Operated, spark: HoldingSpark, session_loop: LoopThread
) -> None:
    ways = (operated.connect, operated.connect, operated.connect_over_http, operated.connect_over_http)
    clients = [Asking(way, f"SELECT 'held-{number}'") for number, way in enumerate(ways, 1)]
    ending, cut = clients[::2], clients[1::2]
    idle = operated.connect()
    for number, client in enumerate(clients, 1):
        name = f"held-{number}"
        client.start()
        until(lambda name=name: spark.has(name), "the statement reaches Spark")  # type: ignore[misc]
    os.kill(operated.pid, signal.SIGTERM)
    until(lambda: "the gateway is stopping" in operated.admin("/readyz")[1], "it says that it stops")
    assert operated.admin("/readyz")[0] == 503
    with pytest.raises(hive.OperationalError) as refusal:
        operated.connect()
    for error in (refusal.value, refused(idle, "SELECT 1")):
        answer = error.args[0].status
        assert (answer.sqlState, "[SLUICE_STOPPING]" in answer.errorMessage) == ("57P01", True)
    idle.close()
    os.kill(operated.pid, signal.SIGHUP)  # does no harm now either
    for client, name in zip(ending, ("held-1", "held-3"), strict=True):
        session_loop.loop.call_soon_threadsafe(spark.go_on[name].set)
        client.join(patience())
        assert (client.rows, client.error) == ([(name,)], None)
    # What does not end is waited for until somebody has enough; a Spark that answers nothing holds up nobody.
    spark.silent = True
    os.kill(operated.pid, signal.SIGTERM)
    for client in cut:
        client.join(patience())
        assert "SLUICE_STOPPING" in str(client.error)
    assert operated.process is not None
    assert operated.process.wait(STOP_S + patience(20)) == 0
    spark.silent = False
    operated.settings(sessions={"drain_s": 0})
    operated.start()
    dsn = EmbeddedPostgres(operated.directory / "postgres").dsn
    until(lambda: len(ends(dsn, session_loop)) == len(clients), "all ends are in the record")
    stopped = "the gateway is stopping"
    assert ends(dsn, session_loop) == {"held-1": None, "held-2": stopped, "held-3": None, "held-4": stopped}


def refused(connection: hive.Connection, statement: str) -> hive.OperationalError:
    with pytest.raises(hive.OperationalError) as refusal:
        connection.cursor().execute(statement)
    return refusal.value


ENDS = """
SELECT substring(d.statement from 'held-[0-9]'), e.body->>'error'
FROM sluice.audit_event d JOIN sluice.audit_event e USING (statement_id)
WHERE d.kind = 'decided' AND d.statement LIKE '%held-%' AND e.kind = 'completed'"""


def ends(dsn: str, loop: LoopThread) -> dict[str, str | None]:
    """Return how statements ended, by what they are called."""

    async def ask() -> dict[str, str | None]:
        connection = await asyncpg.connect(dsn)
        try:
            return dict(await connection.fetch(ENDS))
        finally:
            await connection.close()

    return loop.run(ask())
