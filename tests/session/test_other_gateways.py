"""Names that gateways hold for each other: a change in one waits for those who use them in another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableName
from gateway.model.statement import CatalogChanged
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks, HeldLocks, LockRequest
from gateway.session.other_gateways import NamesForOthers
from tests.session.fakes import FakeCatalog
from tests.speed import patience

T = TableName("c", "d", "t")
KEY = ("c", "d", "t")
READS = LockRequest(shared=frozenset({KEY, KEY[:2]}), read_only=True)
WRITES = LockRequest(shared=frozenset({KEY, KEY[:2]}))
CHANGES = LockRequest(
    exclusive=frozenset({KEY}), shared=frozenset({KEY[:2]}), changes=(CatalogChanged((T,)),)
)
STAYS = LockRequest(shared=frozenset({KEY}), changes=(CatalogChanged((T,), meaning="stays"),))


class Other:
    """Another gateway, without a PostgreSQL between."""

    def __init__(self) -> None:
        self.catalog = FakeCatalog()
        self.locks = CatalogLocks(self.catalog, SessionLimits(overtake_s=1000))
        self.names = NamesForOthers({"": self.locks}.get, lambda: [self.locks])
        self.still = False
        self.awake = asyncio.Event()
        self.away = False
        self.busy = False
        self.told: list[Any] = []
        self.turns = 0

    def stood_still(self) -> bool:
        return self.still

    def may_be_overtaken(self) -> bool:
        return self.still

    async def until_awake(self, until: float) -> bool:
        await self.awake.wait()
        return not self.still

    async def take_turn(self, names: Mapping[str, Any], until: float) -> OneTurn | None:
        if self.away:
            raise BackendUnavailable("away")
        if self.busy:
            return None
        self.turns += 1
        return OneTurn(self, json.loads(json.dumps(names)))

    def tell_changed(self, names: Mapping[str, Any]) -> None:
        self.told.append(json.loads(json.dumps(names)))
        self.names.note_changed(self.told[-1])


class OneTurn:
    waited = False

    def __init__(self, other: Other, names: Mapping[str, Any]) -> None:
        self._other = other
        self._holding = asyncio.ensure_future(other.names.hold(names))

    async def wait_for_others(self, until: float) -> bool:
        await self._holding
        return True

    def end(self) -> None:
        self._other.turns -= 1
        if self._holding.done():
            self._holding.result().release()
        self._holding.cancel()


def two() -> tuple[CatalogLocks, Other]:
    other = Other()
    here = CatalogLocks(FakeCatalog(), SessionLimits(overtake_s=1000))
    here.others = other
    return here, other


def soon() -> float:
    return asyncio.get_running_loop().time() + patience()


async def acquired(locks: CatalogLocks, request: LockRequest) -> HeldLocks:
    hold = await locks.acquire(request, until=soon())
    assert hold is not None
    return hold


@pytest.mark.parametrize("request_", [READS, WRITES])
async def test_a_change_waits_for_who_uses_its_names_in_another_gateway(request_: LockRequest) -> None:
    here, other = two()
    used = await acquired(other.locks, request_)
    changing = asyncio.ensure_future(here.acquire(CHANGES, until=soon()))
    before = other.catalog.changed_names.generation
    for _ in range(20):
        await asyncio.sleep(0)
    assert not changing.done()
    used.release()
    change = await changing
    assert change is not None
    assert other.catalog.changed_names.generation > before, "it forgets before the change is forwarded"
    reading = asyncio.ensure_future(other.locks.acquire(READS, until=soon()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not reading.done()
    before = other.catalog.changed_names.generation
    change.release()
    read = await reading
    assert read is not None
    assert read.waited, "it is judged again"
    assert other.catalog.changed_names.generation > before
    assert other.turns == 0
    assert other.told == []


async def test_who_only_reads_asks_nobody() -> None:
    here, other = two()
    other.away = True
    await acquired(here, READS)
    await acquired(here, WRITES)
    with pytest.raises(BackendUnavailable):
        await here.acquire(CHANGES, until=soon())
    other.away, other.busy = False, True
    assert await here.acquire(CHANGES, until=soon()) is None


async def test_whoever_gives_up_leaves_nothing_behind() -> None:
    here, other = two()
    used = await acquired(other.locks, WRITES)
    changing = asyncio.ensure_future(here.acquire(CHANGES, until=soon()))
    await asyncio.sleep(0.01)
    assert other.turns == 1
    changing.cancel()
    await asyncio.gather(changing, return_exceptions=True)
    own = await acquired(here, WRITES)
    assert await here.acquire(CHANGES, until=asyncio.get_running_loop().time() + 0.01) is None
    assert other.turns == 0
    own.release()
    used.release()
    await acquired(here, CHANGES)


async def test_other_rows_are_told_of_when_they_are_there() -> None:
    here, other = two()
    write = await acquired(here, STAYS)
    assert other.told == []
    before = other.catalog.changed_names.generation
    write.release()
    changes = [{"tables": [list(KEY)], "databases": [], "stays": True}]
    assert other.told == [{"metastore": "", "changes": changes}]
    assert other.catalog.changed_names.since(T, before)


async def test_a_process_that_stood_still_forwards_and_shows_nothing_before_it_is_awake() -> None:
    here, other = two()
    read, write = await acquired(here, READS), await acquired(here, STAYS)
    assert [read.overtaken, write.overtaken] == [False, False]
    other.still = True
    assert [read.overtaken, write.overtaken] == [True, False], "what was written cannot be taken back"
    waiting = asyncio.ensure_future(here.acquire(READS, until=soon()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    other.still = False
    other.awake.set()
    late = await waiting
    assert late is not None
    assert late.waited
    before = late.overtaken
    here.overtake_reads()
    assert (before, late.overtaken) == (False, True)


async def test_it_may_stand_still_while_it_waits_for_names() -> None:
    here, other = two()
    write = await acquired(here, WRITES)
    changing = asyncio.ensure_future(here.acquire(CHANGES, until=soon()))
    await asyncio.sleep(0.01)
    other.still = True
    write.release()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not changing.done()
    other.still = False
    other.awake.set()
    assert await changing is not None


async def test_names_are_held_in_the_metastore_that_they_are_of() -> None:
    here, other = two()
    here.metastore = "another"
    used = await acquired(other.locks, WRITES)
    change = await acquired(here, CHANGES)
    change.release()
    used.release()
    assert other.catalog.invalidated == []
