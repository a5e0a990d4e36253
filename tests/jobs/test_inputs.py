"""Each job takes an input with nothing in it, and a day of garbage: it ends well, and tells of neither.

What is garbage to one job alone is tried with that job. One Spark for all: some 35 s of CPU.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.archived import Archive
from gateway.audit.verify import verify
from gateway.jobs.archive import TABLE
from gateway.jobs.proof.report import load_unproved, proofs
from gateway.jobs.replay.report import read_report
from gateway.jobs.running import runs
from gateway.lineage.proposals import proposals
from gateway.model.audit import AuditEvent
from gateway.reader.pool import ReaderPool
from tests.audit.samples import cleared
from tests.jobs import worker as made
from tests.jobs.proof.test_proof import DATA
from tests.jobs.proof.test_proof import STATEMENTS as READ
from tests.jobs.recommending.test_recommending import CHOSEN
from tests.jobs.records import DAY, NOW, at, day_of_events, fill, identity
from tests.jobs.replay.test_replay import NEW, OLD, recorded
from tests.jobs.test_closure import PACK, PROPAGATION, draw
from tests.judge_world import World

pytestmark = pytest.mark.in_turn(3)

KEY = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
CLOSURE = {"pack": PACK, "propagation": PROPAGATION}
GARBAGE: tuple[dict[str, Any], ...] = (
    {"scans": 3, "decisions": "x", "lineage": 7},
    {"scans": [[], {"columns": [[1]]}, None], "decisions": [None, 1], "lineage": {"tables": "nonsense"}},
    {"scans": [{"table": None, "columns": 1, "obligations": [None]}], "namespace": 7},
    {"scans": [{"table": "a.b.c"}], "namespace": [None, {}], "catalog": []},
    {"scans": [{"table": "😀"}], "namespace": [], "settings": {"a": 1}, "texts": 1},
    {"scans": [{}], "plan": {"a": []}, "lineage": {"plan": "AAAA", "tables": "", "facts": [1]}},
    {"scans": [{}], "plan": "execute", "lineage": {"plan": "!", "temp_views": [1], "relations": "x"}},
    {"scans": [{}], "plan": "execute", "texts": [], "lineage": {"tables": None}},
    {"scans": [{}], "catalog": "", "namespace": ["a.b", "`"], "lineage": {"tables": None}},
)
"""What stands in place of parts of a decision's record."""


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: made.Worker
    connection: Any

    async def run(self, of: Any, chosen: dict[str, Any]) -> made.Ran:
        return await self.worker.run(of, dict(chosen), dsn=self.dsn, lake=self.lake, now=NOW)


@pytest_asyncio.fixture(loop_scope="session")
async def place(database: str, tmp_path: Path, worker: made.Worker) -> AsyncIterator[Place]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        yield Place(database, tmp_path / "lake", worker, connection)
    finally:
        await connection.close()


def replaying(world: World) -> dict[str, Any]:
    return {"old": OLD, "new": NEW, "principals": world.principals, "now": list(world.tables.values())}


def garbage() -> list[AuditEvent]:
    """Return decisions of the day whose bodies are garbage, in a chain as any other."""
    seed = random.Random(1)
    found = []
    for number, body in enumerate(GARBAGE):
        moment = DAY + timedelta(hours=number, minutes=30)
        event = cleared(f"SELECT {number}")
        found.append(
            at(
                dataclasses.replace(event, body={**event.body, **body}),
                moment,
                "gate0-00000000",
                seed,
                statement_id=identity(moment, seed),
            )
        )
    return found


@pytest.mark.asyncio(loop_scope="session")
async def test_nothing(place: Place, tmp_path: Path) -> None:
    name = f"e{os.urandom(4).hex()}"
    jobs: tuple[tuple[Any, dict[str, Any]], ...] = (
        (made.archive_of, {"key": KEY, "days": 1}),
        (made.rollups_of, {"parsed": False}),
        (made.verify_of, {"key": KEY}),
        (made.recommend_of, CHOSEN),
        (made.replay_of, replaying(World())),
        (made.proof_of, {"data": {}}),
        (made.closure_of, CLOSURE),
        (made.classify_of, {"include": [f"spark_catalog.{name}.*"]}),
    )
    for of, chosen in jobs:
        ran = await place.run(of, chosen)
        assert (ran.rows_in, ran.rows_out) == (0, 0), of
    await place.worker.make_database(name, tmp_path / "warehouse")
    try:
        await place.worker.make_table(f"{name}.empty", "c0 string, `a``b.c` map<string,binary>", [])
        ran = await place.run(made.classify_of, {"include": [f"spark_catalog.{name}.*"]})
        assert (ran.rows_in, await proposals(place.connection)) == (0, [])
    finally:
        await place.worker.drop_database(name)
    assert {row["state"] for row in await runs(place.connection)} == {"done"}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_day_of_garbage(place: Place, reader: ReaderPool) -> None:
    world = World()
    await fill(place.dsn, [*day_of_events(count=8), *garbage(), *await recorded(world, reader, READ)])
    events = await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event")
    decided = await place.connection.fetchval(
        "SELECT count(*) FROM sluice.audit_event WHERE kind = 'decided'"
    )
    assert (await place.run(made.rollups_of, {"parsed": False})).rows_in >= events
    usage = await place.worker.rows(place.lake / "rollup_usage", "SELECT * FROM lake")
    assert "spark_catalog.hr.employee" in {row["table_name"] for row in usage}
    ran = await place.run(made.archive_of, {"key": KEY})
    assert (ran.rows_in, ran.rows_out) == (events, events)
    here = await verify(place.connection, archive=Archive(place.lake / TABLE))
    assert here.holds, here.findings
    assert (await place.run(made.verify_of, {"key": KEY})).rows_in == here.events == events
    await place.run(made.recommend_of, CHOSEN)
    # Both of these judge, so that each statement counts as judged or with why it was not.
    await place.run(made.replay_of, replaying(world))
    number = await place.connection.fetchval("SELECT max(run) FROM sluice.replay")
    report = await read_report(place.connection, number, limit=100)
    totals = report.totals
    assert totals["statements"] == decided
    assert totals["judged"] >= len(READ)
    assert totals["judged"] + totals["asked_nothing"] + totals["unjudged"] == decided
    await place.run(made.proof_of, {"data": DATA, "per_stratum": 20})
    (run,) = await proofs(place.connection, 1)
    reasons = {one["reason"]: one["statements"] for one in await load_unproved(place.connection)}
    assert (run["proved"], run["different"]) == (len(READ), 0)
    assert run["proved"] + sum(reasons.values()) == run["statements"]
    assert reasons["its record cannot be read"] >= 2
    assert {row["state"] for row in await runs(place.connection)} == {"done"}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_graph_and_a_table_of_garbage(place: Place, tmp_path: Path) -> None:
    await draw(place.connection, 5)
    pairs = (await place.run(made.closure_of, CLOSURE)).rows_out
    ids = [row["id"] for row in await place.connection.fetch("SELECT id FROM sluice.lineage_column LIMIT 2")]
    await place.connection.execute(
        "INSERT INTO sluice.lineage_dataset (name, kind, parts, first_seen, last_seen) VALUES"
        " ('', '', '{}', now(), now()), ('.`', 'table', '{NULL,a,\"b.`\"}', now(), now())"
    )
    await place.connection.execute(
        'INSERT INTO sluice.lineage_column (dataset, name) SELECT id, unnest(\'{"",*,"a.`b"}\'::text[])'
        " FROM sluice.lineage_dataset WHERE kind = '' OR name = '.`'"
    )
    await place.connection.execute(
        "INSERT INTO sluice.lineage_edge (source, target, subtype, masking, expression, statements, finished,"
        " first_seen, last_seen, last_statement, aggregates) VALUES"
        " ($1, $2, 'NOTHING', false, '', -1, true, now(), now(), gen_random_uuid(), '{}')",
        *ids,
    )
    assert (await place.run(made.closure_of, CLOSURE)).rows_out >= pairs
    name = f"g{os.urandom(4).hex()}"
    await place.worker.make_database(name, tmp_path / "warehouse")
    try:
        rows = [("\x00\uffff" * 50, b"\xff\x00", {"": ["\u202e"]}, float("nan")), ("{" * 900, b"", {}, None)]
        await place.worker.make_table(
            f"{name}.t", "`a.b` string, b binary, m map<string,array<string>>, d double", rows * 20
        )
        await place.run(made.classify_of, {"include": [f"spark_catalog.{name}.*"]})
        (row,) = await place.connection.fetch("SELECT state FROM sluice.classified_table")
        assert (row["state"], await proposals(place.connection)) == ("classified", [])
    finally:
        await place.worker.drop_database(name)
