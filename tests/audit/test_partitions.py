"""Every day has its partition, odd days too, and in time."""

from __future__ import annotations

from datetime import UTC, date, datetime

import asyncpg

from gateway.audit.shipper import days_ahead, make_partitions
from gateway.database.migrate import migrate


async def test_partitions_are_made_for_odd_days(database: str) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    days = {date(1970, 1, 1), date(2200, 12, 31), date(2024, 2, 29)}
    await make_partitions(connection, days)
    await make_partitions(connection, days)
    names = await connection.fetch(
        "SELECT relname AS name FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
        " WHERE inhparent = 'sluice.audit_event'::regclass ORDER BY 1"
    )
    assert [found["name"] for found in names] == [
        "audit_event_19700101",
        "audit_event_20240229",
        "audit_event_22001231",
    ]
    await connection.close()


def test_partitions_are_ahead_of_midnight() -> None:
    late = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
    assert days_ahead(late) == {date(2026, 12, 31), date(2027, 1, 1), date(2027, 1, 2)}
