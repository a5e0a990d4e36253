"""A partition of the lake is what PostgreSQL says, wherever its run was killed. Some seconds, no Spark."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from gateway.database.migrate import migrate
from gateway.errors import LedgerUnavailable
from gateway.jobs.iceberg import IcebergTable
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.running import run_job
from gateway.jobs.spark import SparkOptions
from gateway.jobs.tables import REPLACED, STAGING, LakeTable

PARTITION = "day=2026-11-20"


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Any]:
    found = await asyncpg.connect(database)
    await migrate(found)
    await found.execute(
        "INSERT INTO sluice.job_run (job, version, state, runner)"
        " SELECT 'sample', 1, 'killed', 'gone' FROM generate_series(1, 3)"
    )
    yield found
    await found.close()


def stage(table: LakeTable, text: str) -> None:
    staged = table.make_staging_path(PARTITION)
    staged.mkdir()
    (staged / "part-0.parquet").write_text(text)


def there(table: LakeTable) -> str | None:
    """Return what the partition has; None where there is none."""
    try:
        return (table.place(PARTITION) / "part-0.parquet").read_text()
    except FileNotFoundError:
        assert not table.place(PARTITION).exists()
        return None


async def test_a_partition_that_was_not_there_before_goes_with_the_run_that_was_killed(
    connection: Any, tmp_path: Path
) -> None:
    """Else the archive has a day that no run has put there: whoever verifies takes it for a forged one."""
    table = LakeTable(tmp_path, "sample")
    await table.settle(connection)
    stage(table, "one")
    table.replace(PARTITION, 1)
    assert there(table) == "one"
    await table.settle(connection)
    assert (there(table), await table.partitions()) == (None, [])
    assert not any((table.directory / REPLACED).iterdir())
    stage(table, "two")
    table.replace(PARTITION, 2)
    await table.commit(connection, PARTITION, 2)
    # Killed before what is aside goes, which is nothing.
    await table.settle(connection)
    assert there(table) == "two"
    assert not any((table.directory / REPLACED).iterdir())
    stage(table, "three")
    table.replace(PARTITION, 3)
    await table.settle(connection)
    assert there(table) == "two"


async def test_a_run_that_was_killed_before_its_files_came_into_their_place_leaves_nothing(
    connection: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = LakeTable(tmp_path, "sample")
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if STAGING in path.parts:
            raise KeyboardInterrupt
        return rename(path, target)

    stage(table, "one")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            table.replace(PARTITION, 1)
    await table.settle(connection)
    assert there(table) is None
    stage(table, "two")
    table.replace(PARTITION, 2)
    await table.commit(connection, PARTITION, 2)
    table.drop_replaced_files(PARTITION)
    stage(table, "three")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            table.replace(PARTITION, 3)
    assert there(table) is None
    await table.settle(connection)
    assert there(table) == "two"


async def test_nothing_is_replaced_once_the_lock_has_gone_with_its_connection(
    connection: Any, database: str, tmp_path: Path
) -> None:
    """Which it may between two partitions: by then somebody else has taken away what was staged."""
    days = [f"day=2026-11-{day}" for day in (20, 21)]

    async def run(work: Work) -> Outcome:
        table = work.table("sample")
        for number, day in enumerate(days):
            table.make_staging_path(day).mkdir()
            await work.replace(table, day)
            if number == 0:
                await connection.execute(
                    "SELECT pg_terminate_backend($1, 10000)", work.connection.get_server_pid()
                )
        return Outcome()

    job = Job(name="sample", version=1, about="", reads=(), writes=(), run=run)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await run_job(job, dsn=database, lake=tmp_path, spark=SparkOptions())
    table = LakeTable(tmp_path, "sample")
    assert await table.partitions() == days[:1]
    await table.settle(connection)
    assert await table.partitions() == []


class Snapshots:
    """A Spark with a table of Iceberg, whose last commit is by a run."""

    def __init__(self, run: str, hours_ago: int) -> None:
        self.run, self.called = run, list[str]()
        self.at = (time.time() - hours_ago * 3600) * 1e6
        self.catalog = SimpleNamespace(tableExists=lambda name: True)

    def sql(self, text: str) -> Any:
        if text.startswith("CALL"):
            self.called.append(text)
        of_run = {"snapshot_id": 2, "parent_id": 1, "run": self.run, "part": PARTITION, "at": self.at}
        before = {"snapshot_id": 1, "parent_id": None, "run": "1", "part": PARTITION, "at": 0}
        return SimpleNamespace(collect=lambda: [of_run] if ".refs" in text else [before, of_run])


@pytest.mark.parametrize(("run", "hours_ago", "known"), [("2", 0, True), ("77", 0, False), ("2", 1, False)])
async def test_only_what_a_run_on_record_has_committed_is_taken_back(
    connection: Any, tmp_path: Path, run: str, hours_ago: int, known: bool
) -> None:
    """A database that was put back from a backup knows of fewer runs than the table, and numbers its own like
    those."""
    await connection.execute("UPDATE sluice.job_run SET state = 'done' WHERE id = 1")
    spark = Snapshots(run, hours_ago)

    async def start() -> Any:
        return spark

    table = IcebergTable(tmp_path, "audit_event", "ice.sluice", "sample", 4, start, lambda: spark)
    await connection.execute(
        "INSERT INTO sluice.job_partition (table_name, partition, run) VALUES ('audit_event', $1, 1)",
        PARTITION,
    )
    with nullcontext() if known else pytest.raises(LedgerUnavailable, match=f"by run {run}"):
        await table.settle(connection)
    assert bool(spark.called) is known
