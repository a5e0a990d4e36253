"""What verifies the record is given, as the settings have it."""

from __future__ import annotations

from gateway.app.seal_keys import seal_keys
from gateway.audit.backlog import read_checkpoint
from gateway.audit.seals import read_local_seals
from gateway.jobs.verifying import VerifyOptions
from gateway.settings.models import Settings


def verify_options(settings: Settings) -> VerifyOptions:
    """Return what the job `verify` is given: all of the record, by the keys and the spool of the settings."""
    spool = settings.ledger.directory
    return VerifyOptions(
        keys=seal_keys(settings.ledger),
        reached=read_checkpoint(spool).chains if spool.is_dir() else None,
        exported=tuple(read_local_seals(spool)),
    )
