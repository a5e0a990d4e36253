"""Tables with row filters, copies that were filtered beforehand, and how texts over them are judged and run.

Statements are judged here and given to Spark as they would be forwarded.
"""

from __future__ import annotations

import re
from typing import Any

from pyhive.exc import OperationalError

from gateway.model.statement import Cleared
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.judge_world import World

DATABASE = "push_down"
FACT = {"id": "bigint", "k": "int", "s": "string", "amount": "decimal(10,2)", "ok": "boolean", "day": "date"}
DIM = {"k": "int", "name": "string", "at": "timestamp"}
HIDDEN_S = "tells"
ODD = {
    "n": "int",
    "c": "char(4)",
    "v": "varchar(4)",
    "s": "string",
    "fine": "decimal(38,30)",
    "t": "timestamp",
    "d": "date",
    "written": "string",
}
"""What is equal and not the same: text with blanks, decimals of many digits, hours that come twice."""
ODD_ROWS = """
    (1, 'ab', 'ab', 'ab', 5, timestamp_seconds(1730611800), DATE'2024-01-01', '2024-01-01'),
    (2, 'ab', 'ab  ', 'ab  ', 5.000000000000000000000000000001BD, timestamp_seconds(1730615400),
     DATE'2024-06-01', ' 2024-06-01'),
    (3, 'tell', 'tell', 'tell', 0, timestamp_seconds(0), DATE'2000-01-01', 'x'),
    (4, 'cd', 'cd', '', 6, timestamp_seconds(1710055800), DATE'1500-01-01', '1500-1-1'),
    (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (6, 'ef', 'ef', 'EF', -5, timestamp_seconds(-14000000000), DATE'9999-12-31', '9999-12-31')
"""
_FACT = ", ".join(FACT)
VIEWS = {
    "fact_plain": f"SELECT {_FACT} FROM fact",
    "fact_deep": "SELECT v.*, 1 AS one FROM fact_plain v WHERE v.id >= 0",
    "fact_named": "WITH c AS (SELECT day AS d, * FROM fact) "
    "SELECT id, k, s, amount, ok, d AS day FROM c WHERE s IS NULL OR s <> 'x'",
    "fact_twice": f"SELECT {_FACT} FROM fact WHERE ok UNION ALL SELECT {_FACT} FROM fact WHERE NOT ok",
    "fact_first": f"SELECT {_FACT} FROM fact ORDER BY id LIMIT 60",
    "fact_numbered": f"SELECT {_FACT}, row_number() OVER (ORDER BY id) AS n FROM fact",
    "fact_other": "SELECT id, k, s, amount, ok, date_add(day, 1) AS day FROM fact",
    "dim_plain": "SELECT d.k, d.name, d.at FROM dim d LEFT JOIN plain p ON d.k = p.k AND p.v = 1",
    "dim_outer": "SELECT d.k, d.name, d.at FROM plain p LEFT JOIN dim d ON d.k = p.k WHERE p.v < 9",
}
"""Over tables with filters: what is asked of a view may go into its text, or not."""
VIEW_COLUMNS = {
    **{name: FACT if name.startswith("fact") else DIM for name in VIEWS},
    "fact_deep": {**FACT, "one": "int"},
    "fact_numbered": {**FACT, "n": "int"},
}
TOLD = {
    "id": "int",
    "user": "int",
    "a": "string",
    "b": "string",
    "c": "string",
    "w": "decimal(20,0)",
    "x": "decimal(20,0)",
}
TOLD_ROWS = """
    (1, 1, '1', '1', '1', 1, 1), (2, 2, '2', '2', '2', 2, 2),
    (3, 3, '7', 'tells', 'tells', 99999999999999999999BD, 99999999999999999999BD)
"""
"""Texts that are numbers, and small ones, but for the row that is hidden."""
FILTERS = {
    "told": "id <> 3",
    "fact": f"s <> '{HIDDEN_S}' OR s IS NULL",
    "dim": "name <> 'gone'",
    "odd": "n <> 3",
}
COUNTED = {"id": "int", "a": "int", "b": "int", "s": "string"}
COUNTED_FILTER = f"s <> '{HIDDEN_S}'"
DAYS = 12
ROWS = 480


def filtered_world() -> World:
    """A catalog and policies in which everybody reads all but what the filters hide."""
    return World(
        {
            "catalogs": ["spark_catalog", "derby"],
            "tables": {
                f"spark_catalog.{DATABASE}.fact": FACT,
                f"spark_catalog.{DATABASE}.dim": DIM,
                f"spark_catalog.{DATABASE}.odd": ODD,
                f"spark_catalog.{DATABASE}.told": TOLD,
                f"spark_catalog.{DATABASE}.plain": {"k": "int", "v": "int"},
                f"spark_catalog.{DATABASE}.days": {"day": "date", "number": "int"},
                f"spark_catalog.{DATABASE}.changing": {"k": "int", "s": "string"},
                f"spark_catalog.{DATABASE}.parted": {"id": "int", "s": "string"},
                f"spark_catalog.{DATABASE}.beside": {"k": "string"},
                f"spark_catalog.{DATABASE}.counted": COUNTED,
                f"spark_catalog.{DATABASE}.of_a": {"a": "int", "name": "string"},
                f"spark_catalog.{DATABASE}.of_b": {"b": "int", "kind": "int"},
                "derby.app.fact": {"k": "int", "n": "int"},
            },
            "views": {
                f"spark_catalog.{DATABASE}.{name}": {
                    "text": text,
                    "database": DATABASE,
                    "output": list(VIEW_COLUMNS[name]),
                    "columns": VIEW_COLUMNS[name],
                    "definer": "bob",
                }
                for name, text in VIEWS.items()
            },
            "people": {"bob": {"groups": []}},
            "pack": f"""
service: spark
policies:
  - name: all read
    on: {{catalog: "*", database: "*", table: "*", column: "*"}}
    allow: [{{groups: [public], access: [all]}}]
  - name: fact
    on: {{catalog: spark_catalog, database: {DATABASE}, table: fact}}
    filter: [{{groups: [public], where: "{FILTERS["fact"]}"}}]
  - name: dim
    on: {{catalog: spark_catalog, database: {DATABASE}, table: dim}}
    filter: [{{groups: [public], where: "{FILTERS["dim"]}"}}]
  - name: odd
    on: {{catalog: spark_catalog, database: {DATABASE}, table: odd}}
    filter: [{{groups: [public], where: "{FILTERS["odd"]}"}}]
  - name: told
    on: {{catalog: spark_catalog, database: {DATABASE}, table: told}}
    filter: [{{groups: [public], where: "{FILTERS["told"]}"}}]
  - name: counted
    on: {{catalog: spark_catalog, database: {DATABASE}, table: counted}}
    filter: [{{groups: [public], where: "{COUNTED_FILTER}"}}]
  - name: of a database
    on: {{catalog: derby, database: app, table: fact}}
    filter: [{{groups: [public], where: "k <> 3"}}]
  - name: parted
    on: {{catalog: spark_catalog, database: {DATABASE}, table: parted}}
    filter: [{{groups: [public], where: "id <> 3"}}]
  - name: changing
    on: {{catalog: spark_catalog, database: {DATABASE}, table: changing}}
    filter: [{{groups: [public], where: "s <> '{HIDDEN_S}'"}}]
""",
        }
    )


def tables() -> list[str]:
    """Return the statements that make a database with the tables, and copies of those that have filters."""
    made = f"CREATE TABLE {DATABASE}.fact USING parquet PARTITIONED BY (day) AS SELECT /*+ REPARTITION(2) */"
    return [
        f"CREATE DATABASE {DATABASE}",
        f"{made} id, CAST(IF(id % 9 = 0, NULL, id % 7) AS INT) AS k, "
        f"IF(id % 5 = 0, '{HIDDEN_S}', IF(id % 11 = 0, NULL, concat('s', id % 4))) AS s, "
        "CAST(IF(id % 13 = 0, NULL, id % 50 / 4) AS DECIMAL(10,2)) AS amount, "
        "IF(id % 8 = 0, NULL, id % 3 = 0) AS ok, "
        f"date_add(DATE'2024-01-01', CAST(id % {DAYS} AS INT)) AS day FROM range({ROWS})",
        f"CREATE TABLE {DATABASE}.dim USING parquet AS SELECT CAST(IF(id = 6, NULL, id) AS INT) AS k, "
        "IF(id = 3, 'gone', concat('n', id % 3)) AS name, "
        "timestamp_seconds(1704067200 + id * 86400) AS at FROM range(9)",
        f"CREATE TABLE {DATABASE}.plain USING parquet AS SELECT CAST(id % 8 AS INT) AS k, "
        "CAST(id AS INT) AS v FROM range(20)",
        f"CREATE TABLE {DATABASE}.days USING parquet AS SELECT "
        f"date_add(DATE'2024-01-01', CAST(id AS INT)) AS day, CAST(id AS INT) AS number FROM range({DAYS})",
        *(
            f"CREATE TABLE {DATABASE}.{table}_copy USING parquet AS SELECT * FROM {DATABASE}.{table} "
            f"WHERE {FILTERS[table]}"
            for table in ("fact", "dim")
        ),
    ]


BARRED = Rules(barriers="always")
BLIND = Rules(barriers="always", push_down=False)


async def forwarded(world: World, reader: ReaderPool, text: str, rules: Rules = BARRED) -> str:
    verdict = await world.judge(text, reader, user="bob", use=DATABASE, rules=rules)
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


def rows(cursor: Any, text: str) -> list[str]:
    """Return rows in the order of their text. Spark may fail at either call."""
    cursor.execute(text)
    return sorted(map(repr, cursor.fetchall()))


def answer(cursor: Any, text: str) -> Any:
    """Return rows, or the condition of the error."""
    try:
        return rows(cursor, text)
    except OperationalError as error:
        return re.findall(r"\[([A-Z_.]+)\]", str(error))[0]


def plan_of(cursor: Any, text: str) -> str:
    cursor.execute(f"EXPLAIN FORMATTED {text}")
    return "\n".join(row[0] for row in cursor.fetchall())


_FAILING = "1 / (CASE WHEN {}s = 'tells' THEN 0 ELSE 1 END)"
_ORACLES = [
    "SELECT {x}, k, id FROM {fact} WHERE k = id AND day > '2024-01-01'",
    "SELECT s, {x} FROM {fact} WHERE s = 'tells'",
    "SELECT * FROM (SELECT {x} AS x, k, id FROM {fact}) WHERE k = id",
    "SELECT {x} AS x, sum(id) FROM {fact} WHERE day = '2024-01-03' GROUP BY {x}",
    "SELECT k, id, sum({x}) FROM {fact} GROUP BY k, id HAVING k = id",
    "SELECT k, id, {x} AS x, count(*) FROM {fact} GROUP BY k, id, s HAVING k = id",
    "SELECT k, id, count(*) FROM {fact} GROUP BY k, id, s HAVING k = id ORDER BY {x}",
    "SELECT DISTINCT {x} AS x, k FROM {fact} WHERE k <=> 2 ORDER BY x",
    "SELECT f.id, {fx} FROM {fact} f JOIN {dim} d ON f.k = d.k WHERE d.k = 2 ORDER BY {fx}, f.id",
    "SELECT count(CASE WHEN {x} > 0 THEN 1 END), max({x}) FROM {fact} LEFT JOIN {dim} USING (k)",
    "SELECT id, {x} AS x FROM {fact} WHERE ok UNION ALL SELECT k, 1 FROM {dim}",
    "SELECT id, {x} AS x FROM {fact} WHERE ok EXCEPT SELECT k, 1 FROM {dim}",
    "SELECT rank() OVER (PARTITION BY k, id ORDER BY {x}) AS r, id FROM {fact} WHERE k = id",
    "SELECT * FROM (SELECT k, id, max({x}) OVER (PARTITION BY k, id) AS x FROM {fact}) WHERE k = id",
    "SELECT {x}, id FROM {fact} WHERE k IN (SELECT k FROM {dim} WHERE name = 'n1')",
    "SELECT (SELECT max({x}) FROM {fact} f WHERE f.k = p.k) FROM plain p WHERE p.k = p.v",
    "SELECT {x}, day FROM {fact} WHERE day IN (SELECT day FROM days WHERE number = 3) LIMIT 1000",
    "WITH c AS (SELECT *, {x} AS x FROM {fact}) SELECT a.x FROM c a JOIN c b ON a.k = b.id AND a.id = b.id",
    # A sum for each value of `f.s`, which has no room for one that hidden rows have.
    "SELECT id FROM {fact} f WHERE f.id < (SELECT sum(b) FROM "
    "(SELECT 't' AS t, 9223372036854775807 AS b FROM plain) p WHERE p.t < f.s)",
]

ORACLES = [one.replace("{x}", _FAILING.format("")).replace("{fx}", _FAILING.format("f.")) for one in _ORACLES]
"""Each fails on every hidden row of `{fact}` and on no other, where a statement shows, sorts and groups."""
