"""The small world that generated queries speak of: three tables, a pack, and the same governed by hand."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName
from gateway.model.principal import Principal

DATABASE = "shop"

TABLES: dict[str, dict[str, str]] = {
    "person": {
        "id": "int",
        "name": "string",
        "city": "string",
        "age": "int",
        "pay": "decimal(10,2)",
        "joined": "date",
        "tags": "array<string>",
        "home": "struct<street:string,zip:int>",
    },
    "purchase": {
        "id": "int",
        "person_id": "int",
        "item": "string",
        "amount": "decimal(10,2)",
        "bought": "date",
    },
    "item": {"item": "string", "kind": "string", "price": "int", "since": "date"},
    "staff": {"id": "int", "name": "string", "level": "int", "hired": "date"},
}

HIDDEN: dict[str, dict[str, str]] = {"staff": {"badge": "string"}}
"""Columns of these tables that the governed principal may not read; they stand behind the others."""

COLUMN_NAMES = tuple(sorted({name for columns in TABLES.values() for name in columns}))

PRINCIPAL = Principal(user="quinn", groups=frozenset({"testers"}))

PACK = """
service: spark
policies:
  - name: testers read the shop
    on:
      - {catalog: spark_catalog, database: shop}
      - {catalog: spark_catalog, database: shop, table: "*", column: "*"}
    allow: [{groups: [testers], access: [use, show, select]}]
  - name: badges are nobody's business
    on: {catalog: spark_catalog, database: shop, table: staff, column: badge}
    deny: [{groups: [testers], access: [select]}]
  - name: names
    on: {catalog: spark_catalog, database: shop, table: person, column: name}
    mask: [{groups: [testers], type: MASK_SHOW_FIRST_4}]
  - name: pay
    on: {catalog: spark_catalog, database: shop, table: person, column: pay}
    mask: [{groups: [testers], type: CUSTOM, show: "CASE WHEN {col} > 3000 THEN 9999 ELSE {col} END"}]
  - name: ages
    on: {catalog: spark_catalog, database: shop, table: person, column: age}
    mask: [{groups: [testers], type: CUSTOM, show: "{col} - {col} % 10"}]
  - name: days
    on: {catalog: spark_catalog, database: shop, table: [person, purchase], column: [joined, bought]}
    mask: [{groups: [testers], type: MASK_DATE_SHOW_YEAR}]
  - name: one tag
    on: {catalog: spark_catalog, database: shop, table: person, column: tags}
    mask: [{groups: [testers], type: CUSTOM, show: "slice({col}, 1, 1)"}]
  - name: no numbers of homes
    on: {catalog: spark_catalog, database: shop, table: person, column: home}
    mask: [{groups: [testers], type: CUSTOM, show: "named_struct('street', {col}.street, 'zip', 0)"}]
  - name: names of the staff
    on: {catalog: spark_catalog, database: shop, table: staff, column: name}
    mask: [{groups: [testers], type: MASK_NULL}]
  - name: staff with a badge
    on: {catalog: spark_catalog, database: shop, table: staff}
    filter: [{groups: [testers], where: "badge LIKE 'B%'"}]
  - name: some cities
    on: {catalog: spark_catalog, database: shop, table: person}
    filter: [{groups: [testers], where: "city <> 'Oslo' OR age > 50"}]
  - name: small amounts
    on: {catalog: spark_catalog, database: shop, table: purchase}
    filter:
      - groups: [testers]
        where: "amount < 400 AND item IN (SELECT item FROM spark_catalog.shop.item)"
"""

MASKS: dict[str, dict[str, str]] = {
    "person": {
        "name": "concat(left(name, 4), regexp_replace(substr(name, 5), '[A-Za-z0-9]', 'x'))",
        "pay": "CASE WHEN pay > 3000 THEN 9999 ELSE pay END",
        "age": "age - age % 10",
        "joined": "trunc(joined, 'YEAR')",
        "tags": "slice(tags, 1, 1)",
        "home": "named_struct('street', home.street, 'zip', 0)",
    },
    "purchase": {"bought": "trunc(bought, 'YEAR')"},
    "staff": {"name": "NULL"},
}
FILTERS: dict[str, str] = {
    "person": "city <> 'Oslo' OR age > 50",
    "purchase": "amount < 400 AND item IN (SELECT item FROM {database}.item)",
    "staff": "badge LIKE 'B%'",
}

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
    "Jo",
)
_CITIES = ("Oslo", "Rome", "Lima", None, "Oslo", "Kyiv")
_ITEMS = ("pen", "ink", "desk", "lamp", "oak", "pen 2", None, "ink")


def whole_tables() -> dict[str, dict[str, str]]:
    """Return the tables with the columns that are hidden from the governed principal."""
    return {table: {**columns, **HIDDEN.get(table, {})} for table, columns in TABLES.items()}


def statements(database: str = DATABASE) -> Iterator[str]:
    """Yield the SQL that builds the database with its rows: NULLs and duplicates among them."""
    yield f"CREATE DATABASE {database}"
    rows: dict[str, list[tuple[object, ...]]] = {
        "person": [
            (
                i,
                _NAMES[i % 12],
                _CITIES[i * 5 % 6],
                18 + i * 7 % 50,
                f"{900 + i * 371}.{i % 2 * 5}0",
                f"20{10 + i % 4}-0{1 + i % 9}-11",
                None if i % 7 == 6 else list(_ITEMS[i % 3 : i % 3 + i % 4]),
                None if i % 5 == 4 else {"street": ("Elm", "Oak")[i % 2], "zip": i * 111},
            )
            for i in range(14)
        ],
        "purchase": [
            (
                i,
                i * 3 % 17,
                _ITEMS[i % 8],
                f"{i * 53 % 600}.{i % 3 * 25:02}",
                f"202{i % 3}-1{i % 3}-0{1 + i % 8}",
            )
            for i in range(26)
        ],
        "item": [
            (_ITEMS[i], ("office", "home", None)[i % 3], 10 * (i % 4), f"201{i}-01-0{1 + i}")
            for i in range(6)
        ],
        "staff": [(i, _NAMES[11 - i], i % 3, f"201{i}-06-0{1 + i}", f"{'ABB'[i % 3]}-{i}") for i in range(9)],
    }
    for table, columns in whole_tables().items():
        names = ", ".join(columns)
        casts = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in columns.items())
        values = ", ".join("(" + ", ".join(_literal(value) for value in row) + ")" for row in rows[table])
        yield (
            f"CREATE TABLE {database}.{table} USING parquet AS "
            f"SELECT {casts} FROM VALUES {values} AS t({names})"
        )


def copy_statements(source: str = DATABASE, copy: str = "shop_governed") -> Iterator[str]:
    """Yield the SQL that builds a database in which the pack was applied to the data themselves."""
    yield f"CREATE DATABASE {copy}"
    for table, columns in TABLES.items():
        masks = MASKS.get(table, {})
        shown = ", ".join(
            f"CAST({masks.get(name, name)} AS {type_}) AS {name}" for name, type_ in columns.items()
        )
        where = FILTERS.get(table, "TRUE").format(database=source)
        yield (
            f"CREATE TABLE {copy}.{table} USING parquet AS SELECT {shown} FROM {source}.{table} WHERE {where}"
        )


def catalog() -> CatalogSnapshot:
    """Return the tables as the gateway's catalog would know them."""
    tables = (
        Table(
            name=TableName("spark_catalog", DATABASE, name),
            kind=TableKind.TABLE,
            columns=tuple(Column(name=column, type=type_) for column, type_ in columns.items()),
        )
        for name, columns in whole_tables().items()
    )
    return CatalogSnapshot(
        version=1, catalogs=frozenset({"spark_catalog"}), tables={t.name.fold(): t for t in tables}
    )


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case list():
            return f"CAST(array({', '.join(map(_literal, value))}) AS ARRAY<STRING>)"
        case dict():
            fields = [f"'{key}', {_literal(item)}" for key, item in value.items()]
            return f"named_struct({', '.join(fields)})"
    return f"'{value}'"
