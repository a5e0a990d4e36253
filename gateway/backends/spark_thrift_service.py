"""Sessions of Spark under the gateway's own name, for statements that the gateway wrote itself.

No text of a user ever comes here: what the catalog asks, and `sluice catalogs` changes, are fixed templates
around quoted names. Texts of policies come here to be described, and are not run (`app/text_analysis.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from gateway.backends.spark_thrift import SparkThriftBackend, SparkThriftSession
from gateway.errors import BackendUnavailable
from gateway.model.principal import Principal
from gateway.session.ports import BackendError, ask_as_gateway
from gateway.wire.rows import Cell
from gateway.wire.tcli import TProtocolVersion

LOOKING_SETTINGS: Mapping[str, str] = {
    # Files are looked at by their names and sizes, not read: ten thousand of them in two tasks, not in 312.
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    # Nor is it asked where in the cluster they lie.
    "spark.sql.sources.ignoreDataLocality": "true",
    # A table of files with `day=1/…` reads what lies there. Else Spark reads the partitions that its catalog
    # has of it, which are none.
    "spark.sql.hive.manageFilesourcePartitions": "false",
    # Types are told whole: of a structure with more fields than this, 25 by itself, DESCRIBE says how many
    # more there are.
    "spark.sql.debug.maxToStringFields": "100000",
}
"""What sessions of the gateway's own are set to."""

OF_FUNCTIONS = "DESCRIBE FUNCTION "
"""What such a question begins with: a session tells of a function for ever what it was told of it first."""

_IdleSession = tuple[SparkThriftSession, Mapping[str, int]]
"""A session, and the catalogs that it was told of at most as they were before it was opened."""


class SparkThriftService:
    """A few sessions that are opened when needed and kept; a lost one is replaced."""

    def __init__(
        self,
        backend: SparkThriftBackend,
        *,
        user: str = "sluice",
        sessions: int = 4,
        max_rows: int = 100_000,
        session_catalogs: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`session_catalogs`: catalogs that come and go, as Spark is told of them now. A session keeps
        those it was told of, and serves for as long as they stay the same."""
        self._session_catalogs = session_catalogs
        self._backend = backend
        self._principal = Principal(user=user)
        self._slots = asyncio.Semaphore(sessions)
        self._idle: list[_IdleSession] = []
        self._max_rows = max_rows
        self._closed = False

    async def query(self, sql: str, before: str = "", after: str = "") -> Sequence[tuple[Cell, ...]]:
        """Run one statement and return its rows; `before` and `after` it others in its session.

        Raises BackendError when Spark refuses it, BackendUnavailable when Spark is gone or the answer is
        longer than `max_rows`.
        """
        async with self._slots:
            if sql.startswith(OF_FUNCTIONS):
                rows = await self._in_a_new_session(sql)
            else:
                rows = await self._on(await self._session(), sql, before, after)
        if len(rows) > self._max_rows:
            raise BackendUnavailable(f"a response from Spark's catalog has more than {self._max_rows} rows")
        return rows

    async def close(self) -> None:
        """Close the idle sessions; one that is still at work is closed when it is done."""
        self._closed = True
        while self._idle:
            await self._idle.pop()[0].close()

    async def _session(self) -> _IdleSession:
        while self._idle:
            session, told = self._idle.pop()
            if not session.alive:
                continue
            if told == self._session_catalogs():
                return session, told
            await session.close()
        return await self._open()

    async def _in_a_new_session(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        opened = await self._open()
        try:
            return await opened[0].answer(sql, max_rows=self._max_rows + 1)
        finally:
            await opened[0].close()

    async def _open(self) -> _IdleSession:
        told = dict(self._session_catalogs())
        with ask_as_gateway():
            session = await self._backend.open_session(
                self._principal, protocol_version=TProtocolVersion.V10, settings=dict(LOOKING_SETTINGS)
            )
        return session, told

    async def _on(
        self, opened: _IdleSession, sql: str, before: str, after: str
    ) -> Sequence[tuple[Cell, ...]]:
        session = opened[0]
        try:
            if before:
                await session.answer(before, max_rows=1)
            try:
                rows = await session.answer(sql, max_rows=self._max_rows + 1)
            finally:
                if after:
                    await session.answer(after, max_rows=1)
        except BackendError:
            self._keep(opened)
            raise
        except BaseException:
            # Cancelled, or the connection is lost: what the session does now is not known.
            session.connection.abort()
            raise
        self._keep(opened)
        return rows

    def _keep(self, opened: _IdleSession) -> None:
        if self._closed:
            opened[0].connection.abort()
        elif opened[0].alive:
            self._idle.append(opened)
