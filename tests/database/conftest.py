"""A migrated database for what several gateways share."""

from __future__ import annotations

import asyncpg
import pytest

from gateway.database.migrate import migrate


@pytest.fixture
async def dsn(database: str) -> str:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.close()
    return database
