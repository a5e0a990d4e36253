"""Spark Connect through the gateway and directly, with PySpark: rows to pandas, small calls, many clients."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.backends.embedded_spark import EmbeddedSpark
from tests.bench.bare_relay import BareRelay
from tests.bench.conftest import PASSWORD
from tests.bench.figures import Record, median_ms, p95_ms
from tests.bench.processes import GatewayProcesses, Memory, since
from tests.e2e.running import RunningGateway, connect_session
from tests.tpch.governed import UNGOVERNED

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

SECTION = "Spark Connect"
CLIENTS = 50
GROWTH_MIB = 16.0
Session = Any
"""A PySpark session."""
Call = Callable[[Session], object]


@dataclass(frozen=True, slots=True)
class Doors:
    """Spark's own Connect, and the gateway before it."""

    spark: EmbeddedSpark
    gateway: RunningGateway

    def session(self, *, through: bool) -> Any:
        """Return a new session as a context manager."""
        if through:
            return connect_session(self.gateway.connect_port, f"{UNGOVERNED.user}:{PASSWORD}")
        return connect_session(self.spark.connect_port, self.spark.connect_token, "direct")

    def relayed_bytes(self) -> float:
        status, page = self.gateway.admin("/metrics")
        assert status == 200
        lines = (line.split() for line in page.splitlines())
        return next(float(line[1]) for line in lines if line[:1] == ["sluice_relayed_bytes_total"])


@pytest.fixture(scope="module")
def doors(spark: EmbeddedSpark, connect_gateway: RunningGateway) -> Doors:
    made = Doors(spark, connect_gateway)
    with made.session(through=False) as session:
        session.sql("CREATE DATABASE bench_connect").collect()
        session.sql("CREATE TABLE bench_connect.some (id BIGINT, name STRING) USING parquet").collect()
    return made


@pytest.fixture(scope="module")
def pair(doors: Doors) -> Iterator[tuple[Session, Session]]:
    """A session directly and one through the gateway."""
    with doors.session(through=False) as straight, doors.session(through=True) as through:
        yield straight, through


def seconds(call: Call, session: Session) -> float:
    began = time.perf_counter()
    call(session)
    return time.perf_counter() - began


def test_rows_to_pandas(record: Record, doors: Doors, pair: tuple[Session, Session], quick: bool) -> None:
    rows, rounds = (500_000, 3) if quick else (5_000_000, 9)
    straight, through = pair
    text = (
        "SELECT id, CAST(id % 1000 AS INT) AS i, id * 0.5D AS d, concat('row ', id) AS s "
        f"FROM range(0, {rows}, 1, 2)"
    )

    def fetch(session: Session) -> float:
        began = time.perf_counter()
        frame = session.sql(text).toPandas()
        took = time.perf_counter() - began
        assert len(frame) == rows
        return took

    record.begin(f"Spark Connect: {rows:,} rows to pandas, {rounds} rounds")
    for session in (straight, through):
        fetch(session)
    processes, memory = GatewayProcesses(doors.gateway.pid), Memory(doors.gateway.pid)
    memory.forget_peak()
    took: dict[bool, list[float]] = {False: [], True: []}
    resident: list[float] = []
    before, relayed = processes.cpu(), doors.relayed_bytes()
    for n in range(rounds):
        # Whoever comes second finds warmer caches: they take turns.
        for is_through in (False, True) if n % 2 else (True, False):
            took[is_through].append(fetch(through if is_through else straight))
        resident.append(memory.resident_mib)
    used, gigabytes = since(before, processes.cpu()), (doors.relayed_bytes() - relayed) / 1e9
    best = min(took[False]) / min(took[True])
    middle = statistics.median(took[False]) / statistics.median(took[True])
    label = f"{rows / 1e6:g}M rows × 4 columns to pandas"
    record.add(
        SECTION,
        label,
        f"{best:.2f} × best of {rounds}, {middle:.2f} × medians (direct {min(took[False]):.2f} s, gateway "
        f"{min(took[True]):.2f} s; medians {statistics.median(took[False]):.2f} and "
        f"{statistics.median(took[True]):.2f} s)",
        aim="≥ 0.90 ×",
        met=best >= 0.90,
        best_ratio=best,
        median_ratio=middle,
        direct_best_s=min(took[False]),
        gateway_best_s=min(took[True]),
        direct_median_s=statistics.median(took[False]),
        gateway_median_s=statistics.median(took[True]),
    )
    relay = used.gateway_s / gigabytes
    record.add(
        SECTION,
        f"relay, {label}",
        f"{relay:.2f} s CPU per GB of results ({gigabytes / rounds * 1e3:.0f} MB a round)",
        aim="≤ 1.3 s/GB",
        met=relay <= 1.3,
        cpu_s_per_gb=relay,
        gigabytes=gigabytes,
    )
    third = rounds // 3
    first, last = statistics.mean(resident[:third]), statistics.mean(resident[-third:])
    record.add(
        SECTION,
        f"memory, {label}",
        f"{last - first:+.1f} MiB from the first third of the rounds to the last ({first:.0f} to {last:.0f} "
        f"MiB, at its peak {memory.peak_mib:.0f})",
        aim=f"≤ +{GROWTH_MIB:g} MiB",
        met=last - first <= GROWTH_MIB,
        growth_mib=last - first,
        resident_mib=last,
        peak_mib=memory.peak_mib,
    )


CALLS: dict[str, tuple[Call, float]] = {
    "SELECT 1": (lambda session: session.sql("SELECT 1").collect(), 1.25),
    "df.schema": (lambda session: session.table("bench_connect.some").schema, 2.2),
}


@pytest.mark.parametrize("name", CALLS)
def test_small_calls(
    record: Record, doors: Doors, pair: tuple[Session, Session], quick: bool, name: str
) -> None:
    call, aim = CALLS[name]
    warm_up, count = (20, 40) if quick else (100, 300)
    record.begin(f"Spark Connect: {name}, {warm_up} + {count} pairs")
    processes = GatewayProcesses(doors.gateway.pid)
    took: dict[bool, list[float]] = {False: [], True: []}
    before = processes.cpu()
    for n in range(warm_up + count):
        if n == warm_up:
            took, before = {False: [], True: []}, processes.cpu()
        for is_through in (False, True) if n % 2 else (True, False):
            took[is_through].append(seconds(call, pair[is_through]))
    used = since(before, processes.cpu())
    direct_ms, gateway_ms = median_ms(took[False]), median_ms(took[True])
    ratio = gateway_ms / direct_ms
    record.add(
        SECTION,
        f"p50, {name}",
        f"{ratio:.2f} × (direct {direct_ms:.2f} ms, gateway {gateway_ms:.2f} ms; p95 "
        f"{p95_ms(took[False]):.1f} and {p95_ms(took[True]):.1f} ms; fastest {1e3 * min(took[False]):.2f} "
        f"and {1e3 * min(took[True]):.2f} ms; CPU of the gateway {1e3 * used.gateway_s / count:.2f} ms, of "
        f"the parser {1e3 * used.reader_s / count:.2f} ms)",
        aim=f"≤ {aim:g} ×",
        met=ratio <= aim,
        ratio=ratio,
        direct_p50_ms=direct_ms,
        gateway_p50_ms=gateway_ms,
        direct_p95_ms=p95_ms(took[False]),
        gateway_p95_ms=p95_ms(took[True]),
        gateway_cpu_ms=1e3 * used.gateway_s / count,
        calls=count,
    )


def test_the_floor(
    record: Record, doors: Doors, pair: tuple[Session, Session], bare_connect: BareRelay, quick: bool
) -> None:
    """The same calls and rows through a relay of gRPC's messages that does nothing else."""
    warm_up, count, rows, rounds = (20, 40, 500_000, 3) if quick else (60, 200, 5_000_000, 5)
    straight, governed = pair
    text = (
        "SELECT id, CAST(id % 1000 AS INT) AS i, id * 0.5D AS d, concat('row ', id) AS s "
        f"FROM range(0, {rows}, 1, 2)"
    )
    # The gateway tells how many bytes such a result has.
    relayed = doors.relayed_bytes()
    governed.sql(text).toPandas()
    gigabytes = (doors.relayed_bytes() - relayed) / 1e9
    with connect_session(bare_connect.port, doors.spark.connect_token, "direct") as through:
        asked: dict[str, tuple[Call, int, int]] = {
            "SELECT 1": (CALLS["SELECT 1"][0], warm_up, count),
            f"{rows / 1e6:g}M rows × 4 columns to pandas": (lambda one: one.sql(text).toPandas(), 1, rounds),
        }
        for name, (call, warm, times) in asked.items():
            record.begin(f"Spark Connect through a bare relay: {name}, {times} pairs")
            took: dict[bool, list[float]] = {False: [], True: []}
            before = 0.0
            for n in range(warm + times):
                if n == warm:
                    took, before = {False: [], True: []}, bare_connect.cpu_s()
                for is_through in (False, True) if n % 2 else (True, False):
                    took[is_through].append(seconds(call, through if is_through else straight))
            used = bare_connect.cpu_s() - before
            ratio = statistics.median(took[True]) / statistics.median(took[False])
            many = name != "SELECT 1"
            cpu = used / times / gigabytes if many else 1e3 * used / times
            shown = f"{1 / ratio:.2f} × medians" if many else f"{ratio:.2f} ×"
            record.add(
                SECTION,
                f"the floor: a bare relay, {name}",
                f"{shown}; {cpu:.2f} {'s CPU per GB' if many else 'ms CPU'}",
                ratio=ratio,
                cpu=cpu,
            )


def test_many_clients(record: Record, doors: Doors, bare_connect: BareRelay, quick: bool) -> None:
    """So many clients at once, each with a session and a connection of its own."""
    clients, each, rounds = (10, 4, 1) if quick else (CLIENTS, 12, 2)
    errors: list[str] = []

    def ask(session: Session) -> int:
        answered = 0
        for _ in range(each):
            try:
                assert session.sql("SELECT 1").collect()[0][0] == 1
                assert len(session.table("bench_connect.some").schema) == 2
                answered += 2
            except Exception as error:  # noqa: BLE001  whatever it is, it is the figure
                errors.append(f"{type(error).__name__}: {str(error)[:100]}")
        return answered

    ways: dict[str, Callable[[], Any]] = {
        "directly": lambda: doors.session(through=False),
        "through a bare relay": lambda: connect_session(
            bare_connect.port, doors.spark.connect_token, "direct"
        ),
        "through the gateway": lambda: doors.session(through=True),
    }

    def rate(way: str) -> float:
        record.begin(f"Spark Connect: {clients} clients at once, {way}")
        with ExitStack() as stack, ThreadPoolExecutor(clients) as pool:
            opened = list(pool.map(lambda _: ways[way](), range(clients)))
            sessions = list(pool.map(stack.enter_context, opened))
            list(pool.map(lambda session: session.sql("SELECT 1").collect(), sessions))
            began = time.perf_counter()
            answered = sum(pool.map(ask, sessions))
            return answered / (time.perf_counter() - began)

    rates: dict[str, list[float]] = {way: [] for way in ways}
    for n in range(rounds):
        # Whoever comes second finds a warmer Spark: they take turns.
        for way in ways if n % 2 else reversed(ways):
            rates[way].append(rate(way))
    straight, floor, governed = (max(of_way) for of_way in rates.values())
    assert not errors, errors[:5]
    ratio = governed / straight
    record.add(
        SECTION,
        f"{clients} clients, SELECT 1 and df.schema in turn",
        f"{governed:.0f} requests/s, {ratio:.2f} × (directly {straight:.0f}; a bare relay "
        f"{floor / straight:.2f} ×); no error",
        aim="≥ 0.95 ×, no error",
        met=not errors and ratio >= 0.95,
        requests_s=governed,
        direct_requests_s=straight,
        bare_requests_s=floor,
        ratio=ratio,
        clients=clients,
    )
