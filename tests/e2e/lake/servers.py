"""Servers of catalogs, as their makers publish them: Iceberg's REST catalog, and PostgreSQL over TCP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from gateway.database.postgres import EmbeddedPostgres
from gateway.reader.java_runtime import find_java
from tests.e2e.lake.formats import KEPT
from tests.e2e.running import LoopThread

JARS = KEPT / "servers"
"""Where `make lake-jars` puts what stands in servers.xml."""
PATIENCE_S = 120.0
OPEN = """<configuration>
  <property><name>fs.permissions.umask-mode</name><value>000</value></property>
</configuration>
"""
DRIVER = "org.postgresql.Driver"


def drivers() -> list[Path]:
    """Return the JDBC drivers that a Spark of tests has; where there are none, the test fails."""
    found = sorted(JARS.glob("postgresql-*.jar"))
    assert found, f"no servers' jars in {JARS}: `make lake-jars`"
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextlib.contextmanager
def iceberg_rest(directory: Path, warehouse: Path) -> Iterator[str]:
    """Run Iceberg's own REST server; yield its URL. It and Spark, which is of another user, write below
    `warehouse`."""
    (directory / "core-site.xml").write_text(OPEN)
    port = free_port()
    told = {
        "CATALOG_URI": "jdbc:sqlite::memory:",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": str(warehouse),
        "CATALOG_CLIENTS": "1",
        "CATALOG_REST_PORT": str(port),
    }
    url = f"http://127.0.0.1:{port}"
    with (directory / "iceberg-rest.log").open("wb") as log:
        server = subprocess.Popen(
            [
                *(str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-cp", f"{directory}:{JARS}/*", "org.apache.iceberg.rest.RESTCatalogServer"),
            ],
            env={**os.environ, **told},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(url):
            assert server.poll() is None, (directory / "iceberg-rest.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "Iceberg's REST server does not answer"
            time.sleep(0.05)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE_S)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v1/config", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


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
