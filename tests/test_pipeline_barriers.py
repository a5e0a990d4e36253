"""Whether a row filter has its barrier: by the statement, the filter, the masks and the session."""

from __future__ import annotations

import pytest

from gateway.model.statement import Cleared, SessionContext, Statement
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.judge_world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLUMNS = {"id": "int", "day": "date", "s": "varchar(5)", "n": "bigint", "tags": "array<int>"}
FILTER = "id > 5"
MASK = "type: MASK_HASH"


def world(row_filter: str = FILTER, mask: str = MASK) -> World:
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {"spark_catalog.db.t": COLUMNS, "spark_catalog.db.u": COLUMNS},
            "views": {
                "spark_catalog.db.v": {
                    "text": "SELECT id, day FROM spark_catalog.db.t",
                    "database": "db",
                    "output": ["id", "day"],
                    "columns": {"id": "int", "day": "date"},
                }
            },
            "people": {"bob": {"groups": []}},
            "pack": f"""
service: spark
policies:
  - name: all
    on: {{catalog: "*", database: "*", table: "*", column: "*"}}
    allow: [{{groups: [public], access: [all]}}]
  - name: rows
    on: {{catalog: spark_catalog, database: db, table: t}}
    filter: [{{groups: [public], where: "{row_filter}"}}]
  - name: s
    on: {{catalog: spark_catalog, database: db, table: t, column: s}}
    mask: [{{groups: [public], {mask}}}]
""",
        }
    )


async def forwarded(
    world: World, reader: ReaderPool, text: str, *, rules: Rules | None = None, **context: frozenset[str]
) -> str:
    session = SessionContext(namespace=("db",), **context)
    statement = Statement(text=text, principal=world.principal("bob"), context=session)
    verdict = await world.judge_statement(statement, reader, rules or Rules())
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


async def test_what_is_written_without_a_barrier(reader: ReaderPool) -> None:
    """What it rests on that nothing can fail is said to Spark: columns of another type fail on every row."""
    found = await forwarded(world(), reader, "SELECT n, s FROM t WHERE day = '2024-03-01' AND 5 > 4")
    assert "TABLESAMPLE" not in found
    assert "system.builtin.sha2(" in found
    types = (
        "system.builtin.typeof(`id`) = 'int' AND system.builtin.typeof(`day`) = 'date' "
        "AND system.builtin.typeof(`s`) IN ('string', 'varchar(5)')"
    )
    assert f"WHERE (id > 5) AND CASE WHEN {types} THEN TRUE ELSE" in found


@pytest.mark.parametrize(
    ("text", "barriers"),
    [
        ("SELECT * FROM t", 0),
        ("SELECT 1 / n FROM t WHERE id = 7", 0),
        ("SELECT * FROM t JOIN u USING (id) WHERE u.day = DATE'2024-03-01'", 0),
        ("SELECT * FROM t WHERE 1 / n > 0", 1),
        ("SELECT * FROM t JOIN u USING (id) WHERE 1 / u.n > 0", 1),
        ("SELECT * FROM t a JOIN t b USING (id) WHERE 1 / a.n > 0", 2),
        # A mask is no condition on what is stored; this one is a text.
        ("SELECT * FROM t WHERE s = 'x'", 0),
        # What Spark keeps is read by statements that are not known yet, and a view is.
        ("CREATE TEMPORARY VIEW x AS SELECT * FROM t", 1),
        ("CACHE TABLE x AS SELECT * FROM t", 1),
        ("SELECT * FROM v", 1),
        ("SELECT * FROM v, t WHERE t.id = 5", 1),
        ("INSERT INTO u SELECT * FROM t", 1),
        ("CREATE TABLE w AS SELECT * FROM t", 1),
    ],
)
async def test_statements(text: str, barriers: int, reader: ReaderPool) -> None:
    found = await forwarded(world(), reader, text)
    assert found.count("TABLESAMPLE") == barriers


@pytest.mark.parametrize(
    ("row_filter", "mask", "barrier"),
    [
        ("length(current_user()) > 2 AND day > DATE'2020-01-01'", MASK, False),
        ("100 / n > 3", MASK, True),
        ("s = 5", MASK, True),
        ("rand(7) < 0.1", MASK, True),
        ("id IN (SELECT max(id) FROM spark_catalog.db.u)", MASK, True),
        ("spark_catalog.db.chosen(id)", MASK, True),
        (FILTER, "type: CUSTOM, show: 'lower({col})'", False),
        (FILTER, "type: CUSTOM, show: 'CAST(100 / n AS STRING)'", True),
        (FILTER, "type: MASK_NULL", False),
    ],
)
async def test_filters_and_masks(row_filter: str, mask: str, barrier: bool, reader: ReaderPool) -> None:
    found = await forwarded(world(row_filter, mask), reader, "SELECT id FROM t")
    assert ("TABLESAMPLE" in found) == barrier


@pytest.mark.parametrize(
    ("context", "barrier"),
    [
        ({"settings": frozenset({"spark.sql.ansi.enabled", "spark.sql.session.timeZone"})}, False),
        ({"temp_views": frozenset({"x"})}, False),
        ({"handles": frozenset({"function:lower_case"})}, False),
    ],
)
async def test_sessions(context: dict[str, frozenset[str]], barrier: bool, reader: ReaderPool) -> None:
    found = await forwarded(world(), reader, "SELECT id FROM t WHERE id = 5", **context)
    assert ("TABLESAMPLE" in found) == barrier


async def test_it_can_be_switched_off(reader: ReaderPool) -> None:
    text = "SELECT id FROM t WHERE id = 7"
    found = await forwarded(world(), reader, text, rules=Rules(barriers="always"))
    assert "TABLESAMPLE" in found
    assert "TRY_CAST(`id` AS INT) = (7)" in found
