"""Shares of limits that gateways count together, over a store in memory; tests/database has the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from gateway.session.shares import KEEP_S, ShareKey, Shares

RUN = ShareKey("small", "bob", "running")
SESSIONS = ShareKey("small", "bob", "sessions")


@dataclass
class Held:
    share: int = 0
    wanted: int = 0
    since: float = 0.0


@dataclass
class World:
    """Gateways that share limits. Of those that want more, the first that asked gets it."""

    now: float = 0.0
    held: dict[tuple[ShareKey, int], Held] = field(default_factory=dict)
    stores: list[MemoryShareStore] = field(default_factory=list)

    def join(self) -> Shares:
        self.stores.append(MemoryShareStore(self, len(self.stores)))
        return Shares(self.stores[-1], has_others=lambda: True, clock=lambda: self.now)

    async def look(self, *shares: Shares) -> None:
        self.now += KEEP_S
        for one in shares:
            await one.look()


@dataclass
class MemoryShareStore:
    world: World
    gateway: int
    asked: int = 0
    is_down: bool = False
    loses_answers: bool = False

    async def exchange(
        self, asked: Mapping[ShareKey, tuple[int, int, int]]
    ) -> Mapping[ShareKey, tuple[int, bool]] | None:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_down:
            return None
        found = {}
        for key, (most, used, wanted) in asked.items():
            self.world.now += 1e-6
            mine = self.world.held.setdefault((key, self.gateway), Held())
            others = [one for (of, who), one in self.world.held.items() if of == key and who != self.gateway]
            since = mine.since if mine.wanted > mine.share else self.world.now
            before = sum(max(0, one.wanted - one.share) for one in others if one.since < since)
            share = max(used, min(wanted, most - sum(one.share for one in others) - before), 0)
            self.world.held[key, self.gateway] = Held(share, wanted, since)
            found[key] = (share, sum(one.wanted for one in others) + wanted > most)
        return None if self.loses_answers else found


async def take(shares: Shares, key: ShareKey = RUN, most: int = 1) -> bool:
    await shares.ask({key: most})
    room = shares.has_room(key, most)
    if room:
        shares.add(key, most)
    return room


async def test_what_other_gateways_have_counts() -> None:
    world = World()
    one, other = world.join(), world.join()
    assert await take(one, most=2)
    assert await take(other, most=2)
    assert not await take(one, most=2)
    assert not await take(other, most=2)


async def test_a_share_that_nobody_uses_goes_back_a_moment_later() -> None:
    for key in (RUN, SESSIONS):
        world = World()
        one, other = world.join(), world.join()
        assert await take(one, key)
        one.take_out(key)
        world.now += 2 * KEEP_S
        await one.look()
        assert await take(other, key), key


async def test_statements_one_after_the_other_ask_once() -> None:
    world = World()
    one = world.join()
    for _ in range(20):
        assert await take(one)
        one.take_out(RUN)
    assert world.stores[0].asked == 1


async def test_nobody_pushes_in_before_those_who_wait_at_another_gateway() -> None:
    world = World()
    one, other = world.join(), world.join()
    assert await take(one)
    assert not await take(other)
    other.begin_waiting(RUN, 1)
    await other.look()
    await world.look(one)
    one.take_out(RUN)
    assert not await take(one)
    other.end_waiting(RUN)
    assert await take(other)


async def test_without_the_store_each_goes_by_its_own_count_and_comes_back_to_it() -> None:
    world = World()
    one, other = world.join(), world.join()
    assert await take(one)
    world.stores[1].is_down = True
    assert await take(other)
    assert not await take(other)
    world.stores[1].is_down = False
    await world.look(other)
    assert other.are_counted_together
    assert not await take(other, most=2)


@pytest.mark.parametrize("key", [RUN, SESSIONS])
async def test_who_was_refused_once_keeps_no_place_from_others(key: ShareKey) -> None:
    world = World()
    one, other = world.join(), world.join()
    for _ in range(2):
        assert await take(one, key, 2)
    assert not await take(other, key, 2)
    await world.look(one, other)
    assert world.held[key, 1].wanted == 0
    for _ in range(2):
        one.take_out(key)
    await world.look(one, other)
    assert [await take(one, key, 2) for _ in range(3)] == [True, True, False]


async def test_a_wish_whose_answer_was_lost_is_taken_back() -> None:
    world = World()
    one, other = world.join(), world.join()
    assert await take(one)
    world.stores[1].loses_answers = True
    await other.ask({RUN: 1})
    assert world.held[RUN, 1].wanted == 1
    world.stores[1].loses_answers = False
    for _ in range(2):
        await world.look(one, other)
    assert world.held[RUN, 1].wanted == 0


@pytest.mark.parametrize("has_others", [True, False])
async def test_nothing_is_kept_of_users_who_are_gone(has_others: bool) -> None:
    world = World()
    one = world.join()
    one._has_others = lambda: has_others
    for number in range(100):
        key = ShareKey("each", f"user {number}", "sessions")
        assert await take(one, key)
        one.begin_waiting(key, 1)
        await one.look()
        one.end_waiting(key)
        one.take_out(key)
        refused = ShareKey("none", f"user {number}", "sessions")
        assert not await take(one, refused, 0)
    for _ in range(3):
        await world.look(one)
    kept = (one._used, one._waiting, one._asking, one._most, one._granted, one._free_since, one._contended)
    assert not any(kept), kept


async def test_many_who_open_at_once_ask_by_few_questions_and_get_no_more_than_there_is() -> None:
    world = World()
    one, other = world.join(), world.join()
    for _ in range(5):
        assert await take(other, SESSIONS, 20)
    found = await asyncio.gather(*(take(one, SESSIONS, 20) for _ in range(15)))
    assert found == [True] * 15
    assert world.stores[0].asked <= 2
    assert not any(await asyncio.gather(*(take(one, SESSIONS, 20) for _ in range(5))))
