"""The JSON of field lineage: vertices and the sources and targets of each edge, as the article has them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import LineageCatalog, lineage_of
from gateway.sql.lineage_article import article
from tests.lineage_world import lineage, tables, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

PEOPLE = {"id": "int", "name": "string", "age": "int"}
ARTICLE = (
    "with A as (select id,name,age from tab1 where id > 100), "
    "C as (select id,name,max(age) from A group by A.id,A.name), "
    "B as (select id,name,age from tabb2 where age > 28) "
    "insert into tab3 select C.id, concat(C.name,B.name) as name, B.age from B,C where C.id = B.id"
)
"""The example of the article on field lineage within Spark."""
TARGETS = "default.tab3.age default.tab3.id default.tab3.name"
PROJECTIONS = {
    ("default.tab1.id", "default.tab3.id"),
    ("default.tab1.name default.tabb2.name", "default.tab3.name"),
    ("default.tabb2.age", "default.tab3.age"),
}


async def drawn(reader: ReaderPool, **options: Any) -> dict[str, Any]:
    catalog = LineageCatalog(tables=tables({"tab1": PEOPLE, "tabb2": PEOPLE, "tab3": PEOPLE}, "default"))
    found = lineage_of(await text_of(reader, ARTICLE, database="default"), catalog)
    assert found is not None
    return article(found, omit_catalog="spark_catalog", **options)


def edges(document: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    """Return sources and targets by name."""
    names = {vertex["id"]: vertex["vertexId"] for vertex in document["vertices"]}
    return [
        tuple(" ".join(sorted(names[i] for i in edge[side])) for side in ("sources", "targets"))  # type: ignore[misc]
        for edge in document["edges"]
        if edge["edgeType"] == kind
    ]


async def test_the_example(reader: ReaderPool) -> None:
    document = await drawn(reader)
    assert {vertex["vertexId"] for vertex in document["vertices"]} == {
        "default.tab3.id",
        "default.tab3.name",
        "default.tab3.age",
        "default.tab1.id",
        "default.tab1.name",
        "default.tabb2.age",
        "default.tabb2.id",
        "default.tabb2.name",
    }
    assert {vertex["vertexType"] for vertex in document["vertices"]} == {"COLUMN"}
    assert [vertex["id"] for vertex in document["vertices"]] == list(range(8))
    assert [v["vertexId"] for v in document["vertices"][:3]] == [
        "default.tab3.id",
        "default.tab3.name",
        "default.tab3.age",
    ]
    assert set(edges(document, "PROJECTION")) == PROJECTIONS
    assert sorted(edges(document, "PREDICATE")) == [
        ("default.tab1.id", TARGETS),
        ("default.tab1.id default.tabb2.id", TARGETS),
        ("default.tabb2.age default.tabb2.id", TARGETS),
    ]


@pytest.mark.parametrize("predicates", ["written", "conjuncts"])
async def test_one_predicate_for_each_condition(reader: ReaderPool, predicates: str) -> None:
    document = await drawn(reader, predicates=predicates)
    assert set(edges(document, "PROJECTION")) == PROJECTIONS
    assert sorted(edges(document, "PREDICATE")) == [
        ("default.tab1.id", TARGETS),
        ("default.tab1.id default.tab1.name", TARGETS),
        ("default.tab1.id default.tabb2.id", TARGETS),
        ("default.tabb2.age", TARGETS),
    ]
    shown = [edge["expression"] for edge in document["edges"]]
    assert "C.id = B.id" in shown
    assert "age > 28" in shown


async def test_conjuncts_are_told_apart(reader: ReaderPool) -> None:
    found = await lineage(reader, "SELECT x FROM a WHERE y > 1 AND (z > 2 AND i > 3) AND (x = 1 OR y = 2)")
    written = article(found, predicates="written")
    assert [e["expression"] for e in written["edges"]][1:] == [
        "y > 1 AND (z > 2 AND i > 3) AND (x = 1 OR y = 2)"
    ]
    parts = article(found, predicates="conjuncts")
    assert [e["expression"] for e in parts["edges"]][1:] == ["y > 1", "z > 2", "i > 3", "x = 1 OR y = 2"]


async def test_outer_joins_keep_no_nulls_out_of_what_they_preserve(reader: ReaderPool) -> None:
    found = await lineage(reader, "SELECT a.x, b.k FROM a LEFT JOIN b ON a.i = b.i")
    document = article(found, omit_catalog="spark_catalog")
    assert edges(document, "PREDICATE") == [
        ("ln.a.i ln.b.i", "result.k result.x"),
        ("ln.b.i", "result.k result.x"),
    ]


async def test_a_group_whose_aggregates_are_used_decides(reader: ReaderPool) -> None:
    found = await lineage(reader, "SELECT x, sum(y) AS s FROM a GROUP BY x")
    assert edges(article(found, omit_catalog="spark_catalog"), "PREDICATE") == [
        ("ln.a.x", "result.s result.x")
    ]


async def test_table_level_lineage_is_marked(reader: ReaderPool) -> None:
    found = await lineage(reader, "INSERT INTO c SELECT x, y, z FROM a")
    document = article(found)
    assert document["tableLevel"]
    assert document["vertices"] == [
        {"id": 0, "vertexType": "TABLE", "vertexId": "spark_catalog.ln.c"},
        {"id": 1, "vertexType": "TABLE", "vertexId": "spark_catalog.ln.a"},
    ]
    assert [(edge["sources"], edge["targets"]) for edge in document["edges"]] == [([1], [0])]
