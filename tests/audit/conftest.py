"""A real PostgreSQL for the tests of the ledger, started once; each test gets a database of its own."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from gateway.audit.postgres import EmbeddedPostgres


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


@pytest.fixture
async def database(embedded_postgres: str) -> AsyncIterator[str]:
    """The DSN of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(embedded_postgres)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    yield embedded_postgres.replace("/postgres?", f"/{name}?")
    connection = await asyncpg.connect(embedded_postgres)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()
