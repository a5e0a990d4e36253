"""How operations end, whatever ends them: recorded once, effects in force, errors in words for the client."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from typing import Protocol

import structlog

from gateway.errors import AuthenticationFailed, BackendUnavailable, LimitExceeded, RpcError, SluiceError
from gateway.session.connect.errors import Redaction, redact_error
from gateway.session.connect.operation import ConnectOperation, ConnectSession
from gateway.session.dependencies import Dependencies
from gateway.session.failures import StatementFailed, build_overtaken_error
from gateway.session.ports import PlanBackend
from gateway.session.states import Event
from gateway.session.thrift_exceptions import LOST_FILES, SPARK_EXCEPTION, has_lost_files
from gateway.wire import connect_calls
from gateway.wire import connect_errors as spark_errors
from gateway.wire.connect_calls import SessionKey
from gateway.wire.connect_responses import conditions_of_details
from gateway.wire.protobuf import ProtobufError

_log = structlog.get_logger(__name__)

_PAUSES_S = (0.01, 0.05, 0.2, 0.5)
"""Seconds between the attempts to stop an operation in Spark; the last one again and again."""


class Abort(Protocol):
    async def __call__(
        self, session: ConnectSession, reason: str, *, release: bool = True, ending: Exception | None = None
    ) -> None:
        """Close a session whose state in Spark is no longer known."""


class Endings:
    """Ends operations. `abort` closes a session whose state in Spark is no longer known."""

    def __init__(self, dependencies: Dependencies, *, abort: Abort, secrets: Sequence[str]) -> None:
        self.abort = abort
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits
        self._secrets = secrets
        self._tasks: set[asyncio.Task[None]] = set()

    # -- its end -----------------------------------------------------------------------------------------

    async def conclude(
        self,
        operation: ConnectOperation,
        event: Event,
        error: SluiceError | None = None,
        *,
        reason: str = "",
        known: bool | None = None,
    ) -> None:
        """Put an operation's effects in force and record its end; every call after the first does nothing.

        `known`: whether Spark has said how it ended; by default, when it finished.
        """
        if operation.life.ended:
            return
        operation.life.apply(event)
        operation.ended.set()
        operation.resolved.set()
        operation.end_farewell()
        operation.note_stopped_running()
        operation.error = error
        session = operation.session
        if session.pending is operation:
            session.pending = None
        finished = event is Event.FINISH
        stopped = event is not Event.DROP and not (finished if known is None else known)
        certain = operation.settle(finished=finished, stopped=stopped)
        operation.hold.release(self._limits.unsettled_s if stopped else 0)
        await self.run_uncancelled(self._recorder.record_completed(operation, operation.life.outcome, reason))
        if not certain:
            await self.abort(session, "a statement that changes names was interrupted")

    async def record_failure(
        self, operation: ConnectOperation, fault: RpcError
    ) -> RpcError | StatementFailed | LimitExceeded:
        """Note what an error of Spark means for an operation; return what the client may read of it."""
        session = operation.session
        if operation.over is not None:
            # Spark says that it was canceled, or that it has forgotten it.
            return operation.over
        if (
            operation.overtaken
            and not spark_errors.ends_stream_only(fault)
            and not spark_errors.ends_session(fault)
        ):
            changed = build_overtaken_error(operation.statement_id)
            await self.conclude(operation, Event.FAIL, changed, known=True)
            return changed
        redacted = self.redact_error(session, fault, self.redaction(operation))
        if _names_lost_files(fault):
            # Whoever runs it again gets the files of now.
            session.schedule_refresh(operation.cleared.policy_tables)
        if spark_errors.ends_stream_only(fault):
            return redacted
        canceled = operation.interrupted or spark_errors.is_canceled(fault)
        # Without an error class or details it is not Spark's word on the statement but the connection's.
        reported = bool(spark_errors.class_of(fault) or spark_errors.error_id(fault))
        known = reported and not canceled and not spark_errors.ends_operation(fault)
        if not (known or canceled):
            self.give_up(operation)
        error = StatementFailed(redacted.message, "HY000", redacted.code, operation.statement_id)
        await self.conclude(operation, Event.CANCEL if canceled else Event.FAIL, error, known=known)
        if spark_errors.ends_operation(fault):
            self.deregister(operation)
        return await self.abort_on_error(session, fault, redacted)

    async def may_run_again(self, operation: ConnectOperation, fault: RpcError) -> bool:
        """Whether an operation failed because files are gone that may be of a table which its policies read,
        and has neither changed nor shown anything; once."""
        cleared = operation.cleared
        # RULE (lost-files-connect-reads)
        if not (cleared.policy_tables and cleared.read_only) or cleared.effects:
            return False
        gone = operation.overtaken or operation.interrupted or operation.ended.is_set()
        # RULE (lost-files-connect-rows, lost-files-connect-once)
        if gone or operation.ran_again or operation.rows_begun:
            return False
        return _names_lost_files(fault) or await self._is_caused_by_lost_files(operation, fault)

    async def _is_caused_by_lost_files(self, operation: ConnectOperation, fault: RpcError) -> bool:
        """Whether the causes say so of an error that says only that a wait failed."""
        session, error_id = operation.session, spark_errors.error_id(fault)
        if spark_errors.class_of(fault) or not error_id:
            return False
        asked = connect_calls.fetch_error_details(
            session.key, error_id, session.server_session, operation.options.client_type
        )
        try:
            async with asyncio.timeout(self._limits.close_timeout_s):
                details = await session.spark.call("FetchErrorDetails", asked)
            session.remember_details(error_id, details)
            return any(condition in LOST_FILES for condition in conditions_of_details(details))
        except (RpcError, AuthenticationFailed, BackendUnavailable, ProtobufError, TimeoutError):
            return False

    async def release_failed(self, operation: ConnectOperation) -> None:
        """Have Spark free what it holds for an operation that has failed and is to be run again."""
        if operation.reattachable:
            await self._release(operation)

    async def abort_on_error(
        self, session: ConnectSession | None, fault: RpcError, redacted: RpcError
    ) -> RpcError:
        """End the session when that is what an error of Spark says; return what the client is told."""
        if session is not None and spark_errors.ends_session(fault):
            await self.abort(session, "Spark ended the session", release=False, ending=redacted)
        return redacted

    @property
    def plain(self) -> Redaction:
        """For calls that carry no plan: their errors show nothing of one."""
        return Redaction(has_obligations=False, plain=True, secrets=self._secrets)

    @property
    def strictest(self) -> Redaction:
        """For what is of unknown origin: nothing of Spark's text that could be a value is shown."""
        return Redaction(has_obligations=True, secrets=self._secrets)

    def redaction(self, operation: ConnectOperation) -> Redaction:
        """Return what is known of an operation, to tell its errors in the user's words."""
        cleared = operation.cleared
        return Redaction(
            has_obligations=operation.has_obligations,
            plain=operation.plain,
            hides_columns=cleared.hides_columns,
            hides_target=cleared.hides_target,
            substitutions=cleared.substitutions,
            texts=cleared.plan_texts,
            rewritten=cleared.rewritten,
            missing=cleared.missing,
            secrets=self._secrets,
        )

    def redact_error(self, session: ConnectSession | None, fault: RpcError, redaction: Redaction) -> RpcError:
        """Return what the client may read of an error, and remember that it may ask for its details."""
        if session is not None:
            session.remember_error(spark_errors.error_id(fault), redaction, self._limits.error_ids)
        return redact_error(fault, redaction)

    async def stop(self, operation: ConnectOperation, reason: str) -> None:
        """End an operation that nobody waits for any more, here and in Spark."""
        if operation.ended.is_set():
            return
        if not operation.between_runs:
            self.begin_stopping(operation)
        await self.conclude(operation, Event.CANCEL, reason=reason)
        if operation.buffer is not None:
            operation.buffer.finish(spark_errors.spark_error("OPERATION_CANCELED"))

    def cut(self, operation: ConnectOperation, fault: LimitExceeded) -> None:
        """Have an operation ended that has run for as long as its limits allow."""
        if not operation.ended.is_set():
            operation.over = fault
            self.spawn(self._cut(operation, fault))

    async def _cut(self, operation: ConnectOperation, fault: LimitExceeded) -> None:
        if operation.ended.is_set():
            return
        if not operation.between_runs:
            self.begin_stopping(operation)
        await self.conclude(operation, Event.CANCEL, fault)
        if operation.buffer is not None:
            operation.buffer.finish(fault)

    async def end_with_session(
        self, operation: ConnectOperation, reason: str, ending: Exception | None
    ) -> None:
        """End an operation whose session ends: Spark ends it by itself."""
        if operation.ended.is_set():
            # Whoever works it off says how it ended.
            return
        self._cancel_task(operation)
        await self.conclude(operation, Event.CANCEL, reason=reason)
        if operation.buffer is not None:
            operation.buffer.finish(ending)

    def _cancel_task(self, operation: ConnectOperation) -> None:
        if operation.task is not None and operation.task is not asyncio.current_task():
            operation.task.cancel()

    def begin_stopping(self, operation: ConnectOperation) -> None:
        """Have Spark stop it, while others go on."""
        stopping = self.spawn(self.stop_in_spark(operation))
        if not operation.names_seen:
            # Its names must not begin to mean something else before Spark has let go of it.
            operation.session.stopping.add(stopping)
            stopping.add_done_callback(operation.session.stopping.discard)

    def give_up(self, operation: ConnectOperation) -> None:
        """Handle an operation whose outcome Spark never reported: the call was cut off, or a newer call
        overtook it. Spark may still hold it, or may still receive it."""
        if operation.may_look_up_names:
            if operation.task is asyncio.current_task():
                operation.task = None  # it ends by itself, and says why
            self.begin_stopping(operation)

    async def stop_in_spark(self, operation: ConnectOperation) -> None:
        """Ask Spark to stop it and to free what it holds for it.

        INVARIANT (names are judged as Spark will resolve them): where Spark neither has looked up its names
        nor says that it stopped, the session's names may not change any more.
        """
        session = operation.session
        let_go = False
        asked = connect_calls.interrupt(session.key, operation.spark_id, session.server_session)
        try:
            async with asyncio.timeout(self._limits.close_timeout_s):
                for pause in itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1])):
                    let_go = await self._interrupt_operation(operation, asked)
                    if let_go:
                        break
                    # Not yet, also because this call can overtake the one that runs it.
                    await asyncio.sleep(pause)
                if operation.buffer is None and operation.reattachable:
                    await self._release(operation)
        except (RpcError, AuthenticationFailed, BackendUnavailable, ProtobufError, TimeoutError) as fault:
            _log.info("operation_not_stopped_upstream", reason=type(fault).__name__)
        finally:
            # Only now: of a call that was given up Spark would not say that it stopped.
            self._cancel_task(operation)
            operation.hold.release(self._limits.stopped_s if let_go else self._limits.unsettled_s)
            if not let_go:
                session.unstopped = True

    async def _interrupt_operation(self, operation: ConnectOperation, interrupt: bytes) -> bool:
        """Interrupt an operation; whether Spark looks none of its names up from here on."""
        stopped = connect_calls.read_interrupted_ids(
            await operation.session.spark.call("Interrupt", interrupt)
        )
        if operation.names_seen or (operation.task is not None and operation.task.done()):
            return True
        try:
            return await has_ended(operation.session.spark, operation.session.key, operation.spark_id)
        except RpcError:
            # A Spark of before 4.2 says no more than that it has taken note.
            return operation.spark_id in stopped

    async def _release(self, operation: ConnectOperation) -> None:
        """Have Spark free what it holds for an operation; it cannot while it is still stopping it."""
        session = operation.session
        release = connect_calls.release_execute(session.key, operation.spark_id)
        for pause in _PAUSES_S:
            try:
                await session.spark.call("ReleaseExecute", release)
            except RpcError as fault:
                _log.debug("operation_not_released_upstream", reason=spark_errors.class_of(fault))
                await asyncio.sleep(pause)
            else:
                return

    def deregister(self, operation: ConnectOperation) -> None:
        """Take it out of the session; what it has left to do it does unnamed."""
        operation.session.deregister(operation, self._limits.handles)

    # -- tasks -------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run something that outlives the call that began it; `close` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run_uncancelled(self, work: Coroutine[object, object, None]) -> None:
        """Do something to its end, also when the caller is cancelled meanwhile."""
        await asyncio.shield(self.spawn(work))

    async def close(self) -> None:
        """Wait for what is still being done, a bounded time."""
        tasks = {task for task in self._tasks if task is not asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.close_timeout_s)
        for task in tasks:
            task.cancel()


def _names_lost_files(fault: RpcError) -> bool:
    """Whether an error says that a file which a table had is gone."""
    return spark_errors.class_of(fault) in LOST_FILES or has_lost_files(f"{SPARK_EXCEPTION}: {fault.message}")


async def has_run(backend: PlanBackend, key: SessionKey, operation_id: str) -> bool:
    """Whether Spark has seen an operation that it no longer has, or cannot say."""
    try:
        states = await _states(backend, key, operation_id)
    except (RpcError, AuthenticationFailed, BackendUnavailable, ProtobufError):
        return True
    return any(state not in connect_calls.NEVER_SEEN for state in states)


async def has_ended(backend: PlanBackend, key: SessionKey, operation_id: str) -> bool:
    """Whether Spark reports the operation as terminated. Raises as `call` does, and `ProtobufError`."""
    return any(state in connect_calls.ENDED for state in await _states(backend, key, operation_id))


async def _states(backend: PlanBackend, key: SessionKey, operation_id: str) -> list[int]:
    answer = await backend.call("GetStatus", connect_calls.get_status(key, [operation_id]))
    return connect_calls.operation_states(answer)
