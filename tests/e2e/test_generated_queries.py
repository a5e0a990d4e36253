"""Random queries give a governed principal what they give over tables that were governed beforehand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from pyhive import exc, hive

from gateway.model.statement import Cleared
from gateway.reader.pool import ReaderPool
from tests.e2e.running import LoopThread, Spark
from tests.property.queries import Query, queries
from tests.property.test_generated import LAWS, Judge
from tests.property.world import DATABASE, copy_statements, statements

COPY = "shop_governed"
Outcome = tuple[list[tuple[str, str]], list[str]] | str
"""Columns with their types and the rows in some order, or the class of Spark's error."""


class Shop:
    """A session on a Spark that holds the generated queries' tables and their governed copy."""

    def __init__(self, cursor: hive.Cursor) -> None:
        self.cursor = cursor

    def outcome(self, database: str, sql: str) -> Outcome:
        self.cursor.execute(f"USE {database}")
        try:
            self.cursor.execute(sql)
            rows: list[Any] = self.cursor.fetchall()
        except exc.OperationalError as error:
            found = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", str(error))
            return found[1] if found else "UNKNOWN"
        return [(column[0], column[1]) for column in self.cursor.description], sorted(map(repr, rows))


@pytest.fixture(scope="module")
def shop(spark: Spark) -> Iterator[Shop]:
    connection = hive.connect(host=spark.host, port=spark.port, username="loader", auth="NONE")
    cursor = connection.cursor()
    for statement in (*statements(), *copy_statements(DATABASE, COPY)):
        cursor.execute(statement)
    # A few dozen rows need no parallelism, and generated code costs more than it saves.
    for setting in ("spark.sql.shuffle.partitions=1", "spark.sql.codegen.wholeStage=false"):
        cursor.execute(f"SET {setting}")
    yield Shop(cursor)
    for database in (DATABASE, COPY):
        cursor.execute(f"DROP DATABASE {database} CASCADE")
    connection.close()


@pytest.fixture(scope="module")
def judging(session_loop: LoopThread) -> Iterator[Judge]:
    reader = ReaderPool()
    session_loop.run(reader.start())
    yield Judge(session_loop, reader)
    session_loop.run(reader.close())


@pytest.mark.timeout(600)
def test_governed_answers_are_those_of_governed_data(shop: Shop, judging: Judge) -> None:
    kinds: Counter[str] = Counter()

    @given(queries())
    @settings(LAWS, max_examples=60)
    def check(query: Query) -> None:
        verdict = judging.verdict(query.over())
        if not isinstance(verdict, Cleared):
            kinds["refused"] += 1
            return
        expected = shop.outcome(COPY, query.over(COPY))
        # Names were pinned, so the session's own database must not matter.
        assert shop.outcome("default", verdict.forwarded) == expected
        kinds["failed" if isinstance(expected, str) else "rows" if expected[1] else "empty"] += 1

    check()
    assert kinds["rows"] > 0.25 * kinds.total(), kinds
    assert kinds["failed"] + kinds["refused"] < 0.25 * kinds.total(), kinds
