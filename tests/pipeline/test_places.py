"""Files of a table, named by their path, are the table's rows, over both endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.reading import Reading
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, Refused, Verdict
from gateway.reader.pool import ReaderPool
from gateway.sql.varying import find_varying
from tests.judge_world import World
from tests.pipeline.test_kept import command, execute, over_connect, over_thrift
from tests.plan.frames import sql

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPEN, MASKED = TableName("spark_catalog", "lab", "open"), TableName("spark_catalog", "lab", "masked")
UNSEEN, PART = TableName("spark_catalog", "lab", "unseen"), TableName("spark_catalog", "lab", "part")
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {str(name): {"id": "int", "s": "string"} for name in (OPEN, MASKED, UNSEEN, PART)},
    "views": {
        "spark_catalog.lab.v": {
            "columns": {"id": "int"},
            "text": "SELECT id FROM parquet.`/free`",
            "database": "lab",
            "output": ["id"],
        },
        "spark_catalog.lab.x": {
            "columns": {"f": "string"},
            "text": "SELECT input_file_name() AS f FROM open",
            "database": "lab",
            "output": ["f"],
        },
        "spark_catalog.lab.w": {
            "columns": {"id": "int"},
            "text": "SELECT id FROM open",
            "database": "lab",
            "output": ["id"],
        },
    },
    "people": {"ann": {"groups": []}, "bob": {"groups": []}},
    "pack": """
service: spark
policies:
  - {name: paths, on: {url: "*"}, allow: [{users: [ann], access: [all]}]}
  - {name: databases, on: {catalog: "*", database: "*"}, allow: [{users: [ann], access: [all]}]}
  - name: tables
    on: {catalog: "*", database: lab, table: [open, masked, v, w, x, new], column: "*"}
    allow: [{users: [ann], access: [select, create, alter, insert, show]}]
  - name: part
    on: {catalog: "*", database: lab, table: part, column: id}
    allow: [{users: [ann], access: [select]}]
  - name: masked
    on: {catalog: spark_catalog, database: lab, table: masked, column: s}
    mask: [{users: [ann], type: MASK_NULL}]
""",
}


class PlacesWorld(World):
    """Knows whose the files are."""

    places: dict[str, tuple[TableName, ...] | str] | None = {
        "/free": (),
        "/open": (OPEN,),
        "/all": (OPEN, MASKED),
        "/masked": (MASKED,),
        "/unseen": (UNSEEN,),
        "/gone": (TableName("spark_catalog", "lab", "gone"),),
        "/many": tuple(TableName("spark_catalog", "lab", f"t{n}") for n in range(101)),
        "/untold": "nobody tells",
    }

    def snapshot(self, missing: frozenset[TableName] = frozenset()) -> Snapshot:
        made = super().snapshot(missing)
        return replace(made, catalog=replace(made.catalog, places=self.places))


@pytest.fixture(scope="module")
def world() -> World:
    return PlacesWorld(DATA)


async def each(world: World, reader: ReaderPool, text: str) -> list[Verdict]:
    return [
        await over_thrift(world, reader, text),
        await over_connect(world, reader, command(text)),
        await over_connect(world, reader, execute(sql(text))),
    ]


def told(verdict: Verdict) -> str:
    return verdict.message if isinstance(verdict, Refused) else ""


@pytest.mark.parametrize("path", ["/free", "/open", "/gone"])
async def test_files_are_read_as_they_are_written(world: World, reader: ReaderPool, path: str) -> None:
    text = f"SELECT f.id FROM parquet.`{path}` AS f JOIN open USING (id)"
    thrift, *connect = await each(world, reader, text)
    assert all(isinstance(one, Cleared) for one in connect), connect
    assert isinstance(thrift, Cleared), thrift
    assert thrift.forwarded == text.replace("JOIN open", "JOIN `spark_catalog`.`lab`.`open`")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/masked", "files of table spark_catalog.lab.masked"),
        ("/all", "files of table spark_catalog.lab.masked"),
        ("/unseen", "files of a table:"),
        ("/many", "101 tables"),
        ("/untold", "nobody tells"),
    ],
)
async def test_files_of_a_table_are_the_table(world: World, reader: ReaderPool, path: str, says: str) -> None:
    for verdict in await each(world, reader, f"SELECT * FROM parquet.`{path}`"):
        assert says in told(verdict), verdict


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OVERWRITE DIRECTORY '{}' USING parquet SELECT 1 AS id",
        "CREATE TABLE new USING parquet LOCATION '{}'",
        "CREATE TABLE new USING parquet LOCATION '{}' AS SELECT 1 AS id",
        "ALTER TABLE open SET LOCATION '{}'",
        "CREATE DATABASE new LOCATION '{}'",
    ],
)
async def test_files_of_a_table_are_written_by_who_may_write_it(
    world: World, reader: ReaderPool, text: str
) -> None:
    thrift = await over_thrift(world, reader, text.format("/free"))
    assert isinstance(thrift, Cleared), thrift
    for path in ("/open", "/masked"):
        for verdict in (
            await over_thrift(world, reader, text.format(path)),
            await over_connect(world, reader, command(text.format(path))),
        ):
            assert "insert and delete and select" in told(verdict) or "needs select" in told(verdict), verdict


async def test_files_want_a_policy_of_their_own(world: World, reader: ReaderPool) -> None:
    for verdict in (
        await over_thrift(world, reader, "SELECT * FROM parquet.`/free`", "bob"),
        await over_connect(world, reader, execute(sql("SELECT * FROM parquet.`/free`")), "bob"),
    ):
        assert "needs read on url /free" in told(verdict)


async def test_nobody_looks_where_statements_are_not_run(reader: ReaderPool) -> None:
    world = PlacesWorld(DATA)
    world.places = None
    assert isinstance(await over_thrift(world, reader, "SELECT * FROM parquet.`/masked`"), Cleared)


@pytest.mark.parametrize("text", ["SELECT * FROM v", "CREATE VIEW new AS SELECT * FROM parquet.`/free`"])
async def test_persistent_views_read_no_files(world: World, reader: ReaderPool, text: str) -> None:
    for verdict in await each(world, reader, text):
        assert isinstance(verdict, Refused), verdict


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT input_file_name() FROM open", ""),
        ("SELECT input_file_name() FROM parquet.`/free`", ""),
        ("SELECT input_file_name() FROM masked", "where their rows are stored"),
        ("SELECT input_file_name() FROM open JOIN masked USING (id)", "where their rows are stored"),
        ("SELECT input_file_name() FROM w", "where their rows are stored"),
        ("SELECT f FROM x", "where the rows are stored"),
        ("SELECT input_file_name() FROM tv", "where their rows are stored"),
        (
            "CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN input_file_name()",
            "where the rows are stored",
        ),
    ],
)
async def test_functions_that_tell_where_rows_are(
    world: World, reader: ReaderPool, text: str, says: str
) -> None:
    verdict = await over_thrift(world, reader, text, temp_views=frozenset({"tv"}))
    assert says in told(verdict) if says else isinstance(verdict, Cleared), verdict


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ALTER TABLE open SET TBLPROPERTIES ('mine' = 'x', 'comment' = 'y')", ""),
        ("ALTER TABLE open UNSET TBLPROPERTIES ('mine')", ""),
        ("ALTER TABLE open SET TBLPROPERTIES ('delta.nothing' = 'x')", "`delta.nothing`"),
        ("ALTER TABLE w SET TBLPROPERTIES ('mine' = 'x')", "`mine`"),
        ("ALTER TABLE iced SET TBLPROPERTIES ('mine' = 'x')", "`mine`"),
        ("ALTER TABLE open SET SERDEPROPERTIES ('mine' = 'x', 'compression' = 'zstd')", ""),
        ("ALTER TABLE open SET SERDEPROPERTIES ('mine' = 'x', 'path' = '/x')", "`path`"),
        ("ALTER TABLE open SET SERDEPROPERTIES ('recursiveFileLookup' = 'true')", "`recursiveFileLookup`"),
        ("ALTER TABLE iced SET SERDEPROPERTIES ('mine' = 'x')", "`mine`"),
    ],
)
async def test_properties_are_judged_by_the_table_s_format(
    world: World, reader: ReaderPool, text: str, says: str
) -> None:
    formats = PlacesWorld({**DATA, "tables": {**DATA["tables"], "spark_catalog.lab.iced": {"id": "int"}}})
    formats.policies = world.policies
    for name, table in formats.tables.items():
        provider = "iceberg" if name.table == "iced" else "parquet"
        formats.tables[name] = replace(table, provider=provider)
    verdict = await over_thrift(formats, reader, text)
    if "iced" in text:
        assert isinstance(verdict, Refused), verdict
        return
    assert says in told(verdict) if says else isinstance(verdict, Cleared), verdict


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("EXPLAIN SELECT s FROM masked", True),
        ("EXPLAIN COST SELECT s FROM masked", False),
        ("EXPLAIN SELECT id FROM part", False),
    ],
)
async def test_plans_that_show_more_than_masks_cover(
    world: World, reader: ReaderPool, text: str, passes: bool
) -> None:
    verdict = await over_thrift(world, reader, text)
    assert isinstance(verdict, Cleared if passes else Refused), verdict


async def test_rows_of_a_program_are_not_kept(reader: ReaderPool) -> None:
    text = "SELECT TRANSFORM(id) USING 'cat' AS (x STRING) FROM open"
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    assert find_varying(text, reading) == "it runs a program of its own"
