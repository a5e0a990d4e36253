"""A command's fields come out as plain values: locations, providers, options, flags, patterns, names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.model.reading import CommandNode, Reading
from gateway.model.spark_minors import SUPPORTED, minor_of
from gateway.reader.pool import ReaderPool
from tests.reader.asking import contexts, hello
from tests.readers import is_older, require

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def commands(reader: ReaderPool, text: str) -> tuple[CommandNode, ...]:
    answer = await reader.read(text)
    assert isinstance(answer, Reading), answer
    return answer.commands


async def only(reader: ReaderPool, text: str) -> Mapping[str, Any]:
    (command,) = await commands(reader, text)
    return command.fields


async def test_create_table(reader: ReaderPool) -> None:
    fields = await only(
        reader,
        "CREATE TABLE IF NOT EXISTS a.b (c INT NOT NULL COMMENT 'x', d STRING DEFAULT 'y') USING delta"
        " OPTIONS (k '/o', n 3) LOCATION '/l' TBLPROPERTIES ('p' = 'q') COMMENT 'hello'"
        " PARTITIONED BY (d, bucket(4, c))",
    )
    assert fields["name"] == {"node": "UnresolvedIdentifier", "parts": ("a", "b"), "span": (27, 30)}
    spec = fields["tableSpec"]
    assert spec["provider"] == "delta"
    assert spec["location"] == "/l"
    assert spec["properties"] == {"p": "q"}
    assert spec["optionExpression"] == {"k": "/o", "n": 3}
    assert spec["comment"] == "hello"
    assert fields["ignoreIfExists"] is True
    if is_older(reader, "4.0"):
        assert fields["tableSchema"] == "STRUCT<c: INT COMMENT 'x', d: STRING>"
    else:
        assert [column["name"] for column in fields["columns"]] == ["c", "d"]


async def test_ctas_keeps_its_query_out_of_the_fields(reader: ReaderPool) -> None:
    fields = await only(reader, "CREATE TABLE a USING parquet LOCATION '/x' AS SELECT * FROM t")
    assert fields["query"] == {"node": "Project", "query": True}
    assert fields["tableSpec"]["location"] == "/x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET a.b = c d", {"kv": ("a.b", "c d")}),
        ("SET a.b", {"kv": ("a.b", None)}),
        ("SET", {"kv": None}),
        ("RESET a.b", {"config": "a.b"}),
        ("SHOW TABLES IN c.d LIKE 'x*'", {"pattern": "x*"}),
        ("DROP TABLE IF EXISTS a PURGE", {"ifExists": True, "purge": True}),
        ("DROP DATABASE a CASCADE", {"ifExists": False, "cascade": True}),
        ("SET CATALOG c", {"catalogNameExpr": {"node": "UnresolvedAttribute", "parts": ("c",)}}),
        ("SET CATALOG 'c'", {"catalogNameExpr": "c"}),
        ("ADD JAR /tmp/x.jar", {"paths": ("/tmp/x.jar",)}),
        ("REFRESH '/x'", {"path": "/x"}),
        ("LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE t", {"path": "/x", "isLocal": True}),
        ("INSERT OVERWRITE t SELECT 1", {"overwrite": True}),
        ("INSERT INTO t (x, y) SELECT 1, 2", {"overwrite": False, "userSpecifiedCols": ("x", "y")}),
        ("ALTER TABLE t SET LOCATION '/x'", {"location": "/x"}),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", {"properties": {"a": "b"}}),
        ("ALTER TABLE t RENAME TO c.d", {"newName": ("c", "d")}),
        ("CREATE DATABASE a LOCATION '/x'", {"properties": {"location": "/x"}}),
        ("CREATE FUNCTION f AS 'x.Y' USING JAR '/x.jar'", {"className": "x.Y"}),
    ],
)
async def test_fields(reader: ReaderPool, text: str, expected: dict[str, Any]) -> None:
    fields = await only(reader, text)
    if "catalogNameExpr" in expected and is_older(reader, "4.2"):
        expected = {"catalogName": "c"}
    assert {name: fields[name] for name in expected} == expected


async def test_namespaces_are_fields_with_a_span(reader: ReaderPool) -> None:
    text = "SHOW TABLES IN `c`.d"
    name = (await only(reader, text))["namespace"]
    assert name == {"node": "UnresolvedNamespace", "parts": ("c", "d"), "span": (15, 20)}


async def test_resources_of_functions_and_paths_of_directories(reader: ReaderPool) -> None:
    fields = await only(reader, "CREATE FUNCTION f AS 'x.Y' USING JAR '/x.jar'")
    assert "/x.jar" in repr(fields["resources"])
    fields = await only(reader, "INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1")
    assert fields["provider"] == "parquet"
    assert "/x" in repr(fields["storage"])


async def test_the_root_comes_first_and_nested_commands_follow(reader: ReaderPool) -> None:
    found = await commands(reader, "EXPLAIN INSERT INTO t SELECT 1")
    assert [one.node for one in found] == ["ExplainCommand", "InsertIntoStatement"]
    found = await commands(reader, "FROM a INSERT INTO b SELECT 1 INSERT INTO c SELECT 2")
    assert [one.node for one in found] == ["InsertIntoStatement", "InsertIntoStatement"]


async def test_a_query_is_no_command(reader: ReaderPool) -> None:
    assert await commands(reader, "SELECT * FROM t WHERE a IN (SELECT b FROM u)") == ()


async def test_a_statement_is_made_of_rules_and_alternatives_of_the_grammar(reader: ReaderPool) -> None:
    assert {"StatementDefault", "Star", "TableName"} <= await contexts(reader, "SELECT * FROM t")
    # Of one that Spark's plan builder refuses, too.
    refused = "FailNativeCommand" if is_older(reader, "4.0") else "FailSetRole"
    assert refused in await contexts(reader, "SET ROLE r")


async def test_words_of_the_grammar(reader: ReaderPool) -> None:
    assert reader.keywords[0] == "ADD"
    assert {"SELECT", "TABLESAMPLE", "ZONE"} <= set(reader.keywords)
    assert len(set(reader.keywords)) == len(reader.keywords) > 300


async def test_builtin_names(reader: ReaderPool) -> None:
    assert {"upper", "sum", "java_method", "current_user"} <= reader.builtin_functions
    assert {"range", "explode"} <= hello(reader).table_functions
    assert minor_of(reader.spark_version) in SUPPORTED


async def test_call_is_a_command(reader: ReaderPool) -> None:
    text = "CALL c.p(a => 'secret', 3)"
    await require(reader, text, "4.0")
    fields = await only(reader, text)
    assert fields["procedure"] == {"node": "UnresolvedProcedure", "parts": ("c", "p"), "span": (5, 8)}
    assert "secret" in repr(fields["args"])
