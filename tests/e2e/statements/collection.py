"""What people write: scripts of our own, a query for each way of Spark's grammar, and the examples that
Spark has of its functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
TOTALITY = HERE.parents[1] / "cases" / "totality.yaml"
DATABASES = {"direct": "stated_d", "gateway": "stated_g"}
"""Side → its database; the names are of one length, since some answers are columns of text."""

FILES = "/tmp/sluice_stated"
"""Where statements on paths write, each side in the directory of its database."""

TABLES = (
    "CREATE TABLE people USING parquet AS SELECT * FROM VALUES "
    "(1, 'Ann', 'EMEA', 10.5BD, true, DATE '2020-02-03', array('a', 'b'), named_struct('city', 'Bonn'), "
    "map('k', 'v')), "
    "(2, 'Ben', 'AMER', 20.5BD, false, DATE '2021-02-03', array('c'), named_struct('city', 'Rome'), map()), "
    "(3, 'Cid', 'EMEA', NULL, NULL, NULL, NULL, NULL, NULL) "
    "AS t(id, name, region, salary, active, hired, tags, address, attributes)",
    "CREATE TABLE orders USING parquet AS SELECT * FROM VALUES "
    "(10, 1, 12.5BD), (11, 1, 30.0BD), (12, 2, 7.5BD) AS t(id, person, amount)",
    "CREATE TABLE events USING parquet AS SELECT * FROM VALUES "
    "(1, TIMESTAMP '2024-01-01 10:00:00'), (2, TIMESTAMP '2024-01-01 11:30:00') AS t(id, at)",
    "CREATE TABLE parted USING parquet PARTITIONED BY (y) AS SELECT 1 AS x, 2 AS y",
    "CREATE TABLE a USING parquet AS SELECT 1 AS i, 1 AS x, 2 AS y, 3 AS z, 4 AS n, array(1) AS arr, "
    "DATE '2024-01-01' AS d, DATE '2024-02-01' AS e",
    "CREATE TABLE b USING parquet AS SELECT 1 AS i, 1 AS x, 2 AS y",
    "CREATE TABLE c USING parquet AS SELECT 1 AS i, 1 AS x, 2 AS y, 3 AS z",
)


@dataclass(frozen=True, slots=True)
class Script:
    """Statements that run in one session, in their order."""

    name: str
    statements: tuple[str, ...]


_SCRIPT = re.compile(r"^-- script: (.+)$", re.MULTILINE)
_END = re.compile(r";[ \t]*$", re.MULTILINE)
_QUERY = re.compile(r"\s*\(*\s*(SELECT|WITH|FROM|VALUES|TABLE)\b", re.IGNORECASE)
VARIES = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|now|curdate|localtime\w*|current_(date|time\w*)|"
    r"unix_timestamp|monotonically_increasing_id|spark_partition_id|input_file_\w+|EXPLAIN|BUCKET|java_method)\b",
    re.IGNORECASE,
)
"""Statements whose rows are others each time, or print what is."""


def is_query(statement: str) -> bool:
    return _QUERY.match(statement) is not None and " INSERT " not in statement


def of_our_own() -> list[Script]:
    """Return the scripts of `collection.sql` and `reference.sql`."""
    found = []
    for file in ("collection.sql", "reference.sql"):
        parts = _SCRIPT.split((HERE / file).read_text(encoding="utf-8"))[1:]
        found += [Script(name, tuple(_cut(text))) for name, text in zip(parts[::2], parts[1::2], strict=True)]
    return found


def _cut(text: str) -> Iterator[str]:
    for piece in _END.split(text):
        if piece.strip():
            yield piece.strip()


def of_the_grammar() -> Script:
    """Return the queries that the totality of the grammar is held by, over tables that they fit."""
    cases: dict[str, list[Any]] = yaml.safe_load(TOTALITY.read_text(encoding="utf-8"))
    texts = [case if isinstance(case, str) else case["sql"] for case in cases["governed"]]
    return Script("grammar", tuple(text for text in texts if is_query(text) and "INSERT" not in text))


def examples(described: Iterable[str]) -> Iterator[str]:
    """Yield the statements among what DESCRIBE FUNCTION EXTENDED says of functions."""
    for text in described:
        kept: list[str] | None = None
        for line in text.splitlines():
            begins = line.strip().startswith("> ")
            if not begins and kept is None:
                continue
            kept = [line.strip().removeprefix("> ")] if begins else [*(kept or ()), line.strip()]
            if kept[-1].endswith(";"):
                yield " ".join(kept).removesuffix(";")
                kept = None
