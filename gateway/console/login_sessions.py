"""Who is logged in to the console: sessions in PostgreSQL, which all gateways share.

A browser has a random number of 256 bits as a cookie; the table has its hash alone, so that who reads the
table is nobody. What a form has to send with it is another hash of it, which nothing has to be kept for.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import orjson

from gateway.database.migrate import LazyPool
from gateway.model.principal import Principal

IDLE_S = 1_800.0
"""A session ends after so long without a request."""
LONGEST_S = 36_000.0
"""And after so long in any case."""
SEEN_EVERY_S = 60.0
"""How often the table is told that a session is in use."""
MAX_OF_USER = 20
"""Sessions of one user; the oldest ends for one more."""
MAX_SEEN = 10_000
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """A browser in which somebody is logged in."""

    principal: Principal
    """As of the login."""
    stamp: str
    """What tells the user's entry in the user file from a later one; empty for who is not in it."""
    address: str
    opened_at: datetime
    seen_at: datetime
    key: bytes = b""


Confirm = Callable[[ConsoleSession], Awaitable[Principal | None]]
"""A session → who has it, with what is known of him now; None for who may not log in any more."""


def new_secret() -> str:
    """Return what a cookie holds."""
    return secrets.token_urlsafe(32)


def derive(secret: str, purpose: str) -> str:
    """Return a text that only who knows the secret can make, and that does not give it away."""
    return hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def is_secret(text: str) -> bool:
    """Whether a cookie may be one of ours."""
    return _SECRET.fullmatch(text) is not None


def key_of(secret: str) -> bytes:
    """Return what the table has in place of a cookie."""
    return hashlib.sha256(secret.encode()).digest()


class SessionStore(Protocol):
    """Where sessions are kept. Every method raises OSError, TimeoutError or an error of asyncpg's."""

    async def open(self, key: bytes, principal: Principal, stamp: str, address: str) -> None: ...
    async def find(self, key: bytes) -> ConsoleSession | None: ...
    async def close(self, key: bytes) -> None: ...
    async def list_of(self, user: str) -> list[ConsoleSession]: ...
    async def close_others(self, user: str, key: bytes) -> int:
        """End all sessions of a user but one; return how many."""
        ...


class LoginSessions:
    """The table of sessions."""

    def __init__(self, pool: LazyPool, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    async def open(self, key: bytes, principal: Principal, stamp: str, address: str) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute("DELETE FROM sluice.console_session WHERE ends_at < now()")
            await connection.execute(
                "INSERT INTO sluice.console_session (key, user_name, ends_at, body)"
                " VALUES ($1, $2, now() + make_interval(secs => $3::float8), $4)",
                *(key, principal.user, LONGEST_S, _body(principal, stamp, address)),
            )
            await connection.execute(
                "DELETE FROM sluice.console_session WHERE key IN (SELECT key FROM sluice.console_session"
                " WHERE user_name = $1 ORDER BY opened_at DESC OFFSET $2)",
                *(principal.user, MAX_OF_USER),
            )

    async def find(self, key: bytes) -> ConsoleSession | None:
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(
                "SELECT key, opened_at, seen_at, body FROM sluice.console_session WHERE key = $1"
                " AND ends_at > now() AND seen_at > now() - make_interval(secs => $2::float8)",
                *(key, IDLE_S),
            )
            if row is None:
                return None
            if self._clock() - self._seen.get(key, float("-inf")) > SEEN_EVERY_S:
                await connection.execute(
                    "UPDATE sluice.console_session SET seen_at = now() WHERE key = $1", key
                )
                self._seen[key] = self._clock()
                self._seen.move_to_end(key)
                while len(self._seen) > MAX_SEEN:
                    self._seen.popitem(last=False)
        return _session(row)

    async def close(self, key: bytes) -> None:
        async with self._pool.acquire() as connection:
            await connection.execute("DELETE FROM sluice.console_session WHERE key = $1", key)

    async def list_of(self, user: str) -> list[ConsoleSession]:
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(
                "SELECT key, opened_at, seen_at, body FROM sluice.console_session WHERE user_name = $1"
                " AND ends_at > now() AND seen_at > now() - make_interval(secs => $2::float8)"
                " ORDER BY opened_at DESC",
                *(user, IDLE_S),
            )
        return [_session(row) for row in rows]

    async def close_others(self, user: str, key: bytes) -> int:
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(
                "DELETE FROM sluice.console_session WHERE user_name = $1 AND key <> $2 RETURNING true",
                *(user, key),
            )
        return len(rows)


def _body(principal: Principal, stamp: str, address: str) -> str:
    return orjson.dumps(
        {
            "user": principal.user,
            "groups": sorted(principal.groups),
            "roles": sorted(principal.roles),
            "attributes": principal.attributes,
            "id": principal.id,
            "stamp": stamp,
            "address": address,
        }
    ).decode()


def _session(row: Any) -> ConsoleSession:
    body = orjson.loads(row["body"])
    principal = Principal(
        user=body["user"],
        groups=frozenset(body["groups"]),
        roles=frozenset(body["roles"]),
        attributes=tuple((name, value) for name, value in body["attributes"]),
        id=body["id"],
    )
    return ConsoleSession(
        principal=principal,
        stamp=body["stamp"],
        address=body["address"],
        opened_at=row["opened_at"],
        seen_at=row["seen_at"],
        key=bytes(row["key"]),
    )
