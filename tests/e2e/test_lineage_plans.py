"""Lineage of DataFrame programs says what Spark's analysed plan says: as test_lineage_spark.py does for SQL.

By day one program in eight, on each day others; by night all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gateway.lineage.gathering import Gatherer
from gateway.lineage.gathering_plans import GatheredPlan, gather_plan
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.lineage import Clause, StatementLineage
from gateway.model.statement import PlanRequest, SessionContext
from gateway.reader.pool import ReaderPool
from tests.e2e.analysed_plan import Columns, analysed, dependencies
from tests.e2e.running import Spark
from tests.e2e.test_lineage_spark import projected, sources_of
from tests.lineage_world import DATABASE, TABLES, VIEWS, catalog_of
from tests.plan.lineage_programs import PROGRAMS
from tests.shares import in_turn

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def session(spark: Spark) -> Iterator[Any]:
    """A session at Spark, in a database with every table that is asked about."""
    made = [f"CREATE DATABASE {DATABASE}"]
    made += [f"CREATE TABLE {DATABASE}.{name} ({ddl}) USING parquet" for name, ddl in TABLES.items()]
    made += [f"USE {DATABASE}"]
    made += [f"CREATE VIEW {name} ({', '.join(c.split())}) AS {sql}" for name, (c, sql) in VIEWS.items()]
    spark.query(*made, user="loader")
    with spark.session("loader") as connected:
        connected.sql(f"USE {DATABASE}")
        connected.conf.set("spark.sql.debug.maxToStringFields", "100000")
        yield connected
    spark.query(f"DROP DATABASE {DATABASE} CASCADE", user="loader")


@pytest.mark.parametrize("name", in_turn(PROGRAMS, 8))
async def test_a_program(reader: ReaderPool, session: Any, name: str) -> None:
    catalog = await catalog_of(reader, views=VIEWS)
    snapshot = CatalogSnapshot(version=1, catalogs=frozenset({"spark_catalog"}), tables=catalog.tables)

    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        return snapshot

    frame = await asyncio.to_thread(PROGRAMS[name].run, session)
    explained = await asyncio.to_thread(lambda: frame._explain_string(extended=True))
    request = PlanRequest(kind="execute", message=frame._plan.to_proto(session.client).SerializeToString())
    gatherer = Gatherer(reader=reader, look_up=look_up, catalogs=snapshot.catalogs)
    gathered = await gather_plan(gatherer, request, SessionContext(namespace=(DATABASE,)), {}, {}, {})
    assert isinstance(gathered, GatheredPlan), gathered
    found = gathered.lineage()
    assert found is not None
    assert (found.table_level, found.guessed) == ("", ())
    plan = dependencies(analysed(explained))
    assert projected(found, catalog) == [_of_tables(columns) for columns in plan.outputs]
    windows = sources_of(found, Clause.WINDOW)
    assert windows == plan.windows
    assert _deciding(found, distinct=True) == plan.distinct
    assert _deciding(found, distinct=False) | windows == plan.deciding | plan.windows


def _of_tables(columns: Columns) -> Columns:
    """Leave out what Spark knows of the files that rows came from: that is no column of the table."""
    return frozenset(column for column in columns if not column.endswith("._metadata"))


def _deciding(found: StatementLineage, *, distinct: bool) -> Columns:
    return frozenset(
        str(source.column)
        for edge in found.edges
        if edge.clause in (Clause.JOIN, Clause.WHERE, Clause.HAVING, Clause.GROUP_BY)
        and edge.expression.startswith("DISTINCT") == distinct
        for source in edge.sources
    )
