"""The way of a plan through a session: settle, judge, record, hand over, and write down how it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

from gateway.errors import (
    AuthenticationFailed,
    BackendUnavailable,
    InvalidRequest,
    LimitExceeded,
    RpcError,
    SluiceError,
)
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
from gateway.model.tracing import begin_span
from gateway.pipeline.checkpoints import refuse_other_checkpoint
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
from gateway.session.endpoint import AskedStatement, DecidedStatement, changes_names
from gateway.session.failures import StatementFailed
from gateway.session.ports import Envelope
from gateway.session.slots import Slot, Slots
from gateway.session.states import Event, State
from gateway.session.view_rules import build_refusal, without_ended_relations
from gateway.wire import connect_calls
from gateway.wire import connect_errors as spark_errors


class ConnectExecution:
    """Has plans judged and hands them over."""

    def __init__(self, dependencies: Dependencies, endings: Endings, streams: Streams) -> None:
        self.deciding = Deciding[ConnectSession, ConnectOperation](dependencies, self)
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits
        self._endings = endings
        self._clock = dependencies.clock
        self._lifecycle = dependencies.lifecycle
        self._streams = streams
        self._metrics = dependencies.metrics
        self._budgets = dependencies.budgets
        self._backend_name = dependencies.backend
        # Spark Connect begins a thread for every execution: only limits of packs have plans wait.
        self.slots = Slots(0, self._limits.statements_waiting, self._budgets.running)

    # -- executing ---------------------------------------------------------------------------------------

    async def start(
        self, session: ConnectSession, plan: PlanRequest, options: ExecutionOptions, client: Client
    ) -> tuple[ConnectOperation, Envelope | None]:
        """Judge, record and register an execution. Without an envelope it is one that was there before.

        Raises StatementRefused, LedgerUnavailable, LimitExceeded, RpcError.
        """
        preparing = Preparing(options.operation_id, options.tags)
        session.preparing.add(preparing)
        slot: Slot | None = None
        try:
            refusal = None
            if options.operation_id not in session.operations:
                try:
                    slot = await self._wait_for_room(session, client, preparing)
                except LimitExceeded as fault:
                    refusal = fault
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
                operation, envelope = await self._begin(session, plan, client, options, refusal=refusal)
                operation.hold_slot(slot)
                slot = None
                return operation, envelope
        except asyncio.CancelledError:
            if preparing.was_interrupted():
                raise spark_errors.spark_error("OPERATION_CANCELED") from None
            raise
        finally:
            session.preparing.discard(preparing)
            if slot is not None:
                slot.release()

    async def _wait_for_room(
        self, session: ConnectSession, client: Client, preparing: Preparing
    ) -> Slot | None:
        """Return the place of a plan among those that run by the limits of its user, when there is one; None
        where no limit counts them. Raises LimitExceeded.

        INVARIANT (nothing waits in a circle): who waits here holds neither the session nor names.
        """
        user = session.principal.user
        bounds = self._budgets.bounds(session.principal_now, client, self._backend_name)
        if not bounds:
            return None
        await self._budgets.running.ask(bounds)
        slot = self.slots.take(user, bounds)
        if slot is not None:
            return slot
        # What waits is no operation yet, and counts like one.
        session.require_place(self._limits.operations_per_session - len(session.waits))
        arrived = asyncio.get_running_loop().time()
        until = arrived + self._limits.spark_wait_s
        session.waits.append(arrived)
        preparing.describe_wait = lambda: self._describe(session, arrived)
        try:
            slot = await self.slots.wait(user, until=until, arrived=arrived, bounds=bounds)
        finally:
            session.waits.remove(arrived)
            preparing.describe_wait = str
            self._metrics.waited.observe(asyncio.get_running_loop().time() - arrived)
        if slot is None:
            full = self.slots.find_full(bounds) or bounds[0]
            raise LimitExceeded(
                f"{full.words}, and none of them ended within {self._limits.spark_wait_s:g} s; run it again "
                "later",
                limit=full.account[0],
                passes=True,
            )
        return slot

    def describe_wait(self, session: ConnectSession) -> str:
        """Say what a plan of a session waits for; empty where none does."""
        return self._describe(session, min(session.waits)) if session.waits else ""

    def _describe(self, session: ConnectSession, arrived: float) -> str:
        bounds = self._budgets.bounds(session.principal_now, session.client, self._backend_name)
        full = self.slots.find_full(bounds)
        place, waiting = self.slots.place(session.principal.user, arrived)
        return f"{full.words if full is not None else 'waiting'}; place {place} of {waiting} in the queue"

    async def run_again(self, operation: ConnectOperation) -> Envelope | None:
        """Judge an operation anew that Spark has failed because a table of its policies was written anew;
        return what to send it in. None when it has ended meanwhile.

        When that fails it has ended; raises as `start` does.
        """
        session = operation.session
        preparing = Preparing(operation.operation_id, operation.options.tags)
        session.preparing.add(preparing)
        operation.hold.release()
        operation.between_runs = True
        try:
            await self._endings.release_failed(operation)
            session.schedule_refresh(operation.cleared.policy_tables)
            async with session.lock:
                session.require_open()
                if operation.ended.is_set():
                    return None
                operation.begin_again()
                return await self._hand_over_again(operation)
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

    async def _hand_over_again(self, operation: ConnectOperation) -> Envelope | None:
        """The session is locked."""
        session, statement = operation.session, replace(operation.cleared.statement, text="")
        asked = AskedStatement(
            statement=statement,
            client=session.client,
            operation_id=operation.operation_id,
            earlier=operation,
        )
        operation.take(await self.deciding.decide(session, asked))
        if operation.ended.is_set():
            # Its session was closed, say, while it was judged.
            operation.hold.release()
            await self._recorder.record_completed(operation, operation.life.outcome)
            return None
        operation.resolved.clear()
        operation.between_runs = False
        return self._prepare_to_forward(operation, operation.options)

    async def analyze(
        self, session: ConnectSession, plan: PlanRequest, client_type: str, client: Client
    ) -> bytes:
        """Judge, record and make an analysis. Raises as `start` does, and redacted RpcErrors of Spark."""
        async with session.lock:
            session.require_open()
            options = ExecutionOptions(client_type=client_type)
            operation, envelope = await self._begin(session, plan, client, options, counts=False)
        return await self._analysis(operation, envelope)

    async def _analysis(self, operation: ConnectOperation, envelope: Envelope) -> bytes:
        try:
            answer = await operation.session.spark.analyze(
                operation.cleared, replace(envelope, operation_id="")
            )
            operation.note_names_resolved()
            operation.relayed_bytes = len(answer)
            await self._endings.conclude(operation, Event.FINISH)
            return answer
        except RpcError as fault:
            raise await self._endings.record_failure(operation, fault) from None
        except (AuthenticationFailed, BackendUnavailable, StatementFailed) as fault:
            await self._endings.conclude(operation, Event.FAIL, fault)
            raise
        finally:
            self._endings.deregister(operation)
            reason = self._lifecycle.reason("the client disconnected")
            await self._endings.conclude(operation, Event.CANCEL, reason=reason)

    async def run_inside(
        self, session: ConnectSession, statement: Statement, client: Client
    ) -> BufferedAnswer:
        """Return what Spark answers to it, which has ended."""
        options = ExecutionOptions(internal=True)
        operation, _ = await self._begin_inside(session, statement, client, options)
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

    def build_own_statement(self, session: ConnectSession, text: str) -> Statement:
        """Write a statement of the gateway's own as the plan that a client would send for it."""
        return self.statement(session, PlanRequest(kind="execute", message=connect_calls.sql_plan(text)))

    async def _begin(
        self,
        session: ConnectSession,
        plan: PlanRequest,
        client: Client,
        options: ExecutionOptions,
        *,
        counts: bool = True,
        refusal: LimitExceeded | None = None,
    ) -> tuple[ConnectOperation, Envelope]:
        """Decide on a client's plan and hand it over. The session is locked."""
        asked = AskedStatement(
            statement=self.statement(session, plan),
            client=client,
            operation_id=options.operation_id,
            counts=counts,
            refusal=refusal,
        )
        decided = await self.deciding.decide(session, asked)
        return await self._hand_over(session, decided, client, options)

    async def _begin_inside(
        self, session: ConnectSession, statement: Statement, client: Client, options: ExecutionOptions
    ) -> tuple[ConnectOperation, Envelope]:
        asked = AskedStatement(statement=statement, client=client, operation_id=options.operation_id)
        decided = await self.deciding.decide_inside(session, asked)
        return await self._hand_over(session, decided, client, options)

    async def restrict(self, session: ConnectSession, verdict: Verdict, client: Client) -> Verdict:
        verdict = self._within_bounds(session, without_ended_relations(session, verdict))
        if isinstance(verdict, Refused) or verdict.checkpoint is None:
            return verdict
        return await self._without_changed_checkpoint(session, verdict, verdict.checkpoint, client)

    async def _hand_over(
        self, session: ConnectSession, decided: DecidedStatement, client: Client, options: ExecutionOptions
    ) -> tuple[ConnectOperation, Envelope]:
        """Register what was decided; of what the gateway works off itself, begin it."""
        cleared = decided.cleared
        buffered = _executes(cleared.statement) and _is_buffered(cleared, options)
        operation = ConnectOperation(session, options, decided, buffer=BufferedAnswer() if buffered else None)
        operation.used_at = self._clock()
        session.operations[operation.operation_id] = operation
        if session.closed:
            self._endings.deregister(operation)
            await self._endings.conclude(operation, Event.DROP, reason="the session was closed")
            session.require_open()
        try:
            await self._verdicts.maintain_dataset(operation.cleared, client)
        except BaseException as fault:
            error = fault if isinstance(fault, InvalidRequest | BackendUnavailable) else None
            self._endings.deregister(operation)
            await self._endings.conclude(operation, Event.FAIL, error, known=True)
            raise
        session.require_open()
        return operation, self._prepare_to_forward(operation, options)

    def _prepare_to_forward(self, operation: ConnectOperation, options: ExecutionOptions) -> Envelope:
        """Note what may change as soon as Spark has an operation, and return what to send it in."""
        session, cleared, hold = operation.session, operation.cleared, operation.hold
        operation.life.apply(Event.FORWARD)
        operation.span = operation.span or begin_span("spark")
        operation.begin_timing(lambda fault: self._endings.cut(operation, fault))
        session.prepare_to_forward(cleared)
        hold.forget_before_forwarding()
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
            await self.deciding.settle_pending(session)
            await self.deciding.let_others_end(session)
            yield

    async def wait_for_end(self, operation: ConnectOperation) -> None:
        await operation.ended.wait()

    async def wait_for_others(self, session: ConnectSession) -> None:
        for operation in list(session.operations.values()):
            await self._note_resolved(operation)
        for task in list(session.stopping):
            await asyncio.wait({task})

    def has_room(self, session: ConnectSession, verdict: Verdict) -> bool:
        return True

    async def abort(self, session: ConnectSession, reason: str) -> None:
        await self._endings.abort(session, reason)

    def _see_looked_up(self, operation: ConnectOperation) -> None:
        """Find out that Spark has looked up the names of an execution that its client has left."""
        self._endings.spawn(self._note_resolved(operation))

    async def _note_resolved(self, operation: ConnectOperation) -> None:
        if not operation.resolved.is_set():
            await self._streams.watch(operation)
        await operation.resolved.wait()

    def _within_bounds(self, session: ConnectSession, verdict: Verdict) -> Verdict:
        """Refuse what would make the session keep more than it may."""
        if isinstance(verdict, Refused):
            return verdict
        registered = {e.handle for e in verdict.effects if isinstance(e, RegisterCode)}
        if len(session.context.handles | registered) > self._limits.handles and registered:
            return build_refusal(
                verdict, "LIMIT_EXCEEDED", "54000", "this session has registered too many functions"
            )
        if not any(isinstance(effect, CreateTempView) for effect in verdict.effects):
            return verdict
        plan = verdict.statement.plan
        size = len(verdict.forwarded_plan) + (len(plan.message) if plan is not None else 0)
        if session.cached_plan_bytes + size <= self._limits.cached_plan_bytes:
            return verdict
        return build_refusal(
            verdict,
            "LIMIT_EXCEEDED",
            "54000",
            "the plans of this session's temporary views are too large to store; drop some views, or save "
            "the data as a table",
        )

    async def _without_changed_checkpoint(
        self, session: ConnectSession, verdict: Cleared, checkpoint: Checkpoint, client: Client
    ) -> Verdict:
        """Refuse a stream whose location has a checkpoint that began with other things."""
        # The gateway's own question for what is in the directory.
        question = replace(verdict.statement, text="", plan=None, checkpoint=checkpoint)
        operation, envelope = await self._begin_inside(session, question, client, ExecutionOptions())
        try:
            known = connect_calls.read_checkpoints(await self._analysis(operation, envelope))
        except RpcError as fault:
            if spark_errors.class_of(fault) != "PATH_NOT_FOUND":
                raise BackendUnavailable("Spark could not check for the checkpoints of a stream") from None
            known = frozenset()
        return refuse_other_checkpoint(verdict, checkpoint, known)


def _executes(statement: Statement) -> bool:
    """Whether Spark is to execute it. What has no plan of a client's is a statement of the gateway's own."""
    return statement.checkpoint is None and (statement.plan is None or statement.plan.kind == "execute")


def _is_buffered(cleared: Cleared, options: ExecutionOptions) -> bool:
    """Whether the gateway must see the whole answer: to read or change it, or to learn its end whatever
    happens."""
    filtered = cleared.answer.filter is not AnswerFilter.RELAY
    changed = filtered or bool(cleared.original_relation)
    # RULE (scripts-to-their-end)
    lasting = changes_names(cleared.effects) or cleared.names_until_end
    return options.internal or changed or lasting
