"""The way of a plan through a session: settle, judge, record, hand over, and write down how it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from dataclasses import replace

from gateway.errors import BackendUnavailable, InvalidRequest, RpcError, SluiceError
from gateway.model.meaning_settings import may_change_meaning
from gateway.model.statement import (
    AnswerFilter,
    Checkpoint,
    Cleared,
    Client,
    CreateTempView,
    PlanRequest,
    Refused,
    RegisterCode,
    Statement,
    Verdict,
)
from gateway.pipeline.checkpoints import going_on_with
from gateway.session import barriers
from gateway.session.connect.endings import Endings
from gateway.session.connect.operation import (
    BufferedAnswer,
    ConnectOperation,
    ConnectSession,
    ExecutionOptions,
    Preparing,
)
from gateway.session.connect.streams import Streams
from gateway.session.deciding import Deciding
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import changes_names
from gateway.session.failures import StatementFailed
from gateway.session.ports import Envelope, PlanBackend
from gateway.session.states import Event, State
from gateway.session.view_rules import refused, without_ended_relations
from gateway.session.waiting import RUN_AGAIN, is_as_recorded
from gateway.wire import connect_calls
from gateway.wire import connect_errors as spark_errors


class ConnectExecution(Deciding[ConnectSession, ConnectOperation]):
    """Judges plans and hands them over."""

    def __init__(
        self, dependencies: Dependencies, backend: PlanBackend, endings: Endings, streams: Streams
    ) -> None:
        super().__init__(dependencies)
        self._backend = backend
        self._endings = endings
        self._clock = dependencies.clock
        self._lifecycle = dependencies.lifecycle
        self._streams = streams

    # -- executing ---------------------------------------------------------------------------------------

    async def start(
        self, session: ConnectSession, plan: PlanRequest, options: ExecutionOptions, client: Client
    ) -> tuple[ConnectOperation, Envelope | None]:
        """Judge, record and register an execution. Without an envelope it is one that was there before.

        Raises StatementRefused, LedgerUnavailable, LimitExceeded, RpcError.
        """
        preparing = Preparing(options.operation_id, options.tags)
        session.preparing.add(preparing)
        try:
            async with session.lock:
                session.require_open()
                known = session.operations.get(options.operation_id)
                if known is not None:
                    # A client that was cut off before the first response asks again, as it would ask Spark.
                    if known.reattachable and known.digest == options.digest and not known.released:
                        return known, None
                    raise spark_errors.spark_error(
                        "INVALID_HANDLE.OPERATION_ALREADY_EXISTS", options.operation_id
                    )
                session.require_shown(options.operation_id)
                return await self._prepared(session, plan, client, options)
        except asyncio.CancelledError:
            if preparing.was_interrupted():
                raise spark_errors.spark_error("OPERATION_CANCELED") from None
            raise
        finally:
            session.preparing.discard(preparing)

    async def run_again(self, operation: ConnectOperation) -> Envelope | None:
        """Judge an operation anew that Spark has failed because a table of its policies was written anew;
        return what to send it in. None when it has ended meanwhile.

        When that fails it has ended; raises as `start` does.
        """
        session = operation.session
        preparing = Preparing(operation.operation_id, operation.options.tags)
        session.preparing.add(preparing)
        operation.hold.end()
        operation.between_runs = True
        try:
            await self._endings.let_go_of_failed(operation)
            session.look_again_at(operation.cleared.policy_tables)
            async with session.lock:
                session.require_open()
                if operation.ended.is_set():
                    return None
                operation.begin_again()
                return await barriers.retry_if_views_changed(
                    lambda: self.prepare(session, session.client),
                    lambda: self._handed_over_again(operation),
                    wait_s=self._limits.catalog_wait_s,
                )
        except asyncio.CancelledError:
            if preparing.was_interrupted():
                await self._endings.conclude(operation, Event.CANCEL, known=True)
                raise spark_errors.spark_error("OPERATION_CANCELED") from None
            raise
        except (SluiceError, RpcError) as fault:
            error = fault if isinstance(fault, SluiceError) else None
            await self._endings.conclude(operation, Event.FAIL, error, known=True)
            raise
        finally:
            session.preparing.discard(preparing)

    async def _handed_over_again(self, operation: ConnectOperation) -> Envelope | None:
        """The session is locked. Raises ViewsMoved too."""
        session, statement = operation.session, operation.cleared.statement

        async def record(verdict: Verdict, statement_id: str, judged_s: float) -> None:
            if is_as_recorded(verdict, operation):  # RULE (lost-files-connect-policies)
                return
            await self._recorder.completed(operation, "failed", RUN_AGAIN)
            await self._record(
                session, session.client, verdict, statement_id, judged_s, operation.operation_id
            )
            operation.statement_id, operation.completed = statement_id, isinstance(verdict, Refused)

        asked = replace(statement, text="", context=session.context)
        await self._decided(
            session,
            asked,
            session.client,
            ready=lambda _: True,
            record=record,
            begin=lambda _, statement_id: operation,
        )
        if operation.ended.is_set():
            # Its session was closed, say, while it was judged.
            operation.hold.end()
            await self._recorder.completed(operation, operation.life.outcome)
            return None
        operation.resolved.clear()
        operation.between_runs = False
        return self._forwarding(operation, operation.options)

    async def _record(
        self,
        session: ConnectSession,
        client: Client,
        verdict: Verdict,
        statement_id: str,
        judged_s: float,
        operation_id: str,
    ) -> None:
        await self._recorder.decided(
            verdict,
            statement_id=statement_id,
            client=client,
            session=session.session_id,
            judged_s=judged_s,
            views=session.views_made_by(verdict),
            relations=session.relations_made_by(verdict),
            operation=operation_id,
        )

    async def analyze(
        self, session: ConnectSession, plan: PlanRequest, client_type: str, client: Client
    ) -> bytes:
        """Judge, record and make an analysis. Raises as `start` does, and redacted RpcErrors of Spark."""
        async with session.lock:
            session.require_open()
            options = ExecutionOptions(client_type=client_type)
            operation, envelope = await self._prepared(session, plan, client, options)
        return await self._analysis(operation, envelope)

    async def _analysis(self, operation: ConnectOperation, envelope: Envelope) -> bytes:
        try:
            answer = await self._backend.analyze(operation.cleared, replace(envelope, operation_id=""))
            operation.looked_up()
            operation.relayed_bytes = len(answer)
            await self._endings.conclude(operation, Event.FINISH)
            return answer
        except RpcError as fault:
            raise await self._endings.failed(operation, fault) from None
        except (BackendUnavailable, StatementFailed) as fault:
            await self._endings.conclude(operation, Event.FAIL, fault)
            raise
        finally:
            self._endings.deregister(operation)
            reason = self._lifecycle.reason("the client went away")
            await self._endings.conclude(operation, Event.CANCEL, reason=reason)

    async def run_inside(
        self, session: ConnectSession, statement: Statement, client: Client
    ) -> BufferedAnswer:
        """Return what Spark answers to it, which has ended."""
        options = ExecutionOptions(internal=True)
        try:
            operation, _ = await self._begin(session, statement, client, options)
        except barriers.ViewsMoved:
            raise barriers.overtaken("") from None
        try:
            await operation.ended.wait()
        finally:
            operation.released = True
            if operation.ended.is_set():
                self._endings.deregister(operation)
        if operation.life.state is not State.FINISHED or operation.buffer is None:
            text = operation.error.text if operation.error is not None else "the statement did not finish"
            raise StatementFailed(text, "HY000", 0, operation.statement_id)
        return operation.buffer

    def statement(self, session: ConnectSession, plan: PlanRequest) -> Statement:
        return Statement(text="", principal=session.principal, context=session.context, plan=plan)

    def own(self, session: ConnectSession, text: str) -> Statement:
        """Write a statement of the gateway's own as the plan that a client would send for it."""
        return self.statement(session, PlanRequest(kind="execute", message=connect_calls.sql_plan(text)))

    async def _prepared(
        self, session: ConnectSession, plan: PlanRequest, client: Client, options: ExecutionOptions
    ) -> tuple[ConnectOperation, Envelope]:
        """Begin a client's plan in a session that is ready for it. The session is locked."""
        return await barriers.retry_if_views_changed(
            lambda: self.prepare(session, client),
            lambda: self._begin(session, self.statement(session, plan), client, options),
            wait_s=self._limits.catalog_wait_s,
        )

    async def _judge(self, session: ConnectSession, statement: Statement, client: Client) -> Verdict:
        verdict = await super()._judge(session, statement, client)
        verdict = self._within_bounds(session, without_ended_relations(session, verdict))
        if isinstance(verdict, Refused) or verdict.checkpoint is None:
            return verdict
        return await self._without_changed_checkpoint(session, verdict, verdict.checkpoint, client)

    async def _begin(
        self, session: ConnectSession, statement: Statement, client: Client, options: ExecutionOptions
    ) -> tuple[ConnectOperation, Envelope]:
        """Decide, register and hand over; of what the gateway works off itself, begin it.

        The session is locked. Raises ViewsMoved too.
        """
        session.require_place(self._limits.operations_per_session)

        async def record(verdict: Verdict, statement_id: str, judged_s: float) -> None:
            await self._record(session, client, verdict, statement_id, judged_s, options.operation_id)

        def begin(cleared: Cleared, statement_id: str) -> ConnectOperation:
            buffered = _executes(statement) and _is_buffered(cleared, options)
            buffer = BufferedAnswer() if buffered else None
            return ConnectOperation(session, options, statement_id, cleared, buffer=buffer)

        operation, _ = await self._decided(
            session, statement, client, ready=lambda _: True, record=record, begin=begin
        )
        operation.used_at = self._clock()
        session.operations[operation.operation_id] = operation
        if session.closed:
            self._endings.deregister(operation)
            await self._endings.conclude(operation, Event.DROP, reason="the session was closed")
            session.require_open()
        try:
            await self._verdicts.tend(operation.cleared, client)
        except BaseException as fault:
            error = fault if isinstance(fault, InvalidRequest | BackendUnavailable) else None
            self._endings.deregister(operation)
            await self._endings.conclude(operation, Event.FAIL, error, known=True)
            raise
        session.require_open()
        return operation, self._forwarding(operation, options)

    def _forwarding(self, operation: ConnectOperation, options: ExecutionOptions) -> Envelope:
        """Note what may change as soon as Spark has an operation, and return what to send it in."""
        session, cleared, hold = operation.session, operation.cleared, operation.hold
        operation.life.on(Event.FORWARD)
        session.forwarding(cleared)
        hold.forwarding()
        if hold.request.read_only:
            hold.follow(lambda: self._see_looked_up(operation))
        if "RemoveCachedRemoteRelation" in cleared.plan_class:
            for handle in cleared.handles & session.relations.keys():
                session.drop_handle(handle)
        relayed = operation.buffer is None
        envelope = Envelope(
            session_id=session.session_id,
            user=session.principal.user,
            client_type=options.client_type,
            operation_id=operation.spark_id,
            tags=options.tags,
            # INVARIANT (no unchanged answer): what the gateway must change cannot be fetched from Spark by
            # anybody who comes later, not even through a gateway that was started anew.
            reattachable=options.reattachable and relayed,
            chunked=options.chunked and relayed,
            chunk_bytes=options.chunk_bytes if relayed else None,
            server_session=session.server_session,
        )
        if not relayed:
            if operation.changes_names:
                session.pending = operation
            operation.task = self._endings.spawn(self._streams.drive(operation, envelope))
        return envelope

    @contextlib.asynccontextmanager
    async def configuring(self, session: ConnectSession, keys: Iterable[str]) -> AsyncIterator[None]:
        """Surround a `Config` call that changes these settings: while some change that expressions depend on,
        nothing of the session is judged, or still analysed in Spark."""
        if not any(may_change_meaning(key) for key in keys):
            yield
            return
        async with session.lock:
            session.require_open()
            await self._settle_pending(session)
            await self._let_others_end(session)
            yield

    async def _let_others_end(self, session: ConnectSession) -> None:
        await super()._let_others_end(session)
        if session.unstopped:
            await self._abort(session, "Spark did not say that a statement was stopped")
        session.require_open()

    def _others(self, session: ConnectSession) -> Iterator[Awaitable[None]]:
        yield from (self._resolved(operation) for operation in list(session.operations.values()))
        yield from (_done(task) for task in list(session.stopping))

    async def _ended(self, operation: ConnectOperation) -> None:
        await operation.ended.wait()

    async def _abort(self, session: ConnectSession, reason: str) -> None:
        await self._endings.abort(session, reason)

    def _see_looked_up(self, operation: ConnectOperation) -> None:
        """Find out that Spark has looked up the names of an execution that its client has left."""
        self._endings.spawn(self._resolved(operation))

    async def _resolved(self, operation: ConnectOperation) -> None:
        if not operation.resolved.is_set():
            await self._streams.watch(operation)
        await operation.resolved.wait()

    def _within_bounds(self, session: ConnectSession, verdict: Verdict) -> Verdict:
        """Refuse what would make the session keep more than it may."""
        if isinstance(verdict, Refused):
            return verdict
        registered = {e.handle for e in verdict.effects if isinstance(e, RegisterCode)}
        if len(session.context.handles | registered) > self._limits.handles and registered:
            return refused(
                verdict, "LIMIT_EXCEEDED", "54000", "this session has registered too many functions"
            )
        if not any(isinstance(effect, CreateTempView) for effect in verdict.effects):
            return verdict
        plan = verdict.statement.plan
        size = len(verdict.forwarded_plan) + (len(plan.message) if plan is not None else 0)
        if session.cached_plan_bytes + size <= self._limits.cached_plan_bytes:
            return verdict
        return refused(
            verdict,
            "LIMIT_EXCEEDED",
            "54000",
            "the plans of this session's temporary views are too large to be kept; drop some of the views, "
            "or save the data as a table",
        )

    async def _without_changed_checkpoint(
        self, session: ConnectSession, verdict: Cleared, checkpoint: Checkpoint, client: Client
    ) -> Verdict:
        """Refuse a stream whose location has a checkpoint that began with other things."""
        # The gateway's own question for what is in the directory.
        question = replace(verdict.statement, text="", plan=None, checkpoint=checkpoint)
        operation, envelope = await self._begin(session, question, client, ExecutionOptions())
        try:
            known = connect_calls.listed_checkpoints(await self._analysis(operation, envelope))
        except RpcError as fault:
            if spark_errors.class_of(fault) != "PATH_NOT_FOUND":
                raise BackendUnavailable("Spark could not look for the checkpoints of a stream") from None
            known = frozenset()
        return going_on_with(verdict, checkpoint, known)


def _executes(statement: Statement) -> bool:
    """Whether Spark is to execute it. What has no plan of a client's is a statement of the gateway's own."""
    return statement.checkpoint is None and (statement.plan is None or statement.plan.kind == "execute")


def _is_buffered(cleared: Cleared, options: ExecutionOptions) -> bool:
    """Whether the gateway must see the whole answer: to read or change it, or to learn its end whatever
    happens."""
    filtered = cleared.answer.filter is not AnswerFilter.RELAY
    changed = filtered or bool(cleared.original_relation)
    return options.internal or changed or changes_names(cleared.effects)


async def _done(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})
