"""What a row filter costs Spark: statements as they are forwarded, against those over a filtered copy."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pyhive import hive

from gateway.backends.embedded_spark import EmbeddedSpark
from gateway.model.statement import Cleared
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.bench.conftest import rows
from tests.bench.figures import Record, in_turns
from tests.judge_world import World

pytestmark = [
    pytest.mark.bench,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

BY_HAND = "with the filter written by hand"
"""What Spark takes at least: the filter's column is read as well, and rows that it drops."""
SECTION = "Row filters, ratio to a filtered copy"
FILTER = "region <> 'hidden'"
AIM = 1.3
FACT = {"id": "bigint", "amount": "decimal(10,2)", "region": "string", "day": "date"}
DAYS = {"day": "date", "number": "int"}
STATEMENTS = {
    "one of the partitions": "SELECT count(*), sum(amount) FROM {fact} WHERE day = DATE'2024-03-01'",
    "partitions by a join": "SELECT count(*), sum(amount) FROM {fact} f JOIN days d ON f.day = d.day "
    "WHERE d.number = 60",
    "all partitions": "SELECT region, count(*), sum(amount) FROM {fact} GROUP BY region",
}
WAYS = {
    "without barriers": Rules(),
    "with conditions below": Rules(barriers="always"),
    "with nothing": Rules(barriers="always", push_down=False),
}


@pytest.fixture(scope="module")
def world() -> World:
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {"spark_catalog.filters.fact": FACT, "spark_catalog.filters.days": DAYS},
            "views": {},
            "people": {"bob": {"groups": []}},
            "pack": f"""
service: spark
policies:
  - name: all read
    on: {{catalog: "*", database: "*", table: "*", column: "*"}}
    allow: [{{groups: [public], access: [all]}}]
  - name: fact
    on: {{catalog: spark_catalog, database: filters, table: fact}}
    filter: [{{groups: [public], where: "{FILTER}"}}]
""",
        }
    )


@pytest.fixture(scope="module")
def cursor(record: Record, spark: EmbeddedSpark, quick: bool) -> Iterator[Any]:
    partitions = 40 if quick else 200
    record.progress(f"Spark writes {partitions} partitions of 3 files, twice")
    connection = hive.connect(host=spark.host, port=spark.thrift_port, username="direct", auth="NONE")
    cursor = connection.cursor()
    made = "USING parquet PARTITIONED BY (day) AS SELECT /*+ REPARTITION(3) */"
    for text in (
        "CREATE DATABASE filters",
        "USE filters",
        f"CREATE TABLE fact {made} id, CAST(id % 1000 AS DECIMAL(10,2)) AS amount, "
        "IF(id % 10 = 0, 'hidden', concat('r', id % 4)) AS region, "
        f"date_add(DATE'2024-01-01', CAST(id % {partitions} AS INT)) AS day FROM range({partitions * 6000})",
        f"CREATE TABLE copy {made} * FROM fact WHERE {FILTER}",
        "CREATE TABLE days USING parquet AS SELECT date_add(DATE'2024-01-01', CAST(id AS INT)) AS day, "
        f"CAST(id AS INT) AS number FROM range({partitions})",
    ):
        cursor.execute(text)
    yield cursor
    connection.close()


@pytest.mark.parametrize("name", STATEMENTS)
async def test_filter(
    record: Record, world: World, reader: ReaderPool, cursor: Any, name: str, quick: bool
) -> None:
    template = STATEMENTS[name]
    texts = {
        "copy": template.format(fact="copy"),
        BY_HAND: template.format(fact=f"(SELECT * FROM fact WHERE {FILTER})"),
    }
    for way, rules in WAYS.items():
        verdict = await world.judge(
            template.format(fact="fact"), reader, user="bob", use="filters", rules=rules
        )
        assert isinstance(verdict, Cleared), verdict
        texts[way] = verdict.forwarded
    warm_up, rounds = (1, 3) if quick else (5, 21)
    record.begin(f"Row filters: {name}, {rounds} rounds")
    ways = {way: partial(rows, cursor, text) for way, text in texts.items()}
    expected = ways["copy"]()
    for ask in ways.values():
        assert ask() == expected
    taken = in_turns(ways, warm_up=warm_up, rounds=rounds)
    medians = {way: statistics.median(each) for way, each in taken.items()}
    ratios = {way: medians[way] / medians["copy"] for way in (BY_HAND, *WAYS)}
    record.add(
        SECTION,
        name,
        "; ".join(f"{ratio:.2f} × {way}" for way, ratio in ratios.items())
        + f" ({1e3 * medians['copy']:.0f} ms)",
        aim=f"≤ {AIM} ×",
        met=ratios["without barriers"] <= AIM,
        numbers={way.replace(" ", "_"): ratio for way, ratio in ratios.items()},
    )
