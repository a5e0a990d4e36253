"""Schemas as text: what in them is an expression or a class, and which arguments of functions are one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from gateway.model.reading import Reading
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import classify
from gateway.sql.names import Names
from gateway.sql.schema_text import check_schema
from gateway.sql.scope import CannotClassify
from gateway.sql.wants import Unsupported, Wants

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = Names(SessionContext(), frozenset({"spark_catalog"}))


def schema(metadata: Mapping[str, object], kind: object = "string") -> str:
    field = {"name": "a", "type": kind, "nullable": True, "metadata": metadata}
    return json.dumps({"type": "struct", "fields": [field]})


DEFAULT = schema({"EXISTS_DEFAULT": "xpath_string('<a/>', 'a')"})
CLASS = schema({}, {"type": "udt", "class": "java.util.Timer", "pyClass": "x.y", "sqlType": "string"})
BAD = [
    DEFAULT,
    schema({"CURRENT_DEFAULT": "version()"}),
    schema({"GENERATION_EXPRESSION": "1"}),
    CLASS,
    DEFAULT.replace("EXISTS", "\\u0045XISTS"),
    DEFAULT.replace("EXISTS_DEFAULT", "x").replace('"x"', '"EXISTS_DEFAULT": "1", "x"'),
    "\ufeff" + DEFAULT,
    "/* */" + DEFAULT,
    DEFAULT[:-1],
    json.dumps({"CURRENT_DEFAULT": "1"}),
]


@pytest.mark.parametrize("text", BAD)
async def test_what_spark_would_evaluate_or_create_is_refused(text: str) -> None:
    with pytest.raises(CannotClassify):
        check_schema(text)


@pytest.mark.parametrize(
    "text",
    ["a INT, b STRING COMMENT 'MY_DEFAULT'", "STRUCT<a: STRING>", '"string"', "", schema({"comment": "x"})],
)
async def test_plain_schemas_pass(text: str) -> None:
    check_schema(text)


def sql(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


async def answer(reader: ReaderPool, text: str) -> Wants | Unsupported:
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    return classify(reading, NAMES)


@pytest.mark.parametrize(
    "call",
    [
        f"from_json('{{}}', {sql(DEFAULT)})",
        f"system.builtin.from_json('{{}}', {sql(DEFAULT)})",
        f"FROM_CSV('', {sql(DEFAULT)}, map('sep', ','))",
        f"try_variant_get(parse_json('{{}}'), '$', {sql(CLASS)})",
        f"variant_get(parse_json('{{}}'), '$', {sql(CLASS)})",
        "from_json('{}', concat('a', ' INT'))",
        "from_json('{}', decode(unhex('00'), 'utf-8'))",
        "from_json('{}', CAST('a INT' AS STRING))",
        "from_json('{}', 'a INT' || '')",
        "from_json('{}', system.evil.schema_of_json('{}'))",
        "from_json('{}', schema)",
        f"transform(array('{{}}'), x -> from_json(x, {sql(DEFAULT)}))",
    ],
)
async def test_a_schema_with_expressions_or_that_is_computed_is_refused(
    reader: ReaderPool, call: str
) -> None:
    assert isinstance(await answer(reader, f"SELECT {call}"), Unsupported)


@pytest.mark.parametrize(
    "call",
    [
        "from_json('{}', 'a INT, b STRUCT<c: STRING>')",
        "from_json('{}', schema_of_json('{\"a\": 1}'))",
        f"from_json('{{}}', {sql(schema({'comment': 'x'}))})",
        "from_csv('', 'a INT')",
        "try_variant_get(parse_json('{}'), '$.a', 'int')",
        "variant_get(parse_json('{}'), '$.a')",
        "concat('EXISTS_DEFAULT', '{')",
    ],
)
async def test_written_schemas_work(reader: ReaderPool, call: str) -> None:
    assert isinstance(await answer(reader, f"SELECT {call}"), Wants)
