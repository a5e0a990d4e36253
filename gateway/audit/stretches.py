"""Where in a gateway's chain the events of a time are, by the database's events and by what it says of days
that the archive alone has.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any


async def find_stretch(
    connection: Any, gateway: str, since: datetime | None, until: datetime | None
) -> tuple[int, int, bool]:
    """Return the first and last position that tell of a gateway's events of a time, and whether its chain
    ends there; where there is nothing to walk over, the first comes behind the last.

    What was removed has no time any more. So they begin with the event before the time, which may be one of
    it that was given another, and go to the one that comes after it, or to the end: whatever is missing of
    the time is missing in between.
    """
    before = behind = None
    first, last = await places(connection, gateway, since, until)
    if first is not None:
        if since is not None:
            before = await connection.fetchval(_BEFORE, gateway, first, since)
        if until is not None:
            behind = await connection.fetchval(_BEHIND, gateway, last, until)
    else:
        if since is not None:
            _, before = await places(connection, gateway, None, since)
        if until is not None:
            behind, _ = await places(connection, gateway, until, None)
        if before is not None and behind is not None and behind < before:
            # A clock went back: what is missing may be missing anywhere.
            before = behind = None
    if behind is None:
        # Not the last of the time: where a clock went back, earlier ones follow it.
        _, last = await places(connection, gateway)
    return before or 1, (last if behind is None else behind) or 0, behind is None


async def places(
    connection: Any, gateway: str, since: datetime | None = None, until: datetime | None = None
) -> tuple[int | None, int | None]:
    """Return the first and last position of a gateway's events of a time; None where there are none."""
    row = await connection.fetchrow(_PLACES, gateway, since, until)
    return row["first"], row["last"]


_PLACES = """
SELECT min(first) AS first, max(last) AS last FROM (
    SELECT min(chain_position) AS first, max(chain_position) AS last FROM sluice.audit_event
    WHERE gateway = $1 AND chain_position > 0 AND ($2::timestamptz IS NULL OR time >= $2)
      AND ($3::timestamptz IS NULL OR time < $3)
    UNION ALL
    SELECT min(c.first), max(c.last) FROM sluice.archive_chain c JOIN sluice.archive_day d USING (day)
    WHERE gateway = $1 AND d.dropped_events > 0
      AND ($2::timestamptz IS NULL OR day >= ($2::timestamptz AT TIME ZONE 'UTC')::date)
      AND ($3::timestamptz IS NULL OR day <= ($3::timestamptz AT TIME ZONE 'UTC')::date)
) AS places
"""


_BEFORE = """
SELECT max(place) FROM (
    SELECT max(chain_position) AS place FROM sluice.audit_event
    WHERE gateway = $1 AND chain_position > 0 AND chain_position < $2::bigint AND time < $3::timestamptz
    UNION ALL
    SELECT max(least(c.last, $2::bigint - 1))
    FROM sluice.archive_chain c JOIN sluice.archive_day d USING (day)
    WHERE gateway = $1 AND d.dropped_events > 0 AND c.first < $2::bigint
      AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date
) AS places
"""
_BEHIND = """
SELECT min(place) FROM (
    SELECT min(chain_position) AS place FROM sluice.audit_event
    WHERE gateway = $1 AND chain_position > $2::bigint AND time >= $3::timestamptz
    UNION ALL
    SELECT min(CASE WHEN c.first > $2::bigint THEN c.first ELSE c.last END)
    FROM sluice.archive_chain c JOIN sluice.archive_day d USING (day)
    WHERE gateway = $1 AND d.dropped_events > 0 AND c.last > $2::bigint
      AND day > ($3::timestamptz AT TIME ZONE 'UTC')::date
) AS places
"""
"""The nearest place before one and a time, and behind. Of an archived day the database knows the first and
the last place that are there; of those in between, none."""
