"""What columns without an alias are called in lineage. Against Spark: tests/e2e/test_lineage_spark.py."""

from __future__ import annotations

import pytest

from gateway.lineage.gathering import names_of_columns
from gateway.model.lineage import DatasetKind
from gateway.model.reading import Reading
from gateway.reader.pool import ReaderPool
from tests.lineage_world import VIEWS, catalog_of, flows, lineage, tables

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITES = (
    "CREATE TABLE made AS {}",
    "CREATE OR REPLACE TEMP VIEW made AS {}",
    "CREATE VIEW made AS {}",
    "CACHE TABLE made AS {}",
    "CREATE TABLE made AS WITH c AS ({}) SELECT * FROM c",
    "CREATE TABLE made AS SELECT q.* FROM ({}) q",
    "CREATE TABLE made AS {} UNION ALL SELECT 'k', 'l', 1, 2",
    "CREATE TABLE made AS SELECT * FROM (({} LIMIT 3))",
)
QUERY = "SELECT max(p.ssn), concat(p.ssn, '-', P.x), p.x + 1, COUNT(*) FROM a p GROUP BY ALL"
NAMES = ["max(ssn)", "concat(ssn, -, x)", "(x + 1)", "count(1)"]


@pytest.mark.parametrize("write", WRITES)
async def test_whatever_is_made_has_sparks_names(reader: ReaderPool, write: str) -> None:
    found = await lineage(reader, write.format(QUERY))
    assert found.table_level == ""
    assert [vertex.column for vertex in found.columns] == NAMES


async def test_columns_of_the_table_that_is_written_count_by_position(reader: ReaderPool) -> None:
    found = await lineage(reader, "INSERT INTO c SELECT max(p.x), p.y + 1 FROM a p GROUP BY p.y")
    assert [v.column for v in found.columns] == ["i", "w"]
    found = await lineage(reader, "CREATE VIEW made (n, o) AS SELECT max(p.x), count(*) FROM a p")
    assert [v.column for v in found.columns] == ["n", "o"]


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("SELECT `max(ssn)` FROM (SELECT max(p.ssn), p.x FROM a p GROUP BY p.x)", "a.ssn"),
        ("SELECT q.`(x + 1)` FROM (SELECT p.x + 1 FROM a p) q", "a.x"),
        ("WITH c AS (SELECT upper(ssn) FROM a) SELECT `upper(ssn)` FROM c", "a.ssn"),
        ("SELECT `nobody_knows(ssn)` FROM (SELECT nobody_knows(ssn), x FROM a)", "a.ssn"),
        ("FROM a |> AGGREGATE max(x) GROUP BY lower(ssn) |> SELECT `lower(ssn)`", "a.ssn"),
        (
            "SELECT `2_max(x)` FROM (SELECT x, y FROM a) u PIVOT (sum(u.x), max(u.x) FOR y IN (1, 2))",
            "a.x a.y",
        ),
    ],
)
async def test_a_name_is_found_again_within_a_statement(reader: ReaderPool, query: str, source: str) -> None:
    found = await lineage(reader, query)
    assert found.table_level == ""
    (flow,) = flows(found).values()
    assert " ".join(part.split(":")[0] for part in flow.split()) == source


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("x + 1", "(x + 1)"),
        ("d + 1", "date_add(d, 1)"),
        ("d + name", "*"),
        ("d - id", "date_sub(d, id)"),
        ("d - d", "(d - d)"),
        ("d - ts", "(d - ts)"),
        ("ts + interval 1 hour", "ts + interval '01' hour"),
        ("m['K']", "m[k]"),
        ("s['f']", "s.f"),
        ("salary + bonus", "(salary + bonus)"),
        ("s.f + 1", "(s.f + 1)"),
        ("nvl(salary, 0)", "nvl(salary, 0)"),
        ("ghost(d)", "*"),
        ("count(*) + 1", "(count(1) + 1)"),
        ("(SELECT max(id) FROM named)", "*"),
        ("reflect('java.lang.Math', 'abs', 1)", "*"),
        ("from_json(name, repeat('a', 100))", "*"),
        ("cast(id AS string)", "id"),
        ("cast(s.f AS string)", "cast(s.f as string)"),
        ("current_date", "current_date()"),
    ],
)
async def test_a_name_that_takes_an_analysis_is_left_unknown(
    reader: ReaderPool, item: str, name: str
) -> None:
    found = await lineage(reader, f"CREATE TABLE made AS SELECT {item}, name AS k FROM named CROSS JOIN b")
    assert [vertex.column for vertex in found.columns] == [name, "k"]


async def test_columns_of_unknown_names_are_one(reader: ReaderPool) -> None:
    found = await lineage(reader, "CREATE TEMP VIEW made AS SELECT ghost(ssn), ghost(x), y FROM a")
    assert flows(found) == {"made.*": "a.ssn:~ a.x:~", "made.y": "a.y:="}
    assert found.targets[0].kind is DatasetKind.TEMP_VIEW
    # Whoever reads it later may mean any of them.
    catalog = await catalog_of(reader, temp_views={"made": found})
    later = await lineage(reader, "SELECT `ghost(ssn)` AS n, y FROM made", catalog)
    assert later.table_level == ""
    assert flows(later)["y"] == "a.y:="
    assert "a.ssn" in flows(later)["n"]


async def test_a_column_of_the_name_comes_before_what_spark_would_call_it(reader: ReaderPool) -> None:
    found = await lineage(reader, "SELECT current_date FROM (SELECT ssn AS current_date FROM a)")
    assert flows(found) == {"current_date": "a.ssn:="}


async def test_nothing_is_asked_where_every_column_has_a_name(reader: ReaderPool) -> None:
    reading = await reader.read("SELECT x, max(y) AS m FROM a GROUP BY x")
    assert isinstance(reading, Reading)

    class Silent:
        async def column_names(self, text: str, *, expression: bool = False) -> None:
            raise AssertionError(text)

    assert await names_of_columns(Silent(), "", reading) == ()  # type: ignore[arg-type]


async def test_expressions_are_the_users_words(reader: ReaderPool) -> None:
    query = "SELECT (SELECT max(q.x) FROM b q), upper(v1.n) FROM v1"
    found = await lineage(reader, query, await catalog_of(reader, tables(), views=VIEWS))
    assert not [edge for edge in found.edges if "_n0_" in edge.expression]
