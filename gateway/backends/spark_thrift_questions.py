"""How a Spark behind its Thrift Server reads texts, asked in a session of it; see `OneReading`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.backends.spark_thrift_connection import SparkConnection
from gateway.model.spark_configuration import PROBE_TEXT, parsers_on
from gateway.session.ports import BackendError
from gateway.wire import calls
from gateway.wire.rows import Cell
from gateway.wire.tcli import TSessionHandle

VERSION_INFO = 18
"""`CLI_DBMS_VER`, of GetInfo."""
MAX_SETTINGS = 10_000
ERROR_FORMAT = "spark.sql.error.messageFormat"
WITHOUT_STACKS = ("MINIMAL", "STANDARD")
"""Values of it under which an error has no stack; `PRETTY`, Spark's default, has one."""
_FRAME = re.compile(r"\s*at (?:[^\s/()]*/)*([^\s/()]+)\.[^\s.()]+\((?:[^()]*:(\d+)\))?")


class AskedSession(Protocol):
    """A session of Spark that nobody has yet."""

    @property
    def connection(self) -> SparkConnection: ...

    @property
    def handle(self) -> TSessionHandle: ...

    async def answer(self, sql: str, *, max_rows: int) -> Sequence[tuple[Cell, ...]]: ...

    async def failure_of(self, sql: str) -> BackendError | None: ...


class Questions:
    """Asks one session. Everything raises BackendError for an error of Spark's, and BackendUnavailable."""

    def __init__(self, session: AskedSession) -> None:
        self._session = session

    async def version(self) -> str:
        """Return Spark's version."""
        request = calls.TGetInfoReq(sessionHandle=self._session.handle, infoType=VERSION_INFO)
        reply = await self._session.connection.call("GetInfo", request, calls.TGetInfoResp)
        return reply.infoValue.stringValue or ""

    async def settings(self) -> dict[str, str]:
        """Return the settings that are set in the session."""
        rows = await self._session.answer("SET", max_rows=MAX_SETTINGS)
        if len(rows) >= MAX_SETTINGS:
            raise BackendError("more settings than can be looked at", "54000")
        return {str(row[0]): str(row[1]) for row in rows}

    async def parsers(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        """Return what a text of the session goes through, innermost first; see `parsers_on`."""
        form = settings.get(ERROR_FORMAT, "").upper()
        if form in WITHOUT_STACKS:
            await self._session.answer(f"SET {ERROR_FORMAT}=PRETTY", max_rows=1)
        failure = await self._session.failure_of(PROBE_TEXT)
        message = failure.message if failure is not None else ""
        if form in WITHOUT_STACKS:
            await self._session.answer(f"SET {ERROR_FORMAT}={form}", max_rows=1)
        # What was raised first stands last; what it was wrapped in was raised by the Thrift Server.
        _, _, root = message.rpartition("Caused by: ")
        frames = (found for line in root.splitlines() if (found := _FRAME.match(line)))
        return parsers_on((found[1], int(found[2] or 0)) for found in frames)
