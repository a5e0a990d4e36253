"""Rows through the gateway and directly: speed, the relay's cost, and a slow client."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from gateway.wire.tcli import TOperationHandle
from tests.bench.bare_relay import BareRelay
from tests.bench.figures import Record
from tests.bench.processes import GatewayProcesses, Memory, since
from tests.bench.raw_client import RawClient, Server
from tests.e2e.running import RunningGateway

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SECTION = "Fetch, rows of bigint, int, double and string"
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Opened:
    """The same result, ready to be fetched again and again, directly and through the gateway."""

    rows: int
    straight: RawClient
    through: RawClient
    operations: dict[RawClient, TOperationHandle]


@pytest.fixture(scope="module", params=[1_000_000, 5_000_000], ids=["1M", "5M"])
def result(
    record: Record, direct: Server, governed: Server, quick: bool, request: pytest.FixtureRequest
) -> Iterator[Opened]:
    rows = request.param // (10 if quick else 1)
    sql = (
        "SELECT id, CAST(id % 1000 AS INT) AS i, id * 0.5D AS d, concat('row ', id) AS s "
        f"FROM range(0, {rows}, 1, 2)"
    )
    record.progress(f"Fetch: Spark computes {rows:,} rows, twice")
    with RawClient(direct) as straight, RawClient(governed) as through:
        operations = {client: client.execute(sql) for client in (straight, through)}
        yield Opened(rows, straight, through, operations)
        for client, operation in operations.items():
            client.close(operation)


def fetch_all(client: RawClient, operation: TOperationHandle, max_rows: int) -> tuple[int, int, float]:
    """Fetch a result from its beginning to its end; return rows, bytes and seconds."""
    rows = size = 0
    began = time.perf_counter()
    batch = (-1, 0)
    while batch[0]:
        batch = client.fetch(operation, max_rows, first=not rows)
        rows += batch[0]
        size += batch[1]
    return rows, size, time.perf_counter() - began


@pytest.mark.parametrize("max_rows", [10_000, 100_000])
def test_fetch(record: Record, result: Opened, gateway: RunningGateway, quick: bool, max_rows: int) -> None:
    rounds = 2 if quick else 9 if result.rows <= 1_000_000 else 7
    label = f"{result.rows / 1e6:g}M rows, batches of {max_rows:,}"
    record.begin(f"Fetch: {label}, {rounds} rounds")
    processes, memory = GatewayProcesses(gateway.pid), Memory(gateway.pid)
    for client in (result.straight, result.through):
        fetch_all(client, result.operations[client], max_rows)
    resident = memory.resident_mib
    memory.forget_peak()
    rates: dict[RawClient, list[float]] = {result.straight: [], result.through: []}
    size = 0
    before = processes.cpu()
    for n in range(rounds):
        for client in sorted(rates, key=lambda c: (c is result.through) ^ bool(n % 2)):
            rows, size, took = fetch_all(client, result.operations[client], max_rows)
            assert rows == result.rows
            rates[client].append(rows / took)
    used = since(before, processes.cpu())
    straight, through = rates[result.straight], rates[result.through]
    best = max(through) / max(straight)
    middle = statistics.median(through) / statistics.median(straight)
    relay = used.gateway_s / (rounds * size / 1e9)
    record.add(
        SECTION,
        f"rows/s, {label}",
        f"{best:.2f} × best of {rounds}, {middle:.2f} × medians (direct {max(straight) / 1e6:.2f} M/s = "
        f"{max(straight) * size / result.rows / 1e6:.0f} MB/s, gateway {max(through) / 1e6:.2f} M/s; medians "
        f"{statistics.median(straight) / 1e6:.2f} and {statistics.median(through) / 1e6:.2f})",
        aim="≥ 0.90 ×",
        met=best >= 0.90,
        best_ratio=best,
        median_ratio=middle,
        direct_best_rows_s=max(straight),
        gateway_best_rows_s=max(through),
        direct_median_rows_s=statistics.median(straight),
        gateway_median_rows_s=statistics.median(through),
    )
    record.add(
        SECTION,
        f"relay, {label}",
        f"{relay:.2f} s CPU per GB; memory {resident:.0f} MiB, at its peak {memory.peak_mib:.0f}",
        aim="≤ 0.60 s/GB",
        met=relay <= 0.60,
        cpu_s_per_gb=relay,
        gigabytes=rounds * size / 1e9,
        resident_mib=resident,
        peak_mib=memory.peak_mib,
    )


@pytest.mark.parametrize("max_rows", [10_000, 100_000])
def test_the_floor(
    record: Record, direct: Server, bare: BareRelay, result: Opened, quick: bool, max_rows: int
) -> None:
    """The same result through a relay that does nothing but pass bytes on."""
    rounds = 2 if quick else 5
    label = f"{result.rows / 1e6:g}M rows, batches of {max_rows:,}"
    record.begin(f"Fetch through a bare relay: {label}, {rounds} rounds")
    sql = (
        "SELECT id, CAST(id % 1000 AS INT) AS i, id * 0.5D AS d, concat('row ', id) AS s "
        f"FROM range(0, {result.rows}, 1, 2)"
    )
    straight = result.straight
    with RawClient(Server(bare.host, bare.port, "direct")) as through:
        operations = {straight: result.operations[straight], through: through.execute(sql)}
        took: dict[RawClient, list[float]] = {straight: [], through: []}
        for client, operation in operations.items():
            fetch_all(client, operation, max_rows)
        size, before = 0, bare.cpu_s()
        for n in range(rounds):
            for client in (straight, through) if n % 2 else (through, straight):
                _, size, seconds = fetch_all(client, operations[client], max_rows)
                took[client].append(seconds)
        relay = (bare.cpu_s() - before) / (rounds * size / 1e9)
        through.close(operations[through])
    best = min(took[straight]) / min(took[through])
    middle = statistics.median(took[straight]) / statistics.median(took[through])
    record.add(
        SECTION,
        f"the floor: a bare relay, {label}",
        f"{best:.2f} × best of {rounds}, {middle:.2f} × medians; {relay:.2f} s CPU per GB",
        best_ratio=best,
        median_ratio=middle,
        cpu_s_per_gb=relay,
    )


def test_slow_client(
    record: Record, direct: Server, governed: Server, gateway: RunningGateway, quick: bool
) -> None:
    """One frame of a million rows, read at 2 MB a second: what the client does not take stays in Spark."""
    rows, seconds = (1_000_000, 3.0) if quick else (5_000_000, 8.0)
    record.begin(f"Fetch: a client reads 2 MB/s for {seconds:g} s")
    memory = Memory(gateway.pid)
    with RawClient(governed, receive_buffer_bytes=64 * 1024) as slow, RawClient(governed) as other:
        operation = slow.execute(
            f"SELECT id, id AS b, id * 0.5D AS d, concat('row ', id) AS s FROM range({rows})"
        )
        resident = memory.resident_mib
        memory.forget_peak()
        slow.send_fetch(operation, 1_000_000)
        chunk, taken, peak = 32 * 1024, 0, 0.0
        began = time.perf_counter()
        answered: list[float] = []
        while (elapsed := time.perf_counter() - began) < seconds:
            if taken <= 2e6 * elapsed:
                received = slow.socket.recv(chunk)
                assert received
                taken += len(received)
            elif len(answered) < elapsed:
                answered.append(other.in_four_calls("SELECT 1").total_s)
            else:
                time.sleep(0.005)
        peak = memory.peak_mib
    record.add(
        SECTION,
        "slow client, 2 MB/s",
        f"memory {resident:.0f} MiB, at its peak {peak:.0f} ({taken / 1e6:.0f} MB of a batch of 36 MB taken; "
        f"another client's SELECT 1 meanwhile at worst {1e3 * max(answered):.0f} ms)",
        aim="≤ +16 MiB",
        met=peak - resident <= 16,
        resident_mib=resident,
        peak_mib=peak,
        taken_mb=taken / 1e6,
    )
