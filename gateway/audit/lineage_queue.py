"""The record as lineage follows it: which statements have ended and are not in the graph yet.

The shipper puts a statement into the queue in the transaction that brings its decision into the record:
neither is there without the other. It stays until somebody says that its lineage is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from gateway.audit.rows import event_of
from gateway.model.audit import AuditEvent

TAKE_OVER = 0x736C75696365_01
"""Key of the advisory lock of the one gateway that takes what others have left."""

_COLUMNS = (
    "event_id, time, kind, statement_id, gateway, user_name, statement, forwarded, body, original_record"
)

_OWN = """
SELECT statement_id, decided_at, attempts FROM sluice.lineage_queue
WHERE gateway = $1 AND ready_at IS NOT NULL AND coalesce(retry_at <= now(), true)
ORDER BY ready_at LIMIT $2"""

_LEFT = """
SELECT statement_id, decided_at, attempts FROM sluice.lineage_queue
WHERE ready_at < now() - $1::interval AND coalesce(retry_at <= now(), true)
ORDER BY ready_at LIMIT $2"""

_EVENTS = f"""
SELECT {_COLUMNS} FROM sluice.audit_event
WHERE statement_id = ANY($1) AND time >= $2 AND kind IN ('decided', 'completed', 'abandoned')"""

_BEHIND = """
SELECT count(*) AS waiting, coalesce(extract(epoch FROM now() - min(ready_at)), 0)::float8 AS oldest_s
FROM (SELECT ready_at FROM sluice.lineage_queue WHERE ready_at IS NOT NULL AND gateway = $1 LIMIT $2) q"""

_COUNTED = 100_000
"""Statements that are counted at most: counting more would take longer than it is worth."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedStatement:
    """A statement that has ended, with what the record has of it."""

    statement_id: UUID
    attempts: int
    """How often making its lineage has failed."""
    decided: AuditEvent | None
    """None when the record no longer has it."""
    end: AuditEvent | None


@dataclass(frozen=True, slots=True)
class LineageQueue:
    """One gateway's share of the queue: its own statements, and those that others have left.

    Every method raises what asyncpg raises.
    """

    gateway: str
    left_after: timedelta = timedelta(minutes=15)
    """A statement that has waited for longer is anybody's."""

    async def take(self, connection: Any, limit: int) -> list[QueuedStatement]:
        """Return the gateway's own statements that have waited longest, at most `limit`."""
        return await _build_waiting(connection, await connection.fetch(_OWN, self.gateway, limit))

    async def take_abandoned(self, connection: Any, limit: int) -> list[QueuedStatement]:
        """Return statements that any gateway has left, for the one that sees to them: whose connection asked
        first."""
        if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", TAKE_OVER):
            return []
        return await _build_waiting(connection, await connection.fetch(_LEFT, self.left_after, limit))

    async def load_decided(self, connection: Any, statement_id: UUID) -> AuditEvent | None:
        """Return the decision on a statement; None when the record does not have it."""
        # Its id is older than its decision, by as long as it waited for others.
        since = _EPOCH + timedelta(milliseconds=int.from_bytes(statement_id.bytes[:6], "big") - 60_000)
        return (await _events(connection, [statement_id], since)).get((statement_id, True))

    async def dequeue(self, connection: Any, statements: Iterable[UUID]) -> None:
        """Take statements out of the queue."""
        await connection.execute(
            "DELETE FROM sluice.lineage_queue WHERE statement_id = ANY($1)", list(statements)
        )

    async def postpone(self, connection: Any, statements: Iterable[UUID], pause_s: float) -> None:
        """Let statements wait for another attempt, for `pause_s` at least."""
        await connection.execute(
            "UPDATE sluice.lineage_queue SET attempts = attempts + 1, retry_at = now() + $2::interval"
            " WHERE statement_id = ANY($1)",
            list(statements),
            timedelta(seconds=pause_s),
        )

    async def measure_backlog(self, connection: Any) -> tuple[int, float]:
        """Return how many of this gateway's statements wait, and for how many seconds the oldest has."""
        row = await connection.fetchrow(_BEHIND, self.gateway, _COUNTED)
        return row["waiting"], row["oldest_s"]


async def _build_waiting(connection: Any, rows: Sequence[Any]) -> list[QueuedStatement]:
    if not rows:
        return []
    ids = [row["statement_id"] for row in rows]
    events = await _events(connection, ids, min(row["decided_at"] for row in rows))
    return [
        QueuedStatement(
            statement_id=row["statement_id"],
            attempts=row["attempts"],
            decided=events.get((row["statement_id"], True)),
            end=events.get((row["statement_id"], False)),
        )
        for row in rows
    ]


async def _events(
    connection: Any, statements: Sequence[UUID], since: datetime
) -> dict[tuple[UUID, bool], AuditEvent]:
    """Return decisions and ends by statement and whether it is the decision."""
    rows = await connection.fetch(_EVENTS, statements, since)
    # Of two ends the one that somebody saw counts.
    rows.sort(key=lambda row: row["kind"] == "completed")
    return {(row["statement_id"], row["kind"] == "decided"): event_of(row) for row in rows}
