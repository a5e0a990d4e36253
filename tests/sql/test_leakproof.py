"""Conditions that go below the barriers of row filters; cases in tests/cases/leakproof.yaml."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.algebra.nodes import RelationNode
from gateway.algebra.spark import lower_relation
from gateway.model.reading import Reading, RelationRole
from gateway.reader.pool import ReaderPool
from gateway.sql.leakproof import MAX_CHARS, MAX_CHARS_OF_ALL, Scanned, leakproof

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "cases" / "leakproof.yaml").read_text()
)
TABLES = {
    "sales": {
        "id": "int",
        "n": "bigint",
        "m": "int",
        "day": "date",
        "ts": "timestamp",
        "region": "string",
        "amount": "decimal(10,2)",
        "ok": "boolean",
        "fine": "decimal(38,30)",
        "ssn": "string",
        "f": "double",
        "ch": "char(3)",
        "tags": "array<string>",
    },
    "dim": {"id": "int", "day": "date", "name": "string"},
    "oth": {"id": "int", "x": "int"},
    "notes": {"id": "int", "held": "struct<v:variant>"},
}
FILTERED = ("sales", "dim")
MASKED = ("ssn",)
WRITTEN = {
    name: f"TRY_CAST(`{name}` AS {kind.upper()})" for name, kind in (TABLES["dim"] | TABLES["sales"]).items()
}


async def relation_of(reader: ReaderPool, text: str) -> RelationNode | None:
    reading = await reader.read(text)
    tree = reading.tree if isinstance(reading, Reading) else None
    return None if tree is None else lower_relation(tree)


async def copies_of(reader: ReaderPool, text: str) -> dict[str, list[str]]:
    reading = await reader.read(text)
    assert isinstance(reading, Reading), reading
    scanned = {}
    for relation in reading.relations:
        name = relation.parts[-1]
        if relation.role is RelationRole.SCAN and relation.span is not None and name in TABLES:
            takes = frozenset(TABLES[name]) - set(MASKED) if name in FILTERED else frozenset()
            scanned[relation.span] = Scanned(columns=TABLES[name], takes=takes)
    ctes = frozenset(r.span for r in reading.relations if r.role is RelationRole.CTE and r.span is not None)
    found = leakproof(await relation_of(reader, text), text, scanned, ctes).copies
    return {
        span.of(text).rsplit(".", 1)[-1]: list(found[span]) for span in sorted(found, key=lambda s: s.start)
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"])
async def test_what_goes_below(case: dict[str, Any], reader: ReaderPool) -> None:
    expected = {
        table: sorted(bracketed(copy.format(**WRITTEN)) for copy in copies)
        for table, copies in case.get("copies", {}).items()
    }
    found = await copies_of(reader, case["sql"])
    assert {table: sorted(copies) for table, copies in found.items()} == expected


def bracketed(copy: str) -> str:
    return (
        copy if copy.startswith("TRY_CAST(") and copy.endswith(")") and copy.count("(") == 1 else f"({copy})"
    )


async def test_a_very_long_condition_is_left_out(reader: ReaderPool) -> None:
    words = ", ".join(f"'{number:040}'" for number in range(500))
    text = f"SELECT * FROM sales WHERE region IN ({words}) AND id = 5"
    assert len(text) > MAX_CHARS
    assert await copies_of(reader, text) == {"sales": ["(TRY_CAST(`id` AS INT) = (5))"]}


def joined(scans: int, condition: str, more: str = "") -> str:
    """Write a join of `scans` mentions of one table, each equal to the one before it."""
    others = " ".join(f"JOIN dim d{n} ON d{n}.id = d{n - 1}.id" for n in range(1, scans))
    return f"SELECT d0.id{more} FROM dim d0 {others} WHERE {condition}"


async def test_what_all_scans_get_together_is_bounded(reader: ReaderPool) -> None:
    numbers = ", ".join(str(10_000_000 + number) for number in range(500))
    text = joined(20, f"d3.id IN ({numbers})")
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    scanned = {
        r.span: Scanned(columns={"id": "int"}, takes=frozenset({"id"})) for r in reading.relations if r.span
    }
    found = leakproof(await relation_of(reader, text), text, scanned, frozenset()).copies
    taken = [copies for copies in found.values() if copies]
    assert 0 < len(taken) < len(found) == 20
    assert sum(len(copy) for copies in taken for copy in copies) <= MAX_CHARS_OF_ALL


async def test_many_wide_tables_take_no_long_time(reader: ReaderPool) -> None:
    """Followed column by column through each join, 60 tables and 800 columns took a quarter of a minute."""
    columns = {f"c{number}": "int" for number in range(1000)} | {"id": "int"}
    text = joined(30, "d0.id = 5", "".join(f", d0.c{number}" for number in range(500)))
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    scanned = {
        r.span: Scanned(columns=columns, takes=frozenset(columns)) for r in reading.relations if r.span
    }
    tree = await relation_of(reader, text)
    assert tree is not None
    began = time.process_time()
    assert leakproof(tree, text, scanned, frozenset()).copies == {}
    assert time.process_time() - began < 3


async def test_columns_that_nobody_asks_for_cost_nothing(reader: ReaderPool) -> None:
    columns = {f"c{number}": "int" for number in range(5000)} | {"id": "int"}
    text = joined(20, "d0.id = 5")
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    scanned = {
        r.span: Scanned(columns=columns, takes=frozenset(columns)) for r in reading.relations if r.span
    }
    found = leakproof(await relation_of(reader, text), text, scanned, frozenset()).copies
    assert list(found.values()) == [("(TRY_CAST(`id` AS INT) = (5))",)] * 20


@pytest.mark.parametrize(
    "text", ["no statement", "SELECT 1 +" + " 1 +" * 3000 + " 1 FROM sales WHERE id = 5"]
)
async def test_what_has_no_tree_has_no_copies(text: str, reader: ReaderPool) -> None:
    tree = await relation_of(reader, text)
    assert tree is None
    assert leakproof(tree, text, {}, frozenset()).copies == {}
