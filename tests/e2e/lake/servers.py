"""Servers of catalogs, as their makers publish them: Iceberg's REST catalog, and PostgreSQL over TCP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
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
