"""Migrations run once each, in order, whoever else is at it."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime

import asyncpg
import pytest

from gateway.audit.shipper import days_ahead, make_partitions
from gateway.database.migrate import Migration, migrate, migrations
from gateway.errors import Faults

ALL = [migration.version for migration in migrations()]


def test_versions_have_no_gaps() -> None:
    assert list(range(1, len(ALL) + 1)) == ALL


async def test_the_second_time_does_nothing(database: str) -> None:
    connection = await asyncpg.connect(database)
    assert await migrate(connection) == ALL
    assert await migrate(connection) == []
    versions = await connection.fetch("SELECT version FROM sluice.schema_version ORDER BY 1")
    assert [found["version"] for found in versions] == ALL
    await connection.close()


async def test_gateways_that_start_at_once_migrate_once(database: str) -> None:
    async def start() -> list[int]:
        connection = await asyncpg.connect(database)
        applied = await migrate(connection)
        await make_partitions(connection, days_ahead(datetime.now(UTC)))
        await connection.close()
        return applied

    applied = await asyncio.gather(*(start() for _ in range(6)))
    assert sorted(version for versions in applied for version in versions) == ALL


async def test_a_changed_migration_is_a_fault(database: str) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    changed = [dataclasses.replace(migrations()[0], sql="SELECT 1")]
    with pytest.raises(Faults, match="migration 1 was changed"):
        await migrate(connection, changed)
    await connection.close()


async def test_a_migration_that_fails_leaves_nothing(database: str) -> None:
    connection = await asyncpg.connect(database)
    broken = [*migrations(), Migration(99, "broken", "CREATE TABLE sluice.half (a int); SELECT 1/0")]
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(connection, broken)
    assert await connection.fetchval("SELECT to_regclass('sluice.half')") is None
    assert await connection.fetchval("SELECT to_regclass('sluice.schema_version')") is None
    assert await migrate(connection) == ALL
    await connection.close()


async def test_a_database_that_is_ahead_is_taken_as_it_is(database: str) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection, [*migrations(), Migration(99, "later", "SELECT 1")])
    assert await migrate(connection) == []
    await connection.close()
