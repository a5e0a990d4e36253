"""What Spark 3.5 tells of views, where there is no DESCRIBE … AS JSON: many answers of one key each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.catalog.describe import Row
from gateway.catalog.live import LiveCatalog
from gateway.errors import BackendUnavailable
from gateway.model.catalog import Table, TableKind, TableName, ViewBody
from gateway.model.definers import definer_property
from gateway.model.spark_minors import Minor

VIEW = TableName("spark_catalog", "hr", "v")
DOTTED = "`spark_catalog`.`hr`.`v`"
TEXT = "SELECT a, b FROM t"
KEPT = {
    "view.catalogAndNamespace.numParts": "2",
    "view.catalogAndNamespace.part.0": "spark_catalog",
    "view.catalogAndNamespace.part.1": "hr",
    "view.query.out.numCols": "2",
    "view.query.out.col.0": "a",
    "view.query.out.col.1": "b, c",
}


class Spark35:
    """Answers as Spark 3.5 does for one view; `replaced_by` is its text from the second description on."""

    def __init__(self, kept: Mapping[str, str], replaced_by: str = TEXT) -> None:
        self.kept = kept
        self.texts = [TEXT, replaced_by]
        self.asked: list[str] = []

    async def query(self, sql: str) -> Sequence[Row]:
        self.asked.append(sql)
        if sql == f"DESCRIBE TABLE EXTENDED {DOTTED}":
            text = self.texts.pop(0)
            return [
                ("x", "int", None), ("y", "string", "c"), ("", "", ""),
                ("# Detailed Table Information", "", ""),
                ("Catalog", "spark_catalog", ""), ("Database", "hr", ""), ("Table", "v", ""),
                ("Type", "VIEW", ""), ("View Text", text, ""), ("View Query Output Columns", "[a, b, c]", ""),
            ]  # fmt: skip
        shown = f"SHOW TBLPROPERTIES {DOTTED}"
        if sql == shown:
            return [(key, value) for key, value in self.kept.items() if not key.startswith("view.")]
        key = sql.removeprefix(f"{shown} ('").removesuffix("')")
        return [(key, self.kept.get(key, f"Table {VIEW} does not have property: {key}"))]

    async def look_up(self) -> Table:
        catalog = LiveCatalog(self.query, refusal=KeyError, minor=Minor(3, 5))
        found = (await catalog.look_up([VIEW])).table(VIEW)
        assert found is not None
        assert found.kind is TableKind.VIEW
        return found


async def test_a_view_has_its_text_and_the_names_of_its_query() -> None:
    spark = Spark35(KEPT)
    table = await spark.look_up()
    assert [(column.name, column.type) for column in table.columns] == [("x", "int"), ("y", "string")]
    body = ViewBody(text=TEXT, catalog="spark_catalog", database="hr", output=("a", "b, c"), definer=None)
    assert table.view == body
    assert not [sql for sql in spark.asked if "AS JSON" in sql]


async def test_a_view_that_was_recorded_has_its_definer() -> None:
    table = await Spark35(KEPT | dict([definer_property(TEXT, "ann")])).look_up()
    assert table.view is not None
    assert table.view.definer == "ann"


@pytest.mark.parametrize(
    "other",
    [
        {"view.sqlConfig.spark.sql.ansi.doubleQuotedIdentifiers": "true"},
        {"view.sqlConfig.spark.sql.parser.escapedStringLiterals": "TRUE"},
        {"view.catalogAndNamespace.numParts": "3"},
        {"view.query.out.numCols": "3"},
    ],
    ids=str,
)
async def test_a_view_whose_text_may_say_something_else(other: dict[str, Any]) -> None:
    assert (await Spark35({**KEPT, **other}).look_up()).view is None


async def test_settings_that_are_as_the_parser_has_them() -> None:
    kept = {**KEPT, "view.sqlConfig.spark.sql.ansi.doubleQuotedIdentifiers": "false"}
    assert (await Spark35(kept).look_up()).view is not None


async def test_a_view_that_is_replaced_between_two_answers() -> None:
    with pytest.raises(BackendUnavailable, match="replaced at the moment"):
        await Spark35(KEPT, replaced_by="SELECT ssn, b FROM t").look_up()


@pytest.mark.parametrize(
    ("told", "known"),
    [("shop.t", True), ("pg.shop.t", True), ("SHOP.t", True), ("t", False), ("other.t", False)],
)
async def test_a_table_of_a_jdbc_catalog_is_named_without_its_catalog(told: str, known: bool) -> None:
    name = TableName("pg", "shop", "t")

    async def query(sql: str) -> Sequence[Row]:
        return [
            ("id", "int", None),
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Name", told, ""),
        ]

    catalog = LiveCatalog(query, refusal=KeyError, minor=Minor(3, 5))
    if known:
        assert (await catalog.look_up([name])).table(name) is not None
        return
    with pytest.raises(BackendUnavailable, match="another table"):
        await catalog.look_up([name])
