"""Whose a table of files is, before a PostgreSQL that is not played."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
import pytest

from gateway.app.files import dataset_owners
from gateway.files import store
from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.principal import Principal
from gateway.settings.files import FileSourceSettings
from tests.files.played import ALICE, EVENTS, LAKE, RIGHTS, PlayedSpark, promoter

TABLE = Table(name=EVENTS, kind=TableKind.TABLE, columns=(), location="s3a://b/raw/events")


async def nobody_asked(_: Table) -> str | None:
    raise AssertionError("a table of files was taken for another")


async def owner(dsn: str, table: Table, *users: Principal) -> str | None:
    source = FileSourceSettings(root="s3a://b/").make_source("lake")
    settings = cast(Any, SimpleNamespace(file_sources=lambda: (source,)))
    named = {one.user: one for one in users}
    return await dataset_owners(settings, dsn, nobody_asked, named.get)(table)


async def test_a_table_is_whoever_promoted_it_last(database: str) -> None:
    spark = PlayedSpark()
    for user in ("alice", "carl"):
        assert await promoter(spark, database).promote(EVENTS, replace(ALICE, user=user), RIGHTS) is None
        assert await owner(database, TABLE) == user
        spark.tables.clear()


async def test_a_table_whose_promotion_was_cut_is_nobodys(database: str) -> None:
    assert await promoter(PlayedSpark(), database).promote(EVENTS, ALICE, RIGHTS) is None
    connection = await asyncpg.connect(database)
    await store.begin(connection, "lake", "raw/events", EVENTS, "s3a://b/raw/events", "bob")
    assert await owner(database, TABLE) is None
    assert await store.end(connection, EVENTS)
    await connection.close()
    assert await owner(database, TABLE) == "alice"


@pytest.mark.parametrize("location", ["s3a://b/raw/salaries", "s3a://b/raw", None])
async def test_what_took_the_name_of_files_is_not_their_promoters(
    database: str, location: str | None
) -> None:
    assert await promoter(PlayedSpark(), database).promote(EVENTS, ALICE, RIGHTS) is None
    assert await owner(database, replace(TABLE, location=location)) is None
    other = TableName("spark_catalog", "lake", "renamed")
    assert await owner(database, replace(TABLE, name=other)) is None


@pytest.mark.parametrize(("then", "now"), [("5d1f", "77aa"), ("5d1f", ""), ("", "77aa")])
async def test_it_is_not_of_who_has_its_promoters_name_by_now(database: str, then: str, now: str) -> None:
    first, second = replace(ALICE, id=then), replace(ALICE, id=now)
    promotion = promoter(PlayedSpark(), database, replace(LAKE, closed=True))
    assert await promotion.promote(EVENTS, first, RIGHTS) is None
    assert await owner(database, TABLE, second) not in (ALICE.user, None)
    assert await owner(database, TABLE, first) == await owner(database, TABLE) == ALICE.user
    assert "only the user who promoted" in str(await promotion.maintain_dataset("forget", EVENTS, second))
    assert await promotion.maintain_dataset("forget", EVENTS, first) is None
