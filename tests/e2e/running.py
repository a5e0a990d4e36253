"""What end-to-end tests run against, and how they talk to it without the gateway's own code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from pyhive import hive
from thrift.transport.TSocket import TSocket
from thrift_sasl import TSaslClientTransport

from gateway.backends.embedded_spark import EmbeddedSpark
from gateway.demo.tour import ENGINEER, PEOPLE
from gateway.model.spark_minors import PLANS, minor_of
from gateway.reader.java_runtime import find_spark_home, spark_version
from tests.patience import be_patient
from tests.speed import patience

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread that lives as long as the test session: what it starts is tied to it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="session-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], quiet_s: float = 300) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(patience(quiet_s))

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(patience(10))
        self.loop.close()


@dataclass(frozen=True)
class Spark:
    """A Spark that anyone may talk to directly; tests compare what the gateway answers with its answers."""

    host: str
    port: int
    """Thrift binary, SASL PLAIN with any password."""
    connect_port: int
    """0 where it has no Spark Connect."""
    user: str
    """The system user that it runs as; empty for our own."""
    connect_token: str
    """What its Spark Connect wants to be shown."""
    directory: Path
    """Its metastore, warehouse and log."""
    pid: int

    @classmethod
    def of(cls, process: EmbeddedSpark) -> Spark:
        """Return what tests need of a Spark that was started."""
        assert process.pid is not None
        return cls(
            host=process.host,
            port=process.thrift_port,
            connect_port=process.connect_port,
            user=process.user,
            connect_token=process.connect_token,
            directory=process.directory,
            pid=process.pid,
        )

    @property
    def log(self) -> Path:
        return self.directory / "spark.log"

    def query(self, *statements: str, user: str = "direct") -> list[tuple[Any, ...]]:
        """Run statements in one session and return the last one's rows."""
        return query(self.host, self.port, user, *statements)

    def backend_settings(self, directory: Path) -> dict[str, Any]:
        """Return a gateway's settings of the doors that it has, the token in a file in `directory`."""
        thrift = {"thrift": {"host": self.host, "port": self.port}}
        if not self.connect_port:
            return thrift
        token = directory / "connect.token"
        token.touch(mode=0o600)
        token.write_text(self.connect_token + "\n")
        return thrift | {
            "connect": {"host": self.host, "port": self.connect_port, "token": {"file": token.name}},
        }

    def session(self, user: str = "direct") -> AbstractContextManager[Any]:
        """A PySpark session straight at Spark, stopped at the end of the block."""
        return connect_session(self.connect_port, self.connect_token, user)


def takes_plans() -> bool:
    """Whether the Spark of the tests is one that plans are given to."""
    return minor_of(spark_version(find_spark_home())) >= PLANS


@contextlib.contextmanager
def connect_session(port: int, token: str, user: str = "", session_id: str = "") -> Iterator[Any]:
    """Yield a new PySpark session at a Spark Connect of this machine; `localhost` gets tokens without TLS.

    With a `session_id` it is the server's session of that id, if there is one.
    """
    from pyspark.sql import SparkSession

    as_user = f";user_id={quote(user, safe='')}" if user else ""
    in_session = f";session_id={session_id}" if session_id else ""
    url = f"sc://localhost:{port}/;token={quote(token, safe='')}{as_user}{in_session}"
    session = SparkSession.builder.remote(url).create()
    try:
        yield session
    finally:
        session.stop()


def connect(host: str, port: int, user: str, password: str | None = None) -> hive.Connection:
    """Connect with PyHive over a socket of ours: its own is left open when a login fails."""

    def client() -> Any:
        return hive.get_installed_sasl(host, "PLAIN", username=user, password=password or "x")

    wire = TSocket(host, port)
    try:
        transport = TSaslClientTransport(client, "PLAIN", wire)
        return hive.connect(thrift_transport=transport, username=user)
    except Exception:
        wire.close()
        raise


def query(host: str, port: int, user: str, *statements: str, password: str | None = None) -> list[Any]:
    """Run statements with PyHive in one session and return the last one's rows."""
    connection = connect(host, port, user, password)
    try:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        # Spark 3.5 says that a command has one column, and then sends none: PyHive trips over that.
        empty = not cursor.description or [name for name, *_ in cursor.description] == ["Result"]
        rows: list[Any] = [] if empty else cursor.fetchall()
        return rows
    finally:
        connection.close()


async def answers(host: str, port: int) -> None:
    """The readiness probe, with a client that shares no code with the gateway."""
    try:
        await asyncio.to_thread(query, host, port, "probe", "SELECT 1")
    except Exception as error:  # whatever PyHive raises means: not yet
        raise ConnectionError(str(error)) from error


PASSWORDS = {person.name: person.password for person in (*PEOPLE, ENGINEER)}


def until(true: Callable[[], bool], what: str, quiet_s: float = 120.0) -> None:
    """Poll until a condition holds; fail with its name when it does not within what `quiet_s` is here."""
    timeout_s = patience(quiet_s)
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


class RunningGateway:
    """`sluice serve` as a process of its own, as an operator runs it.

    `command` is what Python runs; another one may change the code before it runs it.
    """

    host = "127.0.0.1"

    def __init__(self, config: Path, command: Sequence[str] = ("-m", "gateway")) -> None:
        self.config = config
        self.command = command
        self.port = 0
        self.http_port = 0
        self.connect_port = 0
        self.iceberg_rest_port = 0
        self.admin_port = 0
        self.process: subprocess.Popen[str] | None = None
        self.records: list[dict[str, Any]] = []
        self._ready: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def start(self) -> RunningGateway:
        """Start it and return when it says that it is ready."""
        self.be_patient()
        self._ready = queue.Queue()
        self.process = self.launch()
        threading.Thread(target=self._read_log, args=(self.process, self._ready), daemon=True).start()
        record = self._ready.get(timeout=patience(300))
        assert record is not None, f"the gateway did not start: {self.records[-10:]}"
        self.port, self.admin_port = record.get("thrift_port", 0), record["admin_port"]
        self.http_port = record.get("thrift_http_port", 0)
        self.connect_port = record.get("connect_port", 0)
        self.iceberg_rest_port = record.get("iceberg_rest_port", 0)
        return self

    def be_patient(self) -> None:
        """Write into its settings how long it waits on this machine."""
        be_patient(self.config)

    def launch(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *self.command, "serve", "-c", str(self.config)],
            stderr=subprocess.PIPE,
            text=True,
        )

    def _read_log(self, process: subprocess.Popen[str], ready: queue.Queue[dict[str, Any] | None]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                try:
                    record = json.loads(line)
                except ValueError:
                    record = {"event": "not_json", "line": line}
                self.records.append(record)
                if record.get("event") == "gateway_ready":
                    ready.put(record)
        ready.put(None)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(patience())

    def query(self, user: str, *statements: str) -> list[Any]:
        """Run statements as a user of the demo in one session and return the last one's rows."""
        return query(self.host, self.port, user, *statements, password=PASSWORDS[user])

    def session(self, user: str, password: str | None = None) -> AbstractContextManager[Any]:
        """A new PySpark session through the gateway as a user, stopped at the end of the block."""
        return connect_session(self.connect_port, f"{user}:{password or PASSWORDS[user]}")

    def count_events(self, event: str) -> int:
        """Return how often something is in its log."""
        return sum(record.get("event") == event for record in list(self.records))

    def refusal(self, user: str, statement: str) -> str:
        """Return the message that a statement is refused with."""
        try:
            rows = self.query(user, statement)
        except hive.OperationalError as error:
            return str(error.args[0].status.errorMessage)
        raise AssertionError(f"not refused, but answered {rows[:3]}")

    def admin(self, page: str) -> tuple[int, str]:
        """Return status and body of a page of the admin listener."""
        try:
            with urllib.request.urlopen(
                f"http://{self.host}:{self.admin_port}{page}", timeout=patience(20)
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def sluice(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command beside the gateway, with its settings."""
        return subprocess.run(
            [sys.executable, "-m", "gateway", *arguments],
            capture_output=True,
            text=True,
            input=stdin,
            env={**os.environ, "SLUICE_CONFIG": str(self.config)},
            timeout=patience(),
            check=False,
        )
