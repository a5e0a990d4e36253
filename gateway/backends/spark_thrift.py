"""Spark behind its Thrift Server: sessions under the client's identity, statements only when cleared.

Every client session has a connection to Spark of its own, because a binary session ends with its connection
and because GetOperationStatus holds up whatever stands behind it for as long as 5 seconds. A cancel that
would stand behind such a poll takes a second connection: Spark's handles are bearer tokens.

Stopping takes two goes. Spark 4.3 loses a cancel, and a close too, that comes while a statement is being
planned: it says CANCELED, and the job starts all the same and runs on with nobody to stop it (seen 5
to 80 ms after ExecuteStatement, and after 2 s on a cold and busy Spark). A second CancelOperation does
nothing then, but closing stops the job. So what was stopped is closed only `stop_grace_s` later.

Every connection may have another process of Spark's at its end than the one before, so each is asked how that
one reads texts, before it is given any. It takes Spark a statement to say so, four times the work of opening
a session. So while the session that was asked last read as the parser does, a new one is asked only when
there is a text for it; otherwise it is asked, and maybe refused, when it is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.backends.delayed_endings import DelayedEndings
from gateway.backends.one_reading import OneReading
from gateway.backends.spark_http_connection import SparkHttpConnection
from gateway.backends.spark_thrift_connection import Begun, SparkConnection, close_unwanted
from gateway.backends.spark_thrift_options import (
    PROXY_USER,
    SparkThriftOptions,
    begin_login,
    session_configuration,
    write_authorization,
)
from gateway.backends.spark_thrift_questions import AskingSession, Questions
from gateway.errors import AuthenticationFailed, BackendUnavailable
from gateway.model.principal import Principal
from gateway.model.secret_values import without_secrets
from gateway.model.spark_configuration import SparkConfiguration
from gateway.model.spark_logins import OWN_LOGIN, SessionLogin, SparkLogin
from gateway.model.statement import Cleared
from gateway.session import ports
from gateway.session.ports import BackendError, BackendFull, FrameSink, OperationState, RelayedFrame
from gateway.wire import calls
from gateway.wire.rows import Cell, decode_rows
from gateway.wire.tcli import (
    TFetchOrientation,
    TOperationHandle,
    TOperationState,
    TProtocolVersion,
    TSessionHandle,
    TTableSchema,
)
from gateway.wire.thrift import Struct

POOL_IS_FULL = "The background threadpool cannot accept new task for execution, please retry the operation"
"""What ExecuteStatement answers, without SQLSTATE or code, when Spark's pool has neither a thread nor a place
in its queue. Nothing ran: `SparkExecuteStatementOperation.runInternal` says it in the handler of what
`submitBackgroundOperation` raises, the one place where the statement would have begun, and
`HiveSessionImpl.executeStatementInternal` closes the operation before the error leaves."""

FETCH_ROWS = 1000
"""Rows asked for at a time when an answer is decoded."""

ASKED_FOR_WHY = 20
WHY_PAUSE_S = 0.01
"""How often, and seconds after how long, Spark is asked again why a statement failed."""
PROBE = OWN_LOGIN.principal
"""Whom Spark sees when the gateway asks for itself."""
METASTORE_PROBE = "SHOW DATABASES LIKE 'default'"
"""What Spark cannot answer without its metastore; there is always a database of that name."""


def build_login(principal: Principal) -> SparkLogin:
    """Return in whose name a session is opened, by what was shown on the connection that asks for it."""
    asker = ports.ASKER.get()
    if asker.is_gateway or principal is PROBE:
        return OWN_LOGIN
    return SparkLogin(principal, asker.token)


class SparkThriftBackend:
    """Opens sessions of Spark, and keeps those that were stopped until they may be closed."""

    def __init__(self, options: SparkThriftOptions) -> None:
        self._options = options
        self._reading = OneReading("thrift", options.reader, options.named_catalogs)
        self.endings = DelayedEndings()

    async def open_session(
        self, principal: Principal, *, protocol_version: int, settings: dict[str, str]
    ) -> SparkThriftSession:
        """Open a session whose `current_user()` is the principal.

        Raises BackendUnavailable when Spark cannot be reached or is lost, BackendMismatch when it may read
        texts otherwise than the parser, BackendError when it refuses (a database that does not exist, say),
        InvalidRequest for a setting that is not the client's to set.
        """
        session = await self._open(principal, protocol_version, settings)
        try:
            if not self._reading.holds:
                await session.read_spark_configuration()
        except BaseException:
            session.connection.abort()
            await session.close()
            raise
        return session

    async def _open(
        self, principal: Principal, protocol_version: int, settings: Mapping[str, str], *, told: bool = True
    ) -> SparkThriftSession:
        catalogs = {**self._options.catalogs(), **await self._options.catalog_logins()} if told else {}
        configuration = session_configuration({**catalogs, **self._options.pinned}, settings)
        login = SessionLogin(build_login(principal))
        connection = await self.connect(login)
        is_left = False
        is_service = bool(self._options.service) and not login.is_gateway
        if is_service and self._options.address.http_path is None:
            # Last, over whatever else: the client cannot say it, and nobody else does.
            configuration[PROXY_USER] = principal.user  # RULE (acts-as-session-user)
        try:
            # Neither user name nor password here: under SASL Spark takes the identity from the login.
            request = calls.TOpenSessionReq(client_protocol=protocol_version, configuration=configuration)
            opening = asyncio.create_task(connection.call("OpenSession", request, calls.TOpenSessionResp))
            try:
                reply = await asyncio.shield(opening)
            except asyncio.CancelledError:
                if self.keeps_sessions:
                    # It does not end with its connection, as others do.
                    self.endings.schedule(0, lambda: close_unwanted(connection, opening))
                    is_left = True
                raise
            if reply.sessionHandle is None or reply.serverProtocolVersion != protocol_version:
                raise BackendUnavailable("Spark opened the session with an unsupported protocol version")
            return SparkThriftSession(self, login, connection, reply.sessionHandle, self._reading)
        except BaseException as fault:
            if not is_left:
                connection.abort()
            is_refused = isinstance(connection, SparkHttpConnection) and connection.is_refused
            if is_refused and self._options.user_tokens is not None and not login.is_gateway:
                # His matter alone: Spark takes others.
                raise AuthenticationFailed("the Spark behind this gateway does not accept you") from fault
            raise

    async def close(self) -> None:
        """Wait until everything that was stopped is closed, at most about `stop_grace_s`.

        For a gateway that stops, after its last session: closed earlier, a job might be left behind.
        """
        await self.endings.close()

    def without_secrets(self, message: str) -> str:
        """Return a message of Spark's without the secrets that sessions are told."""
        return without_secrets(message, self._options.secrets)

    @property
    def stop_grace_s(self) -> float:
        return self._options.stop_grace_s

    async def connect(self, login: SessionLogin) -> SparkConnection:
        """Open a connection for a user. Raises AuthenticationFailed where he has no token to be shown."""
        options, user = self._options, login.user
        if options.address.http_path is None:
            begun = await begin_login(options, user)
            return await SparkConnection.open(options.address, begun, redact=self.without_secrets)

        async def show() -> str:
            return await write_authorization(options, login.now)

        is_service = bool(options.service) and options.user_tokens is None and not login.is_gateway
        return await SparkHttpConnection.open_http(
            options.address, show, acts_as=user if is_service else "", redact=self.without_secrets
        )

    @property
    def keeps_sessions(self) -> bool:
        """Whether a session goes on without its connection."""
        return self._options.address.http_path is not None

    @property
    def acts_as_users(self) -> bool:
        """Whether one login stands for all users, so that Spark has to say whose a session is."""
        return bool(self._options.service)

    async def introduction(self) -> SparkConfiguration:
        """Return Spark's version and settings, as it says, whatever they are; parsers are not asked for.

        Raises BackendUnavailable.
        """
        return await self._send_introduction(told=True)

    async def read_initial_settings(self) -> Mapping[str, str]:
        """Return what is set in a new session that was told of no catalogs. Raises BackendUnavailable."""
        return (await self._send_introduction(told=False)).settings

    async def _send_introduction(self, *, told: bool) -> SparkConfiguration:
        try:
            session = await self._open(PROBE, TProtocolVersion.V10, {}, told=told)
            try:
                asked = Questions(session)
                settings = await asked.settings()
                return SparkConfiguration(version=await asked.version(), settings=settings, parsers=())
            finally:
                await session.close()
        except BackendError as error:
            raise BackendUnavailable("Spark does not report its version and settings") from error

    async def probe(self) -> SparkConfiguration:
        """Run `SELECT 1` as the gateway itself, and return how Spark is configured.

        Raises BackendUnavailable unless Spark answers it, BackendMismatch as `open_session` does.
        """
        return await self._answers("SELECT 1")

    async def ready(self) -> SparkConfiguration:
        """Return how Spark is configured, if it answers what it has to ask its metastore for. Raises as
        `probe` does."""
        return await self._answers(METASTORE_PROBE)

    async def _answers(self, text: str) -> SparkConfiguration:
        with ports.ask_as_gateway():
            session = await self.open_session(PROBE, protocol_version=TProtocolVersion.V10, settings={})
        try:
            configuration = await session.read_spark_configuration()
            if not await session.answer(text, max_rows=1):
                raise BackendUnavailable(f"Spark does not answer {text}")
            return configuration
        except BackendError as error:
            raise BackendUnavailable(f"Spark does not answer {text}") from error
        except asyncio.CancelledError:
            # Whoever asked has waited long enough; Spark's answer is not waited for to close the session.
            session.connection.abort()
            raise
        finally:
            await session.close()


class SparkThriftSession(AskingSession):
    """A session of Spark with its own connection; when that is lost, so is the session."""

    def __init__(
        self,
        backend: SparkThriftBackend,
        login: SessionLogin,
        connection: SparkConnection,
        handle: TSessionHandle,
        reading: OneReading,
    ) -> None:
        self._configuration: SparkConfiguration | None = None
        """What the process of Spark's at the other end said of itself."""
        self._reading = reading
        self._backend = backend
        self._login = login
        self._connection = connection
        self._handle = handle
        self._unfinished: set[SparkThriftOperation] = set()
        self._grace_until = 0.0
        self._closed = False
        self._is_probed = False
        """Whether it runs a text of the gateway's whose stack is read: no client sees that, and a secret that
        is a word such as `spark` would take the names of classes from it."""

    @property
    def alive(self) -> bool:
        """Whether the connection still stands."""
        return self._connection.alive

    def without_secrets(self, message: str) -> str:
        """Return a message of Spark's without the secrets that sessions are told."""
        return message if self._is_probed else self._backend.without_secrets(message)

    def follow(self, login: Callable[[], Principal]) -> None:
        """Show its user as he is by then from now on. See `BackendSession`."""
        self._login.find_principal = login

    async def read_spark_configuration(self) -> SparkConfiguration:
        """Return what Spark says of how it reads texts in this session; it is asked once.

        Raises BackendMismatch when that may be otherwise than the parser does, BackendUnavailable when it
        cannot be asked; then the session is gone.
        """
        if self._configuration is None:
            try:
                if self._backend.acts_as_users and not self._login.is_gateway:
                    await self._require_user()
                self._configuration = await self._reading.require(Questions(self))
            except BaseException:
                self._connection.abort()
                raise
        return self._configuration

    async def _require_user(self) -> None:
        """INVARIANT (nobody acts as somebody else): a server that takes no notice of whom it is to act as has
        opened a session of the login's own. Raises BackendUnavailable."""
        try:
            rows = await self.answer("SELECT current_user()", max_rows=1)
        except BackendError as error:
            raise BackendUnavailable("Spark does not say whose a session is") from error
        # RULE (session-of-whom-it-acts-as)
        if [str(row[0]) for row in rows] != [self._login.user]:
            raise BackendUnavailable(
                "Spark has opened the session as somebody else: the gateway's login may not act as users",
                lasting=True,
            )

    async def own_settings(self) -> Mapping[str, str]:
        """Return what was set in it when it was opened. Raises as `read_spark_configuration` does."""
        return (await self.read_spark_configuration()).settings

    async def execute(self, cleared: Cleared, *, run_async: bool, timeout_s: int) -> SparkThriftOperation:
        """Forward a cleared statement; without `run_async`, return when it has ended well.

        That is for small statements which the gateway itself has to be done: Spark runs them in the thread of
        the connection, where they need no place in its pool and can be neither cancelled nor polled. Raises
        BackendError when it fails.
        """
        if not isinstance(cleared, Cleared):
            # INVARIANT (one way): nothing but a verdict's text reaches Spark under a client's identity.
            raise TypeError("a backend takes a Cleared and nothing else")
        # INVARIANT (one reading): no text is sent before Spark has said that it reads as we do.
        await self.read_spark_configuration()
        try:
            return await self._start(cleared.forwarded, timeout_s, run_async=run_async)
        except BackendError as error:
            if error.message == self.without_secrets(POOL_IS_FULL):
                raise BackendFull(error.message, error.sqlstate, error.error_code) from error
            raise

    async def answer(self, sql: str, *, max_rows: int) -> list[tuple[Cell, ...]]:
        """Run a statement that the gateway wrote itself, for its own session, and return its rows.

        Spark runs it in the thread of the connection: it needs no place in the pool that statements of
        clients may fill. Raises BackendError when Spark refuses it. After anything else, a cancellation too,
        the statement may still run: the caller drops the session.
        """
        operation = await self._start(sql, 0, run_async=False)
        try:
            rows = await operation.rows(max_rows)
        except BackendError:
            await operation.close()
            raise
        await operation.close()
        return rows

    async def failure_of(self, sql: str) -> BackendError | None:
        """Run a statement that the gateway wrote itself; return how it fails, or None: in Spark's pool, since
        only the status of such a statement has the stack."""
        operation = await self._start(sql, 0)
        error: BackendError | None = None
        self._is_probed = True
        try:
            await operation.wait_for_success()
        except BackendError as failed:
            error = failed
        finally:
            self._is_probed = False
        await operation.close()
        return error

    async def _start(self, text: str, timeout_s: int, *, run_async: bool = True) -> SparkThriftOperation:
        if self._closed:
            raise BackendUnavailable("the session is closed")
        request = calls.TExecuteStatementReq(
            sessionHandle=self._handle, statement=text, runAsync=run_async, queryTimeout=timeout_s
        )
        # What is not run asynchronously is answered when it has ended.
        reply = await self._connection.begin(
            "ExecuteStatement", request, calls.TExecuteStatementResp, computed=not run_async
        ).answer()
        if reply.operationHandle is None:
            raise BackendError("Spark started no operation", "HY000")
        operation = SparkThriftOperation(self, reply.operationHandle, ended=not run_async)
        if run_async:
            self._unfinished.add(operation)
        return operation

    async def close(self) -> None:
        """End the session, and with it everything that it runs. Never raises for what Spark says."""
        if self._closed:
            return
        self._closed = True
        for operation in list(self._unfinished):
            with contextlib.suppress(BackendError, BackendUnavailable):
                await operation.cancel()
        delay_s = self._grace_until - asyncio.get_running_loop().time()
        if delay_s > 0 and self._connection.alive:
            self._backend.endings.schedule(delay_s, self._end)
        else:
            await self._end()

    async def _end(self) -> None:
        if self._connection.alive:
            await self._close_in_spark()
        elif self._backend.keeps_sessions:  # RULE (http-session-not-left)
            self._backend.endings.schedule(0, self._close_in_spark)
        self._connection.abort()
        await self._connection.wait_closed()

    async def _close_in_spark(self) -> None:
        request = calls.TCloseSessionReq(sessionHandle=self._handle)
        # Should it fail: a binary session ends with its connection.
        with contextlib.suppress(BackendError, BackendUnavailable, AuthenticationFailed):
            await self.call_now("CloseSession", request, calls.TCloseSessionResp)

    def note_ended(self, operation: SparkThriftOperation) -> None:
        """Note that Spark says that the statement has ended by itself."""
        self._unfinished.discard(operation)

    async def stop(self, request: calls.TCancelOperationReq) -> None:
        """Cancel an operation of this session. Raises BackendError, BackendUnavailable."""
        self._grace_until = asyncio.get_running_loop().time() + self._backend.stop_grace_s
        await self.call_now("CancelOperation", request, calls.TCancelOperationResp)

    async def release_operation(
        self, operation: SparkThriftOperation, request: calls.TCloseOperationReq
    ) -> None:
        """Close an operation: at once when it has ended by itself, else when that stops a job for sure."""
        if operation in self._unfinished:
            self._unfinished.discard(operation)
            delay_s = self._grace_until - asyncio.get_running_loop().time()
            self._backend.endings.schedule(delay_s, lambda: self._close_operation(request))
        elif not self.let_go(operation, request):
            await self._close_operation(request)

    def let_go(self, operation: SparkThriftOperation, request: calls.TCloseOperationReq) -> bool:
        """Close one that has ended by itself; the answer does not matter, and the next call stands behind."""
        if is_over := operation not in self._unfinished and self._connection.idle:
            self._connection.send_unanswered("CloseOperation", request)
        return is_over

    async def _close_operation(self, request: calls.TCloseOperationReq) -> None:
        # Spark does not know it any more, or its session is gone: both are what was wanted.
        with contextlib.suppress(BackendError, BackendUnavailable):
            await self.call_now("CloseOperation", request, calls.TCloseOperationResp)

    async def call_now(self, method: str, request: Struct, response: type[Struct]) -> None:
        """Make a call that does not stand behind another's long poll: then it takes a second connection."""
        if self._connection.idle and (self._connection.alive or not self._backend.keeps_sessions):
            await self._connection.call(method, request, response, urgent=True)
            return
        beside = await self._backend.connect(self._login)
        try:
            await beside.call(method, request, response, urgent=True)
        finally:
            beside.abort()
            await beside.wait_closed()

    @property
    def connection(self) -> SparkConnection:
        return self._connection

    @property
    def handle(self) -> TSessionHandle:
        return self._handle


class SparkThriftOperation:
    """A statement that Spark runs or has run."""

    def __init__(self, session: SparkThriftSession, handle: TOperationHandle, *, ended: bool = False) -> None:
        self._session = session
        self._handle = handle
        self.has_result_set = handle.hasResultSet
        self._ended = ended
        self._terminal = ended
        self._stopped = False
        self._schema: Begun[calls.TGetResultSetMetadataResp] | TTableSchema | None = None
        """The columns once Spark has told them, or the call that asks for them."""

    @property
    def id(self) -> str:
        """Spark's operation id in hexadecimal."""
        return self._handle.operationId.guid.hex()

    async def status(self, get_progress: bool = False) -> OperationState:
        """Ask Spark for the state; waits up to 5 s while it runs. Raises BackendError, BackendUnavailable."""
        reply = await self._ask_status(get_progress)
        for _ in range(ASKED_FOR_WHY):
            if reply.operationState != TOperationState.ERROR or reply.errorMessage or reply.sqlState:
                break
            # Spark says that a statement has failed a moment before it says why.
            await asyncio.sleep(WHY_PAUSE_S)
            reply = await self._ask_status(get_progress)
        if reply.hasResultSet is not None:
            self.has_result_set = reply.hasResultSet
        state = OperationState(
            state=TOperationState.UKNOWN if reply.operationState is None else reply.operationState,
            has_result_set=reply.hasResultSet,
            sqlstate=reply.sqlState,
            error_code=reply.errorCode,
            error_message=reply.errorMessage and self._session.without_secrets(reply.errorMessage),
        )
        self._terminal = state.terminal
        if state.state in (TOperationState.FINISHED, TOperationState.ERROR):
            self._ended = True
            self._session.note_ended(self)
        if state.state == TOperationState.FINISHED and self.has_result_set and self._schema is None:
            # Every client asks for the columns next: they are on their way while it hears of the end.
            self._schema = self._ask_schema()
        return state

    async def _ask_status(self, progress: bool) -> calls.TGetOperationStatusResp:
        request = calls.TGetOperationStatusReq(operationHandle=self._handle, getProgressUpdate=progress)
        connection = self._session.connection
        return await connection.call("GetOperationStatus", request, calls.TGetOperationStatusResp)

    async def wait_for_success(self) -> None:
        """Return when the statement has ended well. Raises BackendError when it has ended otherwise."""
        while True:
            state = await self.status()
            if state.state == TOperationState.FINISHED:
                return
            if state.terminal:
                name = TOperationState(state.state).name.lower()
                raise BackendError(
                    state.error_message or f"the statement was {name}", state.sqlstate, state.error_code or 0
                )

    async def schema(self) -> TTableSchema:
        """Return the result's columns, once the statement has ended.

        Spark that is asked before it has analysed a statement tells of one column `Result`, and goes on
        telling so when the statement has ended; from outside nobody sees how far it is. So this waits.
        Raises BackendError (for a column of VARIANT, which Spark cannot describe), BackendUnavailable.
        """
        while not self._terminal:
            await self.status()
        if isinstance(self._schema, TTableSchema):
            return self._schema
        begun, self._schema = self._schema or self._ask_schema(), None
        reply = await begun.answer()
        self._schema = reply.schema or TTableSchema(columns=[])
        return self._schema

    def _ask_schema(self) -> Begun[calls.TGetResultSetMetadataResp]:
        return self._session.connection.begin(
            "GetResultSetMetadata",
            calls.TGetResultSetMetadataReq(operationHandle=self._handle),
            calls.TGetResultSetMetadataResp,
            quick=True,
        )

    def _forget_schema(self) -> None:
        if isinstance(self._schema, Begun):
            self._schema.drop()
            self._schema = None

    async def relay(
        self, orientation: int, max_rows: int, fetch_type: int, seqid: int, sink: FrameSink
    ) -> RelayedFrame:
        """Relay one FetchResults reply undecoded; see SparkConnection.relay."""
        request = calls.TFetchResultsReq(
            operationHandle=self._handle, orientation=orientation, maxRows=max_rows, fetchType=fetch_type
        )
        return await self._session.connection.relay(request, seqid, sink)

    async def fetch(self, max_rows: int) -> tuple[Sequence[Sequence[Any]], TTableSchema]:
        """Return up to `max_rows` decoded rows from the current position, and the schema."""
        schema = await self.schema()
        return await self.rows(max_rows), schema

    async def rows(self, max_rows: int) -> list[tuple[Cell, ...]]:
        """Return up to `max_rows` decoded rows; the end is an empty batch, `hasMoreRows` is always false."""
        rows: list[tuple[Cell, ...]] = []
        while len(rows) < max_rows:
            reply = await self._session.connection.call(
                "FetchResults",
                calls.TFetchResultsReq(
                    operationHandle=self._handle,
                    orientation=TFetchOrientation.NEXT,
                    maxRows=min(FETCH_ROWS, max_rows - len(rows)),
                ),
                calls.TFetchResultsResp,
            )
            batch = decode_rows(reply.results) if reply.results is not None else []
            if not batch:
                break
            rows += batch
        return rows[:max_rows]

    async def cancel(self) -> None:
        """Cancel, at once even while `status` waits in Spark. Raises BackendError, BackendUnavailable."""
        self._stopped = True
        await self._session.stop(calls.TCancelOperationReq(operationHandle=self._handle))

    def let_go(self) -> bool:
        request = calls.TCloseOperationReq(operationHandle=self._handle)
        if is_over := self._ended and self._session.let_go(self, request):
            self._forget_schema()
        return is_over

    async def close(self) -> None:
        """Stop the statement if it runs, as does a lost connection, and let Spark forget it. Never raises for
        what Spark says."""
        if not self._ended and not self._stopped:
            with contextlib.suppress(BackendError, BackendUnavailable):
                await self.cancel()
        self._forget_schema()
        await self._session.release_operation(self, calls.TCloseOperationReq(operationHandle=self._handle))
