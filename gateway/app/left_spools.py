"""Where each worker of a gateway keeps its record, and what becomes of those of workers that are gone: what
is open in them is closed, and all of it shipped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from gateway.audit.backlog import WORKER_PREFIX, find_spool, list_spools
from gateway.audit.ledger import FileLedger, LedgerOptions
from gateway.errors import LedgerUnavailable
from gateway.settings import Settings, load_settings

log = structlog.get_logger(__name__)

AGAIN_S = 30.0
"""After so long a record is tried again that could not be had."""


def load_worker_settings(config: Path, number: int) -> Settings:
    """Read the settings of a worker: the gateway's, with a record of its own. Raises Faults."""
    settings = load_settings(config)
    directory = find_spool(settings.ledger.directory, number)
    return settings.model_copy(update={"ledger": settings.ledger.model_copy(update={"directory": directory})})


def list_left(ledger: Path, workers: int) -> list[Path]:
    """Return the directories of workers with higher numbers that have records."""
    _, *others = list_spools(ledger)
    return [
        one
        for one in others
        if int(one.name.removeprefix(WORKER_PREFIX)) > workers and any(one.glob("*.spool"))
    ]


async def ship_left(ledger: Path, workers: int, dsn: str) -> None:
    """Close what is open in such records, and ship them, one after the other."""
    waiting = list_left(ledger, workers)
    while waiting:
        waiting = [directory for directory in waiting if not await _ship(directory, dsn)]
        if waiting:
            await asyncio.sleep(AGAIN_S)


async def _ship(directory: Path, dsn: str) -> bool:
    """Ship one of them; False when it cannot be had now."""
    left = FileLedger(LedgerOptions(directory=directory, dsn=dsn))
    try:
        await left.start()
    except LedgerUnavailable as fault:
        # Another process has it, as one whose supervisor was killed; or its disk.
        log.error("left_record_not_shipped", directory=str(directory), reason=fault.message)
        return False
    try:
        await left.wait_until_shipped()
        log.info("left_record_shipped", directory=str(directory))
    finally:
        await left.close()
    return True
