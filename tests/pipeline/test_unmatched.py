"""`policies.unmatched_columns: closed`: nobody reads a table that lacks a column which policies name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.model.catalog import TableName
from gateway.model.statement import Cleared, PlanRequest, Refused
from gateway.pipeline import Rules
from gateway.policy.unusable import with_closed
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.plan.frames import message
from tests.plan.frames import table as frame

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORLD: Mapping[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        f"spark_catalog.hr.{name}": {"id": "bigint", "card": "string"}
        for name in ("fine", "masked", "denied", "tagged", "filtered", "wide")
    },
    "views": {
        "spark_catalog.hr.over": {
            "columns": {"id": "bigint", "card": "string"},
            "text": "SELECT id, card FROM hr.masked",
            "database": "hr",
            "output": ["id", "card"],
        }
    },
    "people": {"bob": {"groups": ["staff"]}, "ann": {"groups": ["staff", "admins"]}},
    "pack": """
service: spark
tags:
  - on: {catalog: spark_catalog, database: hr, table: tagged, column: crad}
    tags: [PII]
policies:
  - name: all
    on: {catalog: spark_catalog, database: hr, table: "*", column: "*"}
    allow: [{groups: [staff], access: [all]}]
  - name: fine
    on: {catalog: spark_catalog, database: hr, table: fine, column: card}
    mask: [{groups: [staff], type: MASK_NULL}]
  - name: cards
    on: {catalog: spark_catalog, database: hr, table: masked, column: crad}
    mask: [{groups: [admins], type: MASK_NONE}, {groups: [public], type: MASK_NULL}]
  - name: no cards
    on: {catalog: spark_catalog, database: hr, table: denied, column: crad}
    deny: [{groups: [staff], access: [select]}]
  - name: some rows
    on: {catalog: spark_catalog, database: hr, table: filtered}
    filter: [{groups: [staff], where: "crad = '1'"}]
  - name: cards anywhere
    on: {catalog: spark_catalog, database: hr, table: "wid*", column: crad}
    mask: [{groups: [staff], type: MASK_NULL}]
""",
}
CLOSED = Rules(unmatched_columns="closed")


@pytest.fixture(scope="module")
def world() -> World:
    return World(dict(WORLD))


async def refusal(world: World, reader: ReaderPool, sql: str, user: str = "bob") -> str:
    verdict = await world.judge(sql, reader, user=user, rules=CLOSED)
    assert isinstance(verdict, Refused), verdict
    return verdict.message


@pytest.mark.parametrize(
    ("table", "names"),
    [("masked", "policy `cards`"), ("denied", "policy `no cards`"), ("tagged", "tag `PII`")],
)
@pytest.mark.parametrize("user", ["bob", "ann"])
async def test_who_reads_the_table_is_told_the_policy_and_the_column(
    world: World, reader: ReaderPool, table: str, names: str, user: str
) -> None:
    told = await refusal(world, reader, f"SELECT id FROM hr.{table}", user)
    assert f"{names} refers to column `crad`, which table spark_catalog.hr.{table} does not have" in told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM hr.fine f WHERE EXISTS (SELECT 1 FROM hr.masked m WHERE m.id = f.id)",
        "SELECT count(*) FROM hr.masked",
        "INSERT INTO hr.fine SELECT id, card FROM hr.masked",
        "CREATE TABLE hr.copy AS SELECT card FROM hr.masked",
        "UPDATE hr.masked SET id = 1 WHERE card = 'x'",
        "DELETE FROM hr.masked WHERE card = 'x'",
        "ANALYZE TABLE hr.masked COMPUTE STATISTICS FOR ALL COLUMNS",
        "CREATE TEMPORARY VIEW t AS SELECT card FROM hr.masked",
    ],
)
async def test_whatever_reads_it_is_refused(world: World, reader: ReaderPool, sql: str) -> None:
    await refusal(world, reader, sql)


@pytest.mark.parametrize(
    "sql", ["UPDATE hr.masked SET id = 1", "ALTER TABLE hr.masked RENAME COLUMN card TO crad"]
)
async def test_commands_that_read_it_are_told_why(world: World, reader: ReaderPool, sql: str) -> None:
    assert "policy `cards` refers to column `crad`" in await refusal(world, reader, sql)


async def test_a_frame_of_it_is_refused(world: World, reader: ReaderPool) -> None:
    for table, opens in (("masked", False), ("fine", True)):
        plan = message(frame(f"hr.{table}")).SerializeToString(deterministic=True)
        request = PlanRequest(kind="execute", message=plan)
        verdict = await world.judge_plan(request, reader, user="bob", rules=CLOSED)
        assert isinstance(verdict, Cleared if opens else Refused), verdict


async def test_a_view_that_an_operator_made_is_closed_with_it(world: World, reader: ReaderPool) -> None:
    told = await refusal(world, reader, "SELECT card FROM hr.over")
    assert "the statement reads a view that is closed" in told
    assert "masked" not in told


async def test_a_filter_over_a_column_that_is_not_there_says_which(world: World, reader: ReaderPool) -> None:
    assert "`some rows` refers to `crad`" in await refusal(world, reader, "SELECT id FROM hr.filtered")


@pytest.mark.parametrize("table", ["fine", "wide"])
async def test_tables_that_have_the_columns_stay_open(world: World, reader: ReaderPool, table: str) -> None:
    verdict = await world.judge(f"SELECT id FROM hr.{table}", reader, user="bob", rules=CLOSED)
    assert isinstance(verdict, Cleared), verdict


async def test_nothing_is_closed_unless_settings_say_so(world: World, reader: ReaderPool) -> None:
    verdict = await world.judge("SELECT card FROM hr.masked", reader, user="bob")
    assert isinstance(verdict, Cleared), verdict


async def test_a_version_is_held_against_the_columns_of_now(world: World, reader: ReaderPool) -> None:
    name = TableName("spark_catalog", "hr", "fine", "VERSION AS OF 1")
    then = world.tables[name.current]
    world.versions[name.fold()] = type(then)(name=name, kind=then.kind, columns=then.columns[:1])
    verdict = await world.judge("SELECT id FROM hr.fine VERSION AS OF 1", reader, user="bob", rules=CLOSED)
    assert isinstance(verdict, Cleared), verdict


@pytest.mark.parametrize(
    ("name", "hides"),
    [("no salaries", "CASE WHEN FALSE THEN `salary` END AS `salary`"), ("own region", "FALSE")],
)
@pytest.mark.parametrize("user", ["bob", "ann"])
async def test_what_a_policy_at_fault_closes_no_view_shows(
    reader: ReaderPool, name: str, hides: str, user: str
) -> None:
    """An operator vouches for the view `directory`, so that nobody is denied what it reads."""
    made = World()
    (bad,) = (policy for policy in made.policies.policies() if policy.name == name)
    made.policies = with_closed(made.policies, [bad])
    verdict = await made.judge("SELECT pay FROM directory", reader, user=user)
    assert isinstance(verdict, Cleared)
    assert (hides if hides != "FALSE" else "WHERE (FALSE") in verdict.forwarded, verdict.forwarded
    direct = await made.judge("SELECT salary, region FROM employee", reader, user=user)
    assert not isinstance(direct, Cleared) or "`salary`" not in direct.forwarded
