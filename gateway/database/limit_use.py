"""What users have used of budgets of an hour or a day, counted by all gateways of a PostgreSQL: see
`session.budgets`.

Each run of a gateway writes what it has counted itself, whole and not as an addition, so that nothing counts
twice that is sent twice; what counts is the sum over all runs. A statement waits for PostgreSQL for a moment
at most, and only the first one of a user.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from gateway.database import asking
from gateway.database.shared_counts import ANSWER_S, AWAY_S, SharedCounts

KEPT_S = 2 * 86_400
"""For how long it is kept what was used."""
MAX_KEYS = 2000
"""Budgets that one question tells and asks."""
_EXCHANGE = """
WITH told AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::float8[])
        AS told (limit_name, subject, measure, start, used)
), written AS (
    INSERT INTO sluice.limit_use AS u (run, limit_name, subject, measure, start, used)
    SELECT $1::uuid, limit_name, subject, measure, start, used FROM told WHERE used > 0
    ON CONFLICT (limit_name, subject, measure, start, run)
        DO UPDATE SET used = greatest(u.used, excluded.used)
)
SELECT u.limit_name, u.subject, u.measure, u.start, sum(u.used)::float8 AS used
FROM sluice.limit_use u JOIN told USING (limit_name, subject, measure, start)
WHERE u.run <> $1::uuid
GROUP BY u.limit_name, u.subject, u.measure, u.start
"""


class BudgetKey(Protocol):
    """What is counted of a budget in one hour or day."""

    @property
    def limit(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def measure(self) -> str: ...
    @property
    def start(self) -> int: ...


class CountedUse(NamedTuple):
    """What other runs have counted, and PostgreSQL's time."""

    others: Mapping[Any, float]
    now_s: float


class LimitUse(SharedCounts):
    """The table that gateways count in."""

    application = "sluice-limit-use"
    trouble = "limit_use_not_shared"
    clean_s = 600.0
    retry_s = AWAY_S

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._run = uuid.uuid4()

    async def exchange(self, mine: Mapping[Any, float]) -> CountedUse | None:
        """Tell what this run has counted, by BudgetKey, and return what others have; None while PostgreSQL is
        away."""
        if self.is_away:
            return None
        # In one order everywhere: two gateways must not wait for each other's rows.
        keys = sorted(mine)
        others: dict[Any, float] = {}
        now_s = 0.0
        try:
            for at in range(0, len(keys), MAX_KEYS):
                now_s = await self._exchange(keys[at : at + MAX_KEYS], mine, others)
        except asking.TROUBLE as error:
            self._note_away(error)
            return None
        self._is_told = False
        return CountedUse(others, now_s)

    async def run(self) -> None:
        """Remove what nobody counts by any more, until cancelled."""
        await self.remove_old(
            "DELETE FROM sluice.limit_use WHERE start < extract(epoch FROM now()) - $1::bigint", KEPT_S
        )

    async def _exchange(self, keys: list[Any], mine: Mapping[Any, float], others: dict[Any, float]) -> float:
        """Tell our use and take that of others; return PostgreSQL's time. Raises TimeoutError."""
        columns = [
            [one.limit for one in keys],
            [one.subject for one in keys],
            [one.measure for one in keys],
            [one.start for one in keys],
            [mine[one] for one in keys],
        ]
        by_key = {(one.limit, one.subject, one.measure, one.start): one for one in keys}
        async with asyncio.timeout(ANSWER_S), self._pool.acquire() as connection:
            for row in await connection.fetch(_EXCHANGE, self._run, *columns):
                others[by_key[row["limit_name"], row["subject"], row["measure"], row["start"]]] = row["used"]
            return float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8"))
