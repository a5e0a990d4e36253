"""Sessions of Spark under the gateway's own name, for statements that the gateway wrote itself.

No text of a user ever comes here: the catalog's look-ups are fixed templates around quoted names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.backends.spark_thrift import SparkThriftBackend, SparkThriftSession
from gateway.errors import BackendUnavailable
from gateway.model.principal import Principal
from gateway.session.ports import BackendError
from gateway.wire.rows import Cell
from gateway.wire.tcli import TProtocolVersion


class SparkThriftService:
    """A few sessions that are opened when needed and kept; a lost one is replaced."""

    def __init__(
        self, backend: SparkThriftBackend, *, user: str = "sluice", sessions: int = 4, max_rows: int = 100_000
    ) -> None:
        self._backend = backend
        self._principal = Principal(user=user)
        self._slots = asyncio.Semaphore(sessions)
        self._idle: list[SparkThriftSession] = []
        self._max_rows = max_rows
        self._closed = False

    async def query(self, sql: str, before: str = "", after: str = "") -> Sequence[tuple[Cell, ...]]:
        """Run one reading statement and return its rows; `before` and `after` it others in its session.

        Raises BackendError when Spark refuses it, BackendUnavailable when Spark is gone or the answer is
        longer than `max_rows`.
        """
        async with self._slots:
            rows = await self._on(await self._session(), sql, before, after)
        if len(rows) > self._max_rows:
            raise BackendUnavailable(f"an answer of Spark's catalog has more than {self._max_rows} rows")
        return rows

    async def close(self) -> None:
        """Close the idle sessions; one that is still at work is closed when it is done."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def _session(self) -> SparkThriftSession:
        while self._idle:
            session = self._idle.pop()
            if session.alive:
                return session
        return await self._backend.open_session(
            self._principal, protocol_version=TProtocolVersion.V10, settings={}
        )

    async def _on(
        self, session: SparkThriftSession, sql: str, before: str, after: str
    ) -> Sequence[tuple[Cell, ...]]:
        try:
            if before:
                await session.answer(before, max_rows=1)
            try:
                rows = await session.answer(sql, max_rows=self._max_rows + 1)
            finally:
                if after:
                    await session.answer(after, max_rows=1)
        except BackendError:
            self._keep(session)
            raise
        except BaseException:
            # Cancelled, or the connection is lost: what the session does now is not known.
            session.connection.abort()
            raise
        self._keep(session)
        return rows

    def _keep(self, session: SparkThriftSession) -> None:
        if self._closed:
            session.connection.abort()
        elif session.alive:
            self._idle.append(session)
