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

QUERIES = """
SELECT 1
SELECT DISTINCT x AS p, y, * FROM a WHERE x > 1 ORDER BY x LIMIT 3 OFFSET 2
SELECT x FROM a LIMIT ALL
SELECT x, count(*) FROM a GROUP BY x HAVING count(*) > 1
SELECT x, y, sum(z) FROM a GROUP BY GROUPING SETS ((x), (y))
SELECT x, y, sum(z) FROM a GROUP BY CUBE(x, y)
SELECT x, y, sum(z) FROM a GROUP BY x, y WITH ROLLUP
SELECT x FROM a GROUP BY 1
SELECT x FROM a QUALIFY row_number() OVER (PARTITION BY y ORDER BY z) = 1
SELECT x FROM a CLUSTER BY x
SELECT x FROM a JOIN b USING (i) LEFT ANTI JOIN c ON a.i = c.i
SELECT x FROM a UNION ALL SELECT y FROM b
SELECT x FROM a EXCEPT SELECT y FROM b INTERSECT ALL SELECT z FROM c
WITH c(n) AS (SELECT 1) SELECT n FROM c
VALUES (1, 2)
SELECT * FROM VALUES (1, (SELECT max(x) FROM b)) AS t(p, q)
SELECT * FROM a LATERAL VIEW explode(arr) t AS e
SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.i = a.i)
SELECT * FROM a JOIN LATERAL explode(a.arr) AS t(e)
SELECT * FROM range(start => 1, end => 3)
SELECT * FROM f(TABLE(a) PARTITION BY x)
SELECT * FROM a PIVOT (sum(x) FOR y IN (1, 2))
SELECT * FROM a UNPIVOT (v FOR k IN (x, y))
SELECT * FROM a TABLESAMPLE (10 PERCENT)
SELECT * FROM a VERSION AS OF 3
SELECT /*+ BROADCAST(a) */ * FROM a
SELECT sum(x) OVER w FROM a WINDOW w AS (ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
SELECT sum(x) OVER (ORDER BY z RANGE BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) FROM a
FROM a |> WHERE x > 1 |> AGGREGATE sum(x) AS s GROUP BY y |> EXTEND s + 1 AS t |> SET t = t * 2 |> DROP y
FROM a |> AGGREGATE count(*) GROUP BY 1
SELECT * FROM a JOIN b APPROX NEAREST 3 BY SIMILARITY a.x - b.x
SELECT * FROM a BIN BY (RANGE x TO y BIN WIDTH INTERVAL '5' MINUTE DISTRIBUTE UNIFORM (z))
SELECT * FROM json_table('{}', '$' COLUMNS (a int PATH '$.a'))
SELECT * FROM unnest(array(1, 2))
SELECT x + 1, x - 1, x * 2, x / 2, x % 2, x DIV 2, -x, +x, ~x, x & 1, x | 1, x ^ 1 FROM a
SELECT x << 1, x >> 1, x >>> 1, x || y FROM a
SELECT x = 1 AND x <=> 1 OR NOT x < 1, x <= 1, x > 1, x >= 1, x IN (1, 2), x IS NULL, x IS NOT NULL FROM a
SELECT x LIKE 'a', x ILIKE 'a', x RLIKE 'a', x LIKE ALL ('a', 'b'), x LIKE ANY ('a', 'b') FROM a
SELECT x NOT LIKE ALL ('a', 'b'), x NOT LIKE ANY ('a', 'b'), x ILIKE ANY ('a', 'b') FROM a
SELECT x IN (SELECT y FROM b), EXISTS (SELECT 1 FROM b), (SELECT max(y) FROM b) FROM a
SELECT CASE WHEN x THEN 1 END, CAST(x AS INT), x COLLATE UTF8_BINARY, s.arr[1].z, v:f FROM a
SELECT TRIM('x' FROM y), TRIM(LEADING FROM y), TRIM(TRAILING FROM y), SUBSTRING(x FROM 1 FOR 2) FROM a
SELECT POSITION('a' IN y), OVERLAY(x PLACING 'a' FROM 1 FOR 2), TIMESTAMPADD(DAY, 1, d) FROM a
SELECT TIMESTAMPDIFF(DAY, d, e), first(x), last(x), any_value(x) FROM a
SELECT first(x) IGNORE NULLS, (x AS p, y AS q), (1, 2), struct(*) FROM a
SELECT transform(arr, e -> e + 1), x AS (p, q), current_path() FROM a
SELECT * EXCEPT (x) FROM a
SELECT CURRENT_DATE, CURRENT_TIMESTAMP, CURRENT_USER, CURRENT_TIME, current_path
""".strip().splitlines()

NOT_PRODUCED = frozenset(
    {
        # only when reserved words are enforced, which the pinned settings exclude
        "CurrentDate",
        "CurrentTime",
        "CurrentTimestamp",
        "CurrentUser",
    }
)

REFUSED = {
    "SELECT TRANSFORM(x) USING 'cat' FROM a": "ScriptTransformation",
    "FROM a MAP x USING 'cat'": "ScriptTransformation",
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


async def test_queries_are_made_of_allowed_parts_and_every_allowed_part_occurs(reader: ReaderPool) -> None:
    nodes: set[str] = set()
    expressions: set[str] = set()
    for query in QUERIES:
        reading = await read(reader, query)
        assert {n for n in reading.nodes if node_refusal(n)} == set(), query
        assert {e for e in reading.expressions if expression_refusal(e)} == set(), query
        nodes |= reading.nodes
        expressions |= reading.expressions
    assert nodes == QUERY_NODES
    assert expressions == QUERY_EXPRESSIONS - NOT_PRODUCED


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
    assert node_refusal("NodeOfSpark5") == "`NodeOfSpark5` is not a known part of a query"
    assert expression_refusal("ExpressionOfSpark5") == "`ExpressionOfSpark5` is not a known expression"


async def test_nothing_is_on_two_lists() -> None:
    assert QUERY_NODES.isdisjoint(REFUSED_NODES)
    assert QUERY_EXPRESSIONS.isdisjoint(REFUSED_EXPRESSIONS)
    assert COMMAND_EXPRESSIONS.isdisjoint(QUERY_EXPRESSIONS | REFUSED_EXPRESSIONS.keys())
    assert expression_refusal("Assignment") is not None
    assert expression_refusal("Assignment", command=True) is None
