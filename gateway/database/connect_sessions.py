"""Which Spark has each session of Spark Connect, in PostgreSQL, for all gateways; see `session.routing`.

One statement for each question, so that each is atomic. A gateway that cannot ask opens no session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.database import asking
from gateway.database.migrate import LazyPool
from gateway.database.texts import storable
from gateway.errors import BackendUnavailable
from gateway.model.sparks import BoundSession, ConnectKey

ANSWER_S = 5.0
"""How long a session waits for PostgreSQL."""
CONNECTIONS = 4
KEPT = "7 days"
"""How long a session is remembered of which no gateway has said anything: far longer than Spark keeps one."""
NEVER_OPENED = "1 hour"
"""How long one is remembered that no gateway has seen on its Spark: its client went while it was opened."""
_BIND = """
INSERT INTO sluice.connect_session AS s (user_name, session_id, backend) VALUES ($1, $2, $3)
ON CONFLICT (user_name, session_id) DO UPDATE SET seen_at = now()
RETURNING backend, is_open
"""


class ConnectSessionStore:
    """The table of sessions."""

    def __init__(self, dsn: str) -> None:
        self._pool = LazyPool(dsn, "sluice-connect-sessions", most=CONNECTIONS, timeout_s=ANSWER_S)

    async def find(self, key: ConnectKey) -> BoundSession | None:
        """Return where a session is bound."""
        text = "SELECT backend, is_open FROM sluice.connect_session WHERE user_name = $1 AND session_id = $2"
        rows = await self._ask(text, *_require_storable(key))
        return BoundSession(rows[0]["backend"], rows[0]["is_open"]) if rows else None

    async def bind(self, key: ConnectKey, backend: str) -> BoundSession:
        """Bind a session where nobody has; return where it is bound."""
        rows = await self._ask(_BIND, *_require_storable(key), backend)
        return BoundSession(rows[0]["backend"], rows[0]["is_open"])

    async def confirm(self, key: ConnectKey, backend: str) -> bool:
        """Note that Spark has it; False when it is bound elsewhere, or nowhere."""
        text = (
            "UPDATE sluice.connect_session SET is_open = true, seen_at = now()"
            " WHERE user_name = $1 AND session_id = $2 AND backend = $3 RETURNING true"
        )
        return bool(await self._ask(text, *_require_storable(key), backend))

    async def give_up(self, key: ConnectKey, backend: str) -> bool:
        """Unbind a session that Spark does not have; False when it does, or it is bound elsewhere."""
        text = (
            "DELETE FROM sluice.connect_session WHERE user_name = $1 AND session_id = $2 AND backend = $3"
            " AND NOT is_open RETURNING true"
        )
        return bool(await self._ask(text, *_require_storable(key), backend))

    async def forget(self, key: ConnectKey) -> None:
        """Unbind a session that has ended."""
        text = "DELETE FROM sluice.connect_session WHERE user_name = $1 AND session_id = $2"
        await self._ask(text, *_require_storable(key))

    async def touch(self, keys: Sequence[ConnectKey]) -> None:
        """Note that sessions are there; remove those of long ago."""
        users, sessions = [user for user, _ in keys], [session for _, session in keys]
        await self._ask(
            "UPDATE sluice.connect_session s SET seen_at = now()"
            " FROM unnest($1::text[], $2::text[]) AS asked (user_name, session_id)"
            " WHERE s.user_name = asked.user_name AND s.session_id = asked.session_id",
            users,
            sessions,
        )
        await self._ask(
            "DELETE FROM sluice.connect_session WHERE seen_at < now() - $1::text::interval"
            " OR (NOT is_open AND seen_at < now() - $2::text::interval)",
            KEPT,
            NEVER_OPENED,
        )

    async def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    async def _ask(self, text: str, *arguments: Any) -> Sequence[Any]:
        try:
            async with asyncio.timeout(ANSWER_S):
                async with self._pool.acquire() as connection:
                    rows: Sequence[Any] = await connection.fetch(text, *arguments)
                    return rows
        except asking.TROUBLE as error:
            raise BackendUnavailable(
                "the gateway's database, which knows on which Spark a session is, does not answer; open "
                "sessions go on, try again for a new one",
                where=str(error) or type(error).__name__,
            ) from None


def _require_storable(key: ConnectKey) -> ConnectKey:
    user, session = key
    if storable(user) != user:
        raise BackendUnavailable("the user's name contains a character that the database cannot hold")
    return user, session
