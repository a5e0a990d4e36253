"""Tables in nested namespaces: their names reach Spark in full, and none is named past another's guards."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.statement import (
    CatalogChanged,
    Cleared,
    Refused,
    SessionContext,
    Statement,
    UseNamespace,
    Verdict,
)
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_kept import execute
from tests.plan.frames import sql

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = """\
service: spark
people: {ann: {groups: [staff]}, ben: {groups: [guests]}, eve: {groups: [few]}, dan: {groups: [staff]}}
policies:
  - name: all
    on:
      - {catalog: "*"}
      - {catalog: "*", database: "*"}
      - {catalog: "*", database: "*", table: "*"}
      - {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [staff, guests], access: [all]}]
  - name: of one namespace
    on: {catalog: lake, database: [a.b, a.b.t, x.t], table: "*", column: "*"}
    allow: [{groups: [few], access: [all]}]
  - name: rows, said of the namespace above
    on: {catalog: lake, database: a, table: person}
    filter: [{groups: [guests], where: "id = 7"}]
  - name: names
    on: {catalog: lake, database: a.b, table: person, column: name}
    mask: [{groups: [guests], type: MASK_NULL}]
  - name: by another
    on: {catalog: lake, database: a.b, table: listed}
    filter: [{groups: [staff], where: "id IN (SELECT id FROM lake.a.b.person)"}]
"""
TABLES = {
    "lake.a.b.person": {"id": "int", "name": "string"},
    "lake.a.b.listed": {"id": "int"},
    "lake.a.b.c.deep": {"id": "int"},
    "lake.x.t": {"id": "int"},
    "lake.x.t.older": {"id": "int"},
    "lake.x.t.plain": {"id": "int"},
    "lake.x.y.t": {"id": "int"},
    "lake.x.y.t.below": {"id": "int"},
    "a.b.person": {"id": "int", "secret": "string"},
}
DATA = {
    "catalogs": ["spark_catalog", "lake", "a"],
    "tables": TABLES,
    "views": {
        "spark_catalog.hr.over": {
            "text": "SELECT id FROM person",
            "columns": {"id": "int"},
            "catalog": "lake",
            "database": "a.b",
            "output": ["id"],
            "definer": "dan",
        },
        "spark_catalog.hr.past": {
            "text": "SELECT id FROM older",
            "columns": {"id": "int"},
            "catalog": "lake",
            "database": "x.t",
            "output": ["id"],
            "definer": "dan",
        },
    },
    "people": {"ann": {"groups": ["staff"]}, "ben": {"groups": ["guests"]}, "eve": {"groups": ["few"]},
               "dan": {"groups": ["staff"]}},
    "pack": PACK,
}  # fmt: skip


async def judged(reader: ReaderPool, text: str, user: str = "ann", **context: Any) -> Verdict:
    world = World(DATA)
    session = SessionContext(**{"catalog": "lake", "namespace": ("a", "b"), **context})
    return await world.judge_statement(
        Statement(text=text, principal=world.principal(user), context=session), reader
    )


async def forwarded(reader: ReaderPool, text: str, user: str = "ann", **context: Any) -> str:
    verdict = await judged(reader, text, user, **context)
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


async def test_names_reach_spark_in_full(reader: ReaderPool) -> None:
    full = "SELECT * FROM `lake`.`a`.`b`.`person`"
    assert await forwarded(reader, "SELECT * FROM person") == full
    # The first part is a catalog where there is one of the name, wherever the session is.
    assert await forwarded(reader, "SELECT * FROM a.b.person") == "SELECT * FROM a.b.person"
    assert await forwarded(reader, "SELECT * FROM x.y.t") == "SELECT * FROM `lake`.`x`.`y`.`t`"
    written = await forwarded(reader, "INSERT INTO deep VALUES (1)", namespace=("a", "b", "c"))
    assert written == "INSERT INTO `lake`.`a`.`b`.`c`.`deep` VALUES (1)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT lake.a.b.person.id, a.b.person.name FROM lake.a.b.person",
        "SELECT b.person.id, person.name FROM person",
        "SELECT lake.a.b.person.* FROM person",
        "SELECT id FROM person WHERE lake.a.b.person.id > 1",
    ],
)
async def test_guards_above_and_own_are_in_what_is_read(reader: ReaderPool, text: str) -> None:
    written = await forwarded(reader, text, "ben")
    assert "id = 7" in written
    assert "`lake`.`a`.`b`.`person`" in written
    if "name" in text or "*" in text:
        assert "AS `name`" in written
    assert "lake.a.b.person" not in written
    assert "id = 7" not in await forwarded(reader, text)


async def test_a_policy_may_read_a_nested_table(reader: ReaderPool) -> None:
    assert "SELECT id FROM lake.a.b.person" in await forwarded(reader, "SELECT * FROM listed")
    # In the session that policies are read in, the current catalog is Spark's own.
    for name in ("x.a.b.person", "lake.`a.b`.person", "lake.x.t.plain", "lake.a.b.person.files"):
        pack = PACK.replace("SELECT id FROM lake.a.b.person", f"SELECT id FROM {name}")
        verdict = await World({**DATA, "pack": pack}).judge_statement(
            Statement(
                text="SELECT * FROM lake.a.b.listed",
                principal=World(DATA).principal("ann"),
                context=SessionContext(),
            ),
            reader,
        )
        assert isinstance(verdict, Refused), name


async def test_a_view_s_text_is_read_in_the_namespace_that_it_was_written_in(reader: ReaderPool) -> None:
    verdict = await judged(reader, "SELECT * FROM spark_catalog.hr.over", "ben")
    assert isinstance(verdict, Cleared)
    assert TableName("lake", "a.b", "person") in verdict.names
    past = await judged(reader, "SELECT * FROM spark_catalog.hr.past")
    assert isinstance(past, Refused)
    assert "below the table lake.x.t" in past.message


BELOW = (
    "SELECT * FROM lake.x.t.older",
    "SELECT * FROM lake.x.t.plain",
    "SELECT * FROM lake.x.y.t.below",
    "SELECT (SELECT max(id) FROM lake.x.t.older)",
    "INSERT INTO lake.a.b.person SELECT id, '' FROM lake.x.t.plain",
    "INSERT INTO lake.x.t.plain VALUES (1)",
    "CREATE TABLE lake.x.t.new (id INT) USING parquet",
    "CREATE TABLE lake.x.t.new USING parquet AS SELECT 1 AS a",
    "DROP TABLE lake.x.t.plain",
    "DESCRIBE TABLE lake.x.t.older",
    "SHOW COLUMNS IN lake.x.t.older",
    "SHOW CREATE TABLE lake.x.t.plain",
    "REFRESH TABLE lake.x.t.plain",
    "CACHE TABLE lake.x.t.plain",
    "CREATE TEMPORARY VIEW v AS SELECT * FROM lake.x.t.plain",
    "CREATE VIEW spark_catalog.hr.v AS SELECT * FROM lake.x.t.plain",
)


@pytest.mark.parametrize("text", BELOW)
async def test_what_is_named_below_a_table_is_refused(reader: ReaderPool, text: str) -> None:
    verdict = await judged(reader, text)
    assert isinstance(verdict, Refused)
    assert "below the table lake.x." in verdict.message


VERSIONS = ("branch_b", "BRANCH_b", "tag_x", "snapshot_id_7", "at_timestamp_7", "changes", "rewrite", "files")


@pytest.mark.parametrize("name", VERSIONS)
async def test_nothing_nested_is_called_as_a_version_of_a_table_is(reader: ReaderPool, name: str) -> None:
    """A temporary view would keep the name, and mean another's table as soon as there is one above."""
    for text in (
        f"CREATE TABLE lake.a.b.{name} (id INT) USING parquet",
        f"CREATE TEMPORARY VIEW v AS SELECT * FROM lake.a.b.{name}",
        f"DESCRIBE TABLE lake.a.b.{name}",
        f"SELECT * FROM {name}",
    ):
        verdict = await judged(reader, text)
        assert isinstance(verdict, Refused), text
    assert isinstance(await judged(reader, f"CREATE TABLE lake.a.{name} (id INT) USING parquet"), Cleared)


async def test_a_namespace_that_is_made_changes_what_is_named_below_a_table(reader: ReaderPool) -> None:
    verdict = await judged(reader, "CREATE NAMESPACE lake.x.t")
    assert isinstance(verdict, Cleared)
    assert verdict.effects == (CatalogChanged((TableName("lake", "x", "t"),), databases=(("lake", "x.t"),)),)
    own = await judged(reader, "CREATE NAMESPACE lake.new")
    assert isinstance(own, Cleared)
    assert own.effects == (CatalogChanged(databases=(("lake", "new"),), meaning="stays"),)


async def test_so_it_is_in_plans(reader: ReaderPool) -> None:
    for text in BELOW[:4]:
        verdict = await World(DATA).judge_plan(execute(sql(text)), reader, user="ann")
        assert isinstance(verdict, Refused)
        assert "below the table lake.x." in verdict.message


async def test_who_may_not_know_of_the_table_is_not_told_of_it(reader: ReaderPool) -> None:
    verdict = await judged(reader, "SELECT * FROM lake.a.b.t.plain", "eve")
    assert isinstance(verdict, Cleared), "there is no such table, nor one above"
    world = World({**DATA, "tables": {**TABLES, "lake.a.b.t": {"id": "int"}}})
    hidden = await judged(reader, "SELECT * FROM lake.x.t.plain", "eve")
    assert isinstance(hidden, Refused)
    assert "TABLE_OR_VIEW_NOT_FOUND" in hidden.message
    told = await world.judge_statement(
        Statement(
            text="SELECT * FROM lake.a.b.t.plain",
            principal=world.principal("eve"),
            context=SessionContext(),
        ),
        reader,
    )
    assert isinstance(told, Refused)
    assert "below the table lake.a.b.t" in told.message


async def test_the_table_that_there_must_not_be_is_held(reader: ReaderPool) -> None:
    """Whoever makes it waits until Spark has analysed what was judged."""
    verdict = await judged(reader, "SELECT * FROM lake.a.b.person")
    assert isinstance(verdict, Cleared)
    assert TableName("lake", "a", "b") in verdict.names


async def test_use_is_of_every_level(reader: ReaderPool) -> None:
    verdict = await judged(reader, "USE lake.x.y")
    assert isinstance(verdict, Cleared)
    assert verdict.effects == (UseNamespace("lake", ("x", "y")),)
    below = await judged(reader, "USE SCHEMA c")
    assert isinstance(below, Cleared)
    assert below.effects == (UseNamespace("lake", ("c",)),)
    for text in ("USE lake.`x.y`", "USE SCHEMA `x.y`", "USE lake.x.global_temp", "USE spark_catalog.x.y"):
        assert isinstance(await judged(reader, text), Refused), text


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE lake.a.b.person RENAME TO lake.a.c.person",
        "ALTER TABLE lake.a.b.person RENAME TO a.b.other",
        "ALTER TABLE lake.a.b.person RENAME TO other",
        "DROP NAMESPACE lake.a CASCADE",
        "DROP NAMESPACE lake.a.b CASCADE",
    ],
)
async def test_no_other_name_opens_more(reader: ReaderPool, text: str) -> None:
    user = "ben" if "RENAME" in text else "eve"
    assert isinstance(await judged(reader, text, user), Refused)


async def test_cascade_wants_what_it_drops(reader: ReaderPool) -> None:
    """To drop all of a namespace and none of those within is not enough."""
    alone = PACK.replace('database: [a.b, a.b.t, x.t], table: "*", column: "*"', 'database: a.b, table: "*"')
    for database, expected in (("a.b", Refused), ("[a.b, a.b.*]", Cleared)):
        pack = alone.replace('database: a.b, table: "*"', f'database: {database}, table: "*"')
        pack = pack.replace(
            "  - name: rows,",
            "  - {name: it, on: {catalog: lake, database: a.b}, allow: [{groups: [few], access: [drop]}]}\n"
            "  - name: rows,",
        )
        # Masks are on tables of it, so `all` is not enough.
        pack = pack.replace("access: [all]}]\n  - {name: it", "access: [all, drop]}]\n  - {name: it")
        world = World({**DATA, "pack": pack})
        for text in ("DROP NAMESPACE lake.a.b CASCADE", "DROP NAMESPACE lake.a.b"):
            verdict = await world.judge_statement(
                Statement(text=text, principal=world.principal("eve"), context=SessionContext()), reader
            )
            assert isinstance(verdict, Cleared if "CASCADE" not in text else expected), (database, text)


async def test_cascade_wants_drop_by_name_where_masks_are(reader: ReaderPool) -> None:
    pack = PACK.replace("[a.b, a.b.t, x.t]", "[a.b, a.b.*]")
    for access, expected in (("[all]", Refused), ("[all, drop]", Cleared)):
        given = pack.replace(
            "allow: [{groups: [few], access: [all]}]", f"allow: [{{groups: [few], access: {access}}}]"
        )
        given = given.replace(
            "  - name: rows,",
            "  - {name: it, on: {catalog: lake, database: a.b}, allow: [{groups: [few], access: [drop]}]}\n"
            "  - name: rows,",
        )
        world = World({**DATA, "pack": given})
        verdict = await world.judge_statement(
            Statement(
                text="DROP NAMESPACE lake.a.b CASCADE",
                principal=world.principal("eve"),
                context=SessionContext(),
            ),
            reader,
        )
        assert isinstance(verdict, expected), (access, verdict)
