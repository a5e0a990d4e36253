"""Forwards the record from PostgreSQL to other systems, such as a SIEM: every event at least once, in the
order of each gateway's chain.

Of all gateways that share a database one forwards to a target, the one that has its advisory lock. An event's
place in its chain is given in the transaction that stores it, so nothing below a chain's head comes later.
The cursor moves when the target has confirmed a batch; what a crash leaves in between is sent again, with the
same `event_id`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from gateway.audit.rows import event_of
from gateway.audit.shipper import describe_failure
from gateway.database.connections import open_connection
from gateway.database.migrate import migrate
from gateway.model.audit import AuditEvent

log = structlog.get_logger(__name__)

LOCK_CLASS = 0x736C7566
"""First half of the keys of the advisory locks of targets; the second is the hash of the target's name."""
KNOWN = ""
"""Stands for the gateway in the row that says that a target is known."""

_HEADS = """
SELECT c.gateway, c.chain_position AS head, coalesce(f.position, 0) AS position
FROM sluice.audit_chain c
LEFT JOIN sluice.audit_forward f ON f.target = $1 AND f.gateway = c.gateway
WHERE c.chain_position > coalesce(f.position, 0) ORDER BY c.gateway"""
_EVENTS = """
SELECT chain_position, event_id, time, kind, statement_id, gateway, user_name, statement, forwarded, body,
  original_record
FROM sluice.audit_event
WHERE gateway = $1 AND chain_position > $2 AND chain_position <= $3 ORDER BY chain_position"""
_MOVE = """
INSERT INTO sluice.audit_forward (target, gateway, position) VALUES ($1, $2, $3)
ON CONFLICT (target, gateway) DO UPDATE SET position = excluded.position"""
_BEGIN_NOW = """
INSERT INTO sluice.audit_forward (target, gateway, position)
SELECT $1, gateway, chain_position FROM sluice.audit_chain ON CONFLICT DO NOTHING"""


class NotDelivered(Exception):
    """The target did not confirm a batch; its text says why, without anything of the events."""


@dataclass(frozen=True, slots=True)
class ForwardLine:
    """One event as it is sent."""

    time: str
    gateway: str
    content: bytes
    """One line of UTF-8."""


class ForwardTarget(Protocol):
    """Where events go."""

    async def deliver(self, lines: Sequence[ForwardLine]) -> None:
        """Return when the target has all of them. Raises NotDelivered, OSError or TimeoutError."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardOptions:
    """One target, and how it is served."""

    name: str
    kinds: frozenset[str]
    """Kinds of events that are sent."""
    from_beginning: bool = False
    """Whether a new target gets what the record has already."""
    batch: int = 200
    look_s: float = 1.0
    """Seconds between two looks for new events, and for the lock where another gateway has it."""
    first_pause_s: float = 0.5
    longest_pause_s: float = 60.0


@dataclass(slots=True)
class ForwardProgress:
    """How forwarding to one target goes, for metrics and the readiness page."""

    forwarding: bool = False
    """Whether this gateway is the one that forwards, and what a new target does not get is decided."""
    sent: int = 0
    missed: int = 0
    """Events that had left the database before they were sent."""
    behind: int = 0
    failures: int = 0
    trouble: str = ""


@dataclass(slots=True)
class Forwarder:
    """Forwards to one target. `run` never returns; cancel it."""

    dsn: str
    options: ForwardOptions
    target: ForwardTarget
    encode: Callable[[AuditEvent], bytes]
    progress: ForwardProgress = field(default_factory=ForwardProgress)

    async def run(self) -> None:
        """Forward until cancelled; after each failure begin again, with longer pauses."""
        pause = self.options.first_pause_s
        while True:
            before = self.progress.sent
            connection = None
            try:
                connection = await open_connection(self.dsn, "sluice-forward", command_s=60.0)
                await migrate(connection)
                await self._forward(connection)
            except Exception as error:  # noqa: BLE001 - root of the task; asyncpg leaks its inner errors
                self.progress.failures += 1
                self.progress.trouble = _describe(error)
                log.warning(
                    "audit_forwarding_interrupted", target=self.options.name, error=self.progress.trouble
                )
            finally:
                self.progress.forwarding = False
                if connection is not None:
                    connection.terminate()
                await self.target.close()
            if self.progress.sent != before:
                pause = self.options.first_pause_s
            await asyncio.sleep(pause)
            pause = min(2 * pause, self.options.longest_pause_s)

    async def _forward(self, connection: Any) -> None:
        name = self.options.name
        while not await connection.fetchval(
            "SELECT pg_try_advisory_lock($1, hashtext($2))", LOCK_CLASS, name
        ):
            self.progress.trouble = ""
            await asyncio.sleep(self.options.look_s)
        await self._begin(connection)
        self.progress.forwarding = True
        while True:
            heads = await connection.fetch(_HEADS, name)
            self.progress.behind = sum(row["head"] - row["position"] for row in heads)
            for row in heads:
                await self._send_batch(connection, row["gateway"], row["position"], row["head"])
            if not heads:
                self.progress.trouble = ""
                await asyncio.sleep(self.options.look_s)

    async def _begin(self, connection: Any) -> None:
        name = self.options.name
        async with connection.transaction():
            if await connection.fetchval(
                "SELECT true FROM sluice.audit_forward WHERE target = $1 AND gateway = $2", name, KNOWN
            ):
                return
            if not self.options.from_beginning:
                await connection.execute(_BEGIN_NOW, name)
            await connection.execute(_MOVE, name, KNOWN, 0)

    async def _send_batch(self, connection: Any, gateway: str, position: int, head: int) -> None:
        """Send the next events of one chain and move its cursor."""
        upto = min(head, position + self.options.batch)
        rows = await connection.fetch(_EVENTS, gateway, position, upto)
        if missed := upto - position - len(rows):
            self.progress.missed += missed
            log.error("audit_forwarding_missed", target=self.options.name, gateway=gateway, events=missed)
        lines = await asyncio.to_thread(self._encode_all, rows)
        if lines:
            await self.target.deliver(lines)
        await connection.execute(_MOVE, self.options.name, gateway, upto)
        self.progress.sent += len(lines)
        self.progress.behind -= upto - position
        self.progress.trouble = ""

    def _encode_all(self, rows: Sequence[Any]) -> list[ForwardLine]:
        events = [event_of(row) for row in rows if row["kind"] in self.options.kinds]
        return [ForwardLine(event.time, event.gateway, self.encode(event)) for event in events]


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, NotDelivered) else describe_failure(error)
