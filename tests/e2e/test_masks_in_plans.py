"""What masks cost Spark, by its plans: nothing where they are not used, and else what its own functions cost.

Statements are judged here and given to Spark as they would be forwarded. A table with masks and no filter is
pruned as an ungoverned one is: its guard is a projection, through which Spark pushes what is asked of
unmasked columns. About twenty seconds of CPU, most of it Spark's start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.model.statement import Cleared
from gateway.policy.masks import MASK_TYPES
from gateway.reader.pool import ReaderPool
from tests.e2e.running import Spark, connect
from tests.judge_world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATABASE = "masks_in_plans"
SHOWN = [mask for mask in MASK_TYPES if mask not in ("MASK_NONE", "CUSTOM")]
TEXTS = {f"t_{mask.lower()}": "string" for mask in SHOWN}
DATES = {f"d_{mask.lower()}": "date" for mask in SHOWN}
PEOPLE = {"id": "bigint", "k": "int", "own": "string", **TEXTS, **DATES, "day": "date"}
DAYS = {"day": "date", "number": "int"}
MASKED = [*TEXTS, *DATES, "own"]
FOREIGN = re.compile(r"PythonUDF|ArrowEval|BatchEval|ScalaUDF|MapElements|MapPartitions|HiveSimpleUDF", re.I)
"""What is not Spark's own, and would be called row by row."""


@pytest.fixture(scope="module")
def world() -> World:
    masks = "\n".join(
        f"  - name: {column}\n"
        f"    on: {{catalog: spark_catalog, database: {DATABASE}, table: people, column: {column}}}\n"
        f"    mask: [{{groups: [public], type: {column.split('_', 1)[1].upper()}}}]"
        for column in (*TEXTS, *DATES)
    )
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {f"spark_catalog.{DATABASE}.people": PEOPLE, f"spark_catalog.{DATABASE}.days": DAYS},
            "views": {},
            "people": {"bob": {"groups": []}},
            "pack": f"""
service: spark
policies:
  - name: all read
    on: {{catalog: "*", database: "*", table: "*", column: "*"}}
    allow: [{{groups: [public], access: [all]}}]
{masks}
  - name: own
    on: {{catalog: spark_catalog, database: {DATABASE}, table: people, column: own}}
    mask: [{{groups: [public], type: CUSTOM, show: "concat(left({{col}}, 1), '...')"}}]
""",
        }
    )


@pytest.fixture(scope="module")
def cursor(spark: Spark) -> Iterator[Any]:
    masked = ", ".join(
        [
            *(f"concat('text ', id) AS {column}" for column in TEXTS),
            *(f"date_add(DATE'2020-02-29', CAST(id AS INT)) AS {column}" for column in DATES),
        ]
    )
    spark.query(
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.people USING parquet PARTITIONED BY (day) AS SELECT id, "
        f"CAST(id % 7 AS INT) AS k, concat('own ', id) AS own, {masked}, "
        "date_add(DATE'2024-01-01', CAST(id % 4 AS INT)) AS day FROM range(40)",
        f"CREATE TABLE {DATABASE}.days USING parquet AS SELECT "
        "date_add(DATE'2024-01-01', CAST(id AS INT)) AS day, CAST(id AS INT) AS number FROM range(4)",
    )
    connection = connect(spark.host, spark.port, "direct")
    cursor = connection.cursor()
    cursor.execute(f"USE {DATABASE}")
    yield cursor
    connection.close()


async def governed(world: World, reader: ReaderPool, text: str) -> str:
    verdict = await world.judge(text, reader, user="bob", use=DATABASE)
    assert isinstance(verdict, Cleared), verdict
    assert verdict.rewritten
    return verdict.forwarded


def plan_of(cursor: Any, text: str) -> str:
    """Return the plan that Spark runs; what comes before it shows every column that a table has."""
    cursor.execute(f"EXPLAIN FORMATTED {text}")
    return "\n".join(row[0] for row in cursor.fetchall())


def read_columns(plan: str) -> list[list[str]]:
    """Return the columns that each scan reads from its files."""
    schemas = re.findall(r"ReadSchema: struct<(.*)>", plan)
    return [re.findall(r"(\w+):", schema) for schema in schemas]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT count(*), sum(id) FROM people", ["id"]),
        ("SELECT k, max(id) FROM people GROUP BY k", ["id", "k"]),
        ("SELECT p.id FROM (SELECT * FROM people) p ORDER BY p.id LIMIT 3", ["id"]),
        ("WITH w AS (SELECT *, k + 1 AS n FROM people) SELECT n FROM w WHERE id > 3", ["id", "k"]),
        ("SELECT t_mask_hash FROM people", ["t_mask_hash"]),
        ("SELECT own FROM people WHERE k = 3", ["k", "own"]),
    ],
)
async def test_a_mask_that_is_not_used_costs_nothing(
    world: World, reader: ReaderPool, cursor: Any, text: str, columns: list[str]
) -> None:
    """Spark reads the columns that the statement uses, as without masks, and computes only their masks."""
    plan = plan_of(cursor, await governed(world, reader, text))
    assert [sorted(found) for found in read_columns(plan)] == [columns]
    assert read_columns(plan) == read_columns(plan_of(cursor, text))
    for column in set(MASKED) - set(columns):
        assert f"{column}#" not in plan


PRUNED = {
    "partition": (
        "SELECT t_mask FROM people WHERE day = '2024-01-03'",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]",
    ),
    "statistics": (
        "SELECT t_mask_hash, d_mask FROM people WHERE id > 30 AND k IN (1, 2)",
        r"PushedFilters: \[.*GreaterThan\(id,30\)",
    ),
    "within": (
        "SELECT n FROM (SELECT day AS d, count(own) AS n FROM people GROUP BY day) WHERE d = '2024-01-03'",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]",
    ),
    "join": (
        "SELECT p.own FROM people p JOIN days d ON p.day = d.day WHERE d.number = 3",
        r"PartitionFilters: \[.*dynamicpruning",
    ),
}


@pytest.mark.parametrize(("text", "found"), PRUNED.values(), ids=PRUNED)
async def test_unmasked_columns_choose_what_is_read(
    world: World, reader: ReaderPool, cursor: Any, text: str, found: str
) -> None:
    """As they do in the table itself: masks alone are no barrier."""
    plan = plan_of(cursor, await governed(world, reader, text))
    assert re.search(found, plan)
    assert re.search(found, plan_of(cursor, text))
    assert not re.search("raise_error|typeof", plan)


async def test_masked_columns_choose_nothing(world: World, reader: ReaderPool, cursor: Any) -> None:
    """What is asked of a masked column is asked of the mask: files' statistics have the values."""
    plan = plan_of(
        cursor, await governed(world, reader, "SELECT id FROM people WHERE t_mask_hash = 'text 3'")
    )
    assert not re.search(r"PushedFilters: .*EqualTo\(t_mask_hash", plan)


@pytest.mark.parametrize("column", MASKED)
async def test_masks_are_generated_code_of_sparks_own(
    world: World, reader: ReaderPool, cursor: Any, column: str
) -> None:
    """No user function, no Python; the projection that masks is part of a whole stage of generated code."""
    plan = plan_of(cursor, await governed(world, reader, f"SELECT {column} FROM people"))
    assert not FOREIGN.search(plan)
    projections = re.findall(r"^\(\d+\) Project( \[codegen id : \d+\])?$", plan, re.MULTILINE)
    assert projections
    assert all(projections)
