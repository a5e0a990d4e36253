"""`sluice serve` as its operators have it: probed while it starts, told to reload, told to stop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pyspark
import pytest
from pyhive import hive

from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from gateway.wire.tcli import TTypeId
from tests.backends.fake_hive_server import Answer, FakeHiveServer
from tests.e2e.running import LoopThread, RunningGateway, connect, until
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
    """Answers `SELECT 'held-…'` when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.version = pyspark.__version__
        self.go_on = asyncio.Event()
        self.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        self.on(re.compile("DESCRIBE TABLE .*"), Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] no."))
        self.on(re.compile("SELECT 'held-.*'"), self._held)

    def _held(self, statement: str) -> Answer:
        answer = Answer.text([statement.split("'")[1]])
        answer.until = self.go_on
        return answer

    def has(self, text: str) -> bool:
        return any(text in received.text for received in list(self.statements))


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
    """One whose settings change."""

    def settings(self, **sections: Any) -> dict[str, Any]:
        made = json.loads(self.config.read_text())
        for name, section in sections.items():
            made[name] = {**made.get(name, {}), **section}
        self.config.write_text(json.dumps(made))
        return dict(made)

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [record for record in list(self.records) if record["event"] == event]


@pytest.fixture(scope="module")
def operated(open_directory: Path, spark: HoldingSpark) -> Iterator[Operated]:
    directory = open_directory / "operated"
    directory.mkdir()
    directory.chmod(0o711)
    set_user(directory / "users.yaml", "ann", password=PASSWORD)
    (directory / "pack.yaml").write_text(PACK)
    settings = {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": free_port()}},
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "policies": {"paths": ["pack.yaml"]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"drain_s": patience(120)},
        "logging": {"format": "json"},
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

    def __init__(self, port: int, statement: str) -> None:
        super().__init__(daemon=True)
        self._port, self._statement = port, statement
        self.rows: list[Any] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            connection = connect("127.0.0.1", self._port, "ann", PASSWORD)
            cursor = connection.cursor()
            cursor.execute(self._statement)
            self.rows = cursor.fetchall()
        except Exception as error:  # noqa: BLE001 - whatever the client says
            self.error = error


@pytest.mark.timeout(900)
def test_a_gateway_is_probed_reloaded_drained_and_stopped(
    operated: Operated, spark: HoldingSpark, session_loop: LoopThread
) -> None:
    probing = Probing(json.loads(operated.config.read_text())["listeners"]["admin"]["port"])
    probing.start()
    operated.start()
    probing.join(patience(60))
    first_s, status, body = probing.told[0]
    assert (status, json.loads(body)["parts"]) == (503, {"gateway": "the gateway is starting"})
    assert first_s < patience(START_S)
    assert probing.told[-1][1] == 200
    page = operated.admin("/metrics")[1]
    assert re.search(rf'^sluice_build_info\{{.*spark="{re.escape(pyspark.__version__)}"', page, re.MULTILINE)

    # SIGHUP: what can be is in force, what cannot is named, and files at fault change nothing.
    operated.settings(logging={"level": "warning"}, logins={"failures": 3}, sessions={"total": 7})
    os.kill(operated.pid, signal.SIGHUP)
    until(lambda: bool(operated.logged("settings_reloaded")), "a reload")
    good = operated.config.read_text()
    operated.config.write_text("listeners: [\n")
    os.kill(operated.pid, signal.SIGHUP)
    until(lambda: bool(operated.logged("settings_not_reloaded")), "a refused reload")
    assert "not YAML" in str(operated.logged("settings_not_reloaded")[0]["faults"])
    operated.config.write_text(good)
    operated.settings(logging={"level": "info"})
    os.kill(operated.pid, signal.SIGHUP)
    until(lambda: len(operated.logged("settings_reloaded")) == 2, "another reload")
    assert operated.logged("settings_reloaded")[-1]["needs_restart"] == ["sessions.total"]

    # SIGTERM: what runs goes on, nothing begins, and then it ends.
    client = Asking(operated.port, "SELECT 'held-1'")
    client.start()
    until(lambda: spark.has("held-1"), "the statement reaches Spark")
    os.kill(operated.pid, signal.SIGTERM)
    until(lambda: "the gateway is stopping" in operated.admin("/readyz")[1], "it says that it stops")
    assert operated.admin("/readyz")[0] == 503
    with pytest.raises(hive.OperationalError) as refusal:
        connect("127.0.0.1", operated.port, "ann", PASSWORD)
    answer = refusal.value.args[0].status
    assert (answer.sqlState, "[SLUICE_STOPPING]" in answer.errorMessage) == ("57P01", True)
    os.kill(operated.pid, signal.SIGHUP)  # does no harm now either
    session_loop.loop.call_soon_threadsafe(spark.go_on.set)
    client.join(patience(60))
    assert (client.rows, client.error) == ([("held-1",)], None)
    assert operated.process is not None
    assert operated.process.wait(patience(120)) == 0
    assert operated.logged("drained")[-1]["still_busy"] == 0

    # A statement that does not end in time is cut, and the record says by whom.
    session_loop.loop.call_soon_threadsafe(spark.go_on.clear)
    operated.settings(sessions={"drain_s": 0.2})
    operated.start()
    client = Asking(operated.port, "SELECT 'held-2'")
    client.start()
    until(lambda: spark.has("held-2"), "the statement reaches Spark")
    assert operated.stop() == 0
    client.join(patience(60))
    assert client.error is not None
    assert operated.logged("drained")[-1]["still_busy"] == 1
    operated.start()
    dsn = EmbeddedPostgres(operated.config.parent / "postgres").dsn
    until(lambda: bool(recorded(dsn, session_loop)), "the end is in the record")
    assert recorded(dsn, session_loop) == ["the gateway is stopping"]


ENDS = """
SELECT e.body->>'error' FROM sluice.audit_event d JOIN sluice.audit_event e USING (statement_id)
WHERE d.kind = 'decided' AND d.statement LIKE '%held-2%' AND e.kind = 'completed'"""


def recorded(dsn: str, loop: LoopThread) -> list[str]:
    async def ask() -> list[str]:
        connection = await asyncpg.connect(dsn)
        try:
            return [row[0] for row in await connection.fetch(ENDS)]
        finally:
            await connection.close()

    return loop.run(ask())
