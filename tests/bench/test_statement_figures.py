"""`SELECT 1` through the gateway and directly, one after the other, and what the gateway spends on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.bench.bare_relay import BareRelay
from tests.bench.figures import Record, median_ms, p95_ms
from tests.bench.processes import GatewayProcesses, since
from tests.bench.raw_client import Laps, RawClient, Server
from tests.e2e.running import RunningGateway

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SECTION = "SELECT 1 over Thrift, warm"
CLIENTS = 50
Run = Callable[[RawClient, int], Laps]

SHAPES: dict[str, tuple[Run, str]] = {
    "4 calls (PyHive)": (lambda client, _: client.in_four_calls("SELECT 1"), "≤ 1.10 ×"),
    "5 calls (JDBC)": (lambda client, _: client.in_five_calls("SELECT 1"), "≤ 1.10 ×"),
    "4 calls, never judged before": (lambda client, n: client.in_four_calls(f"SELECT 1 -- {n}"), ""),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_select_one(
    record: Record, direct: Server, governed: Server, gateway: RunningGateway, quick: bool, shape: str
) -> None:
    run, aim = SHAPES[shape]
    warm_up, count = (20, 40) if quick else (150, 400)
    record.begin(f"SELECT 1, {shape}: {warm_up} + {count} pairs")
    processes = GatewayProcesses(gateway.pid)
    with RawClient(direct) as straight, RawClient(governed) as through:
        for n in range(warm_up):
            run(straight, n)
            run(through, n)
        direct_laps: list[Laps] = []
        gateway_laps: list[Laps] = []
        before = processes.cpu()
        for n in range(warm_up, warm_up + count):
            # Whoever comes second finds warmer caches: they take turns.
            pair = ((straight, direct_laps), (through, gateway_laps))
            for client, laps in pair if n % 2 else reversed(pair):
                laps.append(run(client, n))
        used = since(before, processes.cpu())
    without = [laps.total_s for laps in direct_laps]
    with_ = [laps.total_s for laps in gateway_laps]
    calls = {
        call: (
            median_ms([laps[call] for laps in direct_laps]),
            median_ms([laps[call] for laps in gateway_laps]),
        )
        for call in direct_laps[0]
    }
    ratio = median_ms(with_) / median_ms(without)
    added = median_ms([a - b for a, b in zip(with_, without, strict=True)])
    record.add(
        SECTION,
        f"p50, {shape}",
        f"{ratio:.2f} × (direct {median_ms(without):.2f} ms, gateway {median_ms(with_):.2f} ms, "
        f"median of the pairs' differences {added:+.2f} ms; p95 {p95_ms(without):.1f} and "
        f"{p95_ms(with_):.1f} ms; fastest {1e3 * min(without):.2f} and {1e3 * min(with_):.2f} ms)",
        aim=aim,
        met=ratio <= 1.10 if aim else None,
        ratio=ratio,
        direct_p50_ms=median_ms(without),
        gateway_p50_ms=median_ms(with_),
        direct_p95_ms=p95_ms(without),
        gateway_p95_ms=p95_ms(with_),
        added_ms=added,
        statements=count,
    )
    record.add(
        SECTION,
        f"p50 of each call, {shape}",
        "direct and gateway: "
        + ", ".join(f"{call} {a:.2f} and {b:.2f} ms" for call, (a, b) in calls.items()),
        numbers={f"{call}_added_ms": b - a for call, (a, b) in calls.items()},
    )
    record.add(
        SECTION,
        f"CPU of a statement, {shape}",
        f"gateway {1e3 * used.gateway_s / count:.2f} ms, parser {1e3 * used.reader_s / count:.2f} ms, "
        f"PostgreSQL {1e3 * used.postgres_s / count:.2f} ms",
        gateway_ms=1e3 * used.gateway_s / count,
        reader_ms=1e3 * used.reader_s / count,
        postgres_ms=1e3 * used.postgres_s / count,
    )


def test_the_floor(record: Record, direct: Server, bare: BareRelay, quick: bool) -> None:
    """What is left of the ratio when a relay does nothing but pass bytes on."""
    warm_up, count = (20, 40) if quick else (150, 400)
    record.begin(f"SELECT 1 through a bare relay: {warm_up} + {count} pairs")
    with RawClient(direct) as straight, RawClient(Server(bare.host, bare.port, "direct")) as through:
        took: dict[RawClient, list[float]] = {straight: [], through: []}
        before = 0.0
        for n in range(warm_up + count):
            if n == warm_up:
                took, before = {straight: [], through: []}, bare.cpu_s()
            for client in (straight, through) if n % 2 else (through, straight):
                took[client].append(client.in_four_calls("SELECT 1").total_s)
        cpu_ms = 1e3 * (bare.cpu_s() - before) / count
    direct_ms, bare_ms = median_ms(took[straight]), median_ms(took[through])
    record.add(
        SECTION,
        "the floor: a bare relay, 4 calls",
        f"{bare_ms / direct_ms:.2f} × (direct {direct_ms:.2f} ms, bare {bare_ms:.2f} ms; CPU of the relay "
        f"{cpu_ms:.2f} ms)",
        ratio=bare_ms / direct_ms,
        cpu_ms=cpu_ms,
    )


def test_many_clients(record: Record, direct: Server, governed: Server, bare: BareRelay, quick: bool) -> None:
    """So many clients at once, each with a session and a connection of its own."""
    clients, each, rounds = (10, 4, 1) if quick else (CLIENTS, 12, 3)

    def rate(server: Server) -> float:
        with ExitStack() as stack, ThreadPoolExecutor(clients) as pool:
            opened = [stack.enter_context(RawClient(server)) for _ in range(clients)]

            def ask(client: RawClient) -> int:
                return len([client.in_four_calls("SELECT 1") for _ in range(each)])

            list(pool.map(ask, opened))
            began = time.perf_counter()
            return sum(pool.map(ask, opened)) / (time.perf_counter() - began)

    record.begin(f"SELECT 1: {clients} clients at once, {rounds} times on either side")
    relayed = Server(bare.host, bare.port, "direct")
    rates: dict[Server, list[float]] = {direct: [], governed: [], relayed: []}
    for n in range(rounds):
        for server in (direct, relayed, governed) if n % 2 else (governed, relayed, direct):
            rates[server].append(rate(server))
    straight, through, floor = (max(rates[server]) for server in (direct, governed, relayed))
    record.add(
        SECTION,
        f"{clients} clients at once",
        f"{through:.0f} statements/s, {through / straight:.2f} × (directly {straight:.0f}; a bare relay "
        f"{floor / straight:.2f} ×); no error",
        aim="≥ 0.95 ×",
        met=through >= 0.95 * straight,
        ratio=through / straight,
        statements_s=through,
        direct_statements_s=straight,
        bare_statements_s=floor,
        clients=clients,
    )
