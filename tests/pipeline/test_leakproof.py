"""Whether conditions go below a barrier at all: by the table's filter, and how its columns are written."""

from __future__ import annotations

import pytest

from gateway.model.catalog import FUNCTION, TableName
from gateway.model.statement import Cleared
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.judge_world import World, with_function

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHOSEN = TableName("spark_catalog", "db", "chosen", FUNCTION)


def world(row_filter: str, columns: dict[str, str] | None = None) -> World:
    made = World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {"spark_catalog.db.t": columns or {"id": "int", "day": "date", "other": "int"}},
            "views": {},
            "people": {"bob": {"groups": []}},
            "pack": f"""
service: spark
policies:
  - name: all read
    on: {{catalog: "*", database: "*", table: "*", column: "*"}}
    allow: [{{groups: [public], access: [all]}}]
  - name: rows
    on: {{catalog: spark_catalog, database: db, table: t}}
    filter: [{{groups: [public], where: "{row_filter}"}}]
""",
        }
    )
    return with_function(made, CHOSEN)


async def forwarded(world: World, reader: ReaderPool, text: str) -> str:
    verdict = await world.judge(text, reader, user="bob", use="db", rules=Rules(barriers="always"))
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


@pytest.mark.parametrize(
    ("row_filter", "below"),
    [
        ("other > 5", True),
        ("length(current_user()) > 2 AND other IN (SELECT max(id) FROM spark_catalog.db.t)", True),
        ("rand(7) < 0.1", False),
        ("other > 5 AND monotonically_increasing_id() % 10 = 0", False),
        ("spark_catalog.db.chosen(other)", False),
    ],
)
async def test_filters_that_would_choose_other_rows(row_filter: str, below: bool, reader: ReaderPool) -> None:
    """Of a filter that takes one row in ten, each condition would show another tenth."""
    found = await forwarded(world(row_filter), reader, "SELECT * FROM t WHERE id = 5")
    assert ("TRY_CAST(`id` AS INT) = (5)" in found) == below


async def test_columns_are_written_as_the_catalog_has_them(reader: ReaderPool) -> None:
    """Spark compares names letter by letter: `İd` is not what Python makes of it in lower case."""
    found = await forwarded(
        world("id > 5", {"id": "int", "İd": "int"}), reader, "SELECT * FROM t WHERE `İd` = 5"
    )
    assert "TRY_CAST(`İd` AS INT) = (5)" in found
