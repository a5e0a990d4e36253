"""How a Spark behind its Thrift Server reads texts, asked in a session of it; see `OneReading`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.backends.spark_thrift_connection import SparkConnection
from gateway.model.spark_configuration import PROBE_TEXT, parsers_on
from gateway.session.ports import BackendError
from gateway.wire import calls
from gateway.wire.rows import Cell, decode_rows
from gateway.wire.tcli import TSessionHandle
from gateway.wire.thrift import Struct

VERSION_INFO = 18
"""`CLI_DBMS_VER`, of GetInfo."""
MAX_SETTINGS = 10_000
MAX_FUNCTIONS = 10_000
ROWS_AT_ONCE = 10_000
_NAME = re.compile(r"[A-Za-z0-9_]{1,255}")
"""Names that are patterns of themselves, and of little else."""
_DECLARED = re.compile(r"(?:var)?char\(\d{1,9}\)|(?:array|map|struct)<.*>", re.DOTALL | re.IGNORECASE)
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
"""Where the classes of built-in functions are, and of no other."""
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
            raise BackendError("too many settings to check", "54000")
        return {str(row[0]): str(row[1]) for row in rows}

    async def describe_functions(self) -> dict[str, tuple[str, str]]:
        """Return remarks and class of each built-in function, by its name.

        Spark lists them with those of a database; of what others have made there nothing is told.
        """
        request = calls.TGetFunctionsReq(
            sessionHandle=self._session.handle, schemaName="default", functionName="%"
        )
        found: dict[str, tuple[str, str]] = {}
        for row in await self._metadata("GetFunctions", request, calls.TGetFunctionsResp, MAX_FUNCTIONS):
            name, remarks, made_by = str(row[2]).lower(), str(row[3]), str(row[5])
            if made_by.startswith(EXPRESSIONS):
                found[name] = (remarks, made_by)
        return found

    async def read_declared_types(
        self, database: str, table: str | None, max_rows: int
    ) -> dict[tuple[str, str], str]:
        """Return the types of columns that are, or may hold, texts of a length, by table and column in lower
        case.

        Spark takes patterns: of what it lists beside the names that were asked for nothing is told.
        """
        if not (_NAME.fullmatch(database) and _NAME.fullmatch(table or "a")):
            return {}
        request = calls.TGetColumnsReq(
            sessionHandle=self._session.handle, schemaName=database, tableName=table or "%", columnName="%"
        )
        found: dict[tuple[str, str], str] = {}
        for row in await self._metadata("GetColumns", request, calls.TGetColumnsResp, max_rows):
            schema, name, column = (str(row[index]).lower() for index in (1, 2, 3))
            if schema == database.lower() and _DECLARED.fullmatch(str(row[5])):
                found[name, column] = str(row[5])
        return found

    async def _metadata(
        self, method: str, request: Struct, response: type[calls.OperationReply], max_rows: int
    ) -> Sequence[tuple[Cell, ...]]:
        """Return the rows of a metadata call of Spark's, at most so many."""
        connection = self._session.connection
        opened = await connection.call(method, request, response)
        if opened.operationHandle is None:
            raise BackendError("Spark started no operation", "HY000")
        rows: list[tuple[Cell, ...]] = []
        while len(rows) < max_rows:
            wanted = calls.TFetchResultsReq(
                operationHandle=opened.operationHandle, maxRows=min(ROWS_AT_ONCE, max_rows - len(rows))
            )
            reply = await connection.call("FetchResults", wanted, calls.TFetchResultsResp)
            batch = decode_rows(reply.results) if reply.results is not None else []
            if not batch:
                break
            rows += batch
        close = calls.TCloseOperationReq(operationHandle=opened.operationHandle)
        await connection.call("CloseOperation", close, calls.TCloseOperationResp)
        return rows

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


class AskingSession:
    """What a client's session asks for it that only Spark knows."""

    async def describe_functions(self: AskedSession) -> Mapping[str, tuple[str, str]]:
        return await Questions(self).describe_functions()

    async def read_declared_types(
        self: AskedSession, database: str, table: str | None, *, max_rows: int
    ) -> Mapping[tuple[str, str], str]:
        return await Questions(self).read_declared_types(database, table, max_rows)
