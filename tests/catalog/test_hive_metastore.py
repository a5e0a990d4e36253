"""Hive's metastore, a real one out of pyspark's jars, as the contract of catalogs has it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.backends.embedded_spark import free_port
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.readable import (
    CatalogRefused,
    CatalogUnavailable,
    DatabaseEntry,
    NoSuchDatabase,
    NoSuchTable,
    NotSupported,
    TableEntry,
)
from gateway.errors import Faults
from gateway.model.catalog import Column, TableKind
from tests.catalog.contract import Ability, holds
from tests.catalog.hive_server import hive_metastore

SPARK_SCHEMA = '{"type":"struct","fields":[{"name":"Id","type":"long","nullable":true,"metadata":{}}]}'


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    place = tmp_path_factory.mktemp("metastore")
    with hive_metastore(place) as port:
        asyncio.run(fill(port, place))
        yield port


async def fill(port: int, place: Path) -> None:
    """Write a database, a table of Hive's, one of Spark's and a view."""
    catalog = HiveMetastoreCatalog(f"thrift://127.0.0.1:{port}")

    async def table(name: str, *columns: Column, **more: Any) -> None:
        place_of = {} if "kind" in more else {"location": f"file:{place}/{name}", "provider": "textfile"}
        await catalog.create_table(
            TableEntry(database="sales", name=name, columns=columns, owner="olga", **{**place_of, **more})
        )

    await catalog.create_database(DatabaseEntry(name="sales", comment="c", location=f"file:{place}/sales"))
    tags = Column(name="tags", type="array<struct<a:int,b:decimal(10,2)>>", comment="all")
    day = Column(name="day", type="date")
    await table("orders", Column(name="id", type="bigint"), tags, day, partitioning=("day",))
    of_spark = {
        "spark.sql.sources.provider": "parquet",
        "spark.sql.sources.schema": SPARK_SCHEMA,
        "spark.sql.statistics.numRows": "7",
    }
    await table("items", Column(name="col", type="array<string>"), properties=of_spark)
    await table("recent", Column(name="id", type="bigint"), kind=TableKind.VIEW, text="SELECT 1 AS id")
    await catalog.__aexit__(None, None, None)


async def test_a_metastore_answers_as_every_catalog_does(metastore: int) -> None:
    # The first address is nobody's: the next one is asked.
    uris = f"thrift://127.0.0.1:{free_port()}, thrift://127.0.0.1:{metastore}"
    async with HiveMetastoreCatalog(uris) as catalog:
        assert list(await catalog.databases()) == ["default", "sales"]
        assert (await catalog.database("sales")).comment == "c"
        assert list(await catalog.tables("sales")) == ["items", "orders"]
        assert list(await catalog.views("sales")) == ["recent"]
        assert list(await catalog.functions("sales")) == []
        orders = await catalog.table("sales", "orders")
        assert (orders.kind, orders.owner, orders.partitioning) == (TableKind.TABLE, "olga", ("day",))
        assert orders.columns == (
            Column(name="id", type="bigint"),
            Column(name="tags", type="array<struct<a:int,b:decimal(10,2)>>", comment="all"),
            Column(name="day", type="date"),
        )
        items = await catalog.table("sales", "items")
        assert (items.columns, items.provider, items.rows) == (
            (Column(name="Id", type="bigint"),),
            "parquet",
            7,
        )
        assert (await catalog.table("sales", "recent")).text == "SELECT 1 AS id"
        with pytest.raises(NoSuchTable):
            await catalog.table("sales", "nothing")
        for question in (catalog.database, catalog.tables, catalog.views, catalog.functions):
            with pytest.raises(NoSuchDatabase):
                await question("nowhere")


async def test_a_metastore_is_written_to_as_every_catalog_is(metastore: int) -> None:
    # The first address is nobody's here as well.
    uris = f"thrift://127.0.0.1:{free_port()},thrift://127.0.0.1:{metastore}"
    async with HiveMetastoreCatalog(uris) as catalog:
        await holds(catalog, "written", Ability())


async def test_what_a_metastore_keeps_of_a_table_is_told_back_whole(metastore: int) -> None:
    async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{metastore}") as catalog:
        before = await catalog._whole_table("sales", "orders", ignored=False)
        await catalog.alter_table("sales", "orders", {"a": "1"})
        after = await catalog._whole_table("sales", "orders", ignored=False)
        assert before is not None
        assert after is not None
        times = ("transient_lastDdlTime", "last_modified_time", "last_modified_by", "a")
        for record in (before, after):
            record.set_texts(9, {key: one for key, one in record.texts(9).items() if key not in times})
        assert before == after
        assert len(before.fields) > len(("tableName", "dbName", "owner", "sd", "partitionKeys", "parameters"))


async def test_what_a_metastore_cannot_be_told_safely_is_not(metastore: int) -> None:
    async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{metastore}") as catalog:
        iceberg = TableEntry(
            database="sales",
            name="ice",
            columns=(Column(name="id", type="bigint"),),
            properties={"metadata_location": "s3://l/1.json", "table_type": "ICEBERG"},
        )
        await catalog.create_table(iceberg)
        for change in (
            catalog.alter_table("sales", "ice", {"a": "1"}),
            catalog.rename_table("sales", "ice", "i"),
        ):
            with pytest.raises(NotSupported, match="commit"):
                await change
        await catalog.drop_table("sales", "ice")
        for odd in (
            {"columns": (Column(name="c", type="timestamp_ntz"),)},
            {"columns": (Column(name="c", type="struct<`a b`:int>"),)},
            {"provider": "delta"},
            {"partitioning": ("bucket(4, id)",)},
        ):
            with pytest.raises(NotSupported):
                await catalog.create_table(replace(iceberg, **odd))
        with pytest.raises(CatalogRefused):
            await catalog.create_table(replace(iceberg, name="no such name/"))


async def test_a_change_that_got_no_answer_is_not_told_again() -> None:
    asked: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        catalog = HiveMetastoreCatalog(f"thrift://127.0.0.1:{port},thrift://127.0.0.1:{port}")
        with pytest.raises(CatalogUnavailable, match="may or may not have been made"):
            await catalog.create_database(DatabaseEntry(name="d"))
    assert len(asked) == 1


async def test_no_metastore_is_told() -> None:
    with pytest.raises(CatalogUnavailable, match="no Hive metastore answers"):
        async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{free_port()}"):
            pass
    for wrong in ("host:9083", "http://host:9083", "thrift://host", "thrift://host:x", ""):
        with pytest.raises(Faults):
            HiveMetastoreCatalog(wrong)
