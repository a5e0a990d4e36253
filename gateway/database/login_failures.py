"""Failed logins, counted in PostgreSQL by all gateways of a database: see `frontends.guessing`.

A login waits for PostgreSQL for a moment at most. Where it is away, each gateway goes by what it has counted
itself, and tries again a little later.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gateway.database import asking
from gateway.database.shared_counts import ANSWER_S, SharedCounts

_FIND = (
    "SELECT key, blocks, extract(epoch FROM blocked_until - now())::float8 AS blocked_s"
    " FROM sluice.login_failure WHERE key = ANY($1)"
)
_COUNT = """
INSERT INTO sluice.login_failure AS f (key, since, failures, blocks, blocked_until)
SELECT key, now(), CASE WHEN failed >= most THEN 0 ELSE failed END,
    CASE WHEN failed >= most THEN 1 ELSE 0 END,
    CASE WHEN failed >= most THEN now() + make_interval(secs => least($4::float8, $5::float8))
        ELSE to_timestamp(0) END
FROM unnest($1::bytea[], $2::integer[], $3::integer[]) AS asked (key, most, failed)
ON CONFLICT (key) DO UPDATE SET (since, failures, blocks, blocked_until) = (
    SELECT
        CASE WHEN is_full OR is_old THEN now() ELSE f.since END,
        CASE WHEN is_full THEN 0 ELSE failures END,
        CASE WHEN is_full THEN least(f.blocks + 1, 16) ELSE f.blocks END,
        CASE WHEN is_full THEN now() + make_interval(secs => least($4::float8 * 2 ^ f.blocks, $5::float8))
            ELSE f.blocked_until END
    FROM (
        SELECT is_old, failures, failures >= most AS is_full
        FROM (
            SELECT is_old, CASE WHEN is_old THEN failed ELSE f.failures + failed END AS failures, most
            FROM (SELECT now() - f.since > make_interval(secs => $4::float8) AS is_old) AS aged,
                unnest($1::bytea[], $2::integer[], $3::integer[]) AS asked (key, most, failed)
            WHERE asked.key = f.key
        ) AS counted
    ) AS judged
)
RETURNING key, blocks, extract(epoch FROM blocked_until - now())::float8 AS blocked_s
"""


class CountedFailures(NamedTuple):
    """What all gateways have counted of a key."""

    blocks: int
    blocked_s: float


class FailureLimits(Protocol):
    """How many failures block, and for how long."""

    @property
    def window_s(self) -> float: ...
    @property
    def longest_block_s(self) -> float: ...
    def of(self, key: str) -> int: ...


class LoginFailures(SharedCounts):
    """The table that gateways count in."""

    application = "sluice-login-failures"
    trouble = "login_failures_not_shared"
    clean_s = retry_s = 60.0

    async def find(self, keys: Sequence[str]) -> Mapping[str, CountedFailures]:
        """Return what is counted of keys; nothing while PostgreSQL is away."""
        return await self._ask(keys, _FIND, [_hash(one) for one in keys])

    async def count(
        self, failures: Mapping[str, int], limits: FailureLimits
    ) -> Mapping[str, CountedFailures]:
        """Count so many failures of each key."""
        # In one order everywhere: two gateways must not wait for each other's rows.
        keys = sorted(failures, key=_hash)
        hashes, bounds = [_hash(one) for one in keys], [limits.of(one) for one in keys]
        failed = [failures[one] for one in keys]
        return await self._ask(keys, _COUNT, hashes, bounds, failed, limits.window_s, limits.longest_block_s)

    async def clear(self, keys: Sequence[str]) -> None:
        """Forget what was counted of keys."""
        hashes = [_hash(one) for one in keys]
        await self._ask(keys, "DELETE FROM sluice.login_failure WHERE key = ANY($1)", hashes)

    async def run(self, longest_s: float) -> None:
        """Remove what nobody counts by any more, until cancelled."""
        await self.remove_old(
            "DELETE FROM sluice.login_failure WHERE since < now() - make_interval(secs => $1::float8)",
            2 * longest_s,
        )

    async def _ask(self, keys: Sequence[str], *asked: Any) -> Mapping[str, CountedFailures]:
        if self.is_away:
            return {}
        try:
            async with asyncio.timeout(ANSWER_S), self._pool.acquire() as connection:
                rows = await connection.fetch(*asked)
        except asking.TROUBLE as error:
            self._note_away(error)
            return {}
        self._is_told = False
        names = {_hash(one): one for one in keys}
        return {names[row["key"]]: CountedFailures(row["blocks"], row["blocked_s"]) for row in rows}


def _hash(key: str) -> bytes:
    """Return what stands for a key: who reads the table learns no names, and people type passwords as
    names."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
