"""What `classify` makes of readings that no parser of today gives: a newer Spark's, or an incomplete one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.handles import SparkHandle
from gateway.model.reading import Reading
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from gateway.sql.classify import classify
from gateway.sql.guard import pin_targets
from gateway.sql.names import Names
from gateway.sql.required import Required, Unsupported
from gateway.sql.scope import CannotClassify
from gateway.sql.storage import check_table_spec

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = Names(SessionContext(), frozenset({"spark_catalog"}))


async def read(reader: ReaderPool, text: str) -> Reading:
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    assert isinstance(classify(reading, NAMES), Required)
    return reading


def why(reading: Reading) -> str:
    found = classify(reading, NAMES)
    assert isinstance(found, Unsupported), found
    return found.why


async def test_what_is_on_no_list_is_refused(reader: ReaderPool) -> None:
    reading = await read(reader, "SELECT a FROM t")
    assert "`NodeOfSpark5`" in why(replace(reading, nodes=reading.nodes | {"NodeOfSpark5"}))
    assert "`?Thing`" in why(replace(reading, nodes=reading.nodes | {"?Thing"}))
    assert "`Expression5`" in why(replace(reading, expressions=reading.expressions | {"Expression5"}))


async def test_a_command_that_was_not_read_is_refused(reader: ReaderPool) -> None:
    reading = await read(reader, "CLEAR CACHE")
    assert why(replace(reading, commands=())) == "ClearCacheCommand could not be parsed"


async def test_a_target_that_no_command_has_judged_is_refused(reader: ReaderPool) -> None:
    reading = await read(reader, "DROP TABLE hr.t")
    required = classify(reading, NAMES)
    assert isinstance(required, Required)
    assert not isinstance(pin_targets(reading, required, NAMES), Unsupported)
    found = pin_targets(reading, replace(required, pins=()), NAMES)
    assert isinstance(found, Unsupported)
    assert "not authorized with the statement" in found.why


async def test_a_clause_of_a_table_that_is_not_known_is_refused() -> None:
    assert check_table_spec({"location": "/x"}) == "/x"
    with pytest.raises(CannotClassify, match="clusteredOn"):
        check_table_spec({"location": "/x", "clusteredOn": None})


@pytest.mark.parametrize(
    ("text", "handle", "says"),
    [
        ("INSERT INTO t REPLACE WHERE x = 1 SELECT * FROM u", None, "raw rows"),
        ("DROP TEMPORARY FUNCTION abs", None, "built in"),
        (
            "CREATE OR REPLACE TEMPORARY FUNCTION f() RETURNS TABLE (y INT) RETURN SELECT 1",
            SparkHandle("function", "f"),
            "another kind of function",
        ),
    ],
)
async def test_commands_that_are_refused(
    reader: ReaderPool, text: str, handle: SparkHandle | None, says: str
) -> None:
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    names = replace(NAMES, context=SessionContext(handles=frozenset({handle} if handle else ())))
    found = classify(reading, names)
    assert isinstance(found, Unsupported), found
    assert says in found.why
