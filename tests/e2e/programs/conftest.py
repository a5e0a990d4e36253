"""A Spark with a shop, a gateway before it, and ways to both for programs that others wrote."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gateway.app import exit_codes
from tests.app.certificate_files import make_pair
from tests.e2e import one_pack
from tests.e2e.lake.conftest import lakes
from tests.e2e.programs.comparison import level, require_alike
from tests.e2e.running import LoopThread, RunningGateway, Spark
from tests.e2e.standing import OWN_DATABASES

__all__ = ["lakes"]

PACK = Path(__file__).with_name("pack.yaml")
FREE = "fritz"
"""May do everything, so that what he is answered is what Spark answers."""
GOVERNED = "gerda"
"""Reads the shop filtered and masked, and builds in a database of hers, where a column is masked too."""
SHOP = "programs_shop"
COPIES = "programs_seen"
HERS = "programs_hers"
"""What GOVERNED builds in."""

TABLES = [
    statement
    for statement in Path(__file__).with_name("shop.sql").read_text("utf-8").partition("\n")[2].split(";\n")
    if statement
]


@dataclass(frozen=True)
class Way:
    """Where a program connects to, as whom, and what it is given there."""

    host: str
    thrift: int
    remote: str
    """Of Spark Connect, over TLS: PySpark wants to be asked for it where the host is `localhost`."""
    user: str
    password: str
    shop: str
    scratch: str

    def level(self, answers: Any) -> Any:
        return level(answers, {self.shop: "{shop}", self.scratch: "{scratch}", self.user: "{user}"})


@dataclass(frozen=True)
class Programs:
    """Where programs connect to."""

    spark: Spark
    gateway: RunningGateway
    certificate: Path
    """What the gateway's Spark Connect shows, and what stands before Spark's own."""
    front_port: int
    """Spark's own Spark Connect behind TLS: clients in Go and Rust send no token without."""

    @contextlib.contextmanager
    def scratch(self, name: str) -> Iterator[str]:
        """Yield an empty database to write to, which is dropped again, as is what SQLMesh puts beside it."""
        assert name not in OWN_DATABASES
        drops = [f"DROP DATABASE IF EXISTS {one} CASCADE" for one in (name, f"sqlmesh__{name}")]
        self.spark.query(*drops, f"CREATE DATABASE {name}", user="loader")
        try:
            yield name
        finally:
            self.spark.query(*drops, user="loader")

    @contextlib.contextmanager
    def copies(self) -> Iterator[str]:
        """Yield a database with the shop as GOVERNED sees it, which is dropped again."""
        with self.scratch(COPIES) as name:
            tables = {row[1] for row in self.spark.query(f"SHOW TABLES IN {SHOP}")} - {"emea", "customer"}
            self.spark.query(
                f"CREATE TABLE {name}.customer LIKE {SHOP}.customer",
                f"INSERT INTO {name}.customer SELECT id, name, regexp_replace(email, '[a-z]', 'x'), region, "
                f"joined, spent FROM {SHOP}.customer WHERE region <> 'APAC'",
                f"CREATE VIEW {name}.emea AS SELECT id, name FROM {name}.customer WHERE region = 'EMEA'",
                *(f"CREATE TABLE {name}.{one} USING parquet AS SELECT * FROM {SHOP}.{one}" for one in tables),
                user="loader",
            )
            yield name

    def through(self, user: str, scratch: str) -> Way:
        gateway = self.gateway
        remote = f"sc://localhost:{gateway.connect_port}/;use_ssl=true;token={self.token(user)}"
        return Way(gateway.host, gateway.port, remote, user, one_pack.PASSWORD, SHOP, scratch)

    def direct(self, scratch: str) -> Way:
        spark = self.spark
        token = quote(spark.connect_token, safe="")
        remote = f"sc://localhost:{self.front_port}/;use_ssl=true;token={token}"
        return Way(spark.host, spark.port, remote, FREE, "x", SHOP, scratch)

    def require_alike(self, program: str, run: Callable[[Way], Any]) -> None:
        """Run a program as FREE through the gateway and straight at Spark, and compare."""
        name = f"programs_{program.replace('-', '_').replace('.', '_')}"
        with self.scratch(name) as scratch:
            way = self.through(FREE, scratch)
            through = way.level(run(way))
        with self.scratch(name) as scratch:
            way = self.direct(scratch)
            direct = way.level(run(way))
        require_alike(program, through, direct)

    def token(self, user: str) -> str:
        """Return a new token of a user's, as `sluice users token` prints it."""
        done = self.gateway.sluice("users", "token", user, "--label", "programs")
        assert done.returncode == exit_codes.OK, done.stderr
        return done.stdout.strip()

    def trusting(self) -> dict[str, str]:
        """Return an environment in which clients trust the certificate."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "DBT_"))}
        file = str(self.certificate)
        return {**kept, "SSL_CERT_FILE": file, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": file}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


class TlsFront:
    """Takes TLS at a port of its own and passes what is in it on to a port of this machine."""

    def __init__(self, directory: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(directory / "c.pem", directory / "k.pem")
        self._context.set_alpn_protocols(["h2"])  # gRPC wants to have agreed on it
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            self._tasks.discard(task)

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture(scope="session")
def programs(spark: Spark, session_loop: LoopThread, open_directory: Path) -> Iterator[Programs]:
    """The shop, a gateway before it whose Spark Connect takes TLS, and TLS before Spark's own."""
    directory = open_directory / "programs-tls"
    directory.mkdir()
    make_pair(directory)
    spark.query(*TABLES, user="loader")
    tls = {"certificate": str(directory / "c.pem"), "key": str(directory / "k.pem")}
    listeners = {"thrift": {"port": 0}, "connect": {"port": 0, "tls": tls}, "admin": {"port": 0}}
    settings = one_pack.write_settings(
        open_directory / "programs",
        spark,
        PACK.read_text("utf-8"),
        {FREE: [], GOVERNED: []},
        listeners=listeners,
    )
    front = TlsFront(directory, spark.connect_port)
    front_port = session_loop.run(front.start())
    running = RunningGateway(settings).start()
    try:
        yield Programs(spark, running, directory / "c.pem", front_port)
    finally:
        session_loop.run(front.stop())
        assert running.stop() == 0
