"""A day goes from PostgreSQL beside gateways that write. No Spark; some seconds."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from gateway.jobs import archive_dropping
from gateway.jobs.archive import ArchiveOptions, archive
from gateway.jobs.archive_dropping import Keeping
from gateway.jobs.events import Sums, links_in_database
from gateway.jobs.running import run_job, runs
from gateway.jobs.spark import SparkOptions
from tests.jobs.records import DAY, day_of_events, fill
from tests.speed import patience

PARTITION = f"sluice.audit_event_{DAY:%Y%m%d}"
_WAITS = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)"


class Lake:
    """An archive that is what it was."""

    def read(self, *_: Any) -> Any:
        return None


async def test_nothing_is_archived_by_who_may_see_a_part_of_a_day(database: str, tmp_path: Path) -> None:
    """A copy of that part is what PostgreSQL shows, and the day would go with all of it."""
    await fill(database, day_of_events(count=6))
    name = f"limited_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(
            f"CREATE ROLE {name} LOGIN; GRANT ALL ON SCHEMA sluice TO {name};"
            f"GRANT ALL ON ALL TABLES IN SCHEMA sluice TO {name};"
            f"ALTER TABLE {PARTITION} ENABLE ROW LEVEL SECURITY;"
            f"CREATE POLICY a_part ON {PARTITION} TO {name} USING (user_name = 'ann')"
        )
        job = archive(ArchiveOptions(keeping=Keeping()))
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await run_job(
                job,
                dsn=database.replace("://sluice@", f"://{name}@"),
                lake=tmp_path,
                spark=SparkOptions(master="local[nothing]"),
            )
        (run,) = await runs(connection)
        assert (run["state"], "row-level security" in run["error"]) == ("failed", True)
    finally:
        await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
        await connection.close()


async def test_a_day_that_somebody_writes_late_events_of_stays(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes has the record and waits for the day; who drops has the day and waits for the record."""
    await fill(database, day_of_events(count=3))
    dropping, writing, looking = [await asyncpg.connect(database) for _ in range(3)]
    try:
        events, links = await links_in_database(looking, PARTITION)
        sums = Sums(events=events, links=links)
        monkeypatch.setattr(archive_dropping, "sums_in_spark", lambda frame: sums)
        none_lost = SimpleNamespace(where=lambda _: SimpleNamespace(count=lambda: 0))
        monkeypatch.setattr(archive_dropping, "with_lost", lambda frame, erasures: none_lost)
        row = {
            "day": DAY.date(),
            "erasure": 0,
            "left_erasures": [],
            "left_up_to": 0,
            "events": events,
            "unchained": 0,
            "links": f"{links:064x}",
            "digests": "0",
            "dropped_events": 0,
            "dropped_unchained": 0,
            "dropped_links": "0",
            "dropped_digests": "0",
        }

        async def spark() -> None:
            return None

        work: Any = SimpleNamespace(connection=dropping, spark=spark)
        table: Any = Lake()
        await writing.execute("SET deadlock_timeout = '1min'")  # so that it is the other one who is told
        async with writing.transaction():
            await writing.execute("LOCK TABLE ONLY sluice.audit_event IN ROW EXCLUSIVE MODE")
            drop = asyncio.create_task(archive_dropping._drop(work, table, row, ()))
            async with asyncio.timeout(patience(30)):
                pid = dropping.get_server_pid()
                while not await looking.fetchval(_WAITS, pid):  # noqa: ASYNC110 - a lock has no event
                    await asyncio.sleep(0.02)
            await writing.execute(f"LOCK TABLE ONLY {PARTITION} IN ROW EXCLUSIVE MODE")
            assert await drop == "somebody uses it"
        assert await archive_dropping._drop(work, table, row, ()) == ""
        assert await looking.fetchval("SELECT to_regclass($1)", PARTITION) is None
    finally:
        for connection in (dropping, writing, looking):
            await connection.close()
