"""After a crash every cleared statement whose end nobody recorded gets exactly one `abandoned` event.

The spool alone is enough to know them: before a segment with the decision of a running statement is
removed, the ledger writes an OPEN entry for it. Two more nets hang below, for disks that lost something: the
database is asked for open statements of this gateway after an unclean end, and an `abandoned` event is not
inserted where a `completed` one stands.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from gateway.audit.rows import decode_event
from gateway.audit.segment import Entry, Mark
from gateway.model.audit import AuditEvent

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
