"""Where each worker of a gateway keeps its record, and what becomes of those of workers that are gone: what
is open in them is closed, and all of it shipped."""

from __future__ import annotations

from pathlib import Path

import structlog

from gateway.audit.ledger import FileLedger, LedgerOptions
from gateway.errors import LedgerUnavailable
from gateway.settings import Settings, load_settings

log = structlog.get_logger(__name__)

PREFIX = "worker-"


def directory_of(ledger: Path, number: int) -> Path:
    """Return where a worker keeps its record: the first where a gateway without workers does."""
    return ledger if number == 1 else ledger / f"{PREFIX}{number}"


def load_worker_settings(config: Path, number: int) -> Settings:
    """Read the settings of a worker: the gateway's, with a record of its own. Raises Faults."""
    settings = load_settings(config)
    directory = directory_of(settings.ledger.directory, number)
    return settings.model_copy(update={"ledger": settings.ledger.model_copy(update={"directory": directory})})


def list_left(ledger: Path, workers: int) -> list[Path]:
    """Return the directories of workers with higher numbers that have records."""
    found = []
    for path in sorted(ledger.glob(f"{PREFIX}*")):
        number = path.name.removeprefix(PREFIX)
        if number.isdecimal() and int(number) > workers and any(path.glob("*.spool")):
            found.append(path)
    return found


async def ship_left(ledger: Path, workers: int, dsn: str) -> None:
    """Close what is open in such records, and ship them, one after the other."""
    for directory in list_left(ledger, workers):
        left = FileLedger(LedgerOptions(directory=directory, dsn=dsn))
        try:
            await left.start()
        except LedgerUnavailable as fault:
            # Another process has it, or its disk: what is there stays there, and is shipped at another start.
            log.error("left_record_not_shipped", directory=str(directory), reason=fault.message)
            continue
        try:
            await left.wait_until_shipped()
            log.info("left_record_shipped", directory=str(directory))
        finally:
            await left.close()
