"""What sessions that do nothing cost, and that many of them can be held."""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.bench.figures import Record
from tests.bench.processes import GatewayProcesses, Memory, since
from tests.bench.raw_client import RawClient, Server
from tests.e2e.running import RunningGateway, until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SECTION = "Sessions"
SESSIONS = 500
AT_ONCE = 200
ROUNDS = 3


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
