"""Tables of jobs in an Iceberg catalog: what a killed run has committed there, and not in PostgreSQL, goes.

On the pyspark that `make lake-jars` puts beside the jars; some 60 s of CPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml
from pyarrow import parquet

from gateway.audit.erasing import erase
from gateway.errors import BackendUnavailable
from gateway.jobs.spark import SparkOptions, open_session
from gateway.model.spark_minors import Minor
from gateway.reader.java_runtime import find_java
from tests.e2e.lake.formats import KEPT, jars_of
from tests.jobs.records import DAY, NOW, day_of_events, fill
from tests.speed import patience

PYSPARK = KEPT / "pyspark-4.1"
ARCHIVE, USAGE = "ice.sluice.audit_event", "ice.sluice.rollup_usage"
ROOT = Path(__file__).resolve().parents[3]


class JobWorker:
    """A process with jobs in it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def __call__(self, **told: Any) -> Any:
        """Do something; None where it has died of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        await self._process.stdin.drain()
        answer = await self._process.stdout.readline()
        return json.loads(answer) if answer else None

    async def run(self, job: str, die_at: str = "") -> Any:
        return await self(job=job, now=NOW.isoformat(), die_at=die_at)


@pytest.fixture
def config(database: str, tmp_path: Path) -> Path:
    file = tmp_path / "gateway.yaml"
    ice = {"type": "hadoop", "warehouse": str(tmp_path / "ice")}
    settings = {
        "ledger": {"dsn": {"file": "dsn"}},
        "catalogs": [{"name": "ice", "catalog": {"type": "iceberg", "connection_params": ice}}],
        "jobs": {
            "directory": str(tmp_path / "lake"),
            "catalog": "ice",
            "jars": [str(jar) for jar in jars_of(Minor(4, 1), ["iceberg"])],
        },
    }
    (tmp_path / "dsn").write_text(database)
    file.write_text(yaml.safe_dump(settings))
    return file


@asynccontextmanager
async def working(config: Path) -> AsyncIterator[JobWorker]:
    assert PYSPARK.is_dir(), f"no pyspark in {PYSPARK}: `make lake-jars`"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.e2e.lake.job_worker", str(config)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
        cwd=ROOT,
        env=os.environ
        | {
            "PYTHONPATH": f"{PYSPARK}{os.pathsep}{ROOT}",
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(find_java().resolve().parent.parent),
        },
    )
    try:
        yield JobWorker(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience(30)):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()


def texts_of(user: str, warehouse: Path) -> list[str]:
    """Return what files of the archive have of a user's statements, those too that the table has no more."""
    rows = [
        row
        for file in (warehouse / "sluice" / "audit_event").rglob("*.parquet")
        for row in parquet.ParquetFile(file).read(["user_name", "statement"]).to_pylist()
    ]
    return [row["statement"] for row in rows if row["user_name"] == user and row["statement"]]


async def events_of(connection: Any) -> list[str]:
    return [str(row["event_id"]) for row in await connection.fetch("SELECT event_id FROM sluice.audit_event")]


@pytest.mark.in_turn(6)
async def test_a_table_of_iceberg_has_what_postgresql_says_whatever_is_killed(
    config: Path, database: str
) -> None:
    await fill(database, day_of_events(count=12))
    connection = await asyncpg.connect(database)
    try:
        select = f"SELECT event_id FROM {ARCHIVE} ORDER BY event_id"
        async with working(config) as worker:
            # In the table, and not in PostgreSQL.
            assert await worker.run("archive", die_at="moved into place") is None
        async with working(config) as worker:
            assert [row["event_id"] for row in await worker(sql=select)]
            done = await worker.run("archive", die_at="never")
            assert "error" not in done, done
            rows = [row["event_id"] for row in await worker(sql=select)]
            assert rows == sorted(await events_of(connection))
            first = await worker(sql=f"SELECT * FROM {ARCHIVE} ORDER BY event_id")
            # Late events: the day has rows that must not be lost, and what a killed run did is taken back.
            await fill(database, day_of_events(count=4, number=3))
            assert await worker.run("archive", die_at="moved into place") is None
        async with working(config) as worker:
            assert len(await worker(sql=select)) > len(rows)
            held = await worker.run("verify")
            assert "error" not in held, held
            assert [row["event_id"] for row in await worker(sql=select)] == rows, "it went back"
            assert "error" not in await worker.run("archive")
            after = await worker(sql=f"SELECT * FROM {ARCHIVE} ORDER BY event_id")
            assert [row["event_id"] for row in after] == sorted(await events_of(connection))
            ids = {row["event_id"] for row in first}
            assert [row for row in after if row["event_id"] in ids] == first
            days = await worker(sql=f"SELECT partition.day AS day FROM {ARCHIVE}.partitions")
            assert {row["day"] for row in days} == {f"{DAY:%Y-%m-%d}"}
            assert "error" not in await worker.run("verify")
            await worker(sql=f"INSERT INTO {ARCHIVE} SELECT * FROM {ARCHIVE} WHERE event_id = '{rows[0]}'")
            found = await worker.run("verify")
            assert found["error"].startswith("RecordChanged")
            assert any(rows[0] in line and line.startswith("repeated") for line in found["lines"])
            rolled = await worker.run("rollups")
            assert "error" not in rolled, rolled
            usage = await worker(sql=f"SELECT sum(statements) AS n FROM {USAGE}")
            kept = await connection.fetchval("SELECT sum(statements) FROM sluice.rollup_usage")
            assert usage[0]["n"] == kept > 0
            # An hour that somebody deletes is made anew, as one whose directory is gone; others stay.
            hours = await worker(sql=f"SELECT DISTINCT hour FROM {USAGE} ORDER BY hour")
            await worker(sql=f"DELETE FROM {USAGE} WHERE hour = '{hours[0]['hour']}'")
            again = await worker.run("rollups")
            assert any(line.startswith(f"{DAY:%Y-%m-%d}: 1 hours") for line in again["lines"]), again
            assert (await worker(sql=f"SELECT sum(statements) AS n FROM {USAGE}"))[0]["n"] == kept
            assert (await worker.run("rollups"))["rows_in"] == 0
    finally:
        await connection.close()


async def test_erased_texts_are_in_no_older_snapshot(config: Path, database: str) -> None:
    await fill(database, day_of_events(count=8))
    warehouse = config.parent / "ice"
    connection = await asyncpg.connect(database)
    try:
        async with working(config) as worker:
            assert "error" not in await worker.run("archive")
            assert texts_of("bob", warehouse)
            await erase(connection, "bob", until=NOW, by="dpo", reason="request 7", key=None)
            done = await worker.run("archive")
            assert "error" not in done, done
            assert len(await worker(sql=f"SELECT * FROM {ARCHIVE}.snapshots")) == 1
            rows = await worker(sql=f"SELECT event_id FROM {ARCHIVE} ORDER BY event_id")
            assert [row["event_id"] for row in rows] == sorted(await events_of(connection))
    finally:
        await connection.close()
    assert texts_of("ann", warehouse)
    assert not texts_of("bob", warehouse)


def test_a_spark_without_iceberg_says_so_at_once() -> None:
    with pytest.raises(BackendUnavailable, match=r"it supports Spark 3\.5, 4\.0, 4\.1"):
        open_session(SparkOptions(tables="ice.sluice"))
