"""`make cluster-demo`: three gateways behind haproxy, before two Sparks. Each process is killed in turn under
load, and it is counted what was lost.

    python -m tests.e2e.cluster_demo [KILLS [MINUTES]]    # no kill begins after so many minutes
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gateway.backends.embedded_spark import EmbeddedSpark
from tests.e2e import standing
from tests.e2e.cluster import Cluster, find_haproxy, running
from tests.e2e.cluster_load import (
    CLIENTS,
    EVENTS,
    PACK,
    Load,
    NewSelects,
    find_record_faults,
    nothing_waits,
    open_statements,
    rows_of,
)
from tests.e2e.running import LoopThread, until
from tests.speed import patience

VICTIMS = ("gateway 1", "Spark 1", "gateway 2", "PostgreSQL", "gateway 3", "Spark 2")
HEAP = "768m"
AWAY_S = 3.0
"""How long what was killed stays away."""
FAILOVER_S = 2.0
"""How long nobody may open a session meanwhile, on a quiet machine."""


class RealSpark:
    """A Spark that can be killed and started again."""

    host = "127.0.0.1"

    def __init__(self, directory: Path, loop: LoopThread) -> None:
        self._directory = directory
        self._loop = loop
        self.port = 0
        self._process = self._start()
        self.port = self._process.thrift_port

    def _start(self) -> EmbeddedSpark:
        process = standing.server(self._directory, self._directory.parent, heap=HEAP, thrift_port=self.port)
        self._loop.run(process.start())
        return process

    def kill(self) -> None:
        pid = self._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self._loop.run(self._process.wait_for_exit())

    def start_again(self) -> None:
        self._loop.run(self._process.stop())
        self._process = self._start()

    def stop(self) -> None:
        self._loop.run(self._process.stop())


class Report:
    """Prints lines with the seconds since the begin."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._begun

    def __call__(self, text: str) -> None:
        print(f"[{self.passed_s:6.1f} s] {text}", flush=True)


def kill(cluster: Cluster, victim: str) -> Callable[[], None]:
    """Kill one process; return what has it back."""
    kind, _, number = victim.partition(" ")
    match kind:
        case "gateway":
            return cluster.kill_gateway(int(number) - 1)
        case "PostgreSQL":
            cluster.kill_postgres()
            return lambda: None
        case _:
            spark = cluster.sparks[int(number) - 1]
            spark.kill()
            return spark.start_again


@contextmanager
def started(directory: Path, report: Report) -> Iterator[tuple[Cluster, LoopThread]]:
    with ExitStack() as stack:
        loop = LoopThread()
        stack.callback(loop.close)
        sparks = []
        for number in (1, 2):
            spark = RealSpark(directory / f"spark-{number}", loop)
            stack.callback(spark.stop)
            sparks.append(spark)
            report(f"Spark {number} is ready")
        cluster = Cluster(directory / "cluster", loop, sparks, PACK)
        users = [*(f"client{number}" for number in range(CLIENTS)), "newcomer"]
        yield stack.enter_context(running(cluster, users)), loop


def demo(directory: Path, kills: int, within_s: float = math.inf) -> int:
    """Return how much was lost, doubled, wrong or late."""
    report = Report()
    with started(directory, report) as (cluster, loop):
        report(f"three gateways behind haproxy on port {cluster.port}")
        load, new = Load(cluster.port), NewSelects(cluster.port, "newcomer")
        waits: dict[str, list[float]] = {}
        answers: dict[str, list[float]] = {}
        try:
            new.begin()
            time.sleep(AWAY_S)
            report(
                f"nothing killed: a new session within {new.longest_open_s:.2f} s, with its first statement "
                f"{new.longest_s:.2f} s"
            )
            done = 0
            while done < kills and report.passed_s < within_s:
                victim = VICTIMS[done % len(VICTIMS)]
                new.begin()
                answered = len(load.answered)
                start_again = kill(cluster, victim)
                time.sleep(AWAY_S)
                # Afterwards a JVM that starts has the processors, and waits are its.
                failover_s, whole_s, why = new.longest_open_s, new.longest_s, new.slowest
                kind = victim.partition(" ")[0]
                waits.setdefault(kind, []).append(failover_s)
                answers.setdefault(kind, []).append(whole_s)
                start_again()
                until(cluster.is_ready, "everything up", 300)
                until(lambda a=answered: len(load.answered) > a + 20, "answers", 300)  # type: ignore[misc]
                done += 1
                report(
                    f"{done:3}. killed {victim:10}  {len(load.answered):5} answers, {len(load.wrong)} "
                    f"wrong; a new session within {failover_s:.2f} s, with its first statement {whole_s:.2f} "
                    f"s ({why}); until it was back {new.longest_s:.2f} s; load {os.getloadavg()[0]:.0f}"
                )
        finally:
            load.stop()
            new.stop()

        def ask(query: str) -> list[Any]:
            return loop.run(rows_of(cluster.postgres.dsn, query))

        def is_shipped() -> bool:
            return all(map(nothing_waits, cluster.gateways)) and open_statements(ask) == 0

        until(is_shipped, "the whole record in PostgreSQL", 300)
        events = ask(EVENTS)
        faults = find_record_faults(events, load.answered)
    for fault in faults[:20]:
        report(fault)
    report(
        f"{done} kills: {len(events)} events, {len(faults)} lost or doubled; {len(load.answered)} answers, "
        f"{len(load.wrong)} wrong, {len(load.not_refused)} not refused; {new.opened} new sessions"
    )
    for kind, found in waits.items():
        report(
            f"{len(found)} × {kind}: a session was open within {statistics.median(found):.2f} s (median), "
            f"{max(found):.2f} s in the worst case; its first statement was answered within "
            f"{statistics.median(answers[kind]):.2f} s, {max(answers[kind]):.2f} s"
        )
    late = sum(one > patience(FAILOVER_S) for found in waits.values() for one in found)
    return len(faults) + len(load.wrong) + len(load.not_refused) + late


def main() -> int:
    if find_haproxy() is None:
        print("haproxy is not installed: apt-get install haproxy", file=sys.stderr)
        return 1
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else len(VICTIMS)
    within_s = 60 * float(sys.argv[2]) if len(sys.argv) > 2 else math.inf
    with tempfile.TemporaryDirectory(prefix="sluice-cluster-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        return min(demo(Path(name), kills, within_s), 1)


if __name__ == "__main__":
    sys.exit(main())
