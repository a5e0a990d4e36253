"""Killed at any step and started again, a job ends with the tables of one that was not.

Each job is killed where one kind of trace is left, then where the next is, and every run has to go on from
what the one before has left. All on one Spark: some 60 s on a machine that does nothing else.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.jobs.running import runs
from gateway.lineage.proposals import proposals
from tests.jobs.classification.test_classification import PEOPLE
from tests.jobs.recommending.test_recommending import CHOSEN, record
from tests.jobs.records import NOW, day_of_events, fill
from tests.jobs.test_closure import PACK, PROPAGATION, draw
from tests.jobs.worker import Worker, archive_of, classify_of, closure_of, recommend_of, rollups_of

pytestmark = pytest.mark.in_turn(3)

CLOSURE = {"pack": PACK, "propagation": PROPAGATION}
TABLES = {
    "rollups": ("rollup_usage", "rollup_refusal", "rollup_statement", "rollup_latency"),
    "closure": ("closure_source", "closure_tag"),
    "recommend": ("recommend_use",),
}


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any

    async def run(self, made: Any, chosen: Any, lake: Path | None = None) -> None:
        await self.worker.run(made, dict(chosen), dsn=self.dsn, lake=lake or self.lake, now=NOW)

    async def kill_at_each(self, made: Any, chosen: Any, *lines: str) -> None:
        """Kill the job at each of these lines, the next run where it goes on from there; then let it end."""
        for line in lines:
            killed, told = await self.worker.killed_at(
                line, made, dict(chosen), dsn=self.dsn, lake=self.lake, now=NOW
            )
            assert killed, (line, told)
        await self.run(made, chosen)
        states = [row["state"] for row in await runs(self.connection, limit=100)]
        assert states[: len(lines) + 1] == ["done"] + ["killed"] * len(lines)

    async def rows(self, names: Sequence[str], lake: Path | None = None) -> list[list[str]]:
        return [
            sorted(map(repr, await self.worker.rows((lake or self.lake) / name, "SELECT * FROM lake")))
            for name in names
        ]

    async def kept(self, *names: str) -> list[list[str]]:
        """Return what PostgreSQL has, without numbers of runs and times of writing."""
        found = []
        for name in names:
            rows = await self.connection.fetch(f"SELECT * FROM sluice.{name}")
            loose = {"run", "id", "saved_at", "made_at", "first_at", "found_at", "created_at", "updated_at"}
            found.append(sorted(repr([v for k, v in row.items() if k not in loose]) for row in rows))
        return found


@pytest.fixture
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Place]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        yield Place(database, tmp_path / "lake", worker, connection)
    finally:
        await connection.close()


async def test_the_archive(place: Place) -> None:
    await fill(place.dsn, day_of_events(count=16))
    await place.kill_at_each(
        archive_of, {}, "read from PostgreSQL", "written", "moved into place", ": archived"
    )
    before = await place.worker.rows(place.lake / "audit_event", "SELECT * FROM lake ORDER BY event_id")
    # Late events: the day has files that must not be lost.
    await fill(place.dsn, day_of_events(count=4, number=3))
    await place.kill_at_each(archive_of, {}, "moved into place")
    after = await place.worker.rows(place.lake / "audit_event", "SELECT * FROM lake ORDER BY event_id")
    events = await place.connection.fetch("SELECT event_id FROM sluice.audit_event")
    assert [row["event_id"] for row in after] == sorted(str(row["event_id"]) for row in events)
    ids = {row["event_id"] for row in before}
    assert [row for row in after if row["event_id"] in ids] == before
    assert len(after) > len(before)


async def test_roll_ups(place: Place, tmp_path: Path) -> None:
    chosen, names = {"parsed": False}, TABLES["rollups"]
    await fill(place.dsn, day_of_events(count=10))
    await place.run(rollups_of, chosen)
    before = await place.rows(names)
    await fill(place.dsn, day_of_events(count=10, number=2))
    await place.kill_at_each(rollups_of, chosen, "rows written", "moved into place")
    after = await place.rows(names), await place.kept(*names)
    assert after[0] != before
    await place.connection.execute("DELETE FROM sluice.job_watermark")
    await place.run(rollups_of, chosen, tmp_path / "another")
    assert (await place.rows(names, tmp_path / "another"), await place.kept(*names)) == after


async def test_the_closure(place: Place, tmp_path: Path) -> None:
    names = TABLES["closure"]
    await draw(place.connection, 1, tables=4, edges=10)
    await place.kill_at_each(closure_of, CLOSURE, "edges read", "rows of closure_tag", "moved into place")
    after = await place.rows(names), await place.kept("closure_finding")
    assert all(after[0])
    await place.connection.execute("DELETE FROM sluice.closure_state")
    await place.run(closure_of, CLOSURE, tmp_path / "another")
    assert (await place.rows(names, tmp_path / "another"), await place.kept("closure_finding")) == after


async def test_recommendations(place: Place, tmp_path: Path) -> None:
    async def recommended() -> list[tuple[Any, ...]]:
        rows = await place.connection.fetch("SELECT kind, subject, state FROM sluice.recommendation")
        return sorted(tuple(row) for row in rows)

    await fill(place.dsn, record())
    await place.run(rollups_of, {"parsed": False})
    await place.kill_at_each(recommend_of, CHOSEN, "moved into place", "with the policies")
    after = await place.rows(TABLES["recommend"]), await recommended()
    assert after[1]
    another = tmp_path / "another"
    another.mkdir()
    for name in TABLES["rollups"]:
        (another / name).symlink_to(place.lake / name)
    await place.connection.execute("TRUNCATE sluice.recommendation, sluice.recommend_day")
    await place.connection.execute("DELETE FROM sluice.job_partition WHERE table_name = 'recommend_use'")
    await place.connection.execute("DELETE FROM sluice.job_watermark WHERE job = 'recommend'")
    await place.run(recommend_of, CHOSEN, another)
    assert (await place.rows(TABLES["recommend"], another), await recommended()) == after


async def test_classification(place: Place, tmp_path: Path) -> None:
    async def proposed() -> list[tuple[str, ...]]:
        found = await proposals(place.connection)
        return sorted(
            (one.target.table, one.target.column, one.target.tag, repr(one.evidence)) for one in found
        )

    name = f"k{os.urandom(4).hex()}"
    chosen = {"include": [f"spark_catalog.{name}.*"]}
    await place.worker.make_database(name, tmp_path / "warehouse")
    try:
        for number in range(2):
            await place.worker.make_table(
                f"{name}.t{number}", "name string, c2 string", [one[1:3] for one in PEOPLE[:40]]
            )
        await place.kill_at_each(classify_of, chosen, "2 columns")
        after = await proposed()
        assert len(after) == 4
        await place.connection.execute(
            "TRUNCATE sluice.tag_proposal, sluice.tag_decision, sluice.classified_table"
        )
        await place.run(classify_of, chosen)
        assert await proposed() == after
    finally:
        await place.worker.drop_database(name)
