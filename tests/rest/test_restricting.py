"""Row filters as predicates of Iceberg's, and masks as its actions: what a reader that enforces them shows is
what SQL shows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.model.decision import NO_POLICY, ColumnMask
from gateway.model.reading import Reading
from gateway.model.restrictions import FilterColumn
from gateway.policy.masks import mask_expression
from gateway.reader.pool import ReaderPool
from gateway.rest.predicates import NotServable, write_filter
from gateway.rest.restricting import Exactness, map_mask
from tests.policy.reference_reader import holds
from tests.rest.worlds import PACK, fault, serving, told

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLUMNS = {
    "n": FilterColumn(1, "int"),
    "s": FilterColumn(2, "string"),
    "f": FilterColumn(3, "double"),
    "b": FilterColumn(4, "boolean"),
}
ROWS = {
    "a": (1, "EMEA", 0.5, True),
    "b": (7, "AMER", math.nan, False),
    "c": (None, None, None, None),
    "d": (5, "bob", math.inf, True),
}


async def written(reader: ReaderPool, text: str) -> Any:
    reading = await reader.read_expression(text)
    assert isinstance(reading, Reading)
    return write_filter(reading, COLUMNS, "bob")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("s <> 'EMEA'", "bd"),
        ("NOT (s = 'EMEA')", "bd"),
        ("s = 'EMEA' OR n IS NULL", "ac"),
        ("NOT (n > 5)", "ad"),
        ("n < 5 OR NOT (n < 5)", "abd"),
        ("n BETWEEN 2 AND 7", "bd"),
        ("n NOT BETWEEN 2 AND 6", "ab"),
        ("f > 1", "bd"),
        ("NOT (f <= 1)", "bd"),
        ("f <> 1.5", "abd"),
        ("f < 1", "a"),
        ("n IN (1, NULL)", "a"),
        ("n NOT IN (1, NULL)", ""),
        ("n NOT IN (1, 5)", "b"),
        ("n <=> NULL", "c"),
        ("NOT (n <=> 5)", "abc"),
        ("b", "ad"),
        ("NOT b", "b"),
        ("s LIKE 'EM%'", "a"),
        ("s NOT LIKE 'EM%'", "bd"),
        ("s LIKE '%'", "abd"),
        ("s = current_user()", "d"),
        ("s <> current_user()", "ab"),
        ("n = NULL", ""),
        ("NOT (n = NULL)", ""),
        ("TRUE", "abcd"),
    ],
)
async def test_a_filter_keeps_what_it_keeps_in_sql(reader: ReaderPool, text: str, kept: str) -> None:
    predicate = await written(reader, text)
    found = [name for name, row in ROWS.items() if holds(predicate, dict(enumerate(row, 1)))]
    assert "".join(found) == kept, predicate


@pytest.mark.parametrize(
    "text",
    [
        "s LIKE 'E_EA'",
        "s LIKE '%EA'",
        "s LIKE 'E%A%'",
        "lower(s) = 'emea'",
        "n + 1 = 2",
        "n = '5'",
        "n = s",
        "CAST(n AS STRING) = '5'",
        "f IN (1, 2)",
        "f = 0",
        "x = 1",
        "n IN (SELECT 1)",
        "n = 1.5",
    ],
)
async def test_what_no_predicate_says_is_refused(reader: ReaderPool, text: str) -> None:
    with pytest.raises(NotServable):
        await written(reader, text)


def mask(mask_type: str, data_type: str, predicate: str = "masked") -> ColumnMask:
    expression = mask_expression(mask_type, "c", data_type)
    assert expression is not None
    return ColumnMask(
        column="c", mask_type=mask_type, expression=expression, policy=NO_POLICY, predicate=predicate
    )


async def test_masks_have_the_actions_that_show_the_same_or_less() -> None:
    def mapped(mask_type: str, data_type: str, kind: str, *, required: bool = False) -> tuple[Exactness, str]:
        found = map_mask(mask(mask_type, data_type), data_type, kind, required=required)
        return found.exactness, found.action

    exact, stricter, impossible = Exactness.EXACT, Exactness.STRICTER, (Exactness.IMPOSSIBLE, "")
    assert mapped("MASK_HASH", "string", "string", required=True) == (exact, "sha-256-global")
    assert mapped("MASK_HASH", "bigint", "long") == (exact, "replace-with-null")
    assert mapped("MASK_DATE_SHOW_YEAR", "date", "date") == (exact, "truncate-to-year")
    assert mapped("MASK_SHOW_LAST_4", "string", "string") == (stricter, "show-last-4")
    assert mapped("MASK", "int", "int") == (stricter, "replace-with-null")
    assert mapped("MASK", "int", "int", required=True) == impossible
    assert mapped("MASK_NULL", "string", "string", required=True) == impossible
    denied = map_mask(mask("MASK_HASH", "string", "deny"), "string", "string", required=False)
    assert denied.exactness is Exactness.IMPOSSIBLE


async def test_what_shows_less_is_given_where_the_operator_allows_it(reader: ReaderPool) -> None:
    pack = PACK.replace("type: MASK_HASH", "type: MASK")
    async with serving(reader, pack=pack) as served:
        assert "`stricter` allows that" in fault(await served.load_table("engine", "masks"))
    async with serving(reader, pack=pack, more="    stricter: true\n") as served:
        restrictions = told(await served.load_table("engine", "masks"))["read-restrictions"]
        assert restrictions == {"required-column-projections": [{"field-id": 2, "action": "mask-alphanum"}]}
