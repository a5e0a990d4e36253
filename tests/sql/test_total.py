"""Statements in which nothing can fail; cases in tests/cases/total.yaml."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from gateway.algebra.nodes import RelationNode
from gateway.model.reading import Reading, RelationRole, Span
from gateway.reader.pool import ReaderPool
from gateway.sql.total import total_statement, total_text
from tests.sql.test_leakproof import TABLES, joined, relation_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "total.yaml").read_text())


async def read(
    reader: ReaderPool, text: str
) -> tuple[RelationNode | None, dict[Span, dict[str, str]], frozenset[Span]]:
    reading = await reader.read(text)
    assert isinstance(reading, Reading), reading
    spans = [(r.span, r) for r in reading.relations if r.span is not None]
    scanned = {
        span: TABLES[relation.parts[-1]]
        for span, relation in spans
        if relation.role is RelationRole.SCAN and relation.parts[-1] in TABLES
    }
    ctes = frozenset(span for span, relation in spans if relation.role is RelationRole.CTE)
    return await relation_of(reader, text), scanned, ctes


@pytest.mark.parametrize("text", CASES["total"])
async def test_nothing_can_fail(text: str, reader: ReaderPool) -> None:
    tree, scanned, ctes = await read(reader, text)
    assert total_statement(tree, text, scanned, ctes) is not None


@pytest.mark.parametrize("text", CASES["fails"])
async def test_something_can_fail(text: str, reader: ReaderPool) -> None:
    tree, scanned, ctes = await read(reader, text)
    assert total_statement(tree, text, scanned, ctes) is None


async def test_what_it_rests_on(reader: ReaderPool) -> None:
    """The columns of conditions, found through aliases, and not those that are only shown at the end."""
    text = (
        "SELECT region, x FROM (SELECT day AS d, n AS x, region FROM sales) s JOIN dim ON dim.id = x "
        "WHERE d > '2024-01-01'"
    )
    tree, scanned, ctes = await read(reader, text)
    found = total_statement(tree, text, scanned, ctes)
    assert found is not None
    assert {span.of(text): names for span, names in found.items()} == {
        "sales": {"day", "n", "region"},
        "dim": {"id"},
    }


@pytest.mark.parametrize(
    ("text", "rests_on"),
    [
        ("region = 'EMEA' AND day > DATE'2020-01-01'", {"region", "day"}),
        ("region = current_user() OR lower(REGION) IN ('a', 'b')", {"region"}),
        ("CASE WHEN FALSE THEN `ssn` ELSE TRY_CAST((substr(ssn, 1, 2)) AS STRING) END", {"ssn"}),
        ("100 / n > 3", None),
        ("id = '5'", None),
        ("id IN (SELECT id FROM a.b.c)", None),
        ("my_function(id)", None),
        ("tags", None),
    ],
)
async def test_the_text_of_a_policy(text: str, rests_on: set[str] | None, reader: ReaderPool) -> None:
    reading = await reader.read_expression(text)
    assert isinstance(reading, Reading)
    assert total_text(reading.tree, text, TABLES["sales"]) == rests_on


async def test_many_wide_tables_take_no_long_time(reader: ReaderPool) -> None:
    columns = {f"c{number}": "int" for number in range(1000)} | {"id": "int"}
    text = joined(30, "d0.id = 5", "".join(f", d0.c{number}" for number in range(500)))
    tree, scanned, ctes = await read(reader, text)
    began = time.process_time()
    total_statement(tree, text, dict.fromkeys(scanned, columns), ctes)
    assert time.process_time() - began < 3
