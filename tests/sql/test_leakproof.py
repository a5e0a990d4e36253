"""Conditions that go below the barriers of row filters; cases in tests/cases/leakproof.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.model.reading import Reading, RelationRole
from gateway.reader.pool import ReaderPool
from gateway.sql.leakproof import MOST_CHARS, Scanned, leakproof

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
        "ssn": "string",
        "f": "double",
        "ch": "char(3)",
        "tags": "array<string>",
    },
    "dim": {"id": "int", "day": "date", "name": "string"},
    "oth": {"id": "int", "x": "int"},
}
FILTERED = ("sales", "dim")
MASKED = ("ssn",)
WRITTEN = {
    name: f"TRY_CAST(`{name}` AS {kind.upper()})" for name, kind in (TABLES["dim"] | TABLES["sales"]).items()
}


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
    found = leakproof(await reader.read_plan(text), text, scanned, ctes)
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
    assert len(text) > MOST_CHARS
    assert await copies_of(reader, text) == {"sales": ["(TRY_CAST(`id` AS INT) = (5))"]}


@pytest.mark.parametrize(
    "text", ["no statement", "SELECT 1 +" + " 1 +" * 3000 + " 1 FROM sales WHERE id = 5"]
)
async def test_what_has_no_tree_has_no_copies(text: str, reader: ReaderPool) -> None:
    tree = await reader.read_plan(text)
    assert tree is None
    assert leakproof(tree, text, {}, frozenset()) == {}
