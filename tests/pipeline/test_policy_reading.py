"""Which texts may be masks and filters, by what Spark's parser says of them."""

from __future__ import annotations

import pytest

from gateway.pipeline.policy_reading import fault_in
from gateway.reader.pool import ReaderPool

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("text", "masks", "filters"),
    [
        ("max(id) = 1", False, False),
        ("coalesce(COUNT(*) FILTER (WHERE id > 1), 0) > 0", False, False),
        ("exists(array(builtin.max(id)), x -> x = 1)", False, False),
        ("bool_or(id = 1) IN (SELECT true)", False, False),
        ("explode(array(true))", False, False),
        ("x -> x", False, False),
        ("sum(id) OVER (ORDER BY id) > 1", True, False),
        ("(SELECT max(id) FROM spark_catalog.d.t) = id", True, True),
        ("EXISTS (SELECT 1 FROM spark_catalog.d.t GROUP BY id HAVING max(id) > 1)", True, True),
        ("spark_catalog.d.max(id) = 1", True, True),
        ("aggregate(array(id), 0, (a, x) -> a + x) = 1 AND array_max(array(id)) = 1", True, True),
        ("greatest(max, first) = 1", True, True),
    ],
)
async def test_a_text_is_of_one_row(reader: ReaderPool, text: str, masks: bool, filters: bool) -> None:
    read = await reader.read_expression(text)
    for kind, good in (("mask", masks), ("filter", filters)):
        fault = fault_in(text, kind, read)
        assert (fault is None) is good, (kind, fault)
