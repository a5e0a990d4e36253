"""Keys of a fleet: whichever gateway asks first, all of them have the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.database import fleet_keys
from gateway.database.fleet_keys import KEY_BYTES, FleetKey
from gateway.errors import BackendUnavailable


async def test_all_gateways_have_one_key_for_a_name(database: str) -> None:
    keys = await asyncio.gather(*(FleetKey(database, "a").read() for _ in range(5)))
    assert len(set(keys)) == 1
    assert len(keys[0]) == KEY_BYTES
    other = FleetKey(database, "b")
    assert await other.read() == await other.read() != keys[0]


async def test_a_database_that_is_away_gives_none_and_is_asked_again(tmp_path: object) -> None:
    key = FleetKey(f"postgresql:///x?host={tmp_path}", "a")
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await key.read()


async def test_a_silent_database_is_asked_once_for_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each would wait for its own answer after those of all before, and hold its place meanwhile."""
    monkeypatch.setattr(fleet_keys, "ANSWER_S", 0.2)
    asked: list[asyncio.StreamWriter] = []
    server = await asyncio.start_unix_server(
        lambda _, writer: asked.append(writer), path=tmp_path / ".s.PGSQL.5432"
    )
    async with server:
        key = FleetKey(f"postgresql:///x?host={tmp_path}", "a")
        for times in (1, 2):
            found = await asyncio.gather(*(key.read() for _ in range(20)), return_exceptions=True)
            assert {type(one) for one in found} == {BackendUnavailable}
            assert len(asked) == times
        # Who leaves meanwhile takes nothing from the others.
        one, other = asyncio.create_task(key.read()), asyncio.create_task(key.read())
        await asyncio.sleep(0)
        one.cancel()
        with pytest.raises(BackendUnavailable):
            await other
        for writer in asked:
            writer.close()
