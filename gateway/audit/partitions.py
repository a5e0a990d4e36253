"""The record has one partition for each day, made before its first event needs it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from gateway.database.migrate import LOCK


def days_ahead(now: datetime) -> set[date]:
    """Return today and the two days to come: their partitions exist before midnight needs them."""
    return {now.astimezone(UTC).date() + timedelta(days=n) for n in range(3)}


async def make_partitions(connection: Any, days: Iterable[date]) -> None:
    """Make the days' partitions where they are missing, in a transaction of its own."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        for day in sorted(days):
            name = f"audit_event_{day:%Y%m%d}"
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS sluice.{name} PARTITION OF sluice.audit_event"
                f" FOR VALUES FROM ('{day.isoformat()} 00:00:00+00')"
                f" TO ('{(day + timedelta(days=1)).isoformat()} 00:00:00+00')"
            )
