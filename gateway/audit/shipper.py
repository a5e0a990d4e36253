"""The shipper carries the spool into PostgreSQL: each event arrives once, however often it is sent.

A batch is copied into a temporary table, inserted with ON CONFLICT DO NOTHING and committed; then the
checkpoint moves. A crash between the two sends the batch again. PostgreSQL being away stops nothing but
this task; the spool grows meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import orjson
import structlog

from gateway.audit.backlog import (
    Position,
    bytes_behind,
    list_shipped_segments,
    read_stretch,
    remove,
    write_checkpoint,
)
from gateway.audit.chain import Head, digest, start
from gateway.audit.rows import COLUMNS, EventRow, build_unfit_row, row
from gateway.audit.segment import SHIPPED, Entry
from gateway.audit.spool import Segment, Spool
from gateway.database.connections import open_connection
from gateway.database.migrate import LOCK, migrate
from gateway.database.policy_use import NOTE_USE
from gateway.errors import Faults, LedgerUnavailable

log = structlog.get_logger(__name__)

_ID, _TIME, _KIND, _STATEMENT, _GATEWAY, _BODY = map(
    COLUMNS.index, ("event_id", "time", "kind", "statement_id", "gateway", "body")
)
_ENDS = ("completed", "abandoned")
LINKED = ("chain_position", "link")
"""Columns that bind an event to the one before it."""
_REFUSALS = (
    asyncpg.DataError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.IntegrityConstraintViolationError,
    TypeError,
    ValueError,
    OverflowError,
)
"""What PostgreSQL, or asyncpg's encoders, answer when a value is at fault and not the server or the way."""

_LIST = ", ".join((*COLUMNS, *LINKED))
_HEADS = """
SELECT gateway, chain_position, link FROM sluice.audit_chain WHERE gateway = ANY($1::text[]) FOR UPDATE"""
_BEGUN = """
INSERT INTO sluice.audit_chain (gateway, chain_position, link) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"""
"""Lock for a chain that has no row to lock yet: the second shipper waits here. Records without a readable
gateway have one chain for all."""
_KNOWN = """
SELECT event_id, time FROM sluice.audit_event JOIN unnest($1::uuid[], $2::timestamptz[]) AS n (event_id, time)
USING (event_id, time)"""
_COMPLETED = """
SELECT statement_id FROM sluice.audit_event WHERE statement_id = ANY($1::uuid[]) AND kind = 'completed'"""
"""Damage may have hidden from the recovery that a statement had ended; its end is here then."""
_INSERT = f"INSERT INTO sluice.audit_event ({_LIST}) SELECT {_LIST} FROM arrivals"
_QUEUE = """
INSERT INTO sluice.lineage_queue (statement_id, decided_at, gateway)
SELECT statement_id, time, gateway FROM arrivals WHERE kind = 'decided' AND body ? 'lineage'
ON CONFLICT DO NOTHING"""
_NEW_HEADS = """
INSERT INTO sluice.audit_chain AS c (gateway, chain_position, link)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])
ON CONFLICT (gateway) DO UPDATE SET chain_position = excluded.chain_position, link = excluded.link"""
_ENDED = """
UPDATE sluice.lineage_queue SET ready_at = now()
WHERE statement_id = ANY($1::uuid[]) AND ready_at IS NULL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipperLimits:
    """Sizes and times of shipping."""

    batch_bytes: int = 4 * 1024 * 1024
    batch_entries: int = 1000
    """Maximum rows of a batch. From 1,000 on the commit costs less than the rows; more blocks the loop."""
    connect_timeout_s: float = 10.0
    command_timeout_s: float = 60.0
    first_pause_s: float = 0.1
    longest_pause_s: float = 5.0
    linger_s: float = 0.2
    """Seconds between one batch and the next while little is behind: a batch costs nearly the same however
    small it is. The record is on the disk before; this is how much later it is in PostgreSQL."""
    busy_entries: int = 6
    """Rows of a batch from which on more is sure to come, and batches are `busy_linger_s` apart."""
    busy_linger_s: float = 1.0
    linger_bytes: int = 256 * 1024
    """A backlog of this many bytes is shipped at once."""


@dataclass(slots=True)
class ShippingProgress:
    """How shipping goes, for metrics and the readiness page."""

    connected: bool = False
    shipped_events: int = 0
    unfit_events: int = 0
    last_error: str = ""
    chain_error: str = ""
    """Describes committed events that the database no longer has; empty when nothing is missing."""


@dataclass(slots=True)
class Shipper:
    """Ships one spool. `run` never returns; cancel it.

    `release` is awaited before a segment is removed and raises LedgerUnavailable when it must stay.
    `on_caught_up` gets the connection whenever PostgreSQL has everything that is durable.
    """

    spool: Spool
    dsn: str
    position: Position
    release: Callable[[Segment], Awaitable[None]]
    on_caught_up: Callable[[Any], Awaitable[None]]
    limits: ShipperLimits = field(default_factory=ShipperLimits)
    progress: ShippingProgress = field(default_factory=ShippingProgress)
    chains: dict[str, Head] = field(default_factory=dict)
    """Gateway → the end of its chain as it was last committed; kept with the position."""
    _days: set[date] = field(default_factory=set)
    _caught_up: asyncio.Event = field(default_factory=asyncio.Event)
    _kept: set[int] = field(default_factory=set)
    _hurried: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Connect, ship, and start again after any failure."""
        pause = self.limits.first_pause_s
        while True:
            before = self.position
            connection = None
            try:
                connection = await self._connect()
                await self._ship_all(connection)
            except Exception as error:  # noqa: BLE001 - root of the task; asyncpg leaks its inner errors
                self.progress.connected = False
                self.progress.last_error = describe_failure(error)
                log.warning("audit_shipping_interrupted", error=self.progress.last_error, pause_s=pause)
            finally:
                self.progress.connected = False
                if connection is not None:
                    connection.terminate()
            if self.position != before:
                pause = self.limits.first_pause_s
            await asyncio.sleep(pause)
            pause = min(2 * pause, self.limits.longest_pause_s)

    async def wait_until_caught_up(self) -> None:
        """Return at a moment when PostgreSQL has everything that is durable; from now on nothing lingers."""
        self._hurried.set()
        while bytes_behind(self.spool.segments, self.position):
            self._caught_up.clear()
            await self._caught_up.wait()

    async def finish(self, *, clean: bool) -> None:
        """Remove what has been shipped after the spool was closed. `clean` lets the next start believe
        that nothing is open. Call it when `run` has ended and no statement is open."""
        for segment in list_shipped_segments(self.spool.segments, self.position):
            try:
                await asyncio.to_thread(remove, segment)
            except OSError as error:
                log.warning("audit_segment_kept", path=str(segment.path), error=str(error))
                return
            self.spool.forget(segment)
        await asyncio.to_thread(
            write_checkpoint, self.spool.directory, self.position, self.chains, clean=clean
        )

    async def _connect(self) -> Any:
        connection = await open_connection(
            self.dsn,
            "sluice-audit",
            connect_s=self.limits.connect_timeout_s,
            command_s=self.limits.command_timeout_s,
        )
        try:
            await migrate(connection)
            self._days.clear()
            await connection.execute(
                "CREATE TEMPORARY TABLE arrivals (LIKE sluice.audit_event INCLUDING DEFAULTS)"
                " ON COMMIT DELETE ROWS"
            )
        except BaseException:
            connection.terminate()
            raise
        self.progress.connected = True
        self.progress.last_error = ""
        log.info("audit_database_connected")
        return connection

    async def _ship_all(self, connection: Any) -> None:
        while True:
            self.spool.grown.clear()
            stretch = await asyncio.to_thread(
                read_stretch,
                self.spool.segments,
                self.position,
                max_bytes=self.limits.batch_bytes,
                max_entries=self.limits.batch_entries,
            )
            if stretch is None:
                await self._remove_done()
                await self._prepare(connection, set())
                await self.on_caught_up(connection)
                self._caught_up.set()
                await self.spool.grown.wait()
                continue
            entries = [entry for entry in stretch.entries if entry.mark in SHIPPED]
            if entries:
                rows = await asyncio.to_thread(_rows, entries)
                await self._insert(connection, entries, rows)
            self.position = stretch.position
            await asyncio.to_thread(write_checkpoint, self.spool.directory, self.position, self.chains)
            self.progress.shipped_events += len(entries)
            self.spool.note_shipped(stretch.passed)
            await self._remove_done()
            if bytes_behind(self.spool.segments, self.position) < self.limits.linger_bytes:
                await self._linger(is_busy=len(entries) >= self.limits.busy_entries)

    async def _linger(self, *, is_busy: bool) -> None:
        """Let a batch gather, unless somebody waits for its end."""
        limits = self.limits
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(limits.linger_s, limits.busy_linger_s if is_busy else 0.0)):
                await self._hurried.wait()

    async def _insert(self, connection: Any, entries: Sequence[Entry], rows: Sequence[EventRow]) -> None:
        """Insert rows; of those that are refused, each alone, what is certain to be taken."""
        try:
            await self._insert_once(connection, rows)
        except asyncpg.CheckViolationError:
            # Someone dropped a partition that we had seen.
            self._days.clear()
            await self._insert_once(connection, rows)
        except _REFUSALS as error:
            if len(rows) == 1:
                log.error("audit_record_unfit", error=describe_failure(error))
                self.progress.unfit_events += 1
                await self._insert_once(
                    connection, [build_unfit_row(entries[0], f"{type(error).__name__}: {error}")]
                )
                return
            half = len(rows) // 2
            await self._insert(connection, entries[:half], rows[:half])
            await self._insert(connection, entries[half:], rows[half:])

    async def _insert_once(self, connection: Any, rows: Sequence[EventRow]) -> None:
        await self._prepare(connection, {values[_TIME].astimezone(UTC).date() for values in rows})
        async with connection.transaction():
            fresh = await _fresh(connection, rows)
            heads = await self._heads(connection, {values[_GATEWAY] for values in fresh})
            for gateway, there in heads.items():
                reached = self.chains.get(gateway, start(gateway))
                if there.position > reached.position:
                    sent = await asyncio.to_thread(_list_sent, rows, gateway, reached, there)
                    fresh = [values for values in fresh if values[_ID] not in sent]
            linked = await asyncio.to_thread(_link_rows, fresh, heads)
            await connection.copy_records_to_table("arrivals", records=linked, columns=(*COLUMNS, *LINKED))
            await connection.execute(_INSERT)
            await connection.execute(_QUEUE)
            await connection.execute(NOTE_USE)
            await connection.execute(
                _ENDED, [values[_STATEMENT] for values in rows if values[_KIND] in _ENDS]
            )
            await connection.execute(
                _NEW_HEADS,
                list(heads),
                [head.position for head in heads.values()],
                [head.link for head in heads.values()],
            )
        self.chains |= heads

    async def _heads(self, connection: Any, gateways: Set[str]) -> dict[str, Head]:
        """Lock the chains of gateways, which are begun where there are none, and return their heads.

        Where the database knows of less than was once committed there, somebody has taken events away, or has
        put an old copy in its place: the chain goes on from what was committed, so that this is never unseen.
        """
        rows = await connection.fetch(_HEADS, sorted(gateways))
        if new := sorted(gateways - {row["gateway"] for row in rows}):
            begun = [start(gateway) for gateway in new]
            await connection.executemany(
                _BEGUN, [(name, head.position, head.link) for name, head in zip(new, begun, strict=True)]
            )
            rows = await connection.fetch(_HEADS, sorted(gateways))
        found = {row["gateway"]: Head(row["chain_position"], bytes(row["link"])) for row in rows}
        heads: dict[str, Head] = {}
        for gateway in sorted(gateways):
            there, ours = found[gateway], self.chains.get(gateway)
            if ours is not None and (
                there.position < ours.position
                or (there.position == ours.position and there.link != ours.link)
            ):
                self.progress.chain_error = (
                    f"the audit database has {there.position} events of `{gateway}` instead of "
                    f"{ours.position}, or different ones"
                )
                log.error("audit_chain_cut", gateway=gateway, has=there.position, had=ours.position)
                there = ours
            heads[gateway] = there
        return heads

    async def _prepare(self, connection: Any, days: set[date]) -> None:
        missing = (days | days_ahead(datetime.now(UTC))) - self._days
        if missing:
            await make_partitions(connection, missing)
            self._days |= missing

    async def _remove_done(self) -> None:
        for segment in list_shipped_segments(self.spool.segments, self.position):
            try:
                await self.release(segment)
                await asyncio.to_thread(remove, segment)
            except (LedgerUnavailable, OSError) as error:
                # It stays until the disk is well again; the others go and make room for that.
                if segment.number not in self._kept:
                    log.warning("audit_segment_kept", path=str(segment.path), error=str(error))
                self._kept.add(segment.number)
                continue
            self.spool.forget(segment)


def _rows(entries: Sequence[Entry]) -> list[EventRow]:
    return [row(entry) for entry in entries]


async def _fresh(connection: Any, rows: Sequence[EventRow]) -> list[EventRow]:
    """Return the rows that are not in the database, each once, in order; no second end of a statement."""
    known = await connection.fetch(
        _KNOWN, [values[_ID] for values in rows], [values[_TIME] for values in rows]
    )
    there = {(row["event_id"], row["time"]) for row in known}
    ended = {values[_STATEMENT] for values in rows if values[_KIND] == "completed"}
    given_up = [values[_STATEMENT] for values in rows if values[_KIND] == "abandoned"]
    if given_up:
        ended |= {row["statement_id"] for row in await connection.fetch(_COMPLETED, given_up)}
    fresh = []
    for values in rows:
        key = values[_ID], values[_TIME]
        if key not in there and not (values[_KIND] == "abandoned" and values[_STATEMENT] in ended):
            there.add(key)
            fresh.append(values)
    return fresh


def _list_sent(rows: Sequence[EventRow], gateway: str, reached: Head, there: Head) -> set[Any]:
    """Return the ids of the rows that lead a gateway's chain from one end to the other: they are in it, also
    where their day has gone to the archive since. None where the rows lead elsewhere."""
    found = set[Any]()
    for values in rows:
        if values[_GATEWAY] == gateway and reached.position < there.position:
            found.add(values[_ID])
            reached = _next(reached, values)
    return found if reached == there else set()


def _next(head: Head, values: EventRow) -> Head:
    return head.next(digest(dict(zip(COLUMNS, values, strict=True)) | {"body": orjson.loads(values[_BODY])}))


def _link_rows(rows: Sequence[EventRow], heads: dict[str, Head]) -> list[EventRow]:
    """Return rows with their places in their gateways' chains; `heads` moves on."""
    linked = []
    for values in rows:
        head = heads[values[_GATEWAY]] = _next(heads[values[_GATEWAY]], values)
        linked.append((*values, head.position, head.link))
    return linked


def describe_failure(error: Exception) -> str:
    """Name an error without its text where that may quote a record: logs hold no statement."""
    name = type(error).__name__
    if isinstance(error, asyncpg.PostgresError):
        return f"{name} {error.sqlstate or ''}".strip()
    if isinstance(error, OSError | LedgerUnavailable | Faults):
        return f"{name}: {error}".removesuffix(": ")
    return name


def days_ahead(now: datetime) -> set[date]:
    """Return today and the two days to come: their partitions exist before midnight needs them."""
    return {now.astimezone(UTC).date() + timedelta(days=n) for n in range(3)}


async def make_partitions(connection: Any, days: Iterable[date]) -> None:
    """Make the days' partitions where they are missing, in a transaction of its own."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        for day in sorted(days):
            name = f"audit_event_{day:%Y%m%d}"
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS sluice.{name} PARTITION OF sluice.audit_event"
                f" FOR VALUES FROM ('{day.isoformat()} 00:00:00+00')"
                f" TO ('{(day + timedelta(days=1)).isoformat()} 00:00:00+00')"
            )
