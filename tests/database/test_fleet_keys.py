"""Keys of a fleet: whichever gateway asks first, all of them have the same."""

from __future__ import annotations

import asyncio

import pytest

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
