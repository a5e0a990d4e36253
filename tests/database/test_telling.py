"""What commands say to gateways that run: it is another one now."""

from __future__ import annotations

import asyncio

import asyncpg

from gateway.database.name_holds import CHANGED, EVERYTHING, POLICIES_CHANGED
from gateway.database.telling import tell_names_changed, tell_policies_changed
from tests.speed import patience


async def test_gateways_hear_at_once_of_names_and_policies_that_a_command_has_changed(database: str) -> None:
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    listening = await asyncpg.connect(database)
    for channel in (CHANGED, POLICIES_CHANGED):
        await listening.add_listener(channel, lambda *told: heard.put_nowait((told[2], told[3])))
    try:
        async with asyncio.timeout(patience(5)):
            assert await tell_names_changed(database)
            assert await heard.get() == (CHANGED, EVERYTHING)
            async with listening.transaction():
                await tell_policies_changed(listening)
            assert await heard.get() == (POLICIES_CHANGED, "")
    finally:
        await listening.close()


async def test_without_postgresql_the_command_knows_that_nobody_was_told() -> None:
    assert not await tell_names_changed("postgresql://nobody@127.0.0.1:1/none")
