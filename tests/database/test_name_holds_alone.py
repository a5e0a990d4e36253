"""What a gateway does about names by itself: with a PostgreSQL of the test's own making, or with none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest

from gateway.database import name_holds
from gateway.database.name_holds import LEASE_S, MAX_PAYLOAD, NameHolds
from gateway.errors import BackendUnavailable
from tests.database.test_name_holds import Keeper, T, change, soon
from tests.speed import patience


class FakePostgres:
    """Answers one gateway's questions."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        """Bodies of holds."""
        self.silent = 0
        """How often others have not taken a hold yet."""
        self.down = False
        self.asked: list[str] = []

    async def connect(self, *_: object, **__: object) -> FakePostgres:
        if self.down:
            raise OSError("down")
        return self

    async def add_listener(self, *_: object) -> None: ...

    def terminate(self) -> None: ...

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield

    def _note(self, query: str) -> None:
        if self.down:
            raise OSError("down")
        self.asked.append(query)

    async def execute(self, query: str, *_: object) -> None:
        self._note(query)

    async def fetch(self, query: str, *_: object) -> list[dict[str, Any]]:
        self._note(query)
        if "UPDATE sluice.gateway" in query:
            return [{"gateway": "other", "id": None, "body": None}]
        return [{"body": orjson.dumps(one)} for one in self.held]

    async def fetchval(self, query: str, *_: object) -> bool:
        self._note(query)
        self.silent -= 1
        return self.silent >= 0


@contextlib.contextmanager
def clock_of(postgres: FakePostgres) -> Iterator[list[float]]:
    """Have gateways ask that PostgreSQL, by a clock that stands still."""
    now = [0.0]
    ours: Any = name_holds
    before = ours.open_connection, ours._clock, ours.LOOK_S
    ours.open_connection, ours._clock, ours.LOOK_S = postgres.connect, lambda: now[0], 0.001
    try:
        yield now
    finally:
        ours.open_connection, ours._clock, ours.LOOK_S = before


@contextlib.asynccontextmanager
async def joined(postgres: FakePostgres) -> AsyncIterator[tuple[NameHolds, Keeper, list[float]]]:
    with clock_of(postgres) as now:
        keeper = Keeper()
        names = NameHolds("", "one", keeper)
        await names.start()
        try:
            yield names, keeper, now
        finally:
            await names.leave()


async def test_it_knows_nothing_when_it_begins_to_listen() -> None:
    async with joined(FakePostgres()) as (names, keeper, _):
        assert keeper.forgot == 1
        assert set(names.others) == {"other"}


async def test_a_change_waits_for_other_changes_and_for_the_others() -> None:
    postgres = FakePostgres()
    async with joined(postgres) as (names, _, _):
        postgres.held = [change(T)]
        assert await names.take_turn(change(T), asyncio.get_running_loop().time() + 0.02) is None
        postgres.held = []
        turn = await names.take_turn(change(T), soon())
        assert turn is not None
        postgres.silent = 3
        assert await turn.wait_for_others(soon())
        assert postgres.silent == -1, "asked until nobody was missing"


async def test_after_a_pause_nothing_counts() -> None:
    async with joined(FakePostgres()) as (names, keeper, now):
        now[0] += LEASE_S + 1
        assert names.stood_still()
        assert names.may_be_overtaken()
        async with asyncio.timeout(patience()):
            assert await names.until_awake(soon())
        assert (keeper.forgot, keeper.overtaken) == (2, 1)


async def test_who_is_cut_off_forgets_and_changes_nothing() -> None:
    postgres = FakePostgres()
    async with joined(postgres) as (names, keeper, now):
        postgres.down = True
        with pytest.raises(BackendUnavailable):
            await names.take_turn(change(T), soon())
        for _ in range(3):
            now[0] += LEASE_S - 1
            async with asyncio.timeout(patience()):
                while names.connected or names._looked_at < now[0]:  # noqa: ASYNC110 - no event tells of it
                    await asyncio.sleep(0.001)
        before = keeper.forgot
        await keeper.until(lambda: keeper.forgot > before)
        assert keeper.overtaken == 0, "it did not stand still"


async def test_what_is_told_is_bounded() -> None:
    names = NameHolds("", "one", Keeper())
    for name in ("t", "x" * MAX_PAYLOAD, "ä" * (MAX_PAYLOAD - 200), "\ud800"):
        names.tell_changed({"changes": [{"tables": [["c", "d", name]], "databases": [], "stays": True}]})
    told = names._untold
    assert [bool(one) for one in told] == [True, False, False, False]
    for _ in range(1000):
        names.tell_changed({"changes": []})
    assert len(names._untold) <= name_holds.MAX_NAMES
