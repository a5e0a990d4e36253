"""Global temporary views: shared by all sessions of one Spark, which has no place for who defined one. So
they are read by the access of who reads them, and by the text that was judged."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.catalog.describe import global_view_from_json
from gateway.model.catalog import TableKind, TableName
from gateway.model.statement import CatalogChanged
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_own_names import Lab
from tests.pipeline.test_plans import catalog, execute, forwarded, refused
from tests.plan.frames import table

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        f"spark_catalog.lab.{name}": {"id": "int", "region": "string"}
        for name in ("free", "filtered", "closed")
    },
    "views": {
        f"spark_catalog.global_temp.over_{name}": {
            "columns": {"id": "int", "region": "string"},
            "text": f"SELECT id, region FROM spark_catalog.lab.{name}",
            "database": "lab",
            "output": ["id", "region"],
            "definer": "",
        }
        for name in ("free", "filtered", "closed")
    }
    | {
        "spark_catalog.lab.within": {
            "columns": {"id": "int"},
            "text": "SELECT id FROM global_temp.over_free",
            "database": "lab",
            "output": ["id"],
        }
    },
    "people": {"ann": {"groups": ["staff"]}, "may": {"groups": ["makers", "staff"]}, "eve": {"groups": []}},
    "pack": """
service: spark
policies:
  - name: staff read
    on:
      - {catalog: spark_catalog, database: lab, table: [free, filtered, within], column: "*"}
      - {catalog: spark_catalog, database: global_temp, table: "*", column: "*"}
    allow: [{groups: [staff], access: [select]}]
  - name: makers make
    on: {catalog: spark_catalog, database: global_temp, table: ["over_*", new], column: "*"}
    allow: [{groups: [makers], access: [create]}]
  - name: and drop
    on: {catalog: spark_catalog, database: global_temp, table: "over_*", column: "*"}
    allow: [{groups: [makers], access: [drop]}]
  - name: makers make views and functions
    on:
      - {catalog: spark_catalog, database: lab, table: v, column: "*"}
      - {catalog: spark_catalog, database: lab, udf: f}
    allow: [{groups: [makers], access: [create]}]
  - name: one region
    on: {catalog: spark_catalog, database: lab, table: filtered}
    filter: [{groups: [staff], where: "region = 'EMEA'"}]
""",
}
VIEW = TableName("spark_catalog", "global_temp", "over_free")


@pytest.fixture(scope="module")
def world() -> World:
    return World(DATA)


@pytest.fixture
def lab(world: World, reader: ReaderPool) -> Lab:
    return Lab(world, reader)


@pytest.mark.parametrize("name", ["free", "filtered"])
async def test_what_is_read_is_the_text_that_was_judged(
    lab: Lab, world: World, reader: ReaderPool, name: str
) -> None:
    view = f"global_temp.over_{name}"
    plan = forwarded(await world.judge_plan(execute(table(view)), reader, user="ann"))
    for text in (
        (await lab.cleared(f"SELECT over_{name}.id, {view}.region FROM {view}")).forwarded,
        (await lab.cleared(f"CREATE TEMPORARY VIEW mine AS SELECT * FROM {view}")).forwarded,
        plan.root.subquery_alias.input.sql.query,
    ):
        assert f"spark_catalog.lab.{name}" in text.replace("`", "")
        assert text.count("global_temp") <= 1  # in what the user wrote before a column
        assert f"FROM global_temp.over_{name}" not in text
        assert ("EMEA" in text) == (name == "filtered")


async def test_whoever_reads_one_needs_access_to_what_it_reads(
    lab: Lab, world: World, reader: ReaderPool
) -> None:
    said = await lab.refused("SELECT * FROM global_temp.over_closed")
    assert said.code == "ACCESS_DENIED"
    assert "lab.closed" in said.message
    frame = execute(table("global_temp.over_closed").select(F.lit(1)))
    refused(await world.judge_plan(frame, reader, user="ann"), "ACCESS_DENIED", "lab.closed")
    said = await lab.refused("SELECT * FROM global_temp.over_free", user="eve")
    assert "select on table spark_catalog.global_temp.over_free" in said.message


async def test_one_is_made_without_masks_and_filters_and_under_its_own_name(lab: Lab) -> None:
    text = "CREATE GLOBAL TEMPORARY VIEW new AS SELECT id FROM filtered"
    made = await lab.cleared(text, user="may")
    assert made.forwarded == text.replace("filtered", "`spark_catalog`.`lab`.`filtered`")
    assert made.effects == (CatalogChanged((TableName("spark_catalog", "global_temp", "new"),)),)
    assert "create on table spark_catalog.global_temp.new" in (await lab.refused(text)).message
    assert "lab.closed" in (await lab.refused(text.replace("filtered", "closed"), user="may")).message
    replaces = text.replace("CREATE", "CREATE OR REPLACE")
    assert "drop on table spark_catalog.global_temp.new" in (await lab.refused(replaces, user="may")).message
    await lab.cleared(replaces.replace("VIEW new", "VIEW over_free"), user="may")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE GLOBAL TEMPORARY VIEW new AS SELECT * FROM mine", "is of this session"),
        ("CREATE GLOBAL TEMPORARY VIEW new AS SELECT * FROM global_temp.over_free", "reads another one"),
        ("CREATE GLOBAL TEMPORARY VIEW `/x` AS SELECT 1 AS a", "characters of paths"),
        ("CREATE GLOBAL TEMPORARY VIEW lab.new AS SELECT 1 AS a", "INVALID_TEMP_OBJ_QUALIFIER"),
        ("CREATE VIEW v AS SELECT * FROM global_temp.over_free", "INVALID_TEMP_OBJ_REFERENCE"),
        (
            "CREATE FUNCTION f() RETURNS INT RETURN (SELECT max(id) FROM global_temp.over_free)",
            "functions cannot read",
        ),
        ("SELECT * FROM within", "global temporary view"),
        ("SELECT * FROM spark_catalog.global_temp.over_free", "global temporary view"),
        ("SELECT * FROM global_temp.`over$files`", "Paimon's `t$files`"),
        ("INSERT INTO global_temp.over_free VALUES (1, 'x')", "global temporary view"),
        ("CREATE TABLE global_temp.over_free (a INT)", "global temporary view"),
        ("CACHE TABLE global_temp.over_free", "CacheTable of a global temporary view"),
        ("ALTER VIEW global_temp.over_free AS SELECT 1 AS id", "of a global temporary view"),
        ("ALTER VIEW global_temp.over_free RENAME TO x", "of a global temporary view"),
        ("SHOW CREATE TABLE global_temp.over_free", "of a global temporary view"),
        ("DESCRIBE TABLE EXTENDED global_temp.over_free AS JSON", "of a global temporary view"),
        ("SHOW TABLE EXTENDED IN global_temp LIKE '*'", "reserved namespace"),
        ("USE global_temp", "reserved namespace"),
    ],
)
async def test_what_else_names_one_is_refused(lab: Lab, text: str, words: str) -> None:
    views = frozenset({"mine"})
    assert words in (await lab.refused(text, user="may", temp_views=views)).message


@pytest.mark.parametrize("call", ["get_table", "cache_table", "refresh_table", "list_columns"])
async def test_no_call_of_the_catalog_names_one(world: World, reader: ReaderPool, call: str) -> None:
    asked = catalog(call, table_name="global_temp.over_free")
    refused(await world.judge_plan(asked, reader, user="may"), "NOT_GOVERNABLE", "calls on global temporary")


async def test_who_may_drop_and_describe_one(lab: Lab) -> None:
    dropped = await lab.cleared("DROP VIEW IF EXISTS global_temp.over_free", user="may")
    assert dropped.forwarded == "DROP VIEW IF EXISTS global_temp.over_free"
    assert dropped.effects == (CatalogChanged((VIEW,)),)
    assert "drop on table" in (await lab.refused("DROP VIEW global_temp.over_free")).message
    described = await lab.cleared("DESCRIBE global_temp.over_free")
    assert described.answer.columns == frozenset({"id", "region"})
    for shows in ("SHOW COLUMNS IN global_temp.over_free", "SHOW COLUMNS IN over_free FROM global_temp"):
        shown = await lab.cleared(shows)
        assert shown.forwarded == shows
        assert shown.answer.columns == frozenset({"id", "region"})
        assert (await lab.refused(shows, user="eve")).code == "ACCESS_DENIED"
    assert (await lab.refused("DESCRIBE global_temp.over_free", user="eve")).code == "ACCESS_DENIED"
    listed = await lab.cleared("SHOW TABLES IN global_temp", user="eve")
    assert (listed.answer.catalog, listed.answer.database) == ("spark_catalog", "global_temp")


async def test_policies_hold_on_the_view_too(reader: ReaderPool) -> None:
    masked = """
  - name: no region
    on: {catalog: spark_catalog, database: global_temp, table: over_free, column: region}
    mask: [{groups: [staff], type: MASK_NULL}]
"""
    world = World({**DATA, "pack": DATA["pack"] + masked})
    verdict = await Lab(world, reader).cleared("SELECT region FROM global_temp.over_free")
    assert "CASE WHEN FALSE THEN `region` END" in verdict.forwarded


async def test_a_view_without_a_text_is_none_that_can_be_read() -> None:
    described = {
        "table_name": "over_free",
        "catalog_name": "system",
        "namespace": ["session"],
        "columns": [{"name": "id", "type": {"name": "bigint"}}],
        "type": "VIEW",
        "view_text": "SELECT id FROM range(3)",
        "view_catalog_and_namespace": "spark_catalog.default",
        "view_query_output_columns": ["id"],
    }
    found = global_view_from_json(json.dumps(described), VIEW)
    assert (found.name, found.kind) == (VIEW, TableKind.VIEW)
    assert found.view is not None
    assert (found.view.text, found.view.definer) == ("SELECT id FROM range(3)", "")
    for text in (
        "",
        "[]",
        json.dumps({**described, "view_text": None}),
        json.dumps({**described, "type": "MANAGED"}),
        json.dumps({**described, "table_name": "other"}),
    ):
        assert global_view_from_json(text, VIEW).kind is TableKind.UNGOVERNED


async def test_a_view_without_a_text_is_refused(reader: ReaderPool) -> None:
    world = World(DATA)
    world.tables[VIEW] = replace(world.tables[VIEW], kind=TableKind.UNGOVERNED, object_type="WITHOUT A TEXT")
    said = await Lab(world, reader).refused("SELECT * FROM global_temp.over_free")
    assert "WITHOUT A TEXT" in said.message
