"""Hive's metastore, a real one out of pyspark's jars, as the contract of catalogs has it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from impala_thrift_gen.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.readable import CatalogUnavailable, NoSuchDatabase, NoSuchTable
from gateway.errors import Faults
from gateway.model.catalog import Column, TableKind
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings

SPARK_SCHEMA = '{"type":"struct","fields":[{"name":"Id","type":"long","nullable":true,"metadata":{}}]}'


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


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
        f"-Dderby.system.home={place}", "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port), *options,
    ]  # fmt: skip
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
    try:
        fill(port, process, place)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def fill(port: int, process: subprocess.Popen[bytes], place: Path) -> None:
    """Write a database, a table of Hive's, one of Spark's and a view, by other people's client."""
    wire = TSocket("127.0.0.1", port)
    transport = TBufferedTransport(wire)
    deadline = time.monotonic() + 300
    while True:
        try:
            transport.open()
            break
        except TTransportException:
            assert process.poll() is None, (place / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.2)
    client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))

    def storage(*columns: tuple[str, str, str | None]) -> ttypes.StorageDescriptor:
        fields = [ttypes.FieldSchema(name=n, type=t, comment=c) for n, t, c in columns]
        return ttypes.StorageDescriptor(
            cols=fields,
            location=f"file:{place}/t",
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=ttypes.SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
        )

    def table(name: str, kind: str, sd: ttypes.StorageDescriptor, **more: object) -> None:
        parameters = {"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {}
        given = {"partitionKeys": [], "parameters": parameters, **more}
        client.create_table(
            ttypes.Table(tableName=name, dbName="sales", owner="olga", tableType=kind, sd=sd, **given)
        )

    client.create_database(
        ttypes.Database(name="sales", description="c", locationUri=f"file:{place}/sales", parameters={})
    )
    columns = (("id", "bigint", None), ("tags", "array<struct<a:int,b:decimal(10,2)>>", "all"))
    day = ttypes.FieldSchema(name="day", type="date", comment=None)
    table("orders", "EXTERNAL_TABLE", storage(*columns), partitionKeys=[day])
    of_spark = {
        "EXTERNAL": "TRUE",
        "spark.sql.sources.provider": "parquet",
        "spark.sql.sources.schema": SPARK_SCHEMA,
        "spark.sql.statistics.numRows": "7",
    }
    table("items", "EXTERNAL_TABLE", storage(("col", "array<string>", None)), parameters=of_spark)
    table("recent", "VIRTUAL_VIEW", storage(("id", "bigint", None)), viewOriginalText="SELECT 1 AS id")
    transport.close()


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
