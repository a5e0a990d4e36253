"""The session service: what every frontend calls, and the only thing it calls.

Handles are bound to their principal on every call, whichever connection brings them. Errors are SluiceErrors;
a frontend turns them into its protocol's own.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from gateway.errors import (
    AuthenticationFailed,
    BackendUnavailable,
    InvalidHandle,
    SluiceError,
)
from gateway.model.catalog import quote, quote_parts
from gateway.model.principal import Principal
from gateway.model.statement import Client, SessionContext
from gateway.session.beginnings import bounded_login, wait_a_moment
from gateway.session.dependencies import FIRST_CONTEXT, Dependencies
from gateway.session.endpoint import EndpointOperation
from gateway.session.execution import Execution
from gateway.session.handles_elsewhere import UNKNOWN, AskedHandle, Elsewhere, OperationReport, write_error
from gateway.session.identifiers import Handle, new_event_id, new_handle
from gateway.session.metadata import Patterns
from gateway.session.metadata_calls import MetadataCalls
from gateway.session.operation import Batch, Session, ThriftOperation
from gateway.session.ports import Backend, BackendError, FrameSink, RelayedFrame
from gateway.session.registry import EndpointSessions
from gateway.session.results import Results
from gateway.session.states import STOPPING, Event

_log = structlog.get_logger(__name__)

OPERATION_NAMES = ("EXECUTE_STATEMENT", "GET_TYPE_INFO", "GET_CATALOGS", "GET_SCHEMAS", "GET_TABLES",
                   "GET_TABLE_TYPES", "GET_COLUMNS", "GET_FUNCTIONS", "UNKNOWN")  # fmt: skip
"""TOperationType by number, for Spark's wording of an invalid handle."""


CLOSED = "the session was closed by the client"
NOBODY = Principal(user="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A new operation as a client learns of it."""

    handle: Handle
    kind: int
    has_result_set: bool


class Sessions(EndpointSessions[bytes, Session]):
    """All sessions of HiveServer2 clients of one gateway process."""

    def __init__(self, dependencies: Dependencies, backend: Backend) -> None:
        super().__init__(dependencies, closing="close", idle_s=dependencies.limits.operation_idle_s)
        self._backend = backend
        self._verdicts = dependencies.verdicts
        self._execution = Execution(dependencies, abort=self._close)
        self._results = Results(self._execution, dependencies)
        self._metadata = MetadataCalls(self._results, dependencies)
        self._tag, self._gateway = dependencies.tag, dependencies.gateway
        self._elsewhere = Elsewhere(dependencies.ask_owner, self._tag)
        self._operations: dict[bytes, ThriftOperation] = {}
        self._given_up: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._unwatch = (
            self.metrics.watch(self.metrics.sessions, lambda: len(self._registry)),
            self.metrics.watch(self.metrics.operations, lambda: len(self._operations)),
        )

    # -- sessions ----------------------------------------------------------------------------------------

    async def open_session(
        self,
        principal: Principal,
        client: Client,
        *,
        protocol_version: int,
        settings: Mapping[str, str] | None = None,
        database: str | None = None,
    ) -> Handle:
        """Open a session here and in Spark.

        `database` becomes a USE and every one of `settings` a SET: statements like any other, judged,
        recorded and refused as such; when one is refused, so is the session.
        """
        principal = await self.admit(principal, client)
        await self._registry.ask_for_room(principal, client)
        async with self.recording_refusals(principal, client):
            seat = self._registry.reserve(principal, client)
        session_catalogs, first = self._dependencies.session_catalogs, self._dependencies.first_context
        catalogs = frozenset(session_catalogs().items())
        try:
            with self._registry.opening(principal, client) as opening:
                async with bounded_login(self.limits):
                    backend = await self._backend.open_session(
                        principal, protocol_version=protocol_version, settings=_build_opening_settings(first)
                    )
        except BaseException as fault:
            self._registry.give_back(seat)
            if isinstance(fault, AuthenticationFailed):
                await self.record_refused(principal, client, fault)  # RULE (unidentified-thrift-on-record)
            if isinstance(fault, BackendError):
                raise BackendUnavailable("Spark refused to open a session") from fault
            raise
        session = Session(
            handle=new_handle(self._tag),
            principal=principal,
            client=client,
            protocol_version=protocol_version,
            backend=backend,
            opened=self._clock(),
            # Revisions do not come back: what is the same before and after was the same when Spark was told.
            context=replace(first, catalogs=catalogs & frozenset(session_catalogs().items())),
        )
        backend.follow(lambda: session.principal_now)  # RULE (session-followed)
        self._registry.add(session.handle.guid, session, seat)
        begun = False
        try:
            if opening.ended:  # RULE (ended-while-opened)
                raise AuthenticationFailed("the sessions of the user were ended")
            async with bounded_login(self.limits):
                for text in _write_opening_statements(settings or {}, database):
                    await self._results.run_to_end(session, text)
            begun = True
        finally:
            if not begun or self._registry.shut:
                await self._give_up(session)
        return session.handle

    async def _give_up(self, session: Session) -> None:
        """Close a session that could not be set up, without waiting for a Spark that does not answer."""
        closing = asyncio.create_task(self._close(session, "the session could not be set up"))
        self._given_up.add(closing)
        closing.add_done_callback(self._given_up.discard)
        await wait_a_moment(closing)

    def of(self, _handle: Handle) -> Sessions:
        """Return these; of several Sparks, `RoutedSessions` finds the right ones."""
        return self

    def knows(self, handle: Handle) -> bool:
        """Whether a handle is of a session or an operation here, whoever's."""
        return self._registry.get(handle.guid) is not None or handle.guid in self._operations

    def describe_wait(self, session: Session) -> str:
        return self._execution.describe_wait(session)

    async def stop(self, operation: EndpointOperation, reason: str) -> None:
        if isinstance(operation, ThriftOperation):
            await self._execution.cancel(operation)

    async def close_session(self, principal: Principal, handle: Handle) -> None:
        """Close the session, whatever runs in it."""
        session = await self._find_session(principal, handle)
        if session is None:
            await self._elsewhere.ask("close_session", principal, handle, _no_session(handle))
        else:
            await self._close(session, CLOSED)

    async def close_disconnected(self, handles: Sequence[Handle]) -> None:
        """Close the sessions of a connection that is gone, and stop in Spark what runs in them."""
        found = [session for h in handles if (session := self._registry.get(h.guid)) is not None]
        await self._close_all(found, "the client disconnected")

    async def expire(self) -> None:
        await self._close_all(self._registry.idle(), "the session was idle for too long")
        now, limit = self._clock(), self.limits.operation_idle_s
        stale = [o for o in self._operations.values() if not o.running and now - o.used_at > limit]
        for operation in stale:
            await self._end(operation, "the operation was idle for too long")

    def begin_closing(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self.lifecycle.close_in_time(self._close_everything))

    async def close(self) -> None:
        """Close every session, in the time that a gateway that stops has for it; new ones are refused from
        here on."""
        self.begin_closing()
        if self._closing is not None:
            await self._closing

    async def _close_everything(self) -> None:
        self._registry.shut = True
        await self._close_all(self._registry.all(), STOPPING)
        if self._given_up:
            await asyncio.wait(self._given_up, timeout=self.limits.close_timeout_s)
        await self._execution.stop()
        for stop in self._unwatch:
            stop()

    async def _close(self, session: Session, reason: str) -> None:
        if not self._registry.close(session.handle.guid, session):
            return
        reason = self.lifecycle.reason(reason)
        known: list[ThriftOperation] = []
        for operation in session.operations.values():
            if operation.upstream is None and operation.answer is None and not operation.queued:
                # Spark is taking it at this moment; whoever handed it over ends it.
                operation.closed = True
                self._operations.pop(operation.handle.guid, None)
            else:
                known.append(operation)
        await asyncio.gather(*(self._end(o, "" if o.terminal else reason, with_session=True) for o in known))
        try:
            async with asyncio.timeout(self.limits.close_timeout_s):
                await session.backend.close()
        except (BackendError, BackendUnavailable, TimeoutError) as fault:
            _log.info("session_not_closed_upstream", reason=type(fault).__name__)

    # -- statements --------------------------------------------------------------------------------------

    async def execute(
        self, principal: Principal, handle: Handle, text: str, *, run_async: bool, timeout_s: int = 0
    ) -> Opened:
        """Run a statement; return when Spark has it or it is refused, or with `run_async` false when it has
        ended.

        Raises StatementFailed, LedgerUnavailable, LimitExceeded, BackendUnavailable, GatewayStopping; with
        `run_async` false StatementRefused, too.
        """
        session = await self._session(principal, handle)
        self.lifecycle.require_running()  # RULE (stopping-no-statement)
        self._registry.require_allowed(session.principal_now)  # RULE (statement-backend-allowed)
        operation = await self._execution.execute(session, text, timeout_s=timeout_s, wait=not run_async)
        session.used_at = operation.used_at = self._clock()
        if not operation.closed:
            self._operations[operation.handle.guid] = operation
        return _build_handle(operation)

    async def status(
        self, principal: Principal, handle: Handle, kind: int = 0, *, progress: bool = False
    ) -> OperationReport:
        """Say how an operation stands; waits as long as Spark's long poll while it runs."""
        operation = await self._find_operation(principal, handle, kind)
        if operation is None:
            unknown = _no_operation(handle, kind)
            return OperationReport.read(
                await self._elsewhere.ask("status", principal, handle, unknown, kind=kind, progress=progress)
            )
        if not operation.terminal:
            await self._execution.poll(operation, progress)
        return OperationReport(
            state=operation.state_for_client,
            has_result_set=operation.has_result_set,
            error=operation.error,
            waits=self._execution.describe_wait(operation.session) if operation.queued else "",
        )

    async def schema(self, principal: Principal, handle: Handle, kind: int = 0) -> Any:
        """Return the result's schema: Spark's TTableSchema, or a tuple of ResultColumn for metadata."""
        return await self._results.schema(await self._operation(principal, handle, kind))

    async def fetch(
        self,
        principal: Principal,
        handle: Handle,
        kind: int = 0,
        *,
        orientation: int,
        max_rows: int,
        fetch_type: int,
        seqid: int,
        sink: FrameSink,
    ) -> RelayedFrame | Batch:
        """Relay the next batch to `sink` undecoded, or return it when the gateway holds the rows itself."""
        operation = await self._operation(principal, handle, kind)
        return await self._results.fetch(operation, orientation, max_rows, fetch_type, seqid, sink)

    async def cancel(self, principal: Principal, handle: Handle, kind: int = 0) -> None:
        """Stop a running operation; one that has ended stays as it is."""
        operation = await self._find_operation(principal, handle, kind)
        if operation is None:
            await self._elsewhere.ask("cancel", principal, handle, _no_operation(handle, kind), kind=kind)
        else:
            await self._execution.cancel(operation)

    async def close_operation(self, principal: Principal, handle: Handle, kind: int = 0) -> None:
        """Close an operation and free what Spark holds for it."""
        operation = await self._find_operation(principal, handle, kind)
        if operation is None:
            unknown = _no_operation(handle, kind)
            await self._elsewhere.ask("close_operation", principal, handle, unknown, kind=kind)
            return
        self._operations.pop(operation.handle.guid, None)
        await self._execution.close(operation)

    async def answer_other(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what another gateway asks for about a handle of this one, for a principal who came to it.
        Raises KeyError, TypeError or ValueError for what is no question."""
        about = AskedHandle.read(asked)
        found = self._operations.get(about.guid) or self._registry.get(about.guid)
        if found is None or not about.is_for(found.handle):
            return UNKNOWN
        try:
            return await self._answer_about(about, found)
        except InvalidHandle:
            return UNKNOWN
        except SluiceError as fault:
            return {"raised": write_error(fault)}

    async def _answer_about(self, about: AskedHandle, found: Session | ThriftOperation) -> Mapping[str, Any]:
        """Raises InvalidHandle, having recorded it, where the handle is another principal's."""
        who, handle = about.principal, found.handle
        if isinstance(found, Session):
            # RULE (elsewhere-own-session)
            if not _is_of(found, who):
                await self.recorder.foreign_handle(who, "session", found.principal.user, handle)
                return UNKNOWN
            if about.wanted == "close_session":
                await self._close(found, CLOSED)
            elif about.wanted != "find":
                return UNKNOWN
            return {"gateway": self._gateway}
        if await self._find_operation(who, handle, about.kind) is None:
            return UNKNOWN
        match about.wanted:
            case "status":
                return (await self.status(who, handle, about.kind, progress=about.progress)).write()
            case "cancel":
                await self.cancel(who, handle, about.kind)
            case "close_operation":
                await self.close_operation(who, handle, about.kind)
            case "find":
                pass
            case _:
                return UNKNOWN
        return {"gateway": self._gateway}

    # -- metadata ----------------------------------------------------------------------------------------

    async def metadata(
        self,
        principal: Principal,
        handle: Handle,
        kind: int,
        call: str,
        patterns: Patterns,
        types: Sequence[str] | None = None,
    ) -> Opened:
        """Answer a metadata call from what the principal may know of; recorded like a statement."""
        session = await self._session(principal, handle)
        self._registry.require_allowed(session.principal_now)  # RULE (metadata-backend-allowed)
        session.require_place(self.limits.operations_per_session)
        operation = ThriftOperation(session, new_handle(self._tag), new_event_id(), kind)
        await self.recorder.metadata_decided(
            call, patterns.list_given_arguments(types), operation, session.client
        )
        operation.policies_version = self._verdicts.policies_version
        try:
            operation.answer = await self._metadata.answer(session, call, patterns, types)
            operation.life.apply(Event.FINISH)
            operation.used_at = session.used_at = self._clock()
        except SluiceError as fault:
            operation.error = fault
            raise
        finally:
            if operation.answer is None:
                await self.recorder.record_completed(operation, "failed")
        if session.closed:
            await self.recorder.record_completed(operation, "finished")
            session.require_open()
        operation.relayed_rows = len(operation.answer.rows)
        session.operations[operation.handle.guid] = operation
        self._operations[operation.handle.guid] = operation
        return _build_handle(operation)

    async def statement_id(self, principal: Principal, handle: Handle, kind: int) -> str:
        """Return the id that the record has of an operation's statement."""
        return (await self._operation(principal, handle, kind)).statement_id

    async def require_session(self, principal: Principal, handle: Handle) -> None:
        """Check a session handle for calls that need nothing else of it."""
        (await self._session(principal, handle)).used_at = self._clock()

    # -- inside ------------------------------------------------------------------------------------------

    async def _end(self, operation: ThriftOperation, reason: str, *, with_session: bool = False) -> None:
        self._operations.pop(operation.handle.guid, None)
        await self._execution.abandon(operation, reason, with_session=with_session)

    async def _session(self, principal: Principal, handle: Handle) -> Session:
        session = await self._find_session(principal, handle)
        if session is None:
            raise await self._elsewhere.refuse(principal, handle, _no_session(handle))
        return session

    async def _find_session(self, principal: Principal, handle: Handle) -> Session | None:
        """Return a session of the principal's; None, and recorded, where it is another's."""
        session = self._registry.get(handle.guid)
        if session is not None and hmac.compare_digest(session.handle.secret, handle.secret):
            if _is_of(session, principal):
                session.used_at = self._clock()
                if principal.identity == session.principal.identity:
                    self.follow_login(session, principal, session.client)
                return session
            await self.recorder.foreign_handle(principal, "session", session.principal.user, handle)
        return None

    async def _operation(self, principal: Principal, handle: Handle, kind: int) -> ThriftOperation:
        operation = await self._find_operation(principal, handle, kind)
        if operation is None:
            raise await self._elsewhere.refuse(principal, handle, _no_operation(handle, kind), kind=kind)
        return operation

    async def _find_operation(
        self, principal: Principal, handle: Handle, kind: int
    ) -> ThriftOperation | None:
        """Return an operation of the principal's; None, and recorded, where it is another's."""
        operation = self._operations.get(handle.guid)
        if operation is not None and hmac.compare_digest(operation.handle.secret, handle.secret):
            session = operation.session
            if not _is_of(session, principal):
                await self.recorder.foreign_handle(principal, "operation", session.principal.user, handle)
            elif operation.kind == kind:
                session.used_at = operation.used_at = self._clock()
                return operation
        return None


def _no_session(handle: Handle) -> InvalidHandle:
    return InvalidHandle(f"Invalid SessionHandle: SessionHandle [{handle}]")


def _no_operation(handle: Handle, kind: int) -> InvalidHandle:
    name = OPERATION_NAMES[kind] if 0 <= kind < len(OPERATION_NAMES) else OPERATION_NAMES[-1]
    return InvalidHandle(
        f"Invalid OperationHandle: OperationHandle [opType={name}, getHandleIdentifier()={handle}]"
    )


def _is_of(session: Session, principal: Principal) -> bool:
    """Whether a session is a user's: his own, or one that he opened as somebody else."""
    if session.principal is principal:
        return True
    client = session.client
    real = Principal(user=client.real_user, id=client.real_id) if client.real_user else NOBODY
    # RULE (session-of-identity)
    return principal.identity in (session.principal.identity, real.identity)


def _build_handle(operation: ThriftOperation) -> Opened:
    return Opened(handle=operation.handle, kind=operation.kind, has_result_set=operation.has_result_set)


def _build_opening_settings(context: SessionContext) -> dict[str, str]:
    """Return what Spark is told so that its session begins where ours does. Its own needs no telling."""
    if context == FIRST_CONTEXT:
        return {}
    return {"use:database": quote_parts((context.catalog, *context.namespace))}


def _write_opening_statements(settings: Mapping[str, str], database: str | None) -> list[str]:
    """Write the statements that set a session up; names and values stand in backticks.

    A backtick inside is doubled, which is all that Spark's grammar needs to end the quote where we do.
    """
    statements = [f"SET {quote(key)}={quote(value)}" for key, value in settings.items()]
    if database and database.lower() != "default":
        statements.append("USE " + quote_parts(database.split(".")))
    return statements
