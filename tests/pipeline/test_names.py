"""What a verdict says of the tables and views that it was judged by, and of what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.model.statement import CatalogChanged, Cleared, PlanRequest, SessionContext, Statement
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.pipeline.test_kept import DATA, command, execute, make_view, over_connect, over_thrift, persist
from tests.plan.frames import message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = (
    DATA["pack"]
    + """
  - name: works
    on: {catalog: spark_catalog, database: lab, table: [free, plain, "made*"]}
    allow: [{groups: [staff], access: [insert, create, drop, alter, delete]}]
"""
)


@pytest.fixture(scope="module")
def world() -> World:
    return World({**DATA, "pack": PACK})


def names(verdict: Any) -> set[str]:
    assert isinstance(verdict, Cleared), verdict
    assert all((name.catalog, name.database) == ("spark_catalog", "lab") for name in verdict.names)
    return {name.table for name in verdict.names}


def known(verdict: Any) -> set[str]:
    assert all(table.columns for table in verdict.tables)
    return {table.name.table for table in verdict.tables}


JUDGED_BY = {
    "SELECT 1": set(),
    "SELECT * FROM FREE": {"free"},
    "SELECT * FROM plain": {"plain", "free"},
    "SELECT * FROM over_mine": {"over_mine", "mine", "free"},
    "SELECT * FROM over": {"over", "mapped", "blocked"},
    "SELECT * FROM free WHERE id IN (SELECT id FROM hidden_by)": {"free", "hidden_by", "blocked"},
}


@pytest.mark.parametrize("text", JUDGED_BY)
async def test_a_read_rests_on_what_views_and_policies_read(
    world: World, reader: ReaderPool, text: str
) -> None:
    for verdict in (
        await over_thrift(world, reader, text),
        await over_connect(world, reader, execute(sql(text))),
        await over_connect(world, reader, command(text)),
    ):
        assert names(verdict) == JUDGED_BY[text]
        assert known(verdict) == JUDGED_BY[text]


COMMANDS = {
    "INSERT INTO free SELECT * FROM owned": {"free", "owned"},
    "CREATE TABLE made AS SELECT id FROM over": {"made", "over", "mapped", "blocked"},
    "DROP TABLE free": {"free"},
    "TRUNCATE TABLE free": {"free"},
    "ANALYZE TABLE free COMPUTE STATISTICS": {"free"},
    "REFRESH TABLE free": {"free"},
    "CREATE TEMPORARY VIEW x AS SELECT id FROM over": {"over", "mapped", "blocked"},
    "CACHE TABLE x AS SELECT id FROM plain": {"plain", "free"},
    "DESCRIBE TABLE free": {"free"},
}


@pytest.mark.parametrize("text", COMMANDS)
async def test_a_command_rests_on_what_it_is_on(world: World, reader: ReaderPool, text: str) -> None:
    verdict = await over_thrift(world, reader, text)
    assert names(verdict) == COMMANDS[text]
    assert known(verdict) == COMMANDS[text] - {"made"}
    assert isinstance(verdict, Cleared)
    assert not verdict.read_only


async def test_only_what_answers_and_nothing_else_can_be_withheld(world: World, reader: ReaderPool) -> None:
    read = await over_thrift(world, reader, "SELECT * FROM free")
    assert isinstance(read, Cleared)
    assert read.read_only
    schema = pb.AnalyzePlanRequest()
    schema.schema.plan.CopyFrom(message(table("free")))
    analysed = PlanRequest(kind="analyze", message=schema.SerializeToString(deterministic=True))
    for plan, read_only in (
        (execute(table("free")), True),
        (analysed, True),
        (persist(table("free")), False),
        (make_view(table("free")), False),
        (command("SELECT * FROM free"), False),
    ):
        verdict = await over_connect(world, reader, plan)
        assert names(verdict) == {"free"}
        assert isinstance(verdict, Cleared)
        assert verdict.read_only is read_only


def saved(target: str, mode: str) -> PlanRequest:
    write = pb.WriteOperation(mode=pb.WriteOperation.SaveMode.Value(f"SAVE_MODE_{mode}"), source="parquet")
    write.table.table_name = target
    write.table.save_method = pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_SAVE_AS_TABLE
    write.input.CopyFrom(message(table("plain")).root)
    plan = pb.Plan(command=pb.Command(write_operation=write))
    return PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))


@pytest.mark.parametrize(
    ("target", "mode", "meaning"),
    [
        ("free", "APPEND", "stays"),
        ("made", "APPEND", "changes"),
        ("made", "ERROR_IF_EXISTS", "changes"),
        ("made", "OVERWRITE", "changes"),
    ],
)
async def test_adding_rows_to_a_table_that_is_there_leaves_its_name_alone(
    world: World, reader: ReaderPool, target: str, mode: str, meaning: str
) -> None:
    statement = Statement(
        text="",
        principal=world.principal("ann"),
        context=SessionContext(namespace=("lab",), endpoint="connect"),
        plan=saved(target, mode),
    )
    verdict = await world.judge_statement(statement, reader)
    assert names(verdict) == {target, "plain", "free"}
    assert isinstance(verdict, Cleared)
    (effect,) = verdict.effects
    assert isinstance(effect, CatalogChanged)
    assert effect.meaning == meaning


MEANINGS = {
    "DROP TABLE free": "changes",
    "DROP VIEW plain": "changes",
    "CREATE OR REPLACE VIEW made AS SELECT id FROM free": "changes",
    "ALTER TABLE free ADD COLUMNS (more INT)": "changes",
    "ANALYZE TABLE free COMPUTE STATISTICS": "stays",
    "MSCK REPAIR TABLE free": "stays",
    "ALTER TABLE free DROP PARTITION (id = 1)": "stays",
    "REFRESH TABLE free": "stays",
    "COMMENT ON TABLE free IS 'x'": "stays",
}


@pytest.mark.parametrize("text", MEANINGS)
async def test_what_a_command_does_to_a_name(world: World, reader: ReaderPool, text: str) -> None:
    verdict = await over_thrift(world, reader, text)
    assert isinstance(verdict, Cleared), verdict
    effects = [effect for effect in verdict.effects if isinstance(effect, CatalogChanged)]
    assert [effect.meaning for effect in effects] == [MEANINGS[text]]
