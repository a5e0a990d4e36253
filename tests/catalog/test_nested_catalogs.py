"""Namespaces in namespaces, as Spark's lists and descriptions tell them and as they are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.catalog.known import KnownTables
from gateway.catalog.live import LiveCatalog
from gateway.model.catalog import Table, TableKind, TableName
from tests.catalog.fake_spark import SparkRefuses

DEEP = TableName("lake", "a.b.c", "t")
BELOW = {
    "`lake`": ["a", "`odd.one`", "plain", "x"],
    "`lake`.`a`": ["a.b", "a.`c.d`", "elsewhere.b", "a"],
    "`lake`.`a`.`b`": ["a.b.c"],
    "`lake`.`a`.`b`.`c`": [],
    "`lake`.`plain`": [],
}


class Nested:
    """Answers of a Spark that has these; of `x`, nothing is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def query(self, sql: str) -> Sequence[Sequence[Any]]:
        self.texts.append(sql)
        if listed := re.fullmatch(r"SHOW (?:DATABASES|NAMESPACES) IN (.*)", sql):
            if listed[1] not in BELOW:
                raise SparkRefuses("", "java.lang.IllegalArgumentException: one level only")
            return [(name,) for name in BELOW[listed[1]]]
        if sql.startswith("SHOW TABLES IN `lake`.`a`.`b`.`c`"):
            return [("a.b.c", "t", False)]
        if sql == "DESCRIBE TABLE EXTENDED `lake`.`a`.`b`.`c`.`t`":
            return [("id", "int", None), ("", "", ""), ("# Detailed Table Information", "", ""),
                    ("Name", "lake.a.b.c.t", ""), ("Provider", "parquet", "")]  # fmt: skip
        if sql.startswith("DESCRIBE TABLE EXTENDED") and sql.endswith("AS JSON"):
            raise SparkRefuses("0A000", "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] no")
        if sql.startswith("DESCRIBE TABLE EXTENDED"):
            raise SparkRefuses("42704", "[SCHEMA_NOT_FOUND] no")
        raise SparkRefuses("0A000", "[MISSING_CATALOG_ABILITY.VIEWS] no")


def live(spark: Nested) -> LiveCatalog:
    return LiveCatalog(spark.query, refusal=SparkRefuses, catalogs=["spark_catalog", "lake"])


async def test_lists_have_every_level_and_none_that_would_be_taken_for_two() -> None:
    spark = Nested()
    catalog = live(spark)
    assert sorted(await catalog.databases("lake")) == ["a", "a.b", "a.b.c", "plain", "x"]
    assert await catalog.list_tables("lake", "a.b.c") == (("t", False),)
    assert not any("odd.one" in text or "c.d" in text for text in spark.texts)


async def test_a_table_is_described_by_all_of_its_name() -> None:
    snapshot = await live(Nested()).look_up(
        [DEEP, TableName("lake", "a", "b"), TableName("lake", "no.such", "t")]
    )
    table = snapshot.table(DEEP)
    assert table is not None
    assert table.name == DEEP
    assert snapshot.knows(TableName("lake", "a", "b"))
    assert snapshot.table(TableName("lake", "a", "b")) is None
    assert snapshot.table(TableName("lake", "no.such", "t")) is None


async def test_spark_s_own_catalog_is_asked_once() -> None:
    spark = Nested()
    BELOW["`spark_catalog`"] = ["hr"]
    assert await live(spark).databases("spark_catalog") == ("hr",)
    assert spark.texts == ["SHOW DATABASES IN `spark_catalog`"]


@pytest.mark.parametrize("dropped", ["a", "a.b", "A.B.c"])
def test_a_namespace_that_is_dropped_takes_those_in_it_along(dropped: str) -> None:
    known = KnownTables(["lake"], max_age_s=9, missing_age_s=1, max_names=9)
    other = TableName("lake", "ab", "t")
    for name in (DEEP, other):
        known.learn(name, Table(name=name, kind=TableKind.TABLE, columns=()), 0)
    known.forget([], [("lake", dropped)])
    assert not known.snapshot(0).knows(DEEP)
    assert known.snapshot(0).knows(other)
