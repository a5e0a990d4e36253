"""The gateway's own conversation with Spark: catalog look-ups and the check of its version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.backends.spark_thrift import SparkThriftBackend, SparkThriftSession
from gateway.errors import BackendUnavailable, Faults
from gateway.model.principal import Principal
from gateway.session.ports import BackendError
from gateway.wire.tcli import TProtocolVersion

OWN_USER = "sluice"
"""Who Spark is told that the gateway is when it asks for itself."""

MAX_ROWS = 100_000
"""Rows of one answer; a database with more tables than that cannot be listed."""


class OwnQueries:
    """Runs the gateway's own statements, in sessions that are kept for the next ones."""

    def __init__(self, backend: SparkThriftBackend) -> None:
        self._backend = backend
        self._idle: list[SparkThriftSession] = []
        self._closed = False

    async def __call__(self, sql: str) -> Sequence[Sequence[Any]]:
        """Return the statement's rows. Raises BackendError when Spark refuses it, else BackendUnavailable."""
        session = await self._session()
        try:
            rows = await session.answer(sql, max_rows=MAX_ROWS)
        except BackendError:
            self._keep(session)
            raise
        except BaseException:
            # Cancelled, or the connection is lost: what the session does now is not known.
            session.connection.abort()
            raise
        self._keep(session)
        return rows

    async def close(self) -> None:
        """Close the sessions that are idle; those at work are closed when they are done."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def _session(self) -> SparkThriftSession:
        while self._idle:
            session = self._idle.pop()
            if session.alive:
                return session
        return await self._backend.open_session(
            Principal(user=OWN_USER), protocol_version=TProtocolVersion.V10, settings={}
        )

    def _keep(self, session: SparkThriftSession) -> None:
        if session.alive and not self._closed:
            self._idle.append(session)
        else:
            session.connection.abort()


async def check_version(query: OwnQueries, parser: str) -> str:
    """Return Spark's version. Raises Faults unless it is the parser's minor version."""
    try:
        rows = await query("SELECT version()")
    except BackendError as error:
        raise BackendUnavailable("Spark does not tell its version") from error
    told = str(rows[0][0]).split()[0] if rows and rows[0] else ""
    if told.split(".")[:2] != parser.split(".")[:2]:
        raise Faults(
            [
                f"Spark is version {told or 'unknown'}, but the parser is {parser}: a proof by another minor "
                "version says nothing; set `reader.spark_home` to a Spark of the backend's version"
            ]
        )
    return told
