"""Running statements and sessions that several gateways count together in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from gateway.database.limit_shares import LimitShares
from gateway.database.migrate import LazyPool, migrate
from gateway.database.name_holds import LEASE_S
from gateway.session.shares import KEEP_S, ShareKey, Shares

RUN = ShareKey("small", "bob", "running")
SESSIONS = ShareKey("small", "bob", "sessions")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Fleet:
    """Gateways of one PostgreSQL, each with its own count."""

    database: str
    connection: Any
    clock: Clock
    stores: list[LimitShares]

    async def join(self) -> Shares:
        name = f"gw-{len(self.stores)}"
        await self.see(name)
        self.stores.append(LimitShares(self.database, name))
        return Shares(self.stores[-1], has_others=lambda: True, clock=self.clock)

    async def see(self, name: str, ago_s: float = 0) -> None:
        """Have a gateway give a sign of life."""
        await self.connection.execute(
            "INSERT INTO sluice.gateway (gateway, seen_at)"
            " VALUES ($1, clock_timestamp() - $2 * interval '1 s')"
            " ON CONFLICT (gateway) DO UPDATE SET seen_at = excluded.seen_at",
            name,
            ago_s,
        )

    async def look(self, *shares: Shares) -> None:
        """Let the time of a look pass at each."""
        self.clock.now += KEEP_S
        for one in shares:
            await one.look()


@pytest.fixture
async def fleet(database: str) -> AsyncIterator[Fleet]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    made = Fleet(database, connection, Clock(), [])
    yield made
    for one in made.stores:
        one.close()
    await connection.close()


async def take(shares: Shares, key: ShareKey = RUN, most: int = 2) -> bool:
    """Begin one if there is room for it."""
    await shares.ask({key: most})
    room = shares.has_room(key, most)
    if room:
        shares.add(key, most)
    return room


@pytest.mark.parametrize("key", [RUN, SESSIONS])
async def test_all_gateways_together_have_no_more_than_the_limit(fleet: Fleet, key: ShareKey) -> None:
    shares = [await fleet.join() for _ in range(3)]
    taken = await asyncio.gather(*(take(one, key, 4) for one in shares for _ in range(4)))
    assert sum(taken) == 4
    busy = next(one for one in shares if one._used[key])
    assert not any([await take(one, key, 4) for one in shares])
    busy.take_out(key)
    await fleet.look(*shares)
    assert sum([await take(one, key, 4) for one in shares]) == 1


async def test_one_statement_after_the_other_asks_once_and_an_idle_gateway_holds_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await fleet.join(), await fleet.join()
    asked = 0
    exchange = fleet.stores[0].exchange

    async def counted(given: Any) -> Any:
        nonlocal asked
        asked += 1
        return await exchange(given)

    monkeypatch.setattr(fleet.stores[0], "exchange", counted)
    for _ in range(50):
        assert await take(one, RUN, 1)
        one.take_out(RUN)
    assert asked == 1
    assert not await take(other, RUN, 1)
    await fleet.look(one)
    assert await take(other, RUN, 1)


async def test_who_has_waited_longest_is_next_whichever_gateway_has_the_place(fleet: Fleet) -> None:
    one, other = await fleet.join(), await fleet.join()
    assert await take(one, RUN, 1)
    assert not await take(other, RUN, 1)
    other.begin_waiting(RUN, 1)
    await other.look()
    await fleet.look(one)
    one.take_out(RUN)
    # Its next statement comes at once, and is not the first in the queue.
    assert not await take(one, RUN, 1)
    other.end_waiting(RUN)
    assert await take(other, RUN, 1)


async def test_what_a_gateway_that_died_had_is_free_when_its_lease_is_over(fleet: Fleet) -> None:
    dead, alive = await fleet.join(), await fleet.join()
    assert await take(dead, RUN, 1)
    assert not await take(alive, RUN, 1)
    await fleet.see("gw-0", LEASE_S - 1)
    assert not await take(alive, RUN, 1)
    await fleet.see("gw-0", LEASE_S + 1)
    assert await take(alive, RUN, 1)


async def test_a_gateway_that_is_started_anew_or_stops_has_nothing_of_before(fleet: Fleet) -> None:
    one, other = await fleet.join(), await fleet.join()
    assert await take(one, RUN, 1)
    again = LimitShares(fleet.database, "gw-0")
    fleet.stores.append(again)
    assert await take(Shares(again, has_others=lambda: True, clock=fleet.clock), RUN, 1)
    assert not await take(other, RUN, 1)
    await again.leave()
    assert await take(other, RUN, 1)


async def test_without_postgresql_each_goes_by_what_it_counts_itself(fleet: Fleet) -> None:
    one, other = await fleet.join(), await fleet.join()
    assert await take(one, RUN, 1)
    reachable = fleet.stores[1]._pool
    fleet.stores[1]._pool = LazyPool("postgresql://127.0.0.1:1/none", "x", most=1, timeout_s=1)
    assert await take(other, RUN, 1)
    assert not await take(other, RUN, 1)
    fleet.stores[1]._pool = reachable
    fleet.stores[1]._away_until = float("-inf")
    await fleet.look(other)
    assert other.are_counted_together
    assert not await take(other, RUN, 2)  # two run, which are as many as may


async def test_a_gateway_that_is_alone_asks_nothing_and_tells_what_runs_when_another_comes(
    fleet: Fleet,
) -> None:
    alone = True
    await fleet.see("gw-0")
    fleet.stores.append(LimitShares(fleet.database, "gw-0"))
    first = Shares(fleet.stores[0], has_others=lambda: not alone, clock=fleet.clock)
    assert await take(first, RUN, 1)
    assert await fleet.connection.fetchval("SELECT count(*) FROM sluice.limit_share") == 0
    second = await fleet.join()
    alone = False
    await fleet.look(first)
    assert not await take(second, RUN, 1)


async def test_the_shares_of_gateways_that_are_gone_are_removed(fleet: Fleet) -> None:
    one = await fleet.join()
    assert await take(one)
    await fleet.see("gw-0", 7 * LEASE_S)
    cleaning = asyncio.create_task(fleet.stores[0].run())
    while await fleet.connection.fetchval("SELECT count(*) FROM sluice.limit_share"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    cleaning.cancel()
