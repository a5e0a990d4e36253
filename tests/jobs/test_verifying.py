"""On Spark the record is verified as in the command's own process, and the archive's files with it.

One Spark for all: some 40 s of CPU.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.archived import Archive
from gateway.audit.chain import Head, start
from gateway.audit.erasing import KINDS, erase, without_texts
from gateway.audit.rows import COLUMNS, event_digest
from gateway.audit.seals import make_seal, read_seal, seals
from gateway.audit.verify import GONE, verify
from gateway.errors import JobBusy, RecordChanged
from gateway.jobs.archive import TABLE
from gateway.jobs.locks import LOCKS, keep_archive
from tests.jobs.records import DAY, NOW, day_of_events, fill, statement
from tests.jobs.worker import Ran, Worker, archive_of, verify_of

pytestmark = pytest.mark.in_turn(2)

KEY = Ed25519PrivateKey.generate()
GATE = "gate0-00000000"
FIRST, SECOND = DAY.date(), DAY.date() + timedelta(days=1)
Rows = list[dict[str, Any]]
Told = list[tuple[str, str, int, int]]
"""Kind, gateway, first and last position."""


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any

    async def run(self, **chosen: Any) -> Ran:
        chosen = {"key": KEY.public_key().public_bytes_raw(), "part_events": 7, **chosen}
        return await self.worker.run(verify_of, chosen, dsn=self.dsn, lake=self.lake, now=NOW)

    async def found(self, **chosen: Any) -> list[tuple[str, str]]:
        """Verify on Spark; return kinds and places."""
        with pytest.raises(RecordChanged):
            await self.run(**chosen)
        return [(row["kind"], row["place"]) for row in await self._rows()]

    async def told(self) -> Told:
        return sorted((row["kind"], row["gateway"], row["first"], row["last"]) for row in await self._rows())

    async def _rows(self) -> list[Any]:
        rows: list[Any] = await self.connection.fetch(
            "SELECT * FROM sluice.verification_finding WHERE run = (SELECT max(run) FROM sluice.verification)"
        )
        return rows

    async def here(self, **more: Any) -> Told:
        """Verify in this process."""
        found = await verify(
            self.connection, keys=[KEY.public_key()], archive=Archive(self.lake / TABLE), **more
        )
        return sorted((one.kind.value, one.gateway, one.first, one.last) for one in found.findings)

    def files(self, day: date) -> list[Path]:
        return sorted((self.lake / TABLE / f"day={day}").rglob("*.parquet"))

    def rewrite(self, day: date, change: Callable[[Rows], Rows]) -> None:
        """Write a day's files anew, as somebody who has the lake can."""
        import pyarrow
        from pyarrow import parquet

        schema = parquet.read_schema(self.files(day)[0])
        rows: Rows = []
        for file in self.files(day):
            rows += [dict(row, hour=file.parent.name) for row in parquet.ParquetFile(file).read().to_pylist()]
            file.unlink()
        by_hour: dict[str, Rows] = {}
        for row in change(sorted(rows, key=lambda one: (one["gateway"], one["chain_position"]))):
            by_hour.setdefault(row.pop("hour"), []).append(row)
        for hour, some in by_hour.items():
            some.sort(key=lambda one: (one["gateway"], one["chain_position"] or 0))
            place = self.lake / TABLE / f"day={day}" / hour
            place.mkdir(exist_ok=True)
            parquet.write_table(pyarrow.Table.from_pylist(some, schema=schema), place / "part-0.parquet")


@pytest.fixture
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Place]:
    """Three days: one that the archive alone has, one that is in both, one that is in PostgreSQL alone."""
    await fill(database, day_of_events(count=24))
    connection = await asyncpg.connect(database)
    try:
        await make_seal(connection, KEY, FIRST)
        await fill(database, day_of_events(DAY + timedelta(days=1), count=16, number=2))
        lake = tmp_path / "lake"
        chosen = {"key": KEY.public_key().public_bytes_raw(), "days": 4}
        await worker.run(archive_of, chosen, dsn=database, lake=lake, now=NOW)
        await fill(database, day_of_events(DAY + timedelta(days=2), count=16, number=3))
        await make_seal(connection, KEY, SECOND)
        yield Place(database, lake, worker, connection)
    finally:
        await connection.close()


async def free(connection: Any) -> None:
    for table in ("audit_event", "audit_seal"):
        await connection.execute(f"DROP TRIGGER IF EXISTS append_only ON sluice.{table}")


async def test_a_record_that_nobody_touched_holds(place: Place) -> None:
    days = await place.connection.fetch("SELECT * FROM sluice.archive_day ORDER BY day")
    assert [(row["day"], row["dropped_at"] is not None) for row in days] == [(FIRST, True), (SECOND, False)]
    # One that came when PostgreSQL's clock had been set back: the archive has not got it yet.
    late = statement(DAY + timedelta(days=1, hours=4), seed=random.Random(7))
    await fill(place.dsn, late, stored_at=DAY)
    expected = await verify(place.connection, keys=[KEY.public_key()], archive=Archive(place.lake / TABLE))
    assert expected.holds, expected.findings
    ran = await place.run()
    assert ran.rows_in == expected.events
    row = await place.connection.fetchrow("SELECT * FROM sluice.verification")
    assert (row["events"], row["gateways"], row["seals"], row["findings"]) == (expected.events, 2, 2, 0)
    some: dict[str, Any] = {"since": DAY + timedelta(hours=5), "until": DAY + timedelta(days=1, hours=3)}
    part = await verify(
        place.connection, keys=[KEY.public_key()], archive=Archive(place.lake / TABLE), **some
    )
    assert (await place.run(**some)).rows_in == part.events < expected.events
    assert (await place.run(since=NOW)).rows_in == 2, "the last of each chain"


async def test_an_empty_record_holds_without_a_spark(database: str, tmp_path: Path, worker: Worker) -> None:
    chosen = {"key": KEY.public_key().public_bytes_raw()}
    ran = await worker.run(verify_of, chosen, dsn=database, lake=tmp_path / "lake", now=NOW)
    assert (ran.rows_in, ran.application) == (0, "")


async def test_what_was_done_to_postgresql_is_found_as_it_is_here(place: Place) -> None:
    connection = place.connection
    last = await connection.fetchval("SELECT chain_position FROM sluice.audit_chain WHERE gateway = $1", GATE)
    first = await connection.fetchval(
        "SELECT min(chain_position) FROM sluice.audit_event WHERE gateway = $1 AND time >= $2",
        *(GATE, DAY + timedelta(days=2)),
    )
    await free(connection)
    set_ = "UPDATE sluice.audit_event SET {} WHERE gateway = $1 AND chain_position = $2"
    at = "SELECT event_id, link FROM sluice.audit_event WHERE gateway = $1 AND chain_position = $2"
    await connection.execute(set_.format("user_name = 'eve'"), GATE, first)
    await connection.execute(set_.format("body = '7', erased = '7'"), GATE, first + 1)
    one, other = [await connection.fetchrow(at, GATE, first + n) for n in (3, 11)]
    swap = "UPDATE sluice.audit_event SET chain_position = $2, link = $3 WHERE event_id = $1"
    await connection.execute(swap, one["event_id"], first + 11, other["link"])
    await connection.execute(swap, other["event_id"], first + 3, one["link"])
    gone = "DELETE FROM sluice.audit_event WHERE gateway = $1 AND chain_position = ANY ($2::bigint[])"
    await connection.execute(gone, GATE, [first + 5, first + 6, last - 1, last])
    # Into a day that was archived before: nobody misses it in the archive.
    await connection.execute(
        f"INSERT INTO sluice.audit_event (event_id, {', '.join(COLUMNS[1:])})"
        f" SELECT gen_random_uuid(), {', '.join(COLUMNS[1:])} FROM sluice.audit_event"
        " WHERE time >= $1 AND time < $2 LIMIT 1",
        *(DAY + timedelta(days=1), DAY + timedelta(days=2)),
    )
    expected = await place.here()
    assert {one[0] for one in expected} == {"changed", "erased", "swapped", "missing", "truncated", "added"}
    await place.found()
    assert await place.told() == expected


async def test_a_forged_day_and_a_replaced_root_are_found_as_they_are_here(place: Place) -> None:
    connection = place.connection
    rows = {
        (row["gateway"], row["chain_position"]): dict(row)
        for row in await place.worker.rows(place.lake / TABLE, "SELECT * FROM lake")
        if row["day"] == f"{FIRST}"
    }
    head = start(GATE)
    forged: dict[int, Head] = {}
    for (gateway, position), row in sorted(rows.items()):
        if gateway == GATE:
            head = head.next(event_digest({**_aware(row), "user_name": "eve"}))
            forged[position] = head

    def change(there: Rows) -> Rows:
        return [
            {**row, "user_name": "eve", "link": forged[row["chain_position"]].link}
            if row["gateway"] == GATE
            else row
            for row in there
        ]

    place.rewrite(FIRST, change)
    expected = await place.here()
    # The day fits in itself; it is not what was sealed, and what comes behind it hangs on another.
    assert {one[0] for one in expected} == {"changed", "forged"}
    await place.found()
    assert await place.told() == expected
    await free(connection)
    seal = read_seal((await seals(connection))[0])
    await connection.execute(
        "UPDATE sluice.audit_seal SET content = replace(content, $1, $2)", seal.root, "0" * 64
    )
    kept = await place.here()
    assert "seal" in {one[0] for one in kept}
    await place.found()
    assert await place.told() == kept


def _aware(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "time": row["time"].replace(tzinfo=UTC)}


async def test_an_event_that_went_as_if_its_day_had_gone_is_missed(place: Place) -> None:
    await free(place.connection)
    gone = await place.connection.fetchval(
        "DELETE FROM sluice.audit_event WHERE gateway = $1"
        " AND chain_position = (SELECT 3 + min(chain_position)"
        " FROM sluice.audit_event WHERE gateway = $1 AND time >= $2) RETURNING chain_position",
        *(GATE, DAY + timedelta(days=1)),
    )
    await place.connection.execute("UPDATE sluice.archive_day SET dropped_events = 1 WHERE day = $1", SECOND)
    assert await place.here() == [("missing", GATE, gone, gone)]
    ((kind, where),) = await place.found()
    assert (kind, where.endswith(GONE)) == ("missing", True)
    assert await place.told() == [("missing", GATE, gone, gone)]


async def test_what_was_done_to_days_that_only_the_archive_has_is_found(place: Place) -> None:
    def change(rows: Rows) -> Rows:
        mine = [row for row in rows if row["gateway"] == GATE]
        mine[2]["verdict"] = "other"
        one, other = mine[5], mine[9]
        for name in ("chain_position", "link"):
            one[name], other[name] = other[name], one[name]
        extra = {**mine[3], "event_id": mine[3]["event_id"][:-4] + "ffff", "chain_position": None}
        rows = [row for row in rows if row is not mine[12]]
        return [*rows, extra, {**mine[14]}]

    place.rewrite(FIRST, change)
    expected = await place.here()
    found = await place.found()
    assert {kind for kind, _ in found} == {"changed", "swapped", "missing", "added", "repeated"}
    assert {one for one in expected if one[1]} <= set(await place.told())
    assert [one for one in expected if not one[1]] == [("added", "", 0, 0)] * 2, "by their number"
    assert next(where for kind, where in found if kind == "added").endswith("in no chain")


async def test_what_was_done_to_the_archive_s_copies_is_found(place: Place) -> None:
    def change(rows: Rows) -> Rows:
        rows[0]["user_name"] = "eve"
        rows[1]["hour"] = "hour=23" if rows[1]["hour"] != "hour=23" else "hour=22"
        extra = {**rows[3], "event_id": rows[3]["event_id"][:-4] + "ffff"}
        return [*rows[:2], *rows[3:], extra, {**rows[4]}]

    place.rewrite(SECOND, change)
    assert await place.here() == [], "the record is in PostgreSQL"
    found = [(kind, where.partition("`, ")[2]) for kind, where in await place.found()]
    assert sorted(found) == [
        ("added", "is in the archive but not in PostgreSQL, which has its day"),
        ("changed", "differs between the archive and PostgreSQL"),
        ("changed", "is in the archive's files of another hour"),
        ("missing", "is not in the archive, which has its day"),
        ("repeated", "is in the archive twice"),
    ]


async def test_texts_that_went_from_the_archive_without_an_erasure_are_missed(place: Place) -> None:
    """The digests that stand for them fit, so that chains hold."""

    def change(rows: Rows) -> Rows:
        return [
            without_texts(_aware(row)) | {"time": row["time"], "hour": row["hour"]}
            if row["user_name"] == "bob" and row["kind"] in KINDS
            else row
            for row in rows
        ]

    for day in (FIRST, SECOND):
        place.rewrite(day, change)
    here = await place.here()
    assert {kind for kind, *_ in here} == {"erased"}
    found = await place.found()
    assert {kind for kind, _ in found} == {"erased"}
    assert set(here) < set(await place.told()), "a copy is looked at on Spark alone"
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=KEY)
    assert await place.here() == []
    await place.run()


async def test_a_file_that_was_written_over_is_told_with_all_else_that_is_wrong(place: Place) -> None:
    file = place.files(FIRST)[0]
    file.write_bytes(file.read_bytes()[:-9])
    (place.lake / TABLE / f"day={SECOND}").rename(place.lake / TABLE / "day=2026-12-24")
    found = await place.found()
    (told,) = [where for kind, where in found if kind == "unreadable"]
    assert f"`day={FIRST}` of the archive: " in told
    assert f"day={FIRST}/{file.parent.name}" in told
    assert ("missing", f"`day={SECOND}` of the archive") in found


async def test_days_that_nobody_archived_and_days_that_are_gone_are_found(place: Place) -> None:
    table = place.lake / TABLE
    (table / f"day={SECOND}").rename(table / "day=2026-12-24")
    found = await place.found()
    assert ("added", "`day=2026-12-24` of the archive was not written by any run") in found
    assert ("missing", f"`day={SECOND}` of the archive") in found


async def test_the_command_tells_it_as_without_spark(place: Place, tmp_path: Path) -> None:
    await free(place.connection)
    await place.connection.execute(
        "UPDATE sluice.audit_event SET user_name = 'eve' WHERE (gateway, chain_position) = ($1, 2 + ("
        "SELECT min(chain_position) FROM sluice.audit_event WHERE gateway = $1 AND time >= $2))",
        *(GATE, DAY + timedelta(days=2)),
    )
    (tmp_path / "dsn").write_text(place.dsn)
    config = tmp_path / "gateway.yaml"
    jobs = {"directory": str(place.lake), "master": "local[1]", "shuffle_partitions": 1}
    config.write_text(yaml.safe_dump({"ledger": {"dsn": {"file": "dsn"}}, "jobs": jobs}))
    told = []
    for more in ((), ("--on", "spark")):
        words = ("-m", "gateway", "audit", "verify", "--json", "-c", str(config), *more)
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        out, _ = await process.communicate()
        assert process.returncode == 1
        told.append(json.loads(out))
    assert told[0] == told[1]
    assert [one["kind"] for one in told[0]["findings"]] == ["changed"]


async def test_a_killed_run_leaves_nothing_and_the_archive_waits_for_the_next(place: Place) -> None:
    chosen = {"key": KEY.public_key().public_bytes_raw()}
    where: dict[str, Any] = {"dsn": place.dsn, "lake": place.lake, "now": NOW}
    for line in ("read from PostgreSQL", "parts of chains checked"):
        killed, told = await place.worker.killed_at(line, verify_of, dict(chosen), **where)
        assert killed, told
    assert (await place.run()).rows_in > 0
    assert not list((place.lake / "_verify").rglob("*.parquet"))
    await place.connection.execute("SELECT pg_advisory_lock($1, hashtext('verify'))", LOCKS)
    with pytest.raises(JobBusy):
        await place.run()


async def test_who_verifies_waits_for_the_archive_s_run_and_keeps_the_next_from_beginning(
    database: str,
) -> None:
    run, first, second = [await asyncpg.connect(database) for _ in range(3)]
    take = "SELECT pg_try_advisory_lock($1, hashtext('archive'))"
    told = asyncio.Event()
    try:
        assert await run.fetchval(take, LOCKS)
        waiting = asyncio.ensure_future(keep_archive(first, lambda line: told.set()))
        await told.wait()
        await run.execute("SELECT pg_advisory_unlock_all()")
        await waiting
        await keep_archive(second, lambda line: None)
        assert not await run.fetchval(take, LOCKS)
    finally:
        for one in (run, first, second):
            one.terminate()
