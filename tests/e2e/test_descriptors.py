"""A gateway with few descriptors, and many who connect and never log in: users are served as before."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyhive.exc import OperationalError

from gateway.wire.calls import TCloseSessionReq
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, session, write_settings
from tests.e2e.running import RunningGateway, Spark, until
from tests.e2e.wire_client import HttpWireClient
from tests.speed import patience

PACK = """
service: spark
policies:
  - name: everybody reads
    on: {catalog: spark_catalog, database: doors, table: "*", column: "*"}
    allow: [{users: [ann], access: [select]}]
"""
LIMIT = 1024
CROWD = 1100
RESERVE = 256
"""Descriptors that no stranger takes: reloads, the record and Spark's side have them, and use some."""
LIMITED = (
    "-c",
    "import resource, runpy;"
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}));"
    "runpy.run_module('gateway', run_name='__main__', alter_sys=True)",
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
BEGUN = {
    "port": b"\x01\x00\x00\x00\x05PLAIN",
    "http_port": b"POST /cliservice HTTP/1.1\r\n",
    "connect_port": PREFACE,
    "admin_port": b"GET /readyz HTTP/1.1\r\n",
}
"""What a client of each listener says first."""
SERVED = (*ENDPOINTS, "thrift_http")
NAMES = {"port": "thrift", "http_port": "thrift_http", "connect_port": "connect", "admin_port": "admin"}


@pytest.fixture(scope="module", autouse=True)
def enough_for_the_crowd() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 8 * CROWD:
        pytest.fail(f"{8 * CROWD} descriptors are needed, and this process may have {limits[1]}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 8 * CROWD), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(
        "CREATE DATABASE doors", "CREATE TABLE doors.t USING parquet AS SELECT 1 AS id", user="loader"
    )
    file = write_settings(
        open_directory / "doors",
        spark,
        PACK,
        {"ann": ()},
        listeners={name: {"port": 0} for name in NAMES.values()},
        # Whoever is in the crowd stays for as long as it is let.
        connections={"first_byte_s": 600},
        logins={"handshake_timeout_s": 600},
        policies={"reload_s": 0.2},
    )
    running = RunningGateway(file, LIMITED).start()
    yield running
    assert running.stop() == 0
    spark.query("DROP DATABASE doors CASCADE", user="loader")


@contextlib.contextmanager
def crowd(port: int, addresses: int, says: bytes) -> Iterator[list[socket.socket]]:
    """Connect from so many addresses, all at once, and say no more than that."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for number in range(CROWD):
            one = stack.enter_context(socket.socket())
            one.settimeout(0)
            one.bind((f"127.0.0.{2 + number % addresses}" if addresses > 1 else "127.0.0.1", 0))
            assert one.connect_ex(("127.0.0.1", port)) in (0, errno.EINPROGRESS)
            sockets.append(one)
        if says:
            for one in sockets:
                one.settimeout(patience(20))
                with contextlib.suppress(OSError):  # it was cut before it could speak
                    one.sendall(says)
        yield sockets


def log_in(gateway: RunningGateway, endpoint: str) -> float:
    """Log in and read; return how long that took."""
    began = time.monotonic()
    if endpoint == "thrift_http":
        with HttpWireClient(gateway.host, gateway.http_port, "ann", PASSWORD) as ann:
            opened = ann.open_session()
            assert ann.result(opened, "SELECT id FROM doors.t").rows == [(1,)]
            ann.call("CloseSession", TCloseSessionReq(sessionHandle=opened))
    else:
        with session(gateway, endpoint, "ann") as ask:
            assert ask("SELECT id FROM doors.t") == [(1,)]
    return time.monotonic() - began


def recorded(gateway: RunningGateway) -> int:
    told = gateway.sluice("audit", "search", "--user", "ann", "--json", "--limit", "1000")
    assert told.returncode == 0, told
    return len(json.loads(told.stdout))


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("speaks", [False, True], ids=["silent", "begun"])
@pytest.mark.parametrize("addresses", [1, 50])
@pytest.mark.parametrize("listener", list(BEGUN))
def test_users_are_served_beside_a_crowd_that_never_logs_in(
    gateway: RunningGateway, listener: str, addresses: int, speaks: bool
) -> None:
    for endpoint in SERVED:
        log_in(gateway, endpoint)
    before = recorded(gateway)
    says = BEGUN[listener] if speaks else b""
    with crowd(getattr(gateway, listener), addresses, says):
        took = {endpoint: log_in(gateway, endpoint) for endpoint in SERVED * 2}
        assert max(took.values()) < patience(5), took
        assert gateway.admin("/healthz")[0] == 200
        assert (
            f'sluice_connections_refused_total{{listener="{NAMES[listener]}"' in gateway.admin("/metrics")[1]
        )
        pack = gateway.config.with_name("pack.yaml")
        for access in ("insert", "select"):
            pack.write_text(PACK.replace("[select]", f"[{access}]"))
            reads = access == "select"
            until(lambda reads=reads: may_read(gateway) is reads, "the change of policies")  # type: ignore[misc]
        assert psutil.Process(gateway.pid).num_fds() <= LIMIT - RESERVE // 2
        until(lambda: recorded(gateway) >= before + 2 * len(SERVED), "the record")


def may_read(gateway: RunningGateway) -> bool:
    with session(gateway, "thrift", "ann") as ann:
        try:
            return ann("SELECT id FROM doors.t") == [(1,)]
        except OperationalError as refused:
            if "ACCESS_DENIED" not in str(refused):
                raise
            return False


@pytest.mark.in_turn(6, place=3)
def test_a_low_limit_is_told_at_the_start(gateway: RunningGateway) -> None:
    (told,) = [one for one in gateway.records if one.get("event") == "descriptors_few"]
    assert told["limit"] == LIMIT
    assert told["wanted"] > 10_000


@pytest.mark.in_turn(6, place=3)
def test_crowds_at_all_listeners_leave_a_reserve(gateway: RunningGateway) -> None:
    with contextlib.ExitStack() as stack:
        for listener, speaks in itertools.product(BEGUN, (b"", None)):
            says = BEGUN[listener] if speaks is None else speaks
            stack.enter_context(crowd(getattr(gateway, listener), 5, says))
        took = [log_in(gateway, endpoint) for endpoint in SERVED]
        assert max(took) < patience(5), took
        assert psutil.Process(gateway.pid).num_fds() <= LIMIT - RESERVE // 2
