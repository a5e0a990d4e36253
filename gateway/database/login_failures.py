"""Failed logins, counted in PostgreSQL by all gateways of a database: see `frontends.guessing`.

A login waits for PostgreSQL for a moment at most. Where it is away, each gateway goes by what it has counted
itself, and tries again a little later.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import structlog

from gateway.database import asking
from gateway.database.connections import open_connection, open_pool
from gateway.database.migrate import migrate

_log = structlog.get_logger(__name__)

ANSWER_S = 1.0
"""How long a login waits for PostgreSQL."""
AWAY_S = 5.0
"""For how long it is not asked again after it did not answer."""
CONNECTIONS = 2
CLEAN_S = 60.0
_FIND = (
    "SELECT key, blocks, extract(epoch FROM blocked_until - now())::float8 AS blocked_s"
    " FROM sluice.login_failure WHERE key = ANY($1)"
)
_COUNT = """
INSERT INTO sluice.login_failure AS f (key, since, failures, blocks, blocked_until)
SELECT key, now(), CASE WHEN most <= 1 THEN 0 ELSE 1 END, CASE WHEN most <= 1 THEN 1 ELSE 0 END,
    CASE WHEN most <= 1 THEN now() + make_interval(secs => least($3::float8, $4::float8))
        ELSE to_timestamp(0) END
FROM unnest($1::bytea[], $2::integer[]) AS asked (key, most)
ON CONFLICT (key) DO UPDATE SET (since, failures, blocks, blocked_until) = (
    SELECT
        CASE WHEN is_full OR is_old THEN now() ELSE f.since END,
        CASE WHEN is_full THEN 0 ELSE failures END,
        CASE WHEN is_full THEN least(f.blocks + 1, 16) ELSE f.blocks END,
        CASE WHEN is_full THEN now() + make_interval(secs => least($3::float8 * 2 ^ f.blocks, $4::float8))
            ELSE f.blocked_until END
    FROM (
        SELECT is_old, failures, failures >= most AS is_full
        FROM (
            SELECT is_old, CASE WHEN is_old THEN 1 ELSE f.failures + 1 END AS failures, most
            FROM (SELECT now() - f.since > make_interval(secs => $3::float8) AS is_old) AS aged,
                unnest($1::bytea[], $2::integer[]) AS asked (key, most)
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


class LoginFailures:
    """The table that gateways count in."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._away_until = float("-inf")
        self._is_told = False

    async def find(self, keys: Sequence[str]) -> Mapping[str, CountedFailures]:
        """Return what is counted of keys; nothing while PostgreSQL is away."""
        return await self._ask(keys, _FIND, [_hash(one) for one in keys])

    async def count(self, keys: Sequence[str], limits: FailureLimits) -> Mapping[str, CountedFailures]:
        """Count a failure of each key."""
        most = [limits.of(one) for one in keys]
        # In one order everywhere: two gateways must not wait for each other's rows.
        ordered = sorted(zip((_hash(one) for one in keys), most, strict=True))
        hashes, bounds = [one for one, _ in ordered], [one for _, one in ordered]
        return await self._ask(keys, _COUNT, hashes, bounds, limits.window_s, limits.longest_block_s)

    async def clear(self, keys: Sequence[str]) -> None:
        """Forget what was counted of keys."""
        hashes = [_hash(one) for one in keys]
        await self._ask(keys, "DELETE FROM sluice.login_failure WHERE key = ANY($1)", hashes)

    async def run(self, longest_s: float) -> None:
        """Remove what nobody counts by any more, until cancelled."""
        while True:
            try:
                connection = await open_connection(self._dsn, "sluice-login-failures", command_s=10.0)
                try:
                    await migrate(connection)
                    await connection.execute(
                        "DELETE FROM sluice.login_failure"
                        " WHERE since < now() - make_interval(secs => $1::float8)",
                        2 * longest_s,
                    )
                finally:
                    connection.terminate()
            except asking.TROUBLE as error:
                self._tell(error)
            await asyncio.sleep(CLEAN_S)

    def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.terminate()

    async def _ask(self, keys: Sequence[str], *asked: Any) -> Mapping[str, CountedFailures]:
        if time.monotonic() < self._away_until:
            return {}
        try:
            async with asyncio.timeout(ANSWER_S):
                rows = await (await self._connected()).fetch(*asked)
        except asking.TROUBLE as error:
            self._away_until = time.monotonic() + AWAY_S
            self._tell(error)
            return {}
        self._is_told = False
        names = {_hash(one): one for one in keys}
        return {names[row["key"]]: CountedFailures(row["blocks"], row["blocked_s"]) for row in rows}

    async def _connected(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await open_pool(
                    self._dsn, "sluice-login-failures", most=CONNECTIONS, timeout_s=ANSWER_S
                )
        return self._pool

    def _tell(self, error: Exception) -> None:
        if not self._is_told:
            _log.warning("login_failures_not_shared", error=str(error) or type(error).__name__)
        self._is_told = True


def _hash(key: str) -> bytes:
    """Return what stands for a key: who reads the table learns no names, and people type passwords as
    names."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
