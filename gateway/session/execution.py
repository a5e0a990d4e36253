"""The way of a statement through a session: settle, judge, record, forward, follow, record its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from gateway.errors import BackendUnavailable, InvalidRequest, LimitExceeded
from gateway.model.statement import Cleared, Client, Statement, Verdict
from gateway.model.tracing import begin_span
from gateway.session.audit_records import StatementOutcome
from gateway.session.conditions import NO_PARAMETERS_SHOWN, Own
from gateway.session.deciding import Deciding
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import AskedStatement, DecidedStatement
from gateway.session.failures import StatementFailed, StatementRefused, build_overtaken_error
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
from gateway.session.redact import parse_sqlstate, redact
from gateway.session.states import Event, State
from gateway.session.thrift_exceptions import has_lost_files
from gateway.session.waiting import WaitingStatements
from gateway.session.watches import Watches
from gateway.session.whole_errors import may_show_whole, whole_failure

_log = structlog.get_logger(__name__)


class Execution:
    """Runs statements in sessions. `abort` closes a session whose state in Spark is no longer known."""

    def __init__(
        self, dependencies: Dependencies, *, abort: Callable[[Session, str], Coroutine[Any, Any, None]]
    ) -> None:
        self._deciding = Deciding[Session, ThriftOperation](dependencies, self)
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits
        self._lifecycle = dependencies.lifecycle
        self._close_aborted = abort
        self._aborting: dict[Session, asyncio.Task[None]] = {}
        self._tag = dependencies.tag
        self._watches = Watches()
        self._waiting = WaitingStatements(dependencies, self)

    async def stop(self) -> None:
        """Follow nothing any more, once every session is closed."""
        await self._waiting.close()
        await self._watches.close()

    async def abort(self, session: Session, reason: str) -> None:
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
                self._waiting.begin(operation, timeout_s)
        except StatementRefused as refused:
            if wait:
                raise
            operation = self._build_refused_operation(session, refused)
        finally:
            if not waits:
                session.lock.release()
        if wait:
            await self._wait(operation)
        return operation

    def _build_refused_operation(self, session: Session, refused: StatementRefused) -> ThriftOperation:
        """Return a refusal, which is on record, as the operation that Spark has of a statement in the
        background, also of one that it does not parse."""
        session.require_open()
        operation = ThriftOperation(session, new_handle(self._tag), refused.statement_id, EXECUTE_STATEMENT)
        operation.completed = True  # what is refused has no end on record
        operation.error = refused
        operation.life.apply(Event.FAIL)
        session.operations[operation.handle.guid] = operation  # RULE (refused-operations-count)
        return operation

    async def _begin(
        self,
        session: Session,
        text: str,
        timeout_s: int,
        *,
        waited: ThriftOperation | None = None,
    ) -> ThriftOperation:
        """Decide on a client's statement and forward it. The session is locked.

        `waited`: it was started before, and Spark had no room for it.
        """
        try:
            session.require_open()
            await self._ask_settings(session)
            if session.slot is None:
                await self._waiting.ask(session)
            statement = self.build_own_statement(session, text)
            asked = AskedStatement(statement=statement, client=session.client, earlier=waited)
            decided = await self._deciding.decide(session, asked)
            return await self._start(session, decided, timeout_s, waited=waited)
        finally:
            self._waiting.give_back(session)

    async def start_again(self, operation: ThriftOperation, left_s: int) -> None:
        if (cleared := operation.cleared) is not None:
            await self._begin(operation.session, cleared.statement.text, left_s, waited=operation)

    async def _ask_settings(self, session: Session) -> None:
        try:
            session.own_settings = await session.backend.own_settings()
        except BackendUnavailable:
            await self.abort(session, "Spark was disconnected, or may parse statements differently")
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
        decided: DecidedStatement,
        timeout_s: int = 0,
        *,
        waited: ThriftOperation | None = None,
        inside: bool = False,
    ) -> ThriftOperation:
        """Forward what was decided, or come back with an operation that is `queued`: Spark has no room for
        it. The session is locked.

        `waited` is such an operation, for which there is a slot now; `inside` it is a statement of the
        gateway's own, which takes no slot and has ended when this returns.
        """
        operation = waited or ThriftOperation(
            session, new_handle(self._tag), decided.statement_id, EXECUTE_STATEMENT
        )
        operation.take(decided)
        if operation.let_go:
            # Its client no longer wants it: it was judged again for nothing.
            self._release_name_locks(operation)
            return operation
        session.operations[operation.handle.guid] = operation
        if session.closed:
            self._deregister(operation)
            operation.hold.release()
            await self._recorder.record_completed(operation, "not_forwarded", "the session was closed")
            session.require_open()
        has_room = inside or session.slot is not None
        if not (has_room and await self._forward(operation, decided.cleared, timeout_s, wait=inside)):
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

    def _release_name_locks(self, operation: ThriftOperation) -> None:
        operation.hold.release()
        operation.hold = NO_LOCKS

    async def _forward(
        self, operation: ThriftOperation, cleared: Cleared, timeout_s: int, *, wait: bool = False
    ) -> bool:
        """Hand the statement to Spark, and `wait` until it has run; whatever goes wrong, its end is recorded.
        False when Spark has no room for it after all, and it is as it was before."""
        session = operation.session
        before = session.names_in_force()
        session.prepare_to_forward(cleared)
        operation.hold.forget_before_forwarding()
        operation.life.apply(Event.FORWARD)
        operation.span = operation.span or begin_span("spark")
        operation.waited_s = time.monotonic() - operation.started
        try:
            if not operation.tended:
                await self._verdicts.maintain_dataset(cleared, session.client)
                operation.tended = True
            upstream = await session.backend.execute(cleared, run_async=not wait, timeout_s=timeout_s)
            operation.upstream = upstream
            operation.has_result_set = upstream.has_result_set
            operation.life.apply(Event.TAKE)
            operation.hold.follow(lambda: self._watch(operation))
            if not wait:
                # The slot is that of the statement around it, when it is one of the gateway's own.
                self._waiting.note_taken(operation, lambda: self._watch(operation))
                operation.begin_timing(lambda fault: self._begin_cutting(operation, fault))
            return True
        except BackendFull:
            session.restore(before)
            operation.life.apply(Event.REFUSE)
            self._waiting.note_refused(session)
            return False
        except BackendError as fault:
            operation.error = self.failure(operation, fault)
            raise operation.error from fault
        except (BackendUnavailable, InvalidRequest) as fault:
            operation.error = fault
            raise
        finally:
            if operation.life.state is State.FORWARDED:
                operation.life.apply(Event.FAIL)
                self._deregister(operation)
                self._settle(operation)
                known = isinstance(operation.error, StatementFailed | InvalidRequest)
                operation.hold.release(0 if known else self._limits.unsettled_s)
                aborted = self._lifecycle.reason("the gateway aborted the statement")
                reason = "" if operation.error is not None else aborted
                await self._recorder.record_completed(operation, "failed", reason)
                if not known:
                    # Whether Spark has the statement is not known; ending the session ends it there.
                    await self.abort(session, "a statement was aborted half-way")

    # -- following it ------------------------------------------------------------------------------------

    async def poll(self, operation: ThriftOperation, progress: bool = False) -> None:
        """Ask Spark once how the operation stands, at most for its own long poll, and note the answer."""
        if operation.not_with_spark_yet:
            await self._waiting.wait_for_progress(operation)
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
                    await self.abort(operation.session, "the outcome of a statement is unknown")
            except BackendUnavailable as fault:
                await self.handle_lost_session(operation, fault)
                raise
            failed = known and state.state == ERROR
            if not (failed and await self._run_again(operation, state.error_message or "")):
                await self._note(operation, state, known=known)

    async def rows_failed(self, operation: ThriftOperation, fault: BackendError) -> bool:
        """See to rows that failed to come before the first of them was shown; returns whether the statement
        has been run again instead, and ended."""
        upstream = operation.upstream
        # RULE (lost-files-relayed)
        if upstream is None or operation.relayed_rows or not has_lost_files(fault.message, fault.details):
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
            operation.life.apply(Event.FAIL)
            operation.error = build_overtaken_error(operation.statement_id)
        return True

    async def _run_again(self, operation: ThriftOperation, message: str, details: Sequence[str] = ()) -> bool:
        """Have a statement run once more that failed because files of a policy's table are gone: its session
        looks at those tables before. Returns whether that was begun."""
        cleared, session, upstream = operation.cleared, operation.session, operation.upstream
        if cleared is None or upstream is None or not has_lost_files(message, details):
            return False
        session.schedule_refresh(cleared.policy_tables)
        # RULE (lost-files-again, lost-files-reads-only)
        again = cleared.read_only and not cleared.effects and bool(cleared.policy_tables)
        ended = operation.closed or (operation.terminal and operation.state != FINISHED)
        if not again or operation.ran_again or ended or operation.hold.overtaken:  # RULE (lost-files-once)
            return False
        operation.hold.release()
        operation.hold = NO_LOCKS
        operation.note_stopped_running()
        self._waiting.begin_again(operation)
        await self._release(upstream, running=False, with_session=False)
        return True

    async def handle_lost_session(self, operation: ThriftOperation, fault: BackendUnavailable) -> None:
        """Spark's session is gone, and with it the client's."""
        operation.error = fault
        await self.abort(operation.session, "the connection to Spark was lost")

    async def notice_finished(self, operation: ThriftOperation) -> None:
        """Note that rows came: then Spark has finished it."""
        if operation.running:
            await self._note(operation, OperationState(state=FINISHED))

    async def _note(self, operation: ThriftOperation, state: OperationState, *, known: bool = True) -> None:
        """Note how an operation stands; `known`: Spark has said it."""
        if not operation.running:
            # Closed meanwhile, or its rows came while Spark was asked: the first end counts.
            return
        changed = operation.hold.overtaken
        if changed and state.terminal:
            # INVARIANT (a name is judged as it will be resolved, across sessions): nothing of it is shown.
            state = OperationState(state=ERROR)
        if state.terminal:
            operation.life.apply(ENDS[state.state])
        else:
            operation.sparks_state = state.state
        if state.has_result_set is not None:
            operation.has_result_set = state.has_result_set
        if not state.terminal:
            return
        operation.answered = time.monotonic()
        if operation.span is not None:
            operation.span.note(outcome=operation.life.outcome)
            operation.span.end("" if state.state == FINISHED else operation.life.outcome)
        operation.note_stopped_running()
        certain = self._settle(operation)
        self._release_names_later(
            operation, self._compute_hold_time(state) if known else self._limits.unsettled_s
        )
        if state.state != FINISHED:
            operation.error = (
                build_overtaken_error(operation.statement_id)
                if changed
                else operation.over or self._handle_ending(operation, state)
            )
            cut = operation.error is operation.over
            await self._recorder.record_completed(operation, "canceled" if cut else operation.life.outcome)
        else:
            operation.over = None  # it ended just in time
        if not certain:
            await self.abort(operation.session, "a statement that changes names was interrupted")

    def _compute_hold_time(self, state: OperationState) -> float:
        """Seconds for which an operation that has ended may still be at work: Spark says at once that it
        stopped."""
        return 0 if state.state in (FINISHED, ERROR) else self._limits.stopped_s

    def _release_names_later(self, operation: ThriftOperation, after_s: float) -> None:
        """Let go of an operation's names after some seconds, those of its session too.

        INVARIANT (names are judged as Spark will resolve them): a cancel that comes while Spark plans is
        lost, so that what it stopped may look up its names later. Of what only reads nothing is shown then.
        """
        operation.hold.release(after_s)
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
        if operation.session.pending is operation:
            operation.session.pending = None
        return operation.settle(
            finished=operation.state == FINISHED, stopped=operation.state not in (FINISHED, ERROR)
        )

    def _watch(self, operation: ThriftOperation) -> None:
        """Find out how an operation ends: somebody waits for its names, or for its slot."""
        self._watches.begin(lambda: self.wait_for_end(operation))

    # -- what deciding needs -----------------------------------------------------------------------------

    async def wait_for_end(self, operation: ThriftOperation) -> None:
        while operation.running:
            await self.poll(operation)

    async def wait_for_others(self, session: Session) -> None:
        for operation in list(session.operations.values()):
            # The one that waits for Spark has the lock: it is the one that others have to end for.
            if not operation.not_with_spark_yet:
                await self.wait_for_end(operation)
        # Nor may anything that was stopped half-way be at work any more.
        loop = asyncio.get_running_loop()
        for until in list(session.stopping.values()):
            await asyncio.sleep(until - loop.time())
        session.stopping.clear()

    async def restrict(self, session: Session, verdict: Verdict, client: Client) -> Verdict:
        return verdict

    def has_room(self, session: Session, verdict: Verdict) -> bool:
        if isinstance(verdict, Cleared):
            self._waiting.take(session)
        return session.slot is not None

    async def run_inside(self, session: Session, statement: Statement, client: Client) -> None:
        """Spark runs it in the thread of the session's connection: it waits for no place in the pool."""
        asked = AskedStatement(statement=statement, client=client)
        decided = await self._deciding.decide_inside(session, asked)
        operation = await self._start(session, decided, inside=True)
        await self._wait(operation)
        await self.close(operation)

    def build_own_statement(self, session: Session, text: str) -> Statement:
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

    def _begin_cutting(self, operation: ThriftOperation, fault: LimitExceeded) -> None:
        """Have Spark stop a statement that has run for as long as its limits allow."""
        operation.over = fault
        self._watches.begin(lambda: self._cut(operation))

    async def _cut(self, operation: ThriftOperation) -> None:
        if operation.running and operation.upstream is not None:
            with contextlib.suppress(BackendError):
                await operation.upstream.cancel()
            await self.wait_for_end(operation)

    async def end_by_limit(self, operation: ThriftOperation, fault: LimitExceeded) -> LimitExceeded:
        """End an operation of which more was, or would be, shown than its limits allow; return the error."""
        operation.over = operation.error = fault
        if operation.terminal:
            operation.life.apply(Event.FAIL)
        await self.abandon(operation, "")
        return fault

    def describe_wait(self, session: Session) -> str:
        """Say what a statement of a session waits for; empty where none does."""
        queued = next((one for one in session.operations.values() if one.queued), None)
        return "" if queued is None else self._waiting.describe(queued)

    def tell_place(self, operation: ThriftOperation) -> None:
        self._waiting.tell_place(operation)

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
                await self.abort(operation.session, "a statement that changes names did not end in time")
        await self.abandon(operation, "" if operation.terminal else "closed by the client before its end")

    async def abandon(self, operation: ThriftOperation, reason: str, *, with_session: bool = False) -> None:
        """End the operation without waiting for Spark's answer to anything but its close.

        `with_session`: Spark's session ends next, which frees the operation there; it is only stopped.
        """
        self._deregister(operation)
        if operation.closed and operation.completed:
            return
        if not self._waiting.withdraw(operation):
            operation.closed = True
            return
        operation.closed = True
        upstream = operation.upstream
        stopped = not operation.terminal
        held_s = self._limits.unsettled_s
        if stopped:
            operation.life.apply(Event.CLOSE)
            self._settle(operation)
            self._keep_names(operation, self._limits.close_timeout_s + held_s)
        try:
            outcome: StatementOutcome = "failed" if operation.error is not None else operation.life.outcome
            if operation.over is not None:
                outcome = "canceled"
            await self._recorder.record_completed(operation, outcome, reason)
            freed = upstream is None or (with_session and not stopped)
            if upstream is not None and not freed:
                freed = await self._release(upstream, stopped, with_session)
            if freed:
                held_s = self._limits.stopped_s
        finally:
            operation.note_stopped_running()
            operation.hold.release(held_s)
            if stopped:
                self._keep_names(operation, held_s)

    async def _release(self, upstream: BackendOperation, running: bool, with_session: bool) -> bool:
        """Free what Spark holds for an operation; that Spark has already forgotten it does not matter.

        Returns whether Spark has said that it does not run any more.
        """
        stopped = not running
        if stopped and not with_session and upstream.let_go():
            return True
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

    def _handle_ending(self, operation: ThriftOperation, state: OperationState) -> StatementFailed:
        if state.state in ENDINGS:
            message, sqlstate = ENDINGS[state.state]
            return StatementFailed(message, sqlstate, state.error_code or 0, operation.statement_id)
        return self.failure(
            operation, BackendError(state.error_message or "", state.sqlstate, state.error_code or 0)
        )

    def failure(self, operation: ThriftOperation, fault: BackendError) -> StatementFailed:
        """Return what the client may read of an error of Spark."""
        cleared = operation.cleared
        if cleared is not None and operation.plain and may_show_whole(fault.message, cleared):
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
        sqlstate = fault.sqlstate or parse_sqlstate(message) or "HY000"
        return StatementFailed(message, sqlstate, fault.error_code, operation.statement_id)


async def _schema(upstream: BackendOperation) -> Any:
    """Return the schema of a result; None where Spark does not tell it."""
    try:
        return await upstream.schema()
    except BackendError:
        return None
