"""What Hudi keeps again of a row's key is masked where a column of the row is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.catalog.describe import table_from_json
from gateway.model.catalog import TableName
from gateway.model.statement import Cleared
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.judge_world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLUMNS = {
    "_hoodie_commit_time": "string",
    "_hoodie_record_key": "string",
    "_hoodie_partition_path": "string",
    "email": "string",
    "region": "string",
}
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {f"spark_catalog.shop.{name}": COLUMNS for name in ("masked", "hidden", "filtered", "free")},
    "views": {},
    "people": {"ann": {"groups": ["staff"]}},
    "pack": """
service: spark
policies:
  - name: staff
    on: {catalog: spark_catalog, database: shop, table: "*", column: "*"}
    allow: [{groups: [staff], access: [all]}]
  - name: keys
    on: {catalog: spark_catalog, database: shop, table: masked, column: email}
    mask: [{groups: [staff], type: MASK_HASH}]
  - name: not for staff
    on: {catalog: spark_catalog, database: shop, table: hidden, column: email}
    deny: [{groups: [staff], access: [select]}]
  - name: rows
    on: {catalog: spark_catalog, database: shop, table: filtered}
    filter: [{groups: [staff], where: "region = 'EMEA'"}]
""",
}


SHOWN = Rules(star="visible")


def world(provider: str) -> World:
    made = World(DATA)
    made.tables = {name: replace(one, provider=provider) for name, one in made.tables.items()}
    return made


@pytest.mark.parametrize("column", ["_hoodie_record_key", "_hoodie_partition_path"])
async def test_keys_are_null_where_a_column_is_masked_or_hidden(reader: ReaderPool, column: str) -> None:
    for name, masks in (("masked", True), ("hidden", True), ("filtered", False), ("free", False)):
        text = f"SELECT {column} FROM {name} WHERE {column} LIKE 'a%'"
        # Tables that Hudi has put into a Hive catalog are Hive's there.
        for provider in ("hudi", "org.apache.hudi", "hive"):
            verdict = await world(provider).judge(text, reader, user="ann", use="shop")
            assert isinstance(verdict, Cleared), verdict
            assert (f"CAST(NULL AS STRING) AS `{column}`" in verdict.forwarded) is masks


async def test_a_column_that_is_hidden_itself_stays_so(reader: ReaderPool) -> None:
    data = {
        **DATA,
        "pack": DATA["pack"].replace("hidden, column: email", "hidden, column: [email, _hoodie_record_key]"),
    }
    made = World(data)
    made.tables = {name: replace(one, provider="hudi") for name, one in made.tables.items()}
    verdict = await made.judge("SELECT * FROM hidden", reader, user="ann", use="shop", rules=SHOWN)
    assert isinstance(verdict, Cleared)
    assert "_hoodie_record_key" not in verdict.forwarded
    assert "CAST(NULL AS STRING) AS `_hoodie_partition_path`" in verdict.forwarded


async def test_a_row_that_is_added_may_take_the_place_of_a_hidden_one() -> None:
    name = TableName("spark_catalog", "shop", "filtered")
    for provider, replaces in (("hudi", True), ("org.apache.hudi", True), ("parquet", False)):
        told = {
            "table_name": name.table,
            "catalog_name": name.catalog,
            "namespace": [name.database],
            "schema_name": name.database,
            "columns": [{"name": "id", "type": {"name": "int"}, "nullable": True}],
            "type": "MANAGED",
            "provider": provider,
        }
        assert table_from_json(json.dumps(told), name).replaces_rows is replaces
