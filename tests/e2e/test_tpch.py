"""TPC-H: rows, names and types are those of plain Spark, or of data that was governed beforehand."""

from __future__ import annotations

import pytest

from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, SessionContext, Statement
from gateway.pipeline import judge
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from tests.e2e.tpch_session import Tpch
from tests.judge_world import SERVICE_DEFS
from tests.tpch.governed import GOVERNED, POLICIES, UNGOVERNED, catalog
from tests.tpch.schema import QUERIES

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
