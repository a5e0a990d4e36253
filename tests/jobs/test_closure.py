"""The closure is what walks of the live graph answer, on random graphs with circles. a minute on Spark."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gateway.app.jobs import closure_options, jobs
from gateway.app.recommending import recommend_options
from gateway.database.migrate import migrate
from gateway.jobs.closure_frames import CARRIES
from gateway.lineage.graph import Direction, GraphColumn, see_all_columns, walk
from gateway.lineage.propagation import Spread, spread_tags
from gateway.policy.propagation import load_propagation
from gateway.settings import load_settings
from gateway.sql.functions import AGGREGATES
from tests.jobs.worker import Ran, Worker, closure_of

NOW = datetime(2026, 11, 25, tzinfo=UTC)
PROPAGATION = """\
flows:
  {IDENTITY: carry, TRANSFORMATION: carry, AGGREGATION: carry, CONDITIONAL: drop, JOIN: drop, FILTER: drop,
   GROUP_BY: drop, SORT: drop, WINDOW: drop, TABLE: ask}
aggregates: {count: drop}
tags:
  GEO: {aggregates: {avg: drop}}
"""
PACK = """\
service: spark
tags:
  - on: {catalog: c, database: d, table: t0, column: a}
    tags: [PII, GEO]
  - on: {catalog: c, database: d, table: t3, column: [b, c]}
    tags: [PII]
  - on: {catalog: c, database: d, table: t5}
    tags: [GEO]
policies: []
"""
TAGGED = {
    "c.d.t0.a": ["PII", "GEO"],
    **{f"c.d.t3.{name}": ["PII"] for name in "bc"},
    **{f"c.d.t5.{name}": ["GEO"] for name in ("a", "b", "c", "*")},
}
"""As the pack has it."""
KINDS = ("IDENTITY", "TRANSFORMATION", "AGGREGATION", "JOIN", "FILTER", "TABLE")
NAMES = ("a", "b", "c", "*")


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any

    async def close(self, *, now: datetime = NOW, **chosen: Any) -> Ran:
        given = {"pack": PACK, "propagation": PROPAGATION, **chosen}
        return await self.worker.run(closure_of, given, dsn=self.dsn, lake=self.lake, now=now)

    async def rows(self, table: str) -> list[dict[str, Any]]:
        return await self.worker.rows(self.lake / table, "SELECT * EXCEPT (graph) FROM lake")


@pytest.fixture
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Place]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    try:
        yield Place(database, tmp_path / "lake", worker, connection)
    finally:
        await connection.close()


async def draw(connection: Any, seed: int, *, tables: int = 8, edges: int = 30) -> None:
    """Draw a graph: circles, `*`, masks, what never ended, edges of several kinds between the same two."""
    chance = random.Random(seed)
    for number in range(tables):
        name = f"c.d.t{number}"
        await connection.execute(
            "INSERT INTO sluice.lineage_dataset (name, kind, parts, first_seen, last_seen)"
            " VALUES ($1, 'table', $2, now(), now())",
            name,
            name.split("."),
        )
        await connection.execute(
            "INSERT INTO sluice.lineage_column (dataset, name)"
            " SELECT id, unnest($2::text[]) FROM sluice.lineage_dataset WHERE name = $1",
            name,
            list(NAMES),
        )
    ids = [row["id"] for row in await connection.fetch("SELECT id FROM sluice.lineage_column")]
    for number in range(edges):
        kind = chance.choice(KINDS)
        await connection.execute(
            "INSERT INTO sluice.lineage_edge (source, target, subtype, masking, expression, statements,"
            " finished, first_seen, last_seen, last_statement, aggregates)"
            " VALUES ($1, $2, $3, $4, '', 1, $5, now(), now(), $6, $7) ON CONFLICT DO NOTHING",
            *(chance.choice(ids), chance.choice(ids), kind, chance.random() < 0.2, chance.random() < 0.8),
            UUID(int=number),
            chance.choice((["count"], ["avg"], ["sum", "-"])) if kind == "AGGREGATION" else ["-"],
        )


async def reject(connection: Any, column: str, tag: str) -> None:
    await connection.execute(
        "INSERT INTO sluice.tag_proposal"
        " (catalog, database, table_name, column_name, tag, attributes, state, asks, origins)"
        " VALUES ($1, $2, $3, $4, $5, '[]', 'rejected', false, '[]')",
        *column.split("."),
        tag,
    )


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.night)])
@pytest.mark.in_turn(1)
async def test_it_is_what_the_live_graph_says(place: Place, seed: int) -> None:
    await draw(place.connection, seed)
    columns = await place.connection.fetch(
        "SELECT c.id, c.name, d.name AS dataset FROM sluice.lineage_column c"
        " JOIN sluice.lineage_dataset d ON d.id = c.dataset"
    )
    at = {row["id"]: f"{row['dataset']}.{row['name']}" for row in columns}
    starts = {id_: TAGGED[name] for id_, name in at.items() if name in TAGGED}
    rules = load_propagation(PROPAGATION, "rules.yaml", AGGREGATES)
    unstopped = _arrived(await spread_tags(place.connection, starts, rules, most_sources=1000))
    # Of what arrives some is rejected, and of what has the tag, too.
    stops = {*sorted({(target, tag) for tag, _, target, _ in unstopped})[::4], (min(starts), "PII")}
    for column, tag in stops:
        await reject(place.connection, at[column], tag)
    await place.close(depth=100)
    expected = set()
    for row in columns:
        column = GraphColumn(row["dataset"], row["name"])
        answer = await walk(place.connection, [column], Direction.UP, see_all_columns, depth=100)
        assert not answer.cut_off
        for one in answer.reached:
            carried = CARRIES[int(one.carries)]
            expected.add((*_pair(one.column), *_pair(column), carried, one.distance))
    found = {tuple(row.values()) for row in await place.rows("closure_source")}
    assert found == expected
    # Tags.
    arrived = _arrived(await spread_tags(place.connection, starts, rules, stops=stops, most_sources=1000))
    assert len(arrived) < len(unstopped)
    expected_tags = {
        (tag, at[source], at[target], how)
        for tag, source, target, how in arrived
        if (target, tag) not in stops or tag in TAGGED.get(at[target], ())
    }
    rows = await place.rows("closure_tag")
    told = {
        (
            row["tag"],
            f"{row['source_dataset']}.{row['source_column']}",
            f"{row['target_dataset']}.{row['target_column']}",
            row["how"],
        )
        for row in rows
    }
    assert told == expected_tags
    kept = await place.connection.fetch("SELECT * FROM sluice.closure_finding")
    assert {(row["table_name"], row["column_name"], row["tag"]) for row in kept} == {
        (row["target_dataset"], row["target_column"], row["tag"]) for row in rows if not row["tagged"]
    }
    for row in rows:
        assert row["tagged"] == (
            row["tag"] in TAGGED.get(f"{row['target_dataset']}.{row['target_column']}", ())
        )


def _arrived(found: Spread) -> set[tuple[str, int, int, str]]:
    return {
        (tag, source, target, arrival.how.name.lower())
        for target, tags in found.arrivals.items()
        for tag, sources in tags.items()
        for source, arrival in sources.items()
        if source != target
    }


def _pair(column: GraphColumn) -> tuple[str, str]:
    return column.dataset, column.name


@pytest.mark.in_turn(12, place=4)
async def test_empty_unchanged_changed_bounded_and_killed(place: Place) -> None:
    ran = await place.close()
    assert ran.rows_out == 0
    assert not await place.connection.fetch("SELECT * FROM sluice.closure_finding")
    assert any("have not changed" in line for line in (await place.close()).lines)
    await draw(place.connection, 5)
    assert (await place.close()).rows_out > 0
    whole = sorted(map(repr, await place.rows("closure_source")))
    assert any("have not changed" in line for line in (await place.close()).lines)
    # Killed when the files were in their place and PostgreSQL did not know: the old ones come back.
    for name in ("closure_source", "closure_tag"):
        aside = place.lake / name / "_replaced" / "graph=now"
        aside.parent.mkdir(exist_ok=True)
        (place.lake / name / "graph=now").rename(aside)
        (place.lake / name / "graph=now").mkdir()
        (place.lake / name / "graph=now" / "_run").write_text("999999")
    await place.close()
    assert sorted(map(repr, await place.rows("closure_source"))) == whole
    ran = await place.close(depth=1)
    assert any("some paths have more than 1 steps" in line for line in ran.lines)
    assert {row["distance"] for row in await place.rows("closure_source")} == {1}
    assert await place.connection.fetchval("SELECT cut_off FROM sluice.closure_state") != ""
    await place.connection.execute("DELETE FROM sluice.lineage_edge")
    assert (await place.close()).rows_out == 0


@pytest.mark.in_turn(1)
async def test_what_is_not_as_it_was_is_made_anew(place: Place) -> None:
    pack = PACK.replace("tags: [PII, GEO]", "tags: [{tag: PII, validity: {from: 2026-11-25 06:00}}, GEO]")
    assert pack != PACK
    await draw(place.connection, 5, tables=4, edges=6)
    await place.close(pack=pack)
    later = NOW + timedelta(hours=1)
    assert any("have not changed" in line for line in (await place.close(pack=pack, now=later)).lines)
    later = NOW + timedelta(hours=7)
    assert (await place.close(pack=pack, now=later)).rows_out > 0, "a tag is in force since"
    # Of two transactions, the one that began first ends last.
    other = await asyncpg.connect(place.dsn)
    try:
        change = (
            "UPDATE sluice.lineage_edge SET changed_in = pg_current_xact_id() WHERE id ="
            " (SELECT {0}(id) FROM sluice.lineage_edge)"
        )
        transaction = other.transaction()
        await transaction.start()
        await other.execute(change.format("min"))
        await place.connection.execute(change.format("max"))
        assert (await place.close(pack=pack, now=later)).rows_out > 0
        await transaction.commit()
    finally:
        await other.close()
    assert (await place.close(pack=pack, now=later)).rows_out > 0
    await reject(place.connection, "c.d.t1.a", "PII")
    assert (await place.close(pack=pack, now=later)).rows_out > 0
    shutil.rmtree(place.lake / "closure_tag" / "graph=now")
    assert (await place.close(pack=pack, now=later)).rows_out > 0
    assert await place.rows("closure_tag")
    assert any("have not changed" in line for line in (await place.close(pack=pack, now=later)).lines)


async def test_the_settings_give_both_jobs_their_policies(place: Place, tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_text(PACK)
    file = tmp_path / "gateway.yaml"
    file.write_text('{"policies": {"paths": ["pack.yaml"]}, "jobs": {"closure": {"depth": 7}}}')
    settings = load_settings(file)
    assert {"recommend", "closure"} <= jobs(settings).keys()
    given = closure_options(settings)
    rules = await given.rules(place.connection)
    assert given.depth == 7
    assert rules.policies.services["spark"].tagged
    assert rules.basis == (await given.rules(place.connection)).basis
    file.with_name("pack.yaml").write_text(PACK.replace("PII, GEO", "PII"))
    assert rules.basis != (await given.rules(place.connection)).basis
    assert (await recommend_options(settings).rules(place.connection)).policies.services["spark"].tagged
