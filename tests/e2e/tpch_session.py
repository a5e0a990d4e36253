"""TPC-H on the test session's Spark: the raw data, the governed copy, and answers that are asked for once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyhive import hive

from tests.e2e.running import Spark
from tests.tpch.generator import statements
from tests.tpch.governed import copy_statements

Answer = tuple[list[tuple[str, str]], list[Any]]
"""(Name, type) of every column, and the rows."""


SETTINGS = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}
"""12,000 rows need no parallelism, and generated code costs more than it saves."""


class Tpch:
    """A session on a Spark that holds the database `tpch` and its governed copy."""

    def __init__(self, cursor: hive.Cursor) -> None:
        self.cursor = cursor
        self.known: dict[tuple[str, str], Answer] = {}

    def answer(self, database: str, sql: str) -> Answer:
        """Run a query as plain Spark would; what was asked before is not asked again."""
        if (database, sql) not in self.known:
            self.cursor.execute(f"USE {database}")
            self.cursor.execute(sql)
            columns = [(column[0], column[1]) for column in self.cursor.description]
            self.known[database, sql] = columns, self.cursor.fetchall()
        return self.known[database, sql]


@pytest.fixture(scope="session")
def tpch(spark: Spark) -> Iterator[Tpch]:
    connection = hive.connect(host=spark.host, port=spark.port, username="loader", auth="NONE")
    cursor = connection.cursor()
    for statement in (*statements("tpch"), *copy_statements("tpch", "tpch_governed")):
        cursor.execute(statement)
    for key, value in SETTINGS.items():
        cursor.execute(f"SET {key}={value}")
    yield Tpch(cursor)
    for database in ("tpch", "tpch_governed"):
        cursor.execute(f"DROP DATABASE {database} CASCADE")
    connection.close()
