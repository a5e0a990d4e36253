"""What lands from PostgreSQL is what it has, value by value, and its digests are those of the chain."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import orjson
from pyarrow import parquet

from gateway.audit.chain import digest
from gateway.audit.erasing import erase
from gateway.audit.rows import COLUMNS
from gateway.jobs.events import STORED, Sums, digests_of, land, links_in_database, sums_of
from tests.jobs.records import DAY, NOW, day_of_events, fill

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
        await erase(connection, "bob", until=NOW, by="dpo", reason="request 7")
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
