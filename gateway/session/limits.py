"""Bounds of the session service; every buffer, wait and count of it has one here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Defaults suit a gateway of a few hundred users."""

    session_idle_s: float = 3600.0
    """Seconds without a call before a session without a running statement is closed; HiveServer2's own
    default is 7 days."""
    operation_idle_s: float = 3600.0
    """Seconds without a call before an operation is closed: Spark keeps its whole result on the driver."""
    sessions_per_user: int = 200
    sessions: int = 5000
    operations_per_session: int = 200
    settle_timeout_s: float = 300.0
    """How long the next statement waits for one that changes the meaning of names."""
    answer_rows: int = 100_000
    """Rows of an answer that the gateway filters itself, and of a metadata call."""
    fetch_rows: int = 1_000_000
    """Rows of one batch, whatever the client asks for; Spark builds a batch in memory."""
    catalog_rounds: int = 24
    """How often judging may ask for more of the catalog: views of views, each one level further."""
    verdicts_cached: int = 4096
    verdict_text_chars: int = 32_768
    """Longest statement whose verdict is kept."""
    verdict_age_s: float = 10.0
    """How long a clearance is used again: policies may end at a moment without a new version."""
    lookup_batch: int = 200
    """Tables that one look-up for GetColumns asks for."""
    close_timeout_s: float = 10.0
    """How long closing a session waits for Spark before the gateway forgets it."""
