"""What lands from PostgreSQL is what it has, value by value, and its digests are those of the chain; it goes
with the run that has read it.

Some 10 s, without Spark.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pyarrow
import pytest
from pyarrow import parquet

from gateway.audit.chain import digest
from gateway.audit.erasing import erase
from gateway.audit.rows import COLUMNS
from gateway.audit.verify import read_link as linked_row
from gateway.database.asking import REFUSALS, connected
from gateway.errors import BackendUnavailable
from gateway.jobs.archive import ArchiveOptions, archive
from gateway.jobs.archive_dropping import Keeping
from gateway.jobs.events import STORED, Sums, arrow_schema, digests_of, land, links_in_database, sums_of
from gateway.jobs.job import CONNECTION, Job, Outcome, Work
from gateway.jobs.locks import LOCKS
from gateway.jobs.running import run_job
from gateway.jobs.spark import SparkOptions
from gateway.jobs.tables import LANDING, LakeTable, landings
from gateway.jobs.verifying import VerifyOptions, verify
from gateway.jobs.verifying_frames import NEEDED, UNCHAINED_PARTS, build_links
from tests.jobs.records import DAY, NOW, day_of_events, fill
from tests.jobs.worker import replay_of

STRANGE: tuple[tuple[str, str | None, list[str | None] | None, str | None], ...] = (
    ("", None, None, None),
    ("\\N", "", [], ""),
    ("NULL", "NaN", ["", None, "NULL", '"', "{a,b}", "\\"], "\\."),
    ('"', '""\r\n,', ["\n\r\t", "😀"], "  spaces  "),
    ("t", "f" * 200_000, ["x"] * 300, "\x01\x7f\u2028"),
)
BODIES = ("[]", "null", "7", '{"": 1, "n": 1.0, "t": true, "big": 1e300, "z": [1, 1.5, {"a": null}]}', "{}")


async def test_rows_land_as_they_are(database: str, tmp_path: Path) -> None:
    await fill(database, day_of_events(count=40))
    connection = await asyncpg.connect(database)
    try:
        # Forms that others may like.
        await connection.execute("SET DateStyle = 'German'; SET TimeZone = 'Asia/Kolkata'")
        await connection.execute("SET extra_float_digits = -10")
        for number, ((user, message, groups, statement), body) in enumerate(
            zip(STRANGE, BODIES, strict=True)
        ):
            await connection.execute(
                "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, message, groups,"
                " statement, body, duration_ms, rows, readers_agree, original_record) VALUES"
                " (gen_random_uuid(), $1, '', '', $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                DAY + timedelta(microseconds=number),
                *(user, message, groups, statement, body),
                *(0.1 + 0.2 if number else float("inf"), -(2**63) if number else None),
                *((None, True, False)[number % 3], b"\x00\xff" * number if number else None),
            )
        await erase(connection, "bob", until=NOW, by="dpo", reason="request 7", key=None)
        found = Sums()
        digests: list[bytes] = []

        def each(batch: Any) -> None:
            nonlocal found
            found += sums_of(batch)
            digests.extend(digests_of(batch))

        query = f"SELECT {', '.join(STORED)} FROM sluice.audit_event"
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            assert await land(connection, query, (), tmp_path, each=each) == len(digests)
            there = {str(row["event_id"]): row for row in await connection.fetch(query)}
            sums = await links_in_database(connection, "sluice.audit_event")
    finally:
        await connection.close()
    rows = parquet.read_table(tmp_path / "events.parquet").to_pylist()
    assert (found.events, found.links) == sums
    assert (len(rows), found.unchained) == (len(there), len(STRANGE))
    for row, made in zip(rows, digests, strict=True):
        kept = there[row["event_id"]]
        assert {name: row[name] for name in STORED} == {
            **{name: kept[name] for name in STORED},
            "event_id": str(kept["event_id"]),
            "statement_id": None if kept["statement_id"] is None else str(kept["statement_id"]),
        }
        body = orjson.loads(kept["body"])
        values = {name: kept[name] for name in COLUMNS} | {"time": kept["time"].astimezone(UTC)}
        values["body"] = body if isinstance(body, dict) else {"": body}
        erased = None if kept["erased"] is None else orjson.loads(kept["erased"])
        assert made == digest(values, erased)


def garbage(seed: int, count: int) -> list[dict[str, Any]]:
    """Return rows such as somebody who can write the archive's files may put there."""
    chance = random.Random(seed)
    texts = ("", "a", "\u2028\x7f", "😀" * 40, "x" * 5_000)
    jsons = (
        *(*BODIES, "", "{", "nul", "NaN", '"x"', '{"a": 1, "a": 2}', '{"body": {"é": [0.1, -0.0, 1e20]}}'),
        *('{"\\u0000": "\\ud83d", "b.c": null}', '{"n": 123456789012345678901234567890}'),
    )
    digests = ("{}", "7", "[]", '{"user_name": "00", "body.x": "", "statement": "\\n"}', "{")
    makes: dict[str, Callable[[], Any]] = {
        "time": lambda: DAY + timedelta(microseconds=chance.randrange(-(10**15), 10**15)),
        "groups": lambda: chance.choice(([], ["b", "a"], ["", "é"], ["x"] * 300)),
        "statement_sha256": lambda: chance.randbytes(chance.randrange(40)),
        "rows": lambda: chance.choice((0, 1, -1, 2**63 - 1, -(2**63))),
        "duration_ms": lambda: chance.choice((0.0, -0.0, 1.0, 1e300, 0.1, float("nan"), float("-inf"))),
        "readers_agree": lambda: chance.random() < 0.5,
        "body": lambda: chance.choice(jsons),
        "erased": lambda: chance.choice(digests),
    }
    of = {
        **dict.fromkeys(("roles", "resources", "policies"), "groups"),
        **dict.fromkeys(("forwarded_sha256", "original_record", "link"), "statement_sha256"),
        **dict.fromkeys(("bytes", "chain_position"), "rows"),
    }
    rows = []
    for _ in range(count):
        empty = chance.choice((0.0, 0.3, 1.0))
        rows.append(
            {
                name: None
                if chance.random() < (0.9 if name == "erased" and not empty else empty)
                else makes.get(of.get(name, name), lambda: chance.choice(texts))()
                for name in NEEDED
            }
        )
    return rows


def test_events_are_linked_by_column_as_row_by_row() -> None:
    for seed in range(40):
        rows = garbage(seed, 30)
        batch = pyarrow.RecordBatch.from_pylist(rows, schema=arrow_schema(NEEDED))
        more = {"source": pyarrow.array([seed % 3] * len(rows), pyarrow.int32())}
        flags = ("copied", "astray", "behind", "lost")
        more |= {name: pyarrow.array([bool(seed % 2)] * len(rows)) for name in flags}
        found = build_links(pyarrow.RecordBatch.from_arrays([*batch, *more.values()], [*NEEDED, *more]), 7)
        for row, told in zip(rows, found.to_pylist(), strict=True):
            event = linked_row(row)
            position = max(event.position or 0, 0)
            part = told.pop("part")
            assert part == (position - 1) // 7 if position else -UNCHAINED_PARTS <= part < 0
            assert told == {
                "gateway": row["gateway"] or "",
                "chain_position": position,
                "link": event.link,
                "digest": event.digest,
                "event_id": row["event_id"] or "",
                "time": event.time or datetime(1970, 1, 1, tzinfo=UTC),
                "source": seed % 3,
                "copied": bool(seed % 2),
                "astray": bool(seed % 2),
                "behind": bool(seed % 2),
                "lost": bool(seed % 2),
            }


async def test_a_time_that_nobody_has_written_lands_as_none(database: str, tmp_path: Path) -> None:
    """Whoever has the database can write times that neither Arrow nor Python knows."""
    connection = await asyncpg.connect(database)
    times = ("infinity", "-infinity", "20000-01-01", "0044-03-15 BC", "2026-11-20")
    query = "SELECT t::timestamptz AS time FROM unnest($1::text[]) AS t"
    try:
        async with connection.transaction():
            await land(connection, query, (list(times),), tmp_path, names=("time",))
    finally:
        await connection.close()
    found = parquet.read_table(tmp_path / "events.parquet").column("time").to_pylist()
    assert found == [None, None, None, None, DAY]


PACK = "service: spark\npolicies: []\n"


@pytest.mark.parametrize(
    "made",
    [
        lambda: verify(VerifyOptions()),
        lambda: replay_of({"old": PACK, "new": PACK, "since": DAY, "until": NOW}),
    ],
    ids=["verify", "replay"],
)
@pytest.mark.parametrize(
    "error", [BackendUnavailable("no address of Spark"), asyncio.CancelledError()], ids=repr
)
async def test_texts_that_a_run_has_read_go_with_it_though_it_fails(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[], Job],
    error: BaseException,
) -> None:
    await fill(database, day_of_events(count=10))
    landed = list[Path]()

    def fails(_: SparkOptions) -> None:
        landed.extend(tmp_path.glob(f"*/{LANDING}/**/*.parquet"))
        raise error

    monkeypatch.setattr("gateway.jobs.job.open_session", fails)
    with pytest.raises(type(error)):
        await run_job(made(), dsn=database, lake=tmp_path, spark=SparkOptions())
    assert landed
    assert not list(landings(tmp_path))


def test_directories_that_are_closed_to_us_are_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = os.stat

    def stat(path: Any, **how: Any) -> os.stat_result:
        if "lost+found/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, **how)

    (tmp_path / "lost+found").mkdir()
    (tmp_path / "replay" / LANDING).mkdir(parents=True)
    monkeypatch.setattr(os, "stat", stat)
    assert list(landings(tmp_path)) == [("replay", tmp_path / "replay" / LANDING)]


async def test_the_archive_removes_what_killed_runs_have_read_and_nothing_of_those_that_run(
    database: str, tmp_path: Path
) -> None:
    async def is_cut(work: Work) -> Outcome:
        (LakeTable(work.lake, "_verify").make_landing("record") / "texts").touch()
        async with connected(database, "test") as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1",
                f"{CONNECTION}verify",
            )
        await work.connection.execute("SELECT 1")
        return Outcome()

    async def archived() -> list[str]:
        lines = list[str]()
        job = archive(ArchiveOptions(keeping=Keeping()))
        await run_job(job, dsn=database, lake=tmp_path, spark=SparkOptions(), progress=lines.append)
        return lines

    await fill(database, ())
    killed = Job(name="verify", version=1, about="for tests", reads=(), writes=(), run=is_cut)
    with pytest.raises(REFUSALS):
        await run_job(killed, dsn=database, lake=tmp_path, spark=SparkOptions())
    left = tmp_path / "_verify" / LANDING / "record" / "texts"
    assert left.exists()  # its lock was gone
    async with connected(database, "test") as other:
        await other.execute("SELECT pg_advisory_lock($1, hashtext('verify'))", LOCKS)
        await archived()
        assert left.exists()
        await other.execute("SELECT pg_advisory_unlock_all()")
    assert "`_verify`: removed what a killed run had left there" in await archived()
    assert not left.exists()
