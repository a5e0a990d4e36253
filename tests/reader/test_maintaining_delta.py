"""OPTIMIZE and VACUUM as Delta's parser has them: which of them `maintain` is enough for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.model.catalog import TableName
from gateway.model.reading import Reading
from gateway.model.spark_minors import Minor
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import classify
from gateway.sql.names import Names
from gateway.sql.required import Required
from tests.reader.chains import chained_reader

pytestmark = [pytest.mark.lake, pytest.mark.asyncio(loop_scope="module")]

NAMES = Names(SessionContext(), frozenset({"spark_catalog"}))
ORDERS = TableName("spark_catalog", "sales", "orders")
TENDED = (
    "OPTIMIZE sales.orders",
    "VACUUM sales.orders",
    "VACUUM sales.orders RETAIN 200 HOURS",
)
AS_BEFORE = (
    "OPTIMIZE sales.orders WHERE day = DATE'2024-01-01'",
    "OPTIMIZE sales.orders ZORDER BY (id)",
    "OPTIMIZE sales.orders WHERE day > '2024' ZORDER BY (id, day)",
    "VACUUM sales.orders DRY RUN",
    "VACUUM sales.orders RETAIN 200 HOURS DRY RUN",
    "REORG TABLE sales.orders APPLY (PURGE)",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[(3, 5), (4, 1)], ids=["3.5", "4.1"])
async def chain(request: pytest.FixtureRequest) -> AsyncIterator[ReaderPool]:
    async with chained_reader(Minor(*request.param), ("delta", "iceberg")) as pool:
        yield pool


async def test_maintain_is_enough_where_no_column_condition_or_path_is_told(chain: ReaderPool) -> None:
    for text in (*TENDED, *AS_BEFORE):
        reading = await chain.read(text)
        assert isinstance(reading, Reading), (text, reading)
        required = classify(reading, NAMES)
        assert isinstance(required, Required), (text, required)
        assert required.raw == (ORDERS,), text
        assert required.maintained == ((ORDERS,) if text in TENDED else ()), text
