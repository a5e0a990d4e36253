"""What every test gets: one reader JVM and one PostgreSQL for each lane of a run, and logs of its own."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
import structlog

from gateway.database.postgres import EmbeddedPostgres
from gateway.reader.pool import ReaderPool
from tests.readers import patient_reader

pytest_plugins = [
    "tests.temporary",
    "tests.costs",
    "tests.lanes",
    "tests.parts",
    "tests.patience",
    "tests.shares",
]


def pytest_collection_finish() -> None:
    """Freeze what was collected: the garbage collector would look at 14,000 tests again and again."""
    gc.collect()
    gc.freeze()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def reader() -> AsyncIterator[ReaderPool]:
    """Spark's parser. Its tests run on its loop: `pytest.mark.asyncio(loop_scope="session")`."""
    async with patient_reader() as pool:
        yield pool


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """Undo what a command or a gateway did to the logs."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level


@pytest.fixture(scope="session")
def reachable_directory() -> Iterator[Path]:
    """A directory that an unprivileged user can reach: pytest's own ones are closed to it under root."""
    directory = Path(tempfile.mkdtemp(prefix="sluice-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def embedded_postgres(reachable_directory: Path) -> Iterator[str]:
    """The DSN of a running server. It does not sync: no test pulls the plug of the machine."""
    server = EmbeddedPostgres(
        reachable_directory / "shared", settings={"fsync": "off", "max_connections": "80"}
    )
    dsn = server.start()
    yield dsn
    server.stop()


@asynccontextmanager
async def new_database(server: str, template: str = "template1") -> AsyncIterator[str]:
    """Create a database, as a copy of another one, and drop it at the end; yields its DSN."""
    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    await connection.close()
    yield server.replace("/postgres?", f"/{name}?")
    connection = await asyncpg.connect(server)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture
async def database(embedded_postgres: str) -> AsyncIterator[str]:
    """The DSN of an empty database."""
    async with new_database(embedded_postgres) as dsn:
        yield dsn
