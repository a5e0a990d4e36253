"""In a database of tables made of files, nobody creates anything beside them, whatever policies say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, PlanRequest, Refused
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.pipeline.test_kept import command, over_connect, over_thrift
from tests.plan.frames import message, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA = {
    "catalogs": ["spark_catalog"],
    "tables": {name: {"id": "int"} for name in ("spark_catalog.lab.free", "spark_catalog.other.free")},
    "views": {},
    "people": {"ann": {"groups": ["staff"]}},
    "pack": """
service: spark
policies:
  - name: everything
    on:
      - {catalog: spark_catalog, database: "*"}
      - {catalog: spark_catalog, database: "*", table: "*", column: "*"}
    allow: [{groups: [staff], access: [all]}]
""",
}


class FileWorld(World):
    """Has a source whose tables are in `lab`."""

    def snapshot(self, missing: frozenset[TableName] = frozenset()) -> Snapshot:
        made = super().snapshot(missing)
        return replace(made, catalog=replace(made.catalog, file_databases=frozenset({"lab"})))


@pytest.fixture(scope="module")
def world() -> World:
    return FileWorld(DATA)


CREATING = [
    "CREATE TABLE {}.new (id INT) USING parquet",
    "CREATE TABLE {}.new USING parquet AS SELECT 1 AS id",
    "CREATE TABLE {}.new LIKE other.free",
    "CREATE VIEW {}.new AS SELECT 1 AS id",
    "CREATE OR REPLACE VIEW {}.free AS SELECT 1 AS id",
    "ALTER TABLE {0}.free RENAME TO {0}.new",
]


@pytest.mark.parametrize("text", CREATING)
@pytest.mark.parametrize("database", ["lab", "LAB", "spark_catalog.lab", "other"])
async def test_statements_create_nothing_there(
    world: World, reader: ReaderPool, text: str, database: str
) -> None:
    if "RENAME" in text and "." in database:
        text = "ALTER TABLE {0}.free RENAME TO new"
    written = text.format(database)
    for verdict in (
        await over_thrift(world, reader, written),
        await over_connect(world, reader, command(written)),
    ):
        if database == "other":
            assert isinstance(verdict, Cleared), verdict
        else:
            assert isinstance(verdict, Refused), verdict
            assert "made of files" in verdict.message


def saved(name: str, mode: Any) -> PlanRequest:
    plan = pb.Plan()
    write = plan.command.write_operation
    write.input.CopyFrom(message(table("other.free")).root)
    write.mode = mode
    write.table.table_name = name
    write.table.save_method = pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_SAVE_AS_TABLE
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


async def test_frames_create_nothing_there(world: World, reader: ReaderPool) -> None:
    modes: Any = pb.WriteOperation.SaveMode
    for mode in (modes.SAVE_MODE_ERROR_IF_EXISTS, modes.SAVE_MODE_OVERWRITE, modes.SAVE_MODE_APPEND):
        refused = await over_connect(world, reader, saved("lab.new", mode))
        assert isinstance(refused, Refused), refused
        assert "made of files" in refused.message
        assert isinstance(await over_connect(world, reader, saved("other.new", mode)), Cleared)


async def test_rows_are_added_and_tables_dropped(world: World, reader: ReaderPool) -> None:
    for text in ("INSERT INTO lab.free VALUES (1)", "DROP TABLE lab.free", "REFRESH TABLE lab.free"):
        assert isinstance(await over_thrift(world, reader, text), Cleared)
