"""What PostgreSQL has of proofs: runs, what was left out of the last one, and alarms."""

from __future__ import annotations

from datetime import date
from typing import Any


async def proofs(connection: Any, limit: int) -> list[dict[str, Any]]:
    """Return the last runs, the newest first."""
    rows = await connection.fetch("SELECT * FROM sluice.proof ORDER BY run DESC LIMIT $1", limit)
    return [dict(row) for row in rows]


async def load_unproved(connection: Any) -> list[dict[str, Any]]:
    """Return why statements of the last run were not proved, and how many."""
    rows = await connection.fetch(
        "SELECT reason, statements, example FROM sluice.proof_left_out"
        " WHERE run = (SELECT max(run) FROM sluice.proof) ORDER BY statements DESC, reason"
    )
    return [dict(row) for row in rows]


async def alarms(
    connection: Any, *, since: date | None, until: date | None, user: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return statements that showed something other than policies allow, newest first; days are of UTC."""
    rows = await connection.fetch(
        "SELECT * FROM sluice.proof_alarm"
        " WHERE ($1::date IS NULL OR found_at >= $1::timestamp AT TIME ZONE 'UTC')"
        " AND ($2::date IS NULL OR found_at < ($2::timestamp + interval '1 day') AT TIME ZONE 'UTC')"
        " AND ($3::text IS NULL OR user_name = $3)"
        " ORDER BY id DESC LIMIT $4",
        *(since, until, user, limit),
    )
    return [dict(row) for row in rows]
