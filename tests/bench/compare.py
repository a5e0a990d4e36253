"""`make bench-compare BASE=<ref>`: this build beside another one, bare relays, haproxy and Spark itself.

All are there at once and take turns, statement by statement where they are small, so that what else the
machine does meets all of them. What is told is the ratio within each round, its median and its spread; CPU is
that of a gateway's own process, which hardly depends on what the machine does besides.

`--only cpu,p50` measures a part: cpu (before a stub Spark), p50, many, rows, start.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.bench.bare_relay import BareRelay
from tests.bench.base_build import ROOT, Build, last_release, prepare_base, this_build
from tests.bench.compared import BARE, BASE, DIRECT, HAPROXY, ROWS, THIS, Measured, summarize
from tests.bench.connect_client import ConnectClient
from tests.bench.processes import GatewayProcesses, Load, Memory, cpu_s, stub_spark
from tests.bench.raw_client import RawClient, Server
from tests.e2e.cluster import find_haproxy
from tests.e2e.running import LoopThread, RunningGateway, answers, connect_session
from tests.tpch.governed import POLICIES, UNGOVERNED

HOST = "127.0.0.1"
PASSWORD = "correct horse battery"
CLIENTS = 50
ROWS_OF_RESULT = 1_000_000
RESULT = (
    "SELECT id, CAST(id % 1000 AS INT) AS i, id * 0.5D AS d, concat('row ', id) AS s "
    f"FROM range(0, {ROWS_OF_RESULT}, 1, 2)"
)
PARTS = ("cpu", "p50", "many", "rows", "start")
HAPROXY_FILE = """
defaults
  mode tcp
  timeout connect 10s
  timeout client 1h
  timeout server 1h
listen thrift
  bind {host}:{thrift}
  server spark {spark_host}:{spark_thrift}
listen connect
  bind {host}:{connect}
  server spark {spark_host}:{spark_connect}
"""


@dataclass(frozen=True)
class Upstream:
    """A Spark, or a stub of one."""

    host: str
    thrift: int
    connect: int
    token: str = ""


@dataclass(frozen=True)
class Side:
    """One of those that are compared, as clients reach it."""

    name: str
    server: Server
    connect_port: int
    token: str
    user: str
    cpu: Callable[[], float] | None = None
    gateway: RunningGateway | None = None

    def client(self) -> ConnectClient:
        return ConnectClient(self.connect_port, self.token)

    def session(self) -> contextlib.AbstractContextManager[Any]:
        return connect_session(self.connect_port, self.token, self.user)


SET_USER = """
import sys, pathlib
from gateway.frontends.users import set_user
path, user, password, *groups = sys.argv[1:]
set_user(pathlib.Path(path), user, password=password, groups=groups)
"""


READ_SETTINGS = """
import sys, pathlib
from gateway.settings import load_settings
load_settings(pathlib.Path(sys.argv[1]))
"""


def plain_environment() -> dict[str, str]:
    """Return an environment in which a build finds its own modules only."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


class BuiltGateway(RunningGateway):
    """`sluice serve` of one of the builds."""

    def __init__(self, config: Path, build: Build) -> None:
        super().__init__(config)
        self._build = build

    def launch(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._build.python, "-m", "gateway", "serve", "-c", str(self.config)],
            cwd=self._build.directory,
            env=plain_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )

    def be_patient(self) -> None:
        """As ever, where the build knows all of these settings."""
        before = self.config.read_text()
        super().be_patient()
        read = subprocess.run(
            [self._build.python, "-c", READ_SETTINGS, str(self.config)],
            cwd=self._build.directory,
            env=plain_environment(),
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if read.returncode:
            self.config.write_text(before)


@contextlib.contextmanager
def real_spark(directory: Path) -> Iterator[Upstream]:
    thread = LoopThread()
    spark = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=directory / "spark",
            java=find_java(),
            spark_home=find_spark_home(),
            classes=find_spark_classes(find_java(), find_spark_home()),
            conf={
                "spark.sql.thriftServer.incrementalCollect": "false",
                "spark.hadoop.hive.server2.thrift.max.worker.threads": "1000",
            },
            java_options=jdk_openings(),
            heap="2g",
            quick_start=False,
        ),
        answers,
    )
    thread.run(spark.start())
    try:
        yield Upstream(spark.host, spark.thrift_port, spark.connect_port, spark.connect_token)
    finally:
        thread.run(spark.stop())
        thread.close()


def gateway_side(name: str, build: Build, spark: Upstream, directory: Path, stack: ExitStack) -> Side:
    """Start a build's gateway, with a record of its own."""
    home = directory / name.replace(" ", "-")
    home.mkdir(mode=0o711)
    # By its own code: what a file of users may have has changed.
    user = [str(home / "users.yaml"), UNGOVERNED.user, PASSWORD, *sorted(UNGOVERNED.groups)]
    subprocess.run(
        [build.python, "-c", SET_USER, *user], cwd=build.directory, env=plain_environment(), check=True
    )
    connect: dict[str, Any] = {"host": spark.host, "port": spark.connect}
    if spark.token:
        (home / "token").touch(mode=0o600)
        (home / "token").write_text(spark.token + "\n")
        connect["token"] = {"file": "token"}
    settings = {
        "listeners": {"thrift": {"port": 0}, "connect": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": spark.host, "port": spark.thrift}, "connect": connect},
        "policies": {"paths": [str(build.directory / POLICIES.relative_to(ROOT))]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"per_user": 1000},
        "logging": {"format": "json"},
    }
    (home / "gateway.yaml").write_text(json.dumps(settings))
    gateway = BuiltGateway(home / "gateway.yaml", build).start()
    stack.callback(gateway.stop)
    process = psutil.Process(gateway.pid)
    return Side(
        name,
        Server(gateway.host, gateway.port, UNGOVERNED.user, PASSWORD),
        gateway.connect_port,
        f"{UNGOVERNED.user}:{PASSWORD}",
        "",
        lambda: cpu_s(process),
        gateway,
    )


def make_sides(spark: Upstream, base: Build, directory: Path, stack: ExitStack) -> list[Side]:
    """Put all sides before one Spark."""
    server = Server(spark.host, spark.thrift, "direct")
    sides = [Side(DIRECT, server, spark.connect, spark.token, "direct")]
    thrift = stack.enter_context(BareRelay("thrift", spark.host, spark.thrift))
    connect = stack.enter_context(BareRelay("connect", spark.host, spark.connect))
    sides.append(
        Side(
            BARE,
            Server(HOST, thrift.port, "direct"),
            connect.port,
            spark.token,
            "direct",
            lambda: thrift.cpu_s() + connect.cpu_s(),
        )
    )
    if (program := find_haproxy()) is not None:
        sides.append(_haproxy_side(program, spark, directory, stack))
    else:
        print("haproxy is not installed: compared without it", flush=True)
    sides.append(gateway_side(BASE, base, spark, directory, stack))
    sides.append(gateway_side(THIS, this_build(), spark, directory, stack))
    return sides


def _haproxy_side(program: str, spark: Upstream, directory: Path, stack: ExitStack) -> Side:
    from gateway.backends.embedded_spark import free_port

    ports = free_port(), free_port()
    file = directory / "haproxy.cfg"
    file.write_text(
        HAPROXY_FILE.format(
            host=HOST,
            thrift=ports[0],
            connect=ports[1],
            spark_host=spark.host,
            spark_thrift=spark.thrift,
            spark_connect=spark.connect,
        )
    )
    process = subprocess.Popen([program, "-db", "-f", str(file)], stderr=subprocess.DEVNULL)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    seen = psutil.Process(process.pid)
    return Side(
        HAPROXY,
        Server(HOST, ports[0], "direct"),
        ports[1],
        spark.token,
        "direct",
        lambda: cpu_s(seen),
    )


BLOCK = 20
"""Calls that a side makes in one turn, where there are many."""


class Turns:
    """Has sides do the same, one after the other and each time in another order."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides

    def run(self, calls: Mapping[str, Callable[[int], object]], count: int) -> tuple[dict[str, float], ...]:
        """Return the median milliseconds of each side's calls, and the CPU of one call where it is known."""
        sides = [side for side in self._sides if side.name in calls]
        took: dict[str, list[float]] = {side.name: [] for side in sides}
        cpu = {side.name: 0.0 for side in sides if side.cpu is not None}
        # CPU is counted in a side's own turns: what it does with nothing to do while others have theirs is no
        # part of a call.
        block = 1 if count < 2 * BLOCK else BLOCK
        for turn, first in enumerate(range(0, count, block)):
            for at in range(len(sides)):
                side = sides[(at + turn) % len(sides)]
                before = side.cpu() if side.cpu is not None else 0.0
                for n in range(first, min(count, first + block)):
                    began = time.perf_counter()
                    calls[side.name](n)
                    took[side.name].append(time.perf_counter() - began)
                if side.cpu is not None:
                    cpu[side.name] += side.cpu() - before
        used = {name: 1e3 * one / count for name, one in cpu.items()}
        return {name: 1e3 * statistics.median(one) for name, one in took.items()}, used


def compare_cpu(sides: Sequence[Side], rounds: int, count: int) -> Iterator[Measured]:
    """CPU of a cached statement, before a Spark that costs next to nothing."""
    turns = Turns(sides)
    with ExitStack() as stack:
        thrift = {side.name: stack.enter_context(RawClient(side.server)) for side in sides}
        connect = {
            side.name: stack.enter_context(ConnectClient(side.connect_port, side.token)) for side in sides
        }
        statement = {name: _four_calls(client) for name, client in thrift.items()}
        plan = {name: _plan_call(client) for name, client in connect.items()}
        turns.run(statement, count // 4)
        turns.run(plan, count // 8)
        for _ in range(rounds):
            _, thrift_cpu = turns.run(statement, count)
            _, connect_cpu = turns.run(plan, count // 2)
            yield {"thrift_cpu": thrift_cpu, "connect_cpu": connect_cpu}


def _four_calls(client: RawClient) -> Callable[[int], object]:
    return lambda _: client.in_four_calls("SELECT 1")


def _ask_thrift(client: RawClient) -> object:
    return client.in_four_calls("SELECT 1")


def _plan_call(client: ConnectClient) -> Callable[[int], object]:
    return lambda _: client.select_one()


def compare_small(sides: Sequence[Side], rounds: int, count: int) -> Iterator[Measured]:
    """How long small statements take."""
    turns, texts = Turns(sides), iter(range(1_000_000))
    with ExitStack() as stack:
        thrift = {side.name: stack.enter_context(RawClient(side.server)) for side in sides}
        spark = {side.name: stack.enter_context(side.session()) for side in sides}
        spark[DIRECT].sql(
            "CREATE TABLE IF NOT EXISTS compared (id BIGINT, name STRING) USING parquet"
        ).collect()

        def unseen(client: RawClient) -> Callable[[int], object]:
            return lambda _: client.in_four_calls(f"SELECT 1 -- {next(texts)}")

        def sql(session: Any) -> Callable[[int], object]:
            return lambda _: session.sql("SELECT 1").collect()

        def schema(session: Any) -> Callable[[int], object]:
            return lambda _: session.table("compared").schema

        calls: dict[str, dict[str, Callable[[int], object]]] = {
            "thrift_p50": {name: _four_calls(one) for name, one in thrift.items()},
            "thrift_new_p50": {name: unseen(one) for name, one in thrift.items()},
            "connect_p50": {name: sql(one) for name, one in spark.items()},
            "schema_p50": {name: schema(one) for name, one in spark.items()},
        }
        for n in range(-1, rounds):
            found = {key: turns.run(one, count if n >= 0 else count // 2)[0] for key, one in calls.items()}
            if n >= 0:
                yield found


def compare_many(sides: Sequence[Side], rounds: int, each: int) -> Iterator[Measured]:
    """Statements a second of many clients at once."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        thrift = {
            side.name: [stack.enter_context(RawClient(side.server)) for _ in range(CLIENTS)] for side in sides
        }
        connect = {side.name: [stack.enter_context(side.client()) for _ in range(CLIENTS)] for side in sides}

        def rate(clients: Sequence[Any], call: Callable[[Any], object], times: int) -> float:
            def ask(client: Any) -> int:
                return len([call(client) for _ in range(times)])

            began = time.perf_counter()
            return sum(pool.map(ask, clients)) / (time.perf_counter() - began)

        for n in range(-1, rounds):
            many: dict[str, dict[str, float]] = {"thrift_many": {}, "connect_many": {}}
            for at in range(len(sides)):
                name = sides[(at + n) % len(sides)].name
                times = each if n >= 0 else 2
                many["thrift_many"][name] = rate(
                    thrift[name], lambda one: one.in_four_calls("SELECT 1"), times
                )
                many["connect_many"][name] = rate(connect[name], ConnectClient.select_one, times)
            if n >= 0:
                yield many


def compare_rows(sides: Sequence[Side], rounds: int, times: int) -> Iterator[Measured]:
    """Rows a second, and what relaying them costs."""
    from tests.bench.test_fetch_figures import fetch_all

    with ExitStack() as stack:
        thrift = {side.name: stack.enter_context(RawClient(side.server)) for side in sides}
        spark = {side.name: stack.enter_context(side.session()) for side in sides}
        operations = {name: client.execute(RESULT) for name, client in thrift.items()}
        gigabytes = 0.0
        for n in range(-1, rounds):
            rates: dict[str, dict[str, float]] = {"thrift_rows": {}, "connect_rows": {}}
            cpu: dict[str, dict[str, float]] = {"thrift_rows_cpu": {}, "connect_rows_cpu": {}}
            for at in range(len(sides)):
                side = sides[(at + n) % len(sides)]
                for kind in ("thrift", "connect"):
                    before, took = side.cpu() if side.cpu is not None else 0.0, []
                    for _ in range(times):
                        began = time.perf_counter()
                        if kind == "thrift":
                            _, size, _ = fetch_all(thrift[side.name], operations[side.name], 10_000)
                            gigabytes = size / 1e9
                        else:
                            assert len(spark[side.name].sql(RESULT).toPandas()) == ROWS_OF_RESULT
                        took.append(time.perf_counter() - began)
                    rates[f"{kind}_rows"][side.name] = ROWS_OF_RESULT / 1e6 / statistics.median(took)
                    if side.cpu is not None:
                        used = side.cpu() - before
                        # Arrow's messages of these rows are some 1.02 × as long: ratios do not depend on it.
                        cpu[f"{kind}_rows_cpu"][side.name] = used / (times * gigabytes)
            if n >= 0:
                yield {**rates, **cpu}


def compare_starts(sides: Sequence[Side]) -> Measured:
    """What a start has cost, and what is held when nothing is done; before anything else is asked."""
    found: dict[str, dict[str, float]] = {"start_cpu": {}, "memory": {}, "parser_memory": {}}
    for side in sides:
        if side.gateway is None:
            continue
        processes = GatewayProcesses(side.gateway.pid)
        parser = next(p for p in processes.gateway.children() if "sluice.ReaderMain" in p.cmdline())
        found["start_cpu"][side.name] = processes.cpu().reader_s
        found["memory"][side.name] = Memory(side.gateway.pid).resident_mib
        found["parser_memory"][side.name] = Memory(parser.pid).resident_mib
    return found


def compare(base: Build, parts: Sequence[str], rounds: int, scale: float, found: list[Measured]) -> None:
    """Measure, and add to `found` round by round."""
    directory = Path(tempfile.mkdtemp(prefix="sluice-compare-"))
    directory.chmod(0o711)
    began = time.monotonic()

    def note(what: str, rows: Iterator[Measured]) -> None:
        for number, one in enumerate(rows, 1):
            found.append(one)
            print(f"[{time.monotonic() - began:4.0f} s] {what}, round {number} of {rounds}", flush=True)

    try:
        if "cpu" in parts or "start" in parts:
            with stub_spark() as ports, ExitStack() as stack:
                stub = Upstream(HOST, ports["thrift"], ports["connect"])
                (directory / "stub").mkdir(mode=0o711)
                sides = make_sides(stub, base, directory / "stub", stack)
                if "start" in parts:
                    found.append(compare_starts(sides))
                if "cpu" in parts:
                    note("cached statements", compare_cpu(sides, rounds, int(400 * scale)))
        if {"p50", "many", "rows"} & set(parts):
            with real_spark(directory) as spark, ExitStack() as stack:
                sides = make_sides(spark, base, directory, stack)
                if "p50" in parts:
                    note("small statements", compare_small(sides, rounds, int(100 * scale)))
                if "rows" in parts:
                    note("rows", compare_rows(sides, rounds, max(1, int(4 * scale))))
                if "many" in parts:
                    note("many clients", compare_many(sides, rounds, max(2, int(8 * scale))))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("base", nargs="?", default="", help="a commit; without: the last release")
    asked.add_argument("--only", default=",".join(PARTS), help=f"parts of: {', '.join(PARTS)}")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--scale", type=float, default=1.0, help="0.1: a tenth of the statements, for a try")
    arguments = asked.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(PARTS):
        asked.error(f"unknown parts: {', '.join(sorted(unknown))}")
    base = prepare_base(arguments.base or last_release())
    load, began = Load(), time.monotonic()
    found: list[Measured] = []
    try:
        compare(base, parts, arguments.rounds, arguments.scale, found)
    finally:  # what was measured before a fault is worth its minutes
        print(f"\n{base.name} beside this build, medians of {arguments.rounds} rounds with their spread\n")
        print(summarize(ROWS, found))
        print(
            f"\n{time.monotonic() - began:.0f} s on {os.cpu_count()} cores; "
            f"others took {load.others_cores():.1f} of them"
        )


if __name__ == "__main__":
    main()
