"""A record is found at once, in the spool or in PostgreSQL, by whatever an auditor knows of it."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from gateway.audit.backlog import find_spool
from gateway.audit.ledger import FileLedger
from gateway.audit.search import EventQuery, Found, find_event, search, tail
from gateway.errors import Faults, LedgerUnavailable
from gateway.model.audit import AuditEvent
from tests.audit.ledgers import running, settings, shipped
from tests.audit.samples import cleared, completed, login, refused
from tests.speed import patience

OLD = "2026-01-05T12:00:00.000000Z"


async def fill(ledger: FileLedger) -> dict[str, AuditEvent]:
    events = {
        "bob": cleared("SELECT Name FROM hr.employee"),
        "amy": cleared("SELECT 100%_ FROM hr.employee", user="amy"),
        "old": cleared("SELECT 1 FROM hr.employee", user="amy", time=OLD),
        "denied": refused(),
    }
    for name in ("bob", "amy", "old"):
        await ledger.record_decided(events[name])
    await ledger.record(completed(events["bob"]))
    await ledger.record(login("amy", accepted=False))
    # Waiting for the last makes the others durable too: they are written in order.
    await ledger.record_decided(events["denied"])
    return events


QUESTIONS: list[tuple[EventQuery, set[str]]] = [
    (EventQuery(user="bob"), {"bob", "denied"}),
    (EventQuery(user="amy", verdict="cleared"), {"amy", "old"}),
    (EventQuery(verdict="refused"), {"denied"}),
    (EventQuery(verdict="rejected"), {"login"}),
    (EventQuery(until=datetime(2026, 2, 1, tzinfo=UTC)), {"old"}),
    (EventQuery(since=datetime(2026, 2, 1, tzinfo=UTC), verdict="cleared"), {"bob", "amy"}),
    (EventQuery(table="hr.employee"), {"bob", "amy", "old"}),
    (EventQuery(table="EMPLOYEE.SSN"), {"bob", "amy", "old"}),
    (EventQuery(table="spark_catalog.hr.employee"), {"bob", "amy", "old"}),
    (EventQuery(table="ployee"), set()),
    (EventQuery(text="select name"), {"bob"}),
    (EventQuery(text="100%_"), {"amy"}),
    (EventQuery(text="1__%"), set()),
    (EventQuery(text="'; DROP TABLE sluice.audit_event; --"), set()),
]


def names(found: list[Found], events: dict[str, AuditEvent]) -> set[str]:
    known = {event.event_id: name for name, event in events.items()}
    return {known.get(each.event.event_id, each.event.kind) for each in found}


async def test_the_same_answers_from_the_spool_and_from_postgresql(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, None) as ledger:
        events = await fill(ledger)
        for question, expected in QUESTIONS:
            assert names(await search(None, question, spool=tmp_path), events) == expected, question
            assert names(await search(database, question, spool=tmp_path), events) == expected, question
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
    for question, expected in QUESTIONS:
        assert names(await search(database, question), events) == expected, question
        assert names(await search(database, question, spool=tmp_path), events) == expected, question


async def test_a_statement_comes_with_its_end(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        events = await fill(ledger)
        await shipped(ledger)
        await ledger.record(completed(events["amy"], "failed", error="no"))
        await ledger.record_decided(cleared())  # takes along to the disk what nobody waits for
        for name, outcome in (("bob", "finished"), ("amy", "failed"), ("old", None), ("denied", None)):
            statement_id = events[name].statement_id
            found = await search(database, EventQuery(statement_id=statement_id), spool=tmp_path)
            assert [each.event for each in found] == [events[name]]
            end = found[0].end
            assert (end.body["outcome"] if end is not None else None) == outcome


async def test_an_event_is_found_by_its_own_id_too_and_nonsense_is_told(
    tmp_path: Path, database: str
) -> None:
    async with running(tmp_path, database) as ledger:
        event = cleared()
        await ledger.record_decided(event)
        quoted = EventQuery(statement_id=event.event_id.upper())
        assert [found.event for found in await search(None, quoted, spool=tmp_path)] == [event]
        await shipped(ledger)
        assert [found.event for found in await search(database, quoted)] == [event]
    with pytest.raises(Faults, match="`42` is not a statement id"):
        await search(database, EventQuery(statement_id="42"))


async def test_the_newest_come_first_and_the_limit_holds(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        events = await fill(ledger)
        await shipped(ledger)
    found = await search(database, EventQuery(limit=2, verdict="cleared"))
    assert [each.event for each in found] == [events["amy"], events["bob"]]


async def test_a_database_without_tables_is_empty_and_one_that_is_away_is_told(
    tmp_path: Path, database: str
) -> None:
    assert await search(database, EventQuery()) == []
    assert [event async for event in tail(database)] == []
    with pytest.raises(LedgerUnavailable, match="does not answer"):
        await search("postgresql://nobody@/none?host=/nonexistent", EventQuery())


async def test_tail_shows_the_last_events_in_order(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, None) as ledger:
        events = await fill(ledger)
        shown = [event async for event in tail(None, spool=tmp_path)]
        assert [event.time for event in shown] == sorted(event.time for event in shown)
        assert shown[0] == events["old"]
    # What had no end when the first ledger closed is abandoned in the second.
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
        stored = [event async for event in tail(database)]
        assert [event for event in stored if event.kind != "abandoned"] == shown
        assert [event async for event in tail(database, count=2, spool=tmp_path)] == stored[-2:]


async def test_following_shows_each_event_once(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        stream = tail(database, spool=tmp_path, follow=True, poll_s=0.01)
        await ledger.record_decided(first := cleared())
        assert await anext(stream) == first
        second = cleared(time=OLD)
        await ledger.record_decided(second)
        assert await anext(stream) == second
        await shipped(ledger)
        await ledger.record(third := completed(first))
        assert await anext(stream) == third
        await stream.aclose()


async def test_following_sees_other_gateways_through_the_database(tmp_path: Path, database: str) -> None:
    async with running(tmp_path / "a", database), running(tmp_path / "b", database) as other:
        await other.record_decided(cleared())
        await shipped(other)
        stream = tail(database, spool=tmp_path / "a", follow=True, poll_s=0.01)
        await anext(stream)
        coming = asyncio.ensure_future(anext(stream))
        event = cleared(time=f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M:%S.%f}Z")
        await other.record_decided(event)
        assert await asyncio.wait_for(coming, patience()) == event
        await stream.aclose()


async def test_one_event_is_found_by_its_id_or_its_statements_in_spool_and_database(
    tmp_path: Path, database: str
) -> None:
    async with running(tmp_path, database) as ledger:
        events = await fill(ledger)
        await shipped(ledger)
    unshipped = FileLedger(settings(tmp_path / "other", None))
    await unshipped.start()
    late = refused()
    await unshipped.record_decided(late)
    connection = await asyncpg.connect(database)
    bob = events["bob"]
    found, others = await find_event(connection, uuid.UUID(bob.statement_id))
    assert found is not None
    assert (found.event.event_id, found.end is not None, len(others)) == (bob.event_id, True, 1)
    assert (await find_event(connection, uuid.UUID(late.event_id)))[0] is None
    spooled, _ = await find_event(connection, uuid.UUID(late.event_id), spool=tmp_path / "other")
    assert spooled is not None
    assert spooled.event == late
    assert await find_event(connection, uuid.uuid4()) == (None, [])
    # An id says a time that no date has.
    assert await find_event(connection, uuid.UUID("ffffffff-ffff-7fff-bfff-ffffffffffff")) == (None, [])
    await connection.close()
    await unshipped.close()


async def test_spools_of_all_workers_are_looked_through(tmp_path: Path) -> None:
    events: list[AuditEvent] = []
    for worker in (1, 2, 3):
        async with running(find_spool(tmp_path, worker), None, name=f"worker {worker}") as ledger:
            events.append(cleared(f"SELECT {worker} FROM hr.employee"))
            await ledger.record_decided(events[-1])
            await ledger.record(completed(events[-1]))
            await ledger.record_decided(cleared("SELECT 0 FROM hr.employee", user="amy"))
    found = await search(None, EventQuery(user="bob"), spool=tmp_path)
    assert {one.event.event_id for one in found} == {event.event_id for event in events}
    assert all(one.end is not None for one in found)
    assert len([event async for event in tail(None, spool=tmp_path)]) >= 9
