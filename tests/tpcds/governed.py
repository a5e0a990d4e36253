"""The physically governed copy: what policies/governed.yaml makes of the data, by hand on plain Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.model.principal import Principal
from tests.tpcds.schema import TABLES

POLICIES = Path(__file__).parent / "policies"
GOVERNED = Principal(user="greta", groups=frozenset({"tpcds_some"}))

MASKS: dict[str, str] = {
    "c_last_name": "sha2(c_last_name, 256)",
    "c_email_address": "NULL",
    "c_customer_id": "concat(left(c_customer_id, 4), regexp_replace(substr(c_customer_id, 5), '[0-9]', 'x'))",
    "ca_zip": "concat(left(ca_zip, 2), '000')",
    "i_current_price": "i_current_price - i_current_price % 10",
    "i_manufact": "mask(i_manufact)",
    "ss_net_profit": "NULL",
    "ss_ext_sales_price": "round(ss_ext_sales_price, -2)",
    "cs_coupon_amt": "CAST(0 AS decimal(7,2))",
    "d_date": "trunc(d_date, 'YEAR')",
}
FILTERS: dict[str, str] = {
    "store_sales": "ss_store_sk <> 3 AND ss_quantity > 4",
    "catalog_sales": "cs_sales_price < 550",
    "customer": "c_preferred_cust_flag = 'Y' OR c_last_name <> 'Falk'",
    "item": "i_category_id <> 4",
    "customer_address": "ca_state IS NOT NULL AND ca_state <> 'WA'",
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
