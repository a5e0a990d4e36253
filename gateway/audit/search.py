"""The auditor's questions see every event at once: what PostgreSQL has, and what is still in this spool.

The spool is read without its lock, beside a running gateway. Events that were written and are not yet
acknowledged may show; they are the last to appear anywhere.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg

from gateway.audit.backlog import list_spools, read_checkpoint
from gateway.audit.rows import COLUMNS, decode_event, event_of
from gateway.audit.segment import FILE_HEADER, SHIPPED, scan
from gateway.database.asking import asking, connect
from gateway.errors import Faults
from gateway.model.audit import AuditEvent

ANSWER_S = 60.0
"""How long PostgreSQL may take for each answer."""
_ENDS = ("completed", "abandoned")
_LIST = ", ".join(COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Conditions of a search; those that are None hold for every event."""

    user: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    table: str | None = None
    """A dotted name from its end: `employee`, `hr.employee`, `spark_catalog.hr.employee.salary`. Case does
    not matter."""
    verdict: str | None = None
    """`cleared`, `refused`; for logins `accepted`, `rejected`."""
    text: str | None = None
    """A part of the original text; case does not matter."""
    statement_id: str | None = None
    """Statement id, which a refusal asks its user to quote; the event's own id serves as well."""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Found:
    """An event that begins something, and for a statement how it ended when that is known."""

    event: AuditEvent
    end: AuditEvent | None = None


async def search(dsn: str | None, question: EventQuery, *, spool: Path | None = None) -> list[Found]:
    """Return what matches, newest first.

    Raises LedgerUnavailable when the database does not answer, Faults when the statement id is none.
    """
    if question.statement_id is not None:
        try:
            question = replace(question, statement_id=str(uuid.UUID(question.statement_id)))
        except ValueError:
            raise Faults([f"`{question.statement_id}` is not a statement id"]) from None
    begun: dict[str, AuditEvent] = {}
    ended: dict[str, AuditEvent] = {}
    # The spool first: what is shipped in between is then found in the database.
    for event in await asyncio.to_thread(_SpoolView(spool).new_events) if spool is not None else ():
        if event.kind in _ENDS:
            ended[event.statement_id] = event
        elif _matches(event, question):
            begun[event.event_id] = event
    if dsn is not None:
        query, arguments = _query(question)
        connection = await _connect(dsn)
        try:
            begun |= {event.event_id: event for event in await _fetch(connection, query, *arguments)}
            missing = [
                e.statement_id for e in begun.values() if e.statement_id and e.statement_id not in ended
            ]
            ends = await _fetch(
                connection,
                f"SELECT {_LIST} FROM sluice.audit_event"
                " WHERE statement_id = ANY($1::uuid[]) AND kind IN ('completed', 'abandoned')",
                missing,
            )
            ended |= {event.statement_id: event for event in ends}
        finally:
            await connection.close()
    newest = sorted(begun.values(), key=lambda e: (e.time, e.event_id), reverse=True)[: question.limit]
    return [Found(event, ended.get(event.statement_id) if event.statement_id else None) for event in newest]


async def tail(
    dsn: str | None, *, spool: Path | None = None, count: int = 20, follow: bool = False, poll_s: float = 0.5
) -> AsyncGenerator[AuditEvent, None]:
    """Yield the newest `count` events, oldest first, and then, when following, each event as it comes."""
    seen = _Seen()
    view = _SpoolView(spool) if spool is not None else None
    connection = await _connect(dsn) if dsn is not None else None
    try:
        first = True
        while True:
            events = await asyncio.to_thread(view.new_events) if view is not None else []
            if connection is not None and first:
                events += await _fetch(
                    connection, f"SELECT {_LIST} FROM sluice.audit_event ORDER BY time DESC LIMIT $1", count
                )
            elif connection is not None:
                # The clock of the database, and a little more than the longest transaction of a shipper.
                events += await _fetch(
                    connection,
                    f"SELECT {_LIST} FROM sluice.audit_event WHERE stored_at > now() - interval '15 seconds'",
                )
            fresh = {event.event_id: event for event in events if seen.first_time(event.event_id)}
            in_order = sorted(fresh.values(), key=lambda event: (event.time, event.event_id))
            for event in in_order[-count:] if first else in_order:
                yield event
            if not follow:
                return
            first = False
            await asyncio.sleep(poll_s)
    finally:
        if connection is not None:
            await connection.close()


@dataclass(slots=True)
class _Seen:
    """Ids of the last minutes; an event shows once although it is met in the spool and in the database."""

    ids: dict[str, float] = field(default_factory=dict)
    keep_s: float = 600.0

    def first_time(self, event_id: str) -> bool:
        now = time.monotonic()
        while self.ids:
            oldest = next(iter(self.ids))
            if self.ids[oldest] > now - self.keep_s:
                break
            del self.ids[oldest]
        known = event_id in self.ids
        self.ids.setdefault(event_id, now)
        return not known


@dataclass(slots=True)
class _SpoolView:
    """Reads the spools that a gateway and its workers write, each entry once."""

    directory: Path
    _reached: dict[Path, int] = field(default_factory=dict)

    def new_events(self) -> list[AuditEvent]:
        """Return events that were not returned before and are not known to be in the database."""
        return [event for spool in list_spools(self.directory) for event in self._read(spool)]

    def _read(self, spool: Path) -> list[AuditEvent]:
        position = read_checkpoint(spool).position
        found: list[AuditEvent] = []
        for path in sorted(spool.glob("*.spool")):
            number = int(path.stem) if path.stem.isdecimal() else -1
            if number < position.segment:
                continue
            shipped = position.offset if number == position.segment else len(FILE_HEADER)
            start = max(self._reached.get(path, 0), shipped)
            try:
                with path.open("rb") as file:
                    file.seek(start)
                    entries = scan(file.read(), start).entries
            except FileNotFoundError:
                continue  # shipped and removed meanwhile
            if entries:
                self._reached[path] = entries[-1].end
            for entry in entries:
                if entry.mark in SHIPPED:
                    try:
                        found.append(decode_event(entry.payload))
                    except (ValueError, KeyError, TypeError):
                        continue  # the database shows it as unfit later
        return found


async def _connect(dsn: str) -> Any:
    return await connect(dsn, "sluice-search", command_s=ANSWER_S)


async def _fetch(connection: Any, query: str, *arguments: object) -> list[AuditEvent]:
    with asking(within_s=ANSWER_S):
        try:
            rows = await connection.fetch(query, *arguments)
        except asyncpg.UndefinedTableError:
            return []  # no gateway has shipped anything yet
    return [event_of(row) for row in rows]


def _query(question: EventQuery) -> tuple[str, list[object]]:
    """Build the query; what is asked for is bound, never written into the text."""
    conditions = ["kind NOT IN ('completed', 'abandoned')"]
    arguments: list[object] = []

    def bind(condition: str, value: object) -> None:
        if value is not None:
            arguments.append(value)
            conditions.append(condition.replace("?", f"${len(arguments)}"))

    bind("user_name = ?", question.user)
    bind("time >= ?", question.since)
    bind("time < ?", question.until)
    bind("verdict = ?", question.verdict)
    bind("position(lower(?) in lower(statement)) > 0", question.text)
    bind("(statement_id = ?::text::uuid OR event_id = ?::text::uuid)", question.statement_id)
    bind(
        "EXISTS (SELECT FROM unnest(resources) r WHERE right('.' || lower(r), length(?)) = ?)",
        None if question.table is None else "." + question.table.lower(),
    )
    arguments.append(question.limit)
    where = " AND ".join(conditions)
    query = f"SELECT {_LIST} FROM sluice.audit_event WHERE {where} ORDER BY time DESC LIMIT ${len(arguments)}"
    return query, arguments


def _matches(event: AuditEvent, question: EventQuery) -> bool:
    """The same conditions for an event of the spool."""
    body: Mapping[str, Any] = event.body
    at = datetime.fromisoformat(event.time).astimezone(UTC)
    ending = "." + question.table.lower() if question.table is not None else ""
    return (
        question.user in (None, event.user)
        and (question.since is None or at >= question.since)
        and (question.until is None or at < question.until)
        and question.verdict in (None, body.get("verdict"))
        and (question.text is None or question.text.lower() in str(body.get("reqData", "")).lower())
        and question.statement_id in (None, event.statement_id, event.event_id)
        and (
            question.table is None
            or any(("." + str(name).lower()).endswith(ending) for name in body.get("resources", ()))
        )
    )


_DAY_MS = 86_400_000
_LAST_MS = 250_000_000_000_000
"""Of the year 9892: later times have no date."""


async def find_event(
    connection: Any, event_id: uuid.UUID, *, spool: Path | None = None
) -> tuple[Found | None, list[AuditEvent]]:
    """Return the event with an id, or the decision on the statement with it, and what else the record has of
    that statement. Raises asyncpg's errors, OSError, TimeoutError."""
    events: dict[str, AuditEvent] = {}
    if spool is not None:
        asked = str(event_id)
        for event in await asyncio.to_thread(_SpoolView(spool).new_events):
            if asked in (event.statement_id, event.event_id):
                events[event.event_id] = event
    # Ids tell their time: only the partitions of these days are looked at. A statement may end days later.
    since = until = None
    at_ms = event_id.int >> 80
    if event_id.version == 7 and at_ms < _LAST_MS:
        since, until = (datetime.fromtimestamp((at_ms + off) / 1000, UTC) for off in (-_DAY_MS, 31 * _DAY_MS))
    rows = await connection.fetch(
        f"SELECT {_LIST} FROM sluice.audit_event WHERE (statement_id = $1 OR event_id = $1)"
        " AND ($2::timestamptz IS NULL OR time >= $2) AND ($3::timestamptz IS NULL OR time < $3) LIMIT 20",
        *(event_id, since, until),
    )
    events |= {event.event_id: event for event in map(event_of, rows)}
    ordered = sorted(events.values(), key=lambda one: (one.kind in _ENDS, one.time))
    if not ordered:
        return None, []
    begun, *others = ordered
    end = next((one for one in others if one.kind in _ENDS), None)
    return Found(begun, end), others
