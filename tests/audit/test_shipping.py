"""PostgreSQL may die, be away, refuse a record or lose a partition: each event still arrives once."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from gateway.audit.backlog import Position
from gateway.audit.rows import event_of, row
from gateway.audit.segment import NO_STATEMENT, Entry, Mark
from gateway.audit.shipper import Shipper, ShipperLimits
from gateway.audit.spool import Spool
from gateway.audit.verify import verify
from gateway.database.policy_use import load_policy_use
from gateway.database.postgres import EmbeddedPostgres
from gateway.model.audit import AuditEvent
from tests.audit.ledgers import ask, kinds, running, shipped
from tests.audit.samples import cleared, completed, login, until

MAX_AHEAD = 20_000
"""Statements by which clients are ahead of what is shipped."""


def with_body(event: AuditEvent, **changes: Any) -> AuditEvent:
    return dataclasses.replace(event, body={**event.body, **changes})


async def stored(dsn: str) -> list[AuditEvent]:
    rows = await ask(dsn, "SELECT * FROM sluice.audit_event ORDER BY time")
    return [event_of(row) for row in rows]


async def test_shipping_twice_stores_once(tmp_path: Path, database: str) -> None:
    events = [cleared() for _ in range(5)]
    async with running(tmp_path, None) as ledger:
        for event in events:
            await ledger.record_decided(event)
            await ledger.record(completed(event))
    copies = {path: path.read_bytes() for path in files(tmp_path)}
    for _ in range(3):
        async with running(tmp_path, database) as ledger:
            await shipped(ledger)
        for path, data in copies.items():
            path.write_bytes(data)
        (tmp_path / "checkpoint.json").unlink()
    found = await kinds(database)
    assert found == {event.statement_id: ["completed", "decided"] for event in events}


async def test_a_checkpoint_that_cannot_be_read_costs_nothing_but_time(tmp_path: Path, database: str) -> None:
    event = cleared()
    async with running(tmp_path, None) as ledger:
        await ledger.record_decided(event)
        await ledger.record(completed(event))
    (tmp_path / "checkpoint.json").write_bytes(b'{"segment": "x')
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
    assert await kinds(database) == {event.statement_id: ["completed", "decided"]}


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.spool"))


async def test_nul_surrogates_and_a_megabyte_arrive(tmp_path: Path, database: str) -> None:
    texts = [
        "SELECT '\0' FROM hr.employee",
        "SELECT '\ud800\udfff'",
        "SELECT '" + "☃" * 400_000 + "'",
        "\\u0000 😀",
        "\0" * 50_000,
        "-- \x01\x1f\x7f\u2028\ufeff\uffff",
    ]
    events = [cleared(text, user=f"u{n}\0\udc00") for n, text in enumerate(texts)]
    async with running(tmp_path, database) as ledger:
        for event in events:
            await ledger.record_decided(event)
            await ledger.record(completed(event))
        await shipped(ledger)
        assert ledger.metrics().unfit_events == 0
    found = {event.event_id: event for event in await stored(database)}
    for event in events:
        assert found[event.event_id] == event
    rows = await ask(database, "SELECT statement FROM sluice.audit_event WHERE user_name = 'u0␀�'")
    assert sorted(row["statement"] or "" for row in rows) == ["", "SELECT '␀' FROM hr.employee"]


async def test_little_waits_for_more_until_the_end(tmp_path: Path, database: str) -> None:
    """One transaction for each event would cost more than the statement that it tells of."""
    events = [cleared() for _ in range(30)]
    async with running(tmp_path, database, shipper=ShipperLimits(linger_s=3600)) as ledger:
        await ledger.record(login())
        await shipped(ledger)
        for event in events:
            await ledger.record_decided(event)
            await ledger.record(completed(event))
        assert ledger.metrics().shipped_events == 1, "the first goes at once, the others gather"
    assert len(await stored(database)) == 1 + 2 * len(events), "closing waits for nothing"


async def test_batches_are_further_apart_while_statements_come(tmp_path: Path, database: str) -> None:
    """A batch costs nearly the same however small it is: who runs many statements pays for few."""
    limits = ShipperLimits(linger_s=0.01, busy_linger_s=3600, busy_entries=10)
    events = [cleared() for _ in range(40)]
    async with running(tmp_path, None) as ledger:
        for event in events[:20]:
            await ledger.record_decided(event)
    async with running(tmp_path, database, shipper=limits) as ledger:
        await until(lambda: ledger.metrics().shipped_events >= 20)
        before = ledger.metrics().shipped_events
        for event in events[20:]:
            await ledger.record_decided(event)
        assert ledger.metrics().shipped_events == before, "they gather"
        await ledger.wait_until_shipped()
        assert ledger.metrics().shipped_events >= before + 20, "unless somebody waits"


async def test_much_does_not_wait_for_more(tmp_path: Path, database: str) -> None:
    limits = ShipperLimits(linger_s=3600, linger_bytes=1, batch_entries=10)
    events = [cleared() for _ in range(50)]
    async with running(tmp_path, None) as ledger:
        await asyncio.gather(*(ledger.record_decided(event) for event in events))
        for event in events:
            await ledger.record(completed(event))
    async with running(tmp_path, database, shipper=limits) as ledger:
        await until(lambda: ledger.metrics().backlog_bytes == 0)
    assert len(await stored(database)) == 2 * len(events)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 2**70},
        {"rows": 2**63},
        {"rows": "many"},
        {"groups": [7]},
        {"readers_agree": "TOP SECRET"},
        {"plan_class": 7},
        {"duration_us": "long"},
    ],
)
async def test_a_record_that_postgresql_refuses_does_not_hold_up_the_line(
    tmp_path: Path, database: str, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    before, odd, after = cleared(), with_body(cleared(), **changes), cleared()
    async with running(tmp_path, None) as ledger:
        for event in (before, odd, after):
            await ledger.record_decided(event)
            await ledger.record(completed(event))
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
    found = await kinds(database)
    assert found == {e.statement_id: ["completed", "decided"] for e in (before, odd, after)}
    rows = await ask(database, "SELECT * FROM sluice.audit_event WHERE original_record IS NOT NULL")
    assert [row["body"].startswith('{"unfit"') for row in rows] == [True]
    assert event_of(rows[0]) == odd, "nothing is lost"
    assert "SECRET" not in "".join(capsys.readouterr()), "logs hold nothing of a record"


async def test_clocks_that_are_wrong_have_partitions_too(tmp_path: Path, database: str) -> None:
    times = [
        "1970-01-01T00:00:00.000000Z",
        "2024-02-29T23:59:59.999999Z",
        "2024-03-01T00:00:00.000000Z",
        "2199-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59.999999Z",
    ]
    events = [cleared(time=time) for time in times]
    async with running(tmp_path, database) as ledger:
        for event in events:
            await ledger.record_decided(event)
        await shipped(ledger)
        for event in events:
            await ledger.record(completed(event))
    assert {event.time for event in await stored(database)} >= set(times)
    assert len(await kinds(database)) == 5


async def test_the_last_use_of_policies_is_noted_with_what_is_shipped(tmp_path: Path, database: str) -> None:
    first = with_body(cleared(), policies=["p", "q"])
    soon = dataclasses.replace(with_body(cleared(), policies=["p"]), time=later(first, 5))
    much_later = dataclasses.replace(
        with_body(cleared(), policies=["p", "p", "x" * 3_000]), time=later(first, 120)
    )
    before = dataclasses.replace(with_body(cleared(), policies=["p"]), time=later(first, -600))
    seen = []
    for event in (first, soon, much_later, before):
        async with running(tmp_path / event.event_id, database) as ledger:
            await ledger.record_decided(event)
            await shipped(ledger)
        connection = await asyncpg.connect(database)
        try:
            seen.append(await load_policy_use(connection, ["p", "q", "never"]))
        finally:
            await connection.close()
    at = datetime.fromisoformat(first.time)
    assert [use.last["p"] - at for use in seen] == [timedelta(seconds=n) for n in (0, 0, 120, 120)]
    assert seen[-1].last.keys() == {"p", "q"}
    assert seen[-1].since is not None


def later(event: AuditEvent, seconds: float) -> str:
    moved = datetime.fromisoformat(event.time) + timedelta(seconds=seconds)
    return moved.isoformat().replace("+00:00", "Z")


async def test_a_partition_that_someone_dropped_is_made_again(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        first = cleared(time="2026-01-05T00:00:00.000000Z")
        await ledger.record_decided(first)
        await shipped(ledger)
        connection = await asyncpg.connect(database)
        await connection.execute("DROP TABLE sluice.audit_event_20260105")
        await connection.close()
        second = cleared(time="2026-01-05T00:00:01.000000Z")
        await ledger.record_decided(second)
        await shipped(ledger)
        assert list(await kinds(database)) == [second.statement_id]
        await ledger.record(completed(first))
        await ledger.record(completed(second))


async def test_a_batch_that_is_sent_again_when_its_day_has_gone_to_the_archive_is_not_stored_again(
    tmp_path: Path, database: str
) -> None:
    """The gateway was killed before its checkpoint moved, and was down until then."""
    first, second, third = (cleared(time=f"2026-01-05T00:00:0{n}.000000Z") for n in range(3))
    async with running(tmp_path, database) as ledger:
        await ledger.record_decided(first)
        await ledger.record(completed(first))
        await shipped(ledger)
    async with running(tmp_path, None) as ledger:
        await ledger.record_decided(second)
        await ledger.record(completed(second))
    left = {path: path.read_bytes() for path in (*files(tmp_path), tmp_path / "checkpoint.json")}
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
    assert list(await kinds(database)) == [first.statement_id, second.statement_id]
    connection = await asyncpg.connect(database)
    await connection.execute("DROP TABLE sluice.audit_event_20260105")
    await connection.close()
    for path, data in left.items():
        path.write_bytes(data)
    async with running(tmp_path, database) as ledger:
        await ledger.record_decided(third)
        await ledger.record(completed(third))
        await shipped(ledger)
    decided = await ask(database, "SELECT statement_id FROM sluice.audit_event WHERE kind = 'decided'")
    assert [str(row["statement_id"]) for row in decided] == [third.statement_id]
    (chain,) = await ask(database, "SELECT sum(chain_position) AS events FROM sluice.audit_chain")
    assert chain["events"] == 6


async def test_rows_can_be_added_and_never_changed(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        await ledger.record(login())
        await shipped(ledger)
    for statement in ("UPDATE sluice.audit_event SET user_name = 'x'", "DELETE FROM sluice.audit_event"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
            await ask(database, statement)


async def test_without_postgresql_statements_go_on_and_the_backlog_rises(tmp_path: Path) -> None:
    async with running(
        tmp_path, "postgresql://nobody@/none?host=/nonexistent", flush_timeout_s=0.05
    ) as ledger:
        event = cleared()
        await ledger.record_decided(event)
        await ledger.record(completed(event))
        await until(lambda: ledger.metrics().database_error)
        assert "are kept on disk" in ledger.metrics().trouble
        before = ledger.metrics().backlog_bytes
        assert before > 0
        await ledger.record_decided(cleared())
        assert ledger.metrics().backlog_bytes > before
        assert not ledger.metrics().failure


@pytest.fixture
async def mortal(reachable_directory: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(reachable_directory / "mortal")
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)


async def test_killing_postgresql_while_it_is_shipped_to_loses_and_doubles_nothing(
    tmp_path: Path, mortal: EmbeddedPostgres
) -> None:
    events: list[AuditEvent] = []
    stop = asyncio.Event()

    async def client() -> None:
        while not stop.is_set():
            if len(events) > ledger.metrics().shipped_events + MAX_AHEAD:
                await asyncio.sleep(0.01)  # a run that stalls fails, and takes no memory
                continue
            event = cleared()
            await ledger.record_decided(event)
            events.append(event)
            await ledger.record(completed(event))

    async with running(tmp_path, mortal.dsn) as ledger, asyncio.TaskGroup() as group:
        supervision = group.create_task(mortal.supervise(interval_s=0.02))
        for _ in range(8):
            group.create_task(client())
        for _ in range(4):
            seen = ledger.metrics().shipped_events
            await until(lambda seen=seen: ledger.metrics().shipped_events > seen + 200)  # type: ignore[misc]
            pid = mortal.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: mortal.pid not in (pid, None))  # type: ignore[misc]
        stop.set()
        await shipped(ledger)
        supervision.cancel()
    found = await kinds(mortal.dsn)
    assert len(found) == len(events)
    assert set(map(tuple, found.values())) == {("completed", "decided")}
    counted = await ask(mortal.dsn, "SELECT count(*), count(DISTINCT event_id) FROM sluice.audit_event")
    assert counted[0][0] == counted[0][1] == 2 * len(events)


async def test_a_database_user_with_no_rights_but_in_its_schema(tmp_path: Path, database: str) -> None:
    role = "clerk_" + database.partition("test_")[2].partition("?")[0]
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(
            f"CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC;"
            f"CREATE SCHEMA sluice; GRANT USAGE, CREATE ON SCHEMA sluice TO {role}"
        )
        async with running(tmp_path, database.replace("sluice@", f"{role}@")) as ledger:
            await ledger.record(login())
            await shipped(ledger)
        assert len(await stored(database)) == 1
    finally:
        await connection.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
        await connection.close()


async def test_two_gateways_begin_a_chain_that_both_write_to_one_after_the_other(database: str) -> None:
    """Records that nobody can read have no gateway: theirs is one chain."""

    async def nothing(_: Any) -> None:
        pass

    connections = []
    try:
        inserting = []
        for number in range(2):
            shipper = Shipper(
                spool=cast(Spool, None),
                dsn=database,
                position=Position(),
                release=nothing,
                on_caught_up=nothing,
            )
            connection = await shipper._connect()
            connections.append(connection)
            entry = Entry(Mark.OTHER, NO_STATEMENT, b"no event %d" % number)
            inserting.append(shipper._insert_once(connection, [row(entry)]))
        await asyncio.gather(*inserting)
        found = await verify(connections[0])
        assert found.holds, found.findings
        assert found.events == 2
    finally:
        for connection in connections:
            connection.terminate()
