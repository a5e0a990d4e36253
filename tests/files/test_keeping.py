"""Datasets are looked at again and forgotten, before a Spark that is played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from gateway.errors import BackendUnavailable, Faults
from gateway.files.keeping import Keeper, drift_of
from gateway.files.looking import UnfitFiles
from gateway.files.store import find
from gateway.files.tables import leaves
from gateway.session.ports import BackendError
from tests.files.played import ALICE, EVENTS, LAKE, RIGHTS, PlayedSpark, kept, promoter

MORE = (("parquet", 4, 400, "CD", "s3a://b/raw/events/b.parquet"),)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(database)
    yield opened
    await opened.close()


def keeper(spark: PlayedSpark, *, learns: bool = False) -> Keeper:
    source = replace(LAKE, schema_learning=learns)
    return Keeper([source], spark.query, refusal=BackendError, catalog=spark)


async def promoted(database: str) -> PlayedSpark:
    spark = PlayedSpark()
    assert await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS) is None
    return spark


async def test_what_has_not_changed_is_left_alone(database: str, connection: Any) -> None:
    spark = await promoted(database)
    found = await keeper(spark).refresh(nullcontext(connection), EVENTS)
    assert not found.is_changed
    assert found.files == (3, 3)


async def test_more_files_of_the_same_columns_are_kept(database: str, connection: Any) -> None:
    spark = await promoted(database)
    spark.kinds = MORE
    found = await keeper(spark).refresh(nullcontext(connection), EVENTS)
    assert (found.is_changed, found.drift, found.files, found.bytes) == (True, (), (3, 4), (300, 400))
    assert spark.made == 1
    again = await keeper(spark).refresh(nullcontext(connection), EVENTS)
    assert not again.is_changed


async def test_other_columns_are_told_until_they_are_learned(database: str, connection: Any) -> None:
    spark = await promoted(database)
    spark.kinds, spark.type = MORE, "bigint"
    for _ in range(2):
        found = await keeper(spark).refresh(nullcontext(connection), EVENTS)
        assert found.drift == ("~ c0 int → bigint", "~ c1 int → bigint")
        assert not found.is_applied
    assert spark.made == 1
    found = await keeper(spark, learns=True).refresh(nullcontext(connection), EVENTS)
    assert found.is_applied
    assert spark.made == 2
    row = await find(connection, EVENTS)
    assert row is not None
    assert '"bigint"' in row["columns"]
    assert (row["files"], row["promoted_by"]) == (4, "alice")


async def test_a_table_of_delta_has_the_columns_of_its_log(database: str, connection: Any) -> None:
    source = replace(LAKE, formats=("delta", "csv"))
    spark = PlayedSpark(marks=("s3a://b/raw/events/_delta_log",))
    assert await promoter(spark, database, source).promote(EVENTS, ALICE, RIGHTS) is None
    spark.kinds, spark.type = MORE, "bigint"
    mine = Keeper([source], spark.query, refusal=BackendError, catalog=spark)
    found = await mine.refresh(nullcontext(connection), EVENTS)
    assert (len(found.drift), found.is_applied, spark.made) == (2, True, 1)
    row = await find(connection, EVENTS)
    assert row is not None
    assert ('"bigint"' in row["columns"], row["finding"]) == (True, "")
    assert not (await mine.refresh(nullcontext(connection), EVENTS)).is_changed
    spark.marks = ()
    with pytest.raises(Faults, match=r"can no longer be a table: `b\.parquet` is none of"):
        await mine.refresh(nullcontext(connection), EVENTS)


async def test_another_format_is_told(database: str, connection: Any) -> None:
    spark = await promoted(database)
    spark.kinds, spark.head = MORE, b"a,b"
    found = await keeper(spark).refresh(nullcontext(connection), EVENTS)
    assert found.drift[0].startswith("~ format parquet {} → csv {")


async def test_what_cannot_be_looked_at_again_is_told(database: str, connection: Any) -> None:
    spark = await promoted(database)

    async def told() -> str:
        with pytest.raises(Faults) as failed:
            await keeper(spark, learns=True).refresh(nullcontext(connection), EVENTS)
        return str(failed.value)

    with pytest.raises(Faults, match="not a table made of files"):
        await keeper(spark).refresh(nullcontext(connection), replace(EVENTS, table="raw__other"))
    with pytest.raises(Faults, match="no source"):
        await Keeper([], spark.query, refusal=BackendError, catalog=spark).refresh(
            nullcontext(connection), EVENTS
        )
    spark.kinds = (("parquet", 10, 1, "", "s3a://b/raw/events/a"),)
    assert "9 files" in await told()
    spark.kinds, spark.columns = MORE, 3
    assert "3 columns" in await told()
    assert spark.tables, "it is left as it was"
    spark.kinds = ()
    assert "no files" in await told()
    spark.kinds = MORE
    spark.tables.clear()
    assert "when it is named" in await told()


def test_columns_differ_by_name_and_type() -> None:
    saved = [("a", "struct<x: int,`y z`:string>"), ("B", "int"), ("c", "date")]
    now = [("A", "struct<x:int,y z:string>"), ("b", "bigint"), ("d", "int")]
    assert drift_of(saved, now) == ("+ d int", "- c date", "~ b int → bigint")
    with pytest.raises(UnfitFiles, match="more fields"):
        drift_of(saved, [("a", "struct<x:int,... 3 more fields>")])


@pytest.mark.parametrize(
    ("type_", "count"),
    [
        ("int", 1),
        ("decimal(10,2)", 1),
        ("struct<a:struct<b:int,c:int>>", 2),
        ("struct<a: struct<b: decimal(10, 2), c: array<int>>, d: string>", 3),
        ("map<string,struct<`x,y`:int,z:int>>", 3),
        ("array<array<struct<a:int>>>", 1),
    ],
)
def test_columns_are_counted_by_what_they_consist_of(type_: str, count: int) -> None:
    assert leaves(type_) == count


async def test_a_table_that_cannot_be_described_any_more_is_forgotten(
    database: str, connection: Any, monkeypatch: Any
) -> None:
    spark = await promoted(database)

    async def refuses(_: Any) -> Any:
        raise BackendUnavailable("Spark refused a catalog look-up")

    monkeypatch.setattr(spark, "look_up", refuses)
    told = "Database: lake\nTable: raw__events\nType: EXTERNAL\nLocation: {}\nProvider: delta"
    asked = "SHOW TABLE EXTENDED IN `spark_catalog`.`lake` LIKE 'raw__events'"
    spark.catalog = {asked: [("lake", "raw__events", False, told.format("s3a://b/else"))]}
    with pytest.raises(Faults, match="was not created from"):
        await keeper(spark).forget(nullcontext(connection), EVENTS)
    spark.catalog = {asked: [("lake", "raw__events", False, told.format("s3a://b/raw/events"))]}
    assert not (await keeper(spark).refresh(nullcontext(connection), EVENTS)).is_changed
    await keeper(spark).forget(nullcontext(connection), EVENTS)
    assert not spark.tables
    assert await kept(database) == []


async def test_forgetting_drops_the_table_unless_it_is_another_by_now(database: str, connection: Any) -> None:
    spark = await promoted(database)
    ours = spark.tables[EVENTS]
    spark.tables[EVENTS] = replace(ours, location="s3a://b/warehouse/own")
    with pytest.raises(Faults, match="was not created from"):
        await keeper(spark).forget(nullcontext(connection), EVENTS)
    assert spark.tables
    spark.tables[EVENTS] = ours
    await keeper(spark).forget(nullcontext(connection), EVENTS)
    assert not spark.tables
    assert await kept(database) == []
    with pytest.raises(Faults, match="not a table made of files"):
        await keeper(spark).forget(nullcontext(connection), EVENTS)
