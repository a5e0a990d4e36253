"""How far the roll-ups of use reach, and what is therefore not known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

BEHIND = timedelta(days=2)
"""How far behind the roll-ups may be and still prove that something is unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseReach:
    """Use is known from a day on, up to a moment."""

    since: datetime
    """Start of the period that must be known: revoking grants unused since then is recommended."""
    now: datetime
    first: date | None
    """None: there is no use yet."""
    last: datetime | None

    @property
    def reaches_back(self) -> bool:
        return self.first is not None and self.first <= self.since.date()

    @property
    def up_to_now(self) -> bool:
        return self.last is not None and self.last >= self.now - BEHIND

    @property
    def missing(self) -> list[str]:
        """Describe the part of the period that is not known."""
        if self.first is None:
            return ["there is no usage yet; `sluice jobs run rollups` computes the roll-ups"]
        told = []
        if not self.reaches_back:
            told.append(f"the roll-ups begin on {self.first}: earlier use is not known")
        if not self.up_to_now:
            end = f"{self.last:%Y-%m-%d %H:%M} UTC" if self.last is not None else "an unknown time"
            told.append(f"the roll-ups end at {end}: later use is not known")
        return told


async def reach_of_use(connection: Any, now: datetime, unused_days: int) -> UseReach:
    """Ask how far the roll-ups reach."""
    first = await connection.fetchval("SELECT min(day) FROM sluice.recommend_day")
    # How far the roll-ups have come: of what was used since, nothing is known.
    last = await connection.fetchval("SELECT watermark FROM sluice.job_watermark WHERE job = 'rollups'")
    since = (now - timedelta(days=unused_days)).astimezone(UTC)
    return UseReach(since=since, now=now, first=first, last=last)
