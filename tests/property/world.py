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
    },
    "purchase": {
        "id": "int",
        "person_id": "int",
        "item": "string",
        "amount": "decimal(10,2)",
        "bought": "date",
    },
    "item": {"item": "string", "kind": "string", "price": "int", "since": "date"},
}

PRINCIPAL = Principal(user="quinn", groups=frozenset({"testers"}))

PACK = """
service: spark
policies:
  - name: testers read the shop
    on:
      - {catalog: spark_catalog, database: shop}
      - {catalog: spark_catalog, database: shop, table: "*", column: "*"}
    allow: [{groups: [testers], access: [use, show, select]}]
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
  - name: some cities
    on: {catalog: spark_catalog, database: shop, table: person}
    filter: [{groups: [testers], where: "city <> 'Oslo' OR age > 50"}]
  - name: small amounts
    on: {catalog: spark_catalog, database: shop, table: purchase}
    filter:
      - groups: [testers]
        where: "amount < 400 AND item IN (SELECT item FROM spark_catalog.shop.item)"
"""

MASKS: dict[str, str] = {
    "name": "concat(left(name, 4), regexp_replace(substr(name, 5), '[A-Za-z0-9]', 'x'))",
    "pay": "CASE WHEN pay > 3000 THEN 9999 ELSE pay END",
    "age": "age - age % 10",
    "joined": "trunc(joined, 'YEAR')",
    "bought": "trunc(bought, 'YEAR')",
}
FILTERS: dict[str, str] = {
    "person": "city <> 'Oslo' OR age > 50",
    "purchase": "amount < 400 AND item IN (SELECT item FROM {database}.item)",
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
    }
    for table, columns in TABLES.items():
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
        masks = MASKS if table != "item" else {}
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
        for name, columns in TABLES.items()
    )
    return CatalogSnapshot(
        version=1, catalogs=frozenset({"spark_catalog"}), tables={t.name.folded(): t for t in tables}
    )


def _literal(value: object) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"
