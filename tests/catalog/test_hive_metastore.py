"""Hive's metastore, a real one out of pyspark's jars, as the contract of catalogs has it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.backends.embedded_spark import free_port
from gateway.catalog import hive_structs as hive
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.readable import (
    CatalogRefused,
    CatalogUnavailable,
    DatabaseNotEmpty,
    NoSuchDatabase,
    NoSuchTable,
)
from gateway.errors import Faults
from gateway.model.catalog import Column, TableKind
from tests.catalog.contract import holds, raises
from tests.catalog.hive_server import hive_metastore, make_table

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
    made = hive.Database(name="sales", description="c", locationUri=f"file:{place}/sales", parameters={})
    await catalog._tell("create_database", hive.DatabaseArguments(database=made))
    ident = Column(name="id", type="bigint")
    tags = Column(name="tags", type="array<struct<a:int,b:decimal(10,2)>>", comment="all")
    day = Column(name="day", type="date")
    await make_table(catalog, "sales", "orders", ident, tags, keys=[day], location=f"file:{place}/orders")
    of_spark = {
        "spark.sql.sources.provider": "parquet",
        "spark.sql.sources.schema": SPARK_SCHEMA,
        "spark.sql.statistics.numRows": "7",
    }
    column = Column(name="col", type="array<string>")
    await make_table(catalog, "sales", "items", column, location=f"file:{place}/items", properties=of_spark)
    await make_table(catalog, "sales", "recent", ident, view="SELECT 1 AS id")
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


async def test_databases_are_made_and_dropped_in_a_metastore(metastore: int) -> None:
    # The first address is nobody's here as well.
    uris = f"thrift://127.0.0.1:{free_port()},thrift://127.0.0.1:{metastore}"
    async with HiveMetastoreCatalog(uris) as catalog:
        await holds(catalog, "written")
        await raises(DatabaseNotEmpty, catalog.drop_database("sales"))
        with pytest.raises(CatalogRefused):
            await catalog.create_database("no such name/")


async def test_a_change_that_got_no_answer_is_not_told_again() -> None:
    asked: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        catalog = HiveMetastoreCatalog(f"thrift://127.0.0.1:{port},thrift://127.0.0.1:{port}")
        with pytest.raises(CatalogUnavailable, match="may or may not have been made"):
            await catalog.create_database("d")
    assert len(asked) == 1


async def test_no_metastore_is_told() -> None:
    with pytest.raises(CatalogUnavailable, match="no Hive metastore answers"):
        async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{free_port()}"):
            pass
    for wrong in ("host:9083", "http://host:9083", "thrift://host", "thrift://host:x", ""):
        with pytest.raises(Faults):
            HiveMetastoreCatalog(wrong)
