"""The task that makes the day's seal, in every gateway that has the key; one of them does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.seals import NotASeal, keep_seal, make_seal
from gateway.database.asking import TROUBLE, connect
from gateway.errors import LedgerUnavailable

log = structlog.get_logger(__name__)

AFTER_MIDNIGHT = timedelta(minutes=5)
"""Events of a day's last moments are on their way to PostgreSQL for a few seconds."""
RETRY_S = 60.0


def day_to_seal(now: datetime) -> tuple[datetime, timedelta]:
    """Return the last day (UTC) that has ended, and how long until the next one has."""
    now = now.astimezone(UTC)
    settled = now - AFTER_MIDNIGHT
    midnight = settled.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=1), midnight + timedelta(days=1) + AFTER_MIDNIGHT - now


async def keep_sealing(
    dsn: str,
    key: Ed25519PrivateKey,
    directory: Path,
) -> None:
    """Seal each day when it has ended by PostgreSQL's clock, and at once when the last one has no seal yet;
    keep the seals in the ledger's directory as well. Never returns."""
    while True:
        try:
            connection = await connect(dsn, "sluice-seal", command_s=60, whole=True)
            try:
                # Gateways' clocks may differ, and one that is ahead seals no day that has not ended.
                day, rest = day_to_seal(await connection.fetchval("SELECT clock_timestamp()"))
                seal = await make_seal(connection, key, day.date(), once=True)
            finally:
                connection.terminate()
        except (*TROUBLE, LedgerUnavailable, NotASeal) as error:
            log.warning("audit_not_sealed", error=type(error).__name__)
            await asyncio.sleep(RETRY_S)
            continue
        if seal is not None:
            log.info("audit_sealed", day=str(seal.day), number=seal.number, seal=seal.digest())
            try:
                await asyncio.to_thread(keep_seal, directory, seal)
            except OSError as error:
                log.warning("audit_seal_not_kept", number=seal.number, error=str(error))
        await asyncio.sleep(rest.total_seconds())
