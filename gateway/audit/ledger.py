"""FileLedger keeps the audit promise: no data without a durable record, and one end for every beginning."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
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
from gateway.audit.rows import decode_event, encode_event
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

    async def wait_until_shipped(self) -> None:
        """Return when PostgreSQL has everything that is on the disk, however long that takes."""
        await self._flush()
        if self._shipper is not None:
            await self._shipper.wait_until_caught_up()

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


LOOK_BACK = timedelta(days=7)
"""How far back the database is searched: a bound on the work, not on the spool's own knowledge."""

_ORPHANS = """
SELECT d.statement_id, d.time, d.user_name, d.body->>'reqUser' AS full_name
FROM sluice.audit_event d
WHERE d.kind = 'decided' AND d.verdict = 'cleared' AND d.gateway = $1 AND d.time >= $2 AND d.time < $3
  AND NOT EXISTS (
      SELECT FROM sluice.audit_event e
      WHERE e.statement_id = d.statement_id AND e.kind IN ('completed', 'abandoned')
  )"""


def build_abandoned(
    *, statement_id: str, decided_at: str, gateway: str, user: str, recovered_at: str, reason: str
) -> AuditEvent:
    """Build the record of a cleared statement whose end nobody saw.

    Its time is that of the decision, because the end is unknown and because id and time together are the
    primary key: a recovery that is cut short and begins again must arrive at the same one. `recovered_at`
    says when it was noticed.
    """
    origin = uuid.UUID(statement_id)
    raw = bytearray(origin.bytes[:6] + hashlib.sha256(b"abandoned:" + origin.bytes).digest()[:10])
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return AuditEvent(
        event_id=str(uuid.UUID(bytes=bytes(raw))),
        kind="abandoned",
        time=decided_at,
        statement_id=statement_id,
        gateway=gateway,
        user=user,
        body={"reqUser": user, "outcome": "unknown", "recovered_at": recovered_at, "reason": reason},
    )


def open_entry(*, statement_id: str, decided_at: str, gateway: str, user: str) -> Entry:
    """Build the entry that stands for the decision of a running statement when its segment goes."""
    payload = orjson.dumps({"time": decided_at, "gateway": gateway, "user": user})
    return Entry(Mark.OPEN, uuid.UUID(statement_id).bytes, payload)


def build_abandoned_from(entry: Entry, *, recovered_at: str, reason: str) -> AuditEvent:
    """Build the `abandoned` event for an entry that opened a statement. Raises ValueError, KeyError or
    TypeError when the entry is neither a decision nor an OPEN entry."""
    if entry.mark is Mark.OPEN:
        found = orjson.loads(entry.payload)
        decided_at, gateway, user = found["time"], found["gateway"], found["user"]
    else:
        event = decode_event(entry.payload)
        decided_at, gateway, user = event.time, event.gateway, event.user
    return build_abandoned(
        statement_id=str(uuid.UUID(bytes=entry.statement)),
        decided_at=decided_at,
        gateway=gateway,
        user=user,
        recovered_at=recovered_at,
        reason=reason,
    )


async def list_open_statements(connection: Any, gateway: str, before: datetime) -> list[tuple[str, str, str]]:
    """Return (statement id, time of the decision, user) of statements that PostgreSQL knows as open.

    Call it when everything that the spool held at `before`, the start of this process, has been shipped.
    """
    rows = await connection.fetch(_ORPHANS, gateway, before - LOOK_BACK, before)
    found = []
    for row in rows:
        time: datetime = row["time"].astimezone(UTC)
        text = f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond:06d}Z"
        found.append((str(row["statement_id"]), text, row["full_name"] or row["user_name"]))
    return found
