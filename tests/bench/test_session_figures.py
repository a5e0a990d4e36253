"""What sessions that do nothing cost, and that many of them can be held."""

from __future__ import annotations

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
