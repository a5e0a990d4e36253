"""Real Spark, real PostgreSQL: what is proposed, what stays decided, and what a killed run leaves."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.jobs.classification.proposing import drift_of
from gateway.lineage.proposals import decide, proposals
from tests.jobs.classification.corpus import card, email, full_name, iban
from tests.jobs.records import NOW, fill
from tests.jobs.worker import Ran, Worker, classify_of

R = random.Random(11)
PEOPLE = [(n, full_name(R), email(R), card(R)) for n in range(150)]


@dataclass
class Place:
    dsn: str
    lake: Path
    worker: Worker
    connection: Any
    database: str

    async def table(
        self, name: str, columns: str, rows: list[tuple[Any, ...]], partitioned: str = ""
    ) -> None:
        await self.worker.make_table(f"{self.database}.{name}", columns, rows, partitioned)

    async def classify(self, **chosen: Any) -> Ran:
        chosen.setdefault("include", [f"spark_catalog.{self.database}.*"])
        return await self.worker.run(classify_of, chosen, dsn=self.dsn, lake=self.lake, now=NOW)

    async def proposed(self) -> dict[str, str]:
        found = await proposals(self.connection)
        return {f"{one.target.table}.{one.target.column} {one.target.tag}": one.state for one in found}

    async def ids(self, tag: str) -> list[int]:
        return [one.id for one in await proposals(self.connection, tag=tag)]


@pytest.fixture
async def place(database: str, tmp_path: Path, worker: Worker) -> AsyncIterator[Place]:
    await fill(database, ())
    connection = await asyncpg.connect(database, server_settings={"timezone": "UTC"})
    found = Place(database, tmp_path / "lake", worker, connection, f"c{os.urandom(4).hex()}")
    await worker.make_database(found.database, tmp_path / "warehouse")
    try:
        yield found
    finally:
        await connection.close()
        await worker.drop_database(found.database)


async def test_columns_are_proposed_with_evidence_and_no_value(place: Place) -> None:
    await place.table("people", "id int, name string, c2 string, c3 string", PEOPLE)
    ran = await place.classify()
    assert await place.proposed() == {
        "people.name PERSON_NAME": "proposed",
        "people.c2 EMAIL": "proposed",
        "people.c3 CARD": "proposed",
    }
    (one,) = await proposals(place.connection, tag="EMAIL")
    assert one.asks
    assert not one.origin_gone
    (evidence,) = one.evidence
    assert evidence["rule"] == "email"
    assert (evidence["sampled"], evidence["hit"], evidence["named"]) == (150, 150, False)
    stored = str(await place.connection.fetch("SELECT * FROM sluice.tag_proposal"))
    assert not any(value in stored for person in PEOPLE for value in person[1:])
    assert ran.rows_in == 150
    assert any("people: 4 columns" in line for line in ran.lines)


async def test_what_is_decided_stays_decided(place: Place) -> None:
    await place.table("people", "id int, name string, c2 string, c3 string", PEOPLE)
    await place.classify()
    await decide(place.connection, await place.ids("EMAIL"), "accepted", "ann")
    await decide(place.connection, await place.ids("CARD"), "rejected", "ann")
    before = await place.connection.fetch("SELECT * FROM sluice.tag_proposal ORDER BY id")
    ran = await place.classify(again_days=0)
    assert any("people" in line for line in ran.lines)
    assert await place.connection.fetch("SELECT * FROM sluice.tag_proposal ORDER BY id") == before
    assert await drift_of(place.connection) == []


async def test_an_unchanged_table_is_skipped_and_a_changed_one_is_not(place: Place) -> None:
    await place.table("people", "id int, name string, c2 string, c3 string", PEOPLE)
    assert (await place.classify()).rows_in == 150
    assert (await place.classify()).rows_in == 0
    await place.worker.sql(f"ALTER TABLE {place.database}.people SET TBLPROPERTIES ('a' = 'b')")
    assert (await place.classify()).rows_in == 150


async def test_drift_is_told(place: Place) -> None:
    await place.table("people", "c2 string, c3 string", [(p[2], p[3]) for p in PEOPLE])
    await place.classify()
    await decide(place.connection, await place.ids("EMAIL"), "accepted", "ann")
    await decide(place.connection, await place.ids("CARD"), "rejected", "ann")
    de = iban("DE")
    await place.table("people", "c2 string, c3 string", [(f"room {n}", de(R)) for n in range(100)])
    await place.classify(again_days=0)
    assert {
        (one["column"].rpartition(".")[2], one["tag"], one["kind"])
        for one in await drift_of(place.connection)
    } == {
        ("c2", "EMAIL", "no_longer_fits"),
        ("c3", "IBAN", "new_class"),
    }
    assert (await place.proposed())["people.c3 IBAN"] == "proposed"
    assert (await place.proposed())["people.c2 EMAIL"] == "accepted"
    await place.table("people", "c2 string, c3 string", [(p[2], p[3]) for p in PEOPLE])
    await place.classify(again_days=0)
    assert await drift_of(place.connection) == []
    assert "people.c3 IBAN" not in await place.proposed()


async def test_what_is_gone_is_proposed_no_longer_and_what_was_decided_of_it_stays(place: Place) -> None:
    await place.table("people", "c2 string, c3 string", [(p[2], p[3]) for p in PEOPLE])
    await place.table("other", "c2 string", [(p[2],) for p in PEOPLE])
    await place.table("left_out", "c2 string", [(p[2],) for p in PEOPLE])
    await place.classify()
    await decide(place.connection, [(await place.ids("CARD"))[0]], "accepted", "ann")
    await place.table("people", "renamed string", [(p[2],) for p in PEOPLE])
    await place.worker.sql(f"DROP TABLE {place.database}.other")
    ran = await place.classify(exclude=["*.left_out"])
    assert any("other: dropped: 1 tags withdrawn" in line for line in ran.lines)
    assert await place.proposed() == {
        "people.c3 CARD": "accepted",
        "people.renamed EMAIL": "proposed",
        "left_out.c2 EMAIL": "proposed",
    }
    tables = await place.connection.fetch("SELECT table_name FROM sluice.classified_table ORDER BY 1")
    assert [row["table_name"] for row in tables] == ["left_out", "people"]


async def test_nested_types_and_json_in_texts(place: Place) -> None:
    rows = [
        ({"home": {"mail": p[2]}}, [f"see {p[2]} please"], {"k": p[3]}, f'{{"a": [{{"mail": "{p[2]}"}}]}}')
        for p in PEOPLE
    ]
    kinds = "s struct<home: struct<mail: string>>, a array<string>, m map<string, string>, j string"
    await place.table("nested", kinds, rows)
    await place.table("empty", "s struct<home: struct<email: string>>, email string, c1 string", [])
    await place.classify()
    assert sorted(await place.proposed()) == [
        "empty.email EMAIL",
        "empty.s EMAIL",
        "nested.a EMAIL",
        "nested.j EMAIL",
        "nested.m CARD",
        "nested.s EMAIL",
    ]


async def test_partitions_are_all_looked_at(place: Place) -> None:
    rows = [(f"t{n}", day) for day in range(5) for n in range(50)] + [(p[2], 9) for p in PEOPLE[:50]]
    await place.table("events", "c1 string, day int", rows, "day")
    ran = await place.classify(limits={"rows": 60, "strata": 6})
    assert ran.rows_in == 60
    (one,) = await proposals(place.connection)
    assert one.evidence[0]["hit"] == 10 if one.evidence else False


async def test_what_cannot_be_read_stops_nothing(place: Place, tmp_path: Path) -> None:
    await place.table("broken", "email string", [("a",)])
    await place.table("people", "id int, name string, c2 string, c3 string", PEOPLE)
    await place.worker.sql(f"CREATE VIEW {place.database}.seen AS SELECT * FROM {place.database}.people")
    for file in (tmp_path / "warehouse" / "broken").glob("*.parquet"):
        file.write_bytes(b"no parquet")
    for file in (tmp_path / "warehouse" / "broken").glob(".*.crc"):
        file.unlink()
    await place.classify()
    states = await place.connection.fetch("SELECT table_name, state FROM sluice.classified_table ORDER BY 1")
    assert [tuple(row) for row in states] == [
        ("broken", "unreadable"),
        ("people", "classified"),
        ("seen", "view"),
    ]


async def test_five_hundred_columns_within_bounds(place: Place) -> None:
    columns = ", ".join(f"c{n} string" for n in range(500))
    rows = [tuple(PEOPLE[r][2] if n % 100 == 7 else "x" * 900 for n in range(500)) for r in range(40)]
    await place.table("wide", columns, rows)
    await place.classify(limits={"bytes": 4_000_000})
    assert len(await place.proposed()) == 5
    row = await place.connection.fetchrow("SELECT * FROM sluice.classified_table")
    assert row["columns"] == 500
    assert row["bytes"] < 4_500_000


async def test_a_killed_run_goes_on_and_ends_the_same(place: Place) -> None:
    for n in range(4):
        await place.table(f"t{n}", "id int, name string, c2 string, c3 string", PEOPLE)
    ran = await place.classify(tables=2)
    assert any("left for the next run" in line for line in ran.lines)
    with pytest.raises(RuntimeError, match="killed"):
        await place.classify(fail_at=f"spark_catalog.{place.database}.t3")
    await place.classify()
    whole = await place.proposed()
    assert len(whole) == 12
    await place.connection.execute(
        "TRUNCATE sluice.tag_proposal, sluice.tag_decision, sluice.classified_table"
    )
    await place.classify()
    assert await place.proposed() == whole


async def test_what_policies_tag_is_not_proposed_and_promoted_tables_come_first(place: Place) -> None:
    await place.table("a", "email string", [(p[2],) for p in PEOPLE])
    await place.table("z", "email string", [(p[2],) for p in PEOPLE])
    await place.connection.execute(
        "INSERT INTO sluice.dataset (source, path, database, table_name, url, format, options, "
        "columns, files,"
        " bytes, signature, promoted_by)"
        " VALUES ('s', 'z', $1, 'z', '', 'csv', '{}', '[]', 1, 1, 'x', 'ann')",
        place.database,
    )
    await place.classify(tables=1, tagged={"a": ["EMAIL"]})
    assert list(await place.proposed()) == ["z.email EMAIL"]
    await place.classify(tagged={"a": ["EMAIL"]})
    assert list(await place.proposed()) == ["z.email EMAIL"]
