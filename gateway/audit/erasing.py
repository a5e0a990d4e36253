"""Erases the texts of one person's statements from the record: what was decided stays, and the chain holds.

A digest stands for each value that goes, so that the links over it can still be made. What was erased is
signed with the key of seals, where there is one: texts that are gone without it were taken by somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.audit.chain import ERASED_COLUMNS, ERASED_KEYS, canonical, digest_of
from gateway.audit.rows import select_time
from gateway.database.asking import asking

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


_SIGNED = b"sluice erasure 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Somebody erased texts of a user's statements before a time."""

    number: int
    user: str
    until: datetime | None
    """Not beyond the erasure itself; None where its row has no time that is one."""
    counts: bool
    """Whether it is signed with one of the keys, or there is none."""


class Erasures(dict[str, datetime]):
    """User → the time until which an authorized person erased texts."""

    def __init__(self, erasures: Iterable[Erasure] = ()) -> None:
        super().__init__()
        for one in erasures:
            if one.counts and one.until is not None:
                self[one.user] = max(one.until, self.get(one.user, one.until))

    def cover(self, event: Mapping[str, Any]) -> bool:
        """Whether the texts of an event, by its row, may be gone."""
        until = self.get(event["user_name"])
        time = event["time"]
        return until is not None and time is not None and time < until and event["kind"] in KINDS


async def read_erasures(
    connection: Any, keys: Sequence[Ed25519PublicKey], *, behind: int = 0
) -> list[Erasure]:
    """Return the erasures behind a number; without keys, all of them count."""
    found = []
    for row in await connection.fetch(_READ, behind):
        timely = row["time"] is not None and row["until"] is not None
        found.append(
            Erasure(
                number=row["id"],
                user=row["user_name"],
                until=min(row["until"], row["time"]) if timely else None,
                counts=timely and (not keys or any(_is_by(row, key) for key in keys)),
            )
        )
    return found


_READ = f"""
SELECT id, by_user, user_name, reason, events, signature,
       {select_time("time")} AS time, {select_time("until")} AS until
FROM sluice.audit_erasure WHERE id > $1 ORDER BY id"""
_TURN = 0x736C756963652045
"""Key of the advisory lock under which is erased (`sluice E` in ASCII), so that numbers are in the order of
their transactions."""


def _is_by(row: Mapping[str, Any], key: Ed25519PublicKey) -> bool:
    try:
        key.verify(bytes.fromhex(row["signature"] or ""), _build_signed_text(row))
    except (InvalidSignature, ValueError, OverflowError):
        return False
    return True


def _build_signed_text(row: Mapping[str, Any]) -> bytes:
    """Return what is signed of a row of `sluice.audit_erasure`."""
    times = {name: row[name].astimezone(UTC).isoformat(timespec="microseconds") for name in ("time", "until")}
    return _SIGNED + canonical(
        {name: row[name] for name in ("by_user", "user_name", "reason", "events")} | times
    )


async def erase(
    connection: Any, user: str, *, until: datetime, by: str, reason: str, key: Ed25519PrivateKey | None
) -> int:
    """Erase the texts of a user's statements before `until`; return of how many events.

    Who did it, when and why stands in `sluice.audit_erasure`, signed with the key. What a gateway has not
    shipped yet stays. Raises LedgerUnavailable when the database does not answer; what was erased by then is.
    """
    erased = 0
    with asking():
        while True:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _TURN)
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
                erasure = {
                    "time": datetime.now(UTC),
                    "by_user": by,
                    "user_name": user,
                    "until": until,
                    "reason": reason,
                    "events": len(rows),
                }
                signature = key.sign(_build_signed_text(erasure)).hex() if key is not None else None
                await connection.execute(
                    f"INSERT INTO sluice.audit_erasure ({', '.join(erasure)}, signature)"
                    " VALUES ($1, $2, $3, $4, $5, $6, $7)",
                    *erasure.values(),
                    signature,
                )
            erased += len(rows)
            if not rows:
                return erased


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
