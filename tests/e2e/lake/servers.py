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
    door = loop.run(_door(f"{unquote(dsn.rpartition('host=')[2])}/.s.PGSQL.5432"))
    port = door.sockets[0].getsockname()[1]
    try:
        yield f"jdbc:postgresql://127.0.0.1:{port}/postgres"
    finally:
        loop.run(_closed(door))
        server.stop()


async def _door(place: str) -> asyncio.Server:
    """Listen on TCP for a server that has a unix socket alone, as embedded ones do."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass  # whoever was there is gone

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(place)
        await asyncio.gather(relay(reader, to_server), relay(from_server, writer))

    return await asyncio.start_server(connected, "127.0.0.1", 0)


async def _closed(door: asyncio.Server) -> None:
    door.close()
