"""TPC-H: rows, names and types are those of plain Spark, or of data that was governed beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyhive import hive

from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, SessionContext, Statement
from gateway.pipeline import judge
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from tests.e2e.running import Spark
from tests.judge_world import SERVICE_DEFS
from tests.tpch.generator import statements
from tests.tpch.governed import GOVERNED, POLICIES, UNGOVERNED, catalog, copy_statements
from tests.tpch.schema import QUERIES

pytestmark = pytest.mark.asyncio(loop_scope="session")

Answer = tuple[list[tuple[str, str]], list[Any]]
"""(Name, type) of every column, and the rows."""


class Tpch:
    """A session on a Spark that holds the database `tpch` and its governed copy."""

    def __init__(self, cursor: hive.Cursor) -> None:
        self.cursor = cursor
        self.known: dict[tuple[str, str], Answer] = {}

    def answer(self, database: str, sql: str) -> Answer:
        """Run a query as plain Spark would; what was asked before is not asked again."""
        if (database, sql) not in self.known:
            self.cursor.execute(f"USE {database}")
            self.cursor.execute(sql)
            columns = [(column[0], column[1]) for column in self.cursor.description]
            self.known[database, sql] = columns, self.cursor.fetchall()
        return self.known[database, sql]


@pytest.fixture(scope="module")
def tpch(spark: Spark) -> Iterator[Tpch]:
    connection = hive.connect(host=spark.host, port=spark.port, username="loader", auth="NONE")
    cursor = connection.cursor()
    for statement in (*statements("tpch"), *copy_statements("tpch", "tpch_governed")):
        cursor.execute(statement)
    # 12,000 rows need no parallelism, and generated code costs more than it saves.
    for setting in ("spark.sql.shuffle.partitions=1", "spark.sql.codegen.wholeStage=false"):
        cursor.execute(f"SET {setting}")
    yield Tpch(cursor)
    for database in ("tpch", "tpch_governed"):
        cursor.execute(f"DROP DATABASE {database} CASCADE")
    connection.close()


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    packs = {path.name: path.read_text(encoding="utf-8") for path in sorted(POLICIES.glob("*.yaml"))}
    return Snapshot(policies=load_packs(packs, definitions), catalog=catalog())


async def forwarded(sql: str, principal: Principal, snapshot: Snapshot, reader: ReaderPool) -> str:
    statement = Statement(text=sql, principal=principal, context=SessionContext(namespace=("tpch",)))
    verdict = await judge(statement, snapshot, reader)
    assert isinstance(verdict, Cleared), verdict
    assert verdict.readers_agree
    return verdict.forwarded


@pytest.mark.parametrize("query", QUERIES)
async def test_an_allowed_query_gives_what_spark_gives(
    tpch: Tpch, snapshot: Snapshot, reader: ReaderPool, query: str
) -> None:
    sql = QUERIES[query]
    expected = tpch.answer("tpch", sql)
    assert expected[1], "every query finds something in this data"
    assert tpch.answer("default", await forwarded(sql, UNGOVERNED, snapshot, reader)) == expected


@pytest.mark.parametrize("query", QUERIES)
async def test_a_governed_query_gives_what_governed_data_give(
    tpch: Tpch, snapshot: Snapshot, reader: ReaderPool, query: str
) -> None:
    sql = QUERIES[query]
    expected = tpch.answer("tpch_governed", sql)
    assert expected[1]
    assert tpch.answer("default", await forwarded(sql, GOVERNED, snapshot, reader)) == expected


async def test_the_governed_data_differ_from_the_raw_ones(tpch: Tpch) -> None:
    """Without this the tests above could pass with policies that do nothing."""
    same = {q for q, sql in QUERIES.items() if tpch.answer("tpch", sql) == tpch.answer("tpch_governed", sql)}
    # Three read none of the governed tables; q20 asks for suppliers with much stock, and all of them have it.
    assert same <= {"q02", "q11", "q16", "q20"}
