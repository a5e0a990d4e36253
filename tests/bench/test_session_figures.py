"""What sessions that do nothing cost, and that many of them can be held."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.frontends.users import set_user
from tests.bench.conftest import PASSWORD
from tests.bench.figures import Record
from tests.bench.processes import GatewayProcesses, Memory, since
from tests.bench.raw_client import RawClient, Server
from tests.bench.stub_spark import StubSpark
from tests.e2e.running import LoopThread, RunningGateway, until
from tests.tpch.governed import POLICIES, UNGOVERNED

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SECTION = "Sessions"
SESSIONS = 500
AT_ONCE = 200
ROUNDS = 3
IDLE, BUSY, EACH = 2000, 200, 20
"""Sessions that do nothing, those that run statements meanwhile, and how many each of these runs."""
STATEMENTS = 5
"""That each of many sessions runs which open at once."""


def open_sessions(server: Server, count: int, stack: ExitStack) -> list[RawClient]:
    """Log in `count` times, each on a connection of its own."""
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(lambda _: RawClient(server), range(count)))
    for client in clients:
        stack.enter_context(client)
    return clients


def held(gateway: RunningGateway) -> int:
    """Return how many sessions the gateway says that it has."""
    status, page = gateway.admin("/metrics")
    assert status == 200
    return int(
        float(next(line.split()[1] for line in page.splitlines() if line.startswith("sluice_sessions ")))
    )


def test_idle_sessions(record: Record, governed: Server, gateway: RunningGateway, quick: bool) -> None:
    count = SESSIONS // 10 if quick else SESSIONS
    memory, processes = Memory(gateway.pid), GatewayProcesses(gateway.pid)
    with ExitStack() as warm_up:
        for client in open_sessions(governed, 20, warm_up):
            client.in_four_calls("SELECT 1")
    until(lambda: held(gateway) == 0, "the first sessions are closed")
    record.begin(f"Sessions: {count} are opened")
    resident, before = memory.resident_mib, processes.cpu()
    with ExitStack() as stack:
        clients = open_sessions(governed, count // 2, stack)
        half = memory.resident_mib
        clients += open_sessions(governed, count - count // 2, stack)
        assert held(gateway) == count
        full = memory.resident_mib
        opening = since(before, processes.cpu())
        answers = [client.in_four_calls("SELECT 1").total_s for client in (clients[0], clients[-1])]
    until(lambda: held(gateway) == 0, "the sessions of connections that are gone are closed", 120)
    # The first ones fill what the start has left free; the second half shows what each costs.
    each_kib = 1024 * (full - half) / (count - count // 2)
    record.add(
        SECTION,
        "memory of an idle session",
        f"{each_kib:.0f} KiB ({resident:.1f} MiB with none, {half:.1f} with {count // 2}, {full:.1f} with "
        f"{count}, {memory.resident_mib:.1f} after their end)",
        kib=each_kib,
        resident_mib=resident,
        half_mib=half,
        full_mib=full,
        after_mib=memory.resident_mib,
    )
    record.add(
        SECTION,
        f"{count} idle sessions held",
        f"yes; the first and the last answer SELECT 1 in {1e3 * max(answers):.0f} ms; "
        f"{1e3 * opening.gateway_s / count:.1f} ms CPU of the gateway to open one",
        aim="500",
        met=count >= 500,
        sessions=count,
        open_cpu_ms=1e3 * opening.gateway_s / count,
    )


def opening_times(server: Server, count: int) -> list[float]:
    """Log in `count` times at once; return the seconds until each had its session."""
    begin = threading.Barrier(count)

    def opened(stack: ExitStack) -> float:
        begin.wait()
        started = time.perf_counter()
        stack.enter_context(RawClient(server))
        return time.perf_counter() - started

    with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        return list(pool.map(opened, [stack] * count))


def test_many_sessions_open_at_once(
    record: Record, direct: Server, governed: Server, gateway: RunningGateway, quick: bool
) -> None:
    count = AT_ONCE // 10 if quick else AT_ONCE
    record.begin(f"Sessions: {count} open at once")
    times: dict[Server, list[float]] = {direct: [], governed: []}
    for _ in range(ROUNDS):
        for server, found in times.items():
            found += opening_times(server, count)
            until(lambda: held(gateway) == 0, "the sessions of connections that are gone are closed", 120)
    ours, theirs = (statistics.median(times[server]) for server in (governed, direct))
    record.add(
        SECTION,
        f"{count} sessions open at once",
        f"{ours / theirs:.2f} × direct (p50 {ours:.2f} s, direct {theirs:.2f} s)",
        ratio=ours / theirs,
        ours_s=ours,
        direct_s=theirs,
    )


@pytest.fixture
def stubbed(directory: Path) -> Iterator[RunningGateway]:
    """A gateway before a Spark that costs nothing."""

    async def start() -> StubSpark:
        made = StubSpark()
        await made.start()
        return made

    thread = LoopThread()
    spark = thread.run(start())
    home = directory / "stubbed"
    home.mkdir(mode=0o711)
    set_user(home / "users.yaml", UNGOVERNED.user, password=PASSWORD, groups=sorted(UNGOVERNED.groups))
    settings = {
        "listeners": {"thrift": {"port": 0, "connections": 2 * IDLE}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "policies": {"paths": [str(POLICIES)]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"per_user": 2 * IDLE},
        "logging": {"format": "json"},
    }
    (home / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(home / "gateway.yaml").start()
    yield running
    assert running.stop() == 0
    thread.run(spark.stop())
    thread.close()


def test_busy_sessions_beside_idle_ones(record: Record, stubbed: RunningGateway, quick: bool) -> None:
    idle, busy = (count // 10 if quick else count for count in (IDLE, BUSY))
    server = Server(stubbed.host, stubbed.port, UNGOVERNED.user, PASSWORD)
    memory = Memory(stubbed.pid)
    record.begin(f"Sessions: {idle} idle and {busy} busy ones")

    def work(client: RawClient) -> list[float]:
        return [client.in_five_calls("SELECT 1").total_s for _ in range(EACH)]

    with ExitStack() as stack:
        open_sessions(server, idle, stack)
        resident = memory.resident_mib
        working = open_sessions(server, busy, stack)
        began = time.perf_counter()
        with ThreadPoolExecutor(busy) as pool:
            times = sorted(one for found in pool.map(work, working) for one in found)
        took_s = time.perf_counter() - began
        assert held(stubbed) == idle + busy
        peak = memory.peak_mib
    p50, p99 = 1e3 * statistics.median(times), 1e3 * times[len(times) * 99 // 100]
    record.add(
        SECTION,
        f"{idle} idle and {busy} busy sessions on one gateway, before a stub Spark",
        f"{peak:.0f} MiB at most ({resident:.0f} with the idle ones); {len(times) / took_s:.0f} statements a "
        f"second, p50 {p50:.0f} ms, p99 {p99:.0f} ms",
        aim="400 MiB",
        met=peak <= 400,
        mib=peak,
        statements_s=len(times) / took_s,
    )


def run_at_once(server: Server, count: int) -> tuple[list[float], int]:
    """Log in `count` times at once and run statements in each session; return the seconds of each session,
    and how many failed."""
    begin = threading.Barrier(count)

    def run(stack: ExitStack) -> float | None:
        begin.wait()
        started = time.perf_counter()
        try:
            client = RawClient(server)
            stack.enter_context(client)
            for _ in range(STATEMENTS):
                client.in_five_calls("SELECT 1")
        except (OSError, AssertionError):
            return None
        return time.perf_counter() - started

    with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        found = list(pool.map(run, [stack] * count))
    return [one for one in found if one is not None], found.count(None)


def test_many_sessions_at_once_complete_their_statements(
    record: Record, direct: Server, governed: Server, gateway: RunningGateway, quick: bool
) -> None:
    count = AT_ONCE // 10 if quick else AT_ONCE
    record.begin(f"Sessions: {count} open at once and run {STATEMENTS} statements each")
    times: dict[Server, list[float]] = {direct: [], governed: []}
    failed = dict.fromkeys(times, 0)
    for _ in range(ROUNDS):
        for server, found in times.items():
            seconds, lost = run_at_once(server, count)
            found += seconds
            failed[server] += lost
            until(lambda: held(gateway) == 0, "the sessions of connections that are gone are closed", 120)
    ours, theirs = (sorted(times[server])[len(times[server]) * 99 // 100] for server in (governed, direct))
    record.add(
        SECTION,
        f"{count} sessions opened at once, {STATEMENTS} statements each",
        f"p99 {ours / theirs:.2f} × direct ({ours:.2f} s, direct {theirs:.2f} s); {failed[governed]} of "
        f"{ROUNDS * count} failed, direct {failed[direct]}",
        aim="none failed that direct completes; p99 1.15 × direct",
        met=failed[governed] <= failed[direct] and ours <= 1.15 * theirs,
        ratio=ours / theirs,
        failed=failed[governed],
        failed_direct=failed[direct],
    )
