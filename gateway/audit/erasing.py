"""Erases the texts of one person's statements from the record: what was decided stays, and the chain holds.

A digest stands for each value that goes, so that the links over it can still be made.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import asyncpg
import orjson

from gateway.audit.chain import ERASED_COLUMNS, ERASED_KEYS, digest_of
from gateway.errors import LedgerUnavailable

KINDS = ("decided", "completed", "abandoned")
BATCH = 500

_FIND = f"""
SELECT event_id, time, {", ".join(ERASED_COLUMNS)}, body, erased FROM sluice.audit_event
WHERE user_name = $1 AND kind = ANY ($4::text[]) AND time < $2
  AND (num_nonnulls({", ".join(ERASED_COLUMNS)}) > 0 OR body ?| $3::text[])
ORDER BY time LIMIT {BATCH} FOR UPDATE"""
_ERASE = f"""
UPDATE sluice.audit_event e
SET {", ".join(f"{name} = NULL" for name in ERASED_COLUMNS)},
    body = e.body - $4::text[], erased = n.erased::jsonb
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[]) AS n (event_id, time, erased)
WHERE e.event_id = n.event_id AND e.time = n.time"""


async def erase(connection: Any, user: str, *, until: datetime, by: str, reason: str) -> int:
    """Erase the texts of a user's statements before `until`; return of how many events.

    Who did it, when and why stands in `sluice.audit_erasure`. What a gateway has not shipped yet stays.
    Raises LedgerUnavailable when the database does not answer; what was erased by then is.
    """
    erased = 0
    try:
        while True:
            async with connection.transaction():
                await connection.execute("SET LOCAL sluice.erasing = 'on'")
                rows = await connection.fetch(_FIND, user, until, list(ERASED_KEYS), list(KINDS))
                if not rows and erased:
                    return erased
                await connection.execute(
                    _ERASE,
                    [row["event_id"] for row in rows],
                    [row["time"] for row in rows],
                    [orjson.dumps(_digests(row)).decode() for row in rows],
                    list(ERASED_KEYS),
                )
                await connection.execute(
                    "INSERT INTO sluice.audit_erasure (by_user, user_name, until, reason, events)"
                    " VALUES ($1, $2, $3, $4, $5)",
                    by,
                    user,
                    until,
                    reason,
                    len(rows),
                )
            erased += len(rows)
            if not rows:
                return erased
    except asyncpg.UndefinedTableError:
        raise LedgerUnavailable("no gateway of this version has used the audit database") from None
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        raise LedgerUnavailable(f"the audit database does not answer: {error}") from error


def without_texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the archive as it is after erasing; its digest is what it was."""
    body = orjson.loads(row["body"])
    if not isinstance(body, dict):
        return dict(row)
    return {
        **row,
        **dict.fromkeys(ERASED_COLUMNS),
        "body": orjson.dumps({key: value for key, value in body.items() if key not in ERASED_KEYS}).decode(),
        "erased": orjson.dumps(_digests(row)).decode(),
    }


def _digests(row: Any) -> dict[str, str]:
    """Return the digests of all that is erased of an event, now and before."""
    body = orjson.loads(row["body"])
    digests: dict[str, str] = orjson.loads(row["erased"]) if row["erased"] is not None else {}
    digests |= {name: digest_of(row[name]) for name in ERASED_COLUMNS if row[name] is not None}
    digests |= {f"body.{key}": digest_of(body[key]) for key in ERASED_KEYS if key in body}
    return digests
