"""Catalogs that come and go: what a session was not told of as it is now is refused, however it is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.metalakes import ListedCatalogs
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, Refused, SessionContext, Statement, Verdict
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_kept import execute
from tests.plan.frames import sql

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = """\
service: spark
people: {ann: {groups: [staff]}, dan: {groups: [staff]}}
policies:
  - name: all
    on:
      - {catalog: "*"}
      - {catalog: "*", database: "*"}
      - {catalog: "*", database: "*", table: "*"}
      - {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [staff], access: [all]}]
  - name: by another
    on: {catalog: spark_catalog, database: hr, table: filtered}
    filter: [{groups: [staff], where: "id IN (SELECT id FROM grav.shop.person)"}]
"""
VIEW = {
    "text": "SELECT id FROM grav.shop.person",
    "columns": {"id": "int"},
    "database": "hr",
    "output": ["id"],
    "definer": "dan",
}
DATA = {
    "catalogs": ["spark_catalog", "lake"],
    "tables": {
        "grav.shop.person": {"id": "int"},
        "lake.grav.person": {"id": "int"},
        "spark_catalog.hr.plain": {"id": "int"},
        "spark_catalog.hr.filtered": {"id": "int"},
    },
    "views": {"spark_catalog.hr.over": VIEW},
    "people": {"ann": {"groups": ["staff"]}, "dan": {"groups": ["staff"]}},
    "pack": PACK,
}
NOW = ListedCatalogs(revisions={"grav": 7})
GONE = ListedCatalogs(refused={"grav": "which is no more"})
USING = (
    "SELECT * FROM grav.shop.person",
    "SELECT * FROM GRAV.shop.person",
    "SELECT * FROM hr.over",
    "SELECT * FROM hr.filtered",
    "SELECT (SELECT max(id) FROM grav.shop.person)",
    "INSERT INTO grav.shop.person VALUES (1)",
    "CREATE TABLE grav.shop.new (id INT) USING x",
    "CREATE VIEW hr.v AS SELECT id FROM grav.shop.person",
    "DROP TABLE grav.shop.person",
    "DROP NAMESPACE grav.shop",
    "CREATE NAMESPACE grav.new",
    "USE grav.shop",
    "SET CATALOG 'grav'",
    "SHOW TABLES IN grav.shop",
    "SHOW NAMESPACES IN grav",
    "DESCRIBE TABLE grav.shop.person",
    "ALTER TABLE grav.shop.person RENAME TO grav.shop.other",
    "CALL grav.system.rollback_to_snapshot('shop.person', 1)",
)


class ListedWorld(World):
    """A world whose catalog `grav` comes and goes."""

    listed = NOW

    def snapshot(self, missing: frozenset[TableName] = frozenset()) -> Snapshot:
        found = super().snapshot(missing)
        catalogs = found.catalog.catalogs | self.listed.revisions.keys()
        return replace(found, catalog=replace(found.catalog, catalogs=catalogs, listed=self.listed))


async def judged(
    reader: ReaderPool, text: str, listed: ListedCatalogs, told: dict[str, int], **context: Any
) -> Verdict:
    world = ListedWorld(DATA)
    world.listed = listed
    session = SessionContext(**{"namespace": ("hr",), "catalogs": frozenset(told.items()), **context})
    return await world.judge_statement(
        Statement(text=text, principal=world.principal("ann"), context=session), reader
    )


@pytest.mark.parametrize(
    "text", [text for text in USING if not text.startswith(("CREATE TABLE", "CALL", "ALTER"))]
)
async def test_a_session_that_was_told_of_it_uses_it(reader: ReaderPool, text: str) -> None:
    assert isinstance(await judged(reader, text, NOW, {"grav": 7}), Cleared)


@pytest.mark.parametrize(
    ("listed", "told", "why"),
    [
        (NOW, {}, "was added after this session began"),
        (NOW, {"grav": 6}, "has changed since this session began"),
        (GONE, {"grav": 7}, "which is no more"),
        (GONE, {}, "which is no more"),
        (ListedCatalogs(), {"grav": 7}, "has changed since this session began"),
    ],
    ids=["new", "changed", "gone", "gone before", "forgotten"],
)
@pytest.mark.parametrize("text", USING)
async def test_another_session_does_not(
    reader: ReaderPool, text: str, listed: ListedCatalogs, told: dict[str, int], why: str
) -> None:
    verdict = await judged(reader, text, listed, told)
    assert isinstance(verdict, Refused)
    if not text.startswith(("SET CATALOG", "CALL", "CREATE TABLE")):
        assert why in verdict.message


async def test_what_names_nothing_of_it_goes_on(reader: ReaderPool) -> None:
    for listed, told in ((NOW, {}), (GONE, {"grav": 7}), (NOW, {"grav": 6})):
        for text in ("SELECT 1", "SELECT * FROM hr.plain", "USE spark_catalog.hr"):
            assert isinstance(await judged(reader, text, listed, told), Cleared)


@pytest.mark.parametrize("text", ["SELECT * FROM person", "SHOW TABLES", "INSERT INTO person VALUES (1)"])
async def test_the_current_catalog_may_have_gone(reader: ReaderPool, text: str) -> None:
    inside = {"catalog": "grav", "namespace": ("shop",)}
    assert isinstance(await judged(reader, text, NOW, {"grav": 7}, **inside), Cleared)
    for listed in (GONE, ListedCatalogs(revisions={"grav": 8})):
        assert isinstance(await judged(reader, text, listed, {"grav": 7}, **inside), Refused)
        # The way out.
        assert isinstance(
            await judged(reader, "USE spark_catalog.hr", listed, {"grav": 7}, **inside), Cleared
        )


async def test_its_name_is_never_a_database_of_the_current_catalog(reader: ReaderPool) -> None:
    """Spark's session has `grav` as a catalog still: there the text would not be read as it was judged."""
    inside = {"catalog": "lake", "namespace": ("grav",)}
    for listed, told in ((GONE, {"grav": 7}), (NOW, {})):
        verdict = await judged(reader, "SELECT * FROM grav.person", listed, told, **inside)
        assert isinstance(verdict, Refused)
    fine = await judged(reader, "SELECT * FROM grav.person", ListedCatalogs(), {}, **inside)
    assert isinstance(fine, Cleared)


async def test_plans_are_held_to_it_as_well(reader: ReaderPool) -> None:
    world = ListedWorld(DATA)
    plan = execute(sql("SELECT * FROM grav.shop.person"))
    told = await world.judge_plan(plan, reader, user="ann", catalogs=frozenset({("grav", 7)}))
    assert isinstance(told, Cleared)
    other = await world.judge_plan(plan, reader, user="ann")
    assert isinstance(other, Refused)
    assert "was added after this session began" in other.message
