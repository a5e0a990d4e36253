"""Writes the session room's audit events; nothing else in it talks to the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec

import structlog

from gateway.errors import LedgerUnavailable, LimitExceeded
from gateway.model.audit import AuditEvent
from gateway.model.bounded import BoundedDict
from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.model.statement import Cleared, Client, Refused, Verdict
from gateway.model.tracing import CURRENT, trace
from gateway.session import audit_records
from gateway.session.audit_records import Stamp, StatementOutcome
from gateway.session.endpoint import RecordedCall
from gateway.session.failures import CallRefusal
from gateway.session.identifiers import Handle, new_event_id, now
from gateway.session.metrics import Metrics
from gateway.session.ports import Ledger

_log = structlog.get_logger(__name__)

P = ParamSpec("P")

MAX_DESCRIBED = 256
"""Clearances of texts whose description is kept for when they are used again."""
MAX_DESCRIBED_CHARS = 16_384
"""Of such a text: what is longer is described in a fraction of the time that judging it took."""


MakeLineageInput = Callable[
    [Cleared, Mapping[str, str], Mapping[str, str], Mapping[str, str]], Mapping[str, Any] | None
]
"""A clearance, and the temporary views, the cached relations and the temporary functions over tables that it
reads, by the statements that made them → what the record keeps so that lineage can be made of it later, as
JSON; None for what has none."""

_NOTHING: Mapping[str, str] = {}


def no_lineage(
    cleared: Cleared,
    views: Mapping[str, str],
    relations: Mapping[str, str],
    functions: Mapping[str, str],
) -> None:
    """Keep nothing for lineage."""


class Recorder:
    """Knows the gateway's name and how each thing that happens becomes an event."""

    def __init__(
        self,
        ledger: Ledger,
        gateway: str,
        metrics: Metrics,
        lineage_input: MakeLineageInput = no_lineage,
        *,
        backend: str = "",
    ) -> None:
        """`backend`: the Spark that the events are about, where the gateway has several."""
        self._backend = backend
        self._ledger = ledger
        self._lineage_input = lineage_input
        self._gateway = gateway
        self._metrics = metrics
        self._described: BoundedDict[int, tuple[Verdict, Mapping[str, Any]]] = BoundedDict(MAX_DESCRIBED)

    async def record_decided(
        self,
        verdict: Verdict,
        *,
        statement_id: str,
        client: Client,
        session: Handle | str,
        judged_s: float,
        read_s: float | None = None,
        operation: str = "",
        views: Mapping[str, str] = _NOTHING,
        relations: Mapping[str, str] = _NOTHING,
        functions: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Make the verdict durable. Raises LedgerUnavailable: then nothing may be forwarded.

        `views` are the temporary views that the statement reads, `relations` the cached ones, `functions` the
        temporary functions over tables that it calls, by the statements that made them.
        """
        event = audit_records.build_decided(
            self._stamp(statement_id),
            verdict,
            client=client,
            duration_us=round(judged_s * 1_000_000),
            read_us=None if read_s is None else round(read_s * 1_000_000),
            session=str(session),
            operation=operation,
            described=self._describe(verdict),
            lineage=(
                self._lineage_input(verdict, views, relations, functions)
                if isinstance(verdict, Cleared)
                else None
            ),
        )
        await self._record_decided(event, verdict.code if isinstance(verdict, Refused) else None)

    def _describe(self, verdict: Verdict) -> Mapping[str, Any]:
        """Return what the record says of a verdict, which is the same object each time that it is used
        again."""
        known = self._described.get(id(verdict))
        if known is not None and known[0] is verdict:
            return known[1]
        described = audit_records.describe_verdict(verdict)
        statement = verdict.statement
        is_short = statement.plan is None and len(statement.text) <= MAX_DESCRIBED_CHARS
        if isinstance(verdict, Cleared) and is_short:
            self._described[id(verdict)] = verdict, described
        return described

    async def metadata_decided(
        self, call: str, arguments: Mapping[str, str], operation: RecordedCall, client: Client
    ) -> None:
        """Make durable that a metadata call is answered. Raises LedgerUnavailable."""
        event = audit_records.metadata_decided(
            self._stamp(operation.statement_id),
            call,
            arguments,
            principal=operation.principal,
            client=client,
            session=operation.session_id,
        )
        await self._record_decided(event, None)

    async def call_decided(
        self,
        call: str,
        names: Sequence[str],
        operation: RecordedCall,
        client: Client,
        decisions: Sequence[Decision],
        refusal: CallRefusal | None,
    ) -> None:
        """Make durable what was decided on a call that changes a session without a statement: uploaded
        files, settings. Raises LedgerUnavailable: then nothing may be forwarded."""
        event = audit_records.call_decided(
            self._stamp(operation.statement_id),
            call,
            names,
            principal=operation.principal,
            client=client,
            session=operation.session_id,
            decisions=decisions,
            refusal=refusal,
        )
        await self._record_decided(event, refusal.code if refusal is not None else None)

    async def record_completed(
        self, operation: RecordedCall, outcome: StatementOutcome, error: str = ""
    ) -> None:
        """Write the operation's one closing event; every call after the first does nothing."""
        # INVARIANT (one closing event): flag and write are not separated by an await.
        if operation.completed:
            return
        operation.completed = True
        self._metrics.ended[outcome].inc()
        for span in filter(None, (operation.waiting_span, operation.span)):
            rows, size = operation.relayed_rows, operation.relayed_bytes
            span.note(outcome=outcome, rows=rows, bytes=size)
            span.end("" if outcome == "finished" else outcome)
        # It may be run again, as another entry of the record.
        operation.waiting_span = operation.span = None
        failure, ended = operation.error, time.monotonic()
        answered = ended if operation.answered is None else operation.answered
        await self._record(
            audit_records.build_completed(
                statement_id=operation.statement_id,
                time=now(),
                gateway=self._gateway,
                backend=self._backend,
                user=operation.principal.user,
                outcome=outcome,
                rows=operation.relayed_rows,
                relayed_bytes=operation.relayed_bytes,
                duration_ms=round((ended - operation.started) * 1000, 3),
                spark_ms=round((answered - operation.started) * 1000, 3),
                record_ms=_to_ms(operation.recorded_s),
                wait_ms=_to_ms(operation.waited_s),
                backend_operation=operation.backend_id,
                error=error or (failure.text if failure is not None else ""),
                sqlstate=failure.sqlstate if failure is not None else "",
                session=operation.session_id,
                limit=failure.limit if isinstance(failure, LimitExceeded) else "",
            )
        )

    async def foreign_handle(self, principal: Principal, what: str, owner: str, handle: Handle) -> None:
        """Record that `principal` used a handle that belongs to `owner`."""
        self._metrics.foreign_handles.inc()
        reason = f"{what} handle of {owner}"
        await self.record(
            audit_records.security, principal, action="foreign_handle", reason=reason, session=str(handle)
        )

    async def record_console_use(
        self,
        principal: Principal,
        client: Client,
        *,
        action: str,
        asked: Mapping[str, Any],
        changes: bool,
        allowed: bool,
    ) -> None:
        """Make durable that somebody looks at something in the console, or changes it. Raises
        LedgerUnavailable: then nothing may be shown or changed."""
        await self._ledger.record_decided(
            audit_records.build_console_use(
                self._stamp(),
                principal,
                client,
                action=action,
                asked=asked,
                changes=changes,
                allowed=allowed,
            )
        )

    async def record(
        self, build: Callable[Concatenate[Stamp, P], AuditEvent], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Record something that nothing waits for, with one of `audit_records`, now."""
        await self._record(build(self._stamp(), *args, **kwargs))

    def _stamp(self, event_id: str = "") -> Stamp:
        return Stamp(event_id or new_event_id(), now(), self._gateway, self._backend)

    async def _record_decided(self, event: AuditEvent, refusal: str | None) -> None:
        """Make a verdict durable, and count it as what came of it: without a ledger nothing is forwarded."""
        if (span := CURRENT.get()) is not None:
            span.note(audit_event=event.event_id)
        try:
            with trace("record"):
                await self._ledger.record_decided(event)
        except LedgerUnavailable:
            self._metrics.unrecorded.inc()
            raise
        if refusal is None:
            self._metrics.cleared.inc()
        else:
            self._metrics.refused.inc()
            self._metrics.refusals.labels(refusal).inc()

    async def _record(self, event: AuditEvent) -> None:
        try:
            await self._ledger.record(event)
        except LedgerUnavailable as fault:
            # Nothing can be undone here; the next statement is refused, and recovery closes what is open.
            _log.error("audit_event_lost", kind=event.kind, event_id=event.event_id, reason=fault.message)


def _to_ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
