"""Expressions that are total by the gateway's lists, over rows of the first and last values of their types.

What the lists take is tried on Spark, with ANSI mode on and off: none may fail. About ten seconds of CPU.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyhive.exc import OperationalError

from gateway.algebra.spark import lower_relation
from gateway.model.reading import Reading, RelationRole
from gateway.reader.pool import ReaderPool
from gateway.sql.total import total_statement
from tests.e2e.running import Spark, connect
from tests.effort import tries

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATABASE = "totals"
NINES = "9" * 38
EXTREMES = {
    "k": ("int", "-2147483648", "2147483647"),
    "n": ("bigint", "-9223372036854775808L", "9223372036854775807L"),
    "f": ("float", "CAST('-Infinity' AS FLOAT)", "CAST(3.4028235e38 AS FLOAT)"),
    "d": ("double", "CAST('NaN' AS DOUBLE)", "1.7976931348623157e308D"),
    "ok": ("boolean", "FALSE", "TRUE"),
    "day": ("date", "date_from_unix_date(-2147483648)", "date_from_unix_date(2147483647)"),
    "ts": ("timestamp", "timestamp_micros(-9223372036854775808L)", "timestamp_micros(9223372036854775807L)"),
    "s": ("string", "''", "'no number, and longer than some'"),
    "v": ("varchar(5)", "''", "'abcde'"),
    "amount": ("decimal(10,2)", "-99999999.99BD", "99999999.99BD"),
    "wide": ("decimal(38,0)", f"-{NINES}BD", f"{NINES}BD"),
    "fine": ("decimal(38,38)", f"-0.{NINES}BD", f"0.{NINES}BD"),
}
LITERALS = (
    "0 1 -1 5 2147483647 3000000000 1.5 1.5D 127Y TRUE NULL 'x' '' '5' '%a%' '2024-01-01' DATE'2024-01-01' "
    "9223372036854775807 99999999999999999999999999999999999999"
).split()
TYPES = "TINYINT INT BIGINT FLOAT DOUBLE BOOLEAN DATE TIMESTAMP STRING DECIMAL(10,2) DECIMAL(38,0)".split()
SHAPES = (
    "({}={}) ({}<=>{}) ({}<{}) ({}+{}) ({}-{}) ({}*{}) ({}%{}) ({}/{}) (+{}) (-{}) ({}AND{}) (NOT{}) "
    "({}IS~NULL) ({}IN({},{})) ({}LIKE{}) CAST({}AS~$) TRY_CAST({}AS~$) lower({}) trim({}) length({}) "
    "contains({},{}) concat({},{}) substr({},{}) substr({},{},{}) year({}) weekday({}) date_add({},{}) "
    "datediff({},{}) coalesce({},{}) nullif({},{}) if({},{},{}) "
    "CASE~WHEN{}THEN{}ELSE{}END extract(month~FROM{})"
).split()


def expression(chosen: random.Random, depth: int = 2) -> str:
    """Write some expression; most are no good."""
    if depth == 0 or chosen.random() < 0.3:
        return chosen.choice(LITERALS if chosen.random() < 0.4 else list(EXTREMES))
    shape = chosen.choice(SHAPES).replace("~", " ")
    operands = [f" {expression(chosen, depth - 1)} " for _ in range(shape.count("{}"))]
    return shape.format(*operands).replace("$", chosen.choice(TYPES))


async def is_total(text: str, reader: ReaderPool) -> bool:
    reading = await reader.read(text)
    if not isinstance(reading, Reading):
        return False
    (scan,) = [r.span for r in reading.relations if r.role is RelationRole.SCAN]
    assert scan is not None
    columns = {name: kind for name, (kind, _, _) in EXTREMES.items()}
    tree = None if reading.tree is None else lower_relation(reading.tree)
    return total_statement(tree, text, {scan: columns}, frozenset()) is not None


@pytest.fixture(scope="module")
def cursor(spark: Spark) -> Iterator[Any]:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in EXTREMES.items())
    rows = [", ".join(one[place] for one in EXTREMES.values()) for place in (1, 2)]
    rows.append(", ".join("NULL" for _ in EXTREMES))
    spark.query(
        # Spark 3.5 writes no days of before 1900 unless it is told by which calendar.
        *(f"SET spark.sql.parquet.{one}RebaseModeInWrite=CORRECTED" for one in ("datetime", "int96")),
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.ends ({columns}) USING parquet",
        f"INSERT INTO {DATABASE}.ends " + " UNION ALL ".join(f"SELECT {row}" for row in rows),
    )
    connection = connect(spark.host, spark.port, "direct")
    cursor = connection.cursor()
    cursor.execute(f"USE {DATABASE}")
    yield cursor
    connection.close()


def failing(cursor: Any, expressions: list[str]) -> list[str]:
    """Return those that fail over rows. Others are of types that Spark does not take."""
    try:
        cursor.execute(f"SELECT {', '.join(f'count({one})' for one in expressions)} FROM ends")
        cursor.fetchall()
    except OperationalError as error:
        if len(expressions) > 1:
            half = len(expressions) // 2
            return failing(cursor, expressions[:half]) + failing(cursor, expressions[half:])
        typed = ("DATATYPE_MISMATCH", "WRONG_NUM_ARGS")
        return [] if any(f"[{one}" in str(error) for one in typed) else [f"{expressions[0]}: {error}"[:300]]
    return []


@pytest.mark.parametrize("ansi", ["true", "false"])
async def test_what_is_total_never_fails(ansi: str, cursor: Any, reader: ReaderPool) -> None:
    chosen = random.Random(ansi)
    made = list(dict.fromkeys(expression(chosen) for _ in range(tries(700))))
    total = [one for one in made if await is_total(f"SELECT * FROM ends WHERE ({one}) IS NULL", reader)]
    assert len(total) > len(made) // 20
    cursor.execute(f"SET spark.sql.ansi.enabled={ansi}")
    try:
        assert failing(cursor, total) == []
    finally:
        cursor.execute("RESET spark.sql.ansi.enabled")
