"""Ids, handles and times: the session room's only source of randomness and wall clock."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from typing import NamedTuple

from gateway.session.audit_records import format_time, format_uuid, new_id


class Handle(NamedTuple):
    """The gateway's own handle: who holds both halves still has to be the principal it belongs to.

    `guid` finds the session or operation, `secret` is compared in constant time.
    """

    guid: bytes
    secret: bytes

    def __str__(self) -> str:
        return format_uuid(self.guid) if len(self.guid) == 16 else self.guid.hex()


TAG_BYTES = 4
"""Bytes at the beginning of a handle that say which gateway made it; 28 are random."""


def tag_of(gateway: str) -> bytes:
    """Return what the handles of a gateway begin with, by its name in the record."""
    return hashlib.sha256(b"sluice gateway " + gateway.encode()).digest()[:TAG_BYTES]


def new_handle(tag: bytes) -> Handle:
    """Make a handle of the gateway with that tag."""
    random = os.urandom(32 - len(tag))
    return Handle(tag + random[: 16 - len(tag)], random[16 - len(tag) :])


def new_event_id() -> str:
    """Make a UUIDv7 for now."""
    return new_id(time.time_ns() // 1_000_000, os.urandom(10))


def new_uuid() -> str:
    """Make a random UUID, as Spark names operations and responses."""
    return str(uuid.uuid4())


def now() -> str:
    """Write the current time as audit events have it."""
    return format_time(time.time_ns() // 1000)
