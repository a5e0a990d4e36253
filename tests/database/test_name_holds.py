"""Gateways hold names for each other: whoever changes some waits until no other goes by what they meant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from gateway.admin.ranger.store import Store
from gateway.database import name_holds
from gateway.database.name_holds import LISTENER, MAX_NAMES, NameHolds, conflict, limit_names
from gateway.errors import BackendUnavailable
from tests.speed import patience

T, U = ["c", "d", "t"], ["c", "d", "u"]


def change(*exclusive: list[str], shared: tuple[list[str], ...] = ()) -> dict[str, Any]:
    return {
        "metastore": "main",
        "exclusive": list(exclusive),
        "shared": [*shared, ["c", "d"]],
        "changes": [{"tables": list(exclusive), "databases": [], "stays": False}],
    }


class Keeper:
    """Notes what it is asked for; holds nothing before `free`."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.held: list[Any] = []
        self.forgot = 0
        self.overtaken = 0
        self.changed: list[Any] = []
        self.news = asyncio.Event()

    async def hold(self, names: Mapping[str, Any]) -> Held:
        await self.free.wait()
        self.held.append(names["exclusive"])
        self.news.set()
        return Held(self, names["exclusive"])

    def note_changed(self, names: Mapping[str, Any]) -> None:
        self.changed.append(names["changes"])
        self.news.set()

    def forget(self) -> None:
        self.forgot += 1
        self.news.set()

    def overtake_reads(self) -> None:
        self.overtaken += 1

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(patience()):
            while not done():
                self.news.clear()
                await self.news.wait()


class Held:
    def __init__(self, keeper: Keeper, names: Any) -> None:
        self.keeper, self.names = keeper, names

    def release(self) -> None:
        self.keeper.held.remove(self.names)
        self.keeper.news.set()


@asynccontextmanager
async def gateway(dsn: str, name: str, *, leaves: bool = True) -> AsyncIterator[tuple[NameHolds, Keeper]]:
    keeper = Keeper()
    names = NameHolds(dsn, name, keeper)
    await names.start()
    try:
        yield names, keeper
    finally:
        if leaves:
            await names.leave()


async def until_seen(names: NameHolds) -> None:
    """Wait until a gateway has seen another."""
    async with asyncio.timeout(patience()):
        while not names.others:  # noqa: ASYNC110 - it is told of by no event
            await asyncio.sleep(0.01)


def soon() -> float:
    return asyncio.get_running_loop().time() + patience()


async def execute(dsn: str, query: str, *arguments: object) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query, *arguments)
    finally:
        await connection.close()


async def test_a_change_waits_until_the_others_hold_its_names(dsn: str) -> None:
    async with gateway(dsn, "one") as (one, _), gateway(dsn, "two") as (_, keeper):
        keeper.free.clear()
        turn = await one.take_turn(change(T), soon())
        assert turn is not None
        assert not turn.waited
        waiting = asyncio.ensure_future(turn.wait_for_others(soon()))
        assert not await turn.wait_for_others(asyncio.get_running_loop().time() + 0.05)
        assert not waiting.done()
        keeper.free.set()
        assert await waiting
        assert keeper.held == [[T]]
        turn.end()
        await keeper.until(lambda: not keeper.held)


async def test_changes_of_the_same_names_are_made_one_after_the_other(dsn: str) -> None:
    async with gateway(dsn, "one") as (one, _), gateway(dsn, "two") as (two, _):
        first = await one.take_turn(change(T), soon())
        assert first is not None
        other = await two.take_turn(change(U), soon())
        assert other is not None
        second = asyncio.ensure_future(two.take_turn(change(U, shared=(T,)), soon()))
        # Whoever asks later in the same gateway is answered later.
        assert await two.take_turn(change(T), asyncio.get_running_loop().time() + 0.05) is None
        other.end()
        first.end()
        turn = await second
        assert turn is not None
        assert turn.waited
        # Whoever gave up has left nothing behind.
        assert await execute(dsn, "SELECT count(*) FROM sluice.name_hold") <= 2


async def test_a_gateway_that_gives_no_sign_of_life_is_not_waited_for(dsn: str) -> None:
    async with gateway(dsn, "one") as (one, _):
        await execute(dsn, "INSERT INTO sluice.gateway VALUES ('dead', now() - interval '1 minute')")
        await execute(
            dsn,
            "INSERT INTO sluice.name_hold (id, gateway, taken_at, body)"
            " VALUES (gen_random_uuid(), 'dead', now() - interval '1 minute', $1)",
            '{"metastore": "main", "exclusive": [["c", "d", "t"]], "shared": [], "changes": []}',
        )
        # Nor does it keep for ever what it was changing when it died.
        turn = await one.take_turn(change(T), soon())
        assert turn is not None
        assert turn.waited
        assert await turn.wait_for_others(soon())


async def test_what_was_said_while_nobody_listened_is_made_up_for(dsn: str) -> None:
    async with gateway(dsn, "one") as (one, _), gateway(dsn, "two") as (_, keeper):
        before = keeper.forgot
        turn = await one.take_turn(change(T), soon())
        assert turn is not None
        assert await turn.wait_for_others(soon())
        await execute(
            dsn,
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
            " WHERE application_name = $1",
            LISTENER + "two",
        )
        turn.end()
        await keeper.until(lambda: keeper.forgot > before and not keeper.held)


async def test_other_rows_and_files_are_told_of_in_bounded_size(dsn: str) -> None:
    async with gateway(dsn, "one") as (one, own), gateway(dsn, "two") as (_, keeper):
        await until_seen(one)
        changes = [{"tables": [T], "databases": [], "stays": True}]
        one.tell_changed({"changes": changes})
        await keeper.until(lambda: keeper.changed == [changes])
        before = keeper.forgot
        one.tell_changed({"changes": [{"tables": [["c", "d", "ä" * 3999]], "databases": [], "stays": True}]})
        await keeper.until(lambda: keeper.forgot > before)
        assert own.changed == []


async def test_a_change_of_policies_is_heard_of(dsn: str) -> None:
    heard = asyncio.Event()
    names = NameHolds(dsn, "one", Keeper(), heard.set)
    await names.start()
    assert heard.is_set(), "what changed before it listened is looked at too"
    heard.clear()
    store = Store(dsn)
    async with store.writing("admin"):
        pass
    async with asyncio.timeout(patience()):
        await heard.wait()
    await store.close()
    await names.leave()


async def test_who_cannot_tell_the_others_changes_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = NameHolds("postgresql://nobody@127.0.0.1:1/none", "one", Keeper())
    monkeypatch.setattr(name_holds, "ANSWER_S", 0.05)
    await nobody.start()
    with pytest.raises(BackendUnavailable, match="cannot be told"):
        await nobody.take_turn(change(T), soon())
    await nobody.leave()


async def test_one_that_is_killed_and_comes_back_waits_for_what_it_was_changing(dsn: str) -> None:
    async with gateway(dsn, "one", leaves=False) as (killed, _):
        assert await killed.take_turn(change(T), soon()) is not None
        assert killed._running is not None
        killed._running.cancel()
    async with gateway(dsn, "one") as (again, keeper):
        await keeper.until(lambda: keeper.held == [[T]])
        assert await again.take_turn(change(T), asyncio.get_running_loop().time() + 0.05) is None


def test_what_is_held_is_bounded_and_never_less() -> None:
    many = [["c", f"d{number % 3}", f"t{number}"] for number in range(MAX_NAMES + 1)]
    bounded = limit_names(change(*many))
    assert bounded["exclusive"] == [["c", "d0"], ["c", "d1"], ["c", "d2"]]
    assert bounded["changes"] == [
        {"tables": [], "databases": [["c", "d0"], ["c", "d1"], ["c", "d2"]], "stays": False}
    ]
    wide = limit_names(change(T, shared=tuple(many)))
    assert wide["shared"] == []
    assert conflict(wide, change(["x", "y", "z"]))
    assert not conflict(change(T), change(U))
    assert not conflict(change(T), change(T) | {"metastore": "another"})
    assert conflict(change(T), change(U, shared=(T,)))
    assert conflict(change(U, shared=(T,)), change(T))
