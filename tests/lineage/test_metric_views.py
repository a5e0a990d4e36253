"""Lineage of metric views: the column of a measure comes from the columns in its expression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.lineage.gathering import GatheredLineage, Gatherer
from gateway.lineage.gathering_plans import GatheredPlan, gather_plan
from gateway.lineage.recorded import pack, pack_facts, read_dependencies, unpack
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName
from gateway.model.lineage import EdgeType, LineageEdge, StatementLineage
from gateway.model.statement import PlanRequest, SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.metric_views import metric_view
from tests.lineage_world import tables
from tests.plan.frames import message, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

YAML = """
version: 0.1
source: ln.e1
filter: id > 0
dimensions:
  - {name: Dept, expr: dept}
measures:
  - {name: total, expr: sum(age) / count(boss)}
  - {name: heads, expr: count(*)}
"""
NAME = TableName("spark_catalog", "ln", "mv")
VIEW = Table(
    name=NAME,
    kind=TableKind.VIEW,
    columns=tuple(Column(name=name, type="int") for name in ("Dept", "total", "heads")),
    view=replace(metric_view(YAML, ("Dept", "total", "heads"), {}), definer="ann"),
)


def gatherer_of(reader: ReaderPool) -> Gatherer:
    view, _ = unpack(str(pack([VIEW], {})))
    known = {**{name.fold(): table for name, table in tables().items()}, **view}

    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        missing = frozenset(name.fold() for name in names) - known.keys()
        return CatalogSnapshot(
            version=1, catalogs=frozenset({"spark_catalog"}), tables=known, missing=missing
        )

    return Gatherer(reader=reader, look_up=look_up, catalogs=frozenset({"spark_catalog"}))


async def lineage(reader: ReaderPool, text: str) -> StatementLineage:
    found = await gatherer_of(reader).gather(text, SessionContext(namespace=("ln",)), {}, {})
    assert isinstance(found, GatheredLineage)
    told = found.lineage()
    assert told is not None
    return told


def edges(found: Sequence[LineageEdge]) -> set[tuple[str, str]]:
    return {
        (source.column.column.lower(), target.column.lower())
        for edge in found
        for source in edge.sources
        for target in edge.targets
        if edge.type is EdgeType.PROJECTION
    }


async def test_a_metric_view_that_is_made(reader: ReaderPool) -> None:
    found = await lineage(reader, f"CREATE VIEW new (d, t, h) WITH METRICS LANGUAGE YAML AS $${YAML}$$")
    assert edges(found.edges) == {("dept", "d"), ("age", "t"), ("boss", "t")}
    assert [target.parts[-1] for target in found.targets] == ["new"]
    assert [source.parts[-1] for source in found.inputs] == ["e1"]


async def test_what_reads_a_measure(reader: ReaderPool) -> None:
    text = "CREATE TABLE o AS SELECT dept AS a, measure(total) AS b FROM mv GROUP BY dept"
    found = await lineage(reader, text)
    assert edges(found.edges) == {("dept", "a"), ("age", "b"), ("boss", "b")}
    assert edges(found.view_edges) == {("dept", "dept"), ("age", "total"), ("boss", "total")}
    assert [view.parts[-1] for view in found.views] == ["mv"]


@pytest.mark.parametrize(
    "measure", [F.expr("measure(total) AS b"), F.call_function("measure", F.col("total")).alias("b")]
)
async def test_what_reads_a_measure_in_a_plan(reader: ReaderPool, measure: Any) -> None:
    plan = message(table("mv").groupBy(F.col("dept").alias("a")).agg(measure))
    request = PlanRequest(kind="execute", message=plan.SerializeToString())
    context = SessionContext(namespace=("ln",))
    gathered = await gather_plan(gatherer_of(reader), request, context, {}, {}, {})
    assert isinstance(gathered, GatheredPlan)
    found = gathered.lineage()
    assert found is not None
    assert edges(found.edges) == {("dept", "a"), ("age", "b"), ("boss", "b")}


async def test_a_record_keeps_what_a_metric_view_is_made_of() -> None:
    kept = {"tables": pack([VIEW], {}), "facts": pack_facts([VIEW])}
    assert read_dependencies(kept) == {NAME: VIEW}
