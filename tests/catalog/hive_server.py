"""Hive's metastore, a real one out of pyspark's jars."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway.backends.embedded_spark import free_port
from gateway.catalog.hive_metastore import HiveMetastoreCatalog
from gateway.catalog.readable import CatalogUnavailable
from gateway.model.java_options import QUICK_START
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
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


async def _answers(port: int, process: subprocess.Popen[bytes], place: Path) -> None:
    while True:
        try:
            async with HiveMetastoreCatalog(f"thrift://127.0.0.1:{port}") as catalog:
                await catalog.databases()
                return
        except CatalogUnavailable:
            assert process.poll() is None, (place / "log").read_text()[-2000:]
            await asyncio.sleep(0.2)
