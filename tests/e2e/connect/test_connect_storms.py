"""What hostile and unlucky clients do to a gateway that runs: it stays small, and answers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pyarrow.compute
import pytest

from gateway.wire.connect import METHODS, pb
from tests.e2e.connect import world
from tests.e2e.connect.attacker import recorded_session
from tests.e2e.connect.test_kills import Counter, kill, settings_with_port, tables_of
from tests.e2e.running import RunningGateway, Spark, until
from tests.speed import patience

pytestmark = pytest.mark.in_turn(2)

MEGABYTE = 2**20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(3) + b"\x04" + bytes(5)
GARBAGE = {
    "noise": bytes(range(256)) * 16,
    "http 1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": bytes.fromhex("160301020001"),
    "half a preface": PREFACE[:10],
    "settings, again and again": PREFACE + SETTINGS * 50_000,
    "pings": PREFACE + SETTINGS + (b"\x00\x00\x08\x06" + bytes(13)) * 50_000,
}


@pytest.fixture(scope="module")
def stormy(connect_world: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    running = RunningGateway(settings_with_port(open_directory / "stormy", connect_world)).start()
    yield running
    assert running.stop() == 0


def resident(gateway: RunningGateway) -> int:
    return int(psutil.Process(gateway.pid).memory_info().rss)


def refusal(gateway: RunningGateway, method: str, request: bytes, metadata: Any) -> grpc.StatusCode:
    """Make a call that is refused and return its status."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    found = METHODS[method]
    with grpc.insecure_channel(f"127.0.0.1:{gateway.connect_port}", options=options) as channel:
        call: Any = channel.stream_stream(found.path)(iter([request]), metadata=metadata, timeout=patience())
        with pytest.raises(grpc.RpcError) as refused:
            list(call)
    code: grpc.StatusCode = refused.value.code()
    return code


def answers(gateway: RunningGateway) -> bool:
    request = pb.ConfigRequest(session_id="no id").SerializeToString()
    login = (("authorization", f"Bearer {world.ALLOWED}:{world.PASSWORD}"),)
    return refusal(gateway, "Config", request, login) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_on_the_port_hurts_nobody(stormy: RunningGateway, garbage: bytes) -> None:
    assert answers(stormy)
    before = resident(stormy)
    held = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", stormy.connect_port), timeout=patience(10))
        held.append(connection)
        with contextlib.suppress(OSError):  # thrown out meanwhile
            connection.sendall(garbage)
    assert answers(stormy)
    for connection in held:
        connection.close()
    assert resident(stormy) - before < 64 * MEGABYTE


@pytest.mark.parametrize("method", METHODS)
def test_large_messages_of_strangers_are_not_kept(stormy: RunningGateway, method: str) -> None:
    before = resident(stormy)
    code = refusal(stormy, method, bytes(100 * MEGABYTE), ())
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert resident(stormy) - before < 64 * MEGABYTE


@pytest.mark.timeout(1800)
@pytest.mark.in_turn(2, place=0)
def test_a_client_that_reads_slowly_outlives_kills(stormy: RunningGateway) -> None:
    """Whatever was on its way to it is lost with the gateway, and Spark still has it."""
    with recorded_session(stormy, world.ALLOWED, Counter()) as session:
        rows = 3_000_000
        frame = session.range(0, rows, 1, 20).selectExpr("id", "id * 3 AS a", "concat('row ', id) AS c")
        count = checksum = 0
        for number, part in enumerate(tables_of(frame)):
            count += part.num_rows
            checksum += pyarrow.compute.sum(part.column("id")).as_py()
            if number in (1, 7):
                # Windows and sockets fill up: until nothing more is relayed.
                seen: list[int] = []
                until(lambda seen=seen: still(stormy, seen), "nothing is on its way")  # type: ignore[misc]
                kill(stormy)
        assert (count, checksum) == (rows, rows * (rows - 1) // 2)


def still(gateway: RunningGateway, seen: list[int]) -> bool:
    """Whether the process has sent nothing for half a second."""
    seen.append(psutil.Process(gateway.pid).io_counters().write_chars)
    time.sleep(0.05)
    return len(seen) > 10 and len(set(seen[-10:])) == 1
