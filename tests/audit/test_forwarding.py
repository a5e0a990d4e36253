"""Events of the record reach other systems at least once and in order, whoever dies in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import orjson

from gateway.audit.forward_formats import make_encoder
from gateway.audit.forwarding import Forwarder, ForwardLine, ForwardOptions, NotDelivered
from gateway.audit.ledger import FileLedger
from gateway.model.audit import AuditKind
from tests.audit.ledgers import ask, running, shipped
from tests.audit.samples import cleared, completed, login, refused, until

ENCODE = make_encoder("json", version="1", text_chars=100)


class Collecting:
    """A target that keeps what it gets, and refuses as often as `refusals` says."""

    def __init__(self, *, refusals: int = 0) -> None:
        self.ids: list[str] = []
        self.refusals = refusals
        self.closed = 0

    async def deliver(self, lines: Sequence[ForwardLine]) -> None:
        self.ids += [orjson.loads(line.content)["event_id"] for line in lines]
        if self.refusals:
            self.refusals -= 1
            raise NotDelivered("the server answered HTTP 503")

    async def close(self) -> None:
        self.closed += 1


@asynccontextmanager
async def forwarding(
    dsn: str, target: Collecting, *, from_beginning: bool = True, kinds: Sequence[str] = get_args(AuditKind)
) -> AsyncIterator[Forwarder]:
    options = ForwardOptions(
        name="siem",
        kinds=frozenset(kinds),
        from_beginning=from_beginning,
        batch=3,
        look_s=0.02,
        first_pause_s=0.01,
        longest_pause_s=0.05,
    )
    forwarder = Forwarder(dsn, options, target, ENCODE)
    task = asyncio.create_task(forwarder.run())
    try:
        yield forwarder
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def say(ledger: FileLedger, statements: int) -> list[str]:
    """Record statements with their ends, and a login; return the ids in order."""
    ids = []
    for _ in range(statements):
        decided = cleared()
        await ledger.record_decided(decided)
        ended = completed(decided)
        await ledger.record(ended)
        ids += [decided.event_id, ended.event_id]
    await ledger.record(event := login())
    await shipped(ledger)
    return [*ids, event.event_id]


async def test_everything_arrives_once_and_in_order_while_nothing_fails(
    tmp_path: Path, database: str
) -> None:
    target = Collecting()
    async with running(tmp_path, database) as ledger:
        sent = await say(ledger, 5)
        async with forwarding(database, target) as forwarder:
            await until(lambda: len(target.ids) == len(sent))
            sent += await say(ledger, 2)
            await until(lambda: len(target.ids) == len(sent) and not forwarder.progress.behind)
            assert forwarder.progress.sent == len(sent)
            assert (forwarder.progress.trouble, forwarder.progress.missed) == ("", 0)
    assert target.ids == sent
    assert target.closed


async def test_what_is_not_confirmed_is_sent_again(tmp_path: Path, database: str) -> None:
    target = Collecting(refusals=4)
    async with running(tmp_path, database) as ledger:
        sent = await say(ledger, 4)
        async with forwarding(database, target) as forwarder:
            await until(lambda: forwarder.progress.sent == len(sent))
            assert forwarder.progress.failures == 4
    assert list(dict.fromkeys(target.ids)) == sent
    assert target.ids[:12] == sent[:3] * 4


async def test_another_gateway_goes_on_where_the_first_one_ended(tmp_path: Path, database: str) -> None:
    first, second = Collecting(), Collecting()
    async with running(tmp_path, database) as ledger:
        sent = await say(ledger, 3)
        async with forwarding(database, second) as waiting:
            await until(lambda: len(second.ids) == len(sent))
            async with forwarding(database, first) as idle:
                sent_later = await say(ledger, 2)
                await until(lambda: len(second.ids) == len(sent) + len(sent_later))
                assert waiting.progress.forwarding
                assert not idle.progress.forwarding
                assert not first.ids
        async with forwarding(database, first):
            last = await say(ledger, 1)
            await until(lambda: len(first.ids) == len(last))
    assert second.ids == sent + sent_later
    assert first.ids == last


async def test_a_new_target_gets_what_happens_from_now_on(tmp_path: Path, database: str) -> None:
    target = Collecting()
    async with running(tmp_path, database) as ledger:
        await say(ledger, 3)
        async with forwarding(database, target, from_beginning=False) as forwarder:
            await until(lambda: forwarder.progress.forwarding)
            sent = await say(ledger, 1)
            await until(lambda: len(target.ids) == len(sent))
    assert target.ids == sent
    # A gateway that is new then is forwarded from its first event, also after a pause.
    async with running(tmp_path / "other", database) as ledger:
        sent += await say(ledger, 1)
        async with forwarding(database, target, from_beginning=False):
            await until(lambda: len(target.ids) == len(sent))
    assert target.ids == sent


async def test_only_the_kinds_that_a_target_asks_for_are_sent(tmp_path: Path, database: str) -> None:
    target = Collecting()
    async with running(tmp_path, database) as ledger:
        await ledger.record_decided(denied := refused())
        await say(ledger, 4)
        await ledger.record_decided(last := refused())
        await shipped(ledger)
        async with forwarding(database, target, kinds=["decided"]) as forwarder:
            await until(lambda: last.event_id in target.ids and not forwarder.progress.behind)
            assert forwarder.progress.missed == 0
    assert len(target.ids) == 6
    assert target.ids[0] == denied.event_id


async def test_events_that_are_gone_are_counted_and_hold_nothing_up(tmp_path: Path, database: str) -> None:
    target = Collecting()
    async with running(tmp_path, database) as ledger:
        lost = await say(ledger, 2)
        days = await ask(
            database,
            "SELECT inhrelid::regclass::text AS day FROM pg_inherits"
            " WHERE inhparent = 'sluice.audit_event'::regclass",
        )
        for row in days:
            await ask(database, f"TRUNCATE {row['day']}")
        sent = await say(ledger, 1)
        async with forwarding(database, target) as forwarder:
            await until(lambda: len(target.ids) == len(sent))
            assert forwarder.progress.missed == len(lost)
    assert target.ids == sent


async def test_a_database_that_is_away_ends_nothing(tmp_path: Path, database: str) -> None:
    target = Collecting()
    async with running(tmp_path, database) as ledger, forwarding(database, target) as forwarder:
        sent = await say(ledger, 1)
        await until(lambda: len(target.ids) == len(sent))
        await ask(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'sluice-forward'",
        )
        await until(lambda: forwarder.progress.failures)
        sent += await say(ledger, 1)
        await until(lambda: len(target.ids) == len(sent))
        await until(lambda: not forwarder.progress.trouble)
    assert target.ids == sent
