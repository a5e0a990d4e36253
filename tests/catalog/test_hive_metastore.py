"""Hive's metastore, a real one out of pyspark's jars, as the contract of catalogs has it."""

import asyncio
import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from gateway.catalog import hive_structs as hive
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.readable import CatalogUnavailable, NoSuchDatabase, NoSuchTable
from gateway.errors import Faults
from gateway.model.catalog import Column, TableKind
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from gateway.wire.thrift import Struct

SPARK_SCHEMA = '{"type":"struct","fields":[{"name":"Id","type":"long","nullable":true,"metadata":{}}]}'


def free_port() -> int:
    """Return a port below those that the system gives to whoever connects: asking for it must not take it."""
    for port in random.sample(range(20_000, 32_000), 50):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no port is free")


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    place, port = tmp_path_factory.mktemp("metastore"), free_port()
    settings = {
        "hive.async.log.enabled": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file:{place}/warehouse",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place}/db;create=true",
    }
    jars = find_spark_home() / "jars"
    options = [word for key, value in settings.items() for word in ("--hiveconf", f"{key}={value}")]
    command = [
        str(find_java()), "-cp", f"{jars}/*", "-Xmx512m", "-XX:TieredStopAtLevel=1", *jdk_openings(),
        f"-Dderby.system.home={place}", "org.apache.hadoop.hive.metastore.HiveMetaStore",
        "-p", str(port), *options,
    ]  # fmt: skip
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
    try:
        asyncio.run(asyncio.wait_for(fill(port, process, place), 300))
        yield port
    finally:
        process.terminate()
        process.wait(60)


class SerDe(Struct):
    serializationLib: Annotated[str, 2]


class Storage(Struct):
    cols: Annotated[list[hive.FieldSchema], 1]
    location: Annotated[str, 2]
    inputFormat: Annotated[str, 3] = "org.apache.hadoop.mapred.TextInputFormat"
    outputFormat: Annotated[str, 4] = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
    serdeInfo: Annotated[SerDe, 7]


class NewTable(Struct):
    tableName: Annotated[str, 1]
    dbName: Annotated[str, 2] = "sales"
    owner: Annotated[str, 3] = "olga"
    sd: Annotated[Storage, 7]
    partitionKeys: Annotated[list[hive.FieldSchema] | None, 8] = None
    parameters: Annotated[dict[str, str] | None, 9] = None
    viewOriginalText: Annotated[str | None, 10] = None
    viewExpandedText: Annotated[str | None, 11] = None
    tableType: Annotated[str, 12]


class NewTableArguments(Struct):
    tbl: Annotated[NewTable, 1]


class DatabaseArguments(Struct):
    database: Annotated[hive.Database, 1]


async def fill(port: int, process: subprocess.Popen[bytes], place: Path) -> None:
    """Write a database, a table of Hive's, one of Spark's and a view, by calls that we never make."""
    catalog = HiveMetastoreCatalog(f"thrift://127.0.0.1:{port}")
    while True:
        try:
            await catalog.databases()
            break
        except CatalogUnavailable:
            assert process.poll() is None, (place / "log").read_text()[-2000:]
            await asyncio.sleep(0.2)

    async def table(name: str, kind: str, *columns: tuple[str, str, str | None], **more: Any) -> None:
        sd = Storage(
            cols=[hive.FieldSchema(name=n, type=t, comment=c) for n, t, c in columns],
            location=f"file:{place}/{name}",
            serdeInfo=SerDe(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
        )
        given = {"partitionKeys": [], "parameters": {"EXTERNAL": "TRUE"}, **more}
        made = NewTable(tableName=name, sd=sd, tableType=kind, **given)
        done = await catalog._call("create_table", NewTableArguments(tbl=made), hive.NamesResult)
        assert done.failed is None, done.failed.message

    database = hive.Database(name="sales", description="c", locationUri=f"file:{place}/sales", parameters={})
    await catalog._call("create_database", DatabaseArguments(database=database), hive.NamesResult)
    columns = (("id", "bigint", None), ("tags", "array<struct<a:int,b:decimal(10,2)>>", "all"))
    day = hive.FieldSchema(name="day", type="date")
    await table("orders", "EXTERNAL_TABLE", *columns, partitionKeys=[day])
    of_spark = {
        "EXTERNAL": "TRUE",
        "spark.sql.sources.provider": "parquet",
        "spark.sql.sources.schema": SPARK_SCHEMA,
        "spark.sql.statistics.numRows": "7",
    }
    await table("items", "EXTERNAL_TABLE", ("col", "array<string>", None), parameters=of_spark)
    text = "SELECT 1 AS id"
    await table(
        "recent",
        "VIRTUAL_VIEW",
        ("id", "bigint", None),
        parameters={},
        viewOriginalText=text,
        viewExpandedText=text,
    )
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


async def test_no_metastore_is_told() -> None:
    with pytest.raises(CatalogUnavailable, match="no Hive metastore answers"):
        async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{free_port()}"):
            pass
    for wrong in ("host:9083", "http://host:9083", "thrift://host", "thrift://host:x", ""):
        with pytest.raises(Faults):
            HiveMetastoreCatalog(wrong)
