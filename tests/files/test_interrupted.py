"""A promotion is cut at every point where it waits: whoever comes next puts right what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable
from gateway.files import store
from gateway.files.promotion import Promoter
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.session.ports import BackendError
from tests.files.played import ALICE, EVENTS, LAKE, RIGHTS, PlayedSpark, kept, promoter

BOB = replace(ALICE, user="bob")


class Killed(BaseException):
    """Nothing runs any more."""


class Cut:
    """Counts the points at which a promotion waits for somebody, and cuts it at one of them."""

    def __init__(self, dsn: str, at: int, how: str, *, done: bool) -> None:
        """`done`: what was waited for has had its effect by then."""
        self.at, self.how, self.done, self.seen = at, how, done, 0
        self._dsn = dsn
        self._dead = False
        self.task: asyncio.Task[Any] | None = None

    async def step(self, effect: Callable[[], Awaitable[Any]]) -> Any:
        if self._dead:
            raise Killed
        self.seen += 1
        is_here = self.seen == self.at
        if is_here and not self.done:
            await self._fail()
        try:
            return await effect()
        finally:
            if is_here and self.done:
                await self._fail()

    async def _fail(self) -> None:
        if self.how in ("killed", "lost"):
            await self._end_connections()
        if self.how == "killed":
            self._dead = True
            raise Killed
        if self.how == "cancelled":
            assert self.task is not None
            self.task.cancel()
            await asyncio.Event().wait()
        if self.how == "away":
            raise BackendUnavailable("away")

    async def _end_connections(self) -> None:
        own = await asyncpg.connect(self._dsn)
        await own.fetch(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await own.close()


class CutSpark:
    """The Spark of somebody who is cut."""

    def __init__(self, spark: PlayedSpark, cut: Cut) -> None:
        self._spark, self._cut = spark, cut

    async def query(self, sql: str, before: str = "", after: str = "") -> Any:
        return await self._cut.step(lambda: self._spark.query(sql, before, after))

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        found: CatalogSnapshot = await self._cut.step(lambda: self._spark.look_up(tables))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


class CutConnection:
    """A connection to PostgreSQL of theirs."""

    def __init__(self, connection: Any, cut: Cut) -> None:
        self._connection, self._cut = connection, cut

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in ("execute", "fetch", "fetchrow", "fetchval"):
            return found
        return lambda *arguments: self._cut.step(lambda: found(*arguments))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        transaction = self._connection.transaction()
        await self._cut.step(transaction.start)
        try:
            yield
        except BaseException:
            await transaction.rollback()
            raise
        await self._cut.step(transaction.commit)


def cut_promoter(spark: PlayedSpark, dsn: str, cut: Cut) -> Promoter:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            yield CutConnection(connection, cut)
        finally:
            await connection.close()

    async def record(*_: object) -> None:
        await cut.step(lambda: asyncio.sleep(0))

    its = CutSpark(spark, cut)
    return Promoter([LAKE], its.query, refusal=BackendError, catalog=its, connect=connect, record=record)


async def promote_and_cut(spark: PlayedSpark, dsn: str, cut: Cut) -> bool:
    """Return whether it came to its end."""
    cut.task = asyncio.create_task(cut_promoter(spark, dsn, cut).promote(EVENTS, ALICE, RIGHTS))
    try:
        return await cut.task is None
    except (BackendUnavailable, asyncio.CancelledError, Killed):
        return False


@pytest.fixture
async def own(database: str) -> str:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.close()
    return database


async def clear(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("TRUNCATE sluice.dataset, sluice.dataset_begun")
    await connection.close()


async def state(dsn: str) -> tuple[bool, bool]:
    """Return whether there is a finished dataset, and whether a promotion has begun."""
    connection = await asyncpg.connect(dsn)
    found = (
        await store.find_finished(connection, EVENTS),
        await store.find_unfinished_promotion_url(connection, EVENTS),
    )
    await connection.close()
    return found[0] is not None, found[1] is not None


async def points(dsn: str, begin: Callable[[], Awaitable[PlayedSpark]]) -> int:
    cut = Cut(dsn, 0, "", done=False)
    assert await promote_and_cut(await begin(), dsn, cut)
    await clear(dsn)
    return cut.seen


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("how", ["cancelled", "away", "lost", "killed"])
async def test_a_promotion_that_is_cut_anywhere_is_put_right_by_the_next_one(
    own: str, how: str, done: bool
) -> None:
    async def begin() -> PlayedSpark:
        return PlayedSpark()

    left = set()
    for at in range(1, await points(own, begin) + 1):
        spark = await begin()
        ended = await promote_and_cut(spark, own, Cut(own, at, how, done=done))
        is_finished, has_begun = await state(own)
        is_there = EVENTS in spark.tables
        left.add((is_there, is_finished, has_begun))
        assert not ended or (is_there, is_finished, has_begun) == (True, True, False), at
        assert not is_finished or is_there, at
        next_one = promoter(spark, own)
        if is_there and not is_finished:
            assert await next_one.is_unfinished(EVENTS), f"nobody knows at {at} that it is half made"
        if not is_finished:
            assert await next_one.promote(EVENTS, BOB, RIGHTS) is None, at
        assert await next_one.maintain_dataset("promote", EVENTS, BOB) is None, at
        assert (EVENTS in spark.tables, await state(own)) == (True, (True, False)), at
        assert await kept(own) == [("lake", "raw/events", "alice" if is_finished else "bob")], at
        await clear(own)
    assert (True, False, True) in left, "it is never cut between the table and its row"


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("how", ["cancelled", "killed"])
async def test_a_promotion_that_is_cut_anywhere_is_forgotten(own: str, how: str) -> None:
    async def begin() -> PlayedSpark:
        return PlayedSpark()

    for at in range(1, await points(own, begin) + 1):
        spark = await begin()
        await promote_and_cut(spark, own, Cut(own, at, how, done=True))
        # Once it is finished it is its promoter's.
        user = ALICE if (await state(own))[0] else BOB
        forgotten = await promoter(spark, own).maintain_dataset("forget", EVENTS, user)
        assert forgotten is None or not spark.tables, at
        assert (spark.tables, await state(own)) == ({}, (False, False)), at
        other = replace(EVENTS, table="raw")
        assert await promoter(spark, own).promote(other, BOB, RIGHTS) is None, "its place is free"
        await clear(own)


async def test_what_spark_makes_after_all_is_made_anew(own: str) -> None:
    """The statement is cut, and Spark goes on with it until the next one asks for the same."""
    spark = PlayedSpark()
    cut = Cut(own, 0, "cancelled", done=False)
    query, late = spark.query, list[str]()

    async def cutting(sql: str, before: str = "", after: str = "") -> Any:
        if sql.startswith("CREATE TABLE"):
            late.append(sql)
            await cut._fail()
        return await query(sql, before, after)

    spark.query = cutting  # type: ignore[method-assign]
    assert not await promote_and_cut(spark, own, cut)

    async def landing(sql: str, before: str = "", after: str = "") -> Any:
        if sql.startswith("CREATE TABLE") and late:
            await query(late.pop())
        return await query(sql, before, after)

    spark.query = landing  # type: ignore[method-assign]
    assert await promoter(spark, own).promote(EVENTS, BOB, RIGHTS) is None
    assert await kept(own) == [("lake", "raw/events", "bob")]
    assert spark.asked.count("DROP TABLE IF EXISTS `spark_catalog`.`lake`.`raw__events`") == 1
