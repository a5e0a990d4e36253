"""What one gateway does to a table of files, the others know at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from gateway.errors import BackendUnavailable
from gateway.files import store
from gateway.files.listening import Listening
from gateway.model.catalog import TableName
from gateway.model.changed_names import NOBODY
from tests.files.played import ALICE, EVENTS, LAKE, RIGHTS, PlayedSpark, promoter

ALL: tuple[list[TableName], list[tuple[str, str]]] = ([], [("spark_catalog", "lake")])
ONE: tuple[list[TableName], list[tuple[str, str]]] = ([EVENTS], [])


class Forgetful(PlayedSpark):
    """Another gateway's catalog, which notes what it is told to forget."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.told: asyncio.Queue[Any] = asyncio.Queue()

    def forget_all(self) -> None: ...

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        self.told.put_nowait((list(tables), list(databases)))


async def test_other_gateways_hear_of_what_is_made_and_forgotten(database: str) -> None:
    catalog, opened = Forgetful(), list[Any]()

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        if len(opened) == 1:
            opened.append(None)
            raise BackendUnavailable("away")
        connection = await asyncpg.connect(database)
        opened.append(connection)
        try:
            yield connection
        finally:
            await connection.close()

    listening = asyncio.create_task(Listening([LAKE], catalog, connect).run())
    try:
        assert await catalog.told.get() == ALL, "what was known before it began to listen"
        assert await promoter(PlayedSpark(), database).promote(EVENTS, ALICE, RIGHTS) is None
        assert await catalog.told.get() == ONE
        other = await asyncpg.connect(database)
        async with other.transaction():
            await store.forget(other, EVENTS)
            assert catalog.told.empty(), "not before it is so"
        assert await catalog.told.get() == ONE
        await other.execute("SELECT pg_terminate_backend($1)", opened[0].get_server_pid())
        # Nothing is known for longer than a moment until it listens again.
        assert [await catalog.told.get() for _ in range(3)] == [ALL] * 3
        await store.forget(other, EVENTS)
        assert await catalog.told.get() == ONE
        await other.close()
    finally:
        listening.cancel()
