"""The way of a statement through a session: settle, judge, record, forward, follow, record its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any

import structlog

from gateway.errors import BackendUnavailable, InvalidRequest
from gateway.model.statement import Cleared, Client, Refused, Statement, Verdict
from gateway.session import barriers
from gateway.session.audit_records import StatementOutcome
from gateway.session.conditions import NO_PARAMETERS_SHOWN, Own
from gateway.session.deciding import Deciding
from gateway.session.dependencies import Dependencies
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.identifiers import new_handle
from gateway.session.locks import NO_LOCKS
from gateway.session.operation import (
    ENDINGS,
    ENDS,
    ERROR,
    EXECUTE_STATEMENT,
    FINISHED,
    Session,
    ThriftOperation,
)
from gateway.session.ports import BackendError, BackendFull, BackendOperation, OperationState
from gateway.session.raised import lost_files
from gateway.session.redact import redact, told_sqlstate
from gateway.session.states import Event, State
from gateway.session.waiting import JUDGED_ANEW, RUN_AGAIN, WaitingStatements, is_as_recorded
from gateway.session.watches import Watches
from gateway.session.whole_errors import shown_whole, whole_failure

_log = structlog.get_logger(__name__)


class Execution(Deciding[Session, ThriftOperation]):
    """Runs statements in sessions. `abort` closes a session whose state in Spark is no longer known."""

    def __init__(
        self, dependencies: Dependencies, *, abort: Callable[[Session, str], Coroutine[Any, Any, None]]
    ) -> None:
        super().__init__(dependencies)
        self._close_aborted = abort
        self._aborting: dict[Session, asyncio.Task[None]] = {}
        self._watches = Watches()
        self._waiting = WaitingStatements(dependencies)

    async def stop(self) -> None:
        """Follow nothing any more, once every session is closed."""
        await self._waiting.close()
        await self._watches.close()

    async def _abort(self, session: Session, reason: str) -> None:
        """Close a lost session to its end: it may be a wait with a deadline that noticed the loss."""
        task = self._aborting.get(session)
        if task is None:
            task = asyncio.ensure_future(self._close_aborted(session, reason))
            self._aborting[session] = task
            task.add_done_callback(lambda _: self._aborting.pop(session, None))
        await asyncio.shield(task)

    async def execute(
        self, session: Session, text: str, *, timeout_s: int = 0, wait: bool = True
    ) -> ThriftOperation:
        """Run one statement; return when Spark has it, or has no room for it yet, or with `wait` when Spark
        has ended it.

        What is refused is an operation that has failed, or with `wait` a StatementRefused. Raises
        StatementFailed, LedgerUnavailable, LimitExceeded, BackendUnavailable.
        """
        await session.lock.acquire()
        waits = False
        try:
            operation = await self._begin(session, text, timeout_s)
            if operation.queued:
                # The lock goes along: what is judged next in the session comes after it.
                waits = True
                self._waiting.begin(
                    operation,
                    timeout_s,
                    lambda left_s: self._begin(session, text, left_s, waited=operation),
                )
        except StatementRefused as refused:
            if wait:
                raise
            operation = self._refused(session, refused)
        finally:
            if not waits:
                session.lock.release()
        if wait:
            await self._wait(operation)
        return operation

    def _refused(self, session: Session, refused: StatementRefused) -> ThriftOperation:
        """Return a refusal, which is on record, as the operation that Spark has of a statement in the
        background, also of one that it does not parse."""
        session.require_open()
        operation = ThriftOperation(session, new_handle(), refused.statement_id, EXECUTE_STATEMENT)
        operation.completed = True  # what is refused has no end on record
        operation.error = refused
        operation.life.on(Event.FAIL)
        session.operations[operation.handle.guid] = operation
        return operation

    async def _begin(
        self,
        session: Session,
        text: str,
        timeout_s: int,
        *,
        waited: ThriftOperation | None = None,
    ) -> ThriftOperation:
        """Bring the session to where a statement can be judged, and start it. The session is locked.

        `waited`: it was started before, and Spark had no room for it.
        """
        try:
            session.require_open()
            await self._ask_settings(session)
            return await barriers.retry_if_views_changed(
                lambda: self.prepare(session, session.client),
                lambda: self._start(session, self.own(session, text), timeout_s, waited=waited),
                wait_s=self._limits.catalog_wait_s,
            )
        finally:
            self._waiting.give_back(session)

    async def _ask_settings(self, session: Session) -> None:
        try:
            session.own_settings = await session.backend.own_settings()
        except BackendUnavailable:
            await self._abort(session, "Spark went away, or may read texts otherwise")
            raise

    async def _wait(self, operation: ThriftOperation) -> None:
        """Wait for the end; an error is raised and the operation closed, as a synchronous client expects."""
        await self._wait_for_end(operation)
        if operation.state != FINISHED:
            await self.close(operation)
            raise operation.error or BackendUnavailable("the operation ended without a result")

    async def _wait_for_end(self, operation: ThriftOperation) -> None:
        while not operation.terminal:
            await self.poll(operation)
            operation.session.require_open()

    async def _start(
        self,
        session: Session,
        statement: Statement,
        timeout_s: int = 0,
        *,
        waited: ThriftOperation | None = None,
        inside: bool = False,
    ) -> ThriftOperation:
        """Judge, record and forward, or come back with an operation that is `queued`: Spark has no room for
        it. The session is locked. Raises ViewsMoved too.

        `waited` is such an operation, for which there is a slot now; `inside` it is a statement of the
        gateway's own, which takes no slot and has ended when this returns.
        """
        if waited is None:
            session.require_place(self._limits.operations_per_session)

        def ready(verdict: Verdict) -> bool:
            if isinstance(verdict, Cleared) and not inside:
                self._waiting.take(session)
            return session.slot is not None

        operation, cleared = await self._decided(
            session,
            statement,
            session.client,
            ready=ready,
            record=lambda *decided: self._record(session, waited, *decided),
            begin=lambda _, statement_id: (
                waited or ThriftOperation(session, new_handle(), statement_id, EXECUTE_STATEMENT)
            ),
        )
        if operation.let_go:
            # Its client no longer wants it: it was judged again for nothing.
            self._release_name_locks(operation)
            return operation
        session.operations[operation.handle.guid] = operation
        if session.closed:
            self._deregister(operation)
            operation.hold.end()
            await self._recorder.completed(operation, "not_forwarded", "the session was closed")
            session.require_open()
        has_room = inside or session.slot is not None
        if not (has_room and await self._forward(operation, cleared, timeout_s, wait=inside)):
            # Nobody waits for Spark with names that others wait for.
            self._release_name_locks(operation)
            self._waiting.enqueue(operation)
            return operation
        if operation.changes_names:
            session.pending = operation
        if operation.closed:
            # The session was closed while Spark was taking the statement.
            await self.abandon(operation, "the session was closed")
            session.require_open()
        return operation

    async def _record(
        self,
        session: Session,
        waited: ThriftOperation | None,
        verdict: Verdict,
        statement_id: str,
        judged_s: float,
    ) -> None:
        """Make durable what was decided; of what has waited only where that is not what its event says."""
        if waited is not None:
            if is_as_recorded(verdict, waited):
                return
            if waited.ran_again:
                await self._recorder.completed(waited, "failed", RUN_AGAIN)
            else:
                await self._recorder.completed(waited, "not_forwarded", JUDGED_ANEW)
        await self._recorder.decided(
            verdict,
            statement_id=statement_id,
            client=session.client,
            session=session.handle,
            judged_s=judged_s,
            views=session.views_made_by(verdict),
        )
        if waited is not None:
            waited.statement_id, waited.completed = statement_id, isinstance(verdict, Refused)

    def _release_name_locks(self, operation: ThriftOperation) -> None:
        operation.hold.end()
        operation.hold = NO_LOCKS

    async def _forward(
        self, operation: ThriftOperation, cleared: Cleared, timeout_s: int, *, wait: bool = False
    ) -> bool:
        """Hand the statement to Spark, and `wait` until it has run; whatever goes wrong, its end is recorded.
        False when Spark has no room for it after all, and it is as it was before."""
        session = operation.session
        before = session.names_in_force()
        session.forwarding(cleared)
        operation.hold.forwarding()
        operation.life.on(Event.FORWARD)
        try:
            if not operation.tended:
                await self._verdicts.tend(cleared, session.client)
                operation.tended = True
            upstream = await session.backend.execute(cleared, run_async=not wait, timeout_s=timeout_s)
            operation.upstream = upstream
            operation.has_result_set = upstream.has_result_set
            operation.life.on(Event.TAKE)
            operation.hold.follow(lambda: self._watches.begin(lambda: self._ended(operation)))
            if not wait:
                # The slot is that of the statement around it, when it is one of the gateway's own.
                self._waiting.taken(operation, lambda: self._watches.begin(lambda: self._ended(operation)))
            return True
        except BackendFull:
            session.restore(before)
            operation.life.on(Event.REFUSE)
            self._waiting.refused(session)
            return False
        except BackendError as fault:
            operation.error = self.failure(operation, fault)
            raise operation.error from fault
        except (BackendUnavailable, InvalidRequest) as fault:
            operation.error = fault
            raise
        finally:
            if operation.life.state is State.FORWARDED:
                operation.life.on(Event.FAIL)
                self._deregister(operation)
                self._settle(operation)
                known = isinstance(operation.error, StatementFailed | InvalidRequest)
                operation.hold.end(0 if known else self._limits.unsettled_s)
                reason = "" if operation.error is not None else "the gateway gave the statement up"
                await self._recorder.completed(operation, "failed", reason)
                if not known:
                    # Whether Spark has the statement is not known; ending the session ends it there.
                    await self._abort(session, "a statement was given up in the middle")

    # -- following it ------------------------------------------------------------------------------------

    async def poll(self, operation: ThriftOperation, progress: bool = False) -> None:
        """Ask Spark once how the operation stands, at most for its own long poll, and note the answer."""
        if operation.not_with_spark_yet:
            await self._waiting.moved(operation)
            return
        async with operation.lock:
            if not operation.running or operation.upstream is None:
                return
            known = True
            try:
                state = await operation.upstream.status(progress)
            except BackendError as fault:
                known = False
                # Spark no longer knows the operation: its outcome cannot be learnt any more.
                state = OperationState(
                    state=ERROR,
                    sqlstate=fault.sqlstate,
                    error_code=fault.error_code,
                    error_message=fault.message,
                )
                if operation.changes_names:
                    await self._abort(operation.session, "the outcome of a statement could not be learnt")
            except BackendUnavailable as fault:
                await self.lost(operation, fault)
                raise
            failed = known and state.state == ERROR
            if not (failed and await self._run_again(operation, state.error_message or "")):
                await self._note(operation, state, known=known)

    async def rows_failed(self, operation: ThriftOperation, fault: BackendError) -> bool:
        """See to rows that failed to come before the first of them was shown; returns whether the statement
        has been run again instead, and ended."""
        upstream = operation.upstream
        # RULE (lost-files-relayed)
        if upstream is None or operation.relayed_rows or not lost_files(fault.message, fault.details):
            return False
        told = await _schema(upstream)
        if not operation.terminal:
            # What it comes to is learnt as ever.
            await self.poll(operation)
        if operation.state == FINISHED:
            async with operation.lock:
                await self._run_again(operation, fault.message, fault.details)
        if not operation.not_with_spark_yet:
            return False
        await self._wait_for_end(operation)
        again = operation.upstream
        # RULE (lost-files-schema)
        if operation.state == FINISHED and again is not None and await _schema(again) != told:
            # The client may have been told of other columns.
            operation.life.on(Event.FAIL)
            operation.error = barriers.overtaken(operation.statement_id)
        return True

    async def _run_again(self, operation: ThriftOperation, message: str, details: Sequence[str] = ()) -> bool:
        """Have a statement run once more that failed because files of a policy's table are gone: its session
        looks at those tables before. Returns whether that was begun."""
        cleared, session, upstream = operation.cleared, operation.session, operation.upstream
        if cleared is None or upstream is None or not lost_files(message, details):
            return False
        session.look_again_at(cleared.policy_tables)
        # RULE (lost-files-again, lost-files-reads-only)
        again = cleared.read_only and not cleared.effects and bool(cleared.policy_tables)
        ended = operation.closed or (operation.terminal and operation.state != FINISHED)
        if not again or operation.ran_again or ended or operation.hold.overtaken:  # RULE (lost-files-once)
            return False
        operation.hold.end()
        operation.hold = NO_LOCKS
        operation.release_slot()
        self._waiting.begin_again(
            operation,
            lambda left_s: self._begin(session, cleared.statement.text, left_s, waited=operation),
        )
        await self._release(upstream, running=False, with_session=False)
        return True

    async def lost(self, operation: ThriftOperation, fault: BackendUnavailable) -> None:
        """Spark's session is gone, and with it the client's."""
        operation.error = fault
        await self._abort(operation.session, "Spark went away")

    async def noticed_finished(self, operation: ThriftOperation) -> None:
        """Note that rows came: then Spark has finished it."""
        if operation.running:
            await self._note(operation, OperationState(state=FINISHED))

    async def _note(self, operation: ThriftOperation, state: OperationState, *, known: bool = True) -> None:
        """Note how an operation stands; `known`: Spark has said it."""
        if not operation.running:
            # Closed meanwhile, or its rows came while Spark was asked: the first end counts.
            return
        overtaken = operation.hold.overtaken
        if overtaken and state.terminal:
            # INVARIANT (a name is judged as it will be resolved, across sessions): nothing of it is shown.
            state = OperationState(state=ERROR)
        if state.terminal:
            operation.life.on(ENDS[state.state])
        else:
            operation.sparks_state = state.state
        if state.has_result_set is not None:
            operation.has_result_set = state.has_result_set
        if not state.terminal:
            return
        operation.answered = time.monotonic()
        operation.release_slot()
        certain = self._settle(operation)
        self._let_go(operation, self._held_after(state) if known else self._limits.unsettled_s)
        if state.state != FINISHED:
            changed = barriers.overtaken(operation.statement_id)
            operation.error = changed if overtaken else self._ending(operation, state)
            await self._recorder.completed(operation, operation.life.outcome)
        if not certain:
            await self._abort(operation.session, "a statement that changes names was stopped half-way")

    def _held_after(self, state: OperationState) -> float:
        """Seconds for which an operation that has ended may still be at work: Spark says at once that it
        stopped."""
        return 0 if state.state in (FINISHED, ERROR) else self._limits.stopped_s

    def _let_go(self, operation: ThriftOperation, after_s: float) -> None:
        """Let go of an operation's names after some seconds, those of its session too.

        INVARIANT (names are judged as Spark will resolve them): a cancel that comes while Spark plans is
        lost, so that what it stopped may look up its names later. Of what only reads nothing is shown then.
        """
        operation.hold.end(after_s)
        self._keep_names(operation, after_s)

    def _keep_names(self, operation: ThriftOperation, for_s: float) -> None:
        stopping = operation.session.stopping
        if for_s > 0 and not operation.hold.request.read_only:
            stopping[operation.handle.guid] = asyncio.get_running_loop().time() + for_s
        else:
            stopping.pop(operation.handle.guid, None)

    def _settle(self, operation: ThriftOperation) -> bool:
        """Put the effects of an operation in force that has just ended. False when what names mean is
        no longer certain."""
        if not operation.life.forwarded:
            return True
        session, cleared = operation.session, operation.cleared
        if session.pending is operation:
            session.pending = None
        if cleared is None or not cleared.effects:
            return True
        return barriers.settle(
            session,
            cleared,
            operation.policies_version,
            finished=operation.state == FINISHED,
            stopped=operation.state not in (FINISHED, ERROR),
            statement_id=operation.statement_id,
        )

    def _others(self, session: Session) -> Iterator[Awaitable[None]]:
        for operation in list(session.operations.values()):
            # The one that waits for Spark has the lock: it is the one that others have to end for.
            if not operation.not_with_spark_yet:
                yield self._ended(operation)
        yield self._stopped(session)

    async def _stopped(self, session: Session) -> None:
        """Wait until nothing that was stopped half-way can be at work any more."""
        loop = asyncio.get_running_loop()
        for until in list(session.stopping.values()):
            await asyncio.sleep(until - loop.time())
        session.stopping.clear()

    async def _ended(self, operation: ThriftOperation) -> None:
        while operation.running:
            await self.poll(operation)

    async def run_inside(self, session: Session, statement: Statement, client: Client) -> None:
        """Spark runs it in the thread of the session's connection: it waits for no place in the pool."""
        try:
            operation = await self._start(session, statement, inside=True)
        except barriers.ViewsMoved:
            raise barriers.overtaken("") from None
        await self._wait(operation)
        await self.close(operation)

    def own(self, session: Session, text: str) -> Statement:
        return Statement(text=text, principal=session.principal, context=session.context)

    # -- its end -----------------------------------------------------------------------------------------

    async def cancel(self, operation: ThriftOperation) -> None:
        """Ask Spark to stop, and learn what came of it."""
        await self._waiting.cancel(operation)
        if not operation.running or operation.upstream is None:
            return
        try:
            await operation.upstream.cancel()
        except BackendError as fault:
            raise self.failure(operation, fault) from fault
        await self.poll(operation)

    async def close(self, operation: ThriftOperation) -> None:
        """Close the operation here and in Spark, and record its end."""
        if operation.closed:
            return
        if operation.running and operation.upstream is not None and operation.changes_names:
            # Closing it now would leave unknown whether Spark has changed its session.
            try:
                async with asyncio.timeout(self._limits.settle_timeout_s):
                    while operation.running:
                        await self.poll(operation)
            except TimeoutError:
                await self._abort(operation.session, "a statement that changes names did not end in time")
        await self.abandon(operation, "" if operation.terminal else "closed by the client before its end")

    async def abandon(self, operation: ThriftOperation, reason: str, *, with_session: bool = False) -> None:
        """End the operation without waiting for Spark's answer to anything but its close.

        `with_session`: Spark's session ends next, which frees the operation there; it is only stopped.
        """
        self._deregister(operation)
        if operation.closed and operation.completed:
            return
        if not self._waiting.let_go(operation):
            operation.closed = True
            return
        operation.closed = True
        upstream = operation.upstream
        stopped = not operation.terminal
        held_s = self._limits.unsettled_s
        if stopped:
            operation.life.on(Event.CLOSE)
            self._settle(operation)
            self._keep_names(operation, self._limits.close_timeout_s + held_s)
        try:
            outcome: StatementOutcome = "failed" if operation.error is not None else operation.life.outcome
            await self._recorder.completed(operation, outcome, reason)
            freed = upstream is None or (with_session and not stopped)
            if upstream is not None and not freed:
                freed = await self._release(upstream, stopped, with_session)
            if freed:
                held_s = self._limits.stopped_s
        finally:
            operation.release_slot()
            operation.hold.end(held_s)
            if stopped:
                self._keep_names(operation, held_s)

    async def _release(self, upstream: BackendOperation, running: bool, with_session: bool) -> bool:
        """Free what Spark holds for an operation; that Spark has already forgotten it does not matter.

        Returns whether Spark has said that it does not run any more.
        """
        stopped = not running
        try:
            async with asyncio.timeout(self._limits.close_timeout_s):
                if running:
                    with contextlib.suppress(BackendError):
                        await upstream.cancel()
                        stopped = True
                if not with_session:
                    await upstream.close()
        except (BackendError, BackendUnavailable, TimeoutError) as fault:
            _log.info("operation_not_closed_upstream", reason=type(fault).__name__)
        return stopped

    def _deregister(self, operation: ThriftOperation) -> None:
        operation.session.operations.pop(operation.handle.guid, None)

    def _ending(self, operation: ThriftOperation, state: OperationState) -> StatementFailed:
        if state.state in ENDINGS:
            message, sqlstate = ENDINGS[state.state]
            return StatementFailed(message, sqlstate, state.error_code or 0, operation.statement_id)
        return self.failure(
            operation, BackendError(state.error_message or "", state.sqlstate, state.error_code or 0)
        )

    def failure(self, operation: ThriftOperation, fault: BackendError) -> StatementFailed:
        """Return what the client may read of an error of Spark."""
        cleared = operation.cleared
        if cleared is not None and operation.plain and shown_whole(fault.message, cleared):
            return whole_failure(fault, cleared, operation.statement_id)
        message = redact(
            fault.message,
            fault.sqlstate,
            substitutions=cleared.substitutions if cleared is not None else (),
            has_obligations=operation.has_obligations,
            hides_columns=cleared is not None and cleared.hides_columns,
            hides_target=cleared is not None and cleared.hides_target,
            details=fault.details,
            own=Own.of((cleared.statement.text,)) if cleared is not None else NO_PARAMETERS_SHOWN,
        )
        sqlstate = fault.sqlstate or told_sqlstate(message) or "HY000"
        return StatementFailed(message, sqlstate, fault.error_code, operation.statement_id)


async def _schema(upstream: BackendOperation) -> Any:
    """Return the schema of a result; None where Spark does not tell it."""
    try:
        return await upstream.schema()
    except BackendError:
        return None
