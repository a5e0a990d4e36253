"""Versions of before have columns that a table has no more: what policies speak of is not told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import Column, Renamed, TableName
from gateway.model.meaning_settings import ANSI_MODE
from gateway.model.statement import Cleared, NeedsCatalog, Refused, SessionContext, Statement
from gateway.pipeline import judge
from gateway.reader.pool import ReaderPool
from tests.judge_world import BARRIERS, World
from tests.pipeline.test_plans import analyze, execute
from tests.plan.frames import table

WORLD: Mapping[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        f"spark_catalog.lake.{name}": {"id": "bigint", "note": "string"}
        for name in ("plain", "masked", "denied", "listed", "moved")
    },
    "views": {},
    "people": {"bob": {"groups": []}},
    "pack": """
service: spark
policies:
  - name: all of these
    on: {catalog: spark_catalog, database: lake, table: [plain, masked, denied], column: "*"}
    allow: [{users: [bob], access: [select]}]
  - name: two columns of this
    on: {catalog: spark_catalog, database: lake, table: listed, column: [id, note]}
    allow: [{users: [bob], access: [select]}]
  - name: a column that is dropped by now
    on: {catalog: spark_catalog, database: lake, table: masked, column: card}
    mask: [{users: [bob], type: MASK_NULL}]
  - name: another
    on: {catalog: spark_catalog, database: lake, table: denied, column: card}
    deny: [{users: [bob], access: [select]}]
  - name: all of this
    on: {catalog: spark_catalog, database: lake, table: moved, column: "*"}
    allow: [{users: [bob], access: [select]}]
  - name: by the name of now
    on: {catalog: spark_catalog, database: lake, table: moved, column: note}
    mask: [{users: [bob], type: MASK_NULL}]
  - name: rows by the name of now
    on: {catalog: spark_catalog, database: lake, table: moved}
    filter: [{users: [bob], where: "note = 'a'"}]
""",
}
pytestmark = pytest.mark.asyncio(loop_scope="session")

SELECTED = "SELECT `id`, `note` FROM `spark_catalog`.`lake`.`{0}` VERSION AS OF 1 AS `{0}`"


@pytest.fixture(scope="module")
def world() -> World:
    return World(dict(WORLD))


async def forwarded(world: World, reader: ReaderPool, text: str) -> str:
    verdict = await world.judge(text, reader, user="bob", use="lake")
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


async def test_a_version_of_a_table_whose_columns_are_all_alike_is_read_as_it_was(
    world: World, reader: ReaderPool
) -> None:
    text = "SELECT * FROM plain VERSION AS OF 1"
    assert SELECTED.format("plain") not in await forwarded(world, reader, text)


@pytest.mark.parametrize("name", ["masked", "denied", "listed"])
async def test_of_a_version_of_another_the_columns_of_now_are_read(
    world: World, reader: ReaderPool, name: str
) -> None:
    assert SELECTED.format(name) in await forwarded(world, reader, f"SELECT * FROM {name} VERSION AS OF 1")


@pytest.mark.parametrize("name", ["masked", "denied", "listed"])
async def test_a_table_with_policies_on_columns_by_name_is_read_by_the_names_that_were_judged(
    world: World, reader: ReaderPool, name: str
) -> None:
    """A column that was renamed outside since its description is not found under a name nobody judged."""
    of_now = SELECTED.replace(" VERSION AS OF 1", "").format(name)
    for text in (f"SELECT * FROM {name}", f"SELECT card FROM {name}", f"SELECT count(*) FROM {name}"):
        assert of_now in await forwarded(world, reader, text)
    assert "`note`" not in await forwarded(world, reader, "SELECT * FROM plain")


def viewing(**more: Any) -> World:
    """Return the world with a view over each table, whose one column has all that the table has, and a view
    over each of these."""
    pack = WORLD["pack"].replace("[plain, masked, denied]", '[plain, masked, denied, "v_*"]')
    view = {"database": "lake", "output": ["row"], "columns": {"row": "string"}, "definer": "bob", **more}
    views = {}
    for name in ("plain", "masked", "denied", "listed", "moved"):
        views[f"spark_catalog.lake.v_{name}"] = view | {
            "text": f"SELECT to_json(struct(*)) AS row FROM {name}"
        }
        views[f"spark_catalog.lake.v_over_{name}"] = view | {"text": f"SELECT row FROM v_{name}"}
    return World({**WORLD, "pack": pack, "views": views})


@pytest.mark.parametrize("over", ["", "over_"])
@pytest.mark.parametrize("name", ["masked", "denied", "listed"])
async def test_a_view_over_one_is_written_out_so_that_the_names_are_those_that_were_judged(
    reader: ReaderPool, name: str, over: str
) -> None:
    """Spark would read the view by its own text, whose star has whatever columns there are by then."""
    world, of_now = viewing(), SELECTED.replace(" VERSION AS OF 1", "").format(name)
    assert of_now in await forwarded(world, reader, f"SELECT * FROM v_{over}{name}")
    plan = await world.judge_plan(execute(table(f"v_{over}{name}")), reader, user="bob", namespace=("lake",))
    assert isinstance(plan, Cleared), plan
    assert of_now.encode() in plan.forwarded_plan
    assert "struct" not in await forwarded(world, reader, f"SELECT * FROM v_{over}plain")


@pytest.mark.parametrize(
    ("more", "settings"),
    [({"collation": "UNICODE_CI"}, frozenset()), ({}, frozenset({ANSI_MODE}))],
    ids=["collation", "settings"],
)
async def test_a_view_that_cannot_be_written_out_as_it_is_has_columns_of_this_moment(
    reader: ReaderPool, more: dict[str, Any], settings: frozenset[str]
) -> None:
    world = viewing(**more)
    context = SessionContext(namespace=("lake",), settings=settings)
    for name in ("plain", "listed"):
        statement = Statement(
            text=f"SELECT * FROM v_{name}", principal=world.principal("bob"), context=context
        )
        before = replace(world.snapshot(), anew=frozenset())
        verdict = await judge(statement, before, reader, BARRIERS)
        if name == "listed":
            assert verdict == NeedsCatalog((named(name),), promotes=False, anew=True)
            verdict = await judge(statement, replace(before, anew=frozenset({named(name)})), reader, BARRIERS)
        assert isinstance(verdict, Cleared), verdict
        assert "struct" not in verdict.forwarded


@pytest.mark.parametrize("name", ["listed", "v_listed", "v_over_listed"])
@pytest.mark.parametrize("case", ["input_files", "explain", "schema"])
async def test_what_tells_of_more_than_is_read_wants_columns_of_this_moment(
    reader: ReaderPool, name: str, case: str
) -> None:
    """Paths of files have values of partitions in them, and plans all columns of a table."""
    world, context = viewing(), SessionContext(namespace=("lake",), endpoint="connect")
    plan = Statement(
        text="", principal=world.principal("bob"), context=context, plan=analyze(case, table(name))
    )
    text = replace(plan, plan=None, text=f"{'EXPLAIN ' if case == 'explain' else ''}SELECT * FROM {name}")
    before = replace(world.snapshot(), anew=frozenset())
    for statement, wanted in ((plan, case != "schema"), (text, case == "explain")):
        verdict = await judge(statement, before, reader, BARRIERS)
        assert isinstance(verdict, NeedsCatalog if wanted else Cleared), verdict
        if isinstance(verdict, NeedsCatalog):
            assert named("listed") in verdict.tables
            again = replace(before, anew=frozenset(verdict.tables))
            assert isinstance(await judge(statement, again, reader, BARRIERS), Cleared)


@pytest.mark.parametrize("name", ["masked", "denied", "listed"])
async def test_the_same_in_a_view_and_a_subquery(world: World, reader: ReaderPool, name: str) -> None:
    text = f"SELECT id FROM plain WHERE EXISTS (SELECT * FROM {name} VERSION AS OF 1)"
    assert SELECTED.format(name) in await forwarded(world, reader, text)


@pytest.mark.parametrize("name", ["masked", "denied", "listed"])
async def test_nor_is_what_is_no_column_any_more(world: World, reader: ReaderPool, name: str) -> None:
    sent = await forwarded(world, reader, f"SELECT card FROM {name} VERSION AS OF 1")
    assert f"FROM ({SELECTED.format(name)})" in sent
    verdict = await world.judge(f"INSERT INTO {name} SELECT 1", reader, user="bob", use="lake")
    assert isinstance(verdict, Refused)


def version(world: World, name: str, columns: Mapping[str, str], **more: Any) -> None:
    """Give a table a version 1 with other columns."""
    of_now = world.tables[TableName("spark_catalog", "lake", name)]
    its = TableName("spark_catalog", "lake", name, "VERSION AS OF 1")
    found = tuple([Column(name=one, type=kind) for one, kind in columns.items()])
    world.versions[its] = replace(of_now, name=its, columns=found, **more)


async def test_what_policies_say_of_a_column_is_said_of_it_under_its_name_of_then(reader: ReaderPool) -> None:
    world = World(dict(WORLD))
    renamed = (Renamed(then="memo", now="note", gone=True),)
    version(world, "moved", {"id": "bigint", "memo": "string"}, renamed=renamed)
    sent = await forwarded(world, reader, "SELECT memo FROM moved VERSION AS OF 1")
    source = (
        "(SELECT `id`, `memo` AS `note`, `memo` FROM `spark_catalog`.`lake`.`moved` VERSION AS OF 1 "
        "AS `moved`) TABLESAMPLE (100 PERCENT) REPEATABLE (0) AS `moved`"
    )
    assert source in sent
    assert "WHERE (note = 'a')" in sent
    assert "AS `memo`" in sent
    assert "CASE WHEN FALSE THEN `note` END AS `memo`" in sent
    told = await world.judge("EXPLAIN SELECT id FROM moved VERSION AS OF 1", reader, user="bob", use="lake")
    assert isinstance(told, Refused)


async def test_no_condition_goes_below_a_version_that_may_look_up_its_columns_elsewhere(
    reader: ReaderPool,
) -> None:
    world = World(dict(WORLD))
    for name in ("plain", "moved"):
        version(world, name, {"id": "bigint", "note": "string"}, conditions_above=True)
    sent = await forwarded(world, reader, "SELECT id FROM moved VERSION AS OF 1")
    source = "FROM `spark_catalog`.`lake`.`moved` VERSION AS OF 1 AS `moved`"
    assert f"(SELECT `id`, `note` {source}) TABLESAMPLE (100 PERCENT) REPEATABLE (0) AS `moved`" in sent
    assert "SAMPLE" not in await forwarded(world, reader, "SELECT id FROM plain VERSION AS OF 1")


async def test_a_column_that_is_hidden_now_is_hidden_under_its_name_of_then(reader: ReaderPool) -> None:
    world = World(dict(WORLD))
    renamed = (Renamed(then="number", now="card", gone=True),)
    version(world, "denied", {"id": "bigint", "number": "string"}, renamed=renamed)
    sent = await forwarded(world, reader, "SELECT id FROM denied VERSION AS OF 1")
    assert "FROM (SELECT `id` FROM (SELECT `id`, `number` AS `card`, `number` FROM" in sent
    verdict = await world.judge("SELECT * FROM denied VERSION AS OF 1", reader, user="bob", use="lake")
    assert isinstance(verdict, Refused)


async def test_a_version_whose_columns_cannot_be_followed_is_for_those_without_obligations(
    reader: ReaderPool,
) -> None:
    world = World(dict(WORLD))
    for name in ("plain", "masked", "denied", "listed", "moved"):
        version(world, name, {"id": "bigint", "memo": "string"}, unfollowed="nobody knows")
    assert "`memo`" not in await forwarded(world, reader, "SELECT * FROM plain VERSION AS OF 1")
    for name in ("masked", "denied", "listed", "moved"):
        text = f"SELECT id FROM {name} VERSION AS OF 1"
        verdict = await world.judge(text, reader, user="bob", use="lake")
        assert isinstance(verdict, Refused)
        assert verdict.code == "NOT_GOVERNABLE" or name == "listed"


async def test_columns_are_read_together_under_their_names_of_now(reader: ReaderPool) -> None:
    pack = (
        WORLD["pack"]
        + """
  - name: not both
    on: {catalog: spark_catalog, database: lake, table: plain, column: id}
    deny:
      - users: [bob]
        access: [select]
        conditions: {accessed-together: [lake.plain.id, lake.plain.note]}
"""
    )
    world = World({**WORLD, "pack": pack})
    renamed = (Renamed(then="memo", now="note", gone=True),)
    version(world, "plain", {"id": "bigint", "memo": "string"}, renamed=renamed)
    assert "`id`" in await forwarded(world, reader, "SELECT id FROM plain VERSION AS OF 1")
    text = "SELECT id, memo FROM plain VERSION AS OF 1"
    assert isinstance(await world.judge(text, reader, user="bob", use="lake"), Refused)


MOMENT = (
    f"{WORLD['pack']}"
    + """
  - name: changed as well
    on: {catalog: spark_catalog, database: lake, table: [plain, masked], column: "*"}
    allow: [{users: [bob], access: [insert, update, delete, drop]}]
"""
)


@pytest.mark.parametrize(
    ("text", "anew"),
    [
        ("UPDATE masked SET note = 'x'", True),
        ("DELETE FROM masked WHERE id = 1", True),
        ("MERGE INTO masked USING plain p ON p.id = masked.id WHEN MATCHED THEN DELETE", True),
        ("INSERT OVERWRITE masked SELECT 1, 'x'", True),
        ("DROP TABLE masked", True),
        ("UPDATE plain SET note = 'x'", False),
        ("INSERT INTO masked SELECT id, note FROM plain", False),
        ("SELECT * FROM masked", False),
    ],
)
async def test_commands_want_columns_of_this_moment_where_policies_tell_them_apart(
    reader: ReaderPool, text: str, anew: bool
) -> None:
    world = World({**WORLD, "pack": MOMENT})
    statement = Statement(
        text=text, principal=world.principal("bob"), context=SessionContext(namespace=("lake",))
    )
    before = replace(world.snapshot(), anew=frozenset())
    verdict = await judge(statement, before, reader, BARRIERS)
    masked = TableName("spark_catalog", "lake", "masked")
    assert isinstance(verdict, NeedsCatalog if anew else Cleared), verdict
    if isinstance(verdict, NeedsCatalog):
        assert verdict == NeedsCatalog((masked,), promotes=False, anew=True)
        verdict = await judge(statement, replace(before, anew=frozenset({masked})), reader, BARRIERS)
        assert isinstance(verdict, Cleared), verdict


def named(table: str, version: str = "") -> TableName:
    return TableName("spark_catalog", "lake", table, version=version)


@pytest.mark.parametrize(
    ("text", "other", "wanted"),
    [
        ("SELECT id FROM masked VERSION AS OF 1", named("masked", "VERSION AS OF 1"), True),
        ("SELECT id FROM plain VERSION AS OF 1", named("plain", "VERSION AS OF 1"), False),
        ("SELECT id FROM past", named("masked", "VERSION AS OF 1"), True),
        ("SELECT 1 WHERE 1 IN (SELECT id FROM past)", named("masked", "VERSION AS OF 1"), True),
        ("DROP TABLE IF EXISTS masked_too", named("masked_too"), True),
        ("CREATE OR REPLACE TABLE masked_too AS SELECT 1 AS id", named("masked_too"), True),
        ("CREATE TABLE masked_too AS SELECT 1 AS id", named("masked_too"), False),
        ("DROP TABLE IF EXISTS plain_too", named("plain_too"), False),
    ],
)
async def test_so_do_versions_and_tables_that_are_removed_and_not_there(
    reader: ReaderPool, text: str, other: TableName, wanted: bool
) -> None:
    """A version keeps its names whatever its columns are called by now, and what is not there may be."""
    pack = (
        MOMENT.replace("[plain, masked", "[past, plain, masked, plain_too, masked_too")
        .replace("[insert,", "[create, insert,")
        .replace("table: masked,", "table: [masked, masked_too],")
    )
    view = {
        "text": "SELECT id FROM masked VERSION AS OF 1",
        "database": "lake",
        "output": ["id"],
        "columns": {"id": "bigint"},
        "definer": "bob",
        "owner": "bob",
    }
    world = World({**WORLD, "pack": pack, "views": {"spark_catalog.lake.past": view}})
    statement = Statement(
        text=text, principal=world.principal("bob"), context=SessionContext(namespace=("lake",))
    )
    before = replace(world.snapshot(frozenset({other})), anew=frozenset())
    verdict = await judge(statement, before, reader, BARRIERS)
    assert isinstance(verdict, NeedsCatalog if wanted else Cleared), verdict
    if isinstance(verdict, NeedsCatalog):
        assert verdict == NeedsCatalog((other,), promotes=False, anew=True)
        verdict = await judge(statement, replace(before, anew=frozenset({other})), reader, BARRIERS)
        assert isinstance(verdict, Cleared), verdict
