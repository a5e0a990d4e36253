"""Ids, handles and times: the session room's only source of randomness and wall clock."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass

from gateway.session.audit_records import format_time, format_uuid, new_id


@dataclass(frozen=True, slots=True)
class Handle:
    """The gateway's own handle: who holds both halves still has to be the principal it belongs to.

    `guid` finds the session or operation, `secret` is compared in constant time.
    """

    guid: bytes
    secret: bytes

    def __str__(self) -> str:
        return format_uuid(self.guid) if len(self.guid) == 16 else self.guid.hex()


def new_handle() -> Handle:
    """Make a handle from 32 random bytes."""
    random = os.urandom(32)
    return Handle(random[:16], random[16:])


def new_event_id() -> str:
    """Make a UUIDv7 for now."""
    return new_id(time.time_ns() // 1_000_000, os.urandom(10))


def new_uuid() -> str:
    """Make a random UUID, as Spark names operations and responses."""
    return str(uuid.uuid4())


def now() -> str:
    """Write the current time as audit events have it."""
    return format_time(time.time_ns() // 1000)
