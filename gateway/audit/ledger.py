"""FileLedger keeps the audit promise: no data without a durable record, and one end for every beginning."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from gateway.audit.backlog import (
    CHECKPOINT,
    Position,
    bytes_behind,
    find_leftovers,
    read_checkpoint,
    write_checkpoint,
)
from gateway.audit.disk import Disk
from gateway.audit.recovery import build_abandoned, build_abandoned_from, list_open_statements, open_entry
from gateway.audit.rows import encode_event
from gateway.audit.segment import NO_STATEMENT, Entry, Mark
from gateway.audit.shipper import Shipper, ShipperLimits, ShippingProgress
from gateway.audit.spool import Segment, Spool, SpoolLimits
from gateway.errors import LedgerUnavailable
from gateway.model.audit import AuditEvent

log = structlog.get_logger(__name__)

_STOPPED = "the gateway stopped before the end of the statement was recorded"
_LEFT = "the client disconnected before the decision was durable; the statement was not forwarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOptions:
    """Where the record is kept. Without a `dsn` it stays in the spool until one is configured."""

    directory: Path
    dsn: str | None = None
    name: str = "sluice"
    """The operator's name for this gateway; the spool's identity makes it unique."""
    spool: SpoolLimits = field(default_factory=SpoolLimits)
    shipper: ShipperLimits = field(default_factory=ShipperLimits)
    flush_timeout_s: float = 5.0
    """How long `close` waits for PostgreSQL; what is left is shipped at the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMetrics:
    """The ledger at one instant, for metrics and the readiness page."""

    failure: str
    """Why statements are refused; empty when the record can be written."""
    recorded_events: int
    open_statements: int
    backlog_bytes: int
    segments: int
    database_connected: bool
    shipped_events: int
    unfit_events: int
    database_error: str
    chain_error: str
    """Describes committed events that the database no longer has; empty when nothing is missing."""

    @property
    def trouble(self) -> str:
        """Describes a problem that needs an operator while statements go on; empty when there is none."""
        away = (
            "PostgreSQL does not accept audit records; they are kept on disk" if self.database_error else ""
        )
        return self.chain_error or away


@dataclass(slots=True)
class _Open:
    """A cleared statement without an end."""

    decided_at: str
    gateway: str
    user: str
    segment: int = 0
    """Number of the segment that holds its decision; 0 while it is on its way there."""


class FileLedger:
    """The session's Ledger port over a spool and PostgreSQL. `start` first; belongs to one event loop."""

    def __init__(self, settings: LedgerOptions, *, disk: Disk | None = None) -> None:
        self._settings = settings
        self._spool = Spool(settings.directory, limits=settings.spool, disk=disk)
        self._open: dict[str, _Open] = {}
        self._shipper: Shipper | None = None
        self._task: asyncio.Task[None] | None = None
        self._started_at = datetime.now(UTC)
        self._ask_database = False
        self._recorded_events = 0

    @property
    def gateway(self) -> str:
        """Identity of this gateway for its events: its name and a part of its spool's own identity.

        Known after `start`. Two gateways with one name differ, and no spool ever belongs to two.
        """
        return f"{self._settings.name}-{self._spool.identity[:8]}"

    def metrics(self) -> LedgerMetrics:
        progress = self._shipper.progress if self._shipper is not None else ShippingProgress()
        return LedgerMetrics(
            failure=self._spool.failure,
            recorded_events=self._recorded_events,
            open_statements=len(self._open),
            backlog_bytes=self._spool.backlog_bytes,
            segments=len(self._spool.segments),
            database_connected=progress.connected,
            shipped_events=progress.shipped_events,
            unfit_events=progress.unfit_events,
            database_error=progress.last_error,
            chain_error=progress.chain_error,
        )

    async def start(self) -> None:
        """Open the spool, close what a crash left open, and begin to ship.

        Raises LedgerUnavailable when the spool cannot be opened or the recovery cannot be written.
        """
        directory = self._settings.directory
        past = (directory / CHECKPOINT).exists()
        checkpoint = await asyncio.to_thread(read_checkpoint, directory)
        position, clean = checkpoint.position, checkpoint.clean
        self._spool.open(next_number=position.segment + 1)
        try:
            damaged = await self._recover(position)
        except BaseException:
            await self._spool.close()
            raise
        # A new spool has no past, and after a clean end the database cannot know better.
        self._ask_database = damaged or (past and not clean)
        if clean:
            await asyncio.to_thread(write_checkpoint, directory, position, checkpoint.chains)
        if self._settings.dsn is not None:
            self._shipper = Shipper(
                self._spool,
                self._settings.dsn,
                position,
                release=self._release,
                on_caught_up=self._close_orphans,
                limits=self._settings.shipper,
                chains=dict(checkpoint.chains),
            )
            self._task = asyncio.create_task(self._shipper.run(), name="audit-shipper")

    async def record_decided(self, event: AuditEvent) -> None:
        """Return when the event is durable. Raises LedgerUnavailable: then nothing may be forwarded."""
        entry = encode_event(event)
        if entry.mark is not Mark.CLEARED:
            await self._append(entry)
            return
        if event.statement_id in self._open:
            raise LedgerUnavailable(f"statement `{event.statement_id}` was already decided")
        mine = self._open[event.statement_id] = _Open(event.time, event.gateway, event.user)
        try:
            mine.segment = await self._append(entry)
        except asyncio.CancelledError:
            # The record may become durable all the same, and its statement will never run.
            await self.record(
                build_abandoned(
                    statement_id=event.statement_id,
                    decided_at=event.time,
                    gateway=event.gateway,
                    user=event.user,
                    recovered_at=_now(),
                    reason=_LEFT,
                )
            )
            raise
        except BaseException:
            self._open.pop(event.statement_id, None)
            raise

    async def record(self, event: AuditEvent) -> None:
        """Append an event that nothing waits for; it is durable a moment later.

        A second end of a statement is dropped: the first stands. Raises LedgerUnavailable when the queue
        for the disk is full.
        """
        closes = event.kind in ("completed", "abandoned")
        if closes and event.statement_id not in self._open:
            log.error("audit_second_outcome_dropped", statement_id=event.statement_id, kind=event.kind)
            return
        self._spool.append_soon(encode_event(event))
        self._recorded_events += 1
        if closes:
            del self._open[event.statement_id]

    async def close(self) -> None:
        """Write what is queued, give PostgreSQL `flush_timeout_s` to take it, and release the spool."""
        if not self._spool.identity:
            return
        await self._flush()
        flushed = False
        if self._shipper is not None and self._task is not None:
            try:
                async with asyncio.timeout(self._settings.flush_timeout_s):
                    await self._shipper.wait_until_caught_up()
                flushed = True
            except TimeoutError:
                log.warning("audit_backlog_left", bytes=self._spool.backlog_bytes)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._spool.close()
        if flushed and self._shipper is not None and not self._open:
            await self._shipper.finish(clean=not self._ask_database)

    async def _append(self, entry: Entry, *, closes: bool = False) -> int:
        try:
            number = await self._spool.append(entry, closes=closes)
        except ValueError as error:
            raise LedgerUnavailable(str(error)) from error
        self._recorded_events += 1
        return number

    async def _flush(self) -> None:
        """Wait until everything queued so far is durable: an entry at the end of the queue says so."""
        try:
            await self._spool.append(Entry(Mark.PADDING, NO_STATEMENT, b""), closes=True)
        except LedgerUnavailable as error:
            log.error("audit_close_without_flush", error=error.message)

    async def _recover(self, position: Position) -> bool:
        """Close what is open in the spool; return whether some of it could not be read."""
        segments = self._spool.segments
        leftovers = await asyncio.to_thread(find_leftovers, segments)
        self._spool.backlog_bytes = bytes_behind(segments, position)
        now, closing = _now(), []
        for entry in leftovers.open:
            try:
                event = build_abandoned_from(entry, recovered_at=now, reason=_STOPPED)
            except (ValueError, KeyError, TypeError) as error:
                log.error("audit_open_statement_unreadable", error=str(error))
                continue
            closing.append(self._append(encode_event(event), closes=True))
        await asyncio.gather(*closing)
        if closing:
            log.warning("audit_statements_abandoned", count=len(closing))
        return leftovers.damaged

    async def _release(self, segment: Segment) -> None:
        """Carry decisions of running statements out of a segment that is to be removed."""
        held = [(key, it) for key, it in self._open.items() if it.segment in (segment.number, 0)]
        await asyncio.gather(*(self._carry(key, it) for key, it in held))

    async def _carry(self, statement_id: str, it: _Open) -> None:
        entry = open_entry(
            statement_id=statement_id, decided_at=it.decided_at, gateway=it.gateway, user=it.user
        )
        it.segment = await self._spool.append(entry, closes=True)

    async def _close_orphans(self, connection: Any) -> None:
        """Once after an unclean end: close what the database knows as open and the spool did not."""
        if not self._ask_database:
            return
        found = await list_open_statements(connection, self.gateway, self._started_at)
        now = _now()
        for statement_id, decided_at, user in found:
            if statement_id not in self._open:
                log.warning("audit_orphan_closed", statement_id=statement_id)
                event = build_abandoned(
                    statement_id=statement_id,
                    decided_at=decided_at,
                    gateway=self.gateway,
                    user=user,
                    recovered_at=now,
                    reason=_STOPPED,
                )
                self._spool.append_soon(encode_event(event))
        self._ask_database = False


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
