"""Hive's metastore, a real one out of pyspark's jars."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from gateway.backends.embedded_spark import free_port
from gateway.catalog import hive_structs as hive
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.readable import CatalogUnavailable
from gateway.model.catalog import Column
from gateway.model.java_options import QUICK_START
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from gateway.wire.thrift import Struct
from tests.speed import patience


@contextlib.contextmanager
def hive_metastore(place: Path, **process: Any) -> Iterator[int]:
    """Run a metastore that keeps all in `place`; yield its port. `process`: as for Popen."""
    port = free_port()
    settings = {
        "hive.async.log.enabled": "false",
        "datanucleus.schema.autoCreateAll": "true",
        # pyspark has no jar of the pool that is the default.
        "datanucleus.connectionPoolingType": "none",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file:{place}/warehouse",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place}/db;create=true",
    }
    jars = find_spark_home() / "jars"
    options = [word for key, value in settings.items() for word in ("--hiveconf", f"{key}={value}")]
    command = [
        str(find_java()), "-cp", f"{jars}/*", "-Xmx512m", *QUICK_START, *jdk_openings(),
        f"-Dderby.system.home={place}", "org.apache.hadoop.hive.metastore.HiveMetaStore",
        "-p", str(port), *options,
    ]  # fmt: skip
    with (place / "log").open("w") as log:
        running = subprocess.Popen(command, cwd=place, stdout=log, stderr=log, **process)
    try:
        asyncio.run(asyncio.wait_for(_answers(port, running, place), patience(300)))
        yield port
    finally:
        running.terminate()
        running.wait(patience())


class _Serde(Struct):
    serializationLib: Annotated[str, 2]
    parameters: Annotated[dict[str, str], 3]


class _Storage(Struct):
    cols: Annotated[list[hive.FieldSchema], 1]
    location: Annotated[str | None, 2]
    inputFormat: Annotated[str, 3]
    outputFormat: Annotated[str, 4]
    serdeInfo: Annotated[_Serde, 7]


class _NewTable(Struct):
    tableName: Annotated[str, 1]
    dbName: Annotated[str, 2]
    owner: Annotated[str, 3]
    sd: Annotated[_Storage, 7]
    partitionKeys: Annotated[list[hive.FieldSchema], 8]
    parameters: Annotated[dict[str, str], 9]
    viewOriginalText: Annotated[str | None, 10]
    viewExpandedText: Annotated[str | None, 11]
    tableType: Annotated[str, 12]


class _NewTableArguments(Struct):
    tbl: Annotated[_NewTable, 1]


async def make_table(
    catalog: HiveMetastoreCatalog,
    database: str,
    name: str,
    *columns: Column,
    keys: Sequence[Column] = (),
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    view: str | None = None,
) -> None:
    """Make a table of Hive's, external where it has a location, or a view."""

    def fields(some: Sequence[Column]) -> list[hive.FieldSchema]:
        return [hive.FieldSchema(name=one.name, type=one.type, comment=one.comment) for one in some]

    kind = "EXTERNAL_TABLE" if location is not None else "MANAGED_TABLE"
    table = _NewTable(
        tableName=name,
        dbName=database,
        owner="olga",
        sd=_Storage(
            cols=fields(columns),
            location=location,
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=_Serde(
                serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", parameters={}
            ),
        ),
        partitionKeys=fields(keys),
        parameters={**(properties or {}), **({"EXTERNAL": "TRUE"} if location is not None else {})},
        viewOriginalText=view,
        viewExpandedText=view,
        tableType="VIRTUAL_VIEW" if view is not None else kind,
    )
    done = await catalog._tell("create_table", _NewTableArguments(tbl=table))
    assert done.failure is None, done.failure.message


async def _answers(port: int, process: subprocess.Popen[bytes], place: Path) -> None:
    while True:
        try:
            async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{port}") as catalog:
                await catalog.databases()
                return
        except CatalogUnavailable:
            assert process.poll() is None, (place / "log").read_text()[-2000:]
            await asyncio.sleep(0.2)
