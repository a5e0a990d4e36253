"""Recommendations of a record: what is told of it, again and again, and applied. 2 minutes on Spark."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.cli import main
from gateway.jobs.recommending.storing import list_recommendations
from gateway.model.audit import AuditEvent
from tests.audit.samples import cleared
from tests.jobs.records import DAY, NOW, at, fill, identity
from tests.jobs.worker import Ran, Worker, recommend_of, rollups_of

pytestmark = pytest.mark.in_turn(3)

PACK = """\
service: spark
super_users: [root]
# Everybody of the house.
policies:
  - name: analysts read sales   # for now
    on: {catalog: spark_catalog, database: sales, table: "*", column: "*"}
    allow:
      - {groups: [analysts], access: [select]}
      - {groups: [interns], access: [select]}
  - name: orders again
    on: {catalog: spark_catalog, database: sales, table: orders, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: keys
    on: {catalog: spark_catalog, database: sales, table: "*", column: id}
    mask:
      - {groups: [support], type: MASK_NONE}
      - {groups: [analysts], type: MASK_NONE}
      - {groups: [public], type: MASK_NULL}
"""
CHOSEN = {"pack": PACK, "unused_days": 3, "peers": {"members": 3, "tables": 3}}


def read(user: str, table: str, day: int, column: str = "id") -> AuditEvent:
    """Return a read of a column, so many days after the first."""
    seed = random.Random(f"{user} {table} {day} {column}")
    moment = DAY + timedelta(days=day, seconds=seed.randrange(80_000))
    event = at(cleared(user=user), moment, "gate0-00000000", seed, statement_id=identity(moment, seed))
    body = json.loads(json.dumps(dict(event.body), default=str))
    body["scans"] = [{**body["scans"][0], "table": f"spark_catalog.{table}", "columns": [column]}]
    body["scans"][0]["obligations"] = []
    return dataclasses.replace(event, body=body | {"groups": ["analysts"]})


def record() -> list[AuditEvent]:
    """Return a record in which three read the same three tables, and a fourth others."""
    found = [read(user, f"sales.t{n}", 4) for user in ("ann", "bob", "cem") for n in range(3)]
    found += [read(user, "sales.orders", 0) for user in ("ann", "bob", "cem", "dan")]
    found += [read("dan", f"sales.odd{n}", 4) for n in range(3)]
    # What super users read is not to be closed, though no policy speaks of it.
    found += [read("root", "hr.zoo", 4)]
    return [*found, read("eve", "hr.unknown", 4), read("eve", "sales.t0", 4)]


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any

    async def roll_up(self) -> None:
        await self.worker.run(rollups_of, {}, dsn=self.dsn, lake=self.lake, now=NOW)

    async def recommend(self, *, now: datetime = NOW, **chosen: Any) -> Ran:
        return await self.worker.run(
            recommend_of, {**CHOSEN, **chosen}, dsn=self.dsn, lake=self.lake, now=now
        )

    async def told(self, *states: str) -> dict[tuple[str, str], int]:
        found = await list_recommendations(self.connection, states=states or ("proposed",))
        return {(one["kind"], one["subject"]): one["id"] for one in found}


@pytest.fixture
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Place]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    try:
        yield Place(database, tmp_path / "lake", worker, connection)
    finally:
        await connection.close()


async def test_recommendations_of_a_record_and_again_and_applied(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, settings = tmp_path / "pack.yaml", tmp_path / "gateway.yaml"
    file.write_text(PACK)
    (tmp_path / "dsn").write_text(place.dsn)
    settings.write_text(
        json.dumps(
            {
                "ledger": {"directory": "ledger", "dsn": {"file": "dsn"}},
                "policies": {"paths": ["pack.yaml"]},
                "users": {"file": "users.yaml"},
            }
        )
    )
    assert "there is no usage yet" in "".join((await place.recommend()).lines)
    await fill(place.dsn, record())
    await place.roll_up()
    ran = await place.recommend()
    assert ran.rows_in > 0
    assert any("1 uses are not allowed by any policy now" in line for line in ran.lines)
    rows = {
        (one["kind"], one["evidence"].get("who", "")): one
        for one in await list_recommendations(place.connection)
    }
    assert set(rows) == {
        ("unused-grant", "group interns"),
        ("unused-exemption", "group support"),
        ("shadowed", ""),
        ("group-by-use", ""),
        ("far-from-peers", ""),
        ("wide-wildcard", ""),
        ("no-policy", ""),
    }
    # Of seven known tables of the database, one was read too long ago.
    wide = rows["wide-wildcard", ""]["evidence"]
    assert (wide["known_tables"], len(wide["tables"])) == (7, 6)
    role = rows["group-by-use", ""]
    assert role["edits"][0]["role"] == {"users": ["ann", "bob", "cem"]}
    assert set(role["evidence"]["tables"]) == {f"spark_catalog.sales.t{n}" for n in range(3)}
    far = rows["far-from-peers", ""]
    assert far["evidence"]["odd_tables"] == [f"spark_catalog.sales.odd{n}" for n in range(3)]
    closed = await list_recommendations(place.connection, kind="no-policy")
    assert [one["subject"] for one in closed] == ["spark_catalog.hr.unknown"]
    # Again: a late event has its own day made anew and nothing else; what was rejected stays so, and what is
    # found again has its number.
    before = await place.told()
    assert await _command(settings, "reject", str(role["id"])) == 0
    await fill(place.dsn, [read("ann", "sales.t0", 0)])
    await place.roll_up()
    ran = await place.recommend()
    assert sum("moved into place" in line for line in ran.lines) == 1
    assert any("0 new, 0 gone" in line for line in ran.lines)
    after = await place.told()
    assert before == {**after, ("group-by-use", role["subject"]): role["id"]}
    assert await place.told("rejected") == {("group-by-use", role["subject"]): role["id"]}
    assert await _command(settings, "list", "--state", "all") == 0
    assert await _command(settings, "show", str(far["id"])) == 0
    assert "odd tables" in capsys.readouterr().out
    # Applied to the pack, whose comments stay; then it is gone.
    to_pack = ("--pack", str(file))
    unused = str(rows["unused-grant", "group interns"]["id"])
    assert await _command(settings, "apply", unused, *to_pack) == 0
    told = capsys.readouterr().out
    assert "-      - {groups: [interns], access: [select]}" in told
    # Whoever applies it knows how old the look at the use is.
    looked = await place.connection.fetchval(
        "SELECT max(started_at) FROM sluice.job_run WHERE job = 'recommend'"
    )
    assert f"last checked {looked:%Y-%m-%d %H:%M} UTC; `sluice jobs run recommend`" in told
    assert file.read_text() == PACK
    for key in (("unused-grant", "group interns"), ("shadowed", ""), ("unused-exemption", "group support")):
        assert await _command(settings, "apply", str(rows[key]["id"]), *to_pack, "--write") == 0, key
    text = file.read_text()
    assert "# Everybody of the house." in text
    assert "interns" not in text.partition("cases:")[0]
    await place.recommend(pack=text)
    assert not {kind for kind, _ in await place.told()} & {"unused-grant", "shadowed", "unused-exemption"}


async def _command(settings: Path, *words: str) -> int:
    return await asyncio.to_thread(main, ["recommend", *words, "-c", str(settings)])


async def test_a_young_record_and_garbage_tell_nothing_unused(place: Place) -> None:
    await fill(place.dsn, [read("ann", "sales.t0", 4), read("a`b", "..", 4), read("", "sales.`", 4)])
    await place.roll_up()
    ran = await place.recommend()
    assert any("earlier use is not known" in line for line in ran.lines)
    assert any("uses name no table" in line for line in ran.lines)
    assert {kind for kind, _ in await place.told()} <= {"shadowed", "no-policy"}


@pytest.mark.in_turn(1)
async def test_a_run_that_was_killed_is_made_up_for(place: Place) -> None:
    await fill(place.dsn, [read("ann", "sales.t0", 4)])
    await place.roll_up()
    await place.recommend()
    rows = await place.worker.rows(place.lake / "recommend_use", "SELECT * FROM lake")
    # As if it had been killed between the files and PostgreSQL: another run's files are in the place.
    (day,) = (place.lake / "recommend_use").glob("day=*")
    aside = place.lake / "recommend_use" / "_replaced" / day.name
    aside.parent.mkdir(exist_ok=True)
    day.rename(aside)
    day.mkdir()
    (day / "_run").write_text("999999")
    await place.recommend()
    assert await place.worker.rows(place.lake / "recommend_use", "SELECT * FROM lake") == rows
