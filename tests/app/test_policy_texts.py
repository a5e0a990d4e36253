"""What Spark is asked of texts before they are stored, and what is said where it was not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from gateway.app.policy_texts import SparkTexts
from gateway.catalog.static import StaticCatalog
from gateway.errors import BackendUnavailable
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.reading import Reading
from gateway.reader.pool import ReaderPool
from gateway.session.ports import BackendError

pytestmark = pytest.mark.asyncio(loop_scope="session")

CARD = Table(
    name=TableName("spark_catalog", "shop", "card"),
    kind=TableKind.TABLE,
    columns=(Column(name="id", type="int"), Column(name="Number", type="string")),
)
ABOUT = {"database": ["shop"], "table": ["card"]}


@dataclass(frozen=True)
class Asked:
    """A text, and what it is for."""

    text: str
    kind: str = "filter"
    service: str = "lake"
    sets: tuple[Any, ...] = (ABOUT,)

    @property
    def about(self) -> str:
        sets = [{k: {"values": v} for k, v in one.items()} for one in self.sets]
        return orjson.dumps({"sets": sets}).decode()


class Spark:
    """Answers every question of a text's type, or refuses it."""

    def __init__(self, answer: str | Exception = "boolean") -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def __call__(self, sql: str) -> Sequence[Sequence[object]]:
        self.asked.append(sql)
        if isinstance(self.answer, Exception) and "AS `v`" in sql:
            raise self.answer
        return [("v", self.answer, None)]


async def said(reader: ReaderPool, asked: Asked, spark: Spark) -> tuple[str | None, str]:
    catalog = StaticCatalog([CARD])
    texts = SparkTexts({"spark_catalog": "lake"}, catalog, spark, reader)
    reading = await reader.read_expression(asked.text.replace("{col}", "`c`"))
    assert isinstance(reading, Reading)
    return await texts.check_text(asked, reading)


async def test_a_text_is_analysed_over_no_rows_of_the_table(reader: ReaderPool) -> None:
    spark = Spark()
    assert await said(reader, Asked("number = '1'"), spark) == (None, "")
    *_, last = spark.asked
    assert last == (
        "DESCRIBE QUERY SELECT (\nnumber = '1'\n) AS `v` FROM "
        "(SELECT CAST(NULL AS int) AS `id`, CAST(NULL AS string) AS `Number`) AS `card`"
    )


async def test_a_column_that_is_not_there_is_a_fault_without_asking(reader: ReaderPool) -> None:
    spark = Spark()
    fault, _ = await said(reader, Asked("nubmer = '1'"), spark)
    assert fault == "this filter refers to `nubmer`, which table spark_catalog.shop.card does not have"
    assert spark.asked == []


async def test_what_spark_refuses_is_a_fault_without_what_else_there_is(reader: ReaderPool) -> None:
    message = "[UNRESOLVED_ROUTINE] Cannot resolve routine `foo` on search path [`a`]. SQLSTATE: 42883"
    fault, _ = await said(reader, Asked("foo(id)"), Spark(BackendError(message, "42883")))
    assert fault is not None
    assert fault.endswith("[UNRESOLVED_ROUTINE] Cannot resolve routine `foo` on search path [`a`].")


async def test_a_filter_of_another_type_is_a_fault(reader: ReaderPool) -> None:
    fault, _ = await said(reader, Asked("abs(id)"), Spark("int"))
    assert fault is not None
    assert "has type int" in fault


@pytest.mark.parametrize(
    ("asked", "answer", "told"),
    [
        (Asked("a = 1", service="other"), "boolean", "service `other` is not the service of any catalog"),
        (
            Asked("a = 1", sets=({**ABOUT, "table": ["crad"]},)),
            "boolean",
            "table spark_catalog.shop.crad does not exist",
        ),
        (
            Asked("a = 1", sets=({**ABOUT, "table": ["*"]},)),
            "boolean",
            "the policy does not name its table without wildcards",
        ),
        (
            Asked("a = 1", sets=({"tag": ["PII"]},)),
            "boolean",
            "the policy does not name its table without wildcards",
        ),
        (Asked("id = 1"), BackendUnavailable("Spark is away"), "Spark is away"),
        (
            Asked("{col} || 'x'", kind="mask", sets=({**ABOUT, "column": ["nubmer"]},)),
            "string",
            "table spark_catalog.shop.card has no column `nubmer`",
        ),
    ],
)
async def test_what_was_not_asked_is_said(
    reader: ReaderPool, asked: Asked, answer: str | Exception, told: str
) -> None:
    fault, unchecked = await said(reader, asked, Spark(answer))
    assert fault is None
    assert told in unchecked


async def test_an_error_that_is_not_of_the_text_is_no_fault(reader: ReaderPool) -> None:
    fault, unchecked = await said(reader, Asked("id = 1"), Spark(BackendError("[FULL] no", "58030")))
    assert fault is None
    assert "[FULL] no" in unchecked


async def test_a_spark_that_does_not_answer_is_not_waited_for_by_each_text(reader: ReaderPool) -> None:
    asked = list[str]()

    async def hangs(sql: str) -> Sequence[Sequence[object]]:
        asked.append(sql)
        await asyncio.Event().wait()
        return []

    texts = SparkTexts({"spark_catalog": "lake"}, StaticCatalog([CARD]), hangs, reader, timeout_s=0)
    reading = await reader.read_expression("id = 1")
    assert isinstance(reading, Reading)
    for _ in range(3):
        fault, unchecked = await texts.check_text(Asked("id = 1"), reading)
        assert fault is None
        assert unchecked == "a filter was not checked: Spark did not answer in time"
    assert len(asked) == 1
