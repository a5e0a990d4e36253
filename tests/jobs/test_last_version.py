"""What the last version has written is read as it is: without the newest columns, with some that went.

One Spark for all: some 25 s of CPU.
"""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.archived import Archive
from gateway.audit.seals import make_seal
from gateway.audit.verify import verify
from gateway.jobs.archive import TABLE
from tests.jobs.records import DAY, NOW, day_of_events, fill, statement
from tests.jobs.test_recommend import CHOSEN
from tests.jobs.worker import Worker, archive_of, recommend_of, rollups_of, verify_of

KEY = Ed25519PrivateKey.generate()


def written_by_the_last_version(table: Path, without: str) -> None:
    """Take a column out of all files of a table, and put one in that is no more."""
    import pyarrow
    from pyarrow import parquet

    for file in table.rglob("*.parquet"):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        rows = parquet.ParquetFile(file).read()
        assert without in rows.column_names
        assert rows.column(without).null_count == rows.num_rows or without != "erased"
        more = pyarrow.array(["x"] * rows.num_rows)
        parquet.write_table(rows.drop_columns([without]).append_column("went_since", more), file)


async def test_what_the_last_version_wrote_is_gone_on_with(
    database: str, tmp_path: Path, worker: Worker
) -> None:
    key = KEY.public_key().public_bytes_raw()
    lake = tmp_path / "lake"
    where: dict[str, Any] = {"dsn": database, "lake": lake, "now": NOW}
    await fill(database, day_of_events(count=16))
    connection = await asyncpg.connect(database)
    try:
        await make_seal(connection, KEY, DAY.date())
        await worker.run(rollups_of, {"parsed": False}, **where)
        await worker.run(archive_of, {"key": key, "days": 3}, **where)
        assert await connection.fetchval("SELECT dropped_at IS NOT NULL FROM sluice.archive_day")
        written_by_the_last_version(lake / TABLE, "erased")
        written_by_the_last_version(lake / "rollup_usage", "last_at")
        found = await verify(connection, key=KEY.public_key(), archive=Archive(lake / TABLE))
        assert found.holds, found.findings
        assert (await worker.run(verify_of, {"key": key}, **where)).rows_in == found.events
        # Late events have it written anew, by all jobs, as it is written now.
        late = statement(DAY + timedelta(hours=9), "SELECT 'late'", seed=random.Random(9))
        await fill(database, late)
        assert (await worker.run(rollups_of, {"parsed": False}, **where)).rows_in > 2
        ran = await worker.run(archive_of, {"key": key, "days": 3}, **where)
        assert ran.rows_out == found.events + 2
        rows = await worker.rows(lake / TABLE, "SELECT * FROM lake")
        assert "went_since" not in rows[0]
        assert "erased" in rows[0]
        assert (await worker.run(verify_of, {"key": key}, **where)).rows_in == found.events + 2
        await worker.run(recommend_of, dict(CHOSEN), **where)
    finally:
        await connection.close()
