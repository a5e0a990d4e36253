"""Iceberg's `t.branch_b`, `t.tag_x`, `t.changes` …: read as the version that they name, with its guards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import CHANGES, Column
from gateway.model.statement import Cleared, Refused, Verdict
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_kept import execute
from tests.plan.frames import sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = """\
service: spark
people: {ann: {groups: [staff]}, ben: {groups: [guests]}, eve: {groups: [few]}}
policies:
  - name: all
    on:
      - {catalog: "*", database: "*", table: "*", column: "*"}
      - {catalog: "*", database: "*"}
    allow: [{groups: [staff, guests], access: [all]}]
  - name: rows
    on: {catalog: lake, database: shop, table: person}
    filter: [{groups: [guests], where: "id = 7"}]
  - name: names
    on: {catalog: lake, database: shop, table: person, column: name}
    mask: [{groups: [guests], type: MASK_NULL}]
"""
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog", "lake"],
    "tables": {"lake.shop.person": {"id": "int", "name": "string"}, "lake.shop.plain": {"id": "int"}},
    "views": {},
    "pack": PACK,
    "people": {"ann": {"groups": ["staff"]}, "ben": {"groups": ["guests"]}, "eve": {"groups": ["few"]}},
}
VERSIONS = {
    "branch_work": "VERSION AS OF 'work'",
    "`branch_au-dit`": "VERSION AS OF 'au-dit'",
    "tag_first": "VERSION AS OF 'first'",
    "snapshot_id_77": "VERSION AS OF 77",
    "at_timestamp_1700000000000": "TIMESTAMP AS OF timestamp_millis(1700000000000)",
}


def world(provider: str = "iceberg", *, shadowed: bool = False) -> World:
    made = World(DATA)
    for name, one in list(made.tables.items()):
        now = replace(one, provider=provider, shadowed=shadowed)
        made.tables[name] = now
        changes = replace(name, version=CHANGES)
        kind = Column(name="_change_type", type="string")
        made.versions[changes] = replace(now, name=changes, columns=(*now.columns, kind))
    return made


async def judged(reader: ReaderPool, text: str, user: str = "ben", **more: Any) -> Verdict:
    return await world(**more).judge(text, reader, user=user)


@pytest.mark.parametrize("name", VERSIONS)
async def test_a_version_by_name_is_read_by_its_clause(reader: ReaderPool, name: str) -> None:
    for user in ("ann", "ben"):
        verdict = await judged(reader, f"SELECT p.id FROM lake.shop.person.{name} AS p WHERE p.id > 1", user)
        assert isinstance(verdict, Cleared), verdict
        assert f"`lake`.`shop`.`person` {VERSIONS[name]}" in verdict.forwarded
        assert (f".{name}" in verdict.forwarded) is False
        assert ("(id = 7)" in verdict.forwarded) is (user == "ben")
    for frame in (sql(f"SELECT * FROM lake.shop.person.{name}"), table(f"lake.shop.person.{name}")):
        assert isinstance(await world().judge_plan(execute(frame), reader, user="ben"), Cleared)


async def test_changes_have_the_guards_of_their_table(reader: ReaderPool) -> None:
    verdict = await judged(reader, "SELECT * FROM lake.shop.person.changes WHERE _change_type = 'DELETE'")
    assert isinstance(verdict, Cleared), verdict
    assert "FROM `lake`.`shop`.`person`.`changes` AS `person` WHERE (id = 7)" in verdict.forwarded
    assert "AS `name`" in verdict.forwarded


async def test_a_view_keeps_the_version_and_not_the_name(reader: ReaderPool) -> None:
    for view in ("TEMPORARY VIEW v", "VIEW spark_catalog.shop.v"):
        text = f"CREATE {view} AS SELECT id FROM lake.shop.plain.branch_work"
        verdict = await judged(reader, text, "ann")
        assert isinstance(verdict, Cleared), verdict
        assert "`plain` VERSION AS OF 'work'" in verdict.forwarded


REFUSED = (
    "SELECT * FROM lake.shop.person.branch_work VERSION AS OF 'x'",
    "SELECT * FROM lake.shop.person.changes TIMESTAMP AS OF '2026-01-01'",
    "SELECT * FROM lake.shop.person.branch_7",
    "SELECT * FROM lake.shop.person.`branch_a'b`",
    "SELECT * FROM lake.shop.person.`branch_a b`",
    "SELECT * FROM lake.shop.person.branch_work.files",
    "SELECT * FROM lake.shop.person.BRANCH_work",
    "SELECT * FROM lake.shop.person.rewrite",
    "SELECT * FROM spark_catalog.shop.person.branch_work",
    "INSERT INTO lake.shop.person.changes VALUES (1, 'a')",
    "CACHE TABLE lake.shop.person.branch_work",
    "DESCRIBE TABLE lake.shop.person.branch_work",
    "CREATE TABLE lake.shop.person.branch_work (id INT)",
    "CREATE TABLE lake.shop.person.branch_work AS SELECT 1 AS id",
    "CREATE OR REPLACE TABLE lake.shop.person.branch_work (id INT)",
    "CREATE TABLE lake.shop.person.branch_work LIKE lake.shop.plain",
)


@pytest.mark.parametrize("text", REFUSED)
async def test_whatever_else_is_named_below_a_table_is_refused(reader: ReaderPool, text: str) -> None:
    for user in ("ben", "ann"):
        assert isinstance(await judged(reader, text, user), Refused)


async def test_only_iceberg_has_versions_below_and_no_namespace_of_that_name(reader: ReaderPool) -> None:
    for name in ("branch_work", "changes"):
        text = f"SELECT * FROM lake.shop.person.{name}"
        for refused in (
            await judged(reader, text, "ann", provider="delta"),
            await judged(reader, text, "ann", shadowed=True),
        ):
            assert isinstance(refused, Refused)
            assert "is not a version of the table" in refused.message
        nobody = await judged(reader, text, "eve")
        assert isinstance(nobody, Refused)
        missing = await judged(reader, text.replace("person", "none"), "eve")
        assert isinstance(missing, Refused)
        assert missing.message.replace("none", "person") == nobody.message, "nobody learns what is there"


async def test_the_table_s_own_qualifier_does_not_reach_its_version(reader: ReaderPool) -> None:
    verdict = await judged(reader, "SELECT branch_work.id FROM lake.shop.person.branch_work")
    assert isinstance(verdict, Cleared)
    assert ") AS `branch_work`" in verdict.forwarded
