"""What lineage costs the statements that it is made of: the same ones through two gateways, on and off.

One Spark stands behind both. A statement waits for its record, which is longer; the rest is made meanwhile,
by another process on the same machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.backends.embedded_spark import EmbeddedSpark
from gateway.frontends.users import set_user
from gateway.lineage.recorded import LineageInput
from gateway.model.catalog import Column, Table, TableKind, TableName
from tests.bench.figures import Record, median_ms
from tests.bench.processes import GatewayProcesses, since
from tests.bench.raw_client import RawClient, Server
from tests.e2e.running import RunningGateway
from tests.lineage.recorded import cleared
from tests.plan import frames
from tests.plan.frames import Frame
from tests.tpcds.corpus import QUERIES, TABLES

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

SECTION = "Lineage on and off"
PASSWORD = "correct horse battery"
PACK = """
service: spark
policies:
  - name: everybody works here
    on: {catalog: spark_catalog, database: bench_lineage, table: "*", column: "*"}
    allow: [{users: [ada], access: [select, insert]}]
"""
MADE = (
    "CREATE DATABASE bench_lineage",
    "CREATE TABLE bench_lineage.source USING parquet AS SELECT id, id AS a, id AS b, id AS c FROM range(10)",
    "CREATE TABLE bench_lineage.target (id BIGINT, a BIGINT, b BIGINT) USING parquet",
)
SHAPES = {
    "SELECT 1": "SELECT 1 -- {}",
    "SELECT of a table": "SELECT id, a FROM bench_lineage.source WHERE b > 3 -- {}",
    "SELECT of a table, judged before": "SELECT id, a FROM bench_lineage.source WHERE b > 3",
    "INSERT": "INSERT INTO bench_lineage.target SELECT id, a, b + c FROM bench_lineage.source -- {}",
}


def start(home: Path, spark: Server, *, lineage: bool) -> RunningGateway:
    """Start a gateway of its own before Spark's HiveServer2."""
    home.mkdir(mode=0o711)
    set_user(home / "users.yaml", "ada", password=PASSWORD, groups=[])
    (home / "pack.yaml").write_text(PACK)
    settings = {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "policies": {"paths": ["pack.yaml"]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "lineage": {"enabled": lineage},
        "logging": {"format": "json"},
    }
    (home / "gateway.yaml").write_text(json.dumps(settings))
    return RunningGateway(home / "gateway.yaml").start()


@pytest.fixture(scope="module")
def both(direct: Server, spark: EmbeddedSpark, directory: Path) -> Iterator[dict[bool, RunningGateway]]:
    """A gateway with lineage and one without."""
    with RawClient(direct) as client:
        for statement in MADE:
            client.close(client.execute(statement))
    gateways = {on: start(directory / f"lineage-{on}", direct, lineage=on) for on in (True, False)}
    yield gateways
    for gateway in gateways.values():
        assert gateway.stop() == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_latency(record: Record, both: dict[bool, RunningGateway], quick: bool, shape: str) -> None:
    measure(record, both, shape, (5, 15) if quick else (40, 300) if "INSERT" not in shape else (10, 60))


def measure(record: Record, both: dict[bool, RunningGateway], shape: str, rounds: tuple[int, int]) -> None:
    warm_up, count = rounds
    record.begin(f"{SECTION}: {shape}, {warm_up} + {count} pairs")
    laps: dict[bool, list[float]] = {True: [], False: []}
    servers = {on: Server(gateway.host, gateway.port, "ada", PASSWORD) for on, gateway in both.items()}
    with RawClient(servers[True]) as on, RawClient(servers[False]) as off:
        clients = {True: on, False: off}
        processes = {which: GatewayProcesses(gateway.pid) for which, gateway in both.items()}
        before = {which: of.cpu() for which, of in processes.items()}
        for n in range(warm_up + count):
            if n == warm_up:
                before = {which: of.cpu() for which, of in processes.items()}
            # Whoever comes second finds warmer caches: they take turns.
            for which in (True, False) if n % 2 else (False, True):
                text = SHAPES[shape].format(f"{n} {which}")
                spent = clients[which].in_four_calls(text).total_s
                if n >= warm_up:
                    laps[which].append(spent)
        used = {which: since(before[which], of.cpu()) for which, of in processes.items()}
    ratio = median_ms(laps[True]) / median_ms(laps[False])
    added = median_ms([a - b for a, b in zip(laps[True], laps[False], strict=True)])
    record.add(
        SECTION,
        f"p50, {shape}",
        f"{ratio:.3f} × (on {median_ms(laps[True]):.2f} ms, off {median_ms(laps[False]):.2f} ms, median of "
        f"the pairs' differences {added:+.2f} ms)",
        aim="≤ 1.02 ×",
        met=ratio <= 1.02,
        ratio=ratio,
        on_ms=median_ms(laps[True]),
        off_ms=median_ms(laps[False]),
        added_ms=added,
    )
    gateway_ms = {which: 1e3 * one.gateway_s / count for which, one in used.items()}
    postgres_ms = {which: 1e3 * one.postgres_s / count for which, one in used.items()}
    record.add(
        SECTION,
        f"CPU of a statement, {shape}",
        f"gateway {gateway_ms[True]:.2f} ms on, {gateway_ms[False]:.2f} off; "
        f"PostgreSQL {postgres_ms[True]:.2f} on, {postgres_ms[False]:.2f} off",
        gateway_on_ms=gateway_ms[True],
        gateway_off_ms=gateway_ms[False],
        postgres_on_ms=postgres_ms[True],
        postgres_off_ms=postgres_ms[False],
    )


def test_record(record: Record) -> None:
    """What a record of TPC-DS keeps for lineage, and how long that takes on the loop."""
    tables = {
        name: Table(
            name=TableName("spark_catalog", "tpcds", name),
            kind=TableKind.TABLE,
            columns=tuple(Column(name=column, type=type_) for column, type_ in columns.items()),
        )
        for name, columns in TABLES.items()
    }
    verdicts = [
        cleared(sql, *(table for name, table in tables.items() if name in sql.lower()))
        for sql in QUERIES.values()
    ]
    record.begin(f"{SECTION}: records of {len(verdicts)} queries")
    sizes: list[int] = []
    first: list[float] = []
    again: list[float] = []
    for verdict in verdicts:
        write = LineageInput()
        for spent in (first, again):
            began = time.perf_counter()
            write(verdict, {}, {})
            spent.append(1e6 * (time.perf_counter() - began))
        sizes.append(len(json.dumps(write(verdict, {}, {}))))
    record.add(
        SECTION,
        "the record's key, TPC-DS",
        f"median {statistics.median(sizes):.0f} bytes, at most {max(sizes)}; "
        f"{statistics.median(first):.0f} µs, {statistics.median(again):.0f} µs for tables of a record before",
        bytes=statistics.median(sizes),
        first_us=statistics.median(first),
        again_us=statistics.median(again),
    )


def _with_many_columns() -> Frame:
    found = frames.table("source")
    for number in range(60):
        found = found.withColumn(f"c{number}", F.when(F.col("a") > number, F.col("b")).otherwise(F.lit("z")))
    return found


def _joined() -> Frame:
    source, other = frames.table("source"), frames.table("other")
    return source.join(other, source["a"] == other["a"]).groupBy("b").agg(F.sum("c").alias("s")).orderBy("s")


DATA_FRAMES: dict[str, Callable[[], Frame]] = {
    "select and filter": lambda: frames.table("source").filter("b > 3").select("id", F.col("a") + 1),
    "join and aggregate": _joined,
    "60 times withColumn": _with_many_columns,
    "2,000 values in isin": lambda: frames.table("source").filter(F.col("a").isin(list(range(2000)))),
}


@pytest.mark.parametrize("name", DATA_FRAMES)
def test_record_of_a_data_frame(record: Record, name: str) -> None:
    """What a record keeps of a DataFrame's plan, and how long that takes on the loop."""
    verdict = cleared("df", plan=frames.message(DATA_FRAMES[name]()).SerializeToString())
    write = LineageInput()
    size = len(json.dumps(write(verdict, {}, {})))
    spent = []
    for _ in range(100):
        began = time.thread_time()
        write(verdict, {}, {})
        spent.append(1e6 * (time.thread_time() - began))
    record.add(
        SECTION,
        f"the record's key, DataFrame: {name}",
        f"{size} bytes, {statistics.median(spent):.0f} µs of CPU",
        bytes=size,
        cpu_us=statistics.median(spent),
    )
