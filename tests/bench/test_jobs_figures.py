"""Figures of the jobs: events a second, and how they grow with the record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.archived import Archive
from gateway.audit.seals import make_seal
from gateway.audit.verify import verify
from gateway.jobs.archive import TABLE
from tests.jobs.records import DAY, NOW, day_of_events, fill
from tests.jobs.worker import Worker, archive_of, rollups_of, working

pytestmark = pytest.mark.bench
SIZES = (2_000, 10_000, 50_000)
"""Statements, logins and refusals; 1.75 events for each."""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with working() as found:
        yield found


async def test_events_a_second(database: str, tmp_path: Path, worker: Worker) -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    for number, size in enumerate((SIZES[0], *SIZES)):
        # The first is for Spark to get warm.
        lake = tmp_path / f"lake{number}"
        await fill(database, day_of_events(DAY, size, number=number))
        connection = await asyncpg.connect(database)
        events = await connection.fetchval("SELECT count(*) FROM sluice.audit_event")
        seconds = {}
        for name, made, chosen in (("rollups", rollups_of, {}), ("archive", archive_of, {"key": public})):
            began = time.perf_counter()
            await worker.run(made, chosen, dsn=database, lake=lake, now=NOW)
            seconds[name] = time.perf_counter() - began
        await make_seal(connection, key, DAY.date())
        began = time.perf_counter()
        await worker.run(archive_of, {"key": public, "days": 1}, dsn=database, lake=lake, now=NOW)
        seconds["drop"] = time.perf_counter() - began
        began = time.perf_counter()
        found = await verify(connection, key=key.public_key(), archive=Archive(lake / TABLE))
        seconds["verify"] = time.perf_counter() - began
        assert found.holds
        assert found.events == events
        for table in ("archive_chain", "archive_day", "job_partition", "audit_chain", "job_watermark"):
            await connection.execute(f"DELETE FROM sluice.{table}")
        await connection.execute("TRUNCATE sluice.audit_seal")
        await connection.close()
        if number:
            told = ", ".join(
                f"{name} {spent:.1f} s, {events / spent:,.0f}/s" for name, spent in seconds.items()
            )
            print(f"\n{events:,} events: {told}")
