"""Row filters without barriers before the older minors: what is read, and what errors tell of hidden rows.

A share of tests/e2e/test_push_down.py, which has all of it before the newest, and under `make minors` before
each. Statements are judged here, with the parser of the minor. About twenty seconds of CPU for each, beside
the start of its Spark, which all suites on it share.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.model.spark_minors import NEWEST, SUPPORTED
from gateway.pipeline import Rules
from gateway.reader.limits import ReaderLimits
from gateway.reader.pool import ReaderPool
from tests.e2e.filtered_tables import (
    BARRED,
    BLIND,
    DATABASE,
    ORACLES,
    answer,
    filtered_world,
    forwarded,
    plan_of,
    rows,
    tables,
)
from tests.e2e.lake.formats import spark_home_of
from tests.e2e.lake.worlds import LakeSpark, OpenLake
from tests.e2e.running import connect
from tests.readers import patient
from tests.shares import DAY

pytestmark = pytest.mark.asyncio(loop_scope="session")

OLDER = [str(minor) for minor in SUPPORTED if minor < NEWEST]
FAILS = "SELECT id FROM {fact} WHERE 1 / (CASE WHEN s = 'tells' THEN 0 ELSE 1 END) > 0 AND k = 2"
COMPILED = ("SET spark.sql.codegen.wholeStage=true", "SET spark.sql.codegen.factoryMode=FALLBACK")


@pytest.fixture(scope="module", params=OLDER)
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    lake.spark.query(*tables(), user="loader")
    return lake


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def parser(lake: LakeSpark) -> AsyncIterator[ReaderPool]:
    limits = patient(ReaderLimits())
    async with ReaderPool(spark_home=spark_home_of(lake.minor), limits=limits) as pool:
        yield pool


@pytest.fixture(scope="module")
def cursor(lake: LakeSpark) -> Iterator[Any]:
    connection = connect(lake.spark.host, lake.spark.port, "direct")
    cursor = connection.cursor()
    # Without ANSI mode nothing fails, and Spark 3.5 is without it by itself.
    for text in (f"USE {DATABASE}", "SET spark.sql.ansi.enabled=true", "SET spark.sql.shuffle.partitions=1"):
        cursor.execute(text)
    yield cursor
    connection.close()


@pytest.mark.in_turn(4)
async def test_no_error_tells_of_a_hidden_row(lake: LakeSpark, parser: ReaderPool, cursor: Any) -> None:
    world = filtered_world()
    open_ones = 0
    # One half before this minor, the other before the next, and each before the other in two days.
    half = OLDER.index(str(lake.minor)) + (DAY.toordinal() // 2 if DAY else 0)
    texts = ORACLES[half % 2 :: 2]
    for at, text in enumerate(texts):
        if at == len(texts) // 2:
            for setting in COMPILED:
                cursor.execute(setting)
        governed = await forwarded(world, parser, text.format(fact="fact", dim="dim"), Rules())
        open_ones += "TABLESAMPLE" not in governed
        expected = answer(cursor, text.format(fact="fact_copy", dim="dim_copy"))
        assert isinstance(expected, list), (expected, text)
        assert answer(cursor, governed) == expected, text
    assert open_ones > len(texts) // 3
    # Over the rows themselves, the conditions do fail.
    unfiltered = FAILS.format(fact="fact").replace(" AND k = 2", "")
    assert answer(cursor, unfiltered) == "DIVIDE_BY_ZERO"
    governed = await forwarded(world, parser, FAILS.format(fact="fact"), Rules())
    assert "TABLESAMPLE" in governed
    assert rows(cursor, governed) == rows(cursor, FAILS.format(fact="fact_copy"))


@pytest.mark.in_turn(4)
async def test_partitions_are_chosen_by_conditions_and_joins(
    lake: LakeSpark, parser: ReaderPool, cursor: Any
) -> None:
    world = filtered_world()
    one_day = r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]"
    text = "SELECT count(*), sum(amount) FROM fact WHERE day = '2024-01-03'"
    found = [
        bool(re.search(one_day, plan_of(cursor, await forwarded(world, parser, text, rules))))
        for rules in (BARRED, Rules(), BLIND)
    ]
    assert found == [True, True, False]
    text = "SELECT sum(amount) FROM fact f JOIN days d ON f.day = d.day WHERE d.number = 3"
    plan = plan_of(cursor, await forwarded(world, parser, text, Rules()))
    assert re.search(r"PartitionFilters: \[.*dynamicpruning", plan)
    assert not re.search("typeof|raise_error", plan)
