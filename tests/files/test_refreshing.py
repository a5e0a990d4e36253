"""Datasets are looked at again by themselves: one after the other, by one of all gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from gateway.app.state_metrics import StateCollector, dataset_gauges
from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable
from gateway.files.keeping import Keeper
from gateway.files.refreshing import Refreshing
from gateway.files.store import datasets, only_one_looks
from gateway.files.walk_results import no_tables
from gateway.files.walking import Walking
from gateway.model.catalog import TableName
from gateway.session.ports import BackendError
from tests.files.played import ALICE, EVENTS, LAKE, RIGHTS, PlayedSpark, promoter

OTHER = TableName("spark_catalog", "lake", "raw__others")
MORE = (("parquet", 4, 400, "CD", "s3a://b/raw/events/b.parquet"),)
EVERY = replace(LAKE, refresh_s=60.0)


def refreshing(spark: PlayedSpark, dsn: str, source: Any = EVERY) -> Refreshing:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            yield connection
        finally:
            await connection.close()

    keeper = Keeper([source], spark.query, refusal=BackendError, catalog=spark)
    return Refreshing([source], keeper, Walking(spark.query, BackendError), connect)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(database)
    yield opened
    await opened.close()


async def promoted(database: str, *names: TableName) -> PlayedSpark:
    spark = PlayedSpark()
    for name in names:
        assert await promoter(spark, database).promote(name, ALICE, RIGHTS) is None
    return spark


async def pass_time(connection: Any, seconds: float, table: str) -> None:
    await connection.execute(
        "UPDATE sluice.dataset SET looked_at = looked_at - make_interval(secs => $1) WHERE table_name = $2",
        seconds,
        table,
    )


async def findings(connection: Any) -> dict[str, str]:
    return {row["table_name"]: row["finding"] for row in await datasets(connection)}


async def test_what_was_looked_at_for_longest_ago_comes_first(database: str, connection: Any) -> None:
    spark = await promoted(database, EVENTS, OTHER)
    mine = refreshing(spark, database)
    assert not await mine.look(), "nothing is due yet"
    await pass_time(connection, 100, EVENTS.table)
    await pass_time(connection, 200, OTHER.table)
    spark.kinds, spark.type = MORE, "bigint"
    assert await mine.look()
    assert await findings(connection) == {
        EVENTS.table: "",
        OTHER.table: "~ c0 int → bigint; ~ c1 int → bigint",
    }
    assert await mine.look()
    assert not await mine.look()
    assert all((await findings(connection)).values())


async def test_what_was_found_goes_when_it_is_so_no_more(database: str, connection: Any) -> None:
    spark = await promoted(database, EVENTS)
    mine = refreshing(spark, database)
    kinds, spark.kinds = spark.kinds, ()
    await pass_time(connection, 100, EVENTS.table)
    assert await mine.look()
    assert "no longer be a table" in (await findings(connection))[EVENTS.table]
    spark.kinds = kinds
    await pass_time(connection, 100, EVENTS.table)
    assert await mine.look()
    assert await findings(connection) == {EVENTS.table: ""}


async def test_a_source_that_does_not_want_it_is_left_alone(database: str, connection: Any) -> None:
    spark = await promoted(database, EVENTS)
    await pass_time(connection, 1e6, EVENTS.table)
    spark.asked.clear()
    assert not await refreshing(spark, database, replace(LAKE, refresh_s=0.0)).look()
    await refreshing(spark, database, replace(LAKE, refresh_s=0.0)).run()
    assert spark.asked == []


async def test_one_of_all_gateways_looks(database: str, connection: Any) -> None:
    spark = await promoted(database, EVENTS, OTHER)
    await pass_time(connection, 100, EVENTS.table)
    await pass_time(connection, 100, OTHER.table)
    began, go_on = asyncio.Event(), asyncio.Event()
    query = spark.query

    async def waiting(sql: str, before: str = "", after: str = "") -> Any:
        began.set()
        await go_on.wait()
        return await query(sql, before, after)

    spark.query = waiting  # type: ignore[method-assign]
    first = asyncio.create_task(refreshing(spark, database).look())
    await began.wait()
    assert not await refreshing(spark, database).look()
    go_on.set()
    assert await first
    assert await refreshing(spark, database).look()


async def test_it_goes_on_after_spark_was_away(database: str, connection: Any) -> None:
    spark = await promoted(database, EVENTS)
    await pass_time(connection, 1e6, EVENTS.table)
    query, asked = spark.query, asyncio.Event()
    fails = [True]

    async def away(sql: str, before: str = "", after: str = "") -> Any:
        if fails.pop() if fails else False:
            raise BackendUnavailable("away")
        asked.set()
        return await query(sql, before, after)

    spark.query = away  # type: ignore[method-assign]
    task = asyncio.create_task(refreshing(spark, database, replace(LAKE, refresh_s=0.04)).run())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_sources_are_walked_by_one_of_all_gateways(
    database: str, connection: Any, tmp_path: Any
) -> None:
    await migrate(connection)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text("a,b\n")
    source = replace(EVERY, root=f"file:{tmp_path}")
    mine = refreshing(PlayedSpark(), database, source)
    async with only_one_looks(connection) as first:
        assert first
        assert not await mine.walk(), "another is at it"
    assert await mine.walk()
    assert not await mine.walk(), "it is not due"
    assert not await refreshing(PlayedSpark(), database, source).walk()
    assert await no_tables(connection, source) == {"raw": 1}
    assert not await refreshing(PlayedSpark(), database, replace(source, walk=0)).walk()


async def test_what_walks_found_is_counted_and_what_failed_is_told(
    database: str, connection: Any, tmp_path: Any
) -> None:
    await promoted(database, EVENTS)
    (tmp_path / "raw").mkdir()
    for name in ("events", "new"):
        (tmp_path / "raw" / name).mkdir()
        (tmp_path / "raw" / name / "a.csv").write_text("a,b\n")
    source = replace(EVERY, root=f"file:{tmp_path}")
    mine = refreshing(PlayedSpark(), database, source)

    async def counted() -> tuple[float | None, ...]:
        assert await mine.walk()
        await mine.count()
        registry = CollectorRegistry()
        registry.register(StateCollector(lambda: dataset_gauges(mine)))
        names = ("sluice_source_found", "sluice_source_walk_trouble", "sluice_datasets_changed")
        return tuple(registry.get_sample_value(name, {"source": "lake"}) for name in names)

    assert await counted() == (1, 0, 0)
    await connection.execute("UPDATE sluice.source_walk SET walked_at = walked_at - interval '61 s'")
    await pass_time(connection, 100, EVENTS.table)
    assert await mine.look(), "its source has another root than the table was made at"
    tmp_path.rename(tmp_path.with_name("moved"))
    assert await counted() == (1, 1, 1)
    assert [walk.trouble for walk in mine.walks] == ["its root is missing"]
