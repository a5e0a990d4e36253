"""What verifies the record is given, as the settings have it."""

from __future__ import annotations

from gateway.audit.backlog import read_checkpoint
from gateway.audit.seals import kept_seals, signing_key
from gateway.jobs.verifying import VerifyOptions
from gateway.settings.models import Settings


def verify_options(settings: Settings) -> VerifyOptions:
    """Return what the job `verify` is given: all of the record, by the key and the spool of the settings."""
    key, spool = settings.ledger.seal_key, settings.ledger.directory
    return VerifyOptions(
        keys=(signing_key(key.reveal()).public_key(),) if key is not None else (),
        reached=read_checkpoint(spool).chains if spool.is_dir() else None,
        exported=tuple(kept_seals(spool)),
    )
