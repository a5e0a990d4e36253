"""What lineage costs: every query of TPC-DS, from Spark's reading to edges."""

from __future__ import annotations

import statistics
import time

import pytest

from gateway.reader.pool import ReaderPool
from gateway.sql.lineage import LineageCatalog, lineage_of
from tests.bench.figures import Record
from tests.lineage_world import tables, text_of
from tests.tpcds.corpus import QUERIES, TABLES

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="session")]


async def test_lineage(record: Record, reader: ReaderPool, quick: bool) -> None:
    catalog = LineageCatalog(tables=tables(TABLES, "tpcds"))
    texts = {name: await text_of(reader, sql, database="tpcds") for name, sql in QUERIES.items()}
    record.begin(f"Lineage: TPC-DS, {len(texts)} queries")
    spent: dict[str, float] = {}
    edges = 0
    for name, text in texts.items():
        times = []
        for _ in range(2 if quick else 10):
            began = time.perf_counter()
            lineage_of(text, catalog)
            times.append(time.perf_counter() - began)
        found = lineage_of(text, catalog)
        assert found is not None
        assert found.table_level == ""
        edges += len(found.edges)
        spent[name] = 1e3 * statistics.median(times)
    worst = max(spent, key=lambda name: spent[name])
    median = statistics.median(spent.values())
    record.add(
        "Lineage",
        "TPC-DS, columns of every query",
        f"median {median:.1f} ms, worst {spent[worst]:.1f} ms ({worst}), {edges} edges in all",
        aim="≤ 15 ms, ≤ 500 ms",
        met=median <= 15 and spent[worst] <= 500,
        median_ms=median,
        worst_ms=spent[worst],
        edges=edges,
    )
