"""Whoever changes the record is found, whatever else they change with it, short of the key of the seals."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import shutil
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.archived import Archive
from gateway.audit.backlog import read_checkpoint
from gateway.audit.chain import Head, canonical, digest_of, start
from gateway.audit.erasing import Erasures, erase, read_erasures
from gateway.audit.rows import event_digest
from gateway.audit.seals import (
    KEPT,
    NotASeal,
    Seal,
    day_to_seal,
    keep_seal,
    keep_sealing,
    make_seal,
    merkle_root,
    read_local_seals,
    read_seal,
    seals,
)
from gateway.audit.shipper import make_partitions
from gateway.audit.verify import verify
from gateway.audit.walking import Kind, Verified
from gateway.database.asking import connected
from gateway.errors import Faults, LedgerUnavailable
from tests.audit.ledgers import running, shipped
from tests.audit.samples import cleared, completed, login, refused
from tests.audit.samples import until as in_time
from tests.conftest import new_database

KEY = Ed25519PrivateKey.generate()
DAY = date(2026, 11, 20)
DAY_TIME = datetime(2026, 11, 20, tzinfo=UTC)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(
    tmp_path_factory: pytest.TempPathFactory, embedded_postgres: str
) -> AsyncIterator[tuple[Path, str]]:
    """A record of two gateways, with a seal in the middle and one at the end: spools, and a database.

    Nobody changes it: each test has a copy.
    """
    spools = tmp_path_factory.mktemp("made")
    async with new_database(embedded_postgres) as dsn:
        for number in range(2):
            async with running(spools / str(number), dsn, name=f"gate{number}") as ledger:
                for text in ("SELECT 'ü\0\ud800'", "SELECT 1e16", "SELECT 3"):
                    event = dataclasses.replace(cleared(text), gateway=ledger.gateway)
                    await ledger.record_decided(event)
                    end = completed(event)
                    odd = {**end.body, "numbers": [1e16, 0.1, -0.0, 2**53, 1.0], "duration_ms": 12.5}
                    await ledger.record(dataclasses.replace(end, gateway=ledger.gateway, body=odd))
                await ledger.record_decided(dataclasses.replace(refused(), gateway=ledger.gateway))
                await ledger.record(dataclasses.replace(login(), gateway=ledger.gateway))
                await shipped(ledger)
            connection = await asyncpg.connect(dsn)
            await make_seal(connection, KEY, DAY + timedelta(days=number))
            await connection.close()
        yield spools, urlsplit(dsn).path.removeprefix("/")


@pytest.fixture
async def database(made: tuple[Path, str], embedded_postgres: str, tmp_path: Path) -> AsyncIterator[str]:
    """The DSN of a copy of that record, whose gateways' spools are in `tmp_path`."""
    spools, name = made
    shutil.copytree(spools, tmp_path, dirs_exist_ok=True)
    async with new_database(embedded_postgres, name) as dsn:
        yield dsn


@pytest.fixture
async def record(database: str) -> AsyncIterator[Any]:
    """A connection to it."""
    connection = await asyncpg.connect(database)
    try:
        yield connection
    finally:
        await connection.close()


async def looked_at(connection: Any, **more: Any) -> Verified:
    return await verify(connection, **{"keys": [KEY.public_key()], **more})


def kinds(found: Verified) -> set[str]:
    return {one.kind.value for one in found.findings}


async def test_a_record_that_nobody_touched_holds(record: Any) -> None:
    found = await looked_at(record, exported=await seals(record))
    assert found.holds, found.findings
    assert (found.events, found.gateways, found.seals, found.before_chain) == (16, 2, 2, 0)


async def event(connection: Any, position: int) -> Any:
    """The event at a position of the first gateway's chain."""
    return await connection.fetchrow(
        "SELECT * FROM sluice.audit_event WHERE gateway LIKE 'gate0%' AND chain_position = $1", position
    )


async def change(connection: Any, position: int, assignment: str) -> None:
    found = await event(connection, position)
    await free(connection)
    await connection.execute(
        f"UPDATE sluice.audit_event SET {assignment} WHERE event_id = $1", found["event_id"]
    )


async def free(connection: Any) -> None:
    """Take the guard away, as an owner of the tables can."""
    for table in ("audit_event", "audit_seal"):
        await connection.execute(f"DROP TRIGGER IF EXISTS append_only ON sluice.{table}")


COLUMNS = {
    "user": "user_name = 'alice'",
    "verdict": "verdict = 'refused'",
    "time": "time = time + interval '1 day'",
    "text": "statement = 'SELECT 1'",
    "text gone": "statement = NULL",
    "body": "body = jsonb_set(body, '{reqUser}', '\"alice\"')",
    "key of the body gone": "body = body - 'scans'",
    "key of the body more": "body = body || '{\"more\": 1}'",
    "link": "link = sha256('x')",
    "no link": "link = NULL",
    "said to be erased": 'statement = NULL, erased = \'{"statement": "00"}\'',
    "resources": "resources = '{}'",
}


@pytest.mark.parametrize("what", COLUMNS)
async def test_a_changed_event_is_named(record: Any, what: str) -> None:
    changed = await event(record, 3)
    day = changed["time"].astimezone(UTC).date() + timedelta(days=1)
    await record.execute(
        f"CREATE TABLE IF NOT EXISTS sluice.audit_event_{day:%Y%m%d} PARTITION OF sluice.audit_event"
        f" FOR VALUES FROM ('{day} 00:00:00+00') TO ('{day + timedelta(days=1)} 00:00:00+00')"
    )
    await change(record, 3, COLUMNS[what])
    found = await looked_at(record)
    assert str(changed["event_id"]) in {one.event_id for one in found.findings}
    assert kinds(found) == {"changed"} | ({"erased"} if "erased" in what else set())


async def test_nothing_but_texts_is_ever_erased(record: Any) -> None:
    """A digest stands for what was erased. Whoever has the database can make that of any value."""
    event_ = await event(record, 3)
    await erase(record, "bob", until=datetime.now(UTC), by="root", reason="asked for", key=KEY)
    assert (await looked_at(record)).holds
    body = orjson.loads(event_["body"])
    for key, gone in (("verdict", "verdict = NULL"), ("body.scans", "body = body - 'scans'")):
        value = body["scans"] if key == "body.scans" else event_[key]
        more = orjson.dumps({key: digest_of(value)}).decode()
        await change(record, 3, f"{gone}, erased = erased || '{more}'")
        assert [(one.kind, one.first) for one in (await looked_at(record)).findings] == [(Kind.CHANGED, 3)]


@pytest.mark.parametrize("more", ['{"statement": "00"}', '{"more": "00"}', '{"error": 7}'])
async def test_what_is_said_to_be_erased_and_is_not_is_found(record: Any, more: str) -> None:
    await erase(record, "bob", until=datetime.now(UTC), by="root", reason="asked for", key=KEY)
    await change(record, 3, f"statement = 'SELECT 1', erased = erased || '{more}'")
    assert kinds(await looked_at(record)) == {"changed"}


async def test_texts_that_went_without_an_erasure_on_record_are_missed(record: Any) -> None:
    await erase(record, "bob", until=datetime.now(UTC), by="root", reason="asked for", key=KEY)
    count = await record.fetchval("SELECT count(*) FROM sluice.audit_event WHERE erased IS NOT NULL")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await record.execute("DELETE FROM sluice.audit_erasure")
    await record.execute("DROP TRIGGER append_only ON sluice.audit_erasure")
    await record.execute("UPDATE sluice.audit_erasure SET user_name = 'alice'")
    found = await looked_at(record)
    assert kinds(found) == {"erased"}
    assert len(found.findings) == count > 0
    assert all(one.event_id for one in found.findings)
    await record.execute("UPDATE sluice.audit_erasure SET user_name = 'bob', until = '2020-01-01'")
    assert kinds(await looked_at(record)) == {"erased"}
    await record.execute("DELETE FROM sluice.audit_erasure")
    assert len((await looked_at(record)).findings) == count


async def test_an_erasure_that_nobody_signed_is_none(record: Any) -> None:
    """Whoever has the database can erase as we do; not sign it. Repeated by somebody who may, it counts."""
    now = datetime.now(UTC)
    count = await erase(record, "bob", until=now, by="eve", reason="mine", key=None)
    other = Ed25519PrivateKey.generate()
    await erase(record, "bob", until=now, by="eve", reason="mine", key=other)
    found = await looked_at(record)
    assert kinds(found) == {"erased"}
    assert len(found.findings) == count > 0
    assert (await verify(record)).holds, "without a key nobody can tell"
    assert await erase(record, "bob", until=now, by="root", reason="asked for", key=KEY) == 0
    assert (await looked_at(record)).holds


async def test_what_an_older_key_has_signed_holds_by_that_key(record: Any) -> None:
    await erase(record, "bob", until=datetime.now(UTC), by="root", reason="asked for", key=KEY)
    newer = Ed25519PrivateKey.generate()
    await make_seal(record, newer)
    assert kinds(await looked_at(record, keys=[newer.public_key()])) == {"seal", "erased"}
    found = await looked_at(record, keys=[newer.public_key(), KEY.public_key()])
    assert found.holds, found.findings


@pytest.mark.parametrize("until", ["infinity", "-infinity", "20000-01-01", "0001-01-01"])
async def test_an_erasure_of_no_time_stops_nobody(record: Any, until: str) -> None:
    now = datetime.now(UTC)
    assert await erase(record, "bob", until=now, by="root", reason="asked for", key=KEY) > 0
    await record.execute(
        "INSERT INTO sluice.audit_erasure (by_user, user_name, until, reason, events)"
        f" VALUES ('eve', 'bob', '{until}', 'mine', 0)"
    )
    assert (await looked_at(record)).holds
    assert (await verify(record)).holds


async def test_a_signature_covers_what_was_there_and_no_more(record: Any) -> None:
    """Whoever asks for the texts of years to come gives away those that were there."""
    await erase(record, "ann", until=datetime(2099, 1, 1, tzinfo=UTC), by="root", reason="x", key=KEY)
    found = Erasures(await read_erasures(record, [KEY.public_key()]))
    assert found["ann"] < datetime.now(UTC) + timedelta(minutes=1)
    row = {"user_name": "ann", "time": DAY_TIME, "kind": "decided"}
    assert found.cover(row)
    assert not found.cover({**row, "kind": "unfit"})
    assert not found.cover({**row, "user_name": "Ann"})


async def test_the_newest_seal_is_missed_where_it_was_made(record: Any, tmp_path: Path) -> None:
    seal = await make_seal(record, KEY, DAY + timedelta(days=5))
    assert seal is not None
    keep_seal(tmp_path, seal)
    kept = read_local_seals(tmp_path)
    assert kept == [seal.text()]
    assert (await looked_at(record, exported=kept)).holds
    await free(record)
    await record.execute("DELETE FROM sluice.audit_seal WHERE number = $1", seal.number)
    assert (await looked_at(record)).holds
    assert kinds(await looked_at(record, exported=kept)) == {"seal"}
    with (tmp_path / KEPT).open("a") as file:
        file.write('{"cut')
    assert read_local_seals(tmp_path) == kept
    keep_seal(tmp_path, seal)
    assert read_local_seals(tmp_path) == kept * 2, "a line that was cut stays by itself"
    (tmp_path / "closed" / KEPT).mkdir(parents=True)
    assert read_local_seals(tmp_path / "closed") == []
    assert read_local_seals(tmp_path / "nowhere") == []


async def test_a_key_of_the_body_stands_for_no_other(record: Any) -> None:
    """A key with a line break, that is written as two values were, would have their digest."""
    body = orjson.loads((await event(record, 1))["body"])
    first, second = sorted(body)[:2]
    forged = {key: value for key, value in body.items() if key not in (first, second)}
    forged[f"{first} {digest_of(body[first])}\nbody.{second}"] = body[second]
    await change(record, 1, f"body = $body${orjson.dumps(forged).decode()}$body$")
    assert [(one.kind, one.first) for one in (await looked_at(record)).findings] == [(Kind.CHANGED, 1)]


async def test_the_number_of_events_before_the_chain_hides_none(record: Any) -> None:
    await record.execute("UPDATE sluice.audit_before_chain SET events = 1")
    assert kinds(await looked_at(record)) == {"missing"}
    await record.execute(
        "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, body)"
        " SELECT gen_random_uuid(), time, kind, gateway, 'alice', body FROM sluice.audit_event LIMIT 1"
    )
    assert kinds(await looked_at(record)) == {"added"}


async def test_no_event_becomes_older_than_the_chain_than_seals_say(record: Any) -> None:
    """The number of those stands in a table that whoever adds one changes as well, and so do their times."""
    await record.execute("UPDATE sluice.audit_before_chain SET events = 1, began = '2100-01-01'")
    await record.execute(
        "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, body, stored_at)"
        " SELECT gen_random_uuid(), time, kind, gateway, 'alice', body, '2020-01-01'"
        " FROM sluice.audit_event LIMIT 1"
    )
    found = await looked_at(record)
    assert kinds(found) == {"added"}
    assert len(found.findings) == 1
    await free(record)
    await record.execute("DELETE FROM sluice.audit_event WHERE stored_at < '2021-01-01'")
    assert kinds(await looked_at(record)) == {"missing"}


async def test_seals_of_versions_that_did_not_count_what_is_older_hold(record: Any) -> None:
    """One before, and one behind, whose maker has not read all of the seal before it."""
    first, last = [read_seal(text) for text in await seals(record)]
    uncounted = dataclasses.replace(first, before_chain=None).sign(KEY)
    counted = dataclasses.replace(last, previous=uncounted.digest()).sign(KEY)
    behind = dataclasses.replace(
        uncounted,
        number=3,
        previous=dataclasses.replace(counted, before_chain=None).digest(),
        heads=last.heads,
        root=last.root,
    ).sign(KEY)
    await free(record)
    await record.execute("DELETE FROM sluice.audit_seal")
    for seal in (uncounted, counted, behind):
        await record.execute(
            "INSERT INTO sluice.audit_seal VALUES ($1, $2, $3)",
            *(seal.number, datetime.fromisoformat(seal.made_at), seal.text()),
        )
    found = await looked_at(record, exported=await seals(record))
    assert found.holds, found.findings


async def say_dropped(record: Any, unchained: int) -> None:
    """Have the database say that the one event of a day is in the archive alone, and how many in no chain."""
    await record.execute(
        "INSERT INTO sluice.archive_day (day, version, events, unchained, links, digests, erasure,"
        " bytes, verified_at, dropped_events, dropped_unchained)"
        " SELECT '2020-01-01', 1, 1, greatest(0, $1::bigint), '0', '0', 0, 0, now(), 1, $1",
        unchained,
    )


@pytest.mark.parametrize("unchained", [-1, 1, 2])
async def test_no_day_of_the_archive_has_fewer_or_more_events_out_of_chains(
    record: Any, unchained: int
) -> None:
    await say_dropped(record, unchained)
    assert kinds(await looked_at(record)) >= {"added"}


async def test_no_day_of_the_archive_has_what_is_missing_from_before_the_chain(record: Any) -> None:
    """A day with such events stays in PostgreSQL: whoever says that it went from there has taken them."""
    await record.execute("UPDATE sluice.audit_before_chain SET events = 1")
    await say_dropped(record, 1)
    assert kinds(await looked_at(record)) == {"added", "missing"}


async def remove(connection: Any, positions: Sequence[int]) -> None:
    await free(connection)
    await connection.execute(
        "DELETE FROM sluice.audit_event WHERE gateway LIKE 'gate0%' AND chain_position = ANY($1::bigint[])",
        positions,
    )


async def test_removed_events_are_missed_where_they_were(record: Any) -> None:
    await remove(record, [1, 4, 5])
    found = await looked_at(record)
    assert [(one.kind, one.first, one.last) for one in found.findings] == [
        (Kind.MISSING, 1, 1),
        (Kind.MISSING, 4, 5),
    ]


async def test_a_cut_tail_is_missed_though_the_head_was_put_back(record: Any) -> None:
    last = await event(record, 6)
    await remove(record, [7, 8])
    await record.execute(
        "UPDATE sluice.audit_chain SET chain_position = 6, link = $1 WHERE gateway LIKE 'gate0%'",
        last["link"],
    )
    found = await looked_at(record)
    assert [(one.kind, one.first, one.last) for one in found.findings] == [(Kind.TRUNCATED, 7, 8)]


async def test_without_seals_the_spool_knows_of_a_cut_tail(record: Any, tmp_path: Path) -> None:
    last = await event(record, 6)
    await remove(record, [7, 8])
    await record.execute("DELETE FROM sluice.audit_seal")
    await record.execute(
        "UPDATE sluice.audit_chain SET chain_position = 6, link = $1 WHERE gateway LIKE 'gate0%'",
        last["link"],
    )
    assert (await looked_at(record)).holds
    found = await looked_at(record, reached=read_checkpoint(tmp_path / "0").chains)
    assert kinds(found) == {"truncated"}


@pytest.mark.parametrize("with_links", [False, True])
@pytest.mark.parametrize(("first", "last"), [(2, 6), (2, 4), (4, 5)])
async def test_a_swapped_pair_is_found_as_one(record: Any, first: int, last: int, with_links: bool) -> None:
    one, other = await event(record, first), await event(record, last)
    await free(record)
    for here, there in ((one, other), (other, one)):
        await record.execute(
            "UPDATE sluice.audit_event SET chain_position = -$2::bigint, link = $3 WHERE event_id = $1",
            here["event_id"],
            there["chain_position"],
            (here if with_links else there)["link"],
        )
    await record.execute(
        "UPDATE sluice.audit_event SET chain_position = -chain_position WHERE chain_position < 0"
    )
    found = await looked_at(record)
    assert [(one.kind, one.first, one.last) for one in found.findings] == [(Kind.SWAPPED, first, last)]


async def test_an_event_that_was_added_is_found(record: Any) -> None:
    # Of two in one place, of one time, the lower id is taken for the event: here never the added one's.
    for position in ("NULL", "4", "99"):
        await record.execute(
            "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, body,"
            " chain_position, link)"
            " SELECT overlay(gen_random_uuid()::text PLACING 'f' FROM 1)::uuid,"
            f" time, 'decided', gateway, 'alice', '{{}}', {position}, link"
            " FROM sluice.audit_event WHERE gateway LIKE 'gate0%' AND chain_position = 4 LIMIT 1"
        )
        assert not (await looked_at(record)).holds
    assert kinds(await looked_at(record)) == {"added", "repeated", "missing", "head"}


@pytest.mark.parametrize("change", ["chain_position = 0", "chain_position = -7", "gateway = 'nobody'"])
async def test_an_event_in_a_place_that_no_chain_has_is_found(record: Any, change: str) -> None:
    await record.execute(
        "INSERT INTO sluice.audit_event"
        " (event_id, time, kind, gateway, user_name, body, chain_position, link)"
        " SELECT gen_random_uuid(), time, kind, gateway, user_name, body, 4, link"
        " FROM sluice.audit_event WHERE gateway LIKE 'gate0%' AND chain_position = 4"
    )
    await free(record)
    await record.execute(
        f"UPDATE sluice.audit_event SET {change} WHERE ctid = (SELECT max(ctid) FROM sluice.audit_event)"
    )
    assert not (await looked_at(record)).holds


@pytest.mark.parametrize("body", ["7", "null", "[]", '"x"', '{"a":' + "[" * 300 + "]" * 300 + "}"])
async def test_what_is_no_record_at_all_is_a_changed_event(record: Any, body: str) -> None:
    await change(record, 3, f"body = '{body}', erased = '7'")
    assert kinds(await looked_at(record)) == {"changed", "erased"}


BEYOND = "CREATE TABLE sluice.beyond PARTITION OF sluice.audit_event FOR VALUES FROM {}; "
NULLABLE = "ALTER TABLE sluice.audit_event DROP CONSTRAINT audit_event_pkey; " + "".join(
    f"ALTER TABLE sluice.audit_event ALTER {name} DROP NOT NULL; "
    for name in ("event_id", "time", "kind", "gateway", "user_name", "body", "stored_at")
)
UNWRITTEN = {
    "a time of nobody's": (
        BEYOND.format("('19000-01-01') TO ('21000-01-01')")
        + "UPDATE sluice.audit_event SET time = '20000-01-01' WHERE chain_position = 3",
        {"changed"},
    ),
    "a time before all": (
        BEYOND.format("(MINVALUE) TO ('0001-01-01')")
        + "UPDATE sluice.audit_event SET time = '0044-03-15 BC' WHERE chain_position = 3",
        {"changed"},
    ),
    "no time": (
        NULLABLE
        + "CREATE TABLE sluice.beyond PARTITION OF sluice.audit_event DEFAULT;"
        + "UPDATE sluice.audit_event SET time = NULL WHERE chain_position = 3",
        {"changed"},
    ),
    "no kind, user and body": (
        NULLABLE + "UPDATE sluice.audit_event SET kind = NULL, user_name = NULL, body = NULL, event_id = NULL"
        " WHERE chain_position = 3",
        {"changed"},
    ),
    "an event of nobody": (
        NULLABLE + "INSERT INTO sluice.audit_event (event_id, time, kind, user_name, body, chain_position)"
        " SELECT gen_random_uuid(), time, kind, user_name, body, 4 FROM sluice.audit_event LIMIT 1",
        {"added"},
    ),
    "an event out of chains that came at no time": (
        NULLABLE + "UPDATE sluice.audit_before_chain SET events = 1;"
        "INSERT INTO sluice.audit_event (event_id, time, kind, gateway, user_name, body, stored_at)"
        " SELECT gen_random_uuid(), time, kind, gateway, user_name, body, NULL"
        " FROM sluice.audit_event LIMIT 1",
        {"added"},
    ),
    "ends without links": (
        "ALTER TABLE sluice.audit_chain ALTER link DROP NOT NULL; UPDATE sluice.audit_chain SET link = NULL",
        {"head"},
    ),
    "ends without positions": (
        "ALTER TABLE sluice.audit_chain ALTER chain_position DROP NOT NULL;"
        "UPDATE sluice.audit_chain SET chain_position = NULL",
        {"head"},
    ),
    "ends of nobody": (
        "ALTER TABLE sluice.audit_chain DROP CONSTRAINT audit_chain_pkey;"
        "ALTER TABLE sluice.audit_chain ALTER gateway DROP NOT NULL;"
        "UPDATE sluice.audit_chain SET gateway = NULL",
        {"head"},
    ),
    "two ends of each": (
        "ALTER TABLE sluice.audit_chain DROP CONSTRAINT audit_chain_pkey;"
        "INSERT INTO sluice.audit_chain SELECT * FROM sluice.audit_chain",
        {"head"},
    ),
    "no number of events before the chain": ("DELETE FROM sluice.audit_before_chain", {"missing"}),
    "two numbers of them": ("INSERT INTO sluice.audit_before_chain VALUES (now(), 0)", {"missing"}),
    "a chain that began at no time": (
        "UPDATE sluice.audit_before_chain SET began = '20000-01-01'",
        {"missing"},
    ),
    "seals of no time": ("UPDATE sluice.audit_seal SET made_at = '20000-01-01'", {"seal"}),
    "seals before all": ("UPDATE sluice.audit_seal SET made_at = '-infinity'", {"seal"}),
    "seals without numbers": (
        "ALTER TABLE sluice.audit_seal DROP CONSTRAINT audit_seal_pkey;"
        "ALTER TABLE sluice.audit_seal ALTER number DROP NOT NULL, ALTER made_at DROP NOT NULL,"
        " ALTER content DROP NOT NULL;"
        "UPDATE sluice.audit_seal SET number = NULL WHERE number = 1;"
        "INSERT INTO sluice.audit_seal (number) VALUES (9)",
        {"seal"},
    ),
    "two seals of a number": (
        "ALTER TABLE sluice.audit_seal DROP CONSTRAINT audit_seal_pkey;"
        "INSERT INTO sluice.audit_seal SELECT number, made_at, '{}' FROM sluice.audit_seal;"
        "INSERT INTO sluice.audit_seal SELECT * FROM sluice.audit_seal WHERE content <> '{}'",
        {"seal"},
    ),
    "a seal of a position beyond all": (
        "UPDATE sluice.audit_seal SET content = replace(content, '\"position\":8', '\"position\":1e999')",
        {"seal"},
    ),
    "a seal with a name that is no text": (
        "UPDATE sluice.audit_seal SET content = replace(content, '\"gate0', '\"\\ud800')",
        {"seal"},
    ),
}


@pytest.mark.parametrize("what", UNWRITTEN)
async def test_what_no_gateway_can_have_written_is_told_and_stops_nobody(record: Any, what: str) -> None:
    """Whoever owns the tables can put into them what nobody expects there."""
    change, expected = UNWRITTEN[what]
    await free(record)
    await record.execute(change)
    assert kinds(await looked_at(record)) == expected


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            "ALTER TABLE sluice.audit_event ALTER rows TYPE numeric",
            "`rows` of `sluice.audit_event` is numeric",
        ),
        ("ALTER TABLE sluice.audit_seal ALTER made_at TYPE date", "`made_at` of `sluice.audit_seal` is date"),
        ("ALTER TABLE sluice.audit_erasure ALTER events TYPE numeric", "`events` of `sluice.audit_erasure`"),
        (
            "ALTER TABLE sluice.audit_event RENAME TO there;"
            "CREATE VIEW sluice.audit_event AS SELECT * FROM sluice.there",
            "`sluice.audit_event` is not a table",
        ),
        ("DROP TABLE sluice.audit_erasure", "no gateway of this version"),
    ],
)
async def test_tables_that_no_gateway_has_made_are_no_record(
    record: Any, database: str, change: str, why: str
) -> None:
    """A view can show one thing to who verifies, and another to others."""
    await record.execute("DROP VIEW sluice.audit_statement")
    await erase(record, "ann", until=datetime.now(UTC), by="root", reason="asked for", key=KEY)
    await record.execute(change)
    connection = await asyncpg.connect(database)
    try:
        with pytest.raises(LedgerUnavailable, match=why):
            await looked_at(connection)
    finally:
        await connection.close()


async def test_a_partition_that_lies_elsewhere_is_no_record(record: Any) -> None:
    await record.execute(
        "ALTER TABLE sluice.audit_event DROP CONSTRAINT audit_event_pkey;"
        "CREATE FOREIGN DATA WRAPPER elsewhere; CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere;"
        "CREATE FOREIGN TABLE sluice.audit_event_old PARTITION OF sluice.audit_event"
        " FOR VALUES FROM ('2020-01-01') TO ('2020-01-02') SERVER elsewhere"
    )
    with pytest.raises(LedgerUnavailable, match=r"`sluice\.audit_event_old` is not a table"):
        await looked_at(record)


@pytest.fixture
async def limited(record: Any, database: str) -> AsyncIterator[str]:
    """The DSN of a role from which policies of row level security hide a gateway and its seals."""
    name = f"limited_{uuid.uuid4().hex}"
    hidden = {
        "audit_event": "gateway NOT LIKE 'gate1%'",
        "audit_chain": "gateway NOT LIKE 'gate1%'",
        "audit_seal": "number < 2",
    }
    await record.execute(
        f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA sluice TO {name};"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA sluice TO {name};"
        + "".join(
            f"ALTER TABLE sluice.{table} ENABLE ROW LEVEL SECURITY;"
            f"CREATE POLICY a_part ON sluice.{table} TO {name} USING ({rows});"
            for table, rows in hidden.items()
        )
    )
    yield database.replace("://sluice@", f"://{name}@")
    await record.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_who_may_see_a_part_of_the_record_verifies_none(limited: str) -> None:
    """What such a one sees fits together."""
    connection = await asyncpg.connect(limited)
    try:
        assert (await looked_at(connection)).holds
    finally:
        await connection.close()
    with pytest.raises(LedgerUnavailable, match="would be affected by row-level security"):
        async with connected(limited, "sluice-verify", whole=True) as connection:
            await looked_at(connection)


async def test_operators_of_others_hide_nothing(record: Any, database: str) -> None:
    """Whoever owns the database may have every connection to it find them first."""
    await record.execute(
        "CREATE SCHEMA evil;"
        "CREATE FUNCTION evil.never(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';"
        "CREATE OPERATOR evil.> (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.never);"
        "DELETE FROM sluice.audit_chain WHERE gateway LIKE 'gate1%';"
    )
    name = await record.fetchval("SELECT current_database()")
    await record.execute(f"ALTER DATABASE {name} SET search_path = evil, pg_catalog")
    connection = await asyncpg.connect(database)
    try:
        await free(connection)
        await connection.execute("DELETE FROM sluice.audit_seal")
        assert (await looked_at(connection)).gateways == 1
    finally:
        await connection.close()
    async with connected(database, "sluice-verify", whole=True) as connection:
        assert (await looked_at(connection)).gateways == 2


async def test_days_that_no_calendar_has_stop_nobody(record: Any) -> None:
    await record.execute(
        "INSERT INTO sluice.archive_day (day, version, events, unchained, links, digests, erasure,"
        " bytes, verified_at, dropped_events) SELECT unnest('{20000-01-01, infinity}'::date[]), 1, 1, 0, '0',"
        " '0', 0, 0, now(), 1"
    )
    await record.execute(
        "ALTER TABLE sluice.archive_chain DROP CONSTRAINT archive_chain_pkey;"
        "ALTER TABLE sluice.archive_chain ALTER gateway DROP NOT NULL, ALTER first DROP NOT NULL;"
        "INSERT INTO sluice.archive_chain SELECT day, 'x', 1, 2 FROM sluice.archive_day;"
        "INSERT INTO sluice.archive_chain SELECT day, NULL, NULL, 2 FROM sluice.archive_day"
    )
    assert (await looked_at(record, archive=Archive(Path("/nowhere")))).holds is False


@pytest.mark.parametrize(
    "change", ["link = 'short'", "chain_position = -1", "gateway = gateway || 'x', link = ''"]
)
async def test_no_seal_is_made_of_what_is_no_end_of_a_chain(record: Any, change: str) -> None:
    """Nobody could read such a seal, and none could follow it."""
    await record.execute(f"UPDATE sluice.audit_chain SET {change} WHERE gateway LIKE 'gate0%'")
    with pytest.raises(NotASeal, match="no chain head of `gate0"):
        await make_seal(record, KEY, DAY + timedelta(days=5))
    assert len(await seals(record)) == 2


async def make_anew(connection: Any, gateway: str) -> None:
    """Make a gateway's chain anew over what is there: whoever has the database can do that."""
    from gateway.audit.chain import start

    head = start(gateway)
    for row in await connection.fetch(
        "SELECT * FROM sluice.audit_event WHERE gateway = $1 ORDER BY chain_position", gateway
    ):
        head = head.next(event_digest(row))
        await connection.execute(
            "UPDATE sluice.audit_event SET chain_position = $2, link = $3 WHERE event_id = $1",
            row["event_id"],
            head.position,
            head.link,
        )
    await connection.execute(
        "UPDATE sluice.audit_chain SET chain_position = $2, link = $3 WHERE gateway = $1",
        gateway,
        head.position,
        head.link,
    )


async def test_a_forged_day_is_not_what_was_sealed(record: Any) -> None:
    forged = await event(record, 3)
    await change(record, 3, "user_name = 'alice'")
    await make_anew(record, forged["gateway"])
    found = await looked_at(record)
    assert kinds(found) == {"forged"}
    assert f"seal 1 of {DAY}" in found.findings[0].where
    # Without the day's seals only who kept them elsewhere can tell.
    kept = await seals(record)
    await record.execute("DELETE FROM sluice.audit_seal")
    assert (await looked_at(record)).holds
    assert kinds(await looked_at(record, exported=kept)) == {"seal", "forged"}


async def sealed_anew(connection: Any, key: Ed25519PrivateKey) -> None:
    texts = [read_seal(text) for text in await seals(connection)]
    await connection.execute("DELETE FROM sluice.audit_seal")
    before = ""
    for seal in texts:
        rows = await connection.fetch("SELECT gateway, chain_position, link FROM sluice.audit_event")
        links = {(row["gateway"], row["chain_position"]): row["link"] for row in rows}
        heads = {name: Head(head.position, links[name, head.position]) for name, head in seal.heads.items()}
        made = dataclasses.replace(
            seal, previous=before, heads=heads, root=merkle_root(heads), signature=""
        ).sign(key)
        before = made.digest()
        await connection.execute(
            "INSERT INTO sluice.audit_seal VALUES ($1, $2, $3)",
            made.number,
            datetime.fromisoformat(made.made_at),
            made.text(),
        )


async def test_a_replaced_root_is_signed_by_nobody(record: Any) -> None:
    kept = await seals(record)
    forged = await event(record, 3)
    await change(record, 3, "user_name = 'alice'")
    await make_anew(record, forged["gateway"])
    await sealed_anew(record, Ed25519PrivateKey.generate())
    assert kinds(await looked_at(record)) == {"seal"}
    # Without the key it all fits, and an export still tells.
    assert (await verify(record)).holds
    assert kinds(await verify(record, exported=kept)) == {"seal", "forged"}


@pytest.mark.parametrize(
    "change",
    [
        "made_at = made_at - interval '1 day'",
        "content = content || ' '",
        "content = replace(content, '{', '{\"more\": 1, ')",
        "number = -number",
        "number = 1000000000000000000",
    ],
)
async def test_no_row_of_a_seal_can_be_changed(record: Any, change: str) -> None:
    await free(record)
    await record.execute(f"UPDATE sluice.audit_seal SET {change} WHERE number = 1")
    assert kinds(await looked_at(record)) == {"seal"}


@pytest.mark.parametrize("number", [1, 2])
async def test_a_seal_that_is_gone_is_missed(record: Any, number: int) -> None:
    kept = await seals(record)
    await free(record)
    await record.execute("DELETE FROM sluice.audit_seal WHERE number = $1", number)
    assert kinds(await looked_at(record, exported=kept)) == {"seal"}


@pytest.mark.parametrize(
    "field",
    ["day", "made_at", "previous", "heads", "root", "key", "signature", "number", "before_chain"],
)
async def test_no_field_of_a_seal_can_be_changed(record: Any, field: str) -> None:
    seal = read_seal((await seals(record))[0])
    changed: dict[str, Any] = {
        "day": seal.day - timedelta(days=1),
        "made_at": "2020-01-01T00:00:00+00:00",
        "previous": "00",
        "heads": {name: Head(head.position - 1, head.link) for name, head in seal.heads.items()},
        "root": "00" * 32,
        "key": "00" * 32,
        "signature": "00" * 64,
        "number": 7,
        "before_chain": 1,
    }
    await free(record)
    await record.execute(
        "UPDATE sluice.audit_seal SET content = $1 WHERE number = 1",
        dataclasses.replace(seal, **{field: changed[field]}).text(),
    )
    assert "seal" in kinds(await looked_at(record))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"number": 1}', "{" * 5000, "\0"])
async def test_what_is_no_seal_is_told(record: Any, text: str) -> None:
    with pytest.raises(Faults, match="line 1 of the exported seals"):
        await looked_at(record, exported=[text])


async def test_a_stretch_of_time_is_verified_by_itself(record: Any) -> None:
    third, fourth = await event(record, 3), await event(record, 5)
    since, until = third["time"], fourth["time"]
    await change(record, 1, "user_name = 'alice'")
    assert (await looked_at(record, since=since, until=until)).holds
    await change(record, 4, "user_name = 'alice'")
    assert kinds(await looked_at(record, since=since, until=until)) == {"changed"}


async def test_a_stretch_that_was_made_anew_is_not_what_was_sealed_behind_it(record: Any) -> None:
    """A day is sealed when the next one has begun: the seal's place is not of the day."""
    third, fifth = await event(record, 3), await event(record, 5)
    await change(record, 3, "user_name = 'alice'")
    await make_anew(record, third["gateway"])
    assert kinds(await looked_at(record, since=third["time"], until=fifth["time"])) == {"forged"}


async def test_a_stretch_that_nobody_has_sealed_is_held_to_the_end_of_the_chain(record: Any) -> None:
    """With a link that was made anew for the event behind it as well."""
    await free(record)
    await record.execute("DELETE FROM sluice.audit_seal")
    third, fourth, fifth = [await event(record, position) for position in (3, 4, 5)]
    await change(record, 4, "user_name = 'alice'")
    head = Head(3, bytes(third["link"]))
    for position in (4, 5):
        head = head.next(event_digest(await event(record, position)))
        await record.execute(
            "UPDATE sluice.audit_event SET link = $2 WHERE event_id = $1",
            (fourth, fifth)[position - 4]["event_id"],
            head.link,
        )
    found = await looked_at(record, since=fourth["time"], until=fifth["time"], keys=())
    assert [(one.kind, one.first) for one in found.findings] == [(Kind.CHANGED, 6)]


async def test_events_that_were_given_a_time_before_the_stretch_are_changed(record: Any) -> None:
    third, fifth = await event(record, 3), await event(record, 5)
    day = third["time"].astimezone(UTC).date() - timedelta(days=1)
    await make_partitions(record, {day})
    for position in (3, 4):
        await change(record, position, "time = time - interval '1 day'")
    found = await looked_at(record, since=third["time"], until=fifth["time"])
    assert [(one.kind, one.first) for one in found.findings] == [(Kind.CHANGED, 4)]


async def test_a_gateway_that_was_silent_since_is_no_alarm_and_one_that_was_silenced_is(record: Any) -> None:
    last = await event(record, 8)
    since = last["time"] + timedelta(microseconds=1)
    found = await looked_at(record, since=since)
    assert found.holds, found.findings
    assert found.events < 16
    await remove(record, [7, 8])
    assert (Kind.TRUNCATED, 7, 8) in {
        (one.kind, one.first, one.last) for one in (await looked_at(record, since=since)).findings
    }


async def test_what_is_missing_at_the_edge_of_a_stretch_of_time_is_missed(record: Any) -> None:
    """What was removed has no time any more: it is missed before the next event, and at the end."""
    times = {position: (await event(record, position))["time"] for position in (3, 5, 7)}
    gateway = (await event(record, 1))["gateway"]

    async def missed(since: int | None, until: int | None) -> list[tuple[Kind, int, int]]:
        found = await looked_at(
            record,
            since=times[since] if since is not None else None,
            until=times[until] if until is not None else times[7] + timedelta(hours=1),
        )
        return [(one.kind, one.first, one.last) for one in found.findings if one.gateway == gateway]

    assert await missed(3, 5) == await missed(3, None) == await missed(None, 3) == []
    await remove(record, [3, 4])
    # Nothing is left of the time, and it begins at once before the gap.
    assert await missed(3, 5) == await missed(5, 7) == await missed(None, 5) == [(Kind.MISSING, 3, 4)]
    await remove(record, [7, 8])
    assert await missed(7, None) == [(Kind.TRUNCATED, 7, 8)]
    assert await missed(5, 7) == await missed(5, None) == [(Kind.MISSING, 3, 4), (Kind.TRUNCATED, 7, 8)]
    await record.execute("DELETE FROM sluice.audit_event WHERE gateway = $1", gateway)
    assert await missed(3, 5) == [(Kind.TRUNCATED, 1, 8)]


async def test_a_stretch_of_time_ends_where_it_is_said_to_end(record: Any) -> None:
    """Whoever says that more of the chain is in the archive has not hidden that its end is gone."""
    gateway, last = (await event(record, 1))["gateway"], (await event(record, 6))["time"]
    await remove(record, [7, 8])
    await record.execute(
        "INSERT INTO sluice.archive_day (day, version, events, unchained, links, digests, erasure,"
        " bytes, verified_at, dropped_events)"
        " SELECT '2100-01-01', 1, 1, 0, '0', '0', 0, 0, now(), 1"
    )
    await record.execute("INSERT INTO sluice.archive_chain VALUES ('2100-01-01', $1, 9, 10)", gateway)
    found = await looked_at(record, until=last + timedelta(minutes=1))
    told = [(one.kind, one.first, one.last) for one in found.findings if one.gateway == gateway]
    assert told == [(Kind.TRUNCATED, 7, 10)]


async def test_a_clock_that_went_back_is_no_alarm(record: Any) -> None:
    """The end of a chain need not be the latest event."""
    await free(record)
    at = (await event(record, 4))["time"]
    await record.execute("DELETE FROM sluice.audit_seal")
    for position in (5, 6, 7, 8):
        time = at - timedelta(minutes=position)
        await record.execute(
            "UPDATE sluice.audit_event SET time = $1 WHERE gateway LIKE 'gate0%' AND chain_position = $2",
            *(time, position),
        )
    await make_anew(record, (await event(record, 1))["gateway"])
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    for since, until in (
        (at, None),
        (None, at - 6 * minute),
        (at - 6 * minute, at - minute),
        (at - minute / 2, at - minute / 4),
        (at - hour, at + hour),
    ):
        found = await looked_at(record, since=since, until=until)
        assert found.holds, (since, until, found.findings)


async def test_what_no_seal_has_is_counted_and_told_when_it_is_there_for_long(record: Any) -> None:
    found = await looked_at(record)
    assert (found.unsealed, found.last_seal) == (0, read_seal((await seals(record))[-1]).made_at)
    await free(record)
    await record.execute("DELETE FROM sluice.audit_seal WHERE number = 2")
    # That seal had the second gateway, and was made behind its events.
    await record.execute("UPDATE sluice.audit_event SET stored_at = now() WHERE gateway LIKE 'gate1%'")
    found = await looked_at(record)
    assert (found.holds, found.unsealed) == (True, 8)
    await record.execute("DELETE FROM sluice.audit_seal")
    found = await looked_at(record)
    assert (found.holds, found.unsealed, found.last_seal) == (True, 16, "")
    await record.execute("UPDATE sluice.audit_event SET stored_at = now() - interval '49 hours'")
    assert (await verify(record)).holds, "without a key nobody says that there are to be seals"
    told = [(one.kind, one.first, one.last) for one in (await looked_at(record)).findings]
    assert told == [(Kind.UNSEALED, 1, 8)] * 2


async def test_a_person_s_texts_go_and_the_record_holds(record: Any) -> None:
    before = await record.fetch("SELECT kind, verdict, resources FROM sluice.audit_event ORDER BY event_id")
    now = datetime.now(UTC)
    assert await erase(record, "bob", until=now, by="root", reason="asked for", key=KEY) == 8
    assert await erase(record, "bob", until=now, by="root", reason="asked for", key=KEY) == 0
    found = await looked_at(record)
    assert found.holds, found.findings
    after = await record.fetch("SELECT kind, verdict, resources FROM sluice.audit_event ORDER BY event_id")
    assert before == after
    rows = await record.fetch("SELECT to_jsonb(e)::text AS event FROM sluice.audit_event e")
    assert not [row for row in rows if "SELECT 3" in row["event"]]
    done = await record.fetch(
        "SELECT by_user, user_name, reason, events FROM sluice.audit_erasure ORDER BY id"
    )
    assert [tuple(row) for row in done] == [("root", "bob", "asked for", 8), ("root", "bob", "asked for", 0)]


async def test_nothing_else_is_ever_changed(record: Any) -> None:
    for order in ("UPDATE sluice.audit_event SET user_name = 'alice'", "DELETE FROM sluice.audit_event"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await record.execute(order)


async def test_a_gateway_notices_that_its_past_was_taken(record: Any, tmp_path: Path, database: str) -> None:
    await free(record)
    await record.execute("DELETE FROM sluice.audit_event")
    await record.execute("DELETE FROM sluice.audit_chain")
    async with running(tmp_path / "0", database, name="gate0") as ledger:
        lost = dataclasses.replace(cleared(), gateway=ledger.gateway)
        await ledger.record_decided(lost)
        await ledger.record(dataclasses.replace(completed(lost), gateway=ledger.gateway))
        await shipped(ledger)
        assert "0 events" in ledger.metrics().chain_error
        gateway = ledger.gateway
    found = await looked_at(record)
    mine = [(one.kind, one.first, one.last) for one in found.findings if one.gateway == gateway]
    assert mine[0] == (Kind.MISSING, 1, 8)


async def yesterday(connection: Any) -> date:
    day: date = await connection.fetchval("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date - 1")
    return day


async def test_one_seal_a_day_however_many_gateways(record: Any) -> None:
    """Whoever asks for one by hand gets one, and the day in which that was is sealed when it has ended."""
    ended = await yesterday(record)
    assert await make_seal(record, KEY, ended, once=True) is None
    today = await make_seal(record, KEY)
    assert today is not None
    assert (today.number, today.day) == (3, ended + timedelta(days=1))
    made = await make_seal(record, KEY, ended + timedelta(days=1), once=True)
    assert made is not None
    assert made.number == 4


@pytest.mark.parametrize(
    ("key", "made_at", "sealed"),
    [
        (KEY, "2020-01-01T00:00:00+00:00", False),
        (KEY, "2100-01-01T00:00:00+00:00", False),
        (Ed25519PrivateKey.generate(), None, False),
        (KEY, None, True),
    ],
)
async def test_no_seal_of_a_day_to_come_keeps_others_from_being_made(
    record: Any, key: Ed25519PrivateKey, made_at: str | None, sealed: bool
) -> None:
    """A gateway whose clock was a year ahead has made one, or somebody without the key."""
    await free(record)
    last = read_seal((await seals(record))[-1])
    await record.execute("DELETE FROM sluice.audit_seal")
    odd = dataclasses.replace(last, day=date(9999, 12, 31), made_at=made_at or last.made_at).sign(key)
    await record.execute(
        "INSERT INTO sluice.audit_seal VALUES ($1, $2, $3)",
        *(odd.number, datetime.fromisoformat(odd.made_at), odd.text()),
    )
    made = await make_seal(record, KEY, await yesterday(record), once=True)
    assert (made is None) is sealed


async def test_a_gateway_seals_the_day_that_has_ended(record: Any, database: str, tmp_path: Path) -> None:
    sealing = asyncio.ensure_future(keep_sealing(database, Ed25519PrivateKey.generate(), tmp_path))
    try:
        await in_time(lambda: read_local_seals(tmp_path))
    finally:
        sealing.cancel()
    (seal,) = [read_seal(text) for text in read_local_seals(tmp_path)]
    assert (seal.number, seal.day) == (3, day_to_seal(datetime.now(UTC))[0].date())


@pytest.mark.parametrize(
    ("now", "day", "rest"),
    [
        ("2026-11-23T00:04:59", "2026-11-21", timedelta(seconds=1)),
        ("2026-11-23T00:05:00", "2026-11-22", timedelta(days=1)),
        ("2026-11-23T12:00:00", "2026-11-22", timedelta(hours=12, minutes=5)),
    ],
)
def test_a_day_is_sealed_when_it_has_settled(now: str, day: str, rest: timedelta) -> None:
    found, wait = day_to_seal(datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert (found.date().isoformat(), wait) == (day, rest)


async def test_no_name_of_a_gateway_cuts_a_line_of_seals(record: Any, tmp_path: Path) -> None:
    name = "x\u2028y\u0085z\u200eä"
    await record.execute("INSERT INTO sluice.audit_chain VALUES ($1, 0, $2)", name, start(name).link)
    seal = await make_seal(record, KEY, DAY + timedelta(days=5))
    assert seal is not None
    assert name in seal.heads
    keep_seal(tmp_path, seal)
    assert read_local_seals(tmp_path) == [seal.text()]
    assert read_seal(seal.line()) == seal
    assert seal.line().isascii()
    with (tmp_path / KEPT).open("a") as file:
        file.write(f"{seal.text()}\n")  # as before
    assert read_local_seals(tmp_path) == [seal.text()] * 2
    assert (await looked_at(record, exported=[seal.line()])).holds


def test_a_seal_is_read_as_it_was_written() -> None:
    seal = Seal(
        number=3,
        day=DAY,
        made_at="2026-11-21T00:05:00.000000+00:00",
        previous="",
        heads={"ü": Head(1, bytes(32))},
        root=merkle_root({"ü": Head(1, bytes(32))}),
        key="",
        signature="",
    ).sign(KEY)
    assert read_seal(seal.text()) == seal
    assert seal.is_by(KEY.public_key())


async def test_numbers_are_bound_by_what_jsonb_gives_back(record: Any) -> None:
    """Beyond 2^53 a number without a fraction comes back as the digits that it was written with."""
    seed = random.Random(5)
    numbers = [-5.208148929445578e16, 1e16, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e19, 1.5e300, 5e-324]
    numbers += [seed.choice((-1, 1)) * seed.random() * 10.0 ** seed.randint(10, 25) for _ in range(2_000)]
    kept = await record.fetchval("SELECT $1::jsonb", orjson.dumps(numbers).decode())
    assert [canonical(one) for one in orjson.loads(kept)] == [canonical(one) for one in numbers]


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_the_canonical_form_is_that_of_what_json_gives_back(value: Any) -> None:
    import json

    assert canonical(json.loads(json.dumps(value))) == canonical(value)
