"""Markers of arguments: refused without arguments, and with them where they are not values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.reading import NotParsed, Reading
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import classify
from gateway.sql.names import Names
from gateway.sql.parameters import MISPLACED, parameter_refusal
from gateway.sql.required import Required, Unsupported

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = Names(SessionContext(), frozenset({"spark_catalog"}))

GOVERNED = """
SELECT :x, ? AS y FROM t WHERE a = :x AND b IN (?, ?) LIMIT :n
SELECT a FROM t WHERE a LIKE :pattern OR a BETWEEN :low AND :high
SELECT * FROM range(:n)
SELECT a FROM t TIMESTAMP AS OF :moment
SELECT /*+ REPARTITION(:n) */ a FROM t
WITH c AS (SELECT * FROM t WHERE a = :x) SELECT * FROM c
VALUES (:x, ?)
INSERT INTO t SELECT :x
INSERT INTO t VALUES (?, ?)
CREATE TABLE u AS SELECT :x AS a
EXPLAIN SELECT :x
DESCRIBE QUERY SELECT :x
SELECT from_json(a, :schema) FROM t
SELECT ':x' FROM t
""".strip().splitlines()


@pytest.mark.parametrize("text", GOVERNED)
async def test_with_arguments(reader: ReaderPool, text: str) -> None:
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    assert isinstance(classify(reading, NAMES, parameters=True), Required)
    if reading.parameters:
        assert isinstance(classify(reading, NAMES), Unsupported)


REFUSED = [
    ("SELECT * FROM IDENTIFIER(:t)", "IDENTIFIER"),
    ("SELECT * FROM IDENTIFIER('a' || :t)", "IDENTIFIER"),
    ("SELECT IDENTIFIER(:c) FROM t", "IDENTIFIER"),
    ("SELECT IDENTIFIER(:f)(a) FROM t", "IDENTIFIER"),
    ("INSERT INTO IDENTIFIER(:t) SELECT 1", "IDENTIFIER"),
    ("CREATE TABLE IDENTIFIER(:t) AS SELECT 1 AS a", "IDENTIFIER"),
    ("DROP TABLE IDENTIFIER(:t)", "IDENTIFIER"),
    ("SELECT * FROM db.IDENTIFIER(:t)", "IDENTIFIER"),
    ("EXECUTE IMMEDIATE :text", "EXECUTE IMMEDIATE"),
    ("CALL p(:x)", "only allowed in queries"),
    ("SELECT a -? FROM t", "spaces"),
    ("SELECT a -? , '\n FROM secret --' FROM t", "spaces"),
    ("SELECT a FROM t WHERE a LIKE:x", "spaces"),
    ("SELECT a FROM t LIMIT?", "spaces"),
    ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > :x)", None),
    ("SELECT reflect(:class, :method)", "Java"),
    ("BEGIN SELECT :x; END", "scripts"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[text for text, _ in REFUSED])
async def test_refused_with_arguments(reader: ReaderPool, text: str, why: str | None) -> None:
    reading = await reader.read(text)
    if isinstance(reading, NotParsed):
        return
    assert isinstance(reading, Reading)
    required = classify(reading, NAMES, parameters=True)
    assert isinstance(required, Unsupported), required
    assert why is None or why in required.why


async def test_set_is_not_bound(reader: ReaderPool) -> None:
    """Spark writes no argument into SET: it would set the text `:x`, which the setting's row judges."""
    reading = await reader.read("SET a = :x")
    assert isinstance(reading, Reading)
    assert reading.parameters == ()


async def test_what_a_marker_must_be_is_not_left_to_the_parser(reader: ReaderPool) -> None:
    """Spark's parser trips over most markers that are no expressions; another version may take them."""
    reading = await reader.read("SELECT :x AS a")
    assert isinstance(reading, Reading)
    (marker,) = reading.parameters
    assert parameter_refusal(reading) is None
    assert parameter_refusal(replace(reading, parameters=(replace(marker, value=False),))) == MISPLACED
    view = await reader.read("CREATE TEMPORARY VIEW v AS SELECT 1 AS a")
    assert isinstance(view, Reading)
    assert "only allowed in queries" in str(parameter_refusal(replace(view, parameters=reading.parameters)))
