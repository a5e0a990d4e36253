"""The tables that scenarios speak of, the pack that governs them, and the same governed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

DATABASE = "cw"
COPY = "cw_governed"
"""The pack applied to the data themselves: what a direct connection compares with."""
SCRATCH = "cws_"
"""Databases with this prefix are for scenarios that write; every run has its own."""
ALLOWED = "alma"
"""May do everything."""
GOVERNED = "gina"
"""Sees `cw` through the masks, filters and hidden columns of pack.yaml."""
ATTACKER = "mallory"
"""May read what gina may, and is after the canaries."""
OTHER = "oscar"
"""Somebody else, whose sessions and operations are not mallory's business."""
PASSWORD = "correct horse battery"
CANARY = "CANARY"
"""In every value that neither gina nor mallory may see."""
PACK = Path(__file__).with_name("pack.yaml")

PEOPLE = {
    "id": "int",
    "name": "string",
    "email": "string",
    "region": "string",
    "dept_id": "int",
    "salary": "int",
    "pay": "decimal(10,2)",
    "born": "date",
    "hired": "timestamp",
    "home": "struct<street:string,city:string,zip:int>",
    "tags": "array<string>",
    "props": "map<string,int>",
    "active": "boolean",
    "score": "double",
}
PEOPLE_HIDDEN = {"ssn": "string", "note": "string"}

_NAMES = (
    "Ann Bell",
    "Bo",
    "Chen Wei",
    "Dara O",
    "Elif",
    "Fritz Lang",
    "Gia",
    "Ann Bell",
    None,
    "Hugo",
    "Iris",
)
_REGIONS = ("EMEA", "AMER", "APAC", "EMEA", "EMEA", "APAC")
_ROWS = 24


def _person(i: int) -> str:
    region = _REGIONS[i % 6]
    name = f"{CANARY}-{i}" if region == "AMER" else _NAMES[i % len(_NAMES)]
    values = [
        str(i),
        "NULL" if name is None else f"'{name}'",
        f"'{CANARY}-{i}@x.org'" if i % 7 else "NULL",
        f"'{region}'",
        "NULL" if i % 8 == 5 else str(1 + i % 4),
        str(2000 + i * 137),
        f"{900 + i * 37}.{i % 10}5",
        f"DATE'{1960 + i}-0{1 + i % 9}-1{i % 9}'",
        f"TIMESTAMP'20{10 + i % 10}-03-0{1 + i % 9} 04:05:06'",
        "NULL"
        if i % 9 == 4
        else f"named_struct('street', '{CANARY} St {i}', 'city', 'C{i % 3}', 'zip', {1000 + i})",
        "NULL" if i % 10 == 6 else f"array('t{i % 3}', '{CANARY}-t{i}')",
        f"map('k', {i}, 'm', {i * i})",
        "true" if i % 3 else "false",
        f"{i}.{i % 10}25D" if i % 6 else "NULL",
        f"'{CANARY}-ssn-{70 + i % 2 * 9}-{i}'",
        f"'{CANARY}-note'",
    ]
    return "(" + ", ".join(values) + ")"


def _order(i: int) -> str:
    person = i * 7 % 27
    item = _ITEMS[i % 6] if person < _ROWS and person % 3 else f"{CANARY}-item"
    amount, day = f"{i * 53 % 600}.{i % 4 * 25:02}", f"202{i % 4}-1{i % 3}-0{1 + i % 9}"
    return f"({i}, {person}, '{item}', {amount}, {1 + i % 5}, DATE'{day}')"


def _values(table: str, columns: dict[str, str], rows: list[str], extra: str = "") -> str:
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns.items())
    return (
        f"CREATE TABLE {table} USING parquet {extra} AS SELECT /*+ COALESCE(1) */ {casts} "
        f"FROM VALUES {', '.join(rows)} AS t({', '.join(columns)})"
    )


ORDERS = {
    "id": "int",
    "person_id": "int",
    "item": "string",
    "amount": "decimal(12,2)",
    "qty": "int",
    "at": "date",
}
DEPT = {"id": "int", "title": "string", "parent": "int"}
DEPT_HIDDEN = {"budget": "bigint"}
EVENTS = {"seq": "bigint", "kind": "string", "value": "double", "at": "timestamp"}
PARTS = {"v": "int", "p": "string"}
_ITEMS = ("pen", "ink", "desk", "lamp", "oak", "pen 2")

TABLES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "people": (PEOPLE, PEOPLE_HIDDEN),
    "orders": (ORDERS, {}),
    "dept": (DEPT, DEPT_HIDDEN),
    "events": (EVENTS, {}),
    "parts": (PARTS, {}),
}
"""Of each table its columns, and those that the pack hides."""

MASKS: dict[str, dict[str, str]] = {
    "people": {
        "name": "concat(left(name, 4), regexp_replace(substr(name, 5), '[A-Za-z0-9]', 'x'))",
        "email": "sha2(email, 256)",
        "salary": "salary - salary % 1000",
        "pay": "NULL",
        "born": "trunc(born, 'YEAR')",
        "hired": "date_trunc('YEAR', hired)",
        "home": "CASE WHEN home IS NOT NULL THEN "
        "named_struct('street', 'hidden', 'city', home.city, 'zip', 0) END",
        "tags": "slice(tags, 1, 1)",
        "props": "NULL",
        "score": "round(score)",
    },
    "orders": {"amount": "amount - amount % 10", "at": "trunc(at, 'YEAR')"},
    "dept": {},
    "events": {},
    "parts": {},
}
FILTERS = {
    "people": "region <> 'AMER' AND (ssn LIKE '%-79-%' OR id < 12)",
    "orders": "person_id IN (SELECT id FROM {database}.people WHERE active)",
    "events": "value >= 0",
}
VIEW = "CREATE VIEW {database}.people_view AS SELECT id, name, email, region, salary FROM {database}.people"


def statements() -> Iterator[str]:
    """Yield the SQL that builds the database."""
    yield f"CREATE DATABASE {DATABASE}"
    yield _values(f"{DATABASE}.people", {**PEOPLE, **PEOPLE_HIDDEN}, [_person(i) for i in range(_ROWS)])
    yield _values(f"{DATABASE}.orders", ORDERS, [_order(i) for i in range(40)])
    dept = [
        f"({i}, '{title}', {(i - 1) or 'NULL'}, {7_000_000_000 + i})"
        for i, title in enumerate(("Board", "Ops", "Labs", "Sales", "Void"), 1)
    ]
    yield _values(f"{DATABASE}.dept", {**DEPT, **DEPT_HIDDEN}, dept)
    kinds = [f"{CANARY}-kind" if i < 3 else "abc"[i % 3] for i in range(30)]
    events = [f"({i}, '{kinds[i]}', {i - 3}, TIMESTAMP'2024-01-01 00:{i:02}:00')" for i in range(30)]
    yield _values(f"{DATABASE}.events", EVENTS, events)
    parts = [f"({i}, '{'xyz'[i % 3]}')" for i in range(9)]
    yield _values(f"{DATABASE}.parts", PARTS, parts, "PARTITIONED BY (p)")
    yield f"CREATE TABLE {DATABASE}.vault USING parquet AS SELECT '{CANARY}-vault' AS code, 1 AS id"
    yield VIEW.format(database=DATABASE)
    yield f"CREATE VIEW {DATABASE}.vault_view AS SELECT code FROM {DATABASE}.vault"


def copy_statements() -> Iterator[str]:
    """Yield the SQL that builds the governed copy."""
    yield f"CREATE DATABASE {COPY}"
    for table, (columns, _) in TABLES.items():
        masks = MASKS[table]
        shown = ", ".join(
            f"CAST({masks.get(name, name)} AS {kind}) AS {name}" for name, kind in columns.items()
        )
        where = FILTERS.get(table, "TRUE").format(database=DATABASE)
        partitions = "PARTITIONED BY (p)" if table == "parts" else ""
        yield (
            f"CREATE TABLE {COPY}.{table} USING parquet {partitions} AS "
            f"SELECT /*+ COALESCE(1) */ {shown} FROM {DATABASE}.{table} WHERE {where}"
        )
    yield VIEW.format(database=COPY)
