"""Lineage, statement by statement, and where it is table-level instead."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.model.lineage import Clause, ColumnVertex, Dataset, DatasetKind, Operation
from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import lineage_of
from gateway.sql.lineage_writes import MAX_BRANCHES
from tests.lineage_world import VIEWS, catalog_of, decides, flows, lineage, short, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "lineage.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["sql"] for case in CASES])
async def test_a_statement(reader: ReaderPool, case: dict[str, Any]) -> None:
    found = await lineage(reader, case["sql"])
    assert found.table_level == ""
    assert " ".join(short(target) for target in found.targets) == case.get("target", "result")
    assert found.operation.value == case.get("operation", "insert" if "target" in case else "query")
    assert flows(found) == case["flows"]
    assert decides(found) == case.get("decides", [])
    assert list(found.guessed) == case.get("guessed", [])


# ---------------------------------------------------------------- views


async def test_a_view_is_read_through_and_kept_as_a_step(reader: ReaderPool) -> None:
    found = await lineage(reader, "SELECT n + k AS s FROM v2", await catalog_of(reader, views=VIEWS))
    assert flows(found) == {"s": "a.x:~ b.k:~"}
    assert decides(found) == ["WHERE: a.z", "JOIN: a.y b.i"]
    assert [short(step.column) for step in found.edges[0].steps] == ["v1.n", "v2.n", "v2.k"]
    assert {str(d) for d in found.inputs} == {"spark_catalog.ln.a", "spark_catalog.ln.b"}
    assert {short(d) for d in found.views} == {"v1", "v2"}
    within = {short(edge.targets[0]): [short(s.column) for s in edge.sources] for edge in found.view_edges}
    assert within == {"v1.n": ["a.x"], "v1.o": ["a.y"], "v2.n": ["a.x"], "v2.k": ["b.k"]}


async def test_a_view_whose_text_is_not_known_is_a_source(reader: ReaderPool) -> None:
    catalog = await catalog_of(reader, views={"v1": ("n o", "SELECT x, y FROM a")})
    opaque = type(catalog)(tables=catalog.tables)
    found = await lineage(reader, "SELECT n FROM v1", opaque)
    assert flows(found) == {"n": "v1.n:="}
    assert found.inputs[0].kind is DatasetKind.VIEW


async def test_a_view_that_cannot_be_read_is_a_source_with_the_reason(reader: ReaderPool) -> None:
    views = {"v9": ("n", "SELECT TRANSFORM(x) USING 'cat' AS (n string) FROM a")}
    catalog = await catalog_of(reader, views=views)
    found = await lineage(reader, "SELECT n FROM v9", catalog)
    assert found.table_level == ""
    assert flows(found) == {"n": "v9.n:="}
    assert [short(dataset) for dataset, _ in found.unread] == ["v9"]
    assert [short(dataset) for dataset in found.inputs] == ["a"]


async def test_views_that_read_each_other_end(reader: ReaderPool) -> None:
    views = {"p": ("n", "SELECT n FROM q"), "q": ("n", "SELECT n FROM p")}
    found = await lineage(reader, "SELECT n FROM p", await catalog_of(reader, views=views))
    assert found.unread


async def test_a_temporary_view_is_what_made_it_read(reader: ReaderPool) -> None:
    made = await lineage(
        reader, "CREATE TEMPORARY VIEW tv AS SELECT x, sum(y) AS s FROM a WHERE z > 1 GROUP BY x"
    )
    catalog = await catalog_of(reader, temp_views={"tv": made})
    found = await lineage(reader, "INSERT INTO c SELECT x + 1, s FROM tv WHERE s > 2", catalog)
    assert flows(found) == {"c.i": "a.x:~", "c.w": "a.y:Σ"}
    assert decides(found) == ["WHERE: a.z", "GROUP_BY: a.x", "WHERE: a.y"]
    assert {str(step.column) for edge in found.edges for step in edge.steps} == {"tv.x", "tv.s"}
    assert [short(dataset) for dataset in found.inputs] == ["a"]


# ---------------------------------------------------------------- masks


async def test_masks_on_the_way_are_marked(reader: ReaderPool) -> None:
    catalog = await catalog_of(reader, views=VIEWS, masks={"a": "x z", "v1": "o"})
    found = await lineage(reader, "SELECT n + 1 AS p, o AS q FROM v1", catalog)
    assert flows(found) == {"p": "a.x:~!", "q": "a.y:=!"}
    (edge,) = [edge for edge in found.edges if edge.clause is Clause.WHERE]
    assert [t.masking for t in edge.sources[0].transformations] == [True]


async def test_a_column_may_flow_both_ways(reader: ReaderPool) -> None:
    catalog = await catalog_of(reader, views={"v1": ("n", "SELECT x FROM a")}, masks={"v1": "n"})
    found = await lineage(reader, "SELECT n + a.x AS s FROM v1, a", catalog)
    assert flows(found) == {"s": "a.x:~+~!"}


# ---------------------------------------------------------------- table-level


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT TRANSFORM(x) USING 'cat' AS (n string) FROM a", "does not understand"),
        ("SELECT x FROM a JOIN IDENTIFIER(upper('b'))", "a name is not literal"),
        ("SELECT nothing FROM a", "is not in any relation"),
        ("INSERT INTO c SELECT x, y, z FROM a", "2 columns, but the query 3"),
        ("SELECT * FROM a NATURAL JOIN unknown1", "unknown columns"),
    ],
)
async def test_what_cannot_be_read_has_table_level_lineage(reader: ReaderPool, sql: str, why: str) -> None:
    found = await lineage(reader, sql)
    assert why in found.table_level
    assert found.edges == ()
    assert "spark_catalog.ln.a" in [str(dataset) for dataset in found.inputs]


async def test_more_inserts_than_are_told_apart_are_known_by_their_tables(reader: ReaderPool) -> None:
    many = " ".join(f"INSERT INTO {name} SELECT x" for name in ["b"] + ["c"] * MAX_BRANCHES)
    found = await lineage(reader, f"FROM a {many}")
    assert found.table_level
    assert [short(target) for target in found.targets] == ["b", "c"]
    assert [short(dataset) for dataset in found.inputs] == ["a"]


@pytest.mark.parametrize(
    ("of", "why"),
    [("relations", "reading has `b`"), ("columns", "reading has `k`")],
)
async def test_what_the_tree_lacks_is_noticed(reader: ReaderPool, of: str, why: str) -> None:
    text, larger = [await text_of(reader, sql) for sql in ("SELECT 1 AS n", "SELECT k FROM b")]
    reading = replace(text.reading, **{of: getattr(larger.reading, of)})
    found = lineage_of(replace(text, reading=reading), await catalog_of(reader))
    assert found is not None
    assert why in found.table_level


async def test_a_table_that_is_renamed_has_the_columns_of_the_other(reader: ReaderPool) -> None:
    found = await lineage(reader, "ALTER TABLE c RENAME TO Other")
    assert [str(target) for target in found.targets] == ["spark_catalog.ln.other"]
    assert flows(found) == {"other.i": "c.i:=", "other.w": "c.w:="}
    unknown = await lineage(reader, "ALTER TABLE ln.gone RENAME TO ln.other")
    assert (unknown.edges, [short(d) for d in unknown.inputs]) == ((), ["gone"])
    assert unknown.table_level


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DROP TABLE a", "EXPLAIN SELECT x FROM a", "USE ln"])
async def test_what_moves_and_shows_no_rows_has_no_lineage(reader: ReaderPool, sql: str) -> None:
    assert lineage_of(await text_of(reader, sql), await catalog_of(reader)) is None


# ---------------------------------------------------------------- size


async def test_too_many_dependencies_are_bounded(reader: ReaderPool) -> None:
    catalog = await catalog_of(reader)
    text = await text_of(reader, "SELECT x + y + z AS n FROM a")
    found = lineage_of(text, catalog, max_work=3)
    assert found is not None
    assert "too many dependencies" in found.table_level
    assert found.targets == (Dataset(DatasetKind.RESULT, ()),)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + " + ".join(["x"] * 90) + " AS n FROM a",
        "SELECT x AS n FROM a WHERE " + " AND ".join(f"x <> {i}" for i in range(1_500)),
        " UNION ALL ".join(["SELECT x AS n FROM a"] * 400),
        "SELECT n FROM " + "(SELECT n FROM " * 40 + "(SELECT x AS n FROM a)" + ")" * 40,
    ],
    ids=["sum", "and", "union", "nested"],
)
async def test_long_and_deep_statements(reader: ReaderPool, sql: str) -> None:
    found = await lineage(reader, sql)
    assert found.table_level == ""
    assert set(flows(found)) == {"n"}
    assert flows(found)["n"].startswith("a.x")


async def test_wide_statements_cost_what_they_say(reader: ReaderPool) -> None:
    """Columns that are passed on share one value, so the work of a level is its width."""
    wide = ", ".join(f"x + {i} AS n{i}" for i in range(1_000))
    sql = f"SELECT * FROM (SELECT * FROM (SELECT {wide} FROM a))"
    catalog = await catalog_of(reader)
    found = lineage_of(await text_of(reader, sql), catalog, max_work=10_000)
    assert found is not None
    assert found.table_level == ""
    assert len(found.edges) == 1_000


async def test_lineage_crosses_processes(reader: ReaderPool) -> None:
    text, catalog = await text_of(reader, "INSERT INTO c SELECT x, y FROM v1, a"), await catalog_of(reader)
    found = lineage_of(*pickle.loads(pickle.dumps((text, catalog))))
    assert found is not None
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.operation is Operation.INSERT


async def test_names_with_dots_stay_apart() -> None:
    dataset = Dataset(DatasetKind.TABLE, ("spark_catalog", "ln", "a.b"))
    assert str(ColumnVertex(dataset, "c")) == "spark_catalog.ln.`a.b`.c"
