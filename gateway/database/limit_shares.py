"""How many sessions and running statements each gateway of a PostgreSQL may have of a limit: see
`session.shares`.

A gateway that gives no sign of life for `LEASE_S` has no shares any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from gateway.database import asking
from gateway.database.name_holds import LEASE_S
from gateway.database.shared_counts import ANSWER_S, AWAY_S, SharedCounts

MAX_KEYS = 1000
"""Limits that one question is about."""
_SHARE = "SELECT place, granted, contended FROM sluice.share_limits($1, $2, $3, $4, $5, $6, $7, $8)"
_LEAVE = "DELETE FROM sluice.limit_share WHERE gateway = $1"


class LimitShares(SharedCounts):
    """The table of shares."""

    application = "sluice-limit-shares"
    trouble = "limit_shares_not_known"
    clean_s = 600.0
    retry_s = AWAY_S

    def __init__(self, dsn: str, gateway: str) -> None:
        super().__init__(dsn)
        self._gateway = gateway
        self._has_begun = False

    async def exchange(self, asked: Mapping[Any, tuple[int, int, int]]) -> Mapping[Any, Any] | None:
        """Say of each (limit, subject, measure) how many it allows, how many are in use here and how many
        are wanted; return how many this gateway may have, and whether others want more than there is. None
        while PostgreSQL is away."""
        if self.is_away:
            return None
        # In one order everywhere: two gateways must not wait for each other's limits.
        keys = sorted(asked)
        found: dict[Any, Any] = {}
        try:
            async with asyncio.timeout(ANSWER_S), self._pool.acquire() as connection:
                if not self._has_begun:
                    # What a run before this one left behind.
                    await connection.execute(_LEAVE, self._gateway)
                    self._has_begun = True
                for at in range(0, len(keys), MAX_KEYS):
                    part = keys[at : at + MAX_KEYS]
                    columns = [[one[index] for one in part] for index in range(3)]
                    numbers = [[asked[one][index] for one in part] for index in range(3)]
                    for row in await connection.fetch(_SHARE, self._gateway, *columns, *numbers, LEASE_S):
                        found[part[row["place"] - 1]] = (row["granted"], row["contended"])
        except asking.TROUBLE as error:
            self._note_away(error)
            return None
        self._is_told = False
        return found

    async def leave(self) -> None:
        """Give all shares back; a gateway that stops has none."""
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._has_begun:
                    async with self._pool.acquire() as connection:
                        await connection.execute(_LEAVE, self._gateway)
        except asking.TROUBLE as error:
            self._tell(error)
        self.close()

    async def run(self) -> None:
        """Remove the shares of gateways that are gone, until cancelled."""
        await self.remove_old(
            "DELETE FROM sluice.limit_share s WHERE NOT EXISTS (SELECT FROM sluice.gateway g"
            " WHERE g.gateway = s.gateway AND g.seen_at > now() - make_interval(secs => $1::float8))",
            6 * LEASE_S,
        )
