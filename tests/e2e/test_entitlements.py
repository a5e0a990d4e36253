"""Row filters that ask other tables: what Spark makes of them under a barrier and without one.

Statements are judged here and given to Spark as they would be forwarded. About 20 s of CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.model.statement import Cleared
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.e2e.running import Spark, connect
from tests.judge_world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATABASE = "entitled"
IN_LIST = "region IN (SELECT e.region FROM spark_catalog.entitled.regions e WHERE e.who = current_user())"
SINCE = "day >= (SELECT min(s.since) FROM spark_catalog.entitled.since s)"
DAYS = "day IN (SELECT d.day FROM spark_catalog.entitled.days d WHERE d.who = current_user())"
SALES = {"id": "bigint", "region": "string", "amount": "int", "day": "date"}


@pytest.fixture(scope="module")
def world() -> World:
    def filtered(table: str, where: str) -> str:
        return f"""
  - name: {table}
    on: {{catalog: spark_catalog, database: {DATABASE}, table: {table}}}
    filter: [{{groups: [public], where: "{where}"}}]"""

    tables = {f"spark_catalog.{DATABASE}.{name}": SALES for name in ("by_region", "by_since", "by_day")}
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {
                **tables,
                f"spark_catalog.{DATABASE}.regions": {"who": "string", "region": "string"},
                f"spark_catalog.{DATABASE}.since": {"since": "date"},
                f"spark_catalog.{DATABASE}.days": {"who": "string", "day": "date"},
            },
            "views": {},
            "people": {"bob": {"groups": []}},
            "pack": """
service: spark
policies:
  - name: all read
    on: {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [public], access: [all]}]"""
            + filtered("by_region", IN_LIST)
            + filtered("by_since", SINCE)
            + filtered("by_day", DAYS)
            + "\n",
        }
    )


@pytest.fixture(scope="module")
def cursor(spark: Spark) -> Iterator[Any]:
    made = f"CREATE TABLE {DATABASE}.{{}} USING parquet PARTITIONED BY (day) AS SELECT id, "
    made += "concat('r', id % 4) AS region, CAST(id AS INT) AS amount, "
    made += "date_add(DATE'2024-01-01', CAST(id % 12 AS INT)) AS day FROM range(480)"
    spark.query(
        f"CREATE DATABASE {DATABASE}",
        *(made.format(name) for name in ("by_region", "by_since", "by_day")),
        f"CREATE TABLE {DATABASE}.regions USING parquet AS VALUES ('bob', 'r1'), ('bob', 'r3'), ('eve', 'r2')"
        " AS t(who, region)",
        f"CREATE TABLE {DATABASE}.since USING parquet AS SELECT DATE'2024-01-05' AS since",
        f"CREATE TABLE {DATABASE}.days USING parquet AS VALUES ('bob', DATE'2024-01-03') AS t(who, day)",
    )
    connection = connect(spark.host, spark.port, "direct")
    cursor = connection.cursor()
    cursor.execute(f"USE {DATABASE}")
    yield cursor
    connection.close()


async def plan_of(world: World, reader: ReaderPool, cursor: Any, text: str) -> str:
    """Return the physical plan, in which Spark has decided already what it does once."""
    verdict = await world.judge(text, reader, user="bob", use=DATABASE, rules=Rules())
    assert isinstance(verdict, Cleared), verdict
    cursor.execute("SET spark.sql.adaptive.enabled=false")
    cursor.execute(f"EXPLAIN FORMATTED {verdict.forwarded}")
    return "\n".join(row[0] for row in cursor.fetchall())


ONCE = ("SELECT sum(amount) FROM {t} WHERE amount > 5", "SELECT id FROM {t} WHERE 1 / amount > 0")
TWICE = (
    "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.amount",
    "SELECT 1 / amount FROM {t} WHERE 1 / amount > 0 UNION ALL SELECT amount FROM {t}",
    "SELECT id FROM {t} WHERE amount IN (SELECT amount / 2 FROM {t})",
)


@pytest.mark.parametrize("text", ONCE)
async def test_a_list_of_entitlements_is_a_broadcast_semi_join(
    world: World, reader: ReaderPool, cursor: Any, text: str
) -> None:
    plan = await plan_of(world, reader, cursor, text.format(t="by_region"))
    assert plan.count("BroadcastHashJoin LeftSemi") == 1
    assert "NestedLoop" not in plan


@pytest.mark.parametrize("text", TWICE)
async def test_entitlements_of_a_table_that_is_read_twice_are_read_once(
    world: World, reader: ReaderPool, cursor: Any, text: str
) -> None:
    plan = await plan_of(world, reader, cursor, text.format(t="by_region"))
    assert plan.count("BroadcastHashJoin LeftSemi") >= 2
    assert len(set(re.findall(r"Scan parquet \S*[.]regions \(\d+\)", plan))) == 1
    assert "ReusedExchange" in plan


@pytest.mark.parametrize("text", TWICE)
async def test_the_one_value_of_a_filter_is_asked_for_once(
    world: World, reader: ReaderPool, cursor: Any, text: str
) -> None:
    plan = await plan_of(world, reader, cursor, text.format(t="by_since"))
    assert "ReusedSubquery" in plan
    assert len(set(re.findall(r"Scan parquet \S*[.]since \(\d+\)", plan))) == 1


@pytest.mark.parametrize("text", ONCE)
async def test_what_a_filter_asks_chooses_partitions(
    world: World, reader: ReaderPool, cursor: Any, text: str
) -> None:
    by_list = await plan_of(world, reader, cursor, text.format(t="by_day"))
    assert re.search(r"PartitionFilters: \[.*dynamicpruning", by_list)
    by_value = await plan_of(world, reader, cursor, text.format(t="by_since"))
    assert re.search(r"PartitionFilters: \[.*day#\d+ >= .*Subquery", by_value)
