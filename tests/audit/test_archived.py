"""Whatever somebody makes of the archive's files is told, and ends no process that reads them.

Some 5 s, without Spark: the files are written as the archive's job has them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pyarrow
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pyarrow import parquet

from gateway.audit.archived import Archive
from gateway.audit.chain import digest_of
from gateway.audit.seals import make_seal
from gateway.audit.verify import verify
from gateway.audit.walking import Kind, Verified
from gateway.errors import LedgerUnavailable
from gateway.jobs.events import STORED, land
from gateway.jobs.locks import LOCKS
from gateway.jobs.tables import REPLACED
from tests.effort import tries
from tests.jobs.records import DAY, day_of_events, fill, written

KEY = Ed25519PrivateKey.generate()
Table = Any


@dataclass
class Day:
    """A day that PostgreSQL has no more, in one file."""

    connection: Any
    directory: Path
    file: Path
    rows: Table

    async def looked_at(self) -> Verified:
        return await verify(self.connection, keys=[KEY.public_key()], archive=Archive(self.directory))


async def test_a_run_that_was_cut_off_is_told_and_is_no_change(archived: Day) -> None:
    aside = archived.directory / REPLACED / f"day={DAY:%Y-%m-%d}"
    aside.mkdir(parents=True)
    with pytest.raises(LedgerUnavailable, match="a run of `archive` was interrupted"):
        await archived.looked_at()
    aside.rmdir()
    assert (await archived.looked_at()).holds


@pytest.fixture
async def archived(database: str, tmp_path: Path) -> AsyncIterator[Day]:
    of_an_hour = (
        dataclasses.replace(one, time=written(DAY + timedelta(seconds=second)))
        for second, one in enumerate(day_of_events(count=24))
    )
    await fill(database, of_an_hour)
    connection = await asyncpg.connect(database)
    try:
        await make_seal(connection, KEY, DAY.date())
        async with connection.transaction():
            everything = (
                f"SELECT {', '.join(STORED)} FROM sluice.audit_event ORDER BY gateway, chain_position"
            )
            await land(connection, everything, (), tmp_path)
        await connection.execute(
            "INSERT INTO sluice.archive_day (day, version, events, unchained, links, digests, erasure,"
            " bytes, verified_at, dropped_events) SELECT $1, 1, count(*), 0, '0', '0', 0, 0, now(), count(*)"
            " FROM sluice.audit_event",
            DAY.date(),
        )
        await connection.execute(
            "INSERT INTO sluice.archive_chain SELECT $1, gateway, min(chain_position), max(chain_position)"
            " FROM sluice.audit_event GROUP BY gateway",
            DAY.date(),
        )
        await connection.execute(
            f"ALTER TABLE sluice.audit_event DETACH PARTITION sluice.audit_event_{DAY:%Y%m%d}"
        )
        directory = tmp_path / "audit_event"
        file = directory / f"day={DAY.date()}" / "hour=00" / "part-0.parquet"
        file.parent.mkdir(parents=True)
        rows = parquet.read_table(tmp_path / "events.parquet")
        parquet.write_table(rows, file, row_group_size=8)
        yield Day(connection, directory, file, rows)
    finally:
        await connection.close()


def replaced(rows: Table, name: str, values: Any) -> Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def _no_utf8(rows: Table) -> Table:
    texts = [text and text.encode().replace(b"SELECT", b"\xff\xfe") for text in rows["statement"].to_pylist()]
    buffers = pyarrow.array(texts, pyarrow.binary()).buffers()
    return replaced(rows, "statement", pyarrow.Array.from_buffers(pyarrow.string(), rows.num_rows, buffers))


def _beyond_all_times(rows: Table) -> Table:
    times = [10**18, *rows["time"].cast("int64").to_pylist()[1:]]
    return replaced(rows, "time", pyarrow.array(times).cast(pyarrow.timestamp("us", "UTC")))


MADE_OTHERWISE: dict[str, tuple[Callable[[Table], Table], str]] = {
    "a column twice, of which Spark may take the other": (
        lambda rows: rows.append_column("verdict", pyarrow.array(["refused"] * rows.num_rows)),
        "two columns `verdict`",
    ),
    "a column twice, to whom does not look at capitals": (
        lambda rows: rows.append_column("VERDICT", pyarrow.array(["refused"] * rows.num_rows)),
        "two columns `verdict`",
    ),
    "no links": (lambda rows: rows.drop_columns(["link"]), "no column `link`"),
    "links that are texts": (
        lambda rows: replaced(rows, "link", pyarrow.array(["x"] * rows.num_rows)),
        "`link` is string",
    ),
    "positions that are texts": (
        lambda rows: replaced(rows, "chain_position", rows["chain_position"].cast("string")),
        "`chain_position` is string",
    ),
    "bodies that are bytes": (lambda rows: replaced(rows, "body", rows["body"].cast("binary")), "`body` is"),
    "times of no zone": (
        lambda rows: replaced(rows, "time", rows["time"].cast(pyarrow.timestamp("us"))),
        "`time` is",
    ),
    "values of no event's type": (
        lambda rows: replaced(rows, "duration_ms", pyarrow.array([Decimal("1.5")] * rows.num_rows)),
        "`duration_ms` is decimal",
    ),
    "a time beyond all": (_beyond_all_times, "cannot be read"),
    "texts that are none": (_no_utf8, "cannot be read"),
}


async def test_a_day_that_only_the_archive_has_holds(archived: Day) -> None:
    found = await archived.looked_at()
    assert found.holds, found.findings
    assert found.events == archived.rows.num_rows


@pytest.mark.parametrize("what", MADE_OTHERWISE)
async def test_files_that_nobody_has_written_so_are_told(archived: Day, what: str) -> None:
    """With what is missing for it."""
    change, why = MADE_OTHERWISE[what]
    parquet.write_table(change(archived.rows), archived.file)
    findings = (await archived.looked_at()).findings
    (told,) = [one.where for one in findings if one.kind is Kind.UNREADABLE]
    assert str(archived.file) in told
    assert why in told
    assert {Kind.MISSING, Kind.TRUNCATED} & {one.kind for one in findings}


async def test_a_day_without_files_is_missing_and_an_archive_that_is_not_there_is_none(archived: Day) -> None:
    archived.file.unlink()
    found = [(one.kind, one.where) for one in (await archived.looked_at()).findings]
    assert (Kind.MISSING, f"`day={DAY.date()}` of the archive") in found
    shutil.rmtree(archived.directory)
    with pytest.raises(LedgerUnavailable, match="the archive does not exist"):
        await archived.looked_at()


async def test_an_event_without_a_time_is_a_changed_one(archived: Day) -> None:
    times = [None, *archived.rows["time"].to_pylist()[1:]]
    kind = archived.rows.schema.field("time").type
    parquet.write_table(replaced(archived.rows, "time", pyarrow.array(times, kind)), archived.file)
    assert [one.kind for one in (await archived.looked_at()).findings] == [Kind.CHANGED]


async def test_no_bit_of_a_file_ends_the_process(archived: Day) -> None:
    """Of what a file says of itself, too, which it says at its end."""
    whole = archived.file.read_bytes()
    seed = random.Random(3)
    for number in range(tries(60)):
        data = bytearray(whole)
        at = seed.randrange(len(data)) if number % 3 else len(data) - 1 - seed.randrange(6_000)
        data[at] ^= 1 << seed.randrange(8)
        archived.file.write_bytes(data)
        holds = (await archived.looked_at()).holds
        if holds:
            bound = list(STORED[:-1])
            there = parquet.ParquetFile(archived.file).read(columns=bound)
            assert there.to_pylist() == archived.rows.select(bound).to_pylist(), (number, at)


async def back_again(archived: Day, kept: str) -> None:
    """Have PostgreSQL have the events of the day for which `kept` holds, too."""
    day = DAY.date()
    await archived.connection.execute(
        f"DROP TRIGGER append_only ON sluice.audit_event;"
        f"ALTER TABLE sluice.audit_event ATTACH PARTITION sluice.audit_event_{day:%Y%m%d}"
        f" FOR VALUES FROM ('{day} 00:00:00+00') TO ('{day + timedelta(days=1)} 00:00:00+00');"
        f"DELETE FROM sluice.audit_event WHERE NOT ({kept})"
    )


async def test_what_came_when_its_day_was_gone_is_no_alarm(archived: Day) -> None:
    await back_again(archived, "chain_position > 15")
    found = await archived.looked_at()
    assert found.holds, found.findings


async def test_no_event_is_gone_from_postgresql_because_its_day_is_said_to_be(archived: Day) -> None:
    """A day goes as a whole: of a gateway, nothing went that is behind something which is there."""
    await back_again(archived, "chain_position <> 7 OR gateway LIKE 'gate1%'")
    await archived.connection.execute("UPDATE sluice.archive_day SET dropped_events = 1")
    found = await archived.looked_at()
    told = [(one.kind, one.gateway, one.first, one.last) for one in found.findings]
    assert told == [(Kind.MISSING, "gate0-00000000", 7, 7)]


async def test_what_both_have_is_the_same_in_both(archived: Day) -> None:
    await back_again(archived, "chain_position > 15")
    users = archived.rows["user_name"].to_pylist()
    at = archived.rows["chain_position"].to_pylist().index(17)
    users[at] = "eve"
    parquet.write_table(replaced(archived.rows, "user_name", pyarrow.array(users)), archived.file)
    found = await archived.looked_at()
    assert [(one.kind, one.first) for one in found.findings] == [(Kind.CHANGED, 17)]


async def test_texts_that_only_the_archive_has_lost_are_missed(archived: Day) -> None:
    await back_again(archived, "chain_position > 15")
    rows = archived.rows.to_pylist()
    lost = next(
        row for row in rows if row["chain_position"] > 15 and row["kind"] == "decided" and row["statement"]
    )
    digests = {name: digest_of(lost[name]) for name in ("statement", "forwarded") if lost[name] is not None}
    lost |= {"statement": None, "forwarded": None, "erased": orjson.dumps(digests).decode()}
    parquet.write_table(pyarrow.Table.from_pylist(rows, archived.rows.schema), archived.file)
    found = [(one.kind, one.first) for one in (await archived.looked_at()).findings]
    assert found == [(Kind.ERASED, lost["chain_position"])]


async def test_events_in_files_of_another_hour_are_told(archived: Day) -> None:
    elsewhere = archived.file.parent.parent / "hour=17" / archived.file.name
    elsewhere.parent.mkdir()
    archived.file.rename(elsewhere)
    found = await archived.looked_at()
    assert {one.kind for one in found.findings} == {Kind.CHANGED}
    assert f"is in `day={DAY.date()}/hour=17` of the archive, but belongs to" in found.findings[0].where


async def test_what_is_no_file_is_not_waited_for(archived: Day) -> None:
    os.mkfifo(archived.file.parent / "z.parquet")
    found = [(one.kind, one.where) for one in (await archived.looked_at()).findings]
    assert {kind for kind, _ in found} == {Kind.UNREADABLE}
    assert found[0][1].endswith("z.parquet` of the archive is not a file")


async def test_the_archive_knows_of_a_cut_tail(archived: Day) -> None:
    """Of a day that PostgreSQL has, and that no seal has yet."""
    await back_again(archived, "chain_position < 10")
    await archived.connection.execute(
        "DROP TRIGGER append_only ON sluice.audit_seal; DELETE FROM sluice.audit_seal;"
        "UPDATE sluice.archive_day SET dropped_events = 0;"
        "UPDATE sluice.audit_chain c SET (chain_position, link) ="
        " (SELECT chain_position, link FROM sluice.audit_event e WHERE e.gateway = c.gateway"
        " ORDER BY chain_position DESC LIMIT 1)"
    )
    found = await archived.looked_at()
    assert {(one.kind, one.first) for one in found.findings} == {(Kind.TRUNCATED, 10)}


def _more(**values: Any) -> Callable[[Table], Table]:
    """Return what adds a row: the last one with other values."""

    def change(rows: Table) -> Table:
        last = rows.slice(rows.num_rows - 1)
        for name, value in values.items():
            last = replaced(last, name, pyarrow.array([value], rows.schema.field(name).type))
        return pyarrow.concat_tables([rows, last])

    return change


ADDED = {
    "of a gateway that there never was": _more(gateway="evil"),
    "of no gateway": _more(gateway=None),
    "in no place": _more(chain_position=None),
    "behind the end": _more(chain_position=99),
}


@pytest.mark.parametrize("what", ADDED)
async def test_events_of_the_archive_that_no_chain_has_are_told(archived: Day, what: str) -> None:
    parquet.write_table(ADDED[what](archived.rows), archived.file)
    found = [(one.kind, one.where) for one in (await archived.looked_at()).findings]
    assert found == [
        (Kind.ADDED, f"1 events in `day={DAY.date()}` of the archive are outside every chain"),
        (Kind.ADDED, f"`day={DAY.date()}` of the archive has 43 events instead of 42"),
    ]


async def test_files_where_no_run_puts_any_are_told(archived: Day) -> None:
    day = archived.file.parent.parent
    shutil.copy(archived.file, day / "x.parquet")
    (day / "hour=00" / "_SUCCESS").touch()
    found = [(one.kind, one.where) for one in (await archived.looked_at()).findings]
    assert found == [(Kind.ADDED, f"`{day / 'x.parquet'}` of the archive was not written by any run")]
    since = DAY + timedelta(days=3)
    assert (await verify(archived.connection, since=since, archive=Archive(archived.directory))).holds


async def test_the_command_waits_for_the_archive_s_run_and_takes_several_keys(
    archived: Day, database: str, tmp_path: Path
) -> None:
    """A run writes days anew, and a file that was listed is there no more."""
    keys: list[str] = []
    for number, key in enumerate((Ed25519PrivateKey.generate(), KEY)):
        file = tmp_path / f"{number}.pem"
        file.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        keys += ["--public-key", str(file)]
    (tmp_path / "dsn").write_text(database)
    config = tmp_path / "gateway.yaml"
    config.write_text(
        yaml.safe_dump({"ledger": {"dsn": {"file": "dsn"}}, "jobs": {"directory": str(tmp_path)}})
    )
    await archived.connection.execute("SELECT pg_advisory_lock($1, hashtext('archive'))", LOCKS)
    words = ("-m", "gateway", "audit", "verify", "--json", "-c", str(config), *keys)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    assert b"waiting for the run of `archive` to end" in await process.stderr.readline()
    hidden = archived.file.rename(tmp_path / "hidden")
    await asyncio.sleep(0.2)  # for one that would not wait to look, and find it gone
    hidden.rename(archived.file)
    await archived.connection.execute("SELECT pg_advisory_unlock_all()")
    out, _ = await process.communicate()
    told = json.loads(out)
    assert (process.returncode, told["holds"], told["unsealed"]) == (0, True, 0), told
    assert told["last_seal"]
