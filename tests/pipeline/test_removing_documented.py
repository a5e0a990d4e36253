"""docs/policies.md says of each statement that removes rows what it takes; judging says the same."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.model.statement import Cleared, SessionContext, Statement
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.pipeline.test_plans import run
from tests.plan.frames import message
from tests.plan.frames import table as frame

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = (Path(__file__).parents[2] / "docs" / "policies.md").read_text("utf-8")
SAMPLES = {
    "DROP TABLE": "DROP TABLE d.{0}",
    "CREATE OR REPLACE TABLE": "CREATE OR REPLACE TABLE d.{0} AS SELECT id FROM d.plain",
    "REPLACE TABLE": "REPLACE TABLE d.{0} (id INT) USING parquet",
    "TRUNCATE TABLE": "TRUNCATE TABLE d.{0}",
    "INSERT OVERWRITE": "INSERT OVERWRITE d.{0} VALUES (1, 'x')",
    "INSERT INTO": "INSERT INTO d.{0} VALUES (1, 'x')",
    "DELETE": "DELETE FROM d.{0} WHERE id = 1",
    "UPDATE": "UPDATE d.{0} SET id = 1",
    "MERGE": "MERGE INTO d.{0} t USING d.plain s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE … PARTITION": "TRUNCATE TABLE d.{0} PARTITION (id = 1)",
    "ALTER TABLE … DROP COLUMN": "ALTER TABLE d.{0} DROP COLUMN pin",
    "… RENAME COLUMN": "ALTER TABLE d.{0} RENAME COLUMN pin TO pon",
    "… DROP PARTITION": "ALTER TABLE d.{0} DROP PARTITION (id = 1)",
    "… RENAME TO": "ALTER TABLE d.{0} RENAME TO d.other",
}
"""Statements of the table; frames are tried in tests/e2e/test_removing.py."""
KEYED = ("INSERT INTO",)
"""What removes rows only of tables where a row takes the place of the one with its key."""
PART, NOTHING = ("filtered", "masked", "cut"), ("shut",)
GRANTS = {
    "all": "[all]",
    "drop by name": "[all, drop]",
    "delete by name": "[all, delete]",
    "both by name": "[all, drop, delete]",
}
PACK = """
service: spark
policies:
  - name: everything
    on:
      - {{catalog: "*", database: "*"}}
      - {{catalog: "*", database: "*", table: "*", column: "*"}}
    allow: [{{groups: [g], access: {granted}}}]
  - name: rows
    on: {{catalog: "*", database: d, table: filtered}}
    filter: [{{groups: [g], where: "id = 7"}}]
  - name: values
    on: {{catalog: "*", database: d, table: masked, column: pin}}
    mask: [{{groups: [g], type: MASK_NULL}}]
  - name: columns
    on:
      - {{catalog: "*", database: d, table: cut, column: pin}}
      - {{catalog: "*", database: d, table: shut, column: "*"}}
    deny: [{{groups: [g], access: [select]}}]
"""


def rows() -> list[tuple[str, str, str]]:
    """Return statement, and what it takes where a part is hidden and where all is."""
    part = TEXT.partition("## What removes rows\n")[2].partition("\n## ")[0]
    found = []
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and "`" in cells[0]:
            found += [(name, cells[2], cells[3]) for name in re.findall(r"`([^`]+)`", cells[0])]
    return found


def world_of(granted: str) -> World:
    tables = {
        f"spark_catalog.d.{name}": {"id": "int", "pin": "string"} for name in (*PART, *NOTHING, "plain")
    }
    people = {"who": {"groups": ["g"]}}
    pack = PACK.format(granted=granted)
    return World(
        {"catalogs": ["spark_catalog"], "tables": tables, "views": {}, "people": people, "pack": pack}
    )


def with_keys(there: World) -> World:
    for name, table in there.tables.items():
        there.tables[name] = replace(table, replaces_rows=True)
    return there


async def test_each_statement_of_ours_is_in_the_table() -> None:
    assert SAMPLES.keys() <= {name for name, _, _ in rows()}


@pytest.mark.parametrize("granted", GRANTS)
async def test_what_it_takes_is_what_the_table_says(reader: ReaderPool, granted: str) -> None:
    without_keys, keyed = world_of(GRANTS[granted]), with_keys(world_of(GRANTS[granted]))
    for name, part, nothing in rows():
        if name not in SAMPLES:
            continue
        there = keyed if name in KEYED else without_keys
        for table, wanted in [(one, part) for one in PART] + [(one, nothing) for one in NOTHING]:
            statement = Statement(
                text=SAMPLES[name].format(table), principal=there.principal("who"), context=SessionContext()
            )
            verdict = await there.judge_statement(statement, reader)
            allowed = wanted != "refused" and granted in (wanted, "both by name")
            assert isinstance(verdict, Cleared) == allowed, (name, table, wanted, granted, verdict)
        plain = Statement(
            text=SAMPLES[name].format("plain"), principal=there.principal("who"), context=SessionContext()
        )
        assert isinstance(await there.judge_statement(plain, reader), Cleared), name


@pytest.mark.parametrize("granted", [*GRANTS.values(), "[create, insert, select]"])
async def test_what_a_stream_takes_is_what_the_table_says(reader: ReaderPool, granted: str) -> None:
    """Spark reads the files that a stream has written, and none that were there before."""
    rows = message(frame("d.plain")).root
    rows.read.is_streaming = True
    for provider in ("parquet", "iceberg"):
        there = world_of(granted)
        for name, table in there.tables.items():
            there.tables[name] = replace(table, provider=provider)
        for table_name in (*PART, "plain"):
            start = pb.WriteStreamOperationStart(input=rows, table_name=f"d.{table_name}")
            verdict = await there.judge_plan(run(write_stream_operation_start=start), reader, user="who")
            added = provider == "iceberg" and table_name in ("filtered", "masked", "plain")
            allowed = added or (table_name == "plain" and "create" not in granted)
            assert isinstance(verdict, Cleared) == allowed, (provider, table_name, granted, verdict)


DATABASES = """
service: spark
policies:
  - name: databases
    on: {catalog: "*", database: "*"}
    allow: [{groups: [g], access: [all]}]
  - name: tables
    on: %s
    allow: [{groups: [g], access: %s}]
"""
WHOLE = '{catalog: "*", database: "*", table: "*", column: "*"}'
BARE = '{catalog: "*", database: "*", table: "*"}'
BELOW = f'[{BARE}, {{catalog: "*", database: a, table: "*", column: "*"}}]'
MASK = """  - name: values
    on: {catalog: "*", database: "%s", table: t, column: pin}
    mask: [{groups: [g], type: MASK_NULL}]
"""
ROWS = """  - name: rows
    on: {catalog: "*", database: "%s", table: t}
    filter: [{groups: [g], where: "id = 7"}]
"""
TAGGED = """  - name: tagged
    on: {tag: PII}
    mask: [{groups: [g], type: MASK_NULL}]
tags:
  - on: {catalog: "*", database: "%s", table: t, column: pin}
    tags: [PII]
"""
CUT = """  - name: part
    on: {catalog: "*", database: "%s", table: t, column: id}
    allow: [{groups: [g], access: [select]}]
"""


@pytest.mark.parametrize(
    ("database", "on", "said", "free"),
    [
        ("spark_catalog.d", WHOLE, "", True),
        ("spark_catalog.d", WHOLE, MASK % "other", True),
        ("spark_catalog.d", WHOLE, MASK % "dd", True),
        ("lake.a", WHOLE, MASK % "ab", True),
        *(("spark_catalog.d", WHOLE, said % "d", False) for said in (MASK, ROWS, TAGGED)),
        *(("spark_catalog.d", WHOLE, said % "*", False) for said in (MASK, ROWS, TAGGED)),
        *(("lake.a", WHOLE, said % "a.b", False) for said in (MASK, ROWS, TAGGED)),
        ("lake.a.b", WHOLE, MASK % "a", False),
        ("spark_catalog.who", WHOLE, MASK % "{USER}", False),
        ("spark_catalog.d", BARE, CUT % "d", False),
        ("lake.a", BELOW, CUT % "a.b", False),
    ],
)
async def test_a_database_with_all_in_it_is_dropped_by_name_where_some_of_it_may_be_hidden(
    reader: ReaderPool, database: str, on: str, said: str, *, free: bool
) -> None:
    for granted in ("[all]", "[all, drop]"):
        there = World(
            {
                "catalogs": ["spark_catalog", "lake"],
                "tables": {"lake.a.b.t": {"id": "int", "pin": "string"}},
                "views": {},
                "people": {"who": {"groups": ["g"]}},
                "pack": DATABASES % (on, granted) + said,
            }
        )
        text = f"DROP DATABASE {database} CASCADE"
        statement = Statement(text=text, principal=there.principal("who"), context=SessionContext())
        verdict = await there.judge_statement(statement, reader)
        assert isinstance(verdict, Cleared) == (free or granted == "[all, drop]"), verdict
