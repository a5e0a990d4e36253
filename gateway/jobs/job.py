"""What a job is, what its run is given, and what comes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gateway.database.asking import connect
from gateway.jobs.iceberg import IcebergTable
from gateway.jobs.spark import SparkOptions, application_id, open_session, tune_for_rows
from gateway.jobs.tables import LakeTable

CONNECTION = "sluice-job-"
"""Application name of a job's PostgreSQL connections, followed by the job's name."""
Progress = Callable[[str], None]


PROGRESS_EVERY_S = 10.0
"""How often is told that Spark still starts."""


@asynccontextmanager
async def _reporting_progress(progress: Progress, what: str) -> AsyncIterator[None]:
    """Say again and again that something goes on, with the seconds that it has taken."""
    began = time.monotonic()

    async def tell() -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            progress(f"{what}, {time.monotonic() - began:.0f} s")

    telling = asyncio.ensure_future(tell())
    try:
        yield
    finally:
        telling.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Rows and period that a run read, and rows that it wrote."""

    rows_in: int = 0
    rows_out: int = 0
    range_from: datetime | None = None
    range_to: datetime | None = None
    """Times of the events that were read, the second exclusive."""
    watermark: datetime | None = None
    """How far the job has come; None leaves what there is."""
    finish: Callable[[Any], Awaitable[None]] | None = None
    """Further work in the transaction that ends the run; receives its connection."""


@dataclass(slots=True, kw_only=True)
class Work:
    """A run under way: what it may use."""

    job: str
    run: int
    """Number of the run in `sluice.job_run`."""
    connection: Any
    """The connection that holds the job's lock."""
    dsn: str
    lake: Path
    """Directory of the tables, which Spark sees under the same path."""
    watermark: datetime | None
    """How far the job had come; None at its first run, and at the first one of another version."""
    now: datetime
    progress: Progress
    spark_options: SparkOptions
    application: str = ""
    """Spark's id of the application, once there is a session."""
    _session: Any = field(default=None, repr=False)

    async def spark(self) -> Any:
        """Return the Spark session, which begins with the first call: a run with nothing to do has none."""
        if self._session is None:
            self.progress(f"Spark starts{self.spark_options.where}")
            async with _reporting_progress(self.progress, "Spark still starts"):
                self._session = await asyncio.to_thread(open_session, self.spark_options)
            self.application = await asyncio.to_thread(application_id, self._session)
            await self.connection.execute(
                "UPDATE sluice.job_run SET application = $2 WHERE id = $1", self.run, self.application
            )
            self.progress(f"Spark is ready: {self.application}")
        return self._session

    async def tune_for_rows(self, rows: int) -> None:
        """Choose Spark's fastest way to process so many rows."""
        await asyncio.to_thread(tune_for_rows, await self.spark(), rows)

    async def connect(self) -> Any:
        """Return another connection to PostgreSQL, beside the one that holds the lock."""
        return await connect(self.dsn, CONNECTION + self.job, whole=True)

    def table(self, name: str, *, writer: str = "") -> LakeTable:
        """Return a table of the lake; `writer` is the job that writes it, where that is not this one."""
        place = self.spark_options.tables
        if not place:
            return LakeTable(self.lake, name)
        return IcebergTable(
            self.lake, name, place, writer or self.job, self.run, self.spark, lambda: self._session
        )

    async def replace(self, table: LakeTable, partition: str) -> None:
        """Put a partition's staged files in the place of the partition.

        Raises the connection's error where the lock went with it, which may be between two of them: then
        somebody else may be at work, and nothing is replaced.
        """
        await self.connection.execute("SELECT 1")
        await asyncio.to_thread(table.replace, partition, self.run)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and self.spark_options.stop:
            await asyncio.to_thread(session.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    name: str
    version: int
    """Goes up when what it writes means something else: its next run begins anew."""
    about: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    run: Callable[[Work], Awaitable[Outcome]]
    whole: bool = True
    """Whether its runs do all that the schedule's do. One of a period or policies that somebody chose makes
    up for no run of the schedule, and its good end says nothing of what that would find."""
