"""The live catalog while catalogs come and go: what it knows of one that changed is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.app.lineage_following import list_catalogs, look_up
from gateway.catalog.live import LiveCatalog
from gateway.errors import BackendUnavailable
from gateway.model.catalog import Table, TableName
from gateway.model.metalakes import ListedCatalogs
from gateway.model.spark_minors import Minor

PERSON = TableName("grav", "shop", "person")
OWN = TableName("spark_catalog", "hr", "employee")


class NoSuch(Exception):
    sqlstate = "42P01"


class World:
    """Spark's answers, and the list."""

    def __init__(self) -> None:
        self.listed = ListedCatalogs(revisions={"grav": 1})
        self.asked: list[str] = []
        self.columns = ("id", "int")
        self.gate: asyncio.Event | None = None
        self.owner: str | None = "olga"
        self.catalog = LiveCatalog(
            self.query, refusal=NoSuch, minor=Minor(3, 5), listed=lambda: self.listed, owners=self.owners
        )

    async def query(self, sql: str) -> Sequence[Sequence[Any]]:
        self.asked.append(sql)
        columns = self.columns
        if self.gate is not None:
            await self.gate.wait()
        if not sql.startswith("DESCRIBE"):
            return [("shop", "person", False)]
        catalog, database, table = sql.removeprefix("DESCRIBE TABLE EXTENDED ").replace("`", "").split(".")
        return [
            (*columns, None),
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Catalog", catalog, ""),
            ("Database", database, ""),
            ("Table", table, ""),
            ("Type", "MANAGED", ""),
            ("Provider", "parquet", ""),
            ("Owner", "spark", ""),
        ]

    async def owners(self, table: Table) -> str | None:
        return self.owner


@pytest.fixture
def world() -> World:
    return World()


async def test_owners_of_listed_catalogs_are_asked_for_elsewhere(world: World) -> None:
    snapshot = await world.catalog.look_up([PERSON, OWN])
    mine, other = snapshot.table(PERSON), snapshot.table(OWN)
    assert mine is not None
    assert other is not None
    assert (mine.owner, other.owner) == ("olga", "spark")
    assert "grav" in snapshot.catalogs


async def test_what_changed_is_forgotten_and_the_rest_is_not(world: World) -> None:
    before = await world.catalog.look_up([PERSON, OWN])
    assert (await world.catalog.look_up([PERSON])).version == before.version
    world.listed = ListedCatalogs(revisions={"grav": 2})
    now = world.catalog.snapshot
    assert now.version > before.version
    assert (now.knows(PERSON), now.knows(OWN)) == (False, True)
    world.columns = ("key", "string")
    table = (await world.catalog.look_up([PERSON])).table(PERSON)
    assert table is not None
    assert table.columns[0].name == "key"


async def test_an_answer_from_before_the_change_does_not_count(world: World) -> None:
    world.gate = asyncio.Event()
    asking = asyncio.create_task(world.catalog.look_up([PERSON]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.asked
    world.listed, world.columns = ListedCatalogs(revisions={"grav": 2}), ("key", "string")
    world.gate.set()
    table = (await asking).table(PERSON)
    assert table is not None
    assert table.columns[0].name == "key"
    assert len(world.asked) == 2


async def test_what_is_refused_is_not_looked_up_and_not_listed(world: World) -> None:
    await world.catalog.look_up([PERSON])
    await world.catalog.list_tables("grav", "shop")
    asked = len(world.asked)
    world.listed = ListedCatalogs(refused={"grav": "which is no more"})
    with pytest.raises(BackendUnavailable, match="no more"):
        await world.catalog.look_up([PERSON])
    assert len(world.asked) == asked
    assert "grav" not in world.catalog.snapshot.catalogs
    # What it was may be looked up again when it is there again, and the lists of before do not count.
    world.listed = ListedCatalogs(revisions={"grav": 3})
    await world.catalog.list_tables("grav", "shop")
    assert len(world.asked) > asked


async def test_too_old_and_back_again_is_the_same_catalog_with_another_version(world: World) -> None:
    usable = world.listed
    first = (await world.catalog.look_up([PERSON])).version
    world.listed = ListedCatalogs(refused={"grav": "which is too old"})
    second = world.catalog.snapshot.version
    world.listed = usable
    third = world.catalog.snapshot.version
    assert first < second < third


async def test_lineage_of_what_was_recorded_before_does_not_wait(world: World) -> None:
    world.listed = ListedCatalogs(refused={"grav": "which is no more"})
    found = await look_up(world.catalog, [PERSON, OWN])
    assert (found.knows(PERSON), found.table(PERSON)) == (True, None)
    assert found.table(OWN) is not None
    assert {"grav", "spark_catalog"} <= list_catalogs(world.catalog)
