"""The allow-lists of plan nodes and expressions against what Spark's parser really makes of statements."""

from __future__ import annotations

import pytest

from gateway.model.reading import Reading
from gateway.reader.pool import ReaderPool
from gateway.sql.expressions import (
    COMMAND_EXPRESSIONS,
    QUERY_EXPRESSIONS,
    REFUSED_EXPRESSIONS,
    expression_refusal,
)
from gateway.sql.nodes import QUERY_NODES, REFUSED_NODES, node_refusal

pytestmark = pytest.mark.asyncio(loop_scope="session")

REFUSED = {
    "SELECT * FROM a CHANGES FROM VERSION 1 TO VERSION 2": "RelationChanges",
    "SELECT * FROM a WATERMARK ts DELAY OF INTERVAL 1 SECOND": "UnresolvedEventTimeWatermark",
    "SELECT * FROM STREAM a": "NamedStreamingRelation",
    "SELECT * FROM IDENTIFIER('a' || x)": "PlanWithUnresolvedIdentifier",
    "SELECT * FROM IDENTIFIER(:p)": "PlanWithUnresolvedIdentifier",
    "INSERT INTO IDENTIFIER(:p) SELECT 1": "UnresolvedInsert",
    "EXECUTE IMMEDIATE 'SELECT 1'": "UnresolvedExecuteImmediate",
    "BEGIN SELECT 1; END": "CompoundBody",
    "BEGIN l: LOOP LEAVE l; END LOOP; END": "LoopStatement",
    "BEGIN IF true THEN SELECT 1; END IF; END": "IfElseStatement",
    "CREATE FLOW f AS AUTO CDC INTO b FROM STREAM a KEYS (x) SEQUENCE BY y": "AutoCdcInto",
}


async def read(reader: ReaderPool, text: str) -> Reading:
    answer = await reader.read(text)
    assert isinstance(answer, Reading), (text, answer)
    return answer


@pytest.mark.parametrize(("statement", "node"), REFUSED.items(), ids=REFUSED)
async def test_what_cannot_be_governed_is_refused_by_its_node(
    reader: ReaderPool, statement: str, node: str
) -> None:
    reading = await read(reader, statement)
    assert node in reading.nodes
    assert node_refusal(node) == REFUSED_NODES[node]


@pytest.mark.parametrize(
    ("statement", "expression"),
    [
        ("SELECT :p", "NamedParameter"),
        ("SELECT ?", "PosParameter"),
        ("SELECT IDENTIFIER('a' || x) FROM t", "ExpressionWithUnresolvedIdentifier"),
        ("SELECT IDENTIFIER(:f)(1)", "ExpressionWithUnresolvedIdentifier"),
    ],
)
async def test_expressions_of_unknown_meaning_are_refused(
    reader: ReaderPool, statement: str, expression: str
) -> None:
    reading = await read(reader, statement)
    assert expression in reading.expressions
    assert expression_refusal(expression) == REFUSED_EXPRESSIONS[expression]


async def test_an_unknown_class_is_refused() -> None:
    assert node_refusal("NodeOfSpark5") == "`NodeOfSpark5` is not supported in queries"
    assert expression_refusal("ExpressionOfSpark5") == "`ExpressionOfSpark5` is not a supported expression"


async def test_nothing_is_on_two_lists() -> None:
    assert QUERY_NODES.isdisjoint(REFUSED_NODES)
    assert QUERY_EXPRESSIONS.isdisjoint(REFUSED_EXPRESSIONS)
    assert COMMAND_EXPRESSIONS.isdisjoint(QUERY_EXPRESSIONS | REFUSED_EXPRESSIONS.keys())
    assert expression_refusal("Assignment") is not None
    assert expression_refusal("Assignment", command=True) is None
