"""What the last version has written is read as it is: without the newest columns, with some that went.

One Spark for all: some 40 s of CPU.
"""

from __future__ import annotations

import os
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
from tests.jobs.recommending.test_recommending import CHOSEN
from tests.jobs.records import DAY, NOW, day_of_events, fill, statement
from tests.jobs.test_closure import PACK, PROPAGATION, draw
from tests.jobs.test_inputs import replaying
from tests.jobs.worker import (
    Ran,
    Worker,
    archive_of,
    classify_of,
    closure_of,
    recommend_of,
    replay_of,
    rollups_of,
    verify_of,
)
from tests.judge_world import World

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
        found = await verify(connection, keys=[KEY.public_key()], archive=Archive(lake / TABLE))
        assert found.holds, found.findings
        assert (await worker.run(verify_of, {"key": key}, **where)).rows_in == found.events
        # A job of another version begins anew, and late events have their day written as it is now.
        await connection.execute("UPDATE sluice.job_watermark SET version = 0")
        late = statement(DAY + timedelta(hours=9), "SELECT 'late'", seed=random.Random(9))
        await fill(database, late)
        assert (await worker.run(rollups_of, {"parsed": False}, **where)).rows_out > 24
        ran = await worker.run(archive_of, {"key": key, "days": 3}, **where)
        assert ran.rows_out == found.events + 2
        rows = await worker.rows(lake / TABLE, "SELECT * FROM lake")
        assert "went_since" not in rows[0]
        assert "erased" in rows[0]
        assert (await worker.run(verify_of, {"key": key}, **where)).rows_in == found.events + 2
        decided = sum(row["kind"] == "decided" for row in rows)
        period = {"since": DAY, "until": DAY + timedelta(days=1)}
        written_by_the_last_version(lake / TABLE, "erased")
        await worker.run(replay_of, {**replaying(World()), **period}, **where)
        assert await connection.fetchval("SELECT statements FROM sluice.replay") == decided
        used = (await worker.run(recommend_of, dict(CHOSEN), **where)).rows_in
        written_by_the_last_version(lake / "recommend_use", "last_at")
        assert (await worker.run(recommend_of, dict(CHOSEN), **where)).rows_in == used > 0
    finally:
        await connection.close()


async def test_what_it_said_of_the_graph_and_of_tables_is_said_anew(
    database: str, tmp_path: Path, worker: Worker
) -> None:
    lake, name = tmp_path / "lake", f"l{os.urandom(4).hex()}"
    where: dict[str, Any] = {"dsn": database, "lake": lake, "now": NOW}
    closure, classify = {"pack": PACK, "propagation": PROPAGATION}, {"include": [f"spark_catalog.{name}.*"]}
    await fill(database, ())
    connection = await asyncpg.connect(database)
    await worker.make_database(name, tmp_path / "warehouse")
    try:
        await draw(connection, 5)
        await worker.make_table(f"{name}.t", "email string", [("a@b.example",)])

        async def both() -> list[Ran]:
            return [
                await worker.run(closure_of, dict(closure), **where),
                await worker.run(classify_of, dict(classify), **where),
            ]

        first = await both()
        assert [one.rows_in for one in await both()] == [0, 0]
        written_by_the_last_version(lake / "closure_source", "distance")
        await connection.execute("UPDATE sluice.closure_state SET basis = 'of the last version'")
        await connection.execute("UPDATE sluice.classified_table SET signature = 'of the last version'")
        again = await both()
        assert [one.rows_in for one in again] == [one.rows_in for one in first]
        assert again[0].rows_out == first[0].rows_out > 0
        rows = await worker.rows(lake / "closure_source", "SELECT * FROM lake")
        assert "distance" in rows[0]
        assert "went_since" not in rows[0]
    finally:
        await worker.drop_database(name)
        await connection.close()
