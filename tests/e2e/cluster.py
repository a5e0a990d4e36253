"""Gateways that share a PostgreSQL, behind haproxy and before two Sparks; each of them can be killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import psutil

from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from gateway.wire.tcli import TSessionHandle
from tests.e2e.running import LoopThread, RunningGateway, until
from tests.e2e.wire_client import StatusError, WireClient
from tests.speed import patience

HOST = "127.0.0.1"
PASSWORD = "correct horse battery"
BALANCER = """
global
  maxconn 2000
defaults
  mode tcp
  timeout connect 500ms
  timeout check 500ms
  timeout client 1h
  timeout server 1h
  retries 3
  option redispatch 1
listen gateways
  bind {host}:{port}
  balance roundrobin
  option httpchk GET /readyz
  default-server check inter 200ms fall 2 rise 1
{gateways}
"""
"""Open connections stay with a gateway that is not ready any more: it drains."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def find_haproxy() -> str | None:
    """Return the balancer's program; `apt-get install haproxy` has it."""
    return shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")


class KillableSpark(Protocol):
    """One of the Sparks."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...

    def kill(self) -> None:
        """End it at once, with all connections."""

    def start_again(self) -> None:
        """Have it answer at the same address."""


class Cluster:
    """PostgreSQL, gateways and the balancer. `start` and `stop` block."""

    def __init__(
        self, directory: Path, loop: LoopThread, sparks: Sequence[KillableSpark], pack: str, gateways: int = 3
    ) -> None:
        self.directory = directory
        self.sparks = list(sparks)
        self._loop = loop
        self._pack = pack
        self._admin = free_ports(gateways)
        self._ports = free_ports(gateways)
        (self.port,) = free_ports(1)
        """Where clients connect."""
        self.postgres = EmbeddedPostgres(directory / "postgres")
        self.gateways: list[RunningGateway] = []
        self._balancer: subprocess.Popen[bytes] | None = None

    def start(self, users: Sequence[str]) -> None:
        """Start all, with users who all have the same password."""
        self.directory.mkdir()
        self.directory.chmod(0o711)
        for user in users:
            set_user(self.directory / "users.yaml", user, password=PASSWORD)
        (self.directory / "pack.yaml").write_text(self._pack)
        dsn = self.directory / "dsn"
        dsn.touch(mode=0o600)
        dsn.write_text(self.postgres.start(patience(60)))
        self._loop.run(self._supervise())
        self._start_balancer()
        for number, (port, admin) in enumerate(zip(self._ports, self._admin, strict=True), 1):
            settings = {
                "listeners": {"thrift": {"port": port}, "admin": {"port": admin}},
                "backends": {
                    f"spark{number}": {
                        "thrift": {"host": spark.host, "port": spark.port},
                        "metastore": "lake",
                    }
                    for number, spark in enumerate(self.sparks, 1)
                },
                "policies": {"paths": ["pack.yaml"]},
                "users": {"file": "users.yaml"},
                "ledger": {"directory": f"ledger-{number}", "dsn": {"file": "dsn"}},
                "logging": {"format": "json"},
            }
            file = self.directory / f"gateway-{number}.yaml"
            file.write_text(json.dumps(settings))
            self.gateways.append(RunningGateway(file).start())
        until(self.is_ready, "every gateway in the balancer", 300)

    async def _supervise(self) -> None:
        self._supervising = self._loop.loop.create_task(self.postgres.supervise(0.1))

    def _start_balancer(self) -> None:
        program = find_haproxy()
        assert program is not None, "install haproxy"
        gateways = "\n".join(
            f"  server g{number} {HOST}:{port} check port {admin}"
            for number, (port, admin) in enumerate(zip(self._ports, self._admin, strict=True), 1)
        )
        file = self.directory / "haproxy.cfg"
        file.write_text(BALANCER.format(host=HOST, port=self.port, gateways=gateways))
        self._balancer = subprocess.Popen(
            [program, "-db", "-f", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def is_ready(self) -> bool:
        """Whether every gateway says that it is ready, and has sessions for every Spark."""
        return all(map(self._is_ready, self.gateways))

    def _is_ready(self, gateway: RunningGateway) -> bool:
        try:
            status, _ = gateway.admin("/readyz")
            _, metrics = gateway.admin("/metrics")
        except OSError:
            return False
        up = re.findall(r"^sluice_backend_up\{.*\} 1\.0$", metrics, re.MULTILINE)
        return status == 200 and len(up) == len(self.sparks)

    def stop(self) -> list[int]:
        """Stop everything; return the exit codes of the gateways."""
        codes = [gateway.stop() for gateway in self.gateways]
        if self._balancer is not None:
            self._balancer.kill()
            self._balancer.wait()
        self.postgres.stop()
        return codes

    # -- killing -------------------------------------------------------------------------------------------

    def kill_gateway(self, number: int) -> Callable[[], None]:
        """Kill a gateway; return what starts it again."""
        gateway = self.gateways[number]
        assert gateway.stop(signal.SIGKILL) == -signal.SIGKILL

        def start_again() -> None:
            gateway.start()

        return start_again

    def upgrade_gateway(self, number: int) -> None:
        """Stop a gateway in order, and start it again."""
        gateway = self.gateways[number]
        assert gateway.stop() == 0
        gateway.start()

    def kill_reader(self, number: int) -> None:
        """Kill the parser of a gateway, which has another one then."""

        def find() -> int | None:
            children = psutil.Process(self.gateways[number].pid).children()
            return next((c.pid for c in children if "sluice.ReaderMain" in command_of(c)), None)

        until(lambda: find() is not None, "a reader to kill", 300)
        pid = find()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: find() not in (None, pid), "another reader", 300)

    def kill_postgres(self) -> None:
        """Kill PostgreSQL, which is started again."""
        until(lambda: self.postgres.pid is not None, "a PostgreSQL to kill", 300)
        pid = self.postgres.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.postgres.pid not in (None, pid), "another PostgreSQL", 300)


def command_of(process: psutil.Process) -> list[str]:
    """Return its command line; nothing when it has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class NewSessions:
    """Opens one new session after the other through the balancer, and notes for how long none could be."""

    def __init__(self, port: int, user: str) -> None:
        self._port = port
        self._user = user
        self._over = threading.Event()
        self.opened = 0
        self.failed = 0
        self.last_failure = ""
        self._since = self._begun = 0.0
        self._is_open = False
        """Whether the session of now is open, and only its statement is waited for."""
        self._longest_s = self._longest_open_s = 0.0
        self.slowest = ""
        """What the longest wait was made of."""
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(patience(300))
        assert not self._thread.is_alive()

    def _work(self) -> None:
        for number in itertools.count():
            begun = self._begun = started = opened = time.monotonic()
            self._is_open = False
            failed = self.failed
            while not self._over.is_set():
                started = time.monotonic()
                try:
                    with WireClient(HOST, self._port, self._user, PASSWORD, quiet_s=10) as client:
                        session = client.open_session()
                        opened = time.monotonic()
                        self._is_open = True
                        self._longest_open_s = max(self._longest_open_s, opened - max(begun, self._since))
                        self.ask(client, session, number)
                    self.opened += 1
                    break
                except (OSError, StatusError) as error:
                    self._is_open = False
                    self.failed += 1
                    self.last_failure = repr(error)
                    self._over.wait(0.02)
            if self._over.is_set():
                return
            waited = time.monotonic() - max(begun, self._since)
            if waited > self._longest_s:
                self._longest_s = waited
                self.slowest = (
                    f"{self.failed - failed} tries failed in {started - begun:.2f} s, session "
                    f"{opened - started:.2f} s, statement {time.monotonic() - opened:.2f} s"
                )
            self._begun = 0.0
            self._over.wait(0.2)

    @property
    def longest_s(self) -> float:
        """The longest time from the begin of an attempt to the end of one that went well, also of one that
        waits now."""
        return max(self._longest_s, self._waiting_s)

    @property
    def longest_open_s(self) -> float:
        """The same until a session was open: its statement waits for Spark's processors, whoever was
        killed."""
        return max(self._longest_open_s, 0.0 if self._is_open else self._waiting_s)

    @property
    def _waiting_s(self) -> float:
        begun = self._begun
        return time.monotonic() - max(begun, self._since) if begun else 0.0

    def begin(self) -> None:
        """Count anew, once a session could be opened: what was before does not count."""
        before = self.opened
        until(lambda: self.opened > before, "a new session", 300)
        self._longest_s, self._longest_open_s, self.slowest = 0.0, 0.0, ""
        self._since = time.monotonic()

    def ask(self, client: WireClient, session: TSessionHandle, number: int) -> None:
        """Do something in a new session."""


@contextlib.contextmanager
def running(cluster: Cluster, users: Sequence[str]) -> Iterator[Cluster]:
    """Have a cluster up within."""
    try:
        cluster.start(users)
        yield cluster
    finally:
        codes = cluster.stop()
    assert codes == [0] * len(codes)
