"""When policies last decided something, noted where events of the record arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

NOTE_USE = """
INSERT INTO sluice.policy_use AS u (policy, first_at, last_at)
SELECT policy, min(time), max(time) FROM arrivals, unnest(policies) AS policy
GROUP BY policy ORDER BY policy
ON CONFLICT (policy) DO UPDATE SET last_at = excluded.last_at
WHERE u.last_at < excluded.last_at - interval '1 minute'"""
"""Notes the policies of the events in the temporary table `arrivals`; of all gateways in one order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyUse:
    """The use of some policies, as far as it was noted."""

    since: datetime | None
    """Since when it is noted; None where it is not known."""
    last: Mapping[str, datetime]
    """Policy name → when it last decided something, to the minute. What is not here was not used since."""


async def load_policy_use(connection: Any, names: Iterable[str]) -> PolicyUse:
    """Return when these policies were last used."""
    rows = await connection.fetch(
        "SELECT policy, last_at FROM sluice.policy_use WHERE policy = ANY($1::text[])", list(names)
    )
    since = await connection.fetchval("SELECT since FROM sluice.policy_use_since")
    return PolicyUse(since=since, last={row["policy"]: row["last_at"] for row in rows})
