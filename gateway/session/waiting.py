"""Statements of HiveServer2 clients that wait until Spark has room for them, and how those end that never get
there.

A statement that waits is PENDING to its client, as HiveServer2 has it. It holds the lock of its session, so
that what is judged next there comes after it, and no names of the catalog; its decision is on record. When
there is a slot for it, it is judged again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from gateway.errors import BackendUnavailable, LimitExceeded, SluiceError
from gateway.model.tracing import begin_span
from gateway.session.dependencies import Dependencies
from gateway.session.failures import StatementFailed
from gateway.session.operation import ENDINGS, LOG_SCHEMA, LocalRows, Session, ThriftOperation
from gateway.session.slots import RunningBound, Slots
from gateway.session.states import Event

_log = structlog.get_logger(__name__)

MAX_LOG_LINES = 200
"""Lines that say what a statement waits for."""
LET_GO = "it was aborted while it waited for Spark"


class Starts(Protocol):
    async def start_again(self, operation: ThriftOperation, left_s: int) -> None:
        """Judge an operation anew and forward it, with `left_s` seconds left of the client's timeout, 0 for
        none. The session is locked, and has a slot."""


class WaitingStatements:
    """Who waits for Spark, and `slots`, what for."""

    def __init__(self, dependencies: Dependencies, execution: Starts) -> None:
        self._execution = execution
        self._recorder = dependencies.recorder
        self._limits = limits = dependencies.limits
        self._metrics = metrics = dependencies.metrics
        self._tasks: set[asyncio.Task[None]] = set()
        self._budgets = dependencies.budgets
        self._backend = dependencies.backend
        self.slots = Slots(limits.statements, limits.statements_waiting, self._budgets.running)
        self._unwatch = (
            metrics.watch(metrics.spark_statements, lambda: self.slots.held),
            metrics.watch(metrics.statements_waiting, lambda: self.slots.waiting),
        )

    # -- slots -------------------------------------------------------------------------------------------

    def take(self, session: Session) -> None:
        """Give the session a slot if there is one. Raises LimitExceeded when there is none and no more may
        wait."""
        if session.slot is None:
            session.slot = self.slots.take(session.principal.user, self._bounds(session))
        if session.slot is None:
            self.slots.require_place()

    async def ask(self, session: Session) -> None:
        """Have a share of the limits of its user, of what all gateways leave."""
        await self._budgets.running.ask(self._bounds(session))

    def give_back(self, session: Session) -> None:
        """Let another have the slot that no statement was handed over with."""
        slot, session.slot = session.slot, None
        if slot is not None:
            slot.release()

    def note_taken(self, operation: ThriftOperation, watch: Callable[[], None]) -> None:
        """Note that Spark has taken an operation, with the session's slot; `watch` finds out how it ends."""
        if operation.waiting_span is not None:
            operation.waiting_span.end()
            operation.waiting_span = None
        slot, operation.session.slot = operation.session.slot, None
        if slot is not None:
            operation.slot = slot
            self.slots.note_taken()
            slot.follow(watch)

    def note_refused(self, session: Session) -> None:
        """Note that Spark had no room after all."""
        slot, session.slot = session.slot, None
        if slot is not None:
            self.slots.note_refused(slot)
        self._metrics.spark_full.inc()

    # -- waiting -----------------------------------------------------------------------------------------

    def enqueue(self, operation: ThriftOperation) -> None:
        """Make an operation one that waits. It holds no names from here on."""
        operation.life.apply(Event.QUEUE)
        operation.waiting_span = operation.waiting_span or begin_span("wait for spark")
        if not operation.arrived:
            operation.arrived = asyncio.get_running_loop().time()
            operation.log = LocalRows([(self.describe(operation, entering=True),)], LOG_SCHEMA)

    def describe(self, operation: ThriftOperation, *, entering: bool = False) -> str:
        """Say what an operation waits for, and its place; `entering`: it is about to come into the queue."""
        session, slots = operation.session, self.slots
        place, waiting = slots.place(session.principal.user, operation.arrived)
        if entering:
            place = waiting = slots.waiting + 1
        full = slots.find_full(self._bounds(session))
        why = f"waiting for Spark, which is running {slots.held} statements" if full is None else full.words
        return f"{why}; place {place} of {waiting} in the queue"

    def tell_place(self, operation: ThriftOperation) -> None:
        """Put the place in the log of an operation that waits, where it is another one by now."""
        if operation.queued and (log := operation.log) is not None and len(log.rows) < MAX_LOG_LINES:
            line = self.describe(operation)
            if log.rows[-1][0] != line:
                log.rows = [*log.rows, (line,)]

    def _bounds(self, session: Session) -> Sequence[RunningBound]:
        return self._budgets.bounds(session.principal, session.client, self._backend)

    def begin_again(self, operation: ThriftOperation) -> None:
        """Have an operation started anew that Spark has failed, when its session is free and there is a slot.

        The session is not locked: what is judged there meanwhile goes first.
        """
        operation.life.apply(Event.AGAIN)
        operation.ran_again = True
        operation.upstream = None
        operation.arrived = asyncio.get_running_loop().time()
        operation.moved.clear()
        operation.taking = asyncio.create_task(self._lock(operation))
        self._tasks.add(operation.taking)
        operation.taking.add_done_callback(lambda task: self._handle_given_up(operation, task))

    async def _lock(self, operation: ThriftOperation) -> None:
        await operation.session.lock.acquire()
        self.begin(operation, 0)

    def _handle_given_up(self, operation: ThriftOperation, task: asyncio.Task[None]) -> None:
        """Note the end of a wait for the session's lock; without the lock, it is that of the operation."""
        self._tasks.discard(task)
        if operation.taking is task:
            if operation.running:
                operation.life.apply(Event.FAIL)
                operation.error = BackendUnavailable("the statement was aborted")
            operation.moved.set()

    def begin(self, operation: ThriftOperation, timeout_s: int) -> None:
        """Have an operation that is `queued` started when there is a slot for it.

        The session is locked, and given back when the operation is with Spark or has ended.
        """
        operation.taking = asyncio.create_task(self._follow(operation, timeout_s))
        self._tasks.add(operation.taking)
        # Not within the task: one that is cancelled before it ran does nothing.
        operation.taking.add_done_callback(lambda task: self._over(operation, task))

    async def wait_for_progress(self, operation: ThriftOperation) -> None:
        """Wait until something becomes of an operation that waits, at most for a long poll."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.poll_s):
                await operation.moved.wait()

    async def cancel(self, operation: ThriftOperation) -> None:
        """Take an operation out that waits; when it is just being handed over, return when that is done."""
        if operation.taking is None or not operation.not_with_spark_yet:
            return
        operation.unwanted = True
        if operation.queued:
            operation.taking.cancel()
            await self._end(operation, Event.CANCEL)
        else:
            await asyncio.wait({operation.taking})

    def withdraw(self, operation: ThriftOperation) -> bool:
        """Take an operation out that is being closed. False when it is just being handed over: whoever does
        that ends it."""
        if operation.taking is not None and operation.not_with_spark_yet:
            if not operation.queued:
                return False
            operation.taking.cancel()
        return True

    async def close(self) -> None:
        """Return when nothing waits any more; every session is closed by now."""
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.close_timeout_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.slots.close()
        for stop in self._unwatch:
            stop()

    # -- inside ------------------------------------------------------------------------------------------

    async def _follow(self, operation: ThriftOperation, timeout_s: int) -> None:
        session, clock = operation.session, asyncio.get_running_loop().time
        times_out = 0 < timeout_s <= self._limits.spark_wait_s
        until = operation.arrived + (timeout_s if times_out else self._limits.spark_wait_s)
        try:
            while operation.queued:
                session.slot = await self.slots.wait(
                    session.principal.user,
                    until=until,
                    arrived=operation.arrived,
                    bounds=self._bounds(session),
                )
                operation.life.apply(Event.ADMIT)
                if session.slot is None:
                    event = Event.TIME_OUT if times_out else Event.DROP
                    await self._end(operation, event, self._no_room(session))
                    return
                left_s = max(1, round(operation.arrived + timeout_s - clock())) if timeout_s else 0
                await self._execution.start_again(operation, left_s)
            if operation.unwanted and not operation.life.forwarded:
                await self._end(operation, Event.CANCEL)
            elif operation.closed:
                await self._recorder.record_completed(operation, "canceled", LET_GO)
        except SluiceError as fault:
            await self._end(operation, Event.DROP, fault)

    def _over(self, operation: ThriftOperation, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if operation.running and operation.upstream is None:
            operation.life.apply(Event.FAIL)
            operation.error = BackendUnavailable("the statement was aborted")
        self.give_back(operation.session)
        operation.session.lock.release()
        self._metrics.waited.observe(asyncio.get_running_loop().time() - operation.arrived)
        operation.moved.set()
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("statement_given_up", exc_info=fault)

    async def _end(self, operation: ThriftOperation, event: Event, error: SluiceError | None = None) -> None:
        """End an operation that Spark never had."""
        if not operation.terminal:
            operation.life.apply(event)
            if operation.state in ENDINGS:
                error = StatementFailed(*ENDINGS[operation.state], 0, operation.statement_id)
            operation.error = error
        why = LET_GO if event is Event.CANCEL else ""
        await self._recorder.record_completed(operation, operation.life.outcome, why)

    def _no_room(self, session: Session) -> LimitExceeded:
        full = self.slots.find_full(self._bounds(session))
        if full is not None:
            return LimitExceeded(
                f"{full.words}, and none of them ended within {self._limits.spark_wait_s:g} s; run it again "
                "later",
                limit=full.account[0],
                passes=True,
            )
        return LimitExceeded(
            f"Spark is running {self._limits.statements} statements, its limit, and did not have a free "
            f"slot within {self._limits.spark_wait_s:g} s; run it again later",
            passes=True,
        )
