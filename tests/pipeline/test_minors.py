"""What the pipeline writes and refuses before an older Spark; here the parser only says that it is one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from gateway.model.reading import (
    CommandNode,
    NotRead,
    Proof,
    Reading,
    ReadingAnswer,
    ScriptReading,
    Splice,
    UnnamedColumn,
)
from gateway.model.spark_minors import Minor, minor_of
from gateway.model.statement import Cleared, Refused, SessionContext, Statement, Verdict
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import GENERATED_TEXT, classify
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from tests.judge_world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


class OlderReader:
    """The reader, that says it is of another version."""

    def __init__(self, reader: ReaderPool, version: str) -> None:
        self._reader = reader
        self.spark_version = version

    async def read(self, text: str) -> ReadingAnswer:
        return await self._reader.read(text)

    async def read_expression(self, text: str) -> ReadingAnswer:
        return await self._reader.read_expression(text)

    async def column_names(
        self, text: str, *, expression: bool = False
    ) -> tuple[UnnamedColumn, ...] | NotRead:
        return await self._reader.column_names(text, expression=expression)

    async def read_script(self, text: str) -> ScriptReading | NotRead | None:
        return await self._reader.read_script(text)

    async def prove(
        self,
        original: str,
        rewritten: str,
        splices: Sequence[Splice],
        allowed: Collection[tuple[str, ...]],
        *,
        expression: bool = False,
    ) -> Proof:
        return await self._reader.prove(original, rewritten, splices, allowed, expression=expression)


PACK = """
service: spark
policies:
  - name: read
    on: {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{users: [ann], access: [select]}]
  - name: mask
    on: {catalog: spark_catalog, database: d, table: a, column: x}
    mask: [{users: [ann], type: MASK_HASH}]
  - name: custom
    on: {catalog: spark_catalog, database: d, table: b, column: x}
    mask: [{users: [ann], type: CUSTOM, show: "system.builtin.upper({col})"}]
  - name: newer
    on: {catalog: spark_catalog, database: d, table: c, column: x}
    mask: [{users: [ann], type: CUSTOM, show: "hmac({col}, 'k')"}]
  - name: who
    on: {catalog: spark_catalog, database: d, table: e}
    filter: [{users: [ann], where: "x = session_user()"}]
"""
DATA = {
    "catalogs": ["spark_catalog"],
    "tables": {f"spark_catalog.d.{table}": {"x": "string", "y": "int"} for table in "abce"},
    "views": {},
    "people": {"ann": {"groups": []}},
    "pack": PACK,
}


async def judged(reader: ReaderPool, version: str, text: str) -> Verdict:
    world = World(DATA)  # one gateway has one Spark behind it
    context = SessionContext(namespace=("d",))
    statement = Statement(text=text, principal=world.principal("ann"), context=context)
    return await world.judge_statement(statement, OlderReader(reader, version))


@pytest.mark.parametrize(
    ("version", "written"),
    [("3.5.9", "sha2("), ("4.0.5", "sha2("), ("4.1.4", "sha2("), ("4.2.1", "system.builtin.sha2(")],
)
async def test_masks_call_functions_by_names_that_spark_has(
    reader: ReaderPool, version: str, written: str
) -> None:
    verdict = await judged(reader, version, "SELECT x FROM a")
    assert isinstance(verdict, Cleared), verdict
    assert f"CAST({written}CAST(`x` AS BINARY), 256) AS STRING)" in verdict.forwarded


async def test_a_table_that_does_not_exist_has_no_rows_by_a_name_that_spark_has(reader: ReaderPool) -> None:
    older, newer = [await judged(reader, version, "SELECT x FROM gone") for version in ("4.1.4", "4.2.1")]
    assert type(older) is type(newer)
    if isinstance(older, Cleared) and isinstance(newer, Cleared):
        assert newer.forwarded.replace("system.builtin.", "") == older.forwarded


async def test_a_policy_that_calls_by_a_name_that_spark_does_not_have(reader: ReaderPool) -> None:
    assert isinstance(await judged(reader, "4.2.1", "SELECT x FROM b"), Cleared)
    refused = await judged(reader, "4.1.4", "SELECT x FROM b")
    assert isinstance(refused, Refused)
    assert "calls `system.builtin.upper`, a name that Spark 4.1.4 does not support" in refused.message


async def test_a_policy_that_calls_what_came_later(reader: ReaderPool) -> None:
    refused = await judged(reader, "4.2.1", "SELECT x FROM c")
    assert isinstance(refused, Refused)
    assert "calls `hmac`, which needs Spark 4.3; this is Spark 4.2.1" in refused.message


async def test_who_the_user_is_stands_in_a_policy_as_a_literal(reader: ReaderPool) -> None:
    """So `session_user`, which came with 4.0, may stand in one before 3.5."""
    verdict = await judged(reader, "3.5.9", "SELECT x FROM e")
    assert isinstance(verdict, Cleared), verdict
    assert "session_user" not in verdict.forwarded


async def test_a_literal_that_older_sparks_read_as_two(reader: ReaderPool) -> None:
    """As parsers before 4.1 say of `'it''s'`; an empty literal is none."""
    for text, doubled in (("'it''s'", True), ("''", False), ("'it' 's'", False)):
        answer = await reader.read_expression(text)
        assert isinstance(answer, Reading)
        older = minor_of(reader.spark_version) < Minor(4, 1)
        assert answer.doubled_quotes == (doubled and older)


async def test_what_a_column_is_generated_of_must_not_be_a_text(reader: ReaderPool) -> None:
    """As parsers before 4.3 have it."""
    column = {"node": "ColumnDefinition", "name": "x", "generationExpression": "reflect('a', 'b')"}
    reading = await reader.read("CREATE TABLE n (x INT)")
    command = CommandNode(node="CreateTable", fields={"columns": (column,)}, span=None)
    assert isinstance(reading, Reading)
    names = Names(SessionContext(namespace=("d",)), frozenset({"spark_catalog"}))
    assert classify(replace(reading, commands=(command,)), names) == Unsupported(GENERATED_TEXT)
