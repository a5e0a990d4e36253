"""Days of the record are in the archive exactly once, and PostgreSQL lets none go before that is proved."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.archived import Archive
from gateway.audit.erasing import erase, without_texts
from gateway.audit.seals import make_seal
from gateway.audit.shipper import make_partitions
from gateway.audit.verify import verify
from gateway.audit.walking import Kind, Verified
from gateway.errors import LedgerUnavailable
from gateway.jobs.archive import TABLE, partitions
from gateway.jobs.archive_dropping import Hold
from tests.audit.samples import cleared
from tests.jobs.records import DAY, NOW, day_of_events, fill, statement
from tests.jobs.worker import Ran, Worker, archive_of

pytestmark = pytest.mark.in_turn(3)

KEY = Ed25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes_raw()
FIRST = DAY.date()
PARTITION = f"sluice.audit_event_{FIRST:%Y%m%d}"
LATE = DAY + timedelta(hours=9, minutes=30)


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any

    async def archive(self, *, now: datetime = NOW, key: bytes | None = PUBLIC, **chosen: Any) -> Ran:
        if key is not None:
            chosen["key"] = key
        return await self.worker.run(archive_of, chosen, dsn=self.dsn, lake=self.lake, now=now)

    async def verified(self) -> Verified:
        return await verify(self.connection, keys=[KEY.public_key()], archive=Archive(self.lake / TABLE))

    async def there(self) -> bool:
        return await self.connection.fetchval("SELECT to_regclass($1)", PARTITION) is not None

    async def archived(self) -> dict[tuple[str, int], dict[str, Any]]:
        rows = await self.worker.rows(self.lake / TABLE, "SELECT * FROM lake")
        found = {(row["gateway"], row["chain_position"]): row for row in rows}
        assert len(found) == len(rows), "an event is there twice"
        return found

    async def users_with_texts(self) -> set[str]:
        """Return whose statements have their texts in the archive."""
        rows = (await self.archived()).values()
        return {row["user_name"] for row in rows if row["kind"] == "decided" and row["statement"]}

    async def fill(self, events: Any, **more: Any) -> None:
        await fill(self.dsn, events, **more)

    async def seal(self, day: date = FIRST) -> None:
        await make_seal(self.connection, KEY, day)


@pytest.fixture
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Place]:
    await fill(database, ())
    connection = await asyncpg.connect(database)
    try:
        yield Place(database, tmp_path / "lake", worker, connection)
    finally:
        await connection.close()


async def test_a_day_is_archived_as_it_is_by_hour(place: Place) -> None:
    await place.fill(day_of_events())
    there = await place.connection.fetch("SELECT * FROM sluice.audit_event")
    ran = await place.archive()
    assert (ran.rows_in, ran.rows_out) == (len(there), len(there))
    kept = await place.archived()
    for row in there:
        found = kept[row["gateway"], row["chain_position"]]
        assert (found["day"], found["hour"]) == (f"{FIRST}", f"{row['time']:%H}")
        assert found["event_id"] == str(row["event_id"])
        assert found["time"].replace(tzinfo=UTC) == row["time"]
        assert bytes(found["link"]) == row["link"]
        for name in ("user_name", "groups", "body", "statement", "duration_ms", "rows", "readers_agree"):
            assert found[name] == row[name], name
    state = await place.connection.fetchrow("SELECT * FROM sluice.archive_day")
    assert (state["events"], state["dropped_at"]) == (len(there), None)
    again = await place.archive()
    assert (again.rows_in, again.application) == (0, ""), "Spark has begun with nothing to do"


async def test_today_and_empty_days_are_left_alone(place: Place) -> None:
    await place.fill(day_of_events(count=3))
    ran = await place.archive(now=DAY + timedelta(hours=23))
    assert ran.rows_in == 0
    assert not await place.connection.fetchval("SELECT count(*) FROM sluice.archive_day")
    ran = await place.archive(now=DAY + timedelta(days=1, minutes=30))
    assert ran.rows_in == 0, "what has just ended is archived later"


async def test_late_events_have_their_day_written_again(place: Place) -> None:
    await place.fill(day_of_events(count=20))
    await place.archive()
    before = await place.archived()
    # PostgreSQL's clock was set back: what it stores now, it has stored before the last run.
    await place.fill(statement(LATE, "SELECT 'late'", seed=random.Random(9)), stored_at=DAY)
    ran = await place.archive()
    after = await place.archived()
    assert ran.rows_in == len(before) + 2
    assert {key: after[key] for key in before} == before
    assert {row["hour"] for key, row in after.items() if key not in before} == {"09"}


async def test_a_day_goes_when_it_is_archived_and_sealed_and_can_be_verified(place: Place) -> None:
    await place.fill(day_of_events(count=40))
    await place.fill(day_of_events(DAY + timedelta(days=4), count=10, number=2))
    ran = await place.archive(days=3)
    assert await place.there()
    assert "no seal" in ran.lines[-2]
    await place.seal()
    await place.archive(days=3)
    assert not await place.there()
    found = await place.verified()
    assert found.holds, found.findings
    assert found.events == len(await place.archived())
    assert found.events > await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event")
    part = await verify(
        place.connection,
        since=DAY + timedelta(hours=2),
        until=DAY + timedelta(hours=3),
        archive=Archive(place.lake / TABLE),
    )
    assert part.holds
    assert part.events > 0
    without = await verify(place.connection)
    assert Kind.MISSING in {one.kind for one in without.findings}


async def test_late_events_of_a_day_that_went_are_archived_with_it_and_go_too(place: Place) -> None:
    await place.fill(day_of_events(count=20))
    await place.seal()
    await place.archive(days=3)
    before = await place.archived()
    await place.fill(statement(LATE, "SELECT 'late'", seed=random.Random(9)))
    assert await place.there()
    assert (await place.verified()).holds
    ran = await place.archive(days=3)
    assert await place.there(), "the last seal has not got them"
    assert ran.rows_in == 2
    after = await place.archived()
    assert len(after) == len(before) + 2
    assert {key: after[key] for key in before} == before
    assert (await place.verified()).holds
    await place.seal(FIRST + timedelta(days=1))
    await place.archive(days=3)
    assert not await place.there()
    assert await place.archived() == after
    found = await place.verified()
    assert found.holds, found.findings
    assert found.events == len(after)


@pytest.mark.parametrize(
    ("holds", "stays"),
    [
        ((Hold(name="case 7", users=("cem",)),), True),
        ((Hold(name="case 8", users=("nobody",)),), False),
        ((Hold(name="audit", first=FIRST, last=FIRST),), True),
        ((Hold(name="later", first=FIRST + timedelta(days=1)),), False),
        ((Hold(name="earlier", last=FIRST - timedelta(days=1)),), False),
    ],
)
async def test_what_is_on_hold_stays(place: Place, holds: tuple[Hold, ...], stays: bool) -> None:
    await place.fill(day_of_events(count=6))
    await place.seal()
    ran = await place.archive(days=3, holds=holds)
    assert await place.there() == stays
    assert any("on hold" in line for line in ran.lines) == stays


async def test_nothing_goes_without_a_key_or_days_to_keep(place: Place) -> None:
    await place.fill(day_of_events(count=6))
    await place.seal()
    await place.archive(days=3, key=None)
    assert await place.there()
    await place.archive()
    assert await place.there()
    await place.archive(days=30)
    assert await place.there()


async def test_a_seal_by_another_key_seals_nothing(place: Place) -> None:
    await place.fill(day_of_events(count=6))
    await make_seal(place.connection, Ed25519PrivateKey.generate(), FIRST)
    await place.archive(days=3)
    assert await place.there()


async def test_an_archive_that_somebody_changed_keeps_the_day(place: Place) -> None:
    await place.fill(day_of_events(count=6))
    await place.archive()
    await place.seal()
    file = next((place.lake / TABLE).rglob("*.parquet"))
    file.unlink()
    ran = await place.archive(days=3)
    assert await place.there()
    assert any("has changed" in line for line in ran.lines)


async def test_verifying_tells_of_files_that_are_gone_and_of_changed_ones(place: Place) -> None:
    await place.fill(day_of_events(count=40))
    await place.seal()
    await place.archive(days=3)
    file = sorted((place.lake / TABLE).rglob("*.parquet"))[3]
    whole = file.read_bytes()
    file.unlink()
    assert {one.kind for one in (await place.verified()).findings} == {Kind.MISSING}
    file.write_bytes(whole[: len(whole) // 2])
    assert {one.kind for one in (await place.verified()).findings} == {Kind.MISSING, Kind.UNREADABLE}
    _forge(file, whole)
    found = (await place.verified()).findings
    assert {one.kind for one in found} == {Kind.CHANGED}


def _forge(file: Path, whole: bytes) -> None:
    """Write the file with other users."""
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(pyarrow.BufferReader(whole))
    at = table.schema.get_field_index("user_name")
    parquet.write_table(table.set_column(at, "user_name", pyarrow.array(["eve"] * table.num_rows)), file)


async def test_texts_are_erased_in_the_archive_too_and_the_chain_holds(place: Place) -> None:
    await place.fill(day_of_events(count=24))
    await place.seal()
    await place.archive(days=3)
    assert not await place.there()
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=KEY)
    ran = await place.archive(days=3)
    assert ran.rows_out > 0
    rows = (await place.archived()).values()
    assert not [row for row in rows if row["user_name"] == "bob" and row["statement"]]
    assert [row for row in rows if row["user_name"] == "ann" and row["statement"]]
    assert (await place.verified()).holds
    assert (await place.archive(days=3)).rows_out == 0


async def test_an_erasure_waits_in_the_archive_while_a_hold_forbids_it(place: Place) -> None:
    await place.fill(day_of_events(count=24))
    await place.seal()
    await place.archive(days=3)
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=KEY)
    held = (Hold(name="case 7", users=("bob",), first=FIRST, last=FIRST),)

    assert (await place.archive(days=3, holds=held)).rows_out == 0
    assert await place.users_with_texts() == {"ann", "bob", "cem"}
    # A late event has the day written again; the erasure is not forgotten by that.
    await place.fill(statement(LATE, "SELECT 'late'", user="ann", seed=random.Random(9)))
    ran = await place.archive(days=3, holds=held)
    assert ran.rows_out > 0
    assert any("erasure 1 waits" in line for line in ran.lines)
    assert await place.users_with_texts() == {"ann", "bob", "cem"}
    await place.archive(days=3, holds=(Hold(name="case 8", users=("cem",)),))
    assert await place.users_with_texts() == {"ann", "cem"}
    # What was erased by then is erased: a hold that comes later keeps no day from being written.
    await place.fill(statement(LATE, "SELECT 'later'", user="ann", seed=random.Random(10)))
    assert (await place.archive(days=3, holds=held)).rows_out > 0
    assert (await place.verified()).holds


async def test_an_erasure_that_nobody_signed_takes_nothing_from_the_archive(place: Place) -> None:
    """Whoever has the database alone writes one for himself."""
    await place.fill(day_of_events(count=24))
    await place.seal()
    await place.archive(days=3)
    await erase(place.connection, "bob", until=NOW, by="eve", reason="mine", key=None)
    ran = await place.archive(days=3)
    assert ran.rows_out == 0
    assert any("erasure 1, of texts of `bob`, is not signed" in line for line in ran.lines)
    rows = (await place.archived()).values()
    assert [row for row in rows if row["user_name"] == "bob" and row["statement"]]
    assert (await place.verified()).holds


async def test_what_an_older_key_has_signed_holds_in_the_archive(place: Place) -> None:
    newer = Ed25519PrivateKey.generate()
    of_newer = newer.public_key().public_bytes_raw()

    await place.fill(day_of_events(count=24))
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=KEY)
    await place.archive()
    await erase(place.connection, "ann", until=NOW, by="dpo", reason="request 8", key=KEY)
    await make_seal(place.connection, newer, FIRST)
    ran = await place.archive(days=3, key=of_newer)
    assert any("texts are missing in the archive, and no erasure is recorded" in line for line in ran.lines)
    assert await place.there()
    assert await place.users_with_texts() == {"ann", "cem"}
    await place.archive(days=3, key=of_newer, older=PUBLIC)
    assert not await place.there()
    assert await place.users_with_texts() == {"cem"}


async def one_passed_over(place: Place) -> dict[str, Any]:
    """Have the archive carry out an erasure of ann's texts by a newer key, and pass over one of bob's, whose
    key it does not know; return the keys of both."""
    newer = Ed25519PrivateKey.generate()
    keys: dict[str, Any] = {"key": newer.public_key().public_bytes_raw(), "older": PUBLIC}
    await place.fill(day_of_events(count=24))
    await place.seal()
    await place.archive(days=3)
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=KEY)
    await erase(place.connection, "ann", until=NOW, by="dpo", reason="request 8", key=newer)
    await place.archive(days=3, key=keys["key"])
    return keys


@pytest.mark.in_turn(1)
async def test_what_a_job_passed_over_that_did_not_tell_is_carried_out_too(place: Place) -> None:
    keys = await one_passed_over(place)
    # As a job of before migration 0023 has it, or one of an older gateway.
    await place.connection.execute("UPDATE sluice.archive_day SET left_erasures = '{}', left_up_to = 0")
    assert (await place.archive(days=3, **keys)).rows_out > 0
    assert await place.users_with_texts() == {"cem"}
    assert (await place.archive(days=3, **keys)).rows_out == 0


@pytest.mark.in_turn(1)
async def test_an_erasure_that_was_passed_over_is_carried_out_once_its_key_is_known(place: Place) -> None:
    held = (Hold(name="case 7", users=("bob",), first=FIRST, last=FIRST),)

    keys = await one_passed_over(place)
    assert await place.users_with_texts() == {"bob", "cem"}
    assert (await place.archive(days=3, key=keys["key"])).rows_out == 0
    # Before a hold it waits by itself: what came after it is done, and a late event stops nothing.
    assert (await place.archive(days=3, **keys, holds=held)).rows_out == 0
    await place.fill(statement(LATE, "SELECT 'late'", user="cem", seed=random.Random(9)))
    assert (await place.archive(days=3, **keys, holds=held)).rows_out > 0
    assert await place.users_with_texts() == {"bob", "cem"}
    assert (await place.archive(days=3, **keys)).rows_out > 0
    assert await place.users_with_texts() == {"cem"}
    assert (await place.archive(days=3, **keys)).rows_out == 0


async def test_texts_that_somebody_took_do_not_leave_the_archive_nor_the_day_postgresql(place: Place) -> None:
    """Digests are the same with texts as without: the sums alone would have the last copy written over."""
    await place.fill(day_of_events(count=24))
    await place.seal()
    await place.archive()
    await erase(place.connection, "bob", until=NOW, by="eve", reason="mine", key=None)
    await place.fill(day_of_events(count=3, number=9))
    ran = await place.archive()
    assert any("have lost texts in PostgreSQL, and no erasure is recorded" in line for line in ran.lines)
    rows = (await place.archived()).values()
    assert [row for row in rows if row["user_name"] == "bob" and row["statement"]]


@pytest.mark.in_turn(1)
async def test_a_day_that_somebody_took_from_postgresql_does_not_leave_the_archive(place: Place) -> None:
    """By a late event of it, nor by an erasure: by the sums of what is left, the last copy would go."""
    await place.fill(day_of_events(count=24))
    await place.archive()
    before = await place.archived()
    await place.connection.execute(f"DROP TABLE {PARTITION}")
    await place.fill(statement(LATE, "SELECT 'late'", seed=random.Random(9)))
    told = f"{len(before)} archived events are missing in PostgreSQL"
    assert any(told in line for line in (await place.archive()).lines)
    assert await place.archived() == before
    await place.connection.execute(f"DROP TABLE {PARTITION}")
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=KEY)
    assert any(told in line for line in (await place.archive()).lines)
    assert await place.archived() == before


async def test_a_day_that_postgresql_does_not_know_to_be_archived_does_not_leave_the_archive(
    place: Place,
) -> None:
    """It was put back from a backup that is older than the archive; or somebody has it alone, and would have
    the archive write a day over."""
    await place.fill(day_of_events(count=24))
    await place.fill(day_of_events(DAY + timedelta(days=1), count=6, number=2))
    await place.archive()
    before = await place.archived()
    await place.connection.execute("DELETE FROM sluice.archive_day; DELETE FROM sluice.archive_chain")
    await place.archive()
    assert await place.archived() == before, "all of it is in PostgreSQL"
    await place.connection.execute(
        "DELETE FROM sluice.archive_day; DELETE FROM sluice.archive_chain;"
        "SET session_replication_role = replica;"  # no trigger
        f"DELETE FROM {PARTITION} WHERE time > '{LATE}'; RESET session_replication_role"
    )
    gone = len(before) - await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event")
    with pytest.raises(LedgerUnavailable, match=f"{FIRST}: {gone} archived events are missing in"):
        await place.archive()
    assert await place.archived() == before
    days = await place.connection.fetch("SELECT day FROM sluice.archive_day")
    assert [row["day"] for row in days] == [FIRST + timedelta(days=1)], "the others go on"
    await erase(place.connection, "bob", until=NOW, by="eve", reason="mine", key=None)
    with pytest.raises(LedgerUnavailable, match="have lost texts in PostgreSQL, and no erasure is recorded"):
        await place.archive()
    assert await place.archived() == before


async def test_days_that_the_archive_has_lost_stop_no_other_day(place: Place) -> None:
    for offset in range(3):
        await place.fill(day_of_events(DAY + timedelta(days=offset), count=12, number=offset))
    await place.seal()
    await place.archive(days=4)
    assert not await place.there()
    first = place.lake / TABLE / f"day={FIRST}"
    hour = min(first.glob("hour=*"))
    shutil.rmtree(hour)
    await erase(place.connection, "bob", until=NOW, by="dpo", reason="request 7", key=KEY)
    with pytest.raises(LedgerUnavailable, match=rf"{FIRST}: Spark has written \d+ events, of \d+"):
        await place.archive(days=4)
    rows = [row for row in (await place.archived()).values() if row["user_name"] == "bob"]
    assert {row["day"] for row in rows if row["statement"]} == {f"{FIRST}"}, "its texts wait"
    shutil.rmtree(first)
    await place.seal(FIRST + timedelta(days=2))
    with pytest.raises(LedgerUnavailable, match=f"has no `day={FIRST}`"):
        await place.archive(days=1)
    assert not await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event"), "they went"


async def test_a_day_that_only_the_lake_has_lost_is_archived_anew(place: Place) -> None:
    for offset in range(3):
        await place.fill(day_of_events(DAY + timedelta(days=offset), count=12, number=offset))
    await place.archive()
    before = await place.archived()
    second = place.lake / TABLE / f"day={FIRST + timedelta(days=1)}"
    shutil.rmtree(place.lake / TABLE / f"day={FIRST}")
    for file in second.rglob("*.parquet"):
        file.write_bytes(b"no Parquet")
        file.with_name(f".{file.name}.crc").unlink()
    await place.seal(FIRST + timedelta(days=2))
    with pytest.raises(LedgerUnavailable, match=f"{FIRST + timedelta(days=1)}: Spark has failed"):
        await place.archive(days=1)
    days = await place.connection.fetch("SELECT DISTINCT time::date AS day FROM sluice.audit_event")
    assert [row["day"] for row in days] == [FIRST + timedelta(days=1)], "the others are gone from there"
    shutil.rmtree(second)
    await place.archive(days=1)
    assert not await place.connection.fetchval("SELECT count(*) FROM sluice.audit_event")
    assert await place.archived() == before
    assert (await place.verified()).holds


async def test_a_day_whose_texts_somebody_took_from_the_archive_stays_in_postgresql(place: Place) -> None:
    import pyarrow
    from pyarrow import parquet

    await place.fill(day_of_events(count=24))
    await place.seal()
    await place.archive()
    for file in sorted((place.lake / TABLE).rglob("*.parquet")):
        read = parquet.ParquetFile(file).read()
        rows = [without_texts(row) if row["kind"] == "decided" else row for row in read.to_pylist()]
        file.with_name(f".{file.name}.crc").unlink()
        parquet.write_table(pyarrow.Table.from_pylist(rows, schema=read.schema), file)
    ran = await place.archive(days=3)
    assert any("texts are missing in the archive, and no erasure is recorded" in line for line in ran.lines)
    assert await place.there()


async def test_garbage_is_archived_as_it_is(place: Place) -> None:
    strange = dataclasses.replace(cleared("SELECT 'a\0b\ud800'"), time="2026-11-20T05:00:00.000001Z")
    await place.fill([strange, *statement(LATE, "\ud83d\ude00" * 40_000, seed=random.Random(1))])
    await place.connection.executemany(
        "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, body)"
        " VALUES (gen_random_uuid(), $1, $2, '', '', $3)",
        [
            (DAY, "", "[]"),
            (DAY + timedelta(hours=1), "decided", "null"),
            (DAY + timedelta(hours=2), "?", '{"unfit": "x", "number": 1e300, "deep": [[[[{}]]]]}'),
            (DAY + timedelta(hours=23, microseconds=3_599_999_999), "decided", "7"),
        ],
    )
    ran = await place.archive()
    assert (ran.rows_in, ran.rows_out) == (7, 7)
    unchained = await place.connection.fetchval("SELECT unchained FROM sluice.archive_day")
    assert unchained == 4
    await place.seal()
    assert any("older than the chain" in line for line in (await place.archive(days=3)).lines)
    assert await place.there()


async def test_days_without_events_go_when_they_are_old_enough(place: Place) -> None:
    await make_partitions(place.connection, [FIRST + timedelta(days=n) for n in (0, 1, 2, 3, 4)])
    await place.fill(day_of_events(DAY + timedelta(days=1), count=2))
    ran = await place.archive(days=3)
    assert list(await partitions(place.connection)) == [FIRST + timedelta(days=n) for n in (1, 2, 3, 4)]
    assert f"{FIRST}: dropped, it is empty" in ran.lines


async def test_another_days_and_a_gap_between_them(place: Place) -> None:
    for offset in (0, 2, -400):
        await place.fill(day_of_events(DAY + timedelta(days=offset), count=5, number=offset))
    ran = await place.archive()
    days = await place.connection.fetch("SELECT day FROM sluice.archive_day ORDER BY day")
    assert [row["day"] for row in days] == [FIRST + timedelta(days=n) for n in (-400, 0, 2)]
    assert ran.rows_in == ran.rows_out == len(await place.archived())
