"""HiveServer2's HTTP transport through the gateway, beside its binary one and beside Spark's own."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from gateway.wire import calls
from gateway.wire.messages import encode_call
from tests.bench.figures import Record, in_turns, median_ms
from tests.bench.http_client import HttpRawClient
from tests.bench.raw_client import RawClient, Server
from tests.bench.test_fetch_figures import fetch_all
from tests.e2e.logins.directories import free_port
from tests.e2e.running import LoopThread

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SECTION = "HTTP transport of HiveServer2"
BATCH = 100_000


async def answers_over_http(host: str, port: int) -> None:
    """The readiness probe of a Spark that speaks HTTP alone."""
    login = "Basic " + base64.b64encode(b"probe:x").decode()
    headers = {"Authorization": login, "Content-Type": "application/x-thrift"}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as http,
            http.post(
                f"http://{host}:{port}/cliservice",
                data=encode_call("OpenSession", 1, calls.TOpenSessionReq()),
                headers=headers,
            ) as answer,
        ):
            if answer.status != 200:
                raise ConnectionError(f"it answers {answer.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConnectionError(str(error)) from None


@pytest.fixture(scope="module")
def spark_over_http(record: Record, directory: Path) -> Iterator[Server]:
    """A second Spark: its Thrift Server speaks one transport only."""
    record.progress("a Spark that speaks HTTP starts")
    thread, port = LoopThread(), free_port()
    http = {
        "spark.hadoop.hive.server2.transport.mode": "http",
        "spark.hadoop.hive.server2.thrift.http.port": str(port),
        "spark.sql.thriftServer.incrementalCollect": "false",
    }
    spark = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=directory / "spark-http",
            java=find_java(),
            spark_home=find_spark_home(),
            classes=find_spark_classes(find_java(), find_spark_home()),
            thrift_port=port,
            conf=http,
            java_options=jdk_openings(),
            heap="2g",
            quick_start=False,
        ),
        answers_over_http,
    )
    thread.run(spark.start())
    try:
        yield Server(spark.host, port, "direct")
    finally:
        thread.run(spark.stop())
        thread.close()


def test_select_one(record: Record, governed: Server, governed_http: Server, quick: bool) -> None:
    warm_up, rounds = (20, 40) if quick else (150, 400)
    record.begin(f"SELECT 1 over HTTP: {warm_up} + {rounds} pairs")
    with RawClient(governed) as binary, HttpRawClient(governed_http) as http:
        took = in_turns(
            {
                "binary": lambda: binary.in_four_calls("SELECT 1"),
                "http": lambda: http.in_four_calls("SELECT 1"),
            },
            warm_up=warm_up,
            rounds=rounds,
        )
    binary_ms, http_ms = median_ms(took["binary"]), median_ms(took["http"])
    record.add(
        SECTION,
        "SELECT 1, 4 calls, both through the gateway",
        f"{http_ms / binary_ms:.2f} × binary ({http_ms:.2f} ms, binary {binary_ms:.2f} ms)",
        aim="≤ 1.25 ×",
        met=http_ms <= 1.25 * binary_ms,
        ratio=http_ms / binary_ms,
        http_ms=http_ms,
        binary_ms=binary_ms,
    )


def test_fetch(
    record: Record, governed: Server, governed_http: Server, spark_over_http: Server, quick: bool
) -> None:
    rows, rounds = (100_000, 3) if quick else (1_000_000, 9)
    sql = (
        "SELECT id, CAST(id % 1000 AS INT) AS i, id * 0.5D AS d, concat('row ', id) AS s "
        f"FROM range(0, {rows}, 1, 2)"
    )
    record.begin(f"Fetch of {rows:,} rows over HTTP, {rounds} rounds")
    with (
        RawClient(governed) as binary,
        HttpRawClient(governed_http) as http,
        HttpRawClient(spark_over_http) as straight,
    ):
        clients = {"binary": binary, "http": http, "direct": straight}
        operations = {name: client.execute(sql) for name, client in clients.items()}
        took = in_turns(
            {
                name: lambda name=name: fetch_all(clients[name], operations[name], BATCH)  # type: ignore[misc]
                for name in clients
            },
            warm_up=1,
            rounds=rounds,
        )
    best = {name: min(seconds) for name, seconds in took.items()}
    for other, aim in (("binary", 0.85), ("direct", 0.95)):
        ratio = best[other] / best["http"]
        name = {"binary": "binary through the gateway", "direct": "Spark's own HTTP mode, directly"}[other]
        record.add(
            SECTION,
            f"rows/s, {rows / 1e6:g}M rows, batches of {BATCH:,}, beside {name}",
            f"{ratio:.2f} × best of {rounds} ({rows / best['http'] / 1e6:.2f} M/s, "
            f"beside it {rows / best[other] / 1e6:.2f} M/s)",
            aim=f"≥ {aim:.2f} ×",
            met=ratio >= aim,
            ratio=ratio,
        )
