"""Rows on their way to the client: relayed undecoded, or fetched, filtered and served by the gateway."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from gateway.errors import BackendUnavailable, InvalidRequest, LimitExceeded
from gateway.model.statement import AnswerFilter, Cleared
from gateway.session.answers import UnknownShape, filter_rows, list_extended_tables
from gateway.session.dependencies import Dependencies
from gateway.session.execution import Execution
from gateway.session.failures import NotFinished, StatementFailed, build_overtaken_error
from gateway.session.freshness import OpenResults
from gateway.session.operation import FINISHED, LOG_SCHEMA, Batch, LocalRows, Session, ThriftOperation
from gateway.session.ports import BackendError, FrameSink, RelayedFrame
from gateway.session.states import Event
from gateway.wire.tcli import (
    TColumnDesc,
    TPrimitiveTypeEntry,
    TTableSchema,
    TTypeDesc,
    TTypeEntry,
    TTypeId,
    TTypeQualifiers,
)

ROWS, LOG = 0, 1
"""What a fetch asks for. Spark's log is always empty; ours says what a statement waits for."""
_TEXT = TPrimitiveTypeEntry(type=TTypeId.STRING, typeQualifiers=TTypeQualifiers(qualifiers={}))
NO_RESULT = TTableSchema(
    columns=[
        TColumnDesc(
            columnName="Result",
            typeDesc=TTypeDesc(types=[TTypeEntry(primitiveEntry=_TEXT)]),
            position=0,
            comment="",
        )
    ]
)
"""What Spark tells of a statement that has failed before it had a result."""
ORIENTATIONS = range(6)
"""HiveServer2's numbers; of another one Spark complains in words that repeat its own handle and secret."""


class Results:
    """Serves the rows of operations."""

    def __init__(self, execution: Execution, dependencies: Dependencies) -> None:
        self._execution = execution
        self._verdicts = dependencies.verdicts
        self._limits = dependencies.limits
        self._metrics = dependencies.metrics
        self._open = OpenResults(self._verdicts, end=self._limits.end_results_on_policy_change)

    async def schema(self, operation: ThriftOperation) -> Any:
        """Return Spark's TTableSchema, or a tuple of ResultColumn for a metadata answer."""
        if operation.answer is not None:
            return operation.answer.schema
        while operation.not_with_spark_yet:
            await self._execution.poll(operation)
        if operation.upstream is None:
            if operation.closed:
                raise operation.error or NotFinished("the operation has no result")
            return NO_RESULT
        try:
            schema = await operation.upstream.schema()
        except BackendError as fault:
            raise self._execution.failure(operation, fault) from fault
        except BackendUnavailable as fault:
            await self._execution.handle_lost_session(operation, fault)
            raise
        if operation.hold.overtaken:
            raise build_overtaken_error(operation.statement_id)
        if operation.closed:
            raise NotFinished("the operation has no result")
        return schema

    async def fetch(
        self,
        operation: ThriftOperation,
        orientation: int,
        max_rows: int,
        fetch_type: int,
        seqid: int,
        sink: FrameSink,
    ) -> RelayedFrame | Batch:
        """Relay the next batch to `sink`, or return it when the gateway holds the rows itself."""
        if max_rows < 0:
            raise InvalidRequest("the number of rows to fetch is negative")
        max_rows = min(max_rows, self._limits.fetch_rows)
        if fetch_type == LOG and operation.log is not None:
            self._execution.tell_place(operation)
            return operation.log.fetch(orientation, max_rows, operation.session.protocol_version)
        if fetch_type == LOG:
            return Batch(0, [], LOG_SCHEMA, operation.session.protocol_version)
        if fetch_type != ROWS:
            raise InvalidRequest(f"unknown fetch type {fetch_type}; 0 is rows, 1 is the log")
        await self._require_current(operation)
        if orientation not in ORIENTATIONS:
            raise InvalidRequest(f"unknown fetch orientation {orientation}; use FETCH_NEXT or FETCH_FIRST")
        if _is_filtered(operation):
            await self.filter(operation)
        if operation.closed and operation.error is not None:
            raise operation.error
        if operation.answer is not None:
            return operation.answer.fetch(orientation, max_rows, operation.session.protocol_version)
        if operation.upstream is None or (operation.terminal and operation.state != FINISHED):
            raise operation.error or NotFinished("the operation has no result")
        if operation.not_with_spark_yet:
            # It is being run again.
            raise NotFinished("the statement is still running; ask for its status first")
        meter = operation.meter
        left = meter.left_rows if meter is not None else None
        if left is not None:
            # Whether there are more than it may show is known when there is one more, which is not shown.
            max_rows = min(max_rows, max(left, 1))  # RULE (limit-of-rows)
        # What is not known to have finished may turn out to have been overtaken by a change of its tables.
        held = None if operation.terminal and left != 0 else _BufferedFrame()
        try:
            with nullcontext() if meter is None else meter.asking_for(max_rows):
                frame = await operation.upstream.relay(orientation, max_rows, fetch_type, seqid, held or sink)
        except BackendUnavailable as fault:
            await self._execution.handle_lost_session(operation, fault)
            raise
        operation.used_at = operation.session.used_at = time.monotonic()
        if frame.error is not None:
            if await self._execution.rows_failed(operation, frame.error):
                if operation.state != FINISHED:
                    raise operation.error or NotFinished("the operation has no result")
                return await self.fetch(operation, orientation, max_rows, fetch_type, seqid, sink)
            failure = self._execution.failure(operation, frame.error)
            if operation.terminal:
                # It was finished and broke while rows were computed (incremental collect).
                operation.error = failure
            raise failure
        over: LimitExceeded | None = None
        if meter is not None:
            passes = left == 0 and frame.rows > 0
            over = meter.refuse_more() if passes else meter.note(frame.rows, frame.bytes)
        if not operation.terminal:
            await self._execution.notice_finished(operation)
        if over is not None and left == 0:
            raise await self._execution.end_by_limit(operation, over)
        if held is not None:
            if operation.state != FINISHED:
                raise operation.error or NotFinished("the operation has no result")
            sink.write(bytes(held.data))
        operation.relayed_rows += frame.rows
        operation.relayed_bytes += frame.bytes
        self._metrics.relayed_rows.inc(frame.rows)
        self._metrics.relayed_bytes.inc(frame.bytes)
        if over is not None:
            await self._execution.end_by_limit(operation, over)
        return frame

    async def _require_current(self, operation: ThriftOperation) -> None:
        if operation.terminal and operation.state != FINISHED:
            return
        filtered = operation.answer is not None
        try:
            await self._open.require(operation, operation.session.client, filtered=filtered)
        except StatementFailed as fault:
            operation.error = fault
            if operation.terminal:
                operation.life.apply(Event.FAIL)
            await self._execution.abandon(operation, "policies changed while its result was open")
            raise

    async def run_to_end(self, session: Session, text: str) -> Sequence[Sequence[Any]]:
        """Run a statement that the gateway makes for a client; return its rows if they are filtered ones."""
        operation = await self._execution.execute(session, text)
        try:
            if _is_filtered(operation):
                await self.filter(operation)
            return operation.answer.rows if operation.answer is not None else ()
        finally:
            await self._execution.close(operation)

    async def filter(self, operation: ThriftOperation) -> None:
        """Fetch the whole answer and keep what the principal may know of, once."""
        if operation.answer is not None:
            return
        if not operation.terminal:
            await self._execution.poll(operation)
        if operation.state != FINISHED or operation.upstream is None or operation.cleared is None:
            raise operation.error or NotFinished("the statement is still running; ask for its status first")
        limit = self._limits.answer_rows
        try:
            rows, schema = await operation.upstream.fetch(limit + 1)
            if len(rows) > limit:
                raise UnknownShape(f"it has more than {limit} rows")
        except BackendError as fault:
            operation.error = self._execution.failure(operation, fault)
            raise operation.error from fault
        except BackendUnavailable as fault:
            await self._execution.handle_lost_session(operation, fault)
            raise
        except UnknownShape as fault:
            raise self._cannot_filter(operation, fault) from fault
        shown = await self._filter_rows(operation, operation.cleared, rows)
        operation.answer = LocalRows(shown, schema)
        operation.relayed_rows = len(shown)

    async def _filter_rows(
        self, operation: ThriftOperation, cleared: Cleared, rows: Sequence[Sequence[Any]]
    ) -> list[Sequence[Any]]:
        client = operation.session.client
        visible = self._verdicts.visible_to(operation.session.principal, client)
        try:
            listed = list_extended_tables(cleared.answer, rows, visible)
            described = await self._verdicts.build_description_filters(listed, cleared.statement, client)
            return filter_rows(cleared.answer, rows, visible, described)
        except UnknownShape as fault:
            raise self._cannot_filter(operation, fault) from fault

    def _cannot_filter(self, operation: ThriftOperation, fault: UnknownShape) -> StatementFailed:
        message = f"[SLUICE_NOT_GOVERNABLE] the response cannot be filtered: {fault}"
        operation.error = StatementFailed(message, "0A000", 0, operation.statement_id)
        return operation.error


class _BufferedFrame:
    """Takes one reply whole, until it is known whether it may be shown."""

    slow = False

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        return


def _is_filtered(operation: ThriftOperation) -> bool:
    return operation.cleared is not None and operation.cleared.answer.filter is not AnswerFilter.RELAY
