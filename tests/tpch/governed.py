"""The physically governed copy: what policies/governed.yaml makes of the data, by hand on plain Spark.

Filters read raw values and masks keep the column's type. A query over the copy must give what the same query
over the real tables gives to somebody whom the pack governs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName
from gateway.model.principal import Principal
from tests.tpch.schema import TABLES

POLICIES = Path(__file__).parent / "policies"
UNGOVERNED = Principal(user="ada", groups=frozenset({"tpch_all"}))
GOVERNED = Principal(user="grace", groups=frozenset({"tpch_some"}))

MASKS: dict[str, str] = {
    "c_name": "sha2(c_name, 256)",
    "c_phone": "concat(left(c_phone, 4), regexp_replace(substr(c_phone, 5), '[0-9]', 'x'))",
    "c_acctbal": "c_acctbal - c_acctbal % 100",
    "c_address": "NULL",
    "c_comment": "mask(c_comment)",
    "o_clerk": "NULL",
    "o_comment": "mask(o_comment)",
    "o_totalprice": "round(o_totalprice, -3)",
    "l_commitdate": "trunc(l_commitdate, 'YEAR')",
    "l_extendedprice": "l_extendedprice - l_extendedprice % 10",
    "l_comment": "mask(l_comment)",
}
FILTERS: dict[str, str] = {
    "customer": "c_nationkey <> 7 OR c_name LIKE '%5'",
    "orders": "o_orderpriority <> '5-LOW' AND o_clerk IS NOT NULL",
    "lineitem": "l_shipmode <> 'RAIL' AND l_extendedprice % 10 < 9",
}


def copy_statements(source: str, copy: str) -> Iterator[str]:
    """Yield the SQL that builds the database `copy` from the database `source`."""
    yield f"CREATE DATABASE {copy}"
    for table, columns in TABLES.items():
        shown = ", ".join(
            f"CAST({MASKS.get(name, name)} AS {type_}) AS {name}" for name, type_ in columns.items()
        )
        yield (
            f"CREATE TABLE {copy}.{table} USING parquet AS "
            f"SELECT {shown} FROM {source}.{table} WHERE {FILTERS.get(table, 'TRUE')}"
        )


def catalog(database: str = "tpch") -> CatalogSnapshot:
    """Return the tables as the gateway's catalog would know them."""
    tables = (
        Table(
            name=TableName("spark_catalog", database, name),
            kind=TableKind.TABLE,
            columns=tuple(Column(name=column, type=type_) for column, type_ in columns.items()),
        )
        for name, columns in TABLES.items()
    )
    return CatalogSnapshot(
        version=1, catalogs=frozenset({"spark_catalog"}), tables={t.name.fold(): t for t in tables}
    )
