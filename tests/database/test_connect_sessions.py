"""Which Spark has a session, in PostgreSQL: of many gateways that bind one at once, one has bound it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.database.connect_sessions import ConnectSessionStore
from gateway.errors import BackendUnavailable
from gateway.model.sparks import BoundSession

KEY = ("dana", "11111111-2222-4333-8444-555555555555")


@pytest.fixture
async def stores(database: str) -> AsyncIterator[list[ConnectSessionStore]]:
    found = [ConnectSessionStore(database) for _ in range(3)]
    yield found
    for store in found:
        await store.close()


async def test_who_binds_first_has_bound_it_for_all(stores: list[ConnectSessionStore]) -> None:
    one, two, three = stores
    assert await one.find(KEY) is None
    bound = await asyncio.gather(
        *(store.bind(KEY, name) for name, store in zip("abc" * 4, stores * 4, strict=True))
    )
    assert len(set(bound)) == 1
    (winner,) = set(bound)
    assert winner == await three.find(KEY) == BoundSession(winner.backend, is_open=False)
    loser = next(name for name in "abc" if name != winner.backend)
    assert not await one.confirm(KEY, loser)
    assert not await one.give_up(KEY, loser)
    # Of a confirmation and a move at the same time one counts.
    confirmed, moved = await asyncio.gather(
        two.confirm(KEY, winner.backend), three.give_up(KEY, winner.backend)
    )
    assert confirmed != moved
    assert (await one.find(KEY)) == (None if moved else BoundSession(winner.backend, is_open=True))


async def test_an_open_one_is_not_moved_and_a_released_one_is_free(
    stores: list[ConnectSessionStore],
) -> None:
    one, two, _ = stores
    await one.bind(KEY, "a")
    assert await one.confirm(KEY, "a")
    assert not await two.give_up(KEY, "a")
    assert await two.bind(KEY, "b") == BoundSession("a", is_open=True)
    assert await two.find(("eva", KEY[1])) is None
    await two.touch([KEY, ("eva", KEY[1])])
    assert await one.find(KEY) is not None
    await two.forget(KEY)
    assert await one.bind(KEY, "b") == BoundSession("b", is_open=False)
    # One whose client went while it was opened does not stay for days.
    opened = ("eva", KEY[1])
    await one.bind(opened, "a")
    await one.confirm(opened, "a")
    await one._ask("UPDATE sluice.connect_session SET seen_at = seen_at - interval '2 hours'")
    await two.touch([])
    assert await one.find(KEY) is None
    assert await one.find(opened) is not None


async def test_without_postgresql_nobody_is_bound(unused_tcp_port: int) -> None:
    store = ConnectSessionStore(f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none")
    with pytest.raises(BackendUnavailable, match="open sessions go on"):
        await store.bind(KEY, "a")
    with pytest.raises(BackendUnavailable, match="user's name"):
        await store.find(("da\0na", KEY[1]))
    await store.close()
