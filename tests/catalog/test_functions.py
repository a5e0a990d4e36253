"""What Spark tells of a function: its body, that it is code, or nothing that is understood."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.catalog.describe import function_from_rows
from gateway.catalog.live import LiveCatalog
from gateway.catalog.types import NotUnderstood
from gateway.model.catalog import FUNCTION, TableKind, TableName
from gateway.session.ports import BackendError

NAME = TableName("spark_catalog", "hr", "f", FUNCTION)
TABLE = [
    ("Function:      spark_catalog.hr.f",),
    ("Returns:       a INT",),
    ("               b STRING",),
    ("Comment:       x\nBody: no",),
    ("Body:          SELECT a, b\n FROM hr.t",),
]


def test_a_body_is_the_last_row() -> None:
    view = function_from_rows(TABLE, NAME).view
    assert view is not None
    assert view.text == "SELECT a, b\n FROM hr.t"
    code = function_from_rows([("Function: f",), ("Class: x.Y",), ("Usage: N/A.",)], NAME)
    assert (code.kind, code.view) == (TableKind.TABLE, None)


def test_what_parameters_are_by_default_counts_as_body() -> None:
    """As Spark 4.3 tells of `f(x INT DEFAULT hr.g(), y STRING DEFAULT 'a', z INT)`."""
    rows = [
        ("Function:      spark_catalog.hr.f",),
        ("Input:         x INT    DEFAULT hr.g()",),
        ("               y STRING DEFAULT 'a'",),
        ("               z INT",),
        ("Returns:       INT",),
        ("Configs:       spark.sql.x=DEFAULT 1",),
        ("Body:          x",),
    ]
    view = function_from_rows(rows, NAME).view
    assert view is not None
    assert view.text == "struct((hr.g()\n), ('a'\n), (x\n))"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("Function: f",)],
        [("Function: f", "x"), ("Body: 1",)],
        [("Body: 1",)],
        [("Function: f",), ("Body: 1",), ("Body: 2",)],
        [("Function: f",), ("Body: 1",), ("Owner: x",)],
    ],
)
def test_what_is_no_description_of_a_function_is_none(rows: list[tuple[str, ...]]) -> None:
    with pytest.raises(NotUnderstood):
        function_from_rows(rows, NAME)


async def test_it_is_looked_up_beside_a_table_of_its_name() -> None:
    asked: list[str] = []

    async def query(sql: str) -> Sequence[Sequence[str]]:
        asked.append(sql)
        if "`gone`" in sql:
            raise BackendError("[UNRESOLVED_ROUTINE]", "42883")
        return [("what it is",)] if "`odd`" in sql else TABLE

    catalog = LiveCatalog(query, refusal=BackendError)
    others = [TableName("spark_catalog", "hr", name, FUNCTION) for name in ("gone", "odd")]
    found = await catalog.look_up([NAME, *others])
    assert asked[0] == "DESCRIBE FUNCTION EXTENDED `spark_catalog`.`hr`.`f`"
    table = found.table(NAME)
    assert table is not None
    assert table.view is not None
    assert found.missing == frozenset(others)
    assert not found.knows(NAME.current)


async def test_one_that_was_replaced_is_looked_up_again() -> None:
    bodies = ["SELECT 1", "SELECT 2"]

    async def query(_: str) -> Sequence[Sequence[str]]:
        return [("Function: f",), (f"Body: {bodies.pop(0)}",)]

    catalog = LiveCatalog(query, refusal=BackendError)
    for body in ("SELECT 1", "SELECT 2"):
        found = (await catalog.look_up((NAME,))).table(NAME)
        assert found is not None
        assert found.view is not None
        assert found.view.text == body
        catalog.invalidate((NAME,), ())
