"""The audit record: what was decided, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

AuditKind = Literal[
    "decided",
    "completed",
    "abandoned",
    "login",
    "security",
    "reattached",
    "promoted",
    "session_ended",
    "viewed",
    "changed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One line of the ledger. `body` is JSON-able; its keys are documented in docs/audit.md.

    Every statement has one `decided` event. A cleared one has exactly one `completed` or `abandoned` event
    later, with the same `statement_id`.
    """

    event_id: str
    """UUIDv7 as text; primary key together with `time`."""
    kind: AuditKind
    time: str
    """UTC, ISO 8601 with microseconds and a trailing Z."""
    statement_id: str
    """UUIDv7 of the statement; what a refusal tells the user to quote."""
    gateway: str
    """Identity of the gateway process that wrote it."""
    user: str
    body: Mapping[str, Any]
