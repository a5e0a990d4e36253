"""Responses on their way: relayed as bytes with back-pressure, held because they must be changed, or read on
for a client that has left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import structlog

from gateway.errors import BackendUnavailable, InvalidRequest, LimitExceeded, RpcError, SluiceError
from gateway.model.principal import Principal
from gateway.model.statement import AnswerFilter, Client
from gateway.session import audit_records
from gateway.session.answers import UnknownShape
from gateway.session.connect.answers import (
    filter_responses,
    patch_sql_result,
    tables_in_batches,
    tables_in_sql_result,
)
from gateway.session.connect.endings import Endings, has_run
from gateway.session.connect.errors import Redaction
from gateway.session.connect.operation import BufferedAnswer, ConnectOperation, ConnectSession
from gateway.session.connect.window import AHEAD_BYTES, Windows
from gateway.session.dependencies import Dependencies
from gateway.session.failures import StatementFailed
from gateway.session.freshness import OpenResults, explain_ended
from gateway.session.identifiers import new_uuid
from gateway.session.ports import Envelope, PlanBackend
from gateway.session.states import Event
from gateway.wire import connect_calls
from gateway.wire import connect_peek as peeked
from gateway.wire.connect_calls import SessionKey
from gateway.wire.connect_errors import ends_operation, ends_stream_only, spark_error
from gateway.wire.connect_peek import ResponsePeek, with_operation_id
from gateway.wire.connect_responses import redact_response, result_complete
from gateway.wire.protobuf import ProtobufError

_log = structlog.get_logger(__name__)

_REPORTING = (
    peeked.WRITE_STREAM_OPERATION_START_RESULT,
    peeked.STREAMING_QUERY_COMMAND_RESULT,
    peeked.STREAMING_QUERY_LISTENER_EVENTS_RESULT,
)
"""Responses in which Spark tells, in words, of what it runs."""
_COUNTING = (peeked.EXECUTION_PROGRESS,)
_BEFORE_ROWS = (peeked.NONE, peeked.EXECUTION_PROGRESS)
"""Responses that tell a schema, or that Spark is at work."""
WENT_AWAY = "the client disconnected"


class Streams:
    """Every stream of responses, one upstream message at a time."""

    def __init__(
        self,
        dependencies: Dependencies,
        endings: Endings,
        run_again: Callable[[ConnectOperation], Awaitable[Envelope | None]],
    ) -> None:
        """`run_again` judges an operation anew; see `ConnectExecution.run_again`."""
        self._endings = endings
        self._run_again = run_again
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits
        self._budgets = dependencies.budgets
        self._spark = dependencies.backend
        self._metrics = dependencies.metrics
        self._lifecycle = dependencies.lifecycle
        self._clock = dependencies.clock
        self._open = OpenResults(self._verdicts, end=self._limits.end_results_on_policy_change)
        self.windows = Windows()

    def stream_new(self, operation: ConnectOperation, envelope: Envelope) -> AsyncGenerator[bytes, None]:
        """Return the responses of a new execution."""
        if operation.buffer is not None:
            return self._serve(operation, operation.buffer, "")
        return self._relay(operation, operation.session.spark.execute(operation.cleared, envelope))

    def stream_after(
        self, operation: ConnectOperation, last_response_id: str = "", client_type: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Return the responses after the last one that the client has, of a known execution."""
        if not operation.reattachable:
            raise spark_error("INVALID_CURSOR.NOT_REATTACHABLE")
        if operation.over is not None:
            raise operation.over
        if operation.buffer is not None:
            return self._serve(operation, operation.buffer, last_response_id)
        session = operation.session
        if operation.is_superseded(last_response_id):
            # Of the second run the client has nothing.
            last_response_id = ""
        request = connect_calls.reattach(
            session.key,
            operation.spark_id,
            last_response_id,
            observed=session.server_session,
            client_type=client_type,
        )
        return self._relay(operation, session.spark.reattach(request))

    # -- relaying ----------------------------------------------------------------------------------------

    async def _relay(
        self, operation: ConnectOperation, source: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """Pass responses on as they are, reading the next one when this one was taken."""
        # It can end at any response, and each end means something else. Spark's error is the end of the
        # statement, or of this stream only. What is found out here has Spark stop it. Where Spark is out of
        # reach, it may go on. Of a client that goes away there is no more than `finally`.
        reading = _ResponseReader(operation, self._clock)
        redaction = self._endings.redaction(operation)
        try:
            key = *operation.session.key, operation.operation_id
            async with reading, self.windows.over(key) as window:
                more: AsyncGenerator[bytes, None] | None = source
                while more is not None:
                    running, more = more, None
                    try:
                        async with aclosing(running):
                            async for data in running:
                                seen = peeked.look_at(data)
                                await self._open.require(operation, operation.session.client)
                                await self._note(operation, seen, data)
                                operation.last_response_id = seen.response_id
                                window.note_sent(seen.response_id, len(data))
                                yield _redact_response(seen, _of_client(operation, data), redaction)
                                if operation.reattachable:
                                    await window.wait_for_room()
                                reading.check()
                    except RpcError as fault:
                        more = await self._again(operation, reading, fault)
                        if more is None:
                            raise
                        redaction = self._endings.redaction(operation)
            if not operation.reattachable:
                await self._endings.conclude(operation, Event.FINISH)
        except RpcError as fault:
            if ends_stream_only(fault) or not reading.current:
                raise self._endings.redact_error(operation.session, fault, redaction) from None
            raise await self._endings.record_failure(operation, fault) from None
        except SluiceError as fault:
            if operation.between_runs:
                raise
            if not isinstance(fault, BackendUnavailable):
                self._endings.begin_stopping(operation)
            elif operation.reattachable:
                # Spark may go on with it, and the client come back.
                raise
            else:
                self._endings.give_up(operation)
            await self._endings.conclude(operation, _find_ending(operation), fault)
            raise
        finally:
            if operation.reattachable and not operation.between_runs:
                self._begin_farewell(operation)
            else:
                self._endings.deregister(operation)
                await self._endings.stop(operation, self._lifecycle.reason(WENT_AWAY))

    async def _again(
        self, operation: ConnectOperation, reading: _ResponseReader, fault: RpcError
    ) -> AsyncGenerator[bytes, None] | None:
        """Begin an operation anew that has failed because a table of its policies was written anew, as long
        as no row of it was relayed; None where its error is to be told."""
        if not reading.current or not await self._endings.may_run_again(operation, fault):
            return None
        envelope = await self._run_again(operation)
        return None if envelope is None else operation.session.spark.execute(operation.cleared, envelope)

    async def _note(self, operation: ConnectOperation, seen: ResponsePeek, data: bytes) -> None:
        """Take down what a response says before it goes on."""
        if seen.case == peeked.SQL_COMMAND_RESULT and operation.buffer is None:
            # A relation that Spark sends back goes nowhere that it was not expected.
            raise StatementFailed(
                "[SLUICE_NOT_GOVERNABLE] the response contains a relation that cannot be shown",
                "0A000",
                0,
                operation.statement_id,
            )
        session = operation.session
        if seen.server_session and seen.server_session != session.server_session:
            raise spark_error("INVALID_HANDLE.SESSION_CHANGED", session.session_id)
        if seen.analysed:
            operation.note_names_resolved()
        self._learn(operation, seen, data)
        self._count(operation, seen, len(data))
        if seen.case == peeked.RESULT_COMPLETE:
            await self._endings.conclude(operation, Event.FINISH)

    def _count(self, operation: ConnectOperation, seen: ResponsePeek, size: int) -> None:
        if seen.case in _BEFORE_ROWS and not seen.metrics:
            operation.note_relayed_before_rows(seen.response_id)
        else:
            operation.rows_begun = True
        rows = seen.rows if seen.first_chunk else 0
        if rows and operation.answered is None:
            operation.answered = time.monotonic()
        operation.relayed_rows += rows
        operation.relayed_bytes += size
        self._metrics.relayed_rows.inc(rows)
        self._metrics.relayed_bytes.inc(size)
        over = operation.meter.note(rows, size) if operation.meter is not None else None
        if over is not None:  # RULE (limit-of-responses)
            operation.over = over
            raise over

    def _learn(self, operation: ConnectOperation, seen: ResponsePeek, data: bytes) -> None:
        """Remember what Spark's session keeps from now on under an id."""
        session = operation.session
        handles = connect_calls.handles_in(seen, data) if seen.case in peeked.GIVING_IDS else ()
        for handle in handles:
            if len(session.context.handles) >= self._limits.handles:
                raise LimitExceeded("this session has too many checkpoints and streaming queries")
            if handle.kind == "relation":
                session.cache_relation(
                    handle,
                    operation.cleared,
                    operation.policies_version,
                    operation.statement_id,
                    most=self._limits.origins,
                )
                if operation.cleared.is_lazy_checkpoint:
                    session.note_lazy_reads(operation.cleared)
                if session.cached_plan_bytes > self._limits.cached_plan_bytes:
                    session.drop_origin(handle)
            else:
                started = seen.case == peeked.WRITE_STREAM_OPERATION_START_RESULT
                session.add_query(handle, free=started and operation.plain)

    # -- holding -----------------------------------------------------------------------------------------

    async def drive(self, operation: ConnectOperation, envelope: Envelope) -> None:
        """Work off an operation whose answer is held: to its end, whether or not a client waits for it."""
        buffer = operation.buffer or BufferedAnswer()
        fault: Exception | None = None
        try:
            await self._fill(operation, buffer, envelope)
        except RpcError as error:
            fault = await self._endings.record_failure(operation, error)
        except BackendUnavailable as error:
            fault = error
            self._endings.give_up(operation)
            await self._endings.conclude(operation, Event.FAIL, error)
        except (SluiceError, UnknownShape, ProtobufError) as error:
            fault = error if isinstance(error, SluiceError) else self._unreadable(operation, error)
            await self._endings.stop_in_spark(operation)
            await self._endings.conclude(operation, _find_ending(operation), fault)
        except asyncio.CancelledError:
            fault = (
                operation.over
                or operation.session.ending
                or spark_error("INVALID_HANDLE.OPERATION_ABANDONED", operation.operation_id)
            )
            raise
        finally:
            buffer.finish(fault)
            if operation.released:
                self._endings.deregister(operation)

    async def _fill(self, operation: ConnectOperation, buffer: BufferedAnswer, envelope: Envelope) -> None:
        redaction = self._endings.redaction(operation)
        async with aclosing(operation.session.spark.execute(operation.cleared, envelope)) as source:
            async for seen, data in self._redact_responses(
                operation, self._limit_buffered(operation, source)
            ):
                buffer.add(seen.response_id, _redact_response(seen, data, redaction))
        await self._endings.conclude(operation, Event.FINISH)
        if operation.reattachable:
            # Spark says it only to those who may come back; our client is one, we were not.
            buffer.add(*self._result_complete(operation))

    async def _limit_buffered(
        self, operation: ConnectOperation, source: AsyncIterator[bytes]
    ) -> AsyncIterator[tuple[ResponsePeek, bytes]]:
        """Yield what comes, as long as it may be buffered."""
        size = 0
        async for data in source:
            seen = peeked.look_at(data)
            if seen.analysed:
                operation.note_names_resolved()
            size += len(data)
            if size + operation.session.count_buffered_bytes(operation) > self._limits.buffered_answer_bytes:
                raise LimitExceeded("the response is too large for the gateway to buffer")
            yield seen, data

    async def _redact_responses(
        self, operation: ConnectOperation, source: AsyncIterator[tuple[ResponsePeek, bytes]]
    ) -> AsyncIterator[tuple[ResponsePeek, bytes]]:
        """Yield responses as the client may see them: a list when all of it has come, all else one by one."""
        cleared, session, most = operation.cleared, operation.session, self._limits.answer_rows
        visible = self._verdicts.visible_to(session.principal, session.client)
        if cleared.answer.filter is not AnswerFilter.RELAY and not cleared.original_relation:
            whole = [data async for _, data in source]
            listed = tables_in_batches(cleared.answer, whole, visible, max_rows=most)
            described = await self._verdicts.build_description_filters(
                listed, cleared.statement, session.client
            )
            for data in filter_responses(cleared.answer, whole, visible, described, max_rows=most):
                seen = peeked.look_at(data)
                await self._note(operation, seen, data)
                yield seen, data
            return
        async for seen, data in source:
            await self._note(operation, seen, data)
            if not cleared.original_relation:
                yield seen, data
                continue
            listed = tables_in_sql_result(cleared.answer, data, visible, max_rows=most)
            described = await self._verdicts.build_description_filters(
                listed, cleared.statement, session.client
            )
            yield (
                seen,
                patch_sql_result(
                    cleared.answer, cleared.original_relation, data, visible, described, max_rows=most
                ),
            )

    def _result_complete(self, operation: ConnectOperation) -> tuple[str, bytes]:
        session, response_id = operation.session, new_uuid()
        response = result_complete(
            session.session_id, session.server_session, operation.operation_id, response_id
        )
        return response_id, response

    def _unreadable(self, operation: ConnectOperation, error: Exception) -> StatementFailed:
        message = f"[SLUICE_NOT_GOVERNABLE] the response cannot be filtered: {error}"
        return StatementFailed(message, "0A000", 0, operation.statement_id)

    async def _serve(
        self, operation: ConnectOperation, buffer: BufferedAnswer, last_response_id: str
    ) -> AsyncGenerator[bytes, None]:
        """Give out what is held, as it comes."""
        reading = _ResponseReader(operation, self._clock)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.stream_s if operation.reattachable else None
        try:
            async with reading:
                position = buffer.position(last_response_id)
                while True:
                    while (data := buffer.at(position)) is not None:
                        position += 1
                        await self._require_current(operation, buffer)
                        yield data
                        reading.check_current()
                    if buffer.done:
                        if buffer.fault is not None:
                            raise buffer.fault
                        return
                    try:
                        async with asyncio.timeout_at(until):
                            await buffer.wait_for_change()
                    except TimeoutError:
                        # Not its end: a client that gets no `result_complete` comes again.
                        return
                    reading.check_current()
        finally:
            if not operation.reattachable:
                await self.release(operation, self._lifecycle.reason(WENT_AWAY))

    async def _require_current(self, operation: ConnectOperation, buffer: BufferedAnswer) -> None:
        filtered = operation.cleared.answer.filter is not AnswerFilter.RELAY
        try:
            await self._open.require(operation, operation.session.client, filtered=filtered)
        except StatementFailed as fault:
            buffer.finish(fault)
            self._endings.begin_stopping(operation)
            await self._endings.conclude(operation, Event.FAIL, fault)
            raise

    async def release(self, operation: ConnectOperation, reason: str) -> None:
        """End an operation that its client has let go; one that changes names goes on to its end."""
        operation.released = True
        if operation.changes_names and not operation.ended.is_set():
            return
        self._endings.deregister(operation)
        await self._endings.stop(operation, reason)

    # -- reading on for a client that has left: Spark gives the stream to whoever asked for it last ----------

    async def watch(self, operation: ConnectOperation) -> None:
        """Read an execution that its client has left, until Spark has looked up its names.

        Spark keeps what is read here for the client, and gives the stream to the client when it comes back.
        """
        if operation.buffer is not None or operation.attached or not operation.reattachable:
            return
        operation.end_farewell()
        await self._read_on(operation, to_names=not operation.cleared.names_until_end)
        self._begin_farewell(operation)

    def _begin_farewell(self, operation: ConnectOperation) -> None:
        """Begin to learn by ourselves how an execution ends that its client may come back to, or never."""
        if not (operation.ended.is_set() or operation.attached):
            operation.end_farewell()
            operation.farewell = self._endings.spawn(self._see_off(operation))

    async def _see_off(self, operation: ConnectOperation) -> None:
        """Read on where the client left, as long as what comes is small and no rows.

        INVARIANT (one closing event): PySpark leaves its last command before Spark says that it is complete,
        when its interpreter ends without `stop()`. Rows that nobody took wait for their client, `detached_s`.
        """
        more = True
        while more:
            await asyncio.sleep(self._limits.farewell_s)
            more = await self._read_on(operation, to_names=False)

    async def _read_on(self, operation: ConnectOperation, *, to_names: bool) -> bool:
        """Read an execution after the last response that was relayed; whether there may be more to read."""
        session = operation.session
        request = connect_calls.reattach(
            session.key,
            operation.spark_id,
            operation.last_response_id,
            observed=session.server_session,
        )
        # Within this Spark still has everything that a client who comes back may ask for.
        left = AHEAD_BYTES - operation.relayed_bytes
        try:
            async with aclosing(session.spark.reattach(request)) as source:
                async for data in source:
                    seen = peeked.look_at(data)
                    known = seen.analysed
                    if known:
                        operation.note_names_resolved()
                        self._learn(operation, seen, data)
                        if seen.case == peeked.RESULT_COMPLETE:
                            await self._endings.conclude(operation, Event.FINISH)
                    left -= len(data)
                    if (known and to_names) or operation.ended.is_set() or seen.rows or left < 0:
                        return False
                return True
        except RpcError as fault:
            await self._endings.record_failure(operation, fault)
        except SluiceError as fault:
            _log.info("operation_not_watched", reason=fault.code)
        return False

    # -- of another run ----------------------------------------------------------------------------------

    async def relay_foreign(
        self,
        spark: PlanBackend,
        principal: Principal,
        client: Client,
        session: ConnectSession | None,
        key: SessionKey,
        operation_id: str,
        request: bytes,
    ) -> AsyncGenerator[bytes, None]:
        """Relay an execution that this run of the gateway does not know.

        `spark` is as the principal reaches it, `request` the `ReattachExecuteRequest` to send. Spark finds it
        by (user, session), so it can only be the principal's own, and by what was sent it can be taken up
        again only when its answer needed no change.
        """
        if self._open.end:
            # By which policies it was judged nobody knows any more.
            raise explain_ended(operation_id)
        rows = size = 0
        complete = False
        redaction = self._endings.strictest
        source = spark.reattach(request)
        who = principal if session is None else session.principal_now
        await self._budgets.prepare(who, client, self._spark)
        meter = self._budgets.read_on(who, client, self._spark)
        try:
            async with aclosing(source), self.windows.over((*key, operation_id)) as window:
                async for data in source:
                    seen = peeked.look_at(data)
                    if seen.case == peeked.SQL_COMMAND_RESULT:
                        raise InvalidRequest(
                            "the gateway was restarted while the statement ran; run it again"
                        )
                    batch = seen.rows if seen.first_chunk else 0
                    over = meter.note(batch, len(data)) if meter is not None else None
                    if over is not None:  # RULE (limit-of-reattached)
                        raise over
                    rows += batch
                    size += len(data)
                    complete = complete or seen.case == peeked.RESULT_COMPLETE
                    window.note_sent(seen.response_id, len(data))
                    yield _redact_response(seen, data, redaction)
                    await window.wait_for_room()
        except RpcError as fault:
            if ends_operation(fault) and await has_run(spark, key, operation_id):
                # On NOT_FOUND pyspark runs the plan again: an INSERT whose answer the former gateway held
                # would be made twice.
                fault = spark_error("INVALID_HANDLE.OPERATION_ABANDONED", operation_id)
            raise self._endings.redact_error(session, fault, redaction) from None
        finally:
            if size:
                await self._endings.run_uncancelled(
                    self._recorder.record(
                        audit_records.build_reattached,
                        principal,
                        client,
                        session=key[1],
                        operation=operation_id,
                        rows=rows,
                        relayed_bytes=size,
                        complete=complete,
                    )
                )


class _ResponseReader:
    """One client's reading of an operation, from its first response to its going."""

    def __init__(self, operation: ConnectOperation, clock: Callable[[], float]) -> None:
        self._operation = operation
        self._clock = clock
        self._number = 0

    async def __aenter__(self) -> None:
        self._operation.end_farewell()
        self._operation.readers += 1
        self._operation.reading += 1
        self._number = self._operation.reading

    async def __aexit__(self, *_: object) -> None:
        self._operation.readers -= 1
        self._operation.used_at = self._operation.session.used_at = self._clock()

    @property
    def current(self) -> bool:
        """Whether no other client has taken over."""
        return self._operation.reading == self._number

    def check_current(self) -> None:
        """Raise when this reader has been disconnected."""
        if not self.current:
            raise spark_error("INVALID_CURSOR.DISCONNECTED")

    def check(self) -> None:
        """Raise when this reader has been disconnected or its session closed."""
        self.check_current()
        if not self._operation.ended.is_set() or self._operation.session.closed:
            self._operation.session.require_open()


def _find_ending(operation: ConnectOperation) -> Event:
    """Return how an operation ends that ends here by an error of ours."""
    return Event.CANCEL if operation.over is not None else Event.FAIL


def _of_client(operation: ConnectOperation, data: bytes) -> bytes:
    """Return a response with the id that the client knows its operation by."""
    if not operation.ran_again:
        return data
    return with_operation_id(data, operation.spark_id, operation.operation_id)


def _redact_response(seen: ResponsePeek, data: bytes, redaction: Redaction) -> bytes:
    """Return a response as the client may see it: rows, and whatever needs no change, as the same bytes."""
    if seen.case in _REPORTING or ((seen.metrics or seen.case in _COUNTING) and redaction.shows_guards):
        return redact_response(data, redaction)
    return data
