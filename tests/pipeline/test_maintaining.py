"""`maintain`: who compacts a table and expires its versions need not read it, nor see all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.app.procedures import load_shipped_procedures
from gateway.model.statement import Cleared, NeedsCatalog, Refused, SessionContext, Statement, Verdict
from gateway.pipeline import Rules, judge
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_kept import command

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = """\
service: spark
people:
  {ann: {groups: [staff]}, ben: {groups: [staff, tenders]}, cat: {groups: [tenders]}, dan: {groups: [barred]},
   own: {groups: [makers]}, eve: {groups: [few]}}
policies:
  - name: all
    on: {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [staff], access: [all]}]
  - name: those who maintain
    on: {catalog: lake, database: shop, table: "*"}
    allow: [{groups: [tenders, barred], access: [maintain]}]
    deny: [{groups: [barred], access: [maintain]}]
  - name: whoever made it maintains it
    on: {catalog: lake, database: shop, table: person}
    allow: [{users: ["{OWNER}"], access: [maintain]}]
  - name: rows
    on: {catalog: lake, database: shop, table: person}
    filter: [{groups: [staff, tenders, makers], where: "id = 7"}]
  - name: names
    on: {catalog: lake, database: shop, table: person, column: name}
    mask: [{groups: [staff, tenders, makers], type: MASK_NULL}]
"""
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog", "lake"],
    "tables": {"lake.shop.person": {"id": "int", "name": "string"}},
    "views": {},
    "pack": PACK,
    "people": {
        "ann": {"groups": ["staff"]},
        "ben": {"groups": ["staff", "tenders"]},
        "cat": {"groups": ["tenders"]},
        "dan": {"groups": ["barred"]},
        "own": {"groups": ["makers"]},
        "eve": {"groups": ["few"]},
    },
}
RULES = Rules(procedures=load_shipped_procedures())


async def judged(reader: ReaderPool, text: str, user: str, *, plan: bool = False) -> Verdict:
    world = World(DATA)
    if plan:
        return await world.judge_plan(command(text), reader, user=user, rules=RULES)
    return await world.judge(text, reader, user=user, rules=RULES)


TENDING = (
    "CALL lake.system.expire_snapshots('shop.person', TIMESTAMP '2026-01-01 00:00:00', 3)",
    "CALL lake.system.rewrite_data_files(table => 'shop.person', strategy => 'binpack')",
    "CALL lake.system.rewrite_data_files(table => 'shop.person', where => NULL)",
    "CALL lake.system.rewrite_manifests('lake.shop.person')",
    "CALL lake.sys.compact('shop.person')",
    "CALL lake.sys.expire_snapshots(table => 'shop.person', retain_max => 3)",
)


@pytest.mark.parametrize("text", TENDING)
async def test_masks_and_filters_do_not_hinder_who_has_it_by_name(reader: ReaderPool, text: str) -> None:
    for user in ("ben", "cat"):
        for plan in (False, True):
            verdict = await judged(reader, text, user, plan=plan)
            assert isinstance(verdict, Cleared), (user, verdict)
            assert {one.request.access for one in verdict.decisions} == {"maintain"}
    obliged = await judged(reader, text, "ann")
    assert isinstance(obliged, Refused)
    assert "a row filter, column mask or hidden column" in obliged.message
    for user in ("dan", "eve"):
        assert isinstance(await judged(reader, text, user), Refused)


TELLING = (
    "CALL lake.system.rewrite_data_files(table => 'shop.person', where => 'id = 8')",
    "CALL lake.system.rewrite_data_files(table => 'shop.person', sort_order => 'name')",
    "CALL lake.system.expire_snapshots(table => 'shop.person', snapshot_ids => array(7))",
    "CALL lake.system.remove_orphan_files('shop.person')",
    "CALL lake.system.ancestors_of('shop.person')",
    "CALL lake.system.rollback_to_snapshot('shop.person', 7)",
    "CALL lake.system.compute_table_stats('shop.person')",
    "CALL lake.sys.compact(table => 'shop.person', order_strategy => 'zorder', order_by => 'name')",
    "CALL lake.sys.expire_partitions('shop.person', '1 d', 'yyyy')",
    "SELECT id FROM lake.shop.person",
    "DELETE FROM lake.shop.person",
    "ALTER TABLE lake.shop.person SET TBLPROPERTIES ('user.a' = 'b')",
    "SELECT * FROM lake.shop.person.files",
)


@pytest.mark.parametrize("text", TELLING)
async def test_it_is_no_access_to_anything_else(reader: ReaderPool, text: str) -> None:
    assert isinstance(await judged(reader, text, "cat"), Refused)


async def test_the_owner_is_looked_up_where_it_counts(reader: ReaderPool) -> None:
    world = World(DATA)
    (name,) = world.tables
    world.tables[name] = replace(world.tables[name], owner="own")
    known = world.snapshot()
    unknown = replace(known, catalog=replace(known.catalog, tables={}))
    for text in TENDING:
        statement = Statement(text=text, principal=world.principal("own"), context=SessionContext())
        assert isinstance(await judge(statement, unknown, reader, RULES), NeedsCatalog)
        assert isinstance(await judge(statement, known, reader, RULES), Cleared)
    assert isinstance(await judged(reader, TENDING[0], "own"), Refused), "somebody else made it"


async def test_a_table_that_is_not_there_is_not_maintained(reader: ReaderPool) -> None:
    verdict = await judged(reader, "CALL lake.system.rewrite_manifests('shop.none')", "cat")
    assert isinstance(verdict, Refused)
