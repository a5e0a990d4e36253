"""What was decided is recorded before anything runs, and every beginning gets exactly one end."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import asyncpg
import pytest

from gateway.audit.segment import OPENS, Mark, scan
from gateway.audit.spool import SpoolLimits
from gateway.errors import LedgerUnavailable
from gateway.session.ports import Ledger
from tests.audit.disks import FailingDisk
from tests.audit.ledgers import ask, kinds, running, shipped
from tests.audit.samples import cleared, completed, login, now, refused, until


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.spool"))


def spooled(directory: Path) -> list[Mark]:
    found: list[Mark] = []
    for path in segments(directory):
        found += [entry.mark for entry in scan(path.read_bytes()[8:], 8).entries]
    return [mark for mark in found if mark is not Mark.PADDING]


async def test_decided_is_on_the_disk_when_it_returns(tmp_path: Path) -> None:
    async with running(tmp_path, None) as ledger:
        port: Ledger = ledger
        await port.record_decided(cleared())
        assert spooled(tmp_path) == [Mark.CLEARED]
        await port.record_decided(refused())
        assert spooled(tmp_path) == [Mark.CLEARED, Mark.REFUSED]


async def test_everything_reaches_postgresql(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        event = cleared()
        await ledger.record_decided(event)
        await ledger.record_decided(refused())
        await ledger.record(login())
        await ledger.record(completed(event))
        await until(lambda: ledger.metrics().shipped_events == 4)
        rows = await ask(database, "SELECT kind, verdict FROM sluice.audit_event ORDER BY kind, verdict")
        assert [tuple(row) for row in rows] == [
            ("completed", None),
            ("decided", "cleared"),
            ("decided", "refused"),
            ("login", "accepted"),
        ]
        joined = await ask(
            database, "SELECT ended, outcome, rows FROM sluice.audit_statement WHERE verdict = 'cleared'"
        )
        assert [tuple(row) for row in joined] == [("completed", "finished", 3)]
        assert ledger.metrics().open_statements == 0


async def test_a_clean_end_leaves_nothing_to_ship(tmp_path: Path, database: str) -> None:
    for _ in range(2):
        async with running(tmp_path, database) as ledger:
            event = cleared()
            await ledger.record_decided(event)
            await ledger.record(completed(event))
        assert spooled(tmp_path) == []
    found = await kinds(database)
    assert sorted(found.values()) == [["completed", "decided"]] * 2


async def test_a_second_end_is_dropped(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        event = cleared()
        await ledger.record_decided(event)
        await ledger.record(completed(event, "failed"))
        await ledger.record(completed(event, "finished"))
        await ledger.record(completed(cleared()))
    rows = await ask(database, "SELECT outcome FROM sluice.audit_event WHERE kind = 'completed'")
    assert [row["outcome"] for row in rows] == ["failed"]


async def test_a_statement_is_decided_once(tmp_path: Path) -> None:
    async with running(tmp_path, None) as ledger:
        event = cleared()
        await ledger.record_decided(event)
        with pytest.raises(LedgerUnavailable, match="already decided"):
            await ledger.record_decided(cleared(statement_id=event.statement_id))


async def test_what_a_crash_left_open_is_abandoned_once(tmp_path: Path, database: str) -> None:
    first, second, third = cleared(), cleared(user="amy"), cleared()
    async with running(tmp_path, None) as ledger:
        for event in (first, second, third):
            await ledger.record_decided(event)
        await ledger.record(completed(third))
    for _ in range(3):
        async with running(tmp_path, database) as ledger:
            await shipped(ledger)
    assert await kinds(database) == {
        first.statement_id: ["abandoned", "decided"],
        second.statement_id: ["abandoned", "decided"],
        third.statement_id: ["completed", "decided"],
    }
    rows = await ask(
        database, "SELECT * FROM sluice.audit_event WHERE kind = 'abandoned' AND user_name = 'amy'"
    )
    assert rows[0]["time"].isoformat().replace("+00:00", "Z") == second.time
    assert rows[0]["gateway"] == second.gateway
    assert "the gateway stopped" in rows[0]["message"]


async def test_a_long_statement_outlives_its_segment(tmp_path: Path, database: str) -> None:
    limits = SpoolLimits(max_segment_bytes=20_000)
    slow, ended = cleared(), cleared()
    async with running(tmp_path, database, spool=limits) as ledger:
        await ledger.record_decided(slow)
        await ledger.record_decided(ended)
        for _ in range(30):
            event = cleared()
            await ledger.record_decided(event)
            await ledger.record(completed(event))
        await shipped(ledger)
        await until(lambda: not (tmp_path / "000000000001.spool").exists())
        await ledger.record(completed(ended))
    carried = [mark for mark in spooled(tmp_path) if mark in OPENS]
    assert Mark.OPEN in carried, "the decision is gone, its trace is not"
    # The database is not asked: the spool alone knows.
    async with running(tmp_path, None):
        pass
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
    found = await kinds(database)
    assert found[slow.statement_id] == ["abandoned", "decided"]
    assert found[ended.statement_id] == ["completed", "decided"]
    assert len(found) == 32


async def test_a_spool_that_was_lost_is_made_up_for_by_the_database(tmp_path: Path, database: str) -> None:
    async with running(tmp_path, database) as ledger:
        gateway = ledger.gateway
        lost, ended = cleared(gateway=gateway), cleared(gateway=gateway)
        other = cleared(gateway="sluice-other")
        for event in (lost, ended, other):
            await ledger.record_decided(event)
        await ledger.record(completed(ended))
        await shipped(ledger)
    for path in segments(tmp_path):
        path.unlink()
    async with running(tmp_path, database) as ledger:
        assert ledger.gateway == gateway
        alive = cleared(gateway=gateway)
        await ledger.record_decided(alive)
        await until(lambda: ledger.metrics().shipped_events == 2)
        await shipped(ledger)
        found = await kinds(database)
        assert found[lost.statement_id] == ["abandoned", "decided"]
        assert found[ended.statement_id] == ["completed", "decided"]
        assert found[other.statement_id] == ["decided"], "another gateway's statements are its own"
        assert found[alive.statement_id] == ["decided"]
        await ledger.record(completed(alive))


async def test_damage_that_hid_an_end_abandons_nothing_that_ended(tmp_path: Path, database: str) -> None:
    event = cleared()
    async with running(tmp_path, database) as ledger:
        await ledger.record_decided(event)
        await ledger.record(completed(event))
        await shipped(ledger)
        saved = {path: path.read_bytes() for path in segments(tmp_path)}
        position = (tmp_path / "checkpoint.json").read_bytes()
    for path, data in saved.items():
        end_of_the_decision = scan(data[8:], 8).entries[0].end
        broken = bytearray(data)
        broken[end_of_the_decision + 50] ^= 0xFF
        path.write_bytes(broken)
    (tmp_path / "checkpoint.json").write_bytes(position)
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
    assert (tmp_path / "damaged").exists()
    assert await kinds(database) == {event.statement_id: ["completed", "decided"]}


async def test_a_full_disk_refuses_statements_and_keeps_ends(tmp_path: Path, database: str) -> None:
    disk = FailingDisk()
    running_already, never = cleared(), cleared()
    async with running(tmp_path, database, disk=disk) as ledger:
        await ledger.record_decided(running_already)
        disk.fail["write"] = (-1, errno.ENOSPC)
        with pytest.raises(LedgerUnavailable):
            await ledger.record_decided(never)
        assert "no space left" in ledger.metrics().failure
        await ledger.record(completed(running_already))
        with pytest.raises(LedgerUnavailable):
            await ledger.record_decided(refused())
        disk.fail.clear()
        await until(lambda: not ledger.metrics().failure)
        again = cleared(statement_id=never.statement_id)
        await ledger.record_decided(again)
        await ledger.record(completed(again))
    assert await kinds(database) == {
        running_already.statement_id: ["completed", "decided"],
        never.statement_id: ["completed", "decided"],
    }


async def test_a_full_disk_is_freed_by_shipping_while_a_statement_runs(tmp_path: Path, database: str) -> None:
    """The running statement's segment stays, because its trace cannot be written; the others go."""
    disk = FailingDisk()
    limits = SpoolLimits(max_segment_bytes=10_000, probe_interval_s=0.02)
    slow = cleared()
    async with running(tmp_path, database, disk=disk, spool=limits) as ledger:
        await ledger.record_decided(slow)
        await shipped(ledger)
        blocker = await asyncpg.connect(database)
        await blocker.execute("BEGIN; LOCK TABLE sluice.audit_event IN ACCESS EXCLUSIVE MODE")
        for _ in range(20):
            event = cleared()
            await ledger.record_decided(event)
            await ledger.record(completed(event))
        disk.fail["write"] = (-1, errno.ENOSPC)
        with pytest.raises(LedgerUnavailable):
            await ledger.record_decided(cleared())
        assert ledger.metrics().segments > 3
        await blocker.execute("ROLLBACK")
        await blocker.close()
        await until(lambda: ledger.metrics().segments == 1)
        assert ledger.metrics().failure
        assert (tmp_path / "000000000001.spool").exists()
        disk.fail.clear()
        await until(lambda: not (tmp_path / "000000000001.spool").exists())
        await ledger.record(completed(slow))
    found = await kinds(database)
    assert len(found) == 21
    assert all(value == ["completed", "decided"] for value in found.values())


async def test_a_client_that_leaves_while_it_waits_gets_an_end(tmp_path: Path, database: str) -> None:
    disk = FailingDisk()
    async with running(tmp_path, database, disk=disk) as ledger:
        disk.gate.clear()
        event = cleared()
        waiting = asyncio.create_task(ledger.record_decided(event))
        await asyncio.to_thread(disk.syncing.wait, 20)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        disk.gate.set()
        await shipped(ledger)
        assert ledger.metrics().open_statements == 0
    assert await kinds(database) == {event.statement_id: ["abandoned", "decided"]}


async def test_a_record_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, None) as ledger:
        with pytest.raises(LedgerUnavailable, match="longer than"):
            await ledger.record_decided(cleared("x" * (40 << 20)))
        assert ledger.metrics().open_statements == 0
        await ledger.record_decided(cleared())


async def test_a_spool_in_use_stops_the_second_gateway(tmp_path: Path) -> None:
    async with running(tmp_path, None):
        with pytest.raises(LedgerUnavailable, match="another gateway"):
            async with running(tmp_path, None):
                pass


async def test_gateways_of_one_name_differ(tmp_path: Path) -> None:
    async with running(tmp_path / "a", None) as one, running(tmp_path / "b", None) as two:
        assert one.gateway.startswith("sluice-")
        assert one.gateway != two.gateway


async def test_a_spool_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerUnavailable, match="cannot be opened"):
        async with running(tmp_path / "file" / "spool", None):
            pass


async def test_damaged_segments_are_put_aside_and_the_rest_is_shipped(tmp_path: Path, database: str) -> None:
    events = [cleared() for _ in range(5)]
    async with running(tmp_path, None) as ledger:
        for event in events:
            await ledger.record_decided(event)
    path = tmp_path / "000000000001.spool"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
        await until(lambda: not path.exists())
    found = await kinds(database)
    assert len(found) == 4
    assert all(value == ["abandoned", "decided"] for value in found.values())
    assert (tmp_path / "damaged" / path.name).read_bytes() == bytes(data)


@pytest.mark.parametrize("cut", range(0, 2400, 150))
async def test_a_tail_torn_anywhere_does_not_stop_the_start(tmp_path: Path, cut: int) -> None:
    async with running(tmp_path, None) as ledger:
        await ledger.record_decided(cleared())
        await ledger.record_decided(cleared())
    path = tmp_path / "000000000001.spool"
    os.truncate(path, max(0, path.stat().st_size - cut))
    async with running(tmp_path, None) as ledger:
        await ledger.record_decided(cleared(time=now()))
    assert not (tmp_path / "damaged").exists()
