"""Ledgers with short pauses, and questions to the database they ship to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from gateway.audit.disk import Disk
from gateway.audit.ledger import FileLedger, LedgerOptions
from gateway.audit.shipper import ShipperLimits
from gateway.audit.spool import SpoolLimits
from tests.audit.samples import until

IMPATIENT = ShipperLimits(first_pause_s=0.02, longest_pause_s=0.1, linger_s=0.01, busy_linger_s=0.01)


def settings(directory: Path, dsn: str | None, **more: Any) -> LedgerOptions:
    defaults: dict[str, Any] = {"spool": SpoolLimits(probe_interval_s=0.02), "shipper": IMPATIENT}
    return LedgerOptions(directory=directory, dsn=dsn, **(defaults | more))


@asynccontextmanager
async def running(
    directory: Path, dsn: str | None, *, disk: Disk | None = None, **more: Any
) -> AsyncIterator[FileLedger]:
    ledger = FileLedger(settings(directory, dsn, **more), disk=disk)
    await ledger.start()
    try:
        yield ledger
    finally:
        await ledger.close()


async def shipped(ledger: FileLedger) -> None:
    """Wait until PostgreSQL has everything, also what is still on its way to the disk."""

    def done() -> bool:
        found = ledger.metrics()
        return (
            found.database_connected
            and found.backlog_bytes == 0
            and found.shipped_events >= found.recorded_events
        )

    await until(done)


async def ask(dsn: str, query: str, *arguments: object) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(query, *arguments))
    finally:
        await connection.close()


async def kinds(dsn: str) -> dict[str, list[str]]:
    """Statement id → kinds of its events, sorted."""
    rows = await ask(
        dsn, "SELECT statement_id::text AS id, kind FROM sluice.audit_event WHERE statement_id IS NOT NULL"
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["id"], []).append(row["kind"])
    return {key: sorted(values) for key, values in found.items()}
