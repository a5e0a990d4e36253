"""Column analysis reads all of TPC-H, and agrees with Spark's parser about every reference in it."""

from __future__ import annotations

import pytest

from gateway.model.catalog import Column, TableName
from gateway.model.reading import Reading, RelationRole
from gateway.reader.pool import ReaderPool
from gateway.sql.analyse import ScannedTable, Usage, analyse
from tests.tpch.schema import QUERIES, TABLES

EXPECTED = {
    "q04": {
        "orders": "o_orderdate o_orderkey o_orderpriority",
        "lineitem": "l_commitdate l_orderkey l_receiptdate",
    },
    "q13": {"customer": "c_custkey", "orders": "o_comment o_custkey o_orderkey"},
    "q15": {
        "lineitem": "l_discount l_extendedprice l_shipdate l_suppkey",
        "supplier": "s_address s_name s_phone s_suppkey",
    },
    "q22": {"customer": "c_acctbal c_custkey c_phone", "orders": "o_custkey"},
}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("query", QUERIES)
async def test_the_analyst_is_not_silent(reader: ReaderPool, query: str) -> None:
    reading = await reader.read(QUERIES[query])
    assert isinstance(reading, Reading)
    scans = [
        ScannedTable(
            parts=relation.parts,
            name=TableName("spark_catalog", "tpch", relation.parts[0]),
            columns=tuple(Column(name=n, type=t) for n, t in TABLES[relation.parts[0]].items()),
            span=relation.span,
        )
        for relation in reading.relations
        if relation.role is RelationRole.SCAN
    ]
    found = analyse(QUERIES[query], reading, scans)
    assert isinstance(found, Usage), found
    assert found.stars == frozenset()
    if query in EXPECTED:
        assert {t.table: " ".join(sorted(c)) for t, c in found.columns.items()} == EXPECTED[query]
