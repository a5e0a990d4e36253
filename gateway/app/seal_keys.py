"""The public keys by which seals and erasures of the record hold, as the settings name them."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.backlog import list_spools, read_checkpoint
from gateway.audit.seals import public_key, read_local_seals, read_signing_key
from gateway.errors import Faults
from gateway.jobs.verifying import VerifyOptions
from gateway.settings.models import LedgerSettings, Settings


def seal_keys(settings: LedgerSettings) -> Sequence[Ed25519PublicKey]:
    """Return the key that signs, if there is one, and what it was before. Raises Faults."""
    own = () if settings.seal_key is None else (read_signing_key(settings.seal_key.reveal()).public_key(),)
    return (*own, *older_seal_keys(settings))


def older_seal_keys(settings: LedgerSettings) -> Sequence[Ed25519PublicKey]:
    """Return what the key of seals was before. Raises Faults with all files that hold none."""
    found, faults = list[Ed25519PublicKey](), list[str]()
    for path in settings.older_seal_keys:
        try:
            found.append(public_key(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            faults.append(f"{path}: cannot be read: {error}")
        except Faults as error:
            faults += [f"{path}: {one}" for one in error.faults]
    if faults:
        raise Faults(faults)
    return found


def verify_options(settings: Settings) -> VerifyOptions:
    """Return what the job `verify` is given: all of the record, by keys and spools of the settings."""
    spool = settings.ledger.directory
    every = list_spools(spool) if spool.is_dir() else []
    reached = {gateway: head for one in every for gateway, head in read_checkpoint(one).chains.items()}
    return VerifyOptions(
        keys=seal_keys(settings.ledger),
        reached=reached if every else None,
        exported=tuple(seal for one in every for seal in read_local_seals(one)),
    )
