"""Jobs on a Spark behind Spark Connect: each does the same there, but for what needs a Spark of its own.

A server of its own, since a process has one kind of session only: some 60 s of CPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pyspark
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.seals import make_seal
from gateway.errors import Faults
from gateway.jobs.replay.report import read_report
from gateway.reader.java_runtime import find_java
from gateway.reader.pool import ReaderPool
from tests.jobs import worker as made
from tests.jobs.recommending.test_recommending import CHOSEN
from tests.jobs.records import DAY, NOW, day_of_events, fill
from tests.jobs.replay.test_replay import NEW, OLD, recorded
from tests.jobs.test_closure import PACK, PROPAGATION, draw
from tests.judge_world import World

ROOT = Path(__file__).resolve().parents[2]
KEY = Ed25519PrivateKey.generate()
MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
TERMINATED = 128 + signal.SIGTERM
STARTED = "Spark Connect server started at: "
CONF = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": made.HEAP,
    "spark.driver.extraJavaOptions": made.JAVA_OPTIONS,
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a server that Python workers have the gateway beside."""
    process = await asyncio.create_subprocess_exec(
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--class", MAIN, "--master", "local[2]"),
        *(word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")),
        "spark-internal",
        cwd=tmp_path_factory.mktemp("connect"),
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ},
            "JAVA_HOME": str(find_java().resolve().parent.parent),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    told = ""
    async for line in process.stderr:
        told = line.decode("utf-8", "replace").strip()
        if STARTED in told:
            break
    _, _, port = told.partition(STARTED)[2].rpartition(":")
    assert port, told
    lines: deque[bytes] = deque(maxlen=500)
    drained = asyncio.ensure_future(_keep(process.stderr, lines))
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        ended = await process.wait()
        await drained
    told = b"".join(lines).decode("utf-8", "replace")
    assert ended == TERMINATED, f"the server ended with {ended}:\n{told}"


async def _keep(source: asyncio.StreamReader, lines: deque[bytes]) -> None:
    async for line in source:
        lines.append(line)


@pytest.fixture(scope="module")
def remote(address: str) -> Iterator[made.Worker]:
    with made.working(address) as found:
        yield found


@pytest.mark.asyncio(loop_scope="session")
async def test_each_job_that_can_runs_there(
    database: str, tmp_path: Path, remote: made.Worker, reader: ReaderPool
) -> None:
    world, lake = World(), tmp_path / "lake"
    key = KEY.public_key().public_bytes_raw()

    async def run(of: Any, chosen: dict[str, Any]) -> made.Ran:
        ran = await remote.run(of, dict(chosen), dsn=database, lake=lake, now=NOW)
        assert ran.application
        return ran

    await fill(database, [*day_of_events(count=16), *await recorded(world, reader)])
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        events = await connection.fetchval("SELECT count(*) FROM sluice.audit_event")
        replaying = {
            "old": OLD,
            "new": NEW,
            "principals": world.principals,
            "now": list(world.tables.values()),
        }
        ran = await run(made.replay_of, replaying)
        number = await connection.fetchval("SELECT max(run) FROM sluice.replay")
        report = await read_report(connection, number, limit=100)
        assert report.totals["judged"] >= 10
        assert {one["kind"] for one in report.changes} == {"lost", "gained", "mask", "filter"}
        assert (await run(made.rollups_of, {"parsed": False})).rows_in >= events
        assert await connection.fetchval("SELECT count(*) FROM sluice.rollup_usage") > 0
        await run(made.recommend_of, CHOSEN)
        await make_seal(connection, KEY, DAY.date())
        ran = await run(made.archive_of, {"key": key, "days": 3})
        assert (ran.rows_in, ran.rows_out) == (events, events)
        assert await connection.fetchval("SELECT dropped_at IS NOT NULL FROM sluice.archive_day")
        assert (await run(made.verify_of, {"key": key})).rows_in == events
        await draw(connection, 1, tables=4, edges=10)
        assert (await run(made.closure_of, {"pack": PACK, "propagation": PROPAGATION})).rows_out > 0
        with pytest.raises(Faults):
            await remote.run(made.proof_of, {"data": {}}, dsn=database, lake=lake, now=NOW)
        last = await connection.fetchrow("SELECT state, error FROM sluice.job_run ORDER BY id DESC LIMIT 1")
        assert last["state"] == "failed"
        assert "a proof needs a Spark of its own" in last["error"]
    finally:
        await connection.close()
