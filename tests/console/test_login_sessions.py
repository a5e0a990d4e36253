"""Sessions of the console in PostgreSQL: the table has no secret, they end, and one person has so many."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.console.login_sessions import LONGEST_S, MAX_OF_USER, LoginSessions, key_of, new_secret
from gateway.database.migrate import LazyPool
from gateway.model.principal import Principal

ANN = Principal(
    user="ann",
    groups=frozenset({"hr", "it"}),
    roles=frozenset({"r"}),
    attributes=(("region", "APAC"), ("region", "EMEA")),
    id="7",
)


@pytest_asyncio.fixture
async def pool(database: str) -> AsyncIterator[LazyPool]:
    found = LazyPool(database, "test", most=2, timeout_s=60)
    yield found
    found.close()


async def test_a_session_is_found_by_its_secret_alone(pool: LazyPool) -> None:
    sessions, secret = LoginSessions(pool), new_secret()
    await sessions.open(key_of(secret), ANN, "stamp", "10.0.0.1")
    found = await sessions.find(key_of(secret))
    assert found is not None
    assert (found.principal, found.stamp, found.address) == (ANN, "stamp", "10.0.0.1")
    assert await sessions.find(key_of(new_secret())) is None
    async with pool.acquire() as connection:
        rows = await connection.fetch("SELECT * FROM sluice.console_session")
        assert secret not in repr([dict(row) for row in rows])
    await sessions.close(key_of(secret))
    assert await sessions.find(key_of(secret)) is None


async def test_it_ends_when_it_is_idle_or_old(pool: LazyPool) -> None:
    sessions = LoginSessions(pool)
    secrets = [new_secret() for _ in range(3)]
    for one in secrets:
        await sessions.open(key_of(one), ANN, "", "")
    async with pool.acquire() as connection:
        ends = await connection.fetchval("SELECT ends_at - opened_at FROM sluice.console_session LIMIT 1")
        assert ends.total_seconds() == LONGEST_S
        for column, one in (("seen_at", secrets[0]), ("ends_at", secrets[1])):
            text = (
                f"UPDATE sluice.console_session SET {column} = now() - interval '31 minutes' WHERE key = $1"
            )
            await connection.execute(text, key_of(one))
    assert [await sessions.find(key_of(one)) is not None for one in secrets] == [False, False, True]
    assert len(await sessions.list_of("ann")) == 1
    await sessions.open(key_of(new_secret()), ANN, "", "")
    async with pool.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM sluice.console_session") == 3, (
            "the old one went"
        )


async def test_a_request_keeps_it(pool: LazyPool) -> None:
    now = [0.0]
    sessions, secret = LoginSessions(pool, clock=lambda: now[0]), new_secret()
    await sessions.open(key_of(secret), ANN, "", "")
    past = "UPDATE sluice.console_session SET seen_at = now() - interval '29 minutes'"
    async with pool.acquire() as connection:
        await connection.execute(past)
        assert await sessions.find(key_of(secret)) is not None
        fresh = "SELECT seen_at > now() - interval '1 minute' FROM sluice.console_session"
        assert await connection.fetchval(fresh)
        await connection.execute(past)
        await sessions.find(key_of(secret))
        assert not await connection.fetchval(fresh), "the table is not told with every request"
        now[0] = 61.0
        await sessions.find(key_of(secret))
        assert await connection.fetchval(fresh)


async def test_one_person_has_so_many_and_may_end_them(pool: LazyPool) -> None:
    sessions = LoginSessions(pool)
    secrets = [new_secret() for _ in range(MAX_OF_USER + 1)]
    for one in secrets:
        await sessions.open(key_of(one), ANN, "", "")
    assert await sessions.find(key_of(secrets[0])) is None, "the oldest has ended"
    assert len(await sessions.list_of("ann")) == MAX_OF_USER
    zoe = new_secret()
    await sessions.open(key_of(zoe), Principal(user="zoe"), "", "")
    assert await sessions.close_others("ann", key_of(secrets[-1])) == MAX_OF_USER - 1
    assert await sessions.find(key_of(secrets[-1])) is not None
    assert await sessions.find(key_of(zoe)) is not None
