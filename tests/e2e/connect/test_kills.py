"""Kill the gateway, Spark or the client in the middle of a large result: every row once, or an error in time.

The events of what was under way stay whole: one end for every beginning.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow.compute
import pytest

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions, free_port
from gateway.database.postgres import EmbeddedPostgres
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from gateway.wire import calls
from gateway.wire.rows import decode_rows
from tests.e2e.connect import world
from tests.e2e.connect.attacker import recorded_session
from tests.e2e.connect.conftest import REPOSITORY, as_user, write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark, answers, until
from tests.e2e.wire_client import StatusError, WireClient
from tests.speed import patience

pytestmark = pytest.mark.in_turn(3)

ROWS = 3_000_000
COLUMNS = ("id", "id * 3 AS a", "CAST(id AS DOUBLE) / 2 AS b", "concat('row ', id) AS c")
CHECKSUM = ROWS * (ROWS - 1) // 2
NIGHT = pytest.mark.night


class Counter:
    """How many answers came."""

    def __init__(self) -> None:
        self.messages = 0

    def append(self, _: bytes, /) -> None:
        self.messages += 1


def settings_with_port(directory: Path, spark: Spark, drain_s: float = 1) -> Path:
    """Settings of a gateway that comes back on the same port."""
    file = write_settings(directory, spark)
    settings = json.loads(file.read_text())
    settings["listeners"]["connect"]["port"] = free_port()
    settings["sessions"]["drain_s"] = drain_s
    file.write_text(json.dumps(settings))
    return file


@pytest.fixture(scope="module")
def victim(connect_world: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway to be killed, which is started again on the same port."""
    running = RunningGateway(settings_with_port(open_directory / "victim", connect_world)).start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def patient(connect_world: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway that waits for its clients, longer than any of them needs."""
    running = RunningGateway(settings_with_port(open_directory / "patient", connect_world, 600)).start()
    yield running
    assert running.stop() == 0


def kill(gateway: RunningGateway) -> None:
    assert gateway.stop(signal.SIGKILL) == -signal.SIGKILL
    gateway.start()


def rows_of(session: Any, rows: int = ROWS) -> Any:
    return session.range(0, rows, 1, 20).selectExpr(*COLUMNS)


def tables_of(frame: Any) -> Iterator[Any]:
    """The rows as they arrive, in Arrow: what `toLocalIterator` makes its rows of."""
    session = frame.sparkSession
    for part in session.client.to_table_as_iterator(frame._plan.to_proto(session.client), {}):
        if not hasattr(part, "fields"):  # the schema comes among them
            yield part


def ends_of(gateway: RunningGateway, loop: LoopThread) -> list[tuple[str, int]]:
    """Of every statement that was cleared its kind of end, and how many it has."""
    query = """
    SELECT coalesce(max(e.kind), 'none') AS kind, count(e.kind) AS ends
    FROM sluice.audit_event d LEFT JOIN sluice.audit_event e
      ON e.statement_id = d.statement_id AND e.kind IN ('completed', 'abandoned')
    WHERE d.kind = 'decided' AND d.verdict = 'cleared' GROUP BY d.statement_id"""

    async def ask() -> list[Any]:
        connection = await asyncpg.connect(EmbeddedPostgres(gateway.config.parent / "postgres").dsn)
        try:
            return list(await connection.fetch(query))
        finally:
            await connection.close()

    return [(row["kind"], row["ends"]) for row in loop.run(ask())]


def whole(gateway: RunningGateway, loop: LoopThread) -> bool:
    ends = ends_of(gateway, loop)
    return bool(ends) and all(count == 1 for _, count in ends)


@pytest.mark.timeout(1800)
def test_the_gateway_is_killed_three_times_while_rows_are_read(
    victim: RunningGateway, session_loop: LoopThread
) -> None:
    with recorded_session(victim, world.ALLOWED, Counter()) as session:
        count = checksum = 0
        at = [ROWS // 50, ROWS // 2, ROWS - ROWS // 20]
        for part in tables_of(rows_of(session)):
            count += part.num_rows
            checksum += pyarrow.compute.sum(part.column("id")).as_py()
            if at and count > at[0]:
                at.pop(0)
                kill(victim)
        assert at == []
        assert (count, checksum) == (ROWS, CHECKSUM)
        assert session.range(3).count() == 3
    until(lambda: whole(victim, session_loop), "one end for every beginning", 300)


@pytest.mark.timeout(1800)
def test_a_gateway_that_stops_lets_slow_clients_take_their_rows(
    patient: RunningGateway, session_loop: LoopThread
) -> None:
    """A stream of PySpark's, and one large answer of HiveServer2's; then it ends, long before its time."""
    few, wide = ROWS // 4, 100_000
    with WireClient(patient.host, patient.port, world.ALLOWED, world.PASSWORD) as client:
        text = f"SELECT id, repeat('x', 1000) AS x FROM range({wide})"
        operation = client.execute(client.open_session(), text)
        with recorded_session(patient, world.ALLOWED, Counter()) as session:
            parts = tables_of(rows_of(session, few))
            count = next(parts).num_rows
            client.send("FetchResults", calls.TFetchResultsReq(operationHandle=operation, maxRows=wide))
            os.kill(patient.pid, signal.SIGTERM)
            until(lambda: "the gateway is stopping" in patient.admin("/readyz")[1], "it says that it stops")
            with (
                WireClient(patient.host, patient.port, world.ALLOWED, world.PASSWORD) as late,
                pytest.raises(StatusError, match="SLUICE_STOPPING"),
            ):
                late.open_session()
            assert count + sum(part.num_rows for part in parts) == few
        assert patient.process is not None
        assert patient.process.poll() is None
        taken = client.receive("FetchResults").results
        assert [row[0] for row in decode_rows(taken)] == list(range(wide))
        assert patient.process.wait(patience()) == 0
    patient.start()
    until(lambda: whole(patient, session_loop), "one end for every beginning", 300)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("after", [pytest.param(4, marks=NIGHT), 40, pytest.param(80, marks=NIGHT)])
def test_the_gateway_is_killed_during_to_pandas(victim: RunningGateway, after: int) -> None:
    counter, result = Counter(), []
    with recorded_session(victim, world.ALLOWED, counter) as session:
        frame = rows_of(session)
        before = counter.messages
        thread = threading.Thread(target=lambda: result.append(frame.toPandas()), daemon=True)
        thread.start()
        until(lambda: counter.messages >= before + after, "the result under way", 300)
        under_way = thread.is_alive()
        kill(victim)
        thread.join(patience(300))
    assert under_way
    (frame,) = result
    assert len(frame) == ROWS
    assert int(frame["id"].sum()) == CHECKSUM
    assert frame["id"].is_unique
    assert frame["c"].iloc[-1] == f"row {ROWS - 1}"


@pytest.mark.timeout(1800)
def test_the_gateway_is_killed_before_the_first_row(victim: RunningGateway) -> None:
    """Nothing of the result was there yet: the client comes back and finds its query running."""
    with recorded_session(victim, world.ALLOWED, Counter()) as session:
        result: list[Any] = []
        slow = session.range(0, 60_000_000, 1, 60).selectExpr("id % 7 AS m").groupBy("m").count()
        thread = threading.Thread(target=lambda: result.append(slow.collect()), daemon=True)
        thread.start()
        until(lambda: "sluice_" in victim.admin("/metrics")[1], "the gateway answers", 300)
        kill(victim)
        thread.join(patience(300))
        assert sum(row["count"] for row in result[0]) == 60_000_000


@pytest.mark.timeout(1800)
def test_a_gateway_that_is_stopped_lets_its_streams_go(victim: RunningGateway) -> None:
    """SIGTERM with a result half read ends in time and in order; the client goes on afterwards."""
    with recorded_session(victim, world.ALLOWED, Counter()) as session:
        parts = tables_of(rows_of(session))
        count = next(parts).num_rows
        assert victim.stop() == 0
        victim.start()
        assert count + sum(part.num_rows for part in parts) == ROWS


CLIENT = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(sys.argv[1]).create()
session.client.disable_reattachable_execute()
print("ready", flush=True)
session.range(0, 4 * 10**8, 1, 800).where("id % 7 > 7").collect()
"""


@pytest.mark.timeout(1800)
def test_a_client_that_is_killed_leaves_nothing_running(
    victim: RunningGateway, connect_world: Spark, session_loop: LoopThread
) -> None:
    """A stream that cannot be taken up again ends with its client, in Spark as in the record."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, as_user(victim, world.ALLOWED)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        until(lambda: ("none", 0) in ends_of(victim, session_loop), "the query is in the record", 300)
    finally:
        process.kill()
        process.communicate()
    until(lambda: whole(victim, session_loop), "the query has its end", 300)
    # Its tasks are gone: else those of this one would wait for them.
    with connect_world.session() as direct:
        assert direct.range(0, 100, 1, 4).count() == 100


@pytest.fixture
def own_spark(session_loop: LoopThread, open_directory: Path) -> Iterator[Spark]:
    """A Spark to be killed."""
    process = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=open_directory / "mortal-spark",
            java=find_java(),
            spark_home=find_spark_home(),
            classes=find_spark_classes(find_java(), find_spark_home()),
            java_options=jdk_openings(),
            start_timeout_s=patience(240),
            heap="768m",
        ),
        answers,
    )
    session_loop.run(process.start())
    try:
        yield Spark.of(process)
    finally:
        session_loop.run(process.stop())


@pytest.mark.timeout(1800)
def test_spark_is_killed_while_rows_are_read(
    own_spark: Spark, open_directory: Path, session_loop: LoopThread
) -> None:
    """The client gets an error in time, what was under way has its end, and the gateway stays."""
    gateway = RunningGateway(write_settings(open_directory / "mortal", own_spark)).start()
    try:
        pid = own_spark.pid
        errors: list[Exception] = []

        def read() -> None:
            with recorded_session(gateway, world.ALLOWED, Counter()) as session:
                parts = tables_of(rows_of(session))
                next(parts)
                os.kill(pid, signal.SIGKILL)
                try:
                    for _ in parts:
                        pass
                except Exception as error:  # noqa: BLE001 - which one it is, is looked at below
                    errors.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(patience(300))
        assert not thread.is_alive(), "the client still tries"
        (error,) = errors
        assert "[SLUICE_" in str(error), error
        assert gateway.admin("/healthz")[0] == 200
        until(lambda: whole(gateway, session_loop), "one end for every beginning", 300)
    finally:
        assert gateway.stop() == 0
