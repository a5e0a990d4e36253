"""Whatever somebody does to a record with an archive, at random, is found: here, and on Spark the same.

Rounds of up to three changes, to what PostgreSQL has and to the archive's files; after each the record is as
it was. Some 60 s of CPU.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.rows import COLUMNS
from gateway.errors import RecordChanged
from gateway.jobs.archive import TABLE
from tests.effort import tries
from tests.jobs.test_verifying import FIRST, SECOND, Place, Rows, free, place

pytestmark = pytest.mark.in_turn(3)

__all__ = ["place"]

KEPT = ("audit_event", "audit_chain", "audit_seal", "audit_erasure", "archive_day", "archive_chain")
BOUND = (*COLUMNS, "chain_position", "link")
"""Columns that nobody may change; digests of what was erased stand for it, and are made of it."""
Row = dict[str, Any]
Tampering = Callable[["Record", random.Random], Any]


class Record:
    """The place, and what it is put back to."""

    def __init__(self, place: Place, kept: Path) -> None:
        self.place, self._kept = place, kept
        self.connection = place.connection

    async def keep(self) -> None:
        await free(self.connection)
        await self.connection.execute("DROP TRIGGER append_only ON sluice.audit_erasure; CREATE SCHEMA kept")
        for name in KEPT:
            await self.connection.execute(f"CREATE TABLE kept.{name} AS SELECT * FROM sluice.{name}")
        shutil.copytree(self.place.lake / TABLE, self._kept)

    async def put_back(self) -> None:
        for name in KEPT:
            await self.connection.execute(
                f"DELETE FROM sluice.{name};"
                f"INSERT INTO sluice.{name} OVERRIDING SYSTEM VALUE SELECT * FROM kept.{name}"
            )
        shutil.rmtree(self.place.lake / TABLE)
        shutil.copytree(self._kept, self.place.lake / TABLE)

    async def events(self) -> list[Row]:
        rows = await self.connection.fetch(
            "SELECT * FROM sluice.audit_event ORDER BY gateway, chain_position"
        )
        return [dict(row) for row in rows]

    async def found(self) -> set[Any]:
        return set(await self.place.here())

    async def found_on_spark(self) -> set[Any]:
        try:
            await self.place.run()
        except RecordChanged:
            return set(await self.place.told())
        return set()


@pytest.fixture
async def record(place: Place, tmp_path: Path) -> Record:
    found = Record(place, tmp_path / "kept")
    await found.keep()
    return found


async def _value_of_another(record: Record, seed: random.Random) -> None:
    """An event gets a value that another has, or none."""
    rows = await record.events()
    one, column = seed.choice(rows), seed.choice(BOUND)
    others = [row[column] for row in rows if row[column] != one[column]]
    value = (
        None
        if not others or (seed.random() < 0.2 and column in ("statement", "message"))
        else seed.choice(others)
    )
    if value is None and (one[column] is None or column not in ("statement", "message")):
        column, value = "user_name", "eve"
    if column == "time":
        value = one["time"].replace(microsecond=(one["time"].microsecond + 1) % 1_000_000)
    await record.connection.execute(
        f"UPDATE sluice.audit_event SET {column} = $1 WHERE event_id = $2", value, one["event_id"]
    )


async def _gone(record: Record, seed: random.Random) -> None:
    rows = await record.events()
    some = seed.sample(rows, seed.randint(1, 4))
    if seed.random() < 0.3:
        gateway = seed.choice(rows)["gateway"]
        some = [row for row in rows if row["gateway"] == gateway][-seed.randint(1, 6) :]
    await record.connection.execute(
        "DELETE FROM sluice.audit_event WHERE event_id = ANY ($1)", [row["event_id"] for row in some]
    )


async def _swapped(record: Record, seed: random.Random) -> None:
    rows = await record.events()
    one, other = seed.sample([row for row in rows if row["gateway"] == rows[0]["gateway"]], 2)
    for row, place_of in ((one, other), (other, one)):
        await record.connection.execute(
            "UPDATE sluice.audit_event SET chain_position = $2, link = $3 WHERE event_id = $1",
            *(row["event_id"], place_of["chain_position"], place_of["link"]),
        )


async def _invented(record: Record, seed: random.Random) -> None:
    one = seed.choice(await record.events())
    position = seed.choice([None, 0, one["chain_position"], 10**6])
    columns = [name for name in one if name not in ("event_id", "chain_position")]
    await record.connection.execute(
        f"INSERT INTO sluice.audit_event (event_id, chain_position, {', '.join(columns)})"
        f" SELECT gen_random_uuid(), $1, {', '.join(columns)} FROM sluice.audit_event WHERE event_id = $2",
        *(position, one["event_id"]),
    )


async def _another_end(record: Record, seed: random.Random) -> None:
    change = seed.choice(
        (
            "UPDATE sluice.audit_chain SET chain_position = chain_position + 1",
            "UPDATE sluice.audit_chain SET link = sha256(link)",
            "UPDATE sluice.audit_seal SET content = replace(content, '\"position\":', '\"position\":1')",
            "UPDATE sluice.audit_seal SET made_at = made_at + interval '1 s' WHERE number = 1",
            "UPDATE sluice.audit_seal SET number = number + 1000000",
            "DELETE FROM sluice.audit_seal WHERE number = 1",
        )
    )
    await record.connection.execute(change)


async def _erased_by_nobody(record: Record, seed: random.Random) -> None:
    """As somebody who has the database erases: by our own words, but for the signature."""
    from gateway.audit.erasing import erase
    from tests.jobs.records import NOW

    await erase(record.connection, "bob", until=NOW, by="eve", reason="none of yours", key=None)
    if seed.random() < 0.5:
        await record.connection.execute("DELETE FROM sluice.audit_erasure")


def _rewritten(record: Record, seed: random.Random) -> None:
    """A day's files are written anew: a value, a row more, a row less, two rows of each other's content."""

    def change(rows: Rows) -> Rows:
        at, other = seed.sample(range(len(rows)), 2)
        match seed.randrange(5):
            case 0:
                rows[at]["user_name"] = "eve"
            case 1:
                rows[at] = {**rows[at], "statement": "SELECT 1", "body": "{}"}
            case 2:
                del rows[at]
            case 3:
                rows.append({**rows[at], "event_id": rows[at]["event_id"][:-6] + "ffffff"})
            case _:
                for name in ("event_id", "link"):
                    rows[at][name], rows[other][name] = rows[other][name], rows[at][name]
        return rows

    record.place.rewrite(seed.choice((FIRST, FIRST, SECOND)), change)


async def _gone_as_if_dropped(record: Record, seed: random.Random) -> None:
    """An event goes from PostgreSQL alone, whose day is then said to have gone."""
    rows = [row for row in await record.events() if row["time"].date() == SECOND]
    mine = [row for row in rows if row["gateway"] == rows[0]["gateway"]]
    await record.connection.execute(
        "DELETE FROM sluice.audit_event WHERE event_id = $1", seed.choice(mine[1:])["event_id"]
    )
    await record.connection.execute(
        f"UPDATE sluice.archive_day SET dropped_events = greatest(dropped_events, 1) WHERE day = '{SECOND}'"
    )


def _file_gone(record: Record, seed: random.Random) -> None:
    seed.choice(record.place.files(FIRST)).unlink()


def _file_cut(record: Record, seed: random.Random) -> None:
    file = seed.choice(record.place.files(FIRST))
    whole = file.read_bytes()
    file.write_bytes(whole[: seed.randrange(len(whole))])


IN_POSTGRESQL: tuple[Tampering, ...] = (
    *(_value_of_another, _gone, _swapped, _invented, _another_end, _erased_by_nobody, _gone_as_if_dropped),
)
IN_THE_ARCHIVE: tuple[Tampering, ...] = (_rewritten, _file_gone, _file_cut)


async def test_whatever_is_done_to_postgresql_is_found(record: Record) -> None:
    for number in range(tries(60)):
        seed = random.Random(number)
        one = seed.choice(IN_POSTGRESQL)
        await one(record, seed)
        assert await record.found(), (number, one.__name__)
        await record.put_back()
    assert not await record.found()


@pytest.mark.in_turn(2)
async def test_whatever_is_done_to_either_is_found_on_spark_as_well(record: Record) -> None:
    for number in range(tries(16)):
        seed = random.Random(1_000 + number)
        some = [seed.choice((*IN_POSTGRESQL, *IN_THE_ARCHIVE)) for _ in range(seed.randint(1, 3))]
        some.sort(key=lambda one: one is _file_cut)  # what is cut is not written anew
        told = (number, [one.__name__ for one in some])
        for one in some:
            done = one(record, seed)
            if done is not None:
                await done
        here, there = await record.found(), await record.found_on_spark()
        assert there, told
        if not any(kind == "unreadable" for kind, *_ in here | there):
            # How many events a day's files have is told here alone.
            assert {one for one in here if one[1]} <= there, told
        await record.put_back()
    assert not await record.found_on_spark()
