"""A HiveServer2 without a Spark: answers from a script, records what it is sent, misbehaves on demand.

    async with FakeHiveServer() as server:
        server.on("SELECT 1", Answer.of([("1", TTypeId.INT)], [(1,)]))
        server.on(re.compile("DESCRIBE .*"), Answer.error("42P01", "[TABLE_OR_VIEW_NOT_FOUND] …"))
        server.misbehave("FetchResults", Cut(after=10))
        ... connect to server.host, server.port ...
        assert server.statements == [Received("alice", "SELECT 1", 0)]

It keeps to what Spark 4.3 does: handles are bearer tokens, a session ends with its connection,
GetOperationStatus polls for a while, `hasMoreRows` is false and an empty batch is the end, DDL has a schema
of one column and batches of none. What the gateway asks of every session before it gives it to anybody
(version, settings, parsers) is answered as by a Spark 4.3 without extensions and kept out of `statements` and
`calls`; `version`, `settings` and `parsers` change the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from gateway.model.credentials import Password, UnreadableLogin
from gateway.model.spark_configuration import CALLERS, PARSER, PARSER_CLASSES, PROBE_TEXT
from gateway.wire import calls, messages, tcli
from gateway.wire.frames import FrameSplitter, frame
from gateway.wire.rows import ColumnSpec, column_types, encode_rows, table_schema
from gateway.wire.sasl import HandshakeRefused, SaslServer, SaslToken
from gateway.wire.tcli import TOperationState, TStatusCode, TTypeId
from gateway.wire.thrift import Struct
from tests.speed import patience

SUCCESS = tcli.TStatus(statusCode=TStatusCode.SUCCESS)


@dataclass(frozen=True)
class Received:
    """A statement as it arrived: under whose session, and with which timeout."""

    user: str
    text: str
    timeout_s: int = 0


@dataclass(frozen=True)
class Opened:
    """A session that was opened."""

    user: str
    protocol: int
    configuration: dict[str, str]
    claimed_user: str | None = None


@dataclass
class Answer:
    """What a statement comes to."""

    columns: Sequence[ColumnSpec] = ()
    rows: Sequence[Sequence[Any]] = ()
    sqlstate: str = ""
    message: str = ""
    sync_error: bool = False
    """Whether ExecuteStatement itself fails, and not the operation later."""
    fetch_error: bool = False
    """Whether only FetchResults fails."""
    until: asyncio.Event | None = None
    """The statement runs until this is set."""

    @classmethod
    def of(cls, columns: Sequence[tuple[str, TTypeId]], rows: Sequence[Sequence[Any]], **more: Any) -> Answer:
        return cls(columns=[ColumnSpec(*column) for column in columns], rows=rows, **more)

    @classmethod
    def text(cls, *rows: Sequence[Any]) -> Answer:
        """Rows of strings; the columns are called c0, c1, …"""
        width = len(rows[0]) if rows else 1
        return cls.of([(f"c{i}", TTypeId.STRING) for i in range(width)], rows)

    @classmethod
    def error(cls, sqlstate: str, message: str, *, sync: bool = False) -> Answer:
        return cls(sqlstate=sqlstate, message=message, sync_error=sync)

    @classmethod
    def done(cls) -> Answer:
        """What DDL answers: a schema with one column, batches without any."""
        return cls.of([("Result", TTypeId.STRING)], [])


# -- misbehaviour --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Close the connection after so many bytes of the reply, one before its end at most."""

    after: int = 0


@dataclass(frozen=True)
class Dribble:
    """Send the reply in chunks of so many bytes."""

    chunk: int = 1


@dataclass(frozen=True)
class Garbage:
    """Send these bytes instead of the reply."""

    data: bytes


@dataclass(frozen=True)
class Silence:
    """Never answer."""


@dataclass(frozen=True)
class Refuse:
    """Answer with an error status, or below the service with a TApplicationException."""

    sqlstate: str = "HY000"
    message: str = "refused"
    application_exception: bool = False


Fault = Cut | Dribble | Garbage | Silence | Refuse

LOGIN = "login"
"""Name of the handshake for `misbehave`."""
ASKED = "asked"
"""Name, for `misbehave`, of every call that asks how Spark is configured."""


@dataclass
class _Operation:
    handle: tcli.TOperationHandle
    answer: Answer
    position: int = 0
    start: int = 0
    state: TOperationState = TOperationState.RUNNING
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    described_too_early: bool = False
    """Whether the columns were asked for before the statement was analysed: Spark keeps what it told then."""

    def end(self, state: TOperationState) -> None:
        if self.state is TOperationState.RUNNING:
            self.state = state
            self.ended.set()


@dataclass
class _Session:
    user: str
    protocol: int
    settings: dict[str, str] = field(default_factory=dict)
    operations: dict[bytes, _Operation] = field(default_factory=dict)
    waiting: list[asyncio.Task[None]] = field(default_factory=list)


class FakeHiveServer:
    """See the module's docstring. `long_poll_s` is Spark's 5 s, made short."""

    def __init__(self, *, long_poll_s: float = 0.2, password: str | None = None) -> None:
        self.host = "127.0.0.1"
        self.port = 0
        self.statements: list[Received] = []
        self.opened: list[Opened] = []
        self.logins: list[Password] = []
        self.calls: list[str] = []
        self.canceled: list[str] = []
        self.asked: list[str] = []
        """What was asked of Spark's configuration: `version`, `SET`, the text that no parser takes."""
        self.version = "4.3.0"
        self.settings: dict[str, str] = {"spark.app.id": "local-1", "spark.app.startTime": "1"}
        """What Spark was started with."""
        self.parsers: list[str] = [PARSER, *sorted(PARSER_CLASSES - {PARSER})]
        """The innermost first."""
        self.connections = 0
        """Connections that are open now."""
        self.connections_ever = 0
        self.changed = asyncio.Condition()
        """Notified after every call and connection; see `until`."""
        self._long_poll_s = long_poll_s
        self._password = password
        self._script: list[tuple[str | re.Pattern[str], Answer | Callable[[str], Answer]]] = []
        self._faults: dict[str, list[Fault]] = {}
        self._sessions: dict[bytes, _Session] = {}
        self._asking: set[bytes] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- script ----------------------------------------------------------------------------------------------

    def on(self, statement: str | re.Pattern[str], answer: Answer | Callable[[str], Answer]) -> None:
        """Answer a statement (exact, or a pattern that matches all of it); the latest script wins."""
        self._script.insert(0, (statement, answer))

    def misbehave(self, method: str, *faults: Fault) -> None:
        """Let the next replies to `method` go wrong, one fault each; Dribble stays until replaced."""
        self._faults[method] = list(faults)

    @property
    def sessions(self) -> int:
        """Sessions that are open now."""
        return len(self._sessions)

    def texts(self) -> list[str]:
        """The statements received, without who sent them."""
        return [received.text for received in self.statements]

    async def until(self, holds: Callable[[], bool], quiet_s: float = 120.0) -> None:
        """Wait until `holds`, which is looked at after every call and every change of a connection."""
        async with asyncio.timeout(patience(quiet_s)), self.changed:
            await self.changed.wait_for(holds)

    # -- life ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; after `stop` on the same port as before."""
        self._server = await asyncio.start_server(self._connected, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Drop everything, as a Spark that is killed does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.drop()
        self._sessions.clear()

    async def drop(self) -> None:
        """Cut every connection."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.connections_ever += 1
        await self._notify()
        own: list[bytes] = []
        try:
            user = await self._login(reader, writer)
            if user is not None:
                await self._converse(user, reader, writer, own)
        except (ConnectionError, _CutShort):
            pass
        finally:
            for guid in own:
                self._end_session(guid)
            writer.transport.abort()
            self.connections -= 1
            with contextlib.suppress(asyncio.CancelledError):
                await self._notify()

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    # -- protocol --------------------------------------------------------------------------------------------

    async def _login(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str | None:
        sasl = SaslServer()
        claimed: Password | UnreadableLogin | SaslToken | HandshakeRefused | None = None
        while claimed is None:
            chunk = await reader.read(65536)
            if not chunk:
                return None
            claimed = sasl.receive(chunk)
        if isinstance(claimed, UnreadableLogin):
            claimed = sasl.refuse(claimed.reason)
        if isinstance(claimed, HandshakeRefused):
            writer.write(claimed.reply)
            return None
        assert isinstance(claimed, Password)
        self.logins.append(claimed)
        # Spark's PLAIN refuses an empty password whatever the authenticator.
        if not claimed.password or self._password not in (None, claimed.password):
            writer.write(sasl.refuse("Error validating the login").reply)
            await writer.drain()
            return None
        reply, _ = sasl.accept()
        fault = self._fault(LOGIN)
        if isinstance(fault, Refuse):
            reply = b"\x03\x00\x00\x00\x02no"
        await self._send(writer, reply, fault)
        return claimed.user

    async def _converse(
        self, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: list[bytes]
    ) -> None:
        splitter = FrameSplitter(64 << 20)
        while chunk := await reader.read(1 << 18):
            for data in splitter.feed(chunk):
                header = messages.decode_message(data)
                asked = self._asks(header, data)
                if not asked:
                    self.calls.append(header.method)
                await self._notify()
                fault = self._fault(ASKED if asked else header.method)
                reply = await self._reply(user, header, data, fault, own)
                await self._send(writer, frame(reply), fault)

    async def _reply(
        self, user: str, header: messages.Message, data: bytes, fault: Fault | None, own: list[bytes]
    ) -> bytes:
        if header.method not in calls.METHODS:
            text = f"Invalid method name: '{header.method}'"
            return messages.encode_exception(header.method, header.seqid, 1, text)
        if isinstance(fault, Refuse) and fault.application_exception:
            return messages.encode_exception(header.method, header.seqid, 6, fault.message)
        response_type = calls.METHODS[header.method][1]
        try:
            if isinstance(fault, Refuse):
                raise _Failed(fault.sqlstate, fault.message)
            response = await self._answer(user, messages.decode_request(data, header), own)
        except _Failed as failed:
            status = tcli.TStatus(
                statusCode=TStatusCode.ERROR,
                sqlState=failed.sqlstate,
                errorCode=0,
                errorMessage=failed.message,
                infoMessages=[
                    f"*org.apache.hive.service.cli.HiveSQLException:{failed.message}:1:1",
                    "at org.apache.spark.Fake:1",
                ],
            )
            response = response_type(status=status)
        return messages.encode_reply(header.method, header.seqid, response)

    def _asks(self, header: messages.Message, data: bytes) -> bool:
        """Whether a call asks how Spark is configured."""
        if header.method not in calls.METHODS:
            return False
        request = messages.decode_request(data, header)
        if isinstance(request, calls.TExecuteStatementReq):
            return request.statement in ("SET", PROBE_TEXT)
        if isinstance(request, calls.TGetInfoReq):
            return True
        handle = getattr(request, "operationHandle", None)
        return handle is not None and handle.operationId.guid in self._asking

    def _configuration_answer(self, session: _Session, text: str) -> Answer:
        self.asked.append(text)
        if text == "SET":
            return Answer.text(*sorted({**self.settings, **session.settings}.items()))
        frames = "".join(f"\tat {name}.parse(Some.scala:1)\n" for name in [*self.parsers, *sorted(CALLERS)])
        wrapped = "HiveSQLException: Error running query\n\tat org.apache.spark.Wrapper.run(W.scala:1)\n"
        return Answer.error("42601", f"{wrapped}Caused by: ParseException: [PARSE_SYNTAX_ERROR]\n{frames}")

    async def _send(self, writer: asyncio.StreamWriter, data: bytes, fault: Fault | None) -> None:
        match fault:
            case Silence():
                await asyncio.Event().wait()
            case Cut(after):
                writer.write(data[: min(after, len(data) - 1)])
                await writer.drain()
                raise _CutShort
            case Garbage(garbage):
                writer.write(garbage)
            case Dribble(chunk):
                for at in range(0, len(data), chunk):
                    writer.write(data[at : at + chunk])
                    await writer.drain()
                    await asyncio.sleep(0)
            case _:
                writer.write(data)
        await writer.drain()

    def _fault(self, method: str) -> Fault | None:
        faults = self._faults.get(method)
        if not faults:
            return None
        return faults[0] if isinstance(faults[0], Dribble) else faults.pop(0)

    # -- service ---------------------------------------------------------------------------------------------

    async def _answer(self, user: str, request: Struct, own: list[bytes]) -> Struct:
        match request:
            case calls.TOpenSessionReq():
                return self._open_session(user, request, own)
            case calls.TCloseSessionReq():
                guid = request.sessionHandle.sessionId.guid
                self._session(request.sessionHandle)
                self._end_session(guid)
                return calls.TCloseSessionResp(status=SUCCESS)
            case calls.TExecuteStatementReq():
                return await self._execute(request)
            case calls.TGetInfoReq():
                self._session(request.sessionHandle)
                self.asked.append("version")
                value = calls.TGetInfoValue(stringValue=self.version)
                return calls.TGetInfoResp(status=SUCCESS, infoValue=value)
            case calls.TGetOperationStatusReq():
                return await self._status(request)
            case calls.TGetResultSetMetadataReq():
                operation = self._operation(request.operationHandle)
                operation.described_too_early |= not operation.ended.is_set()
                columns = operation.answer.columns
                if operation.described_too_early:
                    columns = Answer.done().columns
                schema = table_schema(columns, first_position=0)
                return calls.TGetResultSetMetadataResp(status=SUCCESS, schema=schema)
            case calls.TFetchResultsReq():
                return self._fetch(request)
            case calls.TCancelOperationReq():
                operation = self._operation(request.operationHandle)
                self.canceled.append(operation.handle.operationId.guid.hex())
                operation.end(TOperationState.CANCELED)
                return calls.TCancelOperationResp(status=SUCCESS)
            case calls.TCloseOperationReq():
                operation = self._operation(request.operationHandle)
                operation.end(TOperationState.CLOSED)
                for session in self._sessions.values():
                    session.operations.pop(operation.handle.operationId.guid, None)
                return calls.TCloseOperationResp(status=SUCCESS)
        raise _Failed("HYC00", f"the fake does not answer {type(request).__name__}")

    def _open_session(self, user: str, request: calls.TOpenSessionReq, own: list[bytes]) -> Struct:
        configuration = dict(request.configuration or {})
        self.opened.append(Opened(user, request.client_protocol, configuration, request.username))
        if configuration.get("use:database") == "nowhere":
            raise _Failed("42704", "[SCHEMA_NOT_FOUND] The schema `nowhere` cannot be found.")
        guid = os.urandom(16)
        # The hole that the gateway must never let a client through; the fake has it as Spark has it.
        identity = configuration.get("hive.server2.proxy.user", user)
        prefix = "set:hiveconf:"
        own_settings = {k.removeprefix(prefix): v for k, v in configuration.items() if k.startswith(prefix)}
        self._sessions[guid] = _Session(identity, request.client_protocol, own_settings)
        own.append(guid)
        handle = tcli.TSessionHandle(sessionId=tcli.THandleIdentifier(guid=guid, secret=guid[::-1]))
        return calls.TOpenSessionResp(
            status=SUCCESS, serverProtocolVersion=request.client_protocol, sessionHandle=handle
        )

    def _session(self, handle: tcli.TSessionHandle) -> _Session:
        guid = handle.sessionId.guid
        session = self._sessions.get(guid)
        if session is None or handle.sessionId.secret != guid[::-1]:
            raise _Failed("HY000", "Invalid SessionHandle")
        return session

    def _operation(self, handle: tcli.TOperationHandle) -> _Operation:
        for session in self._sessions.values():
            operation = session.operations.get(handle.operationId.guid)
            if operation is not None and operation.handle == handle:
                return operation
        raise _Failed("HY000", "Invalid OperationHandle")

    def _end_session(self, guid: bytes) -> None:
        session = self._sessions.pop(guid, None)
        if session is not None:
            for operation in session.operations.values():
                operation.end(TOperationState.CLOSED)
            for task in session.waiting:
                task.cancel()

    async def _execute(self, request: calls.TExecuteStatementReq) -> Struct:
        session = self._session(request.sessionHandle)
        asks = request.statement in ("SET", PROBE_TEXT)
        if asks:
            answer = self._configuration_answer(session, request.statement)
        else:
            self.statements.append(Received(session.user, request.statement, request.queryTimeout or 0))
            answer = self._scripted(request.statement)
        if answer.message and answer.sync_error:
            raise _Failed(answer.sqlstate, answer.message)
        guid = os.urandom(16)
        operation = _Operation(
            tcli.TOperationHandle(
                operationId=tcli.THandleIdentifier(guid=guid, secret=guid[::-1]),
                operationType=0,
                hasResultSet=True,
            ),
            answer,
        )
        session.operations[guid] = operation
        if asks:
            self._asking.add(guid)
        end = TOperationState.FINISHED
        if answer.message and not answer.fetch_error:
            end = TOperationState.ERROR
        if answer.until is None:
            operation.end(end)
        else:
            session.waiting.append(asyncio.create_task(self._end_later(operation, answer.until, end)))
        if not request.runAsync:
            await operation.ended.wait()
            if operation.state is TOperationState.ERROR:
                raise _Failed(answer.sqlstate, answer.message)
        return calls.TExecuteStatementResp(status=SUCCESS, operationHandle=operation.handle)

    async def _end_later(self, operation: _Operation, until: asyncio.Event, end: TOperationState) -> None:
        await until.wait()
        operation.end(end)

    def _scripted(self, statement: str) -> Answer:
        for wanted, answer in self._script:
            if statement == wanted or (isinstance(wanted, re.Pattern) and wanted.fullmatch(statement)):
                return answer if isinstance(answer, Answer) else answer(statement)
        return Answer.error("42601", f"[UNSCRIPTED] the fake has no answer for: {statement}")

    async def _status(self, request: calls.TGetOperationStatusReq) -> Struct:
        operation = self._operation(request.operationHandle)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._long_poll_s):
                await operation.ended.wait()
        response = calls.TGetOperationStatusResp(status=SUCCESS, operationState=operation.state.value)
        if operation.state is TOperationState.ERROR:
            response.sqlState = operation.answer.sqlstate
            response.errorCode = 0
            response.errorMessage = operation.answer.message
        return response

    def _fetch(self, request: calls.TFetchResultsReq) -> Struct:
        operation = self._operation(request.operationHandle)
        answer = operation.answer
        if operation.state is not TOperationState.FINISHED:
            raise _Failed("HY000", f"Expected state FINISHED, but found {operation.state.name}")
        if answer.fetch_error:
            raise _Failed(answer.sqlstate, answer.message)
        if request.orientation == tcli.TFetchOrientation.FIRST:
            operation.position = 0
        elif request.orientation == tcli.TFetchOrientation.PRIOR:
            operation.position = max(0, operation.start - request.maxRows)
        rows = () if request.fetchType == 1 else answer.rows[operation.position :][: request.maxRows]
        operation.start = operation.position
        operation.position += len(rows)
        types = column_types(table_schema(answer.columns))
        if types == [TTypeId.STRING] and answer.columns[0].name == "Result" and not answer.rows:
            types = []  # DDL
        protocol = next(
            s.protocol for s in self._sessions.values() if operation.handle.operationId.guid in s.operations
        )
        return calls.TFetchResultsResp(
            status=SUCCESS,
            hasMoreRows=False,
            results=encode_rows(rows, types, protocol, start_offset=operation.start),
        )


class _Failed(Exception):
    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message


class _CutShort(Exception):
    """The script wants the connection cut."""


__all__ = [
    "ASKED",
    "LOGIN",
    "Answer",
    "Cut",
    "Dribble",
    "FakeHiveServer",
    "Garbage",
    "Opened",
    "Received",
    "Refuse",
    "Silence",
]
