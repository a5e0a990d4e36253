"""Budgets of hours and days that several gateways count together in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gateway.database.limit_use import KEPT_S, LimitUse
from gateway.database.migrate import migrate
from gateway.errors import LimitExceeded
from gateway.session.limit_ports import UseKey
from tests.session.fakes import BOB, CLIENT
from tests.session.test_budgets import Counting, limit, take

DAY = UseKey("small", "bob", "rows_per_day", 1_796_000_400)
OTHER = DAY._replace(subject="ann")


@pytest.fixture
async def runs(database: str) -> AsyncIterator[list[LimitUse]]:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.close()
    made = [LimitUse(database) for _ in range(3)]
    yield made
    for one in made:
        one.close()


async def told(run: LimitUse, **mine: float) -> float:
    key = DAY if "bob" in mine else OTHER
    found = await run.exchange({key: mine["bob" if "bob" in mine else "ann"]})
    assert found is not None
    return found.others.get(key, 0.0)


async def test_each_run_is_told_what_the_others_have_used_whatever_is_sent_twice(
    runs: list[LimitUse],
) -> None:
    one, other, third = runs
    assert await told(one, bob=3) == 0
    for _ in range(3):
        assert await told(other, bob=4.5) == 3
    assert await told(one, bob=2) == 4.5  # late: what was told stays told
    assert await told(third, bob=0) == 7.5
    assert await told(third, ann=0) == 0


async def test_many_at_once_lose_nothing_and_wait_for_nobody(runs: list[LimitUse]) -> None:
    keys = [DAY._replace(subject=f"u{n}") for n in range(50)]

    async def run(table: LimitUse) -> None:
        for used in range(1, 6):
            assert await table.exchange(dict.fromkeys(keys, used)) is not None

    await asyncio.gather(*map(run, runs))
    found = await runs[0].exchange(dict.fromkeys(reversed(keys), 0))
    assert found is not None
    assert set(found.others.values()) == {10.0}


async def test_a_gateway_goes_on_with_what_was_used_before_its_start(runs: list[LimitUse]) -> None:
    before, after = (Counting([limit(statements_per_day=3)], run, wall=0.0) for run in runs[:2])
    for budgets in (before, after):
        await budgets.prepare(BOB, CLIENT)
        take(budgets)
        await budgets.share()
    take(after)
    with pytest.raises(LimitExceeded, match="and 3 are used"):
        take(after)


async def test_what_nobody_counts_by_any_more_is_removed(runs: list[LimitUse], database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        now = int(await connection.fetchval("SELECT extract(epoch FROM now())::bigint"))
        for start in (now, now - KEPT_S - 10):
            await runs[0].exchange({DAY._replace(start=start): 1})
        task = asyncio.create_task(runs[0].run())
        while await connection.fetchval("SELECT count(*) FROM sluice.limit_use") != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        assert await connection.fetchval("SELECT start FROM sluice.limit_use") == now
    finally:
        await connection.close()


async def test_while_postgresql_is_away_nothing_waits_for_it() -> None:
    away = LimitUse("postgresql://nobody@127.0.0.1:1/none")
    loop = asyncio.get_running_loop()
    for _ in range(100):
        assert await away.exchange({DAY: 1}) is None
    budgets = Counting([limit(statements_per_day=3)], away, wall=0.0)
    began = loop.time()
    for _ in range(3):
        await budgets.prepare(BOB, CLIENT)
        take(budgets)
    assert loop.time() - began < 1
    with pytest.raises(LimitExceeded):
        take(budgets)
